# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""LaProp (Ziyin et al. 2020), as Z-T-WANG/LaProp-Optimizer at 9373f137, whose weight decay is not times
lr. The averages of lr and 1 are its clock."""

from ..rules import rule
from ..symbols import sqrt, where


@rule(states=dict(exp_avg="signed", exp_avg_sq="positive"), clock=dict(exp_avg_lr_1=0.0, exp_avg_lr_2=0.0),
      scalars=dict(lr=4e-4, betas=(0.9, 0.999), eps=1e-15, weight_decay=0.0))
def laprop(p, g, exp_avg, exp_avg_sq, exp_avg_lr_1, exp_avg_lr_2, lr, betas, eps, weight_decay):
    rate = betas[0] * exp_avg_lr_1 + (1 - betas[0]) * lr
    one = betas[1] * exp_avg_lr_2 + (1 - betas[1])
    step = where(lr == 0, 1.0, lr / rate)
    v = betas[1] * exp_avg_sq + (1 - betas[1]) * (g * g)
    m = betas[0] * exp_avg + (1 - betas[0]) * lr * (g / (sqrt(v / one) + eps))
    p = p - step * m
    return p - weight_decay * p, m, v, rate, one

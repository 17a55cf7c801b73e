# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""RAdam (Liu et al. 2020), as torch 2.11's; decoupled_weight_decay is an option."""

from ..rules import rule
from ..symbols import maximum, sqrt, where


@rule(states=dict(exp_avg="signed", exp_avg_sq="positive"), options=dict(decoupled_weight_decay=False),
      scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0))
def radam(p, g, exp_avg, exp_avg_sq, t, lr, betas, eps, weight_decay, decoupled_weight_decay):
    if decoupled_weight_decay:
        p = p - lr * weight_decay * p
    else:
        g = g + weight_decay * p
    m = exp_avg + (1 - betas[0]) * (g - exp_avg)
    v = betas[1] * exp_avg_sq + (1 - betas[1]) * (g * g)
    power = betas[1] ** t
    most = 2 / (1 - betas[1]) - 1
    length = most - 2 * t * power / (1 - power)
    known = maximum((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length), 0.0)
    rate = lr / (1 - betas[0] ** t)
    adapted = rate * sqrt(known) * sqrt(1 - power) * (m / (sqrt(v) + eps))
    return p - where(length > 5, adapted, rate * m), m, v

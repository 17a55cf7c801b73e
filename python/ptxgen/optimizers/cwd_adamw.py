# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""AdamW with cautious weight decay (Chen et al. 2025, arXiv 2510.12402v1, algorithm 1): only where it and the step
agree."""

from ..rules import rule
from ..symbols import sign, sqrt, where


@rule(states=dict(exp_avg="signed", exp_avg_sq="positive"),
      scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0))
def cwd_adamw(p, g, exp_avg, exp_avg_sq, t, lr, betas, eps, weight_decay):
    m = exp_avg + (1 - betas[0]) * (g - exp_avg)
    v = betas[1] * exp_avg_sq + (1 - betas[1]) * (g * g)
    u = (m / (1 - betas[0] ** t)) / (sqrt(v / (1 - betas[1] ** t)) + eps)
    decay = where(sign(u) * sign(p) >= 0, weight_decay * p, 0)
    return p - lr * (u + decay), m, v

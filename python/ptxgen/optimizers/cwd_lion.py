# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""Lion with cautious weight decay (Chen et al. 2025, arXiv 2510.12402v1, algorithm 1): only where it and the step
agree."""

from ..rules import State, rule
from ..symbols import sign, where


@rule(states=dict(exp_avg=State("signed", stochastic=True)),
      scalars=dict(lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0))
def cwd_lion(p, g, exp_avg, lr, betas, weight_decay):
    u = sign(betas[0] * exp_avg + (1 - betas[0]) * g)
    decay = where(u * sign(p) >= 0, weight_decay * p, 0)
    return p - lr * (u + decay), betas[1] * exp_avg + (1 - betas[1]) * g

# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""AdEMAMix (Pagliardini et al. 2024), as apple/ml-ademamix at e7327151, without the schedules of alpha and
beta3: set both in the groups."""

from ..rules import rule
from ..symbols import sqrt


@rule(states=dict(exp_avg_fast="signed", exp_avg_slow="weight", exp_avg_sq="positive"),
      scalars=dict(lr=1e-3, betas=(0.9, 0.999, 0.9999), alpha=2.0, eps=1e-8, weight_decay=0.0))
def ademamix(p, g, exp_avg_fast, exp_avg_slow, exp_avg_sq, t, lr, betas, alpha, eps, weight_decay):
    fast = betas[0] * exp_avg_fast + (1 - betas[0]) * g
    slow = betas[2] * exp_avg_slow + (1 - betas[2]) * g
    v = betas[1] * exp_avg_sq + (1 - betas[1]) * (g * g)
    u = (fast / (1 - betas[0] ** t) + alpha * slow) / (sqrt(v) / sqrt(1 - betas[1] ** t) + eps)
    return p - lr * (u + weight_decay * p), fast, slow, v

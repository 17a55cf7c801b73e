# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""ADOPT (Taniguchi et al. 2024, arXiv 2411.02853), as iShohei220/adopt at 6468572b with decouple=True: clipped at
t^(1/4). The first gradient only begins the average of squares."""

from ..rules import rule
from ..symbols import maximum, minimum, sqrt, where


@rule(states=dict(exp_avg="signed", exp_avg_sq="positive"),
      scalars=dict(lr=1e-3, betas=(0.9, 0.9999), eps=1e-6, weight_decay=0.0))
def adopt(p, g, exp_avg, exp_avg_sq, t, lr, betas, eps, weight_decay):
    limit = sqrt(sqrt(t - 1))
    u = minimum(maximum(g / maximum(sqrt(exp_avg_sq), eps), -limit), limit)
    m = betas[0] * exp_avg + (1 - betas[0]) * u
    v = betas[1] * exp_avg_sq + (1 - betas[1]) * (g * g)
    first = t == 1
    return (where(first, p, p - lr * (m + weight_decay * p)), where(first, exp_avg, m), where(first, g * g, v))

# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""LAMB (You et al. 2019, arXiv 1904.00962), as tensorflow/addons at 00beec06: with the averages' bias
corrected, and a step of each tensor as long as the tensor."""

from ..rules import rule
from ..symbols import sqrt, where


def _terms(p, u):
    return p * p, u[0] * u[0]


def _apply(p, u, sums, lr):
    step, m, v = u
    known = (sums[0] > 0) & (sums[1] > 0)
    return p - lr * where(known, sqrt(sums[0]) / sqrt(sums[1]), 1.0) * step, m, v


@rule(states=dict(exp_avg="signed", exp_avg_sq="positive"), reduce=_terms, apply=_apply,
      scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0))
def lamb(p, g, exp_avg, exp_avg_sq, t, betas, eps, weight_decay):
    m = betas[0] * exp_avg + (1 - betas[0]) * g
    v = betas[1] * exp_avg_sq + (1 - betas[1]) * (g * g)
    return m / (1 - betas[0] ** t) / (sqrt(v / (1 - betas[1] ** t)) + eps) + weight_decay * p, m, v

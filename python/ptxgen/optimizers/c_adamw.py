# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""Cautious AdamW (Liang et al. 2024, arXiv 2411.16085), as kyleliang919/C-Optim at 2c0517cd: elements whose
average and gradient have other signs stay, and the others' step is longer for it."""

from ..rules import rule
from ..symbols import maximum, sqrt, where


def _terms(u):
    return u[0], 1.0


def _apply(p, u, sums, lr, weight_decay):
    mask, step, m, v = u
    return p - lr * weight_decay * p - 1 / maximum(sums[0] / sums[1], 1e-3) * (mask * step), m, v


@rule(states=dict(exp_avg="signed", exp_avg_sq="positive"), reduce=_terms, apply=_apply,
      scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0))
def c_adamw(g, exp_avg, exp_avg_sq, t, lr, betas, eps):
    m = betas[0] * exp_avg + (1 - betas[0]) * g
    v = betas[1] * exp_avg_sq + (1 - betas[1]) * (g * g)
    rate = lr * sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)
    return where(m * g > 0, 1.0, 0.0), rate * (m / (sqrt(v) + eps)), m, v

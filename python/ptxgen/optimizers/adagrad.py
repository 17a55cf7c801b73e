# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""Adagrad (Duchi et al. 2011), as torch 2.11's, whose sum begins at 0."""

from ..rules import Scalar, rule
from ..symbols import sqrt


@rule(states=dict(sum="positive"),
      scalars=dict(lr=1e-2, lr_decay=Scalar(0.0, "at_least_0"), weight_decay=0.0, eps=1e-10))
def adagrad(p, g, sum, t, lr, lr_decay, weight_decay, eps):
    g = g + weight_decay * p
    sum = sum + g * g
    return p - lr / (1 + (t - 1) * lr_decay) * (g / (sqrt(sum) + eps)), sum

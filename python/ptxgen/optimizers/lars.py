# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""LARS (You et al. 2017, arXiv 1708.03888), as google-research/simclr at 036ea7ba: the rate is in the momentum.
nesterov is an option."""

from ..rules import Scalar, State, rule
from ..symbols import sqrt, where


def _terms(p, u):
    return p * p, u * u


def _apply(p, u, sums, momentum_buffer, lr, momentum, eeta, nesterov):
    known = (sums[0] > 0) & (sums[1] > 0)
    step = lr * where(known, eeta * sqrt(sums[0]) / sqrt(sums[1]), 1.0) * u
    m = momentum * momentum_buffer + step
    return p - (momentum * m + step if nesterov else m), m


@rule(states=dict(momentum_buffer=State("signed", stochastic=True)), reduce=_terms, apply=_apply,
      options=dict(nesterov=False),
      scalars=dict(lr=0.1, momentum=0.9, weight_decay=0.0, eeta=Scalar(1e-3, "at_least_0")))
def lars(p, g, weight_decay):
    return g + weight_decay * p

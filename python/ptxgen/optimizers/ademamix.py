# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""AdEMAMix (Pagliardini et al. 2024), as apple/ml-ademamix at e7327151: ademamix without schedules, ademamix_warmup with
them. alpha_warmup and beta3_warmup are the steps in which alpha grows from 0, and the slow average's half-life from
the fast one's; 0: none."""

import math

from ..rules import Scalar, rule
from ..symbols import log, pow, sqrt, where

_STATES = dict(exp_avg_fast="signed", exp_avg_slow="weight", exp_avg_sq="positive")
_SCALARS = dict(lr=1e-3, betas=(0.9, 0.999, 0.9999), alpha=2.0, eps=1e-8, weight_decay=0.0)
_STEPS = Scalar(0.0, "at_least_0")


def _step(p, g, m, slow, v, t, lr, betas, beta3, alpha, eps, weight_decay):
    fast = betas[0] * m + (1 - betas[0]) * g
    slow = beta3 * slow + (1 - beta3) * g
    v = betas[1] * v + (1 - betas[1]) * (g * g)
    u = (fast / (1 - betas[0] ** t) + alpha * slow) / (sqrt(v) / sqrt(1 - betas[1] ** t) + eps)
    return p - lr * (u + weight_decay * p), fast, slow, v


def _life(beta):
    """The half-life of an average, less one step."""
    return math.log(0.5) / log(beta + 1e-8) - 1


def _slow_beta(t, first, last, warmup):
    part = t / warmup
    life = (1 - part) * _life(first) + part * _life(last)
    return where(t < warmup, pow(0.5, 1 / (life + 1)), last)


@rule(states=_STATES, scalars=_SCALARS)
def ademamix(p, g, exp_avg_fast, exp_avg_slow, exp_avg_sq, t, lr, betas, alpha, eps, weight_decay):
    return _step(p, g, exp_avg_fast, exp_avg_slow, exp_avg_sq, t, lr, betas, betas[2], alpha, eps, weight_decay)


@rule(states=_STATES, scalars=dict(**_SCALARS, beta3_warmup=_STEPS, alpha_warmup=_STEPS))
def ademamix_warmup(p, g, exp_avg_fast, exp_avg_slow, exp_avg_sq, t, lr, betas, alpha, eps, weight_decay, beta3_warmup,
                    alpha_warmup):
    alpha = where(t < alpha_warmup, t / alpha_warmup * alpha, alpha)
    beta3 = _slow_beta(t, betas[0], betas[2], beta3_warmup)
    return _step(p, g, exp_avg_fast, exp_avg_slow, exp_avg_sq, t, lr, betas, beta3, alpha, eps, weight_decay)

# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""AMSGrad (Reddi et al. 2018): torch 2.11's Adam and AdamW with amsgrad=True, whose states have the same
names."""

from ..rules import rule
from ..symbols import maximum, sqrt

_STATES = dict(exp_avg="signed", exp_avg_sq="positive", max_exp_avg_sq="positive")
_KEYS = dict(amsgrad=True)


def _step(p, g, m, v, most, t, lr, betas, eps):
    m = m + (1 - betas[0]) * (g - m)
    v = betas[1] * v + (1 - betas[1]) * (g * g)
    most = maximum(most, v)
    return p - lr / (1 - betas[0] ** t) * (m / (sqrt(most) / sqrt(1 - betas[1] ** t) + eps)), m, v, most


@rule(states=_STATES, scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0),
      keys=dict(decoupled_weight_decay=False, **_KEYS))
def adam_amsgrad(p, g, exp_avg, exp_avg_sq, max_exp_avg_sq, t, lr, betas, eps, weight_decay):
    return _step(p, g + weight_decay * p, exp_avg, exp_avg_sq, max_exp_avg_sq, t, lr, betas, eps)


@rule(states=_STATES, scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2),
      keys=dict(decoupled_weight_decay=True, **_KEYS))
def adamw_amsgrad(p, g, exp_avg, exp_avg_sq, max_exp_avg_sq, t, lr, betas, eps, weight_decay):
    return _step(p - lr * weight_decay * p, g, exp_avg, exp_avg_sq, max_exp_avg_sq, t, lr, betas, eps)

# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""Schedule-free AdamW and SGD (Defazio et al. 2024, arXiv 2405.15682), as facebookresearch/schedule_free at
b3be06f3. The parameter is y; eval() of ptxgen.torch.Optimizer makes x of it, with which to evaluate."""

from ..rules import Scalar, State, rule
from ..symbols import maximum, pow, sqrt, where

_SCALARS = dict(warmup_steps=Scalar(0.0, "at_least_0"), r=0.0, weight_lr_power=2.0)
_CLOCK = dict(lr_max=-1.0, weight_sum=0.0)


def _rates(t, lr, lr_max, weight_sum, warmup_steps, r, weight_lr_power):
    """The rate of this step, the part of z in x, and the new numbers of the clock."""
    lr = lr * where(t <= warmup_steps, t / warmup_steps, 1.0)
    lr_max = maximum(lr, lr_max)
    weight = pow(t, r) * pow(lr_max, weight_lr_power)
    weight_sum = weight_sum + weight
    return lr, where(weight_sum == 0, 0.0, weight / weight_sum), lr_max, weight_sum


def _moved(y, z, u, lr, part, momentum):
    """The new y and z."""
    return y + part * (z - y) + lr * (momentum * (1 - part) - 1) * u, z - lr * u


def _of_adamw(p, z, betas):
    return p + (1 - 1 / betas[0]) * (z - p)


def _of_sgd(p, z, momentum):
    return p + (1 - 1 / momentum) * (z - p)


@rule(states=dict(z=State("weight", start="p"), exp_avg_sq="positive"), clock=_CLOCK, evaluation=_of_adamw,
      scalars=dict(lr=2.5e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, **_SCALARS))
def schedule_free_adamw(p, g, z, exp_avg_sq, t, lr, lr_max, weight_sum, betas, eps, weight_decay, warmup_steps, r,
                        weight_lr_power):
    lr, part, lr_max, weight_sum = _rates(t, lr, lr_max, weight_sum, warmup_steps, r, weight_lr_power)
    v = betas[1] * exp_avg_sq + (1 - betas[1]) * (g * g)
    u = g / (sqrt(v / (1 - betas[1] ** t)) + eps) + weight_decay * p
    y, z = _moved(p, z, u, lr, part, betas[0])
    return y, z, v, lr_max, weight_sum


@rule(states=dict(z=State("weight", start="p")), clock=_CLOCK, evaluation=_of_sgd,
      scalars=dict(lr=1.0, momentum=0.9, weight_decay=0.0, **_SCALARS))
def schedule_free_sgd(p, g, z, t, lr, lr_max, weight_sum, momentum, weight_decay, warmup_steps, r, weight_lr_power):
    lr, part, lr_max, weight_sum = _rates(t, lr, lr_max, weight_sum, warmup_steps, r, weight_lr_power)
    y, z = _moved(p, z, g + weight_decay * p, lr, part, momentum)
    return y, z, lr_max, weight_sum

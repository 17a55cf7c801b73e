# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""RMSprop (Hinton 2012), as torch 2.11's: rmsprop without momentum, rmsprop_centered, and both with it."""

from ..rules import Scalar, rule
from ..symbols import sqrt

_SCALARS = dict(lr=1e-2, alpha=Scalar(0.99, "below_1"), eps=1e-8, weight_decay=0.0)
_MOMENTUM = dict(momentum=0.9, **_SCALARS)


def _size(g, v, mean, alpha, eps):
    """The new averages, and what divides the gradient."""
    v = alpha * v + (1 - alpha) * (g * g)
    if mean is None:
        return v, None, sqrt(v) + eps
    mean = mean + (1 - alpha) * (g - mean)
    return v, mean, sqrt(v - mean * mean) + eps


@rule(states=dict(square_avg="positive"), scalars=_SCALARS, keys=dict(centered=False, momentum=0))
def rmsprop(p, g, square_avg, lr, alpha, eps, weight_decay):
    g = g + weight_decay * p
    v, _, size = _size(g, square_avg, None, alpha, eps)
    return p - lr * (g / size), v


@rule(states=dict(square_avg="positive", momentum_buffer="signed"), scalars=_MOMENTUM, keys=dict(centered=False))
def rmsprop_momentum(p, g, square_avg, momentum_buffer, lr, alpha, eps, weight_decay, momentum):
    g = g + weight_decay * p
    v, _, size = _size(g, square_avg, None, alpha, eps)
    u = momentum * momentum_buffer + g / size
    return p - lr * u, v, u


@rule(states=dict(square_avg="positive", grad_avg="signed"), scalars=_SCALARS, keys=dict(centered=True, momentum=0))
def rmsprop_centered(p, g, square_avg, grad_avg, lr, alpha, eps, weight_decay):
    g = g + weight_decay * p
    v, mean, size = _size(g, square_avg, grad_avg, alpha, eps)
    return p - lr * (g / size), v, mean


@rule(states=dict(square_avg="positive", momentum_buffer="signed", grad_avg="signed"), scalars=_MOMENTUM,
      keys=dict(centered=True))
def rmsprop_centered_momentum(p, g, square_avg, momentum_buffer, grad_avg, lr, alpha, eps, weight_decay, momentum):
    g = g + weight_decay * p
    v, mean, size = _size(g, square_avg, grad_avg, alpha, eps)
    u = momentum * momentum_buffer + g / size
    return p - lr * u, v, u, mean

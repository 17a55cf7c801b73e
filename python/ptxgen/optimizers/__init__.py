# SPDX-License-Identifier: MIT
"""Optimizers as rules, for ptxgen.torch.Optimizer and step plans; each file names its formula's source.
docs/rules.md has a table of them."""

from .adagrad import adagrad
from .ademamix import ademamix
from .adopt import adopt
from .amsgrad import adam_amsgrad, adamw_amsgrad
from .cwd_adamw import cwd_adamw
from .cwd_lion import cwd_lion
from .laprop import laprop
from .nadam import nadam
from .radam import radam
from .rmsprop import rmsprop, rmsprop_centered, rmsprop_centered_momentum, rmsprop_momentum

__all__ = [
    "adagrad", "adam_amsgrad", "adamw_amsgrad", "ademamix", "adopt", "cwd_adamw", "cwd_lion", "laprop",
    "nadam", "radam", "rmsprop", "rmsprop_centered", "rmsprop_centered_momentum", "rmsprop_momentum",
]

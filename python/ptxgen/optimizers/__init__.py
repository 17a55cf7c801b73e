# SPDX-License-Identifier: MIT
"""Optimizers as rules, for ptxgen.torch.Optimizer and step plans; each file names its formula's source.
docs/rules.md has a table of them."""

from .adagrad import adagrad
from .ademamix import ademamix, ademamix_warmup
from .adopt import adopt
from .amsgrad import adam_amsgrad, adamw_amsgrad
from .c_adamw import c_adamw
from .cwd_adamw import cwd_adamw
from .cwd_lion import cwd_lion
from .lamb import lamb
from .laprop import laprop
from .lars import lars
from .nadam import nadam
from .radam import radam
from .rmsprop import rmsprop, rmsprop_centered, rmsprop_centered_momentum, rmsprop_momentum
from .schedule_free import schedule_free_adamw, schedule_free_sgd

__all__ = [
    "adagrad", "adam_amsgrad", "adamw_amsgrad", "ademamix", "ademamix_warmup", "adopt", "c_adamw", "cwd_adamw", "cwd_lion",
    "lamb", "laprop", "lars", "nadam", "radam", "rmsprop", "rmsprop_centered", "rmsprop_centered_momentum",
    "rmsprop_momentum", "schedule_free_adamw", "schedule_free_sgd",
]

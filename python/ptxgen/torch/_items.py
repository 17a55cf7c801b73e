# SPDX-License-Identifier: MIT
"""What a plan asks of parameters, of learning rates and of limits."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import _device
from ._shortcuts import local


# ---- parameters


def check_item(item: Any, name: str) -> None:
    """Whether a plan can step the parameter."""
    why, local = _device.refusal(item.local, name), item.local
    if why is None and local.numel() and not local.data_ptr():
        why = "has no memory, because its storage was freed"
    elif why is None and local.numel() and not _is_dense(local):
        why = (f"has gaps or overlaps: its strides are {local.stride()}, which ptxgen.torch.{name} does not "
               f"support: {_device.instead(name)}")
    if why:
        raise ValueError(f"{item.what} {why}")


def check_apart(items: Sequence[Any], gradients: Sequence[Any]) -> None:
    """Whether no two parameters and states share memory, in which the later step would be lost, nor states with
    gradients, which are read."""
    places = []
    for item in items:
        places.append((item.what, "", item.local))
        places += [(item.what, name, local(item.states[name])) for name in item.stored()[1:]]
    _check_neighbours(places)
    given = [(item.what, "grad", local(g)) for item, g in zip(items, gradients) if isinstance(g, Tensor)]
    _check_neighbours(places + [one for one in given if one[2].layout is torch.strided and one[2].is_contiguous()])


def _check_neighbours(places: Sequence[Tuple[str, str, Tensor]]) -> None:
    """check_apart() of tensors, each with its parameter, and what it is of it."""
    found = sorted((str(one.device), one.data_ptr(), k) for k, (_, _, one) in enumerate(places) if one.numel())
    for (device, at, k), (other, after, m) in zip(found, found[1:]):
        (what, name, here), (second, beside, _) = places[k], places[m]
        if device != other or at + here.numel() * here.element_size() <= after:
            continue
        if not name and not beside:
            raise ValueError(f"{what} and {second} share memory: give the optimizer one of them, or the tensor of which "
                             "both are views")
        if {name, beside} - {"", "grad"}:  # gradients may be parameters, and one another
            raise ValueError(f"{name and name + ' of '}{what} and {beside and beside + ' of '}{second} share memory: give "
                             "each state memory of its own, such as a clone()")


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements, in any order of dimensions, follow one another."""
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True


# ---- learning rates


class Rate:
    """A learning rate: a number, or a tensor. What is on the device is read there, in each run."""

    def __init__(self, lr: Any, device: Any) -> None:
        self.tensor: Optional[Tensor] = None
        self.copy: Optional[Tensor] = None
        self.address, self.value = 0, 0.0
        if isinstance(lr, Tensor) and (lr.device.type != "cpu" or device.device.type == "cpu"):
            self.tensor = local(lr)
            if lr.device != device.device or lr.dtype is not torch.float32:
                self.copy = torch.zeros((), dtype=torch.float32, device=device.device)
                self.copy.copy_(self.tensor.reshape(()))
            read = self.tensor if self.copy is None else self.copy
            self.address = read.data_ptr()
        else:
            self.value = float(lr)

    def fits(self, lr: Any) -> bool:
        if self.tensor is None:
            return not isinstance(lr, Tensor) or lr.device.type == "cpu"
        return lr is self.tensor and (self.copy is not None or lr.data_ptr() == self.address)

    def follow(self, lr: Any) -> float:
        if self.copy is not None:
            self.copy.copy_(lr.reshape(()))
        return 0.0 if self.address else float(lr)


# ---- numbers


def is_number(value: Any) -> bool:
    """Whether a plan can take it for a number. A tensor is not read: that would wait for the GPU."""
    if isinstance(value, Tensor):
        return value.numel() == 1
    try:
        return not isinstance(value, str) and isinstance(float(value), float)
    except (TypeError, ValueError):
        return False


def limit_of(max_grad_norm: Any) -> float:
    """What gradients are clipped to."""
    if max_grad_norm is None:
        return math.inf
    limit = float(max_grad_norm) if is_number(max_grad_norm) else math.nan
    if not limit >= 0:
        raise ValueError(f"max_grad_norm: {max_grad_norm!r} is not a number of at least 0, or None for no "
                         "clipping")
    return limit

# SPDX-License-Identifier: MIT
"""What a plan asks of parameters, of learning rates and of limits."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Any, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import _device
from ._shortcuts import local


# ---- parameters


def check_item(item: Any, name: str) -> None:
    """Whether a plan can step the parameter."""
    check_local(item.local, name, item.what)


def check_local(local: Tensor, name: str, what: str) -> None:
    """check_item() of this rank's part."""
    why = _device.refusal(local, name)
    if why is None and local.numel() and not local.data_ptr():
        why = "has no memory, because its storage was freed"
    elif why is None and local.numel() and not is_dense(local):
        why = (f"has gaps or overlaps: its strides are {local.stride()}, which ptxgen.torch.{name} does not "
               f"support: {_device.instead(name)}")
    if why:
        raise ValueError(f"{what} {why}")


# Of a tensor: its first byte and the one behind its last; then its parameter, and what it is of it.
_Place = Tuple[int, int, str, str]


def _place(what: str, name: str, tensor: Tensor) -> _Place:
    at = tensor.data_ptr()
    return at, at + tensor.numel() * tensor.element_size(), what, name


class Taken:
    """The memory of parameters and states, of which no two share some: the later step would be lost. All devices have
    their addresses in one space."""

    def __init__(self, items: Sequence[Any]) -> None:
        places = [_place(item.what, name, one) for item in items
                  for name, one in [("", item.local), *((name, local(item.states[name])) for name in item.stored()[1:])]
                  if one.numel()]
        places.sort()
        for one, beside in zip(places, places[1:]):
            if beside[0] < one[1]:
                raise _share(one, beside)
        self._places, self._begins, self._ends = places, [one[0] for one in places], [0, *(one[1] for one in places)]

    def check(self, items: Sequence[Any], at: Sequence[int], sizes: Sequence[int]) -> None:
        """Whether gradients of so many bytes have none of it: steps read them, and write there. They may be one another's."""
        begins, ends = self._begins, self._ends
        for item, first, size in zip(items, at, sizes):
            k = bisect_left(begins, first + size)  # so many begin before the gradient ends
            if ends[k] > first:
                raise _share(self._places[k - 1], (first, first + size, item.what, "grad"))

    def check_gradient(self, item: Any, given: Tensor) -> None:
        """check() of one that plans have not looked at yet, unless its layout is such that they read a copy of it."""
        if given.layout is torch.strided and given.numel() and (given.is_contiguous() or given.stride() == item.local.stride()):
            self.check([item], [given.data_ptr()], [given.numel() * given.element_size()])


def _share(one: _Place, other: _Place) -> ValueError:
    (what, name), (second, beside) = one[2:], other[2:]
    if not name and not beside:
        return ValueError(f"{what} and {second} share memory: give the optimizer one of them, or the tensor of which "
                          "both are views")
    each = "the gradient" if beside == "grad" else "each state"
    return ValueError(f"{name and name + ' of '}{what} and {beside and beside + ' of '}{second} share memory: give "
                      f"{each} memory of its own, such as a clone()")


def is_dense(tensor: Tensor) -> bool:
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

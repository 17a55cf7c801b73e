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


# Of a tensor: its device, its first byte and the one behind its last; then its parameter, and what it is of it.
_Place = Tuple[str, int, int, str, str]


def _place(what: str, name: str, tensor: Tensor) -> _Place:
    at = tensor.data_ptr()
    return str(tensor.device), at, at + tensor.numel() * tensor.element_size(), what, name


class Taken:
    """The memory of parameters and states, of which no two share some: the later step would be lost."""

    def __init__(self, items: Sequence[Any]) -> None:
        places = [_place(item.what, name, one) for item in items
                  for name, one in [("", item.local), *((name, local(item.states[name])) for name in item.stored()[1:])]
                  if one.numel()]
        places.sort()
        for one, beside in zip(places, places[1:]):
            if one[0] == beside[0] and beside[1] < one[2]:
                raise _share(one, beside)
        self._places, self._begins = places, [one[:2] for one in places]

    def check(self, item: Any, at: int, size: int) -> None:
        """Whether a gradient of so many bytes has none of it: steps read it, and write there. It may be another's, too."""
        on = str(item.local.device)
        k = bisect_left(self._begins, (on, at + size))  # those before it begin before the gradient ends
        if k and self._places[k - 1][0] == on and self._places[k - 1][2] > at:
            raise _share(self._places[k - 1], (on, at, at + size, item.what, "grad"))


def _share(one: _Place, other: _Place) -> ValueError:
    (what, name), (second, beside) = one[3:], other[3:]
    if not name and not beside:
        return ValueError(f"{what} and {second} share memory: give the optimizer one of them, or the tensor of which "
                          "both are views")
    each = "the gradient" if not name and beside == "grad" else "each state"
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

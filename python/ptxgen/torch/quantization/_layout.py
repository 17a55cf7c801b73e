# SPDX-License-Identifier: MIT
"""How scales lie over a tensor. Operations see contiguous memory of [outer, channels, inner]."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from torch import Tensor

from . import _checks

GROUPS = (16, 32, 64, 128, 256)


class Layout(NamedTuple):
    """Of an operation over a tensor whose dimensions were brought into `order`."""

    order: Optional[Tuple[int, ...]]  #: None: as they are
    channels: int  #: 0: one scale for the tensor
    inner: int
    group: int  #: elements of a group; 0: none
    shape: Tuple[int, ...]  #: of the scales, beside x as it was given


def _memory_order(x: Tensor) -> Optional[Tuple[int, ...]]:
    """The order of dimensions in which the elements follow each other. None: there is none."""
    strides: Tuple[int, ...] = x.stride()
    order = tuple(sorted(range(x.dim()), key=lambda k: -strides[k]))
    return order if x.permute(order).is_contiguous() else None


def _product(shape: Tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def layout(function: str, x: Tensor, axis: Optional[int], group: Optional[int]) -> Layout:
    """Of scales for the tensor, for each index of an axis, or for each group along an axis."""
    n, shape = x.dim(), tuple(x.shape)
    given: Optional[Tuple[int, ...]] = tuple(range(n)) if x.is_contiguous() else _memory_order(x)
    order = given or tuple(range(n))
    at = _checks.axis(function, axis, x)
    if group is not None:
        if type(group) is not int or group not in GROUPS:
            raise ValueError(f"{function}: group: {group!r} is none of {', '.join(map(str, GROUPS))}")
        if at is None:
            raise ValueError(f"{function}: group={group} without axis: name the axis along which groups are, usually -1")
        if shape[at] % group:
            raise ValueError(f"{function}: group={group} does not divide axis {axis} of x, which has {shape[at]} elements")
        order = (*(k for k in order if k != at), at)
        scales = (*shape[:at], shape[at] // group, *shape[at + 1:])
        channels, inner = _product(scales), group
    elif at is not None:
        inner = _product(tuple(shape[k] for k in order[order.index(at) + 1:]))
        channels, scales = shape[at], (shape[at],)
    else:
        channels, inner, scales = 0, 0, (1,)
    return Layout(None if order == tuple(range(n)) else order, channels, inner, group or 0, scales)


def arranged(x: Tensor, how: Layout) -> Tensor:
    """Contiguous, in the layout's order: x itself where its memory is so, else a copy."""
    return (x if how.order is None else x.permute(how.order)).contiguous()


def restored(y: Tensor, how: Layout) -> Tensor:
    """An arranged tensor with its dimensions as they were."""
    if how.order is None:
        return y
    back = [0] * len(how.order)
    for at, k in enumerate(how.order):
        back[k] = at
    return y.permute(back)


def of_scales(function: str, name: str, given: Tensor, how: Layout) -> Tensor:
    """One value for each of the layout's channels, in their order."""
    shape = tuple(given.shape)
    if shape != how.shape and not (how.channels == 0 and shape == ()):
        raise ValueError(f"{function}: {name} has the shape {list(shape)}, and it must be {list(how.shape)}")
    return (given.permute(how.order) if how.group and how.order is not None else given).contiguous()

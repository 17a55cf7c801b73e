# SPDX-License-Identifier: MIT
"""Linear interpolation, whose gradients are one launch."""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from . import _checks, _launch
from ._layout import arranged, layout, restored
from ._no_second import first_only

_NAME = "lerp()"


def mixed(a: Tensor, b: Tensor, weight: Optional[Tensor], value: float) -> Tensor:
    """By torch's own lerp."""
    if weight is None:
        return torch.lerp(a, b, value).contiguous()
    wide = torch.float64 if a.dtype is torch.float64 else torch.float32
    return torch.lerp(a.to(wide), b.to(wide), weight.to(wide)).to(a.dtype).contiguous()


class _Lerp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, weight: Optional[Tensor], value: float) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.value = value
        return mixed(a, b, weight, value)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        wanted: Tuple[bool, bool] = ctx.needs_input_grad[:2]
        with torch.no_grad():
            found = _launch.lerp_backward(dy, ctx.saved_tensors[0], ctx.value, wanted)
        return (*first_only(_NAME, [one if want else None for one, want in zip(found, wanted)], (dy,)), None, None)


@_checks.breaks
def lerp(a: Tensor, b: Tensor, weight: Union[float, Tensor]) -> Tensor:
    """a + weight * (b - a), of tensors of one shape and type. One launch gives both gradients, (1 - weight) * d_y and
    weight * d_y; the weight has none. weight: a number, or an f64 tensor of one element on the device, which is not looked
    at. The output comes from torch.lerp()."""
    _checks.tensor(_NAME, "a", a)
    _checks.tensor(_NAME, "b", b)
    _checks.beside(_NAME, "b", b, a)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(f"{_NAME}: a is of {list(a.shape)} in {a.dtype}, and b of {list(b.shape)} in {b.dtype}: they must be "
                         "alike; expand or convert one before the call")
    at, value = None, 0.0
    if isinstance(weight, Tensor):
        _checks.beside(_NAME, "weight", weight, a)
        if weight.dtype is not torch.float64 or weight.numel() != 1:
            raise ValueError(f"{_NAME}: weight is of {list(weight.shape)} in {weight.dtype}: one element in float64 is needed")
        if weight.requires_grad:
            raise ValueError(f"{_NAME}: weight requires a gradient, and there is none: use torch.lerp(), or weight.detach()")
        at = weight.reshape(())
    else:
        value = _checks.number(_NAME, "weight", weight)
    shape = layout(_NAME, a, None, None)
    first, second = arranged(a, shape), arranged(b, shape)
    if _checks.compiling():
        y: Tensor = torch.ops.ptxgen.lerp(first, second, at, value)
    else:
        y = _Lerp.apply(first, second, at, value)
    return restored(y, shape)

# SPDX-License-Identifier: MIT
"""Levels as numbers, with a straight-through gradient."""

from __future__ import annotations

from typing import Any, Optional, Union

import torch
from torch import Tensor

from . import _checks, _launch
from ._fake_quantize import Division, quantizer
from ._launch import Levels
from ._layout import arranged, layout, restored
from ._no_second import first_only

_NAME = "quantize_ste()"
_EXACT = {torch.float32: 1 << 24, torch.float64: 1 << 53, torch.float16: 1 << 11, torch.bfloat16: 1 << 8}


def codes(x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels) -> Tensor:
    """By torch's own operations: the library has no kernel for it. The bounds are those of the backward pass."""
    x = x.contiguous()
    if not x.numel():
        return torch.empty_like(x)
    wide = x if x.dtype is torch.float64 else x.to(torch.float32)
    divisor: Tensor = scale if scale is not None else torch.full((1,), how.scale, dtype=wide.dtype, device=x.device)
    zero: Any = how.zero_point if zero_point is None else zero_point.to(torch.float64)
    if how.channels:
        wide = wide.view(-1, how.channels, how.inner)
        divisor, zero = divisor.view(-1, 1), zero.view(-1, 1)
    level = wide * divisor.reciprocal() if how.reciprocal else wide / divisor
    level = torch.where(level.isnan(), float("-inf"), level).round().to(torch.float64) + zero
    found: Tensor = level.clamp_(how.q_min, how.q_max).to(x.dtype).view(x.shape)
    return found


class _Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels) -> Tensor:
        ctx.save_for_backward(x, scale, zero_point)
        ctx.how = how
        return codes(x, scale, zero_point, how)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, scale, zero_point = ctx.saved_tensors
        with torch.no_grad():
            dx = _launch.quantize_backward(dy, x, scale, zero_point, ctx.how, False)
        return (*first_only(_NAME, (dx,), (dy, x)), None, None, None)


@_checks.breaks
def quantize_ste(x: Tensor, scale: Union[Tensor, float], zero_point: Union[Tensor, int, None] = None, *, q_min: int, q_max: int,
                 axis: Optional[int] = None, group: Optional[int] = None, division: Division = "exact") -> Tensor:
    """Levels clamp(rint(x / scale) + zero_point, q_min, q_max) as numbers of x's type. The gradient is straight through:
    d_y / scale where nothing was clamped, else 0. Arguments are those of fake_quantize(); nothing is learned.

    The levels come from torch's operations, the gradient from a kernel. Bounds that x's type does not count exactly up to are
    refused: 256 in bf16, 2048 in f16."""
    _checks.tensor(_NAME, "x", x)
    bounds = _checks.levels(_NAME, q_min, q_max)
    if max(-bounds[0], bounds[1]) > _EXACT[x.dtype]:
        raise ValueError(f"{_NAME}: q_min {bounds[0]} and q_max {bounds[1]}: {x.dtype} counts exactly up to {_EXACT[x.dtype]} "
                         "only: convert x to float32")
    shape = layout(_NAME, x, axis, group)
    scales, zeros, how = quantizer(_NAME, x, scale, zero_point, shape, bounds, "none", division, "level", None)
    there = arranged(x, shape)
    if _checks.compiling():
        y: Tensor = torch.ops.ptxgen.quantize(there, scales, zeros, *how)
    else:
        y = _Quantize.apply(there, scales, zeros, how)
    return restored(y, shape)

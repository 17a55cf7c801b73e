# SPDX-License-Identifier: MIT
"""Casts to floats of 8 bits."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, Tuple, Union

import torch
from torch import Tensor

from . import _checks, _launch
from ._layout import arranged, layout, restored
from ._no_second import first_only
from ._recompute import recomputing

Format = Literal["e4m3", "e5m2"]
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
_TYPES: Dict[str, Any] = {"e4m3": getattr(torch, "float8_e4m3fn", None), "e5m2": getattr(torch, "float8_e5m2", None)}
_MANTISSA = {"e4m3": 3, "e5m2": 2}
_NAME = "fp8_cast()"
_tables: Dict[Tuple[str, torch.device], Tensor] = {}


def _value(code: int, format: str) -> float:
    """What a code stands for."""
    bits = _MANTISSA[format]
    bias = (1 << (6 - bits)) - 1
    exponent, mantissa = (code & 127) >> bits, code & ((1 << bits) - 1)
    if format == "e4m3" and code & 127 == 127 or format == "e5m2" and exponent == 31 and mantissa:
        return float("nan")
    if format == "e5m2" and exponent == 31:
        return float("-inf" if code > 127 else "inf")
    size = (mantissa + (1 << bits if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - bits)
    return -size if code > 127 else size


def decoded(codes: Tensor, format: str) -> Tensor:
    """Codes as f32. torch 1.13 has no type for them, so it looks them up."""
    if _TYPES[format] is not None:
        return codes.view(_TYPES[format]).to(torch.float32)
    found = _tables.get((format, codes.device))
    if found is None:
        values: List[float] = [_value(code, format) for code in range(256)]
        found = _tables.setdefault((format, codes.device), torch.tensor(values, device=codes.device))
    return found[codes.long()]


def _scaled_back(codes: Tensor, scale: Optional[Tensor], value: float, format: str, dtype: torch.dtype) -> Tensor:
    inverse: Any = scale.reciprocal() if scale is not None else torch.full((), value, device=codes.device).reciprocal()
    y: Tensor = decoded(codes, format) * inverse
    return y if dtype is torch.float32 else y.to(dtype)  # torch 2.11 compiles a backward pass of zeros for y.to() that is y


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Optional[Tensor], value: float, codes: Tensor, format: str) -> Tensor:
        ctx.save_for_backward(x, scale)
        ctx.value, ctx.largest = value, LARGEST[format]
        return _scaled_back(codes, scale, value, format, x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, scale = ctx.saved_tensors
        with torch.no_grad():
            product = x.to(torch.float32) * (ctx.value if scale is None else scale)
            dx = torch.where(product.abs() <= ctx.largest, dy, torch.zeros((), dtype=dy.dtype, device=dy.device))
        return (*first_only(_NAME, (dx,), (dy, x)), None, None, None, None)


@_checks.breaks
def fp8_cast(x: Tensor, scale: Union[Tensor, float] = 1.0, *, format: Format = "e4m3", amax: Optional[Tensor] = None,
             codes: bool = False) -> Tensor:
    """y = fp8(x * scale) / scale in x's type, for products that take it so; the gradient is straight through where
    |x * scale| is at most the largest float of the format (448; 57344), else 0.

    scale: a number, or an f32 tensor of one element on the device, which is not looked at.
    amax: an f32 tensor of one element, +0 or above: becomes max(amax, |x|). Not in the forward pass that a checkpoint repeats.
    codes: True: fp8(x * scale) itself, as torch.float8_e4m3fn or torch.float8_e5m2 (bytes where torch has no such types),
        without a gradient: torch would round the gradient of a tensor of 8 bits to 8 bits."""
    _checks.tensor(_NAME, "x", x, (torch.float32, torch.float16, torch.bfloat16))
    _checks.choice(_NAME, "format", format, tuple(LARGEST))
    at, value = None, 0.0
    if isinstance(scale, Tensor):
        _one(scale, "scale", x)
        at = scale.detach().reshape(())
    else:
        value = _checks.positive(_NAME, "scale", scale)
    if amax is not None:
        _one(amax, "amax", x)
        if amax.requires_grad:
            raise ValueError(f"{_NAME}: amax requires a gradient, and it is written: use amax.detach()")
    compiling = _checks.compiling()
    if amax is not None and not compiling and recomputing():
        amax = None
    shape = layout(_NAME, x, None, None)
    there = arranged(x, shape)
    if not compiling:
        with torch.no_grad():
            made = _launch.fp8_cast(there, at, value, amax, format)
            if amax is not None:
                _launch.written((amax,))
    elif amax is None:
        made = torch.ops.ptxgen.fp8_cast(there.detach(), at, value, format)
    else:
        made = torch.ops.ptxgen.fp8_cast_with_amax(there.detach(), at, value, format, amax)
    if codes:
        of_torch = _TYPES[format]
        return restored(made if of_torch is None else made.view(of_torch), shape)
    y: Tensor = _Cast.apply(there, at, value, made, format)
    return restored(y, shape)


def _one(given: Tensor, name: str, x: Tensor) -> None:
    _checks.beside(_NAME, name, given, x)
    if given.dtype is not torch.float32 or given.numel() != 1:
        raise ValueError(f"{_NAME}: {name} is of {list(given.shape)} in {given.dtype}: one element in float32 is needed")

# SPDX-License-Identifier: MIT
"""Quantizing and scaling back, with the gradients of the input, the scales and the zero points."""

from __future__ import annotations

import types
from typing import Any, Dict, Literal, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _checks, _launch
from ._launch import Calls, Levels
from ._layout import Layout, arranged, layout, of_scales, restored
from ._no_second import first_only

Learn = Literal["none", "scale", "both"]
Division = Literal["exact", "reciprocal"]
InRange = Literal["level", "quotient"]
_NAME = "fake_quantize()"
_STRIDED = torch.strided


def gradients(dy: Tensor, x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels,
              needed: Tuple[bool, ...], launch: Any) -> Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
    """Those of x, scale and zero_point that are needed. launch: who computes them."""
    if scale is not None and (how.quotient_range or needed[1] or needed[2]):
        dx, d_scale, d_zero = launch.learned_backward(dy, x, scale, zero_point, how)
        return dx, d_scale if needed[1] else None, d_zero if needed[2] else None
    return (launch.quantize_backward(dy, x, scale, zero_point, how, True) if needed[0] else None), None, None


class _FakeQuantize(torch.autograd.Function):
    """how: Calls that were prepared for such tensors, or Levels. zero_point: None where Calls have it, or scale is a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Any) -> Tensor:
        ctx.how = how
        if type(how) is not Calls:
            ctx.save_for_backward(x, scale, zero_point)
            return _launch.fake_quantize(x, scale, zero_point, how)
        if zero_point is None:
            ctx.save_for_backward(x, scale)
            return how.forward(x, scale, how.zero)  # type: ignore[arg-type]
        ctx.save_for_backward(x, scale, zero_point)
        return how.forward(x, scale, zero_point)  # type: ignore[arg-type]

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        how, saved = ctx.how, ctx.saved_tensors
        x, scale, zero_point = saved if len(saved) == 3 else (*saved, how.zero)
        if torch.is_grad_enabled():  # create_graph=True
            with torch.no_grad():
                found = gradients(dy, x, scale, zero_point, getattr(how, "how", how), ctx.needs_input_grad, _launch)
            return (*first_only(_NAME, found, (dy, x, scale, zero_point)), None)
        if type(how) is not Calls:
            return (*gradients(dy, x, scale, zero_point, how, ctx.needs_input_grad, _launch), None)
        needed = ctx.needs_input_grad
        if not (needed[1] or needed[2] or how.how.quotient_range):
            return how.backward(dy, x, scale, zero_point), None, None, None
        dx, d_scale, d_zero = how.learned_backward(dy, x, scale, zero_point)
        return dx, d_scale if needed[1] else None, d_zero if needed[2] else None, None


def _plainly() -> Any:
    """_FakeQuantize.apply() without what torch does for its function transforms, which the caller has ruled out."""
    try:
        found: Any = super(torch.autograd.Function, _FakeQuantize).apply
    except AttributeError:
        found = None
    return found if isinstance(found, types.BuiltinFunctionType) else _FakeQuantize.apply


_apply = _plainly()


def quantizer(function: str, x: Tensor, scale: Union[Tensor, float], zero_point: Union[Tensor, int, None], how: Layout,
              bounds: Tuple[int, int], learn: str, division: str, in_range: str, grad_factor: Optional[float],
              ) -> Tuple[Optional[Tensor], Optional[Tensor], Levels]:
    """Scales and zero points as operations take them; None where they are numbers."""
    q_min, q_max = bounds
    _checks.choice(function, "division", division, ("exact", "reciprocal"))
    number, zero = 0.0, 0
    if zero_point is not None and not isinstance(zero_point, Tensor):
        zero = _checks.integer(function, "zero_point", zero_point, q_min, q_max)
    elif zero_point is None and not q_min <= 0 <= q_max:
        raise ValueError(f"{function}: zero_point: it must be given where 0 is not from q_min {q_min} to q_max {q_max}")
    scales, zeros = None, None
    if isinstance(scale, Tensor):
        _checks.beside(function, "scale", scale, x)
        if not scale.is_floating_point():
            raise TypeError(f"{function}: scale is in {scale.dtype}, and it must be of floats: use scale.float()")
        scales = of_scales(function, "scale", scale if learn != "none" else scale.detach(), how)
        scales = scales.to(torch.float64 if x.dtype is torch.float64 else torch.float32)
        if isinstance(zero_point, Tensor):
            _checks.beside(function, "zero_point", zero_point, x)
            zeros = of_scales(function, "zero_point", zero_point, how)
            if learn == "both" and not zeros.is_floating_point():
                raise TypeError(f"{function}: zero_point is in {zeros.dtype}, and learn=\"both\" needs one in float32")
            if learn == "both":
                zeros = zeros.to(scales.dtype)
            elif zeros.is_floating_point():  # as learned ones count in operations
                zeros = torch.nan_to_num(zeros.detach(), nan=float(q_min)).round().clamp(q_min, q_max).to(torch.int32)
            elif zeros.dtype is torch.bool:
                raise TypeError(f"{function}: zero_point is in torch.bool, and it must be int32")
            else:
                zeros = zeros.to(torch.int32)
        elif learn == "both":
            raise TypeError(f"{function}: zero_point: learn=\"both\" needs a tensor of the shape of scale")
        else:
            count = how.channels or 1
            zeros = torch.full((count,), zero, dtype=torch.int32, device=x.device) if _checks.compiling() else (
                _launch.constant(x.device, count, zero))
    else:
        number = _checks.positive(function, "scale", scale)
        if how.channels:
            raise TypeError(f"{function}: scale: with an axis it must be a tensor of the shape {list(how.shape)}")
        if isinstance(zero_point, Tensor):
            raise TypeError(f"{function}: zero_point is a tensor, and scale a number: give both as tensors or as numbers")
        if learn != "none":
            raise TypeError(f"{function}: scale: learn={learn!r} needs a tensor, not a number")
        if in_range == "quotient":
            raise ValueError(f"{function}: in_range=\"quotient\" needs a tensor as scale")
    return scales, zeros, Levels(q_min, q_max, division == "reciprocal", in_range == "quotient", how.channels, how.inner,
                                 how.group, number, zero, 1.0 if grad_factor is None else grad_factor)


class _Known(NamedTuple):
    """What a call's checks found, for calls with tensors of the same kind."""

    layout: Layout
    how: Any  #: Calls, or Levels where there are no elements
    plain: bool  #: x is taken as it is, and Calls have the zero points
    zero_point: Optional[int]  #: None: a tensor, taken as it is, or that of Calls
    learn: bool


_known: Dict[Any, _Known] = {}
_PLAIN = _checks.PLAIN
_forward_ad: Any = forward_ad
_transforms: Any = getattr(torch._C, "_are_functorch_transforms_active", None)  # torch 1.13 has none
_wrapped: Any = None if _transforms else _checks.asked or _checks.wrapped  # outside of transforms no tensor is


def _key(x: Any, scale: Any, zero_point: Any, q_min: Any, q_max: Any, axis: Any, group: Any, learn: Any, grad_factor: Any,
         division: Any, in_range: Any) -> Any:
    """What the checks of a call depend on. None: check it."""
    if (type(x) not in _PLAIN or type(scale) not in _PLAIN or x.layout is not _STRIDED or scale.layout is not _STRIDED
            or x.is_neg() or scale.is_neg() or _forward_ad._current_level >= 0
            or (_transforms() if _transforms else _wrapped(x) or _wrapped(scale)) or type(q_min) is not int
            or type(q_max) is not int):
        return None
    zero = zero_point
    if zero is not None and type(zero) is not int:
        if type(zero) not in _PLAIN or zero.layout is not _STRIDED or zero.is_neg() or (_wrapped and _wrapped(zero)):
            return None
        zero = zero.dtype, zero.shape, zero.stride(), zero.device
    return (x.dtype, x.shape, x.stride(), x.device, scale.dtype, scale.shape, scale.stride(), scale.device, zero, q_min, q_max,
            axis, type(axis), group, type(group), learn, grad_factor, type(grad_factor), division, in_range)


def _remember(key: Any, x: Tensor, scale: Tensor, zero_point: Any, zeros: Any, shape: Layout, how: Levels, learn: str) -> None:
    """Of a call that was checked, if its tensors go to the operation as they are."""
    wanted = torch.float64 if x.dtype is torch.float64 else torch.float32
    if scale.dtype is not wanted or not scale.is_contiguous() or (how.group and shape.order is not None):
        return
    if isinstance(zero_point, Tensor) and (not zero_point.is_contiguous()
                                           or zero_point.dtype is not (wanted if learn == "both" else torch.int32)):
        return
    if len(_known) >= 4096:  # shapes that change without end
        _known.clear()
    value = None if isinstance(zero_point, Tensor) else zero_point or 0
    calls: Any = Calls(x, zeros, how, value) if x.numel() else how
    if value is not None and x.numel() and calls.zero is not None:
        value = None
    plain = shape.order is None and x.is_contiguous()
    _known[key] = _Known(shape, calls, plain, value, learn != "none")


def _as_before(known: _Known, x: Tensor, scale: Tensor, zero_point: Any) -> Tensor:
    shape, how, plain, value, learns = known
    if not learns and scale.requires_grad:
        scale = scale.detach()
    if type(zero_point) is int:
        zero_point = None
    if value is not None:
        zero_point = _launch.constant(x.device, shape.channels or 1, value)
    if plain:
        y: Tensor = _apply(x, scale, zero_point, how)
        return y
    if shape.order is None:
        return _apply(x.contiguous(), scale, zero_point, how)  # type: ignore[no-any-return]
    return restored(_apply(arranged(x, shape), scale, zero_point, how), shape)


@_checks.breaks
def fake_quantize(x: Tensor, scale: Union[Tensor, float], zero_point: Union[Tensor, int, None] = None, *, q_min: int, q_max: int,
                  axis: Optional[int] = None, group: Optional[int] = None, learn: Learn = "none",
                  grad_factor: Optional[float] = None, division: Division = "exact", in_range: InRange = "level") -> Tensor:
    """Quantizes and scales back: y = (q - z) * scale with q = clamp(rint(x / scale) + z, q_min, q_max).

    x: f32, f16, bf16 or f64. y has its type and shape. A dense tensor in any order of its dimensions is taken as it is, any
        other through a copy.
    scale: a tensor of one element; of [channels] with axis; of x's shape with the axis divided by the group with axis and
        group. In f32 (f64 for x in f64; other types are converted). Or a number. A tensor's values are not looked at.
    zero_point: None for 0, an integer, or a tensor of the scale's shape. Of integers; or of floats, which are rounded.
    group: 16, 32, 64, 128 or 256 elements along the axis that have a scale. Another axis than the one whose elements are
        adjacent in memory is brought there by a copy.
    learn: "scale" gives the scale a gradient, "both" the zero point, too, which is then of floats.
    grad_factor: the gradients of scale and zero point times this: 1 / sqrt(N * q_max) in learned step size quantization, with
        N the elements that a scale has. None: 1.
    division: "reciprocal" multiplies by the rounded 1 / scale, as torch does.
    in_range: where x has a gradient. "level": where rint(x / scale) + z needs no clamping, as in torch. "quotient": where
        x / scale + z is between q_min and q_max before it is rounded, as in the paper on learned step sizes."""
    key = None if _checks.compiling() else _key(x, scale, zero_point, q_min, q_max, axis, group, learn, grad_factor, division,
                                                in_range)
    if key is not None:
        try:
            known = _known.get(key)
        except TypeError:  # a list as an axis, which the checks refuse; an array of one number, which they take
            key = known = None
        if known is not None:
            return _as_before(known, x, scale, zero_point)  # type: ignore[arg-type]
    _checks.tensor(_NAME, "x", x)
    bounds = _checks.levels(_NAME, q_min, q_max)
    _checks.choice(_NAME, "learn", learn, ("none", "scale", "both"))
    _checks.choice(_NAME, "in_range", in_range, ("level", "quotient"))
    if grad_factor is not None:
        if learn == "none":
            raise ValueError(f"{_NAME}: grad_factor={grad_factor!r} with learn=\"none\": there is no gradient that it is for")
        grad_factor = _checks.number(_NAME, "grad_factor", grad_factor)
        if grad_factor == 0:
            raise ValueError(f"{_NAME}: grad_factor is 0: use learn=\"none\"")
    shape = layout(_NAME, x, axis, group)
    scales, zeros, how = quantizer(_NAME, x, scale, zero_point, shape, bounds, learn, division, in_range, grad_factor)
    if key is not None and isinstance(scale, Tensor):
        _remember(key, x, scale, zero_point, zeros, shape, how, learn)
        known = _known.get(key)
        if known is not None:
            return _as_before(known, x, scale, zero_point)  # as later calls: a checkpoint counts what they save
    there = arranged(x, shape)
    if _checks.compiling():
        y: Tensor = torch.ops.ptxgen.fake_quantize(there, scales, zeros, *how)
    else:
        y = _FakeQuantize.apply(there, scales, zeros, how)
    return restored(y, shape)

# SPDX-License-Identifier: MIT
"""The functions as torch's custom operators, which torch.compile calls from torch 2.4 on: shapes for tracing, what is written,
and backward passes that are operators, too."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import _cast, _codes, _fake_quantize, _launch, _mix
from ._launch import Levels

_LEVELS = ("int q_min, int q_max, bool reciprocal, bool quotient_range, SymInt channels, SymInt inner, int group, "
           "float scale_value, int zero_value, float grad_factor")
_QUANTIZER = f"Tensor x, Tensor? scale, Tensor? zero_point, {_LEVELS}"


def _define(name: str, schema: str, run: Callable[..., Any], shapes: Callable[..., Any], mutates: Sequence[str] = ()) -> None:
    made = torch.library.custom_op(f"ptxgen::{name}", run, mutates_args=mutates, schema=schema)
    made.register_fake(shapes)


def _like(x: Tensor, dtype: Optional[torch.dtype] = None) -> Tensor:
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


# ---- what backward passes call


def quantize_backward(dy: Tensor, x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels,
                      fake: bool) -> Tensor:
    return torch.ops.ptxgen.quantize_backward(dy, x, scale, zero_point, *how, fake)  # type: ignore[no-any-return]


def learned_backward(dy: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor, how: Levels) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.ops.ptxgen.learned_backward(dy, x, scale, zero_point, *how)  # type: ignore[no-any-return]


def _all_gradients(dy: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor, *how: Any) -> Tuple[Tensor, Tensor, Tensor]:
    dx, d_scale, d_zero = _launch.learned_backward(dy, x, scale, zero_point, Levels(*how))
    return dx, d_scale, scale.new_empty(0) if d_zero is None else d_zero


def _learned_shapes(dy: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor, *how: Any) -> Tuple[Tensor, Tensor, Tensor]:
    return _like(x), _like(scale), _like(scale) if zero_point.is_floating_point() else scale.new_empty(0)


# ---- the operators, with what their backward passes need


def _keep_quantizer(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.how = Levels(*inputs[3:])


def _of_fake_quantize(ctx: Any, dy: Tensor) -> Any:
    x, scale, zero_point = ctx.saved_tensors
    found = _fake_quantize.gradients(dy, x, scale, zero_point, ctx.how, ctx.needs_input_grad, _Operators)
    return (*found, *(None,) * len(Levels._fields))


def _of_codes(ctx: Any, dy: Tensor) -> Any:
    x, scale, zero_point = ctx.saved_tensors
    return (quantize_backward(dy, x, scale, zero_point, ctx.how, False), *(None,) * (2 + len(Levels._fields)))


class _Operators:
    """Who launches for the backward passes of operators."""

    quantize_backward = staticmethod(quantize_backward)
    learned_backward = staticmethod(learned_backward)


def _keep_mix(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, weight, ctx.value = inputs
    ctx.save_for_backward(weight)


def _of_mix(ctx: Any, dy: Tensor) -> Any:
    (weight,), wanted = ctx.saved_tensors, ctx.needs_input_grad[:2]
    da, db = torch.ops.ptxgen.lerp_backward(dy, weight, ctx.value, *wanted)
    return (da if wanted[0] else None, db if wanted[1] else None, None, None)


def define() -> None:
    """Once, where torch has what it takes."""
    _define("fake_quantize", f"({_QUANTIZER}) -> Tensor",
            lambda x, scale, zero_point, *how: _launch.fake_quantize(x, scale, zero_point, Levels(*how)),
            lambda x, *_: _like(x))
    _define("quantize_backward", f"(Tensor dy, {_QUANTIZER}, bool fake) -> Tensor",
            lambda dy, x, scale, zero_point, *how: _launch.quantize_backward(dy, x, scale, zero_point, Levels(*how[:-1]), how[-1]),
            lambda dy, x, *_: _like(x))
    _define("learned_backward", f"(Tensor dy, Tensor x, Tensor scale, Tensor zero_point, {_LEVELS}) -> (Tensor, Tensor, Tensor)",
            _all_gradients, _learned_shapes)
    _define("quantize", f"({_QUANTIZER}) -> Tensor",
            lambda x, scale, zero_point, *how: _codes.codes(x, scale, zero_point, Levels(*how)), lambda x, *_: _like(x))
    _define("lerp", "(Tensor a, Tensor b, Tensor? weight, float value) -> Tensor", _mix.mixed, lambda a, *_: _like(a))
    _define("lerp_backward", "(Tensor dy, Tensor? weight, float value, bool of_a, bool of_b) -> (Tensor, Tensor)",
            lambda dy, weight, value, of_a, of_b: _launch.lerp_backward(dy, weight, value, (of_a, of_b)),
            lambda dy, weight, value, *wanted: tuple(_like(dy) if want else dy.new_empty(0) for want in wanted))
    _define("fp8_cast", "(Tensor x, Tensor? scale, float value, str format) -> Tensor",
            lambda x, scale, value, format: _launch.fp8_cast(x, scale, value, None, format),
            lambda x, *_: _like(x, torch.uint8))
    _define("fp8_cast_with_amax", "(Tensor x, Tensor? scale, float value, str format, Tensor(a!) amax) -> Tensor",
            lambda x, scale, value, format, amax: _launch.fp8_cast(x, scale, value, amax, format),
            lambda x, *_: _like(x, torch.uint8), ("amax",))
    _define("observe", "(Tensor x, Tensor(a!) range, Tensor(b!) scale, Tensor(c!) zero_point, int q_min, int q_max, "
            "bool symmetric, int zero, float averaging_constant, float eps) -> ()", _launch.observe, lambda *_: None,
            ("range", "scale", "zero_point"))
    register = torch.library.register_autograd
    register("ptxgen::fake_quantize", _of_fake_quantize, setup_context=_keep_quantizer)
    register("ptxgen::quantize", _of_codes, setup_context=_keep_quantizer)
    register("ptxgen::lerp", _of_mix, setup_context=_keep_mix)

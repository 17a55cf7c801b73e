# SPDX-License-Identifier: MIT
"""Trained weights as codes and scales, laid out as torchao's tensors."""

from __future__ import annotations

from typing import Any, NamedTuple, Tuple, Union

import torch
from torch import Tensor

from . import _checks
from ._codes import quantize_ste
from ._fake_quantize import Division
from .dynamic import DynamicQuantizer
from .learned import LearnedQuantizer

_FLOATS = (torch.bfloat16, torch.float16, torch.float32)


def _begun(function: str, quantizer: Any) -> None:
    if hasattr(quantizer, "_begun") and not quantizer._begun():
        raise ValueError(f"{function}: the quantizer, {type(quantizer).__name__}, has not observed yet, so its scales are none of "
                         "this weight: run the model on data first, or load its state")


def _matrix(function: str, weight: Any, advice: str) -> None:
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        given = f"one of {list(weight.shape)}" if isinstance(weight, Tensor) else f"{weight!r:.80}"
        raise ValueError(f"{function}: weight: a matrix is needed, not {given}: of a convolution, weight.flatten(1) "
                         f"first, {advice}")
    if not weight.numel():
        raise ValueError(f"{function}: weight is of {list(weight.shape)}, and has no elements to export")
    _checks.tensor(function, "weight", weight)


def _finite(function: str, name: str, given: Any) -> None:
    if isinstance(given, Tensor) and given.is_floating_point():
        lost = ~given.detach().isfinite()
        if bool(lost.any()):
            raise ValueError(f"{function}: {name}: {int(lost.sum())} of {lost.numel()} are NaN or infinite, the first at "
                             f"{lost.nonzero()[0].tolist()}: export a state from before they were")


def _stored(function: str, name: str, given: Tensor, dtype: torch.dtype) -> Tensor:
    """In the type, which must have them."""
    found = given.to(dtype)
    lost = given.isfinite() & ~found.isfinite()
    if name == "scale":
        lost |= (given != 0) & (found == 0)
    if bool(lost.any()):
        raise ValueError(f"{function}: dtype: a {name} of {float(given[lost].reshape(-1)[0])} is beyond {dtype}: use "
                         "torch.bfloat16 or torch.float32")
    return found


class Int4Groups(NamedTuple):
    """The tensors of torchao's Int4Tensor (packing format "plain") of a matrix [N, K]:
    Int4Tensor(qdata, scale, zero_point, block_size, shape)."""

    qdata: Tensor  #: int8 [N, K / 2]: levels -8 to 7, the even element in the low half of a byte
    scale: Tensor  #: [K / group, N]
    zero_point: Tensor  #: [K / group, N], what is added: weight = level * scale + zero_point
    block_size: Tuple[int, int]  #: (1, group)
    shape: Tuple[int, int]  #: (N, K)

    def dequantize(self) -> Tensor:
        """The weight, as the codes and scales have it, in f32."""
        low, high = (self.qdata << 4) >> 4, self.qdata >> 4
        levels = torch.stack([low, high], -1).flatten(1).to(torch.float32)
        scale, zero = (one.to(torch.float32).t().repeat_interleave(self.block_size[1], 1) for one in (self.scale, self.zero_point))
        return levels * scale + zero


def export_int4(weight: Tensor, scale: Union[Tensor, LearnedQuantizer], zero_point: Union[Tensor, int, None] = None, *,
                q_min: int = -8, q_max: int = 7, division: Division = "exact",
                dtype: torch.dtype = torch.bfloat16) -> Int4Groups:
    """Codes and scales of a matrix with 4 bits in groups along its rows, as torchao's Int4Tensor has them.

    scale: the LearnedQuantizer of the weight; or scales of [N, K / group], with the arguments of fake_quantize().
    dtype: of the scales that are stored: the type in which the model will run. The levels are those of training; f32
        scales are rounded to it."""
    name = "export_int4()"
    if isinstance(scale, LearnedQuantizer):
        of = scale
        if zero_point is not None or (q_min, q_max, division) != (-8, 7, "exact"):
            raise ValueError(f"{name}: scale is a LearnedQuantizer, which has zero_point, q_min, q_max and division: leave them out")
        if of.group is None or of.axis not in (-1, 1):
            raise ValueError(f"{name}: the quantizer has axis={of.axis} and group={of.group}: groups along the last axis are needed: "
                             "train with axis=-1 and a group, or use export_int8(), which takes axis=0")
        _begun(name, of)
        q_min, q_max, division = of.q_min, of.q_max, of.division
        scale, zero_point = of._next()
    elif isinstance(scale, DynamicQuantizer):
        raise TypeError(f"{name}: scale: a DynamicQuantizer has no scales of its own: with axis=-1 and a group, use "
                        "export_int4(weight, *quantizer.calculate_qparams(weight), q_min=..., q_max=..., division=quantizer.division)")
    elif isinstance(scale, torch.nn.Module):
        raise TypeError(f"{name}: scale: a {type(scale).__name__} has no groups: a LearnedQuantizer with axis=-1 and a group, or its "
                        "scales, are needed; export_int8() takes axis=0")
    _matrix(name, weight, "with the scales of its groups")
    if dtype not in _FLOATS:
        raise ValueError(f"{name}: dtype: {dtype} is none of {', '.join(map(str, _FLOATS))}")
    if (q_min, q_max) not in ((-8, 7), (-7, 7), (0, 15)):
        raise ValueError(f"{name}: levels {q_min} to {q_max}: -8 to 7, -7 to 7 or 0 to 15 are needed")
    n, k = weight.shape
    if not isinstance(scale, Tensor) or scale.dim() != 2 or scale.shape[0] != n or not scale.shape[1] or k % scale.shape[1] or k % 2:
        raise ValueError(f"{name}: scale: a tensor of [{n}, {k} / group] is needed")
    _checks.beside(name, "scale", scale, weight)
    _finite(name, "weight", weight)
    _finite(name, "scale", scale)
    _finite(name, "zero_point", zero_point)
    group = k // scale.shape[1]
    with torch.no_grad():
        levels = quantize_ste(weight.detach().to(torch.float32), scale, zero_point, q_min=q_min, q_max=q_max, axis=-1, group=group,
                              division=division).to(torch.int8)
        zero: Any = zero_point if zero_point is not None else 0
        if isinstance(zero, Tensor):
            zero = zero.to(torch.float32).round().clamp(q_min, q_max)
        middle = 8 if q_min == 0 else 0
        levels = levels - middle
        packed = (levels[:, ::2] & 15) | (levels[:, 1::2] << 4)
        added = (middle - zero) * scale.detach().to(torch.float32)
        return Int4Groups(packed.contiguous(), _stored(name, "scale", scale.detach().t().contiguous(), dtype),
                          _stored(name, "zero point", added.t().contiguous(), dtype), (1, group), (n, k))


class IntGroups(NamedTuple):
    """Codes a byte each, as torchao's IntxUnpackedToInt8Tensor has them: weight = (qdata - zero_point) * scale, with a scale for
    each group along the last axis, or for each row."""

    qdata: Tensor  #: int8 [N, K]
    scale: Tensor  #: [N, K / group]
    zero_point: Tensor  #: int8 [N, K / group]
    block_size: Tuple[int, int]
    dtype: torch.dtype

    def dequantize(self) -> Tensor:
        """The weight, as the codes and scales have it, in f32."""
        group = self.block_size[1]
        zero, scale = (one.to(torch.float32).repeat_interleave(group, 1) for one in (self.zero_point, self.scale))
        return (self.qdata.to(torch.float32) - zero) * scale


def export_int8(weight: Tensor, quantizer: Any, *, dtype: torch.dtype = torch.bfloat16) -> IntGroups:
    """Codes of at most 8 bits of a matrix, a byte each, with scales for groups along the last axis, or for rows.

    quantizer: a LearnedQuantizer, FakeQuantize or LearnableFakeQuantize with axis 0, or with groups along the last axis."""
    name = "export_int8()"
    axis, group = getattr(quantizer, "axis", None), getattr(quantizer, "group", None)
    _matrix(name, weight, "whose quantizer has axis=0")
    if isinstance(quantizer, DynamicQuantizer):
        raise TypeError(f"{name}: quantizer: a DynamicQuantizer has no scales of its own: use LearnedQuantizer or FakeQuantize, or, "
                        "for groups, export_int4(weight, *quantizer.calculate_qparams(weight), division=quantizer.division)")
    if not hasattr(quantizer, "division") or (axis not in (0, -2) if group is None else axis not in (-1, 1)):
        raise ValueError(f"{name}: quantizer: one with axis=0, or with axis=-1 and group, is needed, not {quantizer!r:.80}")
    if dtype not in _FLOATS:
        raise ValueError(f"{name}: dtype: {dtype} is none of {', '.join(map(str, _FLOATS))}")
    learned = isinstance(quantizer, LearnedQuantizer)
    q_min, q_max = (quantizer.q_min, quantizer.q_max) if learned else (quantizer.quant_min, quantizer.quant_max)
    if q_min < -128 or q_max > 127:
        raise ValueError(f"{name}: levels {q_min} to {q_max} do not fit int8")
    _begun(name, quantizer)
    scale, zero = quantizer._next() if hasattr(quantizer, "_next") else (quantizer.scale.detach(), quantizer.zero_point)
    if zero is None:
        zero = 0
    _checks.beside(name, "the quantizer's scale", scale, weight)
    _finite(name, "weight", weight)
    _finite(name, "the quantizer's scale", scale)
    _finite(name, "the quantizer's zero_point", zero)
    with torch.no_grad():
        levels = quantize_ste(weight.detach().to(torch.float32), scale, zero, q_min=q_min, q_max=q_max, axis=axis,
                              group=group, division=quantizer.division).to(torch.int8)
        scale = scale.reshape(weight.shape[0], -1)
        zeros = torch.full_like(scale, float(zero)) if not isinstance(zero, Tensor) else (
            zero.detach().to(torch.float32).round().clamp(q_min, q_max).reshape(scale.shape))
        return IntGroups(levels, _stored(name, "scale", scale, dtype), zeros.to(torch.int8), (1, weight.shape[1] // scale.shape[1]), dtype)

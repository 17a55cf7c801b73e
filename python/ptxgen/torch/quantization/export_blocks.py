# SPDX-License-Identifier: MIT
"""Trained weights in block formats, as codes and scales laid out as torchao's tensors."""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from ... import _c
from . import _checks
from ._learned_blocks import amaxes_of
from .blocks import _FORMATS, _NAME, Format, Like, ScaleRounding, _way, fake_quantize_block
from .export import _finite, _matrix
from .nvfp4 import LearnedBlocks, NVFP4Linear

_DTYPES = (torch.bfloat16, torch.float32)
_FLT_MAX = torch.finfo(torch.float32).max
#: Of floats: the largest, and torchao's name.
_ELEMENTS = {"E2M1": (6.0, "float4_e2m1fn_x2"), "E3M2": (28.0, "fp6_e3m2"), "E2M3": (7.5, "fp6_e2m3"), "E4M3": (448.0, "float8_e4m3fn"),
             "E5M2": (57344.0, "float8_e5m2")}
#: Of the floats of a format: bits of the exponent and of the fraction, the largest, torchao's name.
_FLOATS: Dict[str, Tuple[int, int, float, str]] = {
    name: (int(element[1]), int(element[3]), *_ELEMENTS[element]) for _, name, element, width, _ in _c.TABLES["PTX_BLOCK_FORMATS"]
    if int(width) <= 32}


# ---- floats of few bits -------------------------------------------------------------------------


def _magnitudes(format: str, device: torch.device) -> Tensor:
    """The floats from 0 up, in the order of their codes."""
    exponents, fraction, largest, _ = _FLOATS[format]
    values: List[float] = []
    while not values or values[-1] < largest:
        power, rest = len(values) >> fraction, len(values) & ((1 << fraction) - 1)
        least = 2 - (1 << (exponents - 1)) - fraction  # of the exponent, in units of the last place
        values.append((rest + (1 << fraction if power else 0)) * 2.0 ** (max(power, 1) - 1 + least))
    return torch.tensor(values, dtype=torch.float32, device=device)


def _codes(r: Tensor, negative: Tensor, format: str) -> Tensor:
    """Of what is a float of the format within a rounding."""
    values = _magnitudes(format, r.device)
    found = torch.bucketize(r.abs(), (values[1:] + values[:-1]) / 2, out_int32=True).to(torch.uint8)
    return found + (negative.to(torch.uint8) << sum(_FLOATS[format][:2]))


def _values(codes: Tensor, format: str) -> Tensor:
    values = _magnitudes(format, codes.device)
    sign = 1 << sum(_FLOATS[format][:2])
    magnitudes = values[(codes & (sign - 1)).to(torch.int64)]
    return torch.where((codes & sign) != 0, -magnitudes, magnitudes)


def _packed(codes: Tensor) -> Tensor:
    return codes[:, ::2] + (codes[:, 1::2] << 4)


def _unpacked(packed: Tensor) -> Tensor:
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


def _power_of_2(biased: Tensor) -> Tensor:
    """2^(biased - 127), from 0 to 254."""
    bits = biased.to(torch.int32) << 23
    return torch.where(biased == 0, torch.full_like(bits, 1 << 22), bits).view(torch.float32)


def _typed(codes: Tensor, name: str) -> Tensor:
    """In torch's type of 8 bits, where it has it."""
    dtype = getattr(torch, name, None)
    return codes.view(dtype) if dtype is not None else codes


# ---- what is exported ---------------------------------------------------------------------------


class NVFP4Blocks(NamedTuple):
    """What torchao's NVFP4Tensor is made of, in the order of its arguments, of a matrix [N, K]: NVFP4Tensor(*codes)."""

    qdata: Tensor  #: uint8 [N, K / 2]: e2m1, the even element in the low half of a byte
    scale: Tensor  #: float8_e4m3fn [N, K / 16]; uint8 where torch has not the type
    block_size: int  #: 16
    orig_dtype: torch.dtype
    per_tensor_scale: Tensor  #: f32 [1]; weight = float * (per_tensor_scale * scale)

    def dequantize(self, dtype: Optional[torch.dtype] = None) -> Tensor:
        """The weight, as the codes and scales have it, in `dtype`, or in orig_dtype."""
        scale = _values(self.scale.view(torch.uint8), "mxfp8_e4m3")
        times = (self.per_tensor_scale * scale).repeat_interleave(self.block_size, 1)
        return (_values(_unpacked(self.qdata), "nvfp4") * times).to(dtype or self.orig_dtype)


class MXBlocks(NamedTuple):
    """What torchao's MXTensor is made of, in the order of its arguments, of a matrix [N, K]:
    MXTensor(*codes, KernelPreference.EMULATED, None, False)."""

    qdata: Tensor  #: mxfp8: float8 [N, K]; mxfp6: uint8 [N, K], a code a byte; mxfp4: uint8 [N, K / 2], the even element low
    scale: Tensor  #: float8_e8m0fnu [N, K / 32]; uint8 where torch has not the type
    elem_dtype: Any  #: as torchao names it: a dtype, "fp6_e3m2" or "fp6_e2m3"; a dtype's name where torch has not the type
    block_size: int  #: 32
    orig_dtype: torch.dtype

    def dequantize(self, dtype: Optional[torch.dtype] = None) -> Tensor:
        """The weight, as the codes and scales have it, in `dtype`, or in orig_dtype."""
        name = str(self.elem_dtype).replace("torch.", "")
        format = next(format for format, row in _FLOATS.items() if row[3] == name)
        codes = self.qdata.view(torch.uint8)
        if format == "nvfp4":  # whose floats mxfp4 has
            codes = _unpacked(codes)
        times = _power_of_2(self.scale.view(torch.uint8)).repeat_interleave(self.block_size, 1)
        return (_values(codes, format) * times).to(dtype or self.orig_dtype)


# ---- exports ------------------------------------------------------------------------------------


def _trained(function: str, weight: Any, format: str, two_dimensional: bool, dtype: Optional[torch.dtype]) -> Tuple[Tensor, torch.dtype]:
    """The weight in f32, and the type of what is exported."""
    _matrix(function, weight, "and pad its rows to whole blocks")
    _finite(function, "weight", weight)
    width = _FORMATS[format][0]
    if weight.shape[1] % width or (two_dimensional and weight.shape[0] % width):
        raise ValueError(f"{function}: weight is of {list(weight.shape)}: multiples of {width} are needed "
                         f"{'in both axes' if two_dimensional else 'in its rows'}, as blocks of {format} are whole")
    if dtype is None:
        dtype = weight.dtype if weight.dtype in _DTYPES else torch.float32
    if dtype not in _DTYPES:
        raise ValueError(f"{function}: dtype: {dtype} is none of {', '.join(map(str, _DTYPES))}")
    return weight.detach().to(torch.float32), dtype


def _quantized(function: str, x: Tensor, format: str, *how: Any, **more: Any) -> Tensor:
    y = fake_quantize_block(x, format, *how, **more)  # type: ignore[call-overload]
    lost = int((~y.isfinite()).sum())
    if lost:
        raise ValueError(f"{function}: weight: {lost} of {y.numel()} elements are NaN or infinite in {format}: the largest is near "
                         "f32's, or amax is not finite, or too small for like=\"torchao\", which divides by it")
    return y  # type: ignore[no-any-return]


def _ways(function: str, format: str, like: Optional[str], scale: Optional[str]) -> Tuple[str, str]:
    try:
        return _way(format, like, scale)
    except ValueError as error:
        raise ValueError(str(error).replace(_NAME, function)) from None


def _e4m3(x: Tensor) -> Tensor:
    """To the nearest float from 0 to 448, ties to even, in f32."""
    place = (x.view(torch.int32) >> 23).clamp(min=127 - 6) - 3
    unit = _power_of_2(place)
    return (x / unit).round() * unit


def export_nvfp4(weight: Union[Tensor, NVFP4Linear], amax: Optional[Tensor] = None, two_dimensional: bool = False,
                 like: Optional[Like] = None, *, block_amax: Union[Tensor, LearnedBlocks, None] = None,
                 dtype: Optional[torch.dtype] = None) -> NVFP4Blocks:
    """Codes and scales of a matrix in nvfp4, as torchao's NVFP4Tensor has them; dequantize() has the bits of
    fake_quantize_block(weight, "nvfp4", amax, two_dimensional, like=like, block_amax=block_amax).

    weight: or an NVFP4Linear, whose weight is taken as its forward pass does: in bf16, in blocks of 16 x 16, which are stored as
        rows of 16 with one scale.
    block_amax: learned amaxes, or the LearnedBlocks that has them, and `like`.
    dtype: in which the model will run: bf16 or f32. None: the weight's; f32 for f16."""
    name = "export_nvfp4()"
    if isinstance(weight, NVFP4Linear):
        if amax is not None or two_dimensional or like is not None or block_amax is not None:
            raise ValueError(f"{name}: weight is an NVFP4Linear, which has amax, two_dimensional, like and block_amax: leave them out")
        if dtype is None:
            dtype = weight.weight.dtype if weight.weight.dtype in _DTYPES else torch.float32
        weight, two_dimensional = weight.weight.detach().to(torch.bfloat16), True
    if isinstance(block_amax, LearnedBlocks):
        if like is not None:
            raise ValueError(f"{name}: like={like!r}, and block_amax is a LearnedBlocks, which has it: leave it out")
        like, block_amax = block_amax.like, block_amax.amax.detach()
    way = _ways(name, "nvfp4", like, None)[0]
    x, dtype = _trained(name, weight, "nvfp4", two_dimensional, dtype)
    rows, columns = x.shape
    high = 16 if two_dimensional else 1
    with torch.no_grad():
        if block_amax is None:
            most = x.abs().view(rows // high, high, columns // 16, 16).amax((1, 3))
        else:
            most = amaxes_of(name, block_amax, [x], True)[0].clamp(min=0)
        if amax is None:
            amax = most.max().view(1)
        y = _quantized(name, x, "nvfp4", amax, two_dimensional, like=way, block_amax=block_amax)
        of_tensor = amax.detach().view(1)

        def number(value: float) -> Tensor:  # torch multiplies by the reciprocal of a number on a GPU
            return torch.full_like(of_tensor, value)
        if way == "torchao":
            of_scale = of_tensor / number(2688)
            scale = _e4m3(((most / number(6)) / of_scale).clamp(2.0**-6, 448))
        else:
            back = (number(2688) / of_tensor).clamp(max=_FLT_MAX)
            back = torch.where((of_tensor == 0) | (back == 0), number(1), back)
            of_scale = number(1) / back
            scale = _e4m3((most * (back * (1 / 6))).clamp(max=448))
        scale = scale.repeat_interleave(high, 0)
        times = (of_scale * scale).repeat_interleave(16, 1)
        r = torch.where(times == 0, torch.zeros_like(y), y / times)
        return NVFP4Blocks(_packed(_codes(r, y.signbit(), "nvfp4")),
                           _typed(_codes(scale, torch.zeros_like(scale), "mxfp8_e4m3"), "float8_e4m3fn"), 16, dtype, of_scale)


def export_mx(weight: Tensor, format: Format, scale_rounding: Optional[ScaleRounding] = None, like: Optional[Like] = None, *,
              dtype: Optional[torch.dtype] = None) -> MXBlocks:
    """Codes and scales of a matrix in mxfp4, mxfp6_e3m2, mxfp6_e2m3, mxfp8_e4m3 or mxfp8_e5m2, as torchao's MXTensor has them;
    dequantize() has the bits of fake_quantize_block(weight, format, scale_rounding=scale_rounding, like=like).

    dtype: as of export_nvfp4()."""
    name = "export_mx()"
    _checks.choice(name, "format", format, [format for format in _FLOATS if format != "nvfp4"])
    way, rounding = _ways(name, format, like, scale_rounding)
    x, dtype = _trained(name, weight, format, False, dtype)
    _, _, largest, of_torchao = _FLOATS[format]
    with torch.no_grad():
        y = _quantized(name, x, format, scale_rounding=rounding, like=way)
        most = x.abs().view(x.shape[0], -1, 32).amax(-1)
        if rounding == "floor":
            greatest = math.frexp(largest)[1] - 1
            biased = ((most.view(torch.int32) >> 23) - greatest).clamp(min=0)
        else:
            part = (most * (1 / largest)).view(torch.int32)
            biased = torch.where(part <= 1 << 22, torch.zeros_like(part), (part + 0x7fffff) >> 23).clamp(max=254)
        r = y * _power_of_2(254 - biased).repeat_interleave(32, 1)
        codes = _codes(r, y.signbit(), format)
        qdata = _packed(codes) if format == "mxfp4" else _typed(codes, of_torchao)
        return MXBlocks(qdata, _typed(biased.to(torch.uint8), "float8_e8m0fnu"), getattr(torch, of_torchao, of_torchao), 32, dtype)

# SPDX-License-Identifier: MIT
"""What FlashOptim's optimizers (flashoptim 0.1.4) store: codes, scales and corrections as <ptxgen/rules.h> has
them for MASTER_24BIT, and its dicts."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from ._shortcuts import local

BLOCK = 32
_LEAST, _MOST_EACH = 1e-12, 2.0 ** 100
_NAN = torch.tensor(0x7fff, dtype=torch.int16).view(torch.float16)
_LARGEST = {torch.int8: 127, torch.int16: 32767}  # of corrections


# ---- numbers


def codes(padded: Tensor, signed: bool) -> Tuple[Tensor, Tensor]:
    """Codes and scales of blocks, a row each, in f32."""
    x = padded if signed else padded.sqrt()
    most = x.abs().amax(dim=1)
    largest = torch.where(most > _LEAST, most, torch.full_like(most, _LEAST))  # 1e-12 for NaN, as its codes are 0
    finite = torch.isfinite(most)
    n = x * (1 / largest)[:, None]
    if signed:
        n = n * (1 / (1 + n.abs()))
    found = (n.double() * (254 if signed else 255) + 0.5).floor()
    found = torch.where(finite[:, None], found, torch.zeros_like(found))
    scale = torch.where(finite, largest.to(torch.float16), _NAN.to(most.device))
    return found.to(torch.int8 if signed else torch.uint8), scale


def values(part: Tensor, scale: Tensor, signed: bool) -> Tensor:
    """States in f32, from codes and the f16 of each."""
    q, wide = part.to(torch.float32), scale.to(torch.float32)
    if signed:
        return q * (1 / (254 - q.abs())) * wide
    each = (wide * _rounded(1 / 255)).abs()
    root = q * torch.where(each > _MOST_EACH, torch.full_like(each, _MOST_EACH), each)
    return root * root


def _rounded(x: float) -> float:
    return float(torch.tensor(x, dtype=torch.float32))


def _half(parameter: Tensor) -> Tensor:
    """Half the distance of two parameters there, in f32, and of bf16 at least 2^-126."""
    bits = parameter.detach().to(torch.float32).view(torch.int32) & 0x7f800000
    below, least = (11 << 23, 102 << 23) if parameter.dtype is torch.float16 else (8 << 23, 1 << 23)
    return (bits - below).clamp(min=least).view(torch.float32)


def whole(parameter: Tensor, correction: Tensor) -> Tensor:
    """The f32 that the rule works on. A correction of 16 bits is that of master_weight_bits=32."""
    near = parameter.detach().to(torch.float32)
    part = correction.to(torch.float32) * _rounded(1 / _LARGEST[correction.dtype])
    exact = (near.double() + part.double() * _half(parameter).double()).to(torch.float32)  # nothing is lost in f64
    return torch.where(torch.isfinite(near), exact, near)


def corrections(parameter: Tensor, exact: Tensor) -> Tensor:
    """Those of 8 bits; at most 127, where the parameter is not the f32 rounded."""
    near = parameter.detach().to(torch.float32)
    part = ((exact - near) / _half(parameter)).clamp(-1, 1).double() * 127
    usable = torch.isfinite(near) & torch.isfinite(exact)
    return torch.where(usable, part, torch.zeros_like(part)).round().to(torch.int8)


# ---- dicts


def are_theirs(states: Any) -> bool:
    """Whether a parameter's states have their names."""
    return isinstance(states, dict) and any(
        isinstance(name, str) and (name == "error_bits" or name.endswith("::quantized")) for name in states)


def converted(states: Dict[str, Any], names: Tuple[str, ...], group: Dict[str, Any]) -> Dict[str, Any]:
    """The same states by the names of here."""
    left = dict(states)
    made: Dict[str, Any] = {"step": left.pop("step")} if "step" in left else {} if "exp_avg_sq" in names else {"step": 1}
    for name in names:
        given, scale = left.pop(f"{name}::quantized", None), left.pop(f"{name}::scales", None)
        if given is None:
            made.update({name: left.pop(name)} if name in left else {})
            continue
        if not isinstance(given, Tensor) or not isinstance(scale, Tensor) or scale.dtype not in (torch.float16, torch.bfloat16):
            raise ValueError(f"{name}::quantized of FlashOptim is not beside {name}::scales in float16, or in bfloat16 of "
                             f"the same bits: {scale!r:.80}")
        made[name] = given if given.dtype in (torch.int8, torch.uint8) else _integers(f"{name}::quantized", given, name)
        made[f"{name}_scale"] = scale.view(torch.float16)
    errors = left.pop("error_bits", None)
    if errors is not None:
        made["correction"] = _corrections(errors, group)
    if left:
        raise ValueError(f"{', '.join(map(str, left))} of FlashOptim: nothing here does what these states are for. "
                         "Delete them from the dict to go on without it")
    return made


def _integers(what: str, given: Any, name: str) -> Tensor:
    """Codes that torch's load_state_dict() cast to the parameter's type, without loss."""
    if not isinstance(given, Tensor) or not given.is_floating_point():
        raise ValueError(f"{what} of FlashOptim is no tensor of codes: {given!r:.80}")
    return given.to(torch.uint8 if name == "exp_avg_sq" else torch.int8)


def _corrections(errors: Any, group: Dict[str, Any]) -> Tensor:
    width = group.get("master_bytewidth")
    if isinstance(errors, Tensor) and errors.dtype in _LARGEST:
        return errors
    if width not in (3, 4):
        raise ValueError(f"error_bits of FlashOptim, and master_bytewidth of its group is {width!r}, where 3 or 4 says "
                         "how they are stored")
    if not isinstance(errors, Tensor) or errors.element_size() != 2:
        raise ValueError(f"error_bits of FlashOptim is no tensor of integers in 16 bits or less: {errors!r:.80}")
    return errors.to(torch.int8) if width == 3 else errors.view(torch.int16)


def given_back(states: Dict[str, Any], names: Tuple[str, ...], dtype: torch.dtype) -> Dict[str, Any]:
    """States in this format, or in f32, as its compressed state_dict() has them: what torch's load_state_dict() casts
    to the parameter's type comes through."""
    made: Dict[str, Any] = {}
    for name, value in states.items():
        if name == "step":
            made[name] = local(value).detach().to("cpu", torch.int64)
        elif name == "correction":
            made["error_bits"] = value.to(dtype)
        elif name in names and f"{name}_scale" in states:
            scale = states[f"{name}_scale"]
            made[f"{name}::quantized"] = value
            made[f"{name}::scales"] = scale.flatten().view(dtype)
        elif name in names:
            made[name] = value
    return made


def group_of(group: Dict[str, Any]) -> Dict[str, Any]:
    """A group's settings, without those that say how states are stored."""
    return {key: value for key, value in group.items() if key not in ("master_bytewidth", "quantize")}


def group_given_back(group: Dict[str, Any]) -> Dict[str, Any]:
    """A group's settings, with those that its load_state_dict() looks for."""
    return {**group, "master_bytewidth": 3, "quantize": True, "initial_lr": group.get("initial_lr", group["lr"])}

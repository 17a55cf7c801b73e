# SPDX-License-Identifier: MIT
"""How states are stored: which format of <ptxgen/rules.h> a parameter gets, its tensors, and what
becomes of states that were stored otherwise."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .._library import c
from ..plans import BLOCK
from ._ranks import DTensor, local

STATE_DTYPES = ("float32", "master", "remainder", "bf16", "8bit")
SMALL = 4096  # below this many elements, states of the 8-bit mode are f32


class Format(NamedTuple):
    """A format by its name in the library; the type of a state, and of what is beside the parameter."""

    name: str
    state: torch.dtype
    beside: Optional[str] = None
    beside_dtype: Optional[torch.dtype] = None


_FULL = Format("full", torch.float32)
_MASTER = Format("master", torch.float32, "master", torch.float32)
_REMAINDER = Format("remainder", torch.float32, "remainder", torch.int16)
_8BIT = Format("state_8bit", torch.uint8)
_FORMATS: Dict[Tuple[str, torch.dtype], Format] = {
    ("float32", torch.float32): _FULL, ("float32", torch.bfloat16): _MASTER,
    ("float32", torch.float16): _MASTER,
    ("master", torch.float32): _FULL, ("master", torch.bfloat16): _MASTER,
    ("master", torch.float16): _MASTER,
    ("remainder", torch.float32): _FULL, ("remainder", torch.bfloat16): _REMAINDER,
    ("bf16", torch.float32): Format("state_bf16", torch.bfloat16),
    ("bf16", torch.bfloat16): Format("stochastic", torch.bfloat16),
    ("8bit", torch.float32): _8BIT, ("8bit", torch.bfloat16): _8BIT,
}
ROUNDED = ("stochastic", "state_8bit")  # formats with random bits, for parameters in bf16


def format_of(parameter: Tensor, state_dtype: str) -> Format:
    """The format of a parameter's states."""
    found = _FORMATS.get((state_dtype, parameter.dtype))
    if found is None:
        raise ValueError(f"state_dtype={state_dtype!r} is not for parameters in {parameter.dtype}; "
                         "use torch.optim for them, or another state_dtype")
    if found is _8BIT and parameter.numel() < SMALL:
        return _FORMATS["float32", parameter.dtype]
    return found


class States(dict):  # type: ignore[type-arg]
    """The states of a parameter: a dict that counts changes, so that a step need not look at each
    state."""

    changes = 0  # of all

    def _counted(name: str) -> Any:  # type: ignore[misc]
        method = getattr(dict, name)

        def counted(self: Any, *arguments: Any, **named: Any) -> Any:
            States.changes += 1
            return method(self, *arguments, **named)
        return counted

    for _name in ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault",
                  "update"):
        if hasattr(dict, _name):
            locals()[_name] = _counted(_name)
    del _name, _counted


def _like(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros_like(parameter, dtype=dtype, requires_grad=False)


def fresh(parameter: Tensor, fmt: Format, names: Tuple[str, ...]) -> Dict[str, Tensor]:
    """The states of a parameter before its first step."""
    made = {"step": torch.zeros((), dtype=torch.float32, device=local(parameter).device)}
    for name in names:
        made[name] = _like(parameter, fmt.state)
        if fmt is _8BIT:
            made[name + "_absmax"] = _absmax_like(parameter)
    if fmt.beside == "master":
        made["master"] = parameter.detach().to(torch.float32)
    elif fmt.beside == "remainder":
        made["remainder"] = _like(parameter, torch.int16)
    return made


# ---- 8-bit states: codes of the parameter's shape, and an absmax for each 256 of them


def _absmax_like(parameter: Any) -> Tensor:
    """Zeros for each block. Those of a DTensor are placed as it is, which needs rows of whole blocks."""
    shape, here = tuple(parameter.shape), local(parameter)
    rows = len(shape) > 0 and shape[-1] % BLOCK == 0
    if not isinstance(parameter, DTensor):
        size = (*shape[:-1], shape[-1] // BLOCK) if rows else (-(-here.numel() // BLOCK),)
        return torch.zeros(size, dtype=torch.float32, device=here.device)
    if not rows or here.shape[-1] % BLOCK:
        raise ValueError(
            f"a parameter of shape {shape}, of which this rank has {tuple(here.shape)}: 8-bit states "
            f"are in blocks of {BLOCK} elements, and ranks cannot share one. The last dimension, and "
            "each rank's part of it, must be a multiple: use another state_dtype, or place it otherwise")
    part = torch.zeros((*here.shape[:-1], here.shape[-1] // BLOCK), dtype=torch.float32,
                       device=here.device)
    size = torch.Size((*shape[:-1], shape[-1] // BLOCK))
    return DTensor.from_local(part, parameter.device_mesh, parameter.placements, run_check=False,  # type: ignore[no-any-return]
                              shape=size, stride=torch.empty(size, device="meta").stride())


def _placed_absmax(absmax: Tensor, parameter: Tensor) -> Tensor:
    wanted = _absmax_like(parameter)
    if isinstance(absmax, DTensor) == isinstance(wanted, DTensor) and absmax.shape == wanted.shape:
        return absmax.detach().to(local(parameter).device)
    return _placed(absmax.reshape(wanted.shape), wanted, "an absmax")


def _is_signed(name: str) -> bool:
    return name != "exp_avg_sq"


def _map(signed: bool, device: torch.device) -> Tensor:
    """The values of the codes."""
    table = (ctypes.c_float * 256)()
    c.ptx_step_map(signed, table)
    return torch.tensor(list(table), dtype=torch.float32, device=device)


def _as(part: Tensor, like: Any) -> Tensor:
    """A tensor placed as another, from this rank's part."""
    if not isinstance(like, DTensor):
        return part
    return DTensor.from_local(part, like.device_mesh, like.placements, run_check=False,  # type: ignore[no-any-return]
                              shape=like.shape, stride=like.stride())


def _in_order(part: Tensor) -> Tensor:
    """The elements in the order of memory."""
    return part.as_strided((part.numel(),), (1,), part.storage_offset())


def dequantized(codes: Tensor, absmax: Any, signed: bool) -> Tensor:
    """States in f32 from codes and what scales them."""
    part = local(codes)
    scale = local(absmax).to(part.device).flatten().repeat_interleave(BLOCK)[:part.numel()]
    values = _map(signed, part.device)[_in_order(part).long()] * scale
    values = torch.where(scale == 0, torch.zeros_like(values), values)
    made = torch.empty_like(part, dtype=torch.float32)
    _in_order(made).copy_(values)
    return _as(made, codes)


def _quantized(value: Tensor, parameter: Tensor, signed: bool) -> Tuple[Tensor, Tensor]:
    """Codes and absmax of states in another type, as <ptxgen/rules.h> says."""
    part = local(value)
    flat = _in_order(part).to(torch.float32)
    padded = torch.nn.functional.pad(flat, (0, -flat.numel() % BLOCK)).reshape(-1, BLOCK)
    most = padded.abs().amax(dim=1)
    finite, large = torch.isfinite(most), most >= 2.0 ** -126
    q = padded * (1 / torch.where(finite & large, most, torch.ones_like(most)))[:, None]
    q = ((q.view(torch.int32) & ~0xff) | 0x80).view(torch.float32)
    table = _map(signed, part.device)
    middles = (table[1:].double() + table[:-1].double()) / 2
    codes = torch.bucketize(q.double(), middles)
    zero = int((table == 0).nonzero()[0])
    codes = torch.where((finite & large)[:, None], codes, torch.full_like(codes, zero))
    most = torch.where(finite, torch.where(large, most, torch.zeros_like(most)),
                       torch.full_like(most, float("nan")))
    made, absmax = _like(parameter, torch.uint8), _absmax_like(parameter)
    _in_order(local(made)).copy_(codes.flatten()[:flat.numel()].to(torch.uint8))
    local(absmax).copy_(most.reshape(local(absmax).shape))
    return made, absmax


# ---- states from elsewhere


def _bits(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.detach().view(dtype)


def _whole_bits(parameter: Tensor, remainder: Tensor) -> Tensor:
    """The f32 whose halves are parameter and remainder."""
    upper = _bits(parameter, torch.int16).to(torch.int32) << 16
    return _bits(upper + remainder.to(torch.int32), torch.float32)


def _remainder_of(parameter: Tensor, master: Tensor) -> Tensor:
    """The remainder of an f32, which is 0 where the parameter is not its upper half."""
    bits = _bits(master, torch.int32)
    upper = ((bits + 0x8000) >> 16).to(torch.int16)
    low = bits.to(torch.int16)
    return torch.where(upper == _bits(parameter, torch.int16), low, torch.zeros_like(low))


_AT_ONCE = 1 << 24  # elements, which take 11 bytes each for a while


def follow(parameter: Tensor, master: Tensor) -> None:
    """Makes the master anew where the parameter is not what it rounds to: others wrote there."""
    whole, halves = _in_order(local(master)), _in_order(local(parameter).detach())
    for at in range(0, whole.numel(), _AT_ONCE):
        part, half = whole[at:at + _AT_ONCE], halves[at:at + _AT_ONCE]
        part.copy_(torch.where(part.to(half.dtype) == half, part, half.to(torch.float32)))


def _placed(value: Tensor, parameter: Any, name: str) -> Tensor:
    """A state where its parameter is: the device, and the mesh."""
    if isinstance(parameter, DTensor) and not isinstance(value, DTensor):
        if value.shape == parameter.shape:
            from torch.distributed.tensor import distribute_tensor
            return distribute_tensor(value.to(local(parameter).device), parameter.device_mesh,
                                     parameter.placements)
    if value.shape != parameter.shape:
        raise ValueError(f"{name} has the shape {tuple(value.shape)}, and its parameter "
                         f"{tuple(parameter.shape)}")
    return value.to(local(parameter).device)


def _in_same_order(value: Tensor, parameter: Tensor) -> bool:
    """Whether the elements follow one another in memory as the parameter's."""
    if isinstance(value, DTensor) and isinstance(parameter, DTensor):
        value, parameter = local(value), local(parameter)
    return all(size <= 1 or a == b
               for size, a, b in zip(value.shape, value.stride(), parameter.stride()))


def _laid_out(value: Tensor, parameter: Tensor) -> Tensor:
    """With the parameter's strides, element by element."""
    if local(value).stride() == local(parameter).stride() or not parameter.numel():
        return value
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def check(given: Dict[str, Any], names: Tuple[str, ...]) -> None:
    """Whether the tensors are states. Raises a ValueError that says which is not, and why."""
    for name in (*names, "master", "remainder"):
        value = given.get(name)
        if value is None:
            continue
        kinds = {"master": (torch.float32,), "remainder": (torch.int16,)}.get(name)
        _check_kind(name, value, kinds)
        if value.dtype is not torch.uint8:
            continue
        absmax, blocks = given.get(name + "_absmax"), -(-value.numel() // BLOCK)
        if absmax is None:
            raise ValueError(f"{name} has codes of 8 bits, and there is no {name}_absmax")
        _check_kind(name + "_absmax", absmax, (torch.float32,))
        if absmax.numel() != blocks:
            raise ValueError(f"{name}_absmax has {absmax.numel()} elements, and {name} needs {blocks}: one for "
                             f"each {BLOCK} of its {value.numel()} codes")


def _check_kind(name: str, value: Any, kinds: Optional[Tuple[torch.dtype, ...]] = None) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is a {type(value).__name__}, and no tensor: {value!r:.80}")
    fits = value.dtype in kinds if kinds else value.is_floating_point() or value.dtype is torch.uint8
    if not fits or value.layout is not torch.strided:
        raise ValueError(f"{name} is of {value.dtype}, {value.layout}, which is not how it is stored")


def check_count(step: Any) -> None:
    """Whether it is a number of steps. Waits for the GPU where the tensor is there."""
    one = local(step) if isinstance(step, Tensor) else step
    if isinstance(one, Tensor) and (one.numel() != 1 or one.is_complex()):
        raise ValueError(f"step is a tensor of {one.numel()} elements of {one.dtype}, and a number is needed")
    try:
        count = float(one)
    except (TypeError, ValueError):
        raise ValueError(f"step is a {type(step).__name__}, and no number: {step!r:.80}") from None
    if not (0 <= count < math.inf and count == math.floor(count)):
        raise ValueError(f"step is {count:g}, which is no number of steps")


def adopt(parameter: Tensor, given: Dict[str, Any], fmt: Format, names: Tuple[str, ...],
          now: bool = True) -> Dict[str, Any]:
    """States as the format stores them, from those of torch.optim or of any format here. Tensors that
    fit already stay. now: whether the parameter is what it will be at the next step; else what depends
    on it is left to that step, which finds that the states do not fit."""
    check(given, names)
    device = local(parameter).device
    made_here = {"step", "master", "remainder", *names, *(name + "_absmax" for name in names)}
    states: Dict[str, Any] = {name: value for name, value in given.items() if name not in made_here}
    step = given.get("step")
    if names == ("momentum_buffer",) and given.get("momentum_buffer") is None:
        step = 0.0  # the first step is that without a buffer, whatever was counted without momentum
    elif step is None:  # torch's SGD has no count
        step = 0.0 if given.get(names[0] if names else "") is None else 1.0
    if not isinstance(step, Tensor):
        step = torch.tensor(float(step), dtype=torch.float32)
    states["step"] = local(step).detach().to(device=device, dtype=torch.float32).reshape(())
    for name in names:
        value = given.get(name)
        if value is None:
            states.update({k: v for k, v in fresh(parameter, fmt, (name,)).items()
                           if k.startswith(name)})
            continue
        value, absmax = value.detach(), given.get(name + "_absmax")
        if value.dtype is torch.uint8 and (fmt is not _8BIT or not _in_same_order(value, parameter)):
            value = dequantized(value, absmax, _is_signed(name))  # blocks go by the order of memory
        value = _laid_out(_placed(value, parameter, name), parameter)
        if fmt is not _8BIT:
            states[name] = value if value.dtype is fmt.state else value.to(fmt.state)
        elif value.dtype is torch.uint8 and absmax is not None:
            states[name], states[name + "_absmax"] = value, _placed_absmax(absmax, parameter)
        else:
            states[name], states[name + "_absmax"] = _quantized(value, parameter, _is_signed(name))
    if fmt.beside:
        other = "remainder" if fmt.beside == "master" else "master"
        if given.get(fmt.beside) is not None:
            beside = _laid_out(_placed(given[fmt.beside].detach(), parameter, fmt.beside), parameter)
            states[fmt.beside] = beside.to(fmt.beside_dtype)
        elif now:
            beside = _laid_out(_beside(parameter, given, fmt.beside), parameter)
            states[fmt.beside] = beside.to(fmt.beside_dtype)
        elif given.get(other) is not None:
            states[other] = _placed(given[other].detach(), parameter, other)
    return states


def _beside(parameter: Tensor, given: Dict[str, Any], which: str) -> Tensor:
    """The master from a remainder, the remainder from a master, or either from the parameter alone."""
    with torch.no_grad():
        if which == "master" and given.get("remainder") is not None:
            return _whole_bits(parameter, _placed(given["remainder"], parameter, "remainder"))
        if which == "master":
            return parameter.detach().to(torch.float32)
        if given.get("master") is not None:
            return _remainder_of(parameter, _placed(given["master"], parameter, "master"))
        return _like(parameter, torch.int16)


def to_torch(states: Dict[str, Any], names: Tuple[str, ...], on_device: bool) -> Dict[str, Any]:
    """States as torch.optim has them: f32, and nothing beside the parameter."""
    made: Dict[str, Any] = {}
    for name, value in states.items():
        if name == "step":
            made[name] = value if on_device else value.cpu()
        elif name in names:
            if value.dtype is torch.uint8:
                value = dequantized(value, states[name + "_absmax"], _is_signed(name))
            made[name] = value if value.dtype is torch.float32 else value.to(torch.float32)
        elif name not in ("master", "remainder") and not name.endswith("_absmax"):
            made[name] = value
    return made


def fits(parameter: Tensor, states: Dict[str, Any], fmt: Format, names: Tuple[str, ...]) -> bool:
    """Whether the states are stored as the format wants them, where the parameter is."""
    here = local(parameter)
    wanted = {name: fmt.state for name in names}
    if fmt.beside:
        wanted[fmt.beside] = fmt.beside_dtype  # type: ignore[assignment]
    if fmt is _8BIT:
        for name in names:
            absmax = states.get(name + "_absmax")
            if (not isinstance(absmax, Tensor) or local(absmax).device != here.device
                    or absmax.dtype is not torch.float32
                    or local(absmax).numel() != -(-here.numel() // BLOCK)):
                return False
    step = states.get("step")
    if not isinstance(step, Tensor) or step.device != here.device or step.dtype is not torch.float32:
        return False
    for name, dtype in wanted.items():
        state = states.get(name)
        if not isinstance(state, Tensor) or isinstance(state, DTensor) != isinstance(parameter, DTensor):
            return False
        part = local(state)
        if (part.dtype is not dtype or part.device != here.device or part.shape != here.shape
                or here.numel() and part.stride() != here.stride()):
            return False
    return True

# SPDX-License-Identifier: MIT
"""How states are stored: which format of <ptxgen/rules.h> a parameter gets, its tensors, and what
becomes of states that were stored otherwise."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ._ranks import DTensor, local

STATE_DTYPES = ("float32", "master", "remainder", "bf16", "8bit")
SMALL = 4096  # below this many elements, states of the 8-bit mode are f32
BLOCK = 256  # elements that share an absmax


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
    if fmt.beside == "master":
        made["master"] = parameter.detach().to(torch.float32)
    elif fmt.beside == "remainder":
        made["remainder"] = _like(parameter, torch.int16)
    return made


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


def _placed(value: Tensor, parameter: Any) -> Tensor:
    """A state where its parameter is: the device, and the mesh."""
    if isinstance(parameter, DTensor) and not isinstance(value, DTensor):
        if value.shape == parameter.shape:
            from torch.distributed.tensor import distribute_tensor
            return distribute_tensor(value.to(local(parameter).device), parameter.device_mesh,
                                     parameter.placements)
    if value.shape != parameter.shape:
        raise ValueError(f"a state of shape {tuple(value.shape)} for a parameter of shape "
                         f"{tuple(parameter.shape)}")
    return value.to(local(parameter).device)


def _laid_out(value: Tensor, parameter: Tensor) -> Tensor:
    """With the parameter's strides, element by element."""
    if local(value).stride() == local(parameter).stride() or not parameter.numel():
        return value
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def adopt(parameter: Tensor, given: Dict[str, Any], fmt: Format,
          names: Tuple[str, ...]) -> Dict[str, Any]:
    """States as the format stores them, from those of torch.optim or of any format here. Tensors that
    fit already stay."""
    device = local(parameter).device
    states: Dict[str, Any] = {
        name: value for name, value in given.items()
        if name not in ("step", "master", "remainder") and not name.endswith("_absmax")
        and name not in names}
    step = given.get("step")
    if step is None:  # torch's SGD has no count; its first step is that without a buffer
        step = 0.0 if given.get(names[0] if names else "") is None else 1.0
    if not isinstance(step, Tensor):
        step = torch.tensor(float(step), dtype=torch.float32)
    states["step"] = local(step).detach().to(device=device, dtype=torch.float32).reshape(())
    for name in names:
        value = given.get(name)
        if value is None:
            states[name] = _like(parameter, fmt.state)
            continue
        value = _laid_out(_placed(value.detach(), parameter), parameter)
        states[name] = value if value.dtype is fmt.state else value.to(fmt.state)
    if fmt.beside:
        beside = given.get(fmt.beside)
        if beside is None:
            beside = _beside(parameter, given, fmt.beside)
        beside = _laid_out(_placed(beside.detach(), parameter), parameter)
        states[fmt.beside] = beside.to(fmt.beside_dtype)
    return states


def _beside(parameter: Tensor, given: Dict[str, Any], which: str) -> Tensor:
    """The master from a remainder, the remainder from a master, or either from the parameter alone."""
    with torch.no_grad():
        if which == "master" and given.get("remainder") is not None:
            return _whole_bits(parameter, _placed(given["remainder"], parameter))
        if which == "master":
            return parameter.detach().to(torch.float32)
        if given.get("master") is not None:
            return _remainder_of(parameter, _placed(given["master"], parameter))
        return _like(parameter, torch.int16)


def to_torch(states: Dict[str, Any], names: Tuple[str, ...], on_device: bool) -> Dict[str, Any]:
    """States as torch.optim has them: f32, and nothing beside the parameter."""
    made: Dict[str, Any] = {}
    for name, value in states.items():
        if name == "step":
            made[name] = value if on_device else value.cpu()
        elif name in names:
            made[name] = value if value.dtype is torch.float32 else value.to(torch.float32)
        elif name not in ("master", "remainder"):
            made[name] = value
    return made


def fits(parameter: Tensor, states: Dict[str, Any], fmt: Format, names: Tuple[str, ...]) -> bool:
    """Whether the states are stored as the format wants them, where the parameter is."""
    here = local(parameter)
    wanted = {name: fmt.state for name in names}
    if fmt.beside:
        wanted[fmt.beside] = fmt.beside_dtype  # type: ignore[assignment]
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

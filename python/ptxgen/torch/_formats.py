# SPDX-License-Identifier: MIT
"""How states are stored: which format of <ptxgen/rules.h> a parameter gets, its tensors, and what
becomes of states that were stored otherwise."""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import Any, Callable, Dict, FrozenSet, Literal, NamedTuple, Optional, Tuple, get_args

import torch
from torch import Tensor

from .._library import c
from .._plan_fields import BLOCK
from ..rules import Rule
from . import _flashoptim
from ._ranks import DTensor
from ._shortcuts import local

StateDtype = Literal["float32", "master", "remainder", "bf16", "8bit", "f16", "24bit"]
STATE_DTYPES: Tuple[str, ...] = get_args(StateDtype)
EmaDtype = Literal["float32", "bf16"]
EMA_DTYPES: Dict[str, torch.dtype] = dict(zip(get_args(EmaDtype), (torch.float32, torch.bfloat16)))
SMALL = 4096  # below this many elements, states that would be in blocks of 256 are f32


class Format(NamedTuple):
    """A format by its name in the library; the type of a state, and of what is beside the parameter; what
    that is called that a block of states shares, its type, and the block's elements; the type of states with both
    signs, if another; the type of the average of the weights."""

    name: str
    state: torch.dtype
    beside: Optional[str] = None
    beside_dtype: Optional[torch.dtype] = None
    scale: Optional[str] = None
    scale_dtype: torch.dtype = torch.float32
    block: int = BLOCK
    signed: Optional[torch.dtype] = None
    ema: Optional[torch.dtype] = None

    def scales(self, names: Tuple[str, ...]) -> Tuple[str, ...]:
        """The names of what scales the states."""
        return tuple(f"{name}_{self.scale}" for name in names if name not in fixed(names)) if self.scale else ()

    def of(self, name: str, names: Tuple[str, ...]) -> torch.dtype:
        """The type of a state."""
        usual = self.signed if self.signed is not None and is_signed(name, names) else self.state
        return fixed(names).get(name, usual)


_FULL = Format("full", torch.float32)
_MASTER = Format("master", torch.float32, "master", torch.float32)
_REMAINDER = Format("remainder", torch.float32, "remainder", torch.int16)
_STOCHASTIC = Format("stochastic", torch.bfloat16)
_8BIT = Format("state_8bit", torch.uint8, scale="absmax")
_F16 = Format("state_f16", torch.float16, scale="scale")
_24BIT = Format("master_24bit", torch.uint8, "correction", torch.int8, "scale", torch.float16, _flashoptim.BLOCK,
                torch.int8)
_BESIDE = ("master", "remainder", "correction")  # what may be beside a parameter
_FORMATS: Dict[Tuple[str, torch.dtype], Format] = {
    ("float32", torch.float32): _FULL, ("float32", torch.bfloat16): _MASTER,
    ("float32", torch.float16): _MASTER,
    ("master", torch.float32): _FULL, ("master", torch.bfloat16): _MASTER,
    ("master", torch.float16): _MASTER,
    ("remainder", torch.float32): _FULL, ("remainder", torch.bfloat16): _REMAINDER,
    ("bf16", torch.float32): Format("state_bf16", torch.bfloat16),
    ("bf16", torch.bfloat16): _STOCHASTIC, ("bf16", torch.float16): _STOCHASTIC,
    ("8bit", torch.float32): _8BIT, ("8bit", torch.bfloat16): _8BIT, ("8bit", torch.float16): _8BIT,
    ("f16", torch.float32): _F16, ("f16", torch.bfloat16): _F16, ("f16", torch.float16): _F16,
    ("24bit", torch.float32): _FULL, ("24bit", torch.bfloat16): _24BIT, ("24bit", torch.float16): _24BIT,
}
ROUNDED = ("stochastic", "state_8bit", "state_f16")  # formats with random bits, for parameters in 16 bits


def format_of(parameter: Tensor, state_dtype: str, ema: Optional[torch.dtype] = None) -> Format:
    """The format of a parameter's states."""
    found = _FORMATS.get((state_dtype, parameter.dtype))
    if found is None:
        raise ValueError(f"state_dtype={state_dtype!r} is not for parameters in {parameter.dtype}; "
                         "use torch.optim for them, or another state_dtype")
    if found.scale and parameter.numel() < SMALL and (found is not _24BIT or isinstance(parameter, DTensor)):
        found = _FORMATS["float32", parameter.dtype]
    return found if ema is None else found._replace(ema=ema)


class Names(Tuple[str, ...]):
    """The states of a rule of the caller's: which are never below 0, which have a type of their own, which are only
    written, and what numbers of its clock lie behind the count; whether it has weights to evaluate with."""

    positive: FrozenSet[str] = frozenset()
    outputs: FrozenSet[str] = frozenset()
    fixed: Dict[str, torch.dtype] = {}
    clocks: Tuple[str, ...] = ()
    evaluates = False

    @classmethod
    def of(cls, rule: Rule) -> "Names":
        made = cls(rule.states)
        made.positive = frozenset(name for name, state in rule.states.items() if state.kind == "positive")
        made.outputs = frozenset(name for name, state in rule.states.items() if state.output)
        made.fixed = {name: _TYPES[state.dtype] for name, state in rule.states.items() if state.dtype}
        made.clocks, made.evaluates = tuple(rule.clock), rule.evaluates
        return made


_TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def fixed(names: Tuple[str, ...]) -> Dict[str, torch.dtype]:
    """The states of one type in every format."""
    return names.fixed if isinstance(names, Names) else {}


def _clock(names: Tuple[str, ...]) -> int:
    return len(_clocks(names))


def _clocks(names: Tuple[str, ...]) -> Tuple[str, ...]:
    return names.clocks if isinstance(names, Names) else ()


def with_clock(states: Any, names: Tuple[str, ...]) -> Any:
    """States as torch.optim has them, each number of a clock by its name, as states of ours."""
    own = _clocks(names)
    if own and isinstance(states, dict) and "clock" not in states:
        there = [name for name in own if states.get(name) is not None]
        if there and len(there) < len(own):
            missing = next(name for name in own if name not in there)
            raise KeyError(f"there is no {missing} among its states, which has {there[0]} of the rule's clock")
    if not own or not isinstance(states, dict) or "clock" in states or any(states.get(name) is None for name in own):
        return states
    try:
        numbers = torch.tensor([float(states[name]) for name in own], dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{', '.join(own)} among the states: a number each is needed") from None
    return {**{name: value for name, value in states.items() if name not in own}, "clock": numbers}


def _cell(count: int, device: Any) -> Tuple[Tensor, Tensor]:
    """A step count, and the numbers of a clock behind it."""
    cell = torch.zeros(1 + count, dtype=torch.float64, device=device)
    return cell.view(torch.float32)[0], cell[1:]


class States(dict):  # type: ignore[type-arg]
    """The states of a parameter: a dict that counts changes, so that a step need not look at each
    state."""

    changes = 0  # of all: a number that is never had again, whichever threads change states
    _numbers = itertools.count(1)

    def _counted(name: str) -> Any:  # type: ignore[misc]
        method = getattr(dict, name)

        def counted(self: Any, *arguments: Any, **named: Any) -> Any:
            States.changes = next(States._numbers)
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
    if _clock(names):
        made["step"], made["clock"] = _cell(_clock(names), local(parameter).device)
    for name in names:
        made.update(_zeros(parameter, fmt, name, names))
    if fmt.beside == "master":
        made["master"] = parameter.detach().to(torch.float32)
    elif fmt.beside is not None and fmt.beside_dtype is not None:
        made[fmt.beside] = _like(parameter, fmt.beside_dtype)
    if fmt.ema is not None:
        made["ema"] = parameter.detach().to(fmt.ema, copy=True)
    return made


def _zeros(parameter: Tensor, fmt: Format, name: str, names: Tuple[str, ...]) -> Dict[str, Tensor]:
    """A state before the first step, and what scales it."""
    made = {name: _like(parameter, fmt.of(name, names))}
    if fmt.scale and name not in fixed(names):
        made[f"{name}_{fmt.scale}"] = _scale_like(parameter, fmt)
    return made


# ---- states in blocks: codes of the parameter's shape, and an absmax or a scale for each 256 or 32 of them


def _all_scales(names: Tuple[str, ...]) -> Tuple[str, ...]:
    return _8BIT.scales(names) + _F16.scales(names)


_ALL_SCALES = _all_scales(("exp_avg", "exp_avg_sq", "momentum_buffer"))


def _coded(given: Dict[str, Any], name: str) -> Optional[Format]:
    """The format whose codes a state is; None: numbers."""
    dtype, scaled = given[name].dtype, given.get(f"{name}_{_F16.scale}") is not None
    if dtype is _24BIT.signed or dtype is _24BIT.state and scaled:
        return _24BIT
    if dtype is _8BIT.state:
        return _8BIT
    return _F16 if dtype is _F16.state and scaled else None


def _scale_like(parameter: Any, fmt: Format) -> Tensor:
    """Zeros for each block. Those of a DTensor are placed as it is, which needs rows of whole blocks."""
    shape, here = tuple(parameter.shape), local(parameter)
    rows = len(shape) > 0 and shape[-1] % fmt.block == 0
    if not isinstance(parameter, DTensor):
        size = (*shape[:-1], shape[-1] // fmt.block) if rows else (-(-here.numel() // fmt.block),)
        return torch.zeros(size, dtype=fmt.scale_dtype, device=here.device)
    if not rows or here.shape[-1] % fmt.block:
        raise ValueError(
            f"a parameter of shape {shape}, of which this rank has {tuple(here.shape)}: its states "
            f"are in blocks of {fmt.block} elements, and ranks cannot share one. The last dimension, and "
            "each rank's part of it, must be a multiple: use another state_dtype, or place it otherwise")
    part = torch.zeros((*here.shape[:-1], here.shape[-1] // fmt.block), dtype=fmt.scale_dtype,
                       device=here.device)
    size = torch.Size((*shape[:-1], shape[-1] // fmt.block))
    return DTensor.from_local(part, parameter.device_mesh, parameter.placements, run_check=False,  # type: ignore[no-any-return]
                              shape=size, stride=torch.empty(size, device="meta").stride())


def _placed_scale(scale: Tensor, parameter: Tensor, fmt: Format) -> Tensor:
    wanted = _scale_like(parameter, fmt)
    if isinstance(scale, DTensor) == isinstance(wanted, DTensor) and scale.shape == wanted.shape:
        return scale.detach().to(local(parameter).device)
    return _placed(scale.reshape(wanted.shape), wanted, "an absmax or a scale")


def is_signed(name: str, names: Tuple[str, ...] = ()) -> bool:
    """Whether a state has both signs: 8-bit codes are then those of the signed map, and those in f16 of
    no root. names: all of its optimizer."""
    return name not in (names.positive if isinstance(names, Names) else ("exp_avg_sq",))


def map_of(signed: bool, device: torch.device) -> Tensor:
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


def _numbers(fmt: Format, codes: Tensor, scale: Any, signed: bool) -> Tensor:
    """States in f32 from codes and what scales them."""
    if fmt is _8BIT:
        return decoded(codes, scale, map_of(signed, local(codes).device), BLOCK)
    if fmt is _24BIT:
        return _scaled(codes, scale, fmt.block, lambda part, of: _flashoptim.values(part, of, signed))
    values = _scaled(codes, scale, BLOCK, lambda part, of: _times(part.float(), of))
    return values if signed else values.square()


def decoded(codes: Tensor, absmax: Any, entries: Tensor, block: int) -> Tensor:
    """The same of 8-bit codes with any map and blocks of any size."""
    return _scaled(codes, absmax, block, lambda part, of: _times(entries.to(part.device)[part.long()], of))


def _times(values: Tensor, scale: Tensor) -> Tensor:
    """0 where the scale is, whatever the code."""
    return torch.where(scale == 0, torch.zeros_like(values), values * scale)


def _scaled(codes: Tensor, scale: Any, block: int, values_of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    part = local(codes)
    scale = local(scale).to(part.device).flatten().repeat_interleave(block)[:part.numel()]
    values = values_of(_in_order(part), scale)
    made = torch.empty_like(part, dtype=torch.float32)
    _in_order(made).copy_(values)
    return _as(made, codes)


_LEAST = 2.0 ** -126  # of an absmax that is not 0
_AT_ONCE = 1 << 24  # elements, which bounds what a conversion takes beside the tensors


def _quantized(value: Tensor, parameter: Tensor, fmt: Format, signed: bool) -> Tuple[Tensor, Tensor]:
    """Codes of states in another type, and what scales them."""
    part, block = local(value), fmt.block
    flat, entries = _in_order(part), map_of(signed, part.device) if fmt.name == _8BIT.name else None
    made = _like(parameter, fmt.signed if fmt.signed is not None and signed else fmt.state)
    scale = _scale_like(parameter, fmt)
    codes, scales = _in_order(local(made)), torch.empty(local(scale).numel(), dtype=fmt.scale_dtype, device=part.device)
    for at in range(0, flat.numel(), _AT_ONCE):
        piece = flat[at:at + _AT_ONCE].to(torch.float32)
        padded = torch.nn.functional.pad(piece, (0, -piece.numel() % block)).reshape(-1, block)
        if entries is not None:
            found, of_blocks = _blocks(padded, entries)
        else:
            found, of_blocks = (_flashoptim.codes if fmt.name == _24BIT.name else _f16_blocks)(padded, signed)
        codes[at:at + _AT_ONCE] = found.flatten()[:piece.numel()]
        scales[at // block:at // block + len(of_blocks)] = of_blocks
    local(scale).copy_(scales.reshape(local(scale).shape))
    return made, scale


def _f16_blocks(padded: Tensor, signed: bool) -> Tuple[Tensor, Tensor]:
    """Codes and scales of blocks, as <ptxgen/rules.h> says."""
    x = padded if signed else padded.sqrt()
    scale = x.abs().amax(dim=1) / 2048
    finite = torch.isfinite(scale)
    usual = finite & (scale >= _LEAST)
    codes = (x * (1 / scale)[:, None]).to(torch.float16)
    other = torch.where(finite, torch.ones_like(scale), torch.full_like(scale, math.nan))
    return torch.where(usual[:, None], codes, torch.zeros_like(codes)), torch.where(usual, scale, other)


def _blocks(padded: Tensor, entries: Tensor) -> Tuple[Tensor, Tensor]:
    """Codes and absmax of blocks, as <ptxgen/rules.h> says, with one difference. The signed map begins
    above -1, so a block whose largest value is negative would shrink each time that it comes in. There
    absmax may also be that with which the map's first entry stands for this value, as it does where the
    block was 8-bit before: the one with the least sum of squared errors is taken."""
    most = padded.abs().amax(dim=1)
    zero = int((entries == 0).nonzero()[0])
    codes = torch.full_like(padded, zero, dtype=torch.uint8)
    absmax = torch.where(torch.isfinite(most), torch.zeros_like(most), torch.full_like(most, math.nan))
    least = torch.full_like(most, math.inf, dtype=torch.float64)

    def tried(rows: Tensor, scale: Tensor) -> None:
        usable = torch.isfinite(scale) & (scale >= _LEAST)
        rows, scale = rows[usable], scale[usable]
        block = padded[rows]
        found = _codes(block, scale, entries)
        error = (entries[found] * scale[:, None]).double().sub_(block).square_().sum(dim=1)
        better = error < least[rows]
        rows = rows[better]
        codes[rows], absmax[rows] = found[better].to(torch.uint8), scale[better]
        least[rows] = error[better]

    tried(torch.arange(len(most), device=most.device), most)
    if zero:
        rows = (padded.amin(dim=1) == -most).nonzero().flatten()
        scale = (most[rows].double() / -entries[0].double()).to(torch.float32)
        for other in (scale, torch.nextafter(scale, scale * 2), torch.nextafter(scale, scale / 2)):
            tried(rows, other)
    return codes, absmax


def _codes(block: Tensor, scale: Tensor, entries: Tensor) -> Tensor:
    q = block * (1 / scale)[:, None]
    q = ((q.view(torch.int32) & ~0xff) | 0x80).view(torch.float32)
    return torch.bucketize(q.double(), (entries[1:].double() + entries[:-1].double()) / 2)


# ---- states from elsewhere


def _bits(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.detach().view(dtype)


def _whole_bits(parameter: Tensor, remainder: Tensor) -> Tensor:
    """The f32 whose halves are parameter and remainder, as <ptxgen/rules.h> says: a remainder that
    would change the sign of 0 counts as 0, and so does each beside infinity and NaN."""
    half = _bits(parameter, torch.int16)
    size = half & 0x7fff
    counts = (size < 0x7f80) & ((size > 0) | (remainder > 0))
    low = torch.where(counts, remainder, torch.zeros_like(remainder)).to(torch.int32)
    return _bits((half.to(torch.int32) << 16) + low, torch.float32)


def _remainder_of(parameter: Tensor, master: Tensor) -> Tensor:
    """The remainder of an f32, which is 0 where the parameter is not its upper half."""
    bits = _bits(master, torch.int32)
    upper = ((bits + 0x8000) >> 16).to(torch.int16)
    low = bits.to(torch.int16)
    return torch.where(upper == _bits(parameter, torch.int16), low, torch.zeros_like(low))


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


def apart(states: Dict[str, Any]) -> Dict[str, Any]:
    """States whose count and clock share no memory: torch.save() refuses memory of two types."""
    made = dict(states)
    if isinstance(made.get("clock"), Tensor):
        made["step"], made["clock"] = made["step"].clone(), made["clock"].clone()
    return made


def portable(states: Dict[str, Any]) -> Dict[str, Any]:
    """States for a dict. A remainder is there as bf16 of the same bits: neither NCCL nor gloo carries
    integers of 16 bits."""
    made = apart(states)
    if isinstance(made.get("remainder"), Tensor):
        made["remainder"] = _viewed(made["remainder"], torch.bfloat16)
    return made


def _viewed(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The same bits as another type of their size."""
    return value if value.dtype is dtype else _as(_bits(local(value), dtype), value)


def check_names(given: Dict[str, Any], known: Tuple[str, ...], names: Tuple[str, ...], ema: bool) -> None:
    """Whether loaded states are those of an optimizer, of which `names` are those that the parameter's
    group uses. Raises a KeyError that says what is missing, a ValueError that says what is unknown."""
    _check_there(given, names)
    if given.get("ema") is not None and not ema:
        raise ValueError("ema among its states: the optimizer has no ema_decay there, and would ignore the average of "
                         "the weights. Give it one, or take the ema out of the dict")
    usual = {"step", *_BESIDE, "ema", *known, *_all_scales(known), *(["clock"] if _clock(known) else []),
             *(["train_weights"] if isinstance(known, Names) and known.evaluates else [])}
    unknown = [str(name) for name in given if name not in usual]
    if unknown:
        raise ValueError(f"{', '.join(unknown)} among its states: the optimizer has "
                         f"{', '.join(('step', *known))}, and would ignore them")


def _check_there(given: Dict[str, Any], names: Tuple[str, ...]) -> None:
    # torch's SGD has no count.
    needed = names if not names or names == ("momentum_buffer",) else ("step", *names)
    for name in needed:
        if isinstance(names, Names) and name in names.outputs:
            continue
        if given.get(name) is None:
            hint = (" (set a momentum that starts now after the loading)" if name == "momentum_buffer" else "")
            raise KeyError(f"there is no {name} among its states, which are "
                           f"{', '.join(map(str, given)) or 'none'}{hint}")


def _check_clock(given: Dict[str, Any], count: int) -> None:
    clock = given.get("clock")
    if clock is None:
        raise KeyError(f"there is no clock among its states, the rule's {count} numbers that last from step to step")
    _check_kind("clock", clock, (torch.float64,))
    if clock.numel() != count:
        raise ValueError(f"clock has {clock.numel()} elements, and the rule has {count} numbers that last from step to "
                         "step")
    if bool(torch.isnan(local(clock)).any()):
        raise ValueError(f"clock has NaN among its numbers: {local(clock).tolist()}")


def check(given: Dict[str, Any], names: Tuple[str, ...], dtype: torch.dtype) -> None:
    """Whether the tensors are states of a parameter of this type. Raises a ValueError that says which is
    not, and why."""
    for name in (*names, *_BESIDE, "ema"):
        value = given.get(name)
        if value is None:
            continue
        kinds = {"master": (torch.float32,), "remainder": (torch.int16, torch.bfloat16),
                 "correction": (torch.int8, torch.int16), "ema": (torch.float32, torch.bfloat16, torch.float16)}.get(name)
        _check_kind(name, value, kinds)
        if name == "correction":
            continue
        coded = None if name in fixed(names) else _coded(given, name)
        for scale in (_8BIT.scale, _F16.scale):
            beside = f"{name}_{scale}"
            if given.get(beside) is not None and (coded is None or coded.scale != scale):
                raise ValueError(f"{name} is of {value.dtype}, and {beside} is beside it: these are codes that "
                                 "torch.optim took for numbers. What goes to torch.optim is "
                                 'state_dict(format="torch"), of the optimizer that had the codes; to go on with '
                                 f"these numbers delete the {scale}")
        if coded is None:
            if name in fixed(names):
                continue
            if name in names and value.dtype is _F16.state and dtype is not _F16.state:
                raise ValueError(f"{name} is of {value.dtype}, as codes are, and there is no {name}_{_F16.scale}; if "
                                 "these are numbers, and no codes, give them as float32")
            continue
        beside, blocks = f"{name}_{coded.scale}", -(-value.numel() // coded.block)
        scale = given.get(beside)
        if scale is None:
            raise ValueError(f"{name} has codes of 8 bits, and there is no {beside}")
        _check_kind(beside, scale, (coded.scale_dtype,))
        if scale.numel() != blocks:
            raise ValueError(f"{beside} has {scale.numel()} elements, and {name} needs {blocks}: one for "
                             f"each {coded.block} of its {value.numel()} codes")
        if coded is _24BIT and value.dtype is not coded.of(name, names):
            raise ValueError(f"{name} has codes in {value.dtype}, and its states are "
                             f"{'of both signs: int8' if is_signed(name, names) else 'at least 0: uint8'} is needed")


_CODES = (_8BIT.state, _24BIT.signed)


def _check_kind(name: str, value: Any, kinds: Optional[Tuple[torch.dtype, ...]] = None) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is a {type(value).__name__}, and no tensor: {value!r:.80}")
    fits = value.dtype in kinds if kinds else value.is_floating_point() or value.dtype in _CODES
    if value.device.type == "meta":
        raise ValueError(f"{name} is on meta, where tensors have no numbers: load the dict onto a device first")
    if not fits or value.layout is not torch.strided:
        wanted = f": it must be of {' or '.join(map(str, kinds))}" if kinds and value.layout is torch.strided else ""
        raise ValueError(f"{name} is of {value.dtype}, {value.layout}, which is not how it is stored{wanted}")


def check_count(step: Any) -> None:
    """Whether it is a number of steps. Waits for the GPU where the tensor is there."""
    one = local(step) if isinstance(step, Tensor) else step
    if isinstance(one, Tensor) and (one.numel() != 1 or one.is_complex()):
        raise ValueError(f"step is a tensor of {one.numel()} elements of {one.dtype}, and a number is needed")
    if isinstance(one, Tensor) and one.device.type == "meta":
        raise ValueError("step is on meta, where tensors have no numbers: load the dict onto a device first")
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
    check(given, names, parameter.dtype)
    if names != ("momentum_buffer",):
        _check_there(given, names)
    if _clock(names):
        _check_clock(given, _clock(names))
    if given.get("remainder") is not None:
        given = {**given, "remainder": _viewed(given["remainder"], torch.int16)}
    device = local(parameter).device
    made_here = {"step", *_BESIDE, "ema", *names, *_all_scales(names)}
    states: Dict[str, Any] = {name: value for name, value in given.items() if name not in made_here}
    step = given.get("step")
    if names == ("momentum_buffer",) and given.get("momentum_buffer") is None:
        step = 0.0  # the first step is that without a buffer, whatever was counted without momentum
    elif step is None:  # torch's SGD has no count
        step = 1.0 if names else 0.0
    if not isinstance(step, Tensor):
        step = torch.tensor(float(step), dtype=torch.float32)
    states["step"] = local(step).detach().to(device=device, dtype=torch.float32).reshape(())
    if _clock(names):
        count, numbers = states["step"], given["clock"]
        states["step"], states["clock"] = _cell(_clock(names), device)
        states["step"].copy_(count)
        states["clock"].copy_(local(numbers).detach())
    for name in names:
        value = given.get(name)
        if value is None:
            states.update(_zeros(parameter, fmt, name, names))
            continue
        value, coded = value.detach(), None if name in fixed(names) else _coded(given, name)
        scale = given[f"{name}_{coded.scale}"] if coded else None
        if coded and (fmt.name != coded.name or not _in_same_order(value, parameter)):
            value, coded = _numbers(coded, value, scale, is_signed(name, names)), None  # blocks go by the order of memory
        value = _laid_out(_placed(value, parameter, name), parameter)
        if not fmt.scale or name in fixed(names):
            states[name] = value.to(fmt.of(name, names))
        elif coded:
            states[name], states[f"{name}_{fmt.scale}"] = value, _placed_scale(scale, parameter, fmt)  # type: ignore[arg-type]
        else:
            states[name], states[f"{name}_{fmt.scale}"] = _quantized(value, parameter, fmt,
                                                                                  is_signed(name, names))
    if fmt.beside:
        own = given.get(fmt.beside)
        if own is not None and own.dtype is fmt.beside_dtype:
            states[fmt.beside] = _laid_out(_placed(own.detach(), parameter, fmt.beside), parameter)
        elif now:
            beside = _laid_out(_beside(parameter, given, fmt.beside), parameter)
            states[fmt.beside] = beside.to(fmt.beside_dtype)
        else:
            for other in _BESIDE:
                if given.get(other) is not None:
                    states[other] = _placed(given[other].detach(), parameter, other)
    if fmt.ema is not None and given.get("ema") is not None:
        states["ema"] = _laid_out(_placed(given["ema"].detach(), parameter, "ema"), parameter).to(fmt.ema)
    elif fmt.ema is not None and now:
        states["ema"] = parameter.detach().to(fmt.ema, copy=True)
    return states


def whole(parameter: Tensor, states: Dict[str, Any]) -> Tensor:
    """This rank's part of the parameter in f32, as the states have it."""
    own = {name: local(value) for name, value in states.items() if name in _BESIDE}
    return own["master"] if "master" in own else _beside(local(parameter), own, "master")


def _beside(parameter: Tensor, given: Dict[str, Any], which: str) -> Tensor:
    """What is beside the parameter, from what was beside it in another format, or from the parameter alone."""
    with torch.no_grad():
        of = next((name for name in _BESIDE if given.get(name) is not None), None)
        if of is None and which == "remainder":
            return _like(parameter, torch.int16)
        other = None if of is None else _placed(given[of], parameter, of)
        exact: Tensor = (parameter.detach().to(torch.float32) if other is None else
                         other if of == "master" else _whole_bits(parameter, other) if of == "remainder" else
                         _flashoptim.whole(parameter, other))
        if which == "master":
            return exact
        return (_remainder_of if which == "remainder" else _flashoptim.corrections)(parameter, exact)


def to_torch(states: Dict[str, Any], names: Tuple[str, ...], on_device: bool) -> Dict[str, Any]:
    """States as torch.optim has them: f32, and nothing beside the parameter, nor its average."""
    made: Dict[str, Any] = {}
    for name, value in states.items():
        if name == "step":
            made[name] = value if on_device else value.cpu()
        elif name in names:
            coded = None if name in fixed(names) else _coded(states, name)
            if coded:
                value = _numbers(coded, value, states[f"{name}_{coded.scale}"], is_signed(name, names))
            made[name] = value if value.dtype is torch.float32 else value.to(torch.float32)
        elif name == "clock" and _clock(names):
            made.update(zip(_clocks(names), value.clone().unbind()))
        elif name not in (*_BESIDE, "ema", *_ALL_SCALES, *_all_scales(names)):
            made[name] = value
    return made


def fits(parameter: Tensor, states: Dict[str, Any], fmt: Format, names: Tuple[str, ...]) -> bool:
    """Whether the states are stored as the format wants them, where the parameter is."""
    here = local(parameter)
    wanted = {name: fmt.of(name, names) for name in names}
    if fmt.beside:
        wanted[fmt.beside] = fmt.beside_dtype  # type: ignore[assignment]
    if fmt.ema is not None:
        wanted["ema"] = fmt.ema
    for name in fmt.scales(names):
        scale = states.get(name)
        if (not isinstance(scale, Tensor) or local(scale).device != here.device
                or scale.dtype is not fmt.scale_dtype or local(scale).numel() != -(-here.numel() // fmt.block)):
            return False
    step = states.get("step")
    if not isinstance(step, Tensor) or step.device != here.device or step.dtype is not torch.float32:
        return False
    clock = states.get("clock")
    if _clock(names) and (not isinstance(clock, Tensor) or clock.dtype is not torch.float64 or clock.device != step.device
                          or clock.numel() != _clock(names) or clock.data_ptr() != step.data_ptr() + 8):
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

# SPDX-License-Identifier: MIT
"""Fake quantization in block formats: floats of 4, 6 or 8 bits with a scale a block."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, Sequence, Tuple, Union, overload

import torch
from torch import Tensor

from ... import _c
from ...blocks import BlockPlan
from .. import _device
from . import _checks, _learned_blocks
from ._no_second import first_only

Format = Literal["nvfp4", "mxfp4", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp8_e4m3", "mxfp8_e5m2", "fp8_1x128", "fp8_128x128"]
Like = Literal["te", "torchao", "deepgemm"]
ScaleRounding = Literal["floor", "rceil", "f32", "power_of_2"]
Rounding = Literal["nearest", "stochastic"]

_NAME = "fake_quantize_block()"
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_S64 = 1 << 63

def _ways(name: str) -> Tuple[Tuple[str, str], ...]:
    return tuple((like.lower(), "" if scale == "DEFAULT" else scale.lower())
                 for prefix, like, scale, _ in _c.TABLES["PTX_BLOCK_WAYS"] if name.startswith(prefix))


#: Elements of a block along the last axis, and what goes with the format: like and scale_rounding. The first is the default. Edges cut
#: blocks of several rows.
_FORMATS: Dict[str, Tuple[int, Tuple[Tuple[str, str], ...]]] = {
    name: (int(width) if rows == "1" else 8, _ways(name)) for _, name, _, width, rows in _c.TABLES["PTX_BLOCK_FORMATS"]}

_plans: Dict[Tuple[Any, ...], Tuple[Any, BlockPlan]] = {}


def _way(format: str, like: Optional[str], scale: Optional[str]) -> Tuple[str, str]:
    _checks.choice(_NAME, "format", format, tuple(_FORMATS))
    there = _FORMATS[format][1]
    for of, rounded in there:
        if like in (None, of) and scale in (None, rounded):
            return of, rounded
    ways = ", ".join(f"like={of!r}" + (f" with scale_rounding={rounded!r}" if rounded else "") for of, rounded in there)
    raise ValueError(f"{_NAME}: format={format!r} does not go with like={like!r} and scale_rounding={scale!r}; it has {ways}")


def _plan(x: Tensor, format: str, like: str = "default", scale: str = "", two_dimensional: bool = False, stochastic: bool = False,
          hadamard: bool = False, measure: bool = False) -> Tuple[Any, BlockPlan]:
    key = (x.device, x.dtype, format, like, scale, two_dimensional, stochastic, hadamard, measure)
    found = _plans.get(key)
    if found is None:
        place: Any = _device.of(x.device)
        how: Dict[str, Any] = {"dtype": _device.NAMES[x.dtype], "format": format, "like": like, "scale": scale or "default",
                               "two_dimensional": two_dimensional, "stochastic": stochastic, "hadamard": hadamard, "measure": measure,
                               "any_address": True}
        found = _plans.setdefault(key, (place, BlockPlan(place.gpu, stream=place.stream(), **how)))
    return found


def _rows(xs: Sequence[Tensor], ys: Sequence[int], amaxes: Sequence[int]) -> Any:
    made: Any = _c.ptx_block_tensor * len(xs)
    return made(*[(x.data_ptr(), y, x.numel() // x.shape[-1], x.shape[-1], amax) for x, y, amax in zip(xs, ys, amaxes)])


def _measured(xs: Sequence[Tensor], hadamard: bool) -> Tensor:
    """Their greatest magnitudes, in f32: one launch."""
    found = torch.zeros(len(xs), dtype=torch.float32, device=xs[0].device)
    place, plan = _plan(xs[0], "nvfp4", hadamard=hadamard, measure=True)
    stream = place.stream()
    plan.run(_rows(xs, [0] * len(xs), [found.data_ptr() + 4 * k for k in range(len(xs))]), stream=stream)
    place.done(stream)
    return found


def launch(xs: Sequence[Tensor], amaxes: Sequence[Tensor], format: str, like: str, scale: str, two_dimensional: bool,
           stochastic: bool, hadamard: bool, seed: Optional[Tensor], offset: Optional[Tensor], seed_value: int,
           offset_value: int) -> List[Tensor]:
    """One launch for up to 64 tensors, each with elements. Without amaxes another one measures them, for nvfp4. seed and offset:
    in place of the values."""
    xs = [x.contiguous() for x in xs]
    ys = [torch.empty_like(x) for x in xs]
    measured: Any = None
    if amaxes:
        at = [amax.data_ptr() for amax in amaxes]
    elif format == "nvfp4":
        measured = _measured(xs, hadamard)
        at = [measured.data_ptr() + 4 * k for k in range(len(xs))]
    else:
        at = [0] * len(xs)
    place, plan = _plan(xs[0], format, like, scale, two_dimensional, stochastic, hadamard)
    stream = place.stream()
    random: Any = None
    if stochastic:
        random = _c.ptx_block_random(seed_value % (2 * _S64), offset_value % (2 * _S64), 0 if seed is None else seed.data_ptr(),
                                     0 if offset is None else offset.data_ptr())
    plan.run(_rows(xs, [y.data_ptr() for y in ys], at), random, stream=stream)
    place.done(stream)
    return ys


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, amaxes: Sequence[Tensor], how: Tuple[Any, ...], *xs: Tensor) -> Tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)  # an output that is not used has none, nor has its tensor
        ys = tuple(launch(xs, amaxes, *how))
        ctx.mark_non_differentiable(*(y for y, needed in zip(ys, ctx.needs_input_grad[2:]) if not needed))
        return ys

    @staticmethod
    def backward(ctx: Any, *dys: Optional[Tensor]) -> Any:
        return (None, None, *first_only(_NAME, dys, dys))  # straight through


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.set_materialize_grads(False)
    ctx.amaxes = len(inputs[1])


def _of_blocks(ctx: Any, dys: Sequence[Optional[Tensor]]) -> Any:
    return (list(dys), [None] * ctx.amaxes, *(None,) * 10)


def define() -> None:
    """The call as a custom operator, for torch.compile."""
    op = torch.library.custom_op(
        "ptxgen::fake_quantize_blocks", launch, mutates_args=(),
        schema="(Tensor[] xs, Tensor[] amaxes, str format, str like, str scale, bool two_dimensional, bool stochastic, "
               "bool hadamard, Tensor? seed, Tensor? offset, int seed_value, int offset_value) -> Tensor[]")
    op.register_fake(lambda xs, *how: [torch.empty_like(x, memory_format=torch.contiguous_format) for x in xs])
    op.register_autograd(_of_blocks, setup_context=_keep)
    _learned_blocks.define()


def _amax(k: int, x: Tensor, given: Tensor) -> Tensor:
    name = f"amax[{k}]"
    _checks.beside(_NAME, name, given, x)
    if given.dtype is not torch.float32 or given.numel() != 1:
        raise ValueError(f"{_NAME}: {name} is of {list(given.shape)} in {given.dtype}: one element in float32 is needed")
    return given.detach()


def _word(name: str, given: Union[Tensor, int, None], x: Tensor) -> Tuple[Optional[Tensor], int]:
    """A seed or an offset: a tensor, or a number."""
    if isinstance(given, Tensor):
        _checks.beside(_NAME, name, given, x)
        if given.dtype is not torch.int64 or given.numel() != 1:
            raise ValueError(f"{_NAME}: {name} is of {list(given.shape)} in {given.dtype}: one element in int64 is needed")
        return given.detach(), 0
    if given is None:
        return None, 0
    return None, _checks.integer(_NAME, name, given, -_S64, 2 * _S64 - 1)


def _sizes(name: str, x: Tensor, format: str, two_dimensional: bool) -> None:
    width = _FORMATS[format][0]
    if x.dim() == 0 or x.shape[-1] % width:
        raise ValueError(f"{_NAME}: {name} is of {list(x.shape)}: its last axis must be a multiple of {width} for {format}: pad it")
    if x.dim() < 2 and (two_dimensional or format == "fp8_128x128"):
        raise ValueError(f"{_NAME}: {name} is of {list(x.shape)}: blocks of several rows need at least two dimensions")
    if two_dimensional and x.numel() // x.shape[-1] % 16:
        raise ValueError(f"{_NAME}: {name} is of {list(x.shape)}: its rows, the product of all axes but the last, must be a multiple "
                         "of 16 with two_dimensional=True: pad them")


@overload
def fake_quantize_block(x: Tensor, format: Format, amax: Optional[Tensor] = None, two_dimensional: bool = False,
                        rounding: Rounding = "nearest", seed: Union[Tensor, int, None] = None,
                        offset: Union[Tensor, int, None] = None, scale_rounding: Optional[ScaleRounding] = None,
                        like: Optional[Like] = None, *, hadamard: bool = False, block_amax: Optional[Tensor] = None,
                        grad_factor: Optional[float] = None) -> Tensor: ...


@overload
def fake_quantize_block(x: Sequence[Tensor], format: Format, amax: Optional[Sequence[Tensor]] = None,
                        two_dimensional: bool = False, rounding: Rounding = "nearest", seed: Union[Tensor, int, None] = None,
                        offset: Union[Tensor, int, None] = None, scale_rounding: Optional[ScaleRounding] = None,
                        like: Optional[Like] = None, *, hadamard: bool = False, block_amax: Optional[Sequence[Tensor]] = None,
                        grad_factor: Optional[float] = None) -> List[Tensor]: ...


@_checks.breaks
def fake_quantize_block(x: Union[Tensor, Sequence[Tensor]], format: Format,
                        amax: Union[Tensor, Sequence[Tensor], None] = None, two_dimensional: bool = False,
                        rounding: Rounding = "nearest", seed: Union[Tensor, int, None] = None,
                        offset: Union[Tensor, int, None] = None, scale_rounding: Optional[ScaleRounding] = None,
                        like: Optional[Like] = None, *, hadamard: bool = False,
                        block_amax: Union[Tensor, Sequence[Tensor], None] = None,
                        grad_factor: Optional[float] = None) -> Union[Tensor, List[Tensor]]:
    """Quantizes to a block format and scales back; the gradient of x is that of y, straight through. docs/quantization.md has
    which like and scale_rounding go with a format; <ptxgen/blocks.h> the formulas.

    x: a tensor in f32, f16 or bf16, or a list of them in one type, which one launch takes. Blocks lie along the last axis; what
        is not contiguous is copied. y has its type and shape, and is contiguous.
    amax: for nvfp4, the greatest magnitude of the tensor: one f32 on the device, which is not looked at; for a list, one for
        each. None: another launch computes them.
    two_dimensional: for nvfp4, blocks of 16 rows and 16 columns.
    rounding: "stochastic" takes random bits from seed and offset: numbers, or tensors of one int64 on the device. Without a
        seed it comes from torch's generator.
    scale_rounding, like: None: the format's default.
    hadamard: for nvfp4 in bf16, x is transformed along its last axis first, in blocks of 16; y is of the transform, and amax, where
        it is given. It has no gradient: x must not require one.
    block_amax: for nvfp4, in one dimension and to nearest: an amax for each block, in f32 of x's shape with the last axis divided by 16,
        in place of the measured one, and with a gradient straight through the scale's rounding; x then has none beyond it. amax is
        the greatest of them unless it is given.
    grad_factor: multiplies the gradients of block_amax; 1 / sqrt(96) in learned step size quantization. None: 1."""
    alone = isinstance(x, Tensor)
    xs: List[Tensor] = [x] if alone else list(x)  # type: ignore[list-item]
    of, rounded = _way(format, like, scale_rounding)
    _checks.choice(_NAME, "rounding", rounding, ("nearest", "stochastic"))
    if two_dimensional and format != "nvfp4":
        raise ValueError(f"{_NAME}: two_dimensional=True with {format}: only nvfp4 has blocks of 16 x 16")
    stochastic = rounding == "stochastic"
    if not stochastic and (seed is not None or offset is not None):
        raise ValueError(f"{_NAME}: seed and offset are of rounding=\"stochastic\"; leave them None")
    if offset is not None and seed is None:
        raise ValueError(f"{_NAME}: offset is given, and no seed: give both, or none")
    if format != "nvfp4" and amax is not None:
        raise ValueError(f"{_NAME}: amax is given, and {format} has no scale of the tensor: leave it None")
    for k, one in enumerate(xs):
        name = "x" if alone else f"x[{k}]"
        _checks.tensor(_NAME, name, one, _DTYPES)
        if one.device != xs[0].device or one.dtype != xs[0].dtype:
            raise ValueError(f"{_NAME}: {name} is on {one.device} in {one.dtype}, and x[0] on {xs[0].device} in {xs[0].dtype}: a list "
                             "has one device and one type")
        _sizes(name, one, format, two_dimensional)
    if hadamard and format != "nvfp4":
        raise ValueError(f"{_NAME}: hadamard=True with {format}: only nvfp4 has the transform")
    if hadamard and two_dimensional:
        raise ValueError(f"{_NAME}: hadamard=True with two_dimensional=True: it has blocks along the last axis alone")
    if hadamard and xs and xs[0].dtype is not torch.bfloat16:
        raise ValueError(f"{_NAME}: hadamard=True: {'x' if alone else 'x[0]'} is in {xs[0].dtype}, and it must be in bf16: use "
                         "x.bfloat16()")
    if hadamard and torch.is_grad_enabled() and any(one.requires_grad for one in xs):
        raise ValueError(f"{_NAME}: hadamard=True has no gradient, and x requires one: use x.detach()")
    factor = 1.0 if grad_factor is None else _checks.number(_NAME, "grad_factor", grad_factor)
    if block_amax is None and grad_factor is not None:
        raise ValueError(f"{_NAME}: grad_factor is given, and block_amax is not, whose gradients it is for")
    if factor == 0:
        raise ValueError(f"{_NAME}: grad_factor is 0: use block_amax.detach()")
    if block_amax is not None and (format != "nvfp4" or two_dimensional or stochastic or hadamard):
        raise ValueError(f"{_NAME}: block_amax is for nvfp4 in one dimension, to nearest and without hadamard")
    given: List[Tensor] = []
    if amax is not None:
        if not isinstance(amax, (Tensor, list, tuple)):
            raise TypeError(f"{_NAME}: amax: a tensor of one element in float32, or a list of them, is needed, not {amax!r:.80}: use "
                            "torch.full((1,), ..., device=x.device)")
        given = [amax] if isinstance(amax, Tensor) else list(amax)
        if len(given) != len(xs):
            raise ValueError(f"{_NAME}: amax has {len(given)} tensors, and x {len(xs)}: give one for each")
    blocks = [] if block_amax is None else _learned_blocks.amaxes_of(_NAME, block_amax, xs, alone)
    there = [k for k, one in enumerate(xs) if one.numel()]
    ys = [one.clone() if not one.numel() else one for one in xs]
    if there:
        amaxes = [_amax(k, xs[k], given[k]) for k in there] if given else []
        if stochastic and seed is None:
            seed = torch.randint(-_S64, _S64 - 1, (1,), dtype=torch.int64, device=xs[0].device)
        seed_at, seed_value = _word("seed", seed, xs[0])
        offset_at, offset_value = _word("offset", offset, xs[0])
        how = (format, of, rounded, two_dimensional, stochastic, hadamard, seed_at, offset_at, seed_value, offset_value)
        taken = [xs[k] for k in there]
        if blocks:
            of_blocks = [blocks[k] for k in there]
            made = _learned_blocks.call(_NAME, taken, amaxes or [one.detach().amax().clamp(min=0).view(1) for one in of_blocks],
                                        of_blocks, of, factor)
        elif _checks.compiling():
            made = torch.ops.ptxgen.fake_quantize_blocks(taken, amaxes, *how)
            made = [y if one.requires_grad else y.detach() for one, y in zip(taken, made)]
        elif torch.is_grad_enabled() and any(one.requires_grad for one in taken):
            made = _Blocks.apply(amaxes, how, *taken)
        else:
            made = launch(taken, amaxes, *how)
        for k, y in zip(there, made):
            ys[k] = y
    return ys[0] if alone else ys

# SPDX-License-Identifier: MIT
"""nvfp4 whose blocks have learned amaxes: the launches of a list, its autograd function and its operators."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ... import _c
from ...blocks import BlockPlan
from .. import _device
from . import _checks
from ._no_second import first_only

_BLOCK = 16
LSQ_FACTOR = 1 / math.sqrt(_BLOCK * 6)

_plans: Dict[Tuple[Any, ...], Tuple[Any, BlockPlan]] = {}


def _plan(x: Tensor, like: str, factor: float) -> Tuple[Any, BlockPlan]:
    """factor: 0 for the pass without gradients."""
    key = (x.device, x.dtype, like, factor)
    found = _plans.get(key)
    if found is None:
        place: Any = _device.of(x.device)
        how: Dict[str, Any] = {"dtype": _device.NAMES[x.dtype], "format": "nvfp4", "like": like, "learned": True, "gradients": factor != 0,
                               "grad_factor": factor, "any_address": True}
        found = _plans.setdefault(key, (place, BlockPlan(place.gpu, stream=place.stream(), **how)))
    return found


def _run(xs: Sequence[Tensor], like: str, factor: float, rows: Sequence[Sequence[Any]]) -> None:
    """rows: y, amax, amaxes, and with gradients d_output and d_amaxes."""
    made: Any = _c.ptx_block_tensor * len(xs)
    place, plan = _plan(xs[0], like, factor)
    stream = place.stream()
    plan.run(made(*[(x.data_ptr(), row[0].data_ptr(), x.numel() // x.shape[-1], x.shape[-1], *(one.data_ptr() for one in row[1:]))
                    for x, row in zip(xs, rows)]), stream=stream)
    place.done(stream)


def launch(xs: Sequence[Tensor], amaxes: Sequence[Tensor], blocks: Sequence[Tensor], like: str) -> List[Tensor]:
    """All contiguous, but the xs."""
    xs = [x.contiguous() for x in xs]
    ys = [torch.empty_like(x) for x in xs]
    _run(xs, like, 0.0, list(zip(ys, amaxes, blocks)))
    return ys


def gradients(dys: Sequence[Tensor], xs: Sequence[Tensor], amaxes: Sequence[Tensor], blocks: Sequence[Tensor], like: str,
              factor: float) -> List[Tensor]:
    """Those of the xs, then those of the blocks' amaxes: one launch."""
    dys = [dy.contiguous() for dy in dys]
    xs = [_checks.as_saved("x", x, dy.dtype, dy.numel(), dy) for x, dy in zip(xs, dys)]
    blocks = [_checks.as_saved("block_amax", one, torch.float32, dy.numel() // _BLOCK, dy) for one, dy in zip(blocks, dys)]
    amaxes = [_checks.as_saved("amax", one, torch.float32, 1, dy) for one, dy in zip(amaxes, dys)]
    dxs, d_blocks = [torch.empty_like(x) for x in xs], [torch.empty_like(one) for one in blocks]
    _run(xs, like, factor, list(zip(dxs, amaxes, blocks, dys, d_blocks)))
    return dxs + d_blocks


class _Learned(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str, amaxes: Sequence[Tensor], like: str, factor: float, *tensors: Tensor) -> Tuple[Tensor, ...]:
        n = len(amaxes)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *amaxes)
        ctx.how = name, like, factor
        return tuple(launch(tensors[:n], amaxes, tensors[n:], like))

    @staticmethod
    def backward(ctx: Any, *dys: Optional[Tensor]) -> Any:
        n, (name, like, factor) = len(dys), ctx.how
        saved = ctx.saved_tensors
        there = [k for k, dy in enumerate(dys) if dy is not None]
        found: List[Optional[Tensor]] = [None] * (2 * n)
        if there:
            xs, blocks, amaxes = ([saved[k + part] for k in there] for part in (0, n, 2 * n))
            with torch.no_grad():
                given: List[Any] = [dys[k] for k in there]
                made = gradients(given, xs, amaxes, blocks, like, factor)
            for i, k in enumerate(there):
                found[k], found[n + k] = made[i], made[len(there) + i]
        return (None, None, None, None, *first_only(name, found, (*dys, *saved[:2 * n])))


def call(name: str, xs: Sequence[Tensor], amaxes: Sequence[Tensor], blocks: Sequence[Tensor], like: str, factor: float) -> List[Tensor]:
    if _checks.compiling():
        made: List[Tensor] = torch.ops.ptxgen.fake_quantize_learned_blocks(xs, amaxes, blocks, like, factor)
        return made
    return list(_Learned.apply(name, amaxes, like, factor, *xs, *blocks))


def amaxes_of(name: str, given: Any, xs: Sequence[Tensor], alone: bool) -> List[Tensor]:
    """Whether there is one for each block."""
    if not isinstance(given, (Tensor, list, tuple)):
        raise TypeError(f"{name}: block_amax: a tensor in float32, or a list of them, is needed, not {given!r:.80}")
    blocks = [given] if isinstance(given, Tensor) else list(given)
    if len(blocks) != len(xs):
        raise ValueError(f"{name}: block_amax has {len(blocks)} tensors, and x {len(xs)}: give one for each")
    for k, (one, x) in enumerate(zip(blocks, xs)):
        called = "block_amax" if alone else f"block_amax[{k}]"
        _checks.beside(name, called, one, x)
        wanted = [*x.shape[:-1], x.shape[-1] // _BLOCK]
        if one.dtype is not torch.float32 or list(one.shape) != wanted:
            raise ValueError(f"{name}: {called} is of {list(one.shape)} in {one.dtype}: one of {wanted} in float32 is needed, an amax for "
                             f"each {_BLOCK} elements")
    return [one.contiguous() for one in blocks]


# ---- operators ----------------------------------------------------------------------------------


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    xs, amaxes, blocks, ctx.like, ctx.factor = inputs
    ctx.count = len(xs)
    ctx.save_for_backward(*xs, *amaxes, *blocks)


def _of_learned(ctx: Any, dys: Sequence[Optional[Tensor]]) -> Any:
    n, saved = ctx.count, ctx.saved_tensors
    xs, amaxes, blocks = list(saved[:n]), list(saved[n:2 * n]), list(saved[2 * n:])
    whole = [torch.zeros_like(x) if dy is None else dy for x, dy in zip(xs, dys)]
    made = torch.ops.ptxgen.learned_blocks_backward(whole, xs, amaxes, blocks, ctx.like, ctx.factor)
    return made[:n], [None] * n, made[n:], None, None


def define() -> None:
    """The calls as custom operators, for torch.compile."""
    def like(one: Tensor) -> Tensor:
        return torch.empty_like(one, memory_format=torch.contiguous_format)
    lists = "Tensor[] xs, Tensor[] amaxes, Tensor[] blocks, str like, float factor"
    op = torch.library.custom_op("ptxgen::fake_quantize_learned_blocks",
                                 lambda xs, amaxes, blocks, way, factor: launch(xs, amaxes, blocks, way), mutates_args=(),
                                 schema=f"({lists}) -> Tensor[]")
    op.register_fake(lambda xs, *_: [like(x) for x in xs])
    back = torch.library.custom_op("ptxgen::learned_blocks_backward", gradients, mutates_args=(),
                                   schema=f"(Tensor[] dys, {lists}) -> Tensor[]")
    back.register_fake(lambda dys, xs, amaxes, blocks, *_: [like(one) for one in (*xs, *blocks)])
    op.register_autograd(_of_learned, setup_context=_keep)

# SPDX-License-Identifier: MIT
"""The step plan of an optimizer on one device: its rows, and what they were made for."""

from __future__ import annotations

import math
import operator
import re
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _c
from .._library import c, check, keep
from ..errors import InvalidError
from ..plans import StepPlan
from . import _device, _exchange, _formats, _over_ranks, _ranks, _shortcuts, _units
from ._items import Rate, Taken, limit_of
from ._ranks import DTensor
from ._shortcuts import identities, local, spec
from .qk_clip import entries_of
from .reports import Rows

_EPS = 1e-6  # torch adds it to the norm
_MOVING = ("parameter", "gradient", "state", "absmax", "beside", "ema")  # what may move within a plan
_data_ptr, _numel, _is_contiguous, _stride = Tensor.data_ptr, Tensor.numel, Tensor.is_contiguous, Tensor.stride
_dtype, _on, _shape = map(operator.attrgetter, ("dtype", "device", "shape"))
_SIZES = {dtype: torch.empty((), dtype=dtype).element_size() for dtype in _device.NAMES}
TAKE_A_STEP = ("ptxgen: take a step with these gradients before the capture begins, after an accumulate() if it has "
               "one: the first step makes the plan")


class Piece(NamedTuple):
    """Elements of a parameter which are a tensor of the plan by themselves: a matrix of this many columns,
    or with whole_rows those of its rows that are on this rank. They follow one another, or with a run so
    many of them do, and the next ones begin a stride after these."""

    first: int  # in what is here of the parameter
    elements: int
    columns: int
    base: int  # the matrix's first element in the whole parameter
    number: int = 0  # of the parameter's matrices
    start: int = 0  # the first element in the matrix
    whole_rows: int = 0  # of the matrix, where others have some of them
    run: int = 0
    stride: int = 0

    def is_all_of(self, parameter: Tensor) -> bool:
        """Whether its matrix is the parameter."""
        return not self.base and (self.whole_rows or self.elements // self.columns) * self.columns == parameter.numel()

    def place(self) -> Tuple[int, int, int]:
        """Where its elements are in the whole parameter, by their index in the matrix: see reports.py."""
        return self.base, self.run or 1, self.stride or 1


class Item:
    """A parameter that is stepped: where it is in the optimizer, and what it is on this rank. `what`
    names it in messages. `pieces`: None for one that is a tensor of the plan as it is."""

    __slots__ = ("parameter", "group", "name", "what", "local", "states", "format", "names", "counted", "pieces")

    states: Dict[str, Any]
    format: _formats.Format
    names: Tuple[str, ...]
    counted: bool
    pieces: Optional[List[Piece]]

    def __init__(self, parameter: Tensor, group: int, name: int, what: str) -> None:
        self.parameter, self.group, self.name, self.what = parameter, group, name, what
        self.local: Tensor = local(parameter)

    def stored(self) -> List[str]:
        """The tensors of its states that the plan uses."""
        return ["step", *self.names, *self.format.scales(self.names),
                *([self.format.beside] if self.format.beside else []), *(["ema"] if self.format.ema else [])]


class Sums:
    """Where an optimizer sums the gradients of micro-batches: of each parameter an array in f32, and what
    it has. Plans come and go, these stay."""

    def __init__(self) -> None:
        # Of a parameter: itself, its sums, what it has, and the shape and strides whose order the sums have.
        self._of: Dict[int, Tuple[Tensor, Tensor, Tensor, Tuple[torch.Size, Tuple[int, ...]]]] = {}

    def of(self, item: Item, piece: int = 0) -> Tuple[int, int]:
        """The addresses of both, of an item or of its piece; 0 for a part without elements."""
        counts = self._counts(item)
        if not counts[piece]:
            return 0, 0
        starts, total, has = self._kept(item, counts)
        return total.data_ptr() + 4 * starts[piece], has.data_ptr() + 8 * piece

    def counter(self, item: Item) -> Tensor:
        """Of an item without elements: how many gradients it had since the last step. Plans do not count them."""
        return self._kept(item, self._counts(item))[2][:1]

    def memory(self, item: Item) -> Tuple[Tensor, Tensor]:
        """Of an item: what must stay as long as a plan that has it."""
        _, total, has = self._kept(item, self._counts(item))
        return total, has

    def check(self, item: Item) -> None:
        """Whether an item that has sums has the shape that it had."""
        found = self._of.get(id(item.parameter))
        if found is not None and found[3][0] != item.local.shape:
            raise ValueError(f"{item.what} is of shape {tuple(item.local.shape)}, and accumulate() has summed gradients of "
                             f"shape {tuple(found[3][0])}: call step() before the shape changes")

    @staticmethod
    def _counts(item: Item) -> List[int]:
        return [item.local.numel()] if item.pieces is None else [one.elements for one in item.pieces]

    def _kept(self, item: Item, counts: List[int]) -> Tuple[List[int], Tensor, Tensor]:
        """Where the pieces begin in the sums, the sums, and what they have."""
        here = item.local
        # Each at a multiple of 16 bytes.
        starts = list(accumulate((-(-count // 4) * 4 for count in counts[:-1]), initial=0))
        size = starts[-1] + counts[-1]
        laid_out = here.shape, tuple(0 if n == 1 else step for n, step in zip(here.shape, here.stride()))
        found = self._of.get(id(item.parameter))
        if (found is None or found[1].numel() != size or found[2].numel() != 2 * len(counts)
                or found[1].device != here.device):
            found = (item.parameter, torch.empty(size, dtype=torch.float32, device=here.device),
                     torch.zeros(2 * len(counts), dtype=torch.int32, device=here.device), laid_out)
        shape, strides = found[3]
        if shape == here.shape and strides != laid_out[1] and size == here.numel():
            moved = torch.empty_like(here, dtype=torch.float32).copy_(found[1].as_strided(shape, strides))
            found = item.parameter, moved.as_strided((size,), (1,)), found[2], laid_out
        self._of[id(item.parameter)] = (*found[:3], laid_out)
        return starts, found[1], found[2]


@dataclass(frozen=True)
class PlanKey:
    """What one of the plans is made for, beside addresses that it can be given anew."""

    device: Any
    norm: bool
    phases: bool  # the norm is that of several plans
    seed: int
    groups: Tuple[int, ...]  # those of the optimizer that it has, and their rules
    rules: Tuple[Any, ...]
    rates: Tuple[int, ...]  # the addresses of those on the device
    guards: Any  # those of the optimizer, and those that it obeys
    reports: bool
    rows: Tuple[Any, ...]
    clips: Tuple[Any, ...]
    agc: Tuple[Any, ...]  # of the groups


class Changed(Exception):
    """The plans are for other types of gradients."""


def _without_addresses(rows: List[Dict[str, Any]]) -> Tuple[Any, ...]:
    """What of a plan's rows set_addresses() cannot change."""
    return tuple(tuple(value for name, value in row.items() if name not in _MOVING) for row in rows)


def _guards_of(owner: Any, device: torch.device) -> Dict[str, Any]:
    """The guards of the optimizer's plan on a device. With `obey` alone the plan has a state of its own."""
    if owner.guards is None and owner.obey is None:
        return {}
    guards: Any = {} if owner.guards is None else owner.guards.params(device)
    if owner.obey is not None:
        guards = {**guards, "skip_at": owner.obey.skipped_at(device)}
    return {"guards": guards}


def _check_kind(item: Item, gradient: Tensor) -> None:
    """Whether plans take gradients of the kind."""
    if gradient.layout is not torch.strided or gradient.dtype not in _device.NAMES:
        kind = ("complex" if gradient.is_complex() else "sparse"
                if gradient.layout is not torch.strided else str(gradient.dtype))
        raise ValueError(f"{item.what} has a gradient that is {kind}, which is not supported: use "
                         "torch.optim for it")


class Part:
    """The plan of one device, and what it was made for."""

    key: PlanKey
    noted = False  # a capture launched it

    def __init__(self, device: Any, items: List[Item], owner: Any, norm: bool, phases: bool,
                 previous: Optional["Part"], gradients: Sequence[Optional[Tensor]], taken: Taken,
                 sums: Optional["Sums"], exchanges: Sequence[_exchange.Exchange]) -> None:
        self.device, self.items, self.taken, self.accumulators = device, items, taken, sums
        self.exchanges = exchanges
        self.places: Dict[int, Any] = {}  # of matrices, by their exchange
        self.groups = tuple(sorted({item.group for item in items})) or (0,)  # without items: for guards alone
        self._note_parameters(gradients)
        self._keep_states()
        agc = tuple(owner._agc_of(owner.param_groups[g]) for g in self.groups)
        self.clips_units = any(one is not None for one in agc)
        self._prepare_looks()
        self.rates = [Rate(owner.param_groups[g]["lr"], device) for g in self.groups]
        rows = self._rows(owner)
        self._keep_sums()
        self.clips = entries_of(owner.qk_clip, items, rows, self.starts)
        # Stay as long as the plan.
        self.factors = [one.factors.detach() for one in owner.qk_clip]
        self.tables = [] if owner.fp8 is None else owner.fp8.tables()
        self.key = PlanKey(device, norm, phases, owner.seed, self.groups,
                            tuple(owner._rule(owner.param_groups[g]) for g in self.groups),
                            tuple(rate.address for rate in self.rates), (owner.guards, owner.obey), owner.reports,
                            _without_addresses(rows), tuple(map(tuple, map(dict.values, self.clips))), agc)
        if previous is not None and previous.key == self.key:
            self._take(previous, rows, device.stream())
        else:
            self._make(owner, rows, device.stream())
            if previous is not None and self.reports is not None and previous.reports is not None:
                self.reports.take(previous.reports, self._rows_of(), previous._rows_of())
        self.weights_changed(device.stream())

    def _rows_of(self) -> Dict[Tuple[int, int], int]:
        """The rows of the plan by their parameters and pieces."""
        starts = self.starts or range(len(self.items))
        return {(id(item.parameter), m): start + m for item, start in zip(self.items, starts)
                for m in range(1 if item.pieces is None else len(item.pieces))}

    def weights_changed(self, stream: int) -> None:
        """Norms of weights that a step has not left."""
        if self.clips_units:
            self.plan.weights_changed(stream)

    def _note_parameters(self, gradients: Sequence[Optional[Tensor]]) -> None:
        """What the parameters are on this rank, and the gradients that they have."""
        self.parameters = [item.parameter for item in self.items]
        self.locals = [item.local for item in self.items]
        self.contiguous = all(map(_is_contiguous, self.locals))
        for item, gradient in zip(self.items, gradients):
            if gradient is not None:
                _check_kind(item, local(gradient))
        self.numels, self.shapes = list(map(_numel, self.locals)), list(map(_shape, self.locals))
        self.empty = [k for k, n in enumerate(self.numels) if n == 0]
        self.specs = list(map(spec, self.parameters))
        self.sharded = any(one is not None for one in self.specs)
        self.dtypes = [here.dtype if g is None else local(g).dtype
                       for here, g in zip(self.locals, gradients)]
        self.stay = all(local(p) is here for p, here in zip(self.parameters, self.locals))
        self.where = self._where(self.locals)

    def _keep_states(self) -> None:
        """The memory of the states lives as long as the plan, whatever becomes of their tensors. They move
        together: off the device and back, say."""
        states = [local(item.states[name]) for item in self.items for name in item.stored()]
        self.kept = [state.detach() for state in states]
        self.watched = [state for state in states if state.numel()][-1:]
        self.watched_at = list(map(_data_ptr, self.watched))

    def _keep_sums(self) -> None:
        """The memory of the sums, as that of the states: a graph may have this plan, and another one other sums."""
        sums = self.accumulators
        self.sums_kept = [] if sums is None else list(map(sums.memory, self.items))
        self.counters = [] if sums is None else [sums.counter(self.items[k]) for k in self.empty]

    def _prepare_looks(self) -> None:
        """What a step looks at, and where it was at the last one."""
        self.watch = _shortcuts.watch(
            self.parameters, self.device.device, self.dtypes,
            [item.states["step"].data_ptr() if not n else 0 for item, n in zip(self.items, self.numels)])
        self.written = _shortcuts.Written(self.parameters)
        self.with_master = [item for item in self.items if item.format.beside == "master"]
        self.versions = self._versions()
        self.usual = False  # what the last look of `watch` found
        # Of the gradients, 0 where one is missing: as the plan has them, and as look() found them.
        self.known: Any = (_c.c_uint64 * len(self.items))()
        self.now: Any = (_c.c_uint64 * len(self.items))()
        self.moved = 0, 0  # the range where they differ: its first, its length
        self.sizes = [n * _SIZES[dtype] for n, dtype in zip(self.numels, self.dtypes)]
        self.free = b"", b""  # all addresses of the last two times that some had moved, and none was one of `taken`

    def _versions(self) -> Optional[_shortcuts.Versions]:
        """A look at parameters that have a master, or norms that the last step has left, which know nothing of what
        others write to them. Of DTensors, this rank's parts may be written alone."""
        items = self.items if self.clips_units else self.with_master
        if not items:
            return None
        parameters = [item.parameter for item in items]
        parts = [item.local for item in items if item.local is not item.parameter]
        return _shortcuts.Versions(parameters + parts, len(parameters))

    def follow_parameters(self, stream: int) -> None:
        """Masters and norms of parameters that others wrote since the last step."""
        if self.versions is None or self.versions.same():
            return
        written = {id(self.versions.tensors[k]) for k in self.versions.written()}
        with torch.no_grad():
            for item in self.with_master:
                if id(item.parameter) in written or id(item.local) in written:
                    _formats.follow(item.parameter, item.states["master"])
        self.weights_changed(stream)
        self.versions.know()

    def count_writing(self) -> None:
        """Tells torch that the parameters were written."""
        exactly = self.written.bump_versions()
        if self.versions is not None:
            self.versions.know_own() if exactly else self.versions.know()

    def _rows(self, owner: Any) -> List[Dict[str, Any]]:
        """Of the plan's tensors; `starts`: the first one of each item, where some are in pieces."""
        rows: List[Dict[str, Any]] = []
        self.starts: Optional[List[int]] = [] if any(item.pieces is not None for item in self.items) else None
        for k, item in enumerate(self.items):
            if self.starts is not None:
                self.starts.append(len(rows))
            row = self._row(k, owner)
            rows += [row] if item.pieces is None else [self._piece(item, row, m) for m in range(len(item.pieces))]
        return rows

    def _piece(self, item: Item, row: Dict[str, Any], m: int) -> Dict[str, Any]:
        """The row of an item's piece, from that of all of it."""
        pieces: Any = item.pieces
        piece: Piece = pieces[m]
        first, elements, columns = piece.first, piece.elements, piece.columns
        made = {**row, "count": elements, "columns": columns, "whole_rows": piece.whole_rows,
                "spread": (piece.run, piece.stride)}
        if piece.whole_rows and elements:
            made["update"] = next(one.update_at(item.parameter, piece.number) for one in self.exchanges
                                  if one.has(item.parameter, piece.number))
        if piece.is_all_of(item.parameter):
            return made
        if "amax" in row:
            raise ValueError(f"{item.what} is {len(pieces)} matrices, of which each would have a largest magnitude of its "
                             "own: leave it out of the parameters of fp8")

        def size(name: str) -> int:
            return int(local(item.states[name]).element_size())

        made["parameter"] += first * item.local.element_size()
        made["state"] = tuple(at + first * size(name) for at, name in zip(row["state"], item.names))
        if row["beside"]:
            made["beside"] += first * size(item.format.beside)  # type: ignore[arg-type]
        if row["ema"]:
            made["ema"] += first * size("ema")
        if self.accumulators is not None:
            made["accumulator"], made["accumulated"] = self.accumulators.of(item, m)
        made["id"] = zlib.crc32(str(piece.base).encode(), row["id"])  # random bits of its own
        made["whole"] = (piece.start, 0, 0)
        return made

    def _row(self, k: int, owner: Any) -> Dict[str, Any]:
        item, dummy = self.items[k], self.items[k].states["step"].data_ptr()

        def at(tensor: Optional[Tensor]) -> int:
            return 0 if tensor is None else local(tensor).data_ptr() or dummy

        names = item.names
        total = (0, 0) if self.accumulators is None else self.accumulators.of(item)
        return {"parameter": at(item.parameter), "gradient": 0,
                "accumulator": total[0], "accumulated": total[1],
                "state": tuple(at(item.states[name]) for name in names),
                "absmax": tuple(at(item.states[name]) for name in item.format.scales(names)),
                "beside": at(item.states[item.format.beside]) if item.format.beside else 0,
                "ema": at(item.states["ema"]) if item.format.ema else 0,
                "ema_dtype": _device.NAMES[item.format.ema] if item.format.ema else "none",
                "step": dummy, "count": self.numels[k], "dtype": _device.NAMES[item.local.dtype],
                "gradient_dtype": _device.NAMES[self.dtypes[k]], "format": item.format.name,
                "group": self.groups.index(item.group), "uncounted": not item.counted,
                "counts_empty": not self.numels[k] and isinstance(names, _formats.Names),
                "id": item.name, "whole": self._whole(item, owner.reports),
                **_units.fields(item, owner),
                **({} if owner.fp8 is None else owner.fp8.fields(
                    item.parameter, any(not piece.is_all_of(item.parameter) for piece in item.pieces or ())))}

    @staticmethod
    def _whole(item: Item, reports: bool) -> Tuple[int, ...]:
        rounded = item.format.name in _formats.ROUNDED or item.format.ema is torch.bfloat16
        if not rounded and not reports:
            return (0, 0, 0)
        found = _ranks.whole(item.parameter)
        if found is None and not rounded:
            raise ValueError(f"{item.what} of shape {tuple(item.parameter.shape)}, placed as "
                             f"{item.parameter.placements}, has no rows of equal distance on this "  # type: ignore[attr-defined]
                             "rank, by which reports number its elements: leave reports out")
        if found is None:
            raise ValueError(f"{item.what} of shape {tuple(item.parameter.shape)}, placed as "
                             f"{item.parameter.placements}, has no rows of equal distance on this "  # type: ignore[attr-defined]
                             "rank, which its random bits need: use another state_dtype")
        return found

    def _which(self, message: str) -> str:
        """What the tensor of a plan's message is here."""
        named = re.search(r"\btensor (\d+)\b", message)
        if named is None:
            return ""
        tensor = int(named[1])
        if self.starts is None:
            return f" ({named[0]} is {self.items[tensor].what})"
        k = bisect_right(self.starts, tensor) - 1
        pieces = self.items[k].pieces
        matrix = f", matrix {tensor - self.starts[k]}" if pieces is not None and len(pieces) > 1 else ""
        return f" ({named[0]} is {self.items[k].what}{matrix})"

    def _make(self, owner: Any, rows: List[Dict[str, Any]], stream: int) -> None:
        if self.device.capturing():
            raise RuntimeError(TAKE_A_STEP)
        f32 = {"dtype": torch.float32, "device": self.device.device}
        self.scale, self.found_in = torch.ones((), **f32), torch.zeros((), **f32)
        self.found_out = torch.zeros((), **f32)
        self.sums = torch.zeros(1, dtype=torch.float64, device=self.device.device)
        self.amp = self.captured = False
        params: Dict[str, Any] = {"loss_scale_at": self.scale.data_ptr(), "max_norm": math.inf,
                                  "found_inf_at": self.found_in.data_ptr(), "eps": _EPS,
                                  "seed": owner.seed, "any_address": True, "stream": stream}
        self.max_norm = math.inf
        if self.key.norm:
            params["found_inf_to"] = self.found_out.data_ptr()
            self.max_norm = limit_of(owner.max_grad_norm)
            params["group_max_norms"] = [self.max_norm]
        params.update(_guards_of(owner, self.device.device))
        self.reports: Optional[Rows] = None
        if owner.reports:
            self.reports = Rows(len(rows), self.device.device)
            params.update(self.reports.params())
        if self.key.phases and self.key.norm:
            params["sums_at"] = self.sums.data_ptr()
        self.rule_sums: Optional[Tensor] = None  # a row for each tensor of the plan
        if any(map(_over_ranks.has_sums, self.key.rules)):
            self.rule_sums = torch.zeros((max(len(rows), 1), _c.PTX_RULE_MAX_SUMS), dtype=torch.float64, device=self.device.device)
            params["rule_sums_at"] = self.rule_sums.data_ptr()
        self.matrix_sums: Optional[Tensor] = None
        if any(row.get("whole_rows") for row in rows):
            if owner.matrix_memory:
                cut = next(item.what for item in self.items if any(piece.whole_rows for piece in item.pieces or ()))
                raise ValueError(f"matrix_memory is {owner.matrix_memory}, and a matrix of {cut} has rows on several ranks; such "
                                 "matrices are stepped all at once: leave matrix_memory out")
            self.matrix_sums = torch.zeros((len(rows), _c.PTX_MUON_SUMS), dtype=torch.float64, device=self.device.device)
            params["matrix_sums_at"] = self.matrix_sums.data_ptr()
        self.hypers = [owner._all_scalars(owner.param_groups[g]) for g in self.groups]
        groups = []
        for rule, rate, scalars, agc in zip(self.key.rules, self.rates, self.hypers, self.key.agc):
            group = {"rule" if isinstance(rule[0], str) else "own_rule": rule[0], "maximize": rule[1],
                     "nesterov": rule[2], "hyper": owner._hyper(rate.value, scalars), **owner._of_rule(rule)}
            if rate.address:
                group["lr_at"] = rate.address
            if agc is not None:
                group["agc"] = dict(zip(("clipping", "eps"), agc))
            groups.append(group)
        self.values = [rate.value for rate in self.rates]
        if owner.matrix_memory:
            params["matrix_memory"] = owner.matrix_memory
        if self.clips:
            params["qk_clips"] = self.clips
        try:
            self.plan = StepPlan(self.device.gpu, rows, groups=groups, **params)  # type: ignore[arg-type]
        except InvalidError as error:
            raise InvalidError(f"{error}{self._which(str(error))}") from None
        self._handle = self.plan.handle.value
        self.records: Optional[Tensor] = None

    def _take(self, previous: "Part", rows: List[Dict[str, Any]], stream: int) -> None:
        """The previous plan, with addresses of now."""
        for field in ("scale", "found_in", "found_out", "sums", "amp", "captured", "max_norm", "hypers",
                      "values", "plan", "records", "reports", "rule_sums", "matrix_sums"):
            setattr(self, field, getattr(previous, field))
        self._handle = self.plan.handle.value
        moved: Any = {k: {name: row[name] for name in _MOVING} for k, row in enumerate(rows)}
        self.plan.set_addresses(moved, stream=stream)

    # ---- gradients

    def look(self, groups: List[Any]) -> Sequence[Any]:
        """Looks where rates, states, parameters and gradients are. Returns tensors that must stay until the
        work is launched. Raises Changed where the plan is for others."""
        if list(map(_data_ptr, self.watched)) != self.watched_at:
            raise Changed
        for rate, g in zip(self.rates, self.groups):
            if not rate.fits(groups[g]["lr"]):
                raise Changed
        found = _shortcuts.UNUSUAL if self.watch is None else self.watch.look(self.known, self.now)
        self.usual = found in (_shortcuts.SAME, _shortcuts.MOVED)
        if found == _shortcuts.UNUSUAL:
            return self._ask()
        if found == _shortcuts.CHANGED:
            raise Changed
        self.moved = 0, 0
        if found == _shortcuts.MOVED:
            self._take_moved(*self.watch.range())  # type: ignore[union-attr]
        return ()

    def _take_moved(self, first: int, count: int) -> None:
        """Notes that gradients moved, unless they did into what steps write, which stays where it is as long as the plan."""
        now = bytes(self.now)
        if now not in self.free:
            end = first + count
            self.taken.check(self.items[first:end], self.now[first:end], self.sizes[first:end])
            self.free = now, self.free[0]
        self.moved = first, count

    def _where(self, tensors: Sequence[Any]) -> Any:
        """Which tensors these are, of which shapes and types, and where. None if some have no memory, as sparse ones. What
        is elsewhere has another address, but for those without elements."""
        try:
            which = identities.way(tensors) if self.stay else None
            return (which, list(map(_data_ptr, tensors)), list(map(_dtype, tensors)), list(map(_shape, tensors)),
                    all(map(_is_contiguous, tensors)) or list(map(_stride, tensors)), [tensors[k].device for k in self.empty])
        except RuntimeError:
            return None

    def _ask(self) -> Sequence[Any]:
        """look() at parameters and gradients, tensor by tensor."""
        if self._where(list(map(local, self.parameters)) if self.sharded else self.locals) != self.where:
            raise Changed
        ask = _shortcuts.gradients
        gradients, known = (ask.way if self.sharded else ask.plain)(self.parameters), list(self.known)
        addresses, there = self._addresses(gradients, known)
        if self.watch is not None:
            self.watch.expect(gradients)
        self.moved = 0, 0
        self.now[:] = addresses
        if addresses != known:
            differs = list(map(operator.ne, addresses, known))
            first = differs.index(True)
            self._take_moved(first, len(known) - first - differs[::-1].index(True))
        return there

    def _addresses(self, gradients: Sequence[Any], known: List[int]) -> Tuple[List[int], Sequence[Any]]:
        """The address of each gradient, 0 where it is missing, and the tensors that are there; known: those before.
        Raises Changed where the plan is for gradients of other types."""
        try:
            parts: Any = gradients
            if self.sharded:  # equal specs are often the same object
                parts = [g if own is None else local(g) if one is own or one == own else None
                         for g, one, own in zip(gradients, map(spec, gradients), self.specs)]
            if (self.contiguous and set(map(type, parts)) <= {Tensor}
                    and list(map(_dtype, parts)) == self.dtypes
                    and list(map(_shape, parts)) == self.shapes and all(map(_is_contiguous, parts))):
                addresses = list(map(_data_ptr, parts))  # a sparse one has none
                for k in self.empty:
                    addresses[k] = self.items[k].states["step"].data_ptr()
                if 0 not in addresses and (addresses == known or set(map(_on, parts)) == {self.device.device}):
                    return addresses, parts
        except (AttributeError, TypeError, RuntimeError):
            pass  # one is missing or sparse
        return self._each(gradients)

    def _each(self, gradients: Sequence[Any]) -> Tuple[List[int], Sequence[Any]]:
        found = [self._usable(k, g) for k, g in enumerate(gradients)]
        addresses = [0 if g is None else g.data_ptr() or self.items[k].states["step"].data_ptr()
                     for k, g in enumerate(found)]
        return addresses, [g for g in found if g is not None]

    def _usable(self, k: int, gradient: Any) -> Optional[Tensor]:
        """This rank's part of a gradient, laid out as its parameter."""
        if gradient is None:
            return None
        item = self.items[k]
        parameter: Any = item.parameter
        if isinstance(parameter, DTensor):
            if not isinstance(gradient, DTensor):
                raise ValueError(f"{item.what} is a DTensor, and its gradient is not: give it a DTensor")
            if tuple(gradient.placements) != tuple(parameter.placements):
                gradient = gradient.redistribute(parameter.device_mesh, parameter.placements)
            gradient = local(gradient)
        elif isinstance(gradient, DTensor):
            raise ValueError(f"{item.what} is no DTensor, and its gradient is one: give it this rank's part")
        _check_kind(item, gradient)
        if gradient.device != item.local.device or gradient.shape != item.local.shape:
            raise ValueError(f"{item.what} of shape {tuple(item.local.shape)} on {item.local.device} has a "
                             f"gradient of shape {tuple(gradient.shape)} on {gradient.device}: they must agree")
        if gradient.numel() and not gradient.data_ptr():
            raise ValueError(f"{item.what} has a gradient without memory: its storage was freed")
        if gradient.dtype is not self.dtypes[k]:
            raise Changed
        if gradient.stride() != item.local.stride() and gradient.numel():
            gradient = torch.empty_like(item.local).to(gradient.dtype).copy_(gradient)
        return gradient  # type: ignore[no-any-return]

    def move(self, stream: int) -> None:
        """Tells the plan of gradients that moved, came or went; of all where a graph has the plan, since
        the replay and the steps outside follow each other in any order."""
        first, count = (0, len(self.items)) if self.captured else self.moved
        if count:
            if self.starts is None:
                table = _c.addressof(self.now) + first * _c.sizeof(_c.c_uint64)
                check(c.ptx_step_plan_set_gradients(self._handle, first, count, table, stream))
            else:
                cut = self._cut(first, count)
                check(c.ptx_step_plan_set_gradients(self._handle, self.starts[first], len(cut),
                                                    (_c.c_uint64 * len(cut))(*cut), stream))
            self.known, self.now = self.now, self.known

    def _cut(self, first: int, count: int) -> List[int]:
        """The addresses of the gradients of items, piece by piece."""
        made: List[int] = []
        for k in range(first, first + count):
            at, size = self.now[k], _SIZES[self.dtypes[k]]
            made += [at] if self.items[k].pieces is None else [
                at and at + piece.first * size for piece in self.items[k].pieces]  # type: ignore[union-attr]
        return made

    def accumulate(self, stream: int) -> None:
        """Launches what adds the gradients to their sums, and counts those without elements."""
        keep(self.plan.handle)
        check(c.ptx_step_plan_accumulate(self._handle, stream))
        if self.counters:
            had = [counter for k, counter in zip(self.empty, self.counters) if self.known[k]]
            if had:
                torch._foreach_add_(had, 1)

    def drop_gradients(self) -> None:
        """Sets them to None. Tensor by tensor takes longer than all the rest of a micro-batch."""
        if not self.usual or not self.watch.drop_gradients():  # type: ignore[union-attr]
            for p in self.parameters:
                p.grad = None

    # ---- scalars

    def follow(self, owner: Any, stream: int) -> None:
        """Scalars that changed since the last step, or all of them as in move()."""
        groups = owner.param_groups
        for k, g in enumerate(self.groups):
            group = groups[g]
            try:
                scalars = owner._all_scalars(group)
                value = self.rates[k].follow(group["lr"])
                if value != self.values[k] or scalars != self.hypers[k] or self.captured:
                    self.plan.set_hyper(k, owner._hyper(value, scalars), stream=stream)
            except (KeyError, RuntimeError, TypeError, ValueError):
                owner._check(group)  # says which
                raise
            self.values[k], self.hypers[k] = value, scalars
        if self.key.norm:
            limit = limit_of(owner.max_grad_norm)
            if limit != self.max_norm or self.captured:
                self.plan.set_max_norm(limit, stream=stream)
                self.max_norm = limit

    def take_amp(self, scale: Optional[Tensor], found_inf: Optional[Tensor]) -> None:
        """What a GradScaler gives to a step."""
        if scale is None and found_inf is None:
            if self.amp:
                self.scale.fill_(1.0)
                self.found_in.fill_(0.0)
                self.amp = False
            return
        self.amp = True
        with torch.no_grad():
            self.scale.fill_(1.0) if scale is None else self.scale.copy_(scale.reshape(()))
            self.found_in.fill_(0.0) if found_inf is None else self.found_in.copy_(
                found_inf.reshape(()))

    def keep_clocks(self) -> None:
        """The clocks of parameters without elements that have no gradient now: plans count them in each step."""
        items = ((k, self.items[k]) for k in self.empty if not self.known[k])
        self.clocks = {k: [(one, one.clone()) for one in map(item.states.get, ("step", "clock")) if one is not None]
                       for k, item in items if isinstance(item.names, _formats.Names)}

    def count_empty(self, owner: Any) -> None:
        """Counts the step of parameters of which this rank has nothing, as other ranks count it where there was a
        gradient since the last step: a checkpoint may have the count of any rank."""
        found = self.found_out if self.key.norm else self.found_in
        taken = (found == 0).to(torch.float32)
        for one in self.key.guards:
            if one is not None:
                taken = taken * (one.skipped_on(self.device.device) == 0)
        for n, k in enumerate(self.empty):
            item = self.items[k]
            had = self.counters[n][0] != 0 if self.counters and not self.known[k] else None
            for cell, before in self.clocks.get(k, ()):
                cell.copy_(before if had is None else torch.where(had, cell, before))
            if not self.known[k] and had is None:
                continue
            counted = taken if self.known[k] or had is None else taken * had
            if not isinstance(item.names, _formats.Names):
                item.states["step"].add_(counted)
            if owner.fp8 is not None:
                owner.fp8.count_empty(item.parameter, counted)
        if self.counters:
            torch._foreach_zero_(self.counters)

    def norm(self) -> Tensor:
        if self.device.device.type != "cuda":
            return self.device.tensor(self.plan.records)[1]  # type: ignore[no-any-return]
        if self.records is None:
            self.records = self.device.tensor(self.plan.records)
        return self.records[1]

# SPDX-License-Identifier: MIT
"""The step plans of an optimizer: made at the first step, looked at anew at each. Nothing here is
keyed on groups or on the parameters of construction: each step compares what there is now with what
the plans were made for."""

from __future__ import annotations

import math
import operator
import zlib
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _c
from .._library import c, check
from .._types import StepDescription
from ..plans import StepPlan
from . import _device, _exchange, _formats, _over_ranks, _ranks, _shortcuts
from ._items import Rate, check_apart, check_item
from ._ranks import DTensor
from ._shortcuts import identities, local, spec
from .reports import Report, Reported, Rows, report_of

_EPS = 1e-6  # torch adds it to the norm
_MOVING = ("parameter", "gradient", "state", "absmax", "beside", "ema")  # what may move within a plan
_data_ptr, _numel, _is_contiguous = Tensor.data_ptr, Tensor.numel, Tensor.is_contiguous
_grad, _dtype, _layout, _on = map(operator.attrgetter, ("grad", "dtype", "layout", "device"))
_STRIDED = {torch.strided}
_SIZES = {dtype: torch.empty((), dtype=dtype).element_size() for dtype in _device.NAMES}


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

    def place(self) -> Tuple[int, int, int]:
        """Where its elements are in the whole parameter, by their index in the matrix: see reports.py."""
        return self.base, self.run or 1, self.stride or 1


class _Item:
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


@dataclass(frozen=True)
class _Key:
    """What an optimizer's plans are made for: they fit while the key of now is equal, and what looks find
    is where it was. The engine keeps the objects, so none has the identity of another."""

    objects: Any  # identities of the parameters, and of the dicts in which the optimizer has states
    states: Any  # and of these
    settings: Tuple[Any, ...]  # of all groups, and of each


@dataclass(frozen=True)
class _PlanKey:
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


class _Part:
    """The plan of one device, and what it was made for."""

    key: _PlanKey

    def __init__(self, device: Any, items: List[_Item], owner: Any, norm: bool, phases: bool,
                 previous: Optional["_Part"], gradients: Sequence[Optional[Tensor]],
                 sums: Optional["_Sums"], exchanges: Sequence[_exchange.Exchange]) -> None:
        self.device, self.items, self.accumulators = device, items, sums
        self.exchanges = exchanges
        self.places: Dict[int, Any] = {}  # of matrices, by their exchange
        self.groups = tuple(sorted({item.group for item in items}))
        self._note_parameters(gradients)
        self._keep_states()
        self._prepare_looks()
        self.rates = [Rate(owner.param_groups[g]["lr"], device) for g in self.groups]
        rows = self._rows(owner)
        self.key = _PlanKey(device, norm, phases, owner.seed, self.groups,
                            tuple(owner._rule(owner.param_groups[g]) for g in self.groups),
                            tuple(rate.address for rate in self.rates), (owner.guards, owner.obey), owner.reports,
                            _without_addresses(rows))
        if previous is not None and previous.key == self.key:
            self._take(previous, rows, device.stream())
        else:
            self._make(owner, rows, device.stream())

    def _note_parameters(self, gradients: Sequence[Optional[Tensor]]) -> None:
        """What the parameters are on this rank, and the gradients that they have."""
        self.parameters = [item.parameter for item in self.items]
        self.locals = [item.local for item in self.items]
        self.contiguous = all(map(_is_contiguous, self.locals))
        self.numels = list(map(_numel, self.locals))
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

    def _versions(self) -> Optional[_shortcuts.Versions]:
        """A look at parameters that have a master, which knows nothing of what others write to them.
        Of DTensors, this rank's parts may be written alone."""
        if not self.with_master:
            return None
        parameters = [item.parameter for item in self.with_master]
        parts = [item.local for item in self.with_master if item.local is not item.parameter]
        return _shortcuts.Versions(parameters + parts, len(parameters))

    def follow_parameters(self) -> None:
        """Masters of parameters that others wrote since the last step."""
        if self.versions is None or self.versions.same():
            return
        written = {id(self.versions.tensors[k]) for k in self.versions.written()}
        with torch.no_grad():
            for item in self.with_master:
                if id(item.parameter) in written or id(item.local) in written:
                    _formats.follow(item.parameter, item.states["master"])
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

    def _piece(self, item: _Item, row: Dict[str, Any], m: int) -> Dict[str, Any]:
        """The row of an item's piece, from that of all of it."""
        pieces: Any = item.pieces
        piece: Piece = pieces[m]
        first, elements, columns = piece.first, piece.elements, piece.columns
        made = {**row, "count": elements, "columns": columns, "whole_rows": piece.whole_rows,
                "spread": (piece.run, piece.stride)}
        if piece.whole_rows and elements:
            made["update"] = next(one.update_at(item.parameter, piece.number) for one in self.exchanges
                                  if one.has(item.parameter, piece.number))
        rows = piece.whole_rows or elements // columns
        if not piece.base and rows * columns == item.parameter.numel():
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
                **({} if owner.fp8 is None else owner.fp8.fields(item.parameter))}

    @staticmethod
    def _whole(item: _Item, reports: bool) -> Tuple[int, ...]:
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

    def _make(self, owner: Any, rows: List[Dict[str, Any]], stream: int) -> None:
        if self.device.capturing():
            raise RuntimeError(_TAKE_A_STEP)
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
            self.rule_sums = torch.zeros((len(rows), _c.PTX_RULE_MAX_SUMS), dtype=torch.float64, device=self.device.device)
            params["rule_sums_at"] = self.rule_sums.data_ptr()
        self.matrix_sums: Optional[Tensor] = None
        if any(row.get("whole_rows") for row in rows):
            self.matrix_sums = torch.zeros((len(rows), _c.PTX_MUON_SUMS), dtype=torch.float64, device=self.device.device)
            params["matrix_sums_at"] = self.matrix_sums.data_ptr()
        self.hypers = [owner._all_scalars(owner.param_groups[g]) for g in self.groups]
        groups = []
        for rule, rate, scalars in zip(self.key.rules, self.rates, self.hypers):
            group = {"rule" if isinstance(rule[0], str) else "own_rule": rule[0], "maximize": rule[1],
                     "nesterov": rule[2], "hyper": owner._hyper(rate.value, scalars), **owner._of_rule(rule)}
            if rate.address:
                group["lr_at"] = rate.address
            groups.append(group)
        self.values = [rate.value for rate in self.rates]
        self.plan = StepPlan(self.device.gpu, rows, groups=groups, **params)  # type: ignore[arg-type]
        self._handle = self.plan.handle.value
        self.records: Optional[Tensor] = None

    def _take(self, previous: "_Part", rows: List[Dict[str, Any]], stream: int) -> None:
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
        work is launched. Raises _Changed where the plan is for others."""
        if list(map(_data_ptr, self.watched)) != self.watched_at:
            raise _Changed
        for rate, g in zip(self.rates, self.groups):
            if not rate.fits(groups[g]["lr"]):
                raise _Changed
        found = _shortcuts.UNUSUAL if self.watch is None else self.watch.look(self.known, self.now)
        self.usual = found in (_shortcuts.SAME, _shortcuts.MOVED)
        if found == _shortcuts.UNUSUAL:
            return self._ask()
        if found == _shortcuts.CHANGED:
            raise _Changed
        self.moved = self.watch.range() if found == _shortcuts.MOVED else (0, 0)  # type: ignore[union-attr]
        return ()

    def _where(self, tensors: Sequence[Any]) -> Any:
        """Which tensors these are, of which types, and where. None if some have no memory."""
        try:
            which = identities.way(tensors) if self.stay else [(t.shape, t.stride()) for t in tensors]
            return (which, set(map(_on, tensors)), set(map(_layout, tensors)), list(map(_dtype, tensors)),
                    list(map(_data_ptr, tensors)))
        except RuntimeError:
            return None

    def _ask(self) -> Sequence[Any]:
        """look() at parameters and gradients, tensor by tensor."""
        if self._where(list(map(local, self.parameters)) if self.sharded else self.locals) != self.where:
            raise _Changed
        ask = _shortcuts.gradients
        gradients = (ask.way if self.sharded else ask.plain)(self.parameters)
        addresses, there = self._addresses(gradients)
        if self.watch is not None:
            self.watch.expect(gradients)
        known = list(self.known)
        self.moved = 0, 0
        if addresses != known:
            differs = list(map(operator.ne, addresses, known))
            first = differs.index(True)
            self.moved = first, len(known) - first - differs[::-1].index(True)
        self.now[:] = addresses
        return there

    def _on_device(self, tensors: Sequence[Any]) -> bool:
        """Whether all are in the memory of the plan's device."""
        return set(map(_on, tensors)) == {self.device.device} and set(map(_layout, tensors)) == _STRIDED

    def _addresses(self, gradients: Sequence[Any]) -> Tuple[List[int], Sequence[Any]]:
        """The address of each gradient, 0 where it is missing, and the tensors that are there. Raises
        _Changed where the plan is for gradients of other types."""
        try:
            parts: Any = gradients
            if self.sharded:  # equal specs are often the same object
                parts = [g if own is None else local(g) if one is own or one == own else None
                         for g, one, own in zip(gradients, map(spec, gradients), self.specs)]
            if (self.contiguous and set(map(type, parts)) <= {Tensor}
                    and self._on_device(parts) and list(map(_dtype, parts)) == self.dtypes
                    and list(map(_numel, parts)) == self.numels and all(map(_is_contiguous, parts))):
                addresses = list(map(_data_ptr, parts))
                for k in self.empty:
                    addresses[k] = self.items[k].states["step"].data_ptr()
                if 0 not in addresses:
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
        if gradient.layout is not torch.strided or gradient.dtype not in _device.NAMES:
            kind = ("complex" if gradient.is_complex() else "sparse"
                    if gradient.layout is not torch.strided else str(gradient.dtype))
            raise ValueError(f"{item.what} has a gradient that is {kind}, which is not supported: use "
                             "torch.optim for it")
        if gradient.device != item.local.device or gradient.shape != item.local.shape:
            raise ValueError(f"{item.what} of shape {tuple(item.local.shape)} on {item.local.device} has a "
                             f"gradient of shape {tuple(gradient.shape)} on {gradient.device}: they must agree")
        if gradient.numel() and not gradient.data_ptr():
            raise ValueError(f"{item.what} has a gradient without memory: its storage was freed")
        if gradient.dtype is not self.dtypes[k]:
            raise _Changed
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
            except (KeyError, TypeError, ValueError):
                owner._check(group)  # says which
                raise
            if value != self.values[k] or scalars != self.hypers[k] or self.captured:
                self.plan.set_hyper(k, owner._hyper(value, scalars), stream=stream)
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

    def count_empty(self, owner: Any) -> None:
        """Counts the step of parameters of which this rank has nothing, as other ranks count it: a
        checkpoint may have the count of any rank."""
        steps = [self.items[k].states["step"] for k in self.empty  # plans count those of rules with a clock
                 if self.known[k] and not isinstance(self.items[k].names, _formats.Names)]
        found = self.found_out if self.key.norm else self.found_in
        taken = (found == 0).to(torch.float32)
        for one in self.key.guards:
            if one is not None:
                taken = taken * (one.skipped_on(self.device.device) == 0)
        for step in steps:
            step.add_(taken)
        for k in self.empty if owner.fp8 is not None else ():
            if self.known[k]:
                owner.fp8.count_empty(self.items[k].parameter, taken)

    def norm(self) -> Tensor:
        if self.device.device.type != "cuda":
            return self.device.tensor(self.plan.records)[1]  # type: ignore[no-any-return]
        if self.records is None:
            self.records = self.device.tensor(self.plan.records)
        return self.records[1]


def is_number(value: Any) -> bool:
    """Whether a plan can take it for a number. A tensor is not read: that would wait for the GPU."""
    if isinstance(value, Tensor):
        return value.numel() == 1
    try:
        return not isinstance(value, str) and isinstance(float(value), float)
    except (TypeError, ValueError):
        return False


def limit_of(max_grad_norm: Any) -> float:
    """What gradients are clipped to."""
    if max_grad_norm is None:
        return math.inf
    limit = float(max_grad_norm) if is_number(max_grad_norm) else math.nan
    if not limit >= 0:
        raise ValueError(f"max_grad_norm: {max_grad_norm!r} is not a number of at least 0, or None for no "
                         "clipping")
    return limit


def _takes_norm(owner: Any) -> bool:
    return (owner.max_grad_norm is not None or owner.reports or owner._takes_norm
            or owner.guards is not None and owner.guards.takes_norm)


def _check_scaler(owner: Any) -> None:
    """Refuses what a GradScaler knows of gradients that are not the sums, with which the step is."""
    if owner.__dict__.pop("_amp_found_inf", None) is None:
        return
    if owner.__dict__.pop("grad_scale", None) is None:
        raise ValueError("scaler.unscale_() divides the gradients of the last micro-batch, and not the sums of "
                         "accumulate(): leave it out; max_grad_norm clips the sums, unscaled")
    raise ValueError("torch's GradScaler looks for infinity in the gradients of the last micro-batch, and not in the "
                     "sums of accumulate(): use ptxgen.torch.GradScaler, which asks the step")


_TAKE_A_STEP = ("ptxgen: take a step with these gradients before the capture begins, after an accumulate() if it has "
                "one: the first step makes the plan")


def _capturing(groups: List[Any]) -> bool:
    devices = {_device.of(local(p).device) for group in groups for p in group["params"]}
    return any(device is not None and device.capturing() for device in devices)


def _guards_of(owner: Any, device: torch.device) -> Dict[str, Any]:
    """The guards of the optimizer's plan on a device. With `obey` alone the plan has a state of its own."""
    if owner.guards is None and owner.obey is None:
        return {}
    guards: Any = {} if owner.guards is None else owner.guards.params(device)
    if owner.obey is not None:
        guards = {**guards, "skip_at": owner.obey.skipped_at(device)}
    return {"guards": guards}


class _Sums:
    """Where an optimizer sums the gradients of micro-batches: of each parameter an array in f32, and what
    it has. Plans come and go, these stay."""

    def __init__(self) -> None:
        self._of: Dict[int, Tuple[Tensor, Tensor, Tensor]] = {}

    def of(self, item: _Item, piece: int = 0) -> Tuple[int, int]:
        """The addresses of both, of an item or of its piece; 0 for a part without elements."""
        here, pieces = item.local, item.pieces
        counts = [here.numel()] if pieces is None else [one.elements for one in pieces]
        if not counts[piece]:
            return 0, 0
        # Each at a multiple of 16 bytes.
        starts = list(accumulate((-(-count // 4) * 4 for count in counts[:-1]), initial=0))
        size = starts[-1] + counts[-1]
        found = self._of.get(id(item.parameter))
        if (found is None or found[1].numel() != size or found[2].numel() != 2 * len(counts)
                or found[1].device != here.device):
            found = (item.parameter, torch.empty(size, dtype=torch.float32, device=here.device),
                     torch.zeros(2 * len(counts), dtype=torch.int32, device=here.device))
            self._of[id(item.parameter)] = found
        return found[1].data_ptr() + 4 * starts[piece], found[2].data_ptr() + 8 * piece


class _Changed(Exception):
    """The plans are for other types of gradients."""


def _without_addresses(rows: List[Dict[str, Any]]) -> Tuple[Any, ...]:
    """What of a plan's rows set_addresses() cannot change."""
    return tuple(tuple(value for name, value in row.items() if name not in _MOVING) for row in rows)


class Engine:
    """The plans of an optimizer, for what its parameters and states were at the last step."""

    def __init__(self) -> None:
        self._parts: List[_Part] = []
        self._captured: List[_Part] = []  # graphs launch their plans
        self._key: Optional[_Key] = None
        self._kept: List[Any] = []  # the objects of the key
        self._entries: List[Dict[str, Any]] = []
        # What States.changes was when the states in the entries were looked at, and which they were.
        self._states: Tuple[int, Any] = -1, None
        self._idle: List[Tensor] = []  # parameters without a gradient and states
        self._norm = False
        self._group: Optional[Any] = None
        self._over_ranks: Optional[_over_ranks.OverRanks] = None
        self._exchanges: List[_exchange.Exchange] = []
        self._exchanged: Any = []  # what they are made for
        self._without: Optional[Tuple[Tensor, Tensor]] = None  # norm and found_inf without plans
        self.detects = False  # a GradScaler asks for found_inf
        self.asked = False  # and of the step that comes next
        self._sums: Optional[_Sums] = None  # since the first accumulate()

    # ---- whether the plans still fit

    def _key_of(self, owner: Any, groups: List[Any], params: List[Tensor]) -> _Key:
        """The key of now. States are looked at only where some have changed."""
        changes = _formats.States.changes
        if changes != self._states[0]:
            self._states = changes, identities.way(chain.from_iterable(map(dict.values, self._entries)))
        return _Key(identities.way((*params, *owner.state.values())), self._states[1],
                    (self._needs_norm(owner), self._sums is not None, owner.process_group, owner.seed,
                     owner.state_dtype, owner.guards, owner.obey, owner.reports, owner.fp8,
                     _kinds(owner, groups)))

    def _needs_norm(self, owner: Any) -> bool:
        return _takes_norm(owner) or self.detects or self._sums is not None

    def step(self, owner: Any) -> None:
        if owner.guards is not None:
            self._take_guards(owner)
        asked, self.asked = self.asked, False
        if self._sums is not None and not asked:
            _check_scaler(owner)
        used = self._look(owner)
        self._run(owner)
        del used  # not before

    def accumulate(self, owner: Any) -> None:
        """Adds the gradients to sums, and lets go of them."""
        if owner.obey is not None:
            raise ValueError("accumulate() with obey: clip_grad_norm_(guards=...) sees the gradients of one micro-batch "
                             "and not the sums; give the optimizer itself guards=, which decide on the sums")
        if self._sums is None:
            self._sums = _Sums()
        used = self._look(owner)
        for part in self._parts:
            stream = part.device.stream()
            self._note_capture(part)
            part.move(stream)
            part.plan.accumulate(stream)
            part.device.done(stream)
            part.drop_gradients()
        del used  # not before

    def _look(self, owner: Any) -> List[Any]:
        """Where parameters, states and gradients are now, and plans for them. Returns what must stay until the
        work is launched."""
        groups = owner.param_groups
        params = (groups[0]["params"] if len(groups) == 1 else
                  list(chain.from_iterable([group["params"] for group in groups])))
        try:
            if (self._key_of(owner, groups, params) != self._key
                    or self._idle and any([p.grad is not None for p in self._idle])):
                raise _Changed
            return [part.look(groups) for part in self._parts]
        except _Changed:
            self._prepare(owner, groups, params, list(map(_grad, params)))
            return [part.look(groups) for part in self._parts]

    def _note_capture(self, part: _Part) -> None:
        if not part.captured and part.device.capturing():
            part.captured = True
            self._captured.append(part)

    @staticmethod
    def _take_guards(owner: Any) -> None:
        """Whether the guards are the optimizer's own, and have what they look at."""
        owner.guards.bind(owner)
        if owner.guards.latest_loss is None and not _capturing(owner.param_groups):
            owner.guards.check_loss()

    def _run(self, owner: Any) -> None:
        scale = getattr(owner, "grad_scale", None)
        found_inf = owner.__dict__.get("_amp_found_inf")
        for part in self._parts:
            stream = part.device.stream()
            self._note_capture(part)
            part.move(stream)
            part.follow(owner, stream)
            part.take_amp(scale, found_inf)
            part.follow_parameters()
            if not part.key.phases:
                part.plan.run(stream)
                part.device.done(stream)
        if self._parts:
            if self._parts[0].key.phases:
                self._phases()
        else:
            self._run_without(owner)
        for part in self._parts:
            if part.empty:
                part.count_empty(owner)
            if part.captured:  # the next replay may be of a step without a GradScaler
                part.take_amp(None, None)
            part.count_writing()
        if owner.fp8 is not None:
            owner.fp8.follow()

    def _phases(self) -> None:
        parts = self._parts
        for part in parts:
            stream = part.device.stream()
            part.plan.norm_sq(stream)
            part.device.done(stream)
        total = parts[0].sums
        for part in parts[1:]:
            total += part.sums.to(total.device)
        self._add_up(total)
        for part in parts[1:]:
            part.sums.copy_(total)
        for part in parts:
            stream = part.device.stream()
            part.plan.finish(stream)
            if part.rule_sums is not None or part.matrix_sums is not None:
                part.plan.reduce(stream)
                part.device.done(stream)
        if self._over_ranks is not None:
            self._over_ranks.add_up(parts, self._device())
        for one in self._exchanges:
            one.run()
        for part in parts:
            stream = part.device.stream()
            part.plan.step(stream)
            part.device.done(stream)

    def _add_up(self, total: Tensor) -> None:
        """Adds the ranks' sums of squares. Those of matrices go with them where their ranks are the same."""
        tables = [one.table(self._parts) for one in self._exchanges]
        if self._group is not None:
            riders = [table for one, table in zip(self._exchanges, tables) if one.group is self._group]
            if riders:
                several = torch.cat([total.reshape(1), *(table.flatten().to(total.device) for table in riders)])
                _shortcuts.add_up.way(several, self._group)
                total.copy_(several[:1].reshape(total.shape))
                at = 1
                for table in riders:
                    table.copy_(several[at:at + table.numel()].reshape(table.shape))
                    at += table.numel()
            else:
                _shortcuts.add_up.way(total, self._group)
        for one, table in zip(self._exchanges, tables):
            if self._group is None or one.group is not self._group:
                _shortcuts.add_up.way(table, one.group)
            one.spread(table, self._parts)

    def _run_without(self, owner: Any) -> None:
        """A step before any parameter has had a gradient: the norm is that of other ranks' gradients."""
        self._without = None
        device = self._device()
        total = torch.zeros((), dtype=torch.float64, device=device)
        self._add_up(total)
        if self._over_ranks is not None:
            self._over_ranks.add_up((), device)
        for one in self._exchanges:
            one.run()
        if not self._norm:
            return
        scale = getattr(owner, "grad_scale", None)
        norm = total.sqrt() if scale is None else total.sqrt() / scale.reshape(()).to(device)
        self._without = norm.to(torch.float32), (~total.isfinite()).to(torch.float32)

    # ---- making plans

    def _prepare(self, owner: Any, groups: List[Any], params: List[Tensor], grads: List[Any]) -> None:
        """States where there are none, and plans, or new addresses for those that there are."""
        for group in groups:
            owner._check(group)
        if owner.fp8 is not None:
            owner.fp8.bind(owner)
            owner.fp8.place(owner)
        items, at = self._items(owner, groups, params, grads)
        norm = self._needs_norm(owner)
        # The gradients are placed as the parameters are, or will be: _usable(). Of all parameters, since
        # a rank may have no gradient of some yet, and all ranks must add up the same.
        planned = set(at)
        asked = [k for k, p in enumerate(params) if p.requires_grad or k in planned]
        reduced = _ranks.reduction([params[k] for k in asked], owner.process_group)
        counted = dict(zip(asked, reduced.counted))
        for item, k in zip(items, at):
            item.counted = counted[k]
        by_device: Dict[torch.device, List[int]] = {}
        for k, item in enumerate(items):
            by_device.setdefault(item.local.device, []).append(k)
        over_ranks = _over_ranks.OverRanks.made(owner, params, asked, ())  # the plans are not made yet
        self._exchange(owner, groups, params, asked)
        phases = (norm and (reduced.group is not None or len(by_device) > 1) or over_ranks is not None
                  or bool(self._exchanges))
        previous = {part.device.device: part for part in self._parts}
        parts = []
        for place, which in by_device.items():
            mine = [items[k] for k in which]
            parts.append(_Part(_device.of(place), mine, owner, norm, phases, previous.get(place),
                               [grads[at[k]] for k in which], self._sums, self._exchanges))
        kept = {id(part.plan) for part in parts}
        for part in self._parts:  # what is dropped must not be at work
            if id(part.plan) not in kept and not part.captured:
                part.device.gpu.synchronize(part.device.stream())
        self._parts, self._norm, self._group = parts, norm, reduced.group if norm else None
        self._over_ranks = over_ranks and _over_ranks.OverRanks.made(owner, params, asked, parts)
        self._idle = [p for k, p in enumerate(params) if k not in planned]
        self._params, self._entries = list(params), list(owner.state.values())
        self._kept = [self._params, *map(list, map(dict.values, self._entries))]
        self._states = -1, None
        self._key = self._key_of(owner, groups, params)

    def _exchange(self, owner: Any, groups: List[Any], params: List[Tensor], asked: List[int]) -> None:
        """What goes between ranks of the matrices of parameters that get gradients."""
        names = list(chain.from_iterable(_names(group) for group in groups))
        of_group = list(chain.from_iterable([group] * len(group["params"]) for group in groups))
        found = [one for k in asked for one in owner._matrices_over_ranks(
            of_group[k], params[k], f"parameter {k}" + (f" ({names[k]})" if names[k] else ""), names[k])]
        key = _exchange.key_of(found)
        if key != self._exchanged:
            if found and _capturing(groups):
                raise RuntimeError(_TAKE_A_STEP)
            self._exchanges, self._exchanged = _exchange.made(found), key

    def _items(self, owner: Any, groups: List[Any], params: List[Tensor],
               grads: List[Any]) -> Tuple[List[_Item], List[int]]:
        """The parameters that have a gradient or had one, with their states, and their places."""
        items: List[_Item] = []
        at: List[int] = []
        names = list(chain.from_iterable(_names(group) for group in groups))
        of_group = list(chain.from_iterable([k] * len(g["params"]) for k, g in enumerate(groups)))
        seen: Dict[int, int] = {}
        for k, parameter in enumerate(params):
            if id(parameter) in seen:
                raise ValueError(f"parameter {k} is parameter {seen[id(parameter)]} again")
            seen[id(parameter)] = k
            entry = owner.state.get(parameter)
            if grads[k] is None and not entry:
                continue
            given = names[k]
            name = k if given is None else zlib.crc32(given.encode())
            item = _Item(parameter, of_group[k], name, f"parameter {k}" + (f" ({given})" if given else ""))
            check_item(item, type(owner).__name__)
            item.names = owner._names_of(groups[item.group])
            item.pieces = owner._pieces(groups[item.group], parameter, item.what, given)
            try:
                group = groups[item.group]
                item.format = _formats.format_of(parameter, owner._state_dtype_of(group), owner._ema_of(group))
                item.states = _states(item, entry)
            except KeyError as error:
                raise KeyError(f"{item.what}: {error.args[0]}") from None
            except ValueError as error:
                raise ValueError(f"{item.what}: {error}") from None
            items.append(item)
            at.append(k)
        check_apart(items)
        for item in items:
            owner.state[item.parameter] = item.states
        return items, at

    # ---- results

    def describe(self) -> Tuple[StepDescription, ...]:
        """Of each device's plan."""
        return tuple(part.plan.describe() for part in self._parts)

    def grad_norm(self) -> Optional[Tensor]:
        if not self._parts:
            return self._without[0] if self._without else None
        return self._parts[0].norm() if self._norm else None

    def report(self, owner: Any, local_part: bool) -> Optional[Report]:
        if not owner.reports or self._key is None:
            return None
        places = {id(p): k for k, p in enumerate(self._params)}
        reported = [Reported(part.reports, [places[id(item.parameter)] for item in part.items],
                             [item.counted for item in part.items],
                             None if part.starts is None else [
                                 [(0, 1, 1)] if item.pieces is None else [piece.place() for piece in item.pieces]
                                 for item in part.items])
                    for part in self._parts if part.reports is not None]
        names = [name if name is not None else str(k) for k, name in
                 enumerate(chain.from_iterable(map(_names, owner.param_groups)))]
        return report_of(names, reported, self._device(), None if local_part else self._group)

    def _device(self) -> torch.device:
        """Where results are: of the first plan, or else of a parameter that a plan could have."""
        if self._parts:
            return self._parts[0].device.device  # type: ignore[no-any-return]
        return next(filter(_device.of, (local(p).device for p in self._params)), torch.device("cpu"))

    def found_inf(self) -> Optional[Tensor]:
        if not self._parts:
            return self._without[1] if self._without else None
        return self._parts[0].found_out if self._norm else None


def _names(group: Dict[str, Any]) -> List[Optional[str]]:
    return list(group.get("param_names") or [None] * len(group["params"]))


def _states(item: _Item, entry: Optional[Dict[str, Any]]) -> Any:
    """The states of a parameter, from those that the optimizer has."""
    given = entry and entry.get("master") is not None
    with torch.no_grad():
        if not entry:
            entry = _formats.fresh(item.parameter, item.format, item.names)
        elif not _formats.fits(item.parameter, entry, item.format, item.names):
            entry = _formats.adopt(item.parameter, entry, item.format, item.names)
        if given and item.format.beside == "master":
            _formats.follow(item.parameter, entry["master"])
    return entry if isinstance(entry, _formats.States) else _formats.States(entry)


def _kinds(owner: Any, groups: List[Any]) -> List[Any]:
    """What of the groups the plans are made for, and a setting that groups do not have."""
    return [(owner._rule(group), group.get("state_dtype"), owner._ema_of(group), "max_grad_norm" in group)
            for group in groups]

# SPDX-License-Identifier: MIT
"""The step plans of an optimizer: made at the first step, looked at anew at each. Nothing here is
keyed on groups or on the parameters of construction: each step compares what there is now with what
the plans were made for."""

from __future__ import annotations

import contextlib
import math
import operator
import zlib
from itertools import chain
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _c
from .._library import c, check
from ..plans import StepPlan
from . import _device, _formats, _native, _ranks
from ._ranks import DTensor
from .clip import increment_version

_EPS = 1e-6  # torch adds it to the norm
_MOVING = ("parameter", "gradient", "state", "absmax", "beside")  # what may move within a plan
# DTensors' attributes without a look for their __torch_function__, which does nothing.
_PLAIN = getattr(torch._C, "DisableTorchFunctionSubclass", contextlib.nullcontext)
_data_ptr, _numel, _is_contiguous = Tensor.data_ptr, Tensor.numel, Tensor.is_contiguous
_grad, _dtype = map(operator.attrgetter, ("grad", "dtype"))


class _Item:
    """A parameter that is stepped: where it is in the optimizer, and what it is on this rank. `what`
    names it in messages."""

    __slots__ = ("parameter", "group", "name", "what", "local", "states", "format", "names", "counted")

    states: Dict[str, Any]
    format: _formats.Format
    names: Tuple[str, ...]
    counted: bool

    def __init__(self, parameter: Tensor, group: int, name: int, what: str) -> None:
        self.parameter, self.group, self.name, self.what = parameter, group, name, what
        self.local = _ranks.local(parameter)

    def stored(self) -> List[str]:
        """The tensors of its states that the plan uses."""
        return ["step", *self.names, *self.absmaxes(),
                *([self.format.beside] if self.format.beside else [])]

    def absmaxes(self) -> List[str]:
        return [name + "_absmax" for name in self.names] if self.format.name == "state_8bit" else []


class _Part:
    """The plan of one device, and what it was made for."""

    made_for: Tuple[Any, ...]

    def __init__(self, device: Any, items: List[_Item], owner: Any, settings: "_Settings",
                 previous: Optional["_Part"], gradients: Sequence[Optional[Tensor]]) -> None:
        self.device, self.items, self.settings = device, items, settings
        self.locals = [item.local for item in items]
        self.parameters = [item.parameter for item in items]
        self.local_at = list(map(_data_ptr, self.locals))
        self.local_ids = _native.identities(self.locals)
        # The memory of the states lives as long as the plan, whatever becomes of their tensors. They
        # move together: off the device and back, say.
        states = [_ranks.local(item.states[name]) for item in items for name in item.stored()]
        self.kept = [state.detach() for state in states]
        self.watched = [state for state in states if state.numel()][-1:]
        self.watched_at = list(map(_data_ptr, self.watched))
        self.contiguous = all(map(_is_contiguous, self.locals))
        self.numels = [local.numel() for local in self.locals]
        self.empty = [k for k, n in enumerate(self.numels) if n == 0]
        self.specs = [getattr(item.parameter, "_spec", None) for item in items]
        self.sharded = any(spec is not None for spec in self.specs)
        self.dtypes = [local.dtype if g is None else _ranks.local(g).dtype
                       for local, g in zip(self.locals, gradients)]
        self.watch = _native.watch(
            self.parameters, self.dtypes,
            [item.states["step"].data_ptr() if not n else 0 for item, n in zip(items, self.numels)])
        self.written = _native.written(self.parameters)
        self.with_master = [item for item in items if item.format.beside == "master"]
        self.versions = self._versions()
        # Of the gradients, 0 where one is missing: as the plan has them, and as look() found them.
        self.known: Any = (_c.c_uint64 * len(items))()
        self.now: Any = (_c.c_uint64 * len(items))()
        self.moved = 0, 0  # the range where they differ: its first, its length
        self.rates = [_Rate(owner.param_groups[g]["lr"], device) for g in settings.group_at]
        rows = [self._row(k) for k in range(len(items))]
        made_for = (settings, rows_without_addresses(rows), [rate.address for rate in self.rates])
        stream = device.stream()
        if previous is not None and previous.made_for == made_for and previous.device is device:
            self._take(previous, rows, stream)
        else:
            self._make(owner, rows, settings, stream)
        self.made_for = made_for

    def _versions(self) -> Optional[_native.Versions]:
        """A look at parameters that have a master, which knows nothing of what others write to them.
        Of DTensors, this rank's parts may be written alone."""
        if not self.with_master:
            return None
        parameters = [item.parameter for item in self.with_master]
        parts = [item.local for item in self.with_master if item.local is not item.parameter]
        return _native.Versions(parameters + parts, len(parameters))

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
        if self.written is not None:
            self.written.bump_versions()
            if self.versions is not None:
                self.versions.know_own()
            return
        increment_version(self.parameters)
        if self.versions is not None:
            self.versions.know()

    def _row(self, k: int) -> Dict[str, Any]:
        item, dummy = self.items[k], self.items[k].states["step"].data_ptr()

        def at(tensor: Optional[Tensor]) -> int:
            return 0 if tensor is None else _ranks.local(tensor).data_ptr() or dummy

        names = item.names
        return {"parameter": at(item.parameter), "gradient": 0,
                "state": tuple(at(item.states[name]) for name in names),
                "absmax": tuple(at(item.states[name]) for name in item.absmaxes()),
                "beside": at(item.states[item.format.beside]) if item.format.beside else 0,
                "step": dummy, "count": self.numels[k], "dtype": _device.NAMES[item.local.dtype],
                "gradient_dtype": _device.NAMES[self.dtypes[k]], "format": item.format.name,
                "group": self.settings.group_at.index(item.group), "uncounted": not item.counted,
                "id": item.name, "whole": self._whole(item)}

    @staticmethod
    def _whole(item: _Item) -> Tuple[int, ...]:
        if item.format.name not in _formats.ROUNDED:
            return (0, 0, 0)
        found = _ranks.whole(item.parameter)
        if found is None:
            raise ValueError(f"{item.what} of shape {tuple(item.parameter.shape)}, placed as "
                             f"{item.parameter.placements}, has no rows of equal distance on this "  # type: ignore[attr-defined]
                             "rank, which its random bits need: use another state_dtype")
        return found

    def _make(self, owner: Any, rows: List[Dict[str, Any]], settings: "_Settings", stream: int) -> None:
        if self.device.capturing():
            raise RuntimeError("ptxgen: take a step with these gradients before the capture begins: "
                               "the first step makes the plan")
        f32 = {"dtype": torch.float32, "device": self.device.device}
        self.scale, self.found_in = torch.ones((), **f32), torch.zeros((), **f32)
        self.found_out = torch.zeros((), **f32)
        self.sums = torch.zeros(1, dtype=torch.float64, device=self.device.device)
        self.amp = False
        params: Dict[str, Any] = {"loss_scale_at": self.scale.data_ptr(), "max_norm": math.inf,
                                  "found_inf_at": self.found_in.data_ptr(), "eps": _EPS,
                                  "seed": owner.seed, "any_address": True, "stream": stream}
        self.max_norm = math.inf
        if settings.norm:
            params["found_inf_to"] = self.found_out.data_ptr()
            self.max_norm = limit_of(owner.max_grad_norm)
            params["group_max_norms"] = [self.max_norm]
        if settings.phases:
            params["sums_at"] = self.sums.data_ptr()
        self.hypers = [owner._scalars(owner.param_groups[g]) for g in settings.group_at]
        groups = []
        for rule, rate, scalars in zip(settings.rules, self.rates, self.hypers):
            group = {"rule": rule[0], "maximize": rule[1], "nesterov": rule[2],
                     "hyper": _hyper(rate.value, scalars)}
            if rate.address:
                group["lr_at"] = rate.address
            groups.append(group)
        self.values = [rate.value for rate in self.rates]
        self.plan = StepPlan(self.device.gpu, rows, groups=groups, **params)  # type: ignore[arg-type]
        self._handle = self.plan.handle.value
        self.records: Optional[Tensor] = None

    def _take(self, previous: "_Part", rows: List[Dict[str, Any]], stream: int) -> None:
        """The previous plan, with addresses of now."""
        for field in ("scale", "found_in", "found_out", "sums", "amp", "max_norm", "hypers", "values",
                      "plan", "records"):
            setattr(self, field, getattr(previous, field))
        self._handle = self.plan.handle.value
        moved: Any = {k: {name: row[name] for name in _MOVING} for k, row in enumerate(rows)}
        self.plan.set_addresses(moved, stream=stream)

    # ---- gradients

    def look(self) -> Sequence[Any]:
        """Looks where parameters and gradients are. Returns tensors that must stay until the work is
        launched. Raises _Changed where the plan is for others."""
        found = _native.UNUSUAL if self.watch is None else self.watch.look(self.known, self.now)
        if found == _native.UNUSUAL:
            return self._ask()
        if found == _native.CHANGED:
            raise _Changed
        self.moved = self.watch.range() if found == _native.MOVED else (0, 0)  # type: ignore[union-attr]
        return ()

    def _ask(self) -> Sequence[Any]:
        """look(), tensor by tensor."""
        if (self.sharded and _native.identities(map(_ranks.local, self.parameters)) != self.local_ids
                or list(map(_data_ptr, self.locals)) != self.local_at):
            raise _Changed
        with _PLAIN() if self.sharded else contextlib.nullcontext():
            gradients = list(map(_grad, self.parameters))
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

    def _addresses(self, gradients: Sequence[Any]) -> Tuple[List[int], Sequence[Any]]:
        """The address of each gradient, 0 where it is missing, and the tensors that are there. Raises
        _Changed where the plan is for gradients of other types."""
        try:
            parts: Any = gradients
            if self.sharded:  # equal specs are often the same object
                parts = [g if spec is None or g._spec is not spec and g._spec != spec
                         else g._local_tensor for g, spec in zip(gradients, self.specs)]
            if (self.contiguous and set(map(type, parts)) <= {Tensor}
                    and list(map(_dtype, parts)) == self.dtypes
                    and list(map(_numel, parts)) == self.numels and all(map(_is_contiguous, parts))):
                addresses = list(map(_data_ptr, parts))
                for k in self.empty:
                    addresses[k] = self.items[k].states["step"].data_ptr()
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
            gradient = gradient._local_tensor
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
        if gradient.dtype is not self.dtypes[k]:
            raise _Changed
        if gradient.stride() != item.local.stride() and gradient.numel():
            gradient = torch.empty_like(item.local).to(gradient.dtype).copy_(gradient)
        return gradient  # type: ignore[no-any-return]

    def move(self, stream: int, capturing: bool) -> None:
        """Tells the plan of gradients that moved, came or went; within a capture of all, so that a
        replay does not depend on what came between."""
        first, count = (0, len(self.items)) if capturing else self.moved
        if count:
            table = _c.addressof(self.now) + first * _c.sizeof(_c.c_uint64)
            check(c.ptx_step_plan_set_gradients(self._handle, first, count, table, stream))
            self.known, self.now = self.now, self.known

    # ---- scalars

    def follow(self, owner: Any, stream: int, capturing: bool) -> None:
        """Scalars that changed since the last step."""
        groups = owner.param_groups
        for k, g in enumerate(self.settings.group_at):
            group = groups[g]
            try:
                scalars = owner._scalars(group)
                value = self.rates[k].follow(group["lr"])
            except (KeyError, TypeError, ValueError):
                owner._check(group)  # says which
                raise
            if value != self.values[k] or scalars != self.hypers[k] or capturing:
                self.plan.set_hyper(k, _hyper(value, scalars), stream=stream)
                self.values[k], self.hypers[k] = value, scalars
        if self.settings.norm:
            limit = limit_of(owner.max_grad_norm)
            if limit != self.max_norm or capturing:
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

    def count_empty(self) -> None:
        """Counts the step of parameters of which this rank has nothing, as other ranks count it: a
        checkpoint may have the count of any rank."""
        steps = [self.items[k].states["step"] for k in self.empty if self.known[k]]
        found = self.found_out if self.settings.norm else self.found_in
        taken = (found == 0).to(torch.float32)
        for step in steps:
            step.add_(taken)

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


class _Changed(Exception):
    """The plans are for other types of gradients."""


class _Rate:
    """A learning rate: a number, or a tensor. What is on the device is read there, in each run."""

    def __init__(self, lr: Any, device: Any) -> None:
        self.tensor: Optional[Tensor] = None
        self.copy: Optional[Tensor] = None
        self.address, self.value = 0, 0.0
        if isinstance(lr, Tensor) and (lr.device.type != "cpu" or device.device.type == "cpu"):
            self.tensor = _ranks.local(lr)
            if lr.device != device.device or lr.dtype is not torch.float32:
                self.copy = torch.zeros((), dtype=torch.float32, device=device.device)
                self.copy.copy_(self.tensor.reshape(()))
            read = self.tensor if self.copy is None else self.copy
            self.address = read.data_ptr()
        else:
            self.value = float(lr)

    def fits(self, lr: Any) -> bool:
        if self.tensor is None:
            return not isinstance(lr, Tensor) or lr.device.type == "cpu"
        return lr is self.tensor and (self.copy is not None or lr.data_ptr() == self.address)

    def follow(self, lr: Any) -> float:
        if self.copy is not None:
            self.copy.copy_(lr.reshape(()))
        return 0.0 if self.address else float(lr)


def _hyper(lr: float, scalars: Sequence[float]) -> Any:
    beta1, beta2, eps, weight_decay, momentum, dampening = scalars
    return {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay,
            "momentum": momentum, "dampening": dampening}


def rows_without_addresses(rows: List[Dict[str, Any]]) -> List[Tuple[Any, ...]]:
    """What of a plan's rows set_addresses() cannot change."""
    return [tuple(value for name, value in row.items() if name not in _MOVING) for row in rows]


class _Settings:
    """What of an optimizer a plan is made for, beside its tensors."""

    def __init__(self, owner: Any, group_at: List[int], norm: bool, phases: bool) -> None:
        self.group_at, self.norm, self.phases = group_at, norm, phases
        self.rules = [owner._rule(owner.param_groups[g]) for g in group_at]
        self.seed = owner.seed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Settings) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]


class Engine:
    """The plans of an optimizer, for what its parameters and states were at the last step."""

    def __init__(self) -> None:
        self._parts: List[_Part] = []
        self._captured: List[_Part] = []  # graphs launch them
        self._params: List[Tensor] = []
        self._entries: List[Any] = []
        self._states: List[Any] = []
        self._param_ids: Any = None  # what those three are
        self._entry_ids: Any = None
        self._state_ids: Any = None
        self._changes = -1  # what States.changes was when the states were looked at
        self._idle: List[int] = []
        self._rules: List[Any] = []
        self._norm = False
        self._group: Optional[Any] = None
        self._without: Optional[Tuple[Tensor, Tensor]] = None  # norm and found_inf without plans
        self._asked: Any = None
        self.detects = False  # a GradScaler asks for found_inf

    # ---- whether the plans still fit

    def _fits(self, owner: Any, groups: List[Any], params: List[Tensor]) -> bool:
        if (not self._params or _native.identities(params) != self._param_ids
                or self._asked != (owner.max_grad_norm is None, self.detects, owner.process_group,
                                   owner.seed, owner.state_dtype)
                or [owner._rule(group) for group in groups] != self._rules):
            return False
        state = owner.state
        if _native.identities(state.values()) != self._entry_ids:
            return False
        if _formats.States.changes != self._changes:
            now = list(chain.from_iterable(map(dict.values, self._entries)))
            if _native.identities(now) != self._state_ids:
                return False
            self._changes = _formats.States.changes
        for k in self._idle:
            if params[k].grad is not None:
                return False
        for part in self._parts:
            if list(map(_data_ptr, part.watched)) != part.watched_at:
                return False
            if not all(rate.fits(groups[g]["lr"])
                       for rate, g in zip(part.rates, part.settings.group_at)):
                return False
        return True

    def step(self, owner: Any) -> None:
        groups = owner.param_groups
        params = (groups[0]["params"] if len(groups) == 1 else
                  list(chain.from_iterable([group["params"] for group in groups])))
        try:
            if not self._fits(owner, groups, params):
                raise _Changed
            used = [part.look() for part in self._parts]
        except _Changed:
            self._prepare(owner, groups, params, list(map(_grad, params)))
            used = [part.look() for part in self._parts]
        self._run(owner)
        del used  # not before

    def _run(self, owner: Any) -> None:
        scale = getattr(owner, "grad_scale", None)
        found_inf = owner.__dict__.get("_amp_found_inf")
        for part in self._parts:
            stream, capturing = part.device.stream(), part.device.capturing()
            part.move(stream, capturing)
            part.follow(owner, stream, capturing)
            part.take_amp(scale, found_inf)
            part.follow_parameters()
            if capturing and part not in self._captured:
                self._captured.append(part)
            if not part.settings.phases:
                part.plan.run(stream)
                part.device.done(stream)
        if self._parts:
            if self._parts[0].settings.phases:
                self._phases()
        else:
            self._run_without(owner)
        for part in self._parts:
            if part.empty:
                part.count_empty()
            part.count_writing()

    def _phases(self) -> None:
        parts = self._parts
        for part in parts:
            stream = part.device.stream()
            part.plan.norm_sq(stream)
            part.device.done(stream)
        total = parts[0].sums
        for part in parts[1:]:
            total += part.sums.to(total.device)
        if self._group is not None:
            _ranks.add_up(total, self._group)
        for part in parts[1:]:
            part.sums.copy_(total)
        for part in parts:
            stream = part.device.stream()
            part.plan.finish(stream)
            part.plan.step(stream)
            part.device.done(stream)

    def _run_without(self, owner: Any) -> None:
        """A step before any parameter has had a gradient: the norm is that of other ranks' gradients."""
        self._without = None
        if not self._norm:
            return
        scale = getattr(owner, "grad_scale", None)
        local = map(_ranks.local, self._params)
        device = next((t.device for t in local if _device.of(t.device)), torch.device("cpu"))
        total = torch.zeros((), dtype=torch.float64, device=device)
        if self._group is not None:
            _ranks.add_up(total, self._group)
        norm = total.sqrt() if scale is None else total.sqrt() / scale.reshape(()).to(device)
        self._without = norm.to(torch.float32), (~total.isfinite()).to(torch.float32)

    # ---- making plans

    def _prepare(self, owner: Any, groups: List[Any], params: List[Tensor], grads: List[Any]) -> None:
        """States where there are none, and plans, or new addresses for those that there are."""
        for group in groups:
            owner._check(group)
        items, at = self._items(owner, groups, params, grads)
        norm = owner.max_grad_norm is not None or self.detects
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
        phases = norm and (reduced.group is not None or len(by_device) > 1)
        previous = {part.device.device: part for part in self._parts}
        parts = []
        for place, which in by_device.items():
            mine = [items[k] for k in which]
            group_at = sorted({item.group for item in mine})
            settings = _Settings(owner, group_at, norm, phases)
            parts.append(_Part(_device.of(place), mine, owner, settings, previous.get(place),
                               [grads[at[k]] for k in which]))
        kept = {id(part.plan) for part in parts}
        for part in self._parts:  # what is dropped must not be at work
            if id(part.plan) not in kept and part not in self._captured:
                part.device.gpu.synchronize(part.device.stream())
        self._parts, self._norm, self._group = parts, norm, reduced.group if norm else None
        self._idle = [k for k in range(len(params)) if k not in planned]
        self._params = list(params)
        self._rules = [owner._rule(group) for group in groups]
        self._entries = list(owner.state.values())
        self._states = list(chain.from_iterable(map(dict.values, self._entries)))
        self._param_ids, self._entry_ids, self._state_ids = map(
            _native.identities, (self._params, self._entries, self._states))
        self._changes = _formats.States.changes
        self._asked = (owner.max_grad_norm is None, self.detects, owner.process_group, owner.seed,
                       owner.state_dtype)

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
            _check(item, type(owner).__name__)
            item.names = owner._names_of(groups[item.group])
            try:
                item.format = _formats.format_of(parameter, owner.state_dtype)
                item.states = _states(item, entry)
            except ValueError as error:
                raise ValueError(f"{item.what}: {error}") from None
            items.append(item)
            at.append(k)
        _check_apart(items)
        for item in items:
            owner.state[item.parameter] = item.states
        return items, at

    # ---- results

    def grad_norm(self) -> Optional[Tensor]:
        if not self._parts:
            return self._without[0] if self._without else None
        return self._parts[0].norm() if self._norm else None

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


def _check(item: _Item, name: str) -> None:
    """Whether a plan can step the parameter."""
    why, local = None, item.local
    if _device.of(local.device) is None:
        why = f"is on {local.device}"
    elif local.dtype not in _device.NAMES:
        why = f"is in {local.dtype}"
    elif local.layout is not torch.strided:
        why = "is sparse"
    elif local.numel() and not _is_dense(local):
        why = f"has gaps or overlaps: its strides are {local.stride()}"
    if why:
        raise ValueError(f"{item.what} {why}, which ptxgen.torch.{name} does not support: use "
                         f"torch.optim.{name}")


def _check_apart(items: Sequence[_Item]) -> None:
    """Whether no two parameters share memory, in which the later step would be lost."""
    places = sorted((str(item.local.device), item.local.data_ptr(), k) for k, item in enumerate(items)
                    if item.local.numel())
    for (device, at, k), (other, after, m) in zip(places, places[1:]):
        here = items[k].local
        if device == other and at + here.numel() * here.element_size() > after:
            raise ValueError(f"{items[k].what} and {items[m].what} share memory: give the optimizer one of "
                             "them, or the tensor of which both are views")


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements, in any order of dimensions, follow one another."""
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True

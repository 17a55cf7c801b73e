# SPDX-License-Identifier: MIT
"""The step plans of an optimizer, one a device: made at the first step, looked at anew at each. Nothing here is
keyed on groups or on the parameters of construction: each step compares what there is now with what
the plans were made for."""

from __future__ import annotations

import operator
import zlib
from itertools import chain
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .._types import StepDescription
from . import (_device, _exchange, _formats, _over_ranks, _ranks, _shortcuts, _units, fp8 as _fp8, guards as _guards,
               qk_clip as _qk_clip)
from ._items import Taken, check_item
from ._part import TAKE_A_STEP, Changed, Item, Part, Sums
from ._shortcuts import identities, local
from .reports import Report, Reported, report_of

_grad = operator.attrgetter("grad")
UNSCALES_LAST = ("scaler.unscale_() divides the gradients of the last micro-batch, and not the sums of accumulate(): leave it "
                 "out; max_grad_norm clips the sums, unscaled")


class _Key(NamedTuple):
    """What an optimizer's plans are made for: they fit while the key of now is equal, and what looks find
    is where it was. The engine keeps the objects, so none has the identity of another."""

    objects: Any  # identities of the parameters, and of the dicts in which the optimizer has states
    states: Any  # and of these
    settings: Tuple[Any, ...]  # of all groups, and of each


def _takes_norm(owner: Any) -> bool:
    return (owner.max_grad_norm is not None or owner.reports or owner._takes_norm
            or owner.guards is not None and owner.guards.takes_norm
            or any(one is not None for one in _units.of_all(owner)))


def _check_scaler(owner: Any) -> None:
    """Refuses what a GradScaler knows of gradients that are not the sums, with which the step is."""
    if owner.__dict__.pop("_amp_found_inf", None) is None:
        return
    if owner.__dict__.pop("grad_scale", None) is None:
        raise ValueError(UNSCALES_LAST)
    raise ValueError("torch's GradScaler looks for infinity in the gradients of the last micro-batch, and not in the "
                     "sums of accumulate(): use ptxgen.torch.GradScaler, which asks the step")


def _capturing(groups: List[Any]) -> bool:
    devices = {_device.of(local(p).device) for group in groups for p in group["params"]}
    return any(device is not None and device.capturing() for device in devices)


class Engine:
    """The plans of an optimizer, for what its parameters and states were at the last step."""

    def __init__(self, previous: Optional["Engine"] = None) -> None:
        self._parts: List[Part] = []
        # Graphs launch their plans: these stay, with what they use, whatever becomes of the optimizer's states.
        self._captured: List[Part] = [] if previous is None else previous._captured
        self._key: Optional[_Key] = None
        self._of_params: Any = None  # identities of the parameters in it
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
        self._sums: Optional[Sums] = None  # since the first accumulate()
        # Parameters that have sums, by identity: those of plans that are gone, and whether those of `_parts` have some.
        self._summed: Dict[int, Tensor] = {}
        self._adds = False
        self._replayed: Dict[int, Tensor] = {}  # those that may have some, as graphs have an accumulate() of them

    @property
    def has_sums(self) -> bool:
        """Whether steps are those of sums."""
        return self._sums is not None

    # ---- whether the plans still fit

    def _key_of(self, owner: Any, groups: List[Any], params: List[Tensor]) -> _Key:
        """The key of now. States are looked at only where some have changed."""
        changes = _formats.States.changes
        if changes != self._states[0]:
            self._states = changes, identities.way(chain.from_iterable(map(dict.values, self._entries)))
        return _Key(identities.way((*params, *owner.state.values())), self._states[1],
                    self._settings(owner, groups))

    def _settings(self, owner: Any, groups: List[Any]) -> Tuple[Any, ...]:
        return (self._needs_norm(owner), self._sums is not None, owner.process_group, owner.seed,
                owner.state_dtype, owner.guards, owner.obey, owner.reports,
                owner.fp8, getattr(owner.fp8, "placings", 0), owner.qk_clip, _qk_clip.places(owner.qk_clip),
                _kinds(owner, groups))

    def _needs_norm(self, owner: Any) -> bool:
        return self._sums is not None or self.detects or _takes_norm(owner)

    def _fits(self, owner: Any, groups: List[Any], params: List[Tensor], states: bool) -> bool:
        """Whether the plans are for what there is now. Sums of gradients are where parameters and settings put them:
        without `states` those are not looked at."""
        if states or self._key is None:
            return self._key_of(owner, groups, params) == self._key
        return (identities.way(params) == self._of_params
                and self._settings(owner, groups) == self._key.settings)

    def step(self, owner: Any) -> None:
        if owner.guards is not None:
            self._take_guards(owner)
        asked, self.asked = self.asked, False
        if self._sums is not None and not asked:
            _check_scaler(owner)
        used = self._look(owner)
        self._run(owner)
        self._summed, self._adds = {}, False
        del used  # not before

    def accumulate(self, owner: Any) -> None:
        """Adds the gradients to sums, and lets go of them."""
        if owner.obey is not None:
            raise ValueError("accumulate() with obey: clip_grad_norm_(guards=...) sees the gradients of one micro-batch "
                             "and not the sums; give the optimizer itself guards=, which decide on the sums")
        if self._sums is None:
            self._sums = Sums()
        used = self._look(owner, False)
        self._adds = True
        for part in self._parts:
            stream = part.device.stream()
            self._note_capture(part)
            if part.captured and part.device.capturing():
                self._replayed.update((id(p), p) for p in part.parameters)
            part.move(stream)
            part.accumulate(stream)
            part.device.done(stream)
            part.drop_gradients()
        del used  # not before

    def _look(self, owner: Any, states: bool = True) -> List[Any]:
        """Where parameters, states and gradients are now, and plans for them. Returns what must stay until the
        work is launched."""
        groups = owner.param_groups
        params = (groups[0]["params"] if len(groups) == 1 else
                  list(chain.from_iterable([group["params"] for group in groups])))
        try:
            if (not self._fits(owner, groups, params, states)
                    or self._idle and any([p.grad is not None for p in self._idle])):
                raise Changed
            return [part.look(groups) for part in self._parts]
        except Changed:
            self._prepare(owner, groups, params, list(map(_grad, params)))
            return [part.look(groups) for part in self._parts]

    def _note_capture(self, part: Part) -> None:
        if not part.noted and part.device.capturing():
            part.captured = part.noted = True
            if all(one is not part for one in self._captured):
                self._captured.append(part)

    @staticmethod
    def _take_guards(owner: Any) -> None:
        """Whether the guards are the optimizer's own, and have what they look at."""
        _guards.check("guards", owner.guards)
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
            part.follow_parameters(stream)
            if part.empty:
                part.keep_clocks()
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
        owner.qk_clip = _qk_clip.check(owner.qk_clip)
        for one in owner.qk_clip:
            one.check(params)
        if owner.fp8 is not None:
            _fp8.check(owner.fp8)
            owner.fp8.bind(owner)
            owner.fp8.place(owner)
        if self._adds:
            self._summed.update((id(p), p) for part in self._parts for p in part.parameters)
            self._adds = False
        items, at = self._items(owner, groups, params, grads)
        for item in items if self._sums is not None else ():
            if id(item.parameter) in self._summed:
                self._sums.check(item)  # type: ignore[union-attr]
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
        alone = self._device_of(params)
        if not items and norm and reduced.group is not None and owner.guards is not None and _device.of(alone):
            by_device[alone] = []  # guards see the steps that other ranks take
        over_ranks = _over_ranks.OverRanks.made(owner, params, asked, ())  # the plans are not made yet
        self._exchange(owner, groups, params, asked)
        phases = (norm and (reduced.group is not None or len(by_device) > 1) or over_ranks is not None
                  or bool(self._exchanges))
        previous = {part.device.device: part for part in self._parts}
        parts = []
        for place, which in by_device.items():
            mine = [items[k] for k in which]
            parts.append(Part(_device.of(place), mine, owner, norm, phases, previous.get(place),
                               [grads[at[k]] for k in which], self._taken, self._sums, self._exchanges))
        kept = {id(part.plan) for part in parts}
        for part in self._parts:  # what is dropped must not be at work
            if id(part.plan) not in kept and not part.captured:
                part.device.gpu.synchronize(part.device.stream())
        # A plan that has other addresses now: they replace those that it had, but for those of the capture itself.
        anew = [part for part in parts if part.captured]
        plans = {id(part.plan) for part in anew}
        self._captured[:] = [part for part in self._captured if part.noted or id(part.plan) not in plans] + anew
        self._parts, self._norm, self._group = parts, norm, reduced.group if norm else None
        self._over_ranks = over_ranks and _over_ranks.OverRanks.made(owner, params, asked, parts)
        self._idle = [p for k, p in enumerate(params) if k not in planned]
        self._params, self._entries = list(params), list(owner.state.values())
        self._kept = [self._params, *map(list, map(dict.values, self._entries))]
        self._states = -1, None
        self._key = self._key_of(owner, groups, params)
        self._of_params = identities.way(params)

    def _exchange(self, owner: Any, groups: List[Any], params: List[Tensor], asked: List[int]) -> None:
        """What goes between ranks of the matrices of parameters that get gradients."""
        names = list(chain.from_iterable(_names(group) for group in groups))
        of_group = list(chain.from_iterable([group] * len(group["params"]) for group in groups))
        found = [one for k in asked for one in owner._matrices_over_ranks(
            of_group[k], params[k], f"parameter {k}" + (f" ({names[k]})" if names[k] else ""), names[k])]
        key = _exchange.key_of(found)
        if key != self._exchanged:
            if found and _capturing(groups):
                raise RuntimeError(TAKE_A_STEP)
            self._exchanges, self._exchanged = _exchange.made(found), key

    def _items(self, owner: Any, groups: List[Any], params: List[Tensor],
               grads: List[Any]) -> Tuple[List[Item], List[int]]:
        """The parameters that have a gradient or had one, with their states, and their places. Those that have sums
        are among them, whatever became of their states."""
        items: List[Item] = []
        at: List[int] = []
        names = list(chain.from_iterable(_names(group) for group in groups))
        of_group = list(chain.from_iterable([k] * len(g["params"]) for k, g in enumerate(groups)))
        seen: Dict[int, int] = {}
        for k, parameter in enumerate(params):
            if id(parameter) in seen:
                raise ValueError(f"parameter {k} is parameter {seen[id(parameter)]} again: give the optimizer each one once, as "
                                 "model.parameters() does")
            seen[id(parameter)] = k
            entry = owner.state.get(parameter)
            summed = id(parameter) in self._summed or id(parameter) in self._replayed
            if grads[k] is None and not entry and not summed:
                continue
            given = names[k]
            name = k if given is None else zlib.crc32(given.encode())
            item = Item(parameter, of_group[k], name, f"parameter {k}" + (f" ({given})" if given else ""))
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
        self._taken = Taken(items)
        _qk_clip.check_apart(owner.qk_clip, items)
        for item, k in zip(items, at):
            if grads[k] is not None:
                self._taken.check_gradient(item, local(grads[k]))
        for item in items:
            owner.state[item.parameter] = item.states
        return items, at

    # ---- results

    def weights_changed(self) -> None:
        """Norms of weights that were written where nothing tells."""
        for part in self._parts:
            part.weights_changed(part.device.stream())
            part.device.done(part.device.stream())

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
        return self._device_of(self._params)

    @staticmethod
    def _device_of(params: List[Tensor]) -> torch.device:
        return next(filter(_device.of, (local(p).device for p in params)), torch.device("cpu"))

    def found_inf(self) -> Optional[Tensor]:
        if not self._parts:
            return self._without[1] if self._without else None
        return self._parts[0].found_out if self._norm else None


def _names(group: Dict[str, Any]) -> List[Optional[str]]:
    return list(group.get("param_names") or [None] * len(group["params"]))


def _states(item: Item, entry: Optional[Dict[str, Any]]) -> Any:
    """The states of a parameter, from those that the optimizer has."""
    given = entry and entry.get("master") is not None
    step = entry.get("step") if entry else None
    if step is not None and not (isinstance(step, Tensor) and local(step).device.type == "cuda"):  # that would wait
        _formats.check_count(step)
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
    return [(owner._rule(group), group.get("state_dtype"), owner._ema_of(group), owner._agc_of(group), "max_grad_norm" in group)
            for group in groups]

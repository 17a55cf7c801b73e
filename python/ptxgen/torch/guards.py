# SPDX-License-Identifier: MIT
"""Guards of optimizers and of clip_grad_norm_: rules that skip a step, or clip further, on the device.
docs/guards.md has the rules."""

from __future__ import annotations

import ctypes
import math
import numbers
import weakref
from typing import Any, Dict, List, Mapping, Optional, Union

import torch
from torch import Tensor

from .. import _c, _types
from .._library import c, struct

_HEADER = ctypes.sizeof(_c.ptx_guard_state)
_STATE = _c.ptx_guard_state
_OWN = ("version", "length", "groups", "kinds")  # what says which guards a state belongs to
_LENGTHS = 6, 65536  # of a history, as guard.h has them
_ATTRIBUTES = ("_fields", "_has_losses", "_bytes", "_states", "_losses", "_loss", "_loaded", "_planned", "_owner")
CLIP = "clip_grad_norm_()"  # an owner of guards
_RULES = ("neither ZClip nor AdaGC", "ZClip", "AdaGC")  # enum ptx_guard_rule
REASONS = tuple(name[len("PTX_GUARD_SKIP_"):].lower() for name in _c.ENUMS["ptx_guard_skip"]
                if not name.endswith("_COUNT"))


def _part(state: Tensor, field: str, dtype: torch.dtype) -> Tensor:
    """A field of a state, on the device."""
    place = getattr(_STATE, field)
    found = state[place.offset:place.offset + place.size].view(dtype)
    return found if found.numel() > 1 else found[0]


def _is_number(value: Any) -> bool:
    """Whether it is a number, numpy's too: True is none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _count(name: str, value: Any, least: int, must: str) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}: {value!r} is not {must}")
    return int(value)


def _rule(name: str, given: Any) -> Dict[str, Any]:
    """The fields of ZClip or AdaGC."""
    fields = dict(given) if isinstance(given, Mapping) else {"warmup": given}
    if "warmup" not in fields:
        raise ValueError(f"{name}: {given!r} has no warmup, without which there is no such rule: give it a number of "
                         "steps")
    for field, value in fields.items():
        if not _is_number(value):
            raise ValueError(f"{name}: a number is needed for {field}, not {value!r}")
        fields[field] = float(value)
    fields["warmup"] = _count(f"{name}.warmup" if isinstance(given, Mapping) else name,
                              given["warmup"] if isinstance(given, Mapping) else given, 1,
                              "a number of steps, at least 1")
    return fields


def _guards(header: Any) -> str:
    """Whose state it is, in words."""
    kinds = header.kinds & 3
    rule = _RULES[kinds] if kinds < len(_RULES) else f"rule {kinds}"
    losses = " and losses" if header.kinds & 4 else ""
    history = f"a history of {header.length} norms{losses}" if header.length else "no history"
    return f"{history}, {rule}{'' if header.groups < 2 else f' of {header.groups} groups'}"


class Guards:
    """Rules that look at the norm of all gradients, and at the loss, and skip a step, or clip further:

        guards = ptxgen.torch.Guards(limit=100.0, history=128, losses=True)
        optimizer = ptxgen.torch.AdamW(model.parameters(), lr=3e-4, max_grad_norm=1.0, guards=guards)
        ...
        guards.latest_loss = loss.detach()   # with losses=True, before each step
        optimizer.step()                     # guards.skipped: 0.0, or the reason, on the device

    limit: skips a step whose norm is above it.
    history: the number of steps, at least 6, of whose norms a norm may be no outlier; `deviations` standard
        deviations above their mean are the limit. `losses`: the same for latest_loss. `most_skips`: values of
        skipped steps stay out, and after so many in a row the history starts again.
    zclip, adagc: the steps of the warm-up of ZClip or AdaGC, or a dict of their fields in <ptxgen/guard.h>.

    One object is for one optimizer, or for the calls of clip_grad_norm_() of one model: the first step or call
    binds it. Its rules stay; latest_loss alone is set. Nothing waits for the GPU. Losses are not reduced over
    ranks: give each rank the same one."""

    def __init__(self, *, limit: Optional[float] = None, history: int = 0, deviations: Optional[float] = None,
                 losses: bool = False, most_skips: int = 0,
                 zclip: Union[None, int, Mapping[str, Any]] = None,
                 adagc: Union[None, int, Mapping[str, Any]] = None) -> None:
        if limit is not None and not (_is_number(limit) and ctypes.c_float(limit).value > 0):
            raise ValueError(f"limit: {limit!r} is not a number above 0 in f32, or None for no limit")
        least, most = _LENGTHS
        length = _count("history", history, 0, f"0, or a number of steps from {least} to {most}")
        if length and not least <= length <= most:
            raise ValueError(f"history: {length} is not 0, or a number of steps from {least} to {most}")
        if deviations is not None and not (_is_number(deviations) and 0 < deviations < math.inf):
            raise ValueError(f"deviations: {deviations!r} is not a number above 0")
        skips = _count("most_skips", most_skips, 0, "a number of steps, at least 0")
        for name, given in (("losses=True", losses), ("deviations", deviations), ("most_skips", skips)):
            if given and not length:
                raise ValueError(f"{name} is of the history, and history is 0: give it a number of steps (OLMo-core "
                                 "has 128)")
        self._fields: Dict[str, Any] = {
            "limit": 0.0 if limit is None else float(limit),
            "history": {"length": length, "deviations": 0.0 if deviations is None else float(deviations),
                        "most_skips": skips, "loss_at": 4 if losses else 0}}
        for name, rule in (("zclip", zclip), ("adagc", adagc)):
            if rule is not None:
                self._fields[name] = _rule(name, rule)
        self._has_losses = bool(losses)
        self._bytes = self._size()
        self._states: Dict[torch.device, Tensor] = {}
        self._losses: Dict[torch.device, Tensor] = {}
        self._loss: Optional[Tensor] = None  # before the first plan
        self._loaded: Optional[Tensor] = None  # likewise
        self._planned: Optional[torch.device] = None  # of the first plan
        self._owner: Any = None  # a weak reference to the optimizer, or CLIP

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "latest_loss" and name not in _ATTRIBUTES:
            raise AttributeError(f"guards have no {name!r} to set: their rules are given to Guards(...), and stay; "
                                 "latest_loss can be set")
        object.__setattr__(self, name, value)

    def _size(self) -> int:
        """The bytes of a state. Refuses what plans refuse."""
        made = struct(_c.ptx_guard_params, self._fields, "guards", {})
        size = int(c.ptx_guard_state_bytes(ctypes.byref(made), 1))
        if not size:
            message = c.ptx_error_message().decode()
            raise ValueError(message.split(": ", 1)[-1])
        return size

    @property
    def takes_norm(self) -> bool:
        """Whether one of the rules needs a norm: all but the count of steps do."""
        return bool(self._fields["limit"] or self._fields["history"]["length"] or "zclip" in self._fields
                    or "adagc" in self._fields)

    # ---- whose they are

    def bind(self, owner: Any) -> None:
        """The first step of an optimizer, or the first call of clip_grad_norm_() (CLIP), has them to itself."""
        now = self._owner if self._owner is CLIP or self._owner is None else self._owner()
        if now is None:
            self._owner = owner if owner is CLIP else weakref.ref(owner)
        elif now is not owner:
            raise ValueError(
                f"guards: these are already those of {_called(now)}, and {_called(owner)} would mix its norms into their "
                "state: make a Guards for each; where clipping and stepping are apart, the optimizer has obey=guards")

    def check_loss(self) -> None:
        """Whether there is a loss to look at. Not for calls under capture: a replay has the loss of its time."""
        if self._has_losses and self._loss is None:
            raise ValueError("guards with losses=True look at a loss, and none was given: set guards.latest_loss before "
                             "the step")

    def place(self, device: torch.device) -> Tensor:
        """The state on a device."""
        state = self._states.get(device)
        if state is None:
            state = torch.zeros(self._bytes, dtype=torch.uint8, device=device)
            first = self._first()
            if first is not None:
                state.copy_(first)
            self._states[device] = state
        return state

    def params(self, device: torch.device) -> _types.GuardParams:
        """The guards of a plan on a device, whose state there is this object's."""
        state = self.place(device)
        if self._planned is None:
            self._planned = device
        fields = {**self._fields, "state": state.data_ptr(), "state_bytes": self._bytes}
        if self._has_losses:
            loss = self._losses.get(device)
            if loss is None:
                loss = self._losses[device] = torch.full((), math.nan, dtype=torch.float32, device=device)
                if self._loss is not None:
                    loss.copy_(self._loss.reshape(()))
            fields["history"] = {**fields["history"], "loss_at": loss.data_ptr()}
        return fields  # type: ignore[return-value]

    def skipped_at(self, device: torch.device) -> int:
        """Where plans on the device find whether the last step was skipped."""
        return int(self.place(device).data_ptr()) + int(getattr(_STATE, "skipped").offset)

    def skipped_on(self, device: torch.device) -> Tensor:
        """`skipped` on the device of a plan."""
        return _part(self._states[device], "skipped", torch.float32)

    def without(self) -> None:
        """A call without gradients, which skips nothing."""
        for state in self._states.values():
            for field in ("skipped", "norm"):
                _part(state, field, torch.float32).zero_()

    # ---- what steps are given, and what they leave

    @property
    def latest_loss(self) -> Optional[Tensor]:
        """The loss that the next step looks at, as it was given."""
        return self._loss

    @latest_loss.setter
    def latest_loss(self, loss: Any) -> None:
        if not self._has_losses:
            raise ValueError("latest_loss is set, and these guards look at no losses: make them with losses=True")
        try:
            given = torch.as_tensor(loss).detach()
        except (TypeError, ValueError, RuntimeError):
            given = None
        if given is None or given.is_complex():
            raise ValueError(f"latest_loss: a number is needed, or a tensor of one, not {loss!r:.80}")
        if given.numel() != 1:
            raise ValueError(f"latest_loss: a number is needed, not {given.numel()}")
        self._loss = given
        for own in self._losses.values():
            own.copy_(given.reshape(()))

    def _first(self) -> Optional[Tensor]:
        """The state: that of the first plan's device, or what was loaded."""
        planned = None if self._planned is None else self._states.get(self._planned)
        return next(iter(self._states.values()), self._loaded) if planned is None else planned

    def _state(self) -> Tensor:
        """The state, from the start."""
        found = self._first()
        return torch.zeros(self._bytes, dtype=torch.uint8) if found is None else found

    @property
    def skipped(self) -> Tensor:
        """Why the last step was skipped, on the device: 0.0 if it was taken, else the index in REASONS. The next
        step overwrites it. An optimizer's guards are on its parameters' device from the start, others from the
        first call of clip_grad_norm_() on."""
        return _part(self._state(), "skipped", torch.float32)

    @property
    def norm(self) -> Tensor:
        """The last step's norm of all gradients, unscaled, before clipping, on the device."""
        return _part(self._state(), "norm", torch.float32)

    @property
    def counts(self) -> Tensor:
        """How many steps were taken, and skipped for each reason, in the order of REASONS, on the device."""
        return _part(self._state(), "counts", torch.int64)[:len(REASONS)]

    # ---- states

    def state_dict(self) -> Dict[str, Tensor]:
        """The state, for checkpoints: equal on all devices and ranks."""
        return {"state": self._state().clone()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes a state_dict() of guards with the same rules; limits and factors may differ."""
        given = state_dict.get("state") if isinstance(state_dict, Mapping) else None
        if not isinstance(given, Tensor) or given.dtype is not torch.uint8 or given.numel() < _HEADER:
            raise ValueError(f"guards: what state_dict() of Guards gives is needed, which has \"state\", a tensor of bytes, "
                             f"not {state_dict!r:.80}")
        header = _STATE.from_buffer_copy(bytes(given[:_HEADER].cpu().tolist()))
        must = _STATE(**dict(zip(_OWN, self._belongs())))
        if header.version not in (0, must.version):
            raise ValueError(f"guards: the state is of version {header.version}, or no state at all; this package has "
                             f"version {must.version}")
        if header.version and any(getattr(header, name) != getattr(must, name) for name in _OWN):
            raise ValueError(f"guards: the state is that of other guards: it has {_guards(header)}, and these have "
                             f"{_guards(must)}")
        if given.numel() != self._bytes:
            raise ValueError(f"guards: the state is that of other guards: it has {given.numel()} bytes, and these, with "
                             f"{_guards(must)}, have {self._bytes}")
        self._loaded = given.detach().clone()
        for state in self._states.values():
            state.copy_(given)

    def _belongs(self) -> List[int]:
        rule = 1 if "zclip" in self._fields else 2 if "adagc" in self._fields else 0
        return [_c.PTX_GUARD_STATE_VERSION, self._fields["history"]["length"], 1 if rule else 0,
                rule + (4 if self._has_losses else 0)]

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_states": {}, "_losses": {}, "_loaded": self.state_dict()["state"].cpu(),
                "_planned": None, "_owner": None}

    def __repr__(self) -> str:
        history = self._fields["history"]
        given = {**self._fields, "history": history["length"], "deviations": history["deviations"],
                 "losses": self._has_losses, "most_skips": history["most_skips"]}
        return f"Guards({', '.join(f'{k}={v}' for k, v in given.items() if v)})"


def _called(owner: Any) -> str:
    return CLIP if owner is CLIP else f"an optimizer {type(owner).__name__}"


def check(name: str, given: Any) -> None:
    """Whether an argument is guards, or None."""
    if given is not None and not isinstance(given, Guards):
        raise TypeError(f"{name}: ptxgen.torch.Guards(...) is needed, or None, not {given!r:.80}")

# SPDX-License-Identifier: MIT
"""Guards of optimizers and of clip_grad_norm_: rules that skip a step, or clip further, on the device.
docs/guards.md has the rules."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Dict, List, Mapping, Optional, Union

import torch
from torch import Tensor

from .. import _c, _types
from .._library import c, struct

_HEADER = ctypes.sizeof(_c.ptx_guard_state)
_STATE = _c.ptx_guard_state
_OWN = ("version", "length", "groups", "kinds")  # what says which guards a state belongs to
REASONS = tuple(name[len("PTX_GUARD_SKIP_"):].lower() for name in _c.ENUMS["ptx_guard_skip"]
                if not name.endswith("_COUNT"))


def _part(state: Tensor, field: str, dtype: torch.dtype) -> Tensor:
    """A field of a state, on the device."""
    place = getattr(_STATE, field)
    found = state[place.offset:place.offset + place.size].view(dtype)
    return found if found.numel() > 1 else found[0]


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

    One object is for one optimizer, or for the calls of clip_grad_norm_() of one model. Nothing waits for the
    GPU. Losses are not reduced over ranks: give each rank the same one."""

    def __init__(self, *, limit: Optional[float] = None, history: int = 0, deviations: float = 6.0,
                 losses: bool = False, most_skips: int = 0,
                 zclip: Union[None, int, Mapping[str, Any]] = None,
                 adagc: Union[None, int, Mapping[str, Any]] = None) -> None:
        if limit is not None and not (isinstance(limit, (int, float)) and limit > 0):
            raise ValueError(f"limit: {limit!r} is not a number above 0, or None for no limit")
        if losses and not history:
            raise ValueError("losses=True, and history is 0: give it a number of steps (OLMo-core has 128)")
        self.has_losses = bool(losses)
        self._fields: Dict[str, Any] = {
            "limit": 0.0 if limit is None else limit,
            "history": {"length": history, "deviations": deviations if history else 0.0, "most_skips": most_skips,
                        "loss_at": 4 if losses else 0}}
        for name, given in (("zclip", zclip), ("adagc", adagc)):
            if given is not None:
                self._fields[name] = given if isinstance(given, Mapping) else {"warmup": given}
        self._bytes = self._size()
        self._states: Dict[torch.device, Tensor] = {}
        self._losses: Dict[torch.device, Tensor] = {}
        self._loss: Optional[Tensor] = None  # before the first plan
        self._loaded: Optional[Tensor] = None  # likewise

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

    def params(self, device: torch.device) -> _types.GuardParams:
        """The guards of a plan on a device, whose state there is this object's."""
        state = self._states.get(device)
        if state is None:
            state = torch.zeros(self._bytes, dtype=torch.uint8, device=device)
            first = next(iter(self._states.values()), self._loaded)
            if first is not None:
                state.copy_(first)
            self._states[device] = state
        fields = {**self._fields, "state": state.data_ptr(), "state_bytes": self._bytes}
        if self.has_losses:
            loss = self._losses.get(device)
            if loss is None:
                loss = self._losses[device] = torch.full((), math.nan, dtype=torch.float32, device=device)
                if self._loss is not None:
                    loss.copy_(self._loss.reshape(()))
            fields["history"] = {**fields["history"], "loss_at": loss.data_ptr()}
        return fields  # type: ignore[return-value]

    def skipped_at(self, device: torch.device) -> int:
        """Where plans on the device find whether the last step was skipped."""
        return int(self.params(device)["state"]) + getattr(_STATE, "skipped").offset

    def skipped_on(self, device: torch.device) -> Tensor:
        """`skipped` on the device of a plan."""
        return _part(self._states[device], "skipped", torch.float32)

    # ---- what steps are given, and what they leave

    @property
    def latest_loss(self) -> Optional[Tensor]:
        """The loss that the next step looks at, as it was given."""
        return self._loss

    @latest_loss.setter
    def latest_loss(self, loss: Any) -> None:
        if not self.has_losses:
            raise ValueError("latest_loss is set, and these guards look at no losses: make them with losses=True")
        given = torch.as_tensor(loss).detach()
        if given.numel() != 1:
            raise ValueError(f"latest_loss: a number is needed, not {given.numel()}")
        self._loss = given
        for own in self._losses.values():
            own.copy_(given.reshape(()))

    def _first(self, field: str, dtype: torch.dtype) -> Optional[Tensor]:
        state = next(iter(self._states.values()), None)
        return None if state is None else _part(state, field, dtype)

    @property
    def skipped(self) -> Optional[Tensor]:
        """Why the last step was skipped, on the device: 0.0 if it was taken, else the index in REASONS. The next
        step overwrites it. None before the first step."""
        return self._first("skipped", torch.float32)

    @property
    def norm(self) -> Optional[Tensor]:
        """The last step's norm of all gradients, unscaled, before clipping, on the device."""
        return self._first("norm", torch.float32)

    @property
    def counts(self) -> Optional[Tensor]:
        """How many steps were taken, and skipped for each reason, in the order of REASONS, on the device."""
        found = self._first("counts", torch.int64)
        return None if found is None else found[:len(REASONS)]

    # ---- states

    def state_dict(self) -> Dict[str, Tensor]:
        """The state, for checkpoints: equal on all devices and ranks."""
        first = next(iter(self._states.values()), self._loaded)
        return {"state": torch.zeros(self._bytes, dtype=torch.uint8) if first is None else first.clone()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes a state_dict() of guards with the same rules; limits and factors may differ."""
        given = state_dict["state"]
        if not isinstance(given, Tensor) or given.dtype is not torch.uint8 or given.numel() != self._bytes:
            size = given.numel() if isinstance(given, Tensor) else f"a {type(given).__name__}"
            raise ValueError(f"guards: the state is {size}, and these guards have {self._bytes} bytes: it is that "
                             "of other guards, of another history say")
        header = _STATE.from_buffer_copy(bytes(given[:_HEADER].cpu().tolist()))
        names = dict(zip(_OWN, self._belongs()))
        if header.version:
            for name, must in names.items():
                if getattr(header, name) != must:
                    raise ValueError(f"guards: the state has {name} {getattr(header, name)}, and these guards {must}: it "
                                     "is that of other guards")
        self._loaded = given.detach().clone()
        for state in self._states.values():
            state.copy_(given)

    def _belongs(self) -> List[int]:
        rule = 1 if "zclip" in self._fields else 2 if "adagc" in self._fields else 0
        return [_c.PTX_GUARD_STATE_VERSION, self._fields["history"]["length"], 1 if rule else 0,
                rule + (4 if self.has_losses else 0)]

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_states": {}, "_losses": {}, "_loaded": self.state_dict()["state"].cpu()}

    def __repr__(self) -> str:
        return f"Guards({', '.join(f'{k}={v}' for k, v in self._fields.items() if v)})"


def check(name: str, given: Any) -> None:
    """Whether an argument is guards, or None."""
    if given is not None and not isinstance(given, Guards):
        raise TypeError(f"{name}: ptxgen.torch.Guards(...) is needed, or None, not {given!r:.80}")

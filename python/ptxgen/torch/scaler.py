# SPDX-License-Identifier: MIT
"""torch's GradScaler without a pass of its own over the gradients, where a plan looks at them anyway."""

from __future__ import annotations

from typing import Any, Dict

import torch

try:
    from torch.amp import GradScaler as _GradScaler  # type: ignore[attr-defined,unused-ignore]
except ImportError:  # before torch 2.3
    from torch.cuda.amp import GradScaler as _GradScaler  # type: ignore[assignment]

from ._engine import UNSCALES_LAST
from .optim import Stepped


class GradScaler(_GradScaler):
    """torch.amp.GradScaler. With an optimizer of this package, step() leaves it to the step plan to
    unscale and to look for NaN and infinity, and update() uses what the plan found. After unscale_(),
    and with other optimizers, it is torch's."""

    def _check_inf_per_device(self, optimizer: Any) -> Dict[Any, Any]:
        if not isinstance(optimizer, Stepped):
            return super()._check_inf_per_device(optimizer)
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        engine = optimizer._engine()
        engine.detects = engine.asked = True
        state = self._per_optimizer_states[id(optimizer)]
        # found_inf is not known yet: 0 lets the step decide.
        state["found_inf_per_device"] = {scale.device: torch.zeros((), device=scale.device)}
        return state["found_inf_per_device"]  # type: ignore[no-any-return]

    def unscale_(self, optimizer: Any) -> None:
        if self._enabled and isinstance(optimizer, Stepped) and optimizer._engine().has_sums:
            raise ValueError(UNSCALES_LAST)
        super().unscale_(optimizer)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        result = super().step(optimizer, *args, **kwargs)
        if self._enabled and isinstance(optimizer, Stepped):
            found = optimizer.found_inf
            if found is not None:  # also what unscale_() found
                self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = {
                    found.device: found.clone()}
        return result

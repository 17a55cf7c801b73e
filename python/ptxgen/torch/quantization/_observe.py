# SPDX-License-Identifier: MIT
"""Moving averages of a tensor's range, and the quantizer that follows from them."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from . import _checks, _launch
from ._recompute import recomputing

_NAME = "observe()"
_INF = float("inf")


class ObserverState:
    """Moving averages of a tensor's least and greatest element, on the device, as torch's MovingAverageMinMaxObserver:

        state = ObserverState(q_min=0, q_max=255, device="cuda")
        observe(x, state)
        y = fake_quantize(x, state.scale, state.zero_point, q_min=0, q_max=255)

    averaging_constant: the weight of a step.
    symmetric: the range is as wide below 0 as above, and the zero point is symmetric_zero_point.
    eps: the least scale.

    range has the averages in its first two elements, inf and -inf before the first step. scale (f32) and zero_point (int32)
    have one element, and are 1 and 0 then."""

    def __init__(self, *, q_min: int, q_max: int, averaging_constant: float = 0.01, symmetric: bool = False,
                 symmetric_zero_point: int = 0, eps: float = 2.0**-23, device: Optional[Any] = None) -> None:
        self.q_min, self.q_max = _checks.levels("ObserverState()", q_min, q_max)
        if self.q_min == self.q_max:
            raise ValueError(f"ObserverState(): q_min and q_max are both {self.q_min}: there is no range of one level")
        self.averaging_constant = _checks.positive("ObserverState()", "averaging_constant", averaging_constant)
        if self.averaging_constant > 1:
            raise ValueError(f"ObserverState(): averaging_constant: {self.averaging_constant} is above 1")
        self.symmetric = bool(symmetric)
        self.eps = _checks.positive("ObserverState()", "eps", eps)
        self.symmetric_zero_point = _checks.integer("ObserverState()", "symmetric_zero_point", symmetric_zero_point, self.q_min,
                                                    self.q_max) if symmetric else 0
        self.range = torch.tensor([_INF, -_INF, _INF, -_INF], dtype=torch.float32, device=device)
        self.scale = torch.ones(1, dtype=torch.float32, device=device)
        self.zero_point = torch.zeros(1, dtype=torch.int32, device=device)

    def __repr__(self) -> str:
        return (f"ObserverState(q_min={self.q_min}, q_max={self.q_max}, averaging_constant={self.averaging_constant}, "
                f"symmetric={self.symmetric})")


def observe(x: Tensor, state: ObserverState) -> None:
    """Moves the averages of the state, its scale and its zero point, on the device. Not in the forward pass that a checkpoint
    repeats for its backward pass, nor for a tensor without elements."""
    if not isinstance(state, ObserverState):
        raise TypeError(f"{_NAME}: state: an ObserverState is needed, not {state!r:.80}")
    _checks.tensor(_NAME, "x", x)
    _checks.beside(_NAME, "state", state.range, x)
    update(x.detach(), state.range, state.scale, state.zero_point, state.q_min, state.q_max, state.symmetric,
           state.symmetric_zero_point, state.averaging_constant, state.eps)


@_checks.breaks
def update(x: Tensor, range: Tensor, scale: Tensor, zero_point: Tensor, *how: Any) -> None:
    if _checks.compiling():
        torch.ops.ptxgen.observe(x, range, scale, zero_point, *how)
        return
    if not recomputing():
        with torch.no_grad():
            _launch.observe(x, range, scale, zero_point, *how)
            _launch.written((range, scale, zero_point))

# SPDX-License-Identifier: MIT
"""Second derivatives are refused by name."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import torch
from torch import Tensor


class _NoSecond(torch.autograd.Function):
    """Gradients as they are, whose own gradient is an error."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: Tensor) -> Tuple[Tensor, ...]:
        ctx.name = name
        return tuple(one.view_as(one) for one in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(f"{ctx.name}: there is no second derivative: its gradient cannot be differentiated again; take "
                           "gradients of gradients without the quantizer")


def first_only(name: str, gradients: Sequence[Optional[Tensor]], of: Sequence[Optional[Tensor]]) -> Tuple[Optional[Tensor], ...]:
    """What a backward pass returns, computed from these tensors."""
    if not torch.is_grad_enabled():  # no create_graph=True
        return tuple(gradients)
    there = [one for one in gradients if one is not None]
    made = iter(_NoSecond.apply(name, len(there), *there, *(one for one in of if one is not None)))
    return tuple(None if one is None else next(made) for one in gradients)

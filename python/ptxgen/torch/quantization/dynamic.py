# SPDX-License-Identifier: MIT
"""Quantizers whose scales follow from the tensor of each call."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from . import _ao, _checks
from ._fake_quantize import Division, fake_quantize
from ._layout import GROUPS, layout
from ._statistics import of_range
from .learned import each_of

_NAME = "DynamicQuantizer()"


class DynamicQuantizer(torch.nn.Module):
    """Scales from the range of each call's tensor: of each token, for activations, or of the tensor, of each index of an axis,
    of each group. The gradient is straight through; the range has none.

    q_min, q_max: the levels, 0 among them.
    token: True: a scale for each row along the last dimension, however many dimensions there are before it.
    axis, group: as of fake_quantize(); neither, nor token: one scale.
    symmetric: the range is as wide below 0 as above, and the zero point is 0, or the middle of levels that are not below 0.
    eps: the least scale."""

    def __init__(self, q_min: int = -128, q_max: int = 127, *, token: bool = False, axis: Optional[int] = None,
                 group: Optional[int] = None, symmetric: bool = False, eps: float = _ao.EPS,
                 division: Division = "reciprocal") -> None:
        super().__init__()
        self.q_min, self.q_max = _checks.levels(_NAME, q_min, q_max)
        if not self.q_min <= 0 <= self.q_max or self.q_min == self.q_max:
            raise ValueError(f"{_NAME}: q_min {q_min} and q_max {q_max}: 0 must be among the levels, and another")
        if token and (axis is not None or group is not None):
            raise ValueError(f"{_NAME}: token=True with axis={axis} and group={group}: tokens have one scale each; leave them out")
        if group is not None and axis is None:
            raise ValueError(f"{_NAME}: group={group} without axis: name the axis along which groups are, usually -1")
        if group is not None and group not in GROUPS:
            raise ValueError(f"{_NAME}: group: {group!r} is none of {', '.join(map(str, GROUPS))}")
        _checks.choice(_NAME, "division", division, ("exact", "reciprocal"))
        self.token, self.axis, self.group, self.symmetric = bool(token), axis, group, bool(symmetric)
        self.division, self.eps = division, _checks.positive(_NAME, "eps", eps)
        self.zero = 0 if self.q_min < 0 else (self.q_min + self.q_max) // 2

    def _rows(self, X: Tensor) -> Tuple[Tensor, Optional[int]]:
        """The tensor, and the axis that has scales."""
        if not self.token:
            return X, self.axis
        if X.dim() == 0:
            raise ValueError(f"{_NAME}: x has no dimensions, and token=True needs one for a token's elements")
        return X.reshape(-1, X.shape[-1]), 0

    def calculate_qparams(self, X: Tensor) -> Tuple[Tensor, Tensor]:
        """The scale (f32) and zero point (int32) for such a tensor, in the shape that fake_quantize() takes."""
        _checks.values(_NAME, "x", X)
        x, axis = self._rows(X)
        layout(_NAME, x, axis, self.group)  # or an error
        with torch.no_grad():
            low, high = (each_of(x, axis, self.group, reduced)
                         for reduced in (lambda rows: rows.amin(1), lambda rows: rows.amax(1)))
            scale, zero = of_range(low, high, self.q_min, self.q_max, self.symmetric, self.zero, self.eps)
            return scale, zero.to(torch.int32)

    def forward(self, X: Tensor) -> Tensor:
        _checks.tensor(_NAME, "x", X)
        if not X.numel():
            return X
        scale, zero_point = self.calculate_qparams(X)
        x, axis = self._rows(X)
        return fake_quantize(x, scale, zero_point, q_min=self.q_min, q_max=self.q_max, axis=axis, group=self.group,
                             division=self.division).reshape(X.shape)

    def extra_repr(self) -> str:
        return (f"q_min={self.q_min}, q_max={self.q_max}, token={self.token}, axis={self.axis}, group={self.group}, "
                f"symmetric={self.symmetric}")

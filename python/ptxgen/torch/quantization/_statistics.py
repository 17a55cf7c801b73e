# SPDX-License-Identifier: MIT
"""Moving averages of ranges as a module, with the keys of torch's moving-average observers."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import _ao, _checks, _observe
from ._recompute import recomputing

_INF = float("inf")


def sized(buffer: Tensor, shape: Sequence[int]) -> Tensor:
    """The buffer with this shape, at its first tensor."""
    if tuple(buffer.shape) != tuple(shape):
        if _checks.compiling():
            raise RuntimeError("FakeQuantize: the number of channels is not known yet: run once before torch.compile")
        with torch.no_grad():
            buffer.resize_(tuple(shape))
    return buffer


def _divided(value: Tensor, by: float) -> Tensor:
    """The quotient. On a GPU torch multiplies by the rounded reciprocal of a number, not of a tensor."""
    return value / torch.full_like(value, by)


def of_range(low: Tensor, high: Tensor, q_min: int, q_max: int, symmetric: bool, zero: int, eps: float) -> Tuple[Tensor, Tensor]:
    """The scale and zero point that follow from a range, in f32 and as f32, by torch's formulas."""
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)
    if symmetric:
        scale = _divided(torch.maximum(-low, high), (q_max - q_min) / 2)
    else:
        scale = _divided(high - low, float(q_max - q_min))
    scale = scale.clamp(min=eps)
    if symmetric:
        return scale, torch.full_like(scale, float(zero))
    return scale, (q_min - torch.round(low / scale)).clamp(q_min, q_max)


class MovingAverage(_ao.Float32):
    """Of a tensor, by the library's observer; or of each index of an axis, by torch's operations. Nothing waits."""

    _version = 3  # torch's, of these keys

    def __init__(self, function: str, q_min: int, q_max: int, axis: Optional[int], symmetric: bool,
                 symmetric_zero_point: Optional[int], averaging_constant: float, eps: float, device: Any) -> None:
        super().__init__()
        self.quant_min, self.quant_max = _checks.levels(function, q_min, q_max)
        if not self.quant_min <= 0 <= self.quant_max or self.quant_min == self.quant_max:
            raise ValueError(f"{function}: q_min {q_min} and q_max {q_max}: 0 must be among the levels, and another")
        self.averaging_constant = _checks.positive(function, "averaging_constant", averaging_constant)
        if self.averaging_constant > 1:
            raise ValueError(f"{function}: averaging_constant: {self.averaging_constant} is above 1")
        self.eps_value = _checks.positive(function, "eps", eps)
        self.symmetric, self.axis = bool(symmetric), axis
        self.ch_axis = -1 if axis is None else _checks.integer(function, "axis", axis)
        self.dtype = torch.qint8 if self.quant_min < 0 else torch.quint8
        self.qscheme = _ao.scheme(self.symmetric, axis)
        self.is_dynamic = False
        if symmetric_zero_point is None:
            symmetric_zero_point = 0 if self.quant_min < 0 else (self.quant_min + self.quant_max) // 2
        self.zero = _checks.integer(function, "symmetric_zero_point", symmetric_zero_point, self.quant_min, self.quant_max)
        self.eps: Tensor
        self.register_buffer("eps", torch.tensor([self.eps_value], device=device))
        self.range: Tensor
        self.min_val: Tensor
        self.max_val: Tensor
        if axis is None:
            self.register_buffer("range", torch.tensor([_INF, -_INF, _INF, -_INF], device=device), persistent=False)
        else:
            self.register_buffer("min_val", torch.empty(0, device=device))
            self.register_buffer("max_val", torch.empty(0, device=device))

    def averages(self) -> Tuple[Tensor, Tensor]:
        return (self.range[0], self.range[1]) if self.axis is None else (self.min_val, self.max_val)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.axis is None:
            for name, value in zip(("min_val", "max_val"), self.averages()):
                destination[prefix + name] = value if keep_vars else value.detach()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
                              unexpected_keys: Any, error_msgs: Any) -> None:
        given = [state_dict.get(prefix + name) for name in ("min_val", "max_val")]
        for k, (name, value) in enumerate(zip(("min_val", "max_val"), given)):
            if value is None:
                if strict and self.axis is None:
                    missing_keys.append(prefix + name)
            elif self.axis is None:
                if value.numel() > 1:
                    error_msgs.append(f"size mismatch for {prefix}{name}: a range for each of {value.numel()} channels, and the "
                                      "quantizer has one for the tensor.")
                    continue
                with torch.no_grad():
                    self.range[k:k + 1].copy_(value.reshape(-1)[:1] if value.numel() else self.range[k:k + 1])
            elif value.dim() == 1 and (not value.numel() or not getattr(self, name).numel()):  # else torch says what differs
                sized(getattr(self, name), value.shape)
        own = dict(state_dict)
        if self.axis is None:
            for name in ("min_val", "max_val"):
                own.pop(prefix + name, None)
        super()._load_from_state_dict(own, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        if not self.eps.is_meta:
            self.eps_value = float(self.eps)

    def quantizer(self) -> Tuple[Tensor, Tensor]:
        """The scale and zero point that follow from the averages, by torch's formulas."""
        low, high = self.averages()
        low, high = low.reshape(-1), high.reshape(-1)
        seen = (low.clamp(max=0.0).isfinite() | high.clamp(min=0.0).isfinite())
        scale, zero = of_range(low, high, self.quant_min, self.quant_max, self.symmetric, self.zero, self.eps_value)
        scale = torch.where(seen, scale, torch.ones_like(scale))
        return scale, torch.where(seen, zero, torch.zeros_like(zero)).to(torch.int32)

    def observe(self, x: Tensor, scale: Tensor, zero_point: Tensor) -> None:
        """Writes the scale and zero point after this tensor."""
        x = x.detach()
        if self.axis is None:
            _observe.update(x, self.range, scale, zero_point, self.quant_min, self.quant_max, self.symmetric,
                            self.zero if self.symmetric else 0, self.averaging_constant, self.eps_value)
            return
        if not x.numel() or not _checks.compiling() and recomputing():
            return
        with torch.no_grad():
            rows = x.movedim(self.axis, 0).flatten(1)
            found = torch.aminmax(rows if x.is_cuda else rows.to(torch.float32), dim=1)  # torch 1.13 has none of f16 on the CPU
            low, high = found.min.to(torch.float32), found.max.to(torch.float32)
            if self.min_val.numel() == 0:  # in place: DistributedDataParallel knows the tensors
                sized(self.min_val, low.shape).copy_(low)
                sized(self.max_val, high.shape).copy_(high)
            else:
                self.min_val.add_(self.averaging_constant * (low - self.min_val))
                self.max_val.add_(self.averaging_constant * (high - self.max_val))
            of_averages = self.quantizer()
            sized(scale, of_averages[0].shape).copy_(of_averages[0])
            sized(zero_point, of_averages[1].shape).copy_(of_averages[1])

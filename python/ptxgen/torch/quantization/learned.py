# SPDX-License-Identifier: MIT
"""Quantizers whose scales are learned from the start, and scales of floats of 8 bits that follow their history."""

from __future__ import annotations

import operator
from typing import Any, Callable, Literal, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from . import _ao, _checks, _launch
from ._cast import LARGEST, Format, fp8_cast
from ._fake_quantize import Division, InRange, fake_quantize
from ._layout import layout

Start = Literal["lsq", "lsq+", "range"]
_STARTS = ("lsq", "lsq+", "range")


def each_of(x: Tensor, axis: Optional[int], group: Optional[int], reduced: Callable[[Tensor], Tensor]) -> Tensor:
    """What a function of [scales, elements] makes of the elements of each scale, of the scales' shape."""
    x = x.detach().to(torch.float32)
    if axis is None:
        return reduced(x.reshape(1, -1))
    if group is None:
        return reduced(x.movedim(axis, 0).flatten(1))
    rows = x.movedim(axis, -1)
    shape = (*rows.shape[:-1], rows.shape[-1] // group)
    return reduced(rows.reshape(-1, group)).view(shape).movedim(-1, axis).contiguous()


def _ranks() -> int:
    dist = torch.distributed
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class LearnedQuantizer(_ao.Float32):
    """Learned step size quantization: y = fake_quantize(x) whose scale is a parameter, with the gradient factor
    1 / sqrt(N * q_max), N the elements of a scale (Esser et al., 2020).

        quantizer = LearnedQuantizer.of(layer.weight, q_min=-8, q_max=7, axis=-1, group=32)
        w = quantizer(layer.weight)

    q_min, q_max: the levels; q_max above 0.
    axis, group: as of fake_quantize().
    shape: of the scales; of() and None, one scale, know it.
    start: where scales begin. "lsq": 2 mean|x| / sqrt(q_max). "lsq+": max(|mean - 3 std|, |mean + 3 std|) / 2^(bits - 1), for
        weights (Bhalgat et al., 2020). "range": (greatest - least) / (q_max - q_min), and the zero point that fits.
    zero_point: True: the zero point learns, too, and `start` is "range".
    in_range: "quotient", the paper's, or "level".

    Scales below 2^-23 are set to it, by each forward pass and by exports. Without of(), scales begin at the first forward pass,
    from its input. With torch.compile and over several ranks call start_from(x) before."""

    def __init__(self, q_min: int = -8, q_max: int = 7, *, axis: Optional[int] = None, group: Optional[int] = None,
                 shape: Optional[Sequence[int]] = None, start: Start = "lsq", zero_point: bool = False,
                 in_range: InRange = "quotient", division: Division = "exact", device: Any = None) -> None:
        super().__init__()
        name = "LearnedQuantizer()"
        self.q_min, self.q_max = _checks.levels(name, q_min, q_max)
        if self.q_max <= 0:
            raise ValueError(f"{name}: q_max {self.q_max} must be above 0: scales and their gradients are divided by its root")
        _checks.choice(name, "start", start, _STARTS)
        _checks.choice(name, "in_range", in_range, ("level", "quotient"))
        _checks.choice(name, "division", division, ("exact", "reciprocal"))
        if zero_point and start != "range":
            raise ValueError(f"{name}: zero_point=True with start={start!r}: only \"range\" has a zero point to begin with")
        if not zero_point and start == "range" and not self.q_min < 0:
            raise ValueError(f"{name}: start=\"range\" without a zero point needs levels below 0")
        if group is not None and axis is None:
            raise ValueError(f"{name}: group={group} without axis: name the axis along which groups are, usually -1")
        if axis is not None and shape is None:
            raise ValueError(f"{name}: axis={axis} without shape: use LearnedQuantizer.of(tensor, ...), or give the scales' shape")
        self.axis, self.group, self.start, self.in_range, self.division = axis, group, start, in_range, division
        self.scale = torch.nn.Parameter(torch.ones(tuple(shape or (1,)), device=device))
        self.zero_point = torch.nn.Parameter(torch.zeros_like(self.scale)) if zero_point else None
        self._started = False
        self._kind: Any = None  # of the last input
        self.started: Tensor
        self.register_buffer("started", torch.zeros(1, dtype=torch.uint8, device=device))

    @classmethod
    def of(cls, x: Tensor, q_min: int = -8, q_max: int = 7, *, axis: Optional[int] = None, group: Optional[int] = None,
           **how: Any) -> "LearnedQuantizer":
        """For such a tensor, whose values the scales begin with."""
        _checks.values("LearnedQuantizer.of()", "x", x)
        shape = layout("LearnedQuantizer.of()", x, axis, group).shape
        made = cls(q_min, q_max, axis=axis, group=group, shape=shape, device=x.device, **how)
        made.start_from(x)
        if not bool(made.scale.isfinite().all()):
            raise ValueError("LearnedQuantizer.of(): x has NaN or infinity, so that scales would begin so: take them out first")
        return made

    def start_from(self, x: Tensor) -> None:
        """Scales and zero points anew, from this tensor. Nothing waits."""
        levels, root = self.q_max - self.q_min, float(self.q_max) ** 0.5

        def wanted(rows: Tensor) -> Tensor:
            if self.start == "lsq":
                sizes: Tensor = rows.abs().mean(1) * (2 / root)
                return sizes
            if self.start == "lsq+":
                mean, spread = rows.mean(1), 3 * rows.std(1, unbiased=False)
                return torch.maximum((mean - spread).abs(), (mean + spread).abs()) / ((levels + 1) / 2)
            if self.zero_point is None:
                return torch.maximum(-rows.amin(1) / -self.q_min, rows.amax(1) / self.q_max)
            return (rows.amax(1).clamp(min=0.0) - rows.amin(1).clamp(max=0.0)) / levels

        _checks.values("LearnedQuantizer()", "x", x)
        shape = layout("LearnedQuantizer()", x, self.axis, self.group).shape
        if not x.numel():
            return
        if shape != tuple(self.scale.shape):
            raise ValueError(f"LearnedQuantizer(): x has scales of the shape {list(shape)}, and there are "
                             f"{list(self.scale.shape)}")
        with torch.no_grad():
            scale = each_of(x, self.axis, self.group, wanted).clamp(min=_ao.EPS)
            self.scale.data.copy_(scale)
            if self.zero_point is not None:
                least = each_of(x, self.axis, self.group, lambda rows: rows.amin(1).clamp(max=0.0))
                self.zero_point.data.copy_((self.q_min - (least / scale).round()).clamp(self.q_min, self.q_max))
            self.started.fill_(1)
        self._started = True

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        if not self.started.is_meta:
            self._started = bool(self.started.item())

    def _begun(self) -> bool:
        return self._started

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale
        kind = (x.dtype, x.shape, x.device) if type(x) in _checks.PLAIN and not _checks.compiling() else None
        known = kind is not None and kind == self._kind
        if not known:  # else it is as the last one, which was checked
            _checks.of_module("LearnedQuantizer()", x, self.axis, scale, self.group is None and self._started)
        if not self._started:
            if _checks.compiling():
                raise RuntimeError("LearnedQuantizer: scales have not begun: call start_from(x), or run once before torch.compile")
            if _ranks() > 1:
                raise RuntimeError("LearnedQuantizer: scales have not begun, and each rank would begin with its own input: call "
                                   "start_from(x) with the same x on all ranks, before fully_shard()")
            self.start_from(x)
        scale.data.clamp_(min=_ao.EPS)
        each, zero_point = max(x.numel() // max(scale.numel(), 1), 1), self.zero_point
        learns: Literal["scale", "both"] = "scale" if zero_point is None else "both"
        y: Tensor = fake_quantize(x, scale, self._fixed() if zero_point is None else zero_point, q_min=self.q_min,
                                  q_max=self.q_max, axis=self.axis, group=self.group, learn=learns,
                                  grad_factor=(each * self.q_max) ** -0.5, division=self.division, in_range=self.in_range)
        if not known and kind is not None:  # torch takes long to set an attribute
            self._kind = kind
        return y

    def _next(self) -> Tuple[Tensor, Union[Tensor, int, None]]:
        """Scale and zero point as the next forward pass takes them."""
        return self.scale.detach().clamp(min=_ao.EPS), self.zero_point.detach() if self.zero_point is not None else self._fixed()

    def _fixed(self) -> Optional[int]:
        return None if self.q_min <= 0 else self.q_min

    def extra_repr(self) -> str:
        return (f"q_min={self.q_min}, q_max={self.q_max}, axis={self.axis}, group={self.group}, scales={list(self.scale.shape)}, "
                f"zero_point={self.zero_point is not None}, start={self.start!r}")


class DelayedScaling(_ao.Float32):
    """A cast to floats of 8 bits and back, whose scale follows from the largest magnitudes of earlier steps, as Transformer
    Engine's recipe:

        y = quantizer(x)                # fp8_cast(x, scale), with the largest magnitude into the history
        ...
        quantizer.update()              # after the step: the scale of the next one

    history: steps that count. margin: powers of two below the largest float. most_recent: only the last step counts.

    In eval mode and in what a checkpoint repeats, nothing is noted. scale, scale_inv and history keep their addresses."""

    def __init__(self, format: Format = "e4m3", *, history: int = 1024, margin: int = 0, most_recent: bool = False,
                 device: Any = None) -> None:
        super().__init__()
        _checks.choice("DelayedScaling()", "format", format, tuple(LARGEST))
        rows = _checks.integer("DelayedScaling()", "history", history, 1, 1 << 20)
        self.format, self.most_recent = format, bool(most_recent)
        self.margin = _checks.integer("DelayedScaling()", "margin", margin, -100, 100)
        self.history: Tensor
        self.scale: Tensor
        self.scale_inv: Tensor
        self.register_buffer("history", torch.zeros((rows, 1), device=device))
        self.register_buffer("scale", torch.ones(1, device=device))
        self.register_buffer("scale_inv", torch.ones(1, device=device))

    def forward(self, x: Tensor) -> Tensor:
        return fp8_cast(x, self.scale, format=self.format, amax=self.history[0] if self.training else None)

    def update(self) -> None:
        """After a step: the scale follows, and the history moves on. Not while torch.compile traces."""
        with torch.no_grad():
            _launch.delayed_scale_update(self.history, self.scale, self.scale_inv, self.format, self.most_recent, self.margin)
            _launch.written((self.history, self.scale, self.scale_inv))

    def extra_repr(self) -> str:
        return f"{self.format!r}, history={operator.index(self.history.shape[0])}, margin={self.margin}"

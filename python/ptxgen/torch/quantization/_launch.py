# SPDX-License-Identifier: MIT
"""Operations on contiguous tensors, on the current stream. Nothing waits for the GPU."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ...operations import Operations, Prepared
from .. import _device, _shortcuts
from . import _checks

_NAMES: Dict[torch.dtype, Any] = {**_device.NAMES, torch.float64: "f64"}


class Levels(NamedTuple):
    """A quantizer, as operations take it. Torch's operators take the fields one by one."""

    q_min: int
    q_max: int
    reciprocal: bool
    quotient_range: bool
    channels: int  #: 0: one scale for the tensor
    inner: int
    group: int  #: 0, or inner where the channels are groups
    scale: float  #: without a tensor of scales
    zero_point: int  #: beside it
    grad_factor: float


class _Device:
    """Where operations run, and the calls that were prepared there."""

    def __init__(self, device: torch.device) -> None:
        place: Any = _device.of(device)
        self.operations = Operations(place.gpu, any_address=True)  # torch vouches for addresses
        self.place, self.stream, self.done = place, place.stream, place.done
        self.calls: Dict[Any, Any] = {}

    def kept(self, key: Any, call: Any) -> Any:
        """Under the key; of another thread's, the first."""
        if len(self.calls) >= _MOST_CALLS:  # of shapes that change without end
            self.calls = {}
        return self.calls.setdefault(key, call)

    def prepared(self, key: Any, name: str, fields: Dict[str, Any], addresses: Sequence[str]) -> Prepared:
        return self.kept(key, Prepared(self.operations, name, fields, addresses))  # type: ignore[no-any-return]


_MOST_CALLS = 4096
_devices: Dict[torch.device, _Device] = {}


def _of(device: torch.device) -> _Device:
    return _devices.get(device) or _devices.setdefault(device, _Device(device))


_constants: Dict[Any, Tensor] = {}  # the longest of each device and value
_kept: List[Tensor] = []  # for ever, since graphs may read them: shorter ones, too
_parts: Dict[Any, Tensor] = {}  # of those of _kept, by length


def constant(device: torch.device, count: int, value: int) -> Tensor:
    """So many s32 of this value. Nothing writes them."""
    found = _parts.get((device, count, value))
    return _part(device, count, value) if found is None else found


def _part(device: torch.device, count: int, value: int) -> Tensor:
    with torch.inference_mode(False):
        whole = _constants.get((device, value))
        if whole is None or whole.numel() < count:
            kept = count <= 1 << 18 and len(_kept) < 256
            whole = torch.full((max(4096, 1 << (count - 1).bit_length()) if kept else count,), value, dtype=torch.int32, device=device)
            if not kept or type(whole) is not Tensor or _of(device).place.capturing():
                return whole[:count]
            if device.type == "cuda":  # once: other streams read it
                torch.cuda.current_stream(device).synchronize()
            _kept.append(whole)
            _constants[device, value] = whole
        if len(_parts) >= _MOST_CALLS:
            _parts.clear()
        return _parts.setdefault((device, count, value), whole[:count])


def _run(name: str, on: Tensor, params: Dict[str, Any]) -> None:
    at = _of(on.device)
    stream = at.stream()
    getattr(at.operations, name)(stream=stream, **params)
    at.done(stream)


def written(tensors: Sequence[Tensor]) -> None:
    """Tells torch that an operation wrote them."""
    if _shortcuts._increment is not None:
        _shortcuts.increment_version.way(tensors)
    else:
        with torch.no_grad():
            for one in tensors:
                one.add_(0)


def _quantizer(x: Tensor, scale: Optional[Tensor], how: Levels) -> Dict[str, Any]:
    """What operations of quantizers have in common, but for addresses."""
    params: Dict[str, Any] = {"dtype": _NAMES[x.dtype], "count": x.numel(), "q_min": how.q_min, "q_max": how.q_max,
                              "reciprocal": how.reciprocal}
    if scale is None:
        params.update(scale=how.scale, zero_point=how.zero_point)
    elif how.channels:
        params.update(channels=how.channels, inner=how.inner)
    return params


_OF_SCALES = "scales", "zero_points"


def _forward_call(x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels) -> Prepared:
    learned = zero_point is not None and zero_point.is_floating_point()
    at = _of(x.device)
    key = "fake_quantize", x.dtype, x.numel(), how, scale is None, learned
    found: Prepared = at.calls.get(key) or at.prepared(
        key, "fake_quantize", {**_quantizer(x, scale, how), "learned_zero_points": learned},
        ("x", "y") if scale is None else ("x", "y", *_OF_SCALES))
    return found


def _backward_call(x: Tensor, scale: Optional[Tensor], how: Levels, fake: bool) -> Prepared:
    at = _of(x.device)
    key = "quantize_backward", x.dtype, x.numel(), how, scale is None, fake
    found: Prepared = at.calls.get(key) or at.prepared(
        key, "quantize_backward", {**_quantizer(x, scale, how), "fake_quantize": fake},
        ("x", "d_output", "d_input") if scale is None else ("x", "d_output", "d_input", *_OF_SCALES))
    return found


def _learned_call(x: Tensor, scale: Tensor, how: Levels, learned: bool, aligned: bool) -> Tuple[Prepared, int]:
    """For x at a multiple of 16 bytes or elsewhere: the call, and the elements in f64 of its workspace."""
    at = _of(x.device)
    key = "learned_backward", x.dtype, x.numel(), how, learned, aligned
    found: Optional[Tuple[Prepared, int]] = at.calls.get(key)
    if found is None:
        params = {**_quantizer(x, scale, how), "grad_factor": how.grad_factor, "quotient_range": how.quotient_range}
        if how.group in (32, 64, 128) and x.dtype is not torch.float64:
            del params["channels"], params["inner"]
            params["group"] = how.group
        zero = "zero_points" if learned else "fixed_zero_points"
        addresses = ["x", "d_output", "d_input", "scales", zero, "d_scales", *(("d_zero_points",) if learned else ())]
        call = Prepared(at.operations, "quantize_learned_backward", params, addresses)
        needed = call.workspace(x=16 if aligned else 8, scales=8, **{zero: 8})
        if needed:
            call = Prepared(at.operations, "quantize_learned_backward", params, (*addresses, "workspace"))
        found = at.kept(key, (call, (needed + 7) // 8))
    return found


def _as_they_were(x: Tensor, dy: Tensor, scale: Tensor, zero_point: Tensor, how: Levels) -> Tuple[Tensor, ...]:
    """What a backward pass is given, as it was in the forward pass. dy is as the output was."""
    count, wide = how.channels or 1, torch.float64 if dy.dtype is torch.float64 else torch.float32
    return (_checks.as_saved("x", x, dy.dtype, dy.numel(), dy), dy.contiguous(),
            _checks.as_saved("the scale", scale, wide, count, dy),
            _checks.as_saved("the zero point", zero_point, wide if zero_point.is_floating_point() else torch.int32, count, dy))


class Calls:
    """The calls of a quantizer with tensors as scales and zero points, for contiguous inputs of one type and size: prepared at
    the first of each."""

    __slots__ = ("how", "zero", "_at", "_stream", "_forward", "_backward", "_learned", "_learns", "_like_x", "_like_scale")

    def __init__(self, x: Tensor, zero_point: Tensor, how: Levels, value: Optional[int] = None) -> None:
        self.how, self._at, self._learns = how, _of(x.device), zero_point.is_floating_point()
        #: The zero points, if they are the constant of this value, and it stays.
        kept = None if value is None else _parts.get((x.device, zero_point.numel(), value))
        self.zero = zero_point if kept is zero_point else None
        self._stream = self._at.stream
        self._like_x: Any = None
        self._like_scale: Any = None
        self._forward: Any = None
        self._backward: Any = None
        self._learned: Dict[bool, Any] = {}

    def forward(self, x: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        call = self._forward
        if call is None:
            self._like_x = _shortcuts.empty_as.way(x)
            call = self._forward = _forward_call(x, scale, zero_point, self.how)  # the last: threads share this
        y: Tensor = self._like_x()
        stream = self._stream()
        call(stream, x.data_ptr(), y.data_ptr(), scale.data_ptr(), zero_point.data_ptr())
        self._at.done(stream)
        return y

    def backward(self, dy: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        """The gradient of x alone."""
        x, dy, scale, zero_point, call = *_as_they_were(x, dy, scale, zero_point, self.how), self._backward
        if call is None:
            self._like_x = _shortcuts.empty_as.way(x)
            call = self._backward = _backward_call(x, scale, self.how, True)
        dx: Tensor = self._like_x()
        stream = self._stream()
        call(stream, x.data_ptr(), dy.data_ptr(), dx.data_ptr(), scale.data_ptr(), zero_point.data_ptr())
        self._at.done(stream)
        return dx

    def learned_backward(self, dy: Tensor, x: Tensor, scale: Tensor,
                         zero_point: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """The gradients of x, the scales and the zero points; of these None where they are integers."""
        x, dy, scale, zero_point, learns = *_as_they_were(x, dy, scale, zero_point, self.how), self._learns
        if self._like_scale is None:
            self._like_x, self._like_scale = _shortcuts.empty_as.way(x), _shortcuts.empty_as.way(scale)
        at_x, dx, d_scale = x.data_ptr(), self._like_x(), self._like_scale()
        d_zero: Optional[Tensor] = None
        more: Tuple[int, ...] = ()
        aligned = at_x % 16 == 0
        known = self._learned.get(aligned)
        if known is None:
            known = self._learned[aligned] = _learned_call(x, scale, self.how, learns, aligned)
        call, words = known
        if learns:
            d_zero = self._like_scale()
            more = d_zero.data_ptr(),
        if words:
            memory = torch.empty(words, dtype=torch.float64, device=x.device)
            more = *more, memory.data_ptr()
        stream = self._stream()
        call(stream, at_x, dy.data_ptr(), dx.data_ptr(), scale.data_ptr(), zero_point.data_ptr(), d_scale.data_ptr(), *more)
        self._at.done(stream)
        return dx, d_scale, d_zero


def fake_quantize(x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels) -> Tensor:
    x = x.contiguous()
    if x.numel() and scale is not None and zero_point is not None:
        return Calls(x, zero_point, how).forward(x, scale, zero_point)
    y = torch.empty_like(x)
    if x.numel():
        at = _of(x.device)
        stream = at.stream()
        _forward_call(x, None, None, how)(stream, x.data_ptr(), y.data_ptr())
        at.done(stream)
    return y


def quantize_backward(dy: Tensor, x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels,
                      fake: bool) -> Tensor:
    """The gradient of x alone. fake: of quantizing and scaling back."""
    if scale is not None and zero_point is not None:
        x, dy, scale, zero_point = _as_they_were(x, dy, scale, zero_point, how)
    else:
        x, dy = _checks.as_saved("x", x, dy.dtype, dy.numel(), dy), dy.contiguous()
    dx = torch.empty_like(x)
    if x.numel():
        at = _of(x.device)
        stream, addresses = at.stream(), [one.data_ptr() for one in (x, dy, dx, scale, zero_point) if one is not None]
        _backward_call(x, scale, how, fake)(stream, *addresses)
        at.done(stream)
    return dx


def learned_backward(dy: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor,
                     how: Levels) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
    """As of Calls."""
    if dy.numel():
        return Calls(x, zero_point, how).learned_backward(dy, x, scale, zero_point)
    d_zero = torch.zeros_like(scale) if zero_point.is_floating_point() else None
    return torch.empty_like(x), torch.zeros_like(scale), d_zero


def lerp_backward(dy: Tensor, weight: Optional[Tensor], value: float, wanted: Tuple[bool, bool]) -> Tuple[Tensor, Tensor]:
    """Of what is not wanted the gradient has no elements."""
    dy = dy.contiguous()
    da, db = (torch.empty_like(dy) if want else dy.new_empty(0) for want in wanted)
    if dy.numel() and any(wanted):
        params: Dict[str, Any] = {"weight": value} if weight is None else {"weight_at": weight.data_ptr()}
        for name, gradient, want in zip(("d_a", "d_b"), (da, db), wanted):
            if want:
                params[name] = gradient.data_ptr()
        _run("lerp_backward", dy, {**params, "dtype": _NAMES[dy.dtype], "count": dy.numel(), "d_output": dy.data_ptr()})
    return da, db


def fp8_cast(x: Tensor, scale: Optional[Tensor], value: float, amax: Optional[Tensor], format: str) -> Tensor:
    """Codes as bytes. amax is written."""
    x = x.contiguous()
    codes = torch.empty_like(x, dtype=torch.uint8)
    if x.numel():
        params: Dict[str, Any] = {"scale": value} if scale is None else {"scale_at": scale.data_ptr()}
        if amax is not None:
            params["amax"] = amax.data_ptr()
        _run("fp8_cast", x, {**params, "dtype": _NAMES[x.dtype], "count": x.numel(), "x": x.data_ptr(), "y": codes.data_ptr(),
                             "format": format})
    return codes


def observe(x: Tensor, range: Tensor, scale: Tensor, zero_point: Tensor, q_min: int, q_max: int, symmetric: bool, zero: int,
            averaging_constant: float, eps: float) -> None:
    """range, scale and zero_point are written."""
    x = x.contiguous()
    if x.numel():
        _run("observer_update", x, {
            "dtype": _NAMES[x.dtype], "count": x.numel(), "x": x.data_ptr(), "state": range.data_ptr(), "q_min": q_min,
            "q_max": q_max, "symmetric": symmetric, "zero_point": zero, "averaging_constant": averaging_constant, "eps": eps,
            "scales": scale.data_ptr(), "zero_points": zero_point.data_ptr()})


def delayed_scale_update(history: Tensor, scale: Tensor, scale_inv: Tensor, format: str, most_recent: bool, margin: int) -> None:
    """history, scale and scale_inv are written."""
    _run("delayed_scale_update", scale, {
        "tensors": scale.numel(), "rows": history.shape[0], "history": history.data_ptr(), "scale": scale.data_ptr(),
        "scale_inv": scale_inv.data_ptr(), "format": format, "most_recent": most_recent, "margin": margin})

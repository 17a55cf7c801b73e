# SPDX-License-Identifier: MIT
"""Operations on contiguous tensors, on the current stream. Nothing waits for the GPU."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ...operations import Operations
from .. import _device, _shortcuts

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


_operations: Dict[torch.device, Tuple[Any, Operations]] = {}


def _of(device: torch.device) -> Tuple[Any, Operations]:
    """The device, and its operations. torch vouches for addresses."""
    found = _operations.get(device)
    if found is None:
        place: Any = _device.of(device)
        found = _operations.setdefault(device, (place, Operations(place.gpu, any_address=True)))
    return found


def _run(name: str, on: Tensor, params: Dict[str, Any]) -> None:
    place, operations = _of(on.device)
    stream = place.stream()
    getattr(operations, name)(stream=stream, **params)
    place.done(stream)


def written(tensors: Sequence[Tensor]) -> None:
    """Tells torch that an operation wrote them."""
    if _shortcuts._increment is not None:
        _shortcuts.increment_version.way(tensors)
    else:
        with torch.no_grad():
            for one in tensors:
                one.add_(0)


def _quantizer(x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels, *names: str) -> Dict[str, Any]:
    """What operations of quantizers have in common. names: of the zero points, learned and fixed."""
    params: Dict[str, Any] = {"dtype": _NAMES[x.dtype], "count": x.numel(), "x": x.data_ptr(), "q_min": how.q_min,
                              "q_max": how.q_max, "reciprocal": how.reciprocal}
    if scale is None:
        params.update(scale=how.scale, zero_point=how.zero_point)
        return params
    assert zero_point is not None
    params["scales"] = scale.data_ptr()
    params[names[0] if zero_point.is_floating_point() else names[1]] = zero_point.data_ptr()
    if how.channels:
        params.update(channels=how.channels, inner=how.inner)
    return params


def fake_quantize(x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        params = _quantizer(x, scale, zero_point, how, "zero_points", "zero_points")
        learned = zero_point is not None and zero_point.is_floating_point()
        _run("fake_quantize", x, {**params, "y": y.data_ptr(), "learned_zero_points": learned})
    return y


def quantize_backward(dy: Tensor, x: Tensor, scale: Optional[Tensor], zero_point: Optional[Tensor], how: Levels,
                      fake: bool) -> Tensor:
    """The gradient of x alone. fake: of quantizing and scaling back."""
    x, dy = x.contiguous(), dy.contiguous()
    dx = torch.empty_like(x)
    if x.numel():
        params = _quantizer(x, scale, zero_point, how, "zero_points", "zero_points")
        _run("quantize_backward", x, {**params, "d_output": dy.data_ptr(), "d_input": dx.data_ptr(), "fake_quantize": fake})
    return dx


def learned_backward(dy: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor,
                     how: Levels) -> Tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, the scales and the zero points; of these nothing where they are integers."""
    x, dy = x.contiguous(), dy.contiguous()
    learned = zero_point.is_floating_point()
    dx, d_scale = torch.empty_like(x), torch.empty_like(scale)
    d_zero = torch.empty_like(scale) if learned else scale.new_empty(0)
    if not x.numel():
        return dx, d_scale.zero_(), d_zero.zero_()
    params = _quantizer(x, scale, zero_point, how, "zero_points", "fixed_zero_points")
    params.update(d_output=dy.data_ptr(), d_input=dx.data_ptr(), d_scales=d_scale.data_ptr(), grad_factor=how.grad_factor,
                  quotient_range=how.quotient_range)
    if learned:
        params["d_zero_points"] = d_zero.data_ptr()
    if how.group in (32, 64, 128) and x.dtype is not torch.float64:
        del params["channels"], params["inner"]
        params["group"] = how.group
    workspace = _of(x.device)[1].quantize_learned_workspace(**params)
    if workspace:
        memory = torch.empty((workspace + 7) // 8, dtype=torch.float64, device=x.device)
        params["workspace"] = memory.data_ptr()
    _run("quantize_learned_backward", x, params)
    return dx, d_scale, d_zero


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

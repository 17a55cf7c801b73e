# SPDX-License-Identifier: MIT
"""Operations: a kernel in one call, with checked arguments. docs/operations.md says what they compute;
the keyword arguments are the fields of the C structs."""

from __future__ import annotations

from ctypes import byref
from typing import TYPE_CHECKING, Any, Mapping, Optional

from . import _c, _types
from ._library import Handle, Keeps, Object, c, check, checked, keep, struct
from .arrays import Address, StreamLike, address_of, stream_of
from .device import Device

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Operations(Object):
    """The compiled kernels of a device's operations; each is compiled at its first use, which is not
    possible on a stream under capture."""

    def __init__(self, device: Device, **params: Unpack[_types.OperationsParams]) -> None:
        owner = device.handle
        how = struct(_c.ptx_operations_params, params, "", {})
        made = checked(c.ptx_operations_create(owner.value, byref(how)))
        super().__init__(Handle(made, c.ptx_operations_destroy, owner))

    def _call(self, function: Any, cls: Any, fields: Mapping[str, Any], stream: StreamLike) -> None:
        handle = self.handle
        keeps: Keeps = {}
        params = struct(cls, fields, "", keeps)
        keep(handle, keeps)
        check(function(handle.value, byref(params), stream_of(stream)))

    def quantize_backward(self, *, stream: StreamLike = None,
                          **params: Unpack[_types.QuantizeParams]) -> None:
        """The gradient of a quantizer with a straight-through estimator."""
        self._call(c.ptx_quantize_backward, _c.ptx_quantize_params, params, stream)

    def quantize_learned_backward(self, *, stream: StreamLike = None,
                                  **params: Unpack[_types.QuantizeLearnedParams]) -> None:
        """The gradients of a fake quantizer's input, scale and zero point."""
        self._call(c.ptx_quantize_learned_backward, _c.ptx_quantize_learned_params, params, stream)

    def quantize_learned_workspace(self, **params: Unpack[_types.QuantizeLearnedParams]) -> int:
        """The bytes that quantize_learned_backward() needs at `workspace`, which may be left out."""
        keeps: Keeps = {}
        of = struct(_c.ptx_quantize_learned_params, params, "", keeps)
        described = _c.ptx_operation_description()
        check(c.ptx_quantize_learned_describe(byref(of), byref(described)))
        return int(described.workspace)

    def observer_update(self, *, stream: StreamLike = None,
                        **params: Unpack[_types.ObserverParams]) -> None:
        """Moving averages of a tensor's range, and their quantizer: `state` is four f32, +inf, -inf,
        +inf, -inf at first."""
        self._call(c.ptx_observer_update, _c.ptx_observer_params, params, stream)

    def lerp_backward(self, *, stream: StreamLike = None, **params: Unpack[_types.LerpParams]) -> None:
        """The gradients of a + weight * (b - a)."""
        self._call(c.ptx_lerp_backward, _c.ptx_lerp_params, params, stream)

    def fake_quantize(self, *, stream: StreamLike = None,
                      **params: Unpack[_types.FakeQuantizeParams]) -> None:
        """Quantizes and scales back, with scales and zero points that are given."""
        self._call(c.ptx_fake_quantize, _c.ptx_fake_quantize_params, params, stream)

    def fake_quantize_groups(self, *, stream: StreamLike = None,
                             **params: Unpack[_types.FakeQuantizeGroupsParams]) -> None:
        """Quantizes groups of elements and scales them back, each with its own scale."""
        self._call(c.ptx_fake_quantize_groups, _c.ptx_fake_quantize_groups_params, params, stream)

    def fp8_cast(self, *, stream: StreamLike = None, **params: Unpack[_types.Fp8Params]) -> None:
        """y = x * scale as e4m3 or e5m2, saturating; amax = max(amax, |x|)."""
        self._call(c.ptx_fp8_cast, _c.ptx_fp8_params, params, stream)

    def delayed_scale_update(self, *, stream: StreamLike = None,
                             **params: Unpack[_types.DelayedScaleParams]) -> None:
        """The scales of many tensors from the histories of their amax, as in Transformer Engine."""
        self._call(c.ptx_delayed_scale_update, _c.ptx_delayed_scale_params, params, stream)

    def loss_scale_update(self, state: Address, found_inf: Address, *, stream: StreamLike = None,
                          params: Optional[_types.LossScaleParams] = None) -> None:
        """A dynamic loss scale after a step: `state` is an f32 and an s32, `found_inf` an f32."""
        handle, at = self.handle, address_of(state, "state")
        found = address_of(found_inf, "found_inf")
        how = struct(_c.ptx_loss_scale_params, params or {}, "", {})
        keep(handle, at.keep, found.keep)
        check(c.ptx_loss_scale_update(handle.value, at.address, found.address, byref(how),
                                      stream_of(stream)))

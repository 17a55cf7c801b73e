# SPDX-License-Identifier: MIT
"""Operations: a kernel in one call, with checked arguments. docs/operations.md says what they compute;
the keyword arguments are the fields of the C structs."""

from __future__ import annotations

import struct as packing
from ctypes import addressof, byref, c_char, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _c, _types
from ._library import NAMES, Handle, Keeps, Object, c, captures, check, checked, failure, keep, struct
from .arrays import Address, ArrayInfo, StreamLike, address_of, reaches_host_memory, stream_of
from .device import Device
from .errors import InvalidError

if TYPE_CHECKING:
    from typing_extensions import Unpack


# The arrays of each operation: their type and their number of elements. "dtype", "count" and "tensors"
# are the fields; "scale" is f64 for f64 tensors, else f32; "zero" is "scale" for learned zero points,
# else s32; "scales": one, or one for each channel or group; "history": tensors * rows. None: any.
_Array = Tuple[Optional[str], Union[str, int, None]]
_TENSOR: _Array = ("dtype", "count")
_ARRAYS: Dict[str, Dict[str, _Array]] = {
    "ptx_quantize_backward_params": {"x": _TENSOR, "d_output": _TENSOR, "d_input": _TENSOR,
                            "scales": ("scale", "scales"), "zero_points": ("s32", "scales")},
    "ptx_fake_quantize_params": {"x": _TENSOR, "y": _TENSOR, "scales": ("scale", "scales"),
                                 "zero_points": ("zero", "scales")},
    "ptx_fake_quantize_groups_params": {"x": _TENSOR, "y": _TENSOR, "scales": ("f32", "scales"),
                                        "zero_points": ("s32", "scales")},
    "ptx_quantize_learned_backward_params": {
        "x": _TENSOR, "d_output": _TENSOR, "d_input": _TENSOR, "scales": ("scale", "scales"),
        "zero_points": ("scale", "scales"), "fixed_zero_points": ("s32", "scales"),
        "d_scales": ("scale", "scales"), "d_zero_points": ("scale", "scales"), "workspace": (None, None)},
    "ptx_observer_update_params": {"x": _TENSOR, "state": ("f32", 4), "scales": ("f32", 1),
                            "zero_points": ("s32", 1)},
    "ptx_lerp_backward_params": {"d_output": _TENSOR, "d_a": _TENSOR, "d_b": _TENSOR, "weight_at": ("f64", None)},
    "ptx_fp8_cast_params": {"x": _TENSOR, "y": ("u8", "count"), "scale_at": ("f32", None),
                       "amax": ("f32", None)},
    "ptx_delayed_scale_update_params": {"history": ("f32", "history"), "scale": ("f32", "tensors"),
                                 "scale_inv": ("f32", "tensors"), "formats": ("u32", "tensors")},
}


def _type_of(kind: Optional[str], of: Any) -> Tuple[Optional[str], str]:
    """The type that an array must have, and why."""
    if kind == "zero":
        kind = "scale" if of.learned_zero_points else "s32"
    if kind == "dtype":
        found = NAMES["ptx_type"].get(of.dtype)
        return found, f"dtype is {found}"
    if kind == "scale":
        kind = "f64" if of.dtype == _c.PTX_F64 else "f32"
    return kind, f"it must be {kind}"


def _count_of(length: Union[str, int, None], of: Any) -> Tuple[Optional[int], str]:
    """The number of elements that an array must have, and why."""
    if length == "scales":
        group = getattr(of, "group", 0)
        if isinstance(of, _c.ptx_fake_quantize_groups_params):
            group = group or 32
        if group not in (0, 32, 64, 128):
            return None, ""  # which the call refuses
        if group:
            return of.count // group, f"{of.count} elements in groups of {group} have {of.count // group}"
        length = of.channels or 1
        return length, f"{length} channels have {length}" if of.channels else "there are no channels"
    if length == "history":
        if of.rows == 0:
            return None, ""
        return of.tensors * of.rows, f"{of.tensors} tensors by {of.rows} rows have {of.tensors * of.rows}"
    if isinstance(length, str):
        return getattr(of, length), f"{length} is {getattr(of, length)}"
    return length, f"it must have {length}"


def _fits(what: str, info: ArrayInfo, dtype: Tuple[Optional[str], str],
          count: Tuple[Optional[int], str]) -> None:
    """Whether an array is what the argument must be; of an address alone nothing is known."""
    if info.dtype is not None and dtype[0] is not None and info.dtype != dtype[0]:
        raise InvalidError(f"{what}: elements of type {info.dtype}, and {dtype[1]}")
    if info.count is not None and count[0] is not None and info.count != count[0]:
        raise InvalidError(f"{what}: {info.count} elements, and {count[1]}")


# What PyTorch takes if it is left out. The C functions refuse 0 there.
_DEFAULTS: Dict[str, Dict[str, Any]] = {
    "ptx_quantize_learned_backward_params": {"grad_factor": 1.0},
    "ptx_observer_update_params": {"averaging_constant": 0.01},
}


def _params(cls: Any, given: Mapping[str, Any], keeps: Keeps) -> Any:
    """The parameters of a call. Count and type come from the arrays, in their order, unless given."""
    arrays, fields = _ARRAYS[cls.__name__], {**_DEFAULTS.get(cls.__name__, {}), **given}
    infos = {}
    for name in arrays:
        if name in fields and fields[name] is not None and not isinstance(fields[name], int):
            infos[name] = address_of(fields[name], name)
            fields[name] = infos[name].address
    for name, info in infos.items():
        dtype, length = arrays[name]
        if dtype == "dtype" and info.dtype is not None:
            fields.setdefault("dtype", info.dtype)
        if length in ("count", "tensors") and info.count is not None:
            fields.setdefault(str(length), info.count)
    for name in ("count", "tensors"):
        if name in cls.kinds and name not in fields:
            raise InvalidError(f"{name}: it must be given; addresses alone do not tell it")
    made = struct(cls, fields, "", keeps)
    for name, info in infos.items():
        keeps[name] = info.keep
        dtype, length = arrays[name]
        _fits(name, info, _type_of(dtype, made), _count_of(length, made))
    return made


_run_call = c["ptx_operation_call_run"]  # its arguments are of C's types: to convert them takes longer than the call


class Prepared:
    """A call of an operation with everything but its addresses, for who makes it often: nothing about them is checked
    here. A call is at `stream`, with an address for each of `addresses`: all that the call has, fields of the struct, in
    their order there."""

    __slots__ = ("_operations", "_operation", "_struct", "_bytes", "_offsets", "_pack", "_count", "_calls", "_call")

    def __init__(self, operations: Object, name: str, fields: Mapping[str, Any], addresses: Sequence[str]) -> None:
        self._operations, self._operation = operations.handle, getattr(_c, f"PTX_OPERATION_{name}")
        self._struct: Any = getattr(_c, f"ptx_{name}_params")
        self._bytes = bytes(_params(self._struct, fields, {}))
        self._offsets = [getattr(self._struct, field).offset for field in addresses]
        self._pack, self._count = packing.Struct(f"{len(addresses)}Q").pack, c_size_t(len(addresses))
        self._calls: List[Handle] = []  # one, or one each of threads that made the first call at the same time
        self._call: Any = None

    def workspace(self, **addresses: int) -> int:
        """The bytes of device memory that the call needs besides its arrays."""
        made = self._struct.from_buffer_copy(self._bytes)
        for field, address in addresses.items():
            setattr(made, field, address)
        described = _c.ptx_operation_description()
        check(c.ptx_operation_describe(self._operation, byref(made), byref(described)))
        return int(described.workspace)

    def _create(self, addresses: Sequence[int]) -> None:
        params = bytearray(self._bytes)
        for offset, address in zip(self._offsets, addresses):
            packing.pack_into("Q", params, offset, address)
        made = checked(c.ptx_operation_call_create(
            self._operations.value, self._operation, addressof(c_char.from_buffer(params))))
        self._calls.append(Handle(made, c.ptx_operation_call_destroy, self._operations))
        self._call = c_void_p(made)

    def __call__(self, stream: int, *addresses: int) -> None:
        if self._call is None:
            self._create(addresses)
        if captures:
            keep(self._operations)
        if _run_call(self._call, self._pack(*addresses), self._count, c_void_p(stream)):
            raise failure()


# What may stand for an f32 and an s32.
_LOSS_SCALES = {(dtype, 2) for dtype in ("f32", "s32", "u32", "b32")} | {("u8", 8), ("b8", 8)}


class Operations(Object):
    """The compiled kernels of a device's operations; each is compiled at its first use, which is not
    possible on a stream under capture."""

    def __init__(self, device: Device, **params: Unpack[_types.OperationsParams]) -> None:
        owner = device.handle
        how = struct(_c.ptx_operations_params, {"any_address": reaches_host_memory(), **params}, "", {})
        made = checked(c.ptx_operations_create(owner.value, byref(how)))
        super().__init__(Handle(made, c.ptx_operations_destroy, owner))

    def _call(self, name: str, fields: Mapping[str, Any], stream: StreamLike) -> None:
        handle = self.handle
        keeps: Keeps = {}
        params = _params(getattr(_c, f"ptx_{name}_params"), fields, keeps)
        keep(handle, keeps)
        check(c.ptx_operation_run(handle.value, getattr(_c, f"PTX_OPERATION_{name}"), byref(params),
                                  stream_of(stream)))

    def quantize_backward(self, *, stream: StreamLike = None,
                          **params: Unpack[_types.QuantizeBackwardParams]) -> None:
        """The gradient of a quantizer with a straight-through estimator."""
        self._call("quantize_backward", params, stream)

    def quantize_learned_backward(self, *, stream: StreamLike = None,
                                  **params: Unpack[_types.QuantizeLearnedBackwardParams]) -> None:
        """The gradients of a fake quantizer's input, scale and zero point."""
        self._call("quantize_learned_backward", params, stream)

    def quantize_learned_workspace(self, **params: Unpack[_types.QuantizeLearnedBackwardParams]) -> int:
        """The bytes that quantize_learned_backward() needs at `workspace`, which may be left out."""
        keeps: Keeps = {}
        of = _params(_c.ptx_quantize_learned_backward_params, params, keeps)
        described = _c.ptx_operation_description()
        check(c.ptx_operation_describe(_c.PTX_OPERATION_quantize_learned_backward, byref(of), byref(described)))
        return int(described.workspace)

    def observer_update(self, *, stream: StreamLike = None,
                        **params: Unpack[_types.ObserverUpdateParams]) -> None:
        """Moving averages of a tensor's range, and their quantizer: `state` is four f32, +inf, -inf,
        +inf, -inf at first."""
        self._call("observer_update", params, stream)

    def lerp_backward(self, *, stream: StreamLike = None, **params: Unpack[_types.LerpBackwardParams]) -> None:
        """The gradients of a + weight * (b - a)."""
        self._call("lerp_backward", params, stream)

    def fake_quantize(self, *, stream: StreamLike = None,
                      **params: Unpack[_types.FakeQuantizeParams]) -> None:
        """Quantizes and scales back, with scales and zero points that are given."""
        self._call("fake_quantize", params, stream)

    def fake_quantize_groups(self, *, stream: StreamLike = None,
                             **params: Unpack[_types.FakeQuantizeGroupsParams]) -> None:
        """Quantizes groups of elements and scales them back, each with its own scale."""
        self._call("fake_quantize_groups", params, stream)

    def fp8_cast(self, *, stream: StreamLike = None, **params: Unpack[_types.Fp8CastParams]) -> None:
        """y = x * scale as e4m3 or e5m2, saturating; amax = max(amax, |x|)."""
        self._call("fp8_cast", params, stream)

    def delayed_scale_update(self, *, stream: StreamLike = None,
                             **params: Unpack[_types.DelayedScaleUpdateParams]) -> None:
        """The scales of many tensors from the histories of their amax, as in Transformer Engine."""
        self._call("delayed_scale_update", params, stream)

    def loss_scale_update(self, state: Address, found_inf: Address, *, stream: StreamLike = None,
                          params: Optional[_types.LossScaleParams] = None) -> None:
        """A dynamic loss scale after a step: `state` is an f32 and an s32, `found_inf` an f32."""
        handle, at = self.handle, address_of(state, "state")
        found = address_of(found_inf, "found_inf")
        if at.dtype is not None and (at.dtype, at.count) not in _LOSS_SCALES:
            raise InvalidError(f"state: {at.count} elements of type {at.dtype}, and it is an f32 and an s32")
        _fits("found_inf", found, _type_of("f32", None), (None, ""))
        how = _c.ptx_loss_scale_update_params(at.address, found.address,
                                              struct(_c.ptx_loss_scale_params, params or {}, "", {}))
        keep(handle, at.keep, found.keep)
        check(c.ptx_operation_run(handle.value, _c.PTX_OPERATION_loss_scale_update, byref(how),
                                  stream_of(stream)))

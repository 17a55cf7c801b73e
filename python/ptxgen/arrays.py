# SPDX-License-Identifier: MIT
"""Whose memory a call uses, and on which stream: what libraries of arrays say of theirs."""

from __future__ import annotations

import ctypes
from typing import Any, Literal, Mapping, NamedTuple, Optional, Protocol, Tuple, Type, Union

from .errors import InvalidError


class CudaArray(Protocol):
    """An array with the CUDA array interface."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]: ...


class DlpackArray(Protocol):
    """An array with DLPack's interface; PyTorch's tensors have it."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> Tuple[Any, int]: ...


class HasCudaStream(Protocol):
    """A stream of PyTorch."""

    @property
    def cuda_stream(self) -> int: ...


class HasPtr(Protocol):
    """A stream of CuPy."""

    @property
    def ptr(self) -> int: ...


class HasStreamProtocol(Protocol):
    """A stream with the protocol of cuda.core: __cuda_stream__() gives (0, handle)."""

    def __cuda_stream__(self) -> Tuple[int, int]: ...


# An address in device memory as an integer, or an array, which is then kept alive.
Address = Union[int, CudaArray, DlpackArray, None]
# A CUstream as an integer, or a stream of another library. None: the legacy default stream.
StreamLike = Union[int, HasCudaStream, HasPtr, HasStreamProtocol, None]


class HasItemsize(Protocol):
    """A type of numpy or torch: numpy.dtype("float32"), torch.float32."""

    @property
    def itemsize(self) -> int: ...


# The type of elements as numpy and torch have it; the last: numpy.float32, a class.
OtherDType = Union[Literal["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
                           "uint8", "uint16", "uint32", "uint64"], HasItemsize, Type[Any]]


class ArrayInfo(NamedTuple):
    """What is known of an array: of an address alone, no more."""

    address: int
    count: Optional[int]  # type: ignore[assignment]
    dtype: Optional[str]
    keep: object


# ---- DLPack, as dlpack.h declares it


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int), ("device_id", ctypes.c_int)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", DLDevice), ("ndim", ctypes.c_int),
                ("dtype", DLDataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


DL_CPU, DL_CUDA, DL_CUDA_HOST, DL_CUDA_MANAGED = 1, 2, 3, 13
_reachable = {DL_CUDA, DL_CUDA_HOST, DL_CUDA_MANAGED}  # whose memory kernels access
DL_CODES = {0: "s", 1: "u", 2: "f", 4: "bf"}  # and the bits make a type's name

_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


def _contiguous(shape: Tuple[int, ...], strides: Optional[Tuple[int, ...]], step: int) -> bool:
    """Whether elements follow each other without gaps, in C's order."""
    if strides is None or 0 in shape:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _product(shape: Tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def reach_host_memory() -> None:
    """From now on, arrays in the process's own memory are taken, too: kernels access it."""
    _reachable.add(DL_CPU)


def on_host(array: Any) -> bool:
    """Whether it is in host memory that is taken, of which the driver knows nothing."""
    return (DL_CPU in _reachable and hasattr(array, "__dlpack_device__")
            and int(array.__dlpack_device__()[0]) == DL_CPU)


def reaches_host_memory() -> bool:
    return DL_CPU in _reachable


def _from_dlpack(array: Any, what: str) -> ArrayInfo:
    place = int(array.__dlpack_device__()[0])
    if place not in _reachable:
        raise InvalidError(f"{what}: the {type(array).__name__} is not in CUDA memory; move it there, or on the "
                           "emulator call ptxgen.torch.emulate(), which takes arrays of the CPU")
    if getattr(array, "requires_grad", False):
        array = array.detach()
    try:
        # No wait: the caller orders its streams.
        capsule = array.__dlpack__() if place == DL_CPU else array.__dlpack__(stream=-1)
    except BufferError as error:
        raise InvalidError(f"{what}: {error}") from None
    tensor = DLManagedTensor.from_address(_pointer_of(capsule, b"dltensor")).tensor
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = tuple(tensor.strides[k] for k in range(tensor.ndim)) if tensor.strides else None
    if not _contiguous(shape, strides, 1):
        raise InvalidError(f"{what}: the {type(array).__name__} is not contiguous")
    code = DL_CODES.get(tensor.dtype.code)
    dtype = f"{code}{tensor.dtype.bits}" if code and tensor.dtype.lanes == 1 else None
    return ArrayInfo((tensor.data or 0) + tensor.byte_offset, _product(shape), dtype, array)


def _from_interface(array: Any, what: str) -> ArrayInfo:
    interface = array.__cuda_array_interface__
    shape, typestr = tuple(interface["shape"]), interface["typestr"]
    size = int(typestr[2:])
    if not _contiguous(shape, interface.get("strides"), size):
        raise InvalidError(f"{what}: the {type(array).__name__} is not contiguous")
    code = {"f": "f", "i": "s", "u": "u"}.get(typestr[1])
    return ArrayInfo(int(interface["data"][0] or 0), _product(shape),
                     f"{code}{8 * size}" if code else None, array)


def address_of(array: Any, what: str) -> ArrayInfo:
    """What is known of an array or address; `what` names it in errors."""
    own = getattr(array, "_array_info", None)  # an array of this package
    if own is not None:
        info = own()
        assert isinstance(info, ArrayInfo)
        return info
    if isinstance(array, int) and not isinstance(array, bool):
        if not 0 <= array < 1 << 64:
            raise InvalidError(f"{what}: {array} is not an address")
        return ArrayInfo(array, None, None, None)
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return _from_dlpack(array, what)
    if hasattr(array, "__cuda_array_interface__"):
        return _from_interface(array, what)
    raise InvalidError(f"{what}: an address, or an array with DLPack or __cuda_array_interface__ is "
                       f"needed, not {array!r:.80}")


def is_array(value: Any) -> bool:
    """Whether the value is an array that kernels access. Those of PyTorch have __index__ too, as integers
    do, which fails or waits for the device. One of the CPU without dimensions is a number if it can be."""
    if hasattr(value, "_array_info"):
        return True
    if hasattr(value, "__dlpack_device__"):
        place = int(value.__dlpack_device__()[0])
        return place in _reachable and (place != DL_CPU or getattr(value, "ndim", 1) > 0)
    return hasattr(value, "__cuda_array_interface__")


# ---- streams


def stream_of(stream: Any) -> int:
    """The CUstream that a caller names."""
    if stream is None:
        return 0
    if type(stream) is int:
        handle: Any = stream
    elif hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        handle = (protocol() if callable(protocol) else protocol)[1]
    else:
        handle = getattr(stream, "cuda_stream", None)
        if handle is None:
            handle = getattr(stream, "ptr", None)
    if not isinstance(handle, int) or isinstance(stream, bool) or not 0 <= handle < 1 << 64:
        raise InvalidError("stream: a CUstream as an integer, or an object with __cuda_stream__(), "
                           f"cuda_stream or ptr is needed, not {stream!r:.80}")
    return handle

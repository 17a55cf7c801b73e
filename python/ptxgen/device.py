# SPDX-License-Identifier: MIT
"""A GPU, its memory, its streams, and graphs of captured work."""

from __future__ import annotations

import atexit
import ctypes
import math
from ctypes import byref
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from . import _c, _types
from ._library import (Handle, Object, c, captures, check, checked, choice, integer, keep, plain,
                       pointed_at, type_name)
from .arrays import (DL_CODES, DL_CUDA, ArrayInfo, DLDataType, DLDevice, DLManagedTensor, DLTensor,
                     StreamLike, stream_of)
from .errors import InvalidError
from .values import Shape, as_numpy, extents_of, host_bytes, type_bytes, unpacked

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .matrices import MuonPlan
    from .module import Kernel, Module
    from .operations import Operations
    from .plans import ClipPlan, StepPlan


def device_count() -> int:
    """The number of GPUs."""
    count = ctypes.c_int()
    check(c.ptx_device_count(byref(count)))
    return count.value


class Device(Object):
    """A GPU and a context on it. Without arguments: the thread's current context (that of PyTorch's
    tensors, say), or the first GPU. `primary`: the primary context of GPU `ordinal`, whatever is
    current. `context`: this CUcontext, which the caller keeps alive."""

    def __init__(self, *, ordinal: int = 0, primary: bool = False, context: int = 0) -> None:
        params = _c.ptx_device_params(ordinal=integer(ordinal, ctypes.c_int, "ordinal"),
                                      primary=bool(primary), context=context)
        super().__init__(Handle(checked(c.ptx_device_open(byref(params))), c.ptx_device_close))
        info = pointed_at(_c.ptx_device_info, c.ptx_device_get_info(self.handle.value))
        self.info: _types.DeviceInfo = plain(info)

    def __repr__(self) -> str:
        return f"<ptxgen.Device {self.info.ordinal}: {self.info.name}>"

    @property
    def context(self) -> int:
        """The CUcontext, for driver calls of the caller's own."""
        return int(c.ptx_device_context(self.handle.value) or 0)

    @property
    def target(self) -> str:
        """The newest target of texts that runs here: "sm_90"."""
        target, name = _c.ptx_target(), ctypes.create_string_buffer(_c.PTX_TARGET_NAME_SIZE)
        if not c.ptx_target_newest(self.info.sm, self.info.isa, byref(target)):
            raise InvalidError(f"no target is known for compute capability {self.info.sm}")
        return str(c.ptx_target_name(target, name).decode())

    def memory(self) -> Tuple[int, int]:
        """Free and total device memory in bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        check(c.ptx_device_memory(self.handle.value, byref(free), byref(total)))
        return free.value, total.value

    # ---- memory

    def empty(self, count: Shape, dtype: _types.DType = "f32") -> Array:
        """Uninitialised memory for `count` elements, or for those of a shape such as (2, 3)."""
        return Array(self, count, dtype)

    def zeros(self, count: Shape, dtype: _types.DType = "f32", *, stream: StreamLike = None) -> Array:
        """Memory for `count` elements, or for those of a shape, all 0. Waits for the stream."""
        made = Array(self, count, dtype)
        made.fill_bytes(0, stream=stream)
        made._done(stream_of(stream), True)
        return made

    def array(self, values: Any, dtype: Optional[_types.DType] = None, *,
              stream: StreamLike = None) -> Array:
        """A copy of host values, and of their shape: numbers in nested sequences, f32 unless `dtype`
        names a type, or an object with the buffer protocol or tolist(), such as array.array,
        numpy.ndarray or torch.Tensor, whose type is taken unless `dtype` names one. Their numbers are
        converted to it as those of a list are; only bytes, bytearray and memoryviews of bytes are taken
        as they are. A number that does not fit, or a finite one that the type has only as infinity, is
        an error. Waits for the stream."""
        data, name, shape = host_bytes(values, dtype)
        made = Array(self, shape, name)
        made.upload_bytes(data, stream=stream)
        return made

    # ---- streams and graphs

    def stream(self) -> Stream:
        """A new stream, which does not wait for the legacy default stream."""
        return Stream(self)

    def event(self) -> Event:
        """A new event, for waits between streams and for times."""
        return Event(self)

    def synchronize(self, stream: StreamLike = None) -> None:
        """Waits for the stream's work, and raises what failed in it."""
        check(c.ptx_stream_synchronize(self.handle.value, stream_of(stream)))

    def capture(self, stream: StreamLike, *, mode: _types.CaptureModeName = "thread_local") -> Graph:
        """Captures what a `with` block puts on the stream:

            with gpu.capture(stream) as graph:
                plan.run(stream)
            graph.launch(stream)
        """
        return Graph(self, stream_of(stream), mode)

    # ---- kernels and plans

    def load(self, text: str, **params: Unpack[_types.ModuleParams]) -> Module:
        """Compiles PTX text and makes its kernels ready."""
        from .module import Module
        return Module(self, text, **params)

    def kernel(self, name: str, dtype: _types.DType, **options: str) -> Kernel:
        """One of the library's kernels, compiled: gpu.kernel("squared_sum", "bf16")."""
        from .module import Kernel
        return Kernel(self, name, dtype, **options)

    def operations(self, **params: Unpack[_types.OperationsParams]) -> Operations:
        """Kernels in one call each, with checked arguments: see Operations."""
        from .operations import Operations
        return Operations(self, **params)

    def clip_plan(self, tensors: Any, **params: Unpack[_types.ClipParams]) -> ClipPlan:
        """A plan that takes norms and clips: see ClipPlan."""
        from .plans import ClipPlan
        return ClipPlan(self, tensors, **params)

    def step_plan(self, tensors: Any, **params: Unpack[_types.StepParams]) -> StepPlan:
        """A plan that clips and takes the optimizer's step: see StepPlan."""
        from .plans import StepPlan
        return StepPlan(self, tensors, **params)

    def muon_plan(self, matrices: Any, *, stream: StreamLike = None) -> MuonPlan:
        """A plan that multiplies matrices whose rows are on several ranks: see MuonPlan."""
        from .matrices import MuonPlan
        return MuonPlan(self, matrices, stream=stream)


# ---- device memory


class View:
    """Device memory that another object owns, and that lives as long as this: the sums of a plan,
    say. Other libraries take it through DLPack and __cuda_array_interface__."""

    def __init__(self, device: int, address: int, count: int, dtype: _types.TypeName,
                 owner: Handle) -> None:
        self._device, self._address, self._owner = device, address, owner
        self.count = count
        self.shape: Tuple[int, ...] = (count,)
        self.dtype: _types.TypeName = dtype

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        raise TypeError("numpy cannot have another object's device memory: read() of a plan gives its "
                        "results, and from_dlpack() of a library for GPUs takes this")

    @property
    def address(self) -> int:
        return self._address

    @property
    def nbytes(self) -> int:
        return self.count * type_bytes(self.dtype)

    def _array_info(self) -> ArrayInfo:
        return ArrayInfo(self.address, self.count, self.dtype, self._owner)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        code = {"f": "f", "s": "i", "u": "u"}.get(self.dtype[0])
        if code is None:
            raise AttributeError(f"the CUDA array interface has no {self.dtype}; DLPack has bf16")
        return {"shape": self.shape, "typestr": f"<{code}{type_bytes(self.dtype)}",
                "data": (self.address, False), "strides": None, "version": 3, "stream": None}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return DL_CUDA, self._device

    def __dlpack__(self, **asked: Any) -> Any:
        """A capsule for libraries that access CUDA memory. numpy does not, and names no stream."""
        device = asked.get("dl_device")
        if (device is not None and tuple(map(int, device)) != self.__dlpack_device__()
                or "dl_device" in asked and device is None and "stream" not in asked):
            raise BufferError("the array is in CUDA memory, which this library does not access: numpy.asarray(array) "
                              "or tolist() copies it to the host")
        return _capsule(self)


# Exported memory by the address of its DLManagedTensor: alive until the consumer's deleter call.
_exports: Dict[int, Tuple[Any, ...]] = {}
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


def _delete_export(managed: int) -> None:
    _exports.pop(managed, None)


def _delete_capsule(capsule: int) -> None:
    # A capsule that nobody consumed; a consumer renames it and calls the deleter itself.
    if _is_capsule(capsule, b"dltensor"):
        _exports.pop(_pointer_in(capsule, b"dltensor"), None)


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_delete_export)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_delete_capsule)


@atexit.register
def _leave_exports() -> None:
    # A consumer may live longer than the interpreter: it then finds no deleter to call.
    for managed, *_ in _exports.values():
        managed.deleter = None
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(managed))


def _capsule(view: View) -> Any:
    info = view._array_info()
    code = {name: k for k, name in DL_CODES.items()}.get(view.dtype.rstrip("0123456789"))
    if code is None:
        raise BufferError(f"DLPack has no {view.dtype}")
    shape = (ctypes.c_int64 * len(view.shape))(*view.shape)
    tensor = DLTensor(data=info.address, device=DLDevice(DL_CUDA, view._device), ndim=len(shape),
                      dtype=DLDataType(code, 8 * type_bytes(view.dtype), 1), shape=shape)
    managed = DLManagedTensor(tensor=tensor, deleter=ctypes.cast(_deleter, ctypes.c_void_p).value)
    address = ctypes.addressof(managed)
    _exports[address] = (managed, shape, info.keep)
    return _new_capsule(address, b"dltensor", ctypes.cast(_destructor, ctypes.c_void_p))


class Array(Object, View):
    """Device memory of this object's own: `count` elements of a type, in a shape. Copies are in stream
    order; those to and from the host wait for the stream unless `wait` is False."""

    def __init__(self, device: Device, count: Shape, dtype: _types.DType = "f32") -> None:
        self.shape = extents_of(count)
        self.count = math.prod(self.shape)
        self.dtype = type_name(dtype)
        size = integer(self.count * type_bytes(dtype), ctypes.c_size_t, "count")
        owner = device.handle
        handle = Handle(checked(c.ptx_buffer_create(owner.value, size)), c.ptx_buffer_destroy, owner)
        Object.__init__(self, handle)
        self._device, self._device_handle = device.info.ordinal, owner

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"<ptxgen.Array {self.dtype}[{shape}]{', closed' if self.closed else ''}>"

    @property
    def address(self) -> int:
        return int(c.ptx_buffer_address(self.handle.value))

    def _array_info(self) -> ArrayInfo:
        handle = self.handle
        return ArrayInfo(int(c.ptx_buffer_address(handle.value)), self.count, self.dtype, handle)

    def _done(self, stream: int, wait: bool) -> None:
        if wait:
            check(c.ptx_stream_synchronize(self._device_handle.value, stream))

    def upload(self, values: Any, *, offset: int = 0, stream: StreamLike = None) -> None:
        """Copies host values here, from element `offset` on, in the order of their shape. Numbers are
        converted as by Device.array()."""
        data, _, _ = host_bytes(values, self.dtype)
        self.upload_bytes(data, offset=offset * type_bytes(self.dtype), stream=stream)

    def upload_bytes(self, data: Any, *, offset: int = 0, stream: StreamLike = None,
                     wait: bool = True) -> None:
        """Copies a host buffer here, from byte `offset` on. With wait=False the buffer must not
        change, and must live, until the stream has done the copy."""
        handle, on = self.handle, stream_of(stream)
        view = memoryview(data)
        source: Any = data if isinstance(data, bytes) else _host_address(view)
        keep(handle)
        check(c.ptx_buffer_upload(handle.value, integer(offset, ctypes.c_size_t, "offset"), source,
                                  view.nbytes, on))
        self._done(on, wait)

    def tobytes(self, *, stream: StreamLike = None) -> bytes:
        """A copy of the memory. Waits for the stream."""
        handle, on = self.handle, stream_of(stream)
        target = ctypes.create_string_buffer(self.nbytes)
        check(c.ptx_buffer_download(handle.value, 0, target, self.nbytes, on))
        self._done(on, True)
        return target.raw[:self.nbytes]

    def tolist(self, *, stream: StreamLike = None) -> Any:
        """A copy as Python's numbers, in nested lists of the shape. Waits for the stream."""
        return unpacked(self.tobytes(stream=stream), self.dtype, self.shape)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        """A copy for numpy, bf16 as float32. Waits for the default stream."""
        if copy is False:
            raise ValueError("numpy gets a copy of device memory: it cannot be had with copy=False")
        made = as_numpy(self.tobytes(), self.dtype, self.shape)
        return made if dtype is None else made.astype(dtype, copy=False)

    def download_into(self, target: Any, *, offset: int = 0, stream: StreamLike = None,
                      wait: bool = True) -> None:
        """Copies from byte `offset` on into a writable host buffer, as many bytes as it has."""
        handle, on = self.handle, stream_of(stream)
        view = memoryview(target)
        if view.readonly:
            raise InvalidError("target: the buffer is read-only")
        keep(handle)
        check(c.ptx_buffer_download(handle.value, integer(offset, ctypes.c_size_t, "offset"),
                                    _host_address(view), view.nbytes, on))
        self._done(on, wait)

    def fill_bytes(self, value: int, *, stream: StreamLike = None) -> None:
        """Sets every byte, in stream order."""
        handle = self.handle
        keep(handle)
        check(c.ptx_buffer_fill(handle.value, 0, integer(value, ctypes.c_uint8, "value"), self.nbytes,
                                stream_of(stream)))

    def copy_from(self, source: Array, *, stream: StreamLike = None) -> None:
        """Copies another array of the same size here, in stream order."""
        if source.nbytes != self.nbytes:
            raise InvalidError(f"source: {source.nbytes} bytes for {self.nbytes}")
        handle, other = self.handle, source.handle
        keep(handle, other)
        check(c.ptx_buffer_copy(handle.value, 0, other.value, 0, self.nbytes, stream_of(stream)))


def _host_address(view: memoryview) -> int:
    if not view.c_contiguous:
        raise InvalidError("the host buffer is not contiguous")
    if view.readonly:  # ctypes takes the address of writable buffers alone
        raise InvalidError("the host buffer is neither bytes nor writable")
    return ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B"))) if view.nbytes else 0


# ---- streams and events


class Stream(Object):
    """A stream of this package's own. Any call that takes a stream takes it, and so does whoever
    reads __cuda_stream__()."""

    def __init__(self, device: Device) -> None:
        owner = device.handle

        def free(pointer: Any) -> None:
            c.ptx_stream_destroy(owner.value, pointer)

        super().__init__(Handle(checked(c.ptx_stream_create(owner.value)), free, owner))
        self._device_handle = owner

    def __cuda_stream__(self) -> Tuple[int, int]:
        return 0, self.handle.value

    @property
    def ptr(self) -> int:
        """The CUstream."""
        return self.handle.value

    @property
    def capturing(self) -> bool:
        """Whether the stream is being captured."""
        found = ctypes.c_bool()
        check(c.ptx_stream_is_capturing(self._device_handle.value, self.handle.value, byref(found)))
        return found.value

    def synchronize(self) -> None:
        """Waits for the stream's work, and raises what failed in it."""
        handle = self.handle
        check(c.ptx_stream_synchronize(self._device_handle.value, handle.value))

    def wait(self, event: Event) -> None:
        """Makes later work wait for the event. The host does not wait."""
        handle, other = self.handle, event.handle
        check(c.ptx_stream_wait_event(self._device_handle.value, handle.value, other.value))

    def capture(self, *, mode: _types.CaptureModeName = "thread_local") -> Graph:
        """As Device.capture(), of this stream."""
        return Graph(self._device_handle, self.handle.value, mode, self.handle)


class Event(Object):
    """A point in a stream's work."""

    def __init__(self, device: Device) -> None:
        owner = device.handle

        def free(pointer: Any) -> None:
            c.ptx_event_destroy(owner.value, pointer)

        super().__init__(Handle(checked(c.ptx_event_create(owner.value)), free, owner))
        self._device_handle = owner

    def record(self, stream: StreamLike = None) -> None:
        """Marks the end of what is on the stream now."""
        handle = self.handle
        check(c.ptx_event_record(self._device_handle.value, handle.value, stream_of(stream)))

    def synchronize(self) -> None:
        """Waits for the work before the event."""
        handle = self.handle
        check(c.ptx_event_synchronize(self._device_handle.value, handle.value))

    def milliseconds_since(self, start: Event) -> float:
        """The time between two events, both of which must be complete."""
        handle, first, time = self.handle, start.handle, ctypes.c_float()
        check(c.ptx_event_elapsed(self._device_handle.value, first.value, handle.value, byref(time)))
        return time.value


# ---- graphs


class Graph(Object):
    """Captured work that is launched as a whole: see Device.capture(). It keeps alive what this
    package's calls put into it; memory given as a plain address, and what others captured, is the
    caller's to keep."""

    def __init__(self, device: Union[Device, Handle], stream: int, mode: _types.CaptureModeName,
                 *keeps: object) -> None:
        self._device_handle = device.handle if isinstance(device, Device) else device
        self._stream = stream
        self._mode = choice("ptx_capture_mode", mode, "mode")
        self._kept: List[object] = list(keeps)
        self._handle = None
        self._state = "not captured yet: use it in a `with` block"

    @property
    def handle(self) -> Handle:
        if self._handle is None:
            raise InvalidError(f"the Graph is {self._state}")
        return self._handle

    def close(self) -> None:
        if self._handle is not None:
            self._state = "closed"
        super().close()

    def __enter__(self) -> Graph:
        if not self._state.startswith("not captured yet"):
            raise InvalidError(f"the Graph is {self._state}; capture into a new one")
        check(c.ptx_capture_begin(self._device_handle.value, self._stream, self._mode))
        self._state = "being captured"
        captures[id(self._kept)] = self._kept
        return self

    def __exit__(self, *raised: object) -> None:
        captures.pop(id(self._kept), None)
        self._state = "not captured: the `with` block failed"
        if raised and raised[0] is not None:
            c.ptx_capture_abandon(self._device_handle.value, self._stream)
            self._kept = []
            return
        graph = checked(c.ptx_capture_end(self._device_handle.value, self._stream))
        self._handle = Handle(graph, c.ptx_graph_destroy, self._device_handle, *self._kept)
        self._kept, self._state = [], "captured"

    def launch(self, stream: StreamLike = None) -> None:
        """Puts the graph on a stream and returns at once."""
        handle = self.handle
        keep(handle)
        check(c.ptx_graph_launch(handle.value, stream_of(stream)))

    @property
    def info(self) -> _types.GraphInfo:
        """The number of nodes by kind."""
        handle = self.handle
        info: _types.GraphInfo = plain(pointed_at(_c.ptx_graph_info, c.ptx_graph_get_info(handle.value)))
        return info

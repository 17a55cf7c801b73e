# SPDX-License-Identifier: MIT
"""libptxgen from Python, limited to what the scripts of this folder need: kernels, clip plans, step
plans and one-call operations on device addresses and streams that belong to somebody else.

Work is enqueued in the thread's current CUDA context; with PyTorch that is the one its tensors are
in, once it has made any. Whatever fails raises Error with the library's message.
"""
import ctypes
import os
import re
from ctypes import (POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_int32, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p)

PROPAGATE, SKIP, ZERO = range(3)  # enum ptx_nonfinite
ALL_GROUPS = 0xffffffff


class Error(Exception):
    """A call of the library failed; its text is ptx_error_message()."""


# ---- the structs of the public headers -----------------------------------------------------------

_HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "include", "ptxgen")
_TYPES = {"bool": c_bool, "char": c_char, "int": c_int, "int32_t": c_int32, "uint8_t": c_uint8,
          "uint32_t": c_uint32, "uint64_t": c_uint64, "size_t": c_size_t, "float": c_float,
          "double": c_double, "CUdeviceptr": c_uint64, "CUstream": c_void_p}


def _header(name):
    """A public header without comments."""
    with open(os.path.join(_HEADERS, name), encoding="utf-8") as file:
        return re.sub(r"//.*", "", file.read())


def _struct(header, name, **nested):
    """struct `name` as the header declares it; `nested` has the structs that it contains, and the
    types that pointers to them take."""
    body = re.search(r"struct " + name + r" \{(.*?)\n\};", _header(header), re.S).group(1)
    fields = []
    for declared in filter(None, (" ".join(line.split()) for line in body.split(";"))):
        base, rest = re.fullmatch(r"(?:const )?(?:struct )?(\w+) (.*)", declared).groups()
        for one in rest.split(","):
            star, field, size = re.fullmatch(r" *(\**)(\w+)(?:\[(\d+)\])?", one).groups()
            type_ = nested.get(base) or _TYPES.get(base, c_int)  # an enum is an int
            if star:
                type_ = POINTER(type_) if base in nested or base in _TYPES else c_void_p
            fields.append((field, type_ * int(size) if size else type_))
    return type(name, (Structure,), {"_fields_": fields})


def _names(header, prefix):
    """The values of an enum by name, lower case, in order."""
    found = re.findall(r"^ +" + prefix + r"_(\w+), *$", _header(header), re.M)
    return tuple(name.lower() for name in found)


class _Target(Structure):
    _fields_ = [("sm", c_int), ("suffix", c_char)]


class _BuilderParams(Structure):
    _fields_ = [("target", _Target), ("isa", c_int), ("resize", c_void_p), ("user", c_void_p)]


class _DeviceInfo(Structure):  # only the first fields
    _fields_ = [("library_path", c_char_p), ("driver_version", c_int), ("isa", c_int),
                ("ordinal", c_int), ("name", c_char * 128), ("sm", c_int)]


class _Spec(Structure):
    _fields_ = [("dtype", c_int), ("option", c_uint8 * 4), ("entry", c_char_p)]


class _Geometry(Structure):
    _fields_ = [("grid", c_uint32), ("block", c_uint32)]


class _Arg(Structure):
    _fields_ = [("value", c_void_p), ("size", c_size_t), ("type", c_int)]


class _Launch(Structure):
    _fields_ = [("grid", c_uint32 * 3), ("block", c_uint32 * 3), ("shared_bytes", c_size_t),
                ("stream", c_void_p), ("args", POINTER(_Arg)), ("arg_count", c_size_t),
                ("cooperative", c_bool), ("cluster", c_uint32 * 3), ("programmatic", c_bool)]


Tensor = _struct("clip.h", "ptx_clip_tensor")  # its dtype is what Library.dtype() gives
LossScale = _struct("records.h", "ptx_loss_scale_state")
LossScaleParams = _struct("operations.h", "ptx_loss_scale_params")  # all 0: PyTorch's GradScaler
Record = _struct("records.h", "ptx_clip_record")
Summary = _struct("records.h", "ptx_clip_summary", ptx_loss_scale_state=LossScale)
Hyper = _struct("rules.h", "ptx_step_hyper")
_ClipParams = _struct("clip.h", "ptx_clip_params", ptx_clip_tensor=Tensor,
                      ptx_loss_scale_params=LossScaleParams)
_StepGroup = _struct("step.h", "ptx_step_group", ptx_step_hyper=Hyper)
_StepTensor = _struct("step.h", "ptx_step_tensor", ptx_step_whole=c_uint64 * 3)
_StepParams = _struct("step.h", "ptx_step_params", ptx_step_tensor=_StepTensor,
                      ptx_step_group=_StepGroup, ptx_loss_scale_params=LossScaleParams)
_Quantize = _struct("operations.h", "ptx_quantize_params")
_Lerp = _struct("operations.h", "ptx_lerp_params")

RULES = _names("rules.h", "PTX_STEP_RULE")
FORMATS = _names("rules.h", "PTX_STEP_FORMAT")
GRADIENTS = _names("step.h", "PTX_STEP_GRADIENTS")


_POINTERS = ["ptx_device_open", "ptx_builder_create", "ptx_kernel_find", "ptx_module_load",
             "ptx_module_function", "ptx_clip_plan_create", "ptx_step_plan_create", "ptx_operations_create",
             "ptx_device_get_info"]
_STRINGS = ["ptx_error_message", "ptx_builder_finish", "ptx_builder_error", "ptxgen_version"]


# ---- the library and a device --------------------------------------------------------------------


class Library:
    """libptxgen and the device of the current context."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name in _POINTERS:
            getattr(self.c, name).restype = c_void_p
        for name in _STRINGS:
            getattr(self.c, name).restype = c_char_p
        self.c.ptx_kernel_spec_set.restype = self.c.ptx_kernel_geometry.restype = c_bool
        self.c.ptx_target_at.restype = c_bool
        self.c.ptx_step_plan_sums.restype = c_uint64
        self.c.ptx_clip_plan_run.argtypes = [c_void_p, c_void_p]
        self.c.ptx_launch.argtypes = [c_void_p, POINTER(_Launch)]
        self.device = c_void_p(self.pointer(self.c.ptx_device_open(None)))
        info = c_void_p(self.c.ptx_device_get_info(self.device))
        self.info = ctypes.cast(info, POINTER(_DeviceInfo)).contents

    def check(self, status):
        if status != 0:
            raise Error(self.c.ptx_error_message().decode())

    def pointer(self, result):
        if not result:
            raise Error(self.c.ptx_error_message().decode())
        return result

    def dtype(self, name):
        """The ptx_type called "f32", "f64", "f16" or "bf16"."""
        return self.c.ptx_type_parse(name.encode())

    def version(self):
        return self.c.ptxgen_version().decode()

    def target(self):
        """The newest target without a suffix that the device supports."""
        target, best = _Target(), _Target()
        k = 0
        while self.c.ptx_target_at(c_size_t(k), byref(target), None):
            if target.suffix == b"\0" and target.sm <= self.info.sm:
                best = _Target(target.sm, target.suffix)
            k += 1
        return best


# ---- kernels -------------------------------------------------------------------------------------


class Module:
    """Compiled PTX text. Lives as long as the process: graphs may hold its launches."""

    def __init__(self, library, text):
        self.library = library
        load = library.c.ptx_module_load
        self.module = c_void_p(library.pointer(load(library.device, text, None)))

    def bind(self, name, grid, args, block=0, programmatic=False):
        """A launch, to be called with a stream any number of times. `args`: ctypes values."""
        library = self.library
        find = library.c.ptx_module_function
        function = c_void_p(library.pointer(find(self.module, name.encode())))
        table = (_Arg * len(args))(*[_Arg(ctypes.addressof(a), ctypes.sizeof(a)) for a in args])
        launch = _Launch(grid=(grid, 1, 1), block=(block, 0, 0), args=table,
                         arg_count=len(args), programmatic=programmatic)
        launch.keep = args

        def enqueue(stream):
            launch.stream = stream
            library.check(library.c.ptx_launch(function, byref(launch)))
        return enqueue


class Kernel:
    """One of the library's kernels in one type, options by name."""

    def __init__(self, library, name, dtype, **options):
        c = library.c
        self.library = library
        self.kernel = c_void_p(c.ptx_kernel_find(name.encode()))
        self.spec = _Spec(dtype=library.dtype(dtype), entry=b"kernel")
        for option, value in options.items():
            if not c.ptx_kernel_spec_set(byref(self.spec), self.kernel, option.encode(), value.encode()):
                raise Error(f"{name} has no {option}={value}")
        builder = c_void_p(c.ptx_builder_create(byref(_BuilderParams(target=library.target()))))
        c.ptx_kernel_emit(builder, self.kernel, byref(self.spec))
        text = c.ptx_builder_finish(builder)
        if text is None:
            raise Error(c.ptx_builder_error(builder).decode())
        self.module = Module(library, text)
        c.ptx_builder_destroy(byref(builder))

    def bind(self, n, *args):
        """A launch over n elements, to be called with a stream."""
        shape = _Geometry()
        if not self.library.c.ptx_kernel_geometry(self.kernel, self.spec.dtype, c_uint64(n),
                                                  byref(shape)):
            raise Error(f"{n} elements are too many for a grid")
        return self.module.bind("kernel", shape.grid, args)


# ---- clip plans ----------------------------------------------------------------------------------


class ClipPlan:
    """A ptx_clip_plan. `tensors`: (address, count, dtype name, group) each."""

    def __init__(self, library, tensors, max_norm, eps=0.0, nonfinite=PROPAGATE, loss_scale=0.0,
                 loss_scale_state=0, update=None, stream=None):
        self.library = library
        table = (Tensor * len(tensors))(*[Tensor(data, count, library.dtype(dtype), group)
                                          for data, count, dtype, group in tensors])
        params = _ClipParams(tensors=table, tensor_count=len(tensors), max_norm=max_norm, eps=eps,
                             nonfinite=nonfinite, loss_scale=loss_scale,
                             loss_scale_state=loss_scale_state, stream=stream)
        if update is not None:
            params.update = ctypes.pointer(update)
        self.groups = 1 + max((t[3] for t in tensors), default=0)
        if max_norm == 0:  # on purpose
            params.group_max_norms = (c_float * self.groups)()
        create = library.c.ptx_clip_plan_create
        self.plan = c_void_p(library.pointer(create(library.device, byref(params))))

    def run(self, stream):
        self.library.check(self.library.c.ptx_clip_plan_run(self.plan, stream))

    def read(self, stream):
        """The records of all groups. Waits for the stream."""
        records = (Record * self.groups)()
        c, stream = self.library.c, c_void_p(stream)
        self.library.check(c.ptx_clip_plan_read(self.plan, c_uint32(0), c_uint32(self.groups),
                                                records, None, stream))
        self.library.check(c.ptx_stream_synchronize(self.library.device, stream))
        return list(records)

    def set_max_norm(self, max_norm, stream, group=ALL_GROUPS):
        self.library.check(self.library.c.ptx_clip_plan_set_max_norm(
            self.plan, c_uint32(group), c_float(max_norm), c_void_p(stream)))

    def set_loss_scale(self, scale, stream, growth_tracker=0):
        self.library.check(self.library.c.ptx_clip_plan_set_loss_scale(
            self.plan, LossScale(scale, growth_tracker), c_void_p(stream)))

    def set_data(self, addresses, stream, first=0):
        table = (c_uint64 * len(addresses))(*addresses)
        self.library.check(self.library.c.ptx_clip_plan_set_data(
            self.plan, c_size_t(first), c_size_t(len(addresses)), table, c_void_p(stream)))

    def destroy(self):
        self.library.c.ptx_clip_plan_destroy(byref(self.plan))


# ---- step plans ----------------------------------------------------------------------------------


class StepPlan:
    """A ptx_step_plan. `tensors`: dicts of the fields of struct ptx_step_tensor; `groups`: dicts of
    those of struct ptx_step_group and its hyper; `params`: those of struct ptx_step_params. Rules,
    types, formats and `gradients` by name."""

    def __init__(self, library, tensors, groups, **params):
        self.library = library
        table, group_table = (_StepTensor * len(tensors))(), (_StepGroup * len(groups))()
        for row, tensor in zip(table, tensors):
            for field, value in tensor.items():
                setattr(row, field, self._value(field, value))
        for row, group in zip(group_table, groups):
            for field, value in group.items():
                setattr(row if hasattr(row, field) else row.hyper, field,
                        self._value(field, value))
        params = {field: self._value(field, value) for field, value in params.items()}
        params = _StepParams(tensors=table, tensor_count=len(tensors), groups=group_table,
                             group_count=len(groups), **params)
        create = library.c.ptx_step_plan_create
        self.plan = c_void_p(library.pointer(create(library.device, byref(params))))

    def _value(self, field, value):
        if field in ("dtype", "gradient_dtype"):
            return self.library.dtype(value)
        names = {"rule": RULES, "format": FORMATS, "gradients": GRADIENTS}.get(field)
        if names:
            return names.index(value)
        if isinstance(value, tuple):
            return (c_uint64 * len(value))(*value)
        return ctypes.pointer(value) if isinstance(value, LossScaleParams) else value

    def _call(self, name, stream, *args):
        function = getattr(self.library.c, "ptx_step_plan_" + name)
        self.library.check(function(self.plan, *args, c_void_p(stream)))

    def run(self, stream):
        self._call("run", stream)

    def norm_sq(self, stream):
        self._call("norm_sq", stream)

    def finish(self, stream):
        self._call("finish", stream)

    def step(self, stream):
        self._call("step", stream)

    def sums(self):
        """The address of the sums, an f64 a norm group."""
        return self.library.c.ptx_step_plan_sums(self.plan)

    def read(self, stream):
        """The record of norm group 0, and the summary. Waits for the stream."""
        record, summary = Record(), Summary()
        self._call("read", stream, c_uint32(0), c_uint32(1), byref(record), byref(summary))
        self.library.check(self.library.c.ptx_stream_synchronize(self.library.device,
                                                                 c_void_p(stream)))
        return record, summary

    def set_hyper(self, stream, group=0, **scalars):
        self._call("set_hyper", stream, c_uint32(group), byref(Hyper(**scalars)))

    def set_loss_scale(self, scale, stream, growth_tracker=0):
        self._call("set_loss_scale", stream, LossScale(scale, growth_tracker))

    def destroy(self):
        self.library.c.ptx_step_plan_destroy(byref(self.plan))


# ---- operations in one call ----------------------------------------------------------------------


class Operations:
    """A ptx_operations. Fields are those of the C structs, the dtype by name."""

    def __init__(self, library):
        self.library = library
        create = library.c.ptx_operations_create
        self.operations = c_void_p(library.pointer(create(library.device, None)))

    def _call(self, function, params, stream):
        self.library.check(function(self.operations, byref(params), c_void_p(stream)))

    def quantize_backward(self, stream, dtype, **fields):
        params = _Quantize(dtype=self.library.dtype(dtype), **fields)
        self._call(self.library.c.ptx_quantize_backward, params, stream)

    def lerp_backward(self, stream, dtype, **fields):
        params = _Lerp(dtype=self.library.dtype(dtype), **fields)
        self._call(self.library.c.ptx_lerp_backward, params, stream)

    def destroy(self):
        self.library.c.ptx_operations_destroy(byref(self.operations))

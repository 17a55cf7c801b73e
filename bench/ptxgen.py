# SPDX-License-Identifier: MIT
"""libptxgen from Python, limited to what the scripts of this folder need: kernels, clip plans and
one-call operations on device addresses and streams that belong to somebody else.

Work is enqueued in the thread's current CUDA context; with PyTorch that is the one its tensors are
in, once it has made any. Whatever fails raises Error with the library's message.
"""
import ctypes
from ctypes import (POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_int32, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p)

PROPAGATE, SKIP, ZERO = range(3)  # enum ptx_nonfinite
ALL_GROUPS = 0xffffffff


class Error(Exception):
    """A call of the library failed; its text is ptx_error_message()."""


# ---- the structs of the public headers -----------------------------------------------------------


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


class Tensor(Structure):
    """struct ptx_clip_tensor; dtype is what Library.dtype() gives."""
    _fields_ = [("data", c_uint64), ("count", c_uint64), ("dtype", c_int), ("group", c_uint32),
                ("weight", c_double), ("uncounted", c_bool)]


class LossScale(Structure):
    """struct ptx_loss_scale_state."""
    _fields_ = [("scale", c_float), ("growth_tracker", c_int32)]


class LossScaleParams(Structure):
    """struct ptx_loss_scale_params; all zero is PyTorch's GradScaler."""
    _fields_ = [("growth", c_float), ("backoff", c_float), ("interval", c_int32),
                ("min_scale", c_float), ("max_scale", c_float), ("hysteresis", c_int32)]


class _ClipParams(Structure):
    _fields_ = [("tensors", POINTER(Tensor)), ("tensor_count", c_size_t),
                ("group_count", c_uint32), ("max_norm", c_float),
                ("group_max_norms", POINTER(c_float)), ("eps", c_float), ("nonfinite", c_int),
                ("loss_scale", c_float), ("loss_scale_state", c_uint64),
                ("update", POINTER(LossScaleParams)), ("any_address", c_bool),
                ("measure_only", c_bool), ("stream", c_void_p), ("module", c_void_p)]


class Record(Structure):
    """struct ptx_clip_record."""
    _fields_ = [("factor", c_float), ("norm", c_float), ("found_inf", c_float),
                ("max_norm", c_float)]


class Hyper(Structure):
    """struct ptx_step_hyper."""
    _fields_ = [(name, c_double) for name in ("lr", "beta1", "beta2", "eps", "weight_decay",
                                              "momentum", "dampening", "reserved")]


class _StepGroup(Structure):
    _fields_ = [("rule", c_int), ("maximize", c_bool), ("nesterov", c_bool), ("hyper", Hyper),
                ("hyper_at", c_uint64), ("lr_at", c_uint64)]


class _StepTensor(Structure):
    _fields_ = [("parameter", c_uint64), ("gradient", c_uint64), ("state", c_uint64 * 2),
                ("beside", c_uint64), ("step", c_uint64), ("count", c_uint64), ("dtype", c_int),
                ("gradient_dtype", c_int), ("format", c_int), ("group", c_uint32),
                ("norm_group", c_uint32), ("weight", c_double), ("uncounted", c_bool),
                ("id", c_uint32), ("whole", c_uint64 * 3)]


class _StepParams(Structure):
    _fields_ = [("tensors", POINTER(_StepTensor)), ("tensor_count", c_size_t),
                ("groups", POINTER(_StepGroup)), ("group_count", c_uint32),
                ("norm_group_count", c_uint32), ("max_norm", c_float),
                ("group_max_norms", POINTER(c_float)), ("eps", c_float), ("loss_scale", c_float),
                ("loss_scale_state", c_uint64), ("update", POINTER(LossScaleParams)),
                ("gradients", c_int), ("seed", c_uint64), ("any_address", c_bool),
                ("stream", c_void_p), ("module", c_void_p)]


RULES = ("adamw", "adam", "sgd", "lion")  # enum ptx_step_rule
FORMATS = ("full", "state_bf16", "master", "remainder", "stochastic")  # enum ptx_step_format


class _Quantize(Structure):
    _fields_ = [("dtype", c_int), ("count", c_uint64), ("x", c_uint64), ("d_output", c_uint64),
                ("d_input", c_uint64), ("scale", c_double), ("zero_point", c_int32),
                ("scales", c_uint64), ("zero_points", c_uint64), ("channels", c_uint64),
                ("inner", c_uint64), ("q_min", c_int32), ("q_max", c_int32),
                ("reciprocal", c_bool), ("fake_quantize", c_bool)]


class _Lerp(Structure):
    _fields_ = [("dtype", c_int), ("count", c_uint64), ("d_output", c_uint64), ("d_a", c_uint64),
                ("d_b", c_uint64), ("weight", c_double), ("weight_at", c_uint64)]


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
    """A ptx_step_plan of one rule and one group. `tensors`: dicts of the fields of struct
    ptx_step_tensor, `dtype` by name and `format` one of FORMATS."""

    def __init__(self, library, tensors, rule, hyper, max_norm, eps=0.0):
        self.library = library
        table = (_StepTensor * len(tensors))()
        for row, tensor in zip(table, tensors):
            for field, value in tensor.items():
                if field == "dtype":
                    value = library.dtype(value)
                elif field == "format":
                    value = FORMATS.index(value)
                elif field == "state":
                    value = (c_uint64 * 2)(*value)
                setattr(row, field, value)
        group = _StepGroup(rule=RULES.index(rule), hyper=Hyper(**hyper))
        params = _StepParams(tensors=table, tensor_count=len(tensors),
                             groups=ctypes.pointer(group), group_count=1, max_norm=max_norm, eps=eps)
        create = library.c.ptx_step_plan_create
        self.plan = c_void_p(library.pointer(create(library.device, byref(params))))

    def run(self, stream):
        self.library.check(self.library.c.ptx_step_plan_run(self.plan, c_void_p(stream)))

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

# SPDX-License-Identifier: MIT
"""PTX text, compiled and launched; the kernels that come with the library."""

from __future__ import annotations

import ctypes
import struct as packing
from ctypes import byref
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _c, _types
from ._library import (NAMES, Handle, Object, c, check, checked, choice, finish_text, integer, keep,
                       plain, pointed_at, real, struct, type_name)
from .arrays import StreamLike, address_of, is_array, stream_of
from .device import Device
from .errors import InvalidError, NotFoundError
from .values import FORMATS, Shape, bf16_bits

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Module(Object):
    """Compiled PTX text. module["saxpy"] is one of its kernels."""

    def __init__(self, device: Device, text: str, **params: Unpack[_types.ModuleParams]) -> None:
        if not isinstance(text, str):
            raise InvalidError(f"text: PTX as a string is needed, not {type(text).__name__}")
        if "\0" in text:
            raise InvalidError("text: it has a NUL")
        how = struct(_c.ptx_module_params, params, "", {})
        owner = device.handle
        module = checked(c.ptx_module_load(owner.value, text.encode(), byref(how)))
        super().__init__(Handle(module, c.ptx_module_unload, owner))

    def __getitem__(self, name: str) -> Function:
        return Function(self, name)

    @property
    def log(self) -> str:
        """The compiler's output; "" if there is none."""
        return str(c.ptx_module_log(self.handle.value).decode(errors="replace"))

    def variable(self, name: str) -> Tuple[int, int]:
        """Address and bytes of a .global or .const variable."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        check(c.ptx_module_global(self.handle.value, name.encode(), byref(address), byref(size)))
        return address.value, size.value


class Function:
    """A kernel, called with its arguments by name or in order:

        saxpy(n=n, a=2.0, x=x, y=y, grid=-(-n // 256), stream=stream)

    A number is converted to the parameter's type, and must fit it. A .u64 takes an array, too. A
    parameter whose name is one of this call's own (grid, stream, ...) is given in order. `grid` and
    `block` are one to three extents; without `block`, the text's .reqntid is taken. The launch is
    put on the stream; the call returns at once."""

    def __init__(self, module: Module, name: str) -> None:
        self._module = module.handle
        self._function = checked(c.ptx_module_function(self._module.value, name.encode()))
        raw = pointed_at(_c.ptx_function_info, c.ptx_function_get_info(self._function))
        params = (_c.ptx_function_param * raw.param_count).from_address(raw.params or 0) \
            if raw.param_count else ()
        listed: Tuple[_types.FunctionParam, ...] = tuple(plain(param) for param in params)
        self.info: _types.FunctionInfo = plain(raw)._replace(params=listed)
        self._names = {param.name: k for k, param in enumerate(listed)}
        self._bytes = max((param.offset + param.size for param in listed), default=0)

    def __repr__(self) -> str:
        listed = ", ".join(f"{param.type} {param.name}" for param in self.info.params)
        return f"<ptxgen.Function {self.info.name}({listed})>"

    def occupancy(self, threads: int, shared_bytes: int = 0) -> int:
        """Blocks resident on one multiprocessor at a time."""
        blocks = ctypes.c_int()
        check(c.ptx_function_occupancy(self._function, integer(threads, ctypes.c_int, "threads"),
                                       integer(shared_bytes, ctypes.c_size_t, "shared_bytes"),
                                       byref(blocks)))
        return blocks.value

    def _in_order(self, given: Sequence[Any], named: Dict[str, Any]) -> List[Any]:
        """One value a parameter."""
        params = self.info.params
        if len(given) > len(params):
            raise InvalidError(f"{self.info.name} has {len(params)} parameters, not {len(given)}")
        values = list(given) + [None] * (len(params) - len(given))
        missing = set(range(len(given), len(params)))
        for name, value in named.items():
            if name not in self._names:
                raise InvalidError(f"{self.info.name} has no parameter {name!r}; it has "
                                   f"{', '.join(self._names) or 'none'}")
            k = self._names[name]
            if k not in missing:
                raise InvalidError(f"{self.info.name}: {name} is given twice")
            missing.discard(k)
            values[k] = value
        if missing:
            names = ", ".join(params[k].name for k in sorted(missing))
            raise InvalidError(f"{self.info.name}: no value for {names}")
        return values

    def __call__(self, *arguments: Any, stream: StreamLike = None, **named: Any) -> None:
        self.bind(*arguments, **named)(stream)

    def bind(self, *arguments: Any, grid: Shape, block: Shape = (), shared_bytes: int = 0,
             cooperative: bool = False, cluster: Shape = (), programmatic: bool = False,
             **named: Any) -> Launch:
        """The launch with these arguments, to be put on a stream any number of times."""
        values = self._in_order(arguments, named)
        memory = ctypes.create_string_buffer(self._bytes or 1)
        start = ctypes.addressof(memory)
        args = (_c.ptx_arg * len(values))()
        used: List[object] = [self._module]
        for param, value, arg in zip(self.info.params, values, args):
            place(memory, param, value, used)
            arg.value, arg.size = start + param.offset, param.size
        launch = _c.ptx_launch_params(
            grid=extents(grid, "grid"), block=extents(block, "block"),
            shared_bytes=integer(shared_bytes, ctypes.c_size_t, "shared_bytes"),
            args=ctypes.addressof(args), arg_count=len(values), cooperative=bool(cooperative),
            cluster=extents(cluster, "cluster"), programmatic=bool(programmatic))
        return Launch(self._function, launch, (memory, args, *used))


class Launch:
    """A kernel with its arguments: see Function.bind(). Keeps its arrays alive. One thread at a time
    may call it."""

    def __init__(self, function: int, params: Any, used: Tuple[object, ...]) -> None:
        self._function, self._params, self._used = function, params, used

    def __call__(self, stream: StreamLike = None) -> None:
        self._params.stream = stream_of(stream)
        keep(*self._used)
        check(c.ptx_launch(self._function, byref(self._params)))


def extents(shape: Shape, what: str) -> Any:
    """Up to three extents in x, y, z."""
    several = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    if len(several) > 3:
        raise InvalidError(f"{what}: at most three extents, not {len(several)}")
    return (ctypes.c_uint * 3)(*[integer(extent, ctypes.c_uint, what) for extent in several])


def place(memory: Any, param: _types.FunctionParam, value: Any, used: List[object]) -> None:
    """Writes an argument where its parameter lies."""
    kind, size = param.type, param.size
    try:
        if isinstance(value, (bytes, bytearray, memoryview)):
            if len(value) != size:
                raise InvalidError(f"{param.name}: {len(value)} bytes for {size}")
            memory[param.offset:param.offset + size] = bytes(value)
        elif kind in ("u64", "s64", "b64") and (is_array(value) or not hasattr(value, "__index__")):
            array = address_of(value, param.name)
            used.append(array.keep)
            packing.pack_into("<Q", memory, param.offset, array.address)
        elif kind == "bf16":
            packing.pack_into("<H", memory, param.offset, bf16_bits(real(value, ctypes.c_float, param.name)))
        elif kind in FORMATS and size == packing.calcsize("<" + FORMATS[kind]):
            packing.pack_into("<" + FORMATS[kind], memory, param.offset, value)
        else:
            raise InvalidError(f"{param.name}: {size} bytes are needed for .{kind}")
    except (packing.error, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidError):
            raise
        raise InvalidError(f"{param.name}: {value!r} is no .{kind}: {error}") from None


# ---- the library's kernels


class KernelInfo(NamedTuple):
    """A kernel's row: what it computes, for which types, its options with their values (the first is
    the default), and what is guaranteed."""

    name: str
    summary: str
    formula: str
    dtypes: Tuple[str, ...]
    options: Dict[str, Tuple[str, ...]]
    block: int
    guarantees: str


def _row_info(row: Any) -> KernelInfo:
    options = {option.name.decode(): tuple(value.decode() for value in option.values if value)
               for option in row.options if option.name}
    dtypes = tuple(name for name, bit in _dtype_bits() if row.dtypes >> bit & 1)
    return KernelInfo(row.name.decode(), row.summary.decode(), row.formula.decode(), dtypes, options,
                      row.block, row.guarantees.decode())


def _dtype_bits() -> List[Tuple[str, int]]:
    return [(name, value) for value, name in NAMES["ptx_type"].items()]


def _find(name: str) -> int:
    row = c.ptx_kernel_find(name.encode())
    if not row:
        raise NotFoundError(f"no kernel is called {name!r}; there are {', '.join(kernels())}")
    return int(row)


def kernels() -> Dict[str, KernelInfo]:
    """The library's kernels by name."""
    found: Dict[str, KernelInfo] = {}
    while True:
        row = c.ptx_kernel_at(len(found))
        if not row:
            return found
        info = _row_info(_c.ptx_kernel.from_address(row))
        found[info.name] = info


def _spec(row: int, name: str, dtype: object, options: Dict[str, str], entry: Optional[str]) -> Any:
    spec = _c.ptx_kernel_spec(dtype=choice("ptx_type", dtype, "dtype"))
    if entry is not None:
        spec.entry = entry.encode()
    for option, value in options.items():
        if not c.ptx_kernel_spec_set(byref(spec), row, option.encode(), str(value).encode()):
            known = _row_info(_c.ptx_kernel.from_address(row)).options
            raise InvalidError(f"{name} has no option {option}={value}; it has "
                               f"{', '.join(f'{k}={chr(124).join(v)}' for k, v in known.items())}")
    return spec


def emit(name: str, dtype: _types.DType, *, target: Optional[str] = None,
         entry: Optional[str] = None, **options: str) -> str:
    """The text of one of the library's kernels, without a GPU: emit("squared_sum", "f32"). The
    target is sm_80 unless one is named; the entry is <name>_<dtype>."""
    row = _find(name)
    spec = _spec(row, name, dtype, options, entry)
    return finish_text(lambda builder: c.ptx_kernel_emit(builder, row, byref(spec)), target)


def _number(text: str) -> Union[int, float]:
    return int(text) if text.lstrip("-").isdigit() else float(text)


class Kernel:
    """One of the library's kernels, compiled for a type and options; docs/kernels.md has formulas
    and parameters. Called with its arguments by name; a scalar with a usual value may be left out.
    Arrays must have the type and at least the length of their parameter. The launch geometry follows
    from `n`:

        sums = gpu.kernel("squared_sum", "f32")
        partials = gpu.empty(sums.blocks(n), "f64")
        sums(x=x, n=n, partials=partials, stream=stream)
    """

    def __init__(self, device: Device, name: str, dtype: _types.DType, **options: str) -> None:
        self._row = _find(name)
        self._spec = _spec(self._row, name, dtype, options, None)
        self.name, self.dtype = name, type_name(dtype)
        self.parameters: Dict[str, _types.ParamInfo] = {}

        def write(builder: int) -> None:
            c.ptx_kernel_emit(builder, self._row, byref(self._spec))
            param = _c.ptx_param_info()
            while c.ptx_builder_param(builder, 0, len(self.parameters), byref(param)):
                self.parameters[param.name.decode()] = plain(param)

        self.text = finish_text(write, device.target)
        size = _c.PTX_ENTRY_NAME_SIZE
        entry = c.ptx_kernel_entry_name(self._row, byref(self._spec), ctypes.create_string_buffer(size))
        self.function = Module(device, self.text)[entry.decode()]

    def __repr__(self) -> str:
        return f"<ptxgen.Kernel {self.function.info.name}({', '.join(self.parameters)})>"

    @property
    def info(self) -> KernelInfo:
        return _row_info(_c.ptx_kernel.from_address(self._row))

    def blocks(self, n: int) -> int:
        """The number of blocks that n elements take: 0 if there is nothing to launch."""
        geometry = _c.ptx_geometry()
        count = integer(n, ctypes.c_uint64, "n")
        if not c.ptx_kernel_geometry(self._row, self._spec.dtype, count, byref(geometry)):
            raise InvalidError(f"{self.name}: {n} elements are too many for a grid")
        return int(geometry.grid)

    def chunk(self, n: int) -> int:
        """Elements of a block for n in all; 0 for kernels that are not launched by chunks."""
        row, count = _c.ptx_kernel.from_address(self._row), integer(n, ctypes.c_uint64, "n")
        return int(row.short_chunk if row.short_chunk and count <= row.short_most else row.chunk)

    def length(self, parameter: str, n: int, *, channels: int = 0, inner: int = 0) -> int:
        """The elements of an array for these sizes: length("partials", n)."""
        if parameter not in self.parameters or not self.parameters[parameter].length:
            raise InvalidError(f"{self.name} has no array {parameter!r}; it has "
                               f"{', '.join(k for k, p in self.parameters.items() if p.length)}")
        named = self.parameters[parameter].length or ""
        sizes = _c.ptx_kernel_sizes(n=integer(n, ctypes.c_uint64, "n"),
                                    channels=integer(channels, ctypes.c_uint64, "channels"),
                                    inner=integer(inner, ctypes.c_uint64, "inner"))
        count = ctypes.c_uint64(sizes.n)  # a name that is no size is that of the count, n
        known = c.ptx_kernel_length(self._row, byref(self._spec), byref(sizes), named.encode(),
                                    byref(count))
        if not known and named not in self.parameters:
            raise InvalidError(f"{self.name}: {parameter} has no length for n={n}, "
                               f"channels={channels}, inner={inner}")
        return count.value

    def _covered(self, arguments: Dict[str, Any]) -> int:
        """The count that the launch covers: the first that gives the length of an array."""
        for param in self.parameters.values():
            count = self.parameters.get(param.length or "")
            if count is not None and not count.is_pointer:
                return integer(arguments[count.name], ctypes.c_uint64, count.name)
        return 1

    def _check_array(self, param: _types.ParamInfo, arguments: Dict[str, Any], n: int) -> None:
        """What is known of an array: of an address, nothing."""
        array = address_of(arguments[param.name], param.name)
        if array.dtype is not None and array.dtype != NAMES["ptx_type"][param.type]:
            raise InvalidError(f"{self.name}: {param.name} has elements of type {array.dtype}, not "
                               f"{NAMES['ptx_type'][param.type]}")
        named = arguments.get(param.length)
        if named is None and param.length:
            sizes = {size: int(arguments[size]) for size in ("channels", "inner")
                     if size in arguments}
            named = self.length(param.name, n, **sizes)
        if array.count is not None and array.count < int(named or 0):
            raise InvalidError(f"{self.name}: {param.name} has {array.count} elements, not {named}")

    def __call__(self, *, stream: StreamLike = None, **arguments: Any) -> None:
        self.bind(**arguments)(stream)

    def bind(self, **arguments: Any) -> Launch:
        """The launch with these arguments, to be put on a stream any number of times."""
        for name, param in self.parameters.items():
            if name not in arguments and param.preset is not None:
                arguments[name] = _number(param.preset)
            if name not in arguments:
                raise InvalidError(f"{self.name}: no value for {name}")
        n = self._covered(arguments)
        for param in self.parameters.values():
            if param.is_pointer:
                self._check_array(param, arguments, n)
        return self.function.bind(grid=self.blocks(n), **arguments)

# SPDX-License-Identifier: MIT
"""Numbers on the host as the bytes of a type in device memory, and back."""

from __future__ import annotations

import array as host_arrays
import ctypes
import importlib
import math
import mmap
import struct as packing
from collections import abc
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _types
from ._library import c, choice, integer, type_name
from .errors import InvalidError

# The extents of an array, outermost first; an integer is that of one dimension.
Shape = Union[int, Sequence[int]]

# The formats of array and struct by type. bf16 has none: it travels as the upper half of an f32.
FORMATS: Dict[str, str] = {"u8": "B", "s8": "b", "b8": "B", "u16": "H", "s16": "h", "b16": "H",
                           "u32": "I", "s32": "i", "b32": "I", "u64": "Q", "s64": "q", "b64": "Q",
                           "f16": "e", "f32": "f", "f64": "d"}
_DTYPES: Dict[str, _types.TypeName] = {
    "B": "u8", "b": "s8", "c": "u8", "H": "u16", "h": "s16", "I": "u32", "i": "s32", "L": "u64",
    "l": "s64", "Q": "u64", "q": "s64", "e": "f16", "f": "f32", "d": "f64"}


def type_bytes(dtype: object) -> int:
    """Bytes of an element."""
    size = int(c.ptx_type_bytes(choice("ptx_type", dtype, "dtype")))
    if size == 0:
        raise InvalidError(f"dtype: {dtype!r} cannot be in memory")
    return size


def extents_of(shape: Shape, what: str = "count") -> Tuple[int, ...]:
    """The extents that a caller names."""
    if hasattr(shape, "__index__") or isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
        return (integer(shape, ctypes.c_size_t, what),)
    return tuple(integer(extent, ctypes.c_size_t, what) for extent in shape)


# ---- numbers


def bf16_bits(x: float) -> int:
    """The bf16 nearest to x, ties to even. OverflowError if a finite x would become infinite."""
    if math.isfinite(x) and x != 0:
        step = math.ldexp(1.0, max(math.frexp(x)[1] - 1, -126) - 7)
        x = math.copysign(round(x / step) * step, x)
        if abs(x) >= 2.0 ** 128:
            raise OverflowError("it would become infinite")
    return int(packing.unpack("<I", packing.pack("<f", x))[0]) >> 16


def _pack(values: Sequence[Any], dtype: str) -> bytes:
    if dtype == "bf16":
        return packing.pack(f"<{len(values)}H", *map(bf16_bits, values))
    return packing.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def packed(values: Sequence[Any], dtype: str, shape: Tuple[int, ...]) -> bytes:
    """Numbers, in order, as the bytes of a type. The shape tells where they are, for an error."""
    type_bytes(dtype)
    if dtype not in FORMATS and dtype != "bf16":
        raise InvalidError(f"dtype: {dtype} has no numbers on the host; upload bytes")
    try:
        return _pack(values, dtype)
    except (packing.error, TypeError, ValueError, OverflowError):
        for k, one in enumerate(values):
            try:
                _pack([one], dtype)
            except (packing.error, TypeError, ValueError, OverflowError):
                raise InvalidError(f"values do not fit {dtype}: values{_index(k, shape)} is {one!r:.80}: "
                                   f"{_why(one, dtype)}") from None
        raise


def _why(one: Any, dtype: str) -> str:
    """Why a value does not fit."""
    if isinstance(one, complex) or not (hasattr(one, "__index__") or hasattr(one, "__float__")):
        return "it is no real number"
    if dtype in ("bf16", "f16", "f32", "f64"):
        return "it would become infinite"
    if not hasattr(one, "__index__"):
        return "an integer is needed"
    bits = 8 * type_bytes(dtype)
    least, most = (-1 << bits - 1, (1 << bits - 1) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)
    return f"it is not from {least} to {most}"


def _index(k: int, shape: Tuple[int, ...]) -> str:
    """Where element k is: "[1][2]"."""
    index = ""
    for extent in reversed(shape):
        k, at = divmod(k, extent)
        index = f"[{at}]{index}"
    return index


def unpacked(data: bytes, dtype: str, shape: Tuple[int, ...]) -> Any:
    """Numbers in lists of the shape."""
    if dtype not in FORMATS and dtype != "bf16":
        raise InvalidError(f"dtype: {dtype} has no numbers on the host; download bytes")
    flat: List[Any]
    if dtype == "bf16":
        flat = [packing.unpack("<f", packing.pack("<I", b << 16))[0] for b in host_arrays.array("H", data)]
    else:
        flat = list(packing.unpack(f"<{len(data) // type_bytes(dtype)}{FORMATS[dtype]}", data))
    for d in range(len(shape) - 1, 0, -1):
        extent, rows = shape[d], math.prod(shape[:d])
        flat = [flat[k * extent:(k + 1) * extent] for k in range(rows)]
    return flat if shape else flat[0]


def as_numpy(data: bytes, dtype: str, shape: Tuple[int, ...]) -> Any:
    """A numpy array of its own. numpy has no bf16: it becomes float32, exactly."""
    numpy = importlib.import_module("numpy")
    if dtype == "bf16":
        bits = numpy.frombuffer(data, "<u2").astype("<u4")
        return (bits << 16).view("<f4").reshape(shape)
    if dtype not in FORMATS:
        raise InvalidError(f"dtype: {dtype} has no numbers on the host; download bytes")
    code = {"f": "f", "s": "i"}.get(dtype[0], "u")
    return numpy.frombuffer(data, f"<{code}{type_bytes(dtype)}").reshape(shape).copy()


# ---- what callers have


_NO_ROWS = (str, bytes, abc.Mapping, abc.Set)  # no numbers, or in no order


def _flat(values: Any, what: str) -> Tuple[List[Any], Tuple[int, ...]]:
    """The numbers in nested sequences, and their shape."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, _NO_ROWS) or not hasattr(values, "__iter__"):
        return [values], ()
    rows = list(values)
    if not any(hasattr(one, "tolist") or isinstance(one, (list, tuple, range)) for one in rows):
        return rows, (len(rows),)
    parts = [_flat(one, f"{what}[{k}]") for k, one in enumerate(rows)]
    for k, (_, shape) in enumerate(parts):
        if shape != parts[0][1]:
            raise InvalidError(f"{what}[{k}]: its shape is {shape}, and that of {what}[0] is {parts[0][1]}")
    return [one for numbers, _ in parts for one in numbers], (len(parts), *parts[0][1])


def _buffer(values: Any) -> Optional[memoryview]:
    try:
        return memoryview(values)
    except (TypeError, ValueError, BufferError):  # numpy says ValueError of types that it does not have
        return None


_BYTES = (bytes, bytearray, mmap.mmap)


def host_bytes(values: Any, dtype: Optional[object]) -> Tuple[bytes, _types.TypeName, Tuple[int, ...]]:
    """Host values as bytes, their type and their shape. Numbers are converted, those of a buffer as those
    of a list; only bytes are taken as they are, for any type."""
    view = _buffer(values)
    if view is None:
        if dtype is None and hasattr(values, "tolist"):
            dtype = getattr(values, "dtype", None)
        name = type_name("f32" if dtype is None else dtype)
        numbers, shape = _flat(values, "values")
        if not shape and not hasattr(values, "tolist"):
            raise InvalidError(f"values: numbers are needed, not {values!r:.80}")
        return packed(numbers, name, shape), name, shape
    if not view.c_contiguous:
        raise InvalidError("values: the array is not contiguous")
    if view.format[:1] in (">", "!"):
        raise InvalidError(f"values: the buffer format {view.format!r} is big-endian; swap the bytes")
    code = view.format.lstrip("@=<")
    found = _DTYPES.get(code)
    if dtype is None:
        if found is None:
            raise InvalidError(f"values: no type for the buffer format {view.format!r}; name a dtype")
        dtype = found
    name, shape = type_name(dtype), tuple(view.shape or ())
    size, data = type_bytes(name), view.tobytes()
    if code == "c" or isinstance(values, _BYTES) or isinstance(values, memoryview) and code == "B":
        if len(data) % size:
            raise InvalidError(f"values: {len(data)} bytes are no whole number of {name}")
        return data, name, shape if size == 1 else (len(data) // size,)
    if found == name:
        return data, name, shape
    if code == "?":
        found = "u8"
    if found is None or view.itemsize != type_bytes(found):
        raise InvalidError(f"values: elements of the buffer format {view.format!r} are no numbers for {name}")
    return packed(unpacked(data, found, (math.prod(shape),)), name, shape), name, shape

# SPDX-License-Identifier: MIT
"""libptxgen itself: where it is, its calls, its errors, and what its structs hold."""

from __future__ import annotations

import ctypes
import math
import os
import pathlib
from collections.abc import Mapping
from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Type, TypeVar

from . import _c, _types
from .arrays import address_of, stream_of
from .errors import BY_STATUS, ClosedError, Error, InvalidError, NoDriverError

_HERE = pathlib.Path(__file__).resolve().parent


def _places() -> Iterator[pathlib.Path]:
    """Folders that may have the library: the wheel's, the build folder's, the installation's."""
    yield _HERE.parent / ".ptxgen.mesonpy.libs"
    yield _HERE.parents[1]
    yield pathlib.Path(os.path.normpath(_HERE / _c.LIBDIR))


def library_path() -> str:
    """The file of libptxgen: $PTXGEN_LIBRARY, or the one that was built or installed with this
    package."""
    named = os.environ.get("PTXGEN_LIBRARY")
    if named:
        return named
    for folder in _places():
        for name in sorted(folder.glob("libptxgen.so*")):
            if name.is_file():
                return str(name)
    raise ImportError(f"there is no libptxgen.so in {', '.join(map(str, _places()))}; "
                      "PTXGEN_LIBRARY can name its file")


def emulator_path() -> str:
    """The file of the emulator, a libcuda.so.1."""
    for folder in _places():
        for within in ("ptxgen", "emulator"):
            name = folder / within / "libcuda.so.1"
            if name.is_file():
                return str(name)
    raise InvalidError("there is no libcuda.so.1 of the emulator in ptxgen or emulator of "
                       f"{', '.join(map(str, _places()))}")


def _load() -> ctypes.CDLL:
    path = library_path()
    try:
        library = ctypes.CDLL(path)
        for name, (result, parameters) in _c.FUNCTIONS.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = parameters
    except (OSError, AttributeError) as error:
        raise ImportError(f"{path} is not the libptxgen of this package: {error}") from None
    return library


c = _load()
VERSION: str = c.ptxgen_version().decode()

# ---- errors

_STATUS = {getattr(_c, name): name for name in _c.ENUMS["ptx_status"]}


def failure() -> Error:
    """The exception for this thread's last failing call."""
    status, message = _STATUS.get(c.ptx_error_status(), ""), c.ptx_error_message().decode(errors="replace")
    if status == NoDriverError.status:
        message += "\nwithout a GPU: python -m ptxgen emulate -- COMMAND runs a program on the CPU"
    return BY_STATUS.get(status, Error)(message, code=c.ptx_error_code())


def check(status: int) -> None:
    if status != 0:
        raise failure()


def checked(pointer: Optional[int]) -> int:
    if not pointer:
        raise failure()
    return pointer


# ---- what C made


class Handle:
    """What C made, and what frees it. It is freed with the last reference: that of its object, which
    close() drops, of a call under way, of a graph that launches it, of an object made from it.

    `keeps` are freed after it. References alone do not order that: garbage collection finalizes a
    cycle's objects in any order. So a handle that goes while others still need it is freed by the
    last of them. Lists count and claim, because their methods are atomic."""

    __slots__ = ("value", "keeps", "_free", "_users", "_gone", "_claim", "__weakref__")

    def __init__(self, value: int, free: Callable[[Any], None], *keeps: object) -> None:
        self.value = value
        self._free = free
        self._users: List[None] = []
        self._gone = False
        self._claim: List[None] = [None]
        self.keeps = keeps
        for kept in keeps:
            if isinstance(kept, Handle):
                kept._users.append(None)

    def __del__(self) -> None:
        self._gone = True
        if not self._users:
            self._release()

    # The names are bound here, because a module's may be gone at the interpreter's end.
    def _release(self, byref: Any = byref, c_void_p: Any = c_void_p) -> None:
        try:
            self._claim.pop()
        except IndexError:
            return
        self._free(byref(c_void_p(self.value)))
        for kept in self.keeps:
            if isinstance(kept, self.__class__):
                kept._users.pop()
                if kept._gone and not kept._users:
                    kept._release()


# What structs point to, by the name of the field: "tensors[3].gradient".
Keeps = Dict[str, object]

_Self = TypeVar("_Self", bound="Object")

# What captures under way must keep alive, by the list's identity: each call that may be captured adds
# what it uses to each. A dict, because other threads begin and end captures at the same time.
captures: Dict[int, List[object]] = {}


def keep(*used: object) -> None:
    if captures:
        for kept in list(captures.values()):
            kept.extend(used)


class Object:
    """Something that can be closed: close(), the end of `with`, or garbage collection frees it. What
    others still need of it lives until they are gone."""

    _handle: Optional[Handle]

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @property
    def handle(self) -> Handle:
        """What C made. Raises ClosedError after close()."""
        handle = self._handle
        if handle is None:
            raise ClosedError(f"the {type(self).__name__} is closed")
        return handle

    @property
    def closed(self) -> bool:
        return self._handle is None

    def close(self) -> None:
        """Frees the object. Does nothing the second time."""
        self._handle = None

    def __enter__(self: _Self) -> _Self:
        self.handle  # noqa: B018: raises if closed
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


# ---- structs

def _choices(enum: str) -> Dict[str, int]:
    names = getattr(_types, _types_name(enum) + "Name").__args__
    return {name: getattr(_c, constant) for name, constant in zip(names, _c.ENUMS[enum])}


def _types_name(tag: str) -> str:
    return "".join(word.capitalize() for word in tag[len("ptx_"):].split("_"))


CHOICES: Dict[str, Dict[str, int]] = {enum: _choices(enum) for enum in _c.ENUMS}
NAMES = {enum: {value: name for name, value in names.items()} for enum, names in CHOICES.items()}


# The types by the names that numpy and torch have for them.
_OTHERS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
           **{f"int{bits}": f"s{bits}" for bits in (8, 16, 32, 64)},
           **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)}}


def type_name(dtype: Any) -> Any:
    """The library's name of a type: "f32" for "float32", numpy.float32, its dtype and torch.float32. What
    has none is returned as it is, for choice() to refuse."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", getattr(dtype, "__name__", str(dtype)))
    return _OTHERS.get(name[len("torch."):] if str(name).startswith("torch.") else name, dtype)


def choice(enum: str, name: object, what: str) -> int:
    """The enumerator that a caller names."""
    if enum == "ptx_type":
        name = type_name(name)
    if isinstance(name, str) and name in CHOICES[enum]:
        return CHOICES[enum][name]
    raise InvalidError(f"{what}: {name!r} is none of {', '.join(CHOICES[enum])}")


def integer(value: Any, c_type: Any, what: str) -> int:
    """The integer, which must fit: ctypes alone would cut it."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidError(f"{what}: an integer is needed, not {value!r}")
    number = int(value.__index__())
    if c_type(number).value != number:
        raise InvalidError(f"{what}: {number} is out of range")
    return number


def real(value: Any, c_type: Any, what: str) -> float:
    """The number, which must not become infinite in the type."""
    try:
        if isinstance(value, (str, bytes)):  # float() would read it
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidError(f"{what}: a number is needed, not {value!r}") from None
    if math.isinf(c_type(number).value) and not math.isinf(number):
        raise InvalidError(f"{what}: {number!r} is out of range")
    return number


def _value(kind: str, c_type: Any, value: Any, what: str, keeps: Keeps) -> Any:
    """What a struct's field gets for a caller's value. `keeps` collects what must live as long."""
    if kind == "address":
        if value is None:
            keeps[what] = None
            return 0
        array = address_of(value, what)
        keeps[what] = array.keep
        return array.address
    if kind == "stream":
        return stream_of(value)
    if kind == "bool":
        if value is not True and value is not False:
            raise InvalidError(f"{what}: True or False is needed, not {value!r}")
        return value
    if kind == "float":
        return real(value, c_type, what)
    if kind in _c.ENUMS:
        return choice(kind, value, what)
    if kind in _c.STRUCTS:
        return struct(_c.STRUCTS[kind], value, what, keeps)
    if kind.startswith("*"):
        return _pointed_to(kind[1:], value, what, keeps)
    return integer(value, c_type, what)


def _pointed_to(kind: str, value: Any, what: str, keeps: Keeps) -> Any:
    """The address of a struct, or of a sequence of them, or of floats."""
    if value is None:
        return None
    if kind == "float":
        array: Any = (ctypes.c_float * len(value))(*[real(x, ctypes.c_float, f"{what}[{k}]")
                                                      for k, x in enumerate(value)])
    elif isinstance(value, ctypes.Array):
        array = value
    elif isinstance(value, Mapping):
        array = struct(_c.STRUCTS[kind], value, what, keeps)
    else:
        array = structs(_c.STRUCTS[kind], value, what, keeps)
    keeps[what] = array
    return ctypes.addressof(array)


def struct(cls: Type[Any], values: Any, what: str, keeps: Keeps) -> Any:
    """A struct from a mapping of its fields, or a sequence of them in order."""
    if isinstance(values, cls):
        return values
    made = cls()
    sizes = dict(cls._fields_)
    if not isinstance(values, Mapping):
        try:
            values = dict(zip(sizes, values))
        except TypeError:
            raise InvalidError(f"{what}: its fields are needed, not {values!r}") from None
    for field, value in values.items():
        kind = cls.kinds.get(field)
        where = f"{what}.{field}" if what else field
        if kind == "opaque" and isinstance(value, Object):
            keeps[where] = value.handle
            setattr(made, field, value.handle.value)
            continue
        if kind is None or kind == "opaque":
            known = ", ".join(name for name, k in cls.kinds.items() if k != "opaque")
            raise InvalidError(f"{what + ': ' if what else ''}there is no {field!r}; there are {known}")
        c_type = sizes[field]
        if issubclass(c_type, ctypes.Array):
            element, room = c_type._type_, c_type._length_
            if (isinstance(value, (str, bytes)) or not hasattr(value, "__len__")
                    or not hasattr(value, "__iter__") or len(value) > room):
                raise InvalidError(f"{where}: at most {room} values are needed, not {value!r}")
            for k, one in enumerate(value):
                getattr(made, field)[k] = _value(kind, element, one, f"{where}[{k}]", keeps)
            continue
        if kind == "float":
            setattr(made, field, real(value, c_type, where))
            continue
        several = kind.startswith("*") and field + "_count" not in sizes and field[:-1] + "_count" in sizes
        if several and isinstance(value, Mapping):
            raise InvalidError(f"{where}: a list of them is needed, not {value!r:.80}")
        setattr(made, field, _value(kind, c_type, value, where, keeps))
        if several:
            setattr(made, field[:-1] + "_count", 0 if value is None else len(value))
    triples = values.get("triples") if cls is _c.ptx_muon_params else None
    if triples is not None and len(triples) != 3 * made.steps:  # which C cannot see
        raise InvalidError(f"{what}.triples: {len(triples)} numbers, and steps is {made.steps}: three a step are needed")
    return made


def structs(cls: Type[Any], values: Sequence[Any], what: str, keeps: Keeps) -> Any:
    """An array of structs."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise InvalidError(f"{what}: a sequence is needed, not {values!r}")
    array = (cls * len(values))()
    for k, one in enumerate(values):
        array[k] = struct(cls, one, f"{what}[{k}]", keeps)
    return array


def _plain(kind: str, value: Any) -> Any:
    """A field's value for Python."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if kind in _c.STRUCTS:
        return plain(value)
    if kind in _c.ENUMS:
        return NAMES[kind][value]
    if isinstance(value, ctypes.Array):
        return tuple(_plain(kind, one) for one in value)
    return value


def plain(made: Any) -> Any:
    """The named tuple of a struct that came back."""
    cls = type(made)
    named = getattr(_types, _types_name(cls.__name__))
    return named(**{field: _plain(cls.kinds[field], getattr(made, field)) for field in named._fields})


def pointed_at(cls: Type[Any], pointer: Optional[int]) -> Any:
    """The struct at an address that C returned."""
    return cls.from_address(checked(pointer))


# ---- texts


def finish_text(write: Callable[[int], None], target: Optional[str], isa: int = 0) -> str:
    """The text that `write` puts into a builder for the target."""
    params = _c.ptx_builder_params(isa=isa)
    if target is not None and not c.ptx_target_parse(target.encode(), byref(params.target)):
        raise InvalidError(f"target: {target!r} is none that the library knows, such as sm_90a")
    builder = c_void_p(c.ptx_builder_create(byref(params)))
    try:
        write(builder.value or 0)
        text = c.ptx_builder_finish(builder)
        if text is None:
            error = c.ptx_builder_error(builder)
            raise InvalidError(error.decode() if error else "no memory for the text")
        return str(text.decode())
    finally:
        c.ptx_builder_destroy(byref(builder))

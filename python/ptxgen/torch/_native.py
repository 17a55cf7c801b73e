# SPDX-License-Identifier: MIT
"""Where torch's tensors are, in one call for all of them: <ptxgen/torch.h>, with the functions of the
torch that this process has. A torch that has them not, or for which they do not say what its tensors
say, is asked tensor by tensor."""

from __future__ import annotations

import ctypes
import os
import sys
from array import array
from typing import Any, Dict, Iterable, List, Optional, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from .. import _c
from .._library import library_path
from ._ranks import DTensor, local

_FUNCTIONS = {
    "grad": "_ZNK3c1010TensorImpl4gradEv",
    "bump_version": "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE",
    "version": "_ZNK2at10TensorBase8_versionEv",
    **{name: "aoti_torch_" + name for name in (
        "get_data_ptr", "get_numel", "get_dtype", "get_layout", "get_device_type", "get_device_index",
        "get_dim", "get_sizes", "get_strides", "is_defined")},
}
_TYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
_PLACE: Any = {"dtype": torch.float32, "device": "cpu"}  # whatever the defaults are
_word = ctypes.c_uint64.from_address
_HEAD = tuple.__basicsize__  # of a tuple, before the addresses of what is in it
_TYPE = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)  # where an object has its class
_IMPL = 128  # bytes of a TensorImpl, at least

SAME, MOVED = _c.PTX_TORCH_FOUND_SAME, _c.PTX_TORCH_FOUND_MOVED
CHANGED, UNUSUAL = _c.PTX_TORCH_FOUND_CHANGED, _c.PTX_TORCH_FOUND_UNUSUAL


class _Torch:
    """torch's functions, its codes of types, and where its objects have their TensorImpl."""

    look: Any
    bump_versions: Any
    bump_gradient_versions: Any
    versions: Any

    def __init__(self) -> None:
        # With the interpreter's lock held: nothing changes the tensors meanwhile.
        ours = ctypes.PyDLL(library_path())
        for name in ("ptx_torch_look", "ptx_torch_bump_versions", "ptx_torch_bump_gradient_versions",
                     "ptx_torch_versions"):
            function = getattr(ours, name)
            function.restype, function.argtypes = _c.FUNCTIONS[name]
            setattr(self, name[len("ptx_torch_"):], function)
        theirs = ctypes.CDLL(torch._C.__file__, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        self.functions = _c.ptx_torch_functions(**{
            field: ctypes.cast(getattr(theirs, symbol), ctypes.c_void_p).value
            for field, symbol in _FUNCTIONS.items()})
        self.codes: Dict[torch.dtype, int] = {
            dtype: getattr(theirs, "aoti_torch_dtype_" + name)() for dtype, name in _TYPES.items()}
        some = [Parameter(torch.zeros(1, **_PLACE)), torch.zeros(2, **_PLACE)]
        impls = [one._cdata for one in some]
        self.offset = _place(list(map(id, some)), impls, Tensor.__basicsize__)
        self.object = _place(impls, list(map(id, some)), _IMPL)

    def at(self, tensor: Tensor) -> int:
        """The at::Tensor within the object."""
        return id(tensor) + self.offset

    def fits(self, tensor: Tensor) -> bool:
        """Whether the object has it there, and may be written without torch's knowledge of it."""
        return _word(self.at(tensor)).value == tensor._cdata and not tensor.is_inference()

    def layout(self, dtensors: Sequence[Any]) -> Any:
        """Where these have what a look reads."""
        ids, size = list(map(id, dtensors)), DTensor.__basicsize__
        return _c.ptx_torch_layout(
            type=_TYPE, tensor=self.offset, object=self.object, dtensor=id(DTensor), plain=id(Tensor),
            part=_place(ids, [id(p._local_tensor) for p in dtensors], size),
            spec=_place(ids, [id(p._spec) for p in dtensors], size))


def _place(things: Sequence[int], words: Sequence[int], size: int) -> int:
    """Where in the `size` bytes of each of these things its word is, but for the lowest bit: some
    versions of torch mark addresses there. StopIteration if it is nowhere."""
    return next(at for at in range(0, size - 7, 8)
                if all(_word(thing + at).value & ~1 == word for thing, word in zip(things, words)))


class Watch:
    """A look at parameters and their gradients, of these types; specs: of gradients that are DTensors,
    as those of their parameters. `instead`: addresses for gradients without elements. `contiguous`:
    gradients must be. The caller keeps the parameters as long as it uses the watch."""

    def __init__(self, functions: _Torch, parameters: Sequence[Tensor], dtypes: Sequence[torch.dtype],
                 instead: Sequence[int], specs: Sequence[Any], contiguous: bool) -> None:
        self._functions, self._specs = functions, list(specs)
        self._rows = (_c.ptx_torch_tensor * len(parameters))()
        for row, p, dtype, address, spec in zip(self._rows, parameters, dtypes, instead, specs):
            here = local(p)
            row.tensor, row.impl = functions.at(here), here._cdata
            row.data, row.numel, row.instead = here.data_ptr(), here.numel(), address
            row.gradient_dtype, row.contiguous = functions.codes[dtype], contiguous
            if here is not p:
                row.whole, row.whole_impl, row.part, row.spec = id(p), p._cdata, id(here), id(spec)
        dtensors = [p for p in parameters if isinstance(p, DTensor)]
        self._layout = functions.layout(dtensors) if dtensors else None
        self._first, self._moved = ctypes.c_size_t(), ctypes.c_size_t()
        self._given = (ctypes.addressof(functions.functions), ctypes.addressof(self._rows),
                       len(parameters))
        self._looked_at = (self._given[0],
                           None if self._layout is None else ctypes.addressof(self._layout),
                           *self._given[1:])
        self._found_at = ctypes.addressof(self._first), ctypes.addressof(self._moved)

    def look(self, known: Any, now: Any) -> int:
        """What ptx_torch_look() says. After MOVED, range() is where `now` differs from `known`."""
        return self._functions.look(*self._looked_at, known, now, *self._found_at)  # type: ignore[no-any-return]

    def range(self) -> Any:
        return self._first.value, self._moved.value

    def expect(self, gradients: Sequence[Any]) -> None:
        """The gradients were found to be as they should, one by one: of specs that are equal to those
        before, the objects are remembered, and the next look is fast."""
        for k, gradient in enumerate(gradients):
            spec = getattr(gradient, "_spec", None)
            if spec is not None and spec is not self._specs[k] and spec == self._specs[k]:
                self._specs[k], self._rows[k].spec = spec, id(spec)

    def bump_gradient_versions(self) -> None:
        """The parameters' own gradients were written, after a look that found them."""
        self._functions.bump_gradient_versions(*self._given)


class Written:
    """Parameters that each step writes. They must stay as long as this."""

    def __init__(self, functions: _Torch, parameters: Sequence[Tensor]) -> None:
        self._bump_versions, self._parameters = functions.bump_versions, parameters
        self._table = array("Q", map(functions.at, parameters))
        self._given = (ctypes.addressof(functions.functions), self._table.buffer_info()[0],
                       len(parameters))

    def bump_versions(self) -> None:
        """They were written."""
        self._bump_versions(*self._given)


class Versions:
    """Whether tensors were written by others than the one who has this, as torch counts it: not through
    `.data`. `own`: how many of them, the first ones, the owner's Written counts up. They must stay as
    long as this."""

    def __init__(self, tensors: Sequence[Tensor], own: int) -> None:
        self.tensors, self._own = tensors, own
        functions = _functions()
        self._sum_up: Any = None
        if functions is not None and all(map(functions.fits, tensors)):
            self._table = array("Q", map(functions.at, tensors))
            self._sum_up = functions.versions
            self._given = (ctypes.addressof(functions.functions), self._table.buffer_info()[0],
                           len(tensors))
        self.know()

    def know(self) -> None:
        """What was written up to now is known."""
        self._each = list(map(_version, self.tensors))
        self._sum, self._turns = sum(self._each), 0

    def know_own(self) -> None:
        """The owner wrote its tensors, and counted them up."""
        self._sum += self._own
        self._turns += 1

    def same(self) -> bool:
        """Whether nothing was written that is not known."""
        if self._sum_up is None:
            return sum(map(_version, self.tensors)) == self._sum
        return self._sum_up(*self._given) == self._sum  # type: ignore[no-any-return]

    def written(self) -> List[int]:
        """Which tensors were written; the next know() ends it."""
        return [k for k, (tensor, before) in enumerate(zip(self.tensors, self._each))
                if _version(tensor) != before + (self._turns if k < self._own else 0)]


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


class _Marked(Tensor):
    """Like DTensor, a class of tensors that is known to Python alone."""


def _tells_the_truth(functions: _Torch) -> bool:
    """Whether torch's functions say what its tensors say."""
    plain, other, empty = (Parameter(torch.zeros(n, 3, **_PLACE)) for n in (2, 4, 0))
    params, expected = [plain, other, empty], [0, 0, 0]
    watch = Watch(functions, params, [torch.float32] * 3, [0, 0, 8], [None] * 3, False)
    known, now = (ctypes.c_uint64 * 3)(), (ctypes.c_uint64 * 3)()

    def found(what: int) -> bool:
        return watch.look(known, now) == what

    sound = all(map(functions.fits, params)) and found(SAME)
    other.grad, empty.grad = torch.ones_like(other), torch.ones_like(empty)
    expected[1:] = other.grad.data_ptr(), 8
    sound = sound and found(MOVED) and watch.range() == (1, 2) and list(now) == expected
    before = [p._version for p in params]
    Written(functions, params).bump_versions()
    sound = sound and [p._version - v for p, v in zip(params, before)] == [1, 1, 1]
    table = array("Q", map(functions.at, params))
    sound = sound and functions.versions(ctypes.addressof(functions.functions), table.buffer_info()[0],
                                         3) == sum(before) + 3
    before = [p.grad._version for p in (other, empty)]  # type: ignore[union-attr]
    watch.bump_gradient_versions()
    sound = sound and [p.grad._version - v  # type: ignore[union-attr]
                       for p, v in zip((other, empty), before)] == [1, 1]
    for unusual in (torch.ones(3, 4, **_PLACE).t(), torch.ones(4, 3, **_PLACE).to_sparse()):
        other.grad = unusual
        sound = sound and found(UNUSUAL)
    for dtype in _TYPES:
        half = Parameter(torch.zeros(2, dtype=dtype, device="cpu"))
        half.grad = torch.zeros_like(half)
        one = Watch(functions, [half], [dtype], [0], [None], True)
        sound = sound and one.look(known, now) == MOVED and now[0] == half.grad.data_ptr()
    # The object of a gradient that Python let go of.
    mark = other.grad = torch.ones(4, 3, **_PLACE).as_subclass(_Marked)
    impl, at = mark._cdata, id(mark)
    del mark
    sound = sound and _word(impl + functions.object).value & ~1 == at
    sound = sound and _word(at + _TYPE).value == id(_Marked)
    other.grad = None
    plain.data = torch.zeros(2, 3, **_PLACE)
    return sound and found(CHANGED)


def _is_known_python() -> bool:
    """Whether objects are where CPython has them, and one thread at a time changes them."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    some = (object(), object())
    return (_word(id(some[0]) + _TYPE).value == id(object)
            and [_word(id(some) + _HEAD + 8 * k).value for k in range(2)] == list(map(id, some)))


if _is_known_python():
    def identities(objects: Iterable[Any]) -> Any:
        """Which objects these are: equal for the same ones in the same order, as long as they live."""
        some = tuple(objects)
        return ctypes.string_at(id(some) + _HEAD, 8 * len(some))
else:
    def identities(objects: Iterable[Any]) -> Any:
        return list(map(id, objects))


def _usable() -> Optional[_Torch]:
    if os.environ.get("PTXGEN_TORCH_NATIVE") == "0" or not _is_known_python():
        return None
    try:
        functions = _Torch()
        with torch.inference_mode(False):
            return functions if _tells_the_truth(functions) else None
    except (AttributeError, OSError, RuntimeError, StopIteration, TypeError):
        return None


_found: List[Optional[_Torch]] = []  # once it was looked for


def _functions() -> Optional[_Torch]:
    if not _found:
        _found.append(_usable())
    return _found[0]


def watch(parameters: Sequence[Any], dtypes: Sequence[torch.dtype], instead: Sequence[int],
          specs: Optional[Sequence[Any]] = None, contiguous: bool = False) -> Optional[Watch]:
    """A watch over the parameters; None if they must be asked one by one. specs: what the gradients
    have; left out: what the parameters have."""
    functions = _functions()
    if functions is None or not all(
            type(p) in (Tensor, Parameter, DTensor) and type(here) in (Tensor, Parameter)
            and functions.fits(here) and (not contiguous or here.is_contiguous())
            for p, here in zip(parameters, map(local, parameters))):
        return None
    own = [getattr(p, "_spec", None) for p in parameters]
    if specs is None:
        specs = own
    elif [spec is None for spec in specs] != [spec is None for spec in own]:
        return None
    try:
        return Watch(functions, parameters, dtypes, instead, specs, contiguous)
    except StopIteration:  # another torch's DTensors
        return None


def written(parameters: Sequence[Tensor]) -> Optional[Written]:
    """None if torch must be told of them by its own function."""
    functions = _functions()
    if functions is None or not all(map(functions.fits, parameters)):
        return None
    return Written(functions, parameters)

# SPDX-License-Identifier: MIT
"""Short cuts through torch's internals, each beside the plain way, which is public functions alone. A
short cut is taken if it proves itself at its first use: it gives what the plain way gives. Else the plain
way stays, and so it does for all with PTXGEN_TORCH_NATIVE=0 in the environment."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
import os
import sys
import weakref
from array import array
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import optimizer as _optimizer

from .. import _c
from .._library import library_path
from ._ranks import DTensor


class ShortCut:
    """Two ways to the same: way() is the one that is taken. `proved(plain, *arguments)`, at the first
    call, returns the short way; None, or any error, where it does not do what the plain one does."""

    def __init__(self, plain: Callable[..., Any], proved: Callable[..., Any]) -> None:
        self.plain, self._proved = plain, proved
        self.way: Callable[..., Any] = self.first

    def first(self, *arguments: Any) -> Any:
        self.way = self._found(arguments)
        return self.way(*arguments)

    def _found(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        if os.environ.get("PTXGEN_TORCH_NATIVE") == "0":
            return self.plain
        try:
            with torch.inference_mode(False):
                return self._proved(self.plain, *arguments) or self.plain
        except Exception:  # what internals of another torch raise is not known
            return self.plain


_PLACE: Any = {"dtype": torch.float32, "device": "cpu"}  # whatever the defaults are
_word = ctypes.c_uint64.from_address


# ---- objects of Python

_HEAD = tuple.__basicsize__  # of a tuple, before the addresses of what is in it
_TYPE = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)  # where an object has its class


def _is_known_python() -> bool:
    """Whether objects are where CPython has them, and one thread at a time changes them."""
    some = object()
    return (sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
            and _word(id(some) + _TYPE).value == id(object))


def _ids(objects: Iterable[Any]) -> Any:
    return list(map(id, objects))


@functools.partial(ShortCut, _ids)
def identities(plain: Callable[..., Any], objects: Iterable[Any]) -> Any:
    """Which objects these are: equal for the same ones in the same order, as long as they live. The short
    way copies the addresses that a tuple has."""
    def short(objects: Iterable[Any]) -> bytes:
        some = tuple(objects)
        return ctypes.string_at(id(some) + _HEAD, 8 * len(some))

    some = object(), object(), short
    return short if _is_known_python() and array("Q", short(some)).tolist() == plain(some) else None


# ---- DTensors

_PART, _SPEC = "_local_tensor", "_spec"


def _to_local(dtensor: Any) -> Any:
    with torch.no_grad():  # else it is a step of the graph
        return dtensor.to_local()


@functools.partial(ShortCut, _to_local)
def _part(plain: Callable[..., Any], dtensor: Any) -> Any:
    short = operator.attrgetter(_PART)
    found, expected = (one if isinstance(one, DTensor) else (one.data_ptr(), one.shape, one.stride(), one.dtype)
                       for one in (short(dtensor), plain(dtensor)))
    return short if found == expected else None


def part(tensor: Any) -> Any:
    """This rank's part of a tensor. The plain way may give another object each time."""
    return _part.way(tensor) if isinstance(tensor, DTensor) else tensor


_PLAIN = {torch.Tensor, torch.nn.Parameter}


def local(tensor: Any) -> Any:
    """The memory of this rank's part. torchao's weights for float8 under FSDP2 have it within a tensor without any."""
    here = _part.way(tensor) if isinstance(tensor, DTensor) else tensor
    return here if type(here) in _PLAIN or not hasattr(here, "_precomputed_scale") else here._tensor


def _placing(dtensor: Any) -> Any:
    return (dtensor.device_mesh, tuple(dtensor.placements), dtensor.shape, dtensor.stride(),
            dtensor.dtype)


@functools.partial(ShortCut, _placing)
def _spec(plain: Callable[..., Any], dtensor: Any) -> Any:
    short = operator.attrgetter(_SPEC)
    found, expected = short(dtensor), plain(dtensor)
    return short if (found.mesh, tuple(found.placements), found.shape) == expected[:3] else None


def spec(tensor: Any) -> Any:
    """How a DTensor is placed: equal for those that are placed in the same way. None of others."""
    return _spec.way(tensor) if isinstance(tensor, DTensor) else None


def _from_local(like: Any) -> Callable[[Tensor], Any]:
    return lambda part: DTensor.from_local(part, like.device_mesh, like.placements, run_check=False)


@functools.partial(ShortCut, _from_local)
def placed_as(plain: Callable[..., Any], like: Any) -> Any:
    """What makes replicated DTensors from values, placed as one that there is. from_local() takes longer
    than the rest of a call."""
    def short(like: Any) -> Callable[[Tensor], Any]:
        spec = getattr(like, _SPEC)
        return lambda part: DTensor(part, spec, requires_grad=False)

    part = local(like)
    made, expected = short(like)(part), plain(like)(part)
    return short if (type(made) is DTensor and _placing(made) == _placing(expected)
                     and local(made).data_ptr() == part.data_ptr()) else None


def _grads(parameters: Sequence[Any]) -> List[Any]:
    return list(map(operator.attrgetter("grad"), parameters))


@functools.partial(ShortCut, _grads)
def gradients(plain: Callable[..., Any], parameters: Sequence[Any]) -> Any:
    """Of parameters among which are DTensors: without a look for their __torch_function__, which does
    nothing."""
    disabled = torch._C.DisableTorchFunctionSubclass

    def short(parameters: Sequence[Any]) -> List[Any]:
        with disabled():
            return _grads(parameters)

    return short if list(map(id, short(parameters))) == list(map(id, plain(parameters))) else None


# ---- ranks, streams, steps


def _all_reduce(total: Tensor, group: Any) -> None:
    import torch.distributed as dist
    dist.all_reduce(total, group=group)


@functools.partial(ShortCut, _all_reduce)
def add_up(plain: Callable[..., Any], total: Tensor, group: Any) -> Any:
    """Adds the ranks' totals without all_reduce()'s looks at the arguments, which take longer than the
    call. No sum proves it: ranks would wait for those that have proved it. A group that refuses the call
    sends nothing."""
    import torch.distributed as dist
    made = dist.AllreduceOptions
    newer = hasattr(made(), "asyncOp")

    def short(total: Tensor, group: Any) -> None:
        options = made()
        if newer:  # as all_reduce() has it: on the current stream
            options.asyncOp = False
        try:
            work = group.allreduce([total], options)
        except (AttributeError, TypeError):
            return plain(total, group)  # type: ignore[no-any-return]
        if work is not None:
            work.wait()

    return short


def _current_stream(index: int) -> int:
    return int(torch.cuda.current_stream(index).cuda_stream)


@functools.partial(ShortCut, _current_stream)
def stream(plain: Callable[..., Any], index: int) -> Any:
    """torch's current stream on a GPU, as a CUstream, without an object for it. It proves itself on a
    stream that is not the default one."""
    short = torch._C._cuda_getCurrentRawStream
    with contextlib.nullcontext() if plain(index) else torch.cuda.stream(
            torch.cuda.Stream(index)):  # type: ignore[no-untyped-call]
        return short if short(index) == plain(index) else None


def _empty_as(like: Tensor) -> Callable[[], Tensor]:
    shape, kind = like.shape, {"dtype": like.dtype, "device": like.device}
    return lambda: torch.empty(shape, **kind)  # type: ignore[call-overload]


@functools.partial(ShortCut, _empty_as)
def empty_as(plain: Callable[..., Any], like: Tensor) -> Any:
    """What makes tensors of the shape, type and device of a contiguous one: by the function that torch.compile's code calls,
    which takes less time of the host, and makes them on the current GPU."""
    guards: Any = torch._C._dynamo.guards
    makers = {"cpu": guards._empty_strided_cpu, "cuda": guards._empty_strided_cuda}

    def short(like: Tensor) -> Callable[[], Tensor]:
        make, shape, stride, dtype = makers.get(like.device.type), tuple(like.shape), like.stride(), like.dtype
        slow, index = plain(like), like.get_device()
        if make is None:
            return slow  # type: ignore[no-any-return]
        if index < 0:
            return lambda: make(shape, stride, dtype)
        current = torch._C._cuda_getDevice
        return lambda: make(shape, stride, dtype) if current() == index else slow()

    made, expected = ((one.shape, one.stride(), one.dtype, one.device, one.layout, type(one), one.requires_grad, one.is_inference())
                      for one in (short(like)(), plain(like)()))
    return short if made == expected else None


_HOOKS = "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"
_ALL_HOOKS = "_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"


@functools.partial(ShortCut, lambda optimizer: False)
def unobserved(plain: Callable[..., Any], optimizer: Any) -> Any:
    """Whether neither a hook nor a profiler is to know of a step: torch's range for the profiler takes
    longer than the step. The hooks that torch puts around a step must be those that are known here."""
    profiling = torch.autograd._profiler_enabled  # type: ignore[attr-defined]
    around = getattr(torch.optim.Optimizer, "profile_hook_step", None)
    names = around(print).__code__.co_names if around else ()  # torch 1.13 has no hooks
    asked = {name for name in names if name.endswith("_hooks")}
    if not isinstance(profiling(), bool) or around and asked != {*_HOOKS, *_ALL_HOOKS}:
        return None
    everywhere = [getattr(_optimizer, name) for name in _ALL_HOOKS] if around else []
    own: Any = operator.attrgetter(*_HOOKS) if around else lambda optimizer: ()
    own(optimizer)
    return lambda optimizer: not (profiling() or any(everywhere) or any(own(optimizer)))


# ---- version counters: whether tensors were written, as torch knows it

_increment: Any = getattr(torch.autograd.graph, "increment_version", None)  # torch 1.13 has none


def _increment_each(tensors: Sequence[Tensor]) -> None:
    for tensor in tensors if _increment else ():
        _increment(tensor)


@functools.partial(ShortCut, _increment_each)
def increment_version(plain: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
    """Tells torch that tensors were written: of all in one call, which older torch refuses."""
    some = [torch.zeros(1, **_PLACE) for _ in range(2)]
    _increment(some)
    return _increment if [one._version for one in some] == [1, 1] else None


# ---- the look: torch's functions, called from C

_FUNCTIONS = {
    "grad": "_ZNK3c1010TensorImpl4gradEv",
    "bump_version": "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE",
    "version": "_ZNK2at10TensorBase8_versionEv",
    "mutable_grad": "_ZN3c1010TensorImpl12mutable_gradEv",
    "assign": "aoti_torch_assign_tensors",
    **{name: "aoti_torch_" + name for name in (
        "get_data_ptr", "get_dtype", "get_layout", "get_device_type", "get_device_index",
        "get_dim", "get_sizes", "get_strides", "is_defined")},
}
_TYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
_IMPL = 128  # bytes of a TensorImpl, at least

SAME, MOVED = _c.PTX_TORCH_FOUND_SAME, _c.PTX_TORCH_FOUND_MOVED
CHANGED, UNUSUAL = _c.PTX_TORCH_FOUND_CHANGED, _c.PTX_TORCH_FOUND_UNUSUAL


class _Torch:
    """torch's functions, its codes of types, and where its objects have their TensorImpl."""

    look: Any
    bump_versions: Any
    bump_gradient_versions: Any
    drop_gradients: Any
    versions: Any

    def __init__(self) -> None:
        # With the interpreter's lock held: nothing changes the tensors meanwhile.
        ours = ctypes.PyDLL(library_path())
        for name in ("ptx_torch_look", "ptx_torch_bump_versions", "ptx_torch_bump_gradient_versions",
                     "ptx_torch_drop_gradients", "ptx_torch_versions"):
            function = getattr(ours, name)
            function.restype, function.argtypes = _c.FUNCTIONS[name]
            setattr(self, name[len("ptx_torch_"):], function)
        theirs = ctypes.CDLL(torch._C.__file__, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        self.functions = _c.ptx_torch_functions(**{
            field: ctypes.cast(getattr(theirs, symbol), ctypes.c_void_p).value
            for field, symbol in _FUNCTIONS.items()})
        undefined = ctypes.c_void_p()
        if theirs.aoti_torch_new_uninitialized_tensor(ctypes.byref(undefined)):
            raise RuntimeError("no undefined tensor")
        self.functions.undefined = undefined.value
        self.codes: Dict[torch.dtype, int] = {
            dtype: getattr(theirs, "aoti_torch_dtype_" + name)() for dtype, name in _TYPES.items()}
        self.places: Dict[str, int] = {
            name: getattr(theirs, "aoti_torch_device_type_" + name)() for name in ("cpu", "cuda")}
        self.strided: int = theirs.aoti_torch_layout_strided()
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
            part=_place(ids, [id(getattr(p, _PART)) for p in dtensors], size),
            spec=_place(ids, [id(getattr(p, _SPEC)) for p in dtensors], size))


def _place(things: Sequence[int], words: Sequence[int], size: int) -> int:
    """Where in the `size` bytes of each of these things its word is, but for the lowest bit: some
    versions of torch mark addresses there. StopIteration if it is nowhere."""
    return next(at for at in range(0, size - 7, 8)
                if all(_word(thing + at).value & ~1 == word for thing, word in zip(things, words)))


class Watch:
    """A look at parameters and their gradients, all of them on the device; dtypes: of the gradients;
    specs: of gradients that are DTensors, as those of their parameters. `instead`: addresses for
    gradients without elements. The caller keeps the parameters as long as it uses the watch."""

    def __init__(self, functions: _Torch, parameters: Sequence[Tensor], device: torch.device,
                 dtypes: Sequence[torch.dtype], instead: Sequence[int], specs: Sequence[Any]) -> None:
        self._functions, self._specs = functions, list(specs)
        self._rows = (_c.ptx_torch_tensor * len(parameters))()
        self._shapes = [array("q", (*here.shape, *here.stride())) for here in map(local, parameters)]
        for row, p, dtype, address, spec, shape in zip(self._rows, parameters, dtypes, instead, specs, self._shapes):
            here = local(p)
            row.tensor, row.impl = functions.at(here), here._cdata
            row.data, row.numel, row.instead = here.data_ptr(), here.numel(), address
            row.dim, row.shape = here.dim(), shape.buffer_info()[0]
            row.dtype, row.gradient_dtype = functions.codes[here.dtype], functions.codes[dtype]
            row.layout, row.device_type = functions.strided, functions.places[device.type]
            row.device_index = -1 if device.index is None else device.index
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
            spec = getattr(gradient, _SPEC, None)
            if spec is not None and spec is not self._specs[k] and spec == self._specs[k]:
                self._specs[k], self._rows[k].spec = spec, id(spec)

    def bump_gradient_versions(self) -> None:
        """The parameters' own gradients were written, after a look that found them."""
        self._functions.bump_gradient_versions(*self._given)

    def drop_gradients(self) -> bool:
        """Sets the gradients to None, after a look that found them. Whether all are."""
        return self._functions.drop_gradients(*self._given)  # type: ignore[no-any-return]


class Written:
    """Parameters that each step writes. They must stay as long as this."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters, functions = parameters, _functions.way()
        self._bump_versions: Any = None
        if functions is not None and all(map(functions.fits, parameters)):
            self._bump_versions = functions.bump_versions
            self._table = array("Q", map(functions.at, parameters))
            self._given = (ctypes.addressof(functions.functions), self._table.buffer_info()[0],
                           len(parameters))

    def bump_versions(self) -> bool:
        """They were written. Whether torch counts that once for each of them."""
        if self._bump_versions is None:
            increment_version.way(self._parameters)
            return False
        self._bump_versions(*self._given)
        return True


class Versions:
    """Whether tensors were written by others than the one who has this, as torch counts it: not through
    `.data`. `own`: how many of them, the first ones, the owner's Written counts up. They must stay as
    long as this."""

    def __init__(self, tensors: Sequence[Tensor], own: int) -> None:
        self.tensors, self._own = tensors, own
        functions = _functions.way()
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
    watch = Watch(functions, params, plain.device, [torch.float32] * 3, [0, 0, 8], [None] * 3)
    known, now = (ctypes.c_uint64 * 3)(), (ctypes.c_uint64 * 3)()

    def found(what: int) -> bool:
        return watch.look(known, now) == what

    sound = all(map(functions.fits, params)) and found(SAME)
    other.grad, empty.grad = torch.ones_like(other), torch.ones_like(empty)
    expected[1:] = other.grad.data_ptr(), 8
    sound = sound and found(MOVED) and watch.range() == (1, 2) and list(now) == expected
    before, table = [p._version for p in params], array("Q", map(functions.at, params))
    functions.bump_versions(ctypes.addressof(functions.functions), table.buffer_info()[0], 3)
    sound = sound and [p._version - v for p, v in zip(params, before)] == [1, 1, 1]
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
        one = Watch(functions, [half], half.device, [dtype], [0], [None])
        sound = sound and one.look(known, now) == MOVED and now[0] == half.grad.data_ptr()
    # The object of a gradient that Python let go of.
    mark = other.grad = torch.ones(4, 3, **_PLACE).as_subclass(_Marked)
    impl, at = mark._cdata, id(mark)
    del mark
    sound = sound and _word(impl + functions.object).value & ~1 == at
    sound = sound and _word(at + _TYPE).value == id(_Marked)
    kept, let_go = empty.grad, weakref.ref(other.grad)
    sound = sound and watch.drop_gradients() and other.grad is empty.grad is None
    sound = sound and kept is not None and kept.shape == empty.shape and let_go() is None
    plain.data = torch.zeros(2, 3, **_PLACE)
    return sound and found(CHANGED)


@functools.partial(ShortCut, lambda: None)
def _functions(plain: Callable[..., Any]) -> Any:
    """torch's functions, None if tensors must be asked one by one."""
    found = _Torch() if _is_known_python() else None
    return (lambda: found) if found and _tells_the_truth(found) else None


def watch(parameters: Sequence[Any], device: torch.device, dtypes: Sequence[torch.dtype],
          instead: Sequence[int], specs: Optional[Sequence[Any]] = None,
          contiguous: bool = False) -> Optional[Watch]:
    """A watch over the parameters; None if they must be asked one by one. specs: what the gradients
    have; left out: what the parameters have. contiguous: they must be, and so their gradients."""
    functions = _functions.way()
    if functions is None or not all(
            type(p) in (Tensor, Parameter, DTensor) and type(here) in (Tensor, Parameter)
            and here.device == device and here.layout is torch.strided and here.dtype in _TYPES
            and getattr(p, _PART, p) is here and functions.fits(here)
            and (not contiguous or here.is_contiguous())
            for p, here in zip(parameters, map(local, parameters))):
        return None
    own = list(map(spec, parameters))
    if specs is None:
        specs = own
    elif [one is None for one in specs] != [one is None for one in own]:
        return None
    try:
        return Watch(functions, parameters, device, dtypes, instead, specs)
    except (AttributeError, StopIteration):  # another torch's DTensors
        return None

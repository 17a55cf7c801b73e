# SPDX-License-Identifier: MIT
"""torch's clipping of gradient norms through clip plans. What plans do not do goes to torch's own
functions: other norms, sparse and complex gradients, f64, those on the CPU, non-contiguous or
overlapping ones, and DTensors that are Partial."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import types
import warnings
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor
from torch.nn.utils import clip_grad as _module

from .. import _c
from .._library import c, check
from ..device import Event
from ..errors import Error
from ..plans import ClipPlan
from . import _device, _shortcuts
from ._ranks import DTensor, Reduction, Whole, is_partial, reduction, replicated, whole, world
from ._shortcuts import add_up, identities, increment_version, local, placed_as, spec
from .guards import CLIP, Guards, check as _check_guards

_Tensors = Union[Tensor, Iterable[Tensor]]
_EPS = 1e-6  # torch adds it to the norm
_NAMES = ("clip_grad_norm_", "get_total_norm", "clip_grads_with_norm_")

# torch's own, whatever is installed later.
_torch_clip_grad_norm_ = _module.clip_grad_norm_
_torch_get_total_norm = getattr(_module, "_get_total_norm", None)
_torch_clip_grads_with_norm_ = getattr(_module, "_clip_grads_with_norm_", None)

_data_ptr, _numel, _is_contiguous = Tensor.data_ptr, Tensor.numel, Tensor.is_contiguous
_dtype, _layout, _on = map(operator.attrgetter, ("dtype", "layout", "device"))


class _Part:
    """The gradients of a set that are on one device, and their plan. It is made on a stream of its own,
    which is not under capture."""

    def __init__(self, device: Any, at: List[int], locals_: Sequence[Tensor], counted: Sequence[bool],
                 with_sums: bool, guards: Optional[Guards]) -> None:
        self.device, self.at = device, at
        self.stream: int = device.stream()  # of the last work
        self._event: Optional[Event] = None
        self.sums: Optional[Tensor] = None
        params: Dict[str, Any] = {"any_address": True, "eps": _EPS, "group_max_norms": [math.inf]}
        if with_sums:
            self.sums = torch.zeros(1, dtype=torch.float64, device=device.device)
            params["sums_at"] = self.sums.data_ptr()
        if guards is not None:
            params["guards"] = guards.params(device.device)
        rows: List[Any] = [{"data": locals_[k].data_ptr(), "count": locals_[k].numel(),
                 "dtype": _device.NAMES[locals_[k].dtype], "uncounted": not counted[k]} for k in at]
        with device.gpu.stream() as own:
            self.plan = ClipPlan(device.gpu, rows, stream=own, **params)
        self._table = (_c.c_uint64 * len(at))(*[row["data"] for row in rows])
        self._handle = self.plan.handle.value
        self._max_norm = math.inf
        self._records: Optional[Tensor] = None
        if device.device.type == "cuda":
            self._records = device.tensor(self.plan.records)

    def move(self, addresses: List[int]) -> None:
        self._table[:] = [addresses[k] for k in self.at]
        check(c.ptx_clip_plan_set_data(self._handle, 0, len(self.at), self._table, self.stream))

    def set_max_norm(self, max_norm: float) -> None:
        if max_norm != self._max_norm:
            self.plan.set_max_norm(max_norm, stream=self.stream)
            self._max_norm = max_norm

    def mark(self) -> None:
        """Remembers the end of the work. The default stream stays, so it is asked when that matters; any
        other may be gone by then."""
        if self.stream:
            self._record()

    def _record(self) -> Event:
        if self._event is None:
            self._event = self.device.gpu.event()
        self._event.record(self.stream)
        return self._event

    def follow(self, stream: int) -> None:
        """Further work is on this stream, after that which there was."""
        event = self._event if self.stream else self._record()
        if event is not None:
            check(c.ptx_stream_wait_event(self.device.gpu.handle.value, stream, event.handle.value))
        self.stream = stream

    def wait(self) -> None:
        """Waits for the end of the work."""
        if not self.stream:
            self.device.gpu.synchronize()
        elif self._event is not None:
            self._event.synchronize()

    def norm(self) -> Any:
        """The norm in a tensor of its own."""
        records = self.device.tensor(self.plan.records) if self._records is None else self._records
        return records[1].clone()


@dataclass(frozen=True)
class _Key:
    """What a set of plans is made for: the gradients' sizes, types, devices and meshes, in this order, and
    whether the caller has their norm. They may be anywhere."""

    numels: Tuple[int, ...]
    dtypes: Tuple[torch.dtype, ...]
    devices: Tuple[torch.device, ...]
    specs: Tuple[Any, ...]
    with_sums: bool
    guards: Optional[Guards]  # whose state the plans have


def _key_of(grads: Sequence[Any], locals_: Sequence[Tensor], with_sums: bool, guards: Optional[Guards]) -> _Key:
    specs = (None,) * len(grads) if grads is locals_ else tuple(map(spec, grads))
    return _Key(tuple(map(_numel, locals_)), tuple(map(_dtype, locals_)), tuple(map(_on, locals_)), specs,
                with_sums, guards)


class _Set:
    """The plans of a key. A call has the set alone, from _claimed() to the end of its `with` block:
    addresses, sums and records are one memory."""

    def __init__(self, key: _Key, grads: Sequence[Any], locals_: Sequence[Tensor], reduced: Reduction,
                 captured: bool) -> None:
        self.key = key
        self._placed: Optional[Callable[[Tensor], Any]] = None
        self.captured = captured
        self.group = reduced.group
        self.world = None if self.group is None else world()
        by_device: Dict[torch.device, List[int]] = {}
        for k, device in enumerate(key.devices):
            by_device.setdefault(device, []).append(k)
        several = len(by_device) > 1 or key.with_sums or self.group is not None
        self._parts = [_Part(_device.of(device), at, locals_, reduced.counted, several, key.guards)
                       for device, at in by_device.items()]
        self._phases = several
        self.addresses = list(map(_data_ptr, locals_))
        self.watched: Optional["_Watched"] = None  # whose gradients these are
        self._sizes = [local.numel() * local.element_size() for local in locals_]
        self._sort()
        self.dtype = functools.reduce(torch.promote_types, key.dtypes)
        meshes = [g.device_mesh for g in grads if isinstance(g, DTensor)]
        same = len(meshes) == len(grads) and all(mesh == meshes[0] for mesh in meshes)
        self._mesh = meshes[0] if same else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *unused: Any) -> None:
        """The next call may have the set."""
        try:
            for part in () if self.captured else self._parts:
                part.mark()
        except Error:
            _kept.append(self)
            raise
        if self.captured:
            _kept.append(self)
        elif kind is not None:  # nobody knows which addresses it has
            self._drop()
        else:
            _sets.insert(0, self)
            while len(_sets) > _MOST_SETS:
                with contextlib.suppress(IndexError):  # other threads took them
                    _sets.pop()._drop()

    def _drop(self) -> None:
        """The plans may go as soon as they are not at work."""
        try:
            for part in self._parts:
                part.wait()
        except Error:
            _kept.append(self)

    def here(self) -> bool:
        """Whether the last work was on the streams that are current now, and so is before what comes."""
        for part in self._parts:
            if part.stream != part.device.stream() or part.stream == _PER_THREAD:
                return False
        return True

    def follow(self) -> None:
        """Further work is on the streams that are current now."""
        for part in self._parts:
            part.follow(part.device.stream())

    def is_gone(self) -> bool:
        """Whether its group is."""
        return self.group is not None and world() is not self.world

    def _sort(self) -> None:
        self._order = sorted(range(len(self.addresses)), key=self.addresses.__getitem__)
        self._order = [k for k in self._order if self._sizes[k]]
        self._sorted_sizes = [self._sizes[k] for k in self._order]

    def apart(self) -> bool:
        """Whether no two gradients share memory."""
        starts = list(map(self.addresses.__getitem__, self._order))
        ends = map(operator.add, starts, self._sorted_sizes)
        return all(map(operator.le, ends, starts[1:]))

    def capturing(self) -> bool:
        return any(part.device.capturing() for part in self._parts)

    def move(self, addresses: List[int]) -> bool:
        """Sets the addresses. False if gradients overlap."""
        self.watched = None
        if addresses != self.addresses:
            before, self.addresses = self.addresses, addresses
            if not self.apart():
                self._sort()
                if not self.apart():
                    self.addresses = before
                    self._sort()
                    return False
            for part in self._parts:
                part.move(addresses)
        return True

    def measure(self, max_norm: float) -> None:
        """Takes the norm, up to the records."""
        parts = self._parts
        for part in parts:
            part.set_max_norm(max_norm)
            part.plan.norm_sq(part.stream)
            part.device.done(part.stream)
        total = parts[0].sums
        if total is not None:
            for part in parts[1:]:
                total += part.sums.to(total.device)  # type: ignore[union-attr]
            if self.group is not None:
                add_up.way(total, self.group)
            for part in parts[1:]:
                part.sums.copy_(total)  # type: ignore[union-attr]
        self._finish()

    def _finish(self) -> None:
        for part in self._parts:
            part.plan.finish(part.stream)
            part.device.done(part.stream)

    def given(self, norm: Tensor, max_norm: float) -> None:
        """Records of a norm that the caller has. Its square is exact in f64; below 0 for a norm below 0,
        whose records are NaN then."""
        square = norm.detach().double()
        square = square * square.abs()
        for part in self._parts:
            part.set_max_norm(max_norm)
            part.sums.copy_(square)  # type: ignore[union-attr]
        self._finish()

    def apply(self) -> None:
        for part in self._parts:
            part.plan.apply(part.stream)
            part.device.done(part.stream)

    def run(self, max_norm: float) -> None:
        """All phases."""
        if self._phases:
            self.measure(max_norm)
            self.apply()
            return
        part = self._parts[0]
        part.set_max_norm(max_norm)
        part.plan.run(part.stream)
        part.device.done(part.stream)

    def norm(self) -> Any:
        """The norm as torch gives it: of the gradients' type, a DTensor if they are."""
        norm = self._parts[0].norm()
        if self.dtype is not torch.float32:
            norm = norm.to(self.dtype)
        if self._mesh is None:
            return norm
        if self._placed is None:
            made = replicated(norm, self._mesh)
            self._placed = placed_as.way(made)
            return made
        return self._placed(norm)


# Sets that no call has, the last used first. Any thread takes one out by itself: list's methods are
# atomic, and nobody waits.
_MOST_SETS = 16
_sets: List[_Set] = []
_kept: List[_Set] = []  # graphs launch them, or nobody can wait for them
_PER_THREAD = 2  # CU_STREAM_PER_THREAD: another stream in each thread


def _claimed(one: Any, among: List[Any]) -> bool:
    """Takes one out of those that no call has. False if another thread did."""
    try:
        among.remove(one)
    except ValueError:
        return False
    return True


class _Watched:
    """Parameters whose gradients a set of plans had at the last call: one look finds whether it still
    fits. It keeps none of them alive, and torch does not swap tensors that have weak references; so the
    same identities may be those of others, which are asked what they are before the look."""

    def __init__(self, parameters: Sequence[Tensor], ids: Any, plans: _Set, watch: Any) -> None:
        self.ids, self._plans, self._watch = ids, weakref.ref(plans), watch
        self._known = (_c.c_uint64 * len(parameters))(*plans.addresses)
        self._now = (_c.c_uint64 * len(parameters))()
        self.guards = plans.key.guards
        plans.watched = self

    def claim(self, parameters: Sequence[Tensor]) -> Optional[_Set]:
        """Takes the plans, if they are for the gradients of these, after what moved was set."""
        plans = self._plans()
        if plans is None or not _claimed(plans, _sets):
            return None
        try:
            if self._fits(parameters, plans):
                return plans
        except BaseException:
            plans.__exit__(Error)
            raise
        _sets.insert(0, plans)
        return None

    def _fits(self, parameters: Sequence[Tensor], plans: _Set) -> bool:
        if (not plans.here() or plans.capturing() or not set(map(type, parameters)) <= _KINDS
                or plans.is_gone()):
            return False
        found = self._watch.look(self._known, self._now)
        if found == _shortcuts.SAME and plans.watched is self:
            return True
        if found not in (_shortcuts.SAME, _shortcuts.MOVED):
            return False
        now = list(self._now)
        if any(n and not address for n, address in zip(plans.key.numels, now)) or not plans.move(now):
            return False
        self._known, self._now = self._now, self._known
        plans.watched = self
        return True

    def written(self) -> None:
        self._watch.bump_gradient_versions()


_KINDS = {Tensor, torch.nn.Parameter, DTensor}
_PLAIN = {Tensor, torch.nn.Parameter}
_STRIDED = {torch.strided}
_MOST_WATCHES = 16
_watches: List[_Watched] = []  # that no call has, the last used first


def _watched(parameters: Sequence[Tensor], ids: Any,
             guards: Optional[Guards]) -> Tuple[Optional[_Watched], Optional[_Set]]:
    """Takes a watch over these, and its plans. Where these do not fit, the watch is of no more use."""
    for one in list(_watches):
        if one.ids == ids and one.guards is guards and _claimed(one, _watches):
            plans = one.claim(parameters)
            return (None if plans is None else one), plans
    return None, None


def _watch(parameters: Sequence[Tensor], grads: Sequence[Tensor], ids: Any,
           plans: _Set) -> Optional[_Watched]:
    """From the next call on, one look for all: where each parameter has its own contiguous gradient, on
    one device."""
    if len(grads) != len(parameters) or len(set(plans.key.devices)) != 1 or plans.captured:
        return None
    key = plans.key
    watch = _shortcuts.watch(parameters, key.devices[0], key.dtypes, [0] * len(parameters), key.specs,
                             contiguous=True)
    return None if watch is None else _Watched(parameters, ids, plans, watch)


def _plannable(grads: Sequence[Any], locals_: Sequence[Tensor]) -> bool:
    """Whether plans can take these gradients, which are strided and contiguous, of a set that was not
    seen before."""
    for grad, local in zip(grads, locals_):
        if local.dtype not in _device.NAMES or is_partial(grad) or _device.of(local.device) is None:
            return False
    return not (hasattr(torch, "compiler") and hasattr(torch.compiler, "is_compiling")
                and torch.compiler.is_compiling())


def _set_of(grads: Sequence[Any], norm_type: float, with_sums: bool = False,
            guards: Optional[Guards] = None) -> Optional[_Set]:
    """Takes a set of plans for the gradients; None if torch's own functions must take them."""
    if norm_type != 2.0 or not grads:
        return None
    kinds = set(map(type, grads))
    if kinds == {Tensor}:
        locals_: Sequence[Any] = grads
    elif kinds <= _KINDS:
        locals_ = list(map(local, grads))
        if not set(map(type, locals_)) <= _PLAIN:
            return None
    else:
        return None
    if set(map(_layout, locals_)) != _STRIDED:
        return None
    device = _device.of(locals_[0].device)
    if device is None:
        return None
    try:
        addresses = list(map(_data_ptr, locals_))
        contiguous = all(map(_is_contiguous, locals_))
    except RuntimeError:
        return None  # they have no memory
    if not contiguous or 0 in addresses and any(
            n and not at for n, at in zip(map(_numel, locals_), addresses)):
        return None
    # What a graph launches is its own: nobody knows when it is launched.
    captured = device.capturing()
    key = _key_of(grads, locals_, with_sums, guards)
    found = None if captured else _idle(key)
    if found is None:
        if not _plannable(grads, locals_):
            return None
        found = _Set(key, grads, locals_, reduction(grads), captured)
        return found if found.apart() else None
    found.key = key  # whose specs are equal to others at the next call without a look at them
    try:
        if found.move(addresses):
            return found
    except BaseException:
        found.__exit__(Error)
        raise
    _sets.insert(0, found)
    return None


def _idle(key: _Key) -> Optional[_Set]:
    """Takes a set of this key: one of the current streams, or of others when there are many sets."""
    others = []
    for one in list(_sets):
        if one.key == key and not one.is_gone():
            if not one.here():
                others.append(one)
            elif _claimed(one, _sets):
                return one
    if len(_sets) >= _MOST_SETS:
        for one in reversed(others):
            if _claimed(one, _sets):
                try:
                    one.follow()
                except Error:  # a capture elsewhere forbids it: nobody knows when its work ends
                    _kept.append(one)
                    continue
                return one
    return None


def _is_finite(norm: Tensor) -> bool:
    value = norm.full_tensor() if isinstance(norm, DTensor) else norm
    return math.isfinite(value.item())


def _first_nonfinite(placed: Sequence[Tensor], gradients: Sequence[Optional[Tensor]]) -> str:
    """Which gradient has NaN or infinity, and where, by the element of the whole: the same on all ranks of the mesh
    that the tensors are placed on."""
    none = 1 << 62
    found = none
    for k, gradient in enumerate(gradients):
        bad = None if gradient is None else ~torch.isfinite(local(gradient)).flatten()
        if bad is not None and bad.any():
            at, place = int(bad.to(torch.uint8).argmax()), whole(gradient) or Whole(0, 0, 0)
            found = k << 41 | place.first + (at // place.run * place.stride + at % place.run if place.run else at)
            break
    meshes = [one.device_mesh for one in placed if isinstance(one, DTensor)]
    if meshes:
        least = torch.tensor(found, dtype=torch.int64, device=local(placed[0]).device)
        for d in range(meshes[0].ndim):
            torch.distributed.all_reduce(least, op=torch.distributed.ReduceOp.MIN, group=meshes[0].get_group(d))
        found = int(least)
    return "" if found == none else (f". The first that is not finite is the gradient of parameter {found >> 41}, at element "
                                     f"{found & (1 << 41) - 1}")


def _nonfinite(norm_type: float, where: str = "") -> RuntimeError:
    return RuntimeError(
        f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
        "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
        "anyway, set `error_if_nonfinite=False`" + where)


def _listed(tensors: _Tensors, warn: bool = False) -> List[Tensor]:
    if isinstance(tensors, Tensor):
        return [tensors]
    try:
        listed = list(tensors)
    except TypeError:
        raise TypeError(f"a tensor or an iterable of tensors is needed, not {tensors!r:.80}") from None
    if warn and not listed and isinstance(tensors, types.GeneratorType):
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.",
                      stacklevel=3)
    return listed


def _check_tensors(listed: List[Any]) -> None:
    """Raises a TypeError if one is none."""
    for k, one in enumerate(listed):
        if not isinstance(one, Tensor):
            raise TypeError(f"a tensor or an iterable of tensors is needed: number {k} of these is {one!r:.80}")


def _gradients(parameters: List[Tensor]) -> List[Tensor]:
    try:
        return [g for g in [p.grad for p in parameters] if g is not None]
    except AttributeError:
        _check_tensors(parameters)
        raise


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: a number is needed, not {value!r}") from None


def _take_guards(guards: Guards, parameters: List[Tensor]) -> None:
    """Whether the guards are those of clipping, and have what they look at."""
    _check_tensors(parameters)
    guards.bind(CLIP)
    if guards.latest_loss is None:
        devices = {_device.of(local(p).device) for p in parameters}
        if not any(device is not None and device.capturing() for device in devices):
            guards.check_loss()


def _why_not(parameters: List[Tensor], limit: float, order: float) -> str:
    """Why no plan takes the gradients."""
    if order != 2.0:
        return f"norm_type is {order}"
    if not limit >= 0:
        return f"max_norm is {limit}"
    for k, gradient in ((k, p.grad) for k, p in enumerate(parameters) if p.grad is not None):
        here, what = local(gradient), f"the gradient of parameter {k} is"
        if here.layout is not torch.strided:
            return f"{what} sparse"
        if here.dtype not in _device.NAMES:
            return f"{what} {here.dtype}, and f32, f16 and bf16 are taken"
        if _device.of(here.device) is None:
            return f"{what} on {here.device}, and not on a GPU"
        if is_partial(gradient):
            return f"{what} a DTensor that is Partial"
        if not here.is_contiguous():
            return f"{what} not contiguous"
        if type(here) not in _PLAIN or type(gradient) not in _KINDS:
            return f"{what} a {type(here).__name__}, a subclass of Tensor"
        if here.numel() and not here.data_ptr():
            return f"{what} without memory"
    return "gradients share memory, or torch.compile has the call"


def clip_grad_norm_(parameters: _Tensors, max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: Optional[bool] = None, *,
                    guards: Optional[Guards] = None) -> Tensor:
    """torch.nn.utils.clip_grad_norm_: scales the gradients so that their norm is at most `max_norm`,
    and returns the norm before. Does not wait for the GPU, unless `error_if_nonfinite` is set. `guards` decide
    whether the step is to be taken, and clip further: an optimizer with obey=guards skips it if not."""
    _check_guards("guards", guards)
    parameters = _listed(parameters, warn=True)
    limit, order = _number("max_norm", max_norm), _number("norm_type", norm_type)
    if guards is not None:
        _take_guards(guards, parameters)
    ids = identities.way(parameters)
    watched, plans = (_watched(parameters, ids, guards) if limit >= 0 and order == 2.0
                      else (None, None))
    grads: List[Tensor] = []
    if plans is None:
        grads = _gradients(parameters)
        plans = _set_of(grads, order, False, guards) if limit >= 0 else None
    if plans is None and guards is not None:
        if limit >= 0 and order == 2.0 and not grads:
            guards.without()
        else:
            raise ValueError(f"guards look at the 2-norm of gradients that plans take: {_why_not(parameters, limit, order)}")
    if plans is None:
        return _torch_clip_grad_norm_(parameters, max_norm, norm_type,
                                      error_if_nonfinite=error_if_nonfinite,
                                      **_foreach(foreach))
    finite = True
    with plans:
        if error_if_nonfinite:
            plans.measure(limit)
            norm = plans.norm()
            finite = _is_finite(norm)
            if finite:
                plans.apply()
        else:
            plans.run(limit)
            norm = plans.norm()
        if watched is None:
            watched = _watch(parameters, grads, ids, plans)
    if finite and grads:
        increment_version.way(grads)
    elif finite and watched is not None:
        watched.written()
    if watched is not None:
        _watches.insert(0, watched)
        del _watches[_MOST_WATCHES:]
    if not finite:
        raise _nonfinite(order, _first_nonfinite(parameters, [p.grad for p in parameters]))
    return norm  # type: ignore[no-any-return]


def get_total_norm(tensors: _Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: Optional[bool] = None) -> Tensor:
    """torch.nn.utils.get_total_norm: the norm of all tensors together."""
    grads = _listed(tensors)
    order = _number("norm_type", norm_type)
    plans = _set_of(grads, order)
    if plans is None:
        _check_tensors(grads)
        if _torch_get_total_norm is None:
            raise NotImplementedError("this torch has no get_total_norm for such tensors")
        return _torch_get_total_norm(grads, norm_type, error_if_nonfinite, foreach)  # type: ignore[no-any-return]
    with plans:
        plans.measure(math.inf)
        norm = plans.norm()
    if error_if_nonfinite and not _is_finite(norm):
        raise _nonfinite(order, _first_nonfinite(grads, grads))
    return norm  # type: ignore[no-any-return]


def clip_grads_with_norm_(parameters: _Tensors, max_norm: float, total_norm: Tensor,
                          foreach: Optional[bool] = None) -> None:
    """torch.nn.utils.clip_grads_with_norm_: scales the gradients by min(1, max_norm / (total_norm +
    1e-6)). A norm is at least 0. torch's own function takes one below 0 that is on the CPU; one on the
    GPU makes the gradients NaN."""
    parameters = _listed(parameters)
    grads = _gradients(parameters)
    limit = _number("max_norm", max_norm)
    if not isinstance(total_norm, Tensor) or total_norm.numel() != 1:
        raise TypeError(f"total_norm: a tensor of one element is needed, as get_total_norm() gives it, not "
                        f"{total_norm!r:.80}")
    norm = total_norm.full_tensor() if isinstance(total_norm, DTensor) else total_norm
    below = norm.device.type == "cpu" and float(norm) < 0
    plans = None if below or not limit >= 0 else _set_of(grads, 2.0, with_sums=True)
    if plans is None:
        if _torch_clip_grads_with_norm_ is None:
            raise NotImplementedError("this torch has no clip_grads_with_norm_ for such gradients")
        _torch_clip_grads_with_norm_(parameters, max_norm, total_norm, foreach)
        return
    with plans:
        plans.given(norm, limit)
        plans.apply()
    increment_version.way(grads)


def _foreach(foreach: Optional[bool]) -> Dict[str, Any]:
    return {} if foreach is None else {"foreach": foreach}  # torch 1.13 does not know it


_installed: List[Tuple[Any, str, Any, Any]] = []


def install() -> None:
    """Puts these functions in place of torch.nn.utils', for callers that look them up there at each
    call: transformers' Trainer, accelerate, torchtitan. uninstall() takes them out again."""
    uninstall()
    for module in (torch.nn.utils, _module):
        for name in _NAMES:
            if hasattr(module, name):
                _installed.append((module, name, getattr(module, name), globals()[name]))
                setattr(module, name, globals()[name])


def uninstall() -> None:
    """Puts torch's own functions back. Functions that others have put there meanwhile stay."""
    while _installed:
        module, name, before, ours = _installed.pop()
        if getattr(module, name) is ours:
            setattr(module, name, before)

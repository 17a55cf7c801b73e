# SPDX-License-Identifier: MIT
"""torch's clipping of gradient norms through clip plans. What plans do not do goes to torch's own
functions: other norms, sparse and complex gradients, f64, those on the CPU, non-contiguous or
overlapping ones, and DTensors that are Partial."""

from __future__ import annotations

import math
import operator
import types
import warnings
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor
from torch.nn.utils import clip_grad as _module

from .. import _c
from .._library import c, check
from ..plans import ClipPlan
from . import _device, _native
from ._ranks import DTensor, Reduction, add_up, is_partial, reduction, replicated, world

_Tensors = Union[Tensor, Iterable[Tensor]]
_EPS = 1e-6  # torch adds it to the norm
_NAMES = ("clip_grad_norm_", "get_total_norm", "clip_grads_with_norm_")

# torch's own, whatever is installed later.
_torch_clip_grad_norm_ = _module.clip_grad_norm_
_torch_get_total_norm = getattr(_module, "_get_total_norm", None)
_torch_clip_grads_with_norm_ = getattr(_module, "_clip_grads_with_norm_", None)

_data_ptr, _numel, _on = Tensor.data_ptr, Tensor.numel, Tensor.get_device
_dtype = operator.attrgetter("dtype")
_is_contiguous = Tensor.is_contiguous
increment_version = getattr(torch.autograd.graph, "increment_version", lambda tensors: None)


class _Part:
    """The gradients of a set that are on one device, and their plans."""

    def __init__(self, device: Any, at: List[int], locals_: Sequence[Tensor], counted: Sequence[bool],
                 with_sums: bool) -> None:
        self.device, self.at = device, at
        self.sums: Optional[Tensor] = None
        params: Dict[str, Any] = {"any_address": True, "eps": _EPS, "group_max_norms": [math.inf],
                                  "stream": device.stream()}
        if with_sums:
            self.sums = torch.zeros(1, dtype=torch.float64, device=device.device)
            params["sums_at"] = self.sums.data_ptr()
        if device.capturing():
            raise RuntimeError("ptxgen: call this once with these gradients before the capture begins")
        rows: List[Any] = [{"data": locals_[k].data_ptr(), "count": locals_[k].numel(),
                 "dtype": _device.NAMES[locals_[k].dtype], "uncounted": not counted[k]} for k in at]
        self.plan = ClipPlan(device.gpu, rows, **params)
        self._table = (_c.c_uint64 * len(at))(*[row["data"] for row in rows])
        self._handle = self.plan.handle.value
        self._max_norm = math.inf
        self._records: Optional[Tensor] = None
        if device.device.type == "cuda":
            self._records = device.tensor(self.plan.records)

    def move(self, addresses: List[int], stream: int) -> None:
        self._table[:] = [addresses[k] for k in self.at]
        check(c.ptx_clip_plan_set_data(self._handle, 0, len(self.at), self._table, stream))

    def set_max_norm(self, max_norm: float, stream: int) -> None:
        if max_norm != self._max_norm or self.device.capturing():
            self.plan.set_max_norm(max_norm, stream=stream)
            self._max_norm = max_norm

    def norm(self) -> Any:
        """The norm in a tensor of its own."""
        records = self.device.tensor(self.plan.records) if self._records is None else self._records
        return records[1].clone()


class _Set:
    """Gradients of these sizes, types, devices and meshes, in this order."""

    def __init__(self, grads: Sequence[Any], locals_: Sequence[Tensor], reduced: Reduction,
                 with_sums: bool) -> None:
        self.numels = list(map(_numel, locals_))
        self.dtypes = [local.dtype for local in locals_]
        self.devices = list(map(_on, locals_))
        self.specs = [getattr(g, "_spec", None) for g in grads]
        self.placed = any(spec is not None for spec in self.specs)
        self._norm_spec: Optional[Any] = None
        self.with_sums = with_sums
        self.group = reduced.group
        self.world = None if self.group is None else world()
        by_device: Dict[torch.device, List[int]] = {}
        for k, local in enumerate(locals_):
            by_device.setdefault(local.device, []).append(k)
        several = len(by_device) > 1 or with_sums or self.group is not None
        self._parts = [_Part(_device.of(device), at, locals_, reduced.counted, several)
                       for device, at in by_device.items()]
        self._phases = several
        self.addresses = list(map(_data_ptr, locals_))
        self.watched: Optional["_Watched"] = None  # whose gradients these are
        self._sizes = [local.numel() * local.element_size() for local in locals_]
        self._sort()
        self.dtype = self.dtypes[0]
        for dtype in self.dtypes:
            self.dtype = torch.promote_types(self.dtype, dtype)
        meshes = [g.device_mesh for g in grads if isinstance(g, DTensor)]
        same = len(meshes) == len(grads) and all(mesh == meshes[0] for mesh in meshes)
        self._mesh = meshes[0] if same else None

    def fits(self, grads: Sequence[Any], locals_: Sequence[Tensor], with_sums: bool) -> bool:
        if self.group is not None and world() is not self.world:
            return False  # its group is gone
        if not (self.with_sums == with_sums and len(locals_) == len(self.numels)
                and list(map(_numel, locals_)) == self.numels
                and list(map(_dtype, locals_)) == self.dtypes
                and list(map(_on, locals_)) == self.devices):
            return False
        if grads is locals_:  # none is a DTensor
            return not self.placed
        specs = [getattr(g, "_spec", None) for g in grads]
        if specs != self.specs:
            return False
        self.specs = specs  # the same objects are equal without a look at them
        return True

    def _sort(self) -> None:
        self._order = sorted(range(len(self.addresses)), key=self.addresses.__getitem__)
        self._order = [k for k in self._order if self._sizes[k]]
        self._sorted_sizes = [self._sizes[k] for k in self._order]

    def _apart(self) -> bool:
        starts = list(map(self.addresses.__getitem__, self._order))
        ends = map(operator.add, starts, self._sorted_sizes)
        return all(map(operator.le, ends, starts[1:]))

    def capturing(self) -> bool:
        return any(part.device.capturing() for part in self._parts)

    def move(self, addresses: List[int]) -> bool:
        """Sets the addresses. False if gradients overlap."""
        self.watched = None
        if addresses != self.addresses or self.capturing():
            self.addresses = addresses
            if not self._apart():
                self._sort()
                if not self._apart():
                    return False
            for part in self._parts:
                part.move(addresses, part.device.stream())
        return True

    def measure(self, max_norm: float) -> None:
        """Takes the norm, up to the records."""
        parts = self._parts
        for part in parts:
            stream = part.device.stream()
            part.set_max_norm(max_norm, stream)
            part.plan.norm_sq(stream)
            part.device.done(stream)
        total = parts[0].sums
        if total is not None:
            for part in parts[1:]:
                total += part.sums.to(total.device)  # type: ignore[union-attr]
            if self.group is not None:
                add_up(total, self.group)
            for part in parts[1:]:
                part.sums.copy_(total)  # type: ignore[union-attr]
        self._finish()

    def _finish(self) -> None:
        for part in self._parts:
            stream = part.device.stream()
            part.plan.finish(stream)
            part.device.done(stream)

    def given(self, norm: Tensor, max_norm: float) -> None:
        """Records of a norm that the caller has. Its square is exact in f64; below 0 for a norm below 0,
        whose records are NaN then."""
        square = norm.detach().double()
        square = square * square.abs()
        for part in self._parts:
            stream = part.device.stream()
            part.set_max_norm(max_norm, stream)
            part.sums.copy_(square)  # type: ignore[union-attr]
        self._finish()

    def apply(self) -> None:
        for part in self._parts:
            stream = part.device.stream()
            part.plan.apply(stream)
            part.device.done(stream)

    def run(self, max_norm: float) -> None:
        """All phases."""
        if self._phases:
            self.measure(max_norm)
            self.apply()
            return
        part = self._parts[0]
        stream = part.device.stream()
        part.set_max_norm(max_norm, stream)
        part.plan.run(stream)
        part.device.done(stream)

    def norm(self) -> Any:
        """The norm as torch gives it: of the gradients' type, a DTensor if they are."""
        norm = self._parts[0].norm()
        if self.dtype is not torch.float32:
            norm = norm.to(self.dtype)
        if self._mesh is None:
            return norm
        if self._norm_spec is not None:
            return DTensor(norm, self._norm_spec, requires_grad=False)
        made = replicated(norm, self._mesh)
        try:  # from_local() takes longer than the rest of the call
            self._norm_spec = DTensor(norm, made._spec, requires_grad=False)._spec
        except TypeError:
            pass  # another torch's constructor
        return made


_MOST_SETS = 16
_sets: List[_Set] = []  # the last used first


class _Watched:
    """Parameters whose gradients a set of plans had at the last call: one look finds whether it still
    fits. It keeps none of them alive, and torch does not swap tensors that have weak references; so the
    same identities may be those of others, which are asked what they are before the look."""

    def __init__(self, parameters: Sequence[Tensor], ids: Any, plans: _Set, watch: Any) -> None:
        self.ids, self.plans, self._watch = ids, plans, watch
        self._known = (_c.c_uint64 * len(parameters))(*plans.addresses)
        self._now = (_c.c_uint64 * len(parameters))()
        plans.watched = self

    def fits(self, parameters: Sequence[Tensor]) -> bool:
        """Whether the plans have the gradients of these, after what moved was set."""
        plans = self.plans
        if (plans not in _sets or plans.capturing() or not set(map(type, parameters)) <= _KINDS
                or plans.group is not None and world() is not plans.world):
            return False
        found = self._watch.look(self._known, self._now)
        if found == _native.SAME and plans.watched is self:
            return True
        if found not in (_native.SAME, _native.MOVED):
            return False
        now = list(self._now)
        if any(n and not address for n, address in zip(plans.numels, now)) or not plans.move(now):
            return False
        self._known, self._now = self._now, self._known
        plans.watched = self
        return True

    def written(self) -> None:
        self._watch.bump_gradient_versions()


_KINDS = {Tensor, torch.nn.Parameter, DTensor}
_MOST_WATCHES = 4
_watches: List[_Watched] = []  # the last used first


def _watched(parameters: Sequence[Tensor], ids: Any) -> Optional[_Watched]:
    for k, one in enumerate(_watches):
        if one.ids == ids:
            if not one.fits(parameters):
                _watches.remove(one)
                return None
            if k:
                _watches.insert(0, _watches.pop(k))
            return one
    return None


def _watch(parameters: Sequence[Tensor], grads: Sequence[Tensor], ids: Any, plans: _Set) -> None:
    """From the next call on, one look for all: where each parameter has its own contiguous gradient, on
    one device."""
    if len(grads) != len(parameters) or len(set(plans.devices)) != 1:
        return
    watch = _native.watch(parameters, plans.dtypes, [0] * len(parameters), plans.specs, contiguous=True)
    if watch is not None:
        _watches.insert(0, _Watched(parameters, ids, plans, watch))
        del _watches[_MOST_WATCHES:]


def _plannable(grads: Sequence[Any], locals_: Sequence[Tensor]) -> bool:
    """Whether plans can take these gradients, of a set that was not seen before."""
    for grad, local in zip(grads, locals_):
        if type(local) not in (Tensor, torch.nn.Parameter) or local.layout is not torch.strided:
            return False
        if local.dtype not in _device.NAMES or not local.is_contiguous() or is_partial(grad):
            return False
        if grad is not local and not isinstance(grad, DTensor):
            return False
        if _device.of(local.device) is None:
            return False
    return not (hasattr(torch, "compiler") and hasattr(torch.compiler, "is_compiling")
                and torch.compiler.is_compiling())


def _set_of(grads: Sequence[Any], norm_type: float, with_sums: bool = False) -> Optional[_Set]:
    """The set of plans for the gradients; None if torch's own functions must take them."""
    if norm_type != 2.0 or not grads:
        return None
    kinds = set(map(type, grads))
    if kinds == {Tensor}:
        locals_: Sequence[Any] = grads
    elif kinds <= _KINDS:
        locals_ = [g._local_tensor if type(g) is DTensor else g for g in grads]
    else:
        return None
    try:
        for k, one in enumerate(_sets):
            if one.fits(grads, locals_, with_sums):
                if not all(map(_is_contiguous, locals_)):
                    return None
                if k:
                    _sets.insert(0, _sets.pop(k))
                return one if one.move(list(map(_data_ptr, locals_))) else None
    except RuntimeError:
        if _plannable(grads, locals_):
            raise
        return None
    if not _plannable(grads, locals_):
        return None
    made = _Set(grads, locals_, reduction(grads), with_sums)
    if not made._apart():
        return None
    if len(_sets) >= _MOST_SETS:
        for part in _sets.pop()._parts:
            part.device.gpu.synchronize(part.device.stream())
    _sets.insert(0, made)
    return made


def _raise_if_nonfinite(norm: Tensor, norm_type: float) -> None:
    value = norm.full_tensor() if isinstance(norm, DTensor) else norm
    if not math.isfinite(value.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
            "anyway, set `error_if_nonfinite=False`")


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


def clip_grad_norm_(parameters: _Tensors, max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: Optional[bool] = None) -> Tensor:
    """torch.nn.utils.clip_grad_norm_: scales the gradients so that their norm is at most `max_norm`,
    and returns the norm before. Does not wait for the GPU, unless `error_if_nonfinite` is set."""
    parameters = _listed(parameters, warn=True)
    limit, order = _number("max_norm", max_norm), _number("norm_type", norm_type)
    ids = _native.identities(parameters)
    watched = _watched(parameters, ids) if limit >= 0 and order == 2.0 else None
    grads: List[Tensor] = []
    if watched is not None:
        plans: Optional[_Set] = watched.plans
    else:
        grads = _gradients(parameters)
        plans = _set_of(grads, order) if limit >= 0 else None
    if plans is None:
        return _torch_clip_grad_norm_(parameters, max_norm, norm_type,
                                      error_if_nonfinite=error_if_nonfinite,
                                      **_foreach(foreach))
    if error_if_nonfinite:
        plans.measure(limit)
        norm = plans.norm()
        _raise_if_nonfinite(norm, order)
        plans.apply()
    else:
        plans.run(limit)
        norm = plans.norm()
    if watched is not None:
        watched.written()
    else:
        increment_version(grads)
        _watch(parameters, grads, ids, plans)
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
    plans.measure(math.inf)
    norm = plans.norm()
    if error_if_nonfinite:
        _raise_if_nonfinite(norm, order)
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
    plans.given(norm, limit)
    plans.apply()
    increment_version(grads)


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

# SPDX-License-Identifier: MIT
"""Clip plans and step plans: made once, run every step. docs/plans.md and docs/steps.md say what they
compute; the fields of tensors, groups and parameters are those of the C structs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import byref
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from . import _c, _types
from ._library import (NAMES, Handle, Keeps, Object, c, check, checked, finish_text, integer, keep, plain,
                       real, struct)
from ._plan_fields import fits, list_of, own_types, params_of, row_of, rows_of, taken
from .arrays import Address, StreamLike, address_of, stream_of
from .device import Device, View
from .errors import InvalidError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class PlanResult(NamedTuple):
    """What a run left: a record a group, and the plan's summary."""

    records: Tuple[_types.ClipRecord, ...]
    summary: _types.ClipSummary


class _Plan(Object):
    """What both kinds of plan share. `_stem` is that of the C functions."""

    _stem: str

    def _call(self, name: str, *arguments: Any) -> None:
        handle = self.handle
        keep(handle)
        check(getattr(c, self._stem + name)(handle.value, *arguments))

    def _made(self, device: Device, params: Any, keeps: Keeps) -> None:
        owner = device.handle
        create, destroy = getattr(c, self._stem + "create"), getattr(c, self._stem + "destroy")
        plan = checked(create(owner.value, byref(params)))
        self._handle = Handle(plan, destroy, owner, keeps)
        self._device_handle, self._ordinal = owner, device.info.ordinal
        self._reports_at = params.reports_at

    def run(self, stream: StreamLike = None) -> None:
        """All phases. Launches only: may be captured, and reads nothing back."""
        self._call("run", stream_of(stream))

    def norm_sq(self, stream: StreamLike = None) -> None:
        """The first phase: the sums of squares of this plan's tensors."""
        self._call("norm_sq", stream_of(stream))

    def finish(self, stream: StreamLike = None) -> None:
        """The second phase: records from the sums, and the update of the loss scale."""
        self._call("finish", stream_of(stream))

    @property
    def groups(self) -> int:
        """The number of norm groups: one record and one sum each."""
        return self._groups

    _groups: int
    _rows: Any

    def _row(self, k: int) -> Any:
        if not 0 <= k < len(self._rows):
            raise InvalidError(f"there is no tensor {k}; the plan has {len(self._rows)}")
        return self._rows[k]

    def _info(self, handle: Handle) -> Any:
        of = getattr(_c, self._stem + "info")
        return of.from_address(getattr(c, self._stem + "get_info")(handle.value))

    @property
    def sums(self) -> View:
        """The sums between norm_sq() and finish(): one f64 a group, to be added over ranks."""
        handle = self.handle
        return View(self._ordinal, self._info(handle).sums, self._groups, "f64", handle)

    @property
    def records(self) -> View:
        """The records in device memory: factor, norm, found_inf, max_norm of each group, as f32."""
        handle = self.handle
        return View(self._ordinal, self._info(handle).records, 4 * self._groups, "f32", handle)

    def read_guards(self, stream: StreamLike = None) -> _types.GuardState:
        """The head of the guards' state: the last run's `skipped` and norm, counts. Waits for the stream."""
        handle, made, on = self.handle, _c.ptx_guard_state(), stream_of(stream)
        keep(handle)
        at = self._info(handle).guard_state
        if not at:
            raise InvalidError("the plan has no guards: give them at creation")
        device = self._device_handle.value
        check(c.ptx_address_download(device, at, byref(made), ctypes.sizeof(made), on))
        check(c.ptx_stream_synchronize(device, on))
        found: _types.GuardState = plain(made)
        return found

    def _read_rows(self, at: int, cls: Any, what: str, stream: StreamLike) -> Tuple[Any, ...]:
        handle, rows, on = self.handle, (cls * len(self._rows))(), stream_of(stream)
        keep(handle)
        if not at:
            raise InvalidError(f"the plan has no {what}: give it at creation")
        device = self._device_handle.value
        if rows:
            check(c.ptx_address_download(device, at, byref(rows), ctypes.sizeof(rows), on))
        check(c.ptx_stream_synchronize(device, on))
        return tuple(plain(row) for row in rows)

    def read_reports(self, stream: StreamLike = None) -> Tuple[_types.GradientReport, ...]:
        """What the last run left at reports_at, one a tensor. Waits for the stream."""
        return self._read_rows(self._reports_at, _c.ptx_gradient_report, "reports_at", stream)

    def error_if_nonfinite(self, names: Optional[Sequence[Optional[str]]] = None, *,
                           stream: StreamLike = None) -> None:
        """Raises NonfiniteError if the last run found NaN or infinity. With reports_at it names the first tensor, by
        its number and its name, and the element. Waits for the stream."""
        table = None
        if names is not None:
            if len(list_of("names", names)) != len(self._rows):
                raise InvalidError(f"names: {len(names)} of them, and the plan has {len(self._rows)} tensors")
            table = (ctypes.c_char_p * len(names))(*[None if one is None else str(one).encode() for one in names])
        self._call("error_if_nonfinite", table, stream_of(stream))

    @property
    def summary(self) -> View:
        """The summary in device memory: found_inf and the loss scale of the run, the loss scale of
        the next, as f32; then its growth tracker, an s32."""
        handle = self.handle
        return View(self._ordinal, self._info(handle).summary, 4, "f32", handle)

    def read(self, stream: StreamLike = None) -> PlanResult:
        """The results of the last run on the stream. Waits for the stream."""
        handle, on = self.handle, stream_of(stream)
        records = (_c.ptx_clip_record * self._groups)()
        summary = _c.ptx_clip_summary()
        self._call("read", 0, self._groups, records, byref(summary), on)
        check(c.ptx_stream_synchronize(handle.keeps[0].value, on))  # type: ignore[attr-defined]
        return PlanResult(tuple(plain(record) for record in records), plain(summary))

    def _set_max_norm(self, max_norm: float, name: str, group: Optional[int], stream: StreamLike) -> None:
        which = _c.PTX_CLIP_ALL_GROUPS if group is None else integer(group, ctypes.c_uint32, name)
        self._call("set_max_norm", which, real(max_norm, ctypes.c_float, "max_norm"), stream_of(stream))

    def set_loss_scale(self, scale: float, growth_tracker: int = 0, *,
                       stream: StreamLike = None) -> None:
        """Changes the loss scale and its growth tracker for later runs and replays."""
        state = _c.ptx_loss_scale_state(real(scale, ctypes.c_float, "scale"),
                                        integer(growth_tracker, ctypes.c_int32, "growth_tracker"))
        self._call("set_loss_scale", state, stream_of(stream))


# ---- clip plans


class ClipPlan(_Plan):
    """Norms, unscaling, detection of NaN and infinity, clipping and the loss scale's update of a
    model's gradients, in two or three launches:

        plan = gpu.clip_plan(gradients, max_norm=1.0, eps=1e-6)
        plan.run(stream)                      # every step, also under capture

    `tensors`: arrays, or ClipTensor(data=..., group=..., ...) each; with an address for `data`, also
    count and dtype. `params`: the other fields of struct ptx_clip_params. The plan keeps the arrays
    alive. <ptxgen/clip.h> has every contract."""

    _stem = "ptx_clip_plan_"

    def __init__(self, device: Device, tensors: Sequence[Union[_types.ClipTensor, Address]],
                 **params: Unpack[_types.ClipParams]) -> None:
        keeps: Keeps = {}
        self._rows = rows_of(_c.ptx_clip_tensor, tensors, keeps)
        made = params_of(_c.ptx_clip_params, self._rows, params, "group_count", keeps)
        self._made(device, made, keeps)
        self._groups = _describe(_c.ptx_clip_description, c.ptx_clip_describe, made).groups
        self._keeps = keeps

    def set_max_norm(self, max_norm: float, *, group: Optional[int] = None,
                     stream: StreamLike = None) -> None:
        """Changes the max_norm of a group, or of all, for later runs and replays."""
        self._set_max_norm(max_norm, "group", group, stream)

    def apply(self, stream: StreamLike = None) -> None:
        """The last phase: the gradients are scaled."""
        self._call("apply", stream_of(stream))

    def set_data(self, arrays: Sequence[Address], *, first: int = 0, stream: StreamLike = None) -> None:
        """New addresses of tensors `first` and following, for later runs on the stream; sizes and
        types stay."""
        keeps: Keeps = {}
        table = (ctypes.c_uint64 * len(list_of("arrays", arrays)))()
        integer(first, ctypes.c_size_t, "first")
        for k, array in enumerate(arrays):
            info = address_of(array, f"arrays[{k}]")
            fits(self._row(first + k), "data", f"arrays[{k}], of tensor {first + k}", info)
            table[k] = info.address
            keeps[f"tensors[{first + k}].data"] = info.keep
        keep(keeps)
        self._call("set_data", integer(first, ctypes.c_size_t, "first"), len(arrays), table,
                   stream_of(stream))
        self._keeps.update(keeps)

    @property
    def chunk_count(self) -> int:
        """The number of chunks: see "Gradients beyond device memory" in docs/plans.md."""
        return int(self._info(self.handle).chunks)

    def pieces(self, chunk: int) -> List[_types.ClipPiece]:
        """The runs of elements that a chunk has."""
        handle, piece = self.handle, _c.ptx_clip_piece()
        found: List[_types.ClipPiece] = []
        which = integer(chunk, ctypes.c_uint64, "chunk")
        while c.ptx_clip_plan_piece(handle.value, which, len(found), byref(piece)):
            found.append(plain(piece))
        return found

    def norm_sq_chunks(self, first: int, count: int, stream: StreamLike = None) -> None:
        """norm_sq() of a window of chunks."""
        self._call("norm_sq_chunks", integer(first, ctypes.c_uint64, "first"),
                   integer(count, ctypes.c_uint64, "count"), stream_of(stream))

    def apply_chunks(self, first: int, count: int, stream: StreamLike = None) -> None:
        """apply() of a window of chunks."""
        self._call("apply_chunks", integer(first, ctypes.c_uint64, "first"),
                   integer(count, ctypes.c_uint64, "count"), stream_of(stream))


def describe_clip(tensors: Sequence[Union[_types.ClipTensor, Address]],
                  **params: Unpack[_types.ClipParams]) -> _types.ClipDescription:
    """What a clip plan would do, without a GPU. Addresses are not checked."""
    keeps: Keeps = {}
    rows = rows_of(_c.ptx_clip_tensor, tensors, keeps)
    made = params_of(_c.ptx_clip_params, rows, params, "group_count", keeps)
    described: _types.ClipDescription = plain(
        _describe(_c.ptx_clip_description, c.ptx_clip_describe, made))
    return described


def emit_clip(tensors: Sequence[Union[_types.ClipTensor, Address]], *, target: Optional[str] = None,
              **params: Unpack[_types.ClipParams]) -> str:
    """The text of a clip plan's kernels, without a GPU."""
    keeps: Keeps = {}
    rows = rows_of(_c.ptx_clip_tensor, tensors, keeps)
    made = params_of(_c.ptx_clip_params, rows, params, "group_count", keeps)
    return finish_text(lambda builder: check(c.ptx_clip_emit(builder, byref(made))), target)


def _describe(cls: Any, function: Any, params: Any) -> Any:
    description = cls()
    check(function(byref(params), byref(description)))
    return description


# ---- step plans


def _group(rule: _types.StepRuleName, flags: Mapping[str, bool], addresses: Mapping[str, Address],
           ema_decay: Optional[float], **hyper: float) -> _types.StepGroup:
    group: Dict[str, Any] = {"rule": rule, "hyper": hyper}
    if ema_decay is not None:
        hyper["ema_decay"] = ema_decay
    group.update({name: True for name, wanted in flags.items() if wanted})
    group.update({name: address for name, address in addresses.items() if address is not None})
    made: _types.StepGroup = group  # type: ignore[assignment]
    return made


def _two(betas: Any) -> Tuple[float, float]:
    try:
        beta1, beta2 = betas
    except (TypeError, ValueError):
        raise InvalidError(f"betas: two numbers are needed, not {betas!r:.80}") from None
    return beta1, beta2


def AdamW(*, lr: float, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
          weight_decay: float = 0.01, maximize: bool = False,
          ema_decay: Optional[float] = None, lr_at: Address = None, hyper_at: Address = None) -> _types.StepGroup:
    """A group of tensors that AdamW steps; the defaults are PyTorch's. `lr_at`, `hyper_at`: see
    struct ptx_step_group. `ema_decay`: of those of its tensors that have an `ema`."""
    beta1, beta2 = _two(betas)
    return _group("adamw", {"maximize": maximize}, {"lr_at": lr_at, "hyper_at": hyper_at}, ema_decay, lr=lr,
                  beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay)


def Adam(*, lr: float, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
         weight_decay: float = 0.0, maximize: bool = False,
         ema_decay: Optional[float] = None, lr_at: Address = None, hyper_at: Address = None) -> _types.StepGroup:
    """A group of tensors that Adam steps; the defaults are PyTorch's."""
    beta1, beta2 = _two(betas)
    return _group("adam", {"maximize": maximize}, {"lr_at": lr_at, "hyper_at": hyper_at}, ema_decay, lr=lr,
                  beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay)


def SGD(*, lr: float, momentum: float = 0.0, dampening: float = 0.0, nesterov: bool = False,
        weight_decay: float = 0.0, maximize: bool = False,
        ema_decay: Optional[float] = None, lr_at: Address = None, hyper_at: Address = None) -> _types.StepGroup:
    """A group of tensors that SGD steps; the defaults are PyTorch's."""
    return _group("sgd", {"maximize": maximize, "nesterov": nesterov},
                  {"lr_at": lr_at, "hyper_at": hyper_at}, ema_decay, lr=lr, momentum=momentum,
                  dampening=dampening, weight_decay=weight_decay)


def Lion(*, lr: float, betas: Tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0,
         maximize: bool = False,
         ema_decay: Optional[float] = None, lr_at: Address = None, hyper_at: Address = None) -> _types.StepGroup:
    """A group of tensors that Lion steps; the defaults are those of its authors."""
    beta1, beta2 = _two(betas)
    return _group("lion", {"maximize": maximize}, {"lr_at": lr_at, "hyper_at": hyper_at}, ema_decay, lr=lr,
                  beta1=beta1, beta2=beta2, weight_decay=weight_decay)


_SCALARS = frozenset(_c.ptx_step_hyper.kinds)
_GROUP_FIELDS = frozenset(_c.ptx_step_group.kinds)


def _value(x: Any) -> Any:
    """A field's value, to be compared: a struct's are those of its fields, since ctypes compares where structs are."""
    return tuple(getattr(x, field) for field in x.kinds) if isinstance(x, ctypes.Structure) else x


def _same_group(which: int, own: Any, other: Any) -> None:
    """A group may come with new scalars, and with nothing else that is new."""
    for field, kind in own.kinds.items():
        was, now = _value(getattr(own, field)), _value(getattr(other, field))
        if field == "hyper" or was == now:
            continue
        names = NAMES[kind] if kind in NAMES else {}
        given, kept = (names.get(x, (hex(x) if x else None) if kind == "address" else x)
                       for x in (now, was))
        raise InvalidError(f"{field}: {given}, and group {which} of the plan has {kept}: only scalars can "
                           "change; give the group as at creation, or the scalars alone")


class StepPlan(_Plan):
    """Norm, unscaling, clipping, the optimizer's step and the loss scale's update of a model, in
    three launches:

        plan = gpu.step_plan(
            [StepTensor(parameter=w, gradient=dw, state=(m, v), step=t)],
            groups=[AdamW(lr=3e-4, weight_decay=0.1)], max_norm=1.0)
        plan.run(stream)                      # every step, also under capture

    `tensors`: a StepTensor each, whose count and types need not be given with arrays. `params`: the
    other fields of struct ptx_step_params. The plan keeps the arrays alive. <ptxgen/step.h> has every
    contract, <ptxgen/rules.h> every formula."""

    _stem = "ptx_step_plan_"

    def __init__(self, device: Device, tensors: Sequence[_types.StepTensor],
                 **params: Unpack[_types.StepParams]) -> None:
        keeps: Keeps = {}
        self._own_types = own_types(params.get("groups"))
        self._rows = rows_of(_c.ptx_step_tensor, tensors, keeps, self._own_types)
        made = params_of(_c.ptx_step_params, self._rows, params, "norm_group_count", keeps)
        self._made(device, made, keeps)
        self._groups = _describe(_c.ptx_step_description, c.ptx_step_describe, made).norm_groups
        self._keeps = keeps
        self._weight_reports_at = made.weight_reports_at
        given = (_c.ptx_step_group * made.group_count).from_address(made.groups)
        self._hyper_groups = type(given).from_buffer_copy(given)

    def describe(self) -> _types.StepDescription:
        """What the plan does, as describe_step(), and what is known of its loaded kernels alone: registers and local
        memory of each thread, and a warning where these make steps slow."""
        made = _c.ptx_step_description()
        check(c.ptx_step_plan_describe(self.handle.value, byref(made)))
        described: _types.StepDescription = plain(made)
        return described

    def accumulate(self, stream: StreamLike = None) -> None:
        """Adds the gradients of a micro-batch to the accumulators; the last ones are run()'s to add."""
        self._call("accumulate", stream_of(stream))

    def reduce(self, stream: StreamLike = None) -> None:
        """Before step(), where a rule has sums: those of this plan's tensors, to be added over ranks. With rows of
        matrices it leaves X of them."""
        self._call("reduce", stream_of(stream))

    @property
    def rule_sums(self) -> View:
        """The sums between reduce() and step(): four f64 a tensor."""
        handle = self.handle
        at = self._info(handle).rule_sums
        if not at:
            raise InvalidError("no rule of the plan has sums")
        return View(self._ordinal, at, _c.PTX_RULE_MAX_SUMS * len(self._rows), "f64", handle)

    @property
    def matrix_sums(self) -> View:
        """The sums between norm_sq() and finish() of rows of matrices: three f64 a tensor."""
        handle = self.handle
        at = self._info(handle).matrix_sums
        if not at:
            raise InvalidError("no tensor of the plan has rows of a matrix")
        return View(self._ordinal, at, _c.PTX_MUON_SUMS * len(self._rows), "f64", handle)

    def cast(self, stream: StreamLike = None) -> None:
        """Makes the codes in blocks of all tensors that have them, of the weights as they are, without a step."""
        self._call("cast", stream_of(stream))

    def weights_changed(self, stream: StreamLike = None) -> None:
        """Takes the norms of the weights as they are, by which agc clips: before the first run, and after anything else
        has written weights."""
        self._call("weights_changed", stream_of(stream))

    def step(self, stream: StreamLike = None) -> None:
        """The last phase: parameters, states and step counts."""
        self._call("step", stream_of(stream))

    def read_weight_reports(self, stream: StreamLike = None) -> Tuple[_types.WeightReport, ...]:
        """What the last step left at weight_reports_at, one a tensor. Waits for the stream."""
        return self._read_rows(self._weight_reports_at, _c.ptx_weight_report, "weight_reports_at", stream)

    def set_max_norm(self, max_norm: float, *, norm_group: Optional[int] = None,
                     stream: StreamLike = None) -> None:
        """Changes the max_norm of a norm group, or of all, for later runs and replays."""
        self._set_max_norm(max_norm, "norm_group", norm_group, stream)

    def set_hyper(self, group: int, hyper: Union[_types.StepHyper, _types.StepGroup], *,
                  stream: StreamLike = None) -> None:
        """Changes a hyperparameter group's scalars for later runs and replays: those of a StepHyper, or
        of a group such as AdamW(lr=...), which must be as the plan's in all else. Scalars that are not
        named stay as they were last given."""
        which = integer(group, ctypes.c_uint32, "group")
        if which >= len(self._hyper_groups):
            raise InvalidError(f"group: there is no group {which}; the plan has {len(self._hyper_groups)}")
        if not isinstance(hyper, Mapping):
            raise InvalidError("hyper: a group such as AdamW(lr=...), or scalars such as {'lr': ...}, are "
                               f"needed, not {hyper!r:.80}")
        own, scalars = self._hyper_groups[which], hyper
        if not _GROUP_FIELDS.isdisjoint(hyper):
            _same_group(which, own, struct(_c.ptx_step_group, hyper, "", {}))
            scalars = hyper.get("hyper", {})  # type: ignore[assignment]
            if not isinstance(scalars, Mapping):
                scalars = dict(zip(_c.ptx_step_hyper.kinds, scalars))
        row = struct(_c.ptx_step_hyper, scalars, "hyper", {})
        for field in _SCALARS.difference(scalars):
            setattr(row, field, getattr(own.hyper, field))
        self._call("set_hyper", which, byref(row), stream_of(stream))
        own.hyper = row

    def set_addresses(self, tensors: Mapping[int, _types.StepTensor], *,
                      stream: StreamLike = None) -> None:
        """New addresses of tensors by index, for later runs on the stream: gradient (None or 0
        leaves the tensor out from then on), parameter, states and what lies beside them. Fields
        that are not named stay. All tensors are checked together."""
        keeps: Keeps = {}
        if not isinstance(tensors, Mapping):
            raise InvalidError("tensors: what changes by the index of each is needed, such as {0: "
                               f"{{'gradient': array}}}}, not {tensors!r:.80}")
        for k, changes in tensors.items():
            if not isinstance(k, int) or not isinstance(changes, Mapping):
                raise InvalidError(f"tensors[{k!r}]: an index, and the fields that change, such as "
                                   f"{{'gradient': array}}, are needed, not {changes!r:.80}")
        if not tensors:
            return
        first, last = min(tensors), max(tensors)
        self._row(first), self._row(last)
        rows = (_c.ptx_step_tensor * (last - first + 1))()
        ctypes.memmove(rows, ctypes.addressof(self._rows[first]), ctypes.sizeof(rows))
        for k, changes in tensors.items():
            what = f"tensors[{k}]"
            for field in changes:
                if _c.ptx_step_tensor.kinds.get(field) != "address" or field == "step":
                    raise InvalidError(f"{what}: {field} stays as it was at creation")
            fields: Dict[str, Any] = dict(changes)
            kept: Keeps = {}
            for field, where, info in taken(_c.ptx_step_tensor, fields, what, kept):
                fits(self._rows[k], field, where, info, self._own_types)
            moved = struct(_c.ptx_step_tensor, fields, what, keeps)
            keeps.update(kept)
            for field in changes:
                setattr(rows[k - first], field, getattr(moved, field))
        keep(keeps)
        self._call("set_addresses", first, len(rows), rows, stream_of(stream))
        ctypes.memmove(ctypes.addressof(self._rows[first]), rows, ctypes.sizeof(rows))
        self._keeps.update(keeps)

    def set_gradients(self, arrays: Sequence[Address], *, first: int = 0,
                      stream: StreamLike = None) -> None:
        """New gradients of tensors `first` and following, for later runs on the stream; None or 0
        leaves a tensor out from then on."""
        keeps: Keeps = {}
        table = (ctypes.c_uint64 * len(list_of("arrays", arrays)))()
        integer(first, ctypes.c_size_t, "first")
        for k, array in enumerate(arrays):
            if array is not None:
                info = address_of(array, f"arrays[{k}]")
                fits(self._row(first + k), "gradient", f"arrays[{k}], the gradient of tensor {first + k}",
                      info)
                table[k] = info.address
                keeps[f"tensors[{first + k}].gradient"] = info.keep
        keep(keeps)
        self._call("set_gradients", integer(first, ctypes.c_size_t, "first"), len(arrays), table,
                   stream_of(stream))
        for k, address in enumerate(table):
            self._rows[first + k].gradient = address
        self._keeps.update(keeps)


def describe_step(tensors: Sequence[_types.StepTensor],
                  **params: Unpack[_types.StepParams]) -> _types.StepDescription:
    """What a step plan would do, without a GPU. Addresses are not checked."""
    keeps: Keeps = {}
    rows = rows_of(_c.ptx_step_tensor, tensors, keeps, own_types(params.get("groups")))
    made = params_of(_c.ptx_step_params, rows, params, "norm_group_count", keeps)
    described: _types.StepDescription = plain(
        _describe(_c.ptx_step_description, c.ptx_step_describe, made))
    return described


def emit_step(tensors: Sequence[_types.StepTensor], *, target: Optional[str] = None,
              **params: Unpack[_types.StepParams]) -> str:
    """The text of a step plan's kernels, without a GPU."""
    keeps: Keeps = {}
    rows = rows_of(_c.ptx_step_tensor, tensors, keeps, own_types(params.get("groups")))
    made = params_of(_c.ptx_step_params, rows, params, "norm_group_count", keeps)
    return finish_text(lambda builder: check(c.ptx_step_emit(builder, byref(made))), target)


_Reports = TypeVar("_Reports", _types.GradientReport, _types.WeightReport)
_FOLDS = {_types.GradientReport: (_c.ptx_gradient_report, "ptx_gradient_reports_fold"),
          _types.WeightReport: (_c.ptx_weight_report, "ptx_weight_reports_fold")}


def fold_reports(ranks: Sequence[Sequence[_Reports]],
                 copies: Optional[Sequence[Sequence[bool]]] = None) -> Tuple[_Reports, ...]:
    """Reports of the whole tensors from those of each rank's parts, in the order of the ranks, as
    ptx_gradient_reports_fold() and ptx_weight_reports_fold(). `copies`: whether a rank has a copy of what another one
    has, for each of its tensors."""
    of = [list(list_of(f"ranks[{r}]", rows)) for r, rows in enumerate(list_of("ranks", ranks))]
    rows = [row for one in of for row in one]
    count = len(of[0]) if of else 0
    if any(len(one) != count for one in of):
        raise InvalidError("ranks: they have " + ", ".join(str(len(one)) for one in of) + " reports; each rank has one a "
                           "tensor")
    kinds = {type(row) for row in rows} or {_types.GradientReport}
    if len(kinds) != 1 or not kinds <= set(_FOLDS):
        raise InvalidError("ranks: what read_reports() or read_weight_reports() gives is needed, not "
                           f"{rows[0]!r:.80}")
    cls, name = _FOLDS[kinds.pop()]
    values: Any = [tuple(row) for row in rows]
    table, folded = (cls * len(rows))(*values), (cls * count)()
    flags = None
    if copies is not None:
        listed = [bool(flag) for one in list_of("copies", copies) for flag in one]
        if len(listed) != len(rows):
            raise InvalidError(f"copies: {len(listed)} values, and there are {len(rows)} reports")
        flags = (ctypes.c_bool * len(listed))(*listed)
    check(getattr(c, name)(table, flags, len(of), count, folded))
    return tuple(plain(row) for row in folded)

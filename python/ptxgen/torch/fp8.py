# SPDX-License-Identifier: MIT
"""Copies of the weights in floats of 8 bits, and their largest magnitudes, which the steps of an optimizer leave."""

from __future__ import annotations

import operator
import weakref
from typing import Any, Dict, Iterable, List, Literal, Mapping, NamedTuple, Optional, Sequence, get_args

import torch
from torch import Tensor

from ..operations import Operations
from . import _device, _ranks
from ._fp8_blocks import BlockTable, layout_of, why_not
from ._items import check_local, is_number
from ._shortcuts import local, part

Float8Format = Literal["e4m3", "e5m2"]
Float8BlockSize = Literal["128x128", "1x128"]
Float8Scaling = Literal["te", "te_ue8m0", "deepgemm", "deepgemm_ue8m0"]
_LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
_TYPES = {"e4m3": getattr(torch, "float8_e4m3fn", torch.uint8), "e5m2": getattr(torch, "float8_e5m2", torch.uint8)}
_EPS = 1e-12  # torchao's least magnitude


class Float8Weight(NamedTuple):
    """What the last step left of a parameter, on its device."""

    codes: Optional[Tensor]  #: this rank's part in float8, laid out as the parameter; None without copies
    scale_inv: Optional[Tensor]  #: an f32 that the codes are multiplied by; None without copies
    amax: Tensor  #: an f32, the largest magnitude in the whole parameter; NaN if an element is NaN
    transposed: Optional[Tensor] = None  #: the codes of the transposed matrix, contiguous; None if they are not wanted


class Float8Blocks(NamedTuple):
    """What the last step left of a matrix with blocks, on its device: this rank's part."""

    codes: Tensor  #: in float8, of the matrix's shape
    scale_inv: Tensor  #: an f32 for each block, by rows of blocks, that its codes are multiplied by
    transposed: Optional[Tensor] = None  #: the codes of the transposed matrix, contiguous; None if they are not wanted
    transposed_scale_inv: Optional[Tensor] = None  #: an f32 for each of their blocks


class _Table:
    """The parameters of one device: an element for each in every array."""

    def __init__(self, of: Float8Weights, parameters: List[Tensor], device: Any) -> None:
        n, f32 = len(parameters), {"dtype": torch.float32, "device": device.device}
        self.of, self.parameters, self.device = of, parameters, device
        self.at = {id(p): k for k, p in enumerate(parameters)}
        self.layouts = list(map(layout_of, parameters))
        self.amax = torch.zeros(n, **f32)
        self.whole = self.amax if of._group is None else torch.zeros(n, **f32)  # those of all ranks
        self.history, self.scale = torch.zeros((of.history, n), **f32), torch.ones(n, **f32)
        self.inverse, self.next = torch.ones(n, **f32), torch.ones(n, **f32)
        self.precomputed = torch.ones(n, **f32)
        self.codes = [torch.empty_like(local(p).detach(), dtype=torch.uint8) for p in parameters] if of.copies else []
        self.transposed = [torch.empty(p.T.shape, dtype=torch.uint8, device=device.device) if self._is_matrix(p) else None
                           for p in map(local, parameters)]
        self.operations = Operations(device.gpu)  # compiled at their first use

    def _is_matrix(self, here: Tensor) -> bool:
        """Whether its codes are transposed, too."""
        return self.of.transposed and here.dim() == 2 and here.is_contiguous()

    def fields(self, k: int) -> Dict[str, Any]:
        """Of a plan's tensor."""
        def at(values: Tensor) -> int:
            return int(values.data_ptr()) + k * values.element_size()

        made: Dict[str, Any] = {"amax": at(self.amax)}
        if self.codes:
            made.update(fp8=self.codes[k].data_ptr(), fp8_scale=at(self.scale), fp8_scale_inv=at(self.inverse),
                        fp8_format=self.of.format)
        matrix = self.transposed[k]
        if matrix is not None:
            made.update(fp8_transposed=matrix.data_ptr(), fp8_columns=matrix.shape[0])
        return made

    def measure(self) -> None:
        """The largest magnitudes of the weights as they are."""
        for k, p in enumerate(self.parameters):
            here = local(p).detach()
            self.amax[k] = here.abs().amax().to(torch.float32) if here.numel() else 0.0

    def cast(self) -> None:
        """Codes of the weights as they are, with the scale that there is."""
        stream = self.device.stream()
        for k, (p, codes) in enumerate(zip(self.parameters, self.codes)):
            here = local(p)
            if here.numel():
                self.operations.fp8_cast(
                    x=here.data_ptr(), y=codes.data_ptr(), count=here.numel(), dtype=_device.NAMES[here.dtype],
                    format=self.of.format, scale_at=self.scale.data_ptr() + 4 * k, stream=stream)
        self.device.done(stream)
        torch.reciprocal(self.scale, out=self.inverse)
        for codes, matrix in zip(self.codes, self.transposed):
            if matrix is not None:
                matrix.copy_(codes.T)

    def take(self, old: Sequence["_Table"], at: int) -> None:
        """What others of the same parameters have, of those from `at` on, and codes of them as they lie now."""
        for name in ("amax", "whole", "history", "scale", "next", "precomputed"):
            mine = getattr(self, name)
            mine.copy_(torch.cat([getattr(one, name).to(mine.device) for one in old], -1)[..., at:at + len(self.parameters)])
        self.cast()

    def follow(self, group: Optional[Any]) -> None:
        """What follows from the largest magnitudes: over ranks, the scales of the next step."""
        if group is not None:
            import torch.distributed as dist
            self.whole.copy_(self.amax)
            # As integers: magnitudes are in the same order, and NaN is the largest, which a MAX of floats may lose.
            dist.all_reduce(self.whole.view(torch.int32), op=dist.ReduceOp.MAX, group=group)
        if self.of.precomputes:
            self.precomputed.copy_(_LARGEST[self.of.format] / self.whole.clamp(min=_EPS).double())
        if not self.of.copies:
            return
        self.history[0].copy_(self.whole)
        stream = self.device.stream()
        self.operations.delayed_scale_update(
            rows=self.of.history, history=self.history, scale=self.scale, scale_inv=self.next, format=self.of.format,
            most_recent=self.of.most_recent, margin=self.of.margin, stream=stream)
        self.device.done(stream)


class Float8Weights:
    """What each step of an optimizer leaves of its weights beside them, from the step's own pass:

        fp8 = ptxgen.torch.Float8Weights("e4m3")
        optimizer = ptxgen.torch.AdamW(model.parameters(), lr=3e-4, fp8=fp8)
        fp8.cast()                            # before the first forward pass, and after loading
        ...
        optimizer.step()
        codes, scale_inv, amax, transposed = fp8[model.layer.weight]

    format: "e4m3" or "e5m2".
    parameters: those that have it; None, the default: all with two dimensions or more.
    copies: True: codes by delayed scaling, as Transformer Engine's: the scale of a step follows from the largest
        magnitudes of `history` steps before it (`most_recent`: of the last one), at `margin` powers of two below the
        largest code. False: the largest magnitudes alone.
    transposed: also the codes of each transposed matrix, for products that take their operands so.
    blocks: "128x128" or "1x128": codes of matrices with a scale for each block of the weights as they are stored, as
        DeepSeek's, in place of delayed scaling; blocks_of(weight) has them. The default of `parameters` is then all
        matrices that are contiguous. No largest magnitudes are kept. Blocks are those of this rank's part of a
        parameter: the same as of the whole one where it is cut at multiples of 128 rows.
    scaling: with blocks, how a scale follows from the block's largest magnitude: "te" (Transformer Engine with scales
        that are no powers of two), "te_ue8m0" (its default, powers of two), "deepgemm", "deepgemm_ue8m0". The byte of
        a power of two is scale_inv.view(torch.int32) >> 23. docs/steps.md has the formulas.

    One object is for one optimizer. Nothing waits for the GPU. A parameter that is frozen later (requires_grad) stays.
    Over ranks the largest magnitudes are those of whole parameters, by one all-reduce of all: every rank calls step()
    and cast(). state_dict() of the optimizer has the scales and their history."""

    placings = 0  # how often the tables became others, or are to become others: plans are for those of one placing
    _frozen: Sequence[Tensor] = ()  # what has something without tables, and is frozen: in a copy, in what was loaded
    _placed: Optional[Sequence[Tensor]] = None  # all of the optimizer's when place() looked

    def __init__(self, format: Float8Format = "e4m3", *, parameters: Optional[Iterable[Tensor]] = None, copies: bool = True,
                 transposed: bool = False, history: int = 16, margin: int = 0, most_recent: bool = False,
                 blocks: Optional[Float8BlockSize] = None, scaling: Float8Scaling = "te") -> None:
        if format not in _LARGEST:
            raise ValueError(f"format: {format!r} is none of {', '.join(_LARGEST)}")
        if blocks is not None and blocks not in get_args(Float8BlockSize):
            raise ValueError(f"blocks: {blocks!r} is none of {', '.join(get_args(Float8BlockSize))}, and not None")
        if scaling not in get_args(Float8Scaling):
            raise ValueError(f"scaling: {scaling!r} is none of {', '.join(get_args(Float8Scaling))}")
        if blocks is None and scaling != "te":
            raise ValueError(f"scaling={scaling!r} without blocks: the scale of a whole tensor follows from `history`")
        if blocks is not None and (history, margin, most_recent, copies) != (16, 0, False, True):
            raise ValueError("history, margin, most_recent and copies=False are of one scale a tensor: leave them out "
                             "with blocks")
        self.blocks, self.scaling = blocks, scaling
        if isinstance(parameters, Tensor):
            raise TypeError("parameters: an iterable of tensors is needed, not a tensor")
        for name, value, least, most in (("history", history, 1, 1 << 20), ("margin", margin, -100, 100)):
            if not hasattr(value, "__index__") or not least <= operator.index(value) <= most:
                raise ValueError(f"{name}: {value!r} is not an integer from {least} to {most}")
        self.format, self.copies, self.most_recent = format, bool(copies), bool(most_recent)
        if transposed and not copies:
            raise ValueError("transposed=True with copies=False: there are no codes to transpose")
        self.transposed = bool(transposed)
        self.history, self.margin = operator.index(history), operator.index(margin)
        self._chosen = None if parameters is None else list(parameters)
        for k, p in enumerate(self._chosen or ()):
            if not isinstance(p, Tensor):
                raise TypeError(f"parameters: an iterable of tensors is needed: number {k} of these is {p!r:.80}")
        self.precomputes = False
        self._owner: Any = None  # a weak reference to the optimizer
        self._group: Optional[Any] = None
        self._tables: Dict[torch.device, _Table] = {}
        self._block_tables: Dict[torch.device, BlockTable] = {}
        self._views: List[Tensor] = []  # parameters whose precomputed scale is a view
        self._loaded: Optional[Dict[str, Tensor]] = None

    # ---- whose it is

    @property
    def owner(self) -> Any:
        """The optimizer that it is of; None: no one's yet."""
        return None if self._owner is None else self._owner()

    def bind(self, owner: Any) -> None:
        now = self.owner
        if now is not None and now is not owner:
            raise ValueError("fp8: this Float8Weights is another optimizer's: make one for each")
        self._owner = weakref.ref(owner)

    def _optimizer(self) -> Any:
        owner = self.owner
        if owner is None:
            raise RuntimeError("this Float8Weights is no optimizer's yet: make one with fp8=" if self._owner is None else
                               "the optimizer of this Float8Weights is gone: keep it, or make one with fp8=")
        return owner

    @staticmethod
    def _every(owner: Any) -> List[Tensor]:
        return [p for group in owner.param_groups for p in group["params"]]

    def _parameters(self, owner: Any) -> List[Tensor]:
        """Those of the optimizer that it has something of."""
        known = set(map(id, self._every(owner)))
        for k, p in enumerate(self._chosen or ()):
            if id(p) not in known:
                raise ValueError(f"parameters[{k}] of Float8Weights, of shape {tuple(p.shape)}, is none of the "
                                 "optimizer's")
            if self.blocks is not None and why_not(p) is not None:
                raise ValueError(f"parameters[{k}] of Float8Weights, of shape {tuple(p.shape)}: {why_not(p)}: leave it out")
        return self._wanted(owner)

    def _wanted(self, owner: Any) -> List[Tensor]:
        """_parameters(), with no look at those that were chosen. What has become frozen stays."""
        every = self._every(owner)
        rows = {id(p) for ps in (*(table.parameters for table in self.tables()), self._frozen) for p in ps}
        chosen = None if self._chosen is None else set(map(id, self._chosen))
        asked = [p for p in every if p.requires_grad or id(p) in rows]
        if self.blocks is not None and chosen is None:
            return [p for p in asked if why_not(p) is None]
        return [p for p in asked if (p.dim() >= 2 if chosen is None else id(p) in chosen)]

    def tables(self) -> List[Any]:
        return [*self._tables.values(), *self._block_tables.values()]

    # ---- what plans are given

    def place(self, owner: Any) -> bool:
        """Tables for the parameters of now. Whether they are those of other parameters, with what follows from the weights
        as they are: all ranks make these at once. Other layouts may be one rank's alone."""
        wanted = self._parameters(owner)
        if self._loaded is not None and self._loaded["scale"].numel() != len(wanted):
            self._loaded = None  # parameters have come since, or gone
        every, same = self._every(owner), self._placed is not None and self._are_of(wanted)
        if self._loaded is None and same and self._is_laid_out():
            self._placed = every
            return False
        for p in wanted:
            check_local(local(p), type(owner).__name__, f"fp8: a parameter of shape {tuple(p.shape)}")
        if self.blocks is not None:
            with torch.inference_mode(False):
                made = {place: BlockTable(self, mine, _device.of(place)) for place, mine in self._by_device(wanted).items()}
            self.placings, self._frozen, self._placed, self._block_tables = self.placings + 1, (), every, made
            self._refresh()
            return True
        if self._loaded is None and same:
            with torch.inference_mode(False), torch.no_grad():
                tables = {place: _Table(self, mine, _device.of(place)) for place, mine in self._by_device(wanted).items()}
                before, at = list(self._tables.values()), 0
                for table in tables.values():
                    table.take(before, at)
                    at += len(table.parameters)
            self.placings, self._placed, self._tables = self.placings + 1, every, tables
            self._set_views()
            return False
        self._group = _ranks.reduction(wanted, owner.process_group).group
        self._check_ranks(len(wanted), local(every[0]).device if every else torch.device("cpu"))
        loaded, self._loaded = self._loaded, None
        with torch.inference_mode(False):
            self._tables = {place: _Table(self, mine, _device.of(place)) for place, mine in self._by_device(wanted).items()}
        self.placings, self._frozen, self._placed = self.placings + 1, (), every
        self._refresh(loaded)
        self._set_views()
        return True

    def _check_ranks(self, count: int, device: torch.device) -> None:
        """Whether the ranks have parts of the same parameters, whose largest magnitudes they share."""
        if self._group is None:
            return
        import torch.distributed as dist
        counts = torch.tensor([count, -count], device=device)
        dist.all_reduce(counts, op=dist.ReduceOp.MAX, group=self._group)
        most, least = int(counts[0]), -int(counts[1])
        if most != least:
            raise ValueError(f"fp8: a rank has {most} parameters with copies, and another one {least}: the ranks of a "
                             "process_group share the largest magnitudes of the same parameters, of which each has a part")

    def _are_of(self, wanted: Sequence[Tensor]) -> bool:
        """Whether the tables are those of the parameters that are wanted now."""
        return [id(p) for table in self.tables() for p in table.parameters] == list(map(id, self._ordered(wanted)))

    def _is_laid_out(self) -> bool:
        """Whether the parameters have the shapes, strides and types that the tables are made for."""
        return all(layout_of(p) == one for table in self.tables() for p, one in zip(table.parameters, table.layouts))

    def _fit(self, owner: Any) -> bool:
        """Whether there are tables that go on. Those of parameters that are trained from now on come with their first
        gradients."""
        return bool(self._tables) and (owner is None or self._are_of(self._wanted(owner))
                                       or self._placed is not None
                                       and list(map(id, self._every(owner))) == list(map(id, self._placed)))

    @staticmethod
    def _by_device(parameters: Sequence[Tensor]) -> Dict[torch.device, List[Tensor]]:
        found: Dict[torch.device, List[Tensor]] = {}
        for p in parameters:
            found.setdefault(local(p).device, []).append(p)
        return found

    @staticmethod
    def _ordered(parameters: Sequence[Tensor]) -> List[Tensor]:
        """By device, in the order of the first on each."""
        devices = list(dict.fromkeys(local(p).device for p in parameters))
        return [p for device in devices for p in parameters if local(p).device == device]

    def _refresh(self, loaded: Optional[Mapping[str, Tensor]] = None) -> None:
        with torch.no_grad():
            for table in self._tables.values():
                table.measure()
                table.follow(self._group)
            if loaded is not None:
                self._take(loaded)
            for table in self._tables.values():
                table.cast()
            for of_blocks in self._block_tables.values():
                of_blocks.cast()

    def fields(self, parameter: Tensor, is_cut: bool = False) -> Dict[str, Any]:
        """Of the parameter's tensor in a plan, or of one that is several there."""
        table: Any = (self._tables if self.blocks is None else self._block_tables).get(local(parameter).device)
        k = None if table is None or not local(parameter).numel() else table.at.get(id(parameter))
        if table is None or k is None:
            return {}
        return table.fields(k) if self.blocks is None else table.fields(k, is_cut)  # type: ignore[no-any-return]

    def count_empty(self, parameter: Tensor, taken: Tensor) -> None:
        """A step that other ranks take of a parameter of which this one has nothing: it has the scale, too."""
        table = self._tables.get(local(parameter).device)
        k = None if table is None else table.at.get(id(parameter))
        if table is not None and k is not None:
            table.inverse[k] = torch.where(taken != 0, table.next[k], table.inverse[k])

    def follow(self) -> None:
        """After a step: what follows from the largest magnitudes that it left, and codes that it could not make."""
        with torch.no_grad():
            for table in self._tables.values():
                table.follow(self._group)
            for of_blocks in self._block_tables.values():
                of_blocks.follow()

    # ---- what users call

    def cast(self) -> None:
        """Makes scales and codes of the weights as they are: before the first forward pass, and after weights were
        loaded. The first step does so itself. All ranks call it."""
        owner = self._optimizer()
        owner._check_averages("fp8.cast()")
        if not self.place(owner):
            self._refresh()

    @property
    def parameters(self) -> List[Tensor]:
        """Those that have something here, by device, in the optimizer's order."""
        return self._ordered(self._parameters(self._optimizer()))

    def blocks_of(self, parameter: Tensor) -> Float8Blocks:
        """Of a matrix, with blocks."""
        table = self._block_tables.get(local(parameter).device)
        k = None if table is None else table.at.get(id(parameter))
        if table is None or k is None:
            raise KeyError("the parameter has no codes in blocks: " + (
                "Float8Weights has no blocks=" if self.blocks is None else why_not(parameter) or
                "it is none of the optimizer's matrices, or not among Float8Weights' `parameters`, or came or was frozen "
                "before cast() or a step" if self._block_tables else "there are none before the first step or cast()"))
        made = _TYPES[self.format]
        if not table.transposed:
            return Float8Blocks(table.codes[k].view(made), table.inverses[k])
        return Float8Blocks(table.codes[k].view(made), table.inverses[k], table.transposed[k].view(made),
                            table.transposed_inverses[k])

    def __getitem__(self, parameter: Tensor) -> Float8Weight:
        if self.blocks is not None:
            raise KeyError("with blocks, blocks_of(parameter) has the codes and their scales")
        for table in self._tables.values():
            k = table.at.get(id(parameter))
            if k is None:
                continue
            if not table.codes:
                return Float8Weight(None, None, table.whole[k])
            matrix = table.transposed[k]
            return Float8Weight(table.codes[k].view(_TYPES[self.format]), table.inverse[k], table.whole[k],
                                None if matrix is None else matrix.view(_TYPES[self.format]))
        raise KeyError("the parameter has no copy: it is none of the optimizer's, or not among Float8Weights' `parameters`, "
                       "or was frozen before the first cast() or step, or came after the last one" if self._tables else "there are no copies before the first step or cast()")

    def precompute(self, model: torch.nn.Module) -> int:
        """For torchao's float8 training under FSDP2, in place of precompute_float8_dynamic_scale_for_fsdp(): sets
        _precomputed_scale of the model's weights to views of one tensor, which each step fills. Returns how many there
        are. Call it once, outside of a capture. All ranks call it."""
        if self.blocks is not None:
            raise ValueError("precompute() takes the largest magnitudes, which are not kept with blocks")
        own = set(map(id, self._parameters(self._optimizer())))
        weights: List[Tensor] = [p for p in model.parameters() if hasattr(part(p), "_precomputed_scale")]
        for p in weights:
            if id(p) not in own:
                raise ValueError(f"a weight of shape {tuple(p.shape)} has a _precomputed_scale, and is none of those "
                                 "that Float8Weights has: give the optimizer all of the model's parameters")
        self.precomputes, self._views = True, weights
        self.cast()
        self._set_views()
        return len(weights)

    def _set_views(self) -> None:
        for p in self._views:
            table = self._tables[local(p).device]
            part(p)._precomputed_scale = table.precomputed[table.at[id(p)]]

    # ---- states

    def state_dict(self) -> Dict[str, Tensor]:
        """Scales and histories, for checkpoints: equal on all ranks."""
        owner, loaded = self.owner, self._loaded
        if loaded is not None and (owner is None or loaded["scale"].numel() == len(self._wanted(owner))):
            return dict(loaded)
        if not self.copies or not self._fit(owner):
            return {}  # there are none, or the next step begins histories anew
        return self._scales()

    def _scales(self) -> Dict[str, Tensor]:
        tables = list(self._tables.values())
        first = tables[0].scale.device
        return self._state(torch.cat([table.scale.to(first) for table in tables]),
                           torch.cat([table.history.to(first) for table in tables], dim=1))

    def _state(self, scale: Tensor, history: Tensor) -> Dict[str, Tensor]:
        return {"scale": scale, "history": history, "largest": torch.tensor(_LARGEST[self.format])}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes a state_dict() of the same parameters, of the same format and with a history of the same length."""
        given = {name: state_dict.get(name) for name in ("scale", "history")} if isinstance(state_dict, Mapping) else {}
        if isinstance(state_dict, Mapping) and not state_dict:
            return
        if self.blocks is not None:
            raise ValueError("fp8: the state is of delayed scaling, and with blocks there is none")
        if (not all(isinstance(one, Tensor) and one.dtype is torch.float32 for one in given.values()) or not given
                or not is_number(state_dict.get("largest", 0))):
            raise ValueError(f"fp8: what state_dict() of Float8Weights gives is needed, not {state_dict!r:.80}")
        scale, history = given["scale"].detach(), given["history"].detach()  # type: ignore[union-attr]
        if "largest" not in state_dict and not bool(history.any()):
            return  # of copies=False: versions before had a state of it, with scales of 1
        if not self.copies:
            raise ValueError("fp8: the state is of delayed scaling, and with copies=False there is none: load the dict "
                             "without 'fp8'")
        formats = [name for name, largest in _LARGEST.items() if largest == float(state_dict.get("largest", 0))]
        if formats not in ([], [self.format]):
            raise ValueError(f"fp8: the state has scales of {formats[0]}, and this is {self.format}, whose largest code is "
                             "another: begin anew, without 'fp8' in the dict")
        if history.shape != (self.history, scale.numel()):
            raise ValueError(f"fp8: the state has a history of {len(history)} steps, and this has {self.history}"
                             if history.dim() == 2 and history.shape[1] == scale.numel() else
                             f"fp8: the state has {scale.numel()} scales and a history of {tuple(history.shape)}")
        if not bool(((scale > 0) & scale.isfinite()).all()):
            raise ValueError("fp8: a scale of the state is 0, negative or not finite")
        if bool((history < 0).any()):
            raise ValueError("fp8: a magnitude in the history of the state is negative")
        owner = self.owner
        if not self._fit(owner) or scale.numel() != sum(len(table.parameters) for table in self.tables()):
            if owner is not None:
                self._check_count(owner, scale.numel())
            self._loaded = self._state(scale.clone(), history.clone())
            self.placings += 1
            return
        self._loaded = None
        with torch.no_grad():
            self._take({"scale": scale, "history": history})
            if not self._is_laid_out():
                self.placings += 1  # place() makes codes of other layouts
                return
            for table in self._tables.values():
                table.cast()

    def _check_count(self, owner: Any, count: int) -> None:
        """Whether a state has as many parameters as this, or as this had before some were frozen."""
        wanted = len(self._parameters(owner))
        if count == wanted:
            return
        before, self._frozen = self._frozen, [p for p in self._every(owner) if not p.requires_grad]
        if count != len(self._wanted(owner)):
            self._frozen = before
            raise ValueError(f"fp8: the state has {count} parameters, and this has {wanted}")

    def _take(self, state: Mapping[str, Tensor]) -> None:
        at = 0
        for table in self._tables.values():
            n = len(table.parameters)
            table.scale.copy_(state["scale"][at:at + n])
            table.history.copy_(state["history"][:, at:at + n])
            torch.reciprocal(table.scale, out=table.next)
            at += n

    def __getstate__(self) -> Dict[str, Any]:
        loaded = {name: value.cpu() for name, value in self.state_dict().items()} or None
        owner = self.owner
        frozen = self._frozen if owner is None else [p for p in self._wanted(owner) if not p.requires_grad]
        return {**self.__dict__, "_owner": None, "_group": None, "_tables": {}, "_block_tables": {}, "_views": [],
                "_loaded": loaded, "_frozen": frozen, "_placed": None}

    def __repr__(self) -> str:
        if self.blocks is not None:
            return (f"Float8Weights({self.format!r}, blocks={self.blocks!r}, scaling={self.scaling!r}, "
                    f"transposed={self.transposed})")
        return (f"Float8Weights({self.format!r}, copies={self.copies}, history={self.history}, margin={self.margin}, "
                f"most_recent={self.most_recent})")


def check(given: Any) -> None:
    """Whether an argument is Float8Weights, or None."""
    if given is not None and not isinstance(given, Float8Weights):
        raise TypeError(f"fp8: ptxgen.torch.Float8Weights(...) is needed, or None, not {given!r:.80}")

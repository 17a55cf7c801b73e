# SPDX-License-Identifier: MIT
"""QK-clip: rows or columns of parameters that each step multiplies by factors on the device."""

from __future__ import annotations

import operator
from bisect import bisect_left
from itertools import groupby
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._exchange import rows_of
from ._shortcuts import local

_NONE = -1  # no factor


class QKClip:
    """Factors of a parameter's rows, or columns, which each step of an optimizer multiplies its new weights by:

        factors = torch.ones(heads, device="cuda")
        optimizer = ptxgen.torch.Muon(params, qk_clip=[ptxgen.torch.QKClip(attention.q_proj.weight, factors)])
        ...
        factors.copy_((tau / largest_logits).clamp_(max=1).sqrt_())   # before each step, on the device
        optimizer.step()

    parameter: one with two dimensions. factors: f32, on its device, contiguous; its elements are read by each step,
    and by each replay of a graph. ranges: a MatrixRange(first, run, stride, columns) for each factor; None: the rows
    are as many equal parts as there are factors, with columns=True its columns, as GPT-2's Conv1D has heads.

    The weights that are multiplied are those of the master where there is one; what follows them, such as averages,
    codes and reports, follows the product. Skipped steps, and those in which the parameter has no gradient, leave them.
    A parameter over ranks (Shard(0)) has ranges of all its rows, and every rank the same factors."""

    def __init__(self, parameter: Tensor, factors: Tensor, ranges: Optional[Sequence[Any]] = None, *,
                 columns: bool = False) -> None:
        if not isinstance(parameter, Tensor):
            raise TypeError(f"qk_clip: a parameter is needed, not {parameter!r:.80}")
        shape = tuple(parameter.shape)
        if len(shape) != 2:
            raise ValueError(f"qk_clip: a parameter of shape {shape} has no two dimensions, whose rows or columns could have "
                             "factors")
        _check_factors(factors)
        if columns not in (True, False):
            raise ValueError(f"qk_clip: columns: {columns!r} is neither True nor False")
        self.parameter, self.factors, self._count = parameter, factors, factors.numel()
        self.columns = bool(columns)
        if ranges is None:
            found = _equal(factors.numel(), shape[1] if columns else shape[0], self.columns)
        else:
            found = [_range(k, one, self.columns) for k, one in enumerate(ranges)]
            if len(found) != factors.numel():
                raise _not_each(len(found), factors)
            self.columns = found[0][3]
        self._shape, self._factor_of = shape, _lines(found, shape, self.columns)

    def check(self, params: Sequence[Tensor]) -> None:
        """Whether an optimizer of these has it."""
        if not any(one is self.parameter for one in params):
            raise ValueError(f"qk_clip: a parameter of shape {tuple(self.parameter.shape)} is none of the optimizer's")

    def check_memory(self) -> None:
        """Whether factors that may have other memory now are such as they were."""
        _check_factors(self.factors)
        if self.factors.numel() != self._count:
            raise _not_each(self._count, self.factors)
        if not self.factors.data_ptr():
            raise ValueError(f"qk_clip: the factors of a parameter of shape {self._shape} have no memory: their storage was freed, "
                             "or they are a DTensor or on the meta device")

    def entries(self, item: Any, tensor: int, rows: List[Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
        """What qk_clips of a plan have of the item, whose tensors are `rows`, the first of them number `tensor`. Sets
        the columns of the first where the item is not in pieces."""
        here = item.local
        if not here.numel():
            return
        if tuple(item.parameter.shape) != self._shape:
            raise ValueError(f"{item.what} is of shape {tuple(item.parameter.shape)}, and its factors of qk_clip are for "
                             f"{self._shape}: make the optimizer anew, with a QKClip of it as it is")
        if not here.is_contiguous():
            raise ValueError(f"{item.what} of shape {tuple(item.parameter.shape)} has factors of qk_clip, and does not lie "
                             f"row by row in memory: its strides are {here.stride()}. Give it contiguous memory")
        if self.factors.device != here.device:
            raise ValueError(f"{item.what} is on {here.device}, and its factors of qk_clip on {self.factors.device}: they "
                             "must be on one device")
        begin, width = _first_row(item), int(here.shape[1])
        if item.pieces is None:
            rows[0]["columns"] = width
        for m, row in enumerate(rows):
            if not row["count"]:
                continue
            piece = None if item.pieces is None else item.pieces[m]
            for first, run, factor in self._runs(row, 0 if piece is None else piece.first, begin, width):
                yield {"tensor": tensor + m, "range": (first, run, 0, self.columns),
                       "factor_at": self.factors.data_ptr() + 4 * factor}

    def _runs(self, row: Dict[str, Any], first: int, begin: int, width: int) -> Iterator[Tuple[int, int, int]]:
        """Runs of lines of a plan's tensor that have a factor: the first, how many, and which. The tensor begins at
        element `first` of what is here of the parameter, whose row `begin` that is."""
        columns = int(row["columns"])
        run, stride = row.get("spread", (0, 0))
        lines = columns if self.columns else row["count"] // columns
        at = 0
        for factor, same in groupby(self._line_of(k if self.columns else k * columns, first, run, stride, begin, width)
                                    for k in range(lines)):
            length = sum(1 for _ in same)
            if factor != _NONE:
                yield at, length, factor
            at += length

    def _line_of(self, i: int, first: int, run: int, stride: int, begin: int, width: int) -> int:
        """The factor of element i of such a tensor."""
        place = first + (i // run * stride + i % run if run else i)
        return self._factor_of[place % width if self.columns else begin + place // width]


def check(given: Any) -> Tuple[QKClip, ...]:
    """The argument of an optimizer."""
    if given is None:
        return ()
    found = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for one in found:
        if not isinstance(one, QKClip):
            raise ValueError(f"qk_clip: ptxgen.torch.QKClip(parameter, factors) are needed, not {one!r:.80}")
    seen = [id(one.parameter) for one in found]
    if len(set(seen)) != len(seen):
        raise ValueError("qk_clip: two of them are of one parameter: give one QKClip with all ranges and factors")
    return found


def places(clips: Any) -> Any:
    """Where factors are, and what they are there, of what check() gives. Of other things, and of none, None."""
    if not isinstance(clips, tuple) or not clips:
        return None
    try:
        return [(f.data_ptr(), f.dtype, f.numel(), f.device, f.is_contiguous()) for f in [one.factors for one in clips]]
    except (AttributeError, RuntimeError):
        return None  # no tensors with memory, which check_memory() refuses


def check_apart(clips: Sequence[QKClip], items: Sequence[Any]) -> None:
    """Whether factors share no memory with parameters and states, which are known to be apart."""
    if not clips:
        return
    written = sorted(_span(one, f"{name and name + ' of '}{item.what}") for item in items for name, one in
                     [("", item.local), *((name, local(item.states[name])) for name in item.stored()[1:])] if one.numel())
    begins = [one[:2] for one in written]
    for clip in clips:
        clip.check_memory()
        device, begin, end, what = _span(clip.factors, f"a parameter of shape {tuple(clip.parameter.shape)}")
        k = bisect_left(begins, (device, end))
        if k and written[k - 1][0] == device and written[k - 1][2] > begin:
            raise ValueError(f"qk_clip: the factors of {what} and {written[k - 1][3]} share memory: give the factors memory of "
                             "their own, such as a clone()")


def _span(tensor: Tensor, what: str) -> Tuple[str, int, int, str]:
    at = tensor.data_ptr()
    return str(tensor.device), at, at + tensor.numel() * tensor.element_size(), what


def entries_of(clips: Sequence[QKClip], items: Sequence[Any], rows: List[Dict[str, Any]],
               starts: Optional[List[int]]) -> List[Dict[str, Any]]:
    """qk_clips of a plan: of the items that have factors. `starts`: the first row of each; None: each has one."""
    by_parameter = {id(one.parameter): one for one in clips}
    made: List[Dict[str, Any]] = []
    for k, item in enumerate(items):
        one = by_parameter.get(id(item.parameter))
        if one is not None:
            first = k if starts is None else starts[k]
            count = 1 if item.pieces is None else len(item.pieces)
            made += one.entries(item, first, rows[first:first + count])
    return made


def _first_row(item: Any) -> int:
    """Which row of the parameter is the first one here."""
    try:
        over = rows_of(item.parameter, item.what)
    except ValueError:
        raise ValueError(f"{item.what} of shape {tuple(item.parameter.shape)} is placed as {item.parameter.placements}: one "
                         "with factors of qk_clip may lie in rows, Shard(0), along one dimension of its mesh, and whole along "
                         "the others") from None
    return 0 if over is None else over.spans[over.rank][0]


def _check_factors(factors: Any) -> None:
    if (not isinstance(factors, Tensor) or factors.dtype is not torch.float32 or not factors.is_contiguous()
            or not factors.numel()):
        raise ValueError(f"qk_clip: a contiguous tensor of float32 is needed for factors, not {_described(factors)}")


def _not_each(ranges: int, factors: Tensor) -> ValueError:
    return ValueError(f"qk_clip: {ranges} ranges, and {factors.numel()} factors: give one for each")


def _described(factors: Any) -> str:
    if not isinstance(factors, Tensor):
        return f"{factors!r:.80}"
    return f"one of {factors.dtype}, shape {tuple(factors.shape)} and strides {factors.stride()}"


_Range = Tuple[int, int, int, bool]


def _equal(count: int, lines: int, columns: bool) -> List[_Range]:
    if lines % count:
        raise ValueError(f"qk_clip: {lines} {'columns' if columns else 'rows'} are not {count} equal parts, one for each factor: "
                         "give ranges")
    each = lines // count
    return [(k * each, each, 0, columns) for k in range(count)]


def _range(k: int, given: Any, columns: bool) -> _Range:
    try:
        first, run, *more = given
        numbers = [operator.index(one) for one in (first, run, *more[:1])]
        of_columns = bool(more[1]) if len(more) > 1 else columns
        if len(more) > 2 or min(numbers) < 0 or max(numbers) >= 1 << 63:
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(f"qk_clip: {given!r:.80}, range {k}, is no range: MatrixRange(first, run) is needed") from None
    if columns and not of_columns:
        raise ValueError(f"qk_clip: columns=True, and {given!r:.80}, range {k}, is of rows: give it columns=True, too")
    return numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0, of_columns


def _lines(ranges: Sequence[_Range], shape: Tuple[int, ...], columns: bool) -> List[int]:
    """Which factor each row or column has."""
    lines, kind = (shape[1], "columns") if columns else (shape[0], "rows")
    found = [_NONE] * lines
    for k, (first, run, stride, of_columns) in enumerate(ranges):
        if of_columns is not columns:
            raise ValueError(f"qk_clip: range {k} is of {'columns' if of_columns else 'rows'}, and range 0 of {kind}: they overlap")
        if not run or first + run > lines:
            raise ValueError(f"qk_clip: range {k}, first {first} and run {run}, is not within the {lines} {kind}")
        if stride and stride < first + run:
            raise ValueError(f"qk_clip: range {k} has a stride of {stride}, below first + run, {first + run}")
        for at in range(first, lines - run + 1, stride or lines):
            for line in range(at, at + run):
                if found[line] != _NONE:
                    raise ValueError(f"qk_clip: ranges {found[line]} and {k} overlap: both have {kind[:-1]} {line}")
                found[line] = k
    return found

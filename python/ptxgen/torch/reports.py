# SPDX-License-Identifier: MIT
"""What an optimizer says of each gradient and of each parameter, on the device."""

from __future__ import annotations

import ctypes
from collections import Counter
from itertools import accumulate
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _c
from ._places import listed

# Of each column its struct, its field there, and its type.
_GRADIENT, _WEIGHT = _c.ptx_gradient_report, _c.ptx_weight_report
_COLUMNS = {
    "norm": (_GRADIENT, "norm", torch.float64),
    "largest": (_GRADIENT, "largest", torch.float32),
    "absent": (_GRADIENT, "absent", torch.int32),
    "zeros": (_GRADIENT, "zeros", torch.int64),
    "first_nonfinite": (_GRADIENT, "first_nonfinite", torch.int64),
    "weight_norm": (_WEIGHT, "norm", torch.float64),
    "change_norm": (_WEIGHT, "change", torch.float64),
    "weight_largest": (_WEIGHT, "largest", torch.float32),
}
_NORMS, _LARGEST = ("norm", "weight_norm", "change_norm"), ("largest", "weight_largest")
_NONE = torch.iinfo(torch.int64).max

# Of a piece: element i is element first + i // run * stride + i % run of the parameter.
Place = Tuple[int, int, int]


class Report(NamedTuple):
    """Of the last step's raw gradients (with accumulate() of their sums), neither unscaled nor clipped, and of the parameters as stored after the last
    step that was taken: one tensor a field, on the device, with an element for each name. report["name"] is a row."""

    names: List[str]  #: of all parameters; a name that several have has its parameter's number after it
    norm: Tensor  #: of the gradient, f64
    largest: Tensor  #: magnitude in the gradient, f32; NaN if an element is NaN
    absent: Tensor  #: 1: there was no gradient, or it has no elements; all else is 0 and -1
    zeros: Tensor  #: in the gradient
    first_nonfinite: Tensor  #: index of the first NaN or infinity in the whole gradient; -1: none
    weight_norm: Tensor  #: of the parameter as stored, f64; 0 before the first step that is taken
    change_norm: Tensor  #: of what the step changed, new less old as stored, f64
    weight_largest: Tensor  #: magnitude in the parameter, f32; NaN if an element is NaN

    def __getitem__(self, name: Any) -> Any:  # type: ignore[override,unused-ignore]
        """A parameter's row, by its name, as tensors on the device."""
        if isinstance(name, Tensor):
            raise TypeError("a report has rows by the names of parameters, not by tensors: report[name] has one of "
                            "report.names, which are numbers for an optimizer without named parameters")
        if not isinstance(name, str):
            return tuple.__getitem__(self, name)
        columns: Any = tuple(self)
        try:
            k = self.names.index(name)
        except ValueError:
            raise KeyError(f"{name!r} is none of report.names: {listed(self.names)}") from None
        return {field: columns[self._fields.index(field)][k] for field in _COLUMNS}


class Rows:
    """The rows that a plan writes, in one piece of memory."""

    def __init__(self, count: int, device: torch.device) -> None:
        self._gradients = count * ctypes.sizeof(_GRADIENT)
        self._bytes = torch.zeros(self._gradients + count * ctypes.sizeof(_WEIGHT), dtype=torch.uint8, device=device)
        self._numbers: Dict[Any, Tensor] = {}

    def numbers(self, values: Sequence[Any], dtype: torch.dtype) -> Tensor:
        """These on the device. They are uploaded once, because that waits."""
        key = (dtype, *values)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = torch.tensor(values, dtype=dtype, device=self._bytes.device)
        return found

    def params(self) -> Dict[str, int]:
        """The parameters of the plan."""
        at = self._bytes.data_ptr()
        return {"reports_at": at, "weight_reports_at": at + self._gradients}

    def _of(self, struct: Any) -> Tensor:
        """The bytes of its rows."""
        rows = self._bytes[:self._gradients] if struct is _GRADIENT else self._bytes[self._gradients:]
        return rows.view(-1, ctypes.sizeof(struct))

    def column(self, name: str) -> Tensor:
        struct, field, dtype = _COLUMNS[name]
        place = getattr(struct, field)
        return _column(self._of(struct)[:, place.offset:place.offset + place.size], dtype)

    def take(self, before: "Rows", rows: Dict[Any, int], rows_before: Dict[Any, int]) -> None:
        """What the plan before has left, of what both have a row: a step that is skipped leaves it."""
        both = [(k, rows_before[one]) for one, k in rows.items() if one in rows_before]
        if both:
            here, there = torch.tensor(both, dtype=torch.int64, device=self._bytes.device).unbind(1)
            for struct in (_GRADIENT, _WEIGHT):
                self._of(struct).index_copy_(0, here, before._of(struct).index_select(0, there))


def _column(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """A copy of one field of rows of bytes. contiguous() would give one row as it is, with its strides and memory."""
    return rows.clone().reshape(-1).view(dtype)


def _absent(count: int, device: torch.device) -> Dict[str, Tensor]:
    """Columns of parameters without a gradient."""
    made = {name: torch.zeros(count, dtype=dtype, device=device) for name, (_, _, dtype) in _COLUMNS.items()}
    made["absent"] += 1
    made["first_nonfinite"] -= 1
    return made


# ---- over ranks


def _packed(columns: Dict[str, Tensor], counted: Tensor) -> Tensor:
    """Rows of bytes, of which the last is whether the rank counts the parameter."""
    parts = [column.view(-1, 1).view(torch.uint8) for column in columns.values()]
    return torch.cat([*parts, counted.view(-1, 1)], dim=1)


def _unpacked(rows: Tensor) -> Tuple[Dict[str, Tensor], Tensor]:
    columns, at = {}, 0
    for name, (_, _, dtype) in _COLUMNS.items():
        size = torch.empty((), dtype=dtype).element_size()
        columns[name] = _column(rows[:, at:at + size], dtype)
        at += size
    return columns, rows[:, at] != 0


def _gathered(rows: Tensor, group: Any) -> List[Tensor]:
    import torch.distributed as dist
    made = [torch.empty_like(rows) for _ in range(dist.get_world_size(group))]
    dist.all_gather(made, rows, group=group)
    return made


def _folded(ranks: Sequence[Tensor]) -> Dict[str, Tensor]:
    """As ptx_gradient_reports_fold() and ptx_weight_reports_fold()."""
    unpacked = [_unpacked(rows) for rows in ranks]
    takes = [counted & (columns["absent"] == 0) for columns, counted in unpacked]
    parts = torch.stack(takes).sum(dim=0)

    def taken(name: str, instead: float) -> List[Tensor]:
        return [torch.where(take, columns[name], torch.full_like(columns[name], instead))
                for take, (columns, _) in zip(takes, unpacked)]

    made: Dict[str, Tensor] = {"absent": (parts == 0).to(torch.int32)}
    for name in _NORMS:
        squares, alone = torch.zeros_like(unpacked[0][0][name]), torch.zeros_like(unpacked[0][0][name])
        for norm in taken(name, 0.0):  # in the order of the ranks
            squares, alone = squares + norm * norm, alone + norm
        made[name] = torch.where(parts == 1, alone, squares.sqrt())
    for name in _LARGEST:
        made[name] = torch.stack(taken(name, 0.0)).amax(dim=0)
    made["zeros"] = torch.stack(taken("zeros", 0)).sum(dim=0)
    first = [torch.where(one < 0, torch.full_like(one, _NONE), one) for one in taken("first_nonfinite", -1)]
    least = torch.stack(first).amin(dim=0)
    made["first_nonfinite"] = torch.where(least == _NONE, torch.full_like(least, -1), least)
    return made


def _joined(rows: Dict[str, Tensor], pieces: List[List[Place]], numbers: Callable[..., Tensor]) -> Dict[str, Tensor]:
    """The columns of parameters from those of their pieces: as over ranks, of which the k-th has each k-th piece."""
    places = numbers([place for one in pieces for place in one], torch.int64)
    first, run, stride = places.unbind(1)
    found = rows["first_nonfinite"]
    turn = torch.div(found, run, rounding_mode="floor")
    rows = {**rows, "first_nonfinite": torch.where(found < 0, found, first + turn * stride + (found - turn * run))}
    starts = list(accumulate(map(len, pieces), initial=0))
    ranks = []
    for k in range(max(map(len, pieces))):
        there = [k < len(one) for one in pieces]
        of = numbers([start + (k if has else 0) for start, has in zip(starts, there)], torch.int64)
        counts = numbers(there, torch.uint8)
        ranks.append(_packed({name: column[of] for name, column in rows.items()}, counts))
    return _folded(ranks)


# ---- reports


class Reported(NamedTuple):
    """What a plan reports: its rows, the parameters' places among all, and whether this rank counts them. pieces:
    where each parameter's pieces lie, which have a row each; None: every parameter has one row."""

    rows: Rows
    at: List[int]
    counted: List[bool]
    pieces: Optional[List[List[Place]]] = None

    def columns(self) -> Dict[str, Tensor]:
        """Of each parameter."""
        found = {name: self.rows.column(name) for name in _COLUMNS}
        return found if self.pieces is None else _joined(found, self.pieces, self.rows.numbers)


def report_of(names: Sequence[str], reported: Sequence[Reported], device: torch.device,
              group: Optional[Any]) -> Report:
    """From what plans report, each on its device: of all parameters, on the first device. Parameters that no plan has
    are absent. With a group, of the whole parameters of its ranks, which all call this."""
    columns = _absent(len(names), device)
    counted = torch.zeros(len(names), dtype=torch.uint8, device=device)
    for one in reported:
        places = one.rows.numbers(one.at, torch.int64).to(device)
        counted[places] = one.rows.numbers(one.counted, torch.uint8).to(device)
        for name, column in one.columns().items():
            columns[name][places] = column.to(device)
    if group is not None and names:
        columns = _folded(_gathered(_packed(columns, counted), group))
    several = {name for name, n in Counter(names).items() if n > 1}
    return Report([f"{name} ({k})" if name in several else name for k, name in enumerate(names)], **columns)

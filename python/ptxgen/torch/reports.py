# SPDX-License-Identifier: MIT
"""What an optimizer says of each gradient, on the device."""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Sequence

import torch
from torch import Tensor

from .. import _c

_ROW = _c.ptx_gradient_report
BYTES = ctypes.sizeof(_ROW)
_TYPES = {"norm": torch.float64, "largest": torch.float32, "absent": torch.int32, "zeros": torch.int64,
          "first_nonfinite": torch.int64}


class Report(NamedTuple):
    """Of the last step's raw gradients, neither unscaled nor clipped: one tensor a field, on the device, with an
    element for each name. report["name"] is a row."""

    names: List[str]  #: of all parameters; a name that several have has its parameter's number after it
    norm: Tensor  #: f64
    largest: Tensor  #: magnitude, f32; NaN if an element is NaN
    absent: Tensor  #: 1: there was no gradient, or it has no elements
    zeros: Tensor
    first_nonfinite: Tensor  #: index of the first NaN or infinity in the whole parameter; -1: none

    def __getitem__(self, name: Any) -> Any:  # type: ignore[override]
        """A parameter's row, by its name, as tensors on the device."""
        if isinstance(name, Tensor):
            raise TypeError("a report has rows by the names of parameters, not by tensors: report[name] has one of "
                            "report.names, which are numbers for an optimizer without named parameters")
        if not isinstance(name, str):
            return tuple.__getitem__(self, name)
        try:
            k = self.names.index(name)
        except ValueError:
            raise KeyError(f"{name!r} is none of report.names: {', '.join(self.names)[:80]}") from None
        return {field: tuple.__getitem__(self, self._fields.index(field))[k] for field in _TYPES}


def _column(rows: Tensor, field: str) -> Tensor:
    place = getattr(_ROW, field)
    return rows.view(-1, BYTES)[:, place.offset:place.offset + place.size].contiguous().view(_TYPES[field])[:, 0]


def _absent(count: int, device: torch.device) -> Dict[str, Tensor]:
    """Rows of parameters without a gradient."""
    made = {field: torch.zeros(count, dtype=dtype, device=device) for field, dtype in _TYPES.items()}
    made["absent"] += 1
    made["first_nonfinite"] -= 1
    return made


def report_of(names: Sequence[str], rows: Sequence[Tensor], at: Sequence[int]) -> Report:
    """From the rows of plans, each on its device, of the parameters at these places: of all, on the first device.
    Parameters that no plan has are absent."""
    device = rows[0].device if rows else torch.device("cpu")
    columns = _absent(len(names), device)
    places = torch.tensor(at, dtype=torch.int64, device=device)
    for field, column in columns.items():
        if rows:
            column[places] = torch.cat([_column(one, field).to(device) for one in rows])
    several = {name for name, n in Counter(names).items() if n > 1}
    return Report([f"{name} ({k})" if name in several else name for k, name in enumerate(names)], **columns)

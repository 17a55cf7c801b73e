# SPDX-License-Identifier: MIT
"""What an optimizer says of each gradient, on the device."""

from __future__ import annotations

import ctypes
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

    names: List[str]
    norm: Tensor  #: f64
    largest: Tensor  #: magnitude, f32; NaN if an element is NaN
    absent: Tensor  #: 1: there was no gradient, or it has no elements
    zeros: Tensor
    first_nonfinite: Tensor  #: index of the first NaN or infinity in the whole parameter; -1: none

    def __getitem__(self, name: Any) -> Any:  # type: ignore[override]
        """A parameter's row, by its name, as tensors on the device."""
        if not isinstance(name, str):
            return tuple.__getitem__(self, name)
        try:
            k = self.names.index(name)
        except ValueError:
            raise KeyError(name) from None
        return {field: tuple.__getitem__(self, self._fields.index(field))[k] for field in _TYPES}


def _column(rows: Tensor, field: str) -> Tensor:
    place = getattr(_ROW, field)
    return rows.view(-1, BYTES)[:, place.offset:place.offset + place.size].contiguous().view(_TYPES[field])[:, 0]


def report_of(names: Sequence[str], rows: Sequence[Tensor]) -> Report:
    """From the rows of plans, each on its device: of all, on the first."""
    columns: Dict[str, Tensor] = {
        field: torch.cat([_column(one, field).to(rows[0].device) for one in rows]) for field in _TYPES}
    return Report(list(names), **columns)

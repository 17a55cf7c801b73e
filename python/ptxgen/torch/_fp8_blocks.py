# SPDX-License-Identifier: MIT
"""Copies of the weights in float8 with a scale for each block: what Float8Weights has of the parameters of one device."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor

from ..plans import StepPlan
from . import _device
from ._shortcuts import local

SIZE = 128
# A format of the step in which a parameter of each type may be.
_FORMATS = {torch.float32: "full", torch.bfloat16: "stochastic", torch.float16: "master"}


def why_not(parameter: Tensor) -> Optional[str]:
    """Why a parameter has no blocks."""
    here = local(parameter)
    if here.dim() != 2:
        return f"it has {here.dim()} dimension{'' if here.dim() == 1 else 's'}, and blocks are those of a matrix"
    return None if here.is_contiguous() else "it is not contiguous"


def layout_of(parameter: Tensor) -> Tuple[Any, ...]:
    """What the codes of this rank's part are made for."""
    here = local(parameter)
    return tuple(here.shape), here.stride(), here.dtype, here.device


def _parts(count: int) -> int:
    return -(-count // SIZE)


class BlockTable:
    """The matrices of one device: codes and scales of each, and of the transposed one where it is wanted."""

    def __init__(self, of: Any, parameters: List[Tensor], device: Any) -> None:
        self.of, self.parameters, self.device = of, parameters, device
        self.at = {id(p): k for k, p in enumerate(parameters)}
        self.layouts = list(map(layout_of, parameters))
        matrices = [local(p).detach() for p in parameters]
        self.codes, self.inverses = self._room([m.shape for m in matrices])
        self.transposed, self.transposed_inverses = self._room([m.T.shape for m in matrices]) if of.transposed else ([], [])
        self._cut: Set[int] = set()  # those that steps have in pieces, of which none knows the blocks
        self._casters: Dict[bool, Tuple[Any, Optional[StepPlan]]] = {}  # of all, and of those; what they are made for
        self._captured: List[Any] = []  # graphs launch these

    def _room(self, shapes: Sequence[Sequence[int]]) -> Tuple[List[Tensor], List[Tensor]]:
        place = self.device.device
        rows = 1 if self.of.blocks == "1x128" else SIZE
        return ([torch.zeros(tuple(shape), dtype=torch.uint8, device=place) for shape in shapes],
                [torch.ones((-(-shape[0] // rows), _parts(shape[1])), dtype=torch.float32, device=place)
                 for shape in shapes])

    def fields(self, k: int, is_cut: bool = False) -> Dict[str, Any]:
        """Of a plan's tensor; none of one in pieces, whose codes follow() makes."""
        (self._cut.add if is_cut else self._cut.discard)(k)
        return {} if is_cut else self._fields(k)

    def _fields(self, k: int) -> Dict[str, Any]:
        made: Dict[str, Any] = {
            "fp8": self.codes[k].data_ptr(), "fp8_scale_inv": self.inverses[k].data_ptr(), "fp8_format": self.of.format,
            "fp8_columns": self.codes[k].shape[1], "fp8_blocks": self.of.blocks, "fp8_scaling": self.of.scaling}
        if self.transposed:
            made.update(fp8_transposed=self.transposed[k].data_ptr(),
                        fp8_transposed_scale_inv=self.transposed_inverses[k].data_ptr())
        return made

    def cast(self) -> None:
        """Codes of the weights as they are."""
        self._cast(range(len(self.parameters)), True)

    def follow(self) -> None:
        """After a step: those that it has not made."""
        if self._cut:
            self._cast(sorted(self._cut), False)

    def _cast(self, chosen: Sequence[int], is_all: bool) -> None:
        here = {k: local(self.parameters[k]) for k in chosen}
        made_for = [(k, p.data_ptr()) for k, p in here.items()]
        before, plan = self._casters.get(is_all, (None, None))
        if before != made_for:
            # A plan that takes no step: of each tensor it reads the parameter alone.
            rows: List[Any] = [
                {"parameter": p.data_ptr(), "gradient": 0, "step": self.inverses[k].data_ptr(), "count": p.numel(),
                 "dtype": _device.NAMES[p.dtype], "format": _FORMATS[p.dtype], **self._fields(k)}
                for k, p in here.items() if p.numel()]
            plan = StepPlan(self.device.gpu, rows, groups=[{"rule": "sgd"}], max_norm=float("inf"),
                            any_address=True) if rows else None
            self._casters[is_all] = made_for, plan
        if plan is not None:
            if self.device.capturing() and plan not in self._captured:
                self._captured.append(plan)
            stream = self.device.stream()
            plan.cast(stream)
            self.device.done(stream)

# SPDX-License-Identifier: MIT
"""Muon plans: the products of matrices whose rows are on several ranks. <ptxgen/muon.h> has the whole step."""

from __future__ import annotations

from ctypes import byref
from typing import Any, Mapping, Sequence

from . import _c
from ._library import Handle, Keeps, Object, c, check, checked, keep, struct
from .arrays import StreamLike, stream_of
from .device import Device


class MuonPlan(Object):
    """Orthogonalizes matrices in f16, each from parts with some of its rows:

        plan = gpu.muon_plan([{"rows": 768, "columns": 3072, "parts": [{"at": x, "rows": 384}, {"at": y, "rows": 384}]}])
        plan.run(stream)                      # in place

    `matrices`: the fields of struct ptx_muon_matrix each, `muon` among them. The plan keeps arrays alive."""

    def __init__(self, device: Device, matrices: Sequence[Mapping[str, Any]], *, stream: StreamLike = None) -> None:
        keeps: Keeps = {}
        params = struct(_c.ptx_muon_plan_params,
                        {"matrices": matrices, "matrix_count": len(matrices), "stream": stream}, "", keeps)
        owner = device.handle
        plan = checked(c.ptx_muon_plan_create(owner.value, byref(params)))
        self._handle = Handle(plan, c.ptx_muon_plan_destroy, owner, keeps)

    def run(self, stream: StreamLike = None) -> None:
        """All products. Launches only: may be captured."""
        handle = self.handle
        keep(handle)
        check(c.ptx_muon_plan_run(handle.value, stream_of(stream)))

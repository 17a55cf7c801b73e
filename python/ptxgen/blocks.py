# SPDX-License-Identifier: MIT
"""Block plans: fake quantization in formats with a scale a block. <ptxgen/blocks.h> has the formulas."""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

from . import _c, _types
from ._library import Handle, Keeps, Object, c, check, checked, keep, struct, structs
from .arrays import StreamLike, reaches_host_memory, stream_of
from .device import Device

if TYPE_CHECKING:
    from typing_extensions import Unpack


class BlockPlan(Object):
    """Quantizes lists of tensors to a block format and scales back:

        plan = BlockPlan(gpu, dtype="bf16", format="nvfp4")
        plan.run([{"x": x, "y": y, "rows": 4096, "columns": 6144, "amax": amax}], stream=stream)

    The keyword arguments are the fields of struct ptx_block_params."""

    def __init__(self, device: Device, *, stream: StreamLike = None, **params: Unpack[_types.BlockParams]) -> None:
        owner = device.handle
        how = struct(_c.ptx_block_params, {"any_address": reaches_host_memory(), **params}, "", {})
        made = checked(c.ptx_block_plan_create(owner.value, byref(how), stream_of(stream)))
        super().__init__(Handle(made, c.ptx_block_plan_destroy, owner))

    def run(self, tensors: Sequence[Mapping[str, Any]], random: Optional[Mapping[str, Any]] = None, *,
            stream: StreamLike = None) -> None:
        """tensors: the fields of struct ptx_block_tensor each, or an array of them. random: those of struct ptx_block_random, for a stochastic
        plan. Launches only: may be captured."""
        handle = self.handle
        keeps: Keeps = {}
        array: Any = tensors if isinstance(tensors, ctypes.Array) else structs(_c.ptx_block_tensor, tensors, "tensors", keeps)
        bits = None if random is None else byref(struct(_c.ptx_block_random, random, "random", keeps))
        keep(handle, keeps)
        check(c.ptx_block_plan_run(handle.value, array, len(array), bits, stream_of(stream)))

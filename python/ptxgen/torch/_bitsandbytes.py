# SPDX-License-Identifier: MIT
"""States of bitsandbytes' optimizers: its 8-bit codes, maps and blocks are those of <ptxgen/rules.h>,
under other names."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from .._plan_fields import BLOCK
from . import _formats

_WRAPPED = "__bnb_optimizer_quant_state__"  # a dict in the dict; older versions have no such
_BLOCKS = (BLOCK, 2048)  # the latter in older versions


def are_theirs(states: Any) -> bool:
    """Whether a parameter's states have their names."""
    return isinstance(states, dict) and ("state1" in states or _WRAPPED in states)


def converted(states: Dict[str, Any], names: Tuple[str, ...]) -> Dict[str, Any]:
    """The same states by the names of here. Codes of another map or block size become f32."""
    left = {**states, **states.get(_WRAPPED, {})}
    left.pop(_WRAPPED, None)
    made = {"step": left.pop("step", None)}
    for k, name in enumerate(names, 1):
        value = made[name] = _taken(left, f"state{k}")
        if not isinstance(value, Tensor) or value.dtype is not torch.uint8:
            continue
        if f"max{k}" in left:
            raise ValueError(f"state{k} of bitsandbytes is not in blocks: what its optimizers store with "
                             "block_wise=False is not supported")
        absmax, entries = _taken(left, f"absmax{k}"), _taken(left, f"qmap{k}")
        for what, tensor in (("absmax", absmax), ("qmap", entries)):
            if not isinstance(tensor, Tensor) or tensor.dtype is not torch.float32:
                raise ValueError(f"{what}{k} of bitsandbytes is no tensor of f32: {tensor!r:.80}")
        ours = _formats.map_of(_formats.is_signed(name), entries.device)
        block = next((n for n in _BLOCKS if absmax.numel() == -(-value.numel() // n)), None)
        if block == BLOCK and torch.equal(entries, ours):
            made[name + "_absmax"] = absmax
        elif block is None or entries.numel() != len(ours):
            raise ValueError(f"state{k} of bitsandbytes has {value.numel()} codes, absmax{k} "
                             f"{absmax.numel()} elements, qmap{k} {entries.numel()}: a qmap has 256, and an "
                             f"absmax one for each {BLOCK} codes")
        else:
            made[name] = _formats.decoded(value, absmax, entries, block)
    if left:
        raise ValueError(f"{', '.join(map(str, left))} of bitsandbytes: nothing here does what these states "
                         "are for. Delete them from the dict to go on without it")
    return made


def _taken(left: Dict[str, Any], name: str) -> Any:
    value = left.pop(name, None)
    if value is None:
        raise KeyError(f"there is no {name} among the states of bitsandbytes")
    return value


def group_of(group: Dict[str, Any], wanted: Dict[str, Any]) -> Dict[str, Any]:
    """A group's settings. Their SGD has its momentum among betas, and ignores dampening."""
    if "momentum" not in wanted or "momentum" in group or not group.get("betas"):
        return group
    return {**group, "momentum": group["betas"][0], "dampening": 0.0}

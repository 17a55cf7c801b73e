# SPDX-License-Identifier: MIT
"""Clipping of units (AGC): what optimizers are given for it, and the units of parameters."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple, Union

from torch import Tensor

Agc = Union[float, Tuple[float, float]]
HELP = """    agc: adaptive gradient clipping: a number above 0, or a pair of it and eps (1e-3). Each unit of a gradient, a row (all
        dimensions but the first) or a whole vector, is clipped to agc times the norm of its weights, as timm's
        adaptive_clip_grad() clips it, after max_grad_norm. A group may have its own, such as None for the classifier.
        None, the default: none. It takes the norm, as max_grad_norm does.

"""


def settings(agc: Any) -> Optional[Tuple[float, float]]:
    """The clipping and the eps of an `agc`; None: units are not clipped."""
    if agc is None:
        return None
    given = agc if isinstance(agc, (tuple, list)) else (agc, 1e-3)
    try:
        clipping, eps = map(float, given)
    except (TypeError, ValueError):
        clipping = eps = math.nan
    if isinstance(agc, (bool, str, Tensor)) or not (0 < clipping < math.inf and 0 < eps < math.inf):
        raise ValueError(f"agc: {agc!r} is neither a number above 0, the clipping, nor a pair of it and eps, nor None for no "
                         "clipping of units")
    return clipping, eps


def of_all(owner: Any) -> List[Optional[Tuple[float, float]]]:
    """The settings of an optimizer's groups."""
    return [owner._agc_of(group) for group in owner.param_groups]


def fields(item: Any, owner: Any) -> Dict[str, int]:
    """What the row of a parameter has for it."""
    if owner._agc_of(owner.param_groups[item.group]) is None:
        return {}
    shape, here = tuple(item.parameter.shape), item.local
    where = f"{item.what} of shape {shape}"
    if owner.process_group is not None:
        raise ValueError(f"{where}: agc with process_group, by which a rank has some part of a parameter: its units are not "
                         "known; give its group agc=None")
    if len(shape) < 2:
        if here.numel() != item.parameter.numel():
            raise ValueError(f"{where} is cut over ranks, and agc clips it as a whole: give its group agc=None")
        return {"columns": 0}
    if tuple(here.shape[1:]) != shape[1:]:
        raise ValueError(f"{where} is cut within its rows over ranks, and agc needs whole rows: give its group agc=None")
    columns = math.prod(shape[1:])
    if here.numel() and here.shape[0] > 1 and here.stride(0) != columns:
        raise ValueError(f"{where} has strides {here.stride()}, so that its rows are not in one piece, which agc needs: make "
                         "it contiguous, or give its group agc=None")
    return {"columns": columns}

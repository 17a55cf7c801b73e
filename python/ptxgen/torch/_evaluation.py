# SPDX-License-Identifier: MIT
"""The weights that a rule evaluates with, such as those of schedule-free optimizers: made of the parameter and
its states when they are asked for, in f64."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import Tensor

from ..rules import Rule
from ..symbols import NAMES, OPERANDS, Op
from . import _formats
from ._shortcuts import local

_CALLS: Dict[str, Callable[..., Any]] = {
    "ADD": lambda x, y: x + y, "SUB": lambda x, y: x - y, "MUL": lambda x, y: x * y, "DIV": lambda x, y: x / y,
    "FMA": lambda x, y, z: x * y + z, "MIN": torch.fmin, "MAX": torch.fmax, "SQRT": torch.sqrt, "NEG": lambda x: -x,
    "ABS": torch.abs, "F32": lambda x: x.float().double(), "LT": lambda x, y: x < y, "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y, "GE": lambda x, y: x >= y, "EQ": lambda x, y: x == y, "NE": lambda x, y: x != y,
    "AND": lambda x, y: x & y, "OR": lambda x, y: x | y, "NOT": lambda x: ~x, "SELECT": torch.where, "EXP": torch.exp,
    "EXP2": torch.exp2, "EXPM1": torch.expm1, "LOG": torch.log, "LOG2": torch.log2, "LOG1P": torch.log1p,
    "SIN": torch.sin, "COS": torch.cos, "TANH": torch.tanh, "SIGMOID": torch.sigmoid, "ERF": torch.erf,
    "ERFC": torch.erfc, "RSQRT": torch.rsqrt, "POW": torch.pow}


def _run(ops: Tuple[Op, ...], given: Dict[str, Any], device: torch.device) -> Dict[int, Tensor]:
    """What a list sets, by index: coefficients, or the parameter as 0."""
    found: List[Any] = []
    made: Dict[int, Tensor] = {}
    for op in ops:
        name, result = NAMES[op.op], None
        if name == "NUMBER":
            result = torch.tensor(op.number, dtype=torch.float64, device=device)
        elif name == "P":
            result = given[name]
        elif name in ("SCALAR", "STATE", "COEFFICIENT"):
            result = given[name][op.x]
        elif name.startswith("SET_"):
            made[op.y if name == "SET_COEFFICIENT" else 0] = found[op.x]
        else:
            result = _CALLS[name](*[found[k] for k in (op.x, op.y, op.z)[:len(OPERANDS[name])]])
        found.append(result)
    return made


def weights(rule: Rule, parameter: Tensor, states: Dict[str, Any], names: Tuple[str, ...],
            scalars: List[float]) -> Tensor:
    """Those of a parameter's part on this rank, in f32. scalars: as the rule's program has them."""
    once, update = rule._data.evaluation
    part = local(parameter).detach()
    numbers = _formats.to_torch({name: local(value) for name, value in states.items() if isinstance(value, Tensor)},
                                names, True)
    given = [torch.tensor(x, dtype=torch.float64, device=part.device) for x in scalars]
    c = _run(once, {"SCALAR": given}, part.device)
    found = _run(update, {"P": _formats.whole(parameter, states).double(), "COEFFICIENT": c,
                          "STATE": [numbers[name].double() if name in numbers else None for name in names]}, part.device)
    return torch.broadcast_to(found[0], part.shape).float()

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


def numbers(rule: Rule, scalars: List[float]) -> Dict[int, Tensor]:
    """What the weights need of the scalars, which are as the rule's program has them. A ValueError if there are no
    weights to evaluate with at these."""
    once, cpu = rule._data.evaluation[0], torch.device("cpu")
    found = _run(once, {"SCALAR": [torch.tensor(x, dtype=torch.float64, device=cpu) for x in scalars]}, cpu)
    if not all(bool(torch.isfinite(x)) for x in found.values()):
        flat = rule._data.flat
        at = sorted({op.x for op in once if NAMES[op.op] == "SCALAR"})
        raise ValueError(f"rule {rule.name} has no weights to evaluate with at "
                         f"{', '.join(f'{flat[k][0]}={scalars[k]!r}' for k in at)}: they would not be finite")
    return found


def weights(rule: Rule, parameter: Tensor, states: Dict[str, Any], names: Tuple[str, ...],
            found: Dict[int, Tensor]) -> Tensor:
    """Those of a parameter's part on this rank, in f32. found: numbers() of its group."""
    update = rule._data.evaluation[1]
    part = local(parameter).detach()
    values = _formats.to_torch({name: local(value) for name, value in states.items() if isinstance(value, Tensor)},
                               names, True)
    c = {k: x.to(part.device) for k, x in found.items()}
    made = _run(update, {"P": _formats.whole(parameter, states).double(), "COEFFICIENT": c,
                          "STATE": [values[name].double() if name in values else None for name in names]}, part.device)
    return torch.broadcast_to(made[0], part.shape).float()

# SPDX-License-Identifier: MIT
"""The sums over whole tensors that rules take, where ranks have parts of these."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _c
from . import _ranks, _shortcuts

_MOST = _c.PTX_RULE_MAX_SUMS


def has_sums(rule: Tuple[Any, ...]) -> bool:
    """Whether a group's rule takes sums."""
    return bool(getattr(rule[0], "sums", 0))


class _Rows(NamedTuple):
    """Rows of a group's table, and where they are among those of a plan."""

    part: int
    of_table: Tensor
    of_plan: Tensor


class OverRanks:
    """What ranks add up between two phases: of each group of ranks a table with a row for each parameter that is cut
    over them, whether or not this rank has had a gradient of it, so that all ranks have the same rows."""

    def __init__(self, parameters: Sequence[Tensor], groups: Sequence[Optional[Any]], parts: Sequence[Any]) -> None:
        self._tables: List[Tuple[Any, int, List[_Rows]]] = []
        places = [{id(item.parameter): k for k, item in enumerate(part.items)} for part in parts]
        of_group: Dict[int, Tuple[Any, List[int]]] = {}
        for p, group in zip(parameters, groups):
            if group is not None:
                of_group.setdefault(id(group), (group, []))[1].append(id(p))
        for group, wanted in of_group.values():
            rows = []
            for n, (part, place) in enumerate(zip(parts, places)):
                here = [(k, place[one]) for k, one in enumerate(wanted) if one in place]
                if here:
                    made = torch.tensor(here, dtype=torch.int64, device=part.device.device)
                    rows.append(_Rows(n, made[:, 0].contiguous(), made[:, 1].contiguous()))
            self._tables.append((group, len(wanted), rows))

    @classmethod
    def made(cls, owner: Any, params: Sequence[Tensor], asked: Sequence[int], parts: Sequence[Any]) -> Optional["OverRanks"]:
        """None where no rule has sums of a parameter that is cut. asked: the places of those that get gradients."""
        takes = [has_sums(owner._rule(group)) for group in owner.param_groups for _ in group["params"]]
        found = [params[k] for k in asked if takes[k]]
        groups = _ranks.parts_of(found, owner.process_group) if found else []
        return cls(found, groups, parts) if any(group is not None for group in groups) else None

    def add_up(self, parts: Sequence[Any], device: torch.device) -> None:
        """Adds up the rows of the plans. device: where the tables are."""
        for group, count, rows in self._tables:
            table = torch.zeros((count, _MOST), dtype=torch.float64, device=device)
            for one in rows:
                table.index_copy_(0, one.of_table.to(device), parts[one.part].rule_sums.index_select(0, one.of_plan).to(device))
            _shortcuts.add_up.way(table, group)
            for one in rows:
                mine = parts[one.part].rule_sums
                mine.index_copy_(0, one.of_plan, table.index_select(0, one.of_table.to(device)).to(mine.device))

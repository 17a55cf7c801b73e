# SPDX-License-Identifier: MIT
"""Matrices whose rows are on several ranks, as FSDP2 leaves them: X of all rows goes to one rank, which multiplies,
and back."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _c
from .._library import c
from ..matrices import MuonPlan
from . import _device, _ranks
from ._ranks import DTensor
from ._shortcuts import local

_SUMS = _c.PTX_MUON_SUMS


class Rows(NamedTuple):
    """The ranks that have rows of a parameter, in the order of their group: the first row of each, and the one behind
    its last; and which of the ranks this one is."""

    group: Any
    spans: List[Tuple[int, int]]
    rank: int


def rows_of(parameter: Tensor, what: str) -> Optional[Rows]:
    """Where the rows of a parameter are; None where this rank has all of them. `what` names it in messages."""
    if not isinstance(parameter, DTensor):
        return None
    mesh: Any = parameter.device_mesh
    placements: Any = parameter.placements
    cut = [d for d, one in enumerate(placements) if not one.is_replicate() and (one.is_partial() or mesh.size(d) > 1)]
    if not cut:
        return None
    one = placements[cut[0]]
    if len(cut) > 1 or type(one).__name__ != "Shard" or one.dim:
        raise ValueError(
            f"{what} of shape {tuple(parameter.shape)} is placed as {placements}: a matrix of Muon may lie in rows, "
            "Shard(0), along one dimension of its mesh, as FSDP2 and ColwiseParallel leave it, and whole along the others. "
            "Columns on several ranks (RowwiseParallel), tensor parallelism together with FSDP2, and Partial are not "
            "supported: give it use_muon=False")
    at = mesh.get_coordinate()
    if at is None:  # a rank that has nothing of it
        return None
    import torch.distributed as dist
    group = _ranks.parts_of([parameter])[0]
    line = mesh.mesh[tuple(slice(None) if d == cut[0] else k for d, k in enumerate(at))].tolist()
    rows = int(parameter.shape[0])
    each = -(-rows // len(line))  # as torch.chunk() has it
    span = {rank: (min(k * each, rows), min((k + 1) * each, rows)) for k, rank in enumerate(line)}
    spans = [span[rank] for rank in dist.get_process_group_ranks(group)]
    mine = dist.get_rank(group)
    first, end = spans[mine]
    if local(parameter).shape[0] != end - first:
        raise ValueError(f"{what} of shape {tuple(parameter.shape)} has {local(parameter).shape[0]} rows on this rank, and "
                         f"{end - first} are expected of Shard(0) over {len(line)} ranks: give it use_muon=False")
    return Rows(group, spans, mine)


class Matrix(NamedTuple):
    """A matrix of a parameter: its number there, its sides, how many of its rows each rank has, and what its steps
    are."""

    parameter: Tensor
    number: int
    rows: int
    columns: int
    shares: List[int]
    muon: Dict[str, Any]

    def work(self) -> int:
        """About how many multiplications the products are."""
        least, most = sorted((self.rows, self.columns))
        return least * least * (2 * most + 4 * least * int(self.muon["steps"]))


def owners(matrices: Sequence[Tuple[List[int], int]], ranks: int) -> List[int]:
    """Which rank multiplies each matrix, from the rows that each rank has and the work: one with all rows, or else by
    work, the largest first, the rank that has the least. All ranks find the same."""
    load, found = [0] * ranks, [-1] * len(matrices)
    for k, (shares, work) in enumerate(matrices):
        if sum(share > 0 for share in shares) == 1:
            found[k] = next(rank for rank, share in enumerate(shares) if share)
            load[found[k]] += work
    for k in sorted(range(len(matrices)), key=lambda k: (-matrices[k][1], k)):
        if found[k] < 0:
            found[k] = load.index(min(load))
            load[found[k]] += matrices[k][1]
    return found


class Exchange:
    """The matrices that one group of ranks shares. All ranks make the same, whether or not they have had gradients."""

    def __init__(self, group: Any, device: Any, matrices: Sequence[Tuple[Matrix, Rows]]) -> None:
        self.group, self.device = group, device
        self.count = len(matrices)
        self._row = {(id(one.parameter), one.number): k for k, (one, _) in enumerate(matrices)}
        shares = [one.shares for one, _ in matrices]
        ranks, mine = len(matrices[0][1].spans), matrices[0][1].rank
        owner = owners([(share, one.work()) for share, (one, _) in zip(shares, matrices)], ranks)
        lines = [c.ptx_muon_pitch(one.columns) // 2 for one, _ in matrices]  # elements

        def layout(chosen: Sequence[Sequence[Tuple[int, int]]]) -> Tuple[Dict[Any, int], List[int]]:
            """Where each share of (matrix, rank) begins, for lists by rank, and the length of each list."""
            begins: Dict[Any, int] = {}
            at, lengths = 0, []
            for one in chosen:
                before = at
                for k, rank in one:
                    begins[k, rank] = at
                    at += shares[k][rank] * lines[k]
                lengths.append(at - before)
            return begins, lengths

        every = range(self.count)
        own = [k for k in every if owner[k] == mine]
        sent, self._sent = layout([[(k, mine) for k in every if owner[k] == rank] for rank in range(ranks)])
        got, self._got = layout([[(k, rank) for k in own] for rank in range(ranks)])
        half = {"dtype": torch.float16, "device": device.device}
        self._rows_sent = torch.zeros(max(sum(self._sent), 8), **half)
        self._rows_got = torch.zeros(max(sum(self._got), 8), **half)
        self._update = {(id(one.parameter), one.number): self._rows_sent.data_ptr() + 2 * sent[k, mine]
                        for k, (one, _) in enumerate(matrices) if shares[k][mine]}
        self._plan: Optional[MuonPlan] = None
        if own:
            base = self._rows_got.data_ptr()
            self._plan = MuonPlan(device.gpu, [
                {"rows": matrices[k][0].rows, "columns": matrices[k][0].columns, "muon": matrices[k][0].muon,
                 "parts": [{"at": base + 2 * got[k, rank], "rows": shares[k][rank]} for rank in range(ranks)
                           if shares[k][rank]]} for k in own], stream=device.stream())

    def update_at(self, parameter: Tensor, number: int) -> int:
        """The address of the rows of X that this rank has of a matrix."""
        return self._update.get((id(parameter), number), 0)

    def has(self, parameter: Tensor, number: int) -> bool:
        return (id(parameter), number) in self._row

    def run(self) -> None:
        """Between the phases: X to the ranks that multiply, and back."""
        import torch.distributed as dist
        sent = self._rows_sent[:sum(self._sent)]
        got = self._rows_got[:sum(self._got)]
        dist.all_to_all_single(got, sent, self._got, self._sent, group=self.group)
        if self._plan is not None:
            stream = self.device.stream()
            self._plan.run(stream)
            self.device.done(stream)
        dist.all_to_all_single(sent, got, self._sent, self._got, group=self.group)

    # ---- sums

    def _places(self, part: Any) -> Tuple[Tensor, Tensor]:
        """The rows of a plan's sums, and those of the table."""
        pairs = [(part.starts[k] + m, self._row[id(item.parameter), piece.number])
                 for k, item in enumerate(part.items) for m, piece in enumerate(item.pieces or ())
                 if piece.elements and self.has(item.parameter, piece.number)]
        made = torch.tensor(pairs, dtype=torch.int64, device=part.device.device).reshape(-1, 2)
        return made[:, 0].contiguous(), made[:, 1].contiguous()

    def _of(self, part: Any) -> Tuple[Tensor, Tensor]:
        """_places(), found once for a plan."""
        found: Any = part.places.get(id(self))
        if found is None:
            found = part.places[id(self)] = self._places(part)
        return found  # type: ignore[no-any-return]

    def table(self, parts: Sequence[Any]) -> Tensor:
        """The sums of this rank's rows, a row for each matrix."""
        made = torch.zeros((self.count, _SUMS), dtype=torch.float64, device=self.device.device)
        for part in parts:
            if part.matrix_sums is not None:
                here, there = self._of(part)
                made.index_copy_(0, there, part.matrix_sums.index_select(0, here))
        return made

    def spread(self, table: Tensor, parts: Sequence[Any]) -> None:
        """What ranks have added up, for the plans."""
        for part in parts:
            if part.matrix_sums is not None:
                here, there = self._of(part)
                part.matrix_sums.index_copy_(0, here, table.index_select(0, there))


def key_of(matrices: Sequence[Tuple[Matrix, Rows]]) -> Any:
    """What exchanges are made for."""
    return [(id(one.parameter), one.number, tuple(one.shares), one.rows, one.columns, sorted(one.muon.items()),
             id(over.group), over.spans, str(local(one.parameter).device)) for one, over in matrices]


def made(matrices: Sequence[Tuple[Matrix, Rows]]) -> List[Exchange]:
    """One for each group of ranks, in the order in which they come."""
    by_group: Dict[Any, List[Tuple[Matrix, Rows]]] = {}
    for one, over in matrices:
        by_group.setdefault(id(over.group), []).append((one, over))
    found = []
    for several in by_group.values():
        places = {local(one.parameter).device for one, _ in several}
        if len(places) > 1:
            raise ValueError("the rows of matrices that this rank has are on several devices, "
                             f"{', '.join(sorted(map(str, places)))}: a rank has one")
        found.append(Exchange(several[0][1].group, _device.of(places.pop()), several))
    return found

# SPDX-License-Identifier: MIT
"""Which ranks a sum of squares goes over, and which of them count a tensor: from DTensors' meshes."""

from __future__ import annotations

import importlib
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch


class _NoDTensor:
    """No tensor is one."""


def _found(name: str) -> Any:
    """A name of DTensors' module, which was another before torch 2.5."""
    if torch.distributed.is_available():
        for module in ("torch.distributed.tensor", "torch.distributed._tensor"):
            try:
                return getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError):
                pass
    return _NoDTensor


DTensor: Any = _found("DTensor")


class Reduction(NamedTuple):
    """The ranks whose sums are added, None if this rank has all; whether it counts each tensor."""

    group: Optional[Any]
    counted: List[bool]


def is_partial(tensor: Any) -> bool:
    return isinstance(tensor, DTensor) and any(
        placement.is_partial() for placement in tensor.placements)


def _is_cut(placement: Any) -> bool:
    return not placement.is_replicate() and not placement.is_partial()


_Ranks = FrozenSet[int]


def _ranks(mesh: Any, placements: Sequence[Any]) -> Tuple[_Ranks, _Ranks]:
    """The ranks that the other parts of a tensor are on, and those that have this rank's part; each
    with this rank."""
    at = mesh.get_coordinate()
    if at is None:
        return frozenset(), frozenset()
    cut = [_is_cut(placement) for placement in placements]
    parts = mesh.mesh[tuple(slice(None) if c else k for c, k in zip(cut, at))]
    copies = mesh.mesh[tuple(k if c else slice(None) for c, k in zip(cut, at))]
    return frozenset(parts.flatten().tolist()), frozenset(copies.flatten().tolist())


def _root(mesh: Any) -> Any:
    if hasattr(mesh, "_get_root_mesh"):
        return mesh._get_root_mesh()
    from torch.distributed.device_mesh import _mesh_resources
    return _mesh_resources.get_root_mesh(mesh)


def _spanned(mesh: Any, sets: Set[_Ranks], rank: int) -> Optional[_Ranks]:
    """The ranks of the mesh that differ from this one along the dimensions that any of the sets
    extends over. None if the mesh does not have them all."""
    grid = mesh.mesh
    vary: Set[int] = set()
    here = (grid == rank).nonzero()
    for ranks in sets:
        at = torch.cat([(grid == one).nonzero() for one in sorted(ranks)])
        if len(at) != len(ranks) or len(here) != 1:
            return None
        vary.update(int(d) for d in (at != here).any(dim=0).nonzero().flatten())
    chosen = grid[tuple(slice(None) if d in vary else int(here[0, d]) for d in range(grid.ndim))]
    return frozenset(chosen.flatten().tolist())


_groups: Dict[Any, Any] = {}  # by the world that they are of, and their ranks


def world() -> Any:
    """The group of all ranks, another one after each init_process_group(); None without."""
    import torch.distributed as dist
    return dist.group.WORLD if dist.is_initialized() else None


def _group(ranks: _Ranks, meshes: Sequence[Any]) -> Any:
    """A process group of these ranks: one that exists, or a new one, which all of them make."""
    import torch.distributed as dist
    for mesh in meshes:
        for d in range(mesh.ndim):
            group = mesh.get_group(d)
            if frozenset(dist.get_process_group_ranks(group)) == ranks:
                return group
    if len(ranks) == dist.get_world_size():
        return dist.group.WORLD
    for of, among in list(_groups):
        if of is not world():  # gone with what was made of it
            del _groups[of, among]
    key = (world(), ranks)
    if key not in _groups:
        _groups[key] = dist.new_group(sorted(ranks), use_local_synchronization=True)
    return _groups[key]


def ranks_of(process_group: Any) -> _Ranks:
    """The ranks of a group that the caller names."""
    try:
        import torch.distributed as dist
        return frozenset(dist.get_process_group_ranks(process_group))
    except Exception:
        raise ValueError(f"process_group: {process_group!r:.80} is no group of torch.distributed in this "
                         "process: init_process_group() or new_group() makes one") from None


def reduction(tensors: Sequence[Any], process_group: Optional[Any] = None) -> Reduction:
    """How the tensors' sums become one. A tensor's sum goes over the mesh dimensions that it is cut
    along; a rank that has a copy of what another rank of the reduction has does not count it. Tensors
    that are no DTensors are copies; with a `process_group`, each rank has its own."""
    if process_group is not None:
        everyone = ranks_of(process_group)
    elif not any(isinstance(tensor, DTensor) for tensor in tensors):
        return Reduction(None, [True] * len(tensors))
    else:
        everyone = frozenset()
    import torch.distributed as dist
    rank = dist.get_rank()
    found: Dict[Any, Tuple[_Ranks, _Ranks]] = {}
    meshes: List[Any] = []
    for tensor in tensors:
        if isinstance(tensor, DTensor):
            key = (tensor.device_mesh, tuple(tensor.placements))
            if key not in found:
                found[key] = _ranks(*key)
                meshes.append(tensor.device_mesh)
    parts = {ranks for ranks, _ in found.values() if len(ranks) > 1} | ({everyone} if everyone else set())
    if not parts:
        return Reduction(None, [True] * len(tensors))
    over = max(parts, key=len)
    if not all(ranks <= over for ranks in parts):
        roots = [_root(mesh) for mesh in meshes]
        spans = (_spanned(mesh, parts, rank) for mesh in [*meshes, *roots])
        over = next((span for span in spans if span), frozenset(range(dist.get_world_size())))
    first = min(over)

    def counts(tensor: Any) -> bool:
        if not isinstance(tensor, DTensor):
            return process_group is not None or rank == first
        ranks, copies = found[tensor.device_mesh, tuple(tensor.placements)]
        whole = frozenset(tensor.device_mesh.mesh.flatten().tolist())
        return bool(ranks) and rank == min(copies & over) and first in whole

    group = process_group if over == everyone else _group(over, meshes)
    return Reduction(group, [counts(tensor) for tensor in tensors])


def parts_of(tensors: Sequence[Any], process_group: Optional[Any] = None) -> List[Optional[Any]]:
    """The group of the ranks that have a part each of a tensor; None if this rank has all of it. Tensors that are no
    DTensors are whole without a `process_group`."""
    found: Dict[Any, Any] = {}
    groups = []
    for tensor in tensors:
        group = None if isinstance(tensor, DTensor) else process_group
        if isinstance(tensor, DTensor):
            key = (tensor.device_mesh, tuple(tensor.placements))
            if key not in found:
                ranks, _ = _ranks(*key)
                found[key] = _group(ranks, [tensor.device_mesh]) if len(ranks) > 1 else None
            group = found[key]
        groups.append(group)
    return groups


class Whole(NamedTuple):
    """struct ptx_step_whole"""

    first: int
    run: int
    stride: int


def whole(tensor: Any) -> Optional[Whole]:
    """Where this rank's part lies in the whole parameter. None if struct ptx_step_whole cannot say
    it."""
    if not isinstance(tensor, DTensor):
        return Whole(0, 0, 0)
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    shape = tuple(tensor.shape)
    size, offset = compute_local_shape_and_global_offset(shape, tensor.device_mesh, tensor.placements)
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    first = sum(at * stride for at, stride in zip(offset, strides))
    # Dimensions before the last that is cut: rows of `run` elements, `stride` apart, if all but the
    # outermost are whole.
    cut = [d for d in range(len(shape)) if size[d] != shape[d]]
    if not cut or 0 in size or all(n == 1 for n in size[:cut[-1]]):
        return Whole(first, 0, 0)
    inner = cut[-1]
    outermost = next(d for d in range(inner) if size[d] != 1)
    if any(size[d] != shape[d] for d in range(outermost + 1, inner)):
        return None
    return Whole(first, size[inner] * strides[inner], strides[inner - 1])


def replicated(value: torch.Tensor, mesh: Any) -> Any:
    """A value that all ranks of the mesh have, as a DTensor."""
    return DTensor.from_local(value, mesh, [_found("Replicate")()] * mesh.ndim, run_check=False)

# SPDX-License-Identifier: MIT
"""ptxgen.torch with DTensors: FSDP2, tensor parallelism, mixed meshes, checkpoints."""

import copy
import math

import ptxgen.torch as pt
import pytest
import torch
from torch_parts import DEVICE, ON_EMULATOR, needs
from rank_parts import GPUS, backward, close, full, model, over_ranks, pytestmark, sharded  # noqa: F401
from ranks import on_ranks
from ptxgen import optimizers
from ptxgen.torch import _shortcuts, clip

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
except ImportError:
    pass

from torch.nn.utils import clip_grad_norm_ as torch_clip


# ---- reports


def full_of(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().double().flatten()


def same_on_all_ranks(report):
    for column in report[1:]:
        made = [torch.empty_like(column) for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather(made, column)
        assert all(torch.equal(one.view(torch.uint8), made[0].view(torch.uint8)) for one in made)


def check_row(row, gradient, before, after, stepped):
    bad = (~torch.isfinite(gradient)).nonzero()
    close = {"norm": gradient.square().sum().sqrt()}
    exact = {"largest": gradient.abs().max(), "zeros": (gradient == 0).sum(),
             "first_nonfinite": int(bad[0]) if len(bad) else -1, "absent": 0}
    if stepped:
        close.update(weight_norm=after.square().sum().sqrt(), change_norm=(after - before).square().sum().sqrt())
        exact.update(weight_largest=after.abs().max())
    for field, value in close.items():
        assert float(row[field]) == pytest.approx(float(value), rel=1e-12, nan_ok=True), field
    for field, value in exact.items():
        assert float(row[field]) == pytest.approx(float(value), rel=0, nan_ok=True), field


@needs("torch.nn.utils.get_total_norm")  # of torch 2.6, which has names in groups, too
@over_ranks(2)
def test_reports_are_of_whole_parameters(rank):
    made = sharded(init_device_mesh(DEVICE, (2,)))
    optimizer = pt.AdamW(made.named_parameters(), lr=0.01, max_grad_norm=1.0, reports=True)
    for seed in range(3):
        backward(made, seed)
        named = dict(made.named_parameters())
        if seed == 1:
            part = named["2.weight"].grad.to_local()
            part[-1, -1 - rank] = math.nan if rank else math.inf
            named["0.bias"].grad.to_local()[:2] = 0
        if seed == 2 and rank:  # an index that one rank alone has, and not the first
            named["0.weight"].grad.to_local()[1, 2] = math.inf
        before = {name: full_of(p) for name, p in named.items()}
        gradients = {name: full_of(p.grad) for name, p in named.items()}
        optimizer.step()
        report, mine = optimizer.report(), optimizer.report(local=True)
        assert report.names == list(named)
        for name, p in named.items():
            check_row(report[name], gradients[name], before[name], full_of(p), seed == 0)
        if seed:
            first = next(k for k, name in enumerate(named) if not gradients[name].isfinite().all())
            at = int((~gradients[list(named)[first]].isfinite()).nonzero()[0])
            with pytest.raises(RuntimeError, match=f"of parameter {first}, at element {at}$"):  # the same on both ranks
                pt.clip_grad_norm_(list(named.values()), 1.0, error_if_nonfinite=True)
        same_on_all_ranks(report)
        assert seed == 2 or float(mine["0.weight"]["norm"]) < float(report["0.weight"]["norm"])
        optimizer.zero_grad()


@over_ranks(2)
def test_reports_of_a_process_group_are_those_of_all_parts(rank):
    generator = torch.Generator().manual_seed(rank)
    params = [torch.nn.Parameter(torch.randn(n, generator=generator).to(DEVICE)) for n in (40, 3)]
    optimizer = pt.SGD(params, lr=0.5, reports=True, process_group=torch.distributed.group.WORLD)
    for step in range(3):
        for k, p in enumerate(params):  # rank 1 has no gradients at first, and never one of the second
            p.grad = torch.full_like(p, 3.0 + rank) if rank == 0 or step and k == 0 else None
        optimizer.step()
        report = optimizer.report()
        same_on_all_ranks(report)
        ranks = (3.0, 4.0) if step else (3.0,)
        assert float(report.norm[0]) == pytest.approx(math.sqrt(sum(40 * g * g for g in ranks)), rel=1e-14)
        assert float(report.change_norm[0]) == pytest.approx(0.5 * float(report.norm[0]), rel=1e-6)
        assert float(report.largest[0]) == max(ranks) and report.absent.tolist() == [0, 0]
        alone = optimizer.report(local=True)
        if rank == 0:  # one part alone stays as it is
            assert all(torch.equal(a[1], b[1]) for a, b in zip(report[1:], alone[1:]))


# ---- clipping


@pytest.mark.parametrize("shape,names", [((2,), ("fsdp",)), ((2, 1), ("replicate", "shard")),
                                         ((1, 2), ("replicate", "shard"))])
@over_ranks(2)
def test_fsdp2_clip(rank, shape, names):
    mesh = init_device_mesh(DEVICE, shape, mesh_dim_names=names)
    ours, theirs = sharded(mesh), sharded(mesh)
    for seed in range(3):
        backward(ours, seed, 30.0)
        backward(theirs, seed, 30.0)
        # FSDP2's own, through torch's function
        expected = torch_clip(theirs.parameters(), 0.5)
        norm = pt.clip_grad_norm_(ours.parameters(), 0.5)
        assert isinstance(norm, DTensor) == isinstance(expected, DTensor) and norm.shape == ()
        assert abs(norm.full_tensor().item() / expected.full_tensor().item() - 1) < 1e-6
        assert norm.to_local().item() == norm.full_tensor().item()
        close([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()], 1e-6)
        ours.zero_grad()
        theirs.zero_grad()


@pytest.mark.skipif(GPUS < 2, reason="fewer GPUs than ranks: 2 wanted")
def test_a_new_world():
    """The same processes in other groups: nothing is kept of those before."""
    for _ in range(2):
        on_ranks(2, test_fsdp2_clip, (2,), ("fsdp",))
        on_ranks(2, test_fsdp2_clip, (1, 2), ("replicate", "shard"))


@over_ranks(2)
def test_add_up(rank):
    group = torch.distributed.group.WORLD
    for way in (_shortcuts.add_up.plain, _shortcuts.add_up.first, _shortcuts.add_up.way):
        total = torch.full((2,), 1.5 + rank, dtype=torch.float64, device=DEVICE)
        way(total, group)
        assert total.tolist() == [4.0, 4.0]
    assert _shortcuts.add_up.way is not _shortcuts.add_up.plain


def counts_once(rank, world, shape, names):
    """Every element once, in any mix of meshes and tensors."""
    mesh = init_device_mesh(DEVICE, shape, mesh_dim_names=names)
    meshes = [mesh] + ([mesh[name] for name in names] if len(names) > 1 else [])
    generator = torch.Generator().manual_seed(5)
    params, total = [], 0.0
    for one in meshes:
        for k in range(3 ** one.ndim):
            placements = [[Replicate(), Shard(0), Shard(1)][k // 3 ** d % 3] for d in range(one.ndim)]
            value = torch.randn(5, 3, generator=generator).to(DEVICE)
            p = torch.nn.Parameter(distribute_tensor(torch.zeros(5, 3, device=DEVICE), one, placements))
            p.grad = distribute_tensor(value, one, placements)
            params.append(p)
            total += value.double().square().sum().item()
    plain = torch.nn.Parameter(torch.zeros(4, device=DEVICE))
    plain.grad = torch.arange(4.0, device=DEVICE)
    total += 14.0
    before = full([p.grad for p in params])
    norm = pt.clip_grad_norm_([plain, *params], 1.0)
    assert not isinstance(norm, DTensor)
    assert abs(norm.item() / total ** 0.5 - 1) < 1e-6, (norm.item(), total ** 0.5)
    for p, b in zip(params, before):
        assert torch.allclose(p.grad.full_tensor(), b / total ** 0.5, rtol=1e-5)
    ours = pt.AdamW([plain, *params], lr=1e-2, max_grad_norm=9.0)
    ours.step()
    assert abs(ours.grad_norm.item() - 1) < 1e-5
    for p in params:
        state = ours.state[p]["exp_avg"]
        assert state.placements == p.placements and state.device_mesh == p.device_mesh
        whole = p.full_tensor().contiguous()  # as NCCL wants it
        assert float(whole.abs().max()) > 0
        gathered = [torch.empty_like(whole) for _ in range(world)]
        torch.distributed.all_gather(gathered, whole)
        assert all(torch.equal(g, whole) for g in gathered)


@pytest.mark.parametrize("world,shape,names", [
    (2, (2,), ("fsdp",)), (2, (1, 2), ("dp", "tp")),
    (4, (2, 2), ("dp", "tp")), (4, (4,), ("fsdp",))])
def test_meshes(world, shape, names):
    if world > GPUS and not ON_EMULATOR:
        pytest.skip(f"fewer GPUs than ranks: {world} wanted")
    on_ranks(world, counts_once, world, shape, names)


@over_ranks(4)
def test_hybrid(rank):
    """Data parallel over one dimension, sharded over the other: no rank's copy counts twice."""
    mesh = init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("dp", "tp"))
    value = torch.arange(24.0, device=DEVICE).reshape(6, 4)
    p = torch.nn.Parameter(distribute_tensor(torch.zeros_like(value), mesh, [Replicate(), Shard(1)]))
    p.grad = distribute_tensor(value, mesh, [Replicate(), Shard(1)])
    norm = pt.clip_grad_norm_([p], 1e9)
    assert norm.full_tensor().item() == value.double().norm().float().item()
    assert clip._sets[0].group is mesh.get_group("tp")  # and no new one


@over_ranks(4)
def test_fsdp_and_tp(rank):
    """Tensor parallelism within, FSDP2 around it: _StridedShard beside Shard, and biases of both kinds."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("dp", "tp"))

    def cut():
        torch.manual_seed(0)
        made = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 6)).to(DEVICE)
        parallelize_module(made, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        return fully_shard(made, mesh=mesh["dp"])

    def step(made, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(16, 6, generator=generator).to(DEVICE)
        (made(x).square().mean() * 30).backward()

    ours, theirs = cut(), cut()
    first = pt.AdamW(ours.parameters(), lr=1e-2, max_grad_norm=0.5)
    second = torch.optim.AdamW(theirs.parameters(), lr=1e-2)
    kinds = {type(place).__name__ for p in ours.parameters() for place in p.placements}
    assert {"_StridedShard", "Shard", "Replicate"} <= kinds, kinds
    for seed in range(3):
        step(ours, seed)
        step(theirs, seed)
        norm = torch_clip(theirs.parameters(), 0.5)
        assert abs(pt.get_total_norm([p.grad for p in ours.parameters()]).full_tensor().item()
                   / norm.full_tensor().item() - 1) < 1e-6
        first.step()
        second.step()
        assert abs(first.grad_norm.item() / norm.full_tensor().item() - 1) < 1e-6
        close(ours.parameters(), theirs.parameters(), 1e-5)
        first.zero_grad()
        second.zero_grad()


# ---- optimizers


@over_ranks(2)
def test_fsdp2_step(rank):
    mesh = init_device_mesh(DEVICE, (2,))
    ours, theirs, alone = sharded(mesh), sharded(mesh), model()
    first = pt.AdamW(ours.parameters(), lr=1e-2, max_grad_norm=0.5)
    second = torch.optim.AdamW(theirs.parameters(), lr=1e-2)
    third = pt.AdamW(alone.parameters(), lr=1e-2, max_grad_norm=0.5)
    plans = set()
    for seed in range(6):
        for made, optimizer in ((ours, first), (theirs, second), (alone, third)):
            backward(made, seed, 30.0)
            if optimizer is second:
                torch_clip(made.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
        plans.add(id(first._engine()._parts[0].plan))
    assert len(plans) == 1
    close(ours.parameters(), theirs.parameters(), 1e-5)
    close(ours.parameters(), alone.parameters(), 1e-5)
    steps = {float(entry["step"]) for entry in first.state.values()}
    assert steps == {6.0}  # also where this rank has nothing of a parameter


@pytest.mark.parametrize("state_dtype,dtype", [
    ("float32", torch.float32), ("bf16", torch.bfloat16), ("remainder", torch.bfloat16),
    ("8bit", torch.bfloat16), ("f16", torch.bfloat16), ("24bit", torch.bfloat16)])
@over_ranks(2)
def test_same_bits(rank, state_dtype, dtype):
    """However a parameter is cut: the bits of one device, with the same gradients."""
    mesh = init_device_mesh(DEVICE, (2,))
    for placement in (Shard(0), Shard(1)):
        generator = torch.Generator().manual_seed(3)
        columns = 1024 if state_dtype in ("8bit", "f16", "24bit") else 64
        start = torch.randn(6, columns, generator=generator).to(dtype).to(DEVICE)
        alone = torch.nn.Parameter(start.clone())
        cut = torch.nn.Parameter(distribute_tensor(start.clone(), mesh, [placement]))
        options = {"lr": 1e-3, "state_dtype": state_dtype, "seed": 11, "ema_decay": 0.9, "ema_dtype": "bf16"}
        ours, other = pt.AdamW([cut], **options), pt.AdamW([alone], **options)
        for _ in range(4):
            g = torch.randn(6, columns, generator=generator).to(dtype).to(DEVICE)
            alone.grad, cut.grad = g, distribute_tensor(g, mesh, [placement])
            ours.step()
            other.step()
        assert torch.equal(cut.full_tensor(), alone.detach())
        for name, state in ours.state[cut].items():
            if name == "remainder":  # neither gloo nor NCCL gathers 16-bit integers
                state = state.to(torch.int32)
            assert name == "step" or torch.equal(state.full_tensor(),
                                                 other.state[alone][name].to(state.dtype))
    if state_dtype in ("8bit", "f16", "24bit"):
        odd = torch.nn.Parameter(distribute_tensor(torch.zeros(64, 100, dtype=dtype, device=DEVICE), mesh, [Shard(0)]))
        odd.grad = odd.detach().clone()
        with pytest.raises(ValueError, match="multiple"):
            pt.AdamW([odd], state_dtype=state_dtype).step()


@over_ranks(2)
def test_misplaced_gradients(rank):
    """Gradients that are placed otherwise, or are sums to be made."""
    from torch.distributed.tensor import Partial
    mesh = init_device_mesh(DEVICE, (2,))
    value = torch.arange(24.0, device=DEVICE).reshape(6, 4)
    cut = torch.nn.Parameter(distribute_tensor(torch.zeros(6, 4, device=DEVICE), mesh, [Shard(0)]))
    alone = torch.nn.Parameter(torch.zeros(6, 4, device=DEVICE))
    ours, other = pt.SGD([cut], lr=0.1), pt.SGD([alone], lr=0.1)
    for turn in range(3):
        alone.grad = value
        cut.grad = (distribute_tensor(value, mesh, [Shard(1)]) if turn == 0 else
                    distribute_tensor(value, mesh, [Replicate()]) if turn == 1 else
                    DTensor.from_local(value / 2, mesh, [Partial()]))
        ours.step()
        other.step()
    assert torch.equal(cut.full_tensor(), alone.detach())
    cut.grad = DTensor.from_local(value / 2, mesh, [Partial()])
    norm = pt.clip_grad_norm_([cut], 1.0)  # torch's own
    assert abs(norm.full_tensor().item() / value.norm().item() - 1) < 1e-6


@over_ranks(2)
def test_process_group(rank):
    """Parts of a model that no DTensor tells of."""
    import torch.distributed as dist
    w = torch.nn.Parameter(torch.zeros(4, device=DEVICE))
    w.grad = torch.full((4,), float(rank + 1), device=DEVICE)
    ours = pt.AdamW([w], lr=0.1, max_grad_norm=1.0, process_group=dist.group.WORLD)
    ours.step()
    assert ours.grad_norm.item() == torch.tensor(20.0).sqrt().item()
    w.grad = torch.full((4,), float("nan") if rank else 1.0, device=DEVICE)
    before = w.detach().clone()
    ours.step()
    assert torch.equal(w, before) and ours.found_inf.item() == 1


@over_ranks(2)
def test_matrices_of_a_process_group(rank):
    """Each rank has matrices of its own, as in a pipeline: the norm is that of all, and the bits are those of one rank."""
    import torch.distributed as dist
    params = [torch.nn.Parameter(torch.arange(12.0, device=DEVICE).sin().reshape(3, 4) + k) for k in range(2)]
    for k, p in enumerate(params):
        p.grad = (torch.arange(12.0, device=DEVICE).cos() * (k + 1)).reshape(3, 4)
    alone = [torch.nn.Parameter(params[rank].detach().clone())]
    alone[0].grad = params[rank].grad.clone()
    whole = pt.Muon(params, lr=0.1, max_grad_norm=1.0)
    ours = pt.Muon(alone, lr=0.1, max_grad_norm=1.0, process_group=dist.group.WORLD)
    whole.step()
    ours.step()
    assert ours.grad_norm.item() == whole.grad_norm.item() and torch.equal(alone[0], params[rank])
    alone[0].grad = torch.full((3, 4), float("inf") if rank else 1.0, device=DEVICE)
    ours.step()
    assert ours.found_inf.item() == 1 and torch.equal(alone[0], params[rank])


@over_ranks(2)
def test_guards(rank):
    """Ranks whose own parts are usual or not take one decision, and keep one state."""
    import torch.distributed as dist
    w = torch.nn.Parameter(torch.zeros(4, device=DEVICE))
    guards = pt.Guards(limit=50.0, history=8, deviations=3.0, losses=True, most_skips=3)
    ours = pt.AdamW([w], lr=0.1, process_group=dist.group.WORLD, guards=guards)
    reasons = []
    for step in range(24):
        size = 100.0 if step == 9 and rank else 9.0 if step == 17 and not rank else 2.0 + 0.1 * (step % 3)
        w.grad = torch.full((4,), float("inf") if step == 13 and rank else size, device=DEVICE)
        loss = torch.tensor(30.0 if step == 20 else 3.0 + 0.1 * ((step + rank) % 3), device=DEVICE)
        dist.all_reduce(loss)
        guards.latest_loss = loss
        before = w.detach().clone()
        ours.step()
        reasons.append(int(guards.skipped))
        assert torch.equal(w, before) == (reasons[-1] != 0)
    assert [(k, r) for k, r in enumerate(reasons) if r] == [(9, 3), (13, 1), (17, 4), (20, 4)]
    states = [torch.empty_like(guards.state_dict()["state"]) for _ in range(2)]
    dist.all_gather(states, guards.state_dict()["state"])
    assert torch.equal(states[0], states[1])


@over_ranks(2)
def test_accumulate(rank):
    """FSDP2, three micro-batches: the step of a process that has all of them. Infinity that one rank has in one
    micro-batch skips the step of both."""
    mesh = init_device_mesh(DEVICE, (2,))
    made, whole = sharded(mesh), model()
    optimizer = pt.AdamW(made.parameters(), lr=0.01, max_grad_norm=0.5)
    other = torch.optim.AdamW(whole.parameters(), lr=0.01)
    for step in range(3):
        before = full(made.parameters())
        for k in range(3):
            backward(made, 10 * step + k)
            if step == 1 and k == 1 and rank == 1:
                part = made[0].weight.grad.to_local()
                part[0, 0] = math.inf
            if k < 2:
                optimizer.accumulate()
                assert all(p.grad is None for p in made.parameters())
        optimizer.step()
        optimizer.zero_grad()
        assert float(optimizer.found_inf) == (step == 1)
        if step == 1:
            close(made.parameters(), before, 0)
            continue
        for k in range(3):
            backward(whole, 10 * step + k)
        norm = torch_clip(whole.parameters(), 0.5)
        assert float(optimizer.grad_norm) == pytest.approx(float(norm), rel=1e-5)
        other.step()
        other.zero_grad()
        close(made.parameters(), whole.parameters(), 1e-5)
    norms = [torch.empty_like(optimizer.grad_norm) for _ in range(2)]
    torch.distributed.all_gather(norms, optimizer.grad_norm)
    assert torch.equal(*norms)


@over_ranks(2)
def test_no_gradient_yet(rank):
    """A rank takes part in the sum whether or not it has had a gradient."""
    import torch.distributed as dist
    w = torch.nn.Parameter(torch.zeros(4, device=DEVICE))
    ours = pt.SGD([w], lr=1.0, max_grad_norm=1.0, process_group=dist.group.WORLD)
    ours.step()
    assert ours.grad_norm.item() == 0 and ours.found_inf.item() == 0
    for size, norm in (1.0, 2.0), (float("inf"), float("inf")), (2.0, 4.0), (3.0, 72 ** 0.5):
        late = size == 3
        w.grad = torch.full((4,), size, device=DEVICE) if rank == 0 or late else None
        ours.step()
        assert ours.grad_norm.item() == torch.tensor(norm).item()
        assert ours.found_inf.item() == (norm == float("inf"))
    assert float(w.detach().abs().sum()) > 0


@pytest.mark.parametrize("settings", [{}, dict(reports=True), dict(max_grad_norm=1e3), dict(rule="lamb")], ids=str)
@over_ranks(2)
def test_guards_before_a_gradient(rank, settings):
    """Guards of a rank that has had no gradient yet see the steps of the others, and later decide as theirs."""
    import torch.distributed as dist
    w = torch.nn.Parameter(torch.zeros(4, device=DEVICE))
    guards = pt.Guards(history=6)
    kinds = dict(lr=0.1, guards=guards, process_group=dist.group.WORLD)
    ours = (pt.Optimizer([w], getattr(optimizers, settings["rule"]), **kinds) if "rule" in settings else
            pt.SGD([w], **kinds, **settings))
    reasons = []
    for step in range(13):
        if step == 3:
            ours.accumulate()
        size = 9.0 if step == 7 else 1 + 0.01 * step
        w.grad = torch.full((4,), size, device=DEVICE) if rank == 0 or step > 8 else None
        ours.step()
        ours.zero_grad()
        reasons.append(int(guards.skipped))
        states = [torch.empty_like(guards.state_dict()["state"]) for _ in range(2)]
        dist.all_gather(states, guards.state_dict()["state"])
        assert torch.equal(*states), step
        if settings.get("reports"):
            mine = 2 * size if rank == 0 or step > 8 else 0
            assert float(ours.report(local=True).norm[0]) == pytest.approx(mine, rel=1e-6)
    assert reasons[7] and not any(reasons[:7])


@over_ranks(2)
def test_infinity_in_copies(rank):
    """One rank counts what both have: infinity there makes the norm infinite, NaN makes it NaN, as torch's."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = init_device_mesh(DEVICE, (2,))
    for size in (3, 30000):
        cut, copied = (torch.nn.Parameter(distribute_tensor(torch.ones(size, 2, device=DEVICE), mesh, [place]))
                       for place in (Shard(0), Replicate()))
        clipped = pt.SGD([cut, copied], lr=1.0, max_grad_norm=1.0)
        for value in (1.0, -math.inf, math.nan):
            whole = torch.ones(size, 2, device=DEVICE)
            whole[1, 1] = value
            cut.grad, copied.grad = (distribute_tensor(g.clone(), mesh, [place]) for g, place in
                                     ((torch.ones_like(whole), Shard(0)), (whole, Replicate())))
            clipped.step()
            expected = (whole.double().square().sum() + 2 * size).sqrt()
            assert float(clipped.grad_norm) == pytest.approx(float(expected), rel=1e-6, nan_ok=True)
            assert float(clipped.found_inf) == (value != 1.0)
            norm = pt.clip_grad_norm_([cut, copied], 1.0)
            assert float(getattr(norm, "full_tensor", lambda: norm)()) == pytest.approx(float(expected), rel=1e-6, nan_ok=True)


# ---- checkpoints


@pytest.mark.parametrize("state_dtype,dtype", [
    ("float32", torch.float32), ("master", torch.bfloat16), ("remainder", torch.bfloat16)])
@over_ranks(2)
def test_checkpoint(rank, tmp_path, state_dtype, dtype):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import (get_optimizer_state_dict,
                                                         set_optimizer_state_dict)
    mesh = init_device_mesh(DEVICE, (2,))

    def made(lr):
        net = model().to(dtype)
        for layer in net:
            if list(layer.parameters()):
                fully_shard(layer, mesh=mesh)
        fully_shard(net, mesh=mesh)
        return net, pt.AdamW(net.parameters(), lr=lr, state_dtype=state_dtype, seed=3)

    def step(net, optimizer, seed):
        generator = torch.Generator().manual_seed(seed)
        for p in net.parameters():
            g = torch.randn(p.shape, generator=generator).to(dtype).to(DEVICE)
            p.grad = distribute_tensor(g, mesh, p.placements)
        optimizer.step()
        optimizer.zero_grad()

    net, optimizer = made(1e-2)
    for seed in range(3):
        step(net, optimizer, seed)
    dcp.save({"model": net.state_dict(), "optimizer": get_optimizer_state_dict(net, optimizer)},
             checkpoint_id=tmp_path)
    other, again = made(0.5)
    before = full(other.parameters())
    state = {"model": other.state_dict(), "optimizer": get_optimizer_state_dict(other, again)}
    close(other.parameters(), before, 0.0)  # the step with lr 0 that makes the states
    dcp.load(state, checkpoint_id=tmp_path)
    other.load_state_dict(state["model"])
    set_optimizer_state_dict(other, again, state["optimizer"])
    for seed in range(3, 6):
        step(net, optimizer, seed)
        step(other, again, seed)
    close(net.parameters(), other.parameters(), 0.0)
    assert {float(entry["step"]) for entry in again.state.values()} == {6.0}


@over_ranks(2)
def test_gathered_remainders(rank):
    """All of a model's states on each rank, and back: the same bits go on."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict)
    mesh = init_device_mesh(DEVICE, (2,))
    generator = torch.Generator().manual_seed(2)
    value = torch.randn(6, 64, generator=generator).bfloat16().to(DEVICE)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(distribute_tensor(value.clone(), mesh, [Shard(0)]))

    def step(*pairs):
        g = torch.randn(6, 64, generator=generator).bfloat16().to(DEVICE)
        for net, optimizer in pairs:
            net.w.grad = distribute_tensor(g, mesh, [Shard(0)])
            optimizer.step()

    nets = [Net(), Net()]
    pairs = [(net, pt.AdamW(net.parameters(), lr=1e-3, state_dtype="remainder")) for net in nets]
    step(pairs[0])
    step(pairs[0])
    options = StateDictOptions(full_state_dict=True)
    whole = get_optimizer_state_dict(*pairs[0], options=options)
    assert whole["state"]["w"]["remainder"].shape == (6, 64)
    with torch.no_grad():
        nets[1].w.copy_(nets[0].w)
    set_optimizer_state_dict(*pairs[1], whole, options=options)
    kept = [optimizer.state[net.w]["remainder"].to_local() for net, optimizer in pairs]
    assert kept[0].dtype is torch.int16 and kept[0].any() and torch.equal(*kept)
    step(*pairs)
    assert torch.equal(nets[0].w.to_local(), nets[1].w.to_local())


@over_ranks(2)
def test_8bit_reshards(rank, tmp_path):
    """8-bit states that were cut by rows, read into those that are cut by columns: the same bits go on."""
    import torch.distributed.checkpoint as dcp
    mesh = init_device_mesh(DEVICE, (2,))
    generator = torch.Generator().manual_seed(2)

    def made(value, placement):
        p = torch.nn.Parameter(distribute_tensor(value.to(DEVICE), mesh, [placement]))
        return p, pt.AdamW([p], lr=1e-2, state_dtype="8bit", seed=5)

    def step(value, *pairs):
        for p, optimizer in pairs:
            p.grad = distribute_tensor(value.to(DEVICE), mesh, p.placements)
            optimizer.step()

    value = torch.randn(8, 1024, generator=generator)
    rows, columns = made(value, Shard(0)), made(value, Shard(1))
    for _ in range(2):
        step(torch.randn(8, 1024, generator=generator), rows)
    step(torch.zeros(8, 1024), columns)  # makes the states

    def stored(p, optimizer):
        return {"parameter": p.detach(), "states": dict(optimizer.state[p])}

    dcp.save(stored(*rows), checkpoint_id=tmp_path)
    dcp.load(stored(*columns), checkpoint_id=tmp_path)
    step(torch.randn(8, 1024, generator=generator), rows, columns)
    assert torch.equal(rows[0].full_tensor(), columns[0].full_tensor())
    for name, state in rows[1].state[rows[0]].items():
        other = columns[1].state[columns[0]][name]
        assert torch.equal(*(full([state, other]))), name
    assert rows[1].state[rows[0]]["exp_avg"].dtype is torch.uint8


@over_ranks(2)
def test_ddp(rank):
    from torch.nn.parallel import DistributedDataParallel
    base = model()
    ours, theirs = (DistributedDataParallel(copy.deepcopy(base), gradient_as_bucket_view=True)
                    for _ in range(2))
    first = pt.AdamW(ours.parameters(), lr=1e-2, max_grad_norm=0.5)
    second = torch.optim.AdamW(theirs.parameters(), lr=1e-2)
    for seed in range(4):
        backward(ours, 2 * seed + rank, 30.0)
        backward(theirs, 2 * seed + rank, 30.0)
        torch_clip(theirs.parameters(), 0.5)
        first.step()
        second.step()
        first.zero_grad()
        second.zero_grad()
    close(ours.parameters(), theirs.parameters(), 1e-5)


@needs("torch.float8_e4m3fn")
@over_ranks(2)
def test_float8_weights(rank):
    """Scales are those of whole weights, the same on all ranks; codes are those of each rank's part."""
    mesh = init_device_mesh(DEVICE, (2,))
    made, alone = sharded(mesh), model()
    fp8, whole = pt.Float8Weights(history=2), pt.Float8Weights(history=2)
    ours = pt.AdamW(made.parameters(), lr=1e-2, max_grad_norm=0.5, fp8=fp8)
    other = pt.AdamW(alone.parameters(), lr=1e-2, max_grad_norm=0.5, fp8=whole)
    fp8.cast()
    whole.cast()
    for seed in range(4):
        for p, q in zip(made.parameters(), alone.parameters()):
            g = torch.randn(q.shape, generator=torch.Generator().manual_seed(seed + q.numel())).to(DEVICE)
            q.grad, p.grad = g, distribute_tensor(g, mesh, [Shard(0)])
        ours.step()
        other.step()
        for p, q in zip(made.parameters(), alone.parameters()):
            if q.dim() < 2:
                continue
            assert torch.equal(p.full_tensor(), q.detach())
            codes, inverse, amax, _ = fp8[p]
            assert float(amax) == float(q.detach().abs().max()) and float(inverse) == float(whole[q].scale_inv)
            part = distribute_tensor(whole[q].codes.view(torch.uint8), mesh, [Shard(0)]).to_local()
            assert torch.equal(codes.view(torch.uint8), part)
    with torch.no_grad():
        for p in made.parameters():
            p.to_local()[rank:1].fill_(math.nan)  # the first rank's
    ours.step()
    for p in made.parameters():
        if p.dim() > 1:
            assert math.isnan(fp8[p].amax) and not math.isnan(fp8[p].scale_inv)
    for least in (0, 1):  # as stages of a pipeline
        own = [torch.nn.Parameter(torch.ones(4, *side, device=DEVICE)) for side in ((), *[(4,)] * (least + rank))]
        stage = pt.SGD(own, lr=1.0, process_group=torch.distributed.group.WORLD, fp8=pt.Float8Weights())
        for p in own:
            p.grad = torch.ones_like(p)
        with pytest.raises(ValueError, match=f"a rank has {least + 1} parameters with copies, and another one {least}"):
            stage.step()
        assert not stage.state and all(bool((p == 1).all()) for p in own)
    part = torch.nn.Parameter(torch.full((2, 3, 2, 2), 1.0 + rank, device=DEVICE))
    fp8 = pt.Float8Weights(history=1)
    optimizer = pt.SGD([part], lr=0.0, process_group=torch.distributed.group.WORLD, fp8=fp8)
    fp8.cast()
    if rank == 0:  # one rank's layout alone
        part.data = part.data.contiguous(memory_format=torch.channels_last)
    for _ in range(2):
        part.grad = torch.zeros_like(part)
        optimizer.step()
        assert float(fp8[part].amax) == 2 and fp8[part].codes.stride() == part.stride()
        assert bool((fp8[part].codes.float() * fp8[part].scale_inv == 1.0 + rank).all())

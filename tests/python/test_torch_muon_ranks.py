# SPDX-License-Identifier: MIT
"""ptxgen.torch.Muon of matrices whose rows are on several ranks: FSDP2, tensor parallelism, experts."""

import copy

import ptxgen.torch as pt
import pytest
import torch
from ptxgen.torch import _exchange, _shortcuts
from rank_parts import DEVICE, backward, full, model, over_ranks, pytestmark, sharded  # noqa: F401
from torch_parts import needs

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
except ImportError:
    pass

# With these numbers every sum is exact, so that it is the same whichever ranks add it up.
SETTINGS = {"lr": 0.125, "momentum": 0.5, "weight_decay": 0.25, "ns_steps": 2}
SHAPES = {"wide": (20, 40), "tall": (45, 12), "tiles": (131, 130), "heads": (24, 10), "conv": (6, 2, 3, 3), "row": (1, 9),
          "columns": (9, 24), "runs": (24, 10),
          "experts": (4, 6, 8), "whole": (5, 7), "bias": (11,)}


def dyadic(shape, generator):
    return torch.randint(-8, 9, shape, generator=generator).float().div(8).to(DEVICE)


def heads(name, shape):
    return {"heads": [(0, 8), (8, 9), (17, 7)],  # the cut is within the second
            "columns": [(0, 8, 0, True), (8, 16, 0, True)],
            "runs": [(0, 4, 12), (4, 8, 12)], "experts": [(0, 2, 4, True), (2, 2, 4, True)]}.get(name)


def groups_of(made):
    matrices = [(name, p) for name, p in made.items() if name != "bias"]
    return [{"params": matrices}, {"params": [("bias", made["bias"])], "use_muon": False, "lr": 0.01}]


def optimizer_of(made, **settings):
    return pt.Muon(groups_of(made), **SETTINGS, heads=heads, of_3d="batch", reports=True, **settings)


def parameters(mesh, dtype, seed=0, without=()):
    """Whole, and over the ranks."""
    generator = torch.Generator().manual_seed(seed)
    whole = {name: torch.nn.Parameter(dyadic(shape, generator).to(dtype)) for name, shape in SHAPES.items() if name not in without}
    placed = {name: [Replicate() if name == "whole" else Shard(0)] for name in whole}
    over = {name: torch.nn.Parameter(distribute_tensor(p.detach().clone(), mesh, placed[name])) for name, p in whole.items()}
    return whole, over, placed


def set_gradients(whole, over, placed, mesh, generator):
    for name, p in whole.items():
        g = dyadic(p.shape, generator)
        p.grad = g.to(p.dtype)
        over[name].grad = distribute_tensor(g.to(p.dtype), mesh, placed[name])


def check_same(whole, over, ours, theirs):
    for name, p in whole.items():
        assert torch.equal(full([over[name]])[0], p.detach()), name
        mine, other = theirs.state[over[name]], ours.state[p]
        for state in other:
            if state != "step":
                assert torch.equal(full([mine[state]])[0], other[state]), (name, state)
            else:
                assert mine[state] == other[state], name


@pytest.mark.parametrize("dtype, state_dtype", [(torch.float32, "float32"), (torch.bfloat16, "bf16")])
@over_ranks(2)
def test_two_ranks_have_the_bits_of_one(rank, dtype, state_dtype):
    mesh = init_device_mesh(DEVICE, (2,))
    # The matrix of several tiles takes most of the time: once.
    whole, over, placed = parameters(mesh, dtype, without=["tiles"] if dtype == torch.bfloat16 else [])
    ours = optimizer_of(whole, state_dtype=state_dtype)
    theirs = optimizer_of(over, state_dtype=state_dtype)
    generator = torch.Generator().manual_seed(1)
    for step in range(3):
        set_gradients(whole, over, placed, mesh, generator)
        if step == 1:  # a step that is skipped
            whole["tall"].grad[40, 3] = float("inf")
            if rank == 1:
                over["tall"].grad.to_local()[40 - 23, 3] = float("inf")
        ours.step()
        theirs.step()
        assert theirs.found_inf.item() == ours.found_inf.item() == (step == 1)
        assert torch.equal(theirs.grad_norm, ours.grad_norm)
        check_same(whole, over, ours, theirs)
        mine, other = theirs.report(), ours.report()
        for field in ("first_nonfinite", "zeros", "largest", "weight_largest"):
            assert torch.equal(getattr(mine, field), getattr(other, field)), field
    saved = copy.deepcopy(theirs.state_dict())
    again = optimizer_of(over, state_dtype=state_dtype)
    again.load_state_dict(saved)
    set_gradients(whole, over, placed, mesh, generator)
    ours.step()
    again.step()
    check_same(whole, over, ours, again)


@needs("torch.float8_e4m3fn")
@over_ranks(2)
def test_float8_blocks_of_heads(rank):
    """Those of this rank's part, as cast() makes them, wherever heads are cut."""
    mesh = init_device_mesh(DEVICE, (2,))
    whole, over, placed = parameters(mesh, torch.float32, without=["tiles", "conv", "experts", "whole", "row"])
    fp8 = pt.Float8Weights(blocks="1x128", transposed=True)
    optimizer = optimizer_of(over, fp8=fp8)
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):
        set_gradients(whole, over, placed, mesh, generator)
        optimizer.step()
        named = [p for name, p in over.items() if name != "bias"]
        left = [[x.clone() for x in fp8.blocks_of(p)] for p in named]
        fp8.cast()
        for p, one in zip(named, left):
            for x, y in zip(one, fp8.blocks_of(p)):
                assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))
            assert float(one[1].max()) < 1  # not what there is before a step


@over_ranks(2)
def test_fsdp(rank):
    """FSDP2's own parameters; a norm that clips; sums of micro-batches."""
    mesh = init_device_mesh(DEVICE, (2,))
    plain, made = model(), sharded(mesh)

    def optimizer_for(module):
        named = list(module.named_parameters())
        return pt.Muon([{"params": [(n, p) for n, p in named if p.dim() == 2]},
                        {"params": [(n, p) for n, p in named if p.dim() != 2], "use_muon": False, "lr": 0.01}],
                       lr=0.02, max_grad_norm=0.5)

    ours, theirs = optimizer_for(plain), optimizer_for(made)
    for seed in range(3):
        for one, optimizer in ((plain, ours), (made, theirs)):
            if seed == 2:
                backward(one, 7)
                optimizer.accumulate()
            backward(one, seed)
            optimizer.step()
            optimizer.zero_grad()
        assert float(theirs.grad_norm) == pytest.approx(float(ours.grad_norm), rel=1e-4)
        for x, y in zip(full(plain.parameters()), full(made.parameters())):
            assert float((x - y).abs().max()) <= 1e-3, seed  # gradients differ in the last bits, and X in f16
    windows = pt.Muon([p for p in made.parameters() if p.dim() == 2], matrix_memory=1 << 20)
    backward(made, 0)
    with pytest.raises(ValueError, match="matrix_memory is 1048576, and a matrix of parameter 0 has rows on several ranks"):
        windows.step()


@over_ranks(2)
def test_factors_over_ranks(rank):
    """Rows and columns of parameters whose rows are on two ranks, with the factors of the whole."""
    mesh = init_device_mesh(DEVICE, (2,))
    kept = ("wide", "tall", "heads", "columns", "whole", "bias")
    whole, over, placed = ({name: made[name] for name in kept} for made in parameters(mesh, torch.float32))
    values = torch.tensor([0.5, 0.75, 1.25, 0.25, 1.0, 0.5], device=DEVICE)

    def clips(of):
        return [pt.QKClip(of["wide"], values[:4]), pt.QKClip(of["heads"], values), pt.QKClip(of["columns"], values, columns=True),
                pt.QKClip(of["tall"], values[:2], [(1, 3, 8), (5, 2, 8)]), pt.QKClip(of["whole"], values[:1], [(2, 3)])]

    ours, theirs = optimizer_of(whole, qk_clip=clips(whole)), optimizer_of(over, qk_clip=clips(over))
    generator = torch.Generator().manual_seed(5)
    before = whole["wide"].detach().clone()
    for _ in range(2):
        set_gradients(whole, over, placed, mesh, generator)
        ours.step()
        theirs.step()
        check_same(whole, over, ours, theirs)
    assert not torch.equal(before, whole["wide"])
    cut = torch.nn.Parameter(distribute_tensor(torch.ones(6, 8, device=DEVICE), mesh, [Shard(1)]))
    optimizer = pt.AdamW([cut], qk_clip=pt.QKClip(cut, values))
    cut.grad = distribute_tensor(torch.ones(6, 8, device=DEVICE), mesh, [Shard(1)])
    with pytest.raises(ValueError, match=r"one with factors of qk_clip may lie in rows, Shard\(0\)"):
        optimizer.step()


@over_ranks(2)
def test_collectives_of_a_step(rank):
    """Sums of matrices go with the norm's; rows of X go to their owners and back."""
    import torch.distributed as dist
    mesh = init_device_mesh(DEVICE, (2,))
    generator = torch.Generator().manual_seed(4)
    params = [torch.nn.Parameter(distribute_tensor(dyadic(shape, generator), mesh, [Shard(0)])) for shape in ((10, 6), (7, 9), (5,))]
    optimizer = pt.Muon([{"params": params[:2]}, {"params": params[2:], "use_muon": False}], **SETTINGS)
    for p in params:
        p.grad = distribute_tensor(dyadic(tuple(p.shape), generator), mesh, [Shard(0)])
    optimizer.step()
    calls = []

    def counted(name, call):
        return lambda *given, **more: (calls.append(name), call(*given, **more))[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_shortcuts.add_up, "way", counted("sums", _shortcuts.add_up.way))
        for name in ("all_to_all_single", "all_reduce", "all_gather", "broadcast"):
            patch.setattr(dist, name, counted(name, getattr(dist, name)))
        optimizer.step()
    assert [name for name in calls if name != "all_reduce"] == ["sums", "all_to_all_single", "all_to_all_single"]
    assert calls.count("all_reduce") <= 1  # by which the sums are added up without the short way


@over_ranks(2)
def test_a_rank_without_gradients(rank):
    """A rank that has had no gradient takes part in what the others add up and send."""
    mesh = init_device_mesh(DEVICE, (2,))
    generator = torch.Generator().manual_seed(3)
    p = torch.nn.Parameter(distribute_tensor(dyadic((10, 6), generator), mesh, [Shard(0)]))
    optimizer = pt.Muon([p], **SETTINGS)
    before = p.detach().to_local().clone()
    g = distribute_tensor(dyadic((10, 6), generator), mesh, [Shard(0)])
    if rank == 0:
        p.grad = g
    optimizer.step()
    assert torch.equal(p.detach().to_local(), before) is (rank == 1)
    p.grad = g
    optimizer.step()
    assert not torch.equal(p.detach().to_local(), before)


@over_ranks(2)
def test_refused_placements(rank):
    mesh = init_device_mesh(DEVICE, (2,))
    two = init_device_mesh(DEVICE, (1, 2), mesh_dim_names=("data", "model"))
    matrix = torch.ones(6, 4, device=DEVICE)
    for over, placements in ((mesh, [Shard(1)]), (mesh, [Partial()])):
        p = torch.nn.Parameter(distribute_tensor(matrix, over, [Replicate()]).redistribute(over, [Replicate()])
                               if isinstance(placements[0], Partial) else distribute_tensor(matrix, over, placements))
        if isinstance(placements[0], Partial):
            from torch.distributed.tensor import DTensor
            p = torch.nn.Parameter(DTensor.from_local(matrix, over, placements))
        with pytest.raises(ValueError, match=r"parameter 0 of group 0 \(w\) of shape \(6, 4\) is placed as .*Shard\(0\), "
                                             "along one dimension of its mesh"):
            pt.Muon([("w", p)])
    p = torch.nn.Parameter(distribute_tensor(torch.ones(10, 4, device=DEVICE), mesh, [Shard(0)]))
    with pytest.raises(ValueError, match="matrix 0 of `heads` has strided rows, and .* begin within a run of them, at row 5"):
        pt.Muon([("w", p)], heads=[(0, 2, 4), (2, 2, 4)])
    p = torch.nn.Parameter(distribute_tensor(matrix, two, [Shard(1), Shard(0)]))  # one rank along the first
    p.grad = distribute_tensor(matrix, two, [Shard(1), Shard(0)])
    pt.Muon([("w", p)]).step()


def test_work_is_spread():
    whole = [([0, 5, 0], 70)]  # stays where it is
    assert _exchange.owners(whole, 3) == [1]
    cut = [([2, 2, 1], work) for work in (10, 50, 30, 50, 20)]
    assert _exchange.owners(cut, 3) == [0, 0, 2, 1, 2]
    assert _exchange.owners(whole + cut, 3)[0] == 1
    load = [0, 70, 0]
    for rank, (_, work) in zip(_exchange.owners(whole + cut, 3)[1:], cut):
        load[rank] += work
    assert load == [80, 80, 70]

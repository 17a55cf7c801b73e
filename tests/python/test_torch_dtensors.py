# SPDX-License-Identifier: MIT
"""DTensors on a mesh of one rank, beside tensors: found in one call or one by one, with the same results.
test_torch_ranks.py has several ranks."""

import pytest
import torch
from torch_parts import DEVICE, all_plain, beside_plain, needs

import ptxgen.torch as pt
from ptxgen.torch import _part, _ranks, _shortcuts, clip

pytestmark = needs("torch.distributed.fsdp.fully_shard")
try:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
except ImportError:
    pass

SHAPES = [(8, 4), (30,), (6, 2), (3, 5), (0, 3)]
PLAIN = (1, 3)  # of these, no DTensors


@pytest.fixture(scope="module")
def mesh():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh(DEVICE, (1,))
    dist.destroy_process_group()


@pytest.fixture(params=["one call", "one by one"])
def native(request, monkeypatch):
    if request.param == "one by one":
        monkeypatch.setattr(_shortcuts._functions, "way", _shortcuts._functions.plain)
    elif _shortcuts._functions.way() is None:
        pytest.skip(f"no functions to look at tensors in torch {torch.__version__}")
    monkeypatch.setattr(clip, "_watches", [])
    return request.param == "one call"


@pytest.fixture
def asked(monkeypatch):
    """The turns in which tensors were asked one by one."""
    counted, ask = [], _part.Part._ask
    monkeypatch.setattr(_part.Part, "_ask", lambda part: counted.append(1) or ask(part))
    return counted


def made(mesh):
    """DTensors beside tensors, and the same as tensors alone."""
    generator = torch.Generator().manual_seed(7)
    values = [torch.randn(shape, generator=generator).to(DEVICE) for shape in SHAPES]
    ours = [torch.nn.Parameter(v.clone() if k in PLAIN else distribute_tensor(v.clone(), mesh, [Shard(0)]))
            for k, v in enumerate(values)]
    return ours, [torch.nn.Parameter(v.clone()) for v in values]


def give(ours, theirs, seed):
    generator = torch.Generator().manual_seed(seed)
    for p, q in zip(ours, theirs):
        q.grad = torch.randn(q.shape, generator=generator).to(DEVICE)
        part = q.grad.clone()
        p.grad = DTensor.from_local(part, p.device_mesh, p.placements) if isinstance(p, DTensor) else part


def as_fsdp2(part, p):
    """With the parameter's own spec, as FSDP2 does it."""
    return DTensor(part, p._spec, requires_grad=False)


def close(ours, theirs):
    for p, q in zip(ours, theirs):
        part = p._local_tensor if isinstance(p, DTensor) else p
        assert torch.allclose(part.detach(), q.detach(), rtol=2e-6, atol=2e-6)


# Each changes parameters or gradients of ours, and of theirs what that is for tensors.


def keep(ours, theirs):
    pass


def own_spec(ours, theirs):
    ours[0].grad = as_fsdp2(ours[0].grad._local_tensor, ours[0])


def move_part(ours, theirs):
    ours[0].grad._local_tensor = ours[0].grad._local_tensor.clone()


def double_part(ours, theirs):
    ours[2].grad._local_tensor.mul_(2)
    theirs[2].grad.mul_(2)


def leave_out(ours, theirs):
    for params in (ours, theirs):
        params[0].grad = params[1].grad = None


def leave_all_out(ours, theirs):
    for p in ours + theirs:
        p.grad = None


def transpose_part(ours, theirs):
    part = ours[0].grad._local_tensor
    ours[0].grad._local_tensor = part.t().contiguous().t()


def other_part_of_parameter(ours, theirs):
    with torch.no_grad():
        ours[2]._local_tensor = ours[2]._local_tensor * 3
        theirs[2].mul_(3)


def other_memory_of_part(ours, theirs):
    ours[2]._local_tensor.data = ours[2]._local_tensor.data.clone()


def swap(ours, theirs):
    other = torch.nn.Parameter(distribute_tensor(torch.ones(8, 4, device=DEVICE), ours[0].device_mesh,
                                                 [Shard(0)]))
    other.grad = ours[0].grad.clone()
    torch.utils.swap_tensors(ours[0], other)
    theirs[0].data = torch.ones(8, 4, device=DEVICE)


MUTATIONS = [keep, own_spec, move_part, double_part, leave_out, leave_all_out, transpose_part,
             other_part_of_parameter, other_memory_of_part, swap]


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda f: f.__name__)
def test_step_against_torch(mesh, native, mutate):
    ours, theirs = made(mesh)
    a, b = pt.AdamW(ours, lr=1e-2), torch.optim.AdamW(theirs, lr=1e-2)
    for turn in range(4):
        give(ours, theirs, turn)
        if turn == 1:
            mutate(ours, theirs)
        a.step()
        b.step()
        close(ours, theirs)
    assert [part.watch is not None for part in a._engine()._parts] == [native]


@pytest.mark.parametrize("mutate", [m for m in MUTATIONS if m is not transpose_part],
                         ids=lambda f: f.__name__)  # torch clips no such mixture
def test_clip_against_torch(mesh, native, mutate):
    ours, theirs = made(mesh)
    for turn in range(4):
        give(ours, theirs, turn)
        if turn == 2:
            mutate(ours, theirs)
        gradients = [p.grad for p in ours if p.grad is not None]
        before = [g._version for g in gradients]
        norm = pt.clip_grad_norm_(ours, 0.5)
        expected = torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        assert abs(float(norm) - float(expected)) <= 1e-6 * float(expected)
        assert all(g._version > version for g, version in zip(gradients, before))
        close([p.grad for p in ours if p.grad is not None], [q.grad for q in theirs if q.grad is not None])
    assert len(clip._watches) == native


def test_one_look(mesh, asked):
    """Other specs that are equal are asked once, and no others."""
    if _shortcuts._functions.way() is None:
        pytest.skip(f"no functions to look at tensors in torch {torch.__version__}")
    ours, theirs = made(mesh)
    optimizer = pt.AdamW(ours, lr=1e-2, max_grad_norm=1.0)
    give(ours, theirs, 0)
    optimizer.step()
    parts = [p.grad._local_tensor if isinstance(p, DTensor) else p.grad for p in ours]
    specs = [p.grad._spec if isinstance(p, DTensor) else None for p in ours]

    def renew(specs):
        for p, part, spec in zip(ours, parts, specs):
            p.grad = part.clone() if spec is None else DTensor(part.clone(), spec, requires_grad=False)
    asked.clear()
    for _ in range(3):
        renew(specs)
        optimizer.step()
        optimizer.zero_grad()
        optimizer.step()
    assert not asked
    for _ in range(3):
        renew([p._spec if isinstance(p, DTensor) else None for p in ours])
        optimizer.step()
    assert len(asked) == 1


def test_refusals_leave_everything(mesh, native):
    """This rank's part of a gradient is of another kind, type or shape than its parameter's."""
    ours, theirs = made(mesh)
    optimizer = pt.AdamW(ours, lr=1e-2)
    give(ours, theirs, 0)
    optimizer.step()
    before = [p._local_tensor.clone() if isinstance(p, DTensor) else p.detach().clone() for p in ours]
    good = ours[0].grad._local_tensor
    for bad in (good.to_sparse(), good.to(torch.complex64), good[:4], good.to(torch.float64)):
        ours[0].grad._local_tensor = bad
        with pytest.raises(ValueError, match="gradient"):
            optimizer.step()
    close(ours, before)
    ours[0].grad._local_tensor = good
    optimizer.step()


def test_one_of_the_two_is_a_dtensor(mesh, native):
    part = torch.ones(8, device=DEVICE)
    for whole, other, message in ((distribute_tensor(part, mesh, [Shard(0)]), part, "0 is a DTensor.*not"),
                                  (part, distribute_tensor(part, mesh, [Shard(0)]), "0 is no DTensor.*one")):
        p = torch.nn.Parameter(whole.clone())
        p.grad = whole.clone()
        optimizer = pt.SGD([p], lr=1.0)
        optimizer.step()
        try:
            p.grad = None
            p.grad = other
        except RuntimeError:
            continue  # another torch refuses it
        with pytest.raises(ValueError, match=message):
            optimizer.step()
        assert optimizer.state[p]["step"].item() == 1.0


def test_replicated(mesh, native):
    """Gradients that are placed otherwise than their parameters: the clip plan is for those."""
    ours, theirs = made(mesh)
    for turn in range(3):
        give(ours, theirs, turn)
        for p in ours:
            if isinstance(p, DTensor):
                p.grad = DTensor.from_local(p.grad._local_tensor, mesh, [Replicate()])
        norm = pt.clip_grad_norm_(ours, 0.5)
        assert abs(float(norm) / float(torch.nn.utils.clip_grad_norm_(theirs, 0.5)) - 1) < 1e-6
        close([p.grad for p in ours], [q.grad for q in theirs])
    assert len(clip._watches) == native


def test_clip_in_a_world(mesh, native, monkeypatch):
    """One look suffices as long as the group of the plans is there; then they are made anew."""
    everyone, made_in = dist.group.WORLD, []
    monkeypatch.setattr(clip, "_sets", [])
    monkeypatch.setattr(clip, "world", lambda: everyone)
    monkeypatch.setattr(clip, "reduction", lambda grads: _ranks.Reduction(dist.group.WORLD, [True] * len(grads)))
    set_of = clip._set_of
    monkeypatch.setattr(clip, "_set_of", lambda *args: made_in.append(everyone) or set_of(*args))
    ours, theirs = made(mesh)
    for turn, everyone in enumerate([everyone] * 3 + ["another"] * 2):
        give(ours, theirs, turn)
        for p in ours:
            if isinstance(p, DTensor):
                p.grad = as_fsdp2(p.grad._local_tensor, p)
        norm = pt.clip_grad_norm_(ours, 0.5)
        assert abs(float(norm) / float(torch.nn.utils.clip_grad_norm_(theirs, 0.5)) - 1) < 1e-6
    assert made_in == ([dist.group.WORLD, "another"] if native else [dist.group.WORLD] * 3 + ["another"] * 2)
    assert [one.world for one in clip._sets] == ["another", dist.group.WORLD]


def test_ranks_of_a_grid():
    """The ranks along the dimensions that differ; no other rank's sums are waited for."""
    class Mesh:
        mesh = torch.arange(8).reshape(2, 2, 2)

    def spanned(*sets, rank=5):
        found = _ranks._spanned(Mesh, set(map(frozenset, sets)), rank)
        return None if found is None else sorted(found)
    assert spanned({4, 5}) == [4, 5] and spanned({1, 5}, {4, 5}) == [0, 1, 4, 5]
    assert spanned({4, 5}, {5, 7}) == [4, 5, 6, 7] and spanned({5, 8}) is None
    assert spanned({4, 5}, rank=9) is None


@pytest.mark.parametrize("where", ["whole", "part"])
def test_written_between_steps(mesh, native, where):
    """What others write to a bf16 DTensor, or to this rank's part of it, is not undone by its master."""
    params = [torch.nn.Parameter(p.detach().bfloat16()) for p in made(mesh)[0]]
    optimizer = pt.SGD(params, lr=2.0 ** -12)

    def step():
        for p in params:
            p.grad = torch.ones_like(p)
        optimizer.step()

    step()
    with torch.no_grad():
        for p in params:
            (p._local_tensor if where == "part" and isinstance(p, DTensor) else p).fill_(5.0)
    step()
    for p in params:
        part, master = (t._local_tensor if isinstance(t, DTensor) else t
                        for t in (p, optimizer.state[p]["master"]))
        assert bool((part == 5.0).all()) and bool((master == 5.0 - 2.0 ** -12).all())


# ---- short cuts: see test_torch_shortcuts.py


def some_of(mesh):
    return [distribute_tensor(torch.ones(shape, device=DEVICE), mesh, [place])
            for shape, place in (((4, 2), Shard(0)), ((4, 2), Shard(1)), ((4, 2), Replicate()),
                                 ((2, 4), Shard(0)), ((4, 2), Shard(0)))]


def test_part(mesh, monkeypatch):
    def run(way):
        found = [(one._local_tensor, way(one)) for one in [*some_of(mesh), *map(torch.nn.Parameter, some_of(mesh))]]
        return [isinstance(b, torch.Tensor) and (a.data_ptr(), a.shape) == (b.data_ptr(), b.shape) for a, b in found]

    beside_plain(monkeypatch, _shortcuts._part, run, [(_shortcuts, "_PART", name) for name in ("none", "data")])


def test_all_plain(mesh, monkeypatch):
    """Steps and clipping without any short cut: the same bits, also of what others write between steps."""
    def train():
        wide, theirs = made(mesh)
        ours, bits = [torch.nn.Parameter(p.detach().bfloat16()) for p in wide], []
        optimizer = pt.AdamW(ours, lr=1e-2, max_grad_norm=1.0)
        for turn in range(6):
            give(wide, theirs, turn)
            for p, q in zip(ours, wide):
                p.grad = q.grad.bfloat16()
            if turn == 3:
                other_part_of_parameter(ours, theirs)
            elif turn == 4:
                local(ours[0]).data.fill_(2.0)
                with torch.no_grad():
                    local(ours[2]).fill_(3.0)
            norm = pt.clip_grad_norm_(ours, 3.0)
            optimizer.step()
            bits += [float(norm), float(optimizer.grad_norm)]
        return bits, [local(p).tolist() for p in ours]

    local = _shortcuts.local
    short = train()
    all_plain(monkeypatch)
    assert train() == short and _shortcuts._part.way is _shortcuts._part.plain


def test_spec(mesh, monkeypatch):
    def run(way):
        specs = list(map(way, some_of(mesh)))
        return [[a == b for a in specs] for b in specs]

    beside_plain(monkeypatch, _shortcuts._spec, run, [(_shortcuts, "_SPEC", name) for name in ("none", "grad")])


def test_placed_as(mesh, monkeypatch):
    def run(way):
        like = distribute_tensor(torch.ones((), device=DEVICE), mesh, [Replicate()])
        made = way(like)(torch.full((), 3.0, device=DEVICE))
        return type(made), made.placements, made.device_mesh, made.shape, made.full_tensor().item()

    beside_plain(monkeypatch, _shortcuts.placed_as, run, [(_shortcuts, "_SPEC", name) for name in ("none", "grad")])


def test_gradients(mesh, monkeypatch):
    params = [torch.nn.Parameter(one) for one in some_of(mesh)]
    for p in params[1:]:
        p.grad = p.detach().clone()

    def raises():
        raise RuntimeError

    def run(way):
        return [g is p.grad for g, p in zip(way(params), params)]

    beside_plain(monkeypatch, _shortcuts.gradients, run, [
        (torch._C, "DisableTorchFunctionSubclass", value) for value in (None, raises)])


def test_add_up(mesh, monkeypatch):
    """test_torch_ranks.py has more ranks than one."""
    class Refuses:
        def allreduce(self, tensors):
            raise AssertionError("it takes no options")

    group, total, sent = mesh.get_group(0), torch.full((1,), 2.5, dtype=torch.float64, device=DEVICE), []

    def run(way):
        way(total, group)
        return total.item()

    beside_plain(monkeypatch, _shortcuts.add_up, run, [(dist, "AllreduceOptions", lambda: 1 / 0)])
    monkeypatch.setattr(dist, "all_reduce", lambda total, group: sent.append(group))
    for refusing in (Refuses(), object()):
        _shortcuts.add_up.first(total, refusing)
    assert [type(group) for group in sent] == [Refuses, object]

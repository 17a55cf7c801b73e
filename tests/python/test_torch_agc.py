# SPDX-License-Identifier: MIT
"""Clipping of units (AGC) by ptxgen.torch's optimizers, beside timm's formula in f64: what groups have of their own,
weights that something else writes, what is refused."""

import pickle
from types import SimpleNamespace

import ptxgen.torch as pt
import pytest
import torch
from ptxgen.torch import _units
from rank_parts import over_ranks
from torch_parts import DEVICE, needs


def made(dtype=torch.float32, seed=0):
    """A matrix, a convolution, vectors; one row of zeros, and gradients of very different sizes."""
    torch.manual_seed(seed)
    params = [torch.nn.Parameter((0.05 * torch.randn(shape)).to(DEVICE, dtype))
              for shape in ((7, 24), (5, 3, 3, 3), (40,), (1, 9), (6, 128))]
    with torch.no_grad():
        params[0][2] = 0
    return params


def give(params, seed, size=1e-3):
    torch.manual_seed(seed)
    for p in params:
        g = size * torch.randn(p.shape)
        g[0] *= 300  # a unit that is clipped
        p.grad = g.to(DEVICE, p.dtype)


def clipped(p, clipping, eps=1e-3):
    """timm's adaptive_clip_grad() of a parameter's gradient, in f64."""
    w, g = p.detach().double(), p.grad.double()
    dims = tuple(range(1, p.ndim)) if p.ndim > 1 else None
    norm = (lambda x: x.norm() if dims is None else x.square().sum(dims, keepdim=True).sqrt())
    most, length = clipping * norm(w).clamp(min=eps), norm(g)
    return torch.where(length < most, g, g * (most / length.clamp(min=1e-6)))


def near(x, y, limit=1e-6):
    return float((x.double() - y).abs().max()) <= limit * max(float(y.abs().max()), 1e-3)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_a_step_is_that_of_the_clipped_gradient(dtype):
    params = made(dtype)
    optimizer = pt.SGD(params, lr=1.0, state_dtype="master", agc=(0.02, 1e-2))
    masters = [p.detach().double() for p in params]
    for step in range(3):
        give(params, step)
        expected = [m - clipped(p, 0.02, 1e-2) for m, p in zip(masters, params)]
        optimizer.step()
        masters = [(optimizer.state[p]["master"] if dtype is torch.bfloat16 else p).detach().double() for p in params]
        assert all(map(near, masters, expected))
    assert float(optimizer.found_inf) == 0 and float(optimizer.grad_norm) > 0


def test_max_grad_norm_comes_first():
    params = made()
    optimizer = pt.SGD(params, lr=1.0, max_grad_norm=0.5, agc=0.05)
    give(params, 1)
    norm = torch.stack([p.grad.double().norm() for p in params]).norm()
    raw = [p.grad.clone() for p in params]
    for p in params:
        p.grad = p.grad * float(0.5 / (norm + 1e-6))
    expected = [p.detach().double() - clipped(p, 0.05) for p in params]
    for p, g in zip(params, raw):
        p.grad = g
    optimizer.step()
    assert all(near(p.detach(), x) for p, x in zip(params, expected))


def test_groups_have_their_own():
    params = made()
    optimizer = pt.SGD([{"params": params[:2]}, {"params": params[2:4], "agc": None}, {"params": params[4:], "agc": 0.5}],
                       lr=1.0, agc=0.01)
    give(params, 2)
    expected = [p.detach().double() - (p.grad.double() if k in (2, 3) else clipped(p, 0.5 if k == 4 else 0.01))
                for k, p in enumerate(params)]
    optimizer.step()
    assert all(near(p.detach(), x) for p, x in zip(params, expected))
    optimizer.param_groups[0]["agc"] = 0.5  # a new plan
    give(params, 3)
    expected = [p.detach().double() - (p.grad.double() if k in (2, 3) else clipped(p, 0.5)) for k, p in enumerate(params)]
    optimizer.step()
    assert all(near(p.detach(), x) for p, x in zip(params, expected))
    assert pickle.loads(pickle.dumps(optimizer)).agc == 0.01 and "agc: 0.01" in repr(optimizer)


def test_weights_that_others_write():
    params = made()
    optimizer = pt.SGD(params, lr=1.0, agc=0.02)

    def steps(seed):
        give(params, seed)
        expected = [p.detach().double() - clipped(p, 0.02) for p in params]
        optimizer.step()
        return all(near(p.detach(), x) for p, x in zip(params, expected))

    assert steps(1) and steps(2)
    with torch.no_grad():
        for p in params:
            p.mul_(7)
    assert steps(3)
    for p in params:
        p.data = (p.data * 3).clone()
    assert steps(4)
    for p in params:
        p.data.mul_(0.1)
    optimizer.weights_changed()
    assert steps(5)


def test_sums_of_micro_batches():
    params = made(torch.bfloat16)
    optimizer = pt.SGD(params, lr=1.0, state_dtype="master", agc=0.02)
    masters = [p.detach().double() for p in params]
    for step in range(4):
        sums = [torch.zeros(p.shape, device=DEVICE) for p in params]
        for batch in range(1 + step % 3):
            give(params, 10 * step + batch)
            sums = [s + p.grad.float() for s, p in zip(sums, params)]
            if batch < step % 3 or step == 3:
                optimizer.accumulate()
        expected = []
        for m, p, s in zip(masters, params, sums):
            expected.append(m - clipped(SimpleNamespace(detach=p.detach, grad=s, ndim=p.ndim), 0.02))
        optimizer.step()
        masters = [optimizer.state[p]["master"].detach().double() for p in params]
        assert all(map(near, masters, expected))


def test_skipped_steps_leave_the_norms():
    params, others = made(), made()
    pairs = [(ps, pt.AdamW(ps, lr=0.01, agc=0.02)) for ps in (params, others)]
    for step in range(5):
        for ps, optimizer in pairs:
            if step == 2 and ps is others:
                continue
            give(ps, step)
            if step == 2:
                ps[1].grad[0] = float("inf")
            optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(params, others))


def test_refused():
    params = made()
    for agc in (0, -1.0, float("nan"), "0.1", (0.1, 0), (1, 2, 3), True):
        with pytest.raises(ValueError, match="agc: "):
            pt.AdamW(params, agc=agc)
    with pytest.raises(ValueError, match="agc is not for Muon"):
        pt.Muon([{"params": params[:1], "agc": 0.1}])
    turned = torch.nn.Parameter(torch.randn(8, 12, device=DEVICE).t())
    turned.grad = torch.ones_like(turned)
    with pytest.raises(ValueError, match="its rows are not in one piece"):
        pt.AdamW([turned], agc=0.1).step()


@pytest.mark.parametrize("whole, here, group, words", [
    ((8, 12), (4, 12), None, None), ((8, 3, 3), (0, 3, 3), None, None), ((8, 12), (8, 6), None, "cut within its rows"),
    ((8, 3, 3), (8, 3, 2), None, "cut within its rows"), ((40,), (20,), None, "clips it as a whole"),
    ((40,), (40,), None, None), ((8, 12), (8, 12), "ranks", "agc with process_group")])
def test_parts_of_parameters(whole, here, group, words):
    """Of parameters over ranks: what a rank has of them."""
    owner = SimpleNamespace(process_group=group, param_groups=[{}], _agc_of=lambda group: (0.1, 1e-3))
    item = SimpleNamespace(parameter=torch.empty(whole), local=torch.empty(here), what="parameter 3 (w)", group=0)
    if words is None:
        assert _units.fields(item, owner) == {"columns": 0 if len(whole) < 2 else torch.Size(whole[1:]).numel()}
    else:
        with pytest.raises(ValueError, match=r"parameter 3 \(w\) of shape .*" + words):
            _units.fields(item, owner)


# ---- two ranks


def network():
    torch.manual_seed(4)
    return torch.nn.Sequential(torch.nn.Linear(9, 33), torch.nn.GELU(), torch.nn.Linear(33, 7)).to(DEVICE)


def groups_of(model, vectors=None):
    """Vectors are cut by FSDP2, so their units are on no rank alone."""
    named = list(model.named_parameters())
    return [{"params": [(n, p) for n, p in named if p.ndim > 1]},
            {"params": [(n, p) for n, p in named if p.ndim < 2], "agc": vectors}]


@needs("torch.distributed.fsdp.fully_shard")
@needs("torch.nn.utils.get_total_norm")  # of torch 2.6, which has names in groups, too
@over_ranks(2)
def test_rows_of_shards(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh, plain, sharded = init_device_mesh(DEVICE, (2,)), network(), network()
    for layer in (sharded[0], sharded[2], sharded):
        fully_shard(layer, mesh=mesh)
    pairs = [(model, pt.SGD(groups_of(model), lr=0.5, agc=0.02, max_grad_norm=0.5, guards=pt.Guards(limit=40.0)))
             for model in (plain, sharded)]
    for step in range(6):
        for model, optimizer in pairs:
            torch.manual_seed(step)
            x = torch.randn(16, 9).to(DEVICE)
            (model(x).square().mean() * (1e4 if step == 3 else 5)).backward()
            if step == 4:
                optimizer.accumulate()
                (model(x).square().mean() * 5).backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 4:
                with torch.no_grad():
                    for p in model.parameters():
                        p.mul_(2)  # the norms of the weights are taken again
        assert {int(optimizer.guards.skipped) for _, optimizer in pairs} == {3 if step == 3 else 0}
        for p, q in zip(plain.parameters(), sharded.parameters()):
            assert float((p - q.full_tensor()).abs().max()) <= 2e-6 * float(p.abs().max()), step
    whole = pt.SGD(groups_of(sharded, 0.02), lr=0.5, agc=0.02)
    sharded(torch.ones(2, 9, device=DEVICE)).sum().backward()
    with pytest.raises(ValueError, match="0.bias.* of shape .33,. is cut over ranks, and agc clips it as a whole"):
        whole.step()

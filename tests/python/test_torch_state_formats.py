# SPDX-License-Identifier: MIT
"""Formats of parameters and states of ptxgen.torch's optimizers, beside the same steps in f32."""

import ptxgen.torch as pt
import pytest
import torch
from torch_parts import DEVICE, SHAPES, distance, give, parameters, run, same

LARGE = [(5, 1024), (4097,), (70,), (0,), (16, 3, 8, 16)]


def stepped(cls, dtype, state_dtype, steps=6, shapes=LARGE):
    """Parameters and f32 copies of them after some steps, their optimizers, and more options of these."""
    a = parameters(dtype, shapes=shapes)
    b = [torch.nn.Parameter(p.detach().float()) for p in a]
    options = {"momentum": 0.9} if cls is pt.SGD else {}
    ours = cls(a, lr=1e-3, state_dtype=state_dtype, seed=3, **options)
    exact = cls(b, lr=1e-3, **options)
    for seed in range(steps):
        give(a, seed)
        for p, q in zip(a, b):
            q.grad = p.grad.float()
        ours.step()
        exact.step()
    return a, b, ours, exact, options


@pytest.mark.parametrize("cls", [pt.AdamW, pt.Adam, pt.SGD, pt.Lion])
@pytest.mark.parametrize("dtype,state_dtype,tolerance", [
    (torch.float32, "bf16", 2e-2), (torch.bfloat16, "float32", 2e-2), (torch.bfloat16, "remainder", 2e-2),
    (torch.float16, "master", 2e-3), (torch.bfloat16, "bf16", 8e-2)])
def test_formats(cls, dtype, state_dtype, tolerance):
    a, b, *_ = stepped(cls, dtype, state_dtype, steps=10, shapes=SHAPES)
    assert distance(a, b) < tolerance


@pytest.mark.parametrize("cls", [pt.AdamW, pt.SGD, pt.Lion])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_8bit(cls, dtype):
    a, b, ours, exact, options = stepped(cls, dtype, "8bit")
    assert distance(a, b) < (2e-2 if dtype is torch.float32 else 6e-2)
    name = ours._names[0]
    kinds = [ours.state[p][name].dtype for p in a]
    assert kinds == [torch.uint8, torch.uint8, torch.float32, torch.float32, torch.uint8]
    # As torch has them, and back, to the bit.
    plain = ours.state_dict(format="torch")["state"]
    c = [torch.nn.Parameter(p.detach().clone()) for p in a]
    again = cls(c, lr=1e-3, state_dtype="8bit", seed=3, **options)
    again.load_state_dict(ours.state_dict(format="torch"))
    back = again.state_dict(format="torch")["state"]
    for k, p in enumerate(a):
        assert plain[k][name].dtype == torch.float32 and name + "_absmax" not in plain[k]
        most = float(exact.state[b[k]][name].abs().max()) if p.numel() else 0.0
        assert distance([plain[k][name]], [exact.state[b[k]][name]]) <= 0.05 * most
        assert torch.equal(plain[k][name], back[k][name])
    d = [torch.nn.Parameter(p.detach().clone()) for p in a]
    other = cls(d, lr=1.0, state_dtype="8bit", seed=3, **options)
    other.load_state_dict(ours.state_dict())
    for params, optimizer in ((a, ours), (d, other)):
        run(optimizer, params, 2, 6)
    assert same(a, d)


@pytest.mark.parametrize("cls", [pt.AdamW, pt.SGD, pt.Lion])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_f16(cls, dtype):
    """Near states in f32; as torch has them, and back, to the bit; and on from a dict."""
    a, b, ours, exact, options = stepped(cls, dtype, "f16")
    if cls is not pt.Lion or dtype is not torch.float32:  # a sign may differ
        assert distance(a, b) < (1e-4 if dtype is torch.float32 else 6e-2)
    saved, plain = ours.state_dict(), ours.state_dict(format="torch")
    for k, p in enumerate(a):
        for name in ours._names:
            if p.numel() >= 4096:
                assert ours.state[p][name].dtype is torch.float16
                assert ours.state[p][name + "_scale"].numel() == -(-p.numel() // 256)
            value, wanted = plain["state"][k][name], exact.state[b[k]][name]
            assert value.dtype is torch.float32 and name + "_scale" not in plain["state"][k]
            if p.numel():
                assert float((value - wanted).abs().max()) <= 2.0 ** -8 * float(wanted.abs().max())
    c, d = ([torch.nn.Parameter(p.detach().clone()) for p in a] for _ in range(2))
    for params, given in ((c, plain), (d, saved)):
        again = cls(params, lr=1.0, state_dtype="f16", seed=3, **options)
        again.load_state_dict(given)
        for p, q in zip(a, params):
            for name in ours._names:
                for found in {name, name + "_scale"} & set(ours.state[p]):
                    assert torch.equal(again.state[q][found], ours.state[p][found]), found
        run(again, params, 2, 6)
    run(ours, a, 2, 6)
    kept = [k for k, p in enumerate(a) if p.numel() >= 4096 or dtype is torch.float32]  # others have a master
    assert same([a[k] for k in kept], [c[k] for k in kept]) and same(a, d)


def _transposed(p):
    return p.t().contiguous().t()


def _channels_last(p):
    return p.to(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype,state_dtype", [
    (dtype, name) for dtype in (torch.float32, torch.bfloat16)
    for name in ("float32", "remainder", "bf16", "8bit", "f16", "24bit") if (dtype, name) != (torch.float32, "24bit")])
@pytest.mark.parametrize("shape,other", [((32, 64, 3, 3), _channels_last), ((64, 100), _transposed)])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("how", ["loaded", "moved"])
def test_other_strides(dtype, state_dtype, shape, other, back, how):
    """States follow a parameter that is laid out otherwise, between save and load or between steps.
    8-bit ones are rounded again, in other blocks."""
    def scaled():  # each row and column of its own size, so that blocks have very different absmax
        value = torch.randn(shape, generator=torch.Generator().manual_seed(3))
        for dim in (0, 1):
            value *= torch.logspace(-2, 0, shape[dim]).reshape([-1 if k == dim else 1 for k in range(len(shape))])
        return value.to(dtype).to(DEVICE)

    first, second = (other, torch.Tensor.contiguous) if back else (torch.Tensor.contiguous, other)
    p = torch.nn.Parameter(first(scaled()))
    ours = pt.AdamW([p], lr=1e-3, state_dtype=state_dtype, seed=3)
    for _ in range(2):
        p.grad = first(scaled())
        ours.step()
    wanted = ours.state_dict(format="torch")["state"][0]
    beside = {k: v.clone() for k, v in ours.state[p].items() if k in ("master", "remainder", "correction")}
    if how == "loaded":
        q = torch.nn.Parameter(second(p.detach()))
        ours, saved = pt.AdamW([q], lr=1e-3, state_dtype=state_dtype, seed=3), ours.state_dict()
        ours.load_state_dict(saved)
        p = q
    else:
        p.data = second(p.data)
    weights = p.detach().clone()
    p.grad = torch.zeros_like(p)
    ours.param_groups[0].update(lr=0.0, betas=(1 - 2.0 ** -24, 1 - 2.0 ** -24))  # keeps states and weights
    ours.step()
    found = ours.state_dict(format="torch")["state"][0]
    for name in ("exp_avg", "exp_avg_sq"):
        assert ours.state[p][name].stride() == p.stride()
        error = (found[name] - wanted[name]).abs()
        if state_dtype in ("8bit", "24bit"):  # half of the largest distance of two codes, of a block's absmax
            assert float(error.max()) <= 0.02 * float(wanted[name].max())
            assert float(error.mean()) <= 0.05 * float(wanted[name].abs().mean())
        elif state_dtype == "f16":  # rounded again, of a root
            assert bool((error <= 2.0 ** -10 * wanted[name].abs() + 1e-30).all())
        else:
            assert bool((error <= 1e-6 * wanted[name].abs() + 1e-30).all())
    kept = p.detach() == weights
    for name, value in beside.items():
        assert torch.equal(ours.state[p][name][kept], value[kept])
        if state_dtype == "24bit":  # one midway between two goes to the even one
            assert bool((value[~kept].abs() == 127).all())
    assert kept.all() or dtype is torch.bfloat16 and state_dtype in ("bf16", "8bit", "f16", "24bit")
    if how == "loaded" and state_dtype == "8bit":
        plain = pt.AdamW([q], lr=1e-3)
        plain.load_state_dict(saved)
        for name in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(plain.state[q][name], wanted[name])


def test_remainder_is_a_master():
    """The updates of both are the same, bit for bit."""
    a, b = parameters(torch.bfloat16), parameters(torch.bfloat16)
    first, second = (pt.AdamW(p, lr=1e-3, state_dtype=s) for p, s in ((a, "master"), (b, "remainder")))
    run(first, a, 10)
    run(second, b, 10)
    for p, q in zip(a, b):
        upper = q.detach().view(torch.int16).to(torch.int32) << 16
        whole = (upper + second.state[q]["remainder"].to(torch.int32)).view(torch.float32)
        assert torch.equal(whole, first.state[p]["master"])

# SPDX-License-Identifier: MIT
"""state_dtype="24bit": FlashOptim's codes, scales and corrections, and its dicts."""

import math
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch_parts import DEVICE, needs_package, parameters, run, same

import ptxgen.torch as pt
from ptxgen.torch import _flashoptim, _formats

HALVES = [torch.bfloat16, torch.float16]
SHAPES = [(300,), (4, 1100), (), (33,)]
RULES = [(pt.AdamW, {}), (pt.Adam, {}), (pt.SGD, {"momentum": 0.875}), (pt.Lion, {})]


def trained(cls, dtype, steps=3, lr=1e-2, **options):
    params = parameters(dtype, shapes=SHAPES)
    optimizer = cls(params, lr=lr, state_dtype="24bit", **options)
    run(optimizer, params, steps)
    return params, optimizer


# ---- numbers


@pytest.mark.parametrize("cls,options", RULES)
@pytest.mark.parametrize("dtype", HALVES)
def test_steps(cls, options, dtype):
    """Parameters stay within what 24 bits hold of those with f32 masters; states have the types of FlashOptim's."""
    params, optimizer = trained(cls, dtype, **options)
    others = parameters(dtype, shapes=SHAPES)
    exact = cls(others, lr=1e-2, **options)
    run(exact, others, 3)
    for p, q in zip(params, others):
        states, master = optimizer.state[p], exact.state[q]["master"]
        assert states["correction"].dtype is torch.int8 and states["correction"].shape == p.shape
        for name in optimizer._names:
            assert states[name].dtype is (torch.uint8 if name == "exp_avg_sq" else torch.int8)
            assert states[name + "_scale"].dtype is torch.float16
            assert states[name + "_scale"].numel() == -(-p.numel() // 32)
        moved = (_formats.whole(p, states) - master).abs().max()
        assert float(moved) <= (6e-2 if cls is pt.Lion else 1e-2)  # Lion's steps are of 1e-2 whatever their size
    plain = optimizer.state_dict(format="torch")["state"][1]
    for name in optimizer._names:
        wanted = exact.state[others[1]][name]
        assert float((plain[name] - wanted).abs().max()) <= 0.02 * float(wanted.abs().max())


@pytest.mark.parametrize("dtype", HALVES)
def test_corrections_of_masters(dtype):
    """An f32 comes back to 1/254 of half a place, from a master, a remainder, and over a dict."""
    p = parameters(dtype, shapes=[(40, 256)])[0]
    near = p.detach().float()
    exact = near * (1 + 1.9 * (torch.rand(near.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE) - 0.5)
                    * (2.0 ** -8 if dtype is torch.bfloat16 else 2.0 ** -11) / 1.9)
    with torch.no_grad():
        p.copy_(exact)
    optimizer = pt.AdamW([p], state_dtype="24bit")
    states = {"step": 1.0, "exp_avg": torch.zeros_like(exact), "exp_avg_sq": torch.ones_like(exact), "master": exact}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": {0: states}})
    p.grad = torch.zeros_like(p)
    for group in optimizer.param_groups:
        group["lr"] = 0.0  # a step with it finds the states, and leaves the weights
    optimizer.step()
    assert optimizer.state[p]["correction"].dtype is torch.int8 and "master" not in optimizer.state[p]
    half = _flashoptim._half(p).double()
    error = (_formats.whole(p, optimizer.state[p]).double() - exact.double()).abs() / half
    assert float(error.max()) <= 1 / 254 * 1.0001
    back = pt.AdamW([p], state_dtype="master")
    back.load_state_dict(optimizer.state_dict())
    p.grad = torch.zeros_like(p)
    back.param_groups[0]["lr"] = 0.0
    back.step()
    assert torch.equal(back.state[p]["master"], _formats.whole(p, optimizer.state[p]))


def test_corrections_of_every_half():
    """Halves of both types by all corrections: a number between neighbours, which gives the correction again."""
    bits = torch.arange(65536).to(torch.int16)
    for dtype in HALVES:
        halves = bits.view(dtype).to(DEVICE)
        finite = torch.isfinite(halves.float())
        for correction in (-127, -1, 0, 63, 126, 127):
            part = torch.full((65536,), correction, dtype=torch.int8, device=DEVICE)
            exact = _flashoptim.whole(halves, part)
            assert bool(torch.isfinite(exact[finite]).all())
            assert torch.equal(exact.view(torch.int32)[~finite], halves.float().view(torch.int32)[~finite])
            half = _flashoptim._half(halves).double()
            moved = (exact.double() - halves.double())[finite] / half[finite]
            assert float((moved - correction / 127).abs().max()) <= (2.0 ** -7 if correction else 0)
            again = _flashoptim.corrections(halves, exact)
            usual = finite & (halves.float().abs() >= 2.0 ** -100)  # below, f32 has too few places
            assert torch.equal(again[usual], part[usual])
            assert not again[~finite].any()


def test_unusual_blocks():
    """Blocks of zeros, of tiny and large numbers, and of what is not finite, as <ptxgen/rules.h> says."""
    value = torch.zeros(8, 32)
    value[1:7, 0] = torch.tensor([2.0 ** -26, 2.0 ** -24, 65503.0, 65520.0, math.inf, math.nan])
    value[7] = torch.linspace(-1, 1, 32)
    found, scale = _flashoptim.codes(value.to(DEVICE), True)
    found, scale = found.cpu(), scale.cpu()
    assert scale[:2].tolist() == [0, 0] and scale[2] == 2.0 ** -24 and scale[3] == 65504
    assert scale[4] == math.inf and bool(scale[5:7].isnan().all()) and not found[5:7].any()
    assert found[1:5, 0].tolist() == [127] * 4 and found[7, 0] == -127 and found[7, -1] == 127
    states = _flashoptim.values(found, scale[:, None].expand_as(found), True)
    assert not states[:2].any() and states[3, 0] == 65504 and states[4, 0] == math.inf and bool(states[4, 1].isnan())
    squares, roots = _flashoptim.codes(value.square().to(DEVICE), False)
    assert squares[3, 0] == 255 and roots[4] == math.inf
    large = _flashoptim.values(squares.cpu(), roots.cpu()[:, None].expand(8, 32), False)
    assert large[4, 0] == math.inf and large[4, 1] == 0


@pytest.mark.parametrize("dtype", HALVES)
def test_conversion_is_the_steps(dtype):
    """States that a step without a gradient's part decodes and encodes have the codes of a conversion."""
    params, optimizer = trained(pt.AdamW, dtype)
    plain = optimizer.state_dict(format="torch")
    again = pt.AdamW(params, lr=1e-2, state_dtype="24bit")
    again.load_state_dict(plain)
    for p in params:
        for name in ("exp_avg", "exp_avg_sq"):
            one, other = optimizer.state[p], again.state[p]
            assert torch.equal(other[name].cpu(), one[name].cpu())
            # the largest is its f16, so that its code is that of 1 again
            assert torch.equal(other[name + "_scale"].cpu(), one[name + "_scale"].cpu())


def test_large_tensors_in_pieces(monkeypatch):
    value = torch.randn(5, 300, generator=torch.Generator().manual_seed(3)).abs().to(DEVICE)
    for signed in (True, False):
        monkeypatch.undo()
        whole = _formats._quantized(value, value, _formats._24BIT, signed)
        monkeypatch.setattr(_formats, "_AT_ONCE", 64)
        assert all(map(torch.equal, _formats._quantized(value, value, _formats._24BIT, signed), whole))


# ---- dicts


@pytest.mark.parametrize("cls,options", RULES)
@pytest.mark.parametrize("dtype", HALVES)
def test_dicts_of_its(cls, options, dtype):
    """What goes out as its compressed dict comes in to the bit, and the next steps have the same bits."""
    params, optimizer = trained(cls, dtype, **options)
    saved = optimizer.state_dict(format="flashoptim")
    group = saved["param_groups"][0]
    assert (group["master_bytewidth"], group["quantize"], group["initial_lr"]) == (3, True, 1e-2)
    for k, p in enumerate(params):
        states, own = saved["state"][k], optimizer.state[p]
        assert states["error_bits"].dtype is dtype and torch.equal(states["error_bits"].to(torch.int8), own["correction"])
        assert states["step"].dtype is torch.int64 and int(states["step"]) == 3
        for name in optimizer._names:
            assert torch.equal(states[f"{name}::quantized"], own[name])
            assert states[f"{name}::scales"].dtype is dtype and states[f"{name}::scales"].dim() == 1
        assert set(states) == {"step", "error_bits", *(f"{name}::{end}" for name in optimizer._names
                                                       for end in ("quantized", "scales"))}
        saved["state"][k] = {  # as torch's load_state_dict() has cast them
            name: value.to(dtype) if name.endswith("quantized") else value for name, value in states.items()}
    others = [torch.nn.Parameter(p.detach().clone()) for p in params]
    again = cls(others, lr=1.0, state_dtype="24bit", **options)
    again.load_state_dict(saved)
    assert not {"master_bytewidth", "quantize"} & set(again.param_groups[0])
    for p, q in zip(params, others):
        for name, value in optimizer.state[p].items():
            assert torch.equal(again.state[q][name].cpu().reshape(value.shape), value.cpu()), name
    for some, one in ((params, optimizer), (others, again)):
        run(one, some, first=7)
    assert same(params, others)


@pytest.mark.parametrize("cls,options", RULES)
def test_dicts_without_a_count(cls, options):
    """Its Lion and SGD count no steps."""
    params, optimizer = trained(cls, torch.bfloat16, **options)
    saved = optimizer.state_dict(format="flashoptim")
    for states in saved["state"].values():
        del states["step"]
    if "exp_avg_sq" in optimizer._names:
        with pytest.raises(KeyError, match="there is no step among its states"):
            optimizer.load_state_dict(saved)
        return
    optimizer.load_state_dict(saved)
    assert [float(optimizer.state[p]["step"]) for p in params] == [1.0] * len(params)


@pytest.mark.parametrize("into", ["float32", "bf16", "8bit"])
def test_into_other_formats(into):
    """Its codes as numbers, its corrections as masters; also those of 32 bits."""
    params, optimizer = trained(pt.AdamW, torch.bfloat16)
    saved, plain = optimizer.state_dict(format="flashoptim"), optimizer.state_dict(format="torch")
    other = pt.AdamW(params, lr=1e-2, state_dtype=into)
    other.load_state_dict(saved)
    exact = [_formats.whole(p, optimizer.state[p]) for p in params]
    found = other.state_dict(format="torch")
    for k in range(len(params)):
        for name in ("exp_avg", "exp_avg_sq"):
            wanted = plain["state"][k][name]
            near = {"float32": 0.0, "bf16": 2.0 ** -8, "8bit": 0.02}[into] * float(wanted.abs().max())
            assert float((found["state"][k][name] - wanted).abs().max()) <= near
    if into != "float32":
        return
    before = [p.detach().clone() for p in params]
    other.param_groups[0]["lr"] = 0.0
    run(other, params, first=9)
    assert all(torch.equal(other.state[p]["master"], x) for p, x in zip(params, exact))
    with torch.no_grad():
        for p, x in zip(params, before):
            p.copy_(x)  # one midway between two has moved to the even one
    group = saved["param_groups"][0]
    group["master_bytewidth"] = 4
    for k, p in enumerate(params):
        wide = (optimizer.state[p]["correction"].to(torch.int32) * 258).to(torch.int16)  # 32767 / 127 = 258.008
        saved["state"][k]["error_bits"] = wide.view(torch.bfloat16)
    wide = pt.AdamW(params, lr=0.0, state_dtype="float32")
    wide.load_state_dict(saved)
    wide.param_groups[0]["lr"] = 0.0
    wide.step()
    for p, x in zip(params, exact):
        error = (wide.state[p]["master"].double() - x.double()).abs() / _flashoptim._half(p).double()
        assert float(error.max()) <= 4e-5


def test_from_other_formats():
    """Masters, remainders and f32 parameters go out as its dict, too; other rules have none."""
    for state_dtype in ("master", "remainder", "bf16"):
        params = parameters(torch.bfloat16, shapes=SHAPES)
        optimizer = pt.AdamW(params, lr=1e-2, state_dtype=state_dtype)
        run(optimizer, params)
        states = optimizer.state_dict(format="flashoptim")["state"][1]
        assert states["exp_avg::quantized"].dtype is torch.int8 and states["exp_avg_sq::quantized"].dtype is torch.uint8
        assert bool(states["error_bits"].any()) == (state_dtype != "bf16")
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, state_dtype="24bit")
    run(optimizer, params)
    states = optimizer.state_dict(format="flashoptim")["state"][1]
    assert set(states) == {"step", "exp_avg", "exp_avg_sq"} and states["exp_avg"].dtype is torch.float32
    muon = pt.Muon([torch.nn.Parameter(torch.zeros(4, 4, device=DEVICE))])
    with pytest.raises(ValueError, match="FlashOptim has no optimizer of the rule of Muon"):
        muon.state_dict(format="flashoptim")


@pytest.mark.parametrize("change,message", [
    (lambda s, g: s.update({"exp_avg::scales": None}), "exp_avg::quantized of FlashOptim is not beside exp_avg::scales"),
    (lambda s, g: s.update({"exp_avg::scales": s["exp_avg::scales"].float()}), "float16, or in bfloat16"),
    (lambda s, g: s.update({"exp_avg::scales": s["exp_avg::scales"][:5]}), "exp_avg_scale has 5 elements.*each 32 of its 4400"),
    (lambda s, g: s.update({"exp_avg::quantized": s["exp_avg_sq::quantized"]}), "exp_avg has codes in torch.uint8.*int8"),
    (lambda s, g: g.pop("master_bytewidth"), "master_bytewidth of its group is None"),
    (lambda s, g: s.update(error_bits=[1]), "error_bits of FlashOptim is no tensor"),
    (lambda s, g: s.update(other=1), "other of FlashOptim: nothing here does")])
def test_damaged_dicts(change, message):
    params, optimizer = trained(pt.AdamW, torch.bfloat16)
    saved = optimizer.state_dict(format="flashoptim")
    change(saved["state"][1], saved["param_groups"][0])
    other = pt.AdamW(params, lr=1.0, state_dtype="24bit")
    with pytest.raises(ValueError, match="parameter [01] of group 0: .*" + message):
        other.load_state_dict(saved)
    assert not other.state and other.param_groups[0]["lr"] == 1.0


# ---- the package


@needs_package("flashoptim")
def test_its_own_code():
    """flashoptim_package.py, in a process of its own: Triton looks at TRITON_INTERPRET as it is imported."""
    mode = {"TRITON_INTERPRET": "1"} if DEVICE == "cpu" else {}
    file = pathlib.Path(__file__).with_name("flashoptim_package.py")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)], env={**os.environ, **mode},
                          cwd=file.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout

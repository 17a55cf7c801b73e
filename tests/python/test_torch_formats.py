# SPDX-License-Identifier: MIT
"""How states are stored: by group, what a remainder is beside a parameter that others wrote, and 8-bit
states on their way to torch and back."""

import math

import pytest
import torch
from torch_parts import DEVICE, give, parameters, run, same

import ptxgen.torch as pt
from ptxgen.torch import _formats

# ---- remainders


def sizes(halves):
    """Of bf16 in f64, from their bits alone; for infinity that of the next number."""
    exponent, fraction = halves >> 7, (halves & 127).double()
    return torch.where(exponent == 0, fraction * 2.0 ** -133,
                       (128 + fraction) * 2.0 ** (exponent.clamp(min=1) - 134).double())


def test_every_half():
    """Beside a sweep of remainders: between two neighbours in bf16, with the half's sign."""
    bits = torch.arange(65536)
    halves = bits.to(torch.int16).view(torch.bfloat16).to(DEVICE)
    size, negative = bits & 0x7fff, bits > 0x7fff
    finite = size < 0x7f80
    for remainder in (-32768, -32767, -255, -1, 0, 1, 255, 32766, 32767):
        found = _formats._whole_bits(halves, torch.full_like(bits, remainder, dtype=torch.int16).to(DEVICE))
        found = found.cpu()
        here, up, down = sizes(size), sizes(size + 1), sizes((size - 1).clamp(min=0))
        wanted = here + remainder / 65536 * (up - here if remainder > 0 else here - down)
        assert torch.equal(found.double().abs()[finite], wanted[finite])
        assert torch.equal(torch.signbit(found), negative)
        assert torch.equal(found.view(torch.int32)[~finite], (bits << 16).to(torch.int32)[~finite])


def zero(p):
    p.zero_()


def mask(p):
    p[1].mul_(0)


def negative_mask(p):
    p[:, 3] *= -0.0


@pytest.mark.parametrize("to", ["remainder", "master"])
@pytest.mark.parametrize("write", [zero, mask, negative_mask])
@pytest.mark.parametrize("cls,options", [(pt.AdamW, {}), (pt.Adam, {}), (pt.SGD, {"momentum": 0.9}), (pt.Lion, {})])
def test_zeros_that_others_write(cls, options, write, to):
    """The next step goes on from 0, in the optimizer or in one with masters made of its remainders."""
    params = parameters(torch.bfloat16, shapes=[(8, 300)])
    optimizer = cls(params, lr=1e-3, state_dtype="remainder", **options)
    run(optimizer, params)
    with torch.no_grad():
        write(params[0])
    zeros = params[0] == 0
    below = optimizer.state[params[0]]["remainder"] < 0
    assert bool((zeros & below).any())
    if to == "master":
        saved = optimizer.state_dict()
        optimizer = cls(params, lr=1e-3, state_dtype="master", **options)
        optimizer.load_state_dict(saved)
    run(optimizer, params, first=1)
    assert bool(params[0].isfinite().all())
    assert float(params[0][zeros].abs().max()) <= 0.02  # of a step with 1e-3
    assert float(params[0][zeros].abs().max()) > 0


# ---- 8-bit states, to torch and back


def blocks(count):
    """Codes and absmax as steps leave them: the largest value of a block has an end of the map."""
    generator = torch.Generator().manual_seed(9)
    codes = torch.randint(256, (count, 256), generator=generator, dtype=torch.uint8)
    sparse = torch.arange(count) % 3 == 0  # in which one value is large
    codes[sparse] = codes[sparse] // 8 + 112
    ends = torch.randint(2, (count,), generator=generator) * 255
    codes[torch.arange(count), torch.randint(256, (count,), generator=generator)] = ends.to(torch.uint8)
    scale = torch.randn(count, generator=generator).exp() * 2.0 ** torch.randint(-126, 127, (count,), generator=generator)
    scale = scale.clamp(2.0 ** -126, 2.0 ** 127)
    scale[:4] = torch.tensor([2.0 ** -126, 2.0 ** -126 * 1.005, 3.4e38, 0.0])
    scale[4] = math.nan
    return codes, scale


@pytest.mark.parametrize("name", ["exp_avg", "exp_avg_sq"])
def test_export_and_import(name):
    """What an 8-bit state stands for comes back to the bit, trip after trip."""
    codes, scale = blocks(1500)
    if name == "exp_avg_sq":  # the unsigned map goes to 1 alone
        codes[torch.arange(len(codes)), 0] = 255
    p = torch.nn.Parameter(torch.zeros(codes.shape, device=DEVICE))
    first = pt.AdamW([p], state_dtype="8bit")
    other = "exp_avg" if name == "exp_avg_sq" else "exp_avg_sq"
    states = {"step": 3.0, name: codes.to(DEVICE), name + "_absmax": scale.to(DEVICE), other: torch.zeros_like(p)}
    first.load_state_dict({**first.state_dict(), "state": {0: states}})
    plain = first.state_dict(format="torch")
    value = plain["state"][0][name]
    for _ in range(2):
        again = pt.AdamW([p], state_dtype="8bit")
        again.load_state_dict(plain)
        found = again.state[p]
        plain = again.state_dict(format="torch")
        usual = torch.ones(len(codes), dtype=torch.bool)
        usual[3:5] = False
        assert found[name].dtype is torch.uint8
        assert torch.equal(found[name].cpu()[usual], codes[usual])
        assert torch.equal(plain["state"][0][name][usual], value[usual])
        assert not plain["state"][0][name][3].any() and bool(plain["state"][0][name][4].isnan().all())


def nearest(value, entries):
    """By bitsandbytes' formula: absmax is the largest size, each value gets the nearest entry."""
    most = value.abs().amax(dim=1, keepdim=True)
    codes = ((value / most)[:, :, None].double() - entries.double()).abs().argmin(dim=2)
    return entries[codes] * most


@pytest.mark.parametrize("kind", ["normal", "heavy", "sparse", "positive"])
def test_import_from_torch(kind):
    """No block is further from what torch had than bitsandbytes' is, and half of them are nearer."""
    generator = torch.Generator().manual_seed(5)
    value = torch.randn(64, 256, generator=generator)
    value = {"normal": value, "heavy": value ** 5, "positive": value.abs(),
             "sparse": torch.where(value.abs() > 2.5, value, value * 1e-3)}[kind].to(DEVICE)
    p = torch.nn.Parameter(torch.zeros_like(value))
    ours = pt.AdamW([p], state_dtype="8bit")
    states = {"step": 3.0, "exp_avg": value, "exp_avg_sq": value.square()}
    ours.load_state_dict({**ours.state_dict(), "state": {0: states}})
    found = ours.state_dict(format="torch")["state"][0]
    better = 0
    for name, signed in (("exp_avg", True), ("exp_avg_sq", False)):
        theirs = nearest(states[name], _formats.map_of(signed, p.device))
        error, other = ((x.double() - states[name].double()).square().sum(dim=1) for x in (found[name], theirs))
        assert bool((error <= other * (1 + 1e-4)).all())  # their quotients are rounded otherwise
        better += int((error < other * 0.99).sum())
    assert better >= {"normal": 0, "heavy": 10, "sparse": 10, "positive": 0}[kind]


def test_f16_blocks():
    """Of usual states, each is off by at most 2^-11 of itself; unusual blocks are as <ptxgen/rules.h> says."""
    value = torch.randn(7, 1024, generator=torch.Generator().manual_seed(5)) * torch.logspace(0, -5, 1024)
    value[1:6] = 0
    value[2, 0], value[3, 0], value[4, 0], value[5, 0] = math.inf, math.nan, -2.0 ** -116, -2.0 ** -115
    p = torch.nn.Parameter(value.to(DEVICE))
    optimizer = pt.SGD([p], lr=0.5, momentum=0.5, state_dtype="f16")
    group = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": {0: {"momentum_buffer": p.detach().clone()}}, "param_groups": group})
    codes, scale = (optimizer.state[p][name].cpu() for name in ("momentum_buffer", "momentum_buffer_scale"))
    found = optimizer.state_dict(format="torch")["state"][0]["momentum_buffer"].cpu()
    for k in (0, 6):
        assert bool(((found[k] - value[k]).abs() <= 2.0 ** -11 * 1.001 * value[k].abs()).all())
    assert not codes[1:5].any() and torch.equal(scale[1:6, 1:], torch.ones(5, 3))
    assert scale[1, 0] == 1 and bool(scale[2:4, 0].isnan().all()) and scale[4, 0] == 1
    assert scale[5, 0] == 2.0 ** -126 and codes[5, 0] == -2048 and found[5, 0] == value[5, 0]
    assert bool(found[2:4, :256].isnan().all()) and not found[2:4, 256:].any()


@pytest.mark.parametrize("fmt", [_formats._8BIT, _formats._F16])
@pytest.mark.parametrize("signed", [True, False])
def test_conversion_in_pieces(monkeypatch, fmt, signed):
    """Large tensors are converted piece by piece."""
    value = torch.randn(5, 300, generator=torch.Generator().manual_seed(3)).abs().to(DEVICE)
    whole = _formats._quantized(value, value, fmt, signed)
    monkeypatch.setattr(_formats, "_AT_ONCE", 2 * _formats.BLOCK)
    assert value.numel() > 2 * _formats._AT_ONCE
    assert all(map(torch.equal, _formats._quantized(value, value, fmt, signed), whole))
    half, master = value.to(torch.bfloat16), torch.zeros_like(value)
    _formats.follow(half, master)
    assert torch.equal(master, half.float())


def test_steps_after_a_trip():
    """The optimizer that went through torch's format goes on with the same bits."""
    params = parameters(shapes=[(40, 256), (5000,)])
    first = pt.AdamW(params, lr=1e-2, state_dtype="8bit")
    run(first, params, 3)
    others = [torch.nn.Parameter(p.detach().clone()) for p in params]
    second = pt.AdamW(others, lr=1.0, state_dtype="8bit")
    second.load_state_dict(first.state_dict(format="torch"))
    for some, optimizer in ((params, first), (others, second)):
        run(optimizer, some, 3, 3)
    assert same(params, others)


@pytest.mark.parametrize("state_dtype", ["bf16", "8bit", "f16"])
@pytest.mark.parametrize("cls", [pt.AdamW, pt.Lion])
def test_parameters_in_f16(cls, state_dtype):
    """Steps below half of f16's last place move the mean of parameters as far as those of f32 do, and none by
    more than a last place a step beside them, also over a dict."""
    ours = [torch.nn.Parameter(torch.full((40, 256), 1.5, dtype=torch.float16, device=DEVICE))]
    wide = [torch.nn.Parameter(ours[0].detach().float())]
    one = cls(ours, lr=1e-4, state_dtype=state_dtype, seed=3)
    other = cls(wide, lr=1e-4, state_dtype="float32")
    for n in range(8):
        if n == 4:
            saved, again = one.state_dict(), cls(ours, lr=1e-4, state_dtype=state_dtype, seed=3)
            again.load_state_dict(saved)
            one = again
        for p in (*ours, *wide):
            p.grad = torch.full_like(p, 0.25)
        one.step()
        other.step()
    moved, exact = (1.5 - p.detach().cpu().double() for p in (ours[0], wide[0]))
    assert abs(moved.mean() / exact.mean() - 1) < 0.1
    assert ((moved - exact).abs() < 8 * 2 ** -10).all() and len(moved.unique()) > 1


# ---- by group


SHAPES = [(20, 256), (4200,)]
KINDS = {"float32": (torch.float32, "master"), "master": (torch.float32, "master"), "remainder": (torch.float32, "remainder"),
         "bf16": (torch.bfloat16, None), "8bit": (torch.uint8, None), "f16": (torch.float16, None),
         "24bit": (torch.int8, "correction")}


HAS_NAMES = hasattr(torch.nn.utils, "get_total_norm")  # both are from torch 2.6 on


def named(params, k):
    """A parameter with a name, by which its random bits go in each optimizer."""
    return [(f"p{k}", params[k])] if HAS_NAMES else [params[k]]


@pytest.mark.parametrize("cls,options", [(pt.AdamW, {}), (pt.SGD, {"momentum": 0.9}), (pt.Lion, {})])
@pytest.mark.parametrize("first,second", [("8bit", "remainder"), (None, "bf16"), ("bf16", "float32"), ("f16", "8bit"),
                                          ("24bit", "master")])
def test_groups(cls, options, first, second):
    """Each group's states are stored as it says, through dicts, and the bits are those of two optimizers."""
    together, apart = (parameters(torch.bfloat16, shapes=SHAPES) for _ in range(2))

    def made(params):
        groups = [{"params": named(params, k), **({"state_dtype": name} if name else {})}
                  for k, name in enumerate((first, second))]
        return cls(groups, lr=1e-2, seed=5, **options)

    one = made(together)
    two = [cls(named(apart, k), lr=1e-2, state_dtype=name or "float32", seed=5, **options)
           for k, name in enumerate((first, second))]
    for seed in range(4):
        give(together, seed)
        give(apart, seed)
        if seed == 2:
            saved, one = one.state_dict(), made(together)
            one.load_state_dict(saved)
            assert not any("state_dtype" in group for group in saved["param_groups"])
        for optimizer in (one, *two):
            optimizer.step()
    assert same(together, apart) or not HAS_NAMES
    for p, name in zip(together, (first or "float32", second)):
        state, beside = KINDS[name]
        assert one.state[p][one._names[0]].dtype is state
        assert [key for key in ("master", "remainder", "correction") if key in one.state[p]] == [beside] * (beside is not None)


def test_group_that_changes():
    params = parameters(torch.bfloat16, shapes=SHAPES)
    optimizer = pt.AdamW([{"params": [p]} for p in params], lr=1e-3)
    run(optimizer, params)
    optimizer.param_groups[1]["state_dtype"] = "8bit"
    run(optimizer, params, first=1)
    assert [optimizer.state[p]["exp_avg"].dtype for p in params] == [torch.float32, torch.uint8]
    assert [float(optimizer.state[p]["step"]) for p in params] == [2.0, 2.0]
    plain = torch.optim.AdamW([{"params": [p]} for p in params])
    plain.load_state_dict(optimizer.state_dict(format="torch"))
    optimizer.load_state_dict(plain.state_dict())
    assert [group.get("state_dtype") for group in optimizer.param_groups] == [None, "8bit"]
    assert [optimizer.state[p]["exp_avg"].dtype for p in params] == [torch.float32, torch.uint8]

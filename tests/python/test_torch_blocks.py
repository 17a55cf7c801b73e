# SPDX-License-Identifier: MIT
"""fake_quantize_block() beside torch's operations on the CPU, which follow the sources that <ptxgen/blocks.h> names: Transformer
Engine 433b1dbc and c2d9c991 (timmoon10), torchao 0367cd81 and 050515e8, DeepGEMM 38939a4c."""

import io
import random

import pytest
import torch
from ptxgen.torch import quantization as q
from ptxgen.torch.quantization import fake_quantize_block
from torch.utils.checkpoint import checkpoint
from torch_parts import DEVICE, needs

compiled = needs("torch.library.custom_op")

# Bits of the fraction, exponents of the least normal and of the largest float, the largest.
FLOATS = {"e2m1": (1, 0, 2, 6.0), "e3m2": (2, -2, 4, 28.0), "e2m3": (3, 0, 2, 7.5), "e4m3": (3, -6, 8, 448.0), "e5m2": (2, -14, 15, 57344.0)}
ELEMENT = {"nvfp4": "e2m1", "mxfp4": "e2m1", "mxfp6_e3m2": "e3m2", "mxfp6_e2m3": "e2m3", "mxfp8_e4m3": "e4m3", "mxfp8_e5m2": "e5m2",
           "fp8_1x128": "e4m3", "fp8_128x128": "e4m3"}
FLT_MAX = torch.finfo(torch.float32).max


def grid(name):
    """All floats of the format from 0 up, and whether their last bit is 0."""
    fraction, least, _, largest = FLOATS[name]
    values, code = [], 0
    while not values or values[-1] < largest:
        exponent, rest = code >> fraction, code & ((1 << fraction) - 1)
        values.append((rest + (1 << fraction if exponent else 0)) * 2.0 ** (max(exponent, 1) + least - 1 - fraction))
        code += 1
    return torch.tensor(values, dtype=torch.float64)


GRIDS = {name: grid(name) for name in FLOATS}


def to_floats(a, name):
    """Magnitudes to the nearest, ties to an even code."""
    values = GRIDS[name]
    a = a.double()
    above = torch.searchsorted(values, a.clamp(max=values[-1].item()).nan_to_num(0.0)).clamp(1, len(values) - 1)
    low, high = values[above - 1], values[above]
    nearer = (a - low < high - a) | ((a - low == high - a) & (above % 2 == 1))
    return torch.where(a.isnan(), a, torch.where(nearer, low, high)).float()


def power_of_2(exponent):
    return torch.ldexp(torch.ones(exponent.shape, dtype=torch.float64), exponent).float()


def scales(amax, tensor_amax, format, like, rounding):
    """(what is multiplied or divided by, what scales back) in f32."""
    name = ELEMENT[format]
    _, _, greatest, largest = FLOATS[name]
    if format == "nvfp4" and like == "torchao":
        tensor = tensor_amax / 2688
        part = ((amax / 6) / tensor).clamp(2.0**-6, 448)
        times = tensor * to_floats(part, "e4m3")
        return times, times
    if format == "nvfp4":
        tensor = (torch.full((), 2688.0) / tensor_amax).clamp(max=FLT_MAX)
        tensor = torch.where((tensor_amax == 0) | (tensor == 0), torch.ones(()), tensor)
        part = amax * (tensor * torch.tensor(1 / 6, dtype=torch.float32))
        times = to_floats(part.clamp(max=448), "e4m3") * (1 / tensor)
        return (1 / times).clamp(max=FLT_MAX), times
    if format.startswith("mx"):
        bits = amax.view(torch.int32)
        if rounding == "floor":
            e = (bits >> 23) - 127 - greatest
        else:
            part = (amax * torch.tensor(1 / largest, dtype=torch.float32)).view(torch.int32)
            exponent, rest = part >> 23, part & 0x7fffff
            e = exponent + torch.where(exponent == 0, rest > 0x400000, rest != 0).int() - 127
        e = e.clamp(-127, 127)
        nan = amax.isnan() if like == "te" else ~amax.isfinite()
        times = torch.where(nan, torch.full((), float("nan")), power_of_2(e))
        return torch.where(nan, torch.full((), float("nan")), power_of_2(-e)), times
    if like == "te":
        by = torch.where((amax == 0) | ~amax.isfinite(), torch.ones(()), (torch.full((), 448.0) / amax).clamp(max=FLT_MAX))
        if rounding == "power_of_2":
            by = (by.view(torch.int32) & -0x800000).view(torch.float32)
        return by, 1 / by
    times = amax.clamp(1e-4) / 448
    if rounding == "power_of_2":
        bits = times.view(torch.int32)
        up = ((bits >> 23) + ((bits & 0x7fffff) != 0).int() << 23).view(torch.float32)
        times = torch.where(times.isfinite(), up, times)
    return 1 / times, times


def expected(x, format, amax, two_dimensional, like, rounding):
    dtype, shape = x.dtype, x.shape
    x = x.float().reshape(-1, shape[-1])
    high, wide = (16, 16) if two_dimensional else {"n": (1, 16), "m": (1, 32)}.get(format[0], (1, 128))
    if format == "fp8_128x128":
        high = wide = 128
    rows, columns = x.shape
    padded = torch.zeros((rows + high - 1) // high * high, (columns + wide - 1) // wide * wide)
    padded[:rows, :columns] = x
    blocks = padded.view(padded.shape[0] // high, high, padded.shape[1] // wide, wide)
    by, times = scales(blocks.abs().amax((1, 3), keepdim=True), amax, format, like, rounding)
    scaled = blocks / by if format == "nvfp4" and like == "torchao" else blocks * by
    y = to_floats(scaled.abs().clamp(max=FLOATS[ELEMENT[format]][3]), ELEMENT[format]) * times
    y = torch.copysign(y, blocks).reshape(padded.shape)[:rows, :columns]
    return y.reshape(shape).to(dtype)


def equal(y, wanted):
    """Bits, but that all NaN are one."""
    y, wanted = y.detach().cpu(), wanted.detach()
    assert y.dtype == wanted.dtype and y.shape == wanted.shape
    whole = torch.int32 if y.dtype is torch.float32 else torch.int16
    same = (y.contiguous().view(whole) == wanted.contiguous().view(whole)) | (y.isnan() & wanted.isnan())
    assert same.all(), (y[~same][:4], wanted[~same][:4])


def numbers(shape, dtype, seed):
    """Numbers of different sizes, with what a block may hold otherwise."""
    of = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=of) * torch.exp2(torch.randint(-9, 9, (*shape[:-1], 1), generator=of).float())
    x[..., :16] = 0
    flat = x.view(-1)
    for k, value in enumerate((float("nan"), float("inf"), -float("inf"), -0.0, 1e-45, 2.0**-127, 3e38)):
        flat[(k * 149 + 17) % flat.numel()] = value
    return x.to(dtype)


WAYS = [("nvfp4", "te", None), ("nvfp4", "torchao", None), ("fp8_1x128", "te", "power_of_2"), ("fp8_1x128", "te", "f32"),
        ("fp8_1x128", "deepgemm", "power_of_2"), ("fp8_128x128", "te", "power_of_2"), ("fp8_128x128", "deepgemm", "f32"),
        ("mxfp8_e4m3", "te", "rceil"), ("mxfp8_e5m2", "te", "rceil")]
WAYS += [(format, "torchao", way) for format in ELEMENT if format.startswith("mx") for way in ("floor", "rceil")]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16])
def test_every_way(dtype):
    for k, (format, like, way) in enumerate(WAYS):
        for two in (False, True) if format == "nvfp4" else (False,):
            x = numbers((2, 24, 384) if format != "fp8_128x128" else (150, 264), dtype, k)
            amax = torch.tensor([3.0]) if format == "nvfp4" else None
            y = fake_quantize_block(x.to(DEVICE), format, None if amax is None else amax.to(DEVICE), two, like=like,
                                    scale_rounding=way)
            equal(y, expected(x, format, amax, two, like, way))


@pytest.mark.parametrize("seed", range(4))
def test_lists(seed):
    of = random.Random(seed)
    for _ in range(6):
        format, like, way = of.choice([way for way in WAYS if way[0] != "fp8_128x128"])
        dtype = of.choice([torch.bfloat16, torch.float32, torch.float16])
        xs = [torch.randn(of.randrange(9), 128 * of.randrange(1, 4)).to(dtype) for _ in range(of.randrange(1, 6))]
        amaxes = [x.abs().max().float() if x.numel() else torch.ones(()) for x in xs]
        given = [a.to(DEVICE) for a in amaxes] if format == "nvfp4" and of.random() < 0.5 else None
        ys = fake_quantize_block([x.to(DEVICE) for x in xs], format, given, like=like, scale_rounding=way)
        for x, y, amax in zip(xs, ys, amaxes):
            equal(y, expected(x, format, amax, False, like, way))


def test_defaults():
    x = torch.randn(128, 128)
    for format, like, way in [("nvfp4", "te", None), ("mxfp4", "torchao", "floor"), ("mxfp8_e4m3", "torchao", "floor"),
                              ("fp8_1x128", "te", "power_of_2"), ("fp8_128x128", "te", "power_of_2")]:
        equal(fake_quantize_block(x.to(DEVICE), format), expected(x, format, x.abs().max(), False, like, way))
    equal(fake_quantize_block(x.to(DEVICE), "mxfp8_e4m3", like="te"), expected(x, "mxfp8_e4m3", None, False, "te", "rceil"))
    equal(fake_quantize_block(x.to(DEVICE), "fp8_1x128", like="deepgemm"), expected(x, "fp8_1x128", None, False, "deepgemm", "f32"))


def test_gradients():
    x = torch.randn(4, 3, 32, device=DEVICE, requires_grad=True)
    dy = torch.randn(4, 3, 32, device=DEVICE)
    fake_quantize_block(x, "mxfp4").backward(dy)
    assert torch.equal(x.grad, dy)
    a, b = (torch.randn(2, 16, device=DEVICE, requires_grad=True) for _ in range(2))
    ya, yb = fake_quantize_block([a, b], "nvfp4")
    (2 * ya.sum() + yb.sum()).backward()
    assert (a.grad == 2).all() and (b.grad == 1).all()


def test_gradients_of_some():
    """Of a list, a tensor whose output is not used has no gradient, and the output of a frozen one requires none."""
    used, idle = (torch.randn(2, 16, device=DEVICE, requires_grad=True) for _ in range(2))
    frozen = torch.randn(2, 16, device=DEVICE)
    ys = fake_quantize_block([used, frozen, idle], "nvfp4")
    assert [y.requires_grad for y in ys] == [True, False, True]
    ys[0].sum().backward()
    assert (used.grad == 1).all() and idle.grad is None


def test_second_derivatives_are_refused():
    x = torch.randn(2, 16, device=DEVICE, requires_grad=True)
    found, = torch.autograd.grad(fake_quantize_block(x, "nvfp4").square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"fake_quantize_block\(\): there is no second derivative"):
        found.sum().backward()


def test_transposed_and_empty():
    x = torch.randn(64, 32)
    y = fake_quantize_block(x.to(DEVICE).t(), "mxfp4")
    equal(y, expected(x.t().contiguous(), "mxfp4", None, False, "torchao", "floor"))
    assert fake_quantize_block(torch.zeros(0, 32, device=DEVICE), "nvfp4").shape == (0, 32)
    assert fake_quantize_block([], "nvfp4") == []


def test_stochastic():
    x = torch.full((64, 512), 2.75, device=DEVICE)
    x[:, ::16] = 6
    amax = torch.full((1,), 6.0, device=DEVICE)
    how = {"rounding": "stochastic", "amax": amax}
    y = fake_quantize_block(x, "nvfp4", seed=5, offset=7, **how)
    assert set(y.unique().tolist()) == {2.0, 3.0, 6.0}
    inner = y[x != 6]
    assert abs(inner.mean().item() - 2.75) < 0.02  # of 30,720 draws; 7 deviations
    assert torch.equal(y, fake_quantize_block(x, "nvfp4", seed=torch.tensor([5], device=DEVICE), offset=torch.tensor([7], device=DEVICE), **how))
    assert not torch.equal(y, fake_quantize_block(x, "nvfp4", seed=5, offset=8, **how))
    assert not torch.equal(y, fake_quantize_block(x, "nvfp4", seed=6, offset=7, **how))
    assert not torch.equal(y[:32], y[32:])
    torch.manual_seed(3)
    first, second = (fake_quantize_block(x, "nvfp4", **how) for _ in range(2))
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(first, fake_quantize_block(x, "nvfp4", **how))
    # The same bits whether elements are one tensor or a list of its parts.
    parts = fake_quantize_block([x[:10], x[10:]], "nvfp4", [amax, amax], rounding="stochastic", seed=5, offset=7)
    assert torch.equal(torch.cat(parts), y)


def test_checkpoint_draws_the_same_bits():
    seen = []

    def forward(x):
        y = fake_quantize_block(x, "nvfp4", rounding="stochastic")
        seen.append(y.detach().clone())
        return y * y

    x = torch.randn(8, 64, device=DEVICE, requires_grad=True)
    checkpoint(forward, x, use_reentrant=False).sum().backward()
    assert len(seen) == 2 and torch.equal(*seen)


SIGNS = [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1]


def transformed(x):
    """Of the last axis, in the order of sums that <ptxgen/blocks.h> gives."""
    t = x.float().reshape(-1, 16) * torch.tensor(SIGNS, dtype=torch.float32)
    for apart in (1, 2, 4, 8):
        pairs = t.view(-1, 8 // apart, 2, apart)
        t = torch.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(-1, 16)
    return (t * 0.25).to(torch.bfloat16).view(x.shape)


def test_hadamard():
    xs = [torch.randn(5, 48).bfloat16(), (100 * torch.randn(3, 2, 16)).bfloat16()]
    ys = fake_quantize_block([x.to(DEVICE) for x in xs], "nvfp4", hadamard=True)
    for x, y in zip(xs, ys):
        t = transformed(x)
        equal(y, expected(t, "nvfp4", t.abs().max().float(), False, "te", None))
        equal(fake_quantize_block(x.to(DEVICE), "nvfp4", torch.full((1,), 9.0, device=DEVICE), hadamard=True, like="torchao"),
              expected(t, "nvfp4", torch.full((1,), 9.0), False, "torchao", None))
    matrix = transformed(torch.eye(16).bfloat16()).double()
    assert torch.equal(matrix @ matrix.t(), torch.eye(16, dtype=torch.float64))
    for text, x, how in [("x is in torch.float32, and it must be in bf16", xs[0].float(), {}),
                         ("with mxfp4: only nvfp4", torch.zeros(2, 32), {"format": "mxfp4"}),
                         ("with two_dimensional=True: it has blocks along", torch.zeros(16, 16).bfloat16(), {"two_dimensional": True})]:
        with pytest.raises(ValueError, match=f"hadamard=True.*{text}"):
            fake_quantize_block(x.to(DEVICE), **{"format": "nvfp4", "hadamard": True, **how})
    with pytest.raises(ValueError, match="x requires one: use x.detach"):
        fake_quantize_block(xs[0].to(DEVICE).requires_grad_(), "nvfp4", hadamard=True)


@compiled
def test_compiled():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(x, w, amax):
        a, b = fake_quantize_block([x, w], "nvfp4", [amax, amax])
        return a @ fake_quantize_block(b, "mxfp4").t()

    x, w = (torch.randn(16, 64, device=DEVICE, requires_grad=True) for _ in range(2))
    amax = torch.full((1,), 4.0, device=DEVICE)
    step(x, w, amax).square().sum().backward()
    grads = x.grad, w.grad
    x.grad = w.grad = None
    a, b = fake_quantize_block([x, w], "nvfp4", [amax, amax])
    (a @ fake_quantize_block(b, "mxfp4").t()).square().sum().backward()
    assert torch.equal(grads[0], x.grad) and torch.equal(grads[1], w.grad)
    how = ("nvfp4", "te", "", False, False, False, None, None, 0, 0)
    idle, frozen = torch.randn(2, 16, device=DEVICE, requires_grad=True), torch.ones(2, 16, device=DEVICE)
    some = torch.compile(lambda *xs: fake_quantize_block(list(xs), "nvfp4"), fullgraph=True, backend="aot_eager")
    ys = some(x, frozen, idle)
    assert [y.requires_grad for y in ys] == [True, False, True]
    x.grad = None
    ys[0].sum().backward()
    assert (x.grad == 1).all() and (idle.grad is None or not idle.grad.any())
    torch.library.opcheck(torch.ops.ptxgen.fake_quantize_blocks.default, ([x.detach(), w.detach()], [amax, amax], *how))


def test_refused():
    x = torch.zeros(4, 32, device=DEVICE)
    amax = torch.ones(1, device=DEVICE)
    for text, arguments in [
        (r"format: 'fp4' is none of", ("fp4",)),
        (r"format='nvfp4' does not go with like='deepgemm' and scale_rounding=None; it has like='te', like='torchao'",
         {"format": "nvfp4", "like": "deepgemm"}),
        (r"does not go with like=None and scale_rounding='floor'; it has like='te' with scale_rounding='power_of_2'",
         {"format": "fp8_1x128", "scale_rounding": "floor"}),
        (r"last axis must be a multiple of 128 for fp8_1x128", ("fp8_1x128",)),
        (r"a multiple of 16 with two_dimensional", {"format": "nvfp4", "two_dimensional": True}),
        (r"only nvfp4 has blocks of 16 x 16", {"format": "mxfp4", "two_dimensional": True}),
        (r"amax is given, and mxfp4 has no scale of the tensor", ("mxfp4", amax)),
        (r"amax has 2 tensors, and x 1", ("nvfp4", [amax, amax])),
        (r"one element in float32 is needed", ("nvfp4", torch.ones(2, device=DEVICE))),
        (r"seed and offset are of rounding=\"stochastic\"", {"format": "nvfp4", "seed": 1}),
        (r"offset is given, and no seed", {"format": "nvfp4", "rounding": "stochastic", "offset": 1}),
        (r"one element in int64 is needed", {"format": "nvfp4", "rounding": "stochastic", "seed": amax}),
        (r"seed: .* is not from", {"format": "nvfp4", "rounding": "stochastic", "seed": 1 << 64}),
    ]:
        with pytest.raises(ValueError, match=text):
            fake_quantize_block(x, **arguments) if isinstance(arguments, dict) else fake_quantize_block(x, *arguments)
    with pytest.raises(ValueError, match=r"x\[1\] is on .* in torch.bfloat16, and x\[0\]"):
        fake_quantize_block([x, x.bfloat16()], "mxfp4")
    with pytest.raises(ValueError, match="at least two dimensions"):
        fake_quantize_block(x[0], "fp8_128x128")
    with pytest.raises(TypeError, match="torch.float64"):
        fake_quantize_block(x.double(), "mxfp4")
    with pytest.raises(TypeError, match=r"fake_quantize_block\(\): amax: a tensor .* is needed, not 3.0"):
        fake_quantize_block(x, "nvfp4", amax=3.0)


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).to(DEVICE)


# ---- learned amaxes -----------------------------------------------------------------------------


def learned_of(x, seed=0):
    """Amaxes beside those of the blocks, and some of what they may be otherwise."""
    of = torch.Generator().manual_seed(seed)
    amax = x.float().cpu().unflatten(-1, (-1, 16)).abs().amax(-1) * (0.5 + torch.rand(*x.shape[:-1], x.shape[-1] // 16, generator=of))
    amax.view(-1)[::17] = torch.tensor(0.0)
    amax.view(-1)[5::23] = -1.0
    return amax.to(DEVICE)


def in_f64(x, amax, tensor_amax, like, dy, factor):
    """The gradients, by the formula in f64, and the sum of the terms' magnitudes."""
    blocks, d = (one.float().cpu().reshape(-1, 16) for one in (x, dy))
    by, times = scales(amax.cpu().clamp(min=0).reshape(-1, 1), tensor_amax.cpu(), "nvfp4", like, None)
    u = blocks / times if like == "torchao" else blocks * by
    inside = u.abs() <= 6
    q = torch.copysign(to_floats(u.abs().clamp(max=6), "e2m1"), u).double()
    r = torch.where(inside, q - u.double(), torch.where(u > 6, 6.0, -6.0))
    terms = d.double() * r
    dx = torch.where(inside, d, torch.zeros_like(d))
    return dx.view(x.shape), terms.sum(1).view(amax.shape) * factor / 6, terms.abs().sum(1).view(amax.shape) * factor / 6


@pytest.mark.parametrize("like", ["te", "torchao"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16])
def test_learned_amaxes(dtype, like):
    """A list; one of its outputs is not used."""
    xs = [draw(2, 5, 64).to(dtype), draw(3, 32).to(dtype), draw(1, 16).to(dtype)]
    blocks = [learned_of(x, k) for k, x in enumerate(xs)]
    blocks[2] = torch.full((1, 1), 0.75, device=DEVICE)
    for one in (*xs, *blocks):
        one.requires_grad_()
    ys = fake_quantize_block(xs, "nvfp4", like=like, block_amax=blocks, grad_factor=0.5)
    dys = [draw(*x.shape).to(dtype) for x in xs]
    torch.autograd.backward([ys[0], ys[2]], [dys[0], dys[2]])
    for k, (x, amax) in enumerate(zip(xs, blocks)):
        of_tensor = amax.detach().amax().clamp(min=0)
        by, times = scales(amax.detach().cpu().clamp(min=0)[..., None], of_tensor.cpu(), "nvfp4", like, None)
        there = x.detach().float().cpu().unflatten(-1, (-1, 16))
        a = (there / by if like == "torchao" else there * by).abs().clamp(max=6)
        equal(ys[k], torch.copysign(to_floats(a, "e2m1") * times, there).flatten(-2).to(dtype))
        if k == 1:
            assert x.grad is None and amax.grad is None
            continue
        dx, d_amax, size = in_f64(x.detach(), amax.detach(), of_tensor, like, dys[k], 0.5)
        equal(x.grad, dx.to(dtype))
        assert ((amax.grad.cpu().double() - d_amax).abs() <= 1e-6 * size).all()


def test_learned_module():
    """It begins as nvfp4 is without it, learns, and is exported."""
    w = draw(32, 64)
    layer = torch.nn.Linear(64, 32, bias=False, device=DEVICE)
    with torch.no_grad():
        layer.weight.copy_(w)
    model = torch.nn.Sequential(layer)
    q.quantize_model(model, weight=q.LearnedBlocks.of)
    layer = model[0]
    equal(layer.quantized_weight(), fake_quantize_block(w, "nvfp4").cpu())
    before = layer.weight_quantizer.amax.detach().clone()
    assert before.shape == (32, 4)
    wanted = draw(8, 32)
    losses = []
    for _ in range(6):
        loss = (model(draw(8, 64)) - wanted).square().mean()
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.5 * p.grad
                p.grad = None
    assert losses[-1] < losses[0] and not torch.equal(before, layer.weight_quantizer.amax)
    found = q.export_nvfp4(layer.weight, block_amax=layer.weight_quantizer)
    equal(found.dequantize(), layer.quantized_weight().cpu())
    assert torch.equal(q.LearnedBlocks.of(w, start="lsq").amax, w.abs().unflatten(-1, (-1, 16)).mean(-1) * (12 / 6 ** 0.5))


@compiled
def test_learned_compiled():
    torch._dynamo.reset()
    x, amax = draw(4, 64).requires_grad_(), learned_of(draw(4, 64) * 2).requires_grad_()
    call = torch.compile(lambda x, amax: fake_quantize_block(x * 2, "nvfp4", block_amax=amax, grad_factor=0.1), backend="aot_eager",
                         fullgraph=True)
    found = []
    for way in (call, lambda x, amax: fake_quantize_block(x * 2, "nvfp4", block_amax=amax, grad_factor=0.1)):
        y = way(x, amax)
        found.append((y.detach(), *torch.autograd.grad(y, (x, amax), draw(4, 64))))
    assert all(map(torch.equal, *found))


def test_learned_errors():
    x, amax = draw(16, 32), torch.ones(16, 2, device=DEVICE)
    for how, words in (({"two_dimensional": True}, "block_amax is for nvfp4"), ({"format": "mxfp4"}, "block_amax is for nvfp4"),
                       ({"rounding": "stochastic"}, "block_amax is for nvfp4"), ({"block_amax": amax.view(8, 4)}, "one of .16, 2. in float32"),
                       ({"block_amax": amax.double()}, "in torch.float64"), ({"grad_factor": 0}, "grad_factor is 0"),
                       ({"block_amax": [amax, amax]}, "block_amax has 2 tensors, and x 1"), ({"grad_factor": 1, "block_amax": None}, "is not")):
        with pytest.raises(ValueError, match=words):
            fake_quantize_block(**{"x": x, "format": "nvfp4", "block_amax": amax, **how})
    amax.requires_grad_()
    y = fake_quantize_block(x, "nvfp4", block_amax=amax)
    first, = torch.autograd.grad(y.sum(), amax, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative"):
        first.sum().backward()


# ---- exports ------------------------------------------------------------------------------------


EXPORTED = [way for way in WAYS if not way[0].startswith("fp8")]


def weights(dtype, seed):
    """Rows of many sizes, the least and the largest among them, zeros of both signs, and numbers where formats round."""
    of = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 160, generator=of) * torch.exp2(torch.randint(-140, 120, (64, 1), generator=of).float())
    x[:16] = torch.randint(-48, 48, (16, 160), generator=of) / 8
    x[16, :64], x[17] = -0.0, 1e-45
    x[18], x[19, :32] = 2.0**-127, torch.finfo(dtype).max / 2
    return x.to(dtype).nan_to_num(1.0, posinf=2.0, neginf=-2.0)


def export(x, format, like, way, two=False, amax=None, dtype=None):
    if format == "nvfp4":
        return q.export_nvfp4(x, amax, two, like, dtype=dtype)
    return q.export_mx(x, format, way, like, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16])
def test_exports(dtype):
    """The codes and scales are those of the fake-quantized weight, whose bits they give."""
    for k, (format, like, way) in enumerate(EXPORTED):
        for two in (False, True) if format == "nvfp4" else (False,):
            for rows in (slice(None), slice(16, 32)):
                x = weights(dtype, k)[rows].to(DEVICE)
                if like == "torchao" and format == "nvfp4" and rows.start != 0:
                    x[x.abs() < 1e-25] = 1e-25  # else P may be 0
                for amax in (None, torch.full((1,), 2.5, device=DEVICE)) if format == "nvfp4" else (None,):
                    found = export(x, format, like, way, two, amax)
                    assert found.orig_dtype is (torch.float32 if dtype is torch.float16 else dtype)
                    equal(found.dequantize(dtype), fake_quantize_block(x, format, amax, two, like=like, scale_rounding=way).cpu())


def test_export_of_a_layer():
    """What an NVFP4Linear multiplies by, in blocks of 16 x 16; and a checkpoint of named tuples."""
    layer = q.NVFP4Linear(64, 32, device=DEVICE)
    with torch.no_grad():
        layer.weight[:, 16:32] *= 0.25
    found = q.export_nvfp4(layer)
    assert found.orig_dtype is torch.float32 and found.qdata.shape == (32, 32) and found.scale.shape == (32, 4)
    equal(found.dequantize(torch.bfloat16), fake_quantize_block(layer.weight.detach().bfloat16(), "nvfp4", two_dimensional=True).cpu())
    scale = found.scale.view(torch.uint8).view(2, 16, 4)
    assert (scale == scale[:, :1]).all() and scale[0, 0].unique().numel() > 1
    six = q.export_mx(layer.weight, "mxfp6_e2m3")
    assert six.elem_dtype == "fp6_e2m3" and six.qdata.shape == (32, 64) and int(six.qdata.max()) < 64
    eight = q.export_mx(layer.weight, "mxfp8_e5m2", "rceil", "te", dtype=torch.bfloat16)
    for one in (found, six, eight):
        file = io.BytesIO()
        torch.save(one._asdict(), file)
        file.seek(0)
        loaded = type(one)(**(torch.load(file, weights_only=True) if hasattr(torch, "float8_e8m0fnu") else torch.load(file)))
        assert torch.equal(loaded.dequantize(), one.dequantize()) and loaded.orig_dtype is one.orig_dtype


EXPORT_ERRORS = [
    (lambda: q.export_nvfp4(draw(4, 24)), ValueError, r"export_nvfp4\(\): weight is of \[4, 24\]: multiples of 16 are needed in its rows"),
    (lambda: q.export_nvfp4(draw(24, 32), two_dimensional=True), ValueError, r"\[24, 32\]: multiples of 16 are needed in both axes"),
    (lambda: q.export_nvfp4(draw(4, 32), like="deepgemm"), ValueError, r"export_nvfp4\(\): format='nvfp4' does not go with like='deepgemm'"),
    (lambda: q.export_nvfp4(draw(4, 32), dtype=torch.float16), ValueError, "dtype: torch.float16 is none of"),
    (lambda: q.export_nvfp4(q.NVFP4Linear(32, 16, device=DEVICE), like="te"), ValueError, "weight is an NVFP4Linear, which has amax"),
    (lambda: q.export_nvfp4(draw(4, 32) * 0, like="torchao"), ValueError, "weight: 128 of 128 elements are NaN or infinite in nvfp4"),
    (lambda: q.export_nvfp4(draw(2, 2, 32)), ValueError, r"weight: a matrix is needed, not one of \[2, 2, 32\]"),
    (lambda: q.export_mx(draw(4, 48), "mxfp4"), ValueError, r"export_mx\(\): weight is of \[4, 48\]: multiples of 32"),
    (lambda: q.export_mx(draw(4, 32), "nvfp4"), ValueError, "format: 'nvfp4' is none of 'mxfp4'"),
    (lambda: q.export_mx(draw(4, 32), "mxfp4", "f32"), ValueError, r"export_mx\(\): format='mxfp4' does not go with like=None and scale_rounding='f32'"),
    (lambda: q.export_mx(draw(4, 32) / 0, "mxfp4"), ValueError, "weight: 128 of 128 are NaN or infinite"),
    (lambda: q.export_mx([1.0], "mxfp4"), ValueError, r"weight: a matrix is needed, not \[1.0\]"),
]


@pytest.mark.parametrize("call, kind, words", EXPORT_ERRORS)
def test_export_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()

# SPDX-License-Identifier: MIT
"""The functions of ptxgen.torch.quantization beside the formulas in f64, and beside torch's own operations."""

import os
import random
import re
import threading

import ptxgen.torch
import pytest
import torch
from conftest import ROOT
from ptxgen.torch import quantization as q
from torch.utils.checkpoint import checkpoint
from torch_parts import DEVICE, needs

# PTXGEN_TEST_CONFIGURATIONS: how many.
CONFIGURATIONS = int(os.environ.get("PTXGEN_TEST_CONFIGURATIONS", "60" if DEVICE == "cpu" else "200"))
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
compiled = needs("torch.library.custom_op")


def wide(dtype):
    """The type that quotients are rounded to."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def formula(x, scale, zero, dy, *, q_min, q_max, division, in_range, grad_factor):
    """y and the terms of the gradients, on the CPU. scale and zero have x's shape."""
    t = x.to(wide(x.dtype)) / scale if division == "exact" else x.to(wide(x.dtype)) * scale.reciprocal()
    z = zero.double().round().clamp(q_min, q_max)
    level = torch.where(t.isnan(), float("-inf"), t.round().double()) + z
    inside = (level >= q_min) & (level <= q_max)
    if in_range == "quotient":
        inside = (t.double() + z > q_min) & (t.double() + z < q_max)
    found = level.clamp(q_min, q_max) - z
    y = (found.to(scale.dtype) * scale).to(x.dtype)
    residual = torch.where(inside, (found.to(t.dtype) - t).double(), found)
    terms = grad_factor * dy.double() * residual, grad_factor * torch.where(inside, 0.0, -scale.double() * dy.double())
    return y, torch.where(inside, dy, torch.zeros((), dtype=dy.dtype)), terms


def laid_out(x, kind):
    """The same numbers, otherwise in memory."""
    if kind == "transposed":
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == "channels_last" and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    if kind == "strided":
        return torch.stack([x, x], -1)[..., 0]
    return x


def spread(scale, x, axis, group):
    """A value for each element."""
    if axis is None:
        return scale.expand(x.shape)
    if group is not None:
        return scale.repeat_interleave(group, axis)
    return scale.view([-1 if k == axis % x.dim() else 1 for k in range(x.dim())]).expand(x.shape)


def gathered(terms, scale, x, axis, group):
    """The sum of each scale's terms."""
    if axis is None:
        return terms.sum().reshape(scale.shape)
    if group is not None:
        return terms.unflatten(axis % x.dim(), (-1, group)).sum(axis % x.dim() + 1)
    return terms.transpose(0, axis).reshape(x.shape[axis], -1).sum(1)


class Configuration:
    def __init__(self, seed):
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.dtype = draw.choice(DTYPES)
        self.kind = draw.choice(["plain", "transposed", "channels_last", "strided"])
        self.shape = draw.choice([(4, 6, 32, 2), (2, 64, 4, 3), (256, 3), (128, 64), (1, 32), (513,), (5, 1, 7)])
        self.axis, self.group = draw.choice([None, draw.randrange(-len(self.shape), len(self.shape))]), None
        groups = [g for g in (16, 32, 64, 128, 256) if self.axis is not None and self.shape[self.axis] % g == 0]
        if groups and draw.random() < 0.7:
            self.group = draw.choice(groups)
        self.learn = draw.choice(["none", "scale", "both"])
        self.bounds = draw.choice([(-8, 7), (0, 15), (-127, 127), (0, 255), (-2, 1)])
        self.division = draw.choice(["exact", "reciprocal"])
        self.in_range = draw.choice(["level", "quotient"])
        self.grad_factor = draw.choice([None, 0.25]) if self.learn != "none" else None
        low, high = self.bounds
        self.x = (torch.randn(self.shape) * (high - low) / 3 + (high + low) / 2).to(self.dtype)
        count = [1] if self.axis is None else [self.x.shape[self.axis]]
        if self.group is not None:
            count = list(self.shape)
            count[self.axis] //= self.group
        self.scale = (torch.rand(count) + 0.5).to(wide(self.dtype))
        self.zero = (torch.rand(count) * 3 + (low + high) / 2).clamp(low, high).to(self.scale.dtype)
        if self.learn != "both":
            self.zero = self.zero.round().to(torch.int32)
        self.dy = torch.randn(self.shape).to(self.dtype)

    def arguments(self):
        return {"q_min": self.bounds[0], "q_max": self.bounds[1], "division": self.division, "in_range": self.in_range}

    def leaves(self):
        x = laid_out(self.x.to(DEVICE), self.kind).detach().requires_grad_()
        scale = self.scale.to(DEVICE).detach().requires_grad_(self.learn != "none")
        return x, scale, self.zero.to(DEVICE).detach().requires_grad_(self.learn == "both")

    def run(self, call=q.fake_quantize):
        x, scale, zero = leaves = self.leaves()
        y = call(x, scale, zero, axis=self.axis, group=self.group, learn=self.learn, grad_factor=self.grad_factor,
                 **self.arguments())
        y.backward(self.dy.to(DEVICE))
        return y.detach().cpu(), *(None if leaf.grad is None else leaf.grad.cpu() for leaf in leaves)


@pytest.mark.parametrize("seed", range(CONFIGURATIONS))
def test_beside_the_formulas(seed):
    """y and d_x to the bit; the sums within rounding of the exact ones."""
    one = Configuration(seed)
    y, dx, d_scale, d_zero = one.run()
    scale, zero = (spread(of, one.x, one.axis, one.group) for of in (one.scale, one.zero))
    factor = 1.0 if one.grad_factor is None else one.grad_factor
    wanted, wanted_dx, terms = formula(one.x, scale, zero, one.dy, grad_factor=factor, **one.arguments())
    assert y.dtype == one.dtype and y.shape == one.x.shape
    assert torch.equal(y, wanted) and torch.equal(dx, wanted_dx)
    assert (d_scale is None) == (one.learn == "none") and (d_zero is None) == (one.learn != "both")
    for found, of_each in zip((d_scale, d_zero), terms):
        if found is not None:
            assert found.shape == one.scale.shape and found.dtype == one.scale.dtype
            exact, size = (gathered(t, one.scale, one.x, one.axis, one.group) for t in (of_each, of_each.abs()))
            assert ((found.double() - exact).abs() <= 2e-7 * size + 1e-30).all()


@compiled
@pytest.mark.parametrize("seed", range(min(CONFIGURATIONS, 60) // 30))
def test_compiled_as_eager(seed):
    torch._dynamo.reset()
    one = Configuration(1000 + seed)
    traced = torch.compile(q.fake_quantize, backend="aot_eager", fullgraph=True)
    for a, b in zip(one.run(), one.run(traced)):
        assert (a is None) == (b is None) and (a is None or torch.equal(a, b))


# ---- beside torch's


def case(seed=0, shape=(8, 6, 5)):
    torch.manual_seed(seed)
    x, dy = torch.randn(shape) * 3, torch.randn(shape)
    return x.to(DEVICE).requires_grad_(), dy.to(DEVICE)


def both(x, dy, ours, theirs, *others):
    """Output and gradients of two calls."""
    results = []
    for call in (ours, theirs):
        y = call()
        results.append((y.detach(), *torch.autograd.grad(y, (x, *others), dy)))
    return results


def test_as_torch_per_tensor_and_channel():
    """torch multiplies by 1 / scale; its gradient out of range is dy * 0, so -0 for dy below 0."""
    x, dy = case()
    scale, zero = torch.tensor([0.3], device=DEVICE), torch.tensor([2], dtype=torch.int32, device=DEVICE)
    ours, theirs = both(
        x, dy, lambda: q.fake_quantize(x, scale, zero, q_min=-8, q_max=7, division="reciprocal"),
        lambda: torch.fake_quantize_per_tensor_affine(x, scale, zero, -8, 7))
    assert all(map(torch.equal, ours, theirs))
    scale, zero = torch.rand(6, device=DEVICE) + 0.1, torch.arange(-3, 3, dtype=torch.int32, device=DEVICE)
    ours, theirs = both(
        x, dy, lambda: q.fake_quantize(x, scale, zero, q_min=-8, q_max=7, axis=1, division="reciprocal"),
        lambda: torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -8, 7))
    assert all(map(torch.equal, ours, theirs))


def test_as_torch_learned():
    """Per tensor torch takes trunc(z + 0.5), which is another zero point below 0; these are above."""
    x, dy = case()
    scale, zero = (torch.tensor([v], device=DEVICE).requires_grad_() for v in (0.3, 3.2))
    ours, theirs = both(
        x, dy, lambda: q.fake_quantize(x, scale, zero, q_min=0, q_max=15, learn="both", grad_factor=0.5, division="reciprocal"),
        lambda: torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 15, 0.5), scale, zero)
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])
    assert torch.allclose(ours[2], theirs[2], rtol=1e-5) and torch.allclose(ours[3], theirs[3], rtol=1e-5)
    scale = (torch.rand(6, device=DEVICE) + 0.1).requires_grad_()
    zero = torch.tensor([2.0, 4.0, 6.0, 8.0, 2.0, 4.0], device=DEVICE).requires_grad_()
    ours, theirs = both(
        x, dy, lambda: q.fake_quantize(x, scale, zero, q_min=0, q_max=15, axis=1, learn="both", division="reciprocal"),
        lambda: torch._fake_quantize_learnable_per_channel_affine(x, scale, zero, 1, 0, 15, 1.0), scale, zero)
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])
    assert torch.allclose(ours[2], theirs[2], rtol=1e-5, atol=1e-5) and torch.allclose(ours[3], theirs[3], rtol=1e-5, atol=1e-5)


def test_observer_as_torch():
    for symmetric in (False, True):
        theirs = torch.ao.quantization.MovingAverageMinMaxObserver(
            dtype=torch.qint8, quant_min=-8, quant_max=7,
            qscheme=torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine)
        state = q.ObserverState(q_min=-8, q_max=7, symmetric=symmetric, device=DEVICE)
        for k in range(4):
            x = (torch.randn(300) * (1 + k) + k)
            q.observe(x.to(DEVICE), state)
            theirs(x)
            scale, zero = theirs.calculate_qparams()
            assert state.range[:2].tolist() == [float(theirs.min_val), float(theirs.max_val)]
            assert state.scale.item() == float(scale) and state.zero_point.item() == int(zero)
        before = state.range.clone()
        q.observe(torch.empty(0, device=DEVICE), state)
        assert torch.equal(state.range, before)


# ---- the other functions


@pytest.mark.parametrize("dtype", DTYPES)
def test_levels(dtype):
    """Levels of quantize_ste() are those of fake_quantize(); the gradient is d_y / scale."""
    x = (torch.randn(6, 32, generator=torch.Generator().manual_seed(4)) * 4).to(dtype)
    x[0, 0], x[1, 1] = float("nan"), float("inf")
    scale, zero = torch.rand(6).to(wide(dtype)) + 0.25, torch.arange(6, dtype=torch.int32) - 2
    leaf = x.to(DEVICE).requires_grad_()
    how = {"q_min": -8, "q_max": 7, "axis": 0}
    found = q.quantize_ste(leaf, scale.to(DEVICE), zero.to(DEVICE), **how)
    found.backward(torch.ones_like(found))
    assert found.dtype == dtype
    values = (found.detach().cpu().to(scale.dtype) - zero[:, None]) * scale[:, None]
    assert torch.equal(values.to(dtype), q.fake_quantize(x.to(DEVICE), scale.to(DEVICE), zero.to(DEVICE), **how).cpu())
    level = (x.to(scale.dtype) / scale[:, None]).round() + zero[:, None]
    inside = (level >= -8) & (level <= 7)
    assert torch.equal(leaf.grad.cpu(), torch.where(inside, (1 / scale[:, None]).expand(6, 32), 0.0).to(dtype))
    assert found[0, 0].item() == -8 and found[1, 1].item() == 7


def test_lerp():
    a, b = (torch.randn(40, 5, generator=torch.Generator().manual_seed(k)).to(DEVICE).t().requires_grad_() for k in (1, 2))
    dy = torch.randn(5, 40, device=DEVICE)
    for weight in (0.3, torch.tensor([0.3], dtype=torch.float64, device=DEVICE)):
        a.grad = b.grad = None
        y = q.lerp(a, b, weight)
        y.backward(dy)
        assert torch.allclose(y, a + 0.3 * (b - a)) and y.stride() == a.stride()
        assert torch.equal(a.grad, dy * torch.tensor(0.7)) and torch.equal(b.grad, dy * torch.tensor(0.3))
    alone = q.lerp(a.detach(), b, 0.5)
    assert torch.equal(torch.autograd.grad(alone, b, dy)[0], dy * 0.5)


@pytest.mark.parametrize("format, largest", [("e4m3", 448.0), ("e5m2", 57344.0)])
def test_fp8_cast(format, largest):
    x = torch.tensor([0.1, -1.3, 1e6, largest / 4, -0.0, 2.0**-9]).to(DEVICE).requires_grad_()
    scale, amax = torch.tensor([4.0], device=DEVICE), torch.zeros(1, device=DEVICE)
    y = q.fp8_cast(x, scale, format=format, amax=amax)
    y.backward(torch.arange(1.0, 7.0, device=DEVICE))
    assert amax.item() == 1e6 and x.grad.tolist() == [1.0, 2.0, 0.0, 4.0, 5.0, 6.0]
    bits = {"e4m3": 3, "e5m2": 2}[format]

    def rounded(v):
        mantissa, exponent = torch.frexp(torch.tensor(v * 4.0).clamp(-largest, largest))
        return float(torch.ldexp((mantissa * 2.0 ** (bits + 1)).round() / 2.0 ** (bits + 1), exponent)) / 4
    assert y.tolist() == [rounded(v) for v in x.tolist()]
    codes = q.fp8_cast(x, 4.0, format=format, codes=True)
    assert not codes.requires_grad and codes.element_size() == 1
    if hasattr(torch, "float8_e5m2"):
        assert torch.equal(codes.float() / 4, y.detach())
    assert torch.equal(q.fp8_cast(x, 4.0, format=format), y)


def test_all_codes():
    """The table that torch 1.13 needs."""
    from ptxgen.torch.quantization import _cast
    for format in ("e4m3", "e5m2"):
        values = torch.tensor([_cast._value(code, format) for code in range(256)])
        finite = values[values.isfinite()]
        assert torch.equal(q.fp8_cast(finite.to(DEVICE), format=format).cpu(), finite)
        if hasattr(torch, "float8_e5m2"):
            theirs = torch.arange(256, dtype=torch.uint8).view(_cast._TYPES[format]).float()
            assert torch.equal(values.nan_to_num(nan=-1.0), theirs.nan_to_num(nan=-1.0))


# ---- where calls are


def test_scales_on_the_device_are_not_looked_at():
    """0 gives +0, NaN gives NaN, and gradients of x are +0."""
    for value, wanted in ((0.0, 0.0), (float("nan"), float("nan"))):
        x = torch.tensor([1.0, -2.0], device=DEVICE).requires_grad_()
        y = q.fake_quantize(x, torch.tensor([value], device=DEVICE), q_min=-8, q_max=7)
        y.backward(torch.ones_like(y))
        assert torch.equal(y.detach().cpu(), torch.full((2,), wanted)) or y.isnan().all() and wanted != wanted
        assert x.grad.tolist() == [0.0, 0.0]


def test_empty():
    for shape, axis, group, count in (((0,), None, None, [1]), ((3, 0), 0, None, [3]), ((0, 32), -1, 32, [0, 1])):
        x = torch.empty(shape, device=DEVICE).requires_grad_()
        scale = torch.ones(count, device=DEVICE).requires_grad_()
        y = q.fake_quantize(x, scale, q_min=-8, q_max=7, axis=axis, group=group, learn="scale")
        y.sum().backward()
        assert y.shape == x.shape == x.grad.shape and torch.equal(scale.grad, torch.zeros_like(scale))
    assert q.lerp(x, x, 0.5).numel() == q.fp8_cast(x).numel() == q.quantize_ste(x, 1.0, q_min=-8, q_max=7).numel() == 0


def test_autocast():
    """Types stay those of x."""
    x = torch.randn(4, 32, device=DEVICE).requires_grad_()
    scale = torch.ones(4, device=DEVICE).requires_grad_()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        y = q.fake_quantize(x, scale, q_min=-8, q_max=7, axis=0, learn="scale")
        product = y @ y.t()
        half = q.fake_quantize(product, 0.5, q_min=-8, q_max=7)
    half.sum().backward()
    assert y.dtype is torch.float32 and half.dtype is product.dtype is torch.bfloat16
    assert x.grad.dtype is scale.grad.dtype is torch.float32


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    """What is repeated for the backward pass observes nothing, and gives the same gradients."""
    def run(wrap):
        state, amax = q.ObserverState(q_min=-8, q_max=7, device=DEVICE), torch.zeros(1, device=DEVICE)

        def block(x):
            q.observe(x, state)
            y = q.fake_quantize(x, state.scale.clone(), state.zero_point.clone(), q_min=-8, q_max=7)
            return (q.fp8_cast(y, amax=amax) * 2).sin()
        x = torch.linspace(-2, 2, 50).to(DEVICE).requires_grad_()
        once = wrap(block, x)
        before, amax[:] = state.range.clone(), -1.0
        once.sum().backward()
        assert torch.equal(before, state.range) and amax.item() == -1.0
        return x.grad
    assert torch.equal(run(lambda block, x: checkpoint(block, x, use_reentrant=reentrant)), run(lambda block, x: block(x)))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_modules(reentrant):
    """Losses and states of modules are those without a checkpoint."""
    def run(wrap):
        torch.manual_seed(2)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(DEVICE)
        q.quantize_model(model, weight=lambda w: q.FakeQuantize(-8, 7, axis=0), activation=lambda: q.FakeQuantize(-8, 7))
        for _ in range(2):
            wrap(model, torch.randn(4, 8).to(DEVICE).requires_grad_()).square().mean().backward()
        return [p.grad for p in model.parameters()] + list(model.state_dict().values())
    assert all(map(torch.equal, run(lambda model, x: model(x)), run(lambda *both: checkpoint(*both, use_reentrant=reentrant))))


def test_observing_before_the_backward_pass_is_an_error():
    state = q.ObserverState(q_min=-8, q_max=7, device=DEVICE)
    x = torch.randn(8, device=DEVICE).requires_grad_()
    q.observe(x, state)
    y = q.fake_quantize(x, state.scale, state.zero_point, q_min=-8, q_max=7)
    q.observe(x, state)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@compiled
def test_a_compiled_step():
    """What is written stays written, and the bits are those of eager."""
    def step(x, other, scale, state, amax):
        q.observe(x, state)
        y = q.fake_quantize(x, state.scale.clone(), state.zero_point.clone(), q_min=-8, q_max=7)
        y = q.lerp(y, q.fake_quantize(other, scale, q_min=-8, q_max=7, axis=0, learn="scale"), 0.25)
        return q.fp8_cast(y + q.quantize_ste(x, 0.5, q_min=-8, q_max=7), 2.0, amax=amax)

    def run(call):
        torch.manual_seed(3)
        state, amax = q.ObserverState(q_min=-8, q_max=7, device=DEVICE), torch.zeros(1, device=DEVICE)
        x, other, scale = (torch.randn(shape).to(DEVICE).requires_grad_() for shape in ((4, 8), (4, 8), (4,)))
        for _ in range(3):
            call(x, other, scale.abs(), state, amax).square().sum().backward()
        return [x.grad, other.grad, scale.grad, state.range, state.scale, amax]
    torch._dynamo.reset()
    traced = torch.compile(step, backend="aot_eager", fullgraph=True)
    assert all(map(torch.equal, run(step), run(traced)))


@compiled
def test_compiled_models():
    """The same losses, to the bit, of learned weights and observed inputs."""
    torch._dynamo.reset()

    def random_of(*shape, seed=0):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)

    def made():
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to(DEVICE)
        with torch.no_grad():
            for k, p in enumerate(model.parameters()):
                p.copy_(random_of(*p.shape, seed=k))
        q.quantize_model(model, weight=lambda w: q.LearnedQuantizer.of(w, axis=0), activation=lambda: q.FakeQuantize(-8, 7))
        return model

    def losses(model, call):
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        found = []
        for step in range(3):
            optimizer.zero_grad()
            loss = call(random_of(4, 8, seed=step)).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found
    eager, other = made(), made()
    assert losses(eager, eager) == losses(other, torch.compile(other, backend="aot_eager", fullgraph=True))
    assert all(map(torch.equal, eager.state_dict().values(), other.state_dict().values()))
    learning = q.LearnableFakeQuantize(device=DEVICE).enable_param_learning()
    call = torch.compile(learning, backend="aot_eager", fullgraph=True)
    assert torch.equal(call(random_of(8)), learning(random_of(8)))


# ---- the page


@pytest.mark.parametrize("k", range(8))
def test_the_page(k):
    """Examples of docs/quantization.md run as they are, on this device."""
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "quantization.md").read_text(), re.S)[k]
    assert code.count('device = "cuda"') == 1
    exec(compile(code.replace('"cuda"', repr(DEVICE)), "docs/quantization.md", "exec"), {})


# ---- what is refused


def x_of(*shape, dtype=torch.float32):
    return torch.ones(shape or (4, 32), device=DEVICE, dtype=dtype)


def dual(call):
    """Of a tensor with a tangent."""
    with torch.autograd.forward_ad.dual_level():
        return call(torch.autograd.forward_ad.make_dual(x_of(1), x_of(1)))


HOW = {"q_min": -8, "q_max": 7}
MISUSES = [
    (lambda: q.fake_quantize([1.0], 1.0, **HOW), TypeError, "x: a tensor is needed"),
    (lambda: q.fake_quantize(x_of(dtype=torch.int32), 1.0, **HOW), TypeError, "x is in torch.int32"),
    (lambda: q.fake_quantize(x_of().to("meta"), 1.0, **HOW), ValueError, "x is on meta"),
    (lambda: q.fake_quantize(x_of().to_sparse(), 1.0, **HOW), TypeError, "x is sparse"),
    (lambda: q.fake_quantize(x_of(), 0.0, **HOW), ValueError, "scale: 0.0 must be above 0"),
    (lambda: q.fake_quantize(x_of(), float("nan"), **HOW), ValueError, "scale: nan is not finite"),
    (lambda: q.fake_quantize(x_of(), "1", **HOW), TypeError, "scale: a number is needed"),
    (lambda: q.fake_quantize(x_of(), 1.0, q_min=8, q_max=7), ValueError, "q_min 8 is above q_max 7"),
    (lambda: q.fake_quantize(x_of(), 1.0, q_min=0, q_max=0), ValueError, "both 0"),
    (lambda: q.fake_quantize(x_of(), 1.0, q_min=-8.0, q_max=7), TypeError, "q_min: an integer is needed"),
    (lambda: q.fake_quantize(x_of(), 1.0, q_min=0, q_max=1 << 31), ValueError, "q_max: 2147483648 is not from"),
    (lambda: q.fake_quantize(x_of(), 1.0, 9, **HOW), ValueError, "zero_point: 9 is not from -8 to 7"),
    (lambda: q.fake_quantize(x_of(), 1.0, q_min=1, q_max=7), ValueError, "zero_point: it must be given"),
    (lambda: q.fake_quantize(x_of(), 1.0, x_of(1).int(), **HOW), TypeError, "zero_point is a tensor, and scale a number"),
    (lambda: q.fake_quantize(x_of(), 1.0, axis=0, **HOW), TypeError, r"with an axis it must be a tensor of the shape \[4\]"),
    (lambda: q.fake_quantize(x_of(), x_of(5), axis=0, **HOW), ValueError, r"shape \[5\], and it must be \[4\]"),
    (lambda: q.fake_quantize(x_of(), x_of(4), axis=2, **HOW), ValueError, "axis: 2 is not from -2 to 1"),
    (lambda: q.fake_quantize(x_of(), x_of(4, 1), axis=1, group=48, **HOW), ValueError, "group: 48 is none of"),
    (lambda: q.fake_quantize(x_of(), x_of(4, 1), axis=0, group=16, **HOW), ValueError, "group=16 does not divide axis 0"),
    (lambda: q.fake_quantize(x_of(), x_of(4, 1), group=16, **HOW), ValueError, "group=16 without axis"),
    (lambda: q.fake_quantize(x_of(), x_of(1).int(), **HOW), TypeError, "scale is in torch.int32"),
    (lambda: q.fake_quantize(x_of(), x_of(1).to("meta"), **HOW), ValueError, "scale is on meta"),
    (lambda: q.fake_quantize(x_of(), 1.0, learn="scale", **HOW), TypeError, "learn='scale' needs a tensor"),
    (lambda: q.fake_quantize(x_of(), x_of(1), learn="all", **HOW), ValueError, "learn: 'all' is none of"),
    (lambda: q.fake_quantize(x_of(), x_of(1), learn="both", **HOW), TypeError, "needs a tensor of the shape of scale"),
    (lambda: q.fake_quantize(x_of(), x_of(1), x_of(1).int(), learn="both", **HOW), TypeError, "needs one in float32"),
    (lambda: q.fake_quantize(x_of(), x_of(1), grad_factor=0.5, **HOW), ValueError, "there is no gradient"),
    (lambda: q.fake_quantize(x_of(), x_of(1), learn="scale", grad_factor=0.0, **HOW), ValueError, "grad_factor is 0"),
    (lambda: q.fake_quantize(x_of(), 1.0, division="fast", **HOW), ValueError, "division: 'fast' is none of"),
    (lambda: q.fake_quantize(x_of(), 1.0, in_range="quotient", **HOW), ValueError, "needs a tensor as scale"),
    (lambda: q.quantize_ste(x_of(dtype=torch.bfloat16), 1.0, q_min=0, q_max=512), ValueError, "counts exactly up to 256"),
    (lambda: q.lerp(x_of(), x_of(4, 1), 0.5), ValueError, "must be alike"),
    (lambda: q.lerp(x_of(), x_of(), x_of(1)), ValueError, "one element in float64"),
    (lambda: q.lerp(x_of(), x_of(), x_of(1).double().requires_grad_()), ValueError, "weight requires a gradient"),
    (lambda: q.fp8_cast(x_of().double()), TypeError, "x is in torch.float64"),
    (lambda: q.fp8_cast(x_of(), format="e3m4"), ValueError, "format: 'e3m4' is none of"),
    (lambda: q.fp8_cast(x_of(), amax=x_of(2)), ValueError, "amax is of"),
    (lambda: dual(lambda one: q.fp8_cast(x_of(), one)), RuntimeError, "scale is a tensor of vmap, .* or of forward-mode"),
    (lambda: dual(lambda one: q.fake_quantize(x_of(), one, learn="scale", **HOW)), RuntimeError, "scale is a tensor of vmap"),
    (lambda: dual(lambda one: q.fake_quantize(x_of(), x_of(1), one, **HOW)), RuntimeError, "zero_point is a tensor of vmap"),
    (lambda: dual(lambda one: q.lerp(one, x_of(1), 0.5)), RuntimeError, "a is a tensor of vmap"),
    (lambda: q.observe(x_of(), None), TypeError, "an ObserverState is needed"),
    (lambda: q.ObserverState(q_min=3, q_max=3), ValueError, "no range of one level"),
    (lambda: q.ObserverState(q_min=0, q_max=3, averaging_constant=2), ValueError, "is above 1"),
]


@pytest.mark.parametrize("k", range(len(MISUSES)))
def test_misuse(k):
    call, kind, message = MISUSES[k]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "(): " in str(caught.value)


def test_constants_stay(monkeypatch):
    """A captured graph has their addresses. Of more values than are kept there are new ones each time."""
    for name, value in (("_constants", {}), ("_kept", []), ("_parts", {})):
        monkeypatch.setattr(q._launch, name, value)
    device = x_of(1).device
    first = q._launch.constant(device, 3, 5)
    parts = [q._launch.constant(device, count, 5) for count in range(1, 9000, 100)]
    assert q._launch.constant(device, 3, 5).data_ptr() in {first.data_ptr(), parts[-1].data_ptr()}
    assert {one.data_ptr() for one in [first, *parts]} <= {one.data_ptr() for one in q._launch._kept}
    assert all(torch.equal(one.cpu(), torch.full((len(one),), 5, dtype=torch.int32)) for one in parts)
    made = [q._launch.constant(device, 2, value) for value in range(300)]
    assert len(q._launch._kept) == 256 and [int(one[1]) for one in made] == list(range(300))


def test_no_second_derivative():
    x, scale = x_of().requires_grad_(), x_of(1).requires_grad_()
    for y in (q.fake_quantize(x, scale, learn="scale", **HOW), q.quantize_ste(x, 1.0, **HOW), q.lerp(x, x, 0.5), q.fp8_cast(x)):
        first, = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match=r"\(\): there is no second derivative"):
            first.sum().backward()
    first, = torch.autograd.grad(q.fake_quantize(x, 1.0, **HOW).sum(), x, create_graph=True)
    assert torch.equal(first, torch.ones_like(x))  # nobody differentiated it


@needs("torch.func.vmap")
def test_no_transforms():
    x, one = x_of(), x_of(1)
    for transform in (torch.func.vmap, torch.func.jacrev):
        with pytest.raises(RuntimeError, match="there is no rule for"):
            transform(lambda row: q.fake_quantize(row, 1.0, **HOW))(x_of())
        for call in (lambda s: q.fake_quantize(x, s.reshape(1), **HOW), lambda s: q.fp8_cast(x, s.reshape(1)),
                     lambda s: q.quantize_ste(x, one, s.reshape(1), **HOW)):
            with pytest.raises(RuntimeError, match="(scale|zero_point) is a tensor of vmap.* there is no rule for"):
                transform(call)(x_of(1))


# ---- calls are prepared at the first of their kind: later ones are with the tensors, the stream and the device of now

LEVELS = {"q_min": -8, "q_max": 7}


def leaf(*shape):
    return torch.randn(shape).to(DEVICE).requires_grad_()


def plain(x, scale):
    """The formula: y, and what of a gradient of ones goes to x and to each scale, on the CPU."""
    x, scale = x.detach().cpu(), scale.detach().cpu()
    t = x / scale
    level = t.round().clamp(-8, 7)
    inside = t.round() == level
    return level * scale, inside.to(x.dtype), torch.where(inside, (level - t).double(), level.double())


def check(x, scale, axis=None, learn="scale"):
    """A call and its gradients beside the formula."""
    y = q.fake_quantize(x, scale, axis=axis, learn=learn, **LEVELS)
    gradients = torch.autograd.grad(y, (x, scale) if learn == "scale" else (x,), torch.ones_like(y))
    y_wanted, d_wanted, terms = plain(x, scale if axis is None else scale[:, None])
    assert torch.equal(y.cpu(), y_wanted) and torch.equal(gradients[0].cpu(), d_wanted)
    if learn == "scale":
        sums = terms.sum().reshape(1) if axis is None else terms.sum(1)
        assert torch.allclose(gradients[1].cpu(), sums.float(), rtol=1e-5, atol=1e-4)


def test_tensors_that_change():
    x, scale = leaf(64, 65), (torch.rand(1) + 0.2).to(DEVICE).requires_grad_()
    for learn in ("none", "scale"):
        check(x, scale, learn=learn)
        check(x, scale, learn=learn)
        scale.data = (torch.rand(1) + 0.2).to(DEVICE)  # other memory
        check(x, scale, learn=learn)
        x.data = torch.randn(64, 65).to(DEVICE)
        check(x, scale, learn=learn)
        x.data = torch.randn(32, 65).to(DEVICE)  # and another size
        check(x, scale, learn=learn)
        x = x.detach().resize_(16, 65).copy_(torch.randn(16, 65)).requires_grad_()
        check(x, scale, learn=learn)
        x.data = torch.randn(64, 65).to(DEVICE)
    scale.data = torch.ones(2, device=scale.device)
    with pytest.raises(ValueError, match="scale has the shape"):
        q.fake_quantize(x, scale, learn="scale", **LEVELS)
    scale.data = torch.ones(1, dtype=torch.int32, device=scale.device).to(torch.float64)
    y = q.fake_quantize(x, scale, learn="scale", **LEVELS)  # of another type: converted
    assert torch.equal(y.cpu(), plain(x, scale.float())[0])


@pytest.mark.parametrize("learn", ["none", "scale"])
def test_any_alignment(learn):
    """Rows have other kernels where x is not at a multiple of 16 bytes."""
    memory, scales = leaf(64 * 64 + 8), (torch.rand(64) + 0.2).to(DEVICE).requires_grad_()
    for first in (0, 1, 4, 3, 0):
        x = memory.detach()[first:first + 64 * 64].view(64, 64).requires_grad_()
        check(x, scales, axis=0, learn=learn)


def test_gradients_that_are_not_contiguous():
    x, scale = leaf(64, 65), (torch.rand(1) + 0.2).to(DEVICE).requires_grad_()
    for _ in range(2):
        y = q.fake_quantize(x, scale, learn="scale", **LEVELS)
        whole = torch.randn(65, 64).to(DEVICE)
        (dx, _) = torch.autograd.grad(y, (x, scale), whole.t())
        assert torch.equal(dx.cpu(), whole.t().cpu() * plain(x, scale)[1])


def test_outputs_are_as_torch_makes_them():
    """Also in inference mode, and where the constants of zero points were forgotten meanwhile."""
    x, scale = leaf(64, 65), (torch.rand(1) + 0.2).to(DEVICE)
    for _ in range(2):
        with torch.inference_mode():
            y, wanted = q.fake_quantize(x, scale, **LEVELS), torch.empty_like(x)
        assert y.is_inference() and not y.requires_grad and y.stride() == wanted.stride() and y.device == wanted.device
        assert torch.equal(y.cpu(), plain(x, scale)[0])
        y = q.fake_quantize(x, scale, **LEVELS)
        assert y.requires_grad and not y.is_inference() and y.grad_fn is not None
        q._launch._parts.clear()
    with torch.no_grad():
        assert not q.fake_quantize(x, scale, **LEVELS).requires_grad


def test_saved_tensors_that_are_written():
    """torch refuses the backward pass, as for its own operations."""
    x, scale = leaf(8, 8), torch.ones(1).to(DEVICE)
    for _ in range(2):
        y = q.fake_quantize(x, scale, **LEVELS)
        scale.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_threads():
    """Of one kind at the same time: each has its own addresses."""
    failed = []

    def work(seed):
        try:
            generator = torch.Generator().manual_seed(seed)
            for _ in range(20):
                x = torch.randn(16, 16, generator=generator).to(DEVICE).requires_grad_()
                scale = (torch.rand(1, generator=generator) + 0.2).to(DEVICE).requires_grad_()
                check(x, scale)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if failed:
        raise failed[0]


def test_streams_and_devices():
    """The stream is asked at each call, and the device is that of x; a second emulate() changes nothing."""
    x, scale = leaf(64, 65), (torch.rand(1) + 0.2).to(DEVICE).requires_grad_()
    check(x, scale)
    if not x.is_cuda:
        ptxgen.torch.emulate()
        check(x, scale)
        return
    for _ in range(3):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10_000_000)  # the values come late on this stream
            values = torch.randn(64, 65, device=x.device)
            y = q.fake_quantize(values, scale.detach(), **LEVELS)
        stream.synchronize()
        assert torch.equal(y.cpu(), plain(values, scale)[0])
    for index in range(torch.cuda.device_count()):
        there = torch.device("cuda", index)
        check(x.detach().to(there).requires_grad_(), scale.detach().to(there).requires_grad_())

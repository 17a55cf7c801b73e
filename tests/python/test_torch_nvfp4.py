# SPDX-License-Identifier: MIT
"""NVFP4Linear beside its three products written out, and its Hadamard transform."""

import pytest
import torch
from ptxgen.torch.quantization import NVFP4Linear, fake_quantize_block
from torch.nn import functional as F
from torch_parts import DEVICE, needs

compiled = needs("torch.library.custom_op")
SIGNS = [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1]


def hadamard():
    """By Sylvester's rule, in f64."""
    h = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(4):
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h


def along_tokens(x):
    """[tokens, features], tokens a multiple of 16, to [features, tokens] in bf16."""
    blocks = x.double().cpu().t().reshape(x.shape[1], -1, 16) * torch.tensor(SIGNS, dtype=torch.float64)
    return (blocks @ hadamard() * 0.25).reshape(x.shape[1], -1).to(torch.bfloat16).to(DEVICE)


def made(tokens, inputs, outputs, **how):
    torch.manual_seed(tokens)
    layer = NVFP4Linear(inputs, outputs, device=DEVICE, **how)
    # Of few bits, so that sums of 16 in f32 are exact, and the transform has the same bits in any order of them.
    x = (torch.randint(-64, 64, (tokens, inputs)) / 16.0).to(DEVICE).requires_grad_()
    dy = (torch.randint(-64, 64, (tokens, outputs)) / 32.0).to(DEVICE)
    return layer, x, dy


@pytest.mark.parametrize("tokens", [48, 35, 1])
def test_products(tokens):
    layer, x, dy = made(tokens, 64, 32, stochastic=False)
    y = layer(x)
    y.backward(dy)
    rows, weight = x.detach().bfloat16(), fake_quantize_block(layer.weight.detach().bfloat16(), "nvfp4", two_dimensional=True)
    expected = torch.mm(fake_quantize_block(rows, "nvfp4"), weight.t()).float() + layer.bias.detach()
    assert torch.equal(y.detach(), expected) and y.dtype is torch.float32
    of_dy = dy.bfloat16()
    assert torch.equal(x.grad, torch.mm(fake_quantize_block(of_dy, "nvfp4"), weight).float())
    whole = [F.pad(one, (0, 0, 0, -tokens % 16)) for one in (rows, of_dy)]
    of_x, of_dy = (fake_quantize_block(along_tokens(one), "nvfp4") for one in whole)
    assert torch.equal(layer.weight.grad, torch.mm(of_dy, of_x.t()).float())
    assert torch.equal(layer.bias.grad, dy.sum(0))


def test_bias():
    """It and its gradient are not rounded to bf16, unless it is in bf16."""
    layer, x, dy = made(16, 32, 16)
    with torch.no_grad():
        layer.bias.fill_(1 + 2.0**-20)
    dy = dy + 2.0**-18
    y = layer(torch.zeros_like(x))
    y.backward(dy)
    assert (y == 1 + 2.0**-20).all() and torch.equal(layer.bias.grad, dy.sum(0))
    layer.bfloat16().zero_grad()
    y = layer(x)
    y.backward(dy)
    assert y.dtype is torch.float32 and torch.equal(y, y.bfloat16().float()) and layer.bias.grad.dtype is torch.bfloat16
    assert torch.equal(layer.bias.grad, dy.bfloat16().sum(0))


# torch 1.13 has no float16 under autocast on the CPU.
@pytest.mark.parametrize("dtype", [torch.bfloat16] + [torch.float16] * hasattr(torch.library, "custom_op"))
def test_autocast_changes_nothing(dtype):
    layer, x, dy = made(16, 32, 16, stochastic=False)
    y = layer(x)
    y.backward(dy)
    grads = [one.grad for one in (x, layer.weight, layer.bias)]
    x.grad = layer.weight.grad = layer.bias.grad = None
    with torch.autocast(torch.device(DEVICE).type, dtype=dtype):
        found = layer(x)
        found.backward(dy)
    assert found.dtype is torch.float32 and torch.equal(found, y)
    for a, b in zip(grads, (x.grad, layer.weight.grad, layer.bias.grad)):
        assert torch.equal(a, b)


def test_without_the_transform():
    layer, x, dy = made(32, 32, 16, stochastic=False, hadamard=False)
    layer(x).backward(dy)
    of_x, of_dy = (fake_quantize_block(one.detach().bfloat16().t(), "nvfp4") for one in (x, dy))
    assert torch.equal(layer.weight.grad, torch.mm(of_dy, of_x.t()).float())


def test_stochastic_gradients():
    layer, x, dy = made(32, 32, 16)
    rows = dy.bfloat16()
    torch.manual_seed(5)
    layer(x).backward(dy)
    torch.manual_seed(5)
    seed = torch.randint(-(1 << 63), (1 << 63) - 1, (1,), dtype=torch.int64, device=DEVICE)
    weight = fake_quantize_block(layer.weight.detach().bfloat16(), "nvfp4", two_dimensional=True)
    how = {"rounding": "stochastic", "seed": seed}
    assert torch.equal(x.grad, torch.mm(fake_quantize_block(rows, "nvfp4", offset=0, **how), weight).float())
    of_x = fake_quantize_block(along_tokens(x.detach().bfloat16()), "nvfp4")
    of_dy = fake_quantize_block(along_tokens(rows), "nvfp4", offset=1, **how)
    assert torch.equal(layer.weight.grad, torch.mm(of_dy, of_x.t()).float())


def test_gradients_are_near_those_without_quantization():
    layer, x, dy = made(256, 64, 64)
    plain = torch.nn.Linear(64, 64, device=DEVICE)
    plain.load_state_dict(layer.state_dict())
    found, wanted = [], []
    for model, into in ((layer, found), (plain, wanted)):
        x.grad = None
        y = model(x)
        y.backward(dy)
        into.extend([y.detach(), x.grad, model.weight.grad])
    for a, b in zip(found, wanted):
        assert 0.01 < (a - b).norm() / b.norm() < 0.25


def test_training():
    torch.manual_seed(2)
    target = torch.randn(32, 16, device=DEVICE)
    layer = NVFP4Linear.of(torch.nn.Linear(32, 16, device=DEVICE))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    losses = []
    for _ in range(25):
        x = torch.randn(32, 32, device=DEVICE)
        loss = (layer(x) - x @ target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def test_of_a_layer():
    plain = torch.nn.Linear(32, 16, bias=False, device=DEVICE).eval()
    layer = NVFP4Linear.of(plain, hadamard=False)
    assert layer.weight is plain.weight and layer.bias is None and not layer.training and not layer.hadamard
    assert layer(torch.zeros(2, 3, 32, device=DEVICE)).shape == (2, 3, 16)
    assert list(layer.state_dict()) == ["weight"] and "hadamard=False" in repr(layer)


@compiled
def test_compiled():
    layer, x, dy = made(32, 32, 16, stochastic=False)
    layer(x).backward(dy)
    grads = x.grad, layer.weight.grad, layer.bias.grad
    x.grad = layer.weight.grad = layer.bias.grad = None
    torch.compile(layer, backend="aot_eager", fullgraph=True)(x).backward(dy)
    for a, b in zip(grads, (x.grad, layer.weight.grad, layer.bias.grad)):
        assert torch.equal(a, b)


def test_refused():
    layer = NVFP4Linear(32, 16, device=DEVICE)
    for call, kind, words in (
            (lambda: NVFP4Linear(24, 16), ValueError, "in_features is 24; it must be a multiple of 16"),
            (lambda: NVFP4Linear(32, 8), ValueError, "out_features is 8"),
            (lambda: NVFP4Linear.of(torch.nn.Conv1d(16, 16, 1)), TypeError, "torch.nn.Linear is needed, not Conv1d"),
            (lambda: NVFP4Linear.of(layer), TypeError, "a NVFP4Linear is a subclass of torch.nn.Linear, .* subclasses are refused"),
            (lambda: layer(torch.zeros(2, 16, device=DEVICE)), ValueError, "its last axis must be 32"),
            (lambda: layer(torch.zeros(2, 32, device=DEVICE, dtype=torch.float64)), TypeError, "torch.float64")):
        with pytest.raises(kind, match=words):
            call()
    x = torch.randn(16, 32, device=DEVICE, requires_grad=True)
    found, = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="there is no second derivative"):
        found.sum().backward()

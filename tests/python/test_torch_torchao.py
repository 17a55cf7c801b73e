# SPDX-License-Identifier: MIT
"""Beside torchao's own classes: what is exported, loaded by them; quantizers of the same scales; its fake-quantized layers."""

import io
import types
import warnings

import pytest
import torch
from ptxgen.torch import quantization as q
from torch_parts import DEVICE, needs_package

pytestmark = needs_package("torchao")


def ao():
    """torchao's classes, imported by the tests that need them alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao import quantization
        from torchao.quantization import granularity, qat
    return types.SimpleNamespace(**{name: getattr(module, name) for module, names in (
        (quantization, ("Int4Tensor", "IntxUnpackedToInt8Tensor")), (granularity, ("PerAxis", "PerGroup")),
        (qat, ("FakeQuantizedLinear", "IntxFakeQuantizeConfig", "IntxFakeQuantizer"))) for name in names})


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def trained(zero_point=False):
    """A linear layer after two steps with 4 bits in groups of 32."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 16)).to(DEVICE)
    with torch.no_grad():
        model[0].weight.copy_(draw(16, 64, seed=1))
    q.quantize_model(model, weight=lambda w: q.LearnedQuantizer.of(
        w, 0 if zero_point else -8, 15 if zero_point else 7, axis=-1, group=32, start="range" if zero_point else "lsq",
        zero_point=zero_point))
    for step in range(2):
        model.zero_grad()
        model(draw(4, 64, seed=2 + step)).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.05 * p.grad
    return model[0]


def loaded(tensor):
    """After a checkpoint's file."""
    file = io.BytesIO()
    torch.save({"weight": tensor}, file)
    file.seek(0)
    return torch.load(file, weights_only=True)["weight"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_codes_of_4_bits(dtype):
    """torchao's values are ours, to the bit; in f32 those of training."""
    layer = trained()
    found = q.export_int8(layer.weight, layer.weight_quantizer, dtype=dtype)
    theirs = loaded(ao().IntxUnpackedToInt8Tensor(found.qdata, found.scale, found.zero_point, torch.int4, found.block_size, dtype, None))
    assert type(theirs) is ao().IntxUnpackedToInt8Tensor and theirs.shape == layer.weight.shape and theirs.dtype is dtype
    assert torch.equal(theirs.dequantize(), found.dequantize().to(dtype))
    packed = q.export_int4(layer.weight, layer.weight_quantizer, dtype=dtype)
    assert torch.equal(packed.dequantize(), found.dequantize())
    if dtype is torch.float32:
        with torch.no_grad():
            assert torch.equal(theirs.dequantize(), layer.quantized_weight())
            linear = torch.nn.Linear(64, 16).to(DEVICE)
            linear.weight, linear.bias = torch.nn.Parameter(theirs, requires_grad=False), layer.bias
            x = draw(3, 64, seed=5)
            assert torch.equal(linear(x), layer(x))


@pytest.mark.parametrize("zero_point", [False, True])
def test_packed_checkpoint(zero_point):
    """Int4Tensor's own slices of what was exported are the slices of its values."""
    layer = trained(zero_point)
    found = q.export_int4(layer.weight, layer.weight_quantizer)
    theirs = loaded(ao().Int4Tensor(*found[:3], list(found.block_size), torch.Size(found.shape)))
    assert type(theirs) is ao().Int4Tensor and theirs.dtype is torch.bfloat16 and theirs.shape == (16, 64)

    def values(tensor):
        return q.Int4Groups(tensor.qdata, tensor.scale, tensor.zero_point, tuple(tensor.block_size), tuple(tensor.shape)).dequantize()
    whole = found.dequantize()
    assert torch.equal(values(theirs), whole)
    assert torch.equal(values(theirs[3:9]), whole[3:9]) and torch.equal(values(theirs.narrow(1, 32, 32)), whole[:, 32:])
    error = (whole - layer.quantized_weight().detach()).abs()
    assert (error <= 2.0**-7 * layer.quantized_weight().abs().max()).all()  # scales are rounded to bf16


def alike(a, b):
    """torchao's gradient of x is d_y * scale * (1 / scale), rounded twice, and that of torch.clamp(), which is 0 at the bounds
    themselves in torch 2.15: at a few elements ours is d_y."""
    inside = a != 0
    return bool((b[inside] != 0).all()) and torch.allclose(a[inside], b[inside], rtol=1e-6, atol=0) and inside.float().mean() > 0.8


def test_tokens():
    """Outputs, and within rounding gradients, of torchao's asymmetric scales for each token."""
    theirs, ours = ao().IntxFakeQuantizer(ao().IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)), q.DynamicQuantizer(token=True)
    results = []
    for module in (theirs, ours):
        x = draw(3, 5, 24, seed=6).requires_grad_()
        y = module(x)
        y.backward(draw(3, 5, 24, seed=7))
        results.append((y.detach(), x.grad))
    assert torch.equal(results[0][0], results[1][0]) and alike(results[0][1], results[1][1])


@pytest.mark.parametrize("kind", ["group", "row"])
def test_scales_of_each_step(kind):
    """IntxFakeQuantizeConfig without range_learning."""
    granularity, how = (ao().PerGroup(32), {"axis": -1, "group": 32}) if kind == "group" else (ao().PerAxis(0), {"axis": 0})
    theirs = ao().IntxFakeQuantizer(ao().IntxFakeQuantizeConfig(torch.int4, granularity, is_symmetric=True))
    w = draw(6, 64, seed=8)
    assert torch.equal(q.DynamicQuantizer(-8, 7, symmetric=True, **how)(w), theirs(w))


def test_fake_quantized_linear():
    theirs = ao().FakeQuantizedLinear(64, 16, True, ao().IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False),
                                 ao().IntxFakeQuantizeConfig(torch.int4, group_size=32)).to(DEVICE)
    model = torch.nn.Sequential(torch.nn.Linear(64, 16)).to(DEVICE)
    model[0].load_state_dict(theirs.state_dict())
    q.quantize_model(model, weight=lambda w: q.DynamicQuantizer(-8, 7, axis=-1, group=32, symmetric=True),
                     activation=lambda: q.DynamicQuantizer(token=True))
    results = []
    for module in (theirs, model):
        x = draw(5, 64, seed=9).requires_grad_()
        module(x).square().sum().backward()
        results.append([x.grad, *(p.grad for p in module.parameters())])
    assert len(results[0]) == len(results[1]) == 3
    for a, b in zip(*results):  # products of gradients that are 0 in one
        inside = a != 0
        assert torch.allclose(a[inside], b[inside], rtol=1e-5, atol=1e-5) and inside.float().mean() > 0.6


def test_range_learning():
    """The same gradients as LearnedQuantizer's, but for its factor 1 / sqrt(N q_max), which torchao has not."""
    w = draw(6, 64, seed=10)
    module = ao().IntxFakeQuantizer(ao().IntxFakeQuantizeConfig(torch.int4, ao().PerGroup(32), is_symmetric=True, is_dynamic=False, range_learning=True))
    module.scale, module.zero_point = None, None
    module._initialized = True
    module(w)
    assert isinstance(module.scale, torch.nn.Parameter)
    ours = q.LearnedQuantizer.of(w, -8, 7, axis=-1, group=32, in_range="level", division="reciprocal")
    with torch.no_grad():
        ours.scale.copy_(module.scale)
    results = []
    for call in (module, ours):
        x = w.clone().requires_grad_()
        y = call(x)
        y.backward(draw(6, 64, seed=11))
        results.append((y.detach(), x.grad, call.scale.grad))
    assert torch.equal(results[0][0], results[1][0]) and alike(results[0][1], results[1][1])
    none_at_bounds = ((results[0][1] == 0) == (results[1][1] == 0)).view(6, 2, 32).all(-1)
    theirs, ours = (gradient[none_at_bounds] for gradient in (results[0][2], results[1][2] * (32 * 7) ** 0.5))
    assert theirs.numel() > 2 and torch.allclose(theirs, ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("like", ["te", "torchao"])
def test_nvfp4(like):
    """torchao's NVFP4Tensor of what was exported has the fake-quantized weight's bits, and for like="torchao" it is torchao's own."""
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    for dtype in (torch.float32, torch.bfloat16):
        w = (draw(32, 64, seed=12) * torch.exp2(draw(32, 1, seed=13))).to(dtype)
        found = q.export_nvfp4(w, like=like)
        theirs = loaded(NVFP4Tensor(*found))
        assert type(theirs) is NVFP4Tensor and theirs.shape == w.shape and theirs.dtype is dtype
        wanted = q.fake_quantize_block(w, "nvfp4", like=like)
        assert torch.equal(theirs.dequantize(), wanted) and torch.equal(theirs[8:24].dequantize(), wanted[8:24])
        x = draw(3, 64, seed=14).to(dtype)
        assert torch.equal(torch.nn.functional.linear(x, theirs), torch.nn.functional.linear(x, wanted))
        if like == "torchao" and dtype is torch.float32:
            own = NVFP4Tensor.to_nvfp4(w, per_tensor_scale=per_tensor_amax_to_scale(w.abs().max()))
            assert torch.equal(own.qdata, found.qdata) and torch.equal(own.scale.view(torch.uint8), found.scale.view(torch.uint8))


@pytest.mark.parametrize("format", ["mxfp4", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp8_e4m3", "mxfp8_e5m2"])
def test_mx(format):
    """torchao's MXTensor of what was exported has the fake-quantized weight's bits, and is torchao's own."""
    from torchao.prototype.mx_formats.mx_tensor import MXTensor, ScaleCalculationMode
    from torchao.quantization.quantize_.common import KernelPreference
    for dtype in (torch.float32, torch.bfloat16):
        w = (draw(32, 64, seed=15) * torch.exp2(draw(32, 1, seed=16))).to(dtype)
        for way in ("floor", "rceil"):
            found = q.export_mx(w, format, way)
            theirs = loaded(MXTensor(*found, KernelPreference.EMULATED, None, False))
            assert type(theirs) is MXTensor and theirs.shape == w.shape and theirs.dtype is dtype
            assert torch.equal(theirs.dequantize(), q.fake_quantize_block(w, format, scale_rounding=way))
            own = MXTensor.to_mx(w, found.elem_dtype, 32, ScaleCalculationMode[way.upper()])
            assert torch.equal(own.qdata.view(torch.uint8), found.qdata.view(torch.uint8))
            assert torch.equal(own.scale.view(torch.uint8), found.scale.view(torch.uint8))

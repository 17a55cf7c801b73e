# SPDX-License-Identifier: MIT
"""The modules of ptxgen.torch.quantization: beside torch.ao's, in models, and what is exported."""

import copy
import io
import pickle
import warnings

import pytest
import torch
from ptxgen.torch import quantization as q
from torch.ao.quantization import _learnable_fake_quantize as learnable
from torch.utils.checkpoint import checkpoint
from torch_parts import DEVICE

ao = torch.ao.quantization
torch.backends.cudnn.deterministic = True  # losses are compared to the bit
OBSERVERS = [
    (ao.MovingAverageMinMaxObserver, {"dtype": torch.qint8, "qscheme": torch.per_tensor_symmetric}, (-8, 7)),
    (ao.MovingAverageMinMaxObserver, {"dtype": torch.quint8}, (0, 255)),
    (ao.MovingAveragePerChannelMinMaxObserver, {"dtype": torch.qint8, "qscheme": torch.per_channel_symmetric, "ch_axis": 0}, (-128, 127)),
    (ao.MovingAveragePerChannelMinMaxObserver, {"dtype": torch.quint8, "ch_axis": 1}, (0, 15)),
]


def draw(*shape, seed=0, scale=1.0):
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(DEVICE)


def descend(model, rate):
    """A step of SGD; torch.optim imports the compiler, which takes seconds."""
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p -= rate * p.grad


def equal_states(a, b):
    assert list(a) == list(b)
    return all(torch.equal(x.cpu().reshape(-1).float(), y.cpu().reshape(-1).float()) for x, y in zip(a.values(), b.values()))


def gradient(module, x, seed=9):
    """Output and gradient, on the CPU. torch's own modules are there: on a GPU torch divides by a number through its
    rounded reciprocal, and its scales are apart from its own on the CPU by a unit in the last place."""
    device = next(iter(module.state_dict().values())).device
    leaf = x.to(device).clone().requires_grad_()
    y = module(leaf)
    y.backward(draw(*x.shape, seed=seed).to(device))
    return y.detach().cpu(), leaf.grad.cpu()


@pytest.mark.parametrize("k", range(len(OBSERVERS)))
def test_fake_quantize_as_torch(k):
    """Outputs, gradients, buffers and keys are torch's in every step, and so they are after conversions."""
    observer, how, (low, high) = OBSERVERS[k]
    theirs = ao.FakeQuantize(observer, quant_min=low, quant_max=high, averaging_constant=0.1, **how)
    ours = q.FakeQuantize.from_torch(theirs).to(DEVICE)
    assert isinstance(ours, ao.FakeQuantizeBase)
    for step in range(4):
        x = draw(4, 6, 3, seed=step, scale=1 + step) + 0.3
        assert all(map(torch.equal, gradient(ours, x), gradient(theirs, x)))
        assert equal_states(ours.state_dict(), theirs.state_dict())
        if step == 2:
            ao.disable_observer(ours)
            ao.disable_observer(theirs)
    assert all(torch.equal(a.flatten().cpu(), b) for a, b in zip(ours.calculate_qparams(), theirs.calculate_qparams()))
    again, back = q.FakeQuantize.from_torch(theirs).to(DEVICE), ours.to_torch()
    x = draw(4, 6, 3, seed=7)
    for other in (again, back, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert equal_states(other.state_dict(), ours.state_dict())
        assert all(map(torch.equal, gradient(other, x), gradient(theirs, x)))
    ours.disable_fake_quant()
    assert torch.equal(ours(x), x)
    fresh = q.FakeQuantize(low, high, axis=ours.axis, symmetric=ours.activation_post_process.symmetric, averaging_constant=0.1)
    fresh.to(DEVICE).load_state_dict(theirs.state_dict())
    assert not fresh._observes and torch.equal(fresh(x).cpu(), theirs(x.cpu()))


@pytest.mark.parametrize("k", [1, 3])
def test_learnable_as_torch(k):
    """Estimating, then learning: the same parameters as torch's, to rounding of its f32 sums."""
    observer, how, (low, high) = OBSERVERS[k]
    channels = 6 if "ch_axis" in how else -1
    theirs = learnable._LearnableFakeQuantize(observer, low, high, channel_len=channels, use_grad_scaling=True,
                                              averaging_constant=0.1, **how)
    ours = q.LearnableFakeQuantize.from_torch(theirs).to(DEVICE)
    assert list(dict(ours.named_parameters())) == ["scale", "zero_point"]
    for step in range(5):
        x = draw(4, 6, 3, seed=step)
        results = []
        for module in (ours, theirs):
            if step == 2:
                module.enable_param_learning()
            module.zero_grad()
            results.append(gradient(module, x))
            if step > 2:
                descend(module, 1e-3)
        assert all(map(torch.equal, *results)) or step > 3  # then their zero points may round apart
        for name, value in ours.state_dict().items():
            assert torch.allclose(value.cpu().float(), theirs.state_dict()[name].float(), rtol=1e-5, atol=1e-6), name
    back = ours.to_torch()
    assert equal_states(back.state_dict(), ours.state_dict()) and back.scale.requires_grad
    assert equal_states(q.LearnableFakeQuantize.from_torch(back).state_dict(), ours.state_dict())


def test_scales_stay_in_f32():
    module = q.FakeQuantize(-8, 7, device=DEVICE)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8, device=DEVICE), module, q.LearnedQuantizer(device=DEVICE)).bfloat16()
    y = model(draw(4, 8).bfloat16())
    assert y.dtype is torch.bfloat16 and module.scale.dtype is torch.float32 is module.activation_post_process.range.dtype
    assert model[2].scale.dtype is torch.float32


def test_starts_of_learned_quantizers():
    w = draw(6, 64, seed=1)
    groups = w.view(6, 2, 32)
    how = {"q_min": -8, "q_max": 7, "axis": -1, "group": 32}
    lsq = q.LearnedQuantizer.of(w, **how)
    assert torch.allclose(lsq.scale, 2 * groups.abs().mean(-1) / 7**0.5)
    mean, spread = groups.mean(-1), 3 * groups.std(-1, unbiased=False)
    plus = q.LearnedQuantizer.of(w, start="lsq+", **how)
    assert torch.allclose(plus.scale, torch.maximum((mean - spread).abs(), (mean + spread).abs()) / 8)
    ranged = q.LearnedQuantizer.of(w, 0, 15, axis=0, start="range", zero_point=True)
    assert torch.allclose(ranged.scale, (w.amax(1) - w.amin(1)) / 15) and ranged.zero_point.min() >= 0
    assert (ranged(w) - w).abs().max() <= ranged.scale.max() * 1.01
    y = lsq(w)
    y.sum().backward()
    assert torch.equal(y, q.fake_quantize(w, lsq.scale, in_range="quotient", **how)) and lsq.scale.grad.shape == (6, 2)
    first = q.LearnedQuantizer(device=DEVICE)
    first(w)
    again = q.LearnedQuantizer(device=DEVICE)
    again.load_state_dict(first.state_dict())
    assert again._started and torch.equal(again(w * 5), first(w * 5)) and torch.equal(again.scale, first.scale)
    empty = q.LearnedQuantizer(device=DEVICE)
    assert empty(w[:0]).numel() == 0 and not empty._started


@pytest.mark.parametrize("zero_point", [None, 1])
def test_a_checkpoint_around_the_first_call_of_a_kind(zero_point):
    """The pass that is repeated saves as many tensors as the first did."""
    def run(wrap):
        x = torch.linspace(-2, 2, 53).to(DEVICE).requires_grad_()  # a size that no other test has
        scale = torch.full((1,), 0.1, device=x.device, requires_grad=True)
        wrap(lambda x: q.fake_quantize(x, scale, zero_point, learn="scale", q_min=-8, q_max=7).sin(), x).sum().backward()
        return x.grad, scale.grad
    assert all(map(torch.equal, run(lambda block, x: checkpoint(block, x, use_reentrant=False)), run(lambda block, x: block(x))))


def test_delayed_scaling():
    """Transformer Engine's: the scale is 448 / 2^margin over the largest magnitude of the history."""
    module = q.DelayedScaling(history=2, margin=1, device=DEVICE)
    peaks, scale = [], 1.0
    for step in range(4):
        x = draw(50, seed=step, scale=1 + step)
        assert torch.equal(module(x), q.fp8_cast(x, scale))
        peaks.append(float(x.abs().max()))
        module.update()
        scale = module.scale.item()
        assert scale == pytest.approx(224 / max(peaks[-2:])) and module.scale_inv.item() == pytest.approx(1 / scale)
    before = module.history.clone()
    module.eval()(draw(5))
    assert torch.equal(before, module.history)


# ---- models


class Block(torch.nn.Module):
    """A residual block, and what follows it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second = torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm, self.head = torch.nn.BatchNorm2d(4), torch.nn.Linear(4 * 16, 32)

    def forward(self, x):
        return self.head((x + self.norm(self.second(self.first(x).relu()))).flatten(1))


def block(replace, weight, activation=None):
    model = Block().to(DEVICE)
    names = q.quantize_model(model, weight=weight, activation=activation, replace=replace)
    assert names == ["first", "second", "head"]
    return model


def train(model, steps=2):
    losses = []
    for step in range(steps):
        loss = model(draw(2, 4, 4, 4, seed=step)).square().mean()
        model.zero_grad()
        loss.backward()
        descend(model, 0.05)
        losses.append(loss.item())
    return losses


def rows(w):
    return q.LearnedQuantizer.of(w, -8, 7, axis=0)


def act():
    return q.FakeQuantize(0, 255)


def test_both_ways_of_replacing_are_alike():
    modules, parametrized = block("module", rows, act), block("parametrization", rows, act)
    assert "first.weight" in modules.state_dict() and isinstance(modules.first, torch.nn.Conv2d)
    assert train(modules) == train(parametrized) != train(Block().to(DEVICE))
    assert modules.first.weight_quantizer.scale.grad is not None
    again = pickle.loads(pickle.dumps(modules))
    assert train(again, 1) == train(modules, 1)
    with pytest.raises(RuntimeError, match=r"quantize_model\(\): a ParametrizedConv2d cannot be pickled, .* use replace=\"module\""):
        pickle.dumps(parametrized)
    plain = copy.deepcopy(parametrized)
    q.unquantize_model(plain)
    assert equal_states(pickle.loads(pickle.dumps(plain)).state_dict(), plain.state_dict())
    loaded = block("parametrization", rows, act)
    buffer = io.BytesIO()
    torch.save(parametrized.state_dict(), buffer)
    buffer.seek(0)
    loaded.load_state_dict(torch.load(buffer))
    assert equal_states(loaded.state_dict(), parametrized.state_dict())


@pytest.mark.parametrize("replace", ["module", "parametrization"])
def test_taking_quantizers_out(replace):
    keys = list(Block().state_dict())
    for keep in ("original", "quantized"):
        model = block(replace, lambda w: q.FakeQuantize(-8, 7, axis=0, symmetric=True), act)
        train(model, 1)
        weight = model.first.weight if replace == "module" else model.first.parametrizations.weight.original
        original = weight.detach().clone()
        quantizer = model.first.weight_quantizer if replace == "module" else model.first.parametrizations.weight[0]
        scale = quantizer.scale.clone()
        assert q.unquantize_model(model, keep=keep) == ["first", "second", "head"]
        assert type(model.first) is torch.nn.Conv2d and list(model.state_dict()) == keys
        wanted = original if keep == "original" else q.fake_quantize(
            original, scale, q_min=-8, q_max=7, axis=0, division="reciprocal")
        assert torch.equal(model.first.weight.detach(), wanted)
        assert {"first.weight", "head.bias"} <= set(dict(model.named_parameters()))
        model(draw(2, 4, 4, 4)).sum().backward()


def test_a_shared_layer_and_tied_weights():
    shared = torch.nn.Linear(8, 8, device=DEVICE)
    model = torch.nn.Sequential(shared, torch.nn.ReLU(), shared, torch.nn.Linear(8, 8, device=DEVICE))
    model[3].weight = shared.weight
    assert q.quantize_model(model, weight=rows) == ["0", "3"]
    assert model[0] is model[2] and model[3].weight is model[0].weight
    model(draw(2, 8)).sum().backward()


def test_in_torchs_own_flow():
    """torch.ao's prepare_qat() takes the modules as it takes its own; losses on a GPU, where its scales are rounded twice
    and the least weight of a row is midway between two levels, are near."""
    losses = []
    for weight, activation in (
            (q.FakeQuantize.with_args(q_min=-128, q_max=127, axis=0, symmetric=True), q.FakeQuantize.with_args(q_min=0, q_max=255)),
            (ao.FakeQuantize.with_args(observer=ao.MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127,
                                       dtype=torch.qint8, qscheme=torch.per_channel_symmetric),
             ao.FakeQuantize.with_args(observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=255))):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).train()
        model.qconfig = ao.QConfig(weight=weight, activation=activation)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared = ao.prepare_qat(model).to(DEVICE)
        for step in range(2):
            loss = prepared(draw(4, 8, seed=step)).square().mean()
            prepared.zero_grad()
            loss.backward()
            descend(prepared, 0.1)
            losses.append(loss.item())
    assert losses[:2] == (losses[2:] if str(DEVICE) == "cpu" else pytest.approx(losses[2:], rel=1e-2))


# ---- exports


@pytest.mark.parametrize("k", range(3))
def test_int4(k):
    """The exported codes and scales give the trained weight: in f32 to the bit without zero points."""
    w = draw(6, 64, seed=2)
    how = [{}, {"start": "lsq+", "division": "reciprocal"}, {"q_min": 0, "q_max": 15, "start": "range", "zero_point": True}][k]
    quantizer = q.LearnedQuantizer.of(w, axis=-1, group=32, **how)
    found = q.export_int4(w, quantizer, dtype=torch.float32)
    assert found.qdata.shape == (6, 32) and found.scale.shape == (2, 6) == found.zero_point.shape
    assert found.qdata.dtype is torch.int8 and (found.block_size, found.shape) == ((1, 32), (6, 64))
    trained = quantizer(w).detach()
    assert torch.equal(found.dequantize(), trained) if k < 2 else torch.allclose(found.dequantize(), trained, atol=1e-6)
    level = q.quantize_ste(w, quantizer.scale.detach(), quantizer.zero_point if k == 2 else None, q_min=quantizer.q_min,
                           q_max=quantizer.q_max, axis=-1, group=32, division=quantizer.division).int() - (8 if k == 2 else 0)
    byte = found.qdata.int()
    assert torch.equal(byte & 15, level[:, ::2] & 15) and torch.equal(byte >> 4, level[:, 1::2])
    half = q.export_int4(w, quantizer)
    assert half.scale.dtype is torch.bfloat16 and torch.equal(half.qdata, found.qdata)
    assert torch.equal(half.scale, found.scale.bfloat16())


def test_int8():
    w = draw(6, 64, seed=3)
    observed = q.FakeQuantize(-128, 127, axis=0, device=DEVICE)
    trained = observed(w)
    found = q.export_int8(w, observed, dtype=torch.float32)
    assert found.qdata.dtype is torch.int8 and found.scale.shape == (6, 1) and found.block_size == (1, 64)
    assert torch.equal(found.dequantize(), trained)
    groups = q.LearnedQuantizer.of(w, -4, 3, axis=-1, group=16)
    found = q.export_int8(w, groups, dtype=torch.float32)
    assert torch.equal(found.dequantize(), groups(w)) and found.scale.shape == (6, 4) and not found.zero_point.any()


def test_exports_are_of_the_next_forward_pass():
    """An optimizer's step leaves scales below 2^-23, and below 0; the next forward pass sets them to it."""
    w = draw(4, 64, seed=4)
    groups, whole = q.LearnedQuantizer.of(w, axis=-1, group=32), q.LearnedQuantizer.of(w, axis=0)
    learns = q.LearnableFakeQuantize(-8, 7, axis=0, channels=4, symmetric=True, device=DEVICE)
    learns(w)
    learns.enable_param_learning()
    with torch.no_grad():
        for one in (groups, whole, learns):
            one.scale.view(-1)[:3] = torch.tensor([-0.5, 1e-9, 0.0])
        learns.zero_point.fill_(2)
    found = [q.export_int4(w, groups, dtype=torch.float32)] + [q.export_int8(w, one, dtype=torch.float32)
                                                               for one in (groups, whole, learns)]
    assert groups.scale[0, 0] == -0.5
    for one, module in zip(found, (groups, groups, whole, learns)):
        assert torch.equal(one.dequantize(), module(w).detach())


def test_exports_are_saved_as_dicts():
    w = draw(4, 64)
    file = io.BytesIO()
    found = q.export_int4(w, q.LearnedQuantizer.of(w, axis=-1, group=32))
    torch.save(found._asdict(), file)
    file.seek(0)
    loaded = q.Int4Groups(**torch.load(file, weights_only=True))
    assert torch.equal(loaded.dequantize(), found.dequantize()) and loaded[3:] == found[3:]


def test_exports_on_the_cpu(monkeypatch):
    from ptxgen.torch.quantization import _checks
    w = draw(4, 64)
    quantizer = q.LearnedQuantizer.of(w, axis=-1, group=32)
    monkeypatch.setattr(_checks._device, "is_usable", lambda device: False)
    for export in (q.export_int4, q.export_int8):
        with pytest.raises(ValueError, match=rf"{export.__name__}\(\): weight is on .*: move it to a GPU, or call ptxgen.torch.emulate"):
            export(w, quantizer)


# ---- what is refused


def with_nan(x):
    x.view(-1)[5] = float("nan")
    return x


def spoiled(**how):
    quantizer = learned(**how)
    with_nan(quantizer.scale.data)
    return quantizer


def unquantized_with_nan():
    model = linear()
    q.quantize_model(model, weight=rows)
    with_nan(model[0].weight_quantizer.scale.data)
    q.unquantize_model(model, keep="quantized")


def linear(**how):
    return torch.nn.Sequential(torch.nn.Linear(32, 8, device=DEVICE), torch.nn.Embedding(4, 8))


def twice():
    model = linear()
    q.quantize_model(model, weight=rows)
    q.quantize_model(model, lambda name, module: isinstance(module, torch.nn.Linear), weight=rows)


def again(**how):
    model = linear()
    q.quantize_model(model, weight=rows)
    q.quantize_model(model, weight=rows, **how)


class Own(torch.nn.Linear):
    pass


def normed():
    model = linear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.nn.utils.weight_norm(model[0])
    return model


def parametrized():
    model = linear()
    torch.nn.utils.parametrize.register_parametrization(model[0], "weight", torch.nn.Identity())
    q.quantize_model(model, lambda name, module: name == "0", weight=rows, replace="parametrization")


def fed(module, x):
    return lambda: module.to(DEVICE)(x)


def learned(**how):
    return q.LearnedQuantizer.of(draw(4, 64), -8, 7, **how)


def histogram():
    return ao.FakeQuantize(ao.HistogramObserver, quant_min=0, quant_max=255)


MISUSES = [
    (lambda: q.quantize_model(linear()), ValueError, "both None"),
    (lambda: q.quantize_model(linear(), weight=rows, replace="modules"), ValueError, "replace: 'modules' is none of"),
    (lambda: q.quantize_model(linear(), lambda name, module: name == "1", weight=rows), TypeError, "1 is a Embedding"),
    (lambda: q.quantize_model(linear(), lambda name, module: False, weight=rows), ValueError, "takes no module"),
    (lambda: q.quantize_model(linear()[0], weight=rows), ValueError, "the model itself is a Linear"),
    (again, ValueError, "0: quantized already: call unquantize_model"),
    (parametrized, ValueError, r"the weight of 0 is parametrized already: call .*remove_parametrizations\(\)"),
    (lambda: q.quantize_model(normed(), weight=rows), TypeError, r"the weight of 0 is made by weight_norm\(\)"),
    (lambda: q.quantize_model(torch.nn.Sequential(Own(8, 8)), weight=rows), ValueError, r"only subclasses .*: 0 \(Own\)"),
    (lambda: q.quantize_model(torch.nn.ReLU(), weight=rows), ValueError, "the model has no Linear"),
    (lambda: q.quantize_model([linear()], weight=rows), TypeError, "model: a module is needed"),
    (lambda: q.unquantize_model([linear()]), TypeError, "model: a module is needed"),
    (lambda: q.quantize_model(linear(), ["0"], weight=rows), TypeError, "filter: a function"),
    (lambda: q.quantize_model(linear(), weight=q.LearnedQuantizer()), TypeError, "weight: what makes a quantizer"),
    (lambda: q.quantize_model(linear(), activation=q.FakeQuantize()), TypeError, "activation: what makes a quantizer"),
    (lambda: q.quantize_model(linear(), weight=lambda w: None), TypeError, "weight: for 0 it returned None"),
    (lambda: q.quantize_model(linear(), activation=lambda: 8), TypeError, "activation: for 0 it returned 8"),
    (lambda: q.quantize_model(linear(), weight=q.LearnedQuantizer), TypeError, "weight: for 0 it failed: .*q_min"),
    (lambda: q.quantize_model(linear(), activation=lambda x: act()), TypeError, "activation: for 0 it failed"),
    (lambda: q.LearnedQuantizer.of(draw(4, 32).to("meta")), ValueError, "x is on meta"),
    (lambda: q.LearnedQuantizer.of([1.0]), TypeError, "x: a tensor is needed"),
    (fed(act(), draw(4).int()), TypeError, r"FakeQuantize\(\): x is in torch.int32"),
    (fed(act(), [1.0]), TypeError, r"FakeQuantize\(\): x: a tensor is needed"),
    (fed(act(), draw(4).to("meta")), ValueError, r"FakeQuantize\(\): x is on meta"),
    (fed(q.FakeQuantize(axis=2), draw(4, 4)), ValueError, r"FakeQuantize\(\): axis: 2 is not from -2 to 1"),
    (fed(q.LearnableFakeQuantize(), draw(4).to(torch.complex64)), TypeError, r"LearnableFakeQuantize\(\): x is in torch.complex64"),
    (fed(q.LearnableFakeQuantize(axis=0, channels=3), draw(4, 4)), ValueError, "x has 4 channels along axis 0, and the quantizer 3"),
    (fed(q.LearnedQuantizer(), draw(4, 4).to_sparse()), TypeError, r"LearnedQuantizer\(\): x is sparse"),
    (fed(q.LearnedQuantizer(axis=1, shape=(3,)), draw(4)), ValueError, r"LearnedQuantizer\(\): axis: 1 is not from -1 to 0"),
    (fed(learned(axis=0), draw(5, 4)), ValueError, "x has 5 channels along axis 0, and the quantizer 4"),
    (lambda: q.export_int4(draw(4, 64), q.LearnedQuantizer(axis=-1, group=32, shape=(4, 2), device=DEVICE)), ValueError,
     "has not observed yet"),
    (lambda: q.export_int8(draw(4, 64), q.FakeQuantize(axis=0, device=DEVICE)), ValueError, "has not observed yet"),
    (lambda: q.export_int4(draw(4, 64) * 1e7, draw(4, 2).abs() * 1e6, dtype=torch.float16), ValueError, "is beyond torch.float16"),
    (lambda: q.export_int4(draw(4, 64), draw(4, 2).abs() * 1e-9, dtype=torch.float16), ValueError, "is beyond torch.float16"),
    (lambda: q.export_int4(draw(4, 64), q.FakeQuantize(axis=0)), TypeError, "a FakeQuantize has no groups"),
    (lambda: q.export_int8(draw(4, 4, 3, 3), rows(draw(4, 36))), ValueError, r"not one of \[4, 4, 3, 3\]: .*flatten\(1\) first"),
    (twice, ValueError, "0 is quantized already: call unquantize_model"),
    (lambda: q.unquantize_model(linear()), ValueError, "nothing in the model is quantized"),
    (lambda: q.unquantize_model(linear(), keep="weights"), ValueError, "keep: 'weights' is none of"),
    (lambda: q.LearnedQuantizer(-8, 0), ValueError, "q_max 0 must be above 0"),
    (lambda: q.LearnedQuantizer(axis=0), ValueError, "axis=0 without shape"),
    (lambda: q.LearnedQuantizer(group=32), ValueError, "group=32 without axis"),
    (lambda: q.LearnedQuantizer(start="max"), ValueError, "start: 'max' is none of"),
    (lambda: q.LearnedQuantizer(zero_point=True), ValueError, "only \"range\" has a zero point"),
    (lambda: q.LearnedQuantizer.of(draw(4, 30), axis=-1, group=32), ValueError, "does not divide"),
    (lambda: q.FakeQuantize(1, 7), ValueError, "0 must be among the levels"),
    (lambda: q.FakeQuantize(-8, 7, averaging_constant=0), ValueError, "averaging_constant: 0.0 must be above 0"),
    (lambda: q.FakeQuantize(-8, 7, symmetric=True, symmetric_zero_point=9), ValueError, "symmetric_zero_point: 9 is not"),
    (lambda: q.FakeQuantize.from_torch(histogram()), TypeError, "the observer is a HistogramObserver"),
    (lambda: q.FakeQuantize.from_torch(torch.nn.ReLU()), TypeError, "the observer is a NoneType"),
    (lambda: q.FakeQuantize(-300, 300).to_torch(), ValueError, "are more than torch.qint8 has"),
    (lambda: q.LearnableFakeQuantize(axis=0), ValueError, "give both, or neither"),
    (lambda: q.LearnableFakeQuantize(-8, 0, use_grad_scaling=True), ValueError, "use_grad_scaling with q_max 0"),
    (fed(q.DynamicQuantizer(token=True), draw(4).sum()), ValueError, r"DynamicQuantizer\(\): x has no dimensions"),
    (fed(q.DynamicQuantizer(axis=2), draw(4, 4)), ValueError, r"DynamicQuantizer\(\): axis: 2 is not from -2 to 1"),
    (fed(q.DynamicQuantizer(axis=-1, group=32), draw(4, 48)), ValueError, "group=32 does not divide axis -1"),
    (fed(q.DynamicQuantizer(), draw(4).int()), TypeError, r"DynamicQuantizer\(\): x is in torch.int32"),
    (lambda: q.DynamicQuantizer(token=True, axis=0), ValueError, "token=True with axis=0"),
    (lambda: q.DynamicQuantizer(group=32), ValueError, "group=32 without axis"),
    (lambda: q.DynamicQuantizer(axis=-1, group=48), ValueError, "group: 48 is none of"),
    (lambda: q.DynamicQuantizer(1, 7), ValueError, "0 must be among the levels"),
    (lambda: q.export_int8(draw(4, 64), q.DynamicQuantizer(axis=0)), TypeError, "has no scales of its own"),
    (lambda: q.DelayedScaling("e3m4"), ValueError, "format: 'e3m4' is none of"),
    (lambda: q.DelayedScaling(history=0), ValueError, "history: 0 is not from 1"),
    (lambda: q.export_int4(draw(4, 64), rows(draw(4, 64))), ValueError, "groups along the last axis are needed"),
    (lambda: q.export_int4(draw(4, 64), draw(4, 3)), ValueError, "a tensor of"),
    (lambda: q.export_int4(draw(4, 64), draw(4, 2), q_max=8), ValueError, "levels -8 to 8"),
    (lambda: q.export_int8(draw(4, 64), q.LearnedQuantizer()), ValueError, "quantizer: one with axis=0"),
    (lambda: q.export_int4(draw(4, 64), spoiled(axis=-1, group=32)), ValueError,
     r"scale: 1 of 8 are NaN or infinite, the first at \[2, 1\]"),
    (lambda: q.export_int8(draw(4, 64), spoiled(axis=-1, group=32)), ValueError, "the quantizer's scale: 1 of 8 are NaN"),
    (unquantized_with_nan, ValueError, "the weight quantizer of 0, a LearnedQuantizer, has a scale of NaN"),
    (lambda: q.LearnedQuantizer.of(with_nan(draw(4, 64))), ValueError, r"of\(\): x has NaN or infinity"),
    (lambda: q.export_int4(draw(0, 64), draw(0, 2)), ValueError, r"export_int4\(\): weight is of \[0, 64\], and has no elements"),
    (lambda: q.export_int4(draw(4, 64), q.DynamicQuantizer(axis=-1, group=32)), TypeError,
     r"use export_int4\(weight, \*quantizer.calculate_qparams\(weight\)"),
    (lambda: q.fake_quantize(draw(4), torch.ones(1, device=DEVICE).int(), q_min=-8, q_max=7), TypeError,
     r"scale is in torch.int32, .*: use scale.float\(\)"),
]


@pytest.mark.parametrize("k", range(len(MISUSES)))
def test_misuse(k):
    call, kind, message = MISUSES[k]
    with pytest.raises(kind, match=message):
        call()


def test_hooks_of_a_layer_stay():
    model, seen = linear(), []
    handle = model[0].register_forward_hook(lambda *_: seen.append(1))
    q.quantize_model(model, weight=rows)
    model[0](draw(2, 32))
    handle.remove()
    model[0](draw(2, 32))
    assert seen == [1]


def test_over_ranks_scales_must_have_begun(monkeypatch):
    from ptxgen.torch.quantization import learned
    monkeypatch.setattr(learned, "_ranks", lambda: 2)
    quantizer = q.LearnedQuantizer(device=DEVICE)
    with pytest.raises(RuntimeError, match=r"call start_from\(x\) with the same x on all ranks"):
        quantizer(draw(8))
    quantizer.start_from(draw(8))
    quantizer(draw(8))


def test_buffers_stay_the_same_tensors():
    module = q.FakeQuantize(-8, 7, axis=0, device=DEVICE)
    before = list(map(id, module.buffers()))
    module(draw(6, 4))
    module.load_state_dict(module.state_dict())
    assert before == list(map(id, module.buffers())) and module.scale.shape == (6,)


def test_a_refused_call_changes_nothing():
    model = linear()
    with pytest.raises(TypeError):
        q.quantize_model(model, lambda name, module: bool(name), weight=rows)
    assert type(model[0]) is torch.nn.Linear


@pytest.mark.parametrize("replace", ["module", "parametrization"])
def test_what_cannot_be_kept_quantized(replace):
    """Refused by name, and nothing has changed; the original weights can still be had."""
    def made(weight, last=None):
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), last or torch.nn.Linear(8, 8)).to(DEVICE)
        with torch.no_grad():
            model[0].weight.copy_(draw(8, 8))
        if last is not None or weight is not rows:
            model[1].weight = model[0].weight
        q.quantize_model(model, lambda name, module: type(module) is torch.nn.Linear, weight=weight, replace=replace)
        return model

    def refused(model, kind, message):
        before = {key: value.clone() for key, value in model.state_dict().items()}
        with pytest.raises(kind, match=message):
            q.unquantize_model(model, keep="quantized")
        assert equal_states(before, model.state_dict())
        q.unquantize_model(model)
        assert torch.equal(model[0].weight, draw(8, 8))
    steps = iter((0.25, 0.5))

    def other(w):
        quantizer = rows(w)
        with torch.no_grad():
            quantizer.scale.fill_(next(steps))
        return quantizer
    refused(made(other), ValueError, "0 and 1 have one weight")
    refused(made(rows, torch.nn.Embedding(8, 8)), ValueError, r"the weight of 0 is weight of 1, too, a Embedding")
    refused(made(lambda w: q.FakeQuantize(-8, 7, axis=0)), ValueError, "weight quantizer of 0, a FakeQuantize, has not observed yet")

    class Fails(torch.nn.Module):
        def forward(self, w):
            assert self.training is None, "on purpose"
            return w
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).to(DEVICE)
    with torch.no_grad():
        model[0].weight.copy_(draw(8, 8))
    if replace == "module":  # the other way calls a quantizer as it is put in
        makers = iter((rows, lambda w: Fails()))
        q.quantize_model(model, weight=lambda w: next(makers)(w))
        refused(model, RuntimeError, "the quantizer of 1 failed, and nothing was changed: on purpose")
    alike = made(lambda w: rows(w))
    wanted = rows(draw(8, 8))(draw(8, 8)).detach()
    q.unquantize_model(alike, keep="quantized")
    assert torch.equal(alike[0].weight, wanted) and alike[0].weight is alike[1].weight


def test_layers_that_are_left_and_modes():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), Own(8, 8)).to(DEVICE).eval()
    with pytest.warns(UserWarning, match=r"subclasses are left as they are: 1 \(Own\)"):
        assert q.quantize_model(model, weight=rows, activation=lambda: q.DelayedScaling(history=2)) == ["0"]
    assert not any(module.training for module in model.modules())


def test_inputs_by_name():
    model = linear()
    q.quantize_model(model, lambda name, module: name == "0", activation=act, replace="parametrization")
    x = draw(2, 32)
    if "with_kwargs" in torch.nn.Module.register_forward_pre_hook.__code__.co_varnames:
        assert torch.equal(model[0](input=x), model[0](x)) and model[0].activation_quantizer.scale != 1
    else:
        with pytest.raises(TypeError, match="`input`, is quantized, and must be its first argument"):
            model[0](input=x)
    with pytest.raises(TypeError, match="must be its first argument"):
        model[0]()


def test_an_empty_first_input():
    module = q.FakeQuantize(-8, 7, axis=1, device=DEVICE)
    assert module(draw(0, 6)).shape == (0, 6) and module.scale.shape == (1,)
    module(draw(4, 6))
    assert module(draw(0, 6)).shape == (0, 6) and module.scale.shape == (6,)
    with pytest.raises(ValueError, match="x has 5 channels along axis 1, and the quantizer 6"):
        module(draw(4, 5))


def test_states_of_other_shapes_fail_at_load():
    def state(axis, channels=6):
        module = q.FakeQuantize(-8, 7, axis=axis, device=DEVICE)
        module(draw(channels, 4))
        return module
    for module, other in ((state(None), state(0)), (state(0), state(None)), (state(0), state(0, 5)),
                          (q.FakeQuantize(-8, 7, axis=0, device=DEVICE), state(None)),
                          (q.FakeQuantize(-8, 7, device=DEVICE), state(0))):
        shapes = [buffer.shape for buffer in module.buffers()]
        with pytest.raises(RuntimeError, match="size mismatch"):
            module.load_state_dict(other.state_dict())
        assert shapes == [buffer.shape for buffer in module.buffers()]
    fresh = q.FakeQuantize(-8, 7, axis=0, device=DEVICE)
    fresh.load_state_dict(state(0).state_dict())
    assert fresh.scale.shape == (6,)

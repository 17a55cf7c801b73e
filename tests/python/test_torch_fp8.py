# SPDX-License-Identifier: MIT
"""Copies of the weights in float8, and their largest magnitudes, in ptxgen.torch's optimizers."""

import copy
import math
import pickle
import weakref

import ptxgen
import ptxgen.torch as pt
import pytest
import torch
from ptxgen import optimizers
from rank_parts import over_ranks
from torch_parts import DEVICE, give, needs, needs_package, parameters, run, same

LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
FLOAT8 = {"e4m3": getattr(torch, "float8_e4m3fn", None), "e5m2": getattr(torch, "float8_e5m2", None)}
needs_float8 = needs("torch.float8_e4m3fn")


def wide(params):
    return [p for p in params if p.dim() >= 2]


def coded(p, scale, fmt):
    """Codes as the step makes them: rounded to f32, then to the format, saturating."""
    x = (p.detach().float() * scale).clamp(-LARGEST[fmt], LARGEST[fmt])
    return x.to(FLOAT8[fmt]).view(torch.uint8)


class Delayed:
    """Delayed scaling of one tensor, as Transformer Engine's."""

    def __init__(self, p, fmt, length, margin):
        self.fmt, self.length, self.aim = fmt, length, LARGEST[fmt] * 2.0 ** -margin
        self.scale, self.past = torch.ones(()), []
        self.after(p)

    def after(self, p):
        self.past = ([*self.past, float(p.detach().float().abs().max())])[-self.length:]
        if max(self.past) > 0:
            self.scale = torch.tensor(self.aim, dtype=torch.float32) / torch.tensor(max(self.past), dtype=torch.float32)


@needs_float8
@pytest.mark.parametrize("cls,dtype,state_dtype,fmt", [
    (pt.AdamW, torch.float32, "float32", "e4m3"), (pt.SGD, torch.float32, "float32", "e5m2"),
    (pt.Adam, torch.bfloat16, "master", "e4m3"), (pt.Lion, torch.bfloat16, "remainder", "e5m2"),
    (pt.AdamW, torch.bfloat16, "bf16", "e4m3"), (pt.AdamW, torch.float32, "8bit", "e4m3")])
def test_codes_have_the_scale_of_the_steps_before(cls, dtype, state_dtype, fmt):
    params, plain = parameters(dtype), parameters(dtype)
    fp8 = pt.Float8Weights(fmt, history=3, margin=1, transposed=True)
    optimizer = cls(params, lr=0.05, state_dtype=state_dtype, max_grad_norm=1.0, fp8=fp8)
    without = cls(plain, lr=0.05, state_dtype=state_dtype, max_grad_norm=1.0)
    expected = [Delayed(p, fmt, 3, 1) for p in wide(params)]
    fp8.cast()
    for p, e in zip(wide(params), expected):
        assert same([fp8[p].codes.view(torch.uint8)], [coded(p, e.scale, fmt)])
    for step in range(6):
        run(optimizer, params, first=step)
        run(without, plain, first=step)
        assert same(params, plain)
        for p, e in zip(wide(params), expected):
            codes, inverse, amax, turned = fp8[p]
            assert (turned is None) == (p.dim() > 2)
            assert turned is None or torch.equal(turned.view(torch.uint8), codes.view(torch.uint8).T)
            assert codes.dtype is FLOAT8[fmt] and codes.shape == p.shape and codes.stride() == p.stride()
            assert same([codes.view(torch.uint8)], [coded(p, e.scale, fmt)])
            assert float(inverse) == float(1 / e.scale) and float(amax) == float(p.detach().float().abs().max())
            e.after(p)


@needs_float8
@pytest.mark.parametrize("becomes", [
    lambda p: torch.randn(300, 5, 3, 3, device=DEVICE), lambda p: p.reshape(7, 6, 2, 3),
    lambda p: p.contiguous(memory_format=torch.channels_last), lambda p: p.transpose(2, 3)])
@pytest.mark.parametrize("call", ["cast", "step", "load"])
def test_codes_follow_other_layouts(becomes, call):
    p = torch.nn.Parameter(torch.randn(6, 7, 2, 3, device=DEVICE))
    fp8 = pt.Float8Weights(history=1)
    optimizer = pt.SGD([p], lr=0.0, fp8=fp8)
    fp8.cast()
    p.data = becomes(p.data)
    if call == "step":
        p.grad = torch.zeros_like(p)
        optimizer.step()
    else:
        if call == "load":
            optimizer.load_state_dict(optimizer.state_dict())
        fp8.cast()
    codes, inverse, amax, _ = fp8[p]
    assert codes.shape == p.shape and codes.stride() == p.stride() and float(amax) == float(p.detach().abs().max())
    assert same([codes.view(torch.uint8)], [coded(p, 1 / inverse, "e4m3")])


@needs_float8
@pytest.mark.parametrize("becomes", [lambda p: torch.randn(300, 40, device=DEVICE), lambda p: p.reshape(30, 50)])
def test_blocks_and_transposes_follow_other_shapes(becomes):
    for options in ({"blocks": "128x128"}, {"blocks": "1x128"}, {"history": 1}):
        p = torch.nn.Parameter(torch.randn(50, 30, device=DEVICE))
        fp8 = pt.Float8Weights(transposed=True, **options)
        optimizer = pt.SGD([p], lr=0.0, fp8=fp8)
        fp8.cast()
        p.data = becomes(p.data)
        p.grad = torch.zeros_like(p)
        optimizer.step()
        found = fp8.blocks_of(p) if "blocks" in options else fp8[p]
        assert found.codes.shape == p.shape and found.transposed.shape == p.T.shape
        fresh = pt.Float8Weights(transposed=True, **options)
        other = pt.SGD([p], lr=0.0, fp8=fresh)
        fresh.cast()
        if "blocks" in options:
            assert same([one.view(torch.uint8) for one in found], [one.view(torch.uint8) for one in fresh.blocks_of(p)])
        else:
            assert same([found.transposed.view(torch.uint8)], [found.codes.view(torch.uint8).T.contiguous()])
        del other


@needs_float8
def test_cast_has_the_scale_of_the_weights_as_they_are():
    p = torch.nn.Parameter(torch.ones(4, 6, device=DEVICE))
    fp8 = pt.Float8Weights(history=1)
    optimizer = pt.SGD([p], lr=0.0, fp8=fp8)
    fp8.cast()
    p.data = torch.full((6, 4), 1000.0, device=DEVICE)
    fp8.cast()
    assert torch.allclose(fp8[p].codes.float() * fp8[p].scale_inv, p.detach())
    nobody = pt.SGD([{"params": []}], lr=1.0, fp8=pt.Float8Weights())
    nobody.fp8.cast()
    nobody.step()
    del optimizer


def test_what_cannot_have_codes_is_refused():
    p = torch.nn.Parameter(torch.ones(8, 8, device=DEVICE))
    fp8 = pt.Float8Weights()
    optimizer = pt.SGD([p], lr=1.0, ema_decay=0.5, fp8=fp8)
    fp8.cast()
    p.grad = torch.ones_like(p)
    optimizer.step()
    before = fp8[p].codes.view(torch.uint8).clone()
    with optimizer.ema_weights(), pytest.raises(RuntimeError, match=r"fp8.cast\(\) within ema_weights\(\)"):
        fp8.cast()
    with torch.inference_mode():
        fp8.cast()
    kept = p.data
    for data, words in ((torch.ones(8, 16, device=DEVICE)[:, :8], "has gaps or overlaps"), (kept.double(), "is in torch.float64")):
        p.data = data
        with pytest.raises(ValueError, match=words):
            fp8.cast()
        p.data = kept
    assert same([fp8[p].codes.view(torch.uint8)], [before])
    optimizer.step()
    del optimizer
    with pytest.raises(RuntimeError, match="the optimizer of this Float8Weights is gone"):
        fp8.cast()


def test_a_skipped_step_leaves_codes_and_counts_its_amax_again():
    params = parameters()
    fp8 = pt.Float8Weights(history=2)
    optimizer = pt.AdamW(params, lr=0.05, max_grad_norm=1.0, fp8=fp8)
    run(optimizer, params)
    before = [[one.clone() for one in fp8[p][:3]] for p in wide(params)]
    give(params, 1)
    wide(params)[0].grad.view(-1)[0] = math.nan
    optimizer.step()
    for p, (codes, inverse, amax) in zip(wide(params), before):
        assert same([fp8[p].codes.view(torch.uint8)], [codes.view(torch.uint8)])
        assert float(fp8[p].scale_inv) == float(inverse) and float(fp8[p].amax) == float(amax)


def test_amax_alone_of_chosen_parameters():
    params = parameters()
    chosen = [params[0], wide(params)[-1]]
    fp8 = pt.Float8Weights(copies=False, parameters=chosen)
    optimizer = pt.SGD(params, lr=0.5, fp8=fp8)
    give(params, 3)
    params[0].grad = None  # left out so far
    optimizer.step()
    assert fp8[chosen[1]].codes is None and float(fp8[chosen[1]].amax) == float(chosen[1].detach().abs().max())
    assert float(fp8[chosen[0]].amax) == float(chosen[0].detach().abs().max())
    with pytest.raises(KeyError, match="the parameter has no copy"):
        fp8[next(p for p in params if p is not chosen[0] and p is not chosen[1])]
    assert len(fp8.parameters) == 2 and all(a is b for a, b in zip(fp8.parameters, chosen))


def test_amax_is_nan_where_a_weight_is():
    params = parameters()
    fp8 = pt.Float8Weights(copies=False)
    optimizer = pt.SGD(params, lr=0.5, fp8=fp8)
    give(params, 3)
    with torch.no_grad():
        wide(params)[0].view(-1)[1] = math.nan
    optimizer.step()
    assert math.isnan(fp8[wide(params)[0]].amax) and not math.isnan(fp8[wide(params)[1]].amax)


def test_checkpoints_continue_bit_for_bit():
    def made(params):
        fp8 = pt.Float8Weights(history=4)
        return pt.AdamW(params, lr=0.05, fp8=fp8), fp8
    params, later = parameters(), parameters()
    optimizer, fp8 = made(params)
    run(optimizer, params, 3)
    saved = copy.deepcopy(optimizer.state_dict())
    other, of_other = made(later)
    with torch.no_grad():
        for p, q in zip(params, later):
            q.copy_(p)
    other.load_state_dict(saved)
    other.load_state_dict(saved)
    of_other.cast()
    other.load_state_dict(saved)  # the scales again, and codes by them
    for step in range(3, 6):
        for some, stepped in ((params, optimizer), (later, other)):
            run(stepped, some, first=step)
        for p, q in zip(wide(params), wide(later)):
            assert same(*([one.reshape(-1).view(torch.uint8) for one in of[:3]] for of in (fp8[p], of_other[q])))
    with pytest.raises(ValueError, match="a history of 4 steps, and this has 16"):
        pt.Float8Weights().load_state_dict(saved["fp8"])
    with pytest.raises(ValueError, match="the state has scales of e4m3, and this is e5m2"):
        pt.Float8Weights("e5m2", history=4).load_state_dict(saved["fp8"])
    with pytest.raises(ValueError, match="with copies=False there is none"):
        pt.Float8Weights(copies=False).load_state_dict(saved["fp8"])
    with pytest.raises(ValueError, match=r"1 scales and a history of \(4, \d+\)"):
        fp8.load_state_dict({**saved["fp8"], "scale": torch.ones(1)})
    with pytest.raises(ValueError, match="what state_dict"):
        fp8.load_state_dict({"scale": 3})
    with pytest.raises(ValueError, match="is 0, negative or not finite"):
        fp8.load_state_dict({**saved["fp8"], "scale": torch.zeros_like(saved["fp8"]["scale"])})
    again = pickle.loads(pickle.dumps(fp8))
    assert same([again.state_dict()["scale"]], [fp8.state_dict()["scale"].cpu()])


def test_dicts_of_other_formats():
    """Scales of one format would make codes of another all the largest or nearly 0: they are refused, and those of
    copies=False, which versions before saved as ones, are left."""
    params = parameters()
    optimizer = pt.SGD(params, lr=1e-3, fp8=pt.Float8Weights("e5m2"))
    run(optimizer, params, 2)
    saved = copy.deepcopy(optimizer.state_dict())
    fp8 = pt.Float8Weights("e4m3")
    other = pt.SGD(params, lr=1e-3, fp8=fp8)
    fp8.cast()
    before = [one.clone() for one in fp8[wide(params)[0]][:2]]
    with pytest.raises(ValueError, match="the state has scales of e5m2, and this is e4m3"):
        other.load_state_dict(saved)
    some = parameters()
    largest = pt.SGD(some, lr=1e-3, fp8=pt.Float8Weights(copies=False))
    run(largest, some, 1)
    assert largest.state_dict()["fp8"] == {}
    n = saved["fp8"]["scale"].numel()
    for none in ({}, {"scale": torch.ones(n), "history": torch.zeros(16, n)}):
        other.load_state_dict({**saved, "fp8": none})
        fp8.cast()
    del saved["fp8"]["largest"]  # as versions before saved it
    pt.SGD(params, lr=1e-3, fp8=pt.Float8Weights("e5m2")).load_state_dict(saved)
    assert before[0].shape == fp8[wide(params)[0]].codes.shape
    assert float((fp8[wide(params)[0]].scale_inv * 448 / wide(params)[0].detach().abs().max() - 1).abs()) < 1e-6


def test_codes_of_a_copy():
    params = parameters()
    optimizer = pt.AdamW(params, lr=0.05, fp8=pt.Float8Weights())
    for stepped in (False, True):
        if stepped:
            give(params, 0)
            optimizer.step()
        for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
            other.fp8.cast()  # before its first step
            for p, q in zip(params, other.param_groups[0]["params"]):
                if p.dim() >= 2 and stepped:
                    assert same([one.view(torch.uint8) for one in optimizer.fp8[p][:1]],
                                [one.view(torch.uint8) for one in other.fp8[q][:1]])


def test_a_parameter_that_comes_later():
    params = parameters()
    fp8 = pt.Float8Weights(history=2)
    optimizer = pt.SGD(params[:2], lr=0.5, fp8=fp8)
    run(optimizer, params)
    optimizer.add_param_group({"params": params[2:]})
    optimizer.step()
    for p in wide(params):
        assert float(fp8[p].amax) == float(p.detach().abs().max())


def test_a_parameter_that_comes_after_loading():
    def made(params):
        return pt.SGD(params, lr=0.5, momentum=0.9, fp8=pt.Float8Weights(history=2))

    params = parameters()
    optimizer = made(params[:2])
    give(params, 0)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    again = made(params[:2])
    again.load_state_dict(saved)
    again.add_param_group({"params": params[2:]})
    before = copy.deepcopy(again.state_dict())
    assert before["fp8"] == {}  # those of now have none yet
    made([{"params": params[:2]}, {"params": params[2:]}]).load_state_dict(before)
    others = [torch.nn.Parameter(p.detach().clone()) for p in params]
    for p, q in zip(params, others):
        q.grad = p.grad.clone()
    never = made([{"params": others[:2]}, {"params": others[2:]}])
    never.load_state_dict({name: value for name, value in before.items() if name != "fp8"})
    for one in (again, never):
        one.step()  # histories begin anew
    whole = again.state_dict()
    for name, value in never.state_dict()["fp8"].items():
        assert torch.equal(whole["fp8"][name], value)
    assert whole["fp8"]["scale"].numel() == len(wide(params)) > saved["fp8"]["scale"].numel()
    optimizer.add_param_group({"params": params[2:]})
    before = optimizer.state_dict()
    assert before["fp8"] == {}  # those of now have none yet
    made([{"params": params[:2]}, {"params": params[2:]}]).load_state_dict(before)
    optimizer.load_state_dict(whole)
    assert same([optimizer.state_dict()["fp8"]["history"]], [whole["fp8"]["history"]])
    with pytest.raises(ValueError, match=r"fp8: the state has \d+ parameters, and this has \d+"):
        optimizer.load_state_dict({**whole, "fp8": saved["fp8"]})
    optimizer.step()
    for p in wide(params):
        assert float(optimizer.fp8[p].amax) == float(p.detach().abs().max())


def test_parameters_that_are_frozen_go_on():
    """As if they had no gradients."""
    params, twins = parameters(), parameters()
    optimizer, twin = (pt.AdamW(some, lr=0.05, fp8=pt.Float8Weights(history=3)) for some in (params, twins))
    several = [(params, optimizer)]
    for step in range(7):
        if step == 2:
            params[0].requires_grad_(False)
            params[0].grad = twins[0].grad = None
            several += [copy.deepcopy(several[0])]
            more = parameters()
            more[0].requires_grad_(False)
            with torch.no_grad():
                for p, q in zip(params, more):
                    q.copy_(p)
            several += [(more, pt.AdamW(more, lr=0.05, fp8=pt.Float8Weights(history=3)))]
            several[2][1].load_state_dict(optimizer.state_dict())
        elif step == 3:
            for some, one in (*several, (twins, twin)):
                one.fp8.cast()
        elif step == 4:
            for some, one in several:
                one.load_state_dict(one.state_dict())
        elif step == 5:
            for some, one in several:
                some[0].requires_grad_(True)
        for some, one in (*several, (twins, twin)):
            run(one, some if not 2 <= step < 5 else some[1:], first=step)
        expected = twin.state_dict()["fp8"]
        for some, one in several:
            assert same(some, twins)
            assert all(torch.equal(one.state_dict()["fp8"][name], expected[name]) for name in ("scale", "history"))
            for p, q in zip(wide(some), wide(twins)):
                assert torch.equal(one.fp8[p].codes.view(torch.uint8), twin.fp8[q].codes.view(torch.uint8))


@pytest.mark.parametrize("how", ["cast", "load", "gradient"])
def test_a_parameter_that_is_trained_from_now_on(how):
    params = parameters()
    params[0].requires_grad_(False)
    fp8 = pt.Float8Weights(history=2)
    optimizer = pt.SGD(params, lr=0.5, fp8=fp8)
    run(optimizer, params[1:])
    params[0].requires_grad_(True)
    assert fp8.state_dict()["scale"].numel() == len(wide(params)) - 1
    fp8.load_state_dict(fp8.state_dict())
    memory, = (weakref.ref(table.amax) for table in fp8.tables())
    given = {"scale": torch.full((len(wide(params)),), 3.0, device=DEVICE),
             "history": torch.full((2, len(wide(params))), 100.0, device=DEVICE)}
    if how == "cast":
        fp8.cast()
    elif how == "load":
        fp8.load_state_dict(given)
        assert same([fp8.state_dict()["history"]], [given["history"]])
    assert memory() is not None  # the plan is for it
    run(optimizer, params if how == "gradient" else params[1:], first=1)
    assert memory() is None and fp8.state_dict()["scale"].numel() == len(wide(params))
    for p in wide(params):
        assert float(fp8[p].amax) == float(p.detach().abs().max())
        assert how != "load" or float(fp8[p].scale_inv) == float(1 / torch.tensor(3.0))


def test_what_is_refused():
    params = parameters()
    for wrong, error, words in ((lambda: pt.Float8Weights("e3m4"), ValueError, "'e3m4' is none of e4m3, e5m2"),
                                (lambda: pt.Float8Weights(history=0), ValueError, "history: 0 is not an integer"),
                                (lambda: pt.Float8Weights(margin=0.5), ValueError, "margin: 0.5 is not an integer"),
                                (lambda: pt.Float8Weights(parameters=params[0]), TypeError, "an iterable of tensors"),
                                (lambda: pt.SGD(params, fp8="e4m3"), TypeError, r"Float8Weights\(...\) is needed"),
                                (lambda: pt.Float8Weights().cast(), RuntimeError, "no optimizer's yet"),
                                (lambda: pt.SGD([{"params": params, "fp8": True}]), ValueError, "fp8 is in a group")):
        with pytest.raises(error, match=words):
            wrong()
    fp8 = pt.Float8Weights(parameters=[torch.zeros(3, 3)])
    optimizer = pt.SGD(params, lr=0.5, fp8=fp8)
    with pytest.raises(ValueError, match=r"parameters\[0\] of Float8Weights, of shape \(3, 3\), is none of"):
        fp8.cast()
    with pytest.raises(ValueError, match="is another optimizer's"):
        pt.SGD(params, lr=0.5, fp8=fp8)
    assert optimizer.fp8 is fp8 and "history=16" in repr(fp8)


# ---- torchao


class Wrapped(torch.Tensor):
    """A weight as torchao's WeightWithDynamicFloat8CastTensor: its memory is another tensor's."""

    @staticmethod
    def __new__(cls, tensor, dtype=None, precomputed_scale=None):
        return torch.Tensor._make_wrapper_subclass(cls, tensor.size(), strides=tensor.stride(), dtype=tensor.dtype,
                                                   device=tensor.device, requires_grad=tensor.requires_grad)

    def __init__(self, tensor, dtype=None, precomputed_scale=None):
        self._tensor, self._dtype, self._precomputed_scale = tensor, dtype, precomputed_scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func == torch.ops.aten.detach.default:
            return Wrapped(args[0]._tensor, args[0]._dtype)
        args, kwargs = torch.utils._pytree.tree_map_only(Wrapped, lambda t: t._tensor, (args, kwargs or {}))
        return func(*args, **kwargs)


@needs_float8
@pytest.mark.parametrize("copies", [True, False])
def test_torchaos_scales_are_views_that_each_step_fills(copies):
    model = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.Linear(40, 8, bias=False))
    model = model.to(parameters()[0].device)
    plain = copy.deepcopy(model)
    for layer in model:
        layer.weight = torch.nn.Parameter(Wrapped(layer.weight.detach().clone(), torch.float8_e4m3fn))
    fp8 = pt.Float8Weights(copies=copies)
    optimizer = pt.AdamW(model.parameters(), lr=0.05, max_grad_norm=1.0, fp8=fp8)
    reference = pt.AdamW(plain.parameters(), lr=0.05, max_grad_norm=1.0)
    assert fp8.precompute(model) == 2
    views = [layer.weight._precomputed_scale for layer in model]
    for step in range(4):
        for layer, view in zip(model, views):
            assert layer.weight._precomputed_scale is view and view.dim() == 0
            amax = layer.weight._tensor.detach().abs().max().clamp(min=1e-12).double()
            assert float(view) == float((448.0 / amax).float())  # torchao's own formula
        for p, q in zip(model.parameters(), plain.parameters()):
            q.grad = torch.randn_like(q)
            p.grad = q.grad.clone()
        optimizer.step()
        reference.step()
        assert same([layer.weight._tensor for layer in model], [layer.weight for layer in plain])
    other = torch.nn.Linear(3, 3)
    other.weight = torch.nn.Parameter(Wrapped(other.weight.detach().clone()))
    with pytest.raises(ValueError, match=r"of shape \(3, 3\) has a _precomputed_scale, and is none of those"):
        fp8.precompute(other)


@needs_package("torchao")
@needs("torch.distributed.fsdp.fully_shard")
@over_ranks(2)
def test_scales_of_torchaos_own_function(rank):
    """Views beside its own function, over shards of its own tensors."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import distribute_tensor
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training, precompute_float8_dynamic_scale_for_fsdp
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.Linear(48, 32, bias=False)).to(DEVICE)
    convert_to_float8_training(model, config=Float8LinearConfig(enable_fsdp_float8_all_gather=True))
    mesh = init_device_mesh(DEVICE, (2,))
    fully_shard(model, mesh=mesh)
    fp8 = pt.Float8Weights(copies=False)
    optimizer = pt.AdamW(model.parameters(), lr=0.05, max_grad_norm=1.0, fp8=fp8)
    assert fp8.precompute(model) == 2
    parts = [layer.weight._local_tensor for layer in model]
    views = [part._precomputed_scale for part in parts]
    for step in range(3):
        assert all(part._precomputed_scale is view for part, view in zip(parts, views))
        ours = [view.clone() for view in views]
        precompute_float8_dynamic_scale_for_fsdp(model)
        assert all(torch.equal(part._precomputed_scale.reshape(()), view) for part, view in zip(parts, ours))
        for part, view in zip(parts, views):
            part._precomputed_scale = view
        for p in model.parameters():
            g = torch.randn(p.shape, generator=torch.Generator().manual_seed(step + p.numel())).to(DEVICE)
            p.grad = distribute_tensor(g, mesh, p.placements)
        optimizer.step()


def matrices(dtype=torch.float32):
    torch.manual_seed(7)
    made = [torch.randn(shape) * 3.0 ** k for k, shape in enumerate([(130, 140), (7,), (64, 256), (1, 5)])]
    made[0][3, :] = 0.0
    made[0][5, :] *= 1e-7
    return [torch.nn.Parameter(one.to(dtype).to(DEVICE)) for one in made]


def tiles_of(x, height):
    """The matrix, filled up with zeros, as [rows of blocks, height, blocks of a row, 128]."""
    rows, columns = x.shape
    full = torch.zeros(-(-rows // height) * height, -(-columns // 128) * 128)
    full[:rows, :columns] = x
    return full.view(-1, height, full.shape[1] // 128, 128)


def blocked(x, blocks, scaling, fmt):
    """Codes and factors by torch's operations, on the CPU."""
    x = x.detach().cpu().float()
    tiles = tiles_of(x, 1 if blocks == "1x128" else 128)
    amax = tiles.abs().amax(dim=(1, 3), keepdim=True)
    largest = torch.tensor(LARGEST[fmt])
    if scaling.startswith("deepgemm"):
        inverse = amax.clamp(1e-4) / largest
        if scaling.endswith("ue8m0"):
            inverse = torch.exp2(torch.ceil(torch.log2(inverse.double()))).float()
        scale = 1.0 / inverse
    else:
        scale = (largest / amax).clamp(max=torch.finfo(torch.float32).max)
        if scaling.endswith("ue8m0"):
            scale = (scale.view(torch.int32) & -0x800000).view(torch.float32)
        scale = torch.where(amax == 0, torch.ones(()), scale)
        inverse = 1.0 / scale
    codes = (tiles * scale).to(FLOAT8[fmt]).view(torch.uint8)
    flat = codes.reshape(-1, codes.shape[2] * 128)[:x.shape[0], :x.shape[1]]
    return flat.contiguous(), inverse[:, 0, :, 0]


@needs_float8
@pytest.mark.parametrize("blocks", ["128x128", "1x128"])
@pytest.mark.parametrize("scaling,dtype,fmt", [("te", torch.float32, "e4m3"), ("te_ue8m0", torch.bfloat16, "e4m3"),
                                               ("deepgemm", torch.bfloat16, "e5m2"), ("deepgemm_ue8m0", torch.float32, "e4m3")])
def test_blocks_are_those_of_the_weights_as_stored(blocks, scaling, dtype, fmt):
    params, plain = matrices(dtype), matrices(dtype)
    fp8 = pt.Float8Weights(fmt, blocks=blocks, scaling=scaling, transposed=True)
    state_dtype = "float32" if dtype is torch.float32 else "bf16"
    optimizer = pt.AdamW(params, lr=0.05, state_dtype=state_dtype, max_grad_norm=1.0, fp8=fp8)
    without = pt.AdamW(plain, lr=0.05, state_dtype=state_dtype, max_grad_norm=1.0)
    fp8.cast()
    for step in range(4):
        for p in wide(params):
            codes, inverse, turned, of_turned = fp8.blocks_of(p)
            for x, got, factors in ((p, codes, inverse), (p.T, turned, of_turned)):
                expected, by = blocked(x, blocks, scaling, fmt)
                assert got.dtype is FLOAT8[fmt] and got.is_contiguous() and got.shape == x.shape
                assert torch.equal(got.view(torch.uint8).cpu(), expected) and torch.equal(factors.cpu(), by)
        give(params, step)
        give(plain, step)
        if step == 2:
            params[0].grad[1, 1] = math.nan  # a skipped step leaves them
        else:
            without.step()
        optimizer.step()
        assert same(params, plain)
    with torch.no_grad():
        params[0].mul_(-2.0)
    fp8.cast()
    expected, by = blocked(params[0], blocks, scaling, fmt)
    assert torch.equal(fp8.blocks_of(params[0]).codes.view(torch.uint8).cpu(), expected)


@ptxgen.rule(states=dict(a="signed", b="signed", c="signed", d="signed"), scalars=dict(lr=1e-2))
def four_averages(p, g, a, b, c, d, lr):
    a, b, c, d = (beta * x + (1 - beta) * g for beta, x in ((0.5, a), (0.75, b), (0.9, c), (0.99, d)))
    return p - lr * (a + 2 * b + 3 * c + 4 * d), a, b, c, d


@needs_float8
@pytest.mark.parametrize("rule", [optimizers.ademamix, four_averages], ids=lambda rule: rule.name)
def test_blocks_beside_many_states(rule):
    """The more states a rule has, the fewer rows of a tile are read ahead."""
    params, plain = matrices(), matrices()
    fp8 = pt.Float8Weights(blocks="128x128", transposed=True)
    optimizer, without = pt.Optimizer(params, rule, lr=0.05, fp8=fp8), pt.Optimizer(plain, rule, lr=0.05)
    for step in range(3):
        run(optimizer, params, first=step)
        run(without, plain, first=step)
        assert same(params, plain)
        for p in wide(params):
            expected, by = blocked(p, "128x128", "te", "e4m3")
            assert torch.equal(fp8.blocks_of(p).codes.view(torch.uint8).cpu(), expected)
            assert torch.equal(fp8.blocks_of(p).scale_inv.cpu(), by)
        for state, other in zip(optimizer.state.values(), without.state.values()):
            assert all(torch.equal(state[name], other[name]) for name in rule.states)


def test_blocks_are_of_matrices():
    params = matrices()
    fp8 = pt.Float8Weights(blocks="128x128")
    optimizer = pt.SGD(params, lr=0.5, fp8=fp8)
    with pytest.raises(KeyError, match="before the first step"):
        fp8.blocks_of(params[0])
    run(optimizer, params, first=1)
    assert fp8.blocks_of(params[2]).scale_inv.shape == (1, 2) and fp8.blocks_of(params[2]).transposed is None
    assert optimizer.state_dict()["fp8"] == {} and "blocks='128x128'" in repr(fp8)
    with pytest.raises(KeyError, match="it has 1 dimension, and blocks are those of a matrix"):
        fp8.blocks_of(params[1])
    with pytest.raises(KeyError, match="none of the optimizer's matrices"):
        fp8.blocks_of(torch.ones(2, 2, device=DEVICE))
    with pytest.raises(KeyError, match="blocks_of"):
        fp8[params[0]]
    with pytest.raises(ValueError, match="not kept with blocks"):
        fp8.precompute(torch.nn.Linear(2, 2))
    chosen = pt.Float8Weights(blocks="1x128", parameters=[params[1]])
    optimizer = pt.SGD(params, lr=0.5, fp8=chosen)
    with pytest.raises(ValueError, match=r"parameters\[0\] of Float8Weights, of shape \(7,\): it has 1 dimension"):
        chosen.cast()
    for given, words in (({"blocks": "64x64"}, "blocks: '64x64' is none of 128x128, 1x128"),
                         ({"blocks": "1x128", "scaling": "mx"}, "scaling: 'mx' is none of"),
                         ({"scaling": "deepgemm"}, "without blocks"), ({"blocks": "1x128", "history": 3}, "leave them out")):
        with pytest.raises(ValueError, match=words):
            pt.Float8Weights(**given)
    again = pickle.loads(pickle.dumps(fp8))
    assert again.blocks == "128x128" and again.state_dict() == {}


@needs_float8
@pytest.mark.parametrize("blocks", ["128x128", "1x128"])
@pytest.mark.parametrize("heads", [1, 2, 4, [(0, 128), (128, 128)], [(0, 32, 64), (32, 32, 64)], [(0, 200)],
                                   [pt.MatrixRange(0, 64, columns=True), pt.MatrixRange(64, 76, columns=True)]])
def test_blocks_of_parameters_in_several_matrices(blocks, heads):
    """Those of the whole parameter, whatever matrices Muon makes of it, in one iteration: more change numbers alone."""
    torch.manual_seed(3)
    params = [torch.nn.Parameter(torch.randn(shape, device=DEVICE)) for shape in ((256, 140), (130, 140))]
    fp8 = pt.Float8Weights(blocks=blocks, transposed=True)
    optimizer = pt.Muon([{"params": params[:1], "heads": heads}, {"params": params[1:]}], lr=0.05, ns_steps=1,
                        uncovered="matrix", fp8=fp8)
    for step in range(3):
        if step == 2:
            optimizer.param_groups[0]["heads"] = None
        run(optimizer, params, first=step)
        for p in params:
            codes, inverse, turned, of_turned = fp8.blocks_of(p)
            for x, got, factors in ((p, codes, inverse), (p.T, turned, of_turned)):
                expected, by = blocked(x, blocks, "te", "e4m3")
                assert torch.equal(got.view(torch.uint8).cpu(), expected) and torch.equal(factors.cpu(), by)

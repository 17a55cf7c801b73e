# SPDX-License-Identifier: MIT
"""ptxgen.torch.Muon, compared with the formula in f64, with torch.optim.Muon's way of it in bf16, and with itself."""

import copy
import io
import math
import pickle
import re
import sys

import ptxgen
import ptxgen.torch as pt
import pytest
import torch
from test_torch_states import one_rank  # noqa: F401: a fixture
from torch_parts import DEVICE, give, needs, parameters, run, same

from ptxgen.torch import muon

JORDAN = (3.4445, -4.7750, 2.0315)
OTHERS = [(4.0, -6.5, 3.0), (3.5, -5.0, 2.25)]  # of two steps


def orthogonalized(update, triples, dtype):
    """The plain iteration in a type; a list of triples."""
    x = update.to(dtype)
    turned = x.shape[0] > x.shape[1]
    x = x.T if turned else x
    x = x / x.norm().clamp(min=1e-7)
    for a, b, c in triples:
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x.T if turned else x).double()


class Formula:
    """Muon over matrices in f64, as torch.optim.Muon's documentation has it; the iteration in `dtype`. On the CPU."""

    def __init__(self, params, triples, dtype, lr, momentum, nesterov=True, weight_decay=0.1, adjust="original"):
        self.values = [p.detach().cpu().double().reshape(p.shape[0], -1) for p in params]
        self.momenta = [torch.zeros_like(value) for value in self.values]
        self.triples, self.dtype, self.lr, self.momentum = triples, dtype, lr, momentum
        self.nesterov, self.weight_decay, self.adjust = nesterov, weight_decay, adjust

    def step(self, gradients):
        for k, gradient in enumerate(gradients):
            g, m = gradient.double().reshape(self.values[k].shape), self.momenta[k]
            m += (1 - self.momentum) * (g - m)
            update = g + self.momentum * (m - g) if self.nesterov else m
            rows, columns = m.shape
            factor = {"original": math.sqrt(max(1, rows / columns)), "match_rms_adamw": 0.2 * math.sqrt(max(rows, columns))}
            self.values[k] *= 1 - self.lr * self.weight_decay
            self.values[k] -= self.lr * factor[self.adjust] * orthogonalized(update, self.triples, self.dtype)


SHAPES = [(16, 16), (24, 40), (40, 24), (1, 7), (6, 3, 2, 2)]


def far(params, values, starts):
    """The distance from the formula, against the length of its way."""
    return [float((p.detach().double().reshape(v.shape) - v).norm() / (v - s.double().reshape(v.shape)).norm())
            for p, v, s in zip(params, values, starts)]


@pytest.mark.parametrize("settings", [
    {}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}, {"ns_coefficients": OTHERS, "ns_steps": 2},
    {"momentum": 0.0, "weight_decay": 0.0}])
def test_formula(settings):
    params = parameters(shapes=SHAPES)
    starts = [p.detach().clone() for p in params]
    optimizer = pt.Muon(params, lr=0.05, **settings)
    steps = settings.get("ns_steps", 5)
    triples = settings.get("ns_coefficients", [JORDAN] * steps)
    exact, theirs = (Formula(params, triples, dtype, 0.05, settings.get("momentum", 0.95), settings.get("nesterov", True),
                             settings.get("weight_decay", 0.1), settings.get("adjust_lr_fn", "original"))
                     for dtype in (torch.float64, torch.bfloat16))
    for step in range(2):
        give(params, step)
        gradients = [p.grad.cpu() for p in params]
        optimizer.step()
        exact.step(gradients)
        theirs.step(gradients)
    ours = far(params, [v.to(DEVICE) for v in exact.values], starts)
    of_torch = far([v.float() for v in theirs.values], exact.values, [s.cpu() for s in starts])
    for shape, one, other in zip(SHAPES, ours, of_torch):
        assert one <= max(0.01, other), (shape, one, other)
    for p, m in zip(params, exact.momenta):
        found = optimizer.state[p]["momentum_buffer"].double().cpu().reshape(m.shape)
        assert torch.allclose(found, m, rtol=1e-5, atol=1e-6) and float(optimizer.state[p]["step"]) == 2


def test_no_steps_of_the_iteration():
    """The update itself, of length 1, rounded to f16."""
    params = parameters(shapes=[(24, 40), (40, 24)])
    starts = [p.detach().double().clone() for p in params]
    optimizer = pt.Muon(params, lr=0.5, weight_decay=0.0, momentum=0.0, ns_steps=0)
    run(optimizer, params, first=1)
    for p, start in zip(params, starts):
        expected = p.grad.double() / p.grad.double().norm()
        way = (start - p.detach().double()) / (0.5 * math.sqrt(max(1, p.shape[0] / p.shape[1])))
        assert float((way - expected).norm()) < 1e-3


def test_windows():
    """With less memory, the same bits."""
    shapes = [(24, 40), (40, 24), (33, 16), (8, 64)]
    made = []
    for memory in (None, 2100):  # the largest has 2,048 bytes
        params = parameters(shapes=shapes)
        optimizer = pt.Muon(params, lr=0.05, ns_steps=2, matrix_memory=memory)
        run(optimizer, params, 2)
        made.append((params, optimizer.describe()[0]))
        assert copy.copy(optimizer).matrix_memory == (memory or 0) == pickle.loads(pickle.dumps(optimizer)).matrix_memory
    (params, plain), (others, small) = made
    assert same(params, others) and small.launches > plain.launches and small.workspace < plain.workspace
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match=f"matrix_memory: {wrong} is neither a number of bytes nor None"):
            pt.Muon(params, matrix_memory=wrong)
    with pytest.raises(ValueError, match=r"matrix_memory is in a group, .*: give it to Muon\(\)"):
        pt.Muon([{"params": params, "matrix_memory": 1 << 20}])
    for heads, which in ((None, "parameter 0 (h.0)"), (3, "parameter 0 (h.0), matrix 0")):
        optimizer = pt.Muon([{"params": [("h.0", params[0])], "heads": heads}], matrix_memory=10)
        with pytest.raises(ptxgen.InvalidError, match=rf"tensor 0: its products need .* \(tensor 0 is {re.escape(which)}\)"):
            optimizer.step()


# ---- matrices of a parameter


@pytest.mark.parametrize("shape,settings,cut", [
    ((12, 10), {"heads": 3}, lambda p: p.split(4)),
    ((12, 10), {"heads": [(6, 6), pt.MatrixRange(0, 2)], "uncovered": "matrix"}, lambda p: (p[6:], p[:2], p[2:6])),
    ((12, 10), {"heads": [(0, 5), [5, 7]]}, lambda p: (p[:5], p[5:])),
    ((12, 10), {"heads": lambda name, shape: shape[0] // 6 if name == "w" else None}, lambda p: p.split(6)),
    ((12, 10), {"heads": [(0, 2, 6), pt.MatrixRange(2, 2, 6), (4, 2, 6)]},
     lambda p: [p.view(2, 3, 2, 10)[:, k].reshape(4, 10) for k in range(3)]),
    ((10, 24), {"heads": 3, "in_by_out": True}, lambda p: p.split(8, dim=1)),
    ((7, 15), {"heads": [(0, 5, 0, True), pt.MatrixRange(8, 7, columns=True)], "uncovered": "matrix"},
     lambda p: (p[:, :5], p[:, 8:], p[:, 5:8])),
    ((7, 18), {"heads": lambda name, shape: [(0, 2, 9, True), (2, 7, 9, True)] if name == "w" else None},
     lambda p: [p.view(7, 2, 9)[:, :, cut].reshape(7, -1) for cut in (slice(0, 2), slice(2, 9))]),
    ((3, 5, 6), {"of_3d": "batch"}, lambda p: p.unbind()),
    ((3, 8, 6), {"of_3d": "batch", "heads": lambda name, shape: shape[1] // 4 if name == "w" else None},
     lambda p: [half for one in p for half in one.split(4)]),
    ((2, 5, 18), {"of_3d": "batch", "heads": [(0, 2, 9, True), (2, 7, 9, True)]},
     lambda p: [one.view(5, 2, 9)[:, :, cut].reshape(5, -1) for one in p for cut in (slice(0, 2), slice(2, 9))]),
    ((7, 5, 6), {"of_3d": "convolution"}, lambda p: (p.flatten(1),)),
    ((7, 2, 3, 2), {}, lambda p: (p.flatten(1),)),
], ids=["equal", "ranges", "all", "function", "strided rows", "equal columns", "columns", "strided columns", "batch",
        "rows of a batch", "columns of a batch", "convolution", "2d"])
def test_matrices_of_a_parameter(shape, settings, cut):
    """Each gets the bits that it gets as a parameter of its own, also with gradients that are summed, come and go."""
    params = parameters(shapes=[(9, 4), shape, (4, 6)])
    parts = [torch.nn.Parameter(one.detach().clone()) for one in (params[0], *cut(params[1].detach()), params[2])]
    names = [{"params": [(name, p)]} for name, p in zip("vwx", params)]
    names[1].update(settings)
    alone = [{"params": parts[:1]}, {"params": parts[1:-1], "in_by_out": settings.get("in_by_out", False)},
             {"params": parts[-1:]}]
    one, other = (pt.Muon(given, lr=0.05, ns_steps=1) for given in (names, alone))
    for step in range(4):
        for k in range(2 if step == 1 else 1):
            give(params, 10 * step + k)
            if step == 2:
                params[1].grad = None
            cuts = [None] * (len(parts) - 2) if params[1].grad is None else cut(params[1].grad)
            for p, g in zip(parts, [params[0].grad, *cuts, params[2].grad]):
                p.grad = None if g is None else g.clone()
            if step == 1 and not k:
                one.accumulate()
                other.accumulate()
        one.step()
        other.step()
        assert math.isclose(float(one.grad_norm), float(other.grad_norm), rel_tol=1e-6)
    assert same([params[0], *cut(params[1].detach()), params[2]], parts)
    assert float(one.state[params[1]]["step"]) == 3
    assert same(cut(one.state[params[1]]["momentum_buffer"]), [other.state[p]["momentum_buffer"] for p in parts[1:-1]])


def test_without_elements():
    """What has no elements has no matrices, whatever `heads` says, and takes steps beside others."""
    params = parameters(shapes=[(0, 6), (6, 0), (2, 0, 6), (0, 4, 6), (4, 6)])
    optimizer = pt.Muon([{"params": params[:2] + params[4:], "heads": 2}, {"params": params[2:4], "heads": 2, "of_3d": "batch"}],
                        reports=True)
    run(optimizer, params, first=0)
    assert optimizer.report().absent.tolist() == [1, 1, 0, 1, 1] and float(optimizer.found_inf) == 0


def test_reports_and_averages_of_pieces():
    """A report has a row for a parameter, an average its shape."""
    params = parameters(shapes=[(12, 10), (12, 10), (5,)])
    groups = [{"params": params[:1], "heads": 3}, {"params": params[1:2]}, {"params": params[2:], "use_muon": False}]
    optimizer = pt.Muon(groups, lr=0.05, ns_steps=1, reports=True, ema_decay=0.5)
    for step in range(2):
        give(params, step)
        params[0].grad[3, 5] = 0
        params[0].grad[9, 0] = 0
        before = [p.detach().double().clone() for p in params]
        averages = [optimizer.state[p]["ema"].clone() if step else p.detach().clone() for p in params]
        optimizer.step()
        report = optimizer.report()
        for p, old, average, row in zip(params, before, averages, map(report.__getitem__, report.names)):
            assert math.isclose(float(row["norm"]), float(p.grad.double().norm()), rel_tol=1e-12)
            assert math.isclose(float(row["weight_norm"]), float(p.detach().double().norm()), rel_tol=1e-12)
            assert math.isclose(float(row["change_norm"]), float((p.detach().double() - old).norm()), rel_tol=1e-12)
            assert float(row["largest"]) == float(p.grad.abs().max())
            assert float(row["weight_largest"]) == float(p.detach().abs().max())
            assert torch.allclose(optimizer.state[p]["ema"], average.lerp(p.detach(), 0.5), atol=1e-6)
        assert report.zeros.tolist() == [2, 0, 0] and report.first_nonfinite.tolist() == [-1, -1, -1]
    give(params, 2)
    params[0].grad[7, 3] = math.inf
    params[0].grad[11, 3] = math.nan
    optimizer.step()
    assert optimizer.report().first_nonfinite.tolist() == [73, -1, -1] and float(optimizer.found_inf) == 1
    assert math.isnan(float(optimizer.report().largest[0])) and float(optimizer.state[params[0]]["step"]) == 2


def test_reports_of_columns():
    """The first element that is not finite is counted in the parameter."""
    params = parameters(shapes=[(6, 20), (12, 5), (3, 5, 8)])
    optimizer = pt.Muon([{"params": params[:1], "heads": [(0, 5, 10, True), (5, 5, 10, True)]},
                         {"params": params[1:2], "heads": [(0, 2, 6), (2, 4, 6)]},
                         {"params": params[2:], "of_3d": "batch", "heads": [(0, 2, 4, True), (2, 2, 4, True)]}], reports=True)
    give(params, 0)
    params[2].grad[1, 2, 6] = math.inf
    params[0].grad[3, 17] = math.inf
    params[0].grad[4, 1] = math.nan
    params[1].grad[8, 2] = math.inf
    params[1].grad[7, 3] = math.inf
    optimizer.step()
    assert optimizer.report().first_nonfinite.tolist() == [77, 38, 62]


# ---- with the rest of an optimizer


def mixed(dtype=torch.float32, shapes=((12, 10), (6, 3, 2, 2)), **settings):
    """Matrices and vectors, in groups that alternate."""
    params = parameters(dtype, shapes=[shapes[0], (5,), shapes[1], (300,)])
    groups = [{"params": [p], **({} if p.dim() > 1 else {"use_muon": False, "betas": (0.5, 0.75)})} for p in params]
    return params, pt.Muon(groups, lr=0.05, ns_steps=1, adamw_lr=0.01, **settings)


def test_adamw_beside():
    """The bits of AdamW, under the norm of all."""
    params, optimizer = mixed(max_grad_norm=0.5)
    others = [torch.nn.Parameter(p.detach().clone()) for p in params]
    plain = pt.AdamW(others, lr=0.01, betas=(0.5, 0.75), max_grad_norm=0.5)
    for step in range(3):
        run(optimizer, params, first=step)
        run(plain, others, first=step)
        assert math.isclose(float(optimizer.grad_norm), float(plain.grad_norm), rel_tol=1e-6)
    assert torch.allclose(params[1], others[1], atol=1e-6) and torch.allclose(params[3], others[3], atol=1e-6)
    assert set(optimizer.state[params[1]]) == {"step", "exp_avg", "exp_avg_sq"}
    assert set(optimizer.state[params[0]]) == {"step", "momentum_buffer"}
    settings = {"lr", "betas", "eps", "weight_decay", "use_muon", "params"}
    assert {key for key in optimizer.param_groups[1] if key not in ("initial_lr",)} == settings
    assert optimizer.param_groups[1]["lr"] == 0.01 and optimizer.param_groups[1]["eps"] == 1e-8


@pytest.mark.parametrize("dtype,state_dtype", [
    (torch.float32, "bf16"), (torch.bfloat16, "master"), (torch.bfloat16, "remainder"), (torch.bfloat16, "bf16"),
    (torch.float16, "master")])
def test_formats(dtype, state_dtype):
    """Close to f32, and to the bit the same whatever a parameter is called or cut into."""
    params, optimizer = mixed(dtype, state_dtype=state_dtype, seed=5)
    with torch.no_grad():
        exact = [torch.nn.Parameter(p.detach().float()) for p in params]
    full = pt.Muon([{"params": exact[::2]}, {"params": exact[1::2], "use_muon": False, "betas": (0.5, 0.75), "lr": 0.01}],
                   lr=0.05, ns_steps=1)
    for step in range(2):
        give(params, step)
        for p, q in zip(params, exact):
            q.grad = p.grad.float()
        optimizer.step()
        full.step()
    for p, q in zip(params, exact):
        near = 2.0 ** -6 if p.dtype is torch.bfloat16 else 2.0 ** -8
        assert float((p.detach().float() - q.detach()).abs().max()) <= near * float(q.detach().abs().max())


@needs("torch.amp.GradScaler")
def test_scaler_guards_and_schedulers():
    params, optimizer = mixed(max_grad_norm=1.0, guards=pt.Guards(limit=1e4))
    scaler = pt.GradScaler(DEVICE, init_scale=8.0)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[0.1, 0.02] * 2, total_steps=9)
    twins, twin = mixed(max_grad_norm=1.0)
    for step in range(4):
        scaler.scale(torch.ones((), device=DEVICE))
        give(params, step, scale=scaler.get_scale())
        give(twins, step)
        if step == 2:
            params[0].grad[0, 0] = math.inf
        for group, other in zip(optimizer.param_groups, twin.param_groups):
            other.update({key: group[key] for key in ("lr", *(["momentum"] if group["use_muon"] else []))})
        scaler.step(optimizer)
        scaler.update()
        if step != 2:
            twin.step()
        scheduler.step()
    assert same(params, twins) and float(optimizer.state[params[0]]["step"]) == 3 and float(optimizer.skipped) == 0
    assert optimizer.param_groups[0]["momentum"] != 0.95
    run(optimizer, params, first=9, scale=1e6)
    assert float(optimizer.skipped) != 0 and float(optimizer.state[params[0]]["step"]) == 3


def test_rate_on_the_device():
    params, optimizer = mixed()
    twins, twin = mixed()
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"], device=DEVICE)
    run(optimizer, params, 2)
    run(twin, twins, 2)
    assert same(params, twins)


@pytest.mark.parametrize("key,given,at,value", [
    ("heads", [(0, 4), (4, 4)], slice(None), [(0, 2), (2, 6)]), ("heads", [[0, 4], [4, 4]], slice(None), [[0, 6], [6, 2]]),
    ("ns_coefficients", list(JORDAN), 0, 3.0), ("ns_coefficients", [list(JORDAN)] * 5, 4, [3.0, -4.0, 2.0])])
def test_lists_that_change_in_place(key, given, at, value):
    """As if they were set anew."""
    made = []
    for way in ("in place", "anew", "not"):
        params = parameters(shapes=[(8, 5)])
        optimizer = pt.Muon(params, **{key: copy.deepcopy(given)})
        run(optimizer, params)
        if way == "anew":
            optimizer.param_groups[0][key] = copy.deepcopy(given)
        if way != "not":
            optimizer.param_groups[0][key][at] = value
        run(optimizer, params)
        made.append(params)
    assert same(made[0], made[1]) and not same(made[0], made[2])


@pytest.mark.parametrize("key,given,values", [
    ("heads", ([0, 4], [4, 4]), ([0, 2], [2, 6])), ("ns_coefficients", tuple(list(JORDAN) for _ in range(5)), [(3.0, -4.0, 2.0)] * 5)])
def test_lists_in_tuples_that_change(key, given, values):
    made = []
    for changes in (True, False):
        params = parameters(shapes=[(8, 8)])
        optimizer = pt.Muon(params, **{key: copy.deepcopy(given)})
        run(optimizer, params)
        for one, value in zip(optimizer.param_groups[0][key] if changes else (), values):
            one[:] = value
        run(optimizer, params)
        made.append(params)
    assert not same(*made)


def test_a_momentum_that_is_no_number_of_python():
    params, twins = parameters(shapes=[(8, 5)]), parameters(shapes=[(8, 5)])
    run(pt.Muon(params, momentum=torch.tensor(0.5)), params)
    run(pt.Muon(twins, momentum=0.5), twins)
    assert same(params, twins)


# ---- states


def copies(optimizer, params):
    """Other optimizers with the same states: by a dict, a file, a copy of both, a pickle of both."""
    for way in (lambda made: made, saved_and_loaded):
        mine, other = mixed()
        with torch.no_grad():
            for p, q in zip(mine, params):
                p.copy_(q)
        other.load_state_dict(way(optimizer.state_dict()))
        yield mine, other
    yield copy.deepcopy((params, optimizer))
    yield pickle.loads(pickle.dumps((params, optimizer)))


def saved_and_loaded(made):
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    return torch.load(file)


def test_states_go_on():
    params, optimizer = mixed()
    run(optimizer, params, 2)
    others = list(copies(optimizer, params))
    run(optimizer, params, 2, 2)
    for mine, other in others:
        run(other, mine, 2, 2)
        assert same(params, mine)
        other.add_param_group({"params": parameters(shapes=[(3,)]), "use_muon": False})
        assert other.param_groups[-1]["lr"] == 0.01 and "momentum" not in other.param_groups[-1]


@pytest.mark.parametrize("state_dtype", ["bf16", "remainder", "master"])
def test_formats_change(state_dtype):
    dtype = torch.float32 if state_dtype == "bf16" else torch.bfloat16
    params, optimizer = mixed(dtype, state_dtype=state_dtype)
    run(optimizer, params, 2)
    other = mixed(dtype)[1]
    other.load_state_dict(optimizer.state_dict())
    for p, q in zip(params, tensors(other)):
        for name in ("momentum_buffer", "exp_avg"):
            if name in optimizer.state[p]:
                assert torch.equal(optimizer.state[p][name].float(), other.state[q][name])


def tensors(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


@needs("torch.optim.Muon")
def test_to_torch_and_back():
    """Two dicts go to torch.optim's Muon and AdamW, theirs come in, and a Muon's alone."""
    params, optimizer = mixed(shapes=((12, 10), (6, 12)))
    run(optimizer, params, 2)
    both = optimizer.state_dict(format="torch")
    theirs = torch.optim.Muon(parameters(shapes=[(12, 10), (6, 12)]), lr=1.0)
    adamw = torch.optim.AdamW(parameters(shapes=[(5,), (300,)]), lr=1.0, foreach=False)
    for other, group in ((theirs, {"params": theirs.param_groups[0]["params"][1:]}),
                         (adamw, {"params": adamw.param_groups[0]["params"][1:]})):
        del other.param_groups[0]["params"][1:]
        other.add_param_group(group)
    theirs.load_state_dict(both["muon"])
    adamw.load_state_dict(both["adamw"])
    assert theirs.param_groups[1]["lr"] == 0.05 and adamw.param_groups[0]["betas"] == (0.5, 0.75)
    with torch.no_grad():
        for p, q in zip(params[::2] + params[1::2], tensors(theirs) + tensors(adamw)):
            q.copy_(p)
    run(theirs, tensors(theirs), 1)  # they step
    run(adamw, tensors(adamw), 1)
    again, back = mixed(shapes=((12, 10), (6, 12)))
    back.load_state_dict({"muon": theirs.state_dict(), "adamw": adamw.state_dict()})
    for p, q in zip(again[::2], tensors(theirs)):
        assert torch.equal(back.state[p]["momentum_buffer"], theirs.state[q]["momentum_buffer"])
    for p, q in zip(again[1::2], tensors(adamw)):
        assert all(torch.equal(back.state[p][name].cpu(), adamw.state[q][name].cpu())
                   for name in ("step", "exp_avg", "exp_avg_sq"))
    run(back, again)
    alone = pt.Muon([{"params": [p]} for p in parameters(shapes=[(12, 10), (6, 12)])])
    alone.load_state_dict(theirs.state_dict())
    assert alone.param_groups[0]["lr"] == 0.05 and alone.param_groups[0]["use_muon"] is True


@needs("torch.optim.Muon")
@pytest.mark.parametrize("shape", [(32, 32), (16, 48), (48, 16)])
def test_as_torch(shape):
    """Over some steps, near torch's own: its products are in bf16."""
    params, others = parameters(shapes=[shape]), parameters(shapes=[shape])
    start = params[0].detach().double().clone()
    settings = {"lr": 0.02, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}
    run(pt.Muon(params, **settings), params, 3)
    run(torch.optim.Muon(others, **settings), others, 3)
    way = others[0].detach().double() - start
    assert float((params[0].detach().double() - others[0].detach().double()).norm() / way.norm()) < 0.05


def test_dicts_of_others():
    params, optimizer = mixed()
    run(optimizer, params)
    saved = optimizer.state_dict()
    before = [p.detach().clone() for p in params]
    assert all(key not in group for group in saved["param_groups"] for key in ("heads", "uncovered", "in_by_out"))
    swapped = {**saved, "param_groups": [saved["param_groups"][k] for k in (1, 0, 2, 3)]}
    both = optimizer.state_dict(format="torch")
    without = {**saved, "param_groups": [{k: v for k, v in g.items() if k != "use_muon"} for g in saved["param_groups"]]}
    missing, lacking = copy.deepcopy(saved), copy.deepcopy(saved)
    del missing["state"][0]["momentum_buffer"]
    del lacking["param_groups"][0]["ns_steps"]
    strays = [{**both, half: {**both[half], "state": {**both[half]["state"], 7: both[half]["state"][0]}}} for half in both]
    for given, kind, words in (
            (swapped, ValueError, "group 0 of the dict has use_muon=False, and that of the optimizer True"),
            ({**saved, "param_groups": [{**saved["param_groups"][0], "use_muon": "yes"}, *saved["param_groups"][1:]]}, ValueError,
             "group 0 of the dict has use_muon='yes', and that of the optimizer True"),
            ({"muon": both["muon"]}, ValueError, "the dict 'adamw' has 0 groups, and the optimizer 2 with use_muon=False"),
            (without, ValueError, "of an optimizer without groups of use_muon=False, which this one has"),
            *((stray, ValueError, f"the dict '{half}': state has the key 7, which is no parameter of param_groups: they have 0, ")
              for half, stray in zip(both, strays)),
            ({"muon": "none"}, TypeError, "the dict 'muon': what state_dict.. gives is needed, not 'none'"),
            ({**both, "adamw": {**both["adamw"], "state": None}}, TypeError, "the dict 'adamw': state is of type NoneType, not dict"),
            ({**both, "muon": {"state": {}}}, KeyError, "the dict 'muon': there is no param_groups in it"),
            (lacking, ValueError, "ns_steps is missing in a group with use_muon=True: .* of a dict that is loaded have all"),
            (missing, KeyError, "parameter 0 of group 0: there is no momentum_buffer among its states")):
        with pytest.raises(kind, match=words):
            optimizer.load_state_dict(given)
    run(optimizer, params)
    assert not same(params, before) and float(optimizer.state[params[0]]["step"]) == 2
    adamw = torch.optim.AdamW(parameters(shapes=[(4, 4)]))
    with pytest.raises(ValueError, match="AdamW or Adam, and that of Muon is needed: load it into ptxgen.torch.AdamW"):
        pt.Muon(parameters(shapes=[(4, 4)])).load_state_dict(adamw.state_dict())
    adamw.param_groups[0]["lr"] = "x"
    with pytest.raises(ValueError, match="^lr: a number is needed"):
        pt.Muon([{"params": parameters(shapes=[(4, 4)]), "use_muon": False}]).load_state_dict(adamw.state_dict())
    listed = pt.Muon(parameters(shapes=[(4, 4)]), ns_coefficients=OTHERS, ns_steps=2)
    with pytest.raises(ValueError, match="group 0 has a list of 2 different triples in ns_coefficients.*cannot go to torch"):
        listed.state_dict(format="torch")
    again = pt.Muon(parameters(shapes=[(4, 4)]))
    again.load_state_dict(listed.state_dict())
    assert again.param_groups[0]["ns_coefficients"] == OTHERS
    given = again.state_dict()
    given["param_groups"][0].update(use_muon=torch.tensor(True), ns_steps=torch.tensor(2), dampening=None)
    again.load_state_dict(given)
    run(again, again.param_groups[0]["params"])


# ---- what is refused


def of(*shapes, **settings):
    """A group of parameters with names."""
    return [{"params": [(f"layer.{k}", p) for k, p in enumerate(parameters(shapes=shapes))], **settings}]


@pytest.mark.parametrize("make,message", [
    (lambda: pt.Muon(of((3, 4), (5,))), r"parameter 1 of group 0 \(layer.1\) of shape \(5,\) is a vector, and no matrix"),
    (lambda: pt.Muon(of(())), "is a scalar, and no matrix: put it into a group with use_muon=False"),
    (lambda: pt.Muon(of((2, 2, 2, 2, 2))), "is of 5 dimensions, and no matrix"),
    (lambda: pt.Muon(of((2, 3, 4))), 'three dimensions: of_3d="batch" .* 2 matrices of 3 x 4, .* for one of 2 x 12'),
    (lambda: pt.Muon(of((2, 3, 4)), of_3d="experts"), "of_3d: 'experts' is none of batch, convolution"),
    (lambda: pt.Muon(of((12, 4)), heads=5), "has 12 rows, which are not 5 equal matrices"),
    (lambda: pt.Muon(of((12, 4)), heads=0), "has 12 rows, which are not 0 equal matrices"),
    (lambda: pt.Muon(of((12, 4)), heads=3, in_by_out=True), "has 4 columns, which are not 3 equal matrices"),
    (lambda: pt.Muon(of((12, 4)), heads=True), "`heads` gives True, and a number of matrices, a list of ranges or None"),
    (lambda: pt.Muon(of((12, 4)), heads=[(0, 4), (3, 9)]),
     r"parameter 0 of group 0 \(layer.0\), `heads`: ranges 0 and 1 overlap: both have row 3"),
    (lambda: pt.Muon(of((12, 4)), heads=[(0, 4), (6, 2)]), 'no range has the rows 4 to 5 .*uncovered="matrix"'),
    (lambda: pt.Muon(of((12, 4)), heads=[(0, 4), (6, 2)], uncovered="matrix"), "those from 4 and from 8 on do not repeat"),
    (lambda: pt.Muon(of((12, 4)), heads=[(0, 13)]), "range 0: first 0 and run 13 are not within the parameter's 12 rows"),
    (lambda: pt.Muon(of((12, 4)), heads=[(-1, 2)]), r"\(-1, 2\) of `heads` is no range: first, run and stride are not negative"),
    (lambda: pt.Muon(of((12, 4)), heads=[(0, 2**64 + 12)]), r"of `heads` is no range: first, run and stride are .* below 2\^63"),
    (lambda: pt.Muon(of((12, 4)), heads=[(2**64, 12)]), "of `heads` is no range"),
    (lambda: pt.Muon(of((12, 4)), heads=[(0, 12, 2**64)]), "of `heads` is no range"),
    (lambda: pt.Muon(of((12, 4)), heads=[(2**63 - 1, 2**63 - 1)]), "are not within the parameter's 12 rows"),
    (lambda: pt.Muon(of((12, 4)), heads=[(0, 2, 1)]), "range 0: its stride is 1, below first . run, 2"),
    (lambda: pt.Muon(of((12, 4)), heads=[pt.MatrixRange(0, 1, 3, True)]), "range 0: its stride is 3, which does not divide"),
    (lambda: pt.Muon(of((12, 4)), heads=[(0, 12), pt.MatrixRange(0, 2, columns=True)]), "range 1 is of columns, and range 0 of"),
    (lambda: pt.Muon([torch.nn.Parameter(torch.empty(16385, 16385, device=DEVICE))]), r"matrix of 16385 x 16385, whose smaller side is above 16384"),
    (lambda: pt.Muon(of((12, 4)), heads=[3]), "3 of `heads` is no range: MatrixRange"),
    (lambda: pt.Muon(of((6, 2, 2, 2)), heads=2), "has 4 dimensions, and `heads` is for parameters with two"),
    (lambda: pt.Muon(of((3, 4, 2)), of_3d="convolution", heads=2), "has 3 dimensions, and `heads` is for parameters with two"),
    (lambda: pt.Muon(of((3, 4, 2)), of_3d="batch", heads=3), "has 4 rows, which are not 3 equal matrices, as `heads` says"),
    (lambda: pt.Muon(parameters(shapes=[(4, 4)]), heads=lambda name, shape: 2), "no name, and `heads` is a function of"),
    (lambda: pt.Muon(of((4, 4)), uncovered="rows"), "uncovered: 'rows' is none of error, matrix"),
    (lambda: pt.Muon(of((4, 4)), momentum=1.0), "momentum: 1.0 is not from 0 to below 1"),
    (lambda: pt.Muon(of((4, 4)), momentum="x"), "momentum: a number is needed in each group of Muon"),
    (lambda: pt.Muon(of((4, 4)), lr=-1.0), "lr: -1.0 is not a number of at least 0"),
    (lambda: pt.Muon(of((4, 4)), eps=math.nan), "eps: nan is not a number of at least 0"),
    (lambda: pt.Muon(of((4, 4)), weight_decay=-1), "weight_decay: -1 is not a number of at least 0"),
    (lambda: pt.Muon(of((4, 4)), nesterov="no"), "nesterov: 'no' is neither True nor False"),
    (lambda: pt.Muon(of((4, 4)), ns_steps=33), "ns_steps: 33 is not an integer from 0 to 32"),
    (lambda: pt.Muon(of((4, 4)), ns_steps=2.5), "ns_steps: 2.5 is not an integer"),
    (lambda: pt.Muon(of((4, 4)), ns_steps=torch.ones(2)), "ns_steps: tensor.* is not an integer"),
    (lambda: pt.Muon(of((4, 4)), ns_steps=torch.tensor(2.0)), "ns_steps: tensor.* is not an integer"),
    (lambda: pt.Muon(of((4, 4)), ns_coefficients=(1, 2)), "neither three numbers nor a list of 5 triples"),
    (lambda: pt.Muon(of((4, 4)), ns_coefficients=OTHERS), "a list of 5 triples, one for each of ns_steps=5"),
    (lambda: pt.Muon(of((4, 4)), ns_coefficients=[JORDAN, (1, 2)], ns_steps=2), r"the triple of step 1 is \(1, 2\)"),
    (lambda: pt.Muon(of((4, 4)), ns_coefficients=(1, math.inf, 2)), "the triple of step 0 is .*that are finite in f32"),
    (lambda: pt.Muon(of((4, 4)), ns_coefficients=(1, 2, 1e39)), "the triple of step 0 is .*1e.39.* that are finite in f32"),
    (lambda: pt.Muon(of((4, 4)), adjust_lr_fn="spectral"), "adjust_lr_fn: 'spectral' is not supported; there are original"),
    (lambda: pt.Muon(of((4, 4)), state_dtype="8bit"), "state_dtype='8bit' has states in blocks.*use_muon=True"),
    (lambda: pt.Muon(of((4, 4), maximize=True)), "maximize=True is not supported in a group with use_muon=True"),
    (lambda: pt.Muon(of((4, 4), use_muon="yes")), "use_muon: 'yes' is neither True nor False"),
    (lambda: pt.Muon(of((4, 4), betas=(0.9, 0.95))), "betas is in a group whose parameters are matrices"),
    (lambda: pt.Muon(of((4, 4), use_muon=False, momentum=0.9)), "momentum is in a group with use_muon=False"),
    (lambda: pt.Muon(of((4, 4), use_muon=False, heads=2)), "heads is in a group with use_muon=False"),
    (lambda: pt.Muon(of((4, 4), adamw_lr=0.1)), "adamw_lr is in a group, and is for groups that have none"),
    (lambda: pt.Muon(of((4, 4), use_moun=False)), "'use_moun' is in a group.*is 'use_muon' meant"),
    (lambda: pt.Muon(of((4, 4)), adamw_betas=(0.9, 1.0)), r"betas: \(0.9, 1.0\) is not from 0 to below 1"),
    (lambda: pt.Muon([torch.nn.Parameter(p.detach().T) for p in parameters(shapes=[(3, 4)])]),
     "does not lie row by row in memory: its strides are"),
    (lambda: pt.Muon([p.detach().T.requires_grad_() for p in parameters(shapes=[(3, 4)])]),
     "does not lie row by row in memory: its strides are"),
    (lambda: pt.Muon([p.detach().mT.requires_grad_() for p in parameters(shapes=[(1, 3, 4)])], of_3d="batch"),
     r"of shape \(1, 4, 3\) does not lie row by row in memory"),
    (lambda: pt.Muon(of((11, 4)), heads=[(0, 2, 4)], uncovered="matrix"), "those from 2 and from 6 on do not repeat to the end"),
    (lambda: pt.Muon([*of((4, 4)), *of((4, 4), ns_coefficients=(1, 2))]), r"^group 1: ns_coefficients: \(1, 2\) is neither"),
    (lambda: pt.Muon([*of((4, 4)), *of((4, 4), use_muon=False, eps=-1.0)]), "^group 1: eps: -1.0 is not a number of at least 0"),
    (lambda: pt.Muon(of((4, 4), amsgrad=True)), "amsgrad=True is not supported, nor has Muon a v"),
    (lambda: pt.Muon(of((4, 4), amsgrad=True, use_muon=False)), "amsgrad=True is not supported: torch.optim.AdamW has it"),
    (lambda: pt.Muon([*of((4, 4), dampening=0), *of((4, 4), dampening=0.5)]), "^group 1: dampening: 0.5 is in a group with use_muon"),
    (lambda: pt.Muon(of((3, 4)), max_gradnorm=1.0), "unexpected keyword argument 'max_gradnorm'"),
])
def test_misuse(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


class Closed(Exception):
    def __setattr__(self, name, value):
        raise TypeError(name)


@pytest.mark.parametrize("error,noted", [
    (KeyError("q"), True), (ValueError(("q", 1)), True), (OSError(2, "no file"), True), (StopIteration(3), True), (Closed("q"), False)])
def test_heads_that_raise(error, noted):
    """The error is the function's own, with a note of the parameter's name, and the group is not there."""
    args = error.args

    def heads(name, shape):
        raise error
    optimizer = pt.Muon(of((3, 4)))
    for _ in range(2):  # once, where the same error is raised again
        with pytest.raises(type(error)) as found:
            optimizer.add_param_group({**of((4, 4))[0], "heads": heads})
        assert found.value is error and error.args == args and len(optimizer.param_groups) == 1
        notes = ["`heads` of parameter 0 of group 1 (layer.0)"] if noted and sys.version_info >= (3, 11) else []
        assert getattr(error, "__notes__", []) == notes


@pytest.mark.parametrize("key, value", [("dampening", 0.5), ("dampening", torch.ones(2)), ("maximize", True)])
def test_refused_between_steps(key, value):
    params = parameters(shapes=[(3, 4)])
    optimizer = pt.Muon(params)
    run(optimizer, params)
    before = params[0].detach().clone()
    optimizer.param_groups[0][key] = value
    with pytest.raises(ValueError, match=f"^group 0: {key}.* in a group with use_muon=True"):
        optimizer.step()
    assert same(params, [before])


def test_refused_groups_are_not_added():
    optimizer = pt.Muon(parameters(shapes=[(3, 4)]))
    for group in ({"params": parameters(shapes=[(5,)])}, {"params": parameters(shapes=[(5, 5)]), "heads": 2},
                  {"params": parameters(shapes=[(5, 5)]), "betas": (0.9, 0.99)}):
        with pytest.raises(ValueError):
            optimizer.add_param_group(group)
        assert len(optimizer.param_groups) == 1


def test_a_rule_stays():
    """A group is stepped by what it was made for."""
    for k, key in ((0, "betas"), (1, "nesterov")):
        params = parameters(shapes=[(3, 4), (5,)])
        optimizer = pt.Muon([{"params": params[:1]}, {"params": params[1:], "use_muon": False}])
        run(optimizer, params, 1)
        optimizer.param_groups[k]["use_muon"] = bool(k)
        give(params, 1)
        with pytest.raises(ValueError, match=f"{key} is missing in a group with use_muon={bool(k)}: use_muon cannot be changed"):
            optimizer.step()


def test_float8_of_pieces():
    """A matrix of its own has codes and largest magnitudes as others; several of one parameter have none."""
    params = parameters(shapes=[(12, 10)])
    fp8 = pt.Float8Weights(copies=False)
    optimizer = pt.Muon(params, fp8=fp8)
    run(optimizer, params)
    assert float(fp8[params[0]].amax) == float(params[0].detach().abs().max())
    params = parameters(shapes=[(12, 10)])
    optimizer = pt.Muon(params, heads=2, fp8=pt.Float8Weights(copies=False))
    before = params[0].detach().clone()
    give(params, 0)
    with pytest.raises(ValueError, match="parameter 0 is 2 matrices, of which each would have a largest magnitude"):
        optimizer.step()
    assert torch.equal(params[0], before)


@needs("torch.distributed.fsdp.fully_shard")
def test_dtensors(one_rank):  # noqa: F811
    """Those of one rank are whole. test_torch_muon_ranks.py has two ranks, and what is refused."""
    from torch.distributed.tensor import Shard, distribute_tensor
    plain = parameters(shapes=[(4, 6), (7, 3)])
    cut = [torch.nn.Parameter(distribute_tensor(p.detach(), one_rank, [Shard(1)])) for p in plain]
    for p, other in zip(plain, cut):
        p.grad = p.detach().cos()
        other.grad = distribute_tensor(p.grad, one_rank, [Shard(1)])
    for one in (plain, cut):
        pt.Muon(one, lr=0.1).step()
    for p, other in zip(plain, cut):
        assert torch.equal(other.detach().to_local(), p.detach())


@needs("torch.optim.Muon")
def test_defaults_are_torchs():
    theirs = torch.optim.Muon(parameters(shapes=[(3, 4)])).defaults
    ours = pt.Muon(parameters(shapes=[(3, 4)])).defaults
    assert {key: ours[key] for key in theirs} == theirs and muon.COEFFICIENTS == JORDAN

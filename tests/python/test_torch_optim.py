# SPDX-License-Identifier: MIT
"""ptxgen.torch's optimizers against torch.optim's."""

import copy
import io
import math
import pickle
import sys

import ptxgen.torch as pt
import pytest
import torch
from conftest import python
from ptxgen.torch import _shortcuts
from torch_parts import DEVICE, distance, give, needs, parameters, run, same

RULES = [
    (pt.AdamW, torch.optim.AdamW, {"weight_decay": 0.1}),
    (pt.AdamW, torch.optim.AdamW, {"betas": (0.8, 0.95), "eps": 1e-6, "maximize": True}),
    (pt.Adam, torch.optim.Adam, {"weight_decay": 0.1}),
    (pt.Adam, torch.optim.Adam, {}),
    (pt.SGD, torch.optim.SGD, {}),
    (pt.SGD, torch.optim.SGD, {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.01}),
    (pt.SGD, torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "maximize": True}),
]


def torch_lion(params, states, lr, betas, weight_decay):
    """The formula of the paper, each operation in f64."""
    for p, m in zip(params, states):
        g = p.grad.double()
        update = (betas[0] * m + (1 - betas[0]) * g).sign()
        p.data = (p.double() * (1 - lr * weight_decay) - lr * update).float()
        m.copy_(betas[1] * m + (1 - betas[1]) * g)


def run_both(ours, a, theirs, b, steps, first=0, keep=False, max_norm=None):
    for seed in range(first, first + steps):
        give(a, seed, keep=keep)
        give(b, seed)
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(b, max_norm)
        ours.step()
        theirs.step()


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("cls,reference,options", RULES)
def test_50_steps(cls, reference, options, keep):
    a, b = parameters(), parameters()
    ours, theirs = cls(a, lr=1e-2, **options), reference(b, lr=1e-2, **options)
    run_both(ours, a, theirs, b, 50, keep=keep)
    assert distance(a, b) < 5e-6
    assert ours.grad_norm is None and ours.found_inf is None


@pytest.mark.parametrize("cls,reference,options", RULES)
def test_clipped(cls, reference, options):
    a, b = parameters(), parameters()
    ours, theirs = cls(a, lr=1e-2, max_grad_norm=3.0, **options), reference(b, lr=1e-2, **options)
    assert ours.grad_norm is None
    run_both(ours, a, theirs, b, 20, max_norm=3.0)
    assert distance(a, b) < 5e-6
    exact = sum(p.grad.double().square().sum() for p in a).sqrt()
    assert ours.grad_norm.item() == exact.float().item()
    assert ours.grad_norm.device == a[0].device and ours.found_inf.item() == 0
    ours.max_grad_norm = 0.5
    run_both(ours, a, theirs, b, 5, first=20, max_norm=0.5)
    assert distance(a, b) < 5e-6


def test_lion():
    a, b = parameters(), parameters()
    states = [torch.zeros_like(p, dtype=torch.float64) for p in b]
    ours = pt.Lion(a, lr=1e-3, weight_decay=0.1)
    for seed in range(50):
        give(b, seed)
        run(ours, a, first=seed)
        with torch.no_grad():
            torch_lion(b, states, 1e-3, (0.9, 0.99), 0.1)
    assert distance(a, b) < 1e-5


def test_one_plan():
    """Gradients that move, come and go need no new plan; sizes do."""
    a = parameters()
    ours = pt.AdamW(a, lr=1e-2, max_grad_norm=1.0)
    plans = set()
    for seed in range(6):
        give(a, seed)
        if seed % 2:
            a[1].grad = None
        for group in ours.param_groups:
            group["lr"] = 1e-2 / (seed + 1)
        ours.step()
        plans.add(id(ours._engine()._parts[0].plan))
    assert len(plans) == 1
    a[0].data = torch.zeros(16, device=DEVICE)
    a[0].grad = None
    ours.state.pop(a[0])
    run(ours, a, first=9)
    assert id(ours._engine()._parts[0].plan) not in plans


def test_missing_gradients():
    a, b = parameters(), parameters()
    ours, theirs = pt.AdamW(a, lr=1e-2), torch.optim.AdamW(b, lr=1e-2)
    for seed in range(8):
        for params in (a, b):
            give(params, seed)
            for k, p in enumerate(params):
                if (seed >> (k % 3)) & 1:
                    p.grad = None
        ours.step()
        theirs.step()
    assert distance(a, b) < 5e-6
    assert [ours.state[p]["step"].item() for p in a] == [theirs.state[p]["step"].item() for p in b]
    frozen = parameters(shapes=[(4,), (5,)])
    frozen[1].requires_grad_(False)
    ours = pt.AdamW(frozen, lr=1e-2)
    give(frozen[:1], 0)
    ours.step()
    assert frozen[1] not in ours.state
    ours.zero_grad(set_to_none=False)
    assert not frozen[0].grad.any()
    ours.zero_grad(set_to_none=True)
    assert frozen[0].grad is None
    ours.step()
    pt.AdamW(parameters(), lr=1e-2).step()


def test_bad_gradients_skip_the_step():
    a = parameters()
    ours = pt.AdamW(a, lr=1e-2, max_grad_norm=1.0)
    run(ours, a)
    before = [p.detach().clone() for p in a]
    for bad in (math.nan, math.inf):
        give(a, 1)
        a[1].grad[3] = bad
        ours.step()
        assert ours.found_inf.item() == 1 and not math.isfinite(ours.grad_norm.item())
        assert same(a, before) and ours.state[a[0]]["step"].item() == 1
    run(ours, a, first=1)
    assert ours.found_inf.item() == 0 and not same(a, before)


def test_no_gradient_at_all():
    """The norm of nothing is 0, before the first gradient and between others."""
    a = parameters()
    ours = pt.AdamW(a, lr=1e-2, max_grad_norm=1.0)
    assert ours.grad_norm is None and ours.found_inf is None
    before = [p.detach().clone() for p in a]
    for seed in range(3):
        ours.zero_grad(set_to_none=True)
        ours.step()
        for result in (ours.grad_norm, ours.found_inf):
            assert result.device == a[0].device and result.shape == () and result.item() == 0
        if not seed:
            assert same(a, before) and not ours.state
        run(ours, a, first=seed)
        assert ours.grad_norm.item() > 0
    ours.max_grad_norm = None
    ours.step()
    assert ours.grad_norm is None and ours.found_inf is None


def test_groups_and_schedulers():
    a, b = parameters(), parameters()
    def groups(params):
        return [{"params": params[:2], "weight_decay": 0.1}, {"params": params[2:4], "lr": 3e-3}]
    ours, theirs = pt.AdamW(groups(a), lr=1e-2), torch.optim.AdamW(groups(b), lr=1e-2)
    schedules = [torch.optim.lr_scheduler.LambdaLR(o, lambda k: 1 / (k + 1)) for o in (ours, theirs)]
    for seed in range(10):
        if seed == 5:
            ours.add_param_group({"params": a[4:], "betas": (0.5, 0.5)})
            theirs.add_param_group({"params": b[4:], "betas": (0.5, 0.5)})
            schedules = [torch.optim.lr_scheduler.StepLR(o, 2) for o in (ours, theirs)]
        run_both(ours, a, theirs, b, 1, first=seed)
        for schedule in schedules:
            schedule.step()
    assert distance(a, b) < 5e-6
    if "fused" in theirs.param_groups[0]:
        assert set(ours.param_groups[0]) == set(theirs.param_groups[0])


@pytest.mark.parametrize("where", ["cpu", DEVICE])
def test_rate_as_tensor(where):
    a, b = parameters(), parameters()
    rate = torch.tensor(1e-2, device=where)
    ours, theirs = pt.AdamW(a, lr=rate), torch.optim.AdamW(b, lr=1e-2)
    for seed in range(6):
        run_both(ours, a, theirs, b, 1, first=seed)
        rate.mul_(0.5)
        theirs.param_groups[0]["lr"] *= 0.5
    assert distance(a, b) < 5e-6
    ours.param_groups[0]["lr"] = 1e-2  # from then on a number
    theirs.param_groups[0]["lr"] = 1e-2
    run_both(ours, a, theirs, b, 2, first=6)
    assert distance(a, b) < 5e-6
    wide = torch.tensor(1e-3, dtype=torch.float64, device=where)
    ours.param_groups[0]["lr"], theirs.param_groups[0]["lr"] = wide, 1e-3
    run_both(ours, a, theirs, b, 2, first=8)
    wide.fill_(2e-3)
    theirs.param_groups[0]["lr"] = 2e-3
    run_both(ours, a, theirs, b, 2, first=10)
    assert distance(a, b) < 5e-6


def test_closure():
    w = torch.nn.Parameter(torch.ones(4, device=DEVICE))
    ours = pt.SGD([w], lr=0.1)

    def closure():
        ours.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss
    with torch.no_grad():
        assert ours.step(closure).item() == 4.0
    assert torch.allclose(w, torch.full_like(w, 0.8))
    assert ours.step() is None


@needs("torch.optim.Optimizer.register_step_pre_hook")
@pytest.mark.parametrize("known", [True, False])  # by the short cut
def test_hooks(known, monkeypatch):
    from torch.optim.optimizer import register_optimizer_step_pre_hook
    cut = _shortcuts.unobserved
    monkeypatch.setattr(cut, "way", cut.first if known else cut.plain)
    a = parameters()
    give(a, 0)
    ours = pt.SGD(a, lr=0.0)
    seen = []
    handles = [
        ours.register_step_pre_hook(lambda o, args, kwargs: seen.append(("pre", o is ours))),
        ours.register_step_post_hook(lambda o, args, kwargs: seen.append(("post", o is ours))),
        register_optimizer_step_pre_hook(
            lambda o, args, kwargs: seen.append(("all", args[0] is ours)) if o is ours else None)]
    ours.step()
    assert seen == [("all", True), ("pre", True), ("post", True)]
    for handle in handles:
        handle.remove()
    called = []
    handle = ours.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: called.append(1)), {}))
    ours.step()
    assert called == [1]
    handle.remove()


def test_the_profiler_names_the_step():
    """On a GPU in a process that ends without the interpreter's end: there its profiler calls what it has
    destroyed, and the process crashes or spins for ever."""
    profiled = """
import torch
import ptxgen.torch as pt
w = torch.nn.Parameter(torch.ones(4, device=DEVICE))
w.grad = torch.ones_like(w)
ours = pt.SGD([w], lr=0.1)
with torch.autograd.profiler.profile() as profile:
    ours.step()
named = any("Optimizer.step#SGD.step" in event.key for event in profile.key_averages())
"""
    if DEVICE == "cpu":
        found = {"DEVICE": DEVICE}
        exec(profiled, found)
        assert found["named"]
    else:
        done = python(f"DEVICE = 'cuda'\n{profiled}\nprint(named, flush=True)\nimport os\nos._exit(0)")
        assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@needs("torch.autograd.graph.increment_version")
def test_version_counters():
    w = torch.nn.Parameter(torch.ones(4, device=DEVICE))
    loss = (w * w).sum()
    w.grad = torch.ones(4, device=DEVICE)
    pt.SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# ---- what moves


def test_parameters_and_states_move():
    a, b = parameters(), parameters()
    ours, theirs = pt.AdamW(a, lr=1e-2), torch.optim.AdamW(b, lr=1e-2)
    run_both(ours, a, theirs, b, 2)
    plan = ours._engine()._parts[0].plan
    kept = []  # so that nothing gets its old memory
    for p in a:
        kept.append(p.data)
        p.data = p.data.clone()
    run_both(ours, a, theirs, b, 2, first=2)
    for entry in ours.state.values():  # as those who move states off the device and back
        kept.append(dict(entry))
        for name in ("exp_avg", "exp_avg_sq"):
            entry[name] = entry[name].clone()
    run_both(ours, a, theirs, b, 2, first=4)
    for entry in ours.state.values():
        kept.append(entry["exp_avg"].detach())
        entry["exp_avg"].data = entry["exp_avg"].data.clone()
    run_both(ours, a, theirs, b, 2, first=6)
    assert distance(a, b) < 5e-6 and ours._engine()._parts[0].plan is plan


def test_swapped_parameters_and_step():
    """accelerate puts other parameters into the groups, other groups, and another step()."""
    a, b = parameters(), parameters()
    ours, theirs = pt.AdamW(a, lr=1e-2), torch.optim.AdamW(b, lr=1e-2)
    other = [torch.nn.Parameter(p.detach().clone()) for p in a]
    ours.param_groups[0]["params"] = list(other)
    run_both(ours, other, theirs, b, 3)
    ours.param_groups = [dict(group) for group in ours.param_groups]
    run_both(ours, other, theirs, b, 3, first=3)
    calls = []
    inner = ours.step
    ours.step = lambda *args, **kwargs: (calls.append(1), inner(*args, **kwargs))[1]
    run_both(ours, other, theirs, b, 1, first=6)
    assert distance(other, b) < 5e-6 and calls == [1]


def test_tied_weights():
    embed = torch.nn.Embedding(10, 4).to(DEVICE)
    head = torch.nn.Linear(4, 10, bias=False).to(DEVICE)
    head.weight = embed.weight
    model = torch.nn.Sequential(embed, head)
    other = copy.deepcopy(model)
    ours, theirs = pt.AdamW(model.parameters(), lr=1e-2), torch.optim.AdamW(other.parameters(), lr=1e-2)
    for _ in range(5):
        for m, o in ((model, ours), (other, theirs)):
            o.zero_grad()
            m(torch.arange(10, device=DEVICE)).square().sum().backward()
            o.step()
    assert distance(model.parameters(), other.parameters()) < 5e-6


@pytest.mark.parametrize("cls", [pt.AdamW, pt.Adam, pt.SGD, pt.Lion, pt.Muon])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_infinite_weights(cls, weight_decay):
    """They become NaN, and no other weight does."""
    params = parameters(shapes=[(3, 4)])
    with torch.no_grad():
        params[0][1, 2] = -math.inf
    run(cls(params, lr=1e-2, weight_decay=weight_decay), params)
    assert params[0].isnan().nonzero().tolist() == [[1, 2]] and int(params[0].isfinite().sum()) == 11


def test_layouts():
    """Channels last, and a gradient that is laid out otherwise."""
    a, b = [torch.nn.Parameter(torch.linspace(-1, 1, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5).to(
        DEVICE, memory_format=torch.channels_last)) for _ in range(2)]
    ours, theirs = pt.AdamW([a], lr=1e-2), torch.optim.AdamW([b], lr=1e-2)
    for seed in range(4):
        give([a], seed)
        give([b], seed)
        if seed % 2:
            a.grad = a.grad.contiguous(memory_format=torch.channels_last)
        ours.step()
        theirs.step()
    assert distance([a], [b]) < 5e-6
    assert ours.state[a]["exp_avg"].stride() == a.stride()
    square = parameters(shapes=[(6, 6)])
    other = parameters(shapes=[(6, 6)])
    ours, theirs = pt.SGD(square, lr=0.1), torch.optim.SGD(other, lr=0.1)
    for turn in (False, True):
        give(square, 1)
        give(other, 1)
        if turn:
            square[0].grad, other[0].grad = square[0].grad.t(), other[0].grad.t()
        ours.step()
        theirs.step()
    assert distance(square, other) < 5e-6


# ---- checkpoints


@pytest.mark.parametrize("cls,reference,options", RULES)
def test_exchange_with_torch(cls, reference, options):
    a, b = parameters(), parameters()
    ours, theirs = cls(a, lr=1e-2, **options), reference(b, lr=1e-2, **options)
    run_both(ours, a, theirs, b, 3)
    for form in (None, "torch"):
        c = [torch.nn.Parameter(p.detach().clone()) for p in a]
        from_ours = reference(c, lr=1.0, **options)
        from_ours.load_state_dict(copy.deepcopy(ours.state_dict(format=form)))
        assert from_ours.param_groups[0]["lr"] == 1e-2
        d = [torch.nn.Parameter(p.detach().clone()) for p in b]
        from_torch = cls(d, lr=1.0, **options)
        from_torch.load_state_dict(theirs.state_dict())
        run_both(from_torch, d, from_ours, c, 3, first=3)
        assert distance(c, d) < 5e-6
    saved = theirs.state_dict()["state"]
    if saved and "step" in saved[0]:
        assert saved[0]["step"].item() == 3  # not the one that was loaded


@pytest.mark.parametrize("dtype,state_dtype", [
    (torch.float32, "float32"), (torch.float32, "bf16"), (torch.bfloat16, "master"),
    (torch.bfloat16, "remainder"), (torch.bfloat16, "bf16"), (torch.float16, "master")])
def test_resume(dtype, state_dtype):
    """Through torch.save, copies and pickles: the same bits as without."""
    a = parameters(dtype)
    ours = pt.AdamW(a, lr=1e-2, state_dtype=state_dtype, seed=7, max_grad_norm=5.0)
    run(ours, a, 3)
    file = io.BytesIO()
    torch.save({"optimizer": ours.state_dict(), "params": [p.data for p in a]}, file)
    file.seek(0)
    loaded = torch.load(file)
    b = [torch.nn.Parameter(p) for p in loaded["params"]]
    again = pt.AdamW(b, lr=0.5, state_dtype=state_dtype, seed=7, max_grad_norm=5.0)
    again.load_state_dict(loaded["optimizer"])
    pairs = [(b, again)]
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        pairs.append((copied.param_groups[0]["params"], copied))
        assert copied.max_grad_norm == 5.0
    for params, optimizer in pairs + [(a, ours)]:
        run(optimizer, params, 3, 3)
        assert same(params, a) or params is not a
    for params, optimizer in pairs:
        assert same(params, a)
        assert optimizer.state[params[0]]["step"].item() == 6
        assert optimizer.state[params[0]]["exp_avg"].dtype == ours.state[a[0]]["exp_avg"].dtype


@pytest.mark.parametrize("dtype,state_dtype", [(torch.float32, "float32"), (torch.float32, "8bit"),
                                               (torch.bfloat16, "float32")])
@pytest.mark.parametrize("loaded", [False, True])
def test_momentum_that_starts_later(dtype, state_dtype, loaded):
    """torch's first buffer is the gradient, without dampening; it stays while momentum is 0."""
    a, b = parameters(dtype), [torch.nn.Parameter(p.detach().float()) for p in parameters(dtype)]
    options = {"lr": 2.0 ** -6, "dampening": 0.5}
    ours, theirs = pt.SGD(a, state_dtype=state_dtype, **options), torch.optim.SGD(b, **options)
    for seed, momentum in enumerate((0.0, 0.0, 0.875, 0.875, 0.0, 0.875)):
        if loaded:
            saved, ours = ours.state_dict(), pt.SGD(a, state_dtype=state_dtype, lr=1.0)
            ours.load_state_dict(saved)
        ours.param_groups[0]["momentum"] = theirs.param_groups[0]["momentum"] = momentum
        give(a, seed)
        for p, q in zip(a, b):
            q.grad = p.grad.float()
        ours.step()
        theirs.step()
        if state_dtype == "float32" and momentum:
            for p, q in zip(a, b):
                assert torch.allclose(ours.state[p]["momentum_buffer"], theirs.state[q]["momentum_buffer"],
                                      rtol=1e-6, atol=1e-6), seed
    assert distance(a, b) < (5e-6 if dtype is torch.float32 and state_dtype == "float32" else 2e-2)


def test_momentum_from_a_dict_without():
    """A dict of steps without momentum, for torch and for us, into an optimizer with it. Where parameters have
    states, momentum is set after the loading: a dict with momentum that lacks a buffer is damaged. Those of
    torch 1 have states: a momentum_buffer of None."""
    a, b = parameters(), parameters()
    ours, theirs = pt.SGD(a, lr=0.1), torch.optim.SGD(b, lr=0.1)
    run_both(ours, a, theirs, b, 3)
    first, second = ours.state_dict(), theirs.state_dict()
    assert first["state"] and bool(second["state"]) == torch.__version__.startswith("1.")
    with_momentum = {"momentum": 0.9, "dampening": 0.5}
    damaged = [copy.deepcopy(saved) for saved in (first, second) if saved["state"]]
    for saved in damaged:
        saved["param_groups"][0].update(with_momentum)
        with pytest.raises(KeyError, match="no momentum_buffer.*set a momentum that starts now after"):
            pt.SGD(a, lr=1.0).load_state_dict(saved)
    if not second["state"]:  # nothing of torch's is missing
        second["param_groups"][0].update(with_momentum)
    c, d = parameters(), parameters()
    for x, y, saved in (a, b, first), (c, d, second):
        results = [pt.SGD(x, lr=1.0), torch.optim.SGD(y, lr=1.0)]
        for optimizer, given in zip(results, (saved, second)):
            optimizer.load_state_dict(given)
            optimizer.param_groups[0].update(with_momentum)
        run_both(results[0], x, results[1], y, 3, first=3)
        assert distance(x, y) < 5e-6


@needs("torch.optim.Optimizer.register_load_state_dict_pre_hook")
def test_load_hooks():
    a = parameters()
    ours = pt.AdamW(a, lr=1e-2)
    run(ours, a)
    saved = ours.state_dict()
    seen = []

    def before(optimizer, given):
        seen.append(given["state"][0]["step"].item())
        for entry in given["state"].values():
            entry["step"] = entry["step"] + 10

    ours.register_load_state_dict_pre_hook(before)
    ours.register_load_state_dict_post_hook(lambda o: seen.append(o.state[a[0]]["step"].item()))
    ours.load_state_dict(saved)
    assert seen == [1, 11]
    with pytest.raises(ValueError, match="different number of parameter groups"):
        ours.load_state_dict({"state": {0: {"step": torch.zeros(())}}, "param_groups": []})
    assert list(ours._optimizer_load_state_dict_pre_hooks.values()) == [before]  # no loading adds its own


FORMATS_OF_HALVES = [(torch.bfloat16, "float32"), (torch.bfloat16, "remainder"), (torch.bfloat16, "bf16"),
                     (torch.float16, "float32")]


@pytest.mark.parametrize("dtype,state_dtype,source", [
    (dtype, state_dtype, source) for dtype, state_dtype in FORMATS_OF_HALVES
    for source in ("torch", "ours", "master", "remainder")
    if dtype is torch.bfloat16 or source != "remainder"])
def test_model_loaded_last(dtype, state_dtype, source):
    """Whether the optimizer's or the model's dict is loaded first makes no difference."""
    a = parameters(torch.float32 if source == "torch" else dtype)
    trained = (torch.optim.AdamW(a, lr=1e-2) if source == "torch" else
               pt.AdamW(a, lr=1e-2, state_dtype="float32" if source == "ours" else source))
    run(trained, a, 3)
    saved = trained.state_dict(format="torch") if source == "ours" else trained.state_dict()
    results = []
    for model_first in (True, False):
        b = parameters(dtype, seed=2)
        optimizer = pt.AdamW(b, lr=1e-2, state_dtype=state_dtype, seed=5)
        for turn in (0, 1):
            if turn == model_first:
                optimizer.load_state_dict(saved)
            else:
                with torch.no_grad():
                    for p, q in zip(b, a):
                        p.copy_(q)
        run(optimizer, b, 2, 3)
        assert distance(a, b) < 0.1  # two steps, and not the weights of before
        results.append(b)
    assert same(*results)
    if source == state_dtype or (source, state_dtype) == ("master", "float32"):
        run(trained, a, 2, 3)
        assert same(a, results[0])


def test_other_format_loaded():
    """A master becomes a remainder, and comes back."""
    a = parameters(torch.bfloat16)
    master = pt.AdamW(a, lr=1e-3, state_dtype="master")
    run(master, a, 4)
    b = [torch.nn.Parameter(p.detach().clone()) for p in a]
    remainder = pt.AdamW(b, lr=1e-3, state_dtype="remainder")
    c = [torch.nn.Parameter(p.detach().clone()) for p in b]
    back = pt.AdamW(c, lr=1e-3, state_dtype="master")
    for params, optimizer, before in ((b, remainder, master), (c, back, remainder)):
        optimizer.load_state_dict(before.state_dict())
        optimizer.param_groups[0]["lr"] = 0.0
        give(params, 4)
        optimizer.step()  # which makes what is beside the parameters
        assert same(params, a)
    for p, q in zip(a, c):
        if p.numel():
            ties = (master.state[p]["master"].view(torch.int32) & 0xffff) == 0x8000
            kept = master.state[p]["master"] == back.state[q]["master"]
            assert bool((kept | ties).all())
    assert "master" not in master.state_dict(format="torch")["state"][0]
    assert master.state_dict(format="torch")["state"][0]["exp_avg"].dtype == torch.float32


@needs("torch.Tensor.grad_dtype")
def test_gradient_types():
    a = parameters()
    b = parameters()
    ours, exact = pt.AdamW(a, lr=1e-2), pt.AdamW(b, lr=1e-2)
    for seed in range(4):
        give(b, seed)
        for p, q in zip(a, b):
            p.grad, p.grad_dtype = None, torch.bfloat16 if seed > 1 else None
            q.grad = q.grad.bfloat16().float() if seed > 1 else q.grad
            p.grad = q.grad.bfloat16() if seed > 1 else q.grad.clone()
        ours.step()
        exact.step()
    assert same(a, b)


@needs("torch.nn.utils.get_total_norm")  # both are from torch 2.6 on
def test_names():
    """The random bits go by the name, wherever the parameter is."""
    shapes = [(64,), (64,)]
    results = []
    for order in ((0, 1), (1, 0)):
        params = parameters(torch.bfloat16, shapes=shapes)
        named = [(f"layer.{k}", params[k]) for k in order]
        ours = pt.AdamW(named, lr=1e-3, state_dtype="bf16", seed=1)
        run(ours, params, 3)
        results.append([p.detach().clone() for p in params])
    assert same(*results)
    params = parameters(torch.bfloat16, shapes=shapes)
    unnamed = pt.AdamW(params, lr=1e-3, state_dtype="bf16", seed=2)
    run(unnamed, params, 3)
    assert not same(params, results[0])


# ---- what is refused


def test_refused_groups_and_dicts():
    ours = pt.AdamW(parameters(), lr=1e-2)
    with pytest.raises(ValueError, match="amsgrad"):
        ours.add_param_group({"params": parameters(shapes=[(2,)]), "amsgrad": True})
    assert len(ours.param_groups) == 1
    theirs = torch.optim.AdamW(parameters(), amsgrad=True)
    with pytest.raises(ValueError, match="amsgrad"):
        ours.load_state_dict(theirs.state_dict())


# ---- torch.compile


@needs("torch._disable_dynamo")
@pytest.mark.parametrize("how", ["step", "training", "method"])
def test_compiled(how):
    """A compiled function may take steps: they run as they are."""
    model = torch.nn.Linear(5, 3).to(DEVICE)
    x = torch.linspace(-1, 1, 20, device=DEVICE).reshape(4, 5)

    def train(model, optimizer, compiled):
        def step():
            optimizer.step()

        def whole(x):
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        def plain(function):
            return torch.compile(function, backend="eager") if compiled else function

        if how == "training":
            turn = plain(whole)
        else:
            stepped = plain(step if how == "step" else optimizer.step)
            def turn(x):
                model(x).square().sum().backward()
                stepped()
        for k in range(4):
            optimizer.zero_grad(set_to_none=k % 2 == 0)
            turn(x)

    try:
        torch.compile(lambda: None, backend="eager")()
    except RuntimeError as error:
        pytest.skip(f"torch.compile does not run with {sys.executable}: {error}")
    models = [copy.deepcopy(model) for _ in range(2)]
    for one, compiled in zip(models, (True, False)):
        optimizer = pt.AdamW(one.parameters(), lr=1e-2, max_grad_norm=1.0)
        train(one, optimizer, compiled)
        assert [float(s["step"]) for s in optimizer.state.values()] == [4.0, 4.0]
    assert same(models[0].parameters(), models[1].parameters())
    assert not same(models[0].parameters(), model.parameters())

# SPDX-License-Identifier: MIT
"""ptxgen.torch.Optimizer with weights to evaluate with, sums over tensors, outputs and states of one type."""

import pickle

import ptxgen
import ptxgen.torch as pt
import pytest
import torch
from ptxgen import optimizers
from torch_parts import DEVICE, copies, give, needs, parameters, run, same

numpy = pytest.importorskip("numpy")
import rule_parts  # noqa: E402: it needs numpy

SHAPES = [(8, 5), (300,), (), (4500,)]


def free(dtype=torch.float32, rule=optimizers.schedule_free_adamw, **settings):
    params = parameters(dtype, SHAPES)
    return params, pt.Optimizer(params, rule, lr=0.01, **settings)


FORMATS = [(torch.float32, "float32"), (torch.float32, "bf16"), (torch.bfloat16, "master"), (torch.bfloat16, "remainder"),
           (torch.bfloat16, "bf16")]


# ---- weights to evaluate with


@pytest.mark.parametrize("k", range(len(FORMATS)))
@pytest.mark.parametrize("rule", [optimizers.schedule_free_adamw, optimizers.schedule_free_sgd], ids=lambda rule: rule.name)
def test_modes(rule, k):
    """eval() makes x of y and z, train() restores y to the bit, and the steps after it are those without."""
    dtype, state_dtype = FORMATS[k]
    (one, theirs), (other, ours) = free(dtype, rule, state_dtype=state_dtype), free(dtype, rule, state_dtype=state_dtype)
    run(theirs, one, 3)
    run(ours, other, 3)
    ours.eval()
    ours.eval()  # it is in eval mode
    for p, q in zip(one, other):
        states = theirs.state[p]
        own = states["master"].cpu().numpy() if "master" in states else p.detach().float().cpu().numpy()
        if "remainder" in states:
            own = ((p.detach().view(torch.int16).int() << 16) + states["remainder"].int()).view(torch.float32).cpu().numpy()
        x = rule.reference().evaluation(own, {name: states[name].float().cpu().numpy() for name in rule.states}, {"lr": 0.01})
        assert torch.equal(q.detach().cpu(), torch.from_numpy(numpy.asarray(x)).to(dtype))
        assert torch.equal(ours.state[q]["train_weights"], p.detach())
    with pytest.raises(RuntimeError, match=r"step.. in eval mode, .*: call train\(\) first"):
        ours.step()
    with pytest.raises(RuntimeError, match="accumulate.. in eval mode"):
        ours.accumulate()
    ours.train()
    ours.train()
    assert same(one, other) and "train_weights" not in ours.state[other[0]]
    run(theirs, one, 2, 3)
    run(ours, other, 2, 3)
    assert same(one, other)


def test_before_the_first_step():
    params, optimizer = free()
    before = [p.detach().clone() for p in params]
    optimizer.eval()
    assert same(params, before) and not optimizer.param_groups[0]["train_mode"]
    optimizer.train()
    run(optimizer, params)


@pytest.mark.parametrize("mode", [True, False])
def test_checkpoints(mode):
    """A checkpoint has its mode, and the way goes on from it."""
    params, optimizer = free()
    run(optimizer, params, 2)
    if not mode:
        optimizer.eval()
    others = list(copies(optimizer, params))
    if not mode:
        optimizer.train()
    run(optimizer, params, 2, 2)
    for mine, other in others:
        assert other.param_groups[0]["train_mode"] is mode
        if not mode:
            with pytest.raises(RuntimeError, match="step.. in eval mode"):
                other.step()
            other.train()
        run(other, mine, 2, 2)
        assert same(params, mine)


def test_wrong_modes():
    params, optimizer = free()
    run(optimizer, params)
    saved = optimizer.state_dict()
    saved["param_groups"][0]["train_mode"] = False
    with pytest.raises(ValueError, match="parameter 0 of group 0: its group is in eval mode, and there are no train_weights"):
        optimizer.load_state_dict(saved)
    optimizer.eval()
    saved = optimizer.state_dict()
    saved["param_groups"][0]["train_mode"] = True
    with pytest.raises(ValueError, match="train_weights among its states, and its group is in train mode"):
        optimizer.load_state_dict(saved)
    assert not optimizer.param_groups[0]["train_mode"]  # as before the error
    plain = pt.Optimizer(parameters(), optimizers.lamb)
    for name in ("train", "eval"):
        with pytest.raises(ValueError, match=rf"{name}\(\): rule lamb has no evaluation"):
            getattr(plain, name)()
    with pytest.raises(ValueError, match=r"fp8 with rule schedule_free_sgd: eval\(\) would leave the codes"):
        pt.Optimizer(parameters(), optimizers.schedule_free_sgd, fp8=pt.Float8Weights())
    with pytest.raises(ValueError, match="train_mode: 1 is neither True nor False"):
        pt.Optimizer([{"params": parameters(), "train_mode": 1}], optimizers.schedule_free_sgd)


@pytest.mark.parametrize("rule, without, words", [
    (optimizers.schedule_free_sgd, dict(momentum=0.0), "momentum=0.0"),
    (optimizers.schedule_free_adamw, dict(betas=(0.0, 0.9)), "beta1=0.0")], ids=["sgd", "adamw"])
def test_without_momentum(rule, without, words):
    """y is z then, and x is nowhere: steps are those of the reference, and eval() changes nothing."""
    params = parameters(shapes=SHAPES)
    optimizer = pt.Optimizer([{"params": params[:2]}, {"params": params[2:], **without}], rule, lr=0.01)
    known, zeros = params[3].detach().cpu().numpy().copy(), numpy.zeros(4500, numpy.float32)
    states, clock = dict.fromkeys(rule.states, zeros), {}
    for k in range(3):
        run(optimizer, params, first=k)
        known, states, clock = rule.reference()(known, params[3].grad.cpu().numpy(), states, k + 1, {"lr": 0.01, **without}, clock)
    before = [p.detach().clone() for p in params]
    assert numpy.array_equal(before[3].cpu().numpy(), known) and numpy.array_equal(known, states["z"])
    with pytest.raises(ValueError, match=f"rule {rule.name} has no weights to evaluate with at {words}: they would not"):
        optimizer.eval()
    assert same(params, before) and all(group["train_mode"] for group in optimizer.param_groups)
    with pytest.raises(ptxgen.InvalidError, match="it has no weights to evaluate with at these scalars"):
        rule.reference().evaluation(known, states, without)
    run(optimizer, params, first=3)
    optimizer.param_groups[1].update(rule.scalars)
    optimizer.eval()
    assert not same(params, before)


def test_averages_and_modes():
    params, optimizer = free(ema_decay=0.5)
    run(optimizer, params)
    with optimizer.ema_weights():
        with pytest.raises(RuntimeError, match=r"eval\(\) within ema_weights\(\)"):
            optimizer.eval()


@needs("torch.amp.GradScaler")
def test_scaler_schedulers_and_reports():
    """A skipped step leaves the clock; schedulers and reports work in train mode."""
    params, optimizer = free(max_grad_norm=1.0, guards=pt.Guards(limit=1e4), reports=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    scaler = pt.GradScaler(DEVICE, init_scale=8.0)
    for k in range(3):
        give(params, k, scale=8.0)
        scaler.scale(torch.ones((), device=DEVICE))
        if k == 1:
            params[0].grad[0, 0] = float("nan")
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
    state = optimizer.state[params[0]]
    assert float(state["step"]) == 2 and state["clock"].tolist() == [0.01, 0.01 ** 2 + 0.01 ** 2]
    assert optimizer.report() is not None


# ---- sums


def of_lamb(p, g, m, v, t, lr, decay):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    u = m / (1 - 0.9 ** t) / ((v / (1 - 0.999 ** t)).sqrt() + 1e-6) + decay * p
    ratio = p.norm() / u.norm() if p.norm() > 0 and u.norm() > 0 else 1.0
    p.sub_(lr * ratio * u)


def test_lamb():
    """Tensors of several tiles, groups, a rate that changes, against the formula in f64; empty tensors stay."""
    shapes = [(300,), (0,), (9000,), (3, 5)]
    params = parameters(shapes=shapes)
    with torch.no_grad():
        params[3].zero_()  # no norm: the ratio is 1
    exact = [p.detach().double() for p in params]
    kept = [(torch.zeros_like(p), torch.zeros_like(p)) for p in exact]
    optimizer = pt.Optimizer([{"params": params[:2]}, {"params": params[2:], "weight_decay": 0.1}], optimizers.lamb, lr=0.01)
    for t in range(1, 6):
        optimizer.param_groups[0]["lr"] = 0.01 * t
        give(params, t)
        for k, (p, (m, v)) in enumerate(zip(exact, kept)):
            of_lamb(p, params[k].grad.double(), m, v, t, 0.01 * t if k < 2 else 0.01, 0.1 if k >= 2 else 0.0)
        optimizer.step()
    for p, e in zip(params, exact):
        assert torch.allclose(p.detach().double(), e, rtol=0, atol=1e-6)


# ---- outputs and types


@ptxgen.rule(states=dict(fast="signed", half=ptxgen.State("signed", dtype="f16")), outputs=dict(copy="bf16"),
             scalars=dict(lr=0.01))
def typed(p, g, fast, half, lr):
    fast = 0.5 * fast + g
    p = p - lr * (fast + 0.125 * half)
    return p, fast, 0.5 * half + g, p


@pytest.mark.parametrize("state_dtype", ["float32", "bf16", "8bit", "f16"])
def test_typed(state_dtype):
    params = parameters(shapes=SHAPES)
    optimizer = pt.Optimizer(params, typed, state_dtype=state_dtype)
    run(optimizer, params, 2)
    for p in params:
        states = optimizer.state[p]
        assert states["half"].dtype is torch.float16 and states["copy"].dtype is torch.bfloat16
        assert torch.equal(states["copy"], p.detach().bfloat16())
        assert "half_scale" not in states and "half_absmax" not in states
    others = list(copies(optimizer, params))[:2]
    saved = optimizer.state_dict()
    for states in saved["state"].values():
        del states["copy"]  # only written: a dict need not have it
    mine = [torch.nn.Parameter(p.detach().clone()) for p in params]
    other = pt.Optimizer(mine, typed, state_dtype=state_dtype)
    other.load_state_dict(saved)
    run(optimizer, params, 2, 2)
    run(other, mine, 2, 2)
    assert same(params, mine) and torch.equal(optimizer.state[params[0]]["copy"], other.state[mine[0]]["copy"])
    if state_dtype == "float32":
        for mine, other in others:
            run(other, mine, 2, 2)
            assert same(params, mine)
    plain = optimizer.state_dict(format="torch")["state"][0]
    assert plain["half"].dtype is torch.float32 and set(plain) == {"step", "fast", "half", "copy"}


def test_spawn():
    """Another process gets a rule as its operations, with its sums and evaluation."""
    import multiprocessing
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=rule_parts.spawned, args=(there, optimizers.c_adamw))
    process.start()
    name, found = here.recv()
    process.join()
    ones = numpy.ones(3, numpy.float32)
    wanted = optimizers.c_adamw.reference()(ones, ones, {name: ones for name in optimizers.c_adamw.states}, 2)[0]
    assert name == "c_adamw" and found == wanted.tolist()
    again = pickle.loads(pickle.dumps(optimizers.schedule_free_sgd))
    assert again == optimizers.schedule_free_sgd and again.evaluates

# SPDX-License-Identifier: MIT
"""Gradients of micro-batches, summed by ptxgen.torch's optimizers."""

import collections
import contextlib
import gc
import math
import weakref

import ptxgen
import ptxgen.torch as pt
import pytest
import torch
from ptxgen import optimizers
from torch_parts import DEVICE, give, needs, parameters, run, same


def sums_of(optimizer, params):
    found = {id(p): total for p, total, *_ in optimizer._engine()._sums._of.values()}
    return [found[id(p)].reshape(p.shape) for p in params if p.numel()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("last", ["in step", "before"])
def test_a_step_is_that_of_the_sums(dtype, last):
    params, twins = parameters(dtype), parameters()
    optimizer = pt.SGD(params, lr=0.1, max_grad_norm=1.0)
    twin = pt.SGD(twins, lr=0.1, max_grad_norm=1.0)
    for step in range(3):
        expected = None
        for k in range(3):
            give(params, 10 * step + k)
            got = [p.grad.float() for p in params]
            expected = got if expected is None else [a + b for a, b in zip(expected, got)]
            if k < 2 or last == "before":
                optimizer.accumulate()
                assert all(p.grad is None for p in params)
        optimizer.step()
        assert same(sums_of(optimizer, params), [e for e in expected if e.numel()])
        for p, e in zip(twins, expected):
            p.grad = e
        twin.step()
        assert float(optimizer.grad_norm) == float(twin.grad_norm)
        if dtype is torch.float32:
            assert same(params, twins)
        for p in params:
            p.grad = None


def test_sums_follow_other_layouts():
    """Gradients are added element by element, in whatever order parameters have them in memory."""
    p, twin = (torch.nn.Parameter(torch.ones(4, 6, 3, 2, device=DEVICE)) for _ in range(2))
    optimizer, other = pt.SGD([p], lr=1.0), pt.SGD([twin], lr=1.0)
    for turn in range(3):
        for one, of in ((p, optimizer), (twin, other)):
            one.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(turn)).to(DEVICE)
            if turn < 2:
                of.accumulate()
            else:
                of.step()
        if turn == 0:
            p.data = p.data.contiguous(memory_format=torch.channels_last)
    assert torch.equal(p, twin)
    p.grad = torch.ones_like(p)
    optimizer.accumulate()
    p.data, before = torch.ones(9, 5, device=DEVICE), p.data
    p.grad = torch.ones_like(p)
    with pytest.raises(ValueError, match="accumulate\\(\\) has summed gradients of shape \\(4, 6, 3, 2\\): call step\\(\\)"):
        optimizer.step()
    assert bool((p == 1).all())
    p.data, p.grad = before, None
    optimizer.step()
    assert torch.equal(p, twin - 1)


def test_plans_that_move_after_a_capture_keep_no_old_states():
    p = torch.nn.Parameter(torch.ones(64, device=DEVICE))
    optimizer = pt.SGD([p], lr=1.0, momentum=0.5)
    p.grad = torch.ones_like(p)
    optimizer.step()
    with capturing(optimizer):
        optimizer.step()
    for _ in range(4):
        optimizer.state[p]["momentum_buffer"] = optimizer.state[p]["momentum_buffer"].clone()
        optimizer.step()
    assert len(optimizer._engine()._captured) <= 2


def test_parts_without_elements():
    """A rank of several may have empty shards alone, of one group or of all, and calls what the others call."""
    for shapes in (((0, 4), (3, 0)), ((0, 4), (6, 2))):
        params = [torch.nn.Parameter(torch.ones(shape, device=DEVICE)) for shape in shapes]
        optimizer = pt.SGD([{"params": params[:1]}, {"params": params[1:], "agc": None}], lr=1.0, agc=0.1)
        for p in params:
            p.grad = torch.ones_like(p)
        optimizer.accumulate()
        for p in params:
            p.grad = torch.ones_like(p)
        optimizer.step()
        assert all((p == -1).all() for p in params)


@pytest.mark.parametrize("make", [
    lambda params: pt.AdamW(params, lr=1e-2), lambda params: pt.AdamW(params, lr=1e-2, guards=pt.Guards(limit=1e6)),
    lambda params: pt.Optimizer(params, optimizers.schedule_free_adamw, lr=1e-2, max_grad_norm=1.0)])
def test_parts_without_elements_count_as_others(make):
    """Each step that is taken in which they had a gradient: there, or in a micro-batch before."""
    with_elements, without = (torch.nn.Parameter(torch.ones(n, 4, device=DEVICE)) for n in (1, 0))
    alone, other = (torch.nn.Parameter(torch.ones(n, 4, device=DEVICE)) for n in (0, 3))
    pair, optimizer = (with_elements, without), make([with_elements, without, alone, other])
    states = optimizer.state
    taken = 0
    for turn, batches in enumerate([(True,), (True, False), (False,), (False, True, False), (True, True), (True, False),
                                    (False, False), (True, False)]):
        other.grad = torch.ones_like(other)
        bad = turn == 5
        for k, there in enumerate(batches):
            for p in pair if there else ():
                p.grad = torch.full_like(p, math.inf if bad else 1.0)
            if k + 1 < len(batches):
                optimizer.accumulate()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        taken += any(batches) and not bad
        counts = [float(states[p]["step"]) for p in pair]
        assert counts == [taken] * 2 and alone not in states, turn
        if "clock" in states[without]:
            assert torch.equal(states[without]["clock"], states[with_elements]["clock"]), turn
        if turn == 1:  # sums and counts stay where plans change
            for p in pair:
                p.grad = torch.ones_like(p)
            optimizer.accumulate()
            saved = states[without]
            states[without] = {name: one.clone() for name, one in saved.items()} if "clock" not in saved else saved
            optimizer.param_groups[0]["maximize"] = True
            optimizer.step()
            taken += 1


@contextlib.contextmanager
def capturing(optimizer):
    """Calls within it are noted as captured. On the emulator they are launched, too."""
    with pytest.MonkeyPatch.context() as patch:
        for part in optimizer._engine()._parts:
            patch.setattr(part.device, "capturing", lambda: True)
        yield


def replay(optimizer, gradients):
    """A graph's launches: no call of the optimizer."""
    for part in optimizer._engine()._captured:
        part.plan.set_addresses({k: {"gradient": g.data_ptr()} for k, g in enumerate(gradients)}, stream=part.device.stream())
        part.plan.accumulate(part.device.stream())
        part.device.done(part.device.stream())


@pytest.mark.parametrize("lost", ["all", "one", "their dict"])
def test_sums_of_replays_stay_where_states_are_lost(lost):
    """An accumulate() in a graph is replayed after steps, and states are dropped: the next step is that of the sums."""
    params, twins = parameters(), parameters()
    both = [(some, pt.AdamW(some, lr=1e-2, max_grad_norm=1.0)) for some in (params, twins)]
    for some, one in both:
        give(some, 0)
        one.accumulate()
        give(some, 1)
        one.step()
        give(some, 2)
    (_, optimizer), (_, twin) = both
    gradients = [p.grad for p in params]
    with capturing(optimizer):
        optimizer.accumulate()
    for turn in range(2):
        optimizer.step()
        for p, gradient in zip(twins, gradients):
            p.grad = 2 * gradient if turn else gradient
        twin.step()
        assert same(params, twins) and float(optimizer.grad_norm) == float(twin.grad_norm)
        for some, one in both if not turn else ():
            if lost == "all":
                one.state.clear()
            elif lost == "one":
                del one.state[some[1]]
            else:
                one.state = collections.defaultdict(dict)
        for _ in range(2):
            replay(optimizer, gradients)


def test_what_graphs_launch_stays():
    """A graph launches the plan of its capture, where states were replaced, settings changed and others loaded, too."""
    params = parameters()
    optimizer = pt.SGD(params, lr=1.0, momentum=0.5)
    run(optimizer, params)
    give(params, 1)
    with capturing(optimizer):
        optimizer.step()
    plan = weakref.ref(optimizer._engine()._parts[0].plan)
    optimizer.state[params[1]]["momentum_buffer"] = optimizer.state[params[1]]["momentum_buffer"].clone()
    run(optimizer, params)
    assert optimizer._engine()._parts[0].plan is plan()  # with other addresses, of memory that this keeps
    kept = weakref.ref(optimizer._engine()._parts[0])
    optimizer.param_groups[0]["nesterov"] = True  # another
    run(optimizer, params)
    assert optimizer._engine()._parts[0].plan is not plan()
    for _ in range(2):
        optimizer.load_state_dict(optimizer.state_dict())
        run(optimizer, params)
        gc.collect()
    assert plan() is not None and kept() is not None


def test_steps_of_parts_without_elements():
    """Other ranks count a step of what accumulate() alone has seen, so this one does."""
    params = [torch.nn.Parameter(torch.ones(shape, device=DEVICE)) for shape in ((0, 4), (6, 2), (0, 3))]
    fp8 = pt.Float8Weights()
    optimizer = pt.SGD(params, lr=1.0, momentum=0.9, fp8=fp8, guards=pt.Guards(limit=1e3))
    for first, later in ((params, params[1:2]), (params[1:], params[:2]), (params[1:2], params[1:2])):
        for p in first:
            p.grad = torch.ones_like(p)
        optimizer.accumulate()
        for p in later:
            p.grad = torch.ones_like(p)
        optimizer.step()
        for p in params:
            p.grad = None
    assert [float(optimizer.state[p]["step"]) for p in params] == [2, 3, 2]
    params[0].grad, params[1].grad = torch.ones_like(params[0]), torch.full_like(params[1], 1e9)
    optimizer.accumulate()
    optimizer.step()  # is skipped
    assert [float(optimizer.state[p]["step"]) for p in params] == [2, 3, 2]


def test_gradients_that_come_later_and_never():
    params = parameters()
    optimizer = pt.SGD(params, lr=1.0)
    before = [p.detach().clone() for p in params]
    give(params[:2], 0)
    first = [p.grad.clone() for p in params[:2]]
    optimizer.accumulate()
    give(params[1:3], 1)  # another plan goes on with the sums
    later = [p.grad.clone() for p in params[1:3]]
    optimizer.accumulate()
    optimizer.step()
    expected = [before[0] - first[0], before[1] - (first[1] + later[0]), before[2] - later[1], *before[3:]]
    assert same(params, expected)
    give(params, 2)
    optimizer.step()  # without accumulate()
    assert same(params, [e - p.grad for e, p in zip(expected, params)])
    optimizer.zero_grad(set_to_none=True)
    optimizer.state.clear()
    run(optimizer, params[:1], first=3)
    assert list(map(id, optimizer.state)) == [id(params[0])]  # no other has sums any more


def test_infinity_in_a_micro_batch_skips_the_step():
    params = parameters()
    optimizer = pt.AdamW(params, lr=1e-2)
    give(params, 0)
    params[1].grad[7] = math.inf
    optimizer.accumulate()
    give(params, 1)
    before = [p.detach().clone() for p in params]
    optimizer.step()
    assert same(params, before) and float(optimizer.found_inf) == 1
    run(optimizer, params, first=2)
    assert not same(params, before) and float(optimizer.found_inf) == 0


def test_reports_are_of_the_sums():
    params = parameters()
    optimizer = pt.SGD(params, lr=1.0, reports=True)
    for step in range(2):
        give(params, 2 * step)
        params[5].grad[:3000] = 0
        if step:
            params[2].grad = None
        first = [p.grad for p in params]
        optimizer.accumulate()
        give(params, 2 * step + 1)
        params[5].grad[1000:] = 0
        params[5].grad[4321] = math.inf if step else 7
        if step:
            params[2].grad = None
        expected = [None if a is None else a + p.grad for a, p in zip(first, params)]
        optimizer.step()
        report = optimizer.report()
        for k, total in enumerate(expected):
            row = report[str(k)]
            assert int(row["absent"]) == (total is None or not total.numel())
            if total is not None and total.numel():
                assert float(row["norm"]) == pytest.approx(float(total.double().square().sum().sqrt()), rel=1e-12)
                assert float(row["largest"]) == float(total.abs().max())
                assert int(row["zeros"]) == int((total == 0).sum())
        assert int(report["5"]["zeros"]) >= 1999 and int(report["5"]["first_nonfinite"]) == (4321 if step else -1)


def test_gradients_are_let_go_of():
    """As p.grad = None: whoever has one keeps it; others are freed. So they are tensor by tensor."""
    params = parameters()
    optimizer = pt.SGD(params, lr=1.0)
    for turn in range(4):
        give(params, turn)
        kept, gone = params[0].grad, weakref.ref(params[1].grad)
        before = kept.clone()
        if turn == 2:  # not what a look expects
            params[0].grad = params[0].grad.t().contiguous().t()
        optimizer.accumulate()
        assert all(p.grad is None for p in params)
        assert torch.equal(kept, before) and gone() is None
    optimizer.accumulate()  # there are none
    assert int(optimizer._engine()._sums._of[id(params[1])][2][0]) == 4


@pytest.mark.parametrize("lost", ["some states", "all", "their dict"])
def test_what_changes_between_micro_batches(lost):
    """States are looked at by the step, what places sums by each micro-batch."""
    params, twins = parameters(), parameters()
    kinds = {"lr": 1e-2, "max_grad_norm": 1.0}
    optimizer, twin = (pt.AdamW(some[:-1], **kinds) for some in (params, twins))
    both = (params, optimizer), (twins, twin)
    for some, one in both:
        give(some[:-1], 0)
        one.step()
    expected = [None] * len(params)
    for k in range(6):
        give(params[:5] if k < 2 else params, k)
        expected = [b if a is None else a + b for a, b in zip(expected, [p.grad for p in params])]
        optimizer.accumulate()
        for some, one in both:
            if k == 0:
                one.state[some[1]] = {name: 2 * state for name, state in one.state[some[1]].items()}
            elif k == 1:
                one.add_param_group({"params": some[-1:], "weight_decay": 0.5, "maximize": True})
            elif k == 2:
                some[0].data = some[0].data.clone()
                one.param_groups[0]["maximize"] = True
            elif k == 3:  # one for another, and one more, in a group that there is
                some[2], more = parameters(seed=2)[2:4]
                some.append(more)
                one.param_groups[0]["params"][2] = some[2]
                one.param_groups[0]["params"].append(more)
            elif k == 4 and lost == "some states":
                del one.state[some[3]], one.state[some[4]]
                one.state[some[0]].clear()
            elif k == 4:
                one.state.clear() if lost == "all" else setattr(one, "state", collections.defaultdict(dict))
        if k == 3:
            expected[2:3], expected[len(expected):] = [None], [None]
    assert all(p.grad is None for p in params)
    optimizer.step()
    for p, e in zip(twins, expected):
        p.grad = e
    twin.step()
    assert same(params, twins) and float(optimizer.grad_norm) == float(twin.grad_norm)
    for some, one in both:  # the sums are gone
        run(one, some, first=7)
    assert same(params, twins) and float(optimizer.grad_norm) == float(twin.grad_norm)


def test_states_that_are_refused_leave_the_sums():
    params, twins = parameters(), parameters()
    for some, refused in ((params, True), (twins, False)):
        optimizer = pt.SGD(some, lr=1.0, guards=pt.Guards(limit=1e6), fp8=pt.Float8Weights())
        run(optimizer, some)
        give(some, 1)
        optimizer.accumulate()
        if refused:
            with pytest.raises(ValueError, match="what state_dict"):
                optimizer.load_state_dict({**optimizer.state_dict(), "fp8": {"scale": 3}})
        give(some, 2)
        optimizer.step()
    assert same(params, twins)


def test_an_error_of_the_launch():
    params, others = parameters(), parameters()
    optimizer, other = pt.SGD(params, lr=1.0), pt.SGD(others, lr=1.0)
    give(params, 0)
    optimizer.accumulate()
    run(other, others)
    part, = optimizer._engine()._parts
    part._handle = other._engine()._parts[0]._handle  # of a plan without accumulators
    give(params, 1)
    with pytest.raises(ptxgen.InvalidError, match="accumulator"):
        optimizer.accumulate()
    assert all(p.grad is not None for p in params)


# ---- loss scaling

needs_scaler = needs("torch.amp.GradScaler")


@needs_scaler
def test_with_the_grad_scaler():
    """Infinity in any micro-batch halves the scale, and skips the step."""
    params, twins = parameters(), parameters()
    optimizer, twin = (pt.AdamW(p, lr=1e-2, max_grad_norm=1.0) for p in (params, twins))
    scaler, other = (pt.GradScaler(DEVICE, init_scale=2.0 ** 12, growth_interval=2) for _ in range(2))
    for step, bad in enumerate((None, 0, None, 1, 2, None, None)):
        scale = scaler.get_scale()
        sums = None
        for k in range(3):
            scaler.scale(torch.zeros((), device=DEVICE))
            give(params, 10 * step + k, scale=scale)
            if k == bad:
                params[1].grad[7] = math.inf
            got = [p.grad for p in params]
            sums = got if sums is None else [a + b for a, b in zip(sums, got)]
            if k < 2 or step % 2:  # the last ones in the step, or before
                optimizer.accumulate()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        for p, total in zip(twins, sums):
            p.grad = total
        other.scale(torch.zeros((), device=DEVICE))
        other.step(twin)
        other.update()
        assert scaler.get_scale() == other.get_scale() and same(params, twins), step
        assert (scaler.get_scale() < scale) == (bad is not None)


@needs_scaler
def test_grad_scalers_that_see_the_last_gradients_are_refused():
    params = parameters()
    optimizer = pt.AdamW(params, lr=1e-2, max_grad_norm=1.0)
    for cls, unscale, words in ((torch.amp.GradScaler, False, "use ptxgen.torch.GradScaler"),
                                (torch.amp.GradScaler, True, "leave it out"), (pt.GradScaler, True, "leave it out")):
        scaler = cls(DEVICE, init_scale=8.0)
        scaler.scale(torch.zeros((), device=DEVICE))
        give(params, 0)
        optimizer.accumulate()
        give(params, 1)
        if unscale and cls is pt.GradScaler:
            with pytest.raises(ValueError, match=words):
                scaler.unscale_(optimizer)
            optimizer.step()
            continue
        if unscale:
            scaler.unscale_(optimizer)
        before = [p.detach().clone() for p in params]
        with pytest.raises(ValueError, match=words):
            scaler.step(optimizer)
        assert same(params, before)
        optimizer.step()  # without a scaler
        assert not same(params, before)


def test_accumulate_with_obey():
    params = parameters()
    give(params, 0)
    with pytest.raises(ValueError, match="accumulate.. with obey"):
        pt.SGD(params, lr=1.0, obey=pt.Guards(limit=1.0)).accumulate()

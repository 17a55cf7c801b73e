# SPDX-License-Identifier: MIT
"""ptxgen.torch on a GPU: graphs, streams, no waiting, several devices."""

import contextlib

import pytest
import torch
from conftest import ON_EMULATOR
from torch_parts import Model, distance, give, parameters, refill, same

import ptxgen.torch as pt

pytestmark = pytest.mark.skipif(ON_EMULATOR, reason="torch.cuda does not run on the emulator")


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()


def batch(seed):
    return torch.randn(16, 32, generator=torch.Generator().manual_seed(seed)).cuda()


def on_another_stream(work, times=3):
    """Calls of it on a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(times):
            work()
    torch.cuda.current_stream().wait_stream(stream)


@contextlib.contextmanager
def without_waits():
    """Waiting for the device is an error."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def replays(work):
    """What runs a graph of it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


@pytest.mark.parametrize("set_to_none", [True, False])
def test_graph(set_to_none):
    """Forward, backward and step in one graph: the bits of the same work without, and a learning rate
    on the device that replays follow."""
    results = []
    for captured in (False, True):
        made = model()
        rate = torch.tensor(1e-2, device="cuda")
        fp8 = pt.Float8Weights(history=3, transposed=True)
        optimizer = pt.AdamW(made.parameters(), lr=rate, max_grad_norm=1.0, ema_decay=0.9, fp8=fp8)
        x = batch(0)

        def work():
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = made(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        on_another_stream(work)
        run = work
        if captured:
            optimizer.zero_grad(set_to_none=set_to_none)
            run = replays(work)
        for step in range(6):
            x.copy_(batch(step))
            rate.fill_(1e-2 / (step + 1))
            run()
        torch.cuda.synchronize()
        results.append([p.detach().clone() for p in made.parameters()] +
                       [s["ema"].clone() for s in optimizer.state.values()] +
                       [one.reshape(-1).view(torch.uint8).clone() for p in fp8.parameters for one in fp8[p] if one is not None])
        assert {float(s["step"]) for s in optimizer.state.values()} == {9.0}
        if captured:  # steps outside go on, and replays after them
            norm = optimizer.grad_norm.clone()
            for p in made.parameters():
                p.grad = torch.ones_like(p)
            optimizer.step()
            run()
            torch.cuda.synchronize()
            assert {float(s["step"]) for s in optimizer.state.values()} == {11.0}
            assert norm.item() > 0
    assert same(*results)


def test_micro_batches_in_a_graph():
    """Three backward passes and a step in one graph: the bits of the same work without."""
    results = []
    for captured in (False, True):
        made = model()
        optimizer = pt.AdamW(made.parameters(), lr=1e-2, max_grad_norm=1.0)
        xs = [batch(k) for k in range(3)]

        def work():
            for k, x in enumerate(xs):
                (made(x).square().mean() / len(xs)).backward()
                if k + 1 < len(xs):
                    optimizer.accumulate()
            optimizer.step()
            optimizer.zero_grad()

        on_another_stream(work)
        run = replays(work) if captured else work
        for step in range(5):
            for k, x in enumerate(xs):
                x.copy_(batch(10 * step + k))
            run()
        torch.cuda.synchronize()
        assert {float(s["step"]) for s in optimizer.state.values()} == {8.0}
        results.append([p.detach().clone() for p in made.parameters()])
    assert same(*results)


def test_sums_of_a_graph():
    """Replays of an accumulate(), and then a step outside, where states were dropped meanwhile, too. In a graph of its
    own, a step counts parts without elements as others, and only where there were sums."""
    shapes = [(8, 5), (300,), (0, 4), (5000,)]
    both = [(some, pt.AdamW(some, lr=1e-2, max_grad_norm=1.0)) for some in (parameters(shapes=shapes), parameters(shapes=shapes))]
    for some, one in both:
        for seed in range(2):
            give(some, seed)
            one.step() if seed else one.accumulate()
    (params, optimizer), (twins, twin) = both
    static = [torch.zeros_like(p) for p in params]

    def work():
        for p, gradient in zip(params, static):
            p.grad = gradient
        optimizer.accumulate()

    run = replays(work)
    for p in params:
        p.grad = None
    for turn in range(4):
        give(twins, 10 + turn)
        for gradient, q in zip(static, twins):
            gradient.copy_(q.grad)
        run()
        if turn == 1:
            optimizer.state.clear(), twin.state.clear()
        elif turn == 2:
            del optimizer.state[params[1]], twin.state[twins[1]]
        optimizer.step()
        twin.step()
        assert same(params, twins) and float(optimizer.grad_norm) == float(twin.grad_norm)
        assert [float(optimizer.state[p]["step"]) for p in params] == [float(twin.state[q]["step"]) for q in twins]
    step = replays(optimizer.step)
    for k in range(4):
        if k < 3:
            run()
        step()
    torch.cuda.synchronize()
    assert [float(optimizer.state[p]["step"]) for p in params] == [6.0, 5.0, 6.0, 6.0]


@pytest.mark.parametrize("make", [pt.AdamW, pt.Muon])
def test_factors_in_a_graph(make):
    """Replays take the factors that the caller has written since."""
    results = []
    for captured in (False, True):
        params = parameters(shapes=[(24, 10), (16, 40)])
        factors = torch.ones(4, device="cuda")
        optimizer = make(params, lr=0.05, qk_clip=[pt.QKClip(params[0], factors), pt.QKClip(params[1], factors, columns=True)])
        give(params, 1)
        optimizer.step()
        run = replays(optimizer.step) if captured else optimizer.step
        for step in range(3):
            give(params, step, keep=True)
            factors.copy_(torch.tensor([0.5, 1.0, 0.9 + step, 0.7]))
            run()
        torch.cuda.synchronize()
        results.append([p.detach().clone() for p in params])
    assert same(*results) and not same(results[0], parameters(shapes=[(24, 10), (16, 40)]))


def test_clip_in_a_graph():
    params, other = parameters(), parameters()
    for p, q in zip(params, other):
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    pt.clip_grad_norm_(params, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        norm = pt.clip_grad_norm_(params, 1.0)
    for seed in range(3):
        give(params, seed, scale=3.0, keep=True)
        give(other, seed, scale=3.0, keep=True)
        graph.replay()
        expected = torch.nn.utils.clip_grad_norm_(other, 1.0)
        assert torch.allclose(norm, expected, rtol=1e-6)
        assert distance([p.grad for p in params], [p.grad for p in other]) < 1e-6


def test_clips_in_a_graph_and_beside_it():
    """The first call of these shapes is captured. Replays on one stream and calls on another, for models of
    equal shapes, share nothing; nor do two graphs."""
    models = [Model(k) for k in range(3)]
    graphs, norms, streams = [], [], [torch.cuda.Stream() for _ in models]
    for model in models[:2]:
        model.give()
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            norms.append(pt.clip_grad_norm_(model.params, 1.0))
    models[2].give()
    torch.cuda.synchronize()
    for turn in range(50):
        for k, (model, stream) in enumerate(zip(models, streams)):
            with torch.cuda.stream(stream):
                refill(model)
                if k < 2:
                    graphs[k].replay()
                else:
                    norm = pt.clip_grad_norm_(model.params, 1.0)
        torch.cuda.synchronize()
        for model, found in zip(models, [*norms, norm]):
            assert model.wrong(found) is None, turn


def test_quantizers_in_a_graph():
    """Learned and observed quantizers, forward and backward, without a wait: the bits of the same work without a graph."""
    from ptxgen.torch import quantization
    results = []
    for captured in (False, True):
        made, x = model(), batch(0)
        quantization.quantize_model(
            made, weight=lambda w: quantization.LearnedQuantizer.of(w, q_min=-8, q_max=7, axis=-1, group=32),
            activation=lambda: quantization.FakeQuantize(-128, 127))
        cast = quantization.DelayedScaling(history=2, device="cuda")

        def work():
            for p in made.parameters():
                p.grad = None
            cast(made(x)).square().mean().backward()
            with torch.no_grad():
                for p in made.parameters():
                    p -= 0.01 * p.grad
            cast.update()

        def unwaited():
            with without_waits():
                work()

        on_another_stream(work, 1)
        on_another_stream(unwaited, 1)
        run = replays(work) if captured else work
        for step in range(4):
            x.copy_(batch(step))
            run()
        torch.cuda.synchronize()
        results.append([value.clone() for module in (made, cast) for value in module.state_dict().values()])
    assert all(map(torch.equal, *results))


def test_two_streams():
    """600 calls of one thread, of models of equal shapes on two streams, none of which is waited for."""
    streams, wrong = [torch.cuda.Stream() for _ in range(2)], []
    models = [[Model(10 * k + m, [(1000, 1000), (300,)]) for m in range(3)] for k in range(2)]
    torch.cuda.synchronize()
    for turn in range(100):
        for m in range(3):
            for stream, some in zip(streams, models):
                with torch.cuda.stream(stream):
                    model = some[m]
                    model.give()
                    norm = pt.clip_grad_norm_(model.params, 1.0)
                    far = [(p.grad - g).abs().max() for p, g in zip(model.params, model.clipped)]
                    wrong.append((norm / model.norm - 1).abs() + sum(far))
    torch.cuda.synchronize()
    assert len(wrong) == 600 and max(map(float, wrong)) < 1e-5


def test_steps_in_a_graph_and_beside_it():
    """Steps and replays of three steps in any order, with gradients of their own, of 600 parameters: setters that
    overlap, and that a graph has once."""
    ours, theirs = ([*parameters(), *parameters(shapes=[(16,)] * 600)] for _ in range(2))
    inside = (0, 0, 1)
    a, b = (pt.AdamW(params, lr=1e-2, max_grad_norm=1.0) for params in (ours, theirs))
    memories = [[torch.full_like(p, k + 1.0) for p in ours] for k in range(2)]

    def step(optimizer, params, k):
        for p, g in zip(params, memories[k]):
            p.grad = g
        optimizer.step()

    step(a, ours, 0)
    step(b, theirs, 0)
    replay = replays(lambda: [step(a, ours, k) for k in inside])
    for turn, k in enumerate([1, 0, 1, 1, 0, 0, 1]):
        replay() if k == 0 else step(a, ours, k)
        for one in inside if k == 0 else (k,):
            step(b, theirs, one)
        assert same(ours, theirs), turn


def test_capture_before_a_step():
    params = parameters()
    give(params, 0)
    optimizer = pt.AdamW(params, lr=1e-2)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="before the capture"):
        with torch.cuda.graph(graph):
            optimizer.step()
    optimizer.step()


def test_nothing_waits():
    params = parameters()
    optimizer = pt.AdamW(params, lr=1e-2, max_grad_norm=1.0)
    scaler = pt.GradScaler("cuda")
    scaler.scale(torch.zeros((), device="cuda"))
    give(params, 0)
    scaler.step(optimizer)
    scaler.update()
    pt.clip_grad_norm_(params, 1.0)
    with without_waits():
        for p in params:
            p.grad = p.grad.clone()
        pt.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.step()


@pytest.mark.parametrize("options", [
    lambda: {"fp8": pt.Float8Weights(transposed=True)}, lambda: {"fp8": pt.Float8Weights(blocks="128x128", transposed=True)},
    lambda: {"agc": 0.1, "fp8": pt.Float8Weights(copies=False)}])
def test_nothing_waits_for_the_tail(options):
    """Guards with a loss, averages, reports, copies in float8 and micro-batches."""
    params, guards = parameters(), pt.Guards(limit=1e3, history=8, losses=True, zclip=2)
    optimizer = pt.AdamW(params, lr=1e-2, max_grad_norm=1.0, guards=guards, ema_decay=0.5, reports=True, **options())
    gradients, loss = [torch.ones_like(p) for p in params], torch.ones((), device="cuda")

    def step():
        for last in (False, True):
            for p, g in zip(params, gradients):
                p.grad = g.clone()
            if not last:
                optimizer.accumulate()
        guards.latest_loss = loss + 1
        optimizer.step()
        return optimizer.report().change_norm, guards.skipped, guards.counts
    step()
    with without_waits():
        change, skipped, counts = step()
    assert float(skipped) == 0 and counts.tolist()[:2] == [2, 0] and bool(change.sum() > 0)


def test_streams():
    """Steps on other streams than the one that made the plan."""
    a, b = parameters(), parameters()
    ours, theirs = pt.AdamW(a, lr=1e-2, max_grad_norm=1.0), torch.optim.AdamW(b, lr=1e-2)
    for seed in range(4):
        give(a, seed)
        give(b, seed)
        on_another_stream(ours.step, 1)
        torch.nn.utils.clip_grad_norm_(b, 1.0)
        theirs.step()
    assert distance(a, b) < 5e-6


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer GPUs than ranks: 2 wanted")
def test_two_devices():
    """One norm over both."""
    a, b = ([torch.nn.Parameter(p.detach().to(f"cuda:{k % 2}")) for k, p in enumerate(parameters())]
            for _ in range(2))
    ours, theirs = pt.AdamW(a, lr=1e-2, max_grad_norm=2.0), torch.optim.AdamW(b, lr=1e-2)
    for seed in range(5):
        for params in (a, b):
            give(params, seed)
        torch.nn.utils.clip_grad_norm_(b, 2.0)
        ours.step()
        theirs.step()
    assert distance([p.cpu() for p in a], [p.cpu() for p in b]) < 5e-6
    for params in (a, b):
        for k, p in enumerate(params):
            p.grad = torch.full_like(p, k + 1.0)
    norm, expected = pt.clip_grad_norm_(a, 1.0), torch.nn.utils.clip_grad_norm_(b, 1.0)
    assert norm.device == expected.device and torch.allclose(norm, expected, rtol=1e-6)
    assert distance([p.grad.cpu() for p in a], [p.grad.cpu() for p in b]) < 1e-6
    rate = torch.tensor(1e-2, device="cuda:0")
    ours.param_groups[0]["lr"] = rate
    ours.step()
    theirs.step()
    assert distance([p.cpu() for p in a], [p.cpu() for p in b]) < 5e-6

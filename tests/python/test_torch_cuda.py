# SPDX-License-Identifier: MIT
"""ptxgen.torch on a GPU: graphs, streams, no waiting, several devices."""

import pytest
import torch
from conftest import ON_EMULATOR
from torch_parts import distance, give, parameters, same

import ptxgen.torch as pt

pytestmark = pytest.mark.skipif(ON_EMULATOR, reason="no GPU")


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()


def batch(seed):
    return torch.randn(16, 32, generator=torch.Generator().manual_seed(seed)).cuda()


@pytest.mark.parametrize("set_to_none", [True, False])
def test_graph(set_to_none):
    """Forward, backward and step in one graph: the bits of the same work without, and a learning rate
    on the device that replays follow."""
    results = []
    for captured in (False, True):
        made = model()
        rate = torch.tensor(1e-2, device="cuda")
        optimizer = pt.AdamW(made.parameters(), lr=rate, max_grad_norm=1.0)
        x = batch(0)

        def work():
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = made(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(stream)
        run = work
        if captured:
            graph = torch.cuda.CUDAGraph()
            optimizer.zero_grad(set_to_none=set_to_none)
            with torch.cuda.graph(graph):
                work()
            run = graph.replay
        for step in range(6):
            x.copy_(batch(step))
            rate.fill_(1e-2 / (step + 1))
            run()
        torch.cuda.synchronize()
        results.append([p.detach().clone() for p in made.parameters()])
        assert {float(s["step"]) for s in optimizer.state.values()} == {9.0}
        if captured:  # steps outside go on, and replays after them
            norm = optimizer.grad_norm.clone()
            for p in made.parameters():
                p.grad = torch.ones_like(p)
            optimizer.step()
            graph.replay()
            torch.cuda.synchronize()
            assert {float(s["step"]) for s in optimizer.state.values()} == {11.0}
            assert norm.item() > 0
    assert same(*results)


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
    torch.cuda.set_sync_debug_mode("error")
    try:
        for p in params:
            p.grad = p.grad.clone()
        pt.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_streams():
    """Steps on other streams than the one that made the plan."""
    a, b = parameters(), parameters()
    ours, theirs = pt.AdamW(a, lr=1e-2, max_grad_norm=1.0), torch.optim.AdamW(b, lr=1e-2)
    for seed in range(4):
        give(a, seed)
        give(b, seed)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            ours.step()
        torch.cuda.current_stream().wait_stream(stream)
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

# SPDX-License-Identifier: MIT
"""Threads, streams and graphs that use ptxgen.torch at the same time: none may have the plan of another,
because a plan's addresses, sums and records are one memory."""

import contextlib
import sys
import threading

import pytest
import torch
from conftest import ON_EMULATOR
from torch_parts import DEVICE, EQUAL_SHAPES as SHAPES, Model, parameters, refill

import ptxgen.torch as pt
from ptxgen._library import c
from ptxgen.torch import _device, _shortcuts, clip


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in ("_sets", "_watches", "_kept"):
        monkeypatch.setattr(clip, name, [])


def in_threads(work, count=3):
    """Runs work(k) in threads at the same time, which take turns often. Returns their results."""
    start, results = threading.Barrier(count), [None] * count

    def run(k):
        start.wait()
        try:
            results[k] = work(k)
        except BaseException as error:
            results[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return results


@pytest.mark.parametrize("call", ["clip_grad_norm_", "get_total_norm", "clip_grads_with_norm_"])
def test_clip(call):
    """600 of 600 calls in three threads, of models whose shapes are those of a plan that is there."""
    if not hasattr(torch.nn.utils, call):
        pytest.skip(f"no torch.nn.utils.{call} for torch {torch.__version__}")
    models = [Model(k) for k in range(3)]

    def once(model):
        if call == "clip_grad_norm_":
            return model.clip()
        model.give()
        norm = torch.tensor(model.norm, device=DEVICE)
        if call == "get_total_norm":
            norm = pt.get_total_norm([p.grad for p in model.params])
            for p, g in zip(model.params, model.clipped):
                p.grad = g
        else:
            pt.clip_grads_with_norm_(model.params, 1.0, norm)
        return model.wrong(norm)

    assert [once(model) for model in models] == [None] * 3
    turns = 200 if call == "clip_grad_norm_" else 30
    assert in_threads(lambda k: [once(models[k]) for _ in range(turns)]) == [[None] * turns] * 3
    assert len(clip._sets) <= 3 and not clip._kept


def test_optimizers():
    """Three optimizers in threads: the bits of one after the other."""
    def train(k):
        params = parameters(torch.bfloat16, shapes=SHAPES, seed=k)
        optimizer = pt.AdamW(params, lr=1e-2, max_grad_norm=1.0, state_dtype="8bit")
        for turn in range(20):
            for p, g in zip(params, parameters(torch.bfloat16, shapes=SHAPES, seed=100 * k + turn)):
                p.grad = g.detach()
            if turn == 10:
                saved = optimizer.state_dict()
                optimizer = pt.AdamW(params, lr=1e-2, max_grad_norm=1.0, state_dtype="8bit")
                optimizer.load_state_dict(saved)
            optimizer.step()
        return [p.detach().tolist() for p in params]

    expected = [train(k) for k in range(3)]
    assert in_threads(train) == expected


# ---- streams: on the emulator, of this package, in place of torch's; test_torch_cuda.py has torch's


class Calls:
    """What plans and events were put on which stream, in order."""

    def __init__(self, monkeypatch):
        self.made = []
        for name in ("ptx_clip_plan_set_data", "ptx_clip_plan_set_max_norm", "ptx_clip_plan_run",
                     "ptx_event_record", "ptx_stream_wait_event"):
            monkeypatch.setattr(c, name, self.noting(name, getattr(c, name)))

    def noting(self, name, function):
        def call(*arguments):
            self.made.append((name, *arguments))
            return function(*arguments)
        return call

    def unordered(self):
        """The uses of a plan that do not come after those of another stream."""
        last, marks, seen, found = {}, {}, {}, []
        for n, (name, first, *rest) in enumerate(self.made):
            if name == "ptx_event_record":
                marks[rest[0]] = n, rest[1]  # of the event: when, and on which stream
            elif name == "ptx_stream_wait_event":
                when, marked = marks[rest[1]]
                seen[rest[0], marked] = when
            else:
                before, stream = last.get(first, (None, rest[-1]))
                if stream != rest[-1] and seen.get((rest[-1], stream), -1) < before:
                    found.append(n)
                last[first] = n, rest[-1]
        return found


@pytest.fixture
def current(monkeypatch):
    """The stream of later calls, as a list of one, and whether it is being captured."""
    if not ON_EMULATOR:
        pytest.skip("there is a GPU, whose streams test_torch_cuda.py has")
    on = {"stream": 0, "capturing": False}
    host = _device.Host
    tensor = host.tensor
    monkeypatch.setattr(host, "stream", lambda self: on["stream"])
    monkeypatch.setattr(host, "capturing", lambda self: on["capturing"])
    monkeypatch.setattr(host, "done", lambda self, stream: None)
    monkeypatch.setattr(host, "tensor", lambda self, view: torch.zeros(view.count) if on["capturing"]
                        else tensor(self, view))
    return on


def test_two_streams(current, gpu, monkeypatch):
    """One thread, two streams, models of equal shapes: a plan each."""
    calls = Calls(monkeypatch)
    models, streams = [Model(k) for k in range(3)], [gpu.stream(), gpu.stream()]
    for turn in range(60):
        current["stream"] = [streams[0].ptr, streams[1].ptr, 0][turn % 3]
        assert models[turn % 3 if turn < 30 else turn % 2].clip() is None
    assert not calls.unordered() and len(clip._sets) == 3


def test_many_streams(current, gpu, monkeypatch):
    """No more plans than documented, whatever streams there are: one that moves to another stream waits
    there. Streams may be gone by then."""
    calls = Calls(monkeypatch)
    models = [Model(k) for k in range(2)]
    current["stream"] = 0
    assert models[0].clip() is None
    free, streams = [], [gpu.stream() for _ in range(3 * clip._MOST_SETS)]
    for stream in streams:
        current["stream"] = stream.ptr
        for model in models:
            assert model.clip() is None
        stream.close()
        free.append(gpu.memory()[0])
    assert not calls.unordered() and len(clip._sets) == clip._MOST_SETS and not clip._kept
    assert len(set(free[clip._MOST_SETS:])) == 1


def test_dropped_sets_are_freed(gpu):
    """Device memory has a bound, too, while parameters of all the sets live."""
    free, kept = [], []
    for k in range(2 * clip._MOST_SETS + 4):
        p = torch.nn.Parameter(torch.zeros(8 + k, device=DEVICE))
        p.grad = torch.ones_like(p)
        pt.clip_grad_norm_([p], 1.0)
        kept.append(p)
        free.append(gpu.memory()[0])
    assert len(clip._sets) == clip._MOST_SETS
    assert not ON_EMULATOR or len(set(free[clip._MOST_SETS:])) == 1


# ---- graphs


@contextlib.contextmanager
def captured(current, gpu, stream):
    with gpu.capture(stream) as graph:
        current.update(stream=stream.ptr, capturing=True)
        try:
            yield graph
        finally:
            current.update(stream=0, capturing=False)


def test_clip_in_a_graph(current, gpu, stream):
    """A graph has its plan alone, for good: calls between replays have others, in the same places."""
    one, other = Model(0), Model(1)
    assert other.clip() is None
    one.give()
    with captured(current, gpu, stream) as graph:
        pt.clip_grad_norm_(one.params, 1.0)
    for turn in range(3 * clip._MOST_SETS):
        refill(one)
        graph.launch()
        gpu.synchronize()
        assert one.wrong(one.norm) is None, turn
        refill(other)
        assert other.wrong(pt.clip_grad_norm_(other.params, 1.0)) is None, turn
        if turn >= clip._MOST_SETS:  # sets of other shapes come and go
            p = torch.nn.Parameter(torch.zeros(turn, device=DEVICE))
            p.grad = torch.ones_like(p)
            pt.clip_grad_norm_([p], 1.0)
    assert len(clip._kept) == 1


@pytest.mark.parametrize("what", ["gradients", "lr", "max_grad_norm", "scale"])
def test_a_step_in_a_graph(what, current, gpu, stream):
    """Steps and replays in any order: neither has the other's addresses or scalars."""
    ours, theirs = (parameters(shapes=SHAPES) for _ in range(2))
    a, b = pt.AdamW(ours, lr=1e-2, max_grad_norm=1.0), pt.AdamW(theirs, lr=1e-2, max_grad_norm=1.0)
    memories = [[torch.full_like(p, k + 1.0) for p in ours] for k in range(2)]

    def prepare(optimizer, params, k):
        for p, g in zip(params, memories[k if what == "gradients" else 0]):
            p.grad = g
        optimizer.grad_scale = torch.tensor(8.0) if what == "scale" and k else None
        if what == "lr":
            optimizer.param_groups[0]["lr"] = (1e-2, 1e-1)[k]
        elif what == "max_grad_norm":
            optimizer.max_grad_norm = (1.0, 1e-3)[k]

    for optimizer, params in ((a, ours), (b, theirs)):
        prepare(optimizer, params, 0)
        optimizer.step()
    with captured(current, gpu, stream) as graph:
        a.step()
    for turn, k in enumerate([1, 0, 1, 0, 0, 1, 1, 0]):
        if k == 0 and turn % 2 == 1:
            graph.launch()
        else:
            prepare(a, ours, k)
            a.step()
        gpu.synchronize()
        prepare(b, theirs, k)
        b.step()
        assert all(map(torch.equal, ours, theirs)), turn


def test_micro_batches_in_graphs(current, gpu, stream):
    """accumulate() and step() in graphs of their own, with calls between replays: the bits of calls alone."""
    ours, theirs = (parameters(shapes=SHAPES) for _ in range(2))
    a, b = (pt.AdamW(p, lr=1e-2, max_grad_norm=1.0) for p in (ours, theirs))
    memory = [torch.zeros_like(p) for p in ours]

    def take(optimizer, params, what):
        for p, g in zip(params, memory):
            p.grad = g
        getattr(optimizer, what)()

    graphs = {}
    for what in ("accumulate", "step"):
        for optimizer, params in ((a, ours), (b, theirs)):
            take(optimizer, params, what)
        gpu.synchronize()
    for what in ("accumulate", "step"):
        with captured(current, gpu, stream) as graphs[what]:
            take(a, ours, what)
    for turn, what in enumerate(["accumulate", "accumulate", "step"] * 3 + ["step", "accumulate", "step"]):
        for k, g in enumerate(memory):
            g.copy_(torch.randn(g.shape, generator=torch.Generator().manual_seed(100 * turn + k)))
        graphs[what].launch() if turn % 4 else take(a, ours, what)
        gpu.synchronize()
        take(b, theirs, what)
        gpu.synchronize()
        assert all(map(torch.equal, ours, theirs)), turn
    assert {float(s["step"]) for s in a.state.values()} == {6.0}


# ---- places


def unplanned(gradients):
    assert clip._set_of(gradients, 2.0) is None
    assert clip._set_of(gradients, 2.0, with_sums=True) is None


def to_meta(params):
    if not hasattr(torch.utils, "swap_tensors"):
        pytest.skip(f"no torch.utils.swap_tensors for torch {torch.__version__}")
    for p in params:
        other = torch.nn.Parameter(p.detach().to("meta"))
        other.grad = torch.ones_like(other)
        torch.utils.swap_tensors(p, other)


@pytest.mark.parametrize("other", [
    lambda g: g.to("meta"), lambda g: g.to_sparse(), lambda g: g.to_sparse_csr(), lambda g: g.to_mkldnn(),
    lambda g: g.double(), lambda g: g.t(), lambda g: torch.quantize_per_tensor(g, 0.1, 0, torch.qint8),
], ids=["meta", "sparse", "sparse rows", "mkldnn", "f64", "strided", "quantized"])
def test_what_has_a_plans_shapes_alone(other):
    """A plan of gradients of these shapes is there; what is elsewhere or laid out otherwise has none."""
    gradients = [torch.ones(4, 6, device=DEVICE), torch.ones(6, 4, device=DEVICE)]
    for norm in (pt.get_total_norm(gradients), pt.get_total_norm(gradients)):
        assert abs(float(norm) - 48 ** 0.5) < 1e-6
    try:
        changed = other(gradients[0])
    except (NotImplementedError, RuntimeError) as error:
        if ON_EMULATOR:
            raise
        pytest.skip(f"there is a GPU, without such tensors: {str(error).splitlines()[0]}")
    unplanned([changed, gradients[1]])
    unplanned([gradients[0], changed])
    assert abs(float(pt.get_total_norm(gradients)) - 48 ** 0.5) < 1e-6


def test_gradients_without_memory():
    """Of meta tensors, and of those whose storage was freed, at a plan's shapes."""
    params = parameters(shapes=SHAPES)
    for turn in range(3):
        for p in params:
            p.grad = torch.ones_like(p)
        pt.clip_grad_norm_(params, 1.0)
    grads = [p.grad for p in params]
    norm = pt.get_total_norm(grads)
    gone = torch.ones_like(grads[0])
    getattr(gone, "untyped_storage", gone.storage)().resize_(0)
    unplanned([gone, *grads[1:]])
    params[0].grad.data = gone.data  # as FSDP frees them
    assert clip._watched(params, _shortcuts.identities.way(params), None) == (None, None)
    to_meta(params)  # the same objects
    assert pt.clip_grad_norm_(params, 1.0).device.type == "meta"
    unplanned([p.grad for p in params])
    assert float(pt.get_total_norm([torch.ones_like(g) for g in grads])) > 0 and float(norm) > 0


@pytest.mark.parametrize("change,message", [
    ("meta parameters", "parameter 0 is on meta"),
    ("freed gradient", "parameter 1 has a gradient without memory"),
    ("freed parameter", "parameter 1 has no memory"),
])
@pytest.mark.parametrize("native", [True, False])
def test_steps_of_what_is_elsewhere(change, message, native, monkeypatch):
    if not native:
        monkeypatch.setattr(_shortcuts._functions, "way", _shortcuts._functions.plain)
    params = parameters(shapes=SHAPES)
    optimizer = pt.SGD(params, lr=1.0)
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    p, last = params[1], params[2].detach().clone()
    if change == "meta parameters":
        to_meta(params)
    else:
        gone = torch.ones_like(p).detach()
        getattr(gone, "untyped_storage", gone.storage)().resize_(0)
        if change == "freed gradient":
            p.grad.data = gone
        else:
            p.data = gone
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            optimizer.step()
    assert change == "meta parameters" or torch.equal(params[2], last)


@pytest.mark.parametrize("native", [True, False])
def test_a_parameter_of_another_type_in_place(native, monkeypatch):
    if not native:
        monkeypatch.setattr(_shortcuts._functions, "way", _shortcuts._functions.plain)
    p = torch.nn.Parameter(torch.full((4,), 1.0, dtype=torch.bfloat16, device=DEVICE))
    optimizer = pt.SGD([p], lr=2.0 ** -9)
    p.grad = torch.ones_like(p)
    optimizer.step()
    with torch.no_grad():
        p.fill_(1.0)
    p.data = p.data.view(torch.float16)  # the same bits are 1.875; the gradient stays as it is
    optimizer.step()
    assert p.tolist() == [1.875 - 2.0 ** -9] * 4

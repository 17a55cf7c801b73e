# SPDX-License-Identifier: MIT
"""Short cuts through torch's internals beside the plain ways, and the largest of them: how ptxgen.torch
finds tensors, with torch's functions in one call, or tensor by tensor. Both must notice the same.
test_torch_dtensors.py has the short cuts of DTensors."""

import contextlib
import ctypes
import math
import sys
import types
import weakref
from array import array

import pytest
import torch
from conftest import ON_EMULATOR
from torch_parts import DEVICE, all_plain, beside_plain, distance, give, parameters, run, same

import ptxgen.torch as pt
from ptxgen.torch import _shortcuts, clip

VERSIONS = hasattr(torch.autograd.graph, "increment_version")
SHAPES = [(8, 8), (300,), (1,), (), (0, 3), (4, 6, 2, 2)]


def there():
    """Whether this torch has the functions."""
    one = torch.zeros(1, device=DEVICE)
    return _shortcuts.watch([one], one.device, [torch.float32], [0]) is not None


@pytest.fixture(params=["one call", "one by one"])
def native(request, monkeypatch):
    if request.param == "one by one":
        monkeypatch.setattr(_shortcuts._functions, "way", _shortcuts._functions.plain)
    elif not there():
        pytest.skip(f"no functions to look at tensors in torch {torch.__version__}")
    return request.param == "one call"


def watched(optimizer):
    return [part.watch is not None for part in optimizer._engine()._parts]


def pair():
    params, other = parameters(shapes=SHAPES), parameters(shapes=SHAPES)
    for p in (params[5], other[5]):
        p.data = p.data.to(memory_format=torch.channels_last)
    return params, other


# Each changes the parameters and gradients of one list, as far as the step goes.


def keep(params):
    pass


def replace(params):
    for p in params:
        p.grad = p.grad.clone()


def replace_one(params):
    params[1].grad = params[1].grad.clone()


def replace_data_of_gradients(params):
    for p in params:
        p.grad.data = p.grad.data * 2


def replace_data_of_parameters(params):
    for p in params:
        p.data = p.data.clone()


def leave_out(params):
    params[1].grad = params[4].grad = None


def leave_all_out(params):
    for p in params:
        p.grad = None


def transpose(params):
    params[0].grad = params[0].grad.t()


def transpose_in_place(params):
    params[0].grad.t_()


def lay_out(params):
    params[5].grad = params[5].grad.contiguous()


def odd_strides(params):
    params[2].grad = params[2].grad.as_strided((1,), (77,))


def expand(params):
    params[1].grad = params[1].grad[:1].expand(300)


def other_memory(params):
    params[1].data = torch.cat([params[1].data, params[1].data])[:300]


def turn(params):
    """The same memory, whose elements are others of the parameter."""
    for p in params[:1] + params[5:]:
        p.data, p.grad.data = p.data.transpose(-1, -2), p.grad.data.transpose(-1, -2)


def swap(params):
    """Two parameters exchange what they are: their objects stay."""
    if not hasattr(torch.utils, "swap_tensors"):
        return
    other = torch.nn.Parameter(params[1].detach().clone())
    other.grad = params[1].grad * 3
    torch.utils.swap_tensors(params[1], other)


MUTATIONS = [keep, replace, replace_one, replace_data_of_gradients, replace_data_of_parameters, leave_out,
             leave_all_out, transpose, transpose_in_place, lay_out, odd_strides, expand,
             other_memory, turn, swap]


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda f: f.__name__)
def test_against_torch(native, mutate):
    """A step before, one with what was changed, and two after it."""
    ours, theirs = pair()
    a, b = pt.AdamW(ours, lr=1e-2), torch.optim.AdamW(theirs, lr=1e-2)
    for step in range(4):
        for params in (ours, theirs):
            give(params, step, keep=step != 2)
            if step == 1:
                mutate(params)
        a.step()
        b.step()
        assert distance(ours, theirs) < 5e-6, step
    assert watched(a) == [native]


@pytest.mark.parametrize("mutate", [m for m in MUTATIONS if m is not expand],  # torch refuses it
                         ids=lambda f: f.__name__)
def test_clip_against_torch(native, mutate, monkeypatch):
    """Norms and gradients before a change, with it, and after it; the gradients count as written."""
    monkeypatch.setattr(clip, "_watches", [])
    ours, theirs = parameters(shapes=SHAPES), parameters(shapes=SHAPES)
    for step in range(5):
        for params in (ours, theirs):
            give(params, step, keep=step not in (2, 4))
            if step == 1:
                mutate(params)
        before = [None if p.grad is None else p.grad._version for p in ours]
        a, b = pt.clip_grad_norm_(ours, 0.5), torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        assert abs(float(a) - float(b)) <= 1e-6 * float(b), step
        for p, q, version in zip(ours, theirs, before):
            if q.grad is None:
                assert p.grad is None
            else:
                assert torch.allclose(p.grad, q.grad, rtol=1e-6, atol=0), step
                assert p.grad._version > version or not VERSIONS, step
    assert len(clip._watches) == (native and mutate is not turn)  # whose parameters are no longer contiguous


@pytest.fixture
def sets(monkeypatch):
    """The turns in which clip_grad_norm_ asked each gradient. There are no sets of plans before."""
    counted, set_of = [], clip._set_of
    for name in ("_watches", "_sets"):
        monkeypatch.setattr(clip, name, [])
    monkeypatch.setattr(clip, "_set_of", lambda *args: counted.append(1) or set_of(*args))
    return counted


def test_clip_looks_once(native, sets):
    """One look suffices while parameters and gradients are what they were, wherever the gradients are."""
    params = parameters(shapes=SHAPES)
    for turn, (change, asked) in enumerate([(keep, True), (keep, False), (replace, False), (keep, False),
                                            (replace_one, False), (replace_data_of_parameters, True),
                                            (keep, False), (odd_strides, False), (leave_out, True)]):
        give(params, turn, keep=turn > 0)
        change(params)
        sets.clear()
        pt.clip_grad_norm_(params, 0.5)
        assert len(sets) == (asked or not native), turn


def test_where_gradients_are(native):
    """The plan reads them where they are: those that are laid out as their parameters are not copied."""
    params, _ = pair()
    optimizer = pt.SGD(params, lr=1e-2)
    run(optimizer, params)
    give(params, 1)
    params[0].grad = None  # then the others are asked one by one
    params[5].grad = params[5].grad.to(memory_format=torch.channels_last)
    optimizer.step()
    part, = optimizer._engine()._parts
    for p, at in zip(part.parameters, part.known):
        assert at == (0 if p.grad is None else p.grad.data_ptr()) or not p.numel()


def test_clip_of_models_that_share_a_plan(native, monkeypatch):
    """Two models of the same sizes take turns. Nothing keeps them alive."""
    monkeypatch.setattr(clip, "_watches", [])
    monkeypatch.setattr(clip, "_sets", [])
    models = [parameters(shapes=SHAPES, seed=k) for k in range(2)]
    for turn in range(3):
        for k, params in enumerate(models):
            give(params, turn, scale=k + 1.0, keep=turn == 1)
            expected = math.sqrt(sum(float(p.grad.double().square().sum()) for p in params))
            assert abs(float(pt.clip_grad_norm_(params, 1.0)) / expected - 1) < 1e-6
            for p in params:
                assert float(p.grad.norm()) <= 1.0
    assert len(clip._sets) == 1 and len(clip._watches) == 2 * native
    gone = [weakref.ref(p) for params in models for p in params]
    del models, params, p
    assert not any(ref() is not None for ref in gone)


def test_moments_follow(native):
    """A gradient that moves to and fro, and the norm that is taken of it."""
    params = parameters(shapes=SHAPES)
    optimizer = pt.SGD(params, lr=0.0, max_grad_norm=1e9)
    memories = [[torch.full_like(p, k + 1.0) for p in params] for k in range(2)]
    count = sum(p.numel() for p in params)
    for k in (0, 1, 1, 0, 1):
        for p, g in zip(params, memories[k]):
            p.grad = g.detach()
        optimizer.step()
        assert abs(float(optimizer.grad_norm) - (k + 1) * count ** 0.5) < 1e-4 * count
        for p in params:
            p.grad = None
        optimizer.step()
        assert float(optimizer.grad_norm) == 0


def test_versions(native):
    """Each step counts once, also for parameters without a gradient."""
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2)
    run(optimizer, params)
    params[1].grad = None
    before = [p._version for p in params]
    if not VERSIONS:
        pytest.skip(f"no torch.autograd.graph.increment_version for {sys.executable}")
    optimizer.step()
    assert [p._version - v for p, v in zip(params, before)] == [1] * len(params)
    x = torch.ones(300, device=DEVICE, requires_grad=True)
    loss = (params[1] * x).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_written_between_steps(native, dtype):
    """What others write to a parameter is in its master then; the rest keeps its master's bits."""
    def write(params, turn):
        with torch.no_grad():
            if turn == 2:
                params[1].copy_(params[1].float().clamp_(-0.5, 0.5))  # torch 1.13 has none for f16
            elif turn == 3:
                params[0].copy_(torch.full_like(params[0], 5.0))
                params[5].view(-1)[3:] += 2.0
            elif turn == 5:
                params[2].copy_(params[2].clone())

    ours, kept = parameters(dtype, shapes=SHAPES), parameters(dtype, shapes=SHAPES)
    a, b = pt.SGD(ours, lr=2.0 ** -12), pt.SGD(kept, lr=2.0 ** -12)
    for turn in range(7):
        for params, optimizer in ((ours, a), (kept, b)):
            give(params, turn)
            if turn in (2, 3):  # what the masters must become
                before = [p.detach().clone() for p in params]
                write(params, turn)
                if optimizer is b:
                    for p, old in zip(params, before):
                        master = optimizer.state[p]["master"]
                        master.copy_(torch.where(p == old, master, p.float()))
            elif turn == 5:
                write(params, turn)
            optimizer.step()
        for p, q in zip(ours, kept):
            assert torch.equal(p, q), turn
            assert torch.equal(a.state[p]["master"], b.state[q]["master"]), turn
            assert torch.equal(a.state[p]["master"].to(dtype), p), turn
    assert float(ours[0].min()) > 4.9 and watched(a) == [native]


def test_a_step_writes_once(native, monkeypatch):
    """Masters are made anew after what others wrote, and not after each step."""
    params = parameters(torch.bfloat16, shapes=SHAPES)
    optimizer, followed = pt.AdamW(params, lr=1e-2), []
    follow = pt._formats.follow
    monkeypatch.setattr(pt._formats, "follow", lambda p, master: followed.append(id(p)) or follow(p, master))
    for turn in range(6):
        give(params, turn, keep=turn % 2)
        if turn == 3:
            with torch.no_grad():
                params[1].zero_()
        optimizer.step()
    assert followed == [id(params[1])]


def test_written_through_data(native):
    """Other memory is seen; a writing in place is not, until the master is gone."""
    for how in ("other memory", "no master"):
        params = parameters(torch.bfloat16, shapes=SHAPES)
        optimizer = pt.SGD(params, lr=2.0 ** -12)
        for p in params:
            p.grad = torch.ones_like(p)
        for value in (3.0, 5.0):
            optimizer.step()
            for p in params:
                if how == "other memory":
                    p.data = torch.full_like(p, value)
                else:
                    p.data.fill_(value)
                    del optimizer.state[p]["master"]
        optimizer.step()
        for p in params:
            assert bool((optimizer.state[p]["master"] == 5.0 - 2.0 ** -12).all()) and bool((p == 5.0).all())


def test_remainder_of_what_was_written(native):
    """Parameter and remainder are halves of one f32: what is written is off by half an ulp at most."""
    params = parameters(torch.bfloat16, shapes=SHAPES)
    optimizer = pt.SGD(params, lr=2.0 ** -12, state_dtype="remainder")
    run(optimizer, params, 3)
    with torch.no_grad():
        for p in params:
            p.fill_(5.0)
    for p in params:
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert all(bool((p == 5.0).all()) for p in params)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_another_type(native, dtype):
    """Gradients whose `.data` got another type: the plan is made anew, and again when they go back."""
    params, other = parameters(dtype), parameters(dtype)
    a, b = pt.SGD(params, lr=1e-2), torch.optim.SGD(other, lr=1e-2)
    kinds = [dtype, torch.float16, dtype, torch.float16 if dtype is torch.float32 else torch.float32]
    for step, kind in enumerate(kinds):
        for some in (params, other):
            give(some, step)
        for p, q in zip(params, other):
            q.grad = p.grad.to(kind).to(dtype)
            p.grad.data = p.grad.data.to(kind)
        a.step()
        b.step()
        assert watched(a) == [native]
    assert distance(params, other) < (1e-5 if dtype is torch.float32 else 0.1)


def test_refusals_leave_everything(native):
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2)
    run(optimizer, params)
    before = [p.detach().clone() for p in params]
    good = params[1].grad
    params[1].grad = torch.sparse_coo_tensor([[1, 5]], [3.0, 4.0], (300,), device=DEVICE)
    for _ in range(2):
        with pytest.raises(ValueError, match="sparse"):
            optimizer.step()
    assert all(map(torch.equal, params, before))
    params[1].grad = good
    optimizer.step()
    assert not torch.equal(params[1], before[1])


def test_other_kinds_of_parameters(native):
    """A subclass may have a `grad` of its own: it is asked."""
    class Own(torch.nn.Parameter):
        @property
        def grad(self):
            return self.mine

        @grad.setter
        def grad(self, value):
            self.mine = value

    p = Own(torch.zeros(4, device=DEVICE))
    p.mine = torch.ones(4, device=DEVICE)
    optimizer = pt.SGD([p], lr=1.0)
    optimizer.step()
    assert watched(optimizer) == [False] and p.detach().tolist() == [-1.0] * 4


def test_functions_that_are_there_are_used():
    """A torch that has them all is never asked one by one."""
    theirs = ctypes.CDLL(torch._C.__file__)
    assert there() == all(hasattr(theirs, symbol) for symbol in _shortcuts._FUNCTIONS.values())


# ---- each short cut: RUN(way) is what came of its calls, the same for both ways


def test_each_has_a_test():
    cuts = [name for name, one in vars(_shortcuts).items() if isinstance(one, _shortcuts.ShortCut)]
    assert sorted(cuts) == ["_functions", "_part", "_spec", "add_up", "empty_as", "gradients", "identities",
                            "increment_version", "placed_as", "stream", "unobserved"]


def test_identities(monkeypatch):
    def run(way):
        found, some = [], (math, sys, ctypes)
        for objects in (some, list(some), iter(some), some[::-1], ()):
            ids = way(objects)
            found.append(ids if isinstance(ids, list) else array("Q", ids).tolist())
        return found

    beside_plain(monkeypatch, _shortcuts.identities, run, [
        (sys, "implementation", types.SimpleNamespace(name="pypy")),
        (_shortcuts, "_HEAD", _shortcuts._HEAD - 8)])


def test_increment_version(monkeypatch):
    def run(way):
        some = parameters(shapes=SHAPES)
        way(some[:4])
        return [p._version for p in some]

    def refuses(one):  # as torch 2.1 did
        assert isinstance(one, torch.Tensor)
        increment(one)

    increment, there = _shortcuts._increment, False
    with contextlib.suppress(RuntimeError, TypeError):  # of torch 2.1, and of 1.13, which has none
        there = increment([torch.zeros(1)]) is None
    beside_plain(monkeypatch, _shortcuts.increment_version, run, [
        (_shortcuts, "_increment", refuses),
        (_shortcuts, "_increment", lambda one: isinstance(one, torch.Tensor) and increment(one))],
        there)


def test_unobserved(monkeypatch):
    """Each answer is of a step that a hook wants to know of. test_torch_optim.py has a profiler."""
    from torch.optim import optimizer as module

    def run(way):
        one, answers = torch.optim.SGD([torch.zeros(1)], lr=1.0), []
        way(one)
        for owner, register in ((one, "register_step_pre_hook"), (one, "register_step_post_hook"),
                                (module, "register_optimizer_step_pre_hook"),
                                (module, "register_optimizer_step_post_hook")):
            if hasattr(owner, register):
                handle = getattr(owner, register)(print)
                answers.append(way(one))
                handle.remove()
        return answers

    def around(step):  # another torch's hooks
        def wrapper(self):
            return self._optimizer_step_pre_hooks or self._new_hooks or _global_optimizer_pre_hooks  # noqa: F821
        return wrapper

    beside_plain(monkeypatch, _shortcuts.unobserved, run, [
        (torch.autograd, "_profiler_enabled", None), (torch.autograd, "_profiler_enabled", lambda: None),
        *([(torch.optim.Optimizer, "profile_hook_step", staticmethod(around)), (_shortcuts, "_HOOKS", ("_no_hooks",))]
          if hasattr(module, "register_optimizer_step_pre_hook") else ())])
    one = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    assert _shortcuts.unobserved.way(one)
    monkeypatch.setattr(torch.autograd, "_profiler_enabled", lambda: True)
    assert not _shortcuts.unobserved.first(one)


def test_stream(monkeypatch):
    """torch's current stream, without a GPU."""
    current = [0]

    @contextlib.contextmanager
    def on_another(which):
        current[0], before = which, current[0]
        yield
        current[0] = before

    monkeypatch.setattr(torch.cuda, "Stream", lambda index: 7)
    monkeypatch.setattr(torch.cuda, "stream", on_another)
    monkeypatch.setattr(torch.cuda, "current_stream",
                        lambda index: types.SimpleNamespace(cuda_stream=current[0]))
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: current[0], raising=False)

    def run(way):
        with on_another(9):
            other = way(0)
        return way(0), other

    for current[0] in (0, 5):
        beside_plain(monkeypatch, _shortcuts.stream, run, [
            (torch._C, "_cuda_getCurrentRawStream", None),
            (torch._C, "_cuda_getCurrentRawStream", lambda index: 0)])


def test_empty_as(monkeypatch):
    def run(way):
        found = []
        for like in (torch.zeros(2, 3), torch.zeros(0, dtype=torch.float16), torch.zeros(()), torch.zeros(5, 1, 2).double()):
            first, other = (way(like)() for _ in range(2))
            assert not like.numel() or first.data_ptr() != other.data_ptr()
            found.append((first.shape, first.stride(), first.dtype, first.device, first.requires_grad))
        return found

    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    there = hasattr(guards, "_empty_strided_cpu") and hasattr(guards, "_empty_strided_cuda")
    beside_plain(monkeypatch, _shortcuts.empty_as, run, [
        (guards, "_empty_strided_cpu", None),
        (guards, "_empty_strided_cpu", lambda shape, stride, dtype: torch.empty(3, 2, dtype=dtype))] if there else [], there)


def test_all_plain(monkeypatch):
    """Steps and clipping without any short cut: the same bits."""
    def train():
        params, bits = parameters(torch.bfloat16, shapes=SHAPES), []
        optimizer = pt.AdamW(params, lr=1e-2, max_grad_norm=1.0)
        for turn in range(4):
            give(params, turn, keep=turn % 2)
            bits.append(float(pt.clip_grad_norm_(params, 3.0)))
            optimizer.step()
            bits.append(float(optimizer.grad_norm))
        assert watched(optimizer) == [_shortcuts._functions.way() is not None]
        return bits, params

    bits, params = train()
    all_plain(monkeypatch)
    plain, others = train()
    assert bits == plain and same(params, others) and _shortcuts.identities.way is _shortcuts.identities.plain


# ---- the look


@pytest.mark.parametrize("name,value", [("implementation", types.SimpleNamespace(name="pypy")),
                                        ("_is_gil_enabled", lambda: False)])
def test_other_pythons(monkeypatch, name, value):
    """Objects may be elsewhere, and change meanwhile."""
    assert _shortcuts._is_known_python()
    monkeypatch.setattr(sys, name, value, raising=False)
    assert not _shortcuts._is_known_python()


def test_switched_off(monkeypatch):
    """The environment can say no, and a torch whose functions are others is asked one by one."""
    usable = there()

    def found(environment="", **functions):
        monkeypatch.setattr(_shortcuts._functions, "way", _shortcuts._functions.first)
        monkeypatch.setenv("PTXGEN_TORCH_NATIVE", environment)
        monkeypatch.setattr(_shortcuts, "_FUNCTIONS", {**_shortcuts._FUNCTIONS, **functions})
        return there()

    assert found() == usable
    assert not found("0") and not found(get_dim="no_such_function")
    assert not found(get_dim="aoti_torch_get_numel")


def test_defaults_of_another_kind(monkeypatch):
    """What tensors are by default says nothing of whether torch has the functions."""
    usable = _shortcuts._functions.way() is not None
    monkeypatch.setattr(_shortcuts._functions, "way", _shortcuts._functions.first)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode():
            assert (_shortcuts._functions.way() is not None) == usable
    finally:
        torch.set_default_dtype(before)


def test_what_is_gone_is_not_looked_at(native):
    """Optimizers that outlive their parameters' memory, and parameters that outlive the optimizer."""
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2)
    run(optimizer, params)
    optimizer.param_groups[0]["params"] = [params[1]]
    del params[0]
    optimizer.step()
    optimizer.param_groups[0]["params"] = []
    optimizer.step()
    assert ON_EMULATOR or torch.cuda.synchronize() is None

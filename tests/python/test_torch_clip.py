# SPDX-License-Identifier: MIT
"""ptxgen.torch's clipping against torch.nn.utils'."""

import math

import ptxgen.torch as pt
import pytest
import torch
from torch_parts import DEVICE, distance, give, needs, parameters, same
from ptxgen.torch import clip
from torch.nn.utils import clip_grad_norm_ as torch_clip

NORMS = hasattr(torch.nn.utils, "get_total_norm")


def pair(**options):
    ours, theirs = parameters(**options), parameters(**options)
    give(ours, 3)
    give(theirs, 3)
    return ours, theirs


def planned(monkeypatch):
    """Makes a call of torch's own functions an error."""
    def refuse(*args, **kwargs):
        raise AssertionError("torch's own function was called")
    for name in ("_torch_clip_grad_norm_", "_torch_get_total_norm", "_torch_clip_grads_with_norm_"):
        monkeypatch.setattr(clip, name, refuse)


def left_to_torch(monkeypatch, call):
    """The calls of torch's own clip_grad_norm_ during a call."""
    calls = []

    def note(*args, **kwargs):
        calls.append(args)
        return torch_clip(*args, **kwargs)
    monkeypatch.setattr(clip, "_torch_clip_grad_norm_", note)
    result = call()
    return calls, result


@pytest.mark.parametrize("max_norm", [0.0, 1e-3, 1.0, 72.0, 1e9, math.inf])
def test_results(max_norm, monkeypatch):
    planned(monkeypatch)
    ours, theirs = pair()
    norm, expected = pt.clip_grad_norm_(ours, max_norm), torch_clip(theirs, max_norm)
    assert norm.shape == expected.shape and norm.dtype == expected.dtype
    assert norm.device == expected.device and not norm.requires_grad
    assert abs(norm.item() / expected.item() - 1) < 1e-6
    for p, q in zip(ours, theirs):
        assert torch.allclose(p.grad, q.grad, rtol=3e-7, atol=0)


def test_norm_is_exact(monkeypatch):
    planned(monkeypatch)
    ours, _ = pair()
    total = sum(p.grad.double().square().sum() for p in ours)
    assert pt.clip_grad_norm_(ours, 1.0).item() == total.sqrt().float().item()


def test_norm_is_not_overwritten(monkeypatch):
    planned(monkeypatch)
    ours, _ = pair()
    first = pt.clip_grad_norm_(ours, 1e9)
    value = first.item()
    give(ours, 4, scale=2)
    assert pt.clip_grad_norm_(ours, 1e9).item() != value == first.item()


@pytest.mark.parametrize("keep", [True, False])
def test_many_steps(keep, monkeypatch):
    """Gradients that move, and those that stay: one set of plans."""
    planned(monkeypatch)
    ours, theirs = parameters(shapes=[(33,), (12, 4)]), parameters(shapes=[(33,), (12, 4)])
    clip._sets.clear()
    for seed in range(10):
        give(ours, seed, keep=keep)
        give(theirs, seed)
        limit = 1.0 + seed % 3
        assert torch.allclose(pt.clip_grad_norm_(ours, limit), torch_clip(theirs, limit), rtol=1e-6)
        assert distance([p.grad for p in ours], [p.grad for p in theirs]) < 1e-6
    assert len(clip._sets) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half(dtype, monkeypatch):
    planned(monkeypatch)
    ours, theirs = pair(dtype=dtype)
    exact = sum(p.grad.double().square().sum() for p in ours).sqrt()
    norm = pt.clip_grad_norm_(ours, 1.0)
    assert norm.dtype == dtype
    if dtype is torch.bfloat16:  # torch 1.13 has not all of f16 on the CPU
        assert torch_clip(theirs, 1.0).dtype == dtype
    assert norm.item() == exact.to(dtype).item()
    factor = 1.0 / (exact.float() + 1e-6)
    again, _ = pair(dtype=dtype)
    assert same([p.grad for p in ours], [(p.grad.float() * factor).to(dtype) for p in again])


def test_mixed_types(monkeypatch):
    planned(monkeypatch)
    ours = parameters(shapes=[(100,)]) + parameters(torch.bfloat16, shapes=[(50,)], seed=2)
    theirs = parameters(shapes=[(100,)]) + parameters(torch.bfloat16, shapes=[(50,)], seed=2)
    give(ours, 5)
    give(theirs, 5)
    norm, expected = pt.clip_grad_norm_(ours, 1.0), torch_clip(theirs, 1.0)
    assert norm.dtype == expected.dtype == torch.float32
    assert torch.allclose(norm, expected, rtol=1e-2)
    assert ours[1].grad.dtype == torch.bfloat16


def test_missing_and_empty(monkeypatch):
    ours, theirs = pair()
    ours[1].grad = theirs[1].grad = None
    norm, expected = pt.clip_grad_norm_(iter(ours), 1.0), torch_clip(theirs, 1.0)
    assert torch.allclose(norm, expected, rtol=1e-6) and ours[1].grad is None
    for nothing in ([], [ours[1]], ours[1]):
        norm, expected = pt.clip_grad_norm_(nothing, 1.0), torch_clip(nothing, 1.0)
        assert torch.equal(norm, expected) and norm.dtype == expected.dtype
    one = parameters(shapes=[(0,)])
    give(one, 0)
    assert pt.clip_grad_norm_(one[0], 1.0).item() == 0
    with pytest.warns(UserWarning, match="empty generator"):
        pt.clip_grad_norm_((p for p in []), 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nonfinite(bad, monkeypatch):
    planned(monkeypatch)
    ours, theirs = pair()
    ours[1].grad[7] = theirs[1].grad[7] = bad
    before = [p.grad.clone() for p in ours]
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients from"):
        pt.clip_grad_norm_(ours, 1.0, error_if_nonfinite=True)
    assert all(torch.equal(torch.nan_to_num(p.grad), torch.nan_to_num(b))
               for p, b in zip(ours, before))
    norm, expected = pt.clip_grad_norm_(ours, 1.0), torch_clip(theirs, 1.0)
    assert torch.equal(torch.isnan(norm), torch.isnan(expected))
    assert torch.equal(torch.isinf(norm), torch.isinf(expected))
    for p, q in zip(ours, theirs):
        assert torch.equal(torch.isnan(p.grad), torch.isnan(q.grad))
        assert torch.equal(torch.nan_to_num(p.grad), torch.nan_to_num(q.grad))


def test_large_and_tiny(monkeypatch):
    """Squares that f32 has not: torch gives inf and 0."""
    planned(monkeypatch)
    for scale in (1e25, 1e-30):
        ours, _ = pair()
        give(ours, 3, scale=scale)
        exact = sum(p.grad.double().square().sum() for p in ours).sqrt()
        assert abs(pt.clip_grad_norm_(ours, 1.0).item() / exact.item() - 1) < 1e-6


@pytest.mark.parametrize("norm_type", [1.0, math.inf, "inf", 3, 0.5])
def test_other_norms(norm_type, monkeypatch):
    ours, theirs = parameters(shapes=[(33,), (2, 4)]), parameters(shapes=[(33,), (2, 4)])
    give(ours, 3)
    give(theirs, 3)
    calls, norm = left_to_torch(monkeypatch, lambda: pt.clip_grad_norm_(ours, 1.0, norm_type))
    assert calls and torch.equal(norm, torch_clip(theirs, 1.0, norm_type))
    assert same([p.grad for p in ours], [p.grad for p in theirs])


def test_what_is_left_to_torch(monkeypatch):
    square = torch.nn.Parameter(torch.zeros(8, 8, device=DEVICE))
    shared, other = torch.arange(16.0, device=DEVICE), torch.arange(16.0, device=DEVICE)

    def with_grad(grad):
        p = torch.nn.Parameter(torch.zeros(grad.shape, dtype=grad.dtype, device=grad.device))
        p.grad = grad
        return p
    cases = {
        "transposed": [with_grad(torch.full((8, 4), 9.0, device=DEVICE).t())],
        "f64": [with_grad(torch.full((8,), 9.0, dtype=torch.float64, device=DEVICE))],
        "complex": [with_grad(torch.full((8,), 9.0, dtype=torch.complex64, device=DEVICE))],
        "overlapping": [with_grad(shared[:12]), with_grad(shared[4:])],
        "the same": [with_grad(other), with_grad(other)],
    }
    for name, params in cases.items():
        before = [p.grad.clone() for p in params]
        calls, _ = left_to_torch(monkeypatch, lambda: pt.clip_grad_norm_(params, 1.0))
        assert calls, name
        assert not same(before, [p.grad for p in params]), name
    square.grad = torch.randn(8, 8, device=DEVICE)
    calls, _ = left_to_torch(monkeypatch, lambda: pt.clip_grad_norm_([square], 1.0))
    assert not calls
    square.grad = torch.randn(8, 8, device=DEVICE).t()  # the same size, not contiguous
    calls, _ = left_to_torch(monkeypatch, lambda: pt.clip_grad_norm_([square], 1.0))
    assert calls
    sparse = torch.nn.Parameter(torch.zeros(8, device=DEVICE))
    sparse.grad = torch.sparse_coo_tensor([[1, 5]], [3.0, 4.0], (8,), device=DEVICE)
    calls = []
    monkeypatch.setattr(clip, "_torch_clip_grad_norm_", lambda *a, **k: calls.append(a))
    pt.clip_grad_norm_([sparse], 1.0)
    pt.clip_grad_norm_([square], -1.0)
    assert len(calls) == 2


@needs("torch.autograd.graph.increment_version")
def test_version_counters(monkeypatch):
    ours, _ = pair()
    before = [p.grad._version for p in ours]
    pt.clip_grad_norm_(ours, 1.0)
    assert all(p.grad._version > b for p, b in zip(ours, before))


@needs("torch.nn.utils.get_total_norm")
def test_norm_and_scale_apart(monkeypatch):
    from torch.nn.utils import clip_grads_with_norm_, get_total_norm
    planned(monkeypatch)
    ours, theirs = pair()
    norm = pt.get_total_norm([p.grad for p in ours])
    expected = get_total_norm([p.grad for p in theirs])
    assert torch.allclose(norm, expected, rtol=1e-6)
    assert same([p.grad for p in ours], [p.grad for p in theirs])
    assert torch.equal(pt.get_total_norm(ours[0].grad), pt.get_total_norm([ours[0].grad]))
    pt.clip_grads_with_norm_(ours, 1.0, norm * 2)
    clip_grads_with_norm_(theirs, 1.0, norm * 2)
    assert same([p.grad for p in ours], [p.grad for p in theirs])
    ours[0].grad[0] = math.nan
    with pytest.raises(RuntimeError, match="non-finite"):
        pt.get_total_norm([p.grad for p in ours], error_if_nonfinite=True)


@needs("torch.nn.utils.clip_grads_with_norm_")
@pytest.mark.parametrize("norm", [-5.0, -0.5, -1e-7, -math.inf, 0.0, 5.0])
@pytest.mark.parametrize("where,dtype", [(DEVICE, torch.float32), (DEVICE, torch.float64), ("cpu", torch.float32)])
def test_norm_below_zero(norm, where, dtype):
    """torch's factor has the norm's sign. On a GPU nothing looks at it, and nothing is silently wrong."""
    from torch.nn.utils import clip_grads_with_norm_
    ours, theirs = pair()
    given = torch.tensor(norm, device=where, dtype=dtype)
    pt.clip_grads_with_norm_(ours, 1.0, given)
    clip_grads_with_norm_(theirs, 1.0, given)
    for p, q in zip(ours, theirs):
        if norm < 0 and given.device.type != "cpu":
            assert bool(p.grad.isnan().all())
        else:
            assert torch.allclose(p.grad, q.grad, rtol=1e-6, atol=0)


def test_records_of_a_norm_below_zero(monkeypatch):
    planned(monkeypatch)
    ours, _ = pair()
    plans = clip._set_of([p.grad for p in ours], 2.0, with_sums=True)
    plans.given(torch.tensor(-5.0, device=DEVICE), 1.0)
    plans.apply()
    assert all(bool(part.norm().isnan()) for part in plans._parts)
    assert all(bool(p.grad.isnan().all()) for p in ours)


def test_install():
    before = torch.nn.utils.clip_grad_norm_
    pt.install()
    pt.install()
    try:
        assert torch.nn.utils.clip_grad_norm_ is pt.clip_grad_norm_
        assert torch.nn.utils.clip_grad.clip_grad_norm_ is pt.clip_grad_norm_
        if NORMS:
            assert torch.nn.utils.get_total_norm is pt.get_total_norm
        ours, theirs = pair()
        norm = torch.nn.utils.clip_grad_norm_(ours, 1.0, 1.0)  # torch's own, through ours
        assert torch.allclose(norm, torch_clip(theirs, 1.0, 1.0))
    finally:
        pt.uninstall()
    assert torch.nn.utils.clip_grad_norm_ is before
    pt.uninstall()


def test_many_sets(monkeypatch):
    """More sets of gradients than are kept."""
    planned(monkeypatch)
    for k in range(2 * clip._MOST_SETS):
        ours, theirs = parameters(shapes=[(k + 1,)]), parameters(shapes=[(k + 1,)])
        give(ours, k)
        give(theirs, k)
        assert torch.allclose(pt.clip_grad_norm_(ours, 0.1), torch_clip(theirs, 0.1), rtol=1e-6)
    assert len(clip._sets) == clip._MOST_SETS

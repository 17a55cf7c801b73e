# SPDX-License-Identifier: MIT
"""Calls of ptxgen.torch.quantization that are like an earlier one, which skip what it has checked and prepared."""

import pytest
import torch
from ptxgen.torch import quantization as q
from ptxgen.torch.quantization import _fake_quantize
from torch_parts import DEVICE


def x_of(*shape):
    return torch.ones(shape or (4, 32), device=DEVICE)


class Unhashed:
    """As an array of one number."""

    __hash__ = None

    def __float__(self):
        return 0.25


def test_known_calls_are_checked():
    """A call like an earlier one skips the checks; one that only looks like it does not."""
    x, scale = x_of().requires_grad_(), x_of(1)
    wanted = q.fake_quantize(x, scale, q_min=-8, q_max=7, axis=None)
    assert torch.equal(q.fake_quantize(x, scale, q_min=-8, q_max=7, axis=None), wanted)
    for how, kind, message in (({"q_max": 7.0}, TypeError, "q_max: an integer"), ({"axis": [0]}, TypeError, "axis: an integer"),
                               ({"q_min": True}, TypeError, "q_min: an integer"), ({"grad_factor": 1}, ValueError, "no gradient"),
                               ({"division": "fast"}, ValueError, "none of")):
        with pytest.raises(kind, match=message):
            q.fake_quantize(x, scale, **{"q_min": -8, "q_max": 7, "axis": None, **how})
    for other in (scale.to("meta"), scale.expand(2), scale.int(), scale.to_sparse()):
        with pytest.raises((TypeError, ValueError), match="scale"):
            q.fake_quantize(x, other, q_min=-8, q_max=7)
    with pytest.raises(TypeError, match="x is sparse"):
        q.fake_quantize(x.detach().to_sparse(), scale, q_min=-8, q_max=7)
    for _ in range(2):  # an array of one number is no key
        q.fake_quantize(x, scale.requires_grad_(), q_min=-8, q_max=7, learn="scale", grad_factor=Unhashed())
    rows = q.LearnedQuantizer.of(x.detach(), axis=0)
    for _ in range(2):
        rows(x)
    with pytest.raises(ValueError, match="x has 5 channels"):
        rows(x_of(5, 16))


@pytest.mark.parametrize("by", ["hooks of saved tensors", "the leaf's layout"])
def test_saved_tensors_in_another_layout(by):
    settings = {"axis": 1, "q_min": -8, "q_max": 7, "learn": "scale"}
    x = torch.randn(3, 5, 4, 7, generator=torch.Generator().manual_seed(4)).to(DEVICE).requires_grad_()
    scale, dy = torch.full((5,), 0.3, device=DEVICE, requires_grad=True), torch.randn_like(x)
    wanted = torch.autograd.grad(q.fake_quantize(x, scale, **settings), [x, scale], dy)
    _fake_quantize._known.clear()  # so that this backward pass is the first of its kind

    def turned(tensor):
        """The same numbers with other strides."""
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, turned if by.startswith("hooks") else torch.clone):
        for _ in range(2):
            y = q.fake_quantize(x, scale, **settings)
            if not by.startswith("hooks"):
                x.data = x.data.contiguous(memory_format=torch.channels_last)
            got = torch.autograd.grad(y, [x, scale], dy)
            assert torch.equal(got[0], wanted[0]) and torch.equal(got[1], wanted[1])
            x.data = x.data.contiguous()
    assert torch.equal(q.fake_quantize(x, scale, **settings), y)


def test_scales_in_another_layout():
    """Scales of groups, which have two dimensions."""
    x = torch.randn(6, 64, generator=torch.Generator().manual_seed(5)).to(DEVICE).requires_grad_()
    scale = (torch.rand(6, 2, generator=torch.Generator().manual_seed(6)) + 0.1).to(DEVICE).requires_grad_()
    settings, dy = {"axis": -1, "group": 32, "q_min": -8, "q_max": 7, "learn": "scale"}, torch.randn(6, 64).to(DEVICE)
    wanted = torch.autograd.grad(q.fake_quantize(x, scale, **settings), [x, scale], dy)
    _fake_quantize._known.clear()
    with torch.autograd.graph.saved_tensors_hooks(lambda one: one.t().contiguous() if one.dim() == 2 else one,
                                                  lambda one: one.t() if one.dim() == 2 else one):
        for _ in range(2):
            got = torch.autograd.grad(q.fake_quantize(x, scale, **settings), [x, scale], dy)
            assert torch.equal(got[0], wanted[0]) and torch.equal(got[1], wanted[1])


def test_negated_views_are_refused():
    x = torch.conj(torch.full((1,), 0.6j, device=DEVICE)).imag
    assert x.is_neg() and x.is_contiguous()
    for _ in range(2):
        with pytest.raises(TypeError, match=r"x is a view whose numbers torch negates .*: use x.resolve_neg\(\)"):
            q.fake_quantize(x, x_of(1), q_min=-8, q_max=7)
        q.fake_quantize(x.resolve_neg(), x_of(1), q_min=-8, q_max=7)


@pytest.mark.parametrize("call", [
    lambda x, scale: q.fake_quantize(x, scale, axis=-1, group=32, q_min=-8, q_max=7, learn="scale"),
    lambda x, scale: q.fake_quantize(x, scale.detach(), axis=-1, group=32, q_min=-8, q_max=7),
    lambda x, scale: q.fake_quantize(x, 0.5, q_min=-8, q_max=7),
    lambda x, scale: q.quantize_ste(x, scale.detach(), axis=-1, group=32, q_min=-8, q_max=7),
    lambda x, scale: q.fake_quantize_block(x, "nvfp4", torch.full((), 4.0, device=DEVICE), block_amax=scale.repeat(1, 2))])
@pytest.mark.parametrize("changed", [torch.Tensor.double, lambda one: one.flatten()[1:] if one.numel() > 1 else one])
def test_saved_tensors_of_another_kind(call, changed):
    for _ in range(2):
        x, scale = torch.rand(6, 64, device=DEVICE).requires_grad_(), torch.ones(6, 2, device=DEVICE).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda one: one, changed):
            y = call(x, scale)
            with pytest.raises(RuntimeError, match="the backward pass is given .* and the forward pass had .* on "):
                y.sum().backward()
        call(x, scale).sum().backward()
        assert x.grad.abs().sum() > 0


def test_a_conversion_between_the_passes():
    model = torch.nn.Sequential(torch.nn.Linear(64, 8)).to(DEVICE)
    q.quantize_model(model, weight=lambda w: q.LearnedQuantizer.of(w, q_min=-8, q_max=7, axis=0))
    y = model(torch.ones(2, 64, device=DEVICE)).sum()
    model.double()
    with pytest.raises(RuntimeError, match="the backward pass is given x .*float64.* modules must not be converted"):
        y.backward()


def test_weights_that_are_lost():
    weight = torch.randn(4, 64, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    groups = q.LearnedQuantizer.of(weight, q_min=-8, q_max=7, axis=-1, group=32)
    rows = q.LearnedQuantizer.of(weight, q_min=-8, q_max=7, axis=0)
    weight[1, 2] = float("nan")
    for export in (lambda: q.export_int4(weight, groups), lambda: q.export_int8(weight, rows)):
        with pytest.raises(ValueError, match=r"weight: 1 of 256 are NaN or infinite, the first at \[1, 2\]"):
            export()
    with pytest.raises(ValueError, match="group: 32.0 is none of 16, 32"):
        q.fake_quantize(weight, x_of(4, 2), axis=-1, group=32.0, q_min=-8, q_max=7)

# SPDX-License-Identifier: MIT
"""Reports of ptxgen.torch's optimizers, compared with torch."""

import math

import ptxgen.torch as pt
import pytest
import torch
from torch_parts import DEVICE, give, needs, parameters, run


def expected(gradient):
    x = gradient.flatten()
    bad = (~torch.isfinite(x)).nonzero()
    return {"norm": float(x.double().square().sum().sqrt()), "largest": float(x.abs().max()) if x.numel() else 0.0,
            "zeros": int((x == 0).sum()), "first_nonfinite": int(bad[0]) if len(bad) else -1,
            "absent": int(x.numel() == 0)}


def weights(params):
    return [p.detach().double().clone() for p in params]


def expected_weights(p, before):
    x = p.detach().double()
    return {"weight_norm": float(x.square().sum().sqrt()),
            "change_norm": float((x - before).square().sum().sqrt()),
            "weight_largest": float(x.abs().max())}


def check(report, names, params, before=None):
    """before: the weights before the step; None: it was skipped, or is not looked at."""
    assert report.names == names
    for name, p, old in zip(names, params, before or ()):
        there = p.grad is not None and p.numel()
        must = expected_weights(p, old) if there else dict.fromkeys(("weight_norm", "change_norm", "weight_largest"), 0.0)
        for field, value in must.items():
            assert float(report[name][field]) == pytest.approx(value, rel=1e-12 if "norm" in field else 0), (name, field)
    for name, p in zip(names, params):
        row = report[name]
        must = expected(p.grad) if p.grad is not None else {
            "norm": 0.0, "largest": 0.0, "zeros": 0, "first_nonfinite": -1, "absent": 1}
        for field, value in must.items():
            assert float(row[field]) == pytest.approx(value, rel=1e-14 if field == "norm" else 0, nan_ok=True), (name, field)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_reports_each_gradient_by_name(dtype):
    params = parameters(dtype)
    named = hasattr(torch.nn.utils, "get_total_norm")  # torch 2.6 has both, this and names in groups
    names = [f"layer.{k}" if named else str(k) for k in range(len(params))]
    optimizer = pt.AdamW(list(zip(names, params)) if named else params, max_grad_norm=1.0, state_dtype="bf16",
                         reports=True)
    assert optimizer.report() is None
    for step in range(4):
        give(params, step, scale=10.0 ** step)
        params[0].grad[1] = 0
        if step == 2:
            params[5].grad[4000:] = math.inf
            params[5].grad[4100] = math.nan
        if step == 3:
            params[1].grad = None
        before, last = weights(params), optimizer.report()
        optimizer.step()
        report = optimizer.report()
        check(report, names, params, None if step == 2 else before)
        if step == 2:  # skipped: the rows of weights stay
            assert torch.equal(report.weight_norm, last.weight_norm)
            assert torch.equal(report.change_norm, last.change_norm) and float(report.change_norm[0]) > 0
    assert float(optimizer.found_inf) == 0.0


def test_reports_take_the_norm_and_have_numbers_without_names():
    params = parameters()
    optimizer = pt.SGD(params, lr=0.1, reports=True)
    run(optimizer, params, first=1)
    report = optimizer.report()
    check(report, [str(k) for k in range(len(params))], params)
    total = float(report.norm.square().sum().sqrt())
    assert total == pytest.approx(float(optimizer.grad_norm), rel=1e-6)
    with pytest.raises(KeyError, match="'none' is none of report.names: 0, 1, [0-9, ]*[0-9]\""):
        report["none"]
    many = report._replace(names=[f"layers.{k}.weight" for k in range(100)])
    with pytest.raises(KeyError, match="names: layers.0.weight, layers.1.weight, .*, layers.3.weight and 96 more\""):
        many["none"]
    with pytest.raises(KeyError, match="names: x{200} and 1 more\""):
        report._replace(names=["x" * 200, "y"])["none"]
    with pytest.raises(TypeError, match="by the names of parameters"):
        report[params[0]]


@pytest.mark.parametrize("how", ["accumulate", "settings", "another"])
def test_a_skipped_step_of_another_plan(how):
    """The rows of weights are those of the last step that was taken, whatever plan took it."""
    params = parameters()
    first = params[:4] if how == "another" else params
    optimizer = pt.SGD(params, lr=0.1, momentum=0.9, reports=True)
    run(optimizer, first)
    before = optimizer.report()
    give(params, 1)
    params[1].grad[0] = math.nan
    if how == "accumulate":
        optimizer.accumulate()
    elif how == "settings":
        optimizer.param_groups[0]["maximize"] = True
    optimizer.step()
    after = optimizer.report()
    assert float(optimizer.found_inf) == 1 and float(after.norm[1].isnan())
    for field in ("weight_norm", "change_norm", "weight_largest"):
        assert torch.equal(getattr(after, field), getattr(before, field))
        assert bool((getattr(after, field)[:len(first)] > 0).any())


def test_one_parameter():
    """One row of bytes is contiguous whatever its strides."""
    p = torch.nn.Parameter(torch.ones(2, 3, 3, 3, device=DEVICE))
    for optimizer in (pt.SGD([p], lr=0.1, reports=True), pt.Muon([p], lr=0.1, reports=True)):
        p.grad = torch.ones_like(p)
        optimizer.step()
        report = optimizer.report()
        assert float(report.norm) == pytest.approx(54 ** 0.5) and float(report.absent) == 0
        p.grad = 2 * p.grad
        optimizer.step()
        assert float(report.norm) == pytest.approx(54 ** 0.5)  # a copy


def test_parameters_without_a_gradient_are_absent():
    params = parameters()
    optimizer = pt.SGD(params, lr=0.1, reports=True)
    optimizer.step()
    names = [str(k) for k in range(len(params))]
    check(optimizer.report(), names, params)
    for step in (1, 2):
        give(params[step:step + 3], step)
        optimizer.step()
        check(optimizer.report(), names, params)


@needs("torch.nn.utils.get_total_norm")  # of torch 2.6, which has names in groups, too
def test_names_that_several_parameters_have_get_their_number():
    params = parameters(shapes=[(3,), (4,), (5,)])
    optimizer = pt.SGD([{"params": [("w", params[0]), ("b", params[1])]}, {"params": [("w", params[2])]}], lr=0.1,
                       reports=True)
    run(optimizer, params, first=1)
    check(optimizer.report(), ["w (0)", "b", "w (2)"], params)


def test_an_error_of_a_norm_names_the_gradient():
    params = parameters()
    give(params, 1)
    params[2].grad[3, 1, 1] = math.nan
    with pytest.raises(RuntimeError, match="non-finite.*gradient of parameter 2, at element 21"):
        pt.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert DEVICE == params[2].grad.device.type
    grads = [p.grad for p in params]
    if hasattr(pt, "get_total_norm") and hasattr(torch.nn.utils, "get_total_norm"):
        with pytest.raises(RuntimeError, match="non-finite.*gradient of parameter 2, at element 21"):
            pt.get_total_norm(grads, error_if_nonfinite=True)

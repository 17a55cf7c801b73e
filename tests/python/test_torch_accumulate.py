# SPDX-License-Identifier: MIT
"""Gradients of micro-batches, summed by ptxgen.torch's optimizers."""

import math

import ptxgen.torch as pt
import pytest
import torch
from torch_parts import give, parameters, same


def sums_of(optimizer, params):
    found = {id(p): total for p, total, _ in optimizer._engine()._sums._of.values()}
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
    give(params, 2)
    optimizer.step()
    assert not same(params, before) and float(optimizer.found_inf) == 0


def test_accumulate_with_reports():
    params = parameters()
    give(params, 0)
    with pytest.raises(ValueError, match="accumulate.. with reports=True"):
        pt.SGD(params, lr=1.0, reports=True).accumulate()

# SPDX-License-Identifier: MIT
"""Loss scaling: torch's GradScaler and the one of ptxgen.torch, with our optimizers and torch's."""

import math

import ptxgen.torch as pt
import pytest
import torch
from torch_parts import DEVICE, distance, give, needs, parameters, run, same

pytestmark = needs("torch.amp.GradScaler")
TorchScaler = getattr(torch.amp, "GradScaler", None)

SEQUENCE = "....x...x.xx........"  # x: a gradient that is not finite


def train(scaler, optimizer, params, *, unscale=False, clip=None, steps=SEQUENCE):
    """Scales after each step."""
    scales = []
    for seed, what in enumerate(steps):
        scaler.scale(torch.zeros((), device=DEVICE))
        give(params, seed, scale=scaler.get_scale())
        if what == "x":
            params[1].grad[5] = math.inf if seed % 2 else math.nan
        if unscale:
            scaler.unscale_(optimizer)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(params, clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return scales


def scaler(cls, **options):
    return cls(DEVICE, init_scale=2.0 ** 12, growth_interval=3, **options)


@pytest.mark.parametrize("cls", [TorchScaler, pt.GradScaler])
@pytest.mark.parametrize("rule", ["AdamW", "SGD"])
@pytest.mark.parametrize("unscale", [False, True])
def test_as_torch(cls, rule, unscale):
    a, b = parameters(), parameters()
    ours = getattr(pt, rule)(a, lr=1e-2)
    theirs = getattr(torch.optim, rule)(b, lr=1e-2)
    first = train(scaler(cls), ours, a, unscale=unscale)
    second = train(scaler(TorchScaler), theirs, b, unscale=True)
    assert first == second and len(set(first)) > 3
    assert distance(a, b) < 5e-6
    if rule == "AdamW":
        assert ours.state[a[1]]["step"].item() == SEQUENCE.count(".")
    assert "grad_scale" not in ours.__dict__


@pytest.mark.parametrize("cls", [TorchScaler, pt.GradScaler])
def test_clipped_in_the_step(cls):
    a, b = parameters(), parameters()
    ours, theirs = pt.AdamW(a, lr=1e-2, max_grad_norm=2.0), torch.optim.AdamW(b, lr=1e-2)
    first = train(scaler(cls), ours, a)
    second = train(scaler(TorchScaler), theirs, b, unscale=True, clip=2.0)
    assert first == second
    assert distance(a, b) < 5e-6
    give(a, len(SEQUENCE) - 1)
    exact = sum(p.grad.double().square().sum() for p in a).sqrt().item()
    assert abs(ours.grad_norm.item() / exact - 1) < 1e-6


def test_no_pass_of_its_own(monkeypatch):
    def refuse(*args):
        raise AssertionError("a pass over the gradients")
    a = parameters()
    ours = pt.AdamW(a, lr=1e-2)
    made = scaler(pt.GradScaler)
    monkeypatch.setattr(torch, "_amp_foreach_non_finite_check_and_unscale_", refuse)
    train(made, ours, a)
    monkeypatch.undo()
    b = parameters()  # torch's optimizers: torch's pass
    scales = train(made, torch.optim.SGD(b, lr=1e-2), b)
    assert len(set(scales)) > 3


def test_without_a_scaler_again():
    a, b = parameters(), parameters()
    ours, theirs = pt.AdamW(a, lr=1e-2), torch.optim.AdamW(b, lr=1e-2)
    train(scaler(TorchScaler), ours, a, steps="..x.")
    train(scaler(TorchScaler), theirs, b, steps="..x.")
    run(ours, a, 3)
    run(theirs, b, 3)
    assert distance(a, b) < 5e-6


def test_two_optimizers_and_off():
    a, b = parameters(), parameters(seed=2)
    first, second = pt.AdamW(a, lr=1e-2), pt.SGD(b, lr=1e-2)
    made = scaler(pt.GradScaler)
    made.scale(torch.zeros((), device=DEVICE))
    before = [p.detach().clone() for p in a]
    give(a, 0)
    give(b, 0)
    a[0].grad[0, 0] = math.nan
    made.step(first)
    made.step(second)
    made.update()
    assert same(a, before) and made.get_scale() == 2.0 ** 11
    with pytest.raises(RuntimeError):
        made.step(first)
        made.step(first)
    off = pt.GradScaler(DEVICE, enabled=False)
    c = parameters()
    give(c, 0)
    third = pt.AdamW(c, lr=1e-2)
    off.step(third)
    off.update()
    assert not same(c, before)

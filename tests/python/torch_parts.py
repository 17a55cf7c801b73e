# SPDX-License-Identifier: MIT
"""What the tests of ptxgen.torch share. Tensors are on the CPU and plans on the emulator, or both on a
GPU: DEVICE says which."""

import copy
import importlib.util
import io
import math
import pickle
import pkgutil
import sys

import ptxgen.torch as pt
import pytest
import torch
from conftest import ON_EMULATOR
from ptxgen.torch import _shortcuts

if ON_EMULATOR:
    pt.emulate()
DEVICE = "cpu" if ON_EMULATOR else "cuda"


def needs(name):
    """A test that needs what older versions of torch have not."""
    try:
        pkgutil.resolve_name(name)
        there = True
    except (AttributeError, ImportError, ValueError):  # the last: torch 1.13 with Python 3.11
        there = False
    return pytest.mark.skipif(not there, reason=f"no {name} for {sys.executable}")


def needs_package(name):
    """A test that needs a package, which it alone imports."""
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"no {name} for {sys.executable}")


SHAPES = [(8, 5), (300,), (7, 3, 2), (), (0,), (5000,)]


def parameters(dtype=torch.float32, shapes=SHAPES, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype).to(DEVICE))
            for shape in shapes]


def give(params, seed, scale=1.0, keep=False):
    """Random gradients: new tensors, or into those that are there."""
    generator = torch.Generator().manual_seed(seed)
    for p in params:
        value = (torch.randn(p.shape, generator=generator) * scale).to(p.dtype).to(p.device)
        if keep and p.grad is not None:
            p.grad.copy_(value)
        else:
            p.grad = value


def run(optimizer, params, steps=1, first=0, **how):
    """Steps, each with random gradients."""
    for seed in range(first, first + steps):
        give(params, seed, **how)
        optimizer.step()


def distance(a, b):
    """The largest difference of two lists of tensors."""
    return max((float((x.detach().double() - y.detach().double()).abs().max())
                for x, y in zip(a, b) if x.numel()), default=0.0)


def same(a, b):
    return all(torch.equal(x.detach(), y.detach()) for x, y in zip(a, b))


def beside_plain(monkeypatch, cut, run, broken, there=True):
    """A short cut gives what the plain way gives. Where internals are others, the plain way is taken:
    broken has (owner, attribute, value), None for one that is gone. there: whether this torch has it."""
    def taken():
        return run(lambda *arguments: cut.way(*arguments))

    monkeypatch.delenv("PTXGEN_TORCH_NATIVE", raising=False)
    expected = run(cut.plain)
    monkeypatch.setattr(cut, "way", cut.first)
    assert taken() == expected and (cut.way is not cut.plain) == there
    for owner, name, value in broken if there else ():
        with monkeypatch.context() as patch:
            patch.setattr(cut, "way", cut.first)
            patch.delattr(owner, name) if value is None else patch.setattr(owner, name, value)
            assert taken() == expected and cut.way is cut.plain, (name, value)


def all_plain(monkeypatch):
    """No short cut from now on, whatever was proved before."""
    monkeypatch.setenv("PTXGEN_TORCH_NATIVE", "0")
    for one in vars(_shortcuts).values():
        if isinstance(one, _shortcuts.ShortCut):
            monkeypatch.setattr(one, "way", one.first)


# Models whose plans are of equal shapes.
EQUAL_SHAPES = [(40, 5), (300,), (7, 3)]


class Model:
    """Parameters of the same shapes in all models, the gradients that they get at each call, and what
    must become of these."""

    def __init__(self, k, shapes=EQUAL_SHAPES):
        self.params = parameters(shapes=shapes, seed=k)
        self.given = [p.detach() * (k + 1) for p in parameters(shapes=shapes, seed=50 + k)]
        self.norm = math.sqrt(sum(float(g.double().square().sum()) for g in self.given))
        self.clipped = [g / (self.norm + 1e-6) for g in self.given]

    def give(self):
        for p, g in zip(self.params, self.given):
            p.grad = g.clone()

    def clip(self):
        """What is wrong with the result of a call; None if nothing is."""
        self.give()
        return self.wrong(pt.clip_grad_norm_(self.params, 1.0))

    def wrong(self, norm):
        if abs(float(norm) / self.norm - 1) > 1e-6:
            return f"a norm of {float(norm)} for {self.norm}"
        far = distance([p.grad for p in self.params], self.clipped)
        return f"gradients are off by {far}" if far > 1e-6 else None


def refill(model):
    for p, g in zip(model.params, model.given):
        p.grad.copy_(g)


def copies(optimizer, params):
    """Other optimizers with the same states: by a dict, a file, a copy of both, a pickle of both."""
    def fresh():
        mine = [torch.nn.Parameter(p.detach().clone()) for p in params]
        return mine, pt.Optimizer(mine, optimizer.rule, lr=0.5)

    mine, other = fresh()
    other.load_state_dict(optimizer.state_dict())
    yield mine, other
    mine, other = fresh()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    yield mine, other
    yield copy.deepcopy((params, optimizer))
    yield pickle.loads(pickle.dumps((params, optimizer)))

# SPDX-License-Identifier: MIT
"""What the tests of ptxgen.torch share. Tensors are on the CPU and plans on the emulator, or both on a
GPU: DEVICE says which."""

import pkgutil
import sys

import ptxgen.torch as pt
import pytest
import torch
from conftest import ON_EMULATOR

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


def distance(a, b):
    """The largest difference of two lists of tensors."""
    return max((float((x.detach().double() - y.detach().double()).abs().max())
                for x, y in zip(a, b) if x.numel()), default=0.0)


def same(a, b):
    return all(torch.equal(x.detach(), y.detach()) for x, y in zip(a, b))

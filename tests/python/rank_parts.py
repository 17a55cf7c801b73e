# SPDX-License-Identifier: MIT
"""What the tests of ptxgen.torch on several ranks share: a model, sharded by FSDP2 or whole, and its gradients."""

import functools
import inspect

import pytest
import torch
from ranks import on_ranks
from torch_parts import DEVICE, ON_EMULATOR, needs

pytestmark = needs("torch.distributed.fsdp.fully_shard")
try:
    from torch.distributed.device_mesh import init_device_mesh  # noqa: F401
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor
except ImportError:
    pass

GPUS = 2 if ON_EMULATOR else torch.cuda.device_count()


def over_ranks(count):
    """Makes a test of a function, whose first argument is the rank, on so many ranks."""
    def made(function):
        @functools.wraps(function)
        def test(**arguments):
            on_ranks(count, test, **arguments)
        taken = inspect.signature(function)
        test.__signature__ = taken.replace(parameters=list(taken.parameters.values())[1:])
        fewer = GPUS < count and not ON_EMULATOR
        return pytest.mark.skipif(fewer, reason=f"fewer GPUs than ranks: {count} wanted")(test)
    return made


def model(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(9, 33), torch.nn.GELU(), torch.nn.Linear(33, 7),
                               torch.nn.LayerNorm(7), torch.nn.Linear(7, 1)).to(DEVICE)


def sharded(mesh, seed=0):
    made = model(seed)
    for layer in made:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(made, mesh=mesh)
    return made


def backward(made, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 9, generator=generator).to(DEVICE)
    loss = made(x).square().mean() * scale
    loss.backward()
    return loss


def full(tensors):
    return [(t.full_tensor() if isinstance(t, DTensor) else t).detach().clone() for t in tensors]


def close(a, b, tolerance):
    for x, y in zip(full(a), full(b)):
        assert float((x - y).abs().max()) <= tolerance, (x - y).abs().max()

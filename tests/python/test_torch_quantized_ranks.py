# SPDX-License-Identifier: MIT
"""Quantizers of models that fully_shard() cuts over two ranks: scales of the shapes [1], [channels] and of groups."""

import pytest
import torch
from ptxgen.torch import quantization as q
from torch_parts import DEVICE, needs
from rank_parts import over_ranks

pytestmark = needs("torch.distributed.fsdp.fully_shard")
HOW = ({"axis": -1, "group": 32}, {"axis": 0}, {})


def made():
    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 6), torch.nn.Linear(6, 4)).to(DEVICE)
    how = iter(HOW)
    q.quantize_model(model, weight=lambda w: q.LearnedQuantizer.of(w, -8, 7, **next(how)), activation=lambda: q.FakeQuantize(-128, 127))
    return model


def steps(model):
    """Losses, and the parameters, of a few steps on the same data for all ranks."""
    losses = []
    for step in range(3):
        x = torch.randn(8, 32, generator=torch.Generator().manual_seed(step)).to(DEVICE)
        model.zero_grad()  # before the forward pass: without resharding, parameters are others after it
        loss = model(x).square().mean()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(p.grad, alpha=0.05)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("reshard", [True, False])
@over_ranks(2)
def test_fully_shard(rank, reshard):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor
    plain, model = made(), made()
    mesh = init_device_mesh(DEVICE, (2,))
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh)
    scales = [model[k].weight_quantizer.scale for k in (0, 2, 3)]
    assert all(isinstance(scale, DTensor) for scale in scales)
    assert [tuple(scale.shape) for scale in scales] == [(64, 1), (6,), (1,)]
    assert steps(model) == steps(plain)
    for (name, ours), theirs in zip(model.state_dict().items(), plain.state_dict().values()):
        found = ours.full_tensor() if isinstance(ours, DTensor) else ours
        assert torch.equal(found, theirs), name  # means of two equal gradients are these gradients
    loaded = made()
    loaded.load_state_dict({name: value.full_tensor() if isinstance(value, DTensor) else value
                            for name, value in model.state_dict().items()})
    q.unquantize_model(loaded, keep="quantized")


@over_ranks(2)
def test_what_is_refused_on_ranks(rank):
    quantizer = q.LearnedQuantizer(device=DEVICE)
    x = torch.randn(8, generator=torch.Generator().manual_seed(rank)).to(DEVICE)
    try:
        quantizer(x)
    except RuntimeError as error:
        assert "call start_from(x) with the same x on all ranks" in str(error)
    else:
        raise AssertionError("it began with its own input")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4)).to(DEVICE)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    fully_shard(model, mesh=init_device_mesh(DEVICE, (2,)))
    try:
        q.quantize_model(model, weight=lambda w: q.LearnedQuantizer.of(w, axis=0))
    except TypeError as error:
        assert "call quantize_model() before fully_shard()" in str(error)
    else:
        raise AssertionError("a DTensor was quantized")

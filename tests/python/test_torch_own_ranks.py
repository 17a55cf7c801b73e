# SPDX-License-Identifier: MIT
"""ptxgen.torch.Optimizer with FSDP2 over two ranks: sums of rules over whole tensors, clocks and modes."""

import copy

import ptxgen.torch as pt
import pytest
import torch
from ptxgen import optimizers
from rank_parts import DTensor, backward, close, full, init_device_mesh, model, over_ranks, sharded
from torch_parts import DEVICE, needs

pytestmark = needs("torch.distributed.fsdp.fully_shard")


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@pytest.mark.parametrize("name, settings", [
    ("lamb", {}), ("lamb", dict(max_grad_norm=0.5)), ("lars", {}), ("c_adamw", {}),
    ("schedule_free_adamw", dict(max_grad_norm=0.5))], ids=str)
@over_ranks(2)
def test_fsdp2(rank, name, settings):
    """As one optimizer over the whole model, also where a rank has no row of a parameter."""
    made, whole = sharded(init_device_mesh(DEVICE, (2,))), model()
    rule = getattr(optimizers, name)
    ours = pt.Optimizer(made.parameters(), rule, lr=0.01, weight_decay=0.1, **settings)
    theirs = pt.Optimizer(whole.parameters(), rule, lr=0.01, weight_decay=0.1, **settings)
    for seed in range(3):
        backward(made, seed)
        for p, q in zip(whole.parameters(), made.parameters()):
            p.grad = q.grad.full_tensor()
        if seed == 1 and settings:  # a skipped step leaves counts and clocks
            local(next(made.parameters()).grad)[0, 0] = float("nan")
            next(whole.parameters()).grad[0, 0] = float("nan")
        ours.step()
        theirs.step()
        ours.zero_grad()
    close(made.parameters(), whole.parameters(), 1e-6)
    empty = 0
    for p, q in zip(made.parameters(), whole.parameters()):
        empty += not local(p).numel()
        assert float(ours.state[p]["step"]) == float(theirs.state[q]["step"]) == 3 - bool(settings)
        if rule.clock:
            assert torch.equal(ours.state[p]["clock"], theirs.state[q]["clock"])
    assert bool(empty) == (rank == 1)


@over_ranks(2)
def test_without_gradients(rank):
    """A rank that has no gradient yet of a parameter, or of none, adds what it has."""
    mesh = init_device_mesh(DEVICE, (2,))
    made = sharded(mesh)
    ours = pt.Optimizer(made.parameters(), optimizers.lars, lr=0.1)
    backward(made, 1)
    params = list(made.parameters())
    kept = [p.grad for p in params]
    before = full(params)
    for k, p in enumerate(params):
        if rank == 1 or k % 2:
            p.grad = None
    ours.step()
    after = full(params)
    half = len(before[0]) // 2 + 1
    assert torch.equal(before[1], after[1]) and torch.equal(before[0][half:], after[0][half:])
    assert not torch.equal(before[0][:half], after[0][:half])
    for p, gradient in zip(params, kept):
        p.grad = gradient
    ours.step()
    assert float(ours.state[params[0]]["step"]) == 2 - rank


@over_ranks(2)
def test_modes(rank):
    """eval() of parts is the part of eval(), a checkpoint of the mode goes on from it."""
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
    mesh = init_device_mesh(DEVICE, (2,))
    made, whole = sharded(mesh), model()
    rule = optimizers.schedule_free_adamw
    ours, theirs = pt.Optimizer(made.parameters(), rule, lr=0.01), pt.Optimizer(whole.parameters(), rule, lr=0.01)
    for seed in range(2):
        backward(made, seed)
        for p, q in zip(whole.parameters(), made.parameters()):
            p.grad = q.grad.full_tensor()
        ours.step()
        theirs.step()
        ours.zero_grad()
    trained = full(made.parameters())
    ours.eval()
    theirs.eval()
    close(made.parameters(), whole.parameters(), 0)
    saved = copy.deepcopy(get_optimizer_state_dict(made, ours))
    other = sharded(mesh)
    for p, q in zip(other.parameters(), made.parameters()):
        local(p.detach()).copy_(local(q.detach()))
    again = pt.Optimizer(other.parameters(), rule, lr=0.5)
    set_optimizer_state_dict(other, again, saved)
    with pytest.raises(RuntimeError, match="step.. in eval mode"):
        again.step()
    for one, optimizer in ((made, ours), (other, again)):
        optimizer.train()
        close(one.parameters(), trained, 0)


@over_ranks(2)
def test_flattened(rank):
    """A flattened dict has counts, clocks and the rule; weights to train are no part of it in eval mode."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    mesh = init_device_mesh(DEVICE, (2,))
    made, other = sharded(mesh), sharded(mesh)
    ours = pt.Optimizer(made.parameters(), optimizers.schedule_free_adamw, lr=0.01)
    for seed in range(2):
        backward(made, seed)
        ours.step()
        ours.zero_grad()

    def dict_of():
        return copy.deepcopy(get_optimizer_state_dict(made, ours, options=options))

    again = pt.Optimizer(other.parameters(), optimizers.schedule_free_adamw, lr=0.5)
    set_optimizer_state_dict(other, again, dict_of(), options=options)
    for p, q in zip(made.parameters(), other.parameters()):
        assert set(ours.state[p]) == set(again.state[q]) and float(again.state[q]["clock"][1]) > 0
        assert all(torch.equal(local(ours.state[p][name]), local(again.state[q][name])) for name in ours.state[p])
    assert again.param_groups[0]["lr"] == 0.01
    with pytest.raises(ValueError, match="the dict is of rule schedule_free_adamw, version 1: .*, clock lr_max, clock "
                                         "weight_sum, and this optimizer has laprop, version 1: "):
        set_optimizer_state_dict(other, pt.Optimizer(other.parameters(), optimizers.laprop), dict_of(), options=options)
    ours.eval()
    with pytest.raises(ValueError, match="its group is in eval mode, and there are no train_weights among its states: "
                                         r"call train\(\) before a flattened dict is made"):
        set_optimizer_state_dict(other, again, dict_of(), options=options)

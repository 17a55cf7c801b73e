# SPDX-License-Identifier: MIT
"""What ptxgen.torch says of calls that are wrong, and that they change nothing."""

import pytest
import torch
from torch_parts import DEVICE, give, parameters, same

import ptxgen
import ptxgen.torch as pt
from ptxgen.torch import _device

SHAPES = [(8, 5), (300,)]


def one():
    return parameters(shapes=[(4,)])


@pytest.mark.parametrize("make,message", [
    (lambda: pt.AdamW(one(), max_grad_norm="1"), "max_grad_norm: '1' is not a number of at least 0"),
    (lambda: pt.AdamW(one(), max_grad_norm=-1), "max_grad_norm: -1 is not a number of at least 0"),
    (lambda: pt.Adam(one(), seed="a"), "seed: 'a' is not an integer in 0 to 2.64 - 1"),
    (lambda: pt.SGD(one(), seed=1.5), "seed: 1.5 is not an integer"),
    (lambda: pt.SGD(one(), lr="0.1"), "lr: a number is needed in each group of SGD, not '0.1'"),
    (lambda: pt.AdamW(one(), lr="0.1"), "lr: a number is needed in each group of AdamW"),
    (lambda: pt.Lion(one(), lr=None), "lr: a number is needed in each group of Lion, not None"),
    (lambda: pt.Lion(one(), betas=(0.9,)), "betas: a pair of numbers is needed in each group of Lion"),
    (lambda: pt.Lion(one(), betas=(0.9, 0.9, 0.9)), "betas: a pair of numbers"),
    (lambda: pt.Adam(one(), betas=0.9), "betas: a pair of numbers"),
    (lambda: pt.AdamW(one(), process_group=3), "process_group: 3 is no group of torch.distributed"),
    (lambda: pt.clip_grad_norm_(one(), "a"), "max_norm: a number is needed, not 'a'"),
    (lambda: pt.clip_grad_norm_(one(), 1.0, "l2"), "norm_type: a number is needed, not 'l2'"),
    (lambda: pt.get_total_norm([torch.ones(3, device=DEVICE)], None), "norm_type: a number is needed"),
    (lambda: pt.clip_grad_norm_("abc", 1.0), "iterable of tensors is needed: number 0 of these is 'a'"),
    (lambda: pt.clip_grad_norm_(3, 1.0), "a tensor or an iterable of tensors is needed, not 3"),
    (lambda: pt.clip_grad_norm_([*one(), None], 1.0), "iterable of tensors is needed: number 1 of these is None"),
    (lambda: pt.clip_grads_with_norm_("a", 1.0, torch.ones(())), "needed: number 0 of these is 'a'"),
    (lambda: pt.get_total_norm({"a": 1}), "iterable of tensors is needed: number 0 of these is 'a'"),
    (lambda: pt.clip_grads_with_norm_(one(), 1.0, 3.0), "total_norm: a tensor of one element is needed"),
    (lambda: pt.clip_grads_with_norm_(one(), 1.0, torch.ones(2)), "total_norm: a tensor of one element"),
    (lambda: pt.AdamW(one()).load_state_dict(3), "state_dict: what state_dict.. gives is needed, not 3"),
])
def test_arguments(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize("key,value,message", [
    ("lr", "abc", "lr: a number is needed in each group of AdamW, not 'abc'"),
    ("lr", float("nan"), "group 0: lr is nan"),
    ("betas", (0.9,), "betas: a pair of numbers is needed"),
    ("betas", (1.0, 0.9), "group 0: beta1 is 1"),
    ("eps", -1.0, "group 0: eps is -1"),
    ("weight_decay", None, "weight_decay: a number is needed"),
    ("amsgrad", True, "amsgrad=True is not supported: use torch.optim.AdamW"),
    ("max_grad_norm", "x", "max_grad_norm: 'x' is not a number"),
    ("max_grad_norm", -1.0, "max_grad_norm: -1.0 is not a number of at least 0"),
])
def test_settings_between_steps(key, value, message):
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2, max_grad_norm=1.0)
    give(params, 0)
    optimizer.step()
    before = [p.detach().clone() for p in params]
    where = optimizer.__dict__ if hasattr(optimizer, key) else optimizer.param_groups[0]
    good, where[key] = where[key], value
    for _ in range(2):
        with pytest.raises((ValueError, ptxgen.InvalidError), match=message):
            optimizer.step()
    assert same(params, before) and [float(s["step"]) for s in optimizer.state.values()] == [1.0, 1.0]
    where[key] = good
    optimizer.step()
    assert [float(s["step"]) for s in optimizer.state.values()] == [2.0, 2.0]


def sparse(g):
    return g.to_sparse()


def wide(g):
    return g.double()


def short(g):
    return g[:7].clone()


@pytest.mark.parametrize("change,message", [
    (sparse, r"parameter 1 \(b\) has a gradient that is sparse.*use torch.optim"),
    (wide, r"parameter 1 \(b\) has a gradient that is torch.float64"),
    (short, r"parameter 1 \(b\) of shape \(300,\).*gradient of shape \(7,\).*must agree"),
])
def test_gradients(change, message):
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2, max_grad_norm=1.0)
    optimizer.param_groups[0]["param_names"] = ["a", "b"]
    give(params, 0)
    optimizer.step()
    before = [p.detach().clone() for p in params]
    if change is sparse:
        params[1].grad = change(params[1].grad)
    else:
        params[1].grad.data = change(params[1].grad.data)
    with pytest.raises(ValueError, match=message):
        optimizer.step()
    assert same(params, before)


def test_shared_memory():
    """Views of one tensor would lose a step; side by side they do not."""
    base = torch.ones(10, device=DEVICE)
    for cut, apart in ((4, False), (6, True)):
        params = [torch.nn.Parameter(base[:6]), torch.nn.Parameter(base[cut:])]
        give(params, 0)
        optimizer = pt.SGD(params, lr=1.0)
        if apart:
            optimizer.step()
        else:
            with pytest.raises(ValueError, match="parameter 0 and parameter 1 share memory"):
                optimizer.step()
            assert torch.equal(base, torch.ones(10, device=DEVICE)) and not optimizer.state
    assert not torch.equal(base, torch.ones(10, device=DEVICE))


@pytest.mark.parametrize("other", [
    lambda: pt.AdamW(parameters(shapes=[(8, 5), (7,)]), lr=0.5),  # the second state does not fit
    lambda: pt.SGD(parameters(shapes=SHAPES), lr=0.5, momentum=0.9)])
def test_half_a_state_dict(other):
    """A state_dict() that does not fit leaves the states and settings that there were."""
    params = parameters(shapes=SHAPES)
    optimizer, other = pt.AdamW(params, lr=1e-2), other()
    for some in (optimizer, other):
        give(some.param_groups[0]["params"], 0)
        some.step()
    before = {p: {k: v.clone() for k, v in optimizer.state[p].items()} for p in params}
    with pytest.raises(ValueError, match="over the same parameters|betas: a pair of numbers is needed"):
        optimizer.load_state_dict(other.state_dict())
    assert optimizer.param_groups[0]["lr"] == 1e-2 and optimizer.param_groups[0]["params"] == params
    for p in params:
        assert all(torch.equal(optimizer.state[p][k], v) for k, v in before[p].items())
    optimizer.step()
    assert [float(s["step"]) for s in optimizer.state.values()] == [2.0, 2.0]


def test_emulate(monkeypatch):
    """Without the emulator, and with one that does not have the process's memory."""
    def none():
        raise ptxgen.NoDriverError("no usable libcuda.so.1")

    before = dict(_device._devices), dict(_device._KINDS)
    monkeypatch.setattr(_device.devices, "Device", none)
    with pytest.raises(ptxgen.InvalidError, match="python -m ptxgen emulate --device sm_90,pageable.*no usable"):
        pt.emulate()
    monkeypatch.undo()
    monkeypatch.setattr(_device, "_PAGEABLE", 0)  # no attribute
    with pytest.raises(ptxgen.InvalidError, match="python -m ptxgen emulate --device sm_90,pageable.*this is"):
        pt.emulate()
    assert (_device._devices, _device._KINDS) == before


def no_absmax(states):
    del states["exp_avg_absmax"]


def short_absmax(states):
    states["exp_avg_absmax"] = states["exp_avg_absmax"].flatten()[:-1]


def absmax_as_list(states):
    states["exp_avg_absmax"] = states["exp_avg_absmax"].flatten().tolist()


def as_list(states):
    states["exp_avg_sq"] = states["exp_avg_sq"].tolist()


def as_integers(states):
    states["exp_avg_sq"] = states["exp_avg_sq"].long()


def complex_master(states):
    states["master"] = torch.zeros(4, 1100, dtype=torch.complex64)


def no_step(states):
    del states["step"]


def steps(value):
    def change(states):
        states["step"] = value
    return change


@pytest.mark.parametrize("into", ["8bit", "float32"])
@pytest.mark.parametrize("change,message", [
    (no_absmax, "exp_avg has codes of 8 bits, and there is no exp_avg_absmax"),
    (short_absmax, "exp_avg_absmax has 17 elements, and exp_avg needs 18: one for each 256 of its 4400"),
    (absmax_as_list, "exp_avg_absmax is a list, and no tensor"),
    (as_list, "exp_avg_sq is a list, and no tensor"),
    (as_integers, "exp_avg_sq is of torch.int64"),
    (complex_master, "master is of torch.complex64"),
    (steps(torch.zeros(4)), "step is a tensor of 4 elements"),
    (steps([1.0]), "step is a list, and no number"),
    (steps(-1.0), "step is -1, which is no number of steps"),
    (steps(torch.tensor(float("nan"))), "step is nan, which is no"),
    (steps(torch.tensor([2.5])), "step is 2.5, which is no"),
    (steps(float("inf")), "step is inf, which is no"),
    (no_step, "there is no step among its states, which are exp_avg, exp_avg_absmax"),
    (None, "its states are a list, and no dict"),
])
def test_damaged_states(change, message, into):
    """A dict of which one state is damaged changes nothing, and the message names it."""
    params = parameters(torch.bfloat16, shapes=[(300,), (4, 1100)])
    optimizers = [pt.AdamW(params, lr=lr, state_dtype=name) for lr, name in ((0.5, "8bit"), (0.25, into))]
    for optimizer in optimizers:
        give(params, 0)
        optimizer.step()
    saved, optimizer = optimizers[0].state_dict(), optimizers[1]
    if change is None:
        saved["state"][1] = [saved["state"][1]["step"]]
    else:
        change(saved["state"][1])
    states = [dict(optimizer.state[p]) for p in params]
    before = [{k: v.clone() for k, v in some.items()} for some in states]
    with pytest.raises(ValueError, match="parameter 1 of group 0: " + message):
        optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.25
    for p, some, values in zip(params, states, before):
        assert all(optimizer.state[p][k] is v and torch.equal(v, values[k]) for k, v in some.items())
    give(params, 1)
    optimizer.step()
    assert [float(optimizer.state[p]["step"]) for p in params] == [2.0, 2.0]

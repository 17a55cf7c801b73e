# SPDX-License-Identifier: MIT
"""What ptxgen.torch says of calls that are wrong, and that they change nothing."""

import copy
import math
import pickle
import pydoc

import pytest
import torch
from conftest import ON_EMULATOR, python
from torch_parts import DEVICE, all_plain, give, needs, parameters, run, same

import ptxgen
import ptxgen.torch as pt
from ptxgen.torch import _device

SHAPES = [(8, 5), (300,)]


def one():
    return parameters(shapes=[(4,)])


def with_gaps():
    p = torch.nn.Parameter(torch.zeros(8, 8, device=DEVICE)[:, :4])
    p.grad = torch.zeros(8, 4, device=DEVICE)
    return pt.AdamW([p])


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
    (lambda: pt.AdamW(one()).state_dict(format="numpy"), "format"),
    (lambda: pt.AdamW(one(), amsgrad=True), "torch.optim.AdamW"),
    (lambda: pt.SGD(one(), lr=1.0, differentiable=True), "torch.optim.SGD"),
    (lambda: pt.Adam([torch.nn.Parameter(torch.zeros(3, dtype=torch.complex64, device=DEVICE))]), "torch.optim.Adam"),
    (lambda: pt.AdamW(one(), state_dtype="f8"), "state_dtype"),
    (lambda: pt.AdamW(one(), seed=-1), "seed"),
    (lambda: pt.Lion(one(), betas=(1.0, 0.9)), "beta"),
    (lambda: with_gaps().step(), "torch.optim.AdamW"),
    (lambda: pt.Muon(parameters(shapes=[(4, 4)]), adamw_eps=-1), "adamw_eps: -1 is not a number of at least 0"),
    (lambda: pt.Muon(parameters(shapes=[(4, 4)]), adamw_betas=0.9), "adamw_betas: a pair of numbers"),
    (lambda: pt.Muon(parameters(shapes=[(4, 4)]), agc=0.1), "agc is not for Muon"),
    (lambda: pt.Muon(parameters(shapes=[(4, 4)]), maximize=True), "maximize=True is not supported"),
    (lambda: pt.Muon(parameters(shapes=[(4, 4, 1, 1)]), heads=2).step(), "has 4 dimensions, and `heads` is for parameters with two"),
    (lambda: pt.Float8Weights(parameters=[*one(), 1]), "iterable of tensors is needed: number 1 of these is 1"),
    (lambda: pt.QKClip("a", torch.ones(2, device=DEVICE)), "a parameter is needed, not 'a'"),
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
    run(optimizer, params)
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


OPTIMIZERS = [pt.AdamW, pt.Adam, pt.SGD, pt.Lion]


@pytest.mark.parametrize("cls", OPTIMIZERS)
@pytest.mark.parametrize("name", ["max_gradnorm", "statedtype", "sed", "nesterv", "betas_", "foreach_"])
def test_misspelt_arguments(cls, name):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        cls(one(), **{name: None})


@pytest.mark.parametrize("cls", OPTIMIZERS)
@pytest.mark.parametrize("key,value", [("max_grad_norm", 1.0), ("max_grad_norm", None), ("seed", 3),
                                       ("process_group", None)])
def test_settings_that_groups_do_not_have(cls, key, value):
    """All groups have one norm, one seed and the same ranks."""
    message = f"{key} is in a group, and is one for all groups of an optimizer: give it to {cls.__name__}"
    with pytest.raises(ValueError, match=message):
        cls([{"params": one(), key: value}], lr=0.1)
    params = one()
    optimizer = cls(params, lr=0.1)
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({"params": one(), key: value})
    assert len(optimizer.param_groups) == 1
    run(optimizer, params)
    if key == "max_grad_norm":
        before = params[0].detach().clone()
        optimizer.param_groups[0][key] = value
        with pytest.raises(ValueError, match=message):
            optimizer.step()
        assert torch.equal(params[0], before)


def test_state_dtype_of_a_group():
    with pytest.raises(ValueError, match="state_dtype: 'f8' is none of float32, master"):
        pt.AdamW([{"params": one(), "state_dtype": "f8"}])
    params = one()
    optimizer = pt.AdamW(params)
    run(optimizer, params)
    optimizer.param_groups[0]["state_dtype"] = "f8"
    with pytest.raises(ValueError, match="state_dtype: 'f8' is none of float32, master"):
        optimizer.step()


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_what_can_be_read(cls):
    """repr() has the settings, help() what they may be."""
    shown = repr(cls([{"params": one(), "state_dtype": "bf16"}], lr=0.5, max_grad_norm=2.5, state_dtype="8bit", seed=77))
    assert shown.startswith(f"{cls.__name__} (\nParameter Group 0\n") and "\n    lr: 0.5\n" in shown
    assert "\n    state_dtype: bf16\n" in shown
    assert shown.endswith("All Groups\n    max_grad_norm: 2.5\n    seed: 77\n    state_dtype: 8bit\n)")
    text = pydoc.plain(pydoc.render_doc(cls))
    for words in ('"float32"', '"master"', '"remainder"', '"bf16"', '"8bit"', "max_grad_norm: a number",
                  "seed: an integer from 0 to 2^64 - 1", "process_group: the ranks"):
        assert words in text.split("Method resolution order")[0], words


def on_meta():
    return torch.nn.Parameter(torch.zeros(4, device="meta"))


def on_cpu():
    return torch.nn.Parameter(torch.zeros(4))


def in_f64():
    return torch.nn.Parameter(torch.zeros(4, dtype=torch.float64, device=DEVICE))


def in_f16():
    return torch.nn.Parameter(torch.zeros(4, dtype=torch.float16, device=DEVICE))


@pytest.mark.parametrize("cls", OPTIMIZERS)
@pytest.mark.parametrize("parameter,options,message", [
    (on_meta, {}, "is on meta, without memory: .*model.to_empty"),
    (on_cpu, {}, "is on the CPU: move the model to a GPU first.*ptxgen.torch.emulate()"),
    (in_f64, {}, "is in torch.float64, which ptxgen.torch.{0} does not support: use torch.optim.{0}"),
    (in_f16, {"state_dtype": "remainder"}, ": state_dtype='remainder' is not for parameters in torch.float16")])
def test_parameters_of_a_constructor(cls, parameter, options, message, monkeypatch):
    """What a step would refuse is refused before, except where nothing is trained."""
    message = message.format(cls.__name__)
    monkeypatch.setattr(_device, "_KINDS", {"cuda": _device.Cuda, **({"cpu": 0} if parameter is not on_cpu
                                                                   and DEVICE == "cpu" else {})})
    good = [] if parameter is on_cpu else one()
    with pytest.raises(ValueError, match=f"parameter {len(good)} of group 0 ?{message}"):
        cls([*good, parameter()], lr=0.1, **options)
    frozen = parameter().requires_grad_(False)
    optimizer = cls([frozen], lr=0.1, **options)
    with pytest.raises(ValueError, match="parameter 0 of group 1 ?" + message):
        optimizer.add_param_group({"params": [parameter()]})
    assert len(optimizer.param_groups) == 1


def test_help_of_muon():
    text = pydoc.plain(pydoc.render_doc(pt.Muon))
    assert "agc: adaptive" not in text and "agc: adaptive" in pydoc.plain(pydoc.render_doc(pt.AdamW))
    assert "After a step grad_norm and found_inf" in text and "agc is refused, and so is maximize" in text


def sparse(g):
    return g.to_sparse()


def wide(g):
    return g.double()


def short(g):
    return g[:7].clone()


def of_other_rows(g):
    return g.reshape(3, 100)


@pytest.mark.parametrize("change,message", [
    (sparse, r"parameter 1 \(b\) has a gradient that is sparse.*use torch.optim"),
    (wide, r"parameter 1 \(b\) has a gradient that is torch.float64"),
    (short, r"parameter 1 \(b\) of shape \(300,\).*gradient of shape \(7,\).*must agree"),
    (of_other_rows, r"parameter 1 \(b\) of shape \(300,\).*gradient of shape \(3, 100\).*must agree"),
])
def test_gradients(change, message):
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2, max_grad_norm=1.0)
    optimizer.param_groups[0]["param_names"] = ["a", "b"]
    run(optimizer, params)
    before = [p.detach().clone() for p in params]
    if change is sparse:
        params[1].grad = change(params[1].grad)
    else:
        params[1].grad.data = change(params[1].grad.data)
    with pytest.raises(ValueError, match=message):
        optimizer.step()
    assert same(params, before)


@pytest.mark.parametrize("cls", [pt.AdamW, pt.SGD])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.bool, torch.complex64])
def test_gradients_of_unusual_types(cls, dtype):
    params = parameters(shapes=SHAPES)
    optimizer = cls(params, lr=0.1)
    for call in (optimizer.step, optimizer.accumulate):
        give(params, 0)
        params[1].grad.data = params[1].grad.data.to(dtype)
        with pytest.raises(ValueError, match="parameter 1 has a gradient that is (torch.|complex).*use torch.optim"):
            call()


@pytest.mark.parametrize("step", [-5, math.nan, torch.tensor(-1.0), torch.tensor(math.nan), 0.5])
def test_counts_that_are_none(step):
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2)
    run(optimizer, params)
    optimizer.state[params[1]]["step"] = step
    give(params, 1)
    with pytest.raises(ValueError, match="parameter 1: step is .*no number of steps"):
        optimizer.step()


@pytest.mark.parametrize("key,make", [("guards", lambda: pt.Guards(limit=1e9)), ("fp8", lambda: pt.Float8Weights())])
def test_states_of_what_is_not_there(key, make):
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2, **{key: make()})
    run(optimizer, params)
    saved = optimizer.state_dict()
    with pytest.raises(ValueError, match=f"it has the state of {key}, and the optimizer has no {key}"):
        pt.AdamW(params).load_state_dict(saved)
    del saved[key]
    pt.AdamW(params).load_state_dict(saved)
    setattr(optimizer, key, 3)
    with pytest.raises(TypeError, match=f"{key}: ptxgen.torch"):
        optimizer.step()


def test_what_is_not_for_averages():
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2, ema_decay=0.5)
    run(optimizer, params)
    saved = optimizer.state_dict()
    with optimizer.ema_weights():
        for name, call in (("step", optimizer.step), ("accumulate", optimizer.accumulate),
                           ("load_state_dict", lambda: optimizer.load_state_dict(saved))):
            with pytest.raises(RuntimeError, match=name + ".. within ema_weights"):
                call()
        for copied in (copy.deepcopy, pickle.dumps):  # of averages, which it would train
            with pytest.raises(RuntimeError, match="a copy within ema_weights"):
                copied(optimizer)
    optimizer.load_state_dict(saved)


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


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_a_parameter_twice():
    """As named_parameters(remove_duplicate=False) gives weights that are tied."""
    params = one()
    give(params, 0)
    with pytest.raises(ValueError, match="parameter 1 is parameter 0 again: give the optimizer each one once, as model.param"):
        pt.SGD(params * 2, lr=0.1).step()


@pytest.mark.parametrize("of", [0, 1])
def test_gradients_in_parameters(of):
    """A step would read what it has written."""
    params = parameters(shapes=SHAPES[:1] * 2)
    before = [p.detach().clone() for p in params]
    give(params, 0)
    params[0].grad = params[of].data
    optimizer = pt.AdamW(params, lr=1e-2, ema_decay=0.9)
    with pytest.raises(ValueError, match=f"parameter {of} and grad of parameter 0 share memory: give the gradient memory"):
        optimizer.step()
    assert same(params, before) and not optimizer.state  # averages begin at the weights of the first step that is taken


@pytest.mark.parametrize("native", [True, False])
def test_gradients_that_move_into_what_steps_write(native, monkeypatch):
    """Plans that are there notice it, too, in steps and sums, and change nothing; memory beside it, and what was free
    before, they take."""
    if not native:
        all_plain(monkeypatch)
    base = torch.ones(200, device=DEVICE)
    params = [torch.nn.Parameter(base[:40].view(8, 5)), torch.nn.Parameter(base[100:130])]
    optimizer = pt.SGD(params, lr=1.0, momentum=0.9)
    run(optimizer, params)
    for call in (optimizer.step, optimizer.accumulate):
        give(params, 1)
        params[1].grad = base[65:95]
        call()
        before = base.clone()
        give(params, 1)
        for given, what in ((base[65:105].view(8, 5), "parameter 1"), (base[99:139].view(8, 5), "parameter 1"),
                            (optimizer.state[params[0]]["momentum_buffer"].detach(), "momentum_buffer of parameter 0")):
            params[0].grad = given
            for _ in range(2):
                with pytest.raises(ValueError, match=f"{what} and grad of parameter 0 share memory: give the gradient"):
                    call()
        assert torch.equal(base, before)
        params[0].grad = base[60:100].view(8, 5)
        call()
    assert float(optimizer.state[params[0]]["step"]) == 3


@pytest.mark.parametrize("state,message", [
    (lambda state, params: state[params[0]]["exp_avg_sq"], r"exp_avg\w* of parameter 0 and exp_avg\w* of parameter 0 share"),
    (lambda state, params: state[params[1]]["exp_avg"][:40].view(8, 5), "exp_avg of parameter [01] and exp_avg of parameter"),
    (lambda state, params: params[0].data, "parameter 0 and exp_avg of parameter 0 share|exp_avg of parameter 0 and parameter 0"),
    (lambda state, params: params[0].grad, "(exp_avg|grad) of parameter 0 and (exp_avg|grad) of parameter 0 share memory")])
def test_states_that_share_memory(state, message):
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=1e-2)
    run(optimizer, params)
    give(params, 1)
    own = optimizer.state[params[0]]["exp_avg"]
    optimizer.state[params[0]]["exp_avg"] = state(optimizer.state, params)
    before = [p.detach().clone() for p in params]
    with pytest.raises(ValueError, match=message + ".*memory of its own"):
        optimizer.step()
    assert same(params, before)
    optimizer.state[params[0]]["exp_avg"] = own
    params[1].grad = params[0].grad.flatten().new_ones(300)
    optimizer.step()
    assert not same(params, before)


def test_states_in_gradients():
    """Found behind another gradient within the first, and in one whose elements lie in another order; a state beside
    gradients, or between the elements of one that has gaps, is none of them."""
    base = torch.zeros(1000, device=DEVICE)
    for k, (gradients, state, shares) in enumerate([
            ([base[:300], base[8:18]], base[100:400], True), ([base[:300], base[8:18]], base[300:600], False),
            ([base[400:700], base[8:18]], base[100:400], False), ([base[399:699], base[8:18]], base[100:400], True),
            ([base[:600:2], base[700:710]], base[1:301], False)]):
        params = [torch.nn.Parameter(torch.ones(n, device=DEVICE)) for n in (300, 10)]
        optimizer = pt.SGD(params, lr=1.0, momentum=0.9)
        run(optimizer, params)
        for p, gradient in zip(params, gradients):
            p.grad = gradient
        optimizer.state[params[0]]["momentum_buffer"] = state
        if shares:
            with pytest.raises(ValueError, match="momentum_buffer of parameter 0 and grad of parameter 0 share memory"):
                optimizer.step()
        else:
            optimizer.step()
            assert float(optimizer.state[params[0]]["step"]) == 2, k
    lies = torch.nn.Parameter(torch.ones(8, 5, device=DEVICE).t())
    optimizer = pt.SGD([lies], lr=1.0, momentum=0.9)
    lies.grad = torch.zeros(8, 5, device=DEVICE).t()
    optimizer.step()
    optimizer.state[lies]["momentum_buffer"] = lies.grad.detach()
    with pytest.raises(ValueError, match="momentum_buffer of parameter 0 and grad of parameter 0 share memory"):
        optimizer.step()


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
    with pytest.raises(ValueError, match="over the same parameters|seems to be of SGD, and that of AdamW"):
        optimizer.load_state_dict(other.state_dict())
    assert optimizer.param_groups[0]["lr"] == 1e-2 and optimizer.param_groups[0]["params"] == params
    for p in params:
        assert all(torch.equal(optimizer.state[p][k], v) for k, v in before[p].items())
    optimizer.step()
    assert [float(s["step"]) for s in optimizer.state.values()] == [2.0, 2.0]


@needs("torch.optim.Optimizer.register_load_state_dict_pre_hook")
@pytest.mark.parametrize("error", [ValueError(), KeyError(1, 2), UnicodeError("of a subclass")])
def test_errors_of_hooks_stay(error):
    def hook(optimizer, state_dict):
        raise error
    params = parameters(shapes=[(4, 4)])
    optimizer = pt.SGD(params, lr=0.1)
    optimizer.register_load_state_dict_pre_hook(hook)
    with pytest.raises(type(error)) as found:
        optimizer.load_state_dict(pt.AdamW(params).state_dict())
    assert found.value is error


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


@pytest.mark.skipif(not ON_EMULATOR, reason="there is a GPU")
def test_emulate_takes_the_emulator(monkeypatch):
    """As README says: in a process that is started as any other, unless torch loads a driver in it. The processes
    are forked from one that has imported the modules, which takes 7 seconds of CPU, and has called nothing."""
    for variable in ("PTXGEN_LIBCUDA", "PTXGEN_EMU_DEVICE", "LD_PRELOAD", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(variable, raising=False)
    done = python("""
import os, traceback
import ptxgen, ptxgen.torch, torch
print('libcuda.so' in open('/proc/self/maps').read(), flush=True)
torch.optim.SGD([torch.ones(1)], lr=1)  # imports what every optimizer of torch does

def no_driver():
    try:
        ptxgen.Device()
    except ptxgen.NoDriverError:
        pass

def other_driver():
    os.environ['PTXGEN_LIBCUDA'] = '/none'

for before in (lambda: None, no_driver, other_driver):
    if os.fork() == 0:
        try:
            before()
            ptxgen.torch.emulate()
            w = torch.nn.Parameter(torch.ones(4))
            w.grad = torch.ones_like(w)
            ptxgen.torch.AdamW([w], lr=1e-3, weight_decay=0.0).step()
            print('stepped:', round(float(w[0]), 3), flush=True)
        except ptxgen.InvalidError as error:
            print('refused:', ' '.join(str(error).split()), flush=True)
        finally:
            os._exit(0)
    os.wait()
""")
    loaded, *found = done.stdout.splitlines()
    refused = "start the program by python -m ptxgen emulate"
    assert len(found) == 3, done.stderr
    for line, wanted in zip(found, ("stepped: 0.999", "stepped: 0.999", refused)):
        assert (refused if loaded == "True" else wanted) in line


def no_absmax(states):
    del states["exp_avg_absmax"]


def on_meta(states):
    states["exp_avg_sq"] = states["exp_avg_sq"].to("meta")


def step_on_meta(states):
    states["step"] = torch.zeros((), device="meta")


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
    (on_meta, "exp_avg_sq is on meta, where tensors have no numbers"),
    (step_on_meta, "step is on meta, where tensors have no numbers"),
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
        run(optimizer, params)
    saved, optimizer = optimizers[0].state_dict(), optimizers[1]
    if change is None:
        saved["state"][1] = [saved["state"][1]["step"]]
    else:
        change(saved["state"][1])
    states = [dict(optimizer.state[p]) for p in params]
    before = [{k: v.clone() for k, v in some.items()} for some in states]
    with pytest.raises(KeyError if change is no_step else ValueError,
                       match="parameter 1 of group 0: " + message):
        optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.25
    for p, some, values in zip(params, states, before):
        assert all(optimizer.state[p][k] is v and torch.equal(v, values[k]) for k, v in some.items())
    run(optimizer, params, first=1)
    assert [float(optimizer.state[p]["step"]) for p in params] == [2.0, 2.0]


@pytest.mark.parametrize("lost", [("exp_avg",), ("exp_avg_sq",), ("exp_avg", "exp_avg_sq")])
def test_codes_in_f16_without_scales(lost):
    """Nothing takes them for numbers, but where torch's own states are in f16: beside parameters in it."""
    params = parameters(torch.float32, shapes=[(4, 1100)])
    optimizer = pt.AdamW(params, lr=0.5, state_dtype="f16")
    run(optimizer, params)
    saved = optimizer.state_dict()
    for name in lost:
        del saved["state"][0][name + "_scale"]
    message = f"{lost[0]} is of torch.float16, as codes are, and there is no {lost[0]}_scale"
    for into in ("f16", "float32"):
        fresh = pt.AdamW(params, lr=0.25, state_dtype=into)
        with pytest.raises(ValueError, match=message):
            fresh.load_state_dict(saved)
        assert not fresh.state
    half = parameters(torch.float16, shapes=[(4, 1100)])
    numbers = torch.optim.AdamW(params, lr=0.5)
    numbers.step()
    saved = numbers.state_dict()
    for name in ("exp_avg", "exp_avg_sq"):
        saved["state"][0][name] = saved["state"][0][name].half()
    optimizer = pt.AdamW(half, lr=0.25)
    optimizer.load_state_dict(saved)
    assert torch.equal(optimizer.state[half[0]]["exp_avg"], saved["state"][0]["exp_avg"].float())


@pytest.mark.parametrize("cls,wrong,meant", [
    (pt.AdamW, "state_dytpe", "state_dtype"), (pt.AdamW, "weight_decya", "weight_decay"), (pt.Adam, "beta", "betas"),
    (pt.SGD, "momentun", "momentum"), (pt.Lion, "max_grad_nrom", "max_grad_norm"), (pt.SGD, "maximise", "maximize")])
def test_misspelt_keys(cls, wrong, meant):
    """Refused at construction, in a new group and in a dict; nothing changes."""
    message = f"'{wrong}' is in a group, .* is '{meant}' meant"
    first, second = parameters(shapes=[(3,), (4,)])
    with pytest.raises(ValueError, match=message):
        cls([{"params": [first], wrong: 0.5}], lr=1.0)
    optimizer = cls([first], lr=1.0)
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({"params": [second], wrong: 0.5})
    saved = optimizer.state_dict()
    saved["param_groups"][0].update({wrong: 0.5, "lr": 2.0})
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(saved)
    assert len(optimizer.param_groups) == 1 and optimizer.param_groups[0]["lr"] == 1.0


@pytest.mark.parametrize("cls", [pt.AdamW, pt.Adam, pt.SGD, pt.Lion])
def test_foreign_keys(cls):
    """Those of schedulers and of training code stay, and come back."""
    names = ("initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "lr_scale", "lr_mult", "swa",
             "name", "no_weight_decay", "layer", "step", "eps", "nesterov", "foreach", "capturable",
             "decoupled_weight_decay")
    first = parameters(shapes=[(3,)])
    others = dict.fromkeys(set(names) - set(cls(first, lr=1.0).defaults), 1)
    optimizer = cls([{"params": first, **others}], lr=1.0)
    optimizer.load_state_dict(optimizer.state_dict())
    again = copy.deepcopy(optimizer)
    assert all(again.param_groups[0][name] == 1 for name in others)

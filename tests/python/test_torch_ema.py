# SPDX-License-Identifier: MIT
"""Averages of the weights in ptxgen.torch's optimizers."""

import copy
import math
import pickle

import ptxgen.torch as pt
import pytest
import torch
from torch_parts import give, parameters, run, same

MADE = {
    "adamw": (pt.AdamW, {"lr": 1e-2}),
    "adam": (pt.Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    "sgd": (pt.SGD, {"lr": 1e-1, "momentum": 0.9}),
    "sgd, no state": (pt.SGD, {"lr": 1e-1}),
    "lion": (pt.Lion, {"lr": 1e-2}),
}


def averages(optimizer, params):
    return [optimizer.state[p]["ema"].clone() for p in params]


def moved(average, p, decay):
    """One step of an average in f32: f64 holds the sum."""
    rate = torch.tensor(1 - decay, dtype=torch.float32, device=p.device).double()
    apart = (p.detach().float() - average).double()
    return (average.double() + rate * apart).float()


@pytest.mark.parametrize("kind,dtype,state_dtype", [
    *((kind, torch.float32, "float32") for kind in MADE), ("lion", torch.float32, "8bit"),
    ("adamw", torch.bfloat16, "master"), ("adamw", torch.bfloat16, "remainder"), ("sgd", torch.bfloat16, "bf16"),
    ("adam", torch.bfloat16, "f16"), ("adamw", torch.float16, "float32"), ("adamw", torch.float16, "24bit")])
def test_an_average_follows_the_weights_as_stored(kind, dtype, state_dtype):
    cls, options = MADE[kind]
    params, plain = parameters(dtype), parameters(dtype)
    optimizer = cls(params, **options, state_dtype=state_dtype, max_grad_norm=1.0, ema_decay=0.75)
    without = cls(plain, **options, state_dtype=state_dtype, max_grad_norm=1.0)
    before = [p.detach().float().clone() for p in params]
    for step in range(2):
        run(optimizer, params, first=step)
        run(without, plain, first=step)
        after = averages(optimizer, params)
        assert same(params, plain) and same(after, [moved(e, p, 0.75) for e, p in zip(before, params)])
        before = after


@pytest.mark.parametrize("state_dtype,dtype", [("8bit", torch.float32), ("f16", torch.float32), ("24bit", torch.bfloat16)])
def test_codes_beside_an_average(state_dtype, dtype):
    """Loaded states have the codes that they have without an average, and codes stay as they are."""
    params = parameters(dtype, shapes=[(40, 256)])
    first = pt.AdamW(params, lr=1e-2, state_dtype=state_dtype)
    run(first, params)
    for saved in (first.state_dict(format="torch"), first.state_dict()):
        found = []
        for decay in (None, 0.75):
            optimizer = pt.AdamW(params, lr=1e-2, state_dtype=state_dtype, ema_decay=decay)
            optimizer.load_state_dict(saved)
            found.append(optimizer.state[params[0]])
        assert found[0]["exp_avg"].dtype is first.state[params[0]]["exp_avg"].dtype
        for name, value in found[0].items():
            assert torch.equal(found[1][name], value), name
    for name, value in found[0].items():
        assert torch.equal(first.state[params[0]][name], value), name


def test_an_average_in_bf16_is_rounded_both_ways():
    params = [torch.nn.Parameter(torch.zeros_like(parameters(shapes=[(20000,)])[0]))]
    optimizer = pt.SGD(params, lr=1.0, ema_decay=1 - 2.0 ** -12, ema_dtype="bf16", seed=5)
    params[0].grad = torch.zeros_like(params[0])
    optimizer.step()
    with torch.no_grad():
        params[0].fill_(2.0)
        optimizer.state[params[0]]["ema"].fill_(1.0)
    for _ in range(16):
        optimizer.step()
    average = optimizer.state[params[0]]["ema"]
    assert average.dtype is torch.bfloat16 and len(average.unique()) > 1  # to nearest it would stay at 1
    exact = 2 - (1 - 2.0 ** -12) ** 16
    assert float(average.double().mean()) == pytest.approx(exact, abs=6e-4)  # 5 standard errors


def test_a_group_has_its_own_decay_which_may_change():
    params = parameters()
    optimizer = pt.AdamW([{"params": params[:2]}, {"params": params[2:4], "ema_decay": 0.5},
                          {"params": params[4:], "ema_decay": None}], lr=1e-2, ema_decay=0.75)
    expected = [p.detach().clone() for p in params]
    for step, decays in enumerate([(0.75, 0.5), (0.75, 0.25), (0.0, 1.0)]):
        optimizer.ema_decay, optimizer.param_groups[1]["ema_decay"] = decays
        run(optimizer, params, first=step)
        for k in range(4):
            expected[k] = moved(expected[k], params[k], decays[k // 2])
    assert all(torch.allclose(optimizer.state[p]["ema"], e, rtol=3e-7, atol=1e-7)
               for p, e in zip(params[:4], expected))
    assert all("ema" not in optimizer.state[p] for p in params[4:])
    assert all("ema_decay" not in group for group in optimizer.state_dict()["param_groups"])


def test_a_skipped_step_and_a_missing_gradient_leave_it():
    params = parameters()
    optimizer = pt.AdamW(params, lr=1e-2, ema_decay=0.5, max_grad_norm=1.0)
    run(optimizer, params)
    before = averages(optimizer, params)
    give(params, 1)
    params[1].grad[3] = math.nan
    optimizer.step()
    assert same(averages(optimizer, params), before) and float(optimizer.found_inf) == 1
    give(params, 2)
    params[0].grad = None
    optimizer.step()
    assert torch.equal(optimizer.state[params[0]]["ema"], before[0])
    assert not torch.equal(optimizer.state[params[1]]["ema"], before[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_weights_are_their_averages_for_a_while(dtype):
    params, twins = parameters(dtype), parameters(dtype)
    ours, twin = (pt.AdamW(some, lr=1e-1, ema_decay=0.5) for some in (params, twins))
    with ours.ema_weights():  # before any step there are none
        pass
    for step in range(4):
        run(ours, params, first=step)
        run(twin, twins, first=step)
        own, there = [p.detach().clone() for p in params], averages(ours, params)
        with ours.ema_weights():
            assert same(params, [e.to(dtype) for e in there]) and not same(params, own)
            with pytest.raises(RuntimeError, match="step.. within ema_weights"):
                ours.step()
            with pytest.raises(RuntimeError, match="ema_weights.. within ema_weights"), ours.ema_weights():
                pass
        assert same(params, own) and same(params, twins)
        with pytest.raises(KeyError), ours.ema_weights():
            raise KeyError
        assert same(params, own) and same(averages(ours, params), there)
    with pytest.raises(ValueError, match="no averages of the weights: give ema_decay"):
        with pt.SGD(params, lr=1.0).ema_weights():
            pass


@pytest.mark.parametrize("ema_dtype", ["float32", "bf16"])
@pytest.mark.parametrize("how", ["state_dict", "deepcopy", "pickle"])
def test_a_copy_goes_on_with_the_same_bits(how, ema_dtype):
    options = {"lr": 1e-2, "ema_decay": 0.75, "ema_dtype": ema_dtype, "seed": 3}
    params = parameters()
    first = pt.AdamW(params, **options)
    run(first, params)
    if how == "state_dict":
        others = [torch.nn.Parameter(p.detach().clone()) for p in params]
        second = pt.AdamW(others, **options)
        second.load_state_dict(copy.deepcopy(first.state_dict()))
    else:
        others, second = (copy.deepcopy((params, first)) if how == "deepcopy" else
                          pickle.loads(pickle.dumps((params, first))))
    for step in (1, 2):
        run(first, params, first=step)
        run(second, others, first=step)
    assert same(params, others) and same(averages(first, params), averages(second, others))
    assert all(e.dtype is {"float32": torch.float32, "bf16": torch.bfloat16}[ema_dtype]
               for e in averages(second, others))


def test_dicts_with_and_without_an_average():
    params = parameters()
    first = pt.AdamW(params, lr=1e-2, ema_decay=0.75)
    run(first, params)
    assert all("ema" not in states for states in first.state_dict(format="torch")["state"].values())
    with pytest.raises(ValueError, match="parameter 0 of group 0: ema among its states.*no ema_decay"):
        pt.AdamW(parameters(), lr=1e-2).load_state_dict(first.state_dict())
    wrong = copy.deepcopy(first.state_dict())
    wrong["state"][1]["ema"] = torch.zeros(3)
    with pytest.raises(ValueError, match="parameter 1 of group 0: ema has the shape"):
        pt.AdamW(parameters(), lr=1e-2, ema_decay=0.5).load_state_dict(wrong)
    theirs = torch.optim.AdamW(params, lr=1e-2)
    run(theirs, params, first=1)
    second = pt.AdamW(params, lr=0.0, weight_decay=0.0, ema_decay=0.5)
    second.load_state_dict(theirs.state_dict())
    for group in second.param_groups:
        group["lr"], group["weight_decay"] = 0.0, 0.0
    give(params, 2)
    second.step()  # begins with the parameters, which stay
    assert same(averages(second, params), params)
    narrow = pt.AdamW(params, lr=1e-2, ema_decay=0.5, ema_dtype="bf16")
    narrow.load_state_dict(first.state_dict())
    assert all(torch.equal(narrow.state[p]["ema"], first.state[p]["ema"].bfloat16()) for p in params)


@pytest.mark.parametrize("options,words", [
    ({"ema_decay": 1.5}, "ema_decay: 1.5 is not a number from 0 to 1"),
    ({"ema_decay": -0.1}, "ema_decay: -0.1"), ({"ema_decay": math.nan}, "ema_decay: nan"),
    ({"ema_decay": True}, "ema_decay: True is not"), ({"ema_decay": "0.9"}, "ema_decay: '0.9'"),
    ({"ema_decay": torch.tensor(0.9)}, "ema_decay: tensor"),
    ({"ema_decay": 0.9, "ema_dtype": "f16"}, "ema_dtype: 'f16' is none of float32, bf16")])
def test_what_is_no_decay(options, words):
    for cls in (pt.AdamW, pt.Adam, pt.SGD, pt.Lion):
        with pytest.raises(ValueError, match=words):
            cls(parameters(), lr=1e-2, **options)
    if "ema_dtype" in options:
        with pytest.raises(ValueError, match="ema_dtype is in a group"):
            pt.SGD([{"params": parameters(), "ema_dtype": "bf16"}], lr=0.1)
        return
    with pytest.raises(ValueError, match=words):
        pt.SGD([{"params": parameters(), **options}], lr=0.1)
    optimizer = pt.SGD(parameters(), lr=0.1, ema_decay=0.5)
    optimizer.ema_decay = options["ema_decay"]
    give(optimizer.param_groups[0]["params"], 0)
    with pytest.raises(ValueError, match=words):
        optimizer.step()

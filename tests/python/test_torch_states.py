# SPDX-License-Identifier: MIT
"""Dicts of states that are of other optimizers, not complete, of bitsandbytes, and of torch.distributed.checkpoint."""

import array
import collections
import copy
import ctypes
import re
import types

import pytest
import torch
from torch_parts import DEVICE, needs, parameters, run, same

import ptxgen.optimizers
import ptxgen.torch as pt
from ptxgen._library import c

RULES = [(pt.AdamW, {}, ("step", "exp_avg", "exp_avg_sq")), (pt.Adam, {}, ("step", "exp_avg", "exp_avg_sq")),
         (pt.SGD, {"momentum": 0.9}, ("momentum_buffer",)), (pt.Lion, {}, ("step", "exp_avg"))]
SHAPES = [(300,), (4, 1100)]


def trained(cls, dtype=torch.float32, shapes=SHAPES, **options):
    params = parameters(dtype, shapes=shapes)
    optimizer = cls(params, lr=1e-2, **options)
    run(optimizer, params, 3)
    return params, optimizer


def _own_rule(params, lr):
    @ptxgen.rule(states={}, scalars={"lr": 0.1, "weight_decay": 0.0})
    def plain(p, g, lr, weight_decay):
        return p - lr * (g + weight_decay * p)
    return pt.Optimizer(params, plain, lr=lr)


def _of(name, **settings):
    def made(params, lr):
        of = getattr(torch.optim, name)(params, lr=lr)
        of.param_groups[0].update(settings)  # torch 1.13 takes less
        return of
    return made


def _mixed_muon(params, lr):
    return pt.Muon([{"params": params}, {"params": parameters(shapes=[(4,)]), "use_muon": False}], lr=lr)


@pytest.mark.parametrize("saved,loads,words", [
    (_of("SGD"), pt.AdamW, "SGD, and that of AdamW or Adam is needed: load it into ptxgen.torch.SGD, or let this .* .betas: a pair"),
    (_of("RMSprop"), pt.Lion, "RMSprop, and that of Lion is needed: load it into ptxgen.torch.Optimizer with ptxgen.optimizers.rms"),
    (_of("RMSprop", momentum=0.9), pt.Lion, ".* ptxgen.optimizers.rmsprop_momentum, or "),
    (_of("RMSprop", centered=True), pt.Lion, ".* ptxgen.optimizers.rmsprop_centered, or "),
    (_of("RMSprop", centered=True, momentum=0.9), pt.Lion, ".* ptxgen.optimizers.rmsprop_centered_momentum, or "),
    (pt.Lion, pt.SGD, "Lion, and that of SGD is needed: "), (pt.Muon, pt.AdamW, "Muon, and that of AdamW or Adam is needed: "),
    (_of("Adam"), pt.Lion, "AdamW or Adam, and that of Lion is needed: load it into ptxgen.torch.AdamW or Adam"),
    (_of("Adagrad"), pt.Muon, "Adagrad, and that of Muon is needed: "), (_own_rule, pt.SGD, "rule plain, and that of SGD is"),
    (pt.Lion, _own_rule, "Lion, and that of rule plain is needed: exp_avg|Lion, and that of rule plain is needed: parameter 0"),
    (_of("SparseAdam"), pt.SGD, "SparseAdam, and that of SGD is"), (_of("Adadelta"), _mixed_muon, "Adadelta, and that of Muon"),
    (_of("Adamax"), pt.AdamW, "Adamax, and that of AdamW or Adam is needed: load it into torch.optim.Adamax"),
    (_of("NAdam"), pt.AdamW, "NAdam, and that of AdamW or Adam is needed: .* ptxgen.optimizers.nadam, or "),
    (_of("NAdam", momentum_decay=0.01, decoupled_weight_decay=True), pt.AdamW, r".*nadam.with_options\("),
    (_of("RAdam", decoupled_weight_decay=False), pt.SGD, "RAdam, and that of SGD is needed: .* ptxgen.optimizers.radam, or .* .momentum: a"),
    (_of("RAdam", decoupled_weight_decay=True), pt.SGD, r".* ptxgen.optimizers.radam.with_options\(decoupled_weight_decay=True\), or "),
    (_of("AdamW", amsgrad=True), pt.SGD, "AdamW or Adam with amsgrad=True, and that of SGD .* ptxgen.optimizers.adamw_ams"),
    (_of("AdamW", amsgrad=True), pt.AdamW, "AdamW or Adam with amsgrad=True, and that of AdamW or Adam is needed: "),
    (_of("AdamW"), _mixed_muon, None)])
def test_dicts_of_others(saved, loads, words):
    """What they seem to be of, and what takes them, is said before what is missing; nothing where torch's two would do."""
    params = parameters(shapes=[(4, 4)])
    of = saved(params, lr=0.1)
    if not isinstance(of, torch.optim.SparseAdam):
        run(of, params)
    expected = f"^.?the dict seems to be of ({words})" if words else "give {.muon.: the"
    with pytest.raises((KeyError, ValueError), match=expected) as found:
        loads(params, lr=0.1).load_state_dict(of.state_dict())
    taker = re.search(r"with (ptxgen\.optimizers\.\w+(\.with_options\(.*?\))?), or ", str(found.value))
    if taker:
        made = pt.Optimizer(params, eval(taker[1]), lr=0.1)
        made.load_state_dict(of.state_dict())
        assert float(made.state[params[0]]["step"]) == 1


@pytest.mark.parametrize("lacks,more,names", [("decoupled_weight_decay", {}, {}), ("foreach", {"decouple": False}, {}),
                                              ("foreach", {}, {"exp_avg": "z"})])
def test_dicts_of_optimizers_that_are_not_known(lacks, more, names):
    """timm's NAdamW, ADOPT and a schedule-free AdamW have much of RAdam."""
    params = parameters(shapes=[(4, 4)])
    of = _of("RAdam", decoupled_weight_decay=False)(params, lr=0.1)
    run(of, params)
    saved = of.state_dict()
    saved["param_groups"][0].pop(lacks)
    saved["param_groups"][0].update(more)
    saved["state"][0] = {names.get(name, name): value for name, value in saved["state"][0].items()}
    with pytest.raises(ValueError, match="^momentum: a number is needed"):
        pt.SGD(params, lr=0.1).load_state_dict(saved)


@pytest.mark.parametrize("where,part,words", [
    (["state"], None, "state is of type NoneType, not dict"), (["param_groups"], {}, "param_groups is of type dict, not list"),
    (["param_groups", 0], "x", "param_groups.0. is of type str, not dict"),
    (["guards"], [1], "guards: what state_dict.. of Guards gives is needed"),
    (["param_groups", 0], {}, "param_groups.0...params.. is of type NoneType, not list"),
    (["param_groups", 0, "params", 1], [], "param_groups.0...params...1. is of type list, not int"),
    (["param_groups", 0, "amsgrad"], torch.ones(2), "param_groups.0...amsgrad.. is of type Tensor, not bool"),
    (["fp8", "largest"], "x", "fp8: what state_dict.. of Float8Weights gives is needed")])
def test_dicts_with_parts_of_wrong_types(where, part, words):
    params = parameters(shapes=SHAPES)
    optimizer = pt.AdamW(params, lr=0.1, fp8=pt.Float8Weights(), guards=pt.Guards(limit=1e9))
    run(optimizer, params)
    saved = copy.deepcopy(optimizer.state_dict())
    of = saved
    for key in where[:-1]:
        of = of[key]
    of[where[-1]] = part
    optimizer.param_groups[0]["lr"] = 0.2
    with pytest.raises((TypeError, ValueError), match=words):
        optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.2 and len(optimizer.state) == 2


@pytest.mark.parametrize("change", [
    lambda state, group: (collections.UserDict(state), (collections.UserDict(group),)),
    lambda state, group: (state, [{**group, "params": range(2)}]),
    lambda state, group: (state, [{**group, "params": array.array("q", [0, 1])}]),
    lambda state, group: ({("a", k): v for k, v in state.items()}, [{**group, "params": [("a", 0), ("a", 1)]}]),
    lambda state, group: (state, [{**group, "amsgrad": torch.tensor(False), "maximize": torch.tensor(False)}])])
def test_dicts_with_parts_of_types_like_theirs(change):
    params, optimizer = trained(pt.AdamW)
    saved = copy.deepcopy(optimizer.state_dict())
    state, groups = change(saved["state"], saved["param_groups"][0])
    again = pt.AdamW(params, lr=1e-2)
    again.load_state_dict({"state": state, "param_groups": groups})
    assert all(same(list(again.state[p].values()), list(optimizer.state[p].values())) for p in params)
    run(again, params)


@needs("torch.optim.Optimizer.register_load_state_dict_pre_hook")
@pytest.mark.parametrize("cls", [pt.AdamW, pt.Muon])
def test_hooks_that_convert(cls):
    """Parts are looked at when hooks have made them. Muon reads groups before."""
    def hook(optimizer, given):
        groups = given["param_groups"]
        groups = groups if cls is pt.Muon else list(groups.values())
        return types.MappingProxyType({"state": dict(enumerate(given["state"])), "param_groups": groups})
    params, optimizer = trained(cls, shapes=[(8, 5), (6, 7)])
    saved = copy.deepcopy(optimizer.state_dict())
    groups = saved["param_groups"]
    given = {"state": list(saved["state"].values()), "param_groups": groups if cls is pt.Muon else {"all": groups[0]}}
    again = cls(params, lr=1e-2)
    again.register_load_state_dict_pre_hook(hook)
    again.load_state_dict(given)
    assert [float(states["step"]) for states in again.state.values()] == [3, 3]
    with pytest.raises(TypeError, match="state_dict: state is of type list, not dict"):
        cls(params).load_state_dict({**saved, "state": given["state"]})


@pytest.mark.parametrize("none", [False, True])
@pytest.mark.parametrize("state_dtype", ["float32", "bf16", "8bit", "f16"])
@pytest.mark.parametrize("cls,options,key", [
    (cls, options, key) for cls, options, keys in RULES for key in keys])
def test_what_is_missing(cls, options, key, state_dtype, none):
    """A KeyError names it, in a dict or between steps, and nothing changes."""
    params, optimizer = trained(cls, state_dtype=state_dtype, **options)
    saved = optimizer.state_dict()
    if none:
        saved["state"][1][key] = None
    else:
        del saved["state"][1][key]
    before, states = [p.detach().clone() for p in params], dict(optimizer.state[params[1]])
    with pytest.raises(KeyError, match=f"parameter 1 of group 0: there is no {key} among its states"):
        optimizer.load_state_dict(saved)
    assert all(optimizer.state[params[1]][k] is v for k, v in states.items())
    if key != "momentum_buffer":  # momentum may start at any step
        del optimizer.state[params[1]][key]
        with pytest.raises(KeyError, match=f"parameter 1: there is no {key} among its states"):
            optimizer.step()
        assert same(params, before)


def test_what_may_be_missing():
    """A master and a remainder follow from the parameter, and torch's SGD counts no steps."""
    for state_dtype in ("master", "remainder"):
        params, optimizer = trained(pt.AdamW, torch.bfloat16, state_dtype=state_dtype)
        saved = optimizer.state_dict()
        del saved["state"][0][state_dtype]
        saved["state"][1][state_dtype] = None
        optimizer.load_state_dict(saved)
        run(optimizer, params, first=3)
        assert all(state_dtype in optimizer.state[p] for p in params)
    params, optimizer = trained(pt.SGD, momentum=0.9)
    saved = optimizer.state_dict()
    for states in saved["state"].values():
        del states["step"]
    optimizer.load_state_dict(saved)


@pytest.mark.parametrize("cls,options,keys", RULES)
def test_unknown_states(cls, options, keys):
    params, optimizer = trained(cls, **options)
    saved = optimizer.state_dict()
    saved["state"][1].update(mystery=torch.ones(3), max_exp_avg_sq=torch.ones(4, 1100))
    with pytest.raises(ValueError, match="parameter 1 of group 0: mystery, max_exp_avg_sq among its states.*"
                       f"has .*{keys[-1]}, and would ignore them"):
        optimizer.load_state_dict(saved)


def test_a_dict_shares_tensors():
    """As torch's: a deepcopy stays as it was."""
    params, optimizer = trained(pt.AdamW, state_dtype="8bit")
    saved = optimizer.state_dict()
    kept = copy.deepcopy(saved)
    run(optimizer, params, first=3)
    for k in range(2):
        assert saved["state"][k]["exp_avg"].data_ptr() == optimizer.state[params[k]]["exp_avg"].data_ptr()
        assert float(kept["state"][k]["step"]) == 3 and float(saved["state"][k]["step"]) == 4


def test_least_blocks():
    """A block whose maximum is below 2^-126 becomes 0."""
    p, = parameters(shapes=[(4096,)])
    for most, kept in ((2.0 ** -126, True), (2.0 ** -127, False)):
        optimizer = pt.SGD([p], lr=0.5, momentum=0.5, state_dtype="8bit")
        states = {0: {"momentum_buffer": torch.full((4096,), most)}}
        optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
        found = optimizer.state_dict(format="torch")["state"][0]["momentum_buffer"]
        assert bool(found.any()) is kept and bool((optimizer.state[p]["momentum_buffer_absmax"] != 0).any()) is kept


@pytest.mark.parametrize("cls,options,keys", RULES)
def test_states_of_no_parameter(cls, options, keys):
    """An error names the key, in a dict of bitsandbytes, too; names for keys are usual, and so is what is no dict."""
    params, optimizer = trained(cls, **options)
    saved, theirs = optimizer.state_dict(), of_bitsandbytes(optimizer._names, False)
    for given in (saved, theirs):
        for key in ("1", 2, "weight"):
            state = {0: given["state"][0], key: given["state"][1]}
            with pytest.raises(ValueError, match=f"state has the key {key!r}, .* they have 0, 1\\."):
                optimizer.load_state_dict({**given, "state": state})
    group = {**saved["param_groups"][0], "params": ["bias", "weight"]}
    state = {"bias": saved["state"][0], "weight": saved["state"][1], "global": 7}
    other = cls(parameters(shapes=SHAPES), lr=1.0, **options)
    other.load_state_dict({"state": state, "param_groups": [group]})
    assert same([other.state[p][keys[-1]] for p in other.param_groups[0]["params"]],
                [optimizer.state[p][keys[-1]] for p in params])
    assert other.state["global"] == 7
    with pytest.raises(ValueError, match="different number of parameter groups|match the size"):
        cls(parameters(shapes=SHAPES[:1]), lr=1.0, **options).load_state_dict(saved)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("codes,scale", [("8bit", "absmax"), ("f16", "scale")])
@pytest.mark.parametrize("cls,options,keys", RULES)
def test_codes_that_torch_took_for_numbers(cls, options, keys, codes, scale, dtype):
    """An absmax or a scale beside numbers: they were codes."""
    params, optimizer = trained(cls, dtype, state_dtype=codes, **options)
    saved = optimizer.state_dict()
    states = saved["state"][1]
    states[keys[-1]] = states[keys[-1]].to(dtype)  # as torch.optim's load_state_dict() does
    for state_dtype in (codes, "bf16"):
        other = cls(parameters(dtype, shapes=SHAPES), lr=1.0, state_dtype=state_dtype, **options)
        with pytest.raises(ValueError, match=rf"parameter 1 of group 0: {keys[-1]} is of {dtype}, and "
                           rf'{keys[-1]}_{scale} is beside it: .* state_dict\(format="torch"\)'):
            other.load_state_dict(saved)
        assert not other.state and other.param_groups[0]["lr"] == 1.0


# ---- bitsandbytes


def qmap(signed):
    table = (ctypes.c_float * 256)()
    c.ptx_step_map(signed, table)
    return torch.tensor(list(table), device=DEVICE)


def of_bitsandbytes(names, wrapped, shapes=SHAPES, block=256, maps=(qmap(True), qmap(False))):
    """A dict as AdamW8bit, Lion8bit and SGD8bit write it: states below 4096 elements in f32."""
    generator = torch.Generator().manual_seed(4)
    made = {}
    for p, shape in enumerate(shapes):
        states, count = {}, torch.Size(shape).numel()
        for k, _ in enumerate(names, 1):
            if count < 4096:
                states[f"state{k}"] = torch.rand(shape, generator=generator).to(DEVICE)
                continue
            states[f"state{k}"] = torch.randint(256, shape, generator=generator, dtype=torch.uint8).to(DEVICE)
            states[f"qmap{k}"] = maps[k - 1]
            states[f"absmax{k}"] = torch.rand(-(-count // block), generator=generator).to(DEVICE)
        made[p] = {"step": 7, **({"__bnb_optimizer_quant_state__": states} if wrapped else states)}
    group = {"lr": 1e-3, "betas": (0.875, 0.75), "eps": 1e-8, "weight_decay": 0.0, "params": [*range(len(shapes))]}
    return {"state": made, "param_groups": [group]}


def values_of(states, k, block=256):
    """What they stand for, by bitsandbytes' own formula."""
    codes = states[f"state{k}"]
    if codes.dtype is not torch.uint8:
        return codes
    scale = states[f"absmax{k}"].repeat_interleave(block)[:codes.numel()]
    return (states[f"qmap{k}"][codes.flatten().long()] * scale).reshape(codes.shape)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("state_dtype", ["8bit", "float32"])
@pytest.mark.parametrize("cls", [pt.AdamW, pt.Adam, pt.SGD, pt.Lion])
def test_bitsandbytes(cls, state_dtype, wrapped):
    params = parameters(shapes=SHAPES)
    optimizer = cls(params, lr=1.0, state_dtype=state_dtype)
    names = optimizer._names
    saved = of_bitsandbytes(names, wrapped)
    before = copy.deepcopy(saved)
    optimizer.load_state_dict(saved)
    for k, p in enumerate(params):
        states = saved["state"][k]
        states = states.get("__bnb_optimizer_quant_state__", states)
        assert float(optimizer.state[p]["step"]) == 7
        for n, name in enumerate(names, 1):
            ours = optimizer.state[p][name]
            if ours.dtype is torch.uint8:
                assert torch.equal(ours, states[f"state{n}"])
                assert torch.equal(optimizer.state[p][name + "_absmax"].flatten(), states[f"absmax{n}"])
            assert ours.dtype is (torch.uint8 if state_dtype == "8bit" and k else torch.float32)
            plain = optimizer.state_dict(format="torch")["state"][k][name]
            assert torch.equal(plain, values_of(states, n))
    assert optimizer.param_groups[0]["lr"] == 1e-3
    if cls is pt.SGD:
        assert optimizer.param_groups[0]["momentum"] == 0.875
    run(optimizer, params)
    assert float(optimizer.state[params[1]]["step"]) == 8
    assert saved.keys() == before.keys() and saved["state"][0].keys() == before["state"][0].keys()


def test_other_codes_of_bitsandbytes():
    """Blocks of 2048, as older versions have them, and another map: their values in f32."""
    other = torch.linspace(-1, 1, 256, device=DEVICE)
    for block, maps in ((2048, (qmap(True), qmap(False))), (256, (other, other.abs()))):
        params = parameters(shapes=SHAPES)
        optimizer = pt.AdamW(params, state_dtype="8bit")
        saved = of_bitsandbytes(optimizer._names, False, block=block, maps=maps)
        for state_dtype in ("float32", "8bit"):
            optimizer = pt.AdamW(params, state_dtype=state_dtype)
            optimizer.load_state_dict(saved)
            plain = optimizer.state_dict(format="torch")["state"][1]
            for n, name in enumerate(optimizer._names, 1):
                wanted = values_of(saved["state"][1], n, block)
                near = 0.0 if state_dtype == "float32" else 0.02
                assert float((plain[name] - wanted).abs().max()) <= near


@pytest.mark.parametrize("change,error,message", [
    (lambda s: s.update(max1=torch.ones(1), new_max1=torch.ones(1)), ValueError, "state1 .*block_wise=False"),
    (lambda s: s.update(gnorm_vec=torch.ones(100)), ValueError, "gnorm_vec of bitsandbytes: nothing here"),
    (lambda s: s.update(state3=torch.ones(100)), ValueError, "state3 of bitsandbytes: nothing here"),
    (lambda s: s.pop("state2"), KeyError, "there is no state2"),
    (lambda s: s.pop("absmax1"), KeyError, "there is no absmax1"),
    (lambda s: s.pop("qmap2"), KeyError, "there is no qmap2"),
    (lambda s: s.pop("step"), KeyError, "there is no step"),
    (lambda s: s.update(absmax2=torch.ones(5)), ValueError, "4400 codes, absmax2 5 elements, qmap2 256"),
    (lambda s: s.update(qmap1=[1.0]), ValueError, "qmap1 of bitsandbytes is no tensor of f32"),
    (lambda s: s.update(state1=s["state1"][:2]), ValueError, "2200 codes"),
])
def test_damaged_bitsandbytes(change, error, message):
    optimizer = pt.AdamW(parameters(shapes=SHAPES), state_dtype="8bit")
    saved = of_bitsandbytes(optimizer._names, False)
    change(saved["state"][1])
    with pytest.raises(error, match="parameter 1 of group 0: .*" + message):
        optimizer.load_state_dict(saved)
    assert not optimizer.state and optimizer.param_groups[0]["lr"] == 1e-3


# ---- torch.distributed.checkpoint


@pytest.fixture(scope="module")
def one_rank():
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh(DEVICE, (1,))
    dist.destroy_process_group()


def layer(mesh, dtype):
    """A model, of DTensors where there is a mesh."""
    torch.manual_seed(1)
    model = torch.nn.Linear(256, 32).to(dtype).to(DEVICE)
    if mesh:
        from torch.distributed.tensor import Shard, distribute_tensor
        for name, p in list(model.named_parameters()):
            setattr(model, name, torch.nn.Parameter(distribute_tensor(p.detach(), mesh, [Shard(0)])))
    return model


def train(model, optimizer):
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
            g = torch.randn(local(p).shape, generator=generator)
            local(p.grad).copy_(g)
        optimizer.step()
        optimizer.zero_grad()


def local(value):
    return getattr(value, "_local_tensor", value)


@needs("torch.distributed.fsdp.fully_shard")
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("dtype,state_dtype,error", [
    (torch.float32, "float32", None), (torch.float32, "remainder", None), (torch.float32, "bf16", None),
    (torch.float32, "8bit", "is stored as torch.float32, and the tensor to read it into is torch.uint8"),
    (torch.float32, "f16", "is stored as torch.float32, and the tensor to read it into is torch.float16"),
    (torch.bfloat16, "bf16", None),
    (torch.bfloat16, "float32", "Missing key .*master"), (torch.bfloat16, "remainder", "Missing key .*remainder"),
    (torch.bfloat16, "8bit", "is stored as torch.bfloat16, and the tensor to read it into is torch.uint8")])
def test_checkpoint_of_torch(one_rank, tmp_path, dtype, state_dtype, error, cut):
    """It comes in, or the error names the way, which this test goes."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

    def loaded(model, optimizer):
        state = {"optimizer": get_optimizer_state_dict(model, optimizer)}
        dcp.load(state, checkpoint_id=tmp_path)
        set_optimizer_state_dict(model, optimizer, state["optimizer"])

    mesh = one_rank if cut else None
    model = layer(mesh, dtype)
    theirs = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, theirs)
    dcp.save({"optimizer": get_optimizer_state_dict(model, theirs)}, checkpoint_id=tmp_path)
    other = layer(mesh, dtype)
    ours = pt.AdamW(other.parameters(), lr=1.0, state_dtype=state_dtype)
    if error is None:
        loaded(other, ours)
    else:
        with pytest.raises(BaseException, match=error + r"[\s\S]*such as torch.optim's over the same parameters"):
            loaded(other, ours)
        between = torch.optim.AdamW(other.parameters())
        loaded(other, between)
        ours.load_state_dict(between.state_dict())
    found = ours.state_dict(format="torch")["state"]
    for k, p in enumerate(model.parameters()):
        assert float(found[k]["step"]) == 2
        for name in ("exp_avg", "exp_avg_sq"):
            wanted = local(theirs.state[p][name]).float()
            near = {"8bit": 0.02, "bf16": 2.0 ** -8, "f16": 2.0 ** -10}.get(state_dtype, 0.0) * float(wanted.abs().max())
            assert float((local(found[k][name]) - wanted).abs().max()) <= near


@needs("torch.distributed.fsdp.fully_shard")
def test_codes_read_as_numbers(one_rank, tmp_path):
    """Also where whoever reads allows that something is missing."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
    for first, second in (("8bit", "float32"), ("float32", "8bit"), ("f16", "float32"), ("float32", "f16")):
        model = layer(None, torch.float32)
        saved, read = (pt.AdamW(model.parameters(), state_dtype=name) for name in (first, second))
        train(model, saved)
        dcp.save({"optimizer": get_optimizer_state_dict(model, saved)}, checkpoint_id=tmp_path / first)
        with pytest.raises(BaseException, match=r"torch.(uint8|float16)[\s\S]*load_state_dict\(\) of this one"):
            dcp.load({"optimizer": get_optimizer_state_dict(model, read)}, checkpoint_id=tmp_path / first,
                     planner=DefaultLoadPlanner(allow_partial_load=True))
    theirs = torch.optim.AdamW(model.parameters())
    with pytest.raises(BaseException, match=r'torch.uint8[\s\S]*save that[\s\S]*state_dict\(format="torch"\) to torch'):
        dcp.load({"optimizer": get_optimizer_state_dict(model, theirs)}, checkpoint_id=tmp_path / "8bit")


@needs("torch.distributed.fsdp.fully_shard")
def test_other_errors_of_checkpoints(one_rank, tmp_path):
    """They are torch's own."""
    import torch.distributed.checkpoint as dcp
    pt.AdamW(layer(None, torch.float32).parameters()).state_dict()
    dcp.save({"model": {"a": torch.ones(2)}}, checkpoint_id=tmp_path)
    with pytest.raises(BaseException, match="Missing key .*model.b") as caught:
        dcp.load({"model": {"b": torch.ones(2)}}, checkpoint_id=tmp_path)
    assert "torch.optim" not in str(caught.value)


@needs("torch.distributed.fsdp.fully_shard")
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("state_dtype", ["remainder", "master", "8bit", "f16"])
def test_full_state_dict(one_rank, state_dtype, cut):
    """Gathered and distributed again: the same bits. test_torch_ranks.py has two ranks."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict)
    mesh = one_rank if cut else None
    model, other = (layer(mesh, torch.bfloat16) for _ in range(2))
    optimizers = [pt.AdamW(m.parameters(), lr=1e-2, state_dtype=state_dtype, seed=3) for m in (model, other)]
    train(model, optimizers[0])
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    whole = get_optimizer_state_dict(model, optimizers[0], options=options)
    other.load_state_dict(model.state_dict())
    set_optimizer_state_dict(other, optimizers[1], whole, options=StateDictOptions(
        full_state_dict=True, broadcast_from_rank0=True))
    for p, q in zip(model.parameters(), other.parameters()):
        for name, value in optimizers[0].state[p].items():
            assert torch.equal(local(optimizers[1].state[q][name]), local(value)), name
    for m, optimizer in zip((model, other), optimizers):
        train(m, optimizer)
    assert same(map(local, model.parameters()), map(local, other.parameters()))
    kept = optimizers[1].state[other.weight].get("remainder")
    assert state_dtype != "remainder" or kept is not None and bool(local(kept).any())

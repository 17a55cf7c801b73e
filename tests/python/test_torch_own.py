# SPDX-License-Identifier: MIT
"""ptxgen.torch.Optimizer: a rule of one's own with all that the library's optimizers have."""

import copy
import inspect
import pickle

import ptxgen
import ptxgen.torch as pt
import pytest
import torch
from ptxgen import optimizers, rules
from ptxgen.torch import _formats
from test_torch_states import layer, local, one_rank, train  # noqa: F401: a fixture
from torch_parts import DEVICE, SHAPES, copies, give, needs, parameters, run, same


def _adam(p, g, m, v, t, lr, betas, eps):
    b1, b2 = map(ptxgen.f32, betas)
    m = ptxgen.fma(b1, m, ptxgen.fma(-b1, g, g))
    gg = g * g
    v = ptxgen.fma(b2, v, ptxgen.fma(-b2, gg, gg))
    step = ptxgen.f32(lr) / ptxgen.f32(1 - b1 ** t)
    return p - step * m / (ptxgen.sqrt(v) / ptxgen.sqrt(1 - b2 ** t) + eps), m, v


@ptxgen.rule(states=dict(exp_avg="signed", exp_avg_sq="positive"),
             scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01))
def my_adamw(p, g, exp_avg, exp_avg_sq, t, lr, betas, eps, weight_decay):
    p = ptxgen.fma(-(ptxgen.f32(lr) * ptxgen.f32(weight_decay)), p, p)
    return _adam(p, g, exp_avg, exp_avg_sq, t, lr, betas, eps)


@ptxgen.rule(states=dict(speed="signed", size="positive"), clock=dict(product=1.0),
             scalars=dict(lr=0.01, drag=(0.9, 0.5, 0.25)))
def clocked(p, g, speed, size, product, lr, drag):
    product = product * drag[0]
    speed = drag[1] * speed + g
    size = drag[2] * size + g * g
    return p - lr / (1 - product) * speed / (ptxgen.sqrt(size) + 1e-3), speed, size, product


@ptxgen.rule(states=dict(slow=ptxgen.State("weight", start="p")), scalars=dict(lr=0.1))
def lookahead(p, g, slow, lr):
    p = p - lr * g
    return p, 0.5 * slow + 0.5 * p


def pair(dtype=torch.float32, rule=my_adamw, **settings):
    """The library's AdamW and the rule's, over equal parameters."""
    one, other = parameters(dtype), parameters(dtype)
    return (pt.AdamW(one, **settings), one), (pt.Optimizer(other, rule, **settings), other)


FORMATS = [(torch.float32, "float32"), (torch.float32, "8bit"), (torch.float32, "bf16"), (torch.bfloat16, "master"),
           (torch.bfloat16, "bf16"), (torch.bfloat16, "remainder"), (torch.bfloat16, "8bit"), (torch.bfloat16, "f16"),
           (torch.float32, "f16"), (torch.float16, "master"), (torch.float16, "bf16"), (torch.float16, "8bit"),
           (torch.float16, "f16")]


@pytest.mark.parametrize("k", range(len(FORMATS)))
def test_bits(k):
    dtype, state_dtype = FORMATS[k]
    (theirs, one), (ours, other) = pair(dtype, state_dtype=state_dtype, max_grad_norm=0.5, lr=0.01, seed=3)
    run(theirs, one, 3)
    run(ours, other, 3)
    assert same(one, other) and float(theirs.grad_norm) == float(ours.grad_norm)
    for p, q in zip(one, other):
        first, second = theirs.state[p], ours.state[q]
        assert set(first) == set(second)
        assert all(torch.equal(first[name], second[name]) for name in first)


def test_groups_and_schedulers():
    """Settings of groups, and what a scheduler makes of them."""
    made = []
    for build in (pt.AdamW, lambda groups, **how: pt.Optimizer(groups, my_adamw, **how)):
        params = parameters()
        optimizer = build([{"params": params[:3], "betas": (0.5, 0.75)}, {"params": params[3:], "weight_decay": 0.0}],
                          lr=0.1, maximize=True, ema_decay=0.5)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[0.1, 0.2], total_steps=9)
        for k in range(4):
            run(optimizer, params, first=k)
            scheduler.step()
        made.append((params, [optimizer.state[p]["ema"] for p in params]))
    assert same(made[0][0], made[1][0]) and same(made[0][1], made[1][1])


def test_tensors_and_schedulers():
    """A rate and betas that are tensors, and what schedulers make of them."""
    made = []
    for build in (pt.AdamW, lambda params, **how: pt.Optimizer(params, my_adamw, **how)):
        params = parameters()
        optimizer = build(params, lr=torch.tensor(0.5, device=DEVICE))
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.25)
        for k in range(3):
            optimizer.param_groups[0]["betas"] = (torch.tensor(0.5), torch.tensor(0.75 + 0.0625 * k, device=DEVICE))
            run(optimizer, params, first=k)
            scheduler.step()
        made.append(params)
    assert same(*made)
    theirs, params = made[0], parameters()
    plain = pt.AdamW(params, lr=0.5)
    for k in range(3):
        plain.param_groups[0].update(lr=0.5 * 0.25 ** k, betas=(0.5, 0.75 + 0.0625 * k))
        run(plain, params, first=k)
    assert same(theirs, params)


def test_describe():
    params = parameters()
    optimizer = pt.Optimizer(params, my_adamw)
    assert optimizer.describe() == ()
    run(optimizer, params)
    (found,) = optimizer.describe()
    assert found.elements == sum(p.numel() for p in params) and found.registers > 0 and found.warning is None


def test_rate_on_the_device():
    (theirs, one), (ours, other) = pair()
    for optimizer in (theirs, ours):
        optimizer.param_groups[0]["lr"] = torch.tensor(0.25, device=DEVICE)
    run(theirs, one, 2)
    run(ours, other, 2)
    assert same(one, other)


@pytest.mark.parametrize("rule", [my_adamw, clocked, optimizers.nadam, optimizers.schedule_free_sgd],
                         ids=lambda rule: rule.name)
def test_counts_that_part(rule):
    """Each parameter has a count and a clock of its own: equal ones part where a gradient is missing, a dict has
    different ones, and a step that finds infinity advances none. The bits are those of reference()."""
    numpy = pytest.importorskip("numpy")
    params = parameters()
    known = [[p.detach().clone().cpu().numpy(), {name: numpy.zeros(tuple(p.shape), numpy.float32) for name in rule.states}, None, 0]
             for p in params]
    optimizer = pt.Optimizer(params, rule, lr=0.01, max_grad_norm=1e30)
    for k in range(7):
        give(params, k)
        if k == 2:
            params[1].grad = None
        if k == 4:
            params[0].grad.fill_(float("inf"))
        if k == 5:
            again = [torch.nn.Parameter(p.detach().clone()) for p in params]
            for p, q in zip(params, again):
                q.grad = p.grad
            saved, params = optimizer.state_dict(), again
            optimizer = pt.Optimizer(params, rule, lr=0.5, max_grad_norm=1e30)
            optimizer.load_state_dict(saved)
        optimizer.step()
        for p, one in zip(params, known):
            if p.grad is not None and k != 4:
                one[3] += 1
                one[:3] = rule.reference()(one[0], p.grad.cpu().numpy(), one[1], one[3], {"lr": 0.01}, one[2])
    assert [float(optimizer.state[p]["step"]) for p in params] == [one[3] for one in known] == [6.0, 5.0, *[6.0] * (len(params) - 2)]
    for p, (value, states, clock, _) in zip(params, known):
        assert torch.equal(p.detach().cpu(), torch.from_numpy(value).reshape(p.shape))
        for name, state in states.items():
            assert torch.equal(optimizer.state[p][name].cpu(), torch.from_numpy(state).reshape(p.shape)), name
        if clock:
            assert optimizer.state[p]["clock"].tolist() == list(clock.values())
    assert len({optimizer.state[p]["step"].data_ptr() for p in params}) == len(params)


@needs("torch.amp.GradScaler")
@pytest.mark.parametrize("scaler_of", ["ptxgen", "torch"])
def test_scaler_and_guards(scaler_of):
    """A step that finds infinity changes nothing, the numbers of the clock included."""
    params = parameters()
    scaler = (pt.GradScaler if scaler_of == "ptxgen" else torch.amp.GradScaler)(DEVICE, init_scale=8.0)
    optimizer = pt.Optimizer(params, clocked, max_grad_norm=1.0, guards=pt.Guards(limit=1e4), reports=True)
    for k in range(4):
        give(params, k, scale=8.0)
        scaler.scale(torch.ones((), device=DEVICE))
        if k == 2:
            params[0].grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
    state = optimizer.state[params[0]]
    assert float(state["step"]) == 3 and state["clock"].tolist() == [0.9 * 0.9 * 0.9]
    assert state["clock"].data_ptr() == state["step"].data_ptr() + 8
    assert optimizer.report() is not None and float(optimizer.skipped) == 0
    run(optimizer, params, first=9, scale=1e6)
    assert float(optimizer.skipped) != 0 and float(state["step"]) == 3 and state["clock"].tolist() == [0.9 * 0.9 * 0.9]


@pytest.mark.parametrize("rule", [my_adamw, clocked, lookahead], ids=lambda rule: rule.name)
def test_states_go_on(rule):
    params = parameters()
    optimizer = pt.Optimizer(params, rule)
    run(optimizer, params, 2)
    others = list(copies(optimizer, params))
    run(optimizer, params, 2, 2)
    for mine, other in others:
        run(other, mine, 2, 2)
        assert same(params, mine)
        for p, q in zip(params, mine):
            assert all(torch.equal(optimizer.state[p][name], other.state[q][name]) for name in optimizer.state[p])


def test_formats_change():
    """States of f32 become codes, of the map that their kind says, and come back."""
    params = parameters(shapes=[(5000,)])
    optimizer = pt.Optimizer(params, clocked)
    run(optimizer, params, 2)
    size, clock = optimizer.state[params[0]]["size"].clone(), optimizer.state[params[0]]["clock"].clone()
    coded = pt.Optimizer(params, clocked, state_dtype="8bit")
    coded.load_state_dict(optimizer.state_dict())
    state = coded.state[params[0]]
    assert state["size"].dtype is torch.uint8 and state["size_absmax"].numel() == 20
    scale = state["size_absmax"].repeat_interleave(256)[:5000]
    decoded = _formats.map_of(False, scale.device)[state["size"].long()] * scale
    assert float((decoded - size).abs().max()) < 0.1 * float(size.max())
    run(coded, params, first=2)
    again = pt.Optimizer(params, clocked)
    again.load_state_dict(coded.state_dict())
    assert again.state[params[0]]["size"].dtype is torch.float32
    back = pt.Optimizer(params, clocked)
    back.load_state_dict(optimizer.state_dict())
    assert torch.equal(back.state[params[0]]["size"], size) and torch.equal(back.state[params[0]]["clock"], clock)
    plain = optimizer.state_dict(format="torch")["state"][0]
    assert set(plain) == {"step", "product", "speed", "size"} and float(plain["product"]) == float(clock[0])
    again.load_state_dict(optimizer.state_dict(format="torch"))
    assert torch.equal(again.state[params[0]]["clock"], clock)
    wrong = optimizer.state_dict(format="torch")
    wrong["state"][0]["product"] = torch.ones(3)
    with pytest.raises(ValueError, match="product among the states: a number each is needed"):
        again.load_state_dict(wrong)


@pytest.mark.parametrize("dtype, first, second", [
    (torch.float32, "bf16", "f16"), (torch.float32, "f16", "8bit"), (torch.bfloat16, "master", "remainder"),
    (torch.bfloat16, "remainder", "f16"), (torch.bfloat16, "8bit", "master"), (torch.float16, "master", "8bit")], ids=str)
def test_states_in_other_formats(dtype, first, second):
    """What is saved in one format comes in in another one: what the other can hold, stays; so do counts and clocks."""
    params, others = parameters(dtype, [(5000,)]), parameters(dtype, [(5000,)])
    saved = pt.Optimizer(params, clocked, state_dtype=first)
    run(saved, params, 2)
    ours = pt.Optimizer(others, clocked, state_dtype=second)
    ours.load_state_dict(saved.state_dict())
    with torch.no_grad():
        others[0].copy_(params[0])
    before, after = (one.state_dict(format="torch")["state"][0] for one in (saved, ours))
    for name, kind in (("speed", "signed"), ("size", "positive")):
        most = {"8bit": 0.02, "f16": 1e-3}.get(second, 0) * float(before[name].abs().max())
        if kind == "positive" and second == "8bit":
            assert float(after[name].min()) >= 0
        assert float((before[name] - after[name]).abs().max()) <= most, name
    assert float(after["step"]) == 2 and float(after["product"]) == 0.9 * 0.9
    run(saved, params, first=2)
    run(ours, others, first=2)
    assert float(ours.state[others[0]]["clock"][0]) == 0.9 * 0.9 * 0.9
    assert float((params[0].detach().float() - others[0].detach().float()).abs().mean()) < 0.01


def test_dicts_of_others():
    params = parameters()
    optimizer = pt.Optimizer(params, clocked)
    run(optimizer, params)
    saved = optimizer.state_dict()
    assert saved["rule"]["name"] == "clocked" and len(saved["rule"]["digest"]) == 16
    with pytest.raises(ValueError, match="the dict is of rule clocked, version 1, and this optimizer has my_adamw"):
        pt.Optimizer(parameters(), my_adamw).load_state_dict(saved)
    for name, words in (("clock", "there is no clock among its states"), ("size", "there is no size among its states")):
        wrong = copy.deepcopy(saved)
        del wrong["state"][1][name]
        with pytest.raises(KeyError, match=f"parameter 1 of group 0: {words}"):
            optimizer.load_state_dict(wrong)
    wrong = copy.deepcopy(saved)
    wrong["state"][0]["clock"] = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(ValueError, match="clock has 2 elements, and the rule has 1"):
        optimizer.load_state_dict(wrong)
    ours, theirs = pt.Optimizer(parameters(), my_adamw), torch.optim.AdamW(parameters(), foreach=False)
    run(theirs, theirs.param_groups[0]["params"], 1)
    ours.load_state_dict(theirs.state_dict())  # which has no rule
    assert torch.equal(ours.state[ours.param_groups[0]["params"][0]]["exp_avg"],
                       theirs.state[theirs.param_groups[0]["params"][0]]["exp_avg"])


def variant(version=1, kinds=("signed", "positive"), **how):
    def named(p, g, a, b, lr, **clock):
        return (p - lr * g, a, b, *clock.values())
    named.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
                                             for name in ("p", "g", "a", "b", "lr", *how.get("clock", ()))])
    return ptxgen.rule(states=dict(zip("ab", kinds)), scalars=dict(lr=0.1), version=version, **how)(named)


def test_identity():
    """Name, version, states with kinds and numbers of the clock; not the expression."""
    params = parameters()
    optimizer = pt.Optimizer(params, variant())
    run(optimizer, params)
    saved = optimizer.state_dict()
    pt.Optimizer(params, variant()).load_state_dict(saved)
    for other, words in ((variant(2), r"version 1, and this optimizer has named, version 2: its version is 1, not 2"),
                         (variant(kinds=("signed", "signed")), r"its states is {'a': 'signed', 'b': 'positive'}, not {'a': "
                                                               r"'signed', 'b': 'signed'}"),
                         (variant(clock=dict(n=0.0)), r"its clock is \[\], not \['n'\]")):
        with pytest.raises(ValueError, match=words):
            pt.Optimizer(params, other).load_state_dict(saved)
    assert saved["param_groups"][0]["rule"] == "named, version 1: a signed, b positive"
    assert "    rule: named, version 1: a signed, b positive\n" in repr(optimizer)
    assert optimizer.param_groups[0]["rule"] == saved["param_groups"][0]["rule"]
    assert "rule" not in optimizer.state_dict(format="torch")["param_groups"][0]
    with pytest.raises(ValueError, match="rule is 'another' in a group, and this optimizer has named, version 1: a signed"):
        pt.Optimizer([{"params": params, "rule": "another"}], variant())
    saved["rule"]["digest"] = "another"
    pt.Optimizer(params, variant()).load_state_dict(saved)


def optional(**options):
    def named(p, g, a, lr, twice, way):
        return p - (2 if twice else 1) * lr * g, a + g

    made = ptxgen.rule(states=dict(a="signed"), scalars=dict(lr=0.1), options=dict(twice=False, way="up"))(named)
    return made.with_options(**options) if options else made


def test_options():
    """A dict knows the options of its rule, in its identity and in each group; another option is refused by its name."""
    params, others = parameters(), parameters()
    optimizer = pt.Optimizer(params, optional(twice=True))
    assert optional().identity["options"] == {"twice": False, "way": "up"}
    run(optimizer, params)
    saved = optimizer.state_dict()
    assert saved["rule"]["options"] == {"twice": True, "way": "up"}
    assert saved["param_groups"][0]["twice"] is True and saved["param_groups"][0]["way"] == "up"
    for rule, words in ((optional(), r"rule named with twice=True, and this optimizer's has twice=False: take rule.with_options\(twice"),
                        (optional(twice=True, way="down"), "with way='up', and this optimizer's has way='down'"),
                        (ptxgen.rule(name="named", states=dict(a="signed"), scalars=dict(lr=0.1))(lambda p, a, lr: (p, a)),
                         "rule named with twice=True, and this optimizer's has no such option")):
        again = pt.Optimizer(others, rule)
        with pytest.raises(ValueError, match=words):
            again.load_state_dict(copy.deepcopy(saved))
        assert not again.state
    # A flattened dict has the groups alone, and a dict of before has no options.
    of_groups = {name: value for name, value in copy.deepcopy(saved).items() if name != "rule"}
    with pytest.raises(ValueError, match="twice is True in a group, and rule named is that of twice=False"):
        pt.Optimizer(others, optional()).load_state_dict(copy.deepcopy(of_groups))
    del of_groups["param_groups"][0]["twice"]
    for kept in (saved, of_groups, pickle.loads(pickle.dumps(saved))):
        again = pt.Optimizer(others, optional(twice=True))
        again.load_state_dict(kept)
        assert again.param_groups[0]["twice"] is True
        assert torch.equal(again.state[others[0]]["a"], optimizer.state[params[0]]["a"])
    for made in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert made.param_groups[0]["twice"] is True and made.rule.options == {"twice": True, "way": "up"}
    with pytest.raises(ValueError, match="twice is True in a group, and rule named is that of twice=False: .*rule.with_options"):
        pt.Optimizer([{"params": others, "twice": True}], optional())
    optimizer.param_groups[0]["twice"] = False
    with pytest.raises(ValueError, match="twice is False in a group, and rule named is that of twice=True"):
        run(optimizer, params)


AGAINST = [  # what torch's optimizer has set, a rule that does otherwise, and its key
    ("Adam", dict(amsgrad=True), optimizers.adamw_amsgrad, "decoupled_weight_decay"),
    ("AdamW", dict(amsgrad=True), optimizers.adam_amsgrad, "decoupled_weight_decay"),
    ("Adam", {}, optimizers.adam_amsgrad, "amsgrad"),
    ("AdamW", dict(amsgrad=True), optimizers.cwd_adamw, "amsgrad"),
    ("RAdam", dict(decoupled_weight_decay=True), optimizers.radam, "decoupled_weight_decay"),
    ("RAdam", {}, optimizers.radam.with_options(decoupled_weight_decay=True), "decoupled_weight_decay"),
    ("NAdam", dict(momentum_decay=0.5), optimizers.nadam, "momentum_decay"),
    ("RMSprop", dict(momentum=0.5), optimizers.rmsprop, "momentum"),
    ("RMSprop", dict(centered=True), optimizers.rmsprop, "centered"),
    ("RMSprop", {}, optimizers.rmsprop_centered, "centered"),
    ("SGD", dict(nesterov=True, momentum=0.9), optimizers.lars, "nesterov"),
]


@needs("torch.optim.NAdam")
@pytest.mark.parametrize("k", range(len(AGAINST)))
def test_dicts_of_other_options(k):
    """A dict of torch's whose options are not the rule's is refused by the option's name, and so is a group."""
    theirs, settings, rule, key = AGAINST[k]
    params = parameters()
    try:
        made = getattr(torch.optim, theirs)(params, lr=0.01, foreach=False, **settings)
    except TypeError:  # an older torch: its dict as a newer one writes it
        made = getattr(torch.optim, theirs)(params, lr=0.01)
    run(made, params)
    group = made.param_groups[0]
    if key not in group:
        group.update({key: theirs == "AdamW" and key == "decoupled_weight_decay", **settings})
    ours = pt.Optimizer(params, rule)
    with pytest.raises(ValueError, match=f"{key} is .* in a group, and rule {rule.name} "):
        ours.load_state_dict(made.state_dict())
    assert ours.param_groups[0].get(key) == rule.options.get(key) and not ours.state
    wrong = {"params": parameters(), key: group[key]}
    with pytest.raises(ValueError, match=f"{key} is .* in a group, and rule {rule.name} "):
        pt.Optimizer([wrong], rule)
    with pytest.raises(ValueError, match=f"{key} is .* in a group, and rule {rule.name} "):
        ours.add_param_group(wrong)
    assert len(ours.param_groups) == 1


def test_functions_of_torch():
    with pytest.raises(ptxgen.InvalidError, match="torch.sqrt of a traced value: write ptxgen.sqrt"):
        ptxgen.rule(states={}, scalars=dict(lr=0.1), name="mine")(lambda p, g, lr: p - lr * torch.sqrt(g))
    with pytest.raises(ptxgen.InvalidError, match="torch.clamp of a traced value: write ptxgen.minimum"):
        ptxgen.rule(states={}, scalars=dict(lr=0.1), name="mine")(lambda p, g, lr: p - lr * torch.clamp(g, 0))


    for function in (lambda p, g, lr: p - torch.tensor(2.0) * g, lambda p, g, lr: p - g * torch.tensor(2.0),
                     lambda p, g, lr: p - g * torch.tensor([2.0])):
        with pytest.raises(ptxgen.InvalidError, match=r"a tensor beside a traced value: float\(x\) is a tensor's number"):
            ptxgen.rule(states={}, scalars=dict(lr=0.1), name="mine")(function)
    with pytest.raises(ptxgen.InvalidError, match="torch.norm of a traced value: a rule sees one element; sums over its tensor"):
        ptxgen.rule(states={}, scalars=dict(lr=0.1), name="mine")(lambda p, g, lr: p - torch.norm(g))


def test_misuse():
    params = parameters()
    with pytest.raises(KeyError, match="state_dict: there is no param_groups in it"):
        pt.Optimizer(params, my_adamw).load_state_dict({"state": {}})
    with pytest.raises(ValueError, match="is sparse, which ptxgen.torch.Optimizer does not support: use an optimizer of torch.optim|"
                                         "a sparse parameter is not supported: use an optimizer of torch.optim"):
        pt.Optimizer([torch.nn.Parameter(torch.ones(3).to_sparse())], my_adamw)
    for build, kind, words in (
            (lambda: pt.Optimizer(params, "adamw"), TypeError, "rule: what @ptxgen.rule makes is needed, not str$"),
            (lambda: pt.Optimizer(my_adamw, params), TypeError, r"params is rule my_adamw: .* first, Optimizer\(params, rule\)"),
            (lambda: pt.Optimizer(params, my_adamw, beta1=0.5), TypeError, "has no scalar 'beta1'; it has lr, betas"),
            (lambda: pt.Optimizer(params, optimizers.lars, nesterov=True), TypeError, "nesterov is an option of rule lars: give rule"),
            (lambda: pt.Optimizer(params, my_adamw, betas=0.5), ValueError, "betas: a pair of numbers is needed"),
            (lambda: pt.Optimizer(params, clocked, drag=(1, 2)), ValueError, "drag: a tuple of 3 numbers is needed"),
            (lambda: pt.Optimizer(params, my_adamw, lr=-1.0), ValueError, "lr is -1.0; it must be finite in f32"),
            (lambda: pt.Optimizer(params, my_adamw, betas=(0.9, 1.0)), ValueError, "beta2 is 1.0; it must be 0 or more"),
            (lambda: pt.Optimizer([{"params": params, "epss": 1.0}], my_adamw), ValueError, "is 'eps' meant"),
            (lambda: pt.Optimizer(params, lookahead, state_dtype="8bit"), ValueError, "too few bits for slow, a weight")):
        with pytest.raises(kind, match=words):
            build()

    @ptxgen.rule(states={}, scalars=dict(rate=0.1))
    def without_lr(p, g, rate):
        return p - rate * g

    with pytest.raises(ValueError, match="rule without_lr has no scalar lr"):
        pt.Optimizer(params, without_lr)


@pytest.mark.parametrize("betas", [(0.9,), (), (0.9, 0.99, 0.999), 0.9])
def test_numbers_that_a_group_gets_later(betas):
    """Too many would be the numbers of the next scalars."""
    params = parameters()
    optimizer = pt.Optimizer(params, my_adamw)
    run(optimizer, params)
    before = [p.detach().clone() for p in params]
    optimizer.param_groups[0]["betas"] = betas
    give(params, 1)
    with pytest.raises(ValueError, match="betas: a pair of numbers is needed in each group of Optimizer, not "):
        optimizer.step()
    assert same(params, before)
    optimizer.param_groups[0]["betas"] = [0.9, 0.99]
    optimizer.step()


def test_clocks_of_dicts():
    params = parameters()
    optimizer = pt.Optimizer(params, clocked)
    run(optimizer, params)
    given = copy.deepcopy(optimizer.state_dict())
    given["state"][0]["clock"][0] = float("nan")
    with pytest.raises(ValueError, match=r"clock has NaN among its numbers: \[nan\]"):
        pt.Optimizer(parameters(), clocked).load_state_dict(given)
    given["state"][0]["clock"] = torch.ones(1)
    with pytest.raises(ValueError, match="clock is of torch.float32, .*: it must be of torch.float64"):
        pt.Optimizer(parameters(), clocked).load_state_dict(given)


def test_reserved_names():
    """A scalar cannot have the name of an argument that every optimizer has."""
    own = set(inspect.signature(pt.Optimizer.__init__).parameters) - {"self", "scalars"}
    assert own <= rules._RESERVED
    with pytest.raises(ptxgen.InvalidError, match="the name fp8 is reserved"):
        ptxgen.rule(states={}, scalars=dict(lr=0.1, fp8=1.0))(lambda p, g, lr, fp8: p - lr * fp8 * g)


@needs("torch.distributed.fsdp.fully_shard")
@pytest.mark.parametrize("cut,flat", [(False, False), (True, False), (True, True)])
def test_checkpoint(one_rank, tmp_path, cut, flat):
    """A distributed checkpoint comes in as it went out, the clock included; codes are not read as numbers."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict
    options = StateDictOptions(flatten_optimizer_state_dict=flat)

    def loaded(model, optimizer):
        state = {"optimizer": get_optimizer_state_dict(model, optimizer, options=options)}
        dcp.load(state, checkpoint_id=tmp_path)
        set_optimizer_state_dict(model, optimizer, state["optimizer"], options=options)

    mesh = one_rank if cut else None
    model, other = layer(mesh, torch.float32), layer(mesh, torch.float32)
    ours = pt.Optimizer(model.parameters(), clocked, state_dtype="8bit")
    train(model, ours)
    dcp.save({"optimizer": get_optimizer_state_dict(model, ours, options=options)}, checkpoint_id=tmp_path)
    again = pt.Optimizer(other.parameters(), clocked, state_dtype="8bit")
    loaded(other, again)
    for p, q in zip(model.parameters(), other.parameters()):
        assert set(ours.state[p]) == set(again.state[q]) and float(ours.state[p]["clock"][0]) not in (0.0, 0.9)
        assert all(torch.equal(local(ours.state[p][name]), local(again.state[q][name])) for name in ours.state[p])
    with pytest.raises(BaseException, match="stored as torch.uint8, and the tensor to read it into is torch.float32"):
        loaded(other, pt.Optimizer(other.parameters(), clocked))


@needs("torch.distributed.fsdp.fully_shard")
@pytest.mark.parametrize("flat", [False, True])
def test_checkpoint_of_another(one_rank, tmp_path, flat):
    """A distributed checkpoint knows its rule; one of torch.optim's comes in as a dict of it does."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict
    options = StateDictOptions(flatten_optimizer_state_dict=flat)

    def saved(model, optimizer, folder):
        train(model, optimizer)
        dcp.save({"optimizer": get_optimizer_state_dict(model, optimizer, options=options)}, checkpoint_id=folder)

    def loaded(model, optimizer, folder):
        state = {"optimizer": get_optimizer_state_dict(model, optimizer, options=options)}
        dcp.load(state, checkpoint_id=folder)
        set_optimizer_state_dict(model, optimizer, state["optimizer"], options=options)

    model, other = layer(one_rank, torch.float32), layer(one_rank, torch.float32)
    ours = pt.Optimizer(model.parameters(), my_adamw)
    saved(model, ours, tmp_path / "ours")
    loaded(other, pt.Optimizer(other.parameters(), my_adamw), tmp_path / "ours")
    again = pt.Optimizer(other.parameters(), ptxgen.rule(version=2, name="my_adamw", states=dict(
        exp_avg="signed", exp_avg_sq="positive"), scalars=my_adamw.scalars)(lambda p, exp_avg, exp_avg_sq: (p, exp_avg, exp_avg_sq)))
    with pytest.raises(ValueError, match="the dict is of rule my_adamw, version 1: exp_avg signed, exp_avg_sq positive, and "
                                         "this optimizer has my_adamw, version 2: exp_avg signed"):
        loaded(other, again, tmp_path / "ours")
    theirs = torch.optim.AdamW(model.parameters(), lr=0.01)
    saved(model, theirs, tmp_path / "theirs")
    mine = pt.Optimizer(other.parameters(), my_adamw)
    loaded(other, mine, tmp_path / "theirs")
    for p, q in zip(model.parameters(), other.parameters()):
        assert torch.equal(local(theirs.state[p]["exp_avg"]), local(mine.state[q]["exp_avg"]))
    assert mine.param_groups[0]["rule"].startswith("my_adamw, version 1: ") and mine.param_groups[0]["lr"] == 0.01

    def coupled(way):
        return pt.Optimizer(other.parameters(), optimizers.radam.with_options(decoupled_weight_decay=way))

    saved(model, pt.Optimizer(model.parameters(), optimizers.radam.with_options(decoupled_weight_decay=True)), tmp_path / "radam")
    loaded(other, coupled(True), tmp_path / "radam")
    with pytest.raises(ValueError, match="decoupled_weight_decay is True in a group, and rule radam is that of "
                                         "decoupled_weight_decay=False"):
        loaded(other, coupled(False), tmp_path / "radam")
    loaded(other, coupled(True), tmp_path / "theirs")  # whose groups have no such key


OF_TORCH = [
    ("Adagrad", optimizers.adagrad, dict(lr=0.1, lr_decay=0.01), {}),
    ("Adam", optimizers.adam_amsgrad, dict(lr=0.01), dict(amsgrad=True)),
    ("AdamW", optimizers.adamw_amsgrad, dict(lr=0.01), dict(amsgrad=True)),
    ("NAdam", optimizers.nadam, dict(lr=0.01), {}),
    ("NAdam", optimizers.nadam.with_options(decoupled_weight_decay=True, momentum_decay=0.1), dict(lr=0.01),
     dict(decoupled_weight_decay=True, momentum_decay=0.1)),
    ("RAdam", optimizers.radam, dict(lr=0.01), {}),
    ("RAdam", optimizers.radam.with_options(decoupled_weight_decay=True), dict(lr=0.01), dict(decoupled_weight_decay=True)),
    ("RMSprop", optimizers.rmsprop, dict(lr=0.01), {}),
    ("RMSprop", optimizers.rmsprop_momentum, dict(lr=0.001, momentum=0.9), {}),
    ("RMSprop", optimizers.rmsprop_centered, dict(lr=0.01), dict(centered=True)),
    ("RMSprop", optimizers.rmsprop_centered_momentum, dict(lr=0.001, momentum=0.9), dict(centered=True)),
]
# Older ones lack decoupled_weight_decay; the NAdam of those multiplies the product of the momenta by mu twice.
OF_TORCH = [one for one in OF_TORCH if {*one[3], *(["decoupled_weight_decay"] if one[0] == "NAdam" else [])}
            <= set(inspect.signature(getattr(torch.optim, one[0])).parameters)]


@needs("torch.optim.NAdam")
@pytest.mark.parametrize("k", range(len(OF_TORCH)))
def test_of_torch(k):
    """The reference over 50 steps, within 1e-5 of the way of torch's optimizer in f64; in f64 it is that."""
    name, rule, settings, more = OF_TORCH[k]
    numpy = pytest.importorskip("numpy")
    generator = torch.Generator().manual_seed(2)
    exact = torch.nn.Parameter(torch.randn(300, generator=generator, dtype=torch.float32).double())
    theirs = getattr(torch.optim, name)([exact], weight_decay=0.1, **settings, **more)
    start, p, clock = exact.detach().clone(), exact.detach().float().numpy(), {}
    states = {one: numpy.zeros(300, numpy.float32) for one in rule.states}
    beside = (p, {one: numpy.zeros(300) for one in rule.states}, {})
    for t in range(1, 51):
        g = torch.randn(300, generator=generator)
        exact.grad = g.double()
        theirs.step()
        given = dict(weight_decay=0.1, **settings)
        p, states, clock = rule.reference()(p, g.numpy(), states, t, given, clock)
        beside = rule.reference(exact=True)(beside[0], g.numpy(), beside[1], t, given, beside[2])
    way = float((exact.detach() - start).abs().max())
    assert way > 0.01 and float((exact.detach() - torch.from_numpy(p).double()).abs().max()) < 1e-5 * max(way, 1)
    assert float((exact.detach() - torch.from_numpy(beside[0])).abs().max()) < 1e-9 * max(way, 1)  # some of torch's numbers are f32


@needs("torch.optim.NAdam")
@pytest.mark.parametrize("k", range(len(OF_TORCH)))
def test_dicts_both_ways(k):
    """Dicts of torch's come in, numbers of a clock too, and ours go back; both go on alike."""
    name, rule, settings, more = OF_TORCH[k]
    params, other, last = parameters(), parameters(), parameters()

    def of_torch(params):
        return getattr(torch.optim, name)(params, foreach=False, **settings, **more)

    def moved(to):
        with torch.no_grad():
            for p, q in zip(params, to):
                q.copy_(p)

    theirs, ours, back = of_torch(params), pt.Optimizer(other, rule, **settings), of_torch(last)
    run(theirs, params, 2)
    ours.load_state_dict(theirs.state_dict())
    moved(other)
    run(theirs, params, first=2)
    run(ours, other, first=2)
    back.load_state_dict(ours.state_dict(format="torch"))
    moved(last)
    for kept in (other, last):
        for p, q in zip(params, kept):
            assert torch.allclose(p, q, rtol=1e-5, atol=1e-6)
    run(theirs, params, first=3)
    run(back, last, first=3)
    for p, q in zip(params, last):
        assert torch.allclose(p, q, rtol=1e-5, atol=1e-6) and set(theirs.state[p]) == set(back.state[q])
        for one, value in theirs.state[p].items():
            mine = torch.as_tensor(back.state[q][one]).double().cpu()
            assert torch.allclose(torch.as_tensor(value).double().cpu(), mine, rtol=1e-4, atol=1e-5), one


@pytest.mark.parametrize("theirs,rule,key", [("Adam", optimizers.adam_amsgrad, "amsgrad"),
                                             ("AdamW", optimizers.adamw_amsgrad, "amsgrad"),
                                             ("RMSprop", optimizers.rmsprop_centered, "centered")])
def test_keys_of_torch(theirs, rule, key):
    """torch.optim uses the states that it is given, also those of an optimizer that never saw a dict of torch's."""
    params, others = parameters(), parameters()
    ours = pt.Optimizer(params, rule, lr=0.01)
    run(ours, params, 2)
    saved = {name: copy.deepcopy(value) for name, value in ours.state_dict(format="torch").items() if name != "rule"}
    back = getattr(torch.optim, theirs)(others, lr=0.01, foreach=False)
    back.load_state_dict(saved)
    assert back.param_groups[0][key] is True and key not in ours.param_groups[0]
    with torch.no_grad():
        for p, q in zip(params, others):
            q.copy_(p)
    run(ours, params, first=2)
    run(back, others, first=2)
    for p, q in zip(params, others):
        assert torch.allclose(p, q, rtol=1e-5, atol=1e-6)


def test_no_states():
    """A rule without states, and parameters without gradients."""
    @ptxgen.rule(states={}, scalars=dict(lr=0.5))
    def plain(p, g, lr):
        return p - lr * g

    params = parameters()
    give(params, 1)
    params[1].grad = None
    expected = [p.detach() if p.grad is None else p.detach() - 0.5 * p.grad for p in params]
    optimizer = pt.Optimizer(params, plain)
    optimizer.step()
    assert same(params, expected) and len(SHAPES) == len(params)

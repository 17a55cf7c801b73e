# SPDX-License-Identifier: MIT
"""Rules written in Python: the plan's bits are those of the reference in numpy, and of the library's own
rules; what a rule must not do is an error where it is made."""

import copy
import inspect
import math
import pickle
import random

import ptxgen
import pytest
from ptxgen import functions, optimizers, rules, where

numpy = pytest.importorskip("numpy")
from random_rules import any_rule, missing, used  # noqa: E402: they need numpy
from rule_parts import COUNT, arrays, check, differ, many_at_once, row  # noqa: E402


# ---- the library's rules, from the formulas of <ptxgen/rules.h>


def _adam(p, g, m, v, t, lr, betas, eps):
    b1, b2 = map(ptxgen.f32, betas)
    m = ptxgen.fma(b1, m, ptxgen.fma(-b1, g, g))
    gg = g * g
    v = ptxgen.fma(b2, v, ptxgen.fma(-b2, gg, gg))
    step = ptxgen.f32(lr) / ptxgen.f32(1 - b1 ** t)
    return p - step * m / (ptxgen.sqrt(v) / ptxgen.sqrt(1 - b2 ** t) + eps), m, v


ADAM = dict(states=dict(exp_avg="signed", exp_avg_sq="positive"),
            scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01))


@ptxgen.rule(**ADAM)
def my_adamw(p, g, exp_avg, exp_avg_sq, t, lr, betas, eps, weight_decay):
    p = ptxgen.fma(-(ptxgen.f32(lr) * ptxgen.f32(weight_decay)), p, p)
    return _adam(p, g, exp_avg, exp_avg_sq, t, lr, betas, eps)


@ptxgen.rule(**ADAM)
def my_adam(p, g, exp_avg, exp_avg_sq, t, lr, betas, eps, weight_decay):
    return _adam(p, ptxgen.fma(weight_decay, p, g), exp_avg, exp_avg_sq, t, lr, betas, eps)


@ptxgen.rule(states=dict(momentum_buffer=ptxgen.State("signed", stochastic=True)), options=dict(nesterov=False),
             scalars=dict(lr=1e-3, weight_decay=0.0, momentum=0.9, dampening=0.0))
def my_sgd(p, g, momentum_buffer, t, lr, weight_decay, momentum, dampening, nesterov):
    g = ptxgen.fma(weight_decay, p, g)
    m = where(t == 1, g, momentum * momentum_buffer + (1 - ptxgen.f32(dampening)) * g)
    return p - lr * (g + momentum * m if nesterov else m), m


@ptxgen.rule(states=dict(exp_avg=ptxgen.State("signed", stochastic=True)),
             scalars=dict(lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0))
def my_lion(p, g, exp_avg, lr, betas, weight_decay):
    b1, b2 = map(ptxgen.f32, betas)
    u = b1 * exp_avg + (1 - b1) * g
    p = ptxgen.fma(-(ptxgen.f32(lr) * ptxgen.f32(weight_decay)), p, p)
    return p - where(u < 0, -lr, where(u > 0, lr, 0)), b2 * exp_avg + (1 - b2) * g


@ptxgen.rule(states=dict(m="signed", mean=ptxgen.State("weight", start="p")), clock=dict(product=1.0, total=0.0),
             scalars=dict(lr=0.01, betas=(0.9, 0.99, 0.5), width=ptxgen.Scalar(2.0, "at_least_0")), version=3)
def with_clock(p, g, m, mean, t, product, total, lr, betas, width):
    product = product * betas[0]
    total = total + lr * (t + 1)
    m = ptxgen.minimum(ptxgen.maximum(betas[1] * m + g, -width), width)
    near = (abs(m) < 0.5) & ~(p != p) | (m >= 1)
    p = p - lr / total * where(near, m, -0.25) / (1 - product)
    return p, m, betas[2] * mean + (1 - betas[2]) * p, product, total


def _terms(p, g, u):
    return p * p, abs(u[0]), 1.0


def _with_sums(p, u, sums, lr, total):
    u, m = u
    scale = lr / (1 + ptxgen.sqrt(sums[1] / sums[2]))
    return p - where(sums[0] > 1000, 0.0, scale) * u, m, p, u, total + lr


@ptxgen.rule(states=dict(m=ptxgen.State("signed", dtype="bf16")), outputs=dict(copy="bf16", way="f16"),
             clock=dict(total=2.0), scalars=dict(lr=0.01, betas=(0.9, 0.99)), reduce=_terms, apply=_with_sums)
def with_sums(p, g, m, t, betas):
    m = betas[0] * m + (1 - betas[0] ** t) * g
    return m + p, m


@ptxgen.rule(states=dict(a="signed", b=ptxgen.State("positive", dtype="f16"), c="weight"), outputs=dict(d="f32"),
             clock=dict(sum=1.0), scalars=dict(lr=0.5, power=ptxgen.Scalar(1.5)))
def with_functions(p, g, a, b, c, t, sum, lr, power):
    rate = ptxgen.pow(t, power) * ptxgen.exp(-lr) + ptxgen.log(t + lr)
    a = ptxgen.tanh(g) * ptxgen.sigmoid(a) + ptxgen.erf(p) * ptxgen.erfc(g)
    b = ptxgen.exp2(-abs(b)) + ptxgen.rsqrt(abs(p) + 1)
    c = ptxgen.sin(p * 1e5) + ptxgen.cos(g) * ptxgen.log1p(abs(c)) + ptxgen.expm1(-abs(g))
    return p - rate * ptxgen.exp(-abs(p)), a, b, c, ptxgen.pow(abs(p), g) + ptxgen.log2(abs(g)) + ptxgen.log(b), sum * rate


# ---- bits


def test_reference(gpu):
    check(gpu, [my_adamw, my_adam, my_sgd, my_sgd.with_options(nesterov=True), my_lion, with_clock], special=True)
    check(gpu, [with_functions, with_sums], special=True)
    check(gpu, [with_sums])


TWINS = [(my_adamw, ptxgen.AdamW(lr=1e-3)), (my_adam, ptxgen.Adam(lr=1e-3, weight_decay=0.01)),
         (my_sgd, ptxgen.SGD(lr=1e-3, momentum=0.9)),
         (my_sgd.with_options(nesterov=True), ptxgen.SGD(lr=1e-3, momentum=0.9, nesterov=True)),
         (my_lion, ptxgen.Lion(lr=1e-4))]


@pytest.mark.parametrize("k", range(len(TWINS)))
@pytest.mark.parametrize("fmt", ["full", "stochastic", "state_8bit"])
def test_library(gpu, k, fmt):
    """The library's rule and its twin leave the same bytes, in one plan."""
    rule, own = TWINS[k]
    made = numpy.random.default_rng(5)
    dtype = "f32" if fmt == "full" else "bf16"
    state = {"full": "f32", "stochastic": "bf16", "state_8bit": "u8"}[fmt]
    start, g = (made.standard_normal(COUNT).tolist() for _ in range(2))
    rows, kept = [], []
    for group in range(2):
        mine = [gpu.array(start, dtype), *(gpu.zeros(COUNT, state) for _ in rule.states)]
        scales = [gpu.zeros(2, "f32") for _ in rule.states] if fmt == "state_8bit" else []
        rows.append({"parameter": mine[0], "gradient": gpu.array(g, dtype), "state": mine[1:], "absmax": scales,
                     "step": gpu.zeros(1), "group": group, "format": fmt, "id": 7})
        kept.append(mine + scales)
    plan = gpu.step_plan(rows, groups=[own, rule.group()], max_norm=1.0, seed=3)
    for _ in range(4):
        plan.run()
    for one, other in zip(*kept):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_any(gpu, first):
    """Rules of random operations; random_rules.py runs any number of them."""
    check(gpu, [any_rule(first + k) for k in range(20)], special=first == 0)


def test_any_has_all_operations():
    """In one list or another; a thousand rules have them in each where they may be."""
    found = used([any_rule(seed) for seed in range(60)])
    assert {name for name, _ in missing({})} == {name for name, _ in found} and len(missing(found)) < 3


def test_describe(gpu):
    """What a plan is, with what its loaded kernels take."""
    host, device, clock = arrays(gpu, my_adamw, 1)
    rows, given = [row(my_adamw, device, clock, 0)], dict(groups=[my_adamw.group()], max_norm=1.0)
    plan, before = gpu.step_plan(rows, **given), ptxgen.describe_step(rows, **given)
    found = plan.describe()
    assert (before.registers, before.local, before.warning) == (0, 0, None)
    assert found._replace(registers=0, local=0, warning=None) == before and found.elements == COUNT and found.launches == 3
    assert 0 < found.registers <= 255 and (found.local > 0) == ("local memory" in (found.warning or ""))
    plan.close()
    with pytest.raises(ptxgen.ClosedError):
        plan.describe()


def test_spill(gpu):
    """Values beyond a thread's registers are in local memory: the bits are the same, and describe() says so. The emulator
    has a register for each value."""
    wide = ptxgen.rule(states=dict(m="signed"), scalars=dict(lr=0.1), name="wide")(many_at_once)
    check(gpu, [wide])
    host, device, clock = arrays(gpu, wide, 1)
    with gpu.step_plan([row(wide, device, clock, 0)], groups=[wide.group()], max_norm=1.0) as plan:
        found = plan.describe()
    if "emulator" in gpu.info.name:
        assert found.local == 0 and found.warning is None
    else:
        assert found.local > 0 and "local memory" in found.warning


def test_sums_over_ranks(gpu):
    """Two plans have a part each, and what stands for an all-reduce is between their phases."""
    host, _, _ = arrays(gpu, with_sums, 1)
    parts, plans, kept = [slice(0, 100), slice(100, COUNT)], [], []
    for part in parts:
        mine = {name: gpu.array(host[name][part].tolist(), {"m": "bf16", "copy": "bf16", "way": "f16"}.get(name, "f32"))
                for name in host}
        count, sums = gpu.zeros(2, "f64"), gpu.zeros(4, "f64")
        plans.append(gpu.step_plan([{**row(with_sums, mine, count, 0), "count": part.stop - part.start}],
                                   groups=[with_sums.group()], max_norm=float("inf"), rule_sums_at=sums.address))
        kept.append((mine, count, sums))
        assert plans[-1].rule_sums.address == sums.address
    p, states, clock = with_sums.reference()(host["p"], host["g"], {"m": host["m"]}, 1)
    for plan in plans:
        plan.norm_sq()
        plan.finish()
        plan.reduce()
    with pytest.raises(ptxgen.InvalidError, match="reduce"):
        gpu.step_plan([{**row(my_lion, {**kept[0][0], "exp_avg": gpu.zeros(100)}, kept[0][1], 0), "count": 100}],
                      groups=[my_lion.group()], max_norm=float("inf")).reduce()
    total = [sum(pair) for pair in zip(*(sums.tolist() for _, _, sums in kept))]
    for plan, (_, _, sums) in zip(plans, kept):
        sums.upload(numpy.array(total))
        plan.step()
    for part, (mine, count, _) in zip(parts, kept):
        assert differ(mine["p"].tolist(), p[part]) == [] and count.tolist()[1] == clock["total"]
        assert all(differ(mine[name].tolist(), states[name][part]) == [] for name in states)


# Three as a new user wrote them from docs/rules.md.


@ptxgen.rule(states=dict(momentum=ptxgen.State("signed", stochastic=True)),
             scalars=dict(lr=1e-3, mu=ptxgen.Scalar(0.9, "below_1"), weight_decay=0.5))
def soft_sign(p, g, momentum, lr, mu, weight_decay):
    m = mu * momentum + (1 - mu) * g
    return ptxgen.exp(-lr * weight_decay) * p - lr * ptxgen.tanh(m * 100), m


def _squares(u):
    return u * u, 1.0


def _unit(p, u, sums, lr):
    return p - lr / (ptxgen.sqrt(sums[0] / sums[1]) + 1e-8) * u, u


@ptxgen.rule(states=dict(m="signed"), scalars=dict(lr=0.02, momentum=0.95), reduce=_squares, apply=_unit)
def unit_sgd(g, m, momentum):
    return momentum * m + g


@ptxgen.rule(states=dict(v="positive", mean=ptxgen.State("weight", start="p")), outputs=dict(copy="bf16"),
             scalars=dict(lr=1e-3, beta=0.99, eps=1e-8), clock=dict(weight=0.0), evaluation=lambda mean: mean)
def averaged(p, g, v, mean, t, weight, lr, beta, eps):
    v = beta * v + (1 - beta) * g * g
    p = p - lr * g / (ptxgen.sqrt(v / (1 - beta ** t)) + eps)
    weight = weight + ptxgen.pow(t, 0.5)
    return p, v, mean + ptxgen.pow(t, 0.5) / weight * (p - mean), p, weight


def test_sixteen_scalars(gpu):
    """As many as there may be, with names of struct ptx_step_hyper among them and without."""
    def summed(p, g, **scalars):
        for one in scalars.values():
            for x in one if isinstance(one, tuple) else (one,):
                p = p - x * g
        return p

    for named in ({}, dict(lr=0.25, betas=(0.5, 0.75), eps=0.5)):
        scalars = {**named, **{f"a{k}": 0.125 * k for k in range(16 - len(named) - bool(named))}}
        summed.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
                                                  for name in ("p", "g", *scalars)])
        check(gpu, [made(summed, states={}, scalars=scalars, name="sixteen")])
    with pytest.raises(ptxgen.InvalidError, match="17 scalars; a rule has 16 at most"):
        made(summed, states={}, scalars={f"a{k}": 0.0 for k in range(17)})


def test_of_a_new_user(gpu):
    check(gpu, [soft_sign, unit_sgd, averaged])


def test_fma_is_rounded_once():
    """Against exact fractions, where two roundings would differ, and near subnormal numbers."""
    from fractions import Fraction

    from conftest import fma
    made = random.Random(3)

    def number():
        return float(numpy.float32(made.uniform(-2, 2) * 2.0 ** made.randrange(-80, 40)))

    for _ in range(2000):
        x, y, z = number(), number(), number()
        if made.random() < 0.5:
            z = float(numpy.float32(-x * y * (1 + made.choice((0, 2 ** -24, -2 ** -25)))))
        if abs(Fraction(x) * Fraction(y)) < 2 ** 100:
            found = functions.fma32(numpy, numpy.float32(x), numpy.float32(y), numpy.float32(z))
            assert float(found) == fma(x, y, z), (x, y, z)
    for x, y in ((1e200, 1e200), (-1e200, 1e200)):  # beyond the range of f64
        found = functions.fma(numpy, *map(numpy.float64, (x, y, 1.0)), numpy.float64)
        assert float(found) == (float("inf") if x > 0 else float("-inf"))


# ---- what a rule is


def test_description():
    assert my_adamw.identity["states"] == {"exp_avg": "signed", "exp_avg_sq": "positive"}
    assert my_adamw.group(lr=0.5, betas=(0.5, 0.25))["hyper"] == {
        "lr": 0.5, "beta1": 0.5, "beta2": 0.25, "eps": 1e-8, "weight_decay": 0.01, "more": []}
    assert with_clock.hyper({})["more"] == [0.5, 2.0]  # beta3, width
    assert ".entry my_lion(" in my_lion.emit("sm_90") and ".target sm_90" in my_lion.emit("sm_90")
    assert with_clock.identity["version"] == 3 and with_clock.identity["clock"] == ["product", "total"]
    assert my_sgd != my_sgd.with_options(nesterov=True) and my_sgd == my_sgd.with_options(nesterov=False)
    for rule in (my_adamw, with_clock, any_rule(7)):  # the last one's function is nowhere to be imported from
        again = pickle.loads(pickle.dumps(rule))
        assert again == rule and again is not rule and hash(again) == hash(rule)
        assert copy.deepcopy(rule) is rule and again.identity == rule.identity
    with pytest.raises(ptxgen.InvalidError, match="its function is not here"):
        pickle.loads(pickle.dumps(my_sgd)).with_options(nesterov=True)


def made(function, **given):
    given = {"states": dict(m="signed"), "scalars": dict(lr=1e-3, betas=(0.9, 0.99)), **given}
    return ptxgen.rule(**given)(function)


def _decorated(**given):
    return {"states": {}, "reduce": lambda p: p * p, "apply": lambda p, u, sums: p - u / sums[0], **given}


MISUSE = [
    (lambda p, g, m, lr: p - lr * g, {}, r"it returns 1 value, and must return 2: p, m"),
    (lambda p, g, m: (p, m, g), {}, r"it returns 3 values, and must return 2: p, m"),
    (lambda p, g, m: (p, None), {}, r"what it returns for m is None, and no number"),
    (lambda p, g, m: (p, m > 0), {}, r"what it returns for m is a comparison, and no number"),
    (lambda p, g, m: (p if g > 0 else g, m), {}, r"`if`, .* of a traced value: .* ptxgen.where\(a < b, x, y\) chooses"),
    (lambda p, g, m: (where(0 < p < 1, p, g), m), {}, r"chain of comparisons, .* of a traced value"),
    (lambda p, g, m: (max(g, m), m), {}, r"max\(\) or min\(\) of a traced value: .*ptxgen.maximum\(x, y\)"),
    (lambda p, g, m, t: (p - sum(g for _ in iter(lambda: bool(t > 0), False)), m), {}, r"`while`, .* of a traced value"),
    (lambda p, g, m, t: (p - sum(g for _ in range(t)), m), {}, r"a number of a traced value: .* range\(\) or int\(\)"),
    (lambda p, g, m, t: (p - int(t), m), {}, r"a number of a traced value: .* range\(\) or int\(\)"),
    (lambda p, g, m: (p - round(g), m), {}, r"a number of a traced value"),
    (lambda p, g, m: (numpy.sqrt(g), m), {}, r"numpy.sqrt of a traced value: write ptxgen.sqrt"),
    (lambda p, g, m: (numpy.where(g > 0, g, m), m), {}, r"numpy.where of a traced value: write ptxgen.where"),
    (lambda p, g, m: (numpy.abs(g), m), {}, r"numpy.absolute of a traced value: write abs"),
    (lambda p, g, m: (numpy.clip(g, -1, 1), m), {}, r"numpy.clip of a traced value: write ptxgen.minimum and ptxgen.maximum"),
    (lambda p, g, m: (numpy.arctan(g), m), {}, r"numpy.arctan of a traced value: a rule has its own functions, ptxgen.cos, "),
    (lambda p, g, m: (numpy.float32(2) // g, m), {}, r"integer division of a traced value: write /"),
    (lambda p, g, m: (numpy.ones(3) * g, m), {}, r"a number or a traced value is needed, not array\("),
    (lambda p, g, m, betas: (p, betas[2] * m), {}, r"betas\[2\]: betas has 2 numbers, betas\[0\] to betas\[1\]"),
    (lambda p, g, m: (p * 1e60, m), {}, r"the constant 1e\+60 beside an element, which is f32: magnitudes go up to 3.4e38"),
    (lambda p, g, m, betas: (p, betas * m), {}, r"betas where a number is needed: it is 2 numbers, betas\[0\] to betas\[1\]"),
    (lambda p, g, m, betas, t: (p, betas ** t * m), {}, r"betas where a number is needed: it is 2 numbers"),
    (lambda p, g, m: (p, m, f"{g:.3f}"), {}, r"a format of a traced value: it has no value yet"),
    (lambda p, g, m: (p, m), {"scalars": {"lambda": 1.0}}, r"scalars: 'lambda' is no name"),
    (lambda p, g, m: None, {}, r"it returns nothing, and must return the values in this order: p, m"),
    (lambda p, g, m: dict(p=p, m=m), {}, r"it returns dict, and must return the values in this order: p, m"),
    (lambda *all: all, {}, r"asks for \*all, and gets by name alone what it asks for: name each one, of t, p, g, m, lr"),
    (lambda p, g, m, **all: (p, m), {}, r"asks for \*\*all, and gets by name"),
    (lambda p, g, m: (p, m), {"states": ["m"]}, r"states: a dict such as dict\(exp_avg=\"signed\"\) is needed, not \['m'\]"),
    (lambda p, g, m: (p, m), {"scalars": [0.1]}, r"scalars: a dict such as dict\(lr=1e-3\) is needed, not \[0.1\]"),
    (lambda p, g, m: (p, m), {"options": ["fast"]}, r"options: a dict such as dict\(nesterov=False\) is needed"),
    (lambda p, g, m: (p, m), {"clock": {"c": "1"}}, r"clock state c: a number is needed, not '1'"),
    (lambda p, g, m: (p, m), {"scalars": dict(lr=None)}, r"scalar lr: a number is needed, not None"),
    (lambda p, g, m: (p, m), {"scalars": dict(lr=0.1, betas=())}, r"scalar betas: it is a tuple of no numbers: leave it out"),
    (lambda p, g, m: (p, m), {"states": dict(m=["signed"])}, r"state m: its kind \['signed'\] is none of signed, positive"),
    (lambda p, g, m: (p, m), {"name": 5}, r"name: a string of letters, digits and '_' is needed, not 5"),
    (lambda p, g, m: (p @ g, m), {}, r"a product of matrices of a traced value"),
    (lambda p, g, m: (where((p > g) ^ (g > m), p, g), m), {}, r"\^, << or >> of a traced value: .* & \| ~ combine"),
    (lambda p, g, m: ((p,), m), {}, r"rule mine: what it returns for p: a number is needed, not \(<traced value>,\)"),
    (lambda p, g, m: (p, numpy.ones(3)), {}, r"rule mine: what it returns for m: a number is needed, not array\("),
    (lambda p, g, m: (p, m), {"evaluation": lambda p, m: (p, m)},
     r"rule mine: what it returns for the weights to evaluate with: a number is needed, not \(<traced"),
    (lambda p, g, m: (yield p), {}, r"rule: <lambda>\(\) yields: it must return its values"),
    (lambda p, g, m: {p: g}, {}, r"a member of a set or a key of a dict of a traced value"),
    (lambda p, g, m: (p - g.norm(), m), {}, r".norm of a traced value: a rule sees one element; .* reduce=, which apply="),
    (lambda p, g, m: (p - numpy.mean(g), m), {}, r"numpy.mean of a traced value: a rule sees one element; .* reduce="),
    (lambda p, g, m: (p - sum(g), m), {}, r"a sequence of a traced value: .* reduce=, which apply= gets as sums"),
    (lambda p, g, m: (p * numpy.ones(1), m), {}, r"a number or a traced value is needed, not array\(\[1"),
    (lambda p, g, m, lr, betas: (p, m), {"scalars": dict(lr=1.0, betas=(0.9,)), "evaluation": lambda p, betas: p * betas},
     r"betas where a number is needed: it is 1 number, betas\[0\] alone"),
    (lambda p, g, m, c: (p, m, c), {"clock": dict(c=math.nan)}, r"clock state c: its start nan must be finite"),
    (lambda p, g, m, c: (p, m, c), {"clock": dict(c=math.inf)}, r"clock state c: its start inf must be finite"),
    (lambda p, g, m: (p, m), {"name": "a\0b"}, r"name: a string of letters, digits and '_' is needed, not 'a\\x00b'"),
    (lambda p, g, m: (p, m), {"name": ""}, r"name: a string of letters, digits and '_' is needed, not ''"),
    (lambda p, g, m: (p, m), {"options": dict(k=[1])}, r"options: k is True, False, None, a number or a string, .* not \[1\]"),
    (lambda p, g, m: (p, m), {"version": "1"}, r"version: a whole number from 0 to 2\^32 - 1 is needed, not '1'"),
    (lambda p, g, m: (p, m), {"version": -1}, r"version: a whole number from 0 to 2\^32 - 1 is needed, not -1"),
    (lambda p, g, m: (p, m), {"keys": dict(lr=1)}, r"keys: the name lr is taken"),
    (lambda p, g, m: (p, m), {"keys": dict(a=[1])}, r"keys: a is True, False, None, a number or a string, .* not \[1\]"),
    (lambda p, g, m: (p, m), {"scalars": dict(lr=-1.0)}, r"scalar lr: its default -1.0 must be finite in f32, and 0 or more"),
    (lambda p, g, m: (p // g, m), {}, r"integer division of a traced value: write /"),
    (lambda p, g, m: (p ** g, m), {}, r"x \*\* t, with the step number itself, and x \*\* 2"),
    (lambda p, g, m, t: (p ** t, m), {}, r"a value of an element where one of the whole step is needed"),
    (lambda p, g, m: (p[1:], m), {}, r"an index of a traced value: .* neighbours"),
    (lambda p, g, m: (p.__setitem__(0, g), m), {}, r"a store of a traced value: .* return the new parameter"),
    (lambda p, g, m: (float(p), m), {}, r"a number of a traced value"),
    (lambda p, g, m: (p + "1", m), {}, r"a number or a traced value is needed, not '1'"),
    (lambda p, g, m: (where(p, g, m), m), {}, r"SELECT: a number where a comparison is needed"),
    (lambda p, g, m: ((p > g) + p, m), {}, r"ADD: a comparison where a number is needed"),
    (lambda p, g, m: ((p > g) & 1, m), {}, r"AND: a comparison is needed, not 1"),
    (lambda p, g, m: (ptxgen.sqrt(2.0), m), {}, r"none of the arguments is a traced value"),
    (lambda p, g, mm: (p, mm), {}, r"asks for mm, which is none of its names: t, p, g, m, lr, betas"),
    (lambda p, g, m: (p, m), {"states": dict(m="both")}, r"state m: its kind 'both' is none of signed, positive, weight"),
    (lambda p, g, m: (p, m), {"states": dict(m=ptxgen.State("signed", start=1))}, r'state m: it starts as 0 or "p"'),
    (lambda p, g: p, {"states": dict(m="signed", m_absmax="signed")}, r"states: the name m_absmax ends as that of"),
    (lambda p, g: p, {"states": dict(step="signed")}, r"states: the name step is reserved"),
    (lambda p, g: p, {"states": {}, "scalars": dict(p=1.0)}, r"scalars: the name p is taken"),
    (lambda p, g: p, {"states": {}, "scalars": dict(params=1.0)}, r"scalars: the name params is reserved"),
    (lambda p, g: p, {"states": {}, "scalars": dict(min_lr=1.0)}, r"scalars: the name min_lr is reserved"),
    (lambda p, g: p, {"states": {}, "options": dict(a=float("nan"))}, r"options: a is NaN"),
    (lambda p, g: p, {"states": {}, "scalars": dict(a=ptxgen.Scalar(1, "any"))}, r"its range 'any' is none of"),
    (lambda p, g: p, {"states": dict.fromkeys("abcde", "signed")}, r"5 states; a rule has 4 at most"),
    (lambda p, g: p, {"states": dict.fromkeys("abcd", "signed"), "outputs": dict.fromkeys("efhij", "f32")},
     r"9 states and outputs; a rule has 8 at most"),
    (lambda p, g, c: (p, p), {"states": {}, "clock": dict(c=0.0)}, r"a value of an element where one of the whole step"),
    (lambda p, g, m: (p, m), {"name": "adamw"}, r"name is adamw, which is a rule of the library's"),
    (lambda p, g, m: (p, m), {"name": None}, r"a rule of a lambda has no name: give it one, as .*name=\"mine\""),
    (lambda p, g, m: (p.sqrt(), m), {}, r".sqrt of a traced value: .*write ptxgen.sqrt\(x\)"),
    (lambda p, g, m: (p - math.exp(g), m), {}, r"a number of a traced value: .*ptxgen.exp\(x\) and the like"),
    (lambda p, g, m, lr: (p - ptxgen.tanh(lr), m), {}, r"tanh of a number of the whole step or of a sum: .* math"),
    (lambda p, g, m: (p, m), {"states": dict(m=ptxgen.State("signed", dtype="f64"))}, r"its dtype 'f64' is none of f32, f16, bf16"),
    (lambda p, g, m: (p, m), {"states": dict(m=ptxgen.State("signed", True, dtype="f16"))}, r"it is stochastic, .* leave one out"),
    (lambda p, g, m: (p, m), {"states": dict(m=ptxgen.State("signed", output=True))}, r"is an output: outputs=dict\(m=...\)"),
    (lambda p, g, m: (p, m), {"outputs": dict(c="f32")}, r"it returns 2 values, and must return 3: p, m, c"),
    (lambda p, g, m, c: (p, m, c), {"outputs": dict(c="f32")}, r"asks for c, which is an output, which is only written: return it"),
    (lambda p, g, m: (p, m, p), {"outputs": dict(c="u8")}, r"output c: its dtype 'u8' is none of f32, f16, bf16"),
    (lambda p, g: p, {"reduce": lambda p: p}, r"reduce is given without apply: a rule with sums has both"),
    (lambda g: g, _decorated(reduce=lambda p: (p,) * 5), r"reduce returns 5 terms; there are 1 to 4"),
    (lambda g: g, _decorated(apply=lambda p, u, sums: p - sums[1]), r"sums\[1\]: sums has 1 number, sums\[0\] alone"),
    (lambda g: g, _decorated(apply=lambda p, u, sums: None), r"<lambda>\(\) returns nothing, and must return"),
    (lambda g: g, _decorated(reduce=lambda p: None), r"what it returns for term 0 is None, and no number"),
    (lambda g: g, _decorated(reduce=lambda p, sums: p), r"asks for sums, which is none of its names"),
    (lambda g: g, _decorated(apply=lambda p, u: p - u), r"apply uses none of the sums: leave reduce and apply out"),
    (lambda g: g, _decorated(apply=lambda p, u, sums: (p, sums)), r"<lambda>\(\) returns 2 values, and must return 1: p"),
    (lambda g: g, _decorated(apply=lambda p, u, sums, t: p - sums[0] ** t), r"a value of a tensor where one of the whole step"),
    (lambda g: g, _decorated(apply=lambda p, u, sums: p - u * ptxgen.erf(sums[0])), r"erf of a number of the whole step or of a sum"),
    (lambda p, g, m: (p, m), {"evaluation": lambda p, g: p - g}, r"asks for g, which is none of its names"),
    (lambda p, g, m: (p, m), {"evaluation": lambda p: p > 0}, r"the weights to evaluate with is a comparison"),
    (lambda p, g: (p, p), {"states": {}, "clock": dict(u=0.0)}, r"clock: the name u is reserved"),
]


def test_names_of_the_reference():
    """Names of the rule and of C; others are errors."""
    p, zeros = numpy.ones(3, numpy.float32), numpy.zeros(3, numpy.float32)
    rule = optimizers.cwd_adamw
    states = {name: zeros for name in rule.states}

    def step(**given):
        return rule.reference()(p, 2 * p, states, 1, **given)

    one, other = step(scalars={"betas": (0.5, 0.25)}), step(scalars={"beta1": 0.5, "beta2": 0.25})
    assert all(numpy.array_equal(one[1][name], other[1][name]) for name in states)
    assert not numpy.array_equal(one[1]["exp_avg"], step()[1]["exp_avg"])
    for given, words in (({"scalars": {"lrr": 1.0}}, "no scalar 'lrr'; there are lr, betas, eps, weight_decay"),
                         ({"scalars": {"betas": (0.5,)}}, "betas has 2 numbers, not"),
                         ({"scalars": {"betas": 0.5}}, "betas has 2 numbers, not 0.5"),
                         ({"scalars": {"lr": -1.0}}, "lr is -1.0; it must be finite in f32, and 0 or more"),
                         ({"scalars": {"lr": None}}, "lr: a number is needed, not None"),
                         ({"clock": [1.0]}, r"clock: a dict by name is needed, of none, not \[1.0\]"),
                         ({"scalars": {"betas": (0.5, 1.0)}}, "beta2 is 1.0; it must be 0 or more, and below 1"),
                         ({"clock": {"product": 1.0}}, "no clock state 'product'; there are none")):
        with pytest.raises(ptxgen.InvalidError, match=f"rule cwd_adamw: .*{words}"):
            step(**given)
    for given, words in ((dict(t=0), "t is the number of this step, a whole number from 1 on, not 0"),
                         (dict(g=p * 1j), "g is complex, and a rule computes with real numbers"),
                         (dict(t=1.5), "t is the number of this step, .* not 1.5"),
                         (dict(g=p[:2]), r"g has the shape \(2,\), and p \(3,\)"),
                         (dict(states={**states, "exp_avg": zeros[:1]}), r"exp_avg has the shape \(1,\), and p \(3,\)"),
                         (dict(states={"exp_avg": zeros}), "there is no exp_avg_sq among the states; .* zeros at first"),
                         (dict(states={**states, "v": zeros}), "there is no state 'v'; there are exp_avg, exp_avg_sq"),
                         (dict(states=[zeros, zeros]), "states: a dict by name is needed, of exp_avg, exp_avg_sq, not")):
        with pytest.raises(ptxgen.InvalidError, match=f"rule cwd_adamw: {words}"):
            rule.reference()(**{**dict(p=p, g=p, states=states, t=1), **given})
    for clock, words in ((None, "product"), ({"product": 1.0}, "total")):
        with pytest.raises(ptxgen.InvalidError, match=f"there is no {words} in clock: step 3 takes the numbers that the step before"):
            with_clock.reference()(p, p, {name: zeros for name in with_clock.states}, 3, clock=clock)
    with pytest.raises(ptxgen.InvalidError, match="rule cwd_adamw: it has no evaluation"):
        rule.reference().evaluation(p, states)


@pytest.mark.parametrize("k", range(len(MISUSE)))
def test_misuse(k):
    function, given, words = MISUSE[k]
    given = {"name": "mine", **given}
    with pytest.raises(ptxgen.InvalidError, match=words) as raised:
        made(function, **given)
    assert str(raised.value).startswith(f"test_rules.py:{function.__code__.co_firstlineno}: ")


def test_without_parentheses():
    def mine(p, g):
        return p - g

    for function, more in ((5, {}), (mine, dict(reduce="x", apply=mine))):
        with pytest.raises(ptxgen.InvalidError, match="(rule|reduce): a function is needed, not (5|'x')"):
            made(function, **more)
    for build in (lambda: ptxgen.rule(mine), lambda: ptxgen.rule(states={})(mine), lambda: ptxgen.rule()(mine),
                  lambda: ptxgen.rule({"m": "signed"}, {"lr": 1.0})):
        with pytest.raises(ptxgen.InvalidError, match=r"^test_rules.py:\d+: rule: states and scalars are needed: write "
                                                      r"@ptxgen.rule\(states=dict\("):
            build()
    with pytest.raises(ptxgen.InvalidError, match=r"^test_rules.py:\d+: rule: a function is needed, not <class"):
        made(type("mine", (), {}))
    with pytest.raises(TypeError, match=r"rule mine is no function any more: .*rule.reference\(\)\(p, g, states, t\)"):
        made(mine, states={})(1, 2)
    with pytest.raises(ptxgen.InvalidError, match='target: a string such as "sm_90" is needed, not 90'):
        made(mine, states={}).emit(90)


def test_methods():
    """A rule may be a method that knows more."""
    class Holder:
        rate = 0.5

        def step(self, p, g):
            return p - self.rate * g

    assert made(Holder().step, states={}, name="mine") == made(lambda p, g: p - 0.5 * g, states={}, name="mine")


def test_numbers_of_numpy():
    """They are numbers, on either side of an operator."""
    two = numpy.float32(2)

    def rule_of(function):
        return made(function, states={}, name="mine")

    assert rule_of(lambda p, g: two * p - g / numpy.float64(4)) == rule_of(lambda p, g: 2 * p - g / 4)
    assert rule_of(lambda p, g: where(two < g, two - p, numpy.float32(1) / p)) == rule_of(lambda p, g: where(2 < g, 2 - p, 1 / p))
    assert rule_of(lambda p, g, betas: p - betas[-1] * sum(betas[:1])) is not None


def test_lines():
    """The line of a rule is the one under way, also in a function that it calls in its file."""
    def helper(x):
        return x
    def inner(p, g, m):
        m = m + g
        return helper(p // g), m
    with pytest.raises(ptxgen.InvalidError) as raised:
        made(inner, name="mine")
    assert str(raised.value).startswith(f"test_rules.py:{inner.__code__.co_firstlineno + 2}: integer division")


def test_positive_below_0(gpu):
    """What docs/rules.md says of a positive state that becomes negative, by format."""
    @ptxgen.rule(states=dict(v="positive"), scalars=dict(lr=0.1))
    def below(p, g, v, lr):
        return p - lr * g, v - g

    for name, dtype, first, scale in (("full", "f32", -1.0, 0.0), ("state_8bit", "u8", 0, 1.0), ("state_f16", "f16", 0.0, math.nan)):
        p, g, v, absmax = gpu.array([1.0] * 256), gpu.array([1.0, -1.0] * 128), gpu.zeros(256, dtype), gpu.zeros(1)
        more = {} if name == "full" else dict(absmax=(absmax,))
        gpu.step_plan([ptxgen.StepTensor(parameter=p, gradient=g, step=gpu.zeros(1), state=(v,), format=name, **more)],
                      groups=[below.group()], max_norm=math.inf).run()
        assert v.tolist()[0] == first and (absmax.tolist()[0] == scale or math.isnan(absmax.tolist()[0]) and math.isnan(scale))


def test_lines_of_other_files(tmp_path, monkeypatch):
    """And in a function of another file of the caller's."""
    (tmp_path / "helper_of_rules.py").write_text("def halved(x):\n    y = x + 1\n    return y // 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    import helper_of_rules
    with pytest.raises(ptxgen.InvalidError, match="^helper_of_rules.py:3: integer division"):
        made(lambda p, g, m: (p - helper_of_rules.halved(g), m), name="mine")


def test_values_of_other_traces():
    kept = []

    def keeps(p, g, m):
        kept.append(p)
        return kept[0] - g, m

    made(keeps)
    with pytest.raises(ptxgen.InvalidError, match="a value of another rule's trace"):
        made(keeps)


def test_too_much(gpu):
    def many(p, g, m, lr):
        for k in range(33):
            p = p - (lr + k) * g
        return p, m

    def long(p, g, m):
        for _ in range(1100):
            p = p * g
        return p, m

    def at_once(p, g, m):
        values = [p]
        for _ in range(260):
            values.append(values[-1] * g)
        for x in values[::-1]:
            m = ptxgen.fma(m, x, g)
        return p, m

    with pytest.raises(ptxgen.InvalidError, match=r"^test_rules.py:\d+: .*mine: .* registers"):
        made(at_once, name="mine")
    with pytest.raises(ptxgen.InvalidError, match="33 numbers of the whole step meet elements; a rule has 32 at most: combine"):
        made(many)
    with pytest.raises(ptxgen.InvalidError, match="[0-9]+ operations in its update; a part has 1024 at most, .* fewer passes"):
        made(long)
    with pytest.raises(ptxgen.InvalidError, match="there is no 'beta1'; there are lr, betas"):
        my_lion.hyper({"beta1": 1})
    for wrong in ((1, 2, 3), None, "ab", 0.5):
        with pytest.raises(ptxgen.InvalidError, match="betas has 2 numbers, not"):
            my_lion.group(betas=wrong)
    with pytest.raises(ptxgen.InvalidError, match="rule my_lion: lr: a number is needed, not '0.1'"):
        my_lion.group(lr="0.1")
    with pytest.raises(ptxgen.InvalidError, match="rule my_lion: there is no option fast; there are none"):
        my_lion.with_options(fast=True)
    host, device, clock = arrays(gpu, my_lion, 1)
    with pytest.raises(ptxgen.InvalidError, match="rule my_lion: lr is -1.0; it must be finite in f32, and 0 or more"):
        my_lion.group(lr=-1.0)
    wrong = {**my_lion.group(), "hyper": {"lr": -1.0}}
    with pytest.raises(ptxgen.InvalidError, match="group 0: lr is -1; it must be finite in f32, and 0 or more"):
        gpu.step_plan([row(my_lion, device, clock, 0)], groups=[wrong], max_norm=1.0)
    host, device, clock = arrays(gpu, with_clock, 1)
    plan = gpu.step_plan([row(with_clock, device, clock, 0)], groups=[with_clock.group()], max_norm=1.0)
    plan.set_hyper(0, {"lr": 1.0})
    plan.set_hyper(0, with_clock.group(width=3.0))
    with pytest.raises(ptxgen.InvalidError, match="own_rule: .* only scalars can change"):
        plan.set_hyper(0, my_lion.group())


def test_no_function():
    with pytest.raises(ptxgen.InvalidError, match="rule: a function is needed, not None"):
        ptxgen.rule(states={}, scalars=dict(lr=0.1))(None)


def test_options_as_arguments():
    rule = ptxgen.rule(states={}, scalars=dict(lr=0.1), options=dict(turned=False))(_turned)
    with pytest.raises(ptxgen.InvalidError, match=r"turned is an option: take rule.with_options\(turned=True\)"):
        rule.group(turned=True)


def _turned(p, g, lr, turned):
    return p + lr * g if turned else p - lr * g

# SPDX-License-Identifier: MIT
"""ptxgen.optimizers: the rules of this package against their authors' formulas in f64 over 50 steps, and
on the device against the reference in numpy."""

import ptxgen
import pytest
from ptxgen import optimizers

numpy = pytest.importorskip("numpy")
import rule_formats  # noqa: E402: they need numpy
from rule_parts import COUNT, arrays, differ, row  # noqa: E402

STEPS, ALL = 50, [getattr(optimizers, name) for name in optimizers.__all__]
LARS_NESTEROV = optimizers.lars.with_options(nesterov=True)


def ademamix(s, p, g, t, lr, b1, b2, b3, alpha, eps, decay):
    s["exp_avg_fast"] = b1 * s["exp_avg_fast"] + (1 - b1) * g
    s["exp_avg_slow"] = b3 * s["exp_avg_slow"] + (1 - b3) * g
    s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * g * g
    size = numpy.sqrt(s["exp_avg_sq"]) / numpy.sqrt(1 - b2 ** t) + eps
    return p - lr * ((s["exp_avg_fast"] / (1 - b1 ** t) + alpha * s["exp_avg_slow"]) / size + decay * p)


def ademamix_warmup(s, p, g, t, lr, b1, b2, b3, alpha, eps, decay, beta3_warmup, alpha_warmup):
    if t < alpha_warmup:
        alpha = alpha * t / alpha_warmup
    if t < beta3_warmup:  # linear in what is about the half-life
        first, last = (1 / numpy.log2(1 / (beta + 1e-8)) for beta in (b1, b3))
        b3 = 0.5 ** (1 / (first + (last - first) * t / beta3_warmup))
    return ademamix(s, p, g, t, lr, b1, b2, b3, alpha, eps, decay)


def adopt(s, p, g, t, lr, b1, b2, eps, decay):
    if t == 1:
        s["exp_avg_sq"] = g * g
        return p
    p = p - lr * decay * p
    u = numpy.clip(g / numpy.maximum(numpy.sqrt(s["exp_avg_sq"]), eps), -(t - 1) ** 0.25, (t - 1) ** 0.25)
    s["exp_avg"] = b1 * s["exp_avg"] + (1 - b1) * u
    s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * g * g
    return p - lr * s["exp_avg"]


def cwd_adamw(s, p, g, t, lr, b1, b2, eps, decay):
    s["exp_avg"] = b1 * s["exp_avg"] + (1 - b1) * g
    s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * g * g
    u = s["exp_avg"] / (1 - b1 ** t) / (numpy.sqrt(s["exp_avg_sq"] / (1 - b2 ** t)) + eps)
    return p - lr * (u + decay * p * (u * p >= 0))


def cwd_lion(s, p, g, t, lr, b1, b2, decay):
    u = numpy.sign(b1 * s["exp_avg"] + (1 - b1) * g)
    s["exp_avg"] = b2 * s["exp_avg"] + (1 - b2) * g
    return p - lr * (u + decay * p * (u * p >= 0))


def laprop(s, p, g, t, lr, b1, b2, eps, decay):
    s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * g * g
    s["one"] = b1 * s.get("one", 0) + (1 - b1) * lr
    s["two"] = b2 * s.get("two", 0) + (1 - b2)
    s["exp_avg"] = b1 * s["exp_avg"] + (1 - b1) * lr * g / (numpy.sqrt(s["exp_avg_sq"] / s["two"]) + eps)
    p = p - lr / s["one"] * s["exp_avg"]
    return p - decay * p


def averages(s, g, b1, b2):
    s["exp_avg"] = b1 * s["exp_avg"] + (1 - b1) * g
    s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * g * g
    return s["exp_avg"], s["exp_avg_sq"]


def norm(x):
    return numpy.sqrt((x * x).sum())


def lamb(s, p, g, t, lr, b1, b2, eps, decay):
    m, v = averages(s, g, b1, b2)
    u = m / (1 - b1 ** t) / (numpy.sqrt(v / (1 - b2 ** t)) + eps) + decay * p
    return p - lr * norm(p) / norm(u) * u


def lars(s, p, g, t, lr, momentum, decay, eeta, nesterov=False):
    g = g + decay * p
    scaled = lr * eeta * norm(p) / norm(g) * g
    s["momentum_buffer"] = momentum * s["momentum_buffer"] + scaled
    return p - (momentum * s["momentum_buffer"] + scaled if nesterov else s["momentum_buffer"])


def lars_nesterov(*of, **given):
    return lars(*of, **given, nesterov=True)


def c_adamw(s, p, g, t, lr, b1, b2, eps, decay):
    p = p - lr * decay * p
    m, v = averages(s, g, b1, b2)
    mask = (m * g > 0).astype(float)
    mask = mask / max(mask.mean(), 1e-3)
    return p - lr * numpy.sqrt(1 - b2 ** t) / (1 - b1 ** t) * (m * mask) / (numpy.sqrt(v) + eps)


def schedule_free(s, p, u, t, lr, beta, warmup_steps, r, weight_lr_power):
    """The theory's three sequences: x is kept, and y, the parameter, is made of it and z."""
    lr = lr * min(1, t / warmup_steps)
    if t == 1:
        s.update(x=p, z=p, most=0.0, sum=0.0)
    s["most"] = max(s["most"], lr)
    weight = t ** r * s["most"] ** weight_lr_power
    s["sum"] = s["sum"] + weight
    s["z"] = s["z"] - lr * u
    s["x"] = s["x"] + weight / s["sum"] * (s["z"] - s["x"])
    return (1 - beta) * s["z"] + beta * s["x"]


def schedule_free_adamw(s, p, g, t, lr, b1, b2, eps, decay, **more):
    s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * g * g
    return schedule_free(s, p, g / (numpy.sqrt(s["exp_avg_sq"] / (1 - b2 ** t)) + eps) + decay * p, t, lr, b1, **more)


def schedule_free_sgd(s, p, g, t, lr, momentum, decay, **more):
    return schedule_free(s, p, g + decay * p, t, lr, momentum, **more)


_WARM = dict(weight_decay=0.1, warmup_steps=5, r=0.5, weight_lr_power=1.5)
FORMULAS = [(ademamix, dict(weight_decay=0.1, beta3=0.99)),
            (ademamix_warmup, dict(weight_decay=0.1, beta3=0.99)),
            (ademamix_warmup, dict(weight_decay=0.1, beta3=0.99, beta3_warmup=30, alpha_warmup=20)),
            (adopt, dict(weight_decay=0.1, beta2=0.99)),
            (cwd_adamw, dict(weight_decay=0.1)), (cwd_lion, dict(weight_decay=0.1)), (laprop, dict(weight_decay=1e-3)),
            (lamb, dict(weight_decay=0.1)), (lars, dict(weight_decay=0.1, eeta=0.5)),
            (lars_nesterov, dict(weight_decay=0.1, eeta=0.5)), (c_adamw, dict(weight_decay=0.1)),
            (schedule_free_adamw, _WARM), (schedule_free_sgd, _WARM)]


@pytest.mark.parametrize("k", range(len(FORMULAS)))
def test_formulas(k):
    """The reference in f32 is within 1e-5 of the way that the formula goes in f64, and the reference in f64, beside
    which the formats are, is the formula. A rate that changes tells averages of rates from others."""
    formula, given = FORMULAS[k]
    rule = {**vars(optimizers), "lars_nesterov": LARS_NESTEROV}[formula.__name__]
    made = numpy.random.default_rng(1)
    start = made.standard_normal(COUNT)
    reference, clock = rule.reference(), {}
    beside = (start.astype(numpy.float32), {name: numpy.zeros(COUNT) for name in rule.states}, {})
    p, exact = start.astype(numpy.float32), start.astype(numpy.float32).astype(float)
    states = {name: numpy.zeros(COUNT, numpy.float32) for name in rule.states}
    kept = {name: numpy.zeros(COUNT) for name in rule.states}
    usual = {name: default for name, _, default in rule._data.flat}
    for t in range(1, STEPS + 1):
        g = made.standard_normal(COUNT).astype(numpy.float32)
        scalars = {**usual, **given, "lr": 0.01 + 0.001 * t}
        p, states, clock = reference(p, g, states, t, scalars, clock)
        beside = rule.reference(exact=True)(beside[0], g, beside[1], t, scalars, beside[2])
        exact = formula(kept, exact, g.astype(float), t, **{
            {"beta1": "b1", "beta2": "b2", "beta3": "b3", "weight_decay": "decay"}.get(name, name): value
            for name, value in scalars.items()})
    way = numpy.abs(exact - start).max()
    assert way > 0.1 and numpy.abs(p - exact).max() < 1e-5 * max(way, 1)
    assert numpy.abs(beside[0] - exact).max() < 1e-10 * max(way, 1)
    if rule._data.evaluation:  # x, the sequence to evaluate with
        x = rule.reference().evaluation(p, states, scalars)
        assert x.dtype == numpy.float32 and numpy.abs(x - kept["x"]).max() < 1e-5 * max(way, 1)
        assert numpy.abs(p - kept["x"]).max() > 1e-3


def test_on_the_device(gpu):
    """All of them in one plan: the bits of the reference, steps in which clocks and counts go on."""
    rules = ALL + [LARS_NESTEROV, optimizers.nadam.with_options(decoupled_weight_decay=True, momentum_decay=0.01)]
    sets = [arrays(gpu, rule, k) for k, rule in enumerate(rules)]
    plan = gpu.step_plan([row(rule, device, clock, k) for k, (rule, (_, device, clock)) in enumerate(zip(rules, sets))],
                         groups=[rule.group(weight_decay=0.125) for rule in rules], max_norm=float("inf"))
    for t in range(1, 4):
        plan.run()
        for rule, (host, device, clock) in zip(rules, sets):
            host["p"], states, after = rule.reference()(
                host["p"], host["g"], {name: host[name] for name in rule.states}, t, dict(weight_decay=0.125),
                host.get("clock"))
            host.update(states, clock=after)
            for name in ("p", *rule.states):
                assert differ(device[name].tolist(), host[name]) == [], (rule.name, t, name)
            assert clock.tolist()[1:] == list(after.values())


@pytest.mark.parametrize("fmt, dtype", rule_formats.MOST)
def test_formats(gpu, fmt, dtype):
    """How far the rules get from themselves in f64, in each format that fits them. docs/rules.md has the table."""
    for name, error in rule_formats.errors(gpu, fmt, dtype).items():
        assert error < rule_formats.MOST[fmt, dtype], (name, error)


def test_each_is_named():
    assert len({rule.name for rule in ALL}) == len(ALL) and all(isinstance(rule, ptxgen.Rule) for rule in ALL)

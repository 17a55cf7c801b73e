# SPDX-License-Identifier: MIT
"""Published rules: the plan's bits are those of the reference, and the reference is near the authors' formula."""

import ptxgen
import pytest

numpy = pytest.importorskip("numpy")
from rule_parts import COUNT, check  # noqa: E402: it needs numpy

# By a reader of docs/rules.md: QHAdam (arXiv 1810.06801), AdaBelief (2010.07468), Rprop as PyTorch 2.11 has it.


@ptxgen.rule(states=dict(exp_avg="signed", exp_avg_sq="positive"), clock=dict(weight1=0.0, weight2=0.0),
             scalars=dict(lr=1e-3, betas=(0.95, 0.998), nus=(ptxgen.Scalar(0.7, "up_to_1"), ptxgen.Scalar(1.0, "up_to_1")),
                          eps=1e-8, weight_decay=0.0))
def qhadam(p, g, exp_avg, exp_avg_sq, weight1, weight2, lr, betas, nus, eps, weight_decay):
    g = g + weight_decay * p
    weight1, weight2 = betas[0] * weight1 + 1, betas[1] * weight2 + 1
    m = exp_avg + (g - exp_avg) / weight1
    v = exp_avg_sq + (g * g - exp_avg_sq) / weight2
    u = (1 - nus[0]) * g + nus[0] * m
    size = ptxgen.sqrt((1 - nus[1]) * (g * g) + nus[1] * v) + eps
    return p - lr * (u / size), m, v, weight1, weight2


def qhadam_formula(s, p, g, t, lr, b1, b2, nu1, nu2, eps, decay):
    g = g + decay * p
    w1, w2 = (sum(b ** k for k in range(t)) for b in (b1, b2))
    s["exp_avg"] = (1 - 1 / w1) * s["exp_avg"] + 1 / w1 * g
    s["exp_avg_sq"] = (1 - 1 / w2) * s["exp_avg_sq"] + 1 / w2 * g * g
    return p - lr * ((1 - nu1) * g + nu1 * s["exp_avg"]) / (numpy.sqrt((1 - nu2) * g * g + nu2 * s["exp_avg_sq"]) + eps)


@ptxgen.rule(states=dict(exp_avg="signed", exp_avg_var="positive"),
             scalars=dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-16, weight_decay=0.01))
def adabelief(p, g, exp_avg, exp_avg_var, t, lr, betas, eps, weight_decay):
    p = p * (1 - lr * weight_decay)
    m = exp_avg + (1 - betas[0]) * (g - exp_avg)
    s = betas[1] * exp_avg_var + (1 - betas[1]) * ((g - m) * (g - m)) + eps
    size = ptxgen.sqrt(s) / ptxgen.sqrt(1 - betas[1] ** t) + eps
    return p - lr / (1 - betas[0] ** t) * (m / size), m, s


def adabelief_formula(s, p, g, t, lr, b1, b2, eps, decay):
    m = s["exp_avg"] = b1 * s["exp_avg"] + (1 - b1) * g
    v = s["exp_avg_var"] = b2 * s["exp_avg_var"] + (1 - b2) * (g - m) ** 2 + eps
    return p * (1 - lr * decay) - lr / (1 - b1 ** t) * m / (numpy.sqrt(v) / numpy.sqrt(1 - b2 ** t) + eps)


@ptxgen.rule(states=dict(prev="signed", step_size=ptxgen.State("positive", stochastic=False)),
             scalars=dict(lr=1e-2, etas=(ptxgen.Scalar(0.5, "below_1"), 1.2), step_sizes=(1e-6, 50.0)))
def rprop(p, g, prev, step_size, t, lr, etas, step_sizes):
    step_size = ptxgen.where(t == 1, lr, step_size)
    agree = g * prev
    factor = ptxgen.where(agree > 0, etas[1], ptxgen.where(agree < 0, etas[0], 1.0))
    step_size = ptxgen.minimum(ptxgen.maximum(step_size * factor, step_sizes[0]), step_sizes[1])
    g = ptxgen.where(agree < 0, 0.0, g)
    return p - ptxgen.sign(g) * step_size, g, step_size


def rprop_formula(s, p, g, t, lr, minus, plus, least, most):
    step = s["step_size"] if t > 1 else numpy.full(p.shape, lr)
    agree = numpy.sign(g * s["prev"])
    step = numpy.clip(step * numpy.select([agree > 0, agree < 0], [plus, minus], 1), least, most)
    s["prev"], s["step_size"] = numpy.where(agree < 0, 0, g), step
    return p - numpy.sign(s["prev"]) * step


PUBLISHED = [(qhadam, qhadam_formula, {"weight_decay": 0.1, "nus": (0.7, 0.9)}), (adabelief, adabelief_formula, {"eps": 1e-8}),
             (rprop, rprop_formula, {})]


@pytest.mark.parametrize("k", range(len(PUBLISHED)))
def test_published(k):
    """Over 50 steps the reference is within 1e-5 of the way of the authors' formula in f64."""
    rule, formula, given = PUBLISHED[k]
    random_numbers = numpy.random.default_rng(3)
    exact = start = random_numbers.standard_normal(COUNT).astype(numpy.float32)
    p, states, clock = start, {name: numpy.zeros(COUNT, numpy.float32) for name in rule.states}, {}
    kept = {name: numpy.zeros(COUNT) for name in rule.states}
    scalars = {**rule.scalars, "lr": 0.01, **given}
    flat = [x for one in scalars.values() for x in (one if isinstance(one, tuple) else (one,))]
    for t in range(1, 51):
        g = random_numbers.standard_normal(COUNT).astype(numpy.float32)
        p, states, clock = rule.reference()(p, g, states, t, scalars, clock)
        exact = formula(kept, exact.astype(float), g.astype(float), t, *flat)
    way = numpy.abs(exact - start).max()
    assert way > 0.1 and numpy.abs(p - exact).max() < 1e-5 * max(way, 1)


def test_published_on_the_device(gpu):
    check(gpu, [rule for rule, _, _ in PUBLISHED])

# SPDX-License-Identifier: MIT
"""Numbers of the whole step in rules: what they are computed in, and functions of them."""

import math

import ptxgen
import pytest
from ptxgen import functions, where
from ptxgen.symbols import NAMES

numpy = pytest.importorskip("numpy")
from rule_parts import COUNT, check  # noqa: E402: it needs numpy

CALCULATED = {"sum": lambda x, y: x + y, "difference": lambda x, y: x - y, "product": lambda x, y: x * y,
              "quotient": lambda x, y: x / y, "root": lambda x, y: ptxgen.sqrt(x)}
# Halves of units in the last place, subnormal results, overflow, zeros.
PAIRS = [(1 + 2.0 ** -23, 2.0 ** -24), (1.0, 2.0 ** -25 + 2.0 ** -48), (1 + 2.0 ** -12, 1 + 2.0 ** -12), (0.1, 3.0),
         (1 + 2.0 ** -23, 2.0 ** -127), (3 * 2.0 ** -149, 0.5), (5 * 2.0 ** -149, 2.0), (2.0 ** -126, 3.0), (1e-30, -1e-15),
         (3e38, 3e38), (3e38, 0.1), (1.0, 0.0), (0.0, -0.0), (-0.0, 0.0), (-1.0, 2.0 ** -126), (0.3333, 2.0 ** -149)]


def test_functions():
    """Those of elements against math in f64, within a unit or so of f32; those of the whole step of f64."""
    x = numpy.random.default_rng(1).uniform(0.1, 3, COUNT).astype(numpy.float32)
    own = {"rsqrt": lambda x: 1 / math.sqrt(x), "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "exp2": lambda x: 2.0 ** x}
    for name in functions.FUNCTIONS[:-1]:
        call, expected = getattr(ptxgen, name.lower()), own.get(name.lower()) or getattr(math, name.lower())
        rule = ptxgen.rule(states={}, scalars=dict(lr=1.0), name=f"my_{name.lower()}")(lambda p, g: call(p))
        found = rule.reference()(x, x, {}, 1)[0]
        wanted = numpy.array([expected(float(one)) for one in x])
        assert (abs(found - wanted) <= 3.5 * numpy.spacing(abs(wanted).astype(numpy.float32))).all(), name

    @ptxgen.rule(states={}, clock=dict(a=0.0, b=0.0, c=0.0), scalars=dict(lr=0.3))
    def of_steps(p, g, t, lr):
        return p, ptxgen.exp(t * lr), ptxgen.log(t * lr), ptxgen.pow(t, lr)

    for t in (1, 2, 7, 1000):
        found = of_steps.reference()(x, x, {}, t, clock=dict(a=0.0, b=0.0, c=0.0))[2]
        for mine, wanted in zip(found.values(), (math.exp(t * 0.3), math.log(t * 0.3), math.pow(t, 0.3))):
            assert abs(mine - wanted) <= 1e-15 * abs(wanted)


def test_numbers_of_the_step(gpu):
    """One that is written several times is one, and its negative beside elements takes no room, but as a divisor."""
    @ptxgen.rule(states=dict(m="signed"), scalars=dict(lr=0.1, b=0.9))
    def several(p, g, m, lr, b):
        m = ptxgen.fma(-b, m, (1 - b) * g) - -(1 - b) * where(g > 0, -lr, lr)
        return p - -lr * (b * m) / -(1 - b), m

    ops = [NAMES[op.op] for op in several._data.once]
    assert ops.count("SET_COEFFICIENT") == 5 and ops.count("SUB") == 1 and ops.count("NEG") == 2  # -lr within where()
    check(gpu, [several])


def calculated(name, x, y, calculate, whole):
    """A rule with a number of two f32s, which is rounded to f32 at once or, `whole`, is an f64 that more depends on."""
    @ptxgen.rule(states=dict(m="signed"), scalars=dict(x=x, y=y), name=name)
    def made(p, g, m, x, y):
        z = calculate(ptxgen.f32(x), ptxgen.f32(y))
        return p, where(p == p, (z + 0.5) * z if whole else ptxgen.f32(z), m)
    return made


@pytest.mark.parametrize("whole", [False, True])
def test_f32_of_the_step(gpu, whole):
    """What is rounded to f32 anyway is computed in f32, with the bits that f64 would give."""
    rules = [calculated(f"{name}_{k}", x, y, calculate, whole) for k, (x, y) in enumerate(PAIRS)
             for name, calculate in CALCULATED.items()]
    for first in range(0, len(rules), 40):
        check(gpu, rules[first:first + 40], steps=1)


def test_f32_of_the_step_is_quick():
    text = calculated("mine", 0.1, 0.2, CALCULATED["quotient"], False).emit("sm_90")
    assert "div.rn.f32" in text and "div.rn.f64" not in text and "cvt.f64.f32" not in text
    assert "div.rn.f64" in calculated("mine", 0.1, 0.2, CALCULATED["quotient"], True).emit("sm_90")

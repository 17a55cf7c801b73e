#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rules of random operations, many in a plan, each step beside the reference in numpy, bit for bit.

    random_rules.py [--count N] [--first SEED] [--plan RULES] [--steps N] [--special]

A rule has states, outputs, clock states, an option and sums at random, and any operation that there is. The device is
that of ptxgen.Device(): a GPU, or the emulator where its libcuda.so.1 is found first. The same seeds are the same rules
anywhere.
"""
import argparse
import inspect
import math
import random
import sys
import time

import numpy

import ptxgen
from ptxgen import where
from ptxgen.symbols import NAMES, OPS, _WHERE
from rule_parts import COUNT, check

LISTS = ("once", "update", "reduce", "of_sums")  # as the bits of PTX_RULE_OPS say where an operation may be
NOTHING = 0.5  # a number where there is no other


def tame(x):
    return ptxgen.minimum(ptxgen.maximum(x, -4.0), 4.0)


def whole(x):
    """A multiple of 2^-10 from -8 to 8, so that sums of them are exact in any order."""
    return ptxgen.minimum(ptxgen.maximum(x, -8.0), 8.0) + 12288.0 - 12288.0


def grown(chosen, x, y, z):
    """An operation on x, and perhaps on y and z, as far as they are known where it is computed."""
    made = [
        lambda: x + y, lambda: x - y, lambda: x * y, lambda: x / y, lambda: ptxgen.fma(x, y, z), lambda: -x,
        lambda: ptxgen.sqrt(abs(x)), lambda: abs(x), lambda: ptxgen.minimum(x, y), lambda: ptxgen.maximum(x, y),
        lambda: where(x < y, y, z), lambda: where((x >= y) | (y != z), x, z), lambda: where(~(x <= y) & (x == x), z, y),
        lambda: where((x > z) & (y > z), x, y), lambda: ptxgen.sign(x), lambda: ptxgen.f32(x) + y,
        lambda: x * chosen.uniform(-2, 2), lambda: 1 - x, lambda: x ** 2, lambda: 1 / (1 + abs(x)),
        lambda: ptxgen.exp(ptxgen.minimum(x, 3.0)), lambda: ptxgen.log(abs(x)), lambda: ptxgen.pow(abs(x), tame(y))]
    if x.level == "update":
        made += [
            lambda: ptxgen.exp2(ptxgen.minimum(x, 3.0)), lambda: ptxgen.expm1(ptxgen.minimum(x, 3.0)),
            lambda: ptxgen.log2(abs(x)), lambda: ptxgen.log1p(abs(x)), lambda: ptxgen.sin(x), lambda: ptxgen.cos(x * 1e4),
            lambda: ptxgen.tanh(x), lambda: ptxgen.sigmoid(x), lambda: ptxgen.erf(x), lambda: ptxgen.erfc(x),
            lambda: ptxgen.rsqrt(abs(x))]
    found = chosen.choice(made)()
    return tame(found) if chosen.random() < 0.5 else found


def more(chosen, pool, others, count):
    """`count` values, each of the ones before it and of others."""
    for _ in range(count):
        pool.append(grown(chosen, chosen.choice(pool), chosen.choice(pool + others), chosen.choice(pool + others)))
    return pool


def any_rule(seed):
    """The rule of a seed."""
    chosen = random.Random(seed)
    states, outputs = {}, {}
    for k in range(chosen.randrange(5)):
        kind, own = chosen.choice(("signed", "positive", "weight")), chosen.random() < 0.3
        states[f"s{k}"] = ptxgen.State(kind, start="p" if chosen.random() < 0.2 else 0,
                                       dtype=chosen.choice(("f32", "f16", "bf16")) if own else None)
    for k in range(chosen.choice((0, 0, 0, 0, 1, 1, 2, 4))):
        outputs[f"copy{k}"] = chosen.choice(("f32", "f16", "bf16"))
    clock = {f"c{k}": chosen.choice((0.0, 0.5)) for k in range(chosen.choice((0, 0, 0, 1, 2, 4)))}
    scalars = dict(lr=chosen.uniform(1e-3, 0.5), betas=(chosen.uniform(0, 0.99), 0.75),
                   width=ptxgen.Scalar(chosen.uniform(-2, 2)))
    sums, option = chosen.random() < 0.35, chosen.random() < 0.5
    once = []

    def results(given, last):
        """What the function returns, or apply()."""
        made = [chosen.choice(last) for _ in (*states, *outputs)]
        return (last[-1], *made, *(chosen.choice(once[-3:]) for _ in clock))

    def numbers(given):
        once[:] = [given["lr"], *given["betas"], given["width"], given["betas"][0] ** given["t"], given["t"],
                   *(given[one] for one in clock)]
        return more(chosen, once, [], chosen.randrange(6))

    def function(**given):
        chosen.seed(f"function {seed}")
        few = numbers(given)[:4] + once[-3:]
        many = more(chosen, [given[one] for one in ("p", "g", *states)], few, chosen.randrange(4, 12))
        if given["flipped"]:
            many.append(few[-1] - many[-1])
        if sums:
            return tuple(many[-2:]) if chosen.random() < 0.5 else many[-1]
        return results(given, many[len(states) + 2:])

    def reduce(**given):
        u = given["u"]
        pool = [given["p"], given["g"], *(u if isinstance(u, tuple) else (u,))]
        more(chosen, pool, once[:3], chosen.randrange(4, 14))
        return tuple(1.0 if chosen.random() < 0.2 else whole(one) for one in pool[-chosen.randrange(1, 5):])

    def apply(**given):
        u = given["u"]
        of_sums = more(chosen, list(given["sums"]), once[:3], chosen.randrange(4, 12))
        many = [given["p"], *(u if isinstance(u, tuple) else (u,)), *(given[one] for one in states)]
        more(chosen, many, [*once[:3], *of_sums[-3:]], chosen.randrange(3, 8))
        many.append(many[-1] + tame(of_sums[-1]))
        return results(given, many[len(states) + 2:])

    asked = ["p", "g", "t", *scalars, *states, *clock, "flipped"]
    for one, names in ((function, asked), (reduce, [*asked, "u"]), (apply, [*asked, "u", "sums"])):
        one.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names])
    with_sums = dict(reduce=reduce, apply=apply) if sums else {}
    return ptxgen.rule(states=states, scalars=scalars, clock=clock, outputs=outputs, options=dict(flipped=option),
                       name=f"any_{seed}", **with_sums)(function)


def used(rules):
    """How often the rules have each operation in each list."""
    found = {}
    for rule in rules:
        for one in LISTS:
            for op in getattr(rule._data, one):
                key = NAMES[op.op], one
                found[key] = found.get(key, 0) + 1
    return found


def missing(found):
    """The operations that no list has, and those of a list that may have them."""
    return [(name, one) for name in OPS for k, one in enumerate(LISTS) if _WHERE[name] >> k & 1 and (name, one) not in found]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("count", 1000), ("first", 0), ("plan", 50), ("steps", 3)):
        arguments.add_argument(f"--{name}", type=int, default=usual)
    arguments.add_argument("--special", action="store_true", help="with zeros, NaN, infinities and subnormal numbers")
    options = arguments.parse_args()
    begun, values, finite, plans, rules = time.time(), 0, 0, 0, []
    with ptxgen.Device() as gpu:
        print(gpu.info.name, flush=True)
        for first in range(options.first, options.first + options.count, options.plan):
            part = [any_rule(seed) for seed in range(first, min(first + options.plan, options.first + options.count))]
            for found in check(gpu, part, options.steps, options.special):
                values += found.size
                finite += int(numpy.isfinite(found).sum())
            rules += part
            plans += 1
    print(f"{options.count} rules from seed {options.first} in {plans} plans, {options.steps} steps, {COUNT} elements: "
          f"{values} numbers equal, {100 * finite / values:.1f} % of them finite, {time.time() - begun:.0f} s")
    found = used(rules)
    print(f"with sums {sum(rule.sums > 0 for rule in rules)}, clock states {sum(bool(rule.clock) for rule in rules)}, outputs "
          f"{sum(any(state.output for state in rule.states.values()) for rule in rules)}; "
          f"{sum(found.values())} operations, {math.ceil(sum(found.values()) / len(rules))} a rule; missing: "
          f"{', '.join(map(' in '.join, missing(found))) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

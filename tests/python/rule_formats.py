#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far the rules of ptxgen.optimizers get from themselves in f64, in each format that fits them, after 50 steps.

    rule_formats.py

prints the tables of docs/rules.md. The device is that of ptxgen.Device(): a GPU, or the emulator where its libcuda.so.1
is found first. An error is the root mean square of the differences over that of the way. The gradients are the same in
all formats, and so is the start, of numbers that f16 and bf16 have.
"""
import functools

import numpy

import ptxgen
from ptxgen import optimizers

STEPS, COUNT = 50, 512
ALL = [getattr(optimizers, name) for name in optimizers.__all__] + [optimizers.lars.with_options(nesterov=True)]
# The types of states and of what is beside a parameter, and the greatest error of each type of parameters.
FORMATS = {"full": ("f32", None, {"f32": 1e-6}), "state_bf16": ("bf16", None, {"f32": 1e-2}),
           "master": ("f32", "f32", {"bf16": 1e-6, "f16": 1e-6}), "remainder": ("f32", "s16", {"bf16": 1e-6}),
           "stochastic": ("bf16", None, {"bf16": 5e-2, "f16": 2e-2}),
           "state_8bit": ("u8", None, {"f32": 4e-2, "bf16": 5e-2, "f16": 4e-2}),
           "state_f16": ("f16", None, {"f32": 5e-3, "bf16": 5e-2, "f16": 1e-2}),
           "master_24bit": ("u8", "s8", {"bf16": 3e-2, "f16": 3e-2})}
IN_BLOCKS = {"state_8bit": (256, "f32"), "state_f16": (256, "f32"), "master_24bit": (32, "f16")}
MOST = {(fmt, dtype): most for fmt, row in FORMATS.items() for dtype, most in row[2].items()}


def name_of(rule):
    options = [name for name, value in rule._data.keys if value is True and name == "nesterov"]
    return rule.name + "".join(f", {name}" for name in options)


def settings(rule):
    """Rates with which all go about as far."""
    own = {"lars": dict(lr=1.0, eeta=0.05), "ademamix_warmup": dict(beta3_warmup=30, alpha_warmup=20)}
    return {"lr": 0.01, "weight_decay": 0.01, **own.get(rule.name, {})}


@functools.lru_cache(None)
def exact():
    """The start, the gradients, and each rule's way in f64."""
    made = numpy.random.default_rng(1)
    start = made.integers(-128, 128, COUNT) / 1024
    mean = made.standard_normal(COUNT)
    gradients = [(0.5 * mean + made.standard_normal(COUNT)).astype(numpy.float32) for _ in range(STEPS)]
    ends = []
    for rule in ALL:
        p, states, clock = start, {name: numpy.zeros(COUNT) for name in rule.states}, {}
        for t, g in enumerate(gradients, 1):
            p, states, clock = rule.reference(exact=True)(p, g, states, t, settings(rule), clock)
        ends.append(p)
    return start, gradients, ends


def fits(rule, fmt):
    return not (fmt in IN_BLOCKS and any(one.kind == "weight" for one in rule.states.values()))


def tensor(gpu, rule, fmt, dtype, start, gradient):
    """A row of a plan, but for its count."""
    state, beside, _ = FORMATS[fmt]
    of = {"parameter": gpu.array(start, dtype), "gradient": gradient, "count": COUNT, "dtype": dtype,
          "gradient_dtype": "f32", "state": [gpu.zeros(COUNT, state) for _ in rule.states], "format": fmt}
    if fmt in IN_BLOCKS:
        block, scale = IN_BLOCKS[fmt]
        of["absmax"] = [gpu.zeros(COUNT // block, scale) for _ in rule.states]
    if beside:
        of["beside"] = gpu.array(start if beside == "f32" else [0] * COUNT, beside)
    return of


def weights(of, fmt):
    """As precise as the format has them."""
    beside = FORMATS[fmt][1]
    found = numpy.array(of["beside" if beside == "f32" else "parameter"].tolist())
    if beside == "s16":
        upper = found.astype(numpy.float32).view(numpy.int32).astype(numpy.int64)
        found = (upper + numpy.array(of["beside"].tolist())).astype(numpy.int32).view(numpy.float32)
    return found


def errors(gpu, fmt, dtype):
    """By the rule's name, in one plan."""
    start, gradients, ends = exact()
    rules = [(rule, end) for rule, end in zip(ALL, ends) if fits(rule, fmt)]
    gradient = gpu.zeros(COUNT * len(rules))
    rows = [{**tensor(gpu, rule, fmt, dtype, start.tolist(), gradient.address + 4 * COUNT * k), "group": k, "id": k}
            for k, (rule, _) in enumerate(rules)]
    clocks = [gpu.zeros(1 + len(rule.clock), "f64") for rule, _ in rules]
    plan = gpu.step_plan([{**of, "step": clock.address} for of, clock in zip(rows, clocks)], max_norm=float("inf"), seed=1,
                         groups=[rule.group(**settings(rule)) for rule, _ in rules])
    for g in gradients:
        gradient.upload(numpy.tile(g, len(rules)))
        plan.run()
    return {name_of(rule): float(numpy.sqrt(((weights(of, fmt) - end) ** 2).mean() / ((end - start) ** 2).mean()))
            for (rule, end), of in zip(rules, rows)}


def table(found, columns):
    names = sorted(map(name_of, ALL))
    print(f"| rule | {' | '.join(title for title, _ in columns)} |\n|---{'|---' * len(columns)}|")
    for name in names:
        cells = [max((found[case][name] for case in cases if name in found[case]), default=None) for _, cases in columns]
        print(f"| `{name}` | {' | '.join('' if x is None else f'{x:.1e}'.replace('e-0', 'e-') for x in cells)} |")
    print(f"| at most | {' | '.join(f'{MOST[cases[0]]:.0e}'.replace('e-0', 'e-') for _, cases in columns)} |\n")


def main():
    with ptxgen.Device() as gpu:
        print(gpu.info.name)
        found = {case: errors(gpu, *case) for case in MOST}
    exactly = [case for case, most in MOST.items() if most == 1e-6]
    table(found, [("full, master, remainder", exactly), ("state_bf16", [("state_bf16", "f32")]),
                  ("state_8bit", [("state_8bit", "f32")]), ("state_f16", [("state_f16", "f32")]),
                  ("master_24bit, bf16", [("master_24bit", "bf16")]), ("master_24bit, f16", [("master_24bit", "f16")])])
    table(found, [(f"{fmt}, {dtype}", [(fmt, dtype)]) for fmt in ("stochastic", "state_8bit", "state_f16") for dtype in ("bf16", "f16")])


if __name__ == "__main__":
    main()

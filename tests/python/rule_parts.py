# SPDX-License-Identifier: MIT
"""What the tests of rules share: arrays for a rule, and steps of a plan beside the reference in numpy."""

import numpy

import ptxgen

COUNT = 300  # no multiple of what a thread steps


def arrays(gpu, rule, seed, special=False):
    """A parameter, a gradient and states, in f32, on host and device."""
    made = numpy.random.default_rng(seed)
    host = {name: made.standard_normal(COUNT).astype(numpy.float32)
            for name in ("p", "g", *rule.states)}
    for name, state in rule.states.items():
        host[name] = abs(host[name]) if state.kind == "positive" else host[name]
    if special:
        host["p"][:6] = [0, -0.0, numpy.nan, numpy.inf, 1e-40, -1e38]
        host["g"][3:9] = [0, -0.0, 1e-42, 3e38, -1e-30, 1]
    for name, state in rule.states.items():
        host[name] = rule.reference()._stored(host[name], state.dtype)
    clock = gpu.zeros(1 + len(rule.clock), "f64")
    dtypes = {name: state.dtype or "f32" for name, state in rule.states.items()}
    return host, {name: gpu.array(x.tolist(), dtypes.get(name, "f32")) for name, x in host.items()}, clock


def spawned(connection, rule):
    """What a rule computes in another process, which imports this module and no torch."""
    ones = numpy.ones(3, numpy.float32)
    connection.send((rule.name, rule.reference()(ones, ones, {name: ones for name in rule.states}, 2)[0].tolist()))


def row(rule, device, clock, group):
    return {"parameter": device["p"], "gradient": device["g"], "state": [device[name] for name in rule.states],
            "step": clock.address, "count": COUNT, "dtype": "f32", "group": group}


def differ(x, y):
    """Where two arrays have other bits, but for NaN, as a message."""
    x, y = numpy.asarray(x, numpy.float32), numpy.asarray(y, numpy.float32)
    wrong = (x.view(numpy.uint32) != y.view(numpy.uint32)) & ~(numpy.isnan(x) & numpy.isnan(y))
    return [(int(k), float(x[k]), float(y[k])) for k in wrong.nonzero()[0][:3]]


def check(gpu, rules, steps=3, special=False):
    """Steps of one plan that has all these rules, each compared with the reference. Returns
    what the last one left."""
    sets = [arrays(gpu, rule, k, special) for k, rule in enumerate(rules)]
    plan = gpu.step_plan([row(rule, device, clock, k) for k, (rule, (_, device, clock)) in enumerate(zip(rules, sets))],
                         groups=[rule.group() for rule in rules], max_norm=float("inf"))
    known = [dict(host) for host, _, _ in sets]
    clocks = [{} for _ in rules]
    for t in range(1, steps + 1):
        plan.run()
        for k, (rule, (_, device, clock)) in enumerate(zip(rules, sets)):
            known[k]["p"], states, clocks[k] = rule.reference()(
                known[k]["p"], known[k]["g"], {name: known[k][name] for name in rule.states}, t, clock=clocks[k])
            known[k].update(states)
            for name in ("p", *rule.states):
                assert differ(device[name].tolist(), known[k][name]) == [], (rule.name, t, name)
            assert numpy.array_equal(clock.tolist()[1:], list(clocks[k].values()), equal_nan=True), (rule.name, t)
    return [of[name] for rule, of in zip(rules, known) for name in ("p", *rule.states)]


def many_at_once(p, g, m):
    """Each value is made of the one before it, and the last is used first: all are in use at one time."""
    values = [p]
    for _ in range(235):
        values.append(ptxgen.fma(values[-1], 0.5, g))
    for x in values[::-1]:
        m = ptxgen.fma(m, 0.5, x)
    return p - 0.001 * m, m

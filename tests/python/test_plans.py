# SPDX-License-Identifier: MIT
"""Clip plans and step plans: the bits of plain Python, launched, captured and in phases."""

import inspect
import math
import pathlib
import re

import ptxgen
import pytest
from conftest import f32, fma

INTEGERS = [float(k % 7 - 3) for k in range(3000)]  # every sum of their squares is exact


def factor_of(values, max_norm, eps, scale=1.0):
    norm = f32(math.sqrt(sum(x * x for x in values)) * (1 / scale))
    clip = min(1.0, f32(f32(max_norm) / f32(norm + f32(eps))))
    return norm, f32(clip * (1 / scale))


@pytest.mark.parametrize("how", ["run", "phases", "graph"])
def test_clip(gpu, stream, how):
    halves = [x for x in INTEGERS[:100]]
    one, two = gpu.array(INTEGERS), gpu.array(halves, "bf16")
    plan = gpu.clip_plan([one, two], max_norm=1.5, eps=1e-6)
    gpu.synchronize()
    if how == "graph":
        with gpu.capture(stream) as graph:
            plan.run(stream)
        graph.launch(stream)
    elif how == "run":
        plan.run(stream)
    else:
        plan.norm_sq(stream)
        plan.finish(stream)
        plan.apply(stream)
    norm, factor = factor_of(INTEGERS + halves, 1.5, 1e-6)
    result = plan.read(stream)
    assert result.records == ((factor, norm, 0.0, 1.5),)
    assert result.records[0].norm == norm and result.summary.found_inf == 0
    assert one.tolist() == [f32(x * factor) for x in INTEGERS]
    assert two.tolist() == gpu.array([f32(x * factor) for x in halves], "bf16").tolist()


def test_clip_by_groups_with_a_loss_scale(gpu, stream):
    arrays = [gpu.array(INTEGERS[k:k + 500]) for k in (0, 500, 1000)]
    gpu.synchronize()
    plan = gpu.clip_plan([ptxgen.ClipTensor(data=a, group=k % 2) for k, a in enumerate(arrays)],
                         group_max_norms=[1.0, math.inf], nonfinite="skip", loss_scale=4.0,
                         update={"interval": 1})
    plan.run(stream)
    result = plan.read(stream)
    even = factor_of(INTEGERS[:500] + INTEGERS[1000:1500], 1.0, 0.0, 4.0)
    assert (result.records[0].norm, result.records[0].factor) == even
    assert result.records[1].factor == 0.25
    assert result.summary.loss_scale == 4.0 and result.summary.state == (8.0, 0)
    plan.set_loss_scale(2.0, stream=stream)
    plan.set_max_norm(0.0, group=0, stream=stream)
    plan.run(stream)
    result = plan.read(stream)
    assert result.summary.loss_scale == 2.0 and result.records[0].factor == 0.0
    assert arrays[0].tolist() == [0.0 * x for x in INTEGERS[:500]]


def test_moved_gradients(gpu, stream):
    one, two = gpu.array([3.0]), gpu.array([4.0])
    plan = gpu.clip_plan([one, two], max_norm=math.inf)
    gpu.synchronize()
    other = gpu.array([12.0])
    plan.set_data([other], first=0, stream=stream)
    plan.run(stream)
    assert plan.read(stream).records[0].norm == f32(math.sqrt(160))
    with pytest.raises(ptxgen.InvalidError, match="tensor 1: 2 elements, and count is 1"):
        plan.set_data([gpu.zeros(2)], first=1)


def test_chunks(gpu, stream):
    array = gpu.array(INTEGERS)
    plan = gpu.clip_plan([array], max_norm=1.0)
    count = plan.chunk_count
    assert sum(piece.count for k in range(count) for piece in plan.pieces(k)) == len(INTEGERS)
    gpu.synchronize()
    for k in range(count):
        plan.norm_sq_chunks(k, 1, stream)
    plan.finish(stream)
    plan.apply_chunks(0, count, stream)
    norm, factor = factor_of(INTEGERS, 1.0, 0.0)
    assert plan.read(stream).records[0].norm == norm
    assert array.tolist() == [f32(x * factor) for x in INTEGERS]


# ---- step plans


class AdamWReference:
    """<ptxgen/rules.h> for one element, every operation rounded to f32."""

    def __init__(self, lr, beta1, beta2, eps, weight_decay):
        self.lr, self.beta1, self.beta2, self.eps = f32(lr), f32(beta1), f32(beta2), f32(eps)
        self.decay = f32(self.lr * f32(weight_decay))

    def step(self, p, m, v, g, t):
        power1 = power2 = 1.0
        for bit in f"{t:b}":
            power1, power2 = power1 * power1, power2 * power2
            if bit == "1":
                power1, power2 = power1 * self.beta1, power2 * self.beta2
        p = fma(-self.decay, p, p)
        m = fma(self.beta1, m, fma(-self.beta1, g, g))
        gg = f32(g * g)
        v = fma(self.beta2, v, fma(-self.beta2, gg, gg))
        denominator = f32(f32(f32(math.sqrt(v)) / f32(math.sqrt(1 - power2))) + self.eps)
        return f32(p - f32(f32(f32(self.lr / f32(1 - power1)) * m) / denominator)), m, v


@pytest.mark.parametrize("how", ["run", "phases", "graph"])
def test_adamw(gpu, stream, how):
    n = 500
    start = [f32(math.sin(k)) for k in range(n)]
    gradient = INTEGERS[:n]
    w, dw = gpu.array(start), gpu.array(gradient)
    m, v, t = gpu.zeros(n), gpu.zeros(n), gpu.zeros(1)
    plan = gpu.step_plan([ptxgen.StepTensor(parameter=w, gradient=dw, state=(m, v), step=t)],
                         groups=[ptxgen.AdamW(lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)],
                         max_norm=1.0)
    gpu.synchronize()
    graph = gpu.capture(stream)
    if how == "graph":
        with graph:
            plan.run(stream)
    for _ in range(3):
        if how == "graph":
            graph.launch(stream)
        elif how == "run":
            plan.run(stream)
        else:
            plan.norm_sq(stream)
            plan.finish(stream)
            plan.step(stream)
    _, factor = factor_of(gradient, 1.0, 0.0)
    rule = AdamWReference(1e-2, 0.9, 0.95, 1e-8, 0.1)
    expected = []
    for p, g in zip(start, gradient):
        state = p, 0.0, 0.0
        for step in (1, 2, 3):
            state = rule.step(*state, f32(g * factor), step)
        expected.append(state)
    stream.synchronize()
    assert list(zip(w.tolist(), m.tolist(), v.tolist())) == expected
    assert t.tolist() == [3.0] and dw.tolist() == gradient


def test_sgd_with_groups_and_setters(gpu, stream):
    n = 64
    w = [gpu.array([1.0] * n) for _ in range(2)]
    dw = [gpu.array([1.0] * n) for _ in range(2)]
    t, lr = gpu.zeros(1), gpu.array([0.5])
    plan = gpu.step_plan(
        [ptxgen.StepTensor(parameter=p, gradient=g, step=t, group=k)
         for k, (p, g) in enumerate(zip(w, dw))],
        groups=[ptxgen.SGD(lr=0.25), ptxgen.SGD(lr=9.0, lr_at=lr, maximize=True)],
        max_norm=math.inf, gradients="zero")
    gpu.synchronize()
    plan.run(stream)
    stream.synchronize()
    assert w[0].tolist() == [0.75] * n and w[1].tolist() == [1.5] * n and dw[0].tolist() == [0.0] * n
    for array in dw:
        array.upload([1.0] * n)
    lr.upload([0.125])
    plan.set_hyper(0, ptxgen.SGD(lr=0.5), stream=stream)
    plan.run(stream)
    stream.synchronize()
    assert w[0].tolist() == [0.25] * n and w[1].tolist() == [1.625] * n
    dw[1].upload([1.0] * n)
    plan.set_addresses({0: {"gradient": None}}, stream=stream)
    plan.run(stream)
    stream.synchronize()
    assert w[0].tolist() == [0.25] * n and w[1].tolist() == [1.75] * n
    plan.set_gradients([gpu.array([2.0] * n), None], stream=stream)
    plan.run(stream)
    stream.synchronize()
    assert w[0].tolist() == [-0.75] * n and w[1].tolist() == [1.75] * n
    for wrong, first, words in (([gpu.zeros(n - 1)], 0, "63 elements"), ([dw[0], 0], 1, "there is no tensor 2"),
                                ([None], 2, "the plan has 2"),
                                ([gpu.zeros(n, "bf16")], 0, "elements of type bf16")):
        with pytest.raises(ptxgen.InvalidError, match=words):
            plan.set_gradients(wrong, first=first, stream=stream)


@pytest.mark.parametrize("how", ["run", "graph"])
def test_ema(gpu, stream, how):
    """The average follows the weights as stored, in f32 to the bit; one in bf16 moves by at most an ulp too much."""
    n, decay = 700, 0.75
    start = [f32(math.sin(k)) for k in range(n)]
    w, dw = ([gpu.array(values) for _ in range(2)] for values in (start, [1.0] * n))
    ema = [gpu.array(start), gpu.array(start, "bf16")]
    plan = gpu.step_plan([ptxgen.StepTensor(parameter=p, gradient=g, ema=e, step=gpu.zeros(1), id=k)
                          for k, (p, g, e) in enumerate(zip(w, dw, ema))],
                         groups=[ptxgen.SGD(lr=0.25, ema_decay=decay)], max_norm=math.inf)
    gpu.synchronize()
    with gpu.capture(stream) as graph:
        plan.run(stream)
    for turn in range(3):
        if turn == 2:
            plan.set_hyper(0, {"ema_decay": 0.5}, stream=stream)
        plan.run(stream) if how == "run" else graph.launch(stream)
    stream.synchronize()
    p, expected = start, start
    for decay in (0.75, 0.75, 0.5):
        p = [f32(x - 0.25) for x in p]
        expected = [fma(f32(1 - decay), f32(x - e), e) for x, e in zip(p, expected)]
    assert w[0].tolist() == w[1].tolist() == p and ema[0].tolist() == expected
    apart = [abs(a - b) for a, b in zip(ema[1].tolist(), expected)]
    assert max(apart) < 3 * 2.0 ** -8 and any(apart)


def test_ema_that_does_not_fit(gpu):
    def plan(**fields):
        return gpu.step_plan([ptxgen.StepTensor(parameter=gpu.zeros(8), gradient=gpu.zeros(8), step=gpu.zeros(1),
                                                **fields)], groups=[ptxgen.SGD(lr=0.25, ema_decay=0.5)], max_norm=1.0)
    for fields, words in (({"ema": gpu.zeros(7)}, r"tensors\[0\].ema: 7 elements, and count is 8"),
                          ({"ema": gpu.zeros(8, "f16")}, "ema_dtype is f16; it must be f32 or bf16"),
                          ({"ema": gpu.zeros(8, "bf16"), "ema_dtype": "f32"}, "ema: elements of type bf16"),
                          ({"ema_dtype": "f32"}, "tensor 0's ema: its address is 0")):
        with pytest.raises(ptxgen.InvalidError, match=words):
            plan(**fields)
    with pytest.raises(ptxgen.InvalidError, match="ema_decay is 2; it must be from 0 to 1"):
        plan(ema=gpu.zeros(8)).set_hyper(0, {"ema_decay": 2.0})


@pytest.mark.parametrize("how", ["run", "graph"])
def test_copies(gpu, stream, how):
    """Codes by the scale that the step finds, its reciprocal, and the largest weight as stored."""
    w, dw = [gpu.array([1.0, -3.0, 500.0]), gpu.array([0.5] * 5)], [gpu.array([1.0] * n) for n in (3, 5)]
    codes, scale, inverse = gpu.zeros(3, "u8"), gpu.array([0.5]), gpu.zeros(1)
    amax = [gpu.zeros(1), gpu.zeros(1)]
    gpu.synchronize()
    plan = gpu.step_plan([ptxgen.StepTensor(parameter=w[0], gradient=dw[0], step=gpu.zeros(1), amax=amax[0], fp8=codes,
                                            fp8_scale=scale, fp8_scale_inv=inverse, fp8_format="e5m2"),
                          ptxgen.StepTensor(parameter=w[1], gradient=dw[1], step=gpu.zeros(1), amax=amax[1])],
                         groups=[ptxgen.SGD(lr=1.0)], max_norm=math.inf)
    with gpu.capture(stream) as graph:
        plan.run(stream)
    gpu.synchronize()
    plan.run(stream) if how == "run" else graph.launch(stream)
    stream.synchronize()
    assert w[0].tolist() == [0.0, -4.0, 499.0] and inverse.tolist() == [2.0]
    assert codes.tolist() == [0x00, 0xc0, 0x5c]  # 0, -2, 249.5 to 256
    assert amax[0].tolist() == [499.0] and amax[1].tolist() == [0.5]


def test_copies_that_do_not_fit(gpu):
    def plan(**fields):
        return gpu.step_plan([ptxgen.StepTensor(parameter=gpu.zeros(8), gradient=gpu.zeros(8), step=gpu.zeros(1),
                                                **fields)], groups=[ptxgen.SGD(lr=0.25)], max_norm=1.0)
    one = gpu.array([1.0])
    for fields, words in (({"fp8": gpu.zeros(7, "u8"), "fp8_scale": one}, r"\[0\].fp8: 7 elements, and count is 8"),
                          ({"fp8": gpu.zeros(8), "fp8_scale": one}, "fp8: elements of type f32, and codes are u8"),
                          ({"fp8": gpu.zeros(8, "u8"), "fp8_scale": gpu.zeros(1, "f64")}, "fp8_scale is f32"),
                          ({"fp8": gpu.zeros(8, "u8"), "fp8_scale": gpu.zeros(1)}, "the scale at its fp8_scale is 0"),
                          ({"amax": gpu.zeros(2)}, r"amax: 2 elements, and amax is one")):
        gpu.synchronize()
        with pytest.raises(ptxgen.InvalidError, match=words):
            plan(**fields)


def test_blocks(gpu, stream):
    """A scale for each row of a matrix of 2 x 3, and for each column of it."""
    w, codes, turned = gpu.array([1.0, -3.0, 448.0, 0.0, 0.0, 0.0]), gpu.zeros(6, "u8"), gpu.zeros(6, "u8")
    inverse, of_turned, one = gpu.zeros(2), gpu.zeros(3), gpu.array([1.0])
    fields = {"parameter": w, "gradient": gpu.array([0.0] * 6), "step": gpu.zeros(1), "fp8": codes, "fp8_columns": 3,
              "fp8_scale_inv": inverse, "fp8_transposed": turned, "fp8_transposed_scale_inv": of_turned,
              "fp8_blocks": "1x128", "fp8_scaling": "te_ue8m0"}
    gpu.synchronize()
    plan = gpu.step_plan([ptxgen.StepTensor(**fields)], groups=[ptxgen.SGD(lr=1.0)], max_norm=math.inf)
    plan.cast(stream)
    stream.synchronize()
    assert inverse.tolist() == [1.0, 1.0] and codes.tolist() == [0x38, 0xc4, 0x7e, 0, 0, 0]
    assert of_turned.tolist() == [2.0 ** -8, 2.0 ** -7, 1.0] and turned.tolist() == [0x78, 0, 0xfc, 0, 0x7e, 0]
    plan.run(stream)
    stream.synchronize()
    for changed, words in (({"fp8_scale_inv": gpu.zeros(3)}, "fp8_scale_inv: 3 elements, and the matrix has 2 blocks"),
                           ({"fp8_transposed_scale_inv": gpu.zeros(2)}, "the matrix has 3 blocks"),
                           ({"fp8_columns": 0}, "fp8_columns is 0, and the tensor has 6 elements"),
                           ({"fp8_columns": 4}, "fp8_columns is 4, and the tensor has 6 elements, which is no multiple"),
                           ({"fp8_blocks": "none", "fp8_scaling": "te", "fp8_scale": one, "fp8_scale_inv": gpu.zeros(1)},
                            "fp8_transposed_scale_inv is given, and fp8_blocks is not"),
                           ({"fp8_scale": gpu.zeros(1)}, "fp8_scale is given, and so is fp8_blocks")):
        with pytest.raises(ptxgen.InvalidError, match=words):
            gpu.step_plan([ptxgen.StepTensor(**{**fields, **changed})], groups=[ptxgen.SGD(lr=1.0)], max_norm=math.inf)


@pytest.mark.parametrize("state,outputs", [(ptxgen.State("signed"), {"copy": "bf16"}), (ptxgen.State("signed", dtype="f16"), {})])
def test_blocks_beside_16_bits(gpu, stream, state, outputs):
    """Arrays of 16 bits have eight elements a thread: weights, states and codes are as without blocks, and as cast."""
    def rule(p, g, m, lr):
        m = 0.5 * m + g
        p = p - lr * m
        return (p, m, p) if outputs else (p, m)
    made, count = ptxgen.rule(states={"m": state}, outputs=outputs, scalars={"lr": 0.125})(rule), 130 * 132
    kinds = [state.dtype or "f32", *outputs.values()]

    def arrays():
        return (gpu.array([float(k % 17 - 8) for k in range(count)]), gpu.array([float(k % 5 - 2) for k in range(count)]),
                [gpu.array([0.0] * count, kind) for kind in kinds])
    codes, inverse, found = gpu.zeros(count, "u8"), gpu.zeros(130 * 2), []
    for blocks in ({}, {"fp8": codes, "fp8_columns": 132, "fp8_scale_inv": inverse, "fp8_blocks": "1x128"}):
        w, g, more = arrays()
        gpu.synchronize()
        plan = gpu.step_plan([ptxgen.StepTensor(parameter=w, gradient=g, state=tuple(more), step=gpu.zeros(1), **blocks)],
                             groups=[made.group()], max_norm=math.inf)
        for _ in range(2):
            plan.run(stream)
        stream.synchronize()
        found.append([w.tolist(), *(one.tolist() for one in more)])
    assert found[0] == found[1] and len(set(found[0][0])) > 20
    stepped = codes.tolist(), inverse.tolist()
    plan.cast(stream)
    stream.synchronize()
    assert stepped == (codes.tolist(), inverse.tolist()) and any(stepped[0])


def test_blocks_beside_sums(gpu, stream):
    """The step of a matrix with codes has no sums, and takes none of others'."""
    def unit(p, g, sums, lr):
        return p - lr / sums[0] * g
    made = ptxgen.rule(name="unit", states={}, scalars={"lr": 1.0}, reduce=lambda g: g * g, apply=unit)(lambda g: g)
    count, sums, codes, inverse = 300 * 132, gpu.zeros(8, "f64"), gpu.zeros(300 * 132, "u8"), gpu.zeros(3 * 2)
    matrix, small = gpu.array([1.0] * count), gpu.array([4.0] * 8)
    tensors = [ptxgen.StepTensor(parameter=matrix, gradient=gpu.array([2.0] * count), step=gpu.zeros(1), fp8=codes,
                                 fp8_columns=132, fp8_scale_inv=inverse, fp8_blocks="128x128"),
               ptxgen.StepTensor(parameter=small, gradient=gpu.array([0.5] * 8), step=gpu.zeros(1), group=1)]
    gpu.synchronize()
    plan = gpu.step_plan(tensors, groups=[ptxgen.SGD(lr=0.25), made.group()], max_norm=math.inf, rule_sums_at=sums.address)
    plan.run(stream)
    stream.synchronize()
    assert sums.tolist() == [0.0] * 4 + [2.0] + [0.0] * 3
    assert matrix.tolist() == [0.5] * count and small.tolist() == [3.75] * 8 and codes.tolist() == [0x7e] * count


def reported(gpu):
    """A step plan of two tensors that report all they can."""
    w = [gpu.array([3.0, -4.0, 0.0]), gpu.array([1.0] * 4)]
    g = [gpu.array([0.0, 2.0, 0.0]), gpu.array([1.0, 1.0, 1.0, -3.0])]
    plan = gpu.step_plan([ptxgen.StepTensor(parameter=p, gradient=d, step=gpu.zeros(1)) for p, d in zip(w, g)],
                         groups=[ptxgen.SGD(lr=0.5)], max_norm=math.inf, reports_at=gpu.zeros(8, "f64"),
                         weight_reports_at=gpu.zeros(6, "f64"))
    gpu.synchronize()
    return plan, g


def test_reports(gpu):
    plan, g = reported(gpu)
    plan.run()
    assert plan.read_reports() == ((2.0, 2.0, 0, 2, -1), (math.sqrt(12), 3.0, 0, 0, -1))
    assert plan.read_reports()[0].zeros == 2
    first = plan.read_weight_reports()
    assert first == ((math.sqrt(34), 1.0, 5.0, 0), (math.sqrt(7), math.sqrt(3), 2.5, 0))
    plan.error_if_nonfinite(["w", None])
    g[1].upload([0.0, 0.0, math.inf, math.nan])
    plan.run()
    with pytest.raises(ptxgen.NonfiniteError, match=r"tensor 1 \(b\) has NaN or infinity, the first at element 2$"):
        plan.error_if_nonfinite(["w", "b"])
    with pytest.raises(ArithmeticError, match="tensor 1 has NaN"):
        plan.error_if_nonfinite()
    assert plan.read_weight_reports() == first  # skipped
    with pytest.raises(ptxgen.InvalidError, match="names: 1 of them, and the plan has 2 tensors"):
        plan.error_if_nonfinite(["w"])


def test_reports_that_there_are_not(gpu):
    array = gpu.zeros(3)
    plan = gpu.clip_plan([array], max_norm=1.0)
    with pytest.raises(ptxgen.InvalidError, match="the plan has no reports_at"):
        plan.read_reports()
    with pytest.raises(ptxgen.InvalidError, match="weight_reports_at: 6 elements are 48 bytes, and its memory ends"):
        gpu.step_plan([ptxgen.StepTensor(parameter=gpu.zeros(1), gradient=gpu.zeros(1), step=gpu.zeros(1))] * 2,
                      groups=[ptxgen.SGD(lr=0.5)], max_norm=1.0, weight_reports_at=gpu.zeros(1, "f64"))


def test_factors_of_rows_and_columns(gpu):
    """SGD without a gradient's effect, so that a factor is all that a step does."""
    for columns, expected in ((False, [0.5, 1.0, 3.0, 4.0, 10.0, 12.0]), (True, [0.5, 4.0, 1.5, 8.0, 2.5, 12.0])):
        weight, factors = gpu.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), gpu.array([0.5, 2.0])
        clips = [{"tensor": 0, "range": (0, 1, 0, columns), "factor_at": factors},
                 {"tensor": 0, "range": (1 if columns else 2, 1, 0, columns), "factor_at": factors.address + 4}]
        plan = gpu.step_plan([ptxgen.StepTensor(parameter=weight, gradient=gpu.zeros(6), step=gpu.zeros(1), columns=2)],
                             groups=[ptxgen.SGD(lr=0.5)], max_norm=1.0, qk_clips=clips)
        gpu.synchronize()
        plan.run()
        gpu.synchronize()
        assert weight.tolist() == expected
    with pytest.raises(ptxgen.InvalidError, match=r"qk_clips\[0\]\.factor_at: elements of type f64, and it is f32"):
        gpu.step_plan([ptxgen.StepTensor(parameter=weight, gradient=gpu.zeros(6), step=gpu.zeros(1), columns=2)],
                      groups=[ptxgen.SGD(lr=0.5)], max_norm=1.0,
                      qk_clips=[{"tensor": 0, "range": (0, 1), "factor_at": gpu.zeros(1, "f64")}])


def test_reports_of_ranks(gpu):
    plan, _ = reported(gpu)
    plan.run()
    rows, of_weights = plan.read_reports(), plan.read_weight_reports()
    both = ptxgen.fold_reports([rows, rows])
    assert both[0] == (math.sqrt(8), 2.0, 0, 4, -1)
    assert ptxgen.fold_reports([rows, rows], copies=[[False] * 2, [True] * 2]) == rows
    assert ptxgen.fold_reports([of_weights]) == of_weights
    assert ptxgen.fold_reports([of_weights] * 4)[1].norm == math.sqrt(4 * of_weights[1].norm ** 2)
    for wrong, words in (([rows, rows[:1]], "they have 2, 1 reports"), ([[1]], "read_reports"), (3, "a list"),
                         ([rows, of_weights], "read_reports"), ([], "ranks is 0")):
        with pytest.raises(ptxgen.InvalidError, match=words):
            ptxgen.fold_reports(wrong)
    with pytest.raises(ptxgen.InvalidError, match="copies: 1 values, and there are 4 reports"):
        ptxgen.fold_reports([rows, rows], copies=[[True]])


def test_units(gpu):
    """Rows are clipped by the norms of their weights: the first one's gradient by a half, the second one's is kept."""
    w, dw = gpu.array([4.0] * 4 + [8.0] * 4), gpu.array([2.0] * 8)
    group = {**ptxgen.SGD(lr=1.0), "agc": {"clipping": 0.25}}
    plan = gpu.step_plan([ptxgen.StepTensor(parameter=w, gradient=dw, step=gpu.zeros(1), columns=4)], groups=[group],
                         max_norm=math.inf)
    with pytest.raises(ptxgen.InvalidError, match=r"weights_changed\(\) comes first"):
        plan.run()
    plan.weights_changed()
    plan.run()
    assert w.tolist() == [3.0] * 4 + [6.0] * 4
    plan.set_hyper(0, {**group, "hyper": {"lr": 2.0}})
    plan.run()
    assert w.tolist() == [1.5] * 4 + [3.0] * 4
    with pytest.raises(ptxgen.InvalidError, match=r"agc: \(0.5, 0.0\), and group 0 of the plan has \(0.25, 0.0\)"):
        plan.set_hyper(0, {**group, "agc": {"clipping": 0.5}})
    with pytest.raises(ptxgen.InvalidError, match="no group of the plan has agc"):
        one_step(gpu, ptxgen.SGD(lr=1.0))[0].weights_changed()


@pytest.mark.parametrize("how", ["run", "graph"])
def test_accumulate(gpu, stream, how):
    """Two micro-batches added by calls, and the third by the run."""
    n = 700
    batches = [[float((k * turn) % 8) for k in range(n)] for turn in (1, 3, 5)]
    w, dw, acc = gpu.zeros(n), gpu.zeros(n, "bf16"), gpu.array([math.nan] * n)
    plan = gpu.step_plan([ptxgen.StepTensor(parameter=w, gradient=dw, accumulator=acc, accumulated=gpu.zeros(2, "u32"),
                                            step=gpu.zeros(1))], groups=[ptxgen.SGD(lr=0.25)], max_norm=math.inf)
    gpu.synchronize()
    with gpu.capture(stream) as adds:
        plan.accumulate(stream)
    with gpu.capture(stream) as takes:
        plan.run(stream)
    for turn in range(2):
        for k, batch in enumerate(batches):
            dw.upload(batch)
            if k < 2:
                adds.launch(stream) if how == "graph" else plan.accumulate(stream)
            else:
                takes.launch(stream) if how == "graph" else plan.run(stream)
            stream.synchronize()
        total = [sum(x) for x in zip(*batches)]
        assert acc.tolist() == total
        assert w.tolist() == [-0.25 * (turn + 1) * x for x in total]
        assert plan.read(stream).records[0].norm == f32(math.sqrt(sum(x * x for x in total)))
    with pytest.raises(ptxgen.InvalidError, match="no tensor of the plan has an accumulator"):
        one_step(gpu, ptxgen.SGD(lr=1.0))[0].accumulate()


def one_step(gpu, group):
    """A plan of one weight, 1, whose gradient is 1, and what steps it."""
    w = gpu.array([1.0])
    plan = gpu.step_plan(
        [ptxgen.StepTensor(parameter=w, gradient=gpu.array([1.0]), step=gpu.zeros(1),
                           state=[gpu.zeros(1) for _ in range(2 if "adam" in group["rule"] else 0)])],
        groups=[group], max_norm=math.inf)

    def step():
        plan.run()
        return w.tolist()[0]
    gpu.synchronize()
    return plan, step


def test_scalars_that_are_not_named_stay(gpu):
    given = {"betas": (0.5, 0.25), "eps": 0.5, "weight_decay": 0.125}
    (all_named, expected), (some_named, step) = (one_step(gpu, ptxgen.AdamW(lr=0.25, **given))
                                                 for _ in range(2))
    for lr, changed in ((0.5, {}), (0.125, {"eps": 2.0}), (0.0625, {})):
        given.update(changed)
        all_named.set_hyper(0, ptxgen.AdamW(lr=lr, **given))
        some_named.set_hyper(0, {"lr": lr, **changed})
        assert expected() == step()
    with pytest.raises(ptxgen.InvalidError, match="eps"):
        some_named.set_hyper(0, {"lr": 0.5, "eps": -1.0})
    some_named.set_hyper(0, {"hyper": {"weight_decay": 0.0}, "rule": "adamw"})
    all_named.set_hyper(0, ptxgen.AdamW(lr=lr, **{**given, "weight_decay": 0.0}))
    assert expected() == step()


OTHER_GROUPS = [
    (ptxgen.SGD(lr=1.0), "^rule: sgd, and group 0 of the plan has adamw: only scalars can change"),
    (ptxgen.Lion(lr=1.0), "^rule: lion"),
    (ptxgen.Adam(lr=1.0), "^rule: adam,"),
    (ptxgen.AdamW(lr=1.0, maximize=True), "^maximize: True, and group 0 of the plan has False"),
    ({**ptxgen.AdamW(lr=1.0), "nesterov": True}, "^nesterov: True"),
    (ptxgen.AdamW(lr=1.0, lr_at=64), "^lr_at: 0x40, and group 0 of the plan has None"),
    (ptxgen.AdamW(lr=1.0, hyper_at=64), "^hyper_at: 0x40"),
    ({**ptxgen.AdamW(lr=1.0), "decay": 1.0}, "no 'decay'; there are rule"),
    (0.1, r"^hyper: a group such as AdamW\(lr=...\), or scalars .* not 0\.1"),
    (None, "^hyper: a group"),
    ({"lr": 0.5, "beta": 1.0}, "hyper: there is no 'beta'; there are lr"),
    ({"lr": "high"}, "hyper.lr: a number is needed, not 'high'"),
]


@pytest.mark.parametrize("group, message", OTHER_GROUPS, ids=[message for _, message in OTHER_GROUPS])
def test_only_scalars_of_a_group_change(gpu, group, message):
    plan, step = one_step(gpu, ptxgen.AdamW(lr=0.5, eps=0.5, weight_decay=0.0))
    with pytest.raises(ptxgen.InvalidError, match=message):
        plan.set_hyper(0, group)
    assert step() == f32(1 - f32(0.5 / 1.5))  # m / (sqrt(v) + eps) is 1 / 1.5, and as it was


def test_a_group_stays_as_at_creation(gpu):
    lr = gpu.array([0.25])
    plan, step = one_step(gpu, ptxgen.SGD(lr=9.0, lr_at=lr, maximize=True))
    for other, message in ((ptxgen.SGD(lr=1.0, maximize=True), f"lr_at: None, .* has {lr.address:#x}"),
                           (ptxgen.SGD(lr=1.0, lr_at=lr), "maximize: False, .* has True")):
        with pytest.raises(ptxgen.InvalidError, match=message):
            plan.set_hyper(0, other)
    plan.set_hyper(0, ptxgen.SGD(lr=1.0, lr_at=lr, maximize=True, weight_decay=1.0))
    assert step() == 1.0  # the gradient -1 and the decay 1
    for group in (1, -1, "0"):
        with pytest.raises(ptxgen.InvalidError, match="group: "):
            plan.set_hyper(group, {"lr": 1.0})


def test_formats_take_types_from_the_arrays(gpu, stream):
    n = 32
    w, dw = gpu.array([1.0] * n, "bf16"), gpu.array([1.0] * n, "f32")
    m, master, t = gpu.zeros(n), gpu.array([1.0] * n), gpu.zeros(1)
    plan = gpu.step_plan([ptxgen.StepTensor(parameter=w, gradient=dw, state=(m,), beside=master, step=t,
                                            format="master", whole={"first": 0})],
                         groups=[ptxgen.Lion(lr=0.25)], max_norm=math.inf)
    gpu.synchronize()
    plan.run(stream)
    stream.synchronize()
    assert w.tolist() == master.tolist() == [0.75] * n


# ---- without a GPU


def test_descriptions_and_texts():
    tensors = [{"data": 0, "count": 1000, "dtype": "f32"}]
    clip = ptxgen.describe_clip(tensors, max_norm=1.0)
    assert clip.elements == 1000 and clip.launches == 2 and clip.accumulator == "f64"
    assert ".entry " in ptxgen.emit_clip(tensors, max_norm=1.0, target="sm_80")
    rows = [{"parameter": 0, "count": 1000, "dtype": "f32"}]
    step = ptxgen.describe_step(rows, groups=[ptxgen.SGD(lr=1.0)], max_norm=1.0)
    assert step.elements == 1000 and step.launches == 3
    assert ".target sm_90" in ptxgen.emit_step(rows, groups=[ptxgen.SGD(lr=1.0)], max_norm=1.0,
                                               target="sm_90")


def defaults_of(function):
    """The scalars among a function's parameters that have a default."""
    found = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()
             if parameter.default is not parameter.empty}
    if "betas" in found:
        found["beta1"], found["beta2"] = found.pop("betas")
    return found


@pytest.mark.parametrize("rule, file, scalars", [
    ("AdamW", "adam", "scalars_of_adamw"), ("Adam", "adam", "scalars_of_adam"), ("SGD", "sgd", "scalars"),
    ("Lion", "lion", "scalars")])
def test_defaults(rule, file, scalars):
    """Defaults are those that the rule's own file has."""
    source = pathlib.Path(__file__).parents[2] / "src" / "kernels" / "step" / "rules" / f"{file}.c"
    rows = re.search(scalars + r"\[\w*\] = {(.*?)\n};", source.read_text(), re.DOTALL)[1]
    usual = {name: float(value) for name, value in re.findall(r'{ "(\w+)", \w+, \w+, ([-.e\d]+) }', rows)}
    given = defaults_of(getattr(ptxgen, rule))
    assert len(usual) == rows.count("{") and set(usual) - {"lr"} == set(usual) & set(given)
    assert {name: given[name] for name in usual if name != "lr"} == {
        name: value for name, value in usual.items() if name != "lr"}


def test_muon_plan(gpu, stream):
    """Of one part or two, launched and captured: the same bits."""
    values = [((7 * k) % 13 - 6) / 128 for k in range(4 * 64)]  # of length below 1
    whole, upper, lower = (gpu.array(some, "f16") for some in (values, values[:64], values[64:]))
    matrix = {"rows": 4, "columns": 64}
    one = gpu.muon_plan([{**matrix, "parts": [{"at": whole, "rows": 4}]}])
    two = gpu.muon_plan([{**matrix, "parts": [{"at": upper, "rows": 1}, {"at": lower, "rows": 3}]}])
    gpu.synchronize()
    one.run(stream)
    with gpu.capture(stream) as graph:
        two.run(stream)
    graph.launch(stream)
    gpu.synchronize()
    found = whole.tolist()
    assert found == upper.tolist() + lower.tolist() and found != values
    assert all(0.5 < math.sqrt(sum(x * x for x in found[64 * k:64 * (k + 1)])) < 1.5 for k in range(4))
    with gpu.capture(stream):
        with pytest.raises(ptxgen.CaptureError, match="create the Muon plan before the capture begins"):
            gpu.muon_plan([], stream=stream)


def test_muon_triples(gpu):
    """C reads three coefficients a step: as many have to be there."""
    matrix, good = {"rows": 4, "columns": 64, "parts": [{"at": gpu.zeros(256, "f16"), "rows": 4}]}, [2.0, -1.5, 0.5]
    tensor = {"parameter": gpu.zeros(64), "gradient": gpu.zeros(64), "state": [gpu.zeros(64)], "step": gpu.zeros(1),
              "columns": 16}
    for steps, triples in ((5, good), (1, good * 2), (2, good + good[:2]), (0, good)):
        muon = {"steps": steps, "triples": triples}
        words = rf"muon.triples: {len(triples)} numbers, and steps is {steps}: three a step are needed"
        with pytest.raises(ptxgen.InvalidError, match=r"matrices\[0\]\." + words):
            gpu.muon_plan([{**matrix, "muon": muon}])
        with pytest.raises(ptxgen.InvalidError, match=r"groups\[0\]\." + words):
            gpu.step_plan([tensor], groups=[{"rule": "muon", "hyper": {"momentum": 0.5}, "muon": muon}], max_norm=1.0)
    gpu.muon_plan([{**matrix, "muon": {"steps": 2, "triples": good * 2}}])

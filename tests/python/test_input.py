# SPDX-License-Identifier: MIT
"""Misuse: an exception of the right class, which names what was wrong, and nothing half done."""

import array
import ctypes
import math
import struct

import ptxgen
import pytest
from conftest import ON_EMULATOR, SAXPY, free_bytes, python

HYPER = {"groups": [ptxgen.SGD(lr=1.0)], "max_norm": 1.0}


def row(gpu, **changes):
    fields = {"parameter": gpu.zeros(4), "gradient": gpu.zeros(4), "step": gpu.zeros(1)}
    return {**fields, **changes}


LAUNCHES = [
    (((1, 2.0, 0, 0, 5), {}), "has 4 parameters, not 5"),
    (((1, 2.0), {}), "no value for x, y"),
    (((1, 2.0, 0), {"x": 0}), "x is given twice"),
    (((1, 2.0, 0, 0), {"z": 0}), "no parameter 'z'; it has n, a, x, y"),
    (((-1, 2.0, 0, 0), {}), r"n: -1 is no \.u32"),
    (((1 << 32, 2.0, 0, 0), {}), r"n: 4294967296 is no \.u32"),
    (((1.5, 2.0, 0, 0), {}), r"n: 1.5 is no \.u32"),
    (((1, "two", 0, 0), {}), r"a: 'two' is no \.f32"),
    (((1, 1e300, 0, 0), {}), r"a: 1e\+300 is no \.f32"),
    (((1, 2.0, b"abc", 0), {}), "x: 3 bytes for 8"),
    (((1, 2.0, [1, 2], 0), {}), "x: an address, or an array with DLPack"),
    (((1, 2.0, 0, 0), {"block": 128}), "256"),
    (((1, 2.0, 0, 0), {"grid": (1, 1, 1, 1)}), "grid: at most three extents, not 4"),
    (((1, 2.0, 0, 0), {"grid": -1}), "grid: -1 is out of range"),
    (((1, 2.0, 0, 0), {"grid": "1"}), "grid: an integer is needed"),
    (((1, 2.0, 0, 0), {"stream": "default"}), "stream: a CUstream as an integer"),
    (((1, 2.0, 0, 0), {"stream": True}), "stream: a CUstream as an integer"),
    (((1, 2.0, 0, 0), {"shared_bytes": 1 << 30}), "shared"),
]


@pytest.mark.parametrize("call, message", LAUNCHES, ids=[message for _, message in LAUNCHES])
def test_launches(saxpy, call, message):
    arguments, named = call
    with pytest.raises(ptxgen.InvalidError, match=message):
        saxpy(*arguments, **{"grid": 1, **named})


CALLS = [
    (lambda gpu: gpu.load("nonsense"), ptxgen.CompileError, "is it PTX"),
    (lambda gpu: gpu.load(SAXPY.replace("fma.rn.f32", "fma.rn.f33")), ptxgen.CompileError, "f33"),
    (lambda gpu: gpu.load(b"text"), ptxgen.InvalidError, "PTX as a string"),
    (lambda gpu: gpu.load("a\0b"), ptxgen.InvalidError, "NUL"),
    (lambda gpu: gpu.load(SAXPY, registers=3), ptxgen.InvalidError, "no 'registers'; there are"),
    (lambda gpu: gpu.load(SAXPY)["other"], ptxgen.NotFoundError, "saxpy"),
    (lambda gpu: gpu.empty(-1), ptxgen.InvalidError, "count: -1 is out of range"),
    (lambda gpu: gpu.empty(1.5), ptxgen.InvalidError, "count: an integer is needed"),
    (lambda gpu: gpu.empty(1, "float"), ptxgen.InvalidError, "'float' is none of"),
    (lambda gpu: gpu.empty(1, "pred"), ptxgen.InvalidError, "'pred' cannot be in memory"),
    (lambda gpu: gpu.empty(1 << 45), ptxgen.OutOfMemoryError, "memory"),
    (lambda gpu: gpu.array([1, "x"]), ptxgen.InvalidError, "values do not fit f32"),
    (lambda gpu: gpu.array([256], "u8"), ptxgen.InvalidError, "values do not fit u8"),
    (lambda gpu: gpu.array([1], "f16x2"), ptxgen.InvalidError, "no numbers on the host"),
    (lambda gpu: gpu.array(b"abc", "f32"), ptxgen.InvalidError, "no whole number of f32"),
    (lambda gpu: gpu.array(memoryview(b"abcd")[::2]), ptxgen.InvalidError, "not contiguous"),
    (lambda gpu: gpu.zeros(2).upload([1, 2, 3]), ptxgen.InvalidError, "12 bytes"),
    (lambda gpu: gpu.zeros(2, "s32").upload(array.array("f", [1])), ptxgen.InvalidError, "values do not fit s32"),
    (lambda gpu: gpu.zeros(2).download_into(b"1234"), ptxgen.InvalidError, "read-only"),
    (lambda gpu: gpu.zeros(2).copy_from(gpu.zeros(3)), ptxgen.InvalidError, "12 bytes for 8"),
    (lambda gpu: gpu.zeros(2).fill_bytes(256), ptxgen.InvalidError, "out of range"),
    (lambda gpu: gpu.kernel("sum", "f32"), ptxgen.NotFoundError, "'sum'; there are squared_sum"),
    (lambda gpu: gpu.kernel("squared_sum", "s32"), ptxgen.InvalidError, "s32"),
    (lambda gpu: gpu.kernel("squared_sum", "f32", partials="f16"), ptxgen.InvalidError,
     r"no option partials=f16; it has partials=f64\|f32"),
    (lambda gpu: gpu.kernel("squared_sum", "f32")(x=0, partials=0), ptxgen.InvalidError, "no value for n"),
    (lambda gpu: gpu.kernel("squared_sum", "f32")(x=gpu.zeros(9, "bf16"), n=9, partials=0),
     ptxgen.InvalidError, "x has elements of type bf16, not f32"),
    (lambda gpu: gpu.kernel("squared_sum", "f32")(x=gpu.zeros(8), n=9, partials=0),
     ptxgen.InvalidError, "x has 8 elements, not 9"),
    (lambda gpu: gpu.kernel("squared_sum", "f32")(x=0, n=5000, partials=gpu.zeros(1, "f64")),
     ptxgen.InvalidError, "partials has 1 elements, not 2"),
    (lambda gpu: gpu.kernel("squared_sum", "f32")(x=0, n="9", partials=0), ptxgen.InvalidError,
     "n: an integer is needed"),
    (lambda gpu: ptxgen.emit("squared_sum", "f32", target="sm_5"), ptxgen.InvalidError, "'sm_5'"),
    (lambda gpu: gpu.capture(None).__enter__(), ptxgen.InvalidError, "default stream"),
    (lambda gpu: gpu.capture(1, mode="fast"), ptxgen.InvalidError, "mode: 'fast' is none of"),
    (lambda gpu: gpu.capture(1).launch(), ptxgen.InvalidError, "not captured yet"),
    (lambda gpu: ptxgen.Device(ordinal=99, primary=True), ptxgen.NoDeviceError, "99"),
    (lambda gpu: ptxgen.Device(ordinal="0"), ptxgen.InvalidError, "ordinal: an integer"),
    (lambda gpu: ptxgen.Device(0), TypeError, "positional"),
]


@pytest.mark.parametrize("call, kind, message", CALLS, ids=[message for *_, message in CALLS])
def test_calls(gpu, call, kind, message):
    with pytest.raises(kind, match=message):
        call(gpu)


PLANS = [
    (lambda gpu: gpu.clip_plan(gpu.zeros(4)), "tensors"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)]), "max_norm is 0"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=-1.0), "max_norm"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1e300), r"max_norm: 1e\+300 is out of range"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm="1"), "max_norm: a number is needed, not '1'"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], norm=1.0), "no 'norm'; there are"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0, nonfinite="ignore"),
     "nonfinite: 'ignore' is none of propagate, skip, zero"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0, any_address=1), "any_address: True or"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4, "s32")], max_norm=1.0), "dtype"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4).address], max_norm=1.0), r"tensors\[0\]: no count"),
    (lambda gpu: gpu.clip_plan([{"data": gpu.zeros(4), "count": 8}], max_norm=1.0),
     r"tensors\[0\]\.data: 4 elements, and count is 8"),
    (lambda gpu: gpu.clip_plan([{"data": gpu.zeros(4), "dtype": "f64"}], max_norm=1.0),
     r"tensors\[0\]\.data: elements of type f32, and dtype is f64"),
    (lambda gpu: gpu.clip_plan([{"data": gpu.zeros(4), "weight": 0.0}], max_norm=1.0),
     r'tensors\[0\]\.weight: 0; "uncounted": True leaves a tensor out of the norm'),
    (lambda gpu: gpu.clip_plan([{"data": gpu.zeros(4), "grup": 1}], max_norm=1.0),
     r"tensors\[0\]: there is no 'grup'"),
    (lambda gpu: gpu.clip_plan([{"data": gpu.zeros(4), "group": -1}], max_norm=1.0),
     r"tensors\[0\]\.group: -1 is out of range"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], group_max_norms=[1.0], group_count=2),
     "group_max_norms: 1 values, and group_count is 2"),
    (lambda gpu: gpu.clip_plan([0x123400], max_norm=1.0), "no count"),
    (lambda gpu: gpu.clip_plan([{"data": 64, "count": 4, "dtype": "f32"}], max_norm=1.0), "tensor 0"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0, update={"growth": 0.5}), "growth"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0, update=3), "update"),
    (lambda gpu: gpu.clip_plan([array.array("f", [1.0])], max_norm=1.0), "an address, or an array"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0).set_max_norm(1.0, group=7), "group is 7"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_max_norm(1.0, norm_group=7), "norm_group is 7"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_max_norm(1.0, norm_group=-1), "^norm_group: -1"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0).set_loss_scale(-1.0), "scale"),
    (lambda gpu: gpu.step_plan([row(gpu)], max_norm=1.0), "group"),
    (lambda gpu: gpu.step_plan([row(gpu)], groups=[{"rule": "adagrad"}], max_norm=1.0),
     r"groups\[0\]\.rule: 'adagrad' is none of adamw, adam, sgd, lion"),
    (lambda gpu: gpu.step_plan([row(gpu)], groups=[ptxgen.SGD(lr=math.nan)], max_norm=1.0), "lr"),
    (lambda gpu: gpu.step_plan([row(gpu)], groups=[ptxgen.AdamW(lr=1.0)], max_norm=1.0), "state"),
    (lambda gpu: gpu.step_plan([row(gpu, state=range(1, 10))], **HYPER),
     r"tensors\[0\]\.state: at most 8 values"),
    (lambda gpu: gpu.step_plan([row(gpu, gradient=gpu.zeros(5))], **HYPER),
     r"tensors\[0\]\.gradient: 5 elements, and count is 4"),
    (lambda gpu: gpu.step_plan([row(gpu, format="int8")], **HYPER), "format: 'int8' is none of full"),
    (lambda gpu: gpu.step_plan([row(gpu, whole={"first": -1})], **HYPER), "whole.first: -1 is out"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_hyper(3, ptxgen.SGD(lr=1.0)), "group"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_hyper(0, {"learning": 1.0}), "'learning'"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_addresses({1: {"gradient": 0}}), "no tensor 1"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_addresses({0: {"count": 3}}), "count stays"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).step(), "finish"),
    (lambda gpu: gpu.step_plan([row(gpu)], groups=ptxgen.SGD(lr=1.0), max_norm=1.0),
     "^groups: a list of them is needed"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER, group_max_norms=1.0), "^group_max_norms: a list"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_gradients(gpu.zeros(4)), "^arrays: a list of them"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_gradients([None], first="0"), "^first: an integer"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0).set_data(gpu.zeros(4)), "^arrays: a list"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_addresses([{"gradient": 0}]), "^tensors: what"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_addresses({0: gpu.zeros(4)}), r"^tensors\[0\]: an index"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_gradients([gpu.zeros(4, "bf16")]),
     r"^arrays\[0\], the gradient of tensor 0: elements of type bf16, and gradient_dtype is f32"),
    (lambda gpu: gpu.step_plan([row(gpu)], **HYPER).set_gradients([gpu.zeros(3)]),
     r"^arrays\[0\], the gradient of tensor 0: 3 elements, and count is 4"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0).set_data([gpu.zeros(4, "f16")]),
     r"^arrays\[0\], of tensor 0: elements of type f16, and dtype is f32"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0).set_data([gpu.zeros(5)]),
     r"^arrays\[0\], of tensor 0: 5 elements, and count is 4"),
    (lambda gpu: gpu.step_plan([row(gpu, state=gpu.zeros(2))], **HYPER), r"^tensors\[0\]\.state: at most 8"),
    (lambda gpu: gpu.step_plan([row(gpu)], groups=[ptxgen.SGD(lr=1.0, lr_at=gpu.zeros(1, "f64"))],
                               max_norm=1.0), r"^groups\[0\]\.lr_at: elements of type f64, and it is f32"),
    (lambda gpu: gpu.clip_plan([gpu.zeros(4)], max_norm=1.0, sums_at=gpu.zeros(1)),
     "^sums_at: elements of type f32, and it is f64"),
    (lambda gpu: ptxgen.AdamW(lr=1.0, betas=(0.9,)), r"^betas: two numbers are needed, not \(0\.9,\)"),
    (lambda gpu: ptxgen.Adam(lr=1.0, betas=0.9), "^betas: two numbers are needed, not 0.9"),
    (lambda gpu: ptxgen.Lion(lr=1.0, betas=(0.9, 0.99, 0.999)), "^betas: two numbers"),
]


N = 300  # two blocks with an absmax each
FORMATS = {  # the types of parameter, states and what lies beside
    "full": ("f32", "f32", None), "state_bf16": ("f32", "bf16", None), "master": ("f16", "f32", "f32"),
    "remainder": ("bf16", "f32", "s16"), "stochastic": ("bf16", "bf16", None),
    "state_8bit": ("bf16", "u8", None), "state_f16": ("bf16", "f16", None),
    "master_24bit": ("f16", "u8", "s8")}
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "s16": 2, "u8": 1, "s8": 1}


def formatted(gpu, name):
    """A tensor in a format, each of its arrays of the type that it must have."""
    parameter, state, beside = FORMATS[name]
    made = {"parameter": gpu.zeros(N, parameter), "gradient": gpu.zeros(N, "bf16"), "format": name,
            "state": [gpu.zeros(N, state), gpu.zeros(N, state)], "step": gpu.zeros(1)}
    if beside:
        made["beside"] = gpu.zeros(N, beside)
    if name in ("state_8bit", "state_f16"):
        made["absmax"] = [gpu.zeros(2), gpu.zeros(2)]
    if name == "master_24bit":
        made["absmax"] = [gpu.zeros(-(-N // 32), "f16") for _ in range(2)]
    return made


def arrays_of(tensor):
    """Each array of a tensor: its field, how messages name it, the array, and the field with another."""
    for field, value in tensor.items():
        several = isinstance(value, list)
        for k, one in enumerate(value if several else [value]):
            def other(array, field=field, k=k, value=value, several=several):
                return {field: [*value[:k], array, *value[k + 1:]] if several else array}
            if field != "format":
                yield field, rf"{field}\[{k}\]" if several else field, one, other


@pytest.mark.parametrize("name", FORMATS)
def test_arrays_of_steps_have_types_and_counts(gpu, name):
    tensor, params = formatted(gpu, name), {"groups": [ptxgen.AdamW(lr=0.0)], "max_norm": 1.0}
    types = {"dtype": tensor["parameter"].dtype, "gradient_dtype": "bf16", "count": N}
    plan = gpu.step_plan([tensor], **params)

    def refused(field, wrong, message):
        with pytest.raises(ptxgen.InvalidError, match=message):
            gpu.step_plan([{**types, **tensor, **wrong}], **params)
        if field != "step":
            with pytest.raises(ptxgen.InvalidError, match=message):
                plan.set_addresses({0: wrong})

    for field, where, array, other in arrays_of(tensor):
        for dtype in {"f64", "s32", "f32", "bf16", "s16", "u8"} - {array.dtype}:
            refused(field, other(gpu.zeros(array.count, dtype)),
                    rf"^tensors\[0\]\.{where}: elements of type {dtype}, and .*{array.dtype}")
        for count in (array.count - 1, array.count + 1):
            refused(field, other(gpu.zeros(count, array.dtype)),
                    rf"^tensors\[0\]\.{where}: {count} elements, and ")
        size = BYTES[array.dtype]  # the library has the same: addresses are multiples of it
        if size > 1:
            with pytest.raises(ptxgen.InvalidError, match=f"{where}.* not a multiple .* {size} bytes"):
                gpu.step_plan([{**types, **tensor, **other(array.address + size // 2)}], **params)
    plan.run()
    fresh = formatted(gpu, name)
    plan.set_addresses({0: {field: fresh[field] for field in set(fresh) - {"format", "step"}}})
    plan.run()
    assert tensor["step"].tolist() == [2.0]


@pytest.mark.parametrize("call, message", PLANS, ids=[str(k) for k in range(len(PLANS))])
def test_plans(gpu, call, message):
    before = free_bytes(gpu)
    with pytest.raises(ptxgen.InvalidError, match=message):
        call(gpu)
    assert free_bytes(gpu) == before


# ---- operations

# Calls without count and dtype: the operation, its arrays as (type, elements), what else it takes, and
# what it writes. t: of each type in turn; s: of its scales.
CALLS_OF_OPERATIONS = [
    ("quantize_backward", {"x": ("t", 64), "d_output": ("t", 64), "d_input": ("t", 64)}, {"scale": 1.0}, "d_input"),
    ("quantize_backward", {"x": ("t", 64), "d_output": ("t", 64), "d_input": ("t", 64), "scales": ("s", 4),
                           "zero_points": ("s32", 4)}, {"channels": 4}, "d_input"),
    ("fake_quantize", {"x": ("t", 64), "y": ("t", 64), "scales": ("s", 1), "zero_points": ("s32", 1)}, {}, "y"),
    ("fake_quantize", {"x": ("t", 64), "y": ("t", 64), "scales": ("s", 2), "zero_points": ("s", 2)},
     {"channels": 2, "inner": 8, "learned_zero_points": True}, "y"),
    ("fake_quantize_groups", {"x": ("t", 128), "y": ("t", 128), "scales": ("f32", 4), "zero_points": ("s32", 4)},
     {"levels": "unsigned"}, "y"),
    ("fake_quantize_groups", {"x": ("t", 128), "y": ("t", 128), "scales": ("f32", 2)}, {"group": 64}, "y"),
    ("quantize_learned_backward",
     {"x": ("t", 64), "d_output": ("t", 64), "d_input": ("t", 64), "scales": ("s", 2), "zero_points": ("s", 2),
      "d_scales": ("s", 2), "d_zero_points": ("s", 2)}, {"channels": 2, "inner": 32}, "d_scales"),
    ("quantize_learned_backward",
     {"x": ("t", 64), "d_output": ("t", 64), "d_input": ("t", 64), "scales": ("s", 2),
      "fixed_zero_points": ("s32", 2), "d_scales": ("s", 2)}, {"group": 32}, "d_scales"),
    ("observer_update", {"x": ("t", 64), "state": ("f32", 4), "scales": ("f32", 1), "zero_points": ("s32", 1)}, {},
     "scales"),
    ("lerp_backward", {"d_output": ("t", 64), "d_a": ("t", 64), "d_b": ("t", 64)}, {"weight": 0.5}, "d_b"),
    ("lerp_backward", {"d_output": ("t", 64), "d_b": ("t", 64), "weight_at": ("f64", None)}, {}, "d_b"),
    ("fp8_cast", {"x": ("t", 64), "y": ("u8", 64), "scale_at": ("f32", None), "amax": ("f32", None)}, {}, "y"),
    ("delayed_scale_update", {"history": ("f32", 6), "scale": ("f32", 3), "scale_inv": ("f32", 3),
                              "formats": ("u32", 3)}, {"rows": 2}, "scale_inv"),
]
NOT_F64 = {"fake_quantize_groups", "fp8_cast"}


def operation_calls():
    for name, arrays, others, written in CALLS_OF_OPERATIONS:
        for dtype in ("f32", "f64", "f16", "bf16"):
            if dtype == "f64" and (name in NOT_F64 or "group" in others):
                continue
            types = {"t": dtype, "s": "f64" if dtype == "f64" else "f32"}
            typed = {field: (types.get(kind, kind), count) for field, (kind, count) in arrays.items()}
            counts = [count for kind, count in arrays.values() if kind == "t"]
            explicit = {"count": counts[0], "dtype": dtype} if counts else {"tensors": 3}
            yield pytest.param(name, typed, explicit, others, written, id=f"{name}-{'-'.join(others)}-{dtype}")


@pytest.mark.parametrize("name, arrays, explicit, others, written", list(operation_calls()))
def test_operations_look_at_their_arrays(gpu, name, arrays, explicit, others, written):
    operations = gpu.operations()
    given = {field: gpu.empty(count or 2, dtype) for field, (dtype, count) in arrays.items()}
    for array in given.values():
        array.upload([1] * array.count)
    if name == "quantize_learned_backward" and "group" not in others:
        needed = operations.quantize_learned_workspace(**given, **others)
        others = {**others, "workspace": gpu.empty(needed, "u8")}
    given[written].fill_bytes(0x55)
    gpu.synchronize()
    getattr(operations, name)(**given, **others)
    gpu.synchronize()
    size = given[written].nbytes // given[written].count
    assert given[written].tobytes()[-size:] != b"\x55" * size

    def refused(message, field, value):
        with pytest.raises(ptxgen.InvalidError, match=message):
            getattr(operations, name)(**{**explicit, **others, **given, field: value})

    for field, (dtype, count) in arrays.items():
        array, size = given[field], given[field].nbytes // given[field].count
        for other in {"f64", "s32", "f32", "bf16", "u8", "u32"} - {dtype}:
            refused(f"^{field}: elements of type {other}, and .* {dtype}$", field, gpu.zeros(array.count, other))
        for wrong in (count - 1, count + 1) if count else ():
            refused(f"^{field}: {wrong} elements, and ", field, gpu.zeros(wrong, dtype))
        # The library has the same type and count.
        if size > 1:
            refused(rf" {field}: .* is not a multiple of its element's {size} bytes$", field, array.address + 1)
        if ON_EMULATOR and (count or 0) > 1:  # its memory ends with the last element
            refused(rf" {field}: {count} elements .* {(count - 1) * size} byte", field, array.address + size)


def test_operations_take_addresses_with_count_and_dtype(gpu):
    operations, x, y = gpu.operations(), gpu.array([0.75] * 8), gpu.zeros(8)
    operations.fake_quantize(dtype="f32", count=4, x=x.address, y=y.address, scale=0.5)
    gpu.synchronize()
    assert y.tolist() == [1.0] * 4 + [0.0] * 4
    with pytest.raises(ptxgen.InvalidError, match="^count: it must be given; addresses alone do not tell it"):
        operations.fake_quantize(dtype="f32", x=x.address, y=y.address, scale=0.5)
    with pytest.raises(ptxgen.InvalidError, match="^tensors: it must be given"):
        operations.delayed_scale_update(rows=1, history=64, scale=64, scale_inv=64)
    with pytest.raises(ptxgen.InvalidError, match="dtype is none"):
        operations.fake_quantize(count=4, x=x.address, y=y.address, scale=0.5)
    with pytest.raises(ptxgen.InvalidError, match="^y: 8 elements, and count is 4"):
        operations.fake_quantize(dtype="f32", count=4, x=x.address, y=y, scale=0.5)
    with pytest.raises(ptxgen.InvalidError, match="group is 48; it must be"):
        operations.fake_quantize_groups(x=x, y=y, scales=gpu.zeros(9), group=48)
    for state in (gpu.zeros(1, "f64"), gpu.zeros(3), gpu.zeros(4, "u8")):
        with pytest.raises(ptxgen.InvalidError, match="^state: .* of type .*, and it is an f32 and an s32"):
            operations.loss_scale_update(state, gpu.zeros(1))
    with pytest.raises(ptxgen.InvalidError, match="^found_inf: elements of type s32, and it must be f32"):
        operations.loss_scale_update(gpu.zeros(2), gpu.zeros(1, "s32"))


def test_every_array_of_an_operation_is_looked_at():
    for name, arrays in ptxgen.operations._ARRAYS.items():
        kinds = getattr(ptxgen._c, name).kinds
        assert set(arrays) == {field for field, kind in kinds.items() if kind == "address"}


# ---- arrays and streams of others


class Interface:
    def __init__(self, of, **changes):
        self.__cuda_array_interface__ = {**of.__cuda_array_interface__, **changes}


class Dlpack:
    """What a library of arrays hands over, with its shape, strides and offset."""

    def __init__(self, of, device=2):
        self.of, self.device = of, device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, *, stream=None):
        assert stream == -1
        return self.of.__dlpack__()


@pytest.mark.parametrize("wrap", [lambda a: a, Interface, Dlpack, lambda a: a.address,
                                  lambda a: Interface(a, shape=(2, 2), strides=(8, 4)),
                                  lambda a: Interface(a, shape=(1, 4), strides=(999, 4))])
def test_arrays_of_others(gpu, wrap):
    array = gpu.array([3.0, 4.0, 0.0, 0.0])
    tensor = wrap(array)
    if isinstance(tensor, int):
        tensor = {"data": tensor, "count": 4, "dtype": "f32"}
    plan = gpu.clip_plan([tensor], max_norm=1.0)
    plan.run()
    assert plan.read().records[0].norm == 5.0


def test_dlpack_of_bf16(gpu):
    tensor = Dlpack(gpu.array([3.0, 4.0], "bf16"))
    plan = gpu.clip_plan([tensor], max_norm=math.inf)
    plan.run()
    assert plan.read().records[0].norm == 5.0
    with pytest.raises(AttributeError, match="DLPack has bf16"):
        tensor.of.__cuda_array_interface__


@pytest.mark.parametrize("wrap, message", [
    (lambda a: Dlpack(a, device=1), "not in CUDA memory"),
    (lambda a: Interface(a, shape=(2, 2), strides=(4, 8)), "not contiguous"),
    (lambda a: Interface(a, typestr="<i4"), r"^tensors\[0\]\.data: elements of type s32, and dtype is f32"),
    (lambda a: -5, "-5 is not an address"),
    (lambda a: True, "an address, or an array"),
])
def test_arrays_that_cannot_be_used(gpu, wrap, message):
    with pytest.raises(ptxgen.InvalidError, match=message):
        gpu.clip_plan([{"data": wrap(gpu.zeros(4)), "count": 4, "dtype": "f32"}], max_norm=1.0)


@pytest.mark.parametrize("values, dtype, message", [
    ([1, 1e39], "bf16", r"values\[1\] is 1e\+39: it would become infinite"),
    ([0.0, 2.0 ** 119 - 2.0 ** 128], "bf16", r"values\[1\] is -3.396\d*e\+38: it would become infinite"),
    ([1e39], "f32", r"values\[0\] is 1e\+39: it would become infinite"),
    ([[1, 2], [3, 65520.0]], "f16", r"values\[1\]\[1\] is 65520.0: it would become infinite"),
    ([10 ** 400], "f64", r"values\[0\] is 1000.*: it would become infinite"),
    ([10 ** 400], "bf16", r"values\[0\] is 1000.*: it would become infinite"),
    ([1, 300], "u8", r"values\[1\] is 300: it is not from 0 to 255"),
    ([-129], "s8", r"values\[0\] is -129: it is not from -128 to 127"),
    ([-1], "u64", r"values\[0\] is -1: it is not from 0 to 18446744073709551615"),
    ([1.5], "s32", r"values\[0\] is 1.5: an integer is needed"),
    ([0, math.nan], "s32", r"values\[1\] is nan: an integer is needed"),
    ([1, 1j], "f32", r"values\[1\] is 1j: it is no real number"),
    ([1, {2: 3}], "f32", r"values\[1\] is {2: 3}: it is no real number"),
    (((1.0, 2.0), (3.0, "x")), "bf16", r"values\[1\]\[1\] is 'x': it is no real number"),
])
def test_numbers_that_do_not_fit(gpu, values, dtype, message):
    with pytest.raises(ptxgen.InvalidError, match=f"values do not fit {dtype}: {message}"):
        gpu.array(values, dtype)


@pytest.mark.parametrize("code, dtype, numbers, wanted", [
    ("i", "f32", [1, -7], [1.0, -7.0]), ("d", "f32", [0.1, -2.0], [0.10000000149011612, -2.0]),
    ("d", "bf16", [1.0, 3.0], [1.0, 3.0]), ("f", "f64", [0.5], [0.5]), ("q", "f64", [3, -4], [3.0, -4.0]),
    ("B", "f32", [1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0]), ("b", "s64", [-1], [-1]), ("H", "f16", [7], [7.0]),
    ("Q", "s64", [5], [5]), ("f", "f32", [1.5], [1.5]),
    ("f", "s32", [1.0], r"values\[0\] is 1.0"), ("Q", "s64", [1, 1 << 63], r"values\[1\] is 9223372036854775808"),
    ("d", "f32", [0.0, 1e39], r"values\[1\] is 1e\+39"), ("d", "bf16", [0.0, 1e39], r"values\[1\] is 1e\+39"),
    ("i", "u8", [0, 300], r"values\[1\] is 300"), ("h", "u16", [-1], r"values\[0\] is -1"),
])
def test_numbers_of_buffers(gpu, code, dtype, numbers, wanted):
    """Converted as those of a list, with the same refusals. test_torch_arrays.py has numpy's."""
    c_type = {"i": ctypes.c_int, "d": ctypes.c_double, "f": ctypes.c_float, "q": ctypes.c_int64, "B": ctypes.c_ubyte,
              "b": ctypes.c_byte, "h": ctypes.c_short, "H": ctypes.c_ushort, "Q": ctypes.c_uint64}[code]
    made = array.array(code, numbers)
    views = [] if code == "B" else [memoryview(made)]  # one of bytes is taken as it is
    for values in (made, (c_type * len(numbers))(*numbers), *views):
        if isinstance(wanted, str):
            with pytest.raises(ptxgen.InvalidError, match=f"values do not fit {dtype}: {wanted}"):
                gpu.array(values, dtype)
            continue
        assert gpu.array(values, dtype).tolist() == wanted
        target = gpu.zeros(len(numbers), dtype)
        target.upload(values)
        assert target.tolist() == wanted


def test_bytes_are_taken_as_they_are(gpu):
    data = struct.pack("<2f", 1.5, -2.0)
    for values in (data, bytearray(data), memoryview(data), memoryview(data).cast("c"),
                   ctypes.create_string_buffer(data, 8)):
        assert gpu.array(values, "f32").tolist() == [1.5, -2.0]
        target = gpu.zeros(2)
        target.upload(values)
        assert target.tolist() == [1.5, -2.0]


@pytest.mark.parametrize("dtype, largest", [("bf16", 3.3895313892515355e38), ("f16", 65504.0),
                                            ("f32", 3.4028234663852886e38), ("f64", 1.7976931348623157e308)])
def test_the_largest_and_infinity(gpu, dtype, largest):
    numbers = [largest, -largest, math.inf, -math.inf]
    assert gpu.array(numbers, dtype).tolist() == numbers
    assert math.isnan(gpu.array([math.nan], dtype).tolist()[0])


def test_a_scalar_of_bf16_that_does_not_fit():
    param = Named(name="a", type="bf16", size=2, offset=0)
    memory = bytearray(2)
    for value in (3.4e38, -3.4e38):
        with pytest.raises(ptxgen.InvalidError, match="a: .*e.38 is no .bf16: it would become infinite"):
            ptxgen.module.place(memory, param, value, [])
    ptxgen.module.place(memory, param, -math.inf, [])
    assert memory == b"\x80\xff"


def test_shapes(gpu):
    for values, shape in [([[1, 2, 3], [4, 5, 6]], (2, 3)), ([(1,), range(1)], (2, 1)), ([[[]]], (1, 1, 0)),
                          (range(3), (3,)), ([], (0,)), (memoryview(bytes(6)).cast("B", (2, 3)), (2, 3))]:
        made = gpu.array(values)
        assert made.shape == shape and made.count == math.prod(shape) and len(made) == shape[0]
        assert made.__cuda_array_interface__["shape"] == shape
        if isinstance(values, list):
            assert made.tolist() == [list(row) for row in values]
    assert gpu.zeros((2, 3)).tolist() == [[0.0] * 3] * 2 and gpu.empty([4, 0], "u8").shape == (4, 0)
    assert repr(gpu.zeros((2, 3), "bf16")) == "<ptxgen.Array bf16[2, 3]>"
    made = gpu.array([[3.0, 0.0], [0.0, 4.0]])
    plan = gpu.clip_plan([made], max_norm=1.0)
    plan.run()
    assert plan.read().records[0].norm == 5.0 and plan.sums.shape == (1,)
    made.upload([[1, 2], [3, 4]])
    assert made.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    nothing = gpu.zeros(())
    assert nothing.tolist() == 0.0 and nothing.count == 1
    with pytest.raises(TypeError, match="no length"):
        len(nothing)
    for values, message in [([[1, 2], [3]], r"values\[1\]: its shape is \(1,\), and that of values\[0\] is \(2,\)"),
                            ([1, [2]], r"values\[1\]: its shape is \(1,\), and that of values\[0\] is \(\)"),
                            (3.0, "values: numbers are needed, not 3.0"), ("12", "numbers are needed, not '12'"),
                            ({1: 2}, r"numbers are needed, not {1: 2}"), ({1, 2}, r"numbers are needed, not {1, 2}"),
                            ({1: 2}.keys(), "numbers are needed, not dict_keys")]:
        with pytest.raises(ptxgen.InvalidError, match=message):
            gpu.array(values)
    with pytest.raises(ptxgen.InvalidError, match="count: -1 is out of range"):
        gpu.zeros((2, -1))


def test_big_endian_numbers(gpu):
    values = (ctypes.c_float.__ctype_be__ * 2)(1.0, 2.0)
    for dtype in (None, "f32"):
        with pytest.raises(ptxgen.InvalidError, match="big-endian"):
            gpu.array(values, dtype)


class Named:
    def __init__(self, **names):
        self.__dict__.update(names)


def test_streams_of_others(gpu):
    array = gpu.array([3.0, 4.0])
    plan = gpu.clip_plan([array], max_norm=math.inf)
    with gpu.stream() as own:
        for stream in (own, own.ptr, Named(cuda_stream=own.ptr), Named(ptr=own.ptr),
                       Named(__cuda_stream__=lambda: (0, own.ptr)), Named(__cuda_stream__=(0, own.ptr))):
            plan.run(stream)
            assert plan.read(stream).records[0].norm == 5.0


def test_types_by_other_names(gpu):
    """As numpy and torch name them: a string, a class, a dtype with a name, one that prints as torch's."""
    class Dtype:
        def __init__(self, text):
            self.text = text

        def __str__(self):
            return self.text

    ways = [lambda name: name, lambda name: type(name, (), {}), lambda name: Named(name=name),
            lambda name: Dtype("torch." + name)]
    for name, own in [("float16", "f16"), ("bfloat16", "bf16"), ("float32", "f32"), ("float64", "f64"),
                      ("int8", "s8"), ("int64", "s64"), ("uint8", "u8"), ("uint32", "u32")]:
        for way in ways:
            assert gpu.empty(2, way(name)).dtype == gpu.array([1, 2], way(name)).dtype == own
    for way in ways:
        keep = gpu.array([3.0, 4.0])
        plan = gpu.clip_plan([{"data": keep.address, "count": 2, "dtype": way("float32")}], max_norm=1.0)
        plan.run()
        assert plan.read().records[0].norm == 5.0
        assert gpu.kernel("squared_sum", way("bfloat16")).dtype == "bf16"
        assert ptxgen.emit("squared_sum", way("float64")) == ptxgen.emit("squared_sum", "f64")
        for wrong in ("float", "bool", "complex64"):
            with pytest.raises(ptxgen.InvalidError, match="dtype: .* is none of"):
                gpu.empty(1, way(wrong))


def test_no_driver():
    """The error names the emulator."""
    found = python("import ptxgen; ptxgen.Device()", PTXGEN_LIBCUDA="/nowhere/libcuda.so.1", LD_PRELOAD="",
                   LD_LIBRARY_PATH="")
    assert "NoDriverError" in found.stderr and "python -m ptxgen emulate -- COMMAND" in found.stderr

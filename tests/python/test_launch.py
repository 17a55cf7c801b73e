# SPDX-License-Identifier: MIT
"""Device, memory, modules, launches, streams, graphs: results against plain Python."""

import array
import math
import struct

import ptxgen
import pytest
from conftest import SAXPY, f32, fma


def test_device(gpu):
    assert gpu.info.sm >= 70 and gpu.target.startswith("sm_")
    free, total = gpu.memory()
    assert 0 < free <= total
    assert ptxgen.device_count() >= 1
    with ptxgen.Device(primary=True) as other:
        assert other.context != 0 and other.info.name == gpu.info.name


@pytest.mark.parametrize("dtype, values", [
    ("f32", [0.5, -2.0 ** 100, math.inf]), ("f64", [0.1, -1e300]), ("f16", [0.5, -65504.0]),
    ("bf16", [1.0, -3.0, 2.0 ** 127]), ("s32", [-(1 << 31), 7]), ("u8", [0, 255]),
    ("u64", [(1 << 64) - 1]), ("s16", [-32768]), ("f32", []),
])
def test_values_come_back(gpu, dtype, values):
    made = gpu.array(values, dtype)
    assert made.tolist() == values and len(made) == len(values)
    assert made.nbytes == len(made.tobytes())


@pytest.mark.parametrize("x, bits", [
    (1 + 2 ** -8, 0x3f80), (1 + 3 * 2 ** -8, 0x3f82), (1 + 2 ** -8 + 2 ** -40, 0x3f81),
    (2.0 ** 128 - 2.0 ** 119 - 2.0 ** 75, 0x7f7f), (-0.0, 0x8000), (2.0 ** -133, 0x0001), (2.0 ** -134, 0x0000),
    (2.0 ** -126, 0x0080),
])
def test_bf16_is_rounded_once(gpu, x, bits):
    assert struct.unpack("<H", gpu.array([x], "bf16").tobytes()) == (bits,)


def test_host_buffers(gpu):
    made = gpu.array(array.array("f", [1, 2, 3]))
    assert made.dtype == "f32"
    made.upload(array.array("f", [9]), offset=2)
    assert made.tolist() == [1, 2, 9]
    made.upload_bytes(struct.pack("f", 4), offset=4)
    target = array.array("f", [0, 0])
    made.download_into(target, offset=4)
    assert list(target) == [4, 9]
    other = gpu.empty(3)
    other.copy_from(made)
    assert other.tolist() == [1, 4, 9]


def test_a_launch_by_name_and_in_order(gpu, saxpy, stream):
    n = 1000
    x = gpu.array([f32(k / 7) for k in range(n)])
    for arguments, named in (((), {"n": n, "a": 0.1, "x": x}), ((n, 0.1, x), {})):
        y = gpu.array([f32(k / 3) for k in range(n)])
        if arguments:
            saxpy(*arguments, y, grid=-(-n // 256), stream=stream)
        else:
            saxpy(y=y.address, grid=(4, 1, 1), block=256, stream=stream.ptr, **named)
        expected = [fma(f32(0.1), f32(k / 7), f32(k / 3)) for k in range(n)]
        assert y.tolist(stream=stream) == expected


def test_what_a_function_says(saxpy):
    info = saxpy.info
    assert [(p.type, p.name) for p in info.params] == [("u32", "n"), ("f32", "a"), ("u64", "x"),
                                                       ("u64", "y")]
    assert info.required_block == (256, 1, 1)
    assert saxpy.occupancy(256) >= 1
    assert repr(saxpy) == "<ptxgen.Function saxpy(u32 n, f32 a, u64 x, u64 y)>"


def test_parameters_of_every_kind(gpu):
    types = {"u8": 200, "s8": -3, "u16": 65535, "s16": -2, "u32": 1 << 31, "s32": -1, "u64": 1 << 63,
             "s64": -9, "f32": 0.25, "f64": 0.1, "b16": 0x3c00, "b32": 5, "b64": 6}
    sizes = {name: int(name[1:]) // 8 for name in types}
    text = [".version 7.0", ".target sm_70", ".address_size 64", ".visible .entry k(", ".param .u64 out"]
    text[-1] += "".join(f", .param .{t} p_{t}" for t in types) + ", .param .align 4 .b8 blob[8]"
    text += [")", "{", ".reg .b64 %o, %t;", ".reg .b32 %r;", ".reg .b16 %h;",
             "ld.param.u64 %o, [out];", "cvta.to.global.u64 %o, %o;"]
    at = 0
    for name, size in list(sizes.items()) + [("blob", 4)]:
        source = "blob+4" if name == "blob" else f"p_{name}"
        register = {1: "%h", 2: "%h", 4: "%r", 8: "%t"}[size]
        text += [f"ld.param.b{8 * size} {register}, [{source}];",
                 f"st.global.b{8 * size} [%o+{at}], {register};"]
        at += 8
    text += ["ret;", "}"]
    kernel = gpu.load("\n".join(text))["k"]
    out = gpu.zeros(at, "u8")
    kernel(out, *types.values(), struct.pack("<ii", 1, -7), grid=1, block=1)
    data = out.tobytes()
    formats = {"u8": "B", "s8": "b", "u16": "H", "s16": "h", "u32": "I", "s32": "i", "u64": "Q",
               "s64": "q", "f32": "f", "f64": "d", "b16": "H", "b32": "I", "b64": "Q"}
    for k, (name, value) in enumerate(types.items()):
        assert struct.unpack_from("<" + formats[name], data, 8 * k) == (value,), name
    assert struct.unpack_from("<i", data, at - 8) == (-7,)


def test_variables_and_log(gpu):
    module = gpu.load(".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .u32 counts[3];\n")
    address, size = module.variable("counts")
    assert address != 0 and size == 12
    assert isinstance(module.log, str)
    with pytest.raises(ptxgen.NotFoundError, match="nothing"):
        module.variable("nothing")


def test_events_order_streams(gpu, saxpy):
    n = 256
    with gpu.stream() as first, gpu.stream() as second, gpu.event() as begin, gpu.event() as end:
        x, y = gpu.array([1.0] * n, stream=first), gpu.zeros(n, stream=first)
        begin.record(first)
        saxpy(n, 1.0, x, y, grid=1, stream=first)
        end.record(first)
        second.wait(end)
        saxpy(n, 1.0, x, y, grid=1, stream=second)
        second.synchronize()
        assert end.milliseconds_since(begin) >= 0
        assert y.tolist() == [2.0] * n


def test_a_graph_is_replayed(gpu, saxpy, stream):
    n = 300
    x, y = gpu.array([1.0] * n), gpu.zeros(n)
    gpu.synchronize()
    with gpu.capture(stream) as graph:
        assert stream.capturing
        saxpy(n, 2.0, x, y, grid=2, stream=stream)
        y_again = y.address
    assert not stream.capturing and y.tolist() == [0.0] * n
    for _ in range(3):
        graph.launch(stream)
    assert y.tolist(stream=stream) == [6.0] * n and y.address == y_again
    assert graph.info.kernel_nodes == 1
    with stream.capture(mode="relaxed") as other:
        saxpy(n, 2.0, x, y, grid=2, stream=stream)
    other.launch(stream)
    assert y.tolist(stream=stream) == [8.0] * n


def test_a_failed_capture_frees_the_stream(gpu, saxpy, stream):
    with pytest.raises(KeyError), stream.capture() as graph:
        raise KeyError("mine")
    assert not stream.capturing
    with pytest.raises(ptxgen.InvalidError, match="with.*block failed"):
        graph.launch(stream)
    with pytest.raises(ptxgen.CaptureError), stream.capture():
        gpu.load(SAXPY, stream=stream)
    stream.synchronize()


# ---- the library's kernels


def test_every_kernel_is_listed_and_written():
    rows = ptxgen.kernels()
    assert "squared_sum" in rows and len(rows) >= 7
    for name, row in rows.items():
        for dtype in row.dtypes:
            text = ptxgen.emit(name, dtype, target="sm_90")
            assert f".visible .entry {name}_{dtype}(" in text and ".target sm_90" in text
    assert ".entry mine(" in ptxgen.emit("squared_sum", "f32", entry="mine", partials="f32")


@pytest.mark.parametrize("n", [1, 4096, 5000])
def test_a_kernel(gpu, n):
    kernel = gpu.kernel("squared_sum", "f32")
    x = gpu.array([float(k % 5) for k in range(n)])
    partials = gpu.empty(kernel.blocks(n), "f64")
    kernel(x=x, n=n, partials=partials)
    size = kernel.chunk(n)
    assert partials.tolist() == [float(sum((k % 5) ** 2 for k in range(at, min(n, at + size))))
                                 for at in range(0, n, size)]


def test_a_kernel_of_one_block(gpu):
    reduce = gpu.kernel("clip_scale_reduce", "f64")
    out = gpu.empty(3, "f32")
    reduce(partials=gpu.array([9.0, 16.0], "f64"), count=2, max_norm=1.0, out=out)  # eps: usually 0
    assert out.tolist() == [f32(0.2), 5.0, 0.0]
    assert reduce.info.options["nonfinite"][0] == "propagate"


def test_scalars_that_have_usual_values(gpu):
    scale, tracker = gpu.array([8.0]), gpu.array([1999], "s32")
    update = gpu.kernel("loss_scale_update", "f32")
    update(scale=scale, growth_tracker=tracker, found_inf=gpu.zeros(1))
    assert (scale.tolist(), tracker.tolist()) == ([16.0], [0])
    update(scale=scale, growth_tracker=tracker, found_inf=gpu.array([1.0]), backoff=0.25)
    assert (scale.tolist(), tracker.tolist()) == ([4.0], [0])
    assert update.parameters["max_scale"].preset == "inf"


def test_a_bound_launch(gpu, saxpy, stream):
    x, y = gpu.array([1.0] * 10), gpu.zeros(10)
    launch = saxpy.bind(10, 2.0, x, y=y, grid=1)
    del x
    for _ in range(3):
        launch(stream)
    assert y.tolist(stream=stream) == [6.0] * 10
    kernel = gpu.kernel("lerp_backward", "f32", outputs="da")
    bound = kernel.bind(d_output=y, d_a=y, n=10, weight=0.5)
    bound(stream)
    bound(stream)
    assert y.tolist(stream=stream) == [1.5] * 10


class LikeTorch:
    """An array with an __index__ that fails, as PyTorch's tensors have it."""

    def __init__(self, of):
        self.__dlpack_device__, self.__dlpack__ = of.__dlpack_device__, of.__dlpack__

    def __index__(self):
        raise TypeError("only integer tensors of a single element can be converted to an index")


def test_arrays_with_an_index(gpu, stream):
    x, a = gpu.array([1.0, 3.0]), gpu.zeros(2)
    kernel = gpu.kernel("lerp_backward", "f32", outputs="da")
    kernel(d_output=LikeTorch(x), d_a=LikeTorch(a), n=2, weight=0.5, stream=stream)
    assert a.tolist(stream=stream) == [0.5, 1.5]


# ---- operations


def delayed_scaling(gpu, operations, stream):
    """A cast of one of two tensors, and the update of both scales."""
    x, y, history = gpu.array([3.0, -7.0, 1e9, 0.0], "bf16"), gpu.zeros(4, "u8"), gpu.zeros(4)
    scale, scale_inv = gpu.array([1.0, 2.0]), gpu.zeros(2)
    operations.fp8_cast(dtype="bf16", count=2, x=x.address, y=y.address, format="e5m2", scale_at=scale,
                        amax=history, stream=stream)
    assert y.tolist(stream=stream) == [0x42, 0xc7, 0, 0]
    operations.fp8_cast(dtype="bf16", count=4, x=x, y=y, scale=1, stream=stream)
    assert y.tolist(stream=stream) == [0x44, 0xce, 0x7e, 0]
    assert history.tolist(stream=stream) == [7.0, 0, 0, 0]
    operations.delayed_scale_update(tensors=2, rows=2, history=history, scale=scale, stream=stream,
                                    scale_inv=scale_inv, formats=gpu.array([1, 0], "u32"))
    assert history.tolist(stream=stream) == [0, 0, 7.0, 0]
    assert scale.tolist(stream=stream) == [8192.0, 2.0] and scale_inv.tolist() == [2.0 ** -13, 0.5]
    with pytest.raises(ptxgen.InvalidError, match="rows is 0"):
        operations.delayed_scale_update(tensors=2, history=history, scale=scale, scale_inv=scale_inv)
    with pytest.raises(ValueError, match="format"):
        operations.fp8_cast(x=x, y=y, format="e3m4", scale=1)


def fake_quantization(gpu, operations, stream):
    x, y, scales = gpu.array([7.0, -1.25] + [0.0] * 30 + [0.5] * 32), gpu.zeros(64), gpu.zeros(2)
    operations.fake_quantize_groups(dtype="f32", count=64, columns=32, x=x, y=y, scales=scales,
                                    stream=stream)
    assert y.tolist(stream=stream)[:4] == [7.0, -1.0, 0.0, 0.0] and y.tolist()[32:] == [0.5] * 32
    assert scales.tolist()[0] == 1.0
    zero_points = gpu.zeros(1, "s32")
    operations.fake_quantize_groups(dtype="f32", count=64, group=64, bits=8, levels="unsigned", x=x,
                                    y=y, zero_points=zero_points, stream=stream)
    assert zero_points.tolist(stream=stream) == [39]
    operations.fake_quantize(dtype="f32", count=2, x=x.address, y=y.address, scale=2, q_min=-8, q_max=7,
                             stream=stream)
    assert y.tolist(stream=stream)[:2] == [8.0, -2.0]
    operations.fake_quantize(dtype="f32", count=2, x=x.address, y=y.address, channels=2,
                             scales=gpu.array([2.0, 1.0]), zero_points=gpu.array([0.4, 126.6]),
                             learned_zero_points=True, stream=stream)
    assert y.tolist(stream=stream)[:2] == [8.0, -1.0]
    with pytest.raises(ptxgen.InvalidError, match="columns is 48, no multiple of group 32"):
        operations.fake_quantize_groups(columns=48, x=x, y=y)
    with pytest.raises(ValueError, match="levels"):
        operations.fake_quantize_groups(dtype="f32", count=64, x=x, y=y, levels="half")


def learned_quantizer(gpu, operations, stream):
    """Steps of 1/2 around zero point 1, levels -2 to 1: x / scale is in range from -3 to 0."""
    params = {"dtype": "f32", "count": 4, "q_min": -2, "q_max": 1,
              "x": gpu.array([-0.75, -1.5, 4.0, 0.125]), "d_output": gpu.array([1.0, 10.0, 100.0, 8.0]),
              "d_input": gpu.zeros(4), "scales": gpu.array([0.5]), "zero_points": gpu.array([1.25]),
              "d_scales": gpu.zeros(1), "d_zero_points": gpu.zeros(1)}
    assert operations.quantize_learned_workspace(**params) == 0  # small: one launch
    operations.quantize_learned_backward(**params, stream=stream)
    assert params["d_scales"].tolist(stream=stream) == [-0.5 * 1 - 0.25 * 8]
    params.update(channels=1, inner=1)  # four rows of one scale
    assert operations.quantize_learned_workspace(**params) > 0
    with pytest.raises(ptxgen.InvalidError, match="workspace: its address is 0, and the call needs [0-9]+ bytes there"):
        operations.quantize_learned_backward(**params, stream=stream)
    workspace = gpu.zeros(operations.quantize_learned_workspace(**params) // 8, "f64")
    operations.quantize_learned_backward(**params, workspace=workspace, stream=stream)
    assert params["d_input"].tolist(stream=stream) == [1.0, 10.0, 0.0, 8.0]
    assert params["d_scales"].tolist() == [-0.5 * 1 - 0.25 * 8]  # -1.5 is a tie, and rounds to -2
    assert params["d_zero_points"].tolist() == [-0.5 * 100]


def learned_groups(gpu, operations, stream):
    """Two groups with steps of 1/2 and 1, levels -8 to 7."""
    x, d_output = gpu.array([0.75] + [0.0] * 31 + [9.0] * 32), gpu.array([1.0] * 64)
    params = {"dtype": "f32", "count": 64, "group": 32, "q_min": -8, "q_max": 7, "x": x,
              "d_output": d_output, "d_input": gpu.zeros(64), "scales": gpu.array([0.5, 1.0]),
              "zero_points": gpu.array([0.0, 0.25]), "d_scales": gpu.zeros(2),
              "d_zero_points": gpu.zeros(2)}
    assert operations.quantize_learned_workspace(**params) == 0
    operations.quantize_learned_backward(**params, stream=stream)
    assert params["d_input"].tolist(stream=stream) == [1.0] * 32 + [0.0] * 32
    assert params["d_scales"].tolist() == [0.5, 7.0 * 32]  # 1.5 is a tie, and rounds to 2
    assert params["d_zero_points"].tolist() == [0.0, -32.0]
    with pytest.raises(ptxgen.InvalidError, match="columns is 16, no multiple of group 32"):
        operations.quantize_learned_backward(**params, columns=16, stream=stream)


def observer(gpu, operations, stream):
    inf = float("inf")
    params = {"dtype": "bf16", "count": 3, "x": gpu.array([-1.0, 0.5, 1.55], "bf16"), "q_max": 15,
              "state": gpu.array([inf, -inf, inf, -inf]), "scales": gpu.zeros(1),
              "zero_points": gpu.zeros(1, "s32")}
    operations.observer_update(**params, stream=stream)
    assert params["state"].tolist(stream=stream) == [-1.0, 1.546875, inf, -inf]
    assert abs(params["scales"].tolist()[0] - 2.546875 / 15) < 1e-7
    assert params["zero_points"].tolist() == [6]
    for wrong in (0, 2):
        with pytest.raises(ptxgen.InvalidError, match=f"averaging_constant is {wrong}; it must be given"):
            operations.observer_update(**params, averaging_constant=wrong, stream=stream)


def test_a_kernel_of_sums_by_channels(gpu, stream):
    kernel = gpu.kernel("quantize_learned_backward", "f32", layout="rows", zero_point="fixed")
    assert kernel.length("scale_sums", 6000, channels=2, inner=3000) == 4
    assert kernel.length("x", 6000) == 6000
    with pytest.raises(ptxgen.InvalidError, match="no length for n=6000"):
        kernel.length("scale_sums", 6000)
    with pytest.raises(ptxgen.InvalidError, match="no array 'zero_sums'"):
        kernel.length("zero_sums", 6000)
    x, d_output, d_input = gpu.array([2.0, 4.0]), gpu.array([3.0, 5.0]), gpu.zeros(2)
    arguments = {"x": x, "d_output": d_output, "d_input": d_input, "n": 2, "channels": 2,
                 "scale": gpu.array([1.0, 1.0]), "zero_point": gpu.array([0, 0], "s32"), "q_max": 3}
    with pytest.raises(ptxgen.InvalidError, match="scale_sums has 1 elements, not 2"):
        kernel(**arguments, scale_sums=gpu.zeros(1, "f64"), stream=stream)
    sums, d_scale = gpu.zeros(2, "f64"), gpu.zeros(2)
    kernel(**arguments, scale_sums=sums, stream=stream)
    assert sums.tolist(stream=stream) == [0.0, 15.0] and d_input.tolist() == [3.0, 0.0]
    gpu.kernel("quantize_learned_reduce", "f32", gradients="scale")(
        scale_sums=sums, pieces=2, channels=2, d_scale=d_scale, grad_factor=2, stream=stream)
    assert d_scale.tolist(stream=stream) == [0.0, 30.0]


def test_operations(gpu, stream):
    operations = gpu.operations()
    d_output, d_a, d_b = gpu.array([1.0, -2.0]), gpu.zeros(2), gpu.zeros(2)
    operations.lerp_backward(dtype="f32", count=2, d_output=d_output, d_a=d_a, d_b=d_b, weight=0.25,
                             stream=stream)
    assert (d_a.tolist(stream=stream), d_b.tolist()) == ([0.75, -1.5], [0.25, -0.5])
    operations.quantize_backward(dtype="f32", count=2, x=gpu.array([0.5, 1e9]), d_output=d_output,
                                 d_input=d_a, scale=0.5, stream=stream)
    assert d_a.tolist(stream=stream) == [2.0, 0.0]
    state = gpu.array(struct.pack("<fi", 8.0, 1))
    operations.loss_scale_update(state, gpu.zeros(1), params={"interval": 2}, stream=stream)
    assert struct.unpack("<fi", state.tobytes(stream=stream)) == (16.0, 0)
    delayed_scaling(gpu, operations, stream)
    learned_quantizer(gpu, operations, stream)
    learned_groups(gpu, operations, stream)
    observer(gpu, operations, stream)
    fake_quantization(gpu, operations, stream)
    with pytest.raises(ptxgen.InvalidError, match="d_output"):
        operations.lerp_backward(dtype="f32", count=2, d_output=0, d_a=d_a, weight=0.25)
    operations.close()
    with pytest.raises(ptxgen.ClosedError, match="the Operations is closed"):
        operations.lerp_backward(dtype="f32", count=0)

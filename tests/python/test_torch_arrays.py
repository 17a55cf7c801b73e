# SPDX-License-Identifier: MIT
"""Arrays and types between this package, torch and numpy; on the emulator kernels, operations and plans over
the CPU's tensors."""

import pytest
import torch
from conftest import ON_EMULATOR, python
from torch_parts import DEVICE

import ptxgen

numpy = pytest.importorskip("numpy")


@pytest.mark.parametrize("dtype", ["u8", "s8", "b8", "u16", "s16", "u32", "s32", "b32", "u64", "s64", "f16",
                                   "f32", "f64", "bf16"])
def test_numpy(gpu, dtype):
    array = gpu.array([[1, 2, 3], [4, 5, 6]], dtype)
    made = numpy.asarray(array)
    assert made.tolist() == [[1, 2, 3], [4, 5, 6]]
    expected = "float32" if dtype == "bf16" else {"s": "int", "f": "float"}.get(dtype[0], "uint") + dtype[1:]
    assert made.dtype == numpy.dtype(expected) and made.flags.writeable
    made[0, 0] = 9
    assert array.tolist()[0][0] == 1
    assert numpy.array(array, dtype="float64").dtype == numpy.float64
    if dtype != "bf16":
        again = gpu.array(made)
        assert again.shape == (2, 3) and again.tolist() == made.tolist()
    assert numpy.asarray(gpu.zeros((2, 0), dtype)).shape == (2, 0)


def test_numpy_refusals(gpu):
    with pytest.raises(ValueError, match="copy=False"):
        gpu.zeros(3).__array__(copy=False)
    with pytest.raises(ptxgen.InvalidError, match="f16x2 has no numbers"):
        numpy.asarray(gpu.empty(3, "f16x2"))
    plan = gpu.clip_plan([gpu.zeros(3)], max_norm=1.0)
    with pytest.raises(TypeError, match="another object's device memory: read"):
        numpy.asarray(plan.sums)


def test_bf16_bits(gpu):
    """Every bf16 becomes its f32."""
    bits = numpy.arange(65536, dtype=numpy.uint32)
    array = gpu.array(bits.astype(numpy.uint16).tobytes(), "bf16")
    assert numpy.array_equal(numpy.asarray(array).view(numpy.uint32), bits << 16)


@pytest.mark.parametrize("other, own", [
    (numpy.float32, "f32"), (numpy.dtype("float16"), "f16"), (torch.bfloat16, "bf16"), (torch.half, "f16"),
    (torch.int64, "s64"), (numpy.uint8, "u8"), ("float64", "f64"), (torch.double, "f64")])
def test_types(gpu, other, own):
    assert gpu.empty(2, other).dtype == gpu.zeros(2, other).dtype == gpu.array([1], other).dtype == own


def test_what_torch_has(gpu):
    for tensor in (torch.ones(2, 3, dtype=torch.bfloat16), torch.tensor([[1, 2]], dtype=torch.int64),
                   torch.tensor(4.0), torch.ones(3, requires_grad=True)):
        array = gpu.array(tensor)
        assert array.shape == tuple(tensor.shape) and array.tolist() == tensor.tolist()
        assert array.dtype == gpu.empty(1, tensor.dtype).dtype


class TestTensors:
    """Raw calls over torch's tensors, which are on the CPU on the emulator."""

    def test_operation(self, gpu):
        x, y = torch.tensor([[0.8], [-3.0], [100.0]], device=DEVICE), torch.zeros(3, device=DEVICE)
        gpu.operations().fake_quantize(x=x, y=y, scale=0.5, q_min=-8, q_max=7)
        assert y.tolist() == [1.0, -3.0, 3.5]

    def test_kernel(self, gpu):
        x, sums = torch.ones(100, device=DEVICE), torch.zeros(1, dtype=torch.float64, device=DEVICE)
        for n in (100, torch.tensor(100)):
            gpu.kernel("squared_sum", "f32")(x=x.requires_grad_(), n=n, partials=sums)
            assert sums.tolist() == [100.0]

    def test_plans(self, gpu, saxpy):
        gradient, weight, count = (torch.tensor(values, device=DEVICE) for values in ([3.0, 4.0], [1.0, 1.0], [0.0]))
        plan = gpu.clip_plan([gradient], max_norm=1.0, eps=0.0)
        plan.run()
        assert plan.read().records[0].norm == 5.0
        expected = gradient.tolist()
        assert expected == pytest.approx([0.6, 0.8])
        plan.set_data([torch.tensor([0.0, 2.0], device=DEVICE)])
        plan.run()
        assert plan.read().records[0].norm == 2.0
        step = gpu.step_plan([ptxgen.StepTensor(parameter=weight, gradient=gradient, step=count)],
                             groups=[ptxgen.SGD(lr=1.0)], max_norm=10.0)
        step.run()
        assert count.tolist() == [1.0] and weight.tolist() == pytest.approx([0.4, 0.2])
        saxpy(2, 2.0, gradient, weight, grid=1)
        assert weight.tolist() == pytest.approx([1.6, 1.8])

    def test_misuse(self, gpu):
        x = torch.ones(4, device=DEVICE)
        for call, message in [
                (lambda: gpu.operations().fake_quantize(x=x[::2], y=x, scale=1.0), "not contiguous"),
                (lambda: gpu.operations().fake_quantize(x=x, y=x[:3], scale=1.0), "3 elements"),
                (lambda: gpu.clip_plan([torch.ones(2, device="meta")], max_norm=1.0), "CUDA memory|meta")]:
            with pytest.raises((ptxgen.InvalidError, NotImplementedError, ValueError), match=message):
                call()


@pytest.mark.skipif(not ON_EMULATOR, reason="there is a GPU")
def test_before_emulate():
    """Torch sees no GPU that it can use, and says nothing of the emulator. Then CPU tensors are refused, and the
    message names the way."""
    found = python("import sys, torch\nprint(torch.cuda.is_available())\nprint('now ptxgen', file=sys.stderr)\n"
                   "import ptxgen\n"
                   "ptxgen.Device().operations().fake_quantize(x=torch.ones(2), y=torch.ones(2), scale=1.0)")
    assert found.stdout == "False\n" and found.stderr.startswith("now ptxgen\n")
    assert "not in CUDA memory" in found.stderr and "ptxgen.torch.emulate()" in found.stderr


def test_numbers_of_numpy(gpu):
    for values, dtype, wanted in [
            (numpy.array([[1, 2], [3, 4]], "i4"), "f32", [[1.0, 2.0], [3.0, 4.0]]),
            (numpy.array([0.5, -2.0], "f2"), "bf16", [0.5, -2.0]), (numpy.array([True, False]), "f32", [1.0, 0.0]),
            (numpy.array([1, 2, 3, 4], "u1"), "f32", [1.0, 2.0, 3.0, 4.0]), (numpy.array(3), "f32", 3.0),
            (numpy.zeros((2, 0), "i4"), "f32", [[], []])]:
        made = gpu.array(values, dtype)
        assert made.tolist() == wanted and made.shape == values.shape
    with pytest.raises(ptxgen.InvalidError, match=r"values do not fit u8: values\[1\]\[0\] is 300"):
        gpu.array(numpy.array([[1], [300]]), "u8")
    for values in (numpy.array([1j], "c8"), numpy.array(["a"]), numpy.array([(1, 2)], "i4,i4")):
        for dtype in ("f64", "f32"):
            with pytest.raises(ptxgen.InvalidError, match="are no numbers for " + dtype):
                gpu.array(values, dtype)


def test_no_dlpack_for_numpy(gpu):
    """numpy names no stream; who has another device in mind is refused, too. torch takes it."""
    array = gpu.array([1.0, 2.0])
    for asked in ({"dl_device": None, "copy": None, "max_version": (1, 0)}, {"dl_device": (1, 0), "stream": None}):
        with pytest.raises(BufferError, match="CUDA memory, which this library does not access: numpy.asarray"):
            array.__dlpack__(**asked)
    if numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0":
        with pytest.raises(BufferError, match="CUDA memory"):
            numpy.from_dlpack(array)
    for asked in ({}, {"stream": 1}, {"dl_device": array.__dlpack_device__(), "stream": -1},
                  {"dl_device": None, "stream": -1}):
        assert "dltensor" in repr(array.__dlpack__(**asked))

# SPDX-License-Identifier: MIT
"""Compares the kernels of quantizers with PyTorch, torch.compile and CUDA C++."""
from ctypes import c_float

import torch
from torch.ao.quantization.observer import MovingAverageMinMaxObserver

import package  # noqa: F401
import ptxgen
from peers_kernels import Case, cuda, slices, stream, whole

E4M3_MAX = 448.0


class CastFp8(Case):
    """To e4m3 with the scale on the device and amax, as delayed scaling uses it."""
    name, types, options = "cast_fp8", ("bf16", "f32"), {"scale": "device"}

    def __init__(self, *args):
        super().__init__(*args)
        self.x = self.random(6)
        self.y = torch.empty(self.n, device="cuda", dtype=torch.float8_e4m3fn)
        self.scale = torch.tensor(100.0, device="cuda")  # the greatest values saturate
        self.amax = torch.zeros((), device="cuda")

    def bytes(self):
        return self.n * (self.type.itemsize + 1)

    def versions(self):
        x, y, scale, amax = self.x, self.y, self.scale, self.amax

        def cast(x, y, scale, amax):
            y.copy_((x.float() * scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn))
            amax.copy_(torch.maximum(amax, x.abs().amax().float()))
        compiled = whole(cast)
        return {"ours": self.bound(self.name, x=x, y=y.view(torch.uint8), scale=scale, amax=amax),
                "torch": lambda: cast(x, y, scale, amax),
                "torch.compile": lambda: compiled(x, y, scale, amax),
                "CUDA C++": cuda(self.peers.peers_cast_e4m3, self.code, x, y, self.n, scale, amax)}

    def poison(self):
        self.y.view(torch.uint8).fill_(0x7f)
        self.amax.zero_()

    def error(self):
        """The number of codes that differ from PyTorch's, and whether amax does."""
        wrong = (self.amax != self.x.abs().amax().float()).item()
        for part in slices(self.n):
            wanted = (self.x[part].float() * self.scale).clamp(-E4M3_MAX, E4M3_MAX)
            wanted = wanted.to(torch.float8_e4m3fn).view(torch.uint8)
            wrong += (self.y[part].view(torch.uint8) != wanted).sum().item()
        return wrong

    def tolerance(self, name):
        return 0


class DelayedScale(Case):
    """The scales of n tensors from histories of ROWS rows; `history` is one matrix, and for
    PyTorch's foreach functions a tensor for each."""
    name, types, sizes = "delayed_scale_update", ("f32",), (100, 1000, 10000)
    ROWS = 1024

    def __init__(self, *args):
        super().__init__(*args)
        shape = self.ROWS, self.n
        generator = torch.Generator(device="cuda").manual_seed(7)
        self.start = torch.rand(shape, device="cuda", generator=generator)
        self.start[:, 0] = 0  # nothing measured yet
        self.history, self.apart = self.start.clone(), None
        self.scale = torch.ones(self.n, device="cuda")
        self.scale_inv = torch.ones(self.n, device="cuda")

    def bytes(self):
        return 4 * self.n * (2 * self.ROWS + 3)

    def elements(self):
        return self.n * self.ROWS

    @staticmethod
    def formula(amax, scale, scale_inv):
        # With a number in place of the first tensor, PyTorch would multiply by 1 / amax.
        new = torch.where((amax > 0) & amax.isfinite(), torch.full_like(amax, E4M3_MAX) / amax, scale)
        scale.copy_(torch.where(new.isinf(), torch.finfo(torch.float32).max, new))
        scale_inv.copy_(1 / scale)

    def together(self, history, scale, scale_inv):
        self.formula(history.amax(0), scale, scale_inv)
        history.copy_(torch.roll(history, -1, 0))
        history[0].zero_()

    def versions(self):
        state = (self.history, self.scale, self.scale_inv)
        self.apart = [self.start[:, k].clone() for k in range(self.n)]
        heads, tails = [h[:-1] for h in self.apart], [h[1:] for h in self.apart]
        last, first = [h[-1] for h in self.apart], [h[0] for h in self.apart]

        def one_by_one():
            amax = torch.stack(torch._foreach_max(self.apart))
            self.formula(amax, self.scale, self.scale_inv)
            newest = torch._foreach_mul(first, 1.0)
            torch._foreach_copy_(heads, torch._foreach_mul(tails, 1.0))
            torch._foreach_copy_(last, newest)
            torch._foreach_zero_(first)
        compiled = whole(self.together)
        return {"ours": self.bound(self.name, count=self.elements(), history=self.history, scale=self.scale,
                                   scale_inv=self.scale_inv),
                "torch": lambda: self.together(*state), "torch.compile": lambda: compiled(*state),
                "torch foreach": one_by_one}

    def poison(self):
        self.history.copy_(self.start)
        for k, each in enumerate(self.apart):
            each.copy_(self.start[:, k])
        self.scale.fill_(3)
        self.scale_inv.fill_(0)

    def error(self):
        amax = self.start.amax(0)
        scale = torch.where(amax > 0, torch.full_like(amax, E4M3_MAX) / amax, 3)
        rolled = torch.roll(self.start, -1, 0)
        rolled[0] = 0
        apart = torch.stack(self.apart, 1)
        moved = (self.history != rolled).sum() * (apart != rolled).sum()  # one of them moved
        return (moved + (self.scale != scale).sum() + (self.scale_inv != 1 / scale).sum()).item()

    def tolerance(self, name):
        return self.n if name == "torch.compile" else 0  # its divisions are not correctly rounded


class Forward(Case):
    """A forward pass from x to y, compared with PyTorch's in f32. n is a multiple of 1024."""
    types, passes = ("f32", "bf16"), 2

    def __init__(self, *args):
        super().__init__(*args)
        self.x = self.random(8)
        self.y = torch.empty_like(self.x)

    def poison(self):
        self.y.fill_(float("nan"))

    def error(self):
        """The number of elements that differ from PyTorch's by more than two roundings of f32."""
        wrong = 0
        for part in slices(self.n):
            wanted = self.wanted(self.x[part]).float()
            same = (self.y[part].float() - wanted).abs() <= wanted.abs() * 2.0 ** -22
            wrong += (~same).sum().item()
        return wrong

    def tolerance(self, name):
        # Its quotients are not correctly rounded: some levels beside ties differ, and some scales.
        return self.n // 200 if name == "torch.compile" else 0


class FakeQuantizeGroups(Forward):
    """INT4 in groups of 32, symmetric, each with its own scale."""
    name = "fake_quantize_groups"

    def __init__(self, *args):
        super().__init__(*args)
        self.steps = torch.tensor(7.0, device="cuda")  # by a number, PyTorch multiplies by 1 / 7

    def wanted(self, x):
        group = x.view(-1, 32).float()
        scale = group.abs().amax(-1, keepdim=True) / self.steps
        scale = torch.where(scale == 0, 1, scale)
        return (torch.round(group / scale).clamp(-7, 7) * scale).to(x.dtype).view(-1)

    def versions(self):
        x, y = self.x, self.y
        compiled = whole(lambda x, y: y.copy_(self.wanted(x)))
        return {"ours": self.bound(self.name, x=x, y=y, scale=0),
                "torch": lambda: y.copy_(self.wanted(x)),
                "torch.compile": lambda: compiled(x, y),
                "CUDA C++": cuda(self.peers.peers_fake_quantize_groups, self.code, x, y, self.n)}


class FakeQuantize(Forward):
    """To s8 with one scale, on the device, by the rounded reciprocal as PyTorch's own."""
    name, options = "fake_quantize", {"division": "reciprocal", "scalars": "device"}

    def __init__(self, *args):
        super().__init__(*args)
        self.scale = torch.tensor(13 / 256, device="cuda")
        self.zero_point = torch.tensor(3, device="cuda", dtype=torch.int32)

    def wanted(self, x):
        level = torch.round(x.float() * (1 / self.scale)).clamp(-131, 124)
        return (level * self.scale).to(x.dtype)

    def versions(self):
        x, y, scale, zero_point = self.x, self.y, self.scale, self.zero_point
        compiled = whole(lambda x, y: y.copy_(self.wanted(x)))

        def torch_op():
            self.y.copy_(torch.fake_quantize_per_tensor_affine(x, scale, zero_point, -128, 127))
        return {"ours": self.bound(self.name, x=x, y=y, scale=scale, zero_point=zero_point),
                "torch": torch_op, "torch.compile": lambda: compiled(x, y),
                "CUDA C++": cuda(self.peers.peers_fake_quantize, self.code, x, y, self.n, scale,
                                 c_float(-131), c_float(124))}


class Backward(Case):
    """The gradients of a quantizer with learned scales and zero points, by the rounded reciprocal as
    PyTorch. A subclass says which elements share a quantizer: `shape` has three axes, of which the
    quantizers have the middle one."""
    types, passes, low, high = ("f32", "bf16"), 3, -8, 7

    def __init__(self, *args):
        super().__init__(*args)
        self.x, self.dy = self.random(8), self.random(9)
        self.dx = torch.empty_like(self.x)
        self.shape = self.shape_of(self.n)
        channel = torch.arange(self.shape[1], device=self.x.device)
        self.scale = (channel % 7 + 2) / 16  # some levels are beyond the range
        # PyTorch's own is wrong for negative ones, and rounds ties with odd ones otherwise.
        self.zero_point = (channel % 4 * 2).float()
        self.d_scale, self.d_zero = torch.empty_like(self.scale), torch.empty_like(self.scale)
        self.made = None  # by PyTorch's operation, in tensors of its own

    def bytes(self):
        return super().bytes() + 4 * self.scale.nbytes

    def terms(self, x, dy, scale, zero_point):
        """d_input, and what is summed."""
        dy, scale, zero_point = dy.view(x.shape), scale[:, None], zero_point[:, None]
        low, high = self.low - torch.round(zero_point), self.high - torch.round(zero_point)
        quotient = x.float() * (1 / scale)
        level = torch.round(quotient)
        inside = (level >= low) & (level <= high)
        residual = torch.minimum(torch.maximum(level, low), high)
        residual = torch.where(inside, residual - quotient, residual)
        return (torch.where(inside, dy, 0), dy.float() * residual,
                torch.where(inside, 0, dy.float() * -scale))

    def gradients(self, *inputs):
        x, dy, scale, zero_point = inputs
        dx, of_scale, of_zero = self.terms(x.view(self.shape), dy, scale, zero_point)
        self.dx.copy_(dx.view(-1))
        self.d_scale.copy_(of_scale.sum((0, 2)))
        self.d_zero.copy_(of_zero.sum((0, 2)))

    def by_cuda(self):
        self.partials = torch.empty(1 << 22, device="cuda", dtype=torch.float64)
        return cuda(self.peers.peers_learned, self.code, self.x, self.dy, self.dx, *self.shape,
                    c_float(self.low), c_float(self.high), self.scale, self.zero_point, self.d_scale,
                    self.d_zero, self.partials)

    def versions(self):
        inputs = (self.x, self.dy, self.scale, self.zero_point)
        compiled = whole(self.gradients)
        return {"ours": self.ours(True), "ours, exact division": self.ours(False),
                "torch": self.torch_op, "torch.compile": lambda: compiled(*inputs),
                "CUDA C++": self.by_cuda()}

    def poison(self):
        self.made = None
        for t in (self.dx, self.d_scale, self.d_zero):
            t.fill_(float("nan"))

    def error(self):
        """The number of elements of d_input that differ from the formula's, and of quantizers whose
        sums do by more than 1e-5 of the terms."""
        outer, channels, inner = self.shape
        step = max(1, (1 << 26) // inner)  # channels at a time, or all of them and some of outer
        at_once = max(1, step // channels)
        wrong = 0
        dx, *gradients = self.made or (self.dx, self.d_scale, self.d_zero)
        view = [t.view(self.shape) for t in (self.x, self.dy, dx)]
        for c in range(0, channels, step):
            of = slice(c, c + step)
            sums, sizes = [0, 0], [0, 0]
            for o in range(0, outer, at_once):
                x, dy, got = (t[o:o + at_once, of] for t in view)
                dx, *terms = self.terms(x, dy, self.scale[of], self.zero_point[of])
                wrong += (got != dx).sum().item()
                sums = [s + t.double().sum((0, 2)) for s, t in zip(sums, terms)]
                sizes = [s + t.double().abs().sum((0, 2)) for s, t in zip(sizes, terms)]
            for got, total, size in zip(gradients, sums, sizes):
                wrong += (~((got[of] - total).abs() <= 1e-5 * size)).sum().item()
        return wrong

    def tolerance(self, name):
        # At ties: PyTorch rounds after it has added the zero point, quotients of torch.compile are not
        # correctly rounded, and exact ones are no products.
        return 0 if name in ("ours", "CUDA C++") else self.n // 200


class Learned(Backward):
    """Both launches of the operation, and PyTorch's own, which waits for the host: it is not
    captured."""
    uncaptured = ("torch",)

    def ours(self, reciprocal):
        _, channels, inner = self.shape
        of = {"dtype": self.dtype, "count": self.n, "x": self.x, "d_output": self.dy,
              "d_input": self.dx, "scales": self.scale, "zero_points": self.zero_point,
              "q_min": self.low, "q_max": self.high, "d_scales": self.d_scale,
              "d_zero_points": self.d_zero, "reciprocal": reciprocal}
        if channels > 1:
            of.update(channels=channels, inner=inner)
        operations = ptxgen.Operations(self.gpu, any_address=True)
        size = operations.quantize_learned_workspace(**of)
        of["workspace"] = torch.empty(size // 8, device="cuda", dtype=torch.float64)
        return lambda: operations.quantize_learned_backward(**of, stream=stream())

    def torch_op(self):
        self.made = torch.ops.aten._fake_quantize_learnable_per_channel_affine_backward(
            self.dy.view(self.shape), self.x.view(self.shape), self.scale, self.zero_point, 1,
            self.low, self.high, 1.0)


class LearnedTensor(Learned):
    """One scale."""
    name = "quantize_learned per tensor"

    @staticmethod
    def shape_of(n):
        return 1, 1, n

    def torch_op(self):
        self.made = torch.ops.aten._fake_quantize_learnable_per_tensor_affine_backward(
            self.dy, self.x, self.scale, self.zero_point, self.low, self.high, 1.0)


def side_of(n):
    """The columns of a matrix of n elements that is about square: at most 4096."""
    return min(4096, 1 << (n.bit_length() // 2))


class LearnedRows(Learned):
    """A scale for each row of a matrix."""
    name = "quantize_learned rows"

    @staticmethod
    def shape_of(n):
        return 1, n // side_of(n), side_of(n)


class LearnedColumns(Learned):
    """A scale for each column of a matrix."""
    name = "quantize_learned columns"

    @staticmethod
    def shape_of(n):
        return n // side_of(n), side_of(n), 1


class LearnedGroups(Backward):
    """INT4 in groups of 32. PyTorch's formula: its own operation waits for the host."""
    name, low, high = "quantize_learned_groups", 0, 15

    @staticmethod
    def shape_of(n):
        return 1, n // 32, 32

    def ours(self, reciprocal):
        kernel = self.gpu.kernel(self.name, self.dtype,
                                 division="reciprocal" if reciprocal else "exact")
        launch = kernel.bind(n=self.n, q_min=self.low, q_max=self.high, x=self.x, d_output=self.dy,
                             d_input=self.dx, scale=self.scale, zero_point=self.zero_point,
                             d_scale=self.d_scale, d_zero_point=self.d_zero)
        return lambda: launch(stream())

    def torch_op(self):
        self.gradients(self.x, self.dy, self.scale, self.zero_point)

    def by_cuda(self):
        return cuda(self.peers.peers_learned_groups, self.code, self.x, self.dy, self.dx, self.n,
                    c_float(self.low), c_float(self.high), self.scale, self.zero_point, self.d_scale,
                    self.d_zero)


class Observer(Case):
    """The moving-average observer and its quantizer for 0 to 255. PyTorch's own asks the GPU whether
    it has seen anything: it is not captured."""
    name, types, passes, uncaptured = "observer", ("f32", "bf16"), 1, ("torch",)
    CONSTANT, LEVELS, EPS = 0.01, 255, 2.0 ** -23

    def __init__(self, *args):
        super().__init__(*args)
        self.x = self.random(10)
        self.x[self.n // 3], self.x[self.n // 2] = -7, 9
        # The averages, and what was observed in this step.
        self.state = torch.empty(4, device="cuda")
        self.scale = torch.empty(1, device="cuda")
        self.zero_point = torch.empty(1, device="cuda", dtype=torch.int32)
        self.steps = torch.tensor(float(self.LEVELS), device="cuda")
        self.observer = MovingAverageMinMaxObserver(
            averaging_constant=self.CONSTANT, dtype=torch.quint8, eps=self.EPS).cuda()
        self.made = None  # by PyTorch's observer

    def formula(self, x, state, scale, zero_point):
        least, greatest = torch.aminmax(x)
        seen = torch.stack((least, greatest)).float()
        averages = state[:2] + self.CONSTANT * (seen - state[:2])
        low, high = averages[0].clamp(max=0), averages[1].clamp(min=0)
        new = torch.clamp((high - low) / self.steps, min=self.EPS)
        state[:2].copy_(averages)
        scale.copy_(new)
        zero_point.copy_(torch.clamp(-torch.round(low / new), 0, self.LEVELS).int())

    def torch_observer(self):
        self.observer(self.x)
        self.made = self.observer.calculate_qparams()

    def versions(self):
        state = (self.state, self.scale, self.zero_point)
        compiled = whole(self.formula)
        operations = ptxgen.Operations(self.gpu, any_address=True)

        def ours():
            operations.observer_update(
                dtype=self.dtype, count=self.n, x=self.x, state=self.state, scales=self.scale,
                zero_points=self.zero_point, q_min=0, q_max=self.LEVELS, eps=self.EPS,
                averaging_constant=self.CONSTANT, stream=stream())
        return {"ours": ours, "torch": self.torch_observer,
                "torch.compile": lambda: compiled(self.x, *state),
                "CUDA C++": cuda(self.peers.peers_observe, self.code, self.x, self.n,
                                 c_float(self.CONSTANT), c_float(self.EPS), *state)}

    def poison(self):
        self.state.copy_(torch.tensor([-4.0, 3.0, float("inf"), -float("inf")]))
        self.observer.min_val.fill_(-4.0)
        self.observer.max_val.fill_(3.0)
        self.made = None
        self.scale.fill_(float("nan"))
        self.zero_point.fill_(-1)

    def error(self):
        """How many of the four results differ from the formula."""
        got = self.state[:2].clone(), self.scale.clone(), self.zero_point.clone()
        if self.made:
            averages = torch.stack((self.observer.min_val, self.observer.max_val))
            got = averages, *self.made
        self.poison()
        self.formula(self.x, self.state, self.scale, self.zero_point)
        wanted = self.state[:2], self.scale, self.zero_point
        return sum((~((g - w).abs() <= 2.0 ** -22 * w.abs())).sum().item()
                   for g, w in zip(got, wanted))

    def tolerance(self, name):
        return 0


CASES = (CastFp8, DelayedScale, FakeQuantizeGroups, FakeQuantize, LearnedTensor, LearnedRows,
         LearnedColumns, LearnedGroups, Observer)

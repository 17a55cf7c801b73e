# SPDX-License-Identifier: MIT
"""Compares the kernels of quantizers with PyTorch, torch.compile and CUDA C++."""
from ctypes import c_float, c_uint64

import torch

from peers_kernels import Case, cuda

E4M3_MAX = 448.0


class CastFp8(Case):
    """To e4m3 with the scale on the device and amax, as delayed scaling uses it."""
    name, types = "cast_fp8", ("bf16", "f32")

    def __init__(self, *args):
        super().__init__(*args)
        self.x = self.random(6)
        self.y = torch.empty(self.n, device="cuda", dtype=torch.float8_e4m3fn)
        self.scale = torch.tensor(100.0, device="cuda")  # the greatest values saturate
        self.amax = torch.zeros((), device="cuda")

    def bytes(self):
        return self.n * (self.type.itemsize + 1)

    def bound(self, name, **arguments):
        kernel = self.gpu.kernel(name, self.dtype, scale="device")
        launch = kernel.bind(n=self.n, **arguments)
        return lambda: launch(torch.cuda.current_stream().cuda_stream)

    def versions(self):
        x, y, scale, amax = self.x, self.y, self.scale, self.amax

        def cast(x, y, scale, amax):
            y.copy_((x.float() * scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn))
            amax.copy_(torch.maximum(amax, x.abs().amax().float()))
        compiled = torch.compile(cast, dynamic=False, fullgraph=True)
        at = [c_uint64(t.data_ptr()) for t in (x, y)]
        by_cuda = cuda(self.peers.peers_cast_e4m3, self.code, *at, c_uint64(self.n),
                       c_uint64(scale.data_ptr()), c_uint64(amax.data_ptr()))
        return {"ours": self.bound(self.name, x=x, y=y.view(torch.uint8), scale=scale, amax=amax),
                "torch": lambda: cast(x, y, scale, amax),
                "torch.compile": lambda: compiled(x, y, scale, amax), "CUDA C++": by_cuda}

    def poison(self):
        self.y.view(torch.uint8).fill_(0x7f)
        self.amax.zero_()

    def error(self):
        """The number of codes that differ from PyTorch's, and whether amax does."""
        wrong = (self.amax != self.x.abs().amax().float()).item()
        for first in range(0, self.n, 1 << 26):
            part = slice(first, first + (1 << 26))
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
        n, state = self.n, (self.history, self.scale, self.scale_inv)
        self.apart = [self.start[:, k].clone() for k in range(n)]
        heads, tails = [h[:-1] for h in self.apart], [h[1:] for h in self.apart]
        last, first = [h[-1] for h in self.apart], [h[0] for h in self.apart]

        def one_by_one():
            amax = torch.stack(torch._foreach_max(self.apart))
            self.formula(amax, self.scale, self.scale_inv)
            newest = torch._foreach_mul(first, 1.0)
            torch._foreach_copy_(heads, torch._foreach_mul(tails, 1.0))
            torch._foreach_copy_(last, newest)
            torch._foreach_zero_(first)
        compiled = torch.compile(self.together, dynamic=False, fullgraph=True)
        launch = self.gpu.kernel(self.name, self.dtype).bind(
            n=n, count=self.elements(), history=self.history, scale=self.scale,
            scale_inv=self.scale_inv)
        return {"ours": lambda: launch(torch.cuda.current_stream().cuda_stream),
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

    def bound(self, name, **arguments):
        launch = self.gpu.kernel(name, self.dtype, **self.options).bind(n=self.n, **arguments)
        return lambda: launch(torch.cuda.current_stream().cuda_stream)

    def poison(self):
        self.y.fill_(float("nan"))

    def error(self):
        """The number of elements that differ from PyTorch's by more than two roundings of f32."""
        wrong = 0
        for first in range(0, self.n, 1 << 26):
            part = slice(first, first + (1 << 26))
            wanted = self.wanted(self.x[part]).float()
            same = (self.y[part].float() - wanted).abs() <= wanted.abs() * 2.0 ** -22
            wrong += (~same).sum().item()
        return wrong

    def tolerance(self, name):
        # Its quotients are not correctly rounded: some levels beside ties differ, and some scales.
        return self.n // 200 if name == "torch.compile" else 0


class FakeQuantizeGroups(Forward):
    """INT4 in groups of 32, symmetric, each with its own scale."""
    name, options = "fake_quantize_groups", {}

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
        compiled = torch.compile(lambda x, y: y.copy_(self.wanted(x)), dynamic=False,
                                 fullgraph=True)
        at = [c_uint64(t.data_ptr()) for t in (x, y)]
        return {"ours": self.bound(self.name, x=x, y=y, scale=0),
                "torch": lambda: y.copy_(self.wanted(x)),
                "torch.compile": lambda: compiled(x, y),
                "CUDA C++": cuda(self.peers.peers_fake_quantize_groups, self.code, *at,
                                 c_uint64(self.n))}


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
        compiled = torch.compile(lambda x, y: y.copy_(self.wanted(x)), dynamic=False,
                                 fullgraph=True)
        at = [c_uint64(t.data_ptr()) for t in (x, y)]

        def torch_op():
            self.y.copy_(torch.fake_quantize_per_tensor_affine(x, scale, zero_point, -128, 127))
        return {"ours": self.bound(self.name, x=x, y=y, scale=scale, zero_point=zero_point),
                "torch": torch_op, "torch.compile": lambda: compiled(x, y),
                "CUDA C++": cuda(self.peers.peers_fake_quantize, self.code, *at, c_uint64(self.n),
                                 c_uint64(scale.data_ptr()), c_float(-131), c_float(124))}


class LearnedGroups(Case):
    """The gradients of INT4 in groups of 32 with learned scales and zero points, by the rounded
    reciprocal as PyTorch; PyTorch's own operation cannot be captured. n is a multiple of 1024."""
    name, types, passes = "quantize_learned_groups", ("f32", "bf16"), 3

    def __init__(self, *args):
        super().__init__(*args)
        self.x, self.dy = self.random(8), self.random(9)
        self.dx = torch.empty_like(self.x)
        group = torch.arange(self.n // 32, device=self.x.device)
        self.scale = (group % 7 + 2) / 16  # some levels are beyond the range
        self.zero_point = (group % 16).float()
        self.d_scale, self.d_zero = torch.empty_like(self.scale), torch.empty_like(self.scale)

    def bytes(self):
        return super().bytes() + 4 * self.scale.nbytes

    def bound(self, name, **arguments):
        kernel = self.gpu.kernel(name, self.dtype, division="reciprocal")
        launch = kernel.bind(n=self.n, q_min=0, q_max=15, **arguments)
        return lambda: launch(torch.cuda.current_stream().cuda_stream)

    @staticmethod
    def terms(x, dy, scale, zero_point):
        """d_input, and what is summed over each group."""
        x, dy, scale = x.view(-1, 32).float(), dy.view(-1, 32), scale[:, None]
        low = -torch.round(zero_point)[:, None]
        quotient = x * (1 / scale)
        level = torch.round(quotient)
        inside = (level >= low) & (level <= low + 15)
        residual = torch.minimum(torch.maximum(level, low), low + 15)
        residual = torch.where(inside, residual - quotient, residual)
        return (torch.where(inside, dy, 0).view(-1), dy.float() * residual,
                torch.where(inside, 0, dy.float() * -scale))

    def versions(self):
        inputs = (self.x, self.dy, self.scale, self.zero_point)

        def gradients(*inputs):
            dx, of_scale, of_zero = self.terms(*inputs)
            self.dx.copy_(dx)
            self.d_scale.copy_(of_scale.sum(-1))
            self.d_zero.copy_(of_zero.sum(-1))
        compiled = torch.compile(gradients, dynamic=False, fullgraph=True)
        return {"ours": self.bound(self.name, x=self.x, d_output=self.dy, d_input=self.dx,
                                   scale=self.scale, zero_point=self.zero_point,
                                   d_scale=self.d_scale, d_zero_point=self.d_zero),
                "torch": lambda: gradients(*inputs), "torch.compile": lambda: compiled(*inputs)}

    def poison(self):
        for t in (self.dx, self.d_scale, self.d_zero):
            t.fill_(float("nan"))

    def error(self):
        """The number of elements of d_input that differ from PyTorch's, and of groups whose sums
        do by more than 1e-5 of the terms."""
        wrong = 0
        for first in range(0, self.n, 1 << 26):
            part, groups = slice(first, first + (1 << 26)), slice(first // 32, (first + (1 << 26)) // 32)
            dx, *terms = self.terms(self.x[part], self.dy[part], self.scale[groups],
                                    self.zero_point[groups])
            wrong += (self.dx[part] != dx).sum().item()
            for got, term in zip((self.d_scale, self.d_zero), terms):
                size = term.abs().sum(-1)
                wrong += (~((got[groups] - term.sum(-1)).abs() <= 1e-5 * size)).sum().item()
        return wrong

    def tolerance(self, name):
        return self.n // 200 if name == "torch.compile" else 0  # as in Forward


CASES = (CastFp8, DelayedScale, FakeQuantizeGroups, FakeQuantize, LearnedGroups)

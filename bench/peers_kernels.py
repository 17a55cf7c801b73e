# SPDX-License-Identifier: MIT
"""Compares the kernels with PyTorch, torch.compile, CUDA C++ and Triton."""
import ctypes
from ctypes import c_double, c_float, c_int, c_uint64, c_void_p

import torch
import triton

import peers_triton

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
          "bf16": torch.bfloat16}
CODES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 3}  # enum dtype of peers.cuh
# Representable in f32, so that all versions compute with the same numbers.
SCALE, ZERO_POINT, WEIGHT = 13 / 256, 3, 19 / 64
LOW, HIGH = -128 - ZERO_POINT, 127 - ZERO_POINT
CHECKED_FACTOR = 3 / 8
TIMED_FACTOR = 1 - 2.0 ** -20  # does not change f16 and bf16, and f32 and f64 only slightly


def stream():
    return torch.cuda.current_stream().cuda_stream


def whole(function):
    """Compiled by torch.compile, as one graph for these shapes."""
    return torch.compile(function, dynamic=False, fullgraph=True)


def slices(n):
    """Of n elements, so that what a check computes on the way has room."""
    return [slice(first, first + (1 << 26)) for first in range(0, n, 1 << 26)]


def cuda(function, *args):
    """A launch of libpeers: tensors go as addresses, numbers of Python as u64; the stream is the last argument."""
    given = [c_uint64(a.data_ptr()) if torch.is_tensor(a) else c_uint64(a) if isinstance(a, int) else a
             for a in args]

    def run():
        status = function(*given, c_void_p(stream()))
        if status:
            raise RuntimeError(f"{function.__name__}: CUDA error {status}")
    return run


class Case:
    """One kernel on n elements: tensors, versions by name, what to check and bytes to move."""
    types = ("f32", "bf16", "f16", "f64")
    options = {}  # of the kernel
    sizes = ()  # of the kernel's own; none: those of the command line
    uncaptured = ()  # versions that cannot be: timed as calls from Python, with their waits

    def __init__(self, gpu, peers, dtype, n):
        self.gpu, self.peers, self.dtype, self.n = gpu, peers, dtype, n
        self.code, self.type = c_int(CODES[dtype]), DTYPES[dtype]
        self.wide = dtype == "f64"

    def random(self, seed, spread=1.0):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        tensor = torch.empty(self.n, device="cuda", dtype=self.type)
        return tensor.normal_(generator=generator).mul_(spread)

    def bound(self, name, **arguments):
        """Our kernel, on all elements."""
        launch = self.gpu.kernel(name, self.dtype, **self.options).bind(n=self.n, **arguments)
        return lambda: launch(stream())

    def scalar(self, value):
        return c_double(value) if self.wide else c_float(value)

    def elements(self):
        return self.n

    def bytes(self):
        return self.passes * self.n * self.type.itemsize

    def grid(self, block):
        return (triton.cdiv(self.n, block),)


class SquaredSum(Case):
    name, passes = "squared_sum", 1

    def __init__(self, *args):
        super().__init__(*args)
        self.x = self.random(1)
        self.partials = torch.zeros(self.n // 1024 + 8, device="cuda", dtype=torch.float64)
        self.narrow = torch.zeros_like(self.partials, dtype=torch.float64 if self.wide
                                       else torch.float32)
        self.sum = None

    def versions(self):
        x, n = self.x, self.n
        accumulate = torch.float64 if self.wide else torch.float32

        def squares(x):
            return torch.square(x.to(accumulate)).sum()
        compiled = whole(squares)

        def torch_norm():
            self.sum = torch.linalg.vector_norm(x, dtype=accumulate) ** 2

        def torch_compile():
            self.sum = compiled(x)

        def in_triton():
            peers_triton.squared_sum[self.grid(4096)](x, self.narrow, n, self.wide, 4096)

        def in_cuda(wide):
            return cuda(self.peers.peers_squared_sum, self.code, c_int(wide), x, n, self.partials)
        versions = {"ours": self.bound("squared_sum", x=x, partials=self.partials),
                    "torch": torch_norm, "torch.compile": torch_compile, "CUDA C++": in_cuda(0),
                    "CUDA C++, f64 sums": in_cuda(1), "Triton": in_triton}
        if self.wide:
            del versions["CUDA C++, f64 sums"]
        return versions

    def poison(self):
        self.partials.zero_()
        self.narrow.zero_()
        self.sum = None

    def error(self):
        exact = torch.linalg.vector_norm(self.x, dtype=torch.float64).square().item()
        got = self.sum if self.sum is not None else self.partials.sum() + self.narrow.double().sum()
        return abs(got.item() / exact - 1)

    def tolerance(self, name):
        if self.wide or name in ("ours", "CUDA C++, f64 sums"):
            return 1e-12
        return 1e-4


class Clip(Case):
    name, passes = "gradient_clip_from_device_scale", 2

    def __init__(self, *args):
        super().__init__(*args)
        self.gradient = self.random(2)
        self.before = None
        self.record = torch.tensor([1.0, 1.0, 0.0], device="cuda")
        # PyTorch is fastest if the scale has the type of the tensors.
        self.scale = torch.ones((), device="cuda", dtype=self.type)

    def versions(self):
        gradient, record, n = self.gradient, self.record, self.n
        compiled = whole(lambda g, s: g.mul_(s))
        return {"ours": self.bound("gradient_clip_from_device_scale", gradient=gradient,
                                   record=record),
                "torch": lambda: torch._foreach_mul_([gradient], self.scale),
                "torch.compile": lambda: compiled(gradient, record[0]),
                "CUDA C++": cuda(self.peers.peers_clip, self.code, gradient, n, record),
                "Triton": lambda: peers_triton.clip[self.grid(1024)](gradient, record, n,
                                                                     self.wide, 1024)}

    def set_factor(self, factor):
        self.record[0] = factor
        self.scale.fill_(factor)

    def poison(self):
        self.set_factor(CHECKED_FACTOR)
        self.before = self.gradient.clone()

    def error(self):
        wrong = (self.gradient != self.before * CHECKED_FACTOR).sum().item()
        self.gradient.copy_(self.before)
        self.before = None
        self.set_factor(TIMED_FACTOR)
        return wrong

    def tolerance(self, name):
        return 0


class Quantize(Case):
    name, passes = "quantize_ste_backward", 3

    def __init__(self, *args):
        super().__init__(*args)
        self.x, self.d_output = self.random(3, 3.0), self.random(4)
        self.d_input = torch.empty_like(self.x)
        self.compute = torch.float64 if self.wide else torch.float32
        # On the device: for a Python number PyTorch multiplies by the rounded reciprocal.
        self.scale = torch.tensor(SCALE, device="cuda", dtype=self.compute)

    def formula(self, x, d_output, scale):
        q = torch.round(x.to(self.compute) / scale)
        inside = (q >= LOW) & (q <= HIGH)
        return torch.where(inside, d_output.to(self.compute) / scale, 0.0).to(x.dtype)

    def versions(self):
        x, d, out, n = self.x, self.d_output, self.d_input, self.n
        scale = self.scale

        def in_place(x, d, out, scale):
            out.copy_(self.formula(x, d, scale))
        compiled = whole(in_place)
        return {"ours": self.bound("quantize_ste_backward", x=x, d_output=d, d_input=out,
                                   scale=SCALE, zero_point=ZERO_POINT),
                "torch": lambda: in_place(x, d, out, scale),
                "torch.compile": lambda: compiled(x, d, out, scale),
                "CUDA C++": cuda(self.peers.peers_quantize, self.code, x, d, out, n, c_double(SCALE),
                                 c_int(LOW), c_int(HIGH)),
                "Triton": lambda: peers_triton.quantize[self.grid(1024)](
                    x, d, out, SCALE, float(LOW), float(HIGH), n, self.wide, 1024)}

    def poison(self):
        self.d_input.fill_(float("nan"))

    def error(self):
        """The number of elements in a million that differ from the formula."""
        wrong = 0
        for part in slices(self.n):
            wanted = self.formula(self.x[part], self.d_output[part], self.scale)
            wrong += (self.d_input[part] != wanted).sum().item()
        return 1e6 * wrong / self.n

    def tolerance(self, name):
        # Divisions by torch.compile are not correctly rounded.
        return 1e6 if name == "torch.compile" else 0


class Lerp(Case):
    name, passes = "lerp_backward", 3

    def __init__(self, *args):
        super().__init__(*args)
        self.d_output = self.random(5)
        self.d_a, self.d_b = torch.empty_like(self.d_output), torch.empty_like(self.d_output)

    def versions(self):
        d, a, b, n = self.d_output, self.d_a, self.d_b, self.n

        def in_place(d, a, b):
            torch.mul(d, 1 - WEIGHT, out=a)
            torch.mul(d, WEIGHT, out=b)

        def by_copies(d, a, b):
            a.copy_(d * (1 - WEIGHT))
            b.copy_(d * WEIGHT)
        compiled = whole(by_copies)
        return {"ours": self.bound("lerp_backward", d_output=d, d_a=a, d_b=b, weight=WEIGHT),
                "torch": lambda: in_place(d, a, b),
                "torch.compile": lambda: compiled(d, a, b),
                "CUDA C++": cuda(self.peers.peers_lerp, self.code, d, a, b, n, c_double(WEIGHT)),
                "Triton": lambda: peers_triton.lerp[self.grid(1024)](
                    d, a, b, 1 - WEIGHT, WEIGHT, n, self.wide, 1024)}

    def poison(self):
        self.d_a.fill_(float("nan"))
        self.d_b.fill_(float("nan"))

    def error(self):
        return ((self.d_a != self.d_output * (1 - WEIGHT)).sum().item()
                + (self.d_b != self.d_output * WEIGHT).sum().item())

    def tolerance(self, name):
        return 0


CASES = (SquaredSum, Clip, Quantize, Lerp)


def load_peers(path):
    peers = ctypes.CDLL(path)
    peers.peers_clip_create.restype = c_void_p
    return peers

# SPDX-License-Identifier: MIT
"""The peers in Triton."""
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

TYPES = {"f32": tl.float32, "f64": tl.float64, "f16": tl.float16, "bf16": tl.bfloat16}

# ---- kernels -------------------------------------------------------------------------------------


@triton.jit
def squared_sum(x, partials, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float64 if WIDE else tl.float32)
    tl.store(partials + tl.program_id(0), tl.sum(v * v, axis=0))


@triton.jit
def clip(gradient, record, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    scale = tl.load(record)
    if scale != 1.0:
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        g = tl.load(gradient + at, mask=inside).to(tl.float64 if WIDE else tl.float32)
        tl.store(gradient + at, (g * scale).to(gradient.dtype.element_ty), mask=inside)


@triton.jit
def quantize(x, d_output, d_input, scale, low, high, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside).to(tl.float64 if WIDE else tl.float32)
    d = tl.load(d_output + at, mask=inside).to(tl.float64 if WIDE else tl.float32)
    if WIDE:
        q = libdevice.rint(v / scale)
        d = d / scale
    else:
        q = libdevice.rint(tl.math.div_rn(v, scale.to(tl.float32)))
        d = tl.math.div_rn(d, scale.to(tl.float32))
    d = tl.where((q >= low) & (q <= high), d, 0.0)
    tl.store(d_input + at, d.to(d_input.dtype.element_ty), mask=inside)


@triton.jit
def lerp(d_output, d_a, d_b, a, b, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    d = tl.load(d_output + at, mask=inside).to(tl.float64 if WIDE else tl.float32)
    wide_a = a.to(tl.float64 if WIDE else tl.float32)
    wide_b = b.to(tl.float64 if WIDE else tl.float32)
    tl.store(d_a + at, (d * wide_a).to(d_a.dtype.element_ty), mask=inside)
    tl.store(d_b + at, (d * wide_b).to(d_b.dtype.element_ty), mask=inside)


# ---- clipping a list -----------------------------------------------------------------------------


@triton.jit
def list_squares(addresses, counts, partials, T: tl.constexpr, CHUNK: tl.constexpr,
                 BLOCK: tl.constexpr):
    x = tl.multiple_of(tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(T)), 16)
    n = tl.load(counts + tl.program_id(0))
    total = tl.zeros([BLOCK], dtype=tl.float32)
    if n == CHUNK:
        for first in range(0, CHUNK, BLOCK):
            v = tl.load(x + first + tl.arange(0, BLOCK)).to(tl.float32)
            total += v * v
    else:
        for first in range(0, n, BLOCK):
            at = first + tl.arange(0, BLOCK)
            v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
            total += v * v
    tl.store(partials + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def list_factor(partials, chunks, record, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, chunks, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(partials + at, mask=at < chunks, other=0.0)
    norm = tl.sqrt(tl.sum(total, axis=0))
    scale = tl.minimum(tl.load(record + 2) / (norm + 1e-6), 1.0)
    tl.store(record, scale * tl.load(record + 3))
    tl.store(record + 1, norm)


@triton.jit
def list_apply(addresses, counts, record, T: tl.constexpr, CHUNK: tl.constexpr,
               BLOCK: tl.constexpr):
    factor = tl.load(record)
    if factor != 1.0:
        chunk = tl.num_programs(0) - 1 - tl.program_id(0)
        x = tl.multiple_of(tl.load(addresses + chunk).to(tl.pointer_type(T)), 16)
        n = tl.load(counts + chunk)
        if n == CHUNK:
            for first in range(0, CHUNK, BLOCK):
                p = x + first + tl.arange(0, BLOCK)
                tl.store(p, (tl.load(p).to(tl.float32) * factor).to(T))
        else:
            for first in range(0, n, BLOCK):
                at = first + tl.arange(0, BLOCK)
                inside = at < n
                g = tl.load(x + at, mask=inside).to(tl.float32)
                tl.store(x + at, (g * factor).to(T), mask=inside)


class List:
    """Three launches over a table in device memory: squares, factor, product."""
    CHUNK, BLOCK = 16384, 4096

    def __init__(self, tensors, dtype):
        self.type = TYPES[dtype]
        addresses, counts = [], []
        for tensor in tensors:
            for at in range(0, tensor.numel(), self.CHUNK):
                addresses.append(tensor.data_ptr() + at * tensor.element_size())
                counts.append(min(self.CHUNK, tensor.numel() - at))
        self.addresses = torch.tensor(addresses, device="cuda", dtype=torch.int64)
        self.counts = torch.tensor(counts, device="cuda", dtype=torch.int32)
        self.partials = torch.empty(len(counts), device="cuda")
        self.record = torch.zeros(4, device="cuda")

    def configure(self, max_norm, unscale):
        self.record.copy_(torch.tensor([0.0, 0.0, max_norm, unscale]))

    def run(self):
        grid = (self.counts.numel(),)
        list_squares[grid](self.addresses, self.counts, self.partials, self.type, self.CHUNK,
                           self.BLOCK)
        list_factor[(1,)](self.partials, self.counts.numel(), self.record, 1024)
        list_apply[grid](self.addresses, self.counts, self.record, self.type, self.CHUNK,
                         self.BLOCK)

    def norm(self):
        return self.record[1].item()

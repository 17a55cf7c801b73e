# SPDX-License-Identifier: MIT
"""Clips a list of gradients, in every version that is compared.

A version is made for a list of tensors, told max_norm and what to multiply by besides ("unscale"),
run on the current stream, and says what the norm was. All use clip_grad_norm_'s eps of 1e-6.
"""
import math
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p

import torch

import peers_triton
from peers_kernels import CODES, DTYPES, stream

EPS = 1e-6


class Gradients:
    """The tensors of a set in one block of memory, and their initial values."""

    def __init__(self, counts, groups, dtype):
        itemsize = DTYPES[dtype].itemsize
        starts, at = [], 0
        for count in counts:
            starts.append(at)
            at += -(-count * itemsize // 512) * 512 // itemsize
        self.dtype, self.groups, self.starts = dtype, groups, starts
        self.flat = torch.zeros(at, device="cuda", dtype=DTYPES[dtype])
        self.tensors = [self.flat[s:s + n] for s, n in zip(starts, counts)]
        generator = torch.Generator(device="cuda").manual_seed(1)
        self.flat.normal_(generator=generator)
        self.before = self.flat.clone()
        self.elements = sum(counts)
        self.bytes = self.elements * itemsize
        self.exact = []
        for group in range(1 + max(groups)):
            squares = [torch.linalg.vector_norm(t, dtype=torch.float64).square()
                       for t in self.of_group(group)]
            self.exact.append(math.sqrt(torch.stack(squares).sum().item()))

    def of_group(self, group):
        return [t for t, g in zip(self.tensors, self.groups) if g == group]

    def restore(self):
        self.flat.copy_(self.before)

    def error(self, factors):
        """The largest |g - exact| / |exact|, exact = f64 of the gradient before times the factor
        of its group."""
        worst = 0.0
        parts = zip(self.tensors, self.starts, self.groups)
        for index, (tensor, start, group) in enumerate(parts):
            if self.elements > 1 << 26 and tensor.numel() < 1 << 16 and index % 16:
                continue
            for first in range(start, start + tensor.numel(), 1 << 26):
                last = min(first + (1 << 26), start + tensor.numel())
                exact = self.before[first:last].double().mul_(factors[group])
                off = (self.flat[first:last].double() - exact).abs_()
                worst = max(worst, (off / exact.abs_().clamp_(min=1e-30)).max().item())
        return worst


class Ours:
    def __init__(self, gradients, gpu, **_):
        tensors = [{"data": t, "group": g} for t, g in zip(gradients.tensors, gradients.groups)]
        self.plan = gpu.clip_plan(tensors, max_norm=1.0, eps=EPS, stream=stream())

    def configure(self, max_norm, unscale):
        self.plan.set_max_norm(max_norm, stream=stream())
        self.plan.set_loss_scale(1.0 / unscale, stream=stream())

    def run(self):
        self.plan.run(stream())

    def norms(self):
        return [r.norm for r in self.plan.read(stream()).records]

    def destroy(self):
        self.plan.close()


class Groups:
    """A version with a single norm, run once for each group."""

    def __init__(self, gradients, **tools):
        self.tools = tools
        self.parts = [self.part(gradients.of_group(g), gradients.dtype)
                      for g in range(len(gradients.exact))]

    def configure(self, max_norm, unscale):
        for part in self.parts:
            part.configure(max_norm, unscale)

    def run(self):
        for part in self.parts:
            part.run()

    def norms(self):
        return [part.norm() for part in self.parts]

    def destroy(self):
        for part in self.parts:
            if hasattr(part, "destroy"):
                part.destroy()


class TorchPart:
    """clip_grad_norm_. It multiplies even if there is nothing to clip, so `unscale` is ignored;
    `unscaling` runs GradScaler's unscale_ before it."""

    def __init__(self, tensors, unscaling):
        self.parameters = []
        for tensor in tensors:
            parameter = torch.nn.Parameter(torch.empty_like(tensor))
            parameter.grad = tensor
            self.parameters.append(parameter)
        self.tensors, self.unscaling, self.max_norm, self.total = tensors, unscaling, 1.0, None
        self.found = torch.zeros(1, device="cuda")
        self.inverse = torch.ones(1, device="cuda")

    def configure(self, max_norm, unscale):
        self.max_norm = max_norm
        self.inverse.fill_(unscale)

    def run(self):
        if self.unscaling:
            torch._amp_foreach_non_finite_check_and_unscale_(self.tensors, self.found,
                                                             self.inverse)
        self.total = torch.nn.utils.clip_grad_norm_(self.parameters, self.max_norm, foreach=True,
                                                    error_if_nonfinite=False)

    def norm(self):
        return self.total.item()


class Torch(Groups):
    def part(self, tensors, dtype):
        return TorchPart(tensors, self.tools.get("unscaling", False))


def clip_list(gradients, max_norm):
    norms = torch._foreach_norm(gradients)
    total = torch.linalg.vector_norm(torch.stack(norms))
    factor = torch.clamp(max_norm / (total + EPS), max=1.0)
    torch._foreach_mul_(gradients, factor)
    return total


class CompiledPart:
    def __init__(self, tensors):
        self.tensors, self.total = tensors, None
        self.max_norm = torch.ones((), device="cuda")
        self.compiled = torch.compile(clip_list, fullgraph=True, dynamic=False)

    def configure(self, max_norm, unscale):
        self.max_norm.fill_(max_norm)

    def run(self):
        self.total = self.compiled(self.tensors, self.max_norm)

    def norm(self):
        return self.total.item()


class Compiled(Groups):
    def part(self, tensors, dtype):
        return CompiledPart(tensors)


class CudaPart:
    def __init__(self, tensors, dtype, peers, apex):
        tensors = [t for t in tensors if t.numel()]
        data = (c_uint64 * len(tensors))(*[t.data_ptr() for t in tensors])
        counts = (c_uint64 * len(tensors))(*[t.numel() for t in tensors])
        self.peers = peers
        self.clip = c_void_p(peers.peers_clip_create(c_int(CODES[dtype]), c_int(apex), data,
                                                     counts, c_size_t(len(tensors))))
        if not self.clip:
            raise RuntimeError("libpeers: no memory")

    def configure(self, max_norm, unscale):
        self.peers.peers_clip_configure(self.clip, c_float(max_norm), c_float(unscale))

    def run(self):
        if self.peers.peers_clip_run(self.clip, c_void_p(stream())):
            raise RuntimeError("libpeers: a launch failed")

    def norm(self):
        norm = c_float()
        self.peers.peers_clip_norm(self.clip, byref(norm))
        return norm.value

    def destroy(self):
        self.peers.peers_clip_destroy(self.clip)


class Cuda(Groups):
    def part(self, tensors, dtype):
        return CudaPart(tensors, dtype, self.tools["peers"], apex=0)


class Apex(Groups):
    def part(self, tensors, dtype):
        return CudaPart(tensors, dtype, self.tools["peers"], apex=1)


class Triton(Groups):
    def part(self, tensors, dtype):
        return peers_triton.List(tensors, dtype)


class OriginalPart:
    """A launch for each tensor, one element per thread, and one thread that adds the partials."""

    def __init__(self, tensors, module):
        self.module, self.tensors = module, [t for t in tensors if t.numel()]
        self.blocks = [-(-t.numel() // 256) for t in self.tensors]
        self.partials = torch.empty(sum(self.blocks), device="cuda")
        self.record = torch.zeros(2, device="cuda")
        self.launches = []

    def configure(self, max_norm, unscale):
        squared_sum, clip = self.module["squared_sum"], self.module["clip"]
        sums, clips, at = [], [], self.partials.data_ptr()
        for tensor, blocks in zip(self.tensors, self.blocks):
            x, n = tensor.data_ptr(), tensor.numel()
            sums.append(squared_sum.bind(x, n, at, grid=blocks))
            clips.append(clip.bind(x, n, self.record.data_ptr(), grid=blocks))
            at += 4 * blocks
        reduce = self.module["reduce"].bind(self.partials.data_ptr(), self.partials.numel(), max_norm,
                                            unscale, self.record.data_ptr(), grid=1)
        self.launches = sums + [reduce] + clips

    def run(self):
        on = stream()
        for launch in self.launches:
            launch(on)

    def norm(self):
        return self.record[1].item()


class Original(Groups):
    def part(self, tensors, dtype):
        return OriginalPart(tensors, self.tools["originals"][dtype])

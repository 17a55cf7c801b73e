#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the kernels of examples/ against PyTorch, torch.compile and CUDA C++, on the same tensors;
every version's result is checked first.

    peers_examples.py BUILD PEERS [-o FILE] [--only PART,...] [--no-compile | --warm]

BUILD is the Meson build folder, PEERS the library made of peers_examples.cu:
nvcc -std=c++17 -O3 -arch=native -Xcompiler -fPIC -shared -o PEERS bench/peers_examples.cu
Times are the device's, of a graph. --warm compiles what torch.compile compiles and times nothing;
several at once, each with its --only, make the run itself quicker. Ends with 1 if a result was wrong, 77 without a GPU.
"""
import argparse
import ctypes
import functools
import os
import subprocess
import sys

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import measure
from measure import Work
from scripts import needs_gpu

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
CODES = {"f32": 0, "bf16": 3}  # enum dtype of peers.cuh
ELEMENTS = 1 << 26
COLUMNS = (1024, 4096, 16384)
# Attention: tokens of all sequences, and columns of all heads.
TOKENS, WIDTH = 16384, 2048
ATTENTION = [(n, head, True) for n in (2048, 4096, 8192, 16384) for head in (64, 128)]
ATTENTION += [(4096, 64, False), (4096, 128, False)]
# What the sources of the examples say: rows.h, gelu.c, layer_norm.c, matmul.c, attention.c.
ROW_ELEMENTS, ROW_TOGETHER = 16, 4
GELU_BLOCK, GELU_ROWS = 256, {"f32": 8, "bf16": 2}
ROW_MAX_THREADS = 1024
FEW_ELEMENTS, BACKWARD_THREADS = 8, 1024
TILE, SHARED_BYTES = (128, 256), 3 * (128 * 72 + 64 * 264) * 2


class Case:
    """Tensors; versions by name, each a function that returns the results; what these should be."""

    flop = 0

    def __init__(self, bench, dtype, columns):
        self.bench, self.dtype, self.columns = bench, dtype, columns
        self.type, self.rows = DTYPES[dtype], ELEMENTS // columns
        self.size = f"{self.rows} x {columns}"

    def tensor(self, seed, *shape, dtype=None):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        made = torch.empty(*shape, device="cuda", dtype=dtype or self.type)
        return made.normal_(generator=generator)

    def entry(self, name, *arguments, **params):
        """An entry of the example's module, with tensors and numbers."""
        function = self.bench.example(*self.command())[name]
        given = [a.data_ptr() if torch.is_tensor(a) else a for a in arguments]
        launch = function.bind(*given, **params)
        return lambda: launch(torch.cuda.current_stream())

    def command(self):
        return self.program, self.dtype, self.rows, self.columns

    def rows_together(self):
        """A warp or a block has a row."""
        return ROW_TOGETHER if self.row_threads() == 32 else 1

    def row_threads(self, elements=ROW_ELEMENTS):
        threads = 32
        while threads < ROW_MAX_THREADS and threads * elements < self.columns:
            threads *= 2
        return threads

    def row_grid(self):
        return -(-self.rows // self.rows_together())

    def scale(self, result):
        return 1

    def poison(self):
        """What is there before must not count."""
        for name in ("y", "c", "sums", "d_gamma_beta"):
            if hasattr(self, name):
                getattr(self, name).fill_(float("nan"))

    def result_bytes(self):
        return self.passes * self.rows * self.columns * self.type.itemsize

    def tolerance(self):
        return 2.0 ** -7 if self.dtype == "bf16" else 1e-5

    def peer(self, function, result, *arguments):
        given = [ctypes.c_void_p(a.data_ptr()) if torch.is_tensor(a) else a for a in arguments]

        def run():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            status = function(*given, stream)
            if status:
                raise RuntimeError(f"CUDA error {status}")
            return [result]
        return run

    def error(self, results):
        """The largest error of an element, relative to itself or, where that is larger, to the size
        of what was added up. Of matrices the first rows are looked at."""
        worst = 0.0
        for result, wanted in zip(results, self.wanted):
            result = result[:len(wanted)].double() / self.scale(result)
            off = (result - wanted).abs() / wanted.abs().clamp(min=self.least)
            worst = max(worst, off.max().nan_to_num(nan=float("inf")).item())
        return worst


class Softmax(Case):
    program = name = "softmax"
    passes, least = 2, 1e-9

    def __init__(self, *args):
        super().__init__(*args)
        self.x = self.tensor(1, self.rows, self.columns)
        self.y = torch.empty_like(self.x)
        self.wanted = [torch.softmax(self.x[:64].double(), -1)]

    def versions(self):
        x, y = self.x, self.y
        launch = self.entry("softmax", x, y, self.rows, grid=self.row_grid())
        compiled = torch.compile(lambda x: torch.softmax(x, -1), dynamic=False)
        return {"ours": lambda: launch() or [y],
                "torch": lambda: [torch.softmax(x, -1)],
                "torch.compile": lambda: [compiled(x)],
                "CUDA C++": self.peer(self.bench.peers.peers_softmax, y, CODES[self.dtype], x, y,
                                      self.rows, self.columns)}


class Gelu(Case):
    program = "gelu"
    passes, least = 2, 1.0

    def __init__(self, *args):
        super().__init__(*args)
        self.name = f"gelu, {self.form}"
        self.approximate = "none" if self.form == "erf" else "tanh"
        self.x = self.tensor(2, self.rows, self.columns)
        self.bias = self.tensor(3, self.columns)
        self.y = torch.empty_like(self.x)
        self.wanted = [self.formula(self.x[:64].double(), self.bias.double())]

    def formula(self, x, bias):
        return functional.gelu(x + bias, approximate=self.approximate)

    def versions(self):
        x, bias, y = self.x, self.bias, self.y
        across = -(-self.columns // (GELU_BLOCK * 16 // self.type.itemsize))
        launch = self.entry(f"gelu_{self.form}", x, bias, y, self.rows,
                            grid=across * -(-self.rows // GELU_ROWS[self.dtype]))
        compiled = torch.compile(self.formula, dynamic=False)
        return {"ours": lambda: launch() or [y],
                "torch": lambda: [self.formula(x, bias)],
                "torch.compile": lambda: [compiled(x, bias)]}


class GeluErf(Gelu):
    form = "erf"


class GeluTanh(Gelu):
    form = "tanh"


class LayerNorm(Case):
    program, name = "layer_norm", "layer norm"
    passes, least, eps = 2, 1.0, 1e-5

    def __init__(self, *args):
        super().__init__(*args)
        self.x = self.tensor(4, self.rows, self.columns)
        self.gamma, self.beta = self.tensor(5, self.columns), self.tensor(6, self.columns)
        self.y = torch.empty_like(self.x)
        self.mean = torch.empty(self.rows, device="cuda")
        self.rstd = torch.empty(self.rows, device="cuda")
        self.forward = self.entry("layer_norm", self.x, self.gamma, self.beta, self.y, self.mean,
                                  self.rstd, self.rows, self.eps, grid=self.row_grid())
        self.wanted = [functional.layer_norm(self.x[:64].double(), (self.columns,),
                                             self.gamma.double(), self.beta.double(), self.eps)]

    def versions(self):
        arguments = (self.x, (self.columns,), self.gamma, self.beta, self.eps)
        compiled = torch.compile(lambda *a: torch.native_layer_norm(*a), dynamic=False)
        return {"ours": lambda: self.forward() or [self.y],
                "torch": lambda: torch.native_layer_norm(*arguments)[:1],
                "torch.compile": lambda: compiled(*arguments)[:1]}


class LayerNormBackward(LayerNorm):
    name, passes = "layer norm, backward", 3

    def __init__(self, *args):
        super().__init__(*args)
        self.dy = self.tensor(7, self.rows, self.columns)
        self.forward()
        self.dx = self.y
        threads = self.row_threads(FEW_ELEMENTS)
        self.turns = min(132 * BACKWARD_THREADS // max(threads, 128), self.row_grid())
        self.count = self.turns * (4 if threads == 32 else 1)
        self.sums = torch.empty(2 * self.count, self.columns, device="cuda")
        self.d_gamma_beta = torch.empty(2, self.columns, device="cuda", dtype=self.type)
        self.wanted = self.exact()

    def exact(self):
        """dx of some rows; the sums over all rows, part by part."""
        d_gamma = torch.zeros(self.columns, device="cuda", dtype=torch.float64)
        d_beta, dx, gamma = torch.zeros_like(d_gamma), None, self.gamma.double()
        for x, dy in zip(self.x.split(512), self.dy.split(512)):
            x, dy = x.double(), dy.double()
            rstd = (x.var(-1, unbiased=False, keepdim=True) + self.eps).rsqrt()
            x = (x - x.mean(-1, keepdim=True)) * rstd
            if dx is None:
                g = dy * gamma
                dx = (g - g.mean(-1, keepdim=True) - x * (g * x).mean(-1, keepdim=True)) * rstd
            d_gamma += (dy * x).sum(0)
            d_beta += dy.sum(0)
        return [dx[:64], d_gamma / self.rows ** 0.5, d_beta / self.rows ** 0.5]

    def scale(self, result):
        return self.rows ** 0.5 if result.dim() == 1 else 1

    def versions(self):
        # The sums, and 64 bytes of x and dy that a thread asks for ahead.
        in_shared = self.columns > ROW_MAX_THREADS * FEW_ELEMENTS
        threads = self.row_threads(FEW_ELEMENTS)
        shared = 8 * ROW_MAX_THREADS * ROW_ELEMENTS if in_shared else 64 * threads
        first = self.entry("layer_norm_backward", self.dy, self.x, self.gamma, self.mean, self.rstd,
                           self.dx, self.sums, self.rows, grid=self.turns,
                           shared_bytes=shared)
        second = self.entry("layer_norm_sums", self.sums, self.count, self.d_gamma_beta,
                            grid=-(-2 * self.columns // 32))

        def ours():
            first()
            second()
            return [self.dx, *self.d_gamma_beta]

        arguments = (self.dy, self.x, [self.columns], self.mean.view(-1, 1), self.rstd.view(-1, 1),
                     self.gamma, self.beta, [True, True, True])
        backward = torch.ops.aten.native_layer_norm_backward
        compiled = torch.compile(lambda *a: backward(*a), dynamic=False)
        return {"ours": ours, "torch": lambda: backward(*arguments),
                "torch.compile": lambda: compiled(*arguments)}


class Matmul(Case):
    program = name = "matmul"

    def __init__(self, bench, dtype, n):
        super().__init__(bench, dtype, n)
        self.n, self.size = n, f"{n} x {n} x {n}"
        self.a, self.b = self.tensor(8, n, n), self.tensor(9, n, n)
        self.c = torch.empty_like(self.a)
        self.least, self.flop = n ** 0.5, 2 * n ** 3
        self.wanted = [self.a[:256].double() @ self.b.double()]

    def command(self):
        return (self.program,)

    def versions(self):
        a, b, c, n = self.a, self.b, self.c, self.n
        launch = self.entry("matmul", a, b, c, n, n, n, grid=(n // TILE[0]) * (n // TILE[1]),
                            shared_bytes=SHARED_BYTES)
        return {"ours": lambda: launch() or [c],
                "torch": lambda: [torch.matmul(a, b)],
                "CUDA C++": self.peer(self.bench.peers.peers_matmul, c, a, b, c, n, n, n)}


class Attention(Case):
    program = name = "attention"
    peers = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
    looked_at = 16  # queries of each head

    def __init__(self, bench, dtype, what):
        self.tokens, self.head, self.causal = what
        super().__init__(bench, dtype, self.head)
        shape = TOKENS // self.tokens, WIDTH // self.head, self.tokens, self.head
        self.q, self.k, self.v = (self.tensor(10 + n, *shape) for n in range(3))
        self.c = torch.empty_like(self.q)
        self.size = f"{shape[0]} x {self.tokens}, head {self.head}{', causal' * self.causal}"
        self.flop = 4 * TOKENS * WIDTH * self.tokens // (2 if self.causal else 1)
        self.rows = torch.arange(1, self.looked_at + 1, device="cuda")
        self.rows = self.rows * (self.tokens // self.looked_at) - 1
        self.wanted, self.worst = self.exact(), None

    def exact(self):
        scores = self.q[:, :, self.rows].double() @ self.k.double().mT / self.head ** 0.5
        if self.causal:
            behind = torch.arange(self.tokens, device="cuda") > self.rows[:, None]
            scores.masked_fill_(behind, -torch.inf)
        return scores.softmax(-1) @ self.v.double()

    def command(self):
        return self.program, 128, 1, self.head

    def error(self, results):
        error = (results[0][:, :, self.rows].double() - self.wanted).abs().max().item()
        self.worst = self.worst or 2 * error  # of the first version, flash
        return error if results[0].isfinite().all() else float("inf")

    def tolerance(self):
        return self.worst

    def sdpa(self, backend):
        with sdpa_kernel(backend):
            return [functional.scaled_dot_product_attention(self.q, self.k, self.v,
                                                            is_causal=self.causal)]

    def versions(self):
        shared = 2 * (128 + 4 * 64) * (self.head + 8)
        launch = self.entry("attention_causal" if self.causal else "attention", self.q, self.k,
                            self.v, self.c, self.tokens, TOKENS // self.tokens * WIDTH // self.head,
                            grid=TOKENS // 128 * WIDTH // self.head, shared_bytes=shared)
        made = {name: functools.partial(self.sdpa, backend)
                for name, backend in self.peers.items()}
        return made | {"ours": lambda: launch() or [self.c]}


class Bench(measure.Bench):
    def __init__(self, options):
        super().__init__(options)
        self.peers = ctypes.CDLL(options.peers)

    def example(self, name, *arguments):
        path = os.path.join(self.options.build, "examples", name)
        command = [path, "--emit", *map(str, arguments)]
        return self.gpu.load(subprocess.run(command, capture_output=True, text=True,
                                            check=True).stdout)

    def rate(self, case, us):
        if case.flop:
            return {"tflop_s": round(1e-6 * case.flop / us, 1)}
        rate = case.result_bytes() / (us * 1e-6)
        return {"tb_s": round(rate / 1e12, 4), "of_copy": round(rate / self.copy_rate, 4)}

    def compare(self, case):
        what, works, errors = f"{case.name} {case.dtype} {case.size}", {}, {}
        if self.options.warm:
            case.versions().get("torch.compile", lambda: None)()
            return
        for version, run in case.versions().items():
            if version == "torch.compile" and self.options.no_compile:
                continue
            case.poison()
            errors[version] = self.check(what, version, case.error(run()), case.tolerance())
            works[version] = Work(run, 3)
        times = self.clock.compare(works)
        for version, taken in times.items():
            self.output.line({"kind": "example", "example": case.name, "dtype": case.dtype,
                              "size": case.size, "version": version, **taken,
                              **self.rate(case, taken["median_us"]), "error": errors[version]})
        print(f"{what:<44}" + ", ".join(
            f"{v} {t['median_us']:.2f} ({list(self.rate(case, t['median_us']).values())[-1]})"
            for v, t in times.items()), flush=True)

    def all(self):
        wanted = self.options.only.split(",") if self.options.only else [""]
        cases = [(Matmul, "bf16", n) for n in (2048, 4096, 8192)]
        cases += [(Attention, "bf16", what) for what in ATTENTION]
        cases += [(kind, dtype, columns)
                  for kind in (Softmax, GeluErf, GeluTanh, LayerNorm, LayerNormBackward)
                  for dtype in DTYPES for columns in self.options.columns]
        for kind, dtype, size in cases:
            if any(kind.__name__.startswith(name) for name in wanted):
                torch._dynamo.reset()
                self.compare(kind(self, dtype, size))
                torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("peers")
    parser.add_argument("-o", "--output")
    parser.add_argument("--only", help="beginnings of the classes' names: Matmul, Attention")
    parser.add_argument("--columns", default=",".join(map(str, COLUMNS)))
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--warm", action="store_true", help="torch.compile alone, not timed")
    options = parser.parse_args()
    options.columns = [int(c) for c in options.columns.split(",")]
    needs_gpu()
    bench = Bench(options)
    if not options.warm:
        bench.time_copy()
    bench.all()
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

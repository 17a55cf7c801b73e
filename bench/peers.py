#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times kernels and clip plans against PyTorch, torch.compile, CUDA C++, apex's way, Triton and the
pipeline they replace, on the same tensors; every version's result is checked first.

    peers.py BUILD PEERS [-o FILE] [--only kernels|clip] [--sizes 10,14,...] [--sets PART,...]
             [--part NAME,...] [--warm]

BUILD is the Meson build folder, PEERS the library made of peers_*.cu (gpu_bench.sh makes it).
Times are the device's; a graph's are of one replay or, where tensors are small, a tenth of ten in a
row. --warm compiles what torch.compile and Triton compile, in parallel, and times nothing: what they
keep on disk makes a later run quicker. Ends with 1 if a result was wrong, 77 without a GPU.
"""
import argparse
import gc
import json
import os
import subprocess
import sys
import time

import torch
import torch._inductor.config

import measure
import peers_clip
import peers_kernels
import peers_quantize
from measure import Work
from scripts import needs_gpu

KERNEL_CASES = peers_kernels.CASES + peers_quantize.CASES
SIZES = (10, 14, 18, 20, 22, 24, 26, 28)
SETS = ("LoRA layer", "LoRA 28 x 6", "LoRA 28 norms", "Qwen2-7B LoRA", "2000 x 512", "GPT-2 124M",
        "GPT-2 350M", "GPT-2 1.5B")
# For 2,000 tensors torch.compile does not finish within three minutes.
COMPILED_SETS = ("LoRA layer", "LoRA 28 x 6", "LoRA 28 norms", "Qwen2-7B LoRA", "GPT-2 124M",
                 "GPT-2 350M", "GPT-2 1.5B")
MOST_ORIGINAL = 1 << 29  # elements; with more, the single thread adds for half a second
WIPED_PER_SECOND = 2.5e11  # bytes; half of the measured rate
SMALL_BYTES = 64 << 20  # sets that about fit in the L2 cache
UNSCALE = 1 - 2.0 ** -23  # every replay multiplies, and the gradients hardly change


class Bench(measure.Bench):
    def __init__(self, options):
        # Tuning results from when everything was compiling at once are not valid.
        torch._inductor.config.autotune_local_cache = False
        super().__init__(options)
        self.peers = peers_kernels.load_peers(options.peers)

    def program(self, *command):
        path = os.path.join(self.options.build, "bench", command[0])
        return subprocess.run([path, *command[1:]], capture_output=True, text=True,
                              check=True).stdout

    # ---- kernels ---------------------------------------------------------------------------------

    def kernel(self, case):
        size = f"2^{case.n.bit_length() - 1}" if case.n & (case.n - 1) == 0 else str(case.n)
        what = f"{case.name} {case.dtype} {size}"
        calls = max(1, min(20, (1 << 27) // case.elements()))
        versions, works, errors = case.versions(), {}, {}
        if self.options.warm:
            for version in ("torch.compile", "Triton"):
                if version in versions:
                    versions[version]()
            return
        for version, run in versions.items():
            case.poison()
            run()
            errors[version] = self.check(what, version, case.error(), case.tolerance(version))
            works[version] = Work(run, calls, version not in case.uncaptured)
        times = self.clock.compare(works)
        for version, taken in times.items():
            rate = case.bytes() / (taken["median_us"] * 1e-6)
            self.output.line({"kind": "kernel", "kernel": case.name, "dtype": case.dtype,
                              "n": case.n, "version": version, "bytes": case.bytes(), **taken,
                              "tb_s": round(rate / 1e12, 4),
                              "of_copy": round(rate / self.copy_rate, 4),
                              "error": errors[version]})
        print(f"{what:<44}" + ", ".join(f"{v} {t['median_us']:.2f}" for v, t in times.items()),
              flush=True)

    def kernels(self):
        for make in KERNEL_CASES:
            for dtype in make.types:
                if self.options.part and f"{make.name}/{dtype}" not in self.options.part:
                    continue
                for n in make.sizes or [1 << size for size in self.options.sizes]:
                    torch._dynamo.reset()
                    self.kernel(make(self.gpu, self.peers, dtype, n))
                    if n >= 1 << 26:
                        free_memory()

    # ---- clip ------------------------------------------------------------------------------------

    def clip_versions(self, name, gradients, unscaling):
        tools = {"gpu": self.gpu, "peers": self.peers, "unscaling": unscaling}
        if self.options.warm:
            yield "torch.compile", peers_clip.Compiled(gradients, **tools)
            yield "Triton", peers_clip.Triton(gradients, **tools)
            return
        yield "ours", peers_clip.Ours(gradients, **tools)
        yield "torch", peers_clip.Torch(gradients, **tools)
        if unscaling:
            return
        if name in COMPILED_SETS:
            yield "torch.compile", peers_clip.Compiled(gradients, **tools)
        yield "CUDA C++", peers_clip.Cuda(gradients, **tools)
        yield "apex-style", peers_clip.Apex(gradients, **tools)
        yield "Triton", peers_clip.Triton(gradients, **tools)
        if gradients.elements <= MOST_ORIGINAL:
            text = self.program("original", gradients.dtype, "sm_90")
            originals = {gradients.dtype: self.gpu.load(text)}
            yield "original", peers_clip.Original(gradients, originals=originals, **tools)

    def check_clip(self, what, gradients, version, made):
        """Clips to a bit over a third of the least norm, then restores the gradients."""
        max_norm = 0.37 * min(gradients.exact)
        made.configure(max_norm, 1.0)
        gradients.restore()
        made.run()
        norm_error = max(abs(n / e - 1) for n, e in zip(made.norms(), gradients.exact))
        factors = [min(1.0, max_norm / (e + peers_clip.EPS)) for e in gradients.exact]
        error = gradients.error(factors)
        gradients.restore()
        narrow = gradients.dtype != "f32"
        if version.startswith("torch"):  # PyTorch's norm of bf16 gradients is a bf16
            tolerance = 1.6e-2 if narrow else 1e-4
        elif version == "original":  # one f32 accumulates all partials
            tolerance = 2e-2
        else:
            tolerance = 2.0 ** -8 + 1e-4 if narrow else 1e-4 if version != "ours" else 4e-7
        self.check(what, version, error, tolerance)
        return {"norm_error": norm_error, "gradient_error": error}

    def time_clip(self, what, line, gradients, versions, clipped, cold):
        works = {}
        replays = 10 if gradients.bytes < SMALL_BYTES and not cold else 1
        for version, made in versions.items():
            made.configure(float("inf"), UNSCALE if clipped else 1.0)
            works[version, "graph"] = Work(made.run, replays=replays)
            if version in ("ours", "torch") and not cold:
                works[version, "eager"] = Work(made.run, captured=False, replays=replays)
        times = self.clock.compare(works, cold)
        for (version, form), taken in times.items():
            self.output.line({**line, "version": version, "form": form, "clipped": clipped,
                              "cache": "cold" if cold else "warm", **taken})
        label = f"{what}, {'clipped' if clipped else 'unclipped'}{', cold' if cold else ''}"
        print(f"{label:<44}" + ", ".join(f"{v} {f} {t['median_us']:.2f}"
                                         for (v, f), t in times.items()), flush=True)

    def clip(self, entry, dtype, unscaling=False):
        name = entry["set"]
        what = f"{name} {dtype}{', unscale' if unscaling else ''}"
        gradients = peers_clip.Gradients(entry["counts"], entry["groups"], dtype)
        versions = dict(self.clip_versions(name, gradients, unscaling))
        line = {"kind": "clip", "set": name + (", unscale" if unscaling else ""), "dtype": dtype,
                "tensors": len(entry["counts"]), "groups": len(gradients.exact),
                "elements": gradients.elements, "bytes": gradients.bytes}
        for version, made in versions.items():
            errors = self.check_clip(what, gradients, version, made)
            self.output.line({**line, "kind": "clip check", "version": version, **errors})
        if not self.options.warm:
            for clipped in (True,) if unscaling else (True, False):
                self.time_clip(what, line, gradients, versions, clipped, cold=False)
                if gradients.bytes < SMALL_BYTES:
                    self.time_clip(what, line, gradients, versions, clipped, cold=True)
        for made in versions.values():
            if hasattr(made, "destroy"):
                made.destroy()

    def clips(self):
        wanted = self.options.sets.split(",") if self.options.sets else [""]
        for text in self.program("list_sets").splitlines():
            entry = json.loads(text)
            if entry["set"] not in SETS or not any(w in entry["set"] for w in wanted):
                continue
            for dtype in ("f32", "bf16"):
                if self.options.part and f"{entry['set']}/{dtype}" not in self.options.part:
                    continue
                self.clip(entry, dtype)
                if entry["set"] == "GPT-2 124M" and dtype == "f32" and not self.options.warm:
                    self.clip(entry, dtype, unscaling=True)
                torch._dynamo.reset()
                free_memory()


def free_memory():
    """Frees unused memory and waits: the driver wipes it, which takes a tenth of the bandwidth
    meanwhile."""
    gc.collect()
    before = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    time.sleep((before - torch.cuda.memory_reserved()) / WIPED_PER_SECOND)


def warm(options):
    """Runs each part in a process of its own, all at the same time."""
    parts = [("kernels", f"{make.name}/{dtype}") for make in KERNEL_CASES for dtype in make.types]
    parts += [("clip", f"{name}/{dtype}") for name in reversed(COMPILED_SETS)
              for dtype in ("f32", "bf16")]
    started = []
    for only, part in parts:
        if options.only and only != options.only:
            continue
        command = [sys.executable, os.path.abspath(__file__), options.build, options.peers,
                   "--only", only, "--part", part, "--warm",
                   "--sizes", ",".join(map(str, options.sizes))]
        environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="2")
        started.append((part, subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                               stderr=subprocess.STDOUT, text=True)))
    for part, process in started:
        text = process.communicate()[0]
        if process.returncode:
            print(f"{part}: {text[-2000:]}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("peers")
    parser.add_argument("-o", "--output")
    parser.add_argument("--only", choices=("kernels", "clip"))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--sets")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--part", help="kernel/dtype or set/dtype, several with commas",
                        type=lambda text: text.split(","))
    options = parser.parse_args()
    options.sizes = [int(s) for s in options.sizes.split(",")]
    needs_gpu()
    if options.warm and not options.part:
        warm(options)
        return 0
    bench = Bench(options)
    if not options.warm:
        bench.time_copy()
    if options.only != "clip":
        bench.kernels()
    if options.only != "kernels":
        if not options.warm:
            bench.time_copy()
        bench.clips()
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

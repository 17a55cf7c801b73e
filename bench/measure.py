# SPDX-License-Identifier: MIT
"""Measures device times of versions to compare, and writes them to a file."""
import json
import os
import statistics
import subprocess
import time

import torch

import package  # noqa: F401

REPETITIONS = 30
WARM_UP = 3
FLUSH_BYTES = 256 << 20
COPY_BYTES = 1 << 30


class Work:
    """Work to time: `run` enqueues it on the current stream. If captured, it is timed as a graph of
    `calls` calls, launched `replays` times; otherwise as `calls` calls from Python, including waits for the host."""

    def __init__(self, run, calls=1, captured=True, replays=1):
        self.calls, self.replays = calls, replays
        self.captured = captured
        self.run = run
        self.graph = None
        if captured:
            for _ in range(2):
                run()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                for _ in range(calls):
                    run()

    def enqueue(self):
        if self.graph is not None:
            self.graph.replay()
            return
        for _ in range(self.calls):
            self.run()


def summaries(samples):
    """{name: [us]} -> {name: {median_us, min_us, max_us}}."""
    return {name: {"median_us": round(statistics.median(times), 3),
                   "min_us": round(min(times), 3), "max_us": round(max(times), 3)}
            for name, times in samples.items()}


class Clock:
    """Times several works in turn, so that a drift of the machine affects all of them."""

    def __init__(self, repetitions=REPETITIONS, ahead=200_000):
        self.repetitions, self.ahead = repetitions, ahead  # ahead: cycles within which the host launches all
        self.start = torch.cuda.Event(enable_timing=True)
        self.stop = torch.cuda.Event(enable_timing=True)
        self.other = torch.ones(FLUSH_BYTES // 4, device="cuda")
        self.source = torch.randn(COPY_BYTES // 4, device="cuda")
        self.target = torch.empty_like(self.source)

    def _once(self, work, cold):
        torch.cuda.synchronize()
        if cold:
            self.other.sum()  # evicts the work's data from L2 and leaves nothing to write back
        if work.captured:
            torch.cuda._sleep(self.ahead)  # the host runs ahead, so its time is not measured
        self.start.record()
        for _ in range(work.replays):
            work.enqueue()
        self.stop.record()
        self.stop.synchronize()
        return self.start.elapsed_time(self.stop) * 1e3 / (work.replays * work.calls)

    def compare(self, works, cold=False):
        """{name: Work} -> {name: {median_us, min_us, max_us}} of one call."""
        samples = {name: [] for name in works}
        for turn in range(WARM_UP + self.repetitions):
            for name, work in works.items():
                time = self._once(work, cold)
                if turn >= WARM_UP:
                    samples[name].append(time)
        return summaries(samples)

    def host(self, works):
        """As compare(), the time that a call takes of the host: the GPU is idle before, and nothing
        waits for it."""
        samples = {name: [] for name in works}
        for turn in range(WARM_UP + self.repetitions):
            for name, work in works.items():
                torch.cuda.synchronize()
                begun = time.perf_counter()
                work.run()
                taken = time.perf_counter() - begun
                if turn >= WARM_UP:
                    samples[name].append(taken * 1e6)
        return summaries(samples)

    def copy_rate(self):
        """Bytes per second of a device-to-device copy, both directions counted."""
        work = Work(lambda: self.target.copy_(self.source), captured=False)
        time = self.compare({"copy": work})["copy"]
        return 2 * COPY_BYTES / (time["median_us"] * 1e-6), time


def commit():
    """The commit of the sources, or PTXGEN_COMMIT outside a repository."""
    if "PTXGEN_COMMIT" in os.environ:
        return os.environ["PTXGEN_COMMIT"]
    folder = os.path.dirname(os.path.abspath(__file__))
    shown = subprocess.run(["git", "-C", folder, "log", "-1", "--format=%h"], capture_output=True,
                           text=True, check=False)
    return shown.stdout.strip() or "unknown"


class Output:
    """JSON lines: the machine first, then one line per figure."""

    def __init__(self, path, gpu, repetitions=REPETITIONS):
        import ptxgen
        self.file = open(path, "w", encoding="utf-8") if path else None
        self.line({"machine": torch.cuda.get_device_name(), "driver": gpu.info.driver_version,
                   "torch": torch.__version__, "ptxgen": ptxgen.__version__, "commit": commit(),
                   "repetitions": repetitions})

    def line(self, values):
        if self.file:
            self.file.write(json.dumps(values) + "\n")
            self.file.flush()


class Bench:
    """What scripts share that compare versions: the device, a clock, the output, and the number of wrong results."""

    def __init__(self, options):
        import ptxgen
        torch.zeros(1, device="cuda")
        self.options, self.gpu = options, ptxgen.Device()
        self.output = Output(options.output, self.gpu)
        self.clock = Clock()
        self.wrong, self.copy_rate = 0, 0.0

    def time_copy(self):
        self.copy_rate, taken = self.clock.copy_rate()
        self.output.line({"kind": "copy", "bytes": 2 * COPY_BYTES, **taken, "tb_s": round(self.copy_rate / 1e12, 4)})
        print(f"device copy {self.copy_rate / 1e12:.3f} TB/s", flush=True)

    def check(self, what, version, error, tolerance):
        """The error; one above the tolerance is counted and named."""
        if not error <= tolerance:
            self.wrong += 1
            print(f"WRONG  {what}, {version}: off by {error:.3g}, {tolerance:.3g} allowed", flush=True)
        return error

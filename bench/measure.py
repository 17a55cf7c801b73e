# SPDX-License-Identifier: MIT
"""Measures device times of versions to compare, and writes them to a file."""
import json
import os
import statistics
import subprocess
import time

import torch

import package  # noqa: F401
import ptxgen

REPETITIONS = 30
WARM_UP = 3
FLUSH_BYTES = 256 << 20
COPY_BYTES = 1 << 30


class Work:
    """Work to time: `run` enqueues it on the current stream. If captured, it is timed as a graph of
    `calls` calls; otherwise as `calls` calls from Python, including waits for the host."""

    def __init__(self, run, calls=1, captured=True):
        self.calls = calls
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

    def __init__(self, repetitions=REPETITIONS):
        self.repetitions = repetitions
        self.start = torch.cuda.Event(enable_timing=True)
        self.stop = torch.cuda.Event(enable_timing=True)
        self.other = torch.ones(FLUSH_BYTES // 4, device="cuda")
        self.source = torch.randn(COPY_BYTES // 4, device="cuda")
        self.target = torch.empty_like(self.source)

    def _once(self, work, replays, cold):
        torch.cuda.synchronize()
        if cold:
            self.other.sum()  # evicts the work's data from L2 and leaves nothing to write back
        if work.captured:
            torch.cuda._sleep(200_000)  # the host runs ahead, so its time is not measured
        self.start.record()
        for _ in range(replays):
            work.enqueue()
        self.stop.record()
        self.stop.synchronize()
        return self.start.elapsed_time(self.stop) * 1e3 / (replays * work.calls)

    def compare(self, works, replays=1, cold=False):
        """{name: Work} -> {name: {median_us, min_us, max_us}} of one call."""
        samples = {name: [] for name in works}
        for turn in range(WARM_UP + self.repetitions):
            for name, work in works.items():
                time = self._once(work, replays, cold)
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

    def __init__(self, path, gpu):
        self.file = open(path, "w", encoding="utf-8") if path else None
        self.line({"machine": torch.cuda.get_device_name(), "driver": gpu.info.driver_version,
                   "torch": torch.__version__, "ptxgen": ptxgen.__version__, "commit": commit(),
                   "repetitions": REPETITIONS})

    def line(self, values):
        if self.file:
            self.file.write(json.dumps(values) + "\n")
            self.file.flush()

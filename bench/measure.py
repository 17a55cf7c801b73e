# SPDX-License-Identifier: MIT
"""Device times of work that is compared, and the file they go to."""
import json
import os
import statistics
import subprocess

import torch

REPETITIONS = 30
WARM_UP = 3
FLUSH_BYTES = 256 << 20
COPY_BYTES = 1 << 30


class Work:
    """Something to be timed: `run` enqueues it on the current stream. Captured, it is timed as a
    graph of `calls` calls; else as so many calls from Python, waits for the host included."""

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


class Clock:
    """Times several works in turns, so that a drift of the machine meets all of them."""

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
            self.other.sum()  # leaves the L2 cache with nothing of the work's, and nothing to write
        if work.captured:
            torch.cuda._sleep(200_000)  # the host gets ahead: its part is not measured
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
        return {name: {"median_us": round(statistics.median(times), 3),
                       "min_us": round(min(times), 3), "max_us": round(max(times), 3)}
                for name, times in samples.items()}

    def copy_rate(self):
        """Bytes a second of a device-to-device copy, both directions counted."""
        work = Work(lambda: self.target.copy_(self.source), captured=False)
        time = self.compare({"copy": work})["copy"]
        return 2 * COPY_BYTES / (time["median_us"] * 1e-6), time


def commit():
    """Of the sources, or what PTXGEN_COMMIT says where there is no repository."""
    if "PTXGEN_COMMIT" in os.environ:
        return os.environ["PTXGEN_COMMIT"]
    folder = os.path.dirname(os.path.abspath(__file__))
    shown = subprocess.run(["git", "-C", folder, "log", "-1", "--format=%h"], capture_output=True,
                           text=True, check=False)
    return shown.stdout.strip() or "unknown"


class Output:
    """JSON lines: the machine first, then a line a figure."""

    def __init__(self, path, library):
        self.file = open(path, "w", encoding="utf-8") if path else None
        self.line({"machine": torch.cuda.get_device_name(), "driver": library.info.driver_version,
                   "torch": torch.__version__, "ptxgen": library.version(), "commit": commit(),
                   "repetitions": REPETITIONS})

    def line(self, values):
        if self.file:
            self.file.write(json.dumps(values) + "\n")
            self.file.flush()

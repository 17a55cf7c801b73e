# SPDX-License-Identifier: MIT
"""What gpu_check.sh starts; its head says how it is called.

Steps run beside each other, the longest first, one on each core, until the time is over. No step has a
limit of its own.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS = float(os.environ.get("GPU_CHECK_SECONDS", 520))  # of nine minutes, which some lose to transfers
WORKERS = os.cpu_count() or 1
LARGE = 8 << 20  # bytes of a log that is compressed


class Check:
    """A call: its time, its folders, the lines of summary.txt."""

    def __init__(self, output, build):
        self.deadline = time.monotonic() + SECONDS
        self.output = pathlib.Path(output).resolve()
        self.build = pathlib.Path(build).resolve()
        self.failed_texts = self.build / "failed"
        self.output.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.failed_texts, ignore_errors=True)
        self.failed_texts.mkdir(parents=True)
        self.summary = open(self.output / "summary.txt", "w", encoding="utf-8")
        self.lock = threading.Lock()
        self.wrong = 0  # steps that failed or were not reached

    def left(self):
        return self.deadline - time.monotonic()

    def line(self, text, wrong=False, shown=True):
        with self.lock:
            self.wrong += wrong
            self.summary.write(text + "\n")
            self.summary.flush()
            if shown or wrong:
                print(text, flush=True)

    def ended(self, name, status, seconds, note="", shown=True):
        word = {0: "ok", 77: "SKIPPED", None: "OUT OF TIME"}.get(status, f"FAILED ({status})")
        self.line(f"{word:<12} {seconds:6.1f} s  {name}  {note}".rstrip(), status != 0, shown)

    def run(self, command, log, **environment):
        """The exit status, None if the time was over, and the seconds. Output goes to the file."""
        begun = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True, cwd=ROOT,
                                   env={**os.environ, "TMPDIR": str(self.failed_texts), "PTXGEN_PTXAS_ALL": "1",
                                        **environment})
        try:
            status = process.wait(timeout=max(self.left(), 0.1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        return status, time.monotonic() - begun

    def keep(self, path, name):
        """Copies a log to OUTPUT, compressed if it is large."""
        if path.is_file() and path.stat().st_size > LARGE:
            with open(path, "rb") as log, gzip.open(self.output / (name + ".gz"), "wb") as packed:
                shutil.copyfileobj(log, packed)
        elif path.is_file():
            shutil.copyfile(path, self.output / name)

    def compile(self, *targets):
        """Builds what is not built. The status is that of ninja."""
        fresh = not (self.build / "build.ninja").is_file()
        path = self.output / "build.log"
        with open(path, "wb") as log:
            self.run(["sh", "-c", "uname -srm; nproc; nvidia-smi --query-gpu=name,driver_version,memory.total "
                      "--format=csv,noheader; python3 --version; for tool in meson ninja cc ptxas "
                      "compute-sanitizer; do command -v $tool || echo no $tool; done; "
                      "git log -1 --format=%H 2>&1"], log)
            status, seconds, spent = 0, 0.0, 0.0
            if fresh:
                status, seconds = self.run(["meson", "setup", str(self.build), str(ROOT), "-Dtests=enabled",
                                            "-Dtools=enabled"], log)
            if status == 0:
                status, spent = self.run(["ninja", "-C", str(self.build), *targets], log)
        self.ended("build", status, seconds + spent,
                   "there was no build: set up and built" if fresh else "of the build that was there")
        if status != 0:
            print(path.read_text(errors="replace")[-4000:])
        return status

    def close(self):
        texts = self.build / "failed.ptx"
        with open(texts, "w", encoding="utf-8") as every:
            for path in sorted(self.failed_texts.glob("*.ptx")):
                every.write(f"// {path.name}\n{path.read_text(errors='replace')}\n")
        if texts.stat().st_size:
            self.keep(texts, "failed.ptx")
        seconds = SECONDS - self.left()
        self.line(f"{'FAILED' if self.wrong else 'ok'}: {self.wrong} lines above are not ok; {seconds:.0f} s")
        self.summary.close()
        return 1 if self.wrong else 0


# ---- tests --------------------------------------------------------------------------------------

CLIP_SECONDS = 45  # kept for the step after the tests


def plain_name(name):
    """Of a test in a log, where Meson puts suites and the project before it."""
    return re.sub(r"^[\w-]+:", "", re.sub(r"^\S+ [/-] ", "", name))


def meson_test(check):
    """Runs the suite and returns how each test ended: {name: (result, seconds)}."""
    logs = check.build / "meson-logs"
    for path in logs.glob("testlog.*"):
        path.unlink()
    # Tests run beside each other, so each may take longer than alone.
    command = ["meson", "test", "-C", str(check.build), "--no-rebuild", "-t", "3", "--num-processes", str(WORKERS)]
    path = check.build / "meson-test.out"
    with open(path, "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT,
                                   env={**os.environ, "TMPDIR": str(check.failed_texts)})
        try:
            process.wait(timeout=max(check.left() - CLIP_SECONDS, 0.1))
        except subprocess.TimeoutExpired:
            process.terminate()  # it ends its tests
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    ended = {}
    if (logs / "testlog.json").is_file():
        for text in open(logs / "testlog.json", encoding="utf-8", errors="replace"):
            try:
                test = json.loads(text)
            except ValueError:
                continue  # the last line of a process that was killed
            ended[plain_name(test["name"])] = (test["result"], test["duration"])
        check.keep(logs / "testlog.txt", "tests.log")
    else:
        check.keep(path, "tests.log")
    return ended


def tests(check):
    if check.compile() != 0:
        return
    listed = subprocess.run(["meson", "introspect", str(check.build), "--tests"], stdout=subprocess.PIPE, check=True)
    names = {plain_name(test["name"]) for test in json.loads(listed.stdout)}
    begun = time.monotonic()
    ended = meson_test(check)
    seconds = time.monotonic() - begun
    for name, (result, took) in sorted(ended.items(), key=lambda test: -test[1][1]):
        if result in ("OK", "SKIP"):
            check.line(f"{result.lower():<12} {took:6.1f} s  {name}", shown=False)
        elif result != "INTERRUPT":
            check.line(f"{'FAILED':<12} {took:6.1f} s  {name}  {result}", True)
    for name in sorted(names):
        if ended.get(name, ("INTERRUPT", 0))[0] == "INTERRUPT":
            check.line(f"{'NOT REACHED':<12} {ended.get(name, ('', 0.0))[1]:6.1f} s  {name}", True)
    # Counts, and whether the reasons of skips hold here.
    if ended:
        counted = subprocess.run([sys.executable, str(ROOT / "tests/summary.py"), str(check.build)],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check.line(counted.stdout.rstrip())
        check.ended("tests", counted.returncode, seconds)
    clip_gpt2(check)


def clip_gpt2(check):
    """`ptxgen clip` of a model's gradients, all at once and in windows of device memory."""
    device = os.environ.get("GPU_CHECK_DEVICE", "0")
    made, clipped = str(check.build / "gpt2.in.safetensors"), str(check.build / "gpt2.out.safetensors")
    tool, compare = str(check.build / "tools/ptxgen"), str(check.build / "tests/tools/compare_clip")
    shape = os.environ.get("GPU_CHECK_MODEL", "12 768 50257 1024").split()
    steps = [[str(check.build / "tests/tools/make_gradients"), "gpt2", *shape, made]]
    for memory in ("8G", "64M"):
        steps += [[tool, "clip", made, "--max-norm", "1", "--device", device, "--memory", memory, "--output",
                   clipped], [compare, made, clipped, "1"]]
    status, total = None, 0.0
    with open(check.output / "build.log", "ab") as log:
        for step in steps:
            status, seconds = check.run(step, log) if check.left() > 1 else (None, 0.0)
            total += seconds
            if status != 0:
                break
    check.ended("clip gpt2", status, total)
    for path in (made, clipped):
        pathlib.Path(path).unlink(missing_ok=True)


# ---- compute-sanitizer --------------------------------------------------------------------------

TOOLS = ("racecheck", "memcheck", "initcheck", "synccheck")
# Test programs and the tools that they run under: each kernel in every type, with each value of each
# option; plans and operations in every form. Each row of a program is a step of its own.
KERNELS = "kernels/test_kernels_gpu"
PROGRAMS = {KERNELS: TOOLS, "plans/test_step_plan": TOOLS, "plans/test_clip_plan": TOOLS,
            **{f"plans/test_{name}": TOOLS[:2] for name in (
                "step_stages", "plan_scalars", "clip_pack", "clip_windows", "clip_guards", "clip_reports", "step_guards",
                "step_copies", "step_reports", "step_accumulate", "step_parts", "step_rules", "step_sums", "operations",
                "operation_learned", "operation_observer")}}
# Rows that need more elements than these steps have.
LARGE_ROWS = {"test_large_sets", "test_long_chunks"}
# The longest steps, first those that are longest.
LONGEST = ("test_shards", "test_wild", "test_random_sets", "test_each", "test_very_many", "lerp_backward",
           "gradient_clip", "test_random_pipelines", "fake_quantize", "quantize_learned", "test_results",
           "test_quantize", "test_fake_quantize", "test_packed_sets", "quantize", "loss_scale", "moving")


def rows_of(check, program):
    """Patterns of PTXGEN_TEST_FILTER, each of one row of a test program or of few."""
    if program != KERNELS:
        source = (ROOT / "tests" / f"{program}.c").read_text()
        return [row for row in re.findall(r"^TEST(?:_WITH)?\((\w+)", source, re.M)
                if row not in LARGE_ROWS]
    listed = subprocess.run([str(check.build / "tools/ptxgen"), "list", "--json"], stdout=subprocess.PIPE, check=True)
    rows = [f"*{kernel['name']} {dtype}*" for kernel in json.loads(listed.stdout)
            if kernel["kind"] == "kernel" for dtype in kernel["dtypes"]]
    return [*rows, "C-CLIP-001*"]


def sanitizer_steps(check):
    steps = [(tool, program, row) for program, tools in PROGRAMS.items() for row in rows_of(check, program)
             for tool in tools]

    def rank(step):
        return next((k for k, name in enumerate(LONGEST) if name in step[2]), len(LONGEST))

    return sorted(steps, key=lambda step: (rank(step), TOOLS.index(step[0])))


def sanitize(check, step):
    """Runs a step; returns its output, for the log."""
    tool, program, row = step
    path = check.build / f"sanitizer-{threading.get_ident()}.out"
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", str(check.build / "tests" / program)]
    with open(path, "wb") as log:
        status, seconds = check.run(command, log, PTXGEN_TEST_FILTER=row, PTXGEN_TEST_MAX_SIZE="5000",
                                    PTXGEN_TEST_LARGE="0", PTXGEN_TEST_VARIANTS="0",
                                    PTXGEN_TEST_BUFFERS="own")
    text = path.read_text(errors="replace")
    path.unlink()
    name = f"{tool} {program} '{row}'"
    summaries = re.findall(r"(?m)^.*(?:SUMMARY|not supported).*$", text)
    if status == 0 and not re.search(r"Running [1-9]\d* test", text):
        status, summaries = 3, ["no test has this name"]
    elif status == 0 and not re.search(r"\[       OK \]", text):
        status, summaries = 3, ["every test skipped itself"]
    check.ended(name, status, seconds, summaries[-1].strip("= ") if summaries else "", shown=False)
    return f"\n$ {name}\n{text}"


def sanitizers(check):
    programs = [f"tests/{program}" for program in PROGRAMS]
    if check.compile("tools/ptxgen", *programs) != 0:
        return
    if not shutil.which("compute-sanitizer"):
        check.line("FAILED: no compute-sanitizer", True)
        return
    steps = sanitizer_steps(check)
    count = len(steps)
    begun = time.monotonic()
    path = check.build / "sanitizers.log"
    with open(path, "w", encoding="utf-8") as log:
        def work():
            while True:
                with check.lock:
                    if not steps or check.left() <= 0:
                        return
                    step = steps.pop(0)
                try:
                    text = sanitize(check, step)
                except Exception as error:
                    check.line(f"FAILED: {step}: {error}", True)
                    continue
                with check.lock:
                    log.write(text)

        threads = [threading.Thread(target=work) for _ in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check.keep(path, "sanitizers.log")
    for tool, program, row in steps:
        check.line(f"{'NOT REACHED':<12} {0:6.1f} s  {tool} {program} '{row}'", True)
    check.line(f"{count - len(steps)} of {count} steps begun, in {time.monotonic() - begun:.0f} s")


def main():
    calls = {"tests": tests, "sanitizers": sanitizers}
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in calls:
        print("usage: bench/gpu_check.sh tests|sanitizers OUTPUT [BUILD]", file=sys.stderr)
        return 2
    check = Check(sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else "build-gpu")
    calls[sys.argv[1]](check)
    return check.close()


if __name__ == "__main__":
    sys.exit(main())

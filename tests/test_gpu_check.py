# SPDX-License-Identifier: MIT
"""bench/gpu_check.py on stand-ins of Meson, ninja and compute-sanitizer: what it runs, and what it says
of steps that fail, or are not reached in time.

    test_gpu_check.py SOURCE
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])

# The sanitizer writes what it runs to $RAN. Rows are slow where $SLOW is in their name, and fail or are
# empty where $WRONG is.
STAND_INS = {
    "ninja": "exit 0",
    "meson": """
        case $1 in
        introspect) echo '[{"name": "good"}, {"name": "bad"}, {"name": "late"}, {"name": "never"}]' ;;
        test)
            mkdir -p "$3/meson-logs"
            for line in '"gpu - ptxgen:good", "result": "OK"' '"ptxgen:gpu / bad", "result": "FAIL"'; do
                echo "{\\"name\\": $line, \\"duration\\": 1.5, \\"stdout\\": \\"\\"}"
            done >"$3/meson-logs/testlog.json"
            trap 'echo "{\\"name\\": \\"ptxgen / late\\", \\"result\\": \\"INTERRUPT\\", \\"duration\\": 2}" \
                >>"$3/meson-logs/testlog.json"; kill $!; exit 1' TERM
            sleep 600 &
            wait ;;
        esac""",
    "compute-sanitizer": """
        echo "$2 $(basename "$5") $PTXGEN_TEST_FILTER $PTXGEN_TEST_VARIANTS" >>"$RAN"
        case $PTXGEN_TEST_FILTER in
        $SLOW) sleep 600 ;;
        $WRONG) [ "$2" = racecheck ] && exit 9; [ "$2" = memcheck ] && exit 0 ;;
        esac
        echo "[==========] Running 1 test(s)."
        [ "$PTXGEN_TEST_FILTER" = "$SKIPS" ] || echo "[       OK ] $PTXGEN_TEST_FILTER"
        echo "========= ERROR SUMMARY: 0 errors" """,
}
KERNELS = [("squared_sum", "f16"), ("squared_sum", "f32"), ("lerp_backward", "f64")]


def call(folder, kind, seconds, **environment):
    """Runs a call. Returns its exit status, its summary and the steps that ran."""
    output, ran = folder / "output", folder / "ran"
    ran.write_text("")
    done = subprocess.run(
        [sys.executable, str(SOURCE / "bench/gpu_check.py"), kind, str(output), str(folder / "build")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
        env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "RAN": str(ran), "SLOW": "-", "WRONG": "-",
             "SKIPS": "-", "GPU_CHECK_SECONDS": str(seconds), **environment})
    files = {path.name for path in output.iterdir()}
    assert {"summary.txt", "build.log"} <= files and len(files) <= 8, files
    return done.returncode, (output / "summary.txt").read_text(), ran.read_text().splitlines()


def check_sanitizers(folder):
    status, summary, ran = call(folder, "sanitizers", 60)
    assert status == 0 and "NOT" not in summary and "FAILED" not in summary, summary
    assert len(ran) == len(set(ran)) == len(re.findall(r"(?m)^ok +\d.*'", summary)), summary
    for tool in ("racecheck", "memcheck"):
        for kernel, dtype in KERNELS:
            assert f"{tool} test_kernels_gpu *{kernel} {dtype}* 0" in ran, ran
        for test in ("test_each", "test_unusual_blocks"):
            assert f"{tool} test_step_plan {test} 0" in ran, ran
    assert not any("*step f32*" in step for step in ran), ran  # a plan is no kernel
    assert "test_shards" in ran[0], ran[0]  # the longest

    status, summary, _ = call(folder, "sanitizers", 60, WRONG="test_shards")
    assert status == 1, summary
    assert re.search(r"(?m)^FAILED \(9\) .* racecheck plans/test_step_plan 'test_shards'", summary), summary
    assert re.search(r"(?m)^FAILED \(3\) .* memcheck .* 'test_shards'  no test has this name", summary), summary

    status, summary, _ = call(folder, "sanitizers", 60, SKIPS="test_each")
    assert status == 1, summary
    assert re.search(r"(?m)^FAILED \(3\) .* racecheck .* 'test_each'  every test skipped itself", summary), summary

    status, summary, ran = call(folder, "sanitizers", 12, SLOW="test_*")
    assert status == 1, summary
    late = re.findall(r"(?m)^OUT OF TIME .*'", summary)
    assert len(late) == len(ran) == (os.cpu_count() or 1), summary
    assert re.search(r"(?m)^NOT REACHED .* racecheck kernels/test_kernels_gpu '\*squared_sum f16\*'", summary), summary


def check_tests(folder):
    status, summary, _ = call(folder, "tests", 57)  # 45 s are kept for the step after the tests
    assert status == 1, summary
    for line in (r"ok +1\.5 s  good", r"FAILED +1\.5 s  bad  FAIL", r"NOT REACHED +2\.0 s  late",
                 r"NOT REACHED +0\.0 s  never", r"ok .* clip gpt2"):
        assert re.search(f"(?m)^{line}$", summary), (line, summary)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        programs = {**{f"bin/{name}": text for name, text in STAND_INS.items()},
                    "build/tests/tools/make_gradients": "exit 0", "build/tests/tools/compare_clip": "exit 0",
                    "build/tools/ptxgen": "[ $1 = clip ] || echo '" + json.dumps(
                        [{"name": kernel, "kind": "kernel", "dtypes": [dtype]} for kernel, dtype in KERNELS]
                        + [{"name": "step", "kind": "plan", "dtypes": ["f32"]}]) + "'"}
        for path, text in programs.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(f"#!/bin/sh\n{text}\n")
            (folder / path).chmod(0o755)
        (folder / "build/build.ninja").write_text("")
        check_sanitizers(folder)
        check_tests(folder)


main()

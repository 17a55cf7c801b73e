#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the last `meson test` of a build folder came to:

    tests/summary.py BUILD              what they came to
    tests/summary.py BUILD --rest LOG   what another machine did not run

Each reason for a skip with the number of tests it left out, then "N passed, N failed, N skipped". A
skip inside a test that passes counts as a skip too. A skip whose reason does not hold on this machine,
or that names none, counts as a failure. Exit status 1 if anything failed or nothing passed.

LOG is the testlog.json of another machine, or of another environment. --rest prints the names of the
tests of BUILD that are not in it, and of those that left out something for a reason that does not
hold here.

A reason is a line "SKIPPED: reason" or "SKIPPED, part: reason" of a test, "# SKIP reason" in TAP, or, in the
words of PROOFS, the last line of a program with status 77.
"""

import ctypes
import errno
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile


def output_of(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def gpu(environment):
    """Whether a test with this environment could see a GPU."""
    if environment.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return bool(glob.glob("/dev/nvidia[0-9]*")) or output_of("nvidia-smi", "-L") is not None


def ptxas(environment):
    home = environment.get("CUDA_HOME")
    folders = environment.get("PATH", "").split(":") + [f"{home}/bin"] * bool(home) + ["/usr/local/cuda/bin"]
    return any(folder and os.access(f"{folder}/ptxas", os.X_OK) for folder in folders)


def nccl(environment):
    try:
        ctypes.CDLL(environment.get("PTXGEN_NCCL") or "libnccl.so.2")
    except OSError:
        return False
    return True


def on_emulator(environment):
    return "emulator" in environment.get("PTXGEN_LIBCUDA", "")


def knows(ptxas_path, target):
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as text:
        text.write(f".version 9.0\n.target {target}\n.address_size 64\n")
        text.flush()
        done = subprocess.run([ptxas_path, f"-arch={target}", "-o", os.devnull, text.name],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "is not defined for option" not in done.stdout


def cuda_header():
    folders = ("/usr/local/cuda/include", "/opt/cuda/include", "/usr/include")
    for folder in folders:
        try:
            with open(f"{folder}/cuda.h", encoding="utf-8", errors="replace") as file:
                found = re.search(r"#define CUDA_VERSION (\d+)", file.read())
        except OSError:
            continue
        if found and int(found[1]) >= 12040:
            return True
    return False


def access_lists(path):
    """Whether the file system of a file that may be gone takes access control lists."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".") as file:
        try:
            os.setxattr(file.name, "system.posix_acl_access", b"")
        except OSError as error:
            return error.errno != errno.EOPNOTSUPP
    return True


def others_run(path):
    """Whether another user than root can run a file."""
    try:
        return subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                               "test", "-x", path], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def locale_there(name):
    """Whether a locale is installed, or localedef can make it."""
    if re.search(rf"(?mi)^{name}\.utf-?8$", output_of("locale", "-a") or ""):
        return True
    with tempfile.TemporaryDirectory() as folder:
        return output_of("localedef", "-i", name, "-f", "UTF-8", f"{folder}/{name}.UTF-8") is not None


# The words of a reason, and a function of the match and the test's environment: true if the reason
# is valid. The first match decides.
PROOFS = (
    (r"left out by (PTXGEN_TEST_\w+)", lambda found, env: found[1] in env),
    (r"too slow on the emulator|does not run on the emulator", lambda _, env: on_emulator(env)),
    (r"([\d.]+) GB free, ([\d.]+) GB wanted", lambda found, _: float(found[1]) < float(found[2])),
    (r" is sm_(\d+), and sm_(\d+) is wanted", lambda found, _: int(found[1]) < int(found[2])),
    (r"driver (\d+) is older than (\d+)", lambda found, _: int(found[1]) < int(found[2])),
    (r"(sm_\w+): unknown to (\S+)", lambda found, _: not knows(found[2], found[1])),
    (r"no ptxas", lambda _, env: not ptxas(env)),
    (r"there is a ptxas in (\S+)", lambda found, _: os.access(f"{found[1]}/ptxas", os.X_OK)),
    (r"there is a GPU", lambda _, env: gpu(env)),
    (r"fewer GPUs than ranks(?:: (\d+) wanted)?", lambda found, _: (
        (output_of("nvidia-smi", "-L") or "").count("GPU ") < int(found[1] or 2))),
    (r"no NCCL", lambda _, env: not nccl(env)),
    (r"no GPU|no usable libcuda|the driver sees no GPU", lambda _, env: not gpu(env) and not on_emulator(env)),
    (r"no cuda\.h", lambda *_: not cuda_header()),
    (r"no (pytest|numpy|torch[\w.]*|flashoptim[\w.]*) for ([^\s:]+)", lambda found, _: shutil.which(found[2]) and output_of(
        found[2], "-c", f"import pkgutil; pkgutil.resolve_name('{found[1]}')") is None),
    (r"no functions to look at tensors in torch", lambda _, env: output_of(
        env.get("PTXGEN_TORCH_PYTHON") or "python3", "-c",
        "import ctypes, torch; ctypes.CDLL(torch._C.__file__).aoti_torch_get_layout") is None),
    (r"torch\.compile does not run with ([^\s:]+)", lambda found, _: output_of(
        found[1], "-c", "import torch; torch.compile(lambda: None, backend='eager')()") is None),
    (r"no locale of ([\w ]+)", lambda found, _: not any(map(locale_there, found[1].split()))),
    (r"no access control lists on the file system of (\S+)", lambda found, _: not access_lists(found[1])),
    (r"no script\(1\)", lambda *_: output_of("script", "-qec", "true", "/dev/null") is None),
    (r"not root", lambda *_: os.geteuid() != 0),
    (r"no other user can run (\S+)", lambda found, _: os.geteuid() == 0 and not others_run(found[1])),
    (r"no /dev/full", lambda *_: not os.access("/dev/full", os.W_OK)),
    (r"this zsh has no zpty", lambda *_: output_of("zsh", "-fc", "zmodload zsh/zpty") is None),
    (r"no g\+\+ or clang\+\+", lambda *_: not shutil.which("g++") and not shutil.which("clang++")),
    (r"no (bash|jq|mkfifo|nm|objdump|pkg-config|readelf|ps|zsh)\b", lambda found, _: not shutil.which(found[1])),
)


def proof_of(reason):
    """What was found of the reason's words, and its proof."""
    return next(((found, proof) for words, proof in PROOFS if (found := re.search(words, reason))), None)


def holds(reason, environment):
    known = proof_of(reason)
    return known is not None and bool(known[1](known[0], environment))


def reasons_of(test):
    """The reasons for what a test left out; an empty one for each skip that names none."""
    output = f"{test.get('stdout') or ''}\n{test.get('stderr') or ''}"
    if test["result"] == "SKIP":
        said = [line for line in output.splitlines() if re.search(r"(?i)\bskipped[,:] ", line) or proof_of(line)]
        return said[-1:] or [""]
    reasons = re.findall(r"(?m)^SKIPPED[,:] (.*)$", output)
    in_cmocka = sum(map(int, re.findall(r"\[  SKIPPED \] (\d+) test\(s\)", output)))
    reasons += [""] * (in_cmocka - len(reasons))
    return reasons + re.findall(r"(?mi)^ok .*# SKIP\b *(.*)$", output)


def tests_of(log):
    with open(log, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def name_of(test):
    return re.sub(r"^.*? [/-] |^[\w-]+:", "", test["name"])


def rest(build, log):
    """The names of a build's tests that a log lacks, or that left out something that can be run here."""
    done = {name_of(test) for test in tests_of(log)
            if all(holds(reason, {**(test.get("env") or {}), **os.environ}) for reason in reasons_of(test))}
    with open(os.path.join(build, "meson-info", "intro-tests.json"), encoding="utf-8") as file:
        return [test["name"] for test in json.load(file) if test["name"] not in done]


def main():
    if sys.argv[2:3] == ["--rest"]:
        for name in rest(sys.argv[1], sys.argv[3]):
            print(name)
        return 0
    tests = tests_of(os.path.join(sys.argv[1], "meson-logs", "testlog.json"))
    passed = failed = skipped = 0
    left_out = {}
    for test in tests:
        name = name_of(test)
        if test["result"] in ("OK", "EXPECTEDFAIL"):
            passed += 1
        elif test["result"] != "SKIP":
            failed += 1
            print(f"FAILED: {name}")
        for reason in reasons_of(test):
            if not holds(reason, test.get("env") or {}):
                failed += 1
                print(f"FAILED: {name}: skipped without a reason that holds here: {reason}")
                continue
            skipped += 1
            kind = re.sub(r"^.*\b(?:skipped[,:]|(?=no GPU, not run)) *|;? what was tried:.*", "", reason, flags=re.I)
            left_out.setdefault(kind, []).append(name)
    for reason, names in sorted(left_out.items()):
        print(f"skipped: {names[0]}" + f" and {len(names) - 1} more" * (len(names) > 1) + f": {reason}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

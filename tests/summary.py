#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the last `meson test` of a build folder came to:

    tests/summary.py BUILD

Each reason for a skip with the number of tests it left out, then "N passed, N failed, N skipped". A
skip inside a test that passes counts as a skip too. A skip whose reason does not hold on this machine,
or that names none, counts as a failure. Exit status 1 if anything failed or nothing passed.
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
    folders = environment.get("PATH", "").split(":") + ["/usr/local/cuda/bin", "/opt/cuda/bin"]
    named = [environment.get("PTXAS")] + [os.path.join(folder, "ptxas") for folder in folders]
    return any(path and os.access(path, os.X_OK) for path in named)


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


# The words of a reason, and a function of the match and the test's environment: true if the reason
# is valid. The first match decides.
PROOFS = (
    (r"left out by (PTXGEN_TEST_\w+)", lambda found, env: found[1] in env),
    (r"too slow on the emulator|NCCL does not run on the emulator", lambda _, env: on_emulator(env)),
    (r"([\d.]+) GB free, ([\d.]+) GB wanted", lambda found, _: float(found[1]) < float(found[2])),
    (r"driver (\d+) is older than (\d+)", lambda found, _: int(found[1]) < int(found[2])),
    (r"(sm_\w+): unknown to (\S+)", lambda found, _: not knows(found[2], found[1])),
    (r"no ptxas", lambda _, env: not ptxas(env)),
    (r"there is a ptxas in (\S+)", lambda found, _: os.access(f"{found[1]}/ptxas", os.X_OK)),
    (r"there is a GPU", lambda _, env: gpu(env)),
    (r"fewer GPUs than ranks(?:: (\d+) wanted)?", lambda found, _: (
        (output_of("nvidia-smi", "-L") or "").count("GPU ") < int(found[1] or 2))),
    (r"no NCCL", lambda _, env: not nccl(env)),
    (r"no GPU|no such device|no usable libcuda|the driver sees no GPU", lambda _, env: not gpu(env)),
    (r"no cuda\.h", lambda *_: not cuda_header()),
    (r"no (pytest|torch[\w.]*) for (\S+)", lambda found, _: output_of(
        found[2], "-c", f"import pkgutil; pkgutil.resolve_name('{found[1]}')") is None),
    (r"torch\.compile does not run with ([^\s:]+)", lambda found, _: output_of(
        found[1], "-c", "import torch; torch.compile(lambda: None, backend='eager')()") is None),
    (r"no localedef", lambda *_: not shutil.which("localedef")),
    (r"no access control lists on the file system of (\S+)", lambda found, _: not access_lists(found[1])),
    (r"no script\(1\)", lambda *_: output_of("script", "-qec", "true", "/dev/null") is None),
    (r"not root", lambda *_: os.geteuid() != 0),
    (r"no other user can run (\S+)", lambda found, _: os.geteuid() == 0 and not others_run(found[1])),
    (r"no /dev/full", lambda *_: not os.access("/dev/full", os.W_OK)),
    (r"this zsh has no zpty", lambda *_: output_of("zsh", "-fc", "zmodload zsh/zpty") is None),
    (r"no (bash|jq|mkfifo|nm|pkg-config|readelf|ps|zsh)\b", lambda found, _: not shutil.which(found[1])),
)


def holds(reason, environment):
    for words, proof in PROOFS:
        found = re.search(words, reason)
        if found:
            return bool(proof(found, environment))
    return False


def reasons_of(test):
    """The reasons for what a test left out; an empty one for each skip that names none."""
    output = f"{test.get('stdout') or ''}\n{test.get('stderr') or ''}"
    if test["result"] == "SKIP":
        said = re.findall(r"(?im)^.*(?:skipped|no GPU|not run).*$", output)
        return said[-1:] or [""]
    reasons = re.findall(r"(?m)^SKIPPED[,:] (.*)$", output)
    in_cmocka = sum(map(int, re.findall(r"\[  SKIPPED \] (\d+) test\(s\)", output)))
    reasons += [""] * (in_cmocka - len(reasons))
    return reasons + re.findall(r"(?mi)^ok .*# SKIP\b *(.*)$", output)


def main():
    path = os.path.join(sys.argv[1], "meson-logs", "testlog.json")
    with open(path, encoding="utf-8") as file:
        tests = [json.loads(line) for line in file]
    passed = failed = skipped = 0
    left_out = {}
    for test in tests:
        name = re.sub(r"^.*? [/-] |^[\w-]+:", "", test["name"])
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

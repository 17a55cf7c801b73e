#!/bin/sh
# SPDX-License-Identifier: MIT
# An unmodified host program on the emulator, found through LD_LIBRARY_PATH; and that
# docs/ci.md quotes that program. With FAULTS, which makes an allocation fail in each of its runs, every
# report gives a reason.
#     host.sh PROGRAM FOLDER_OF_LIBCUDA DOCUMENT SOURCE [FAULTS]
set -u
program=$1 folder=$2 document=$3 source=$4 faults=${5-}
failed=0

fail() {
    echo "host.sh: $*" >&2
    failed=1
}

# run WANTED_STATUS WANTED_OUTPUT [NAME=VALUE...]
run() {
    wanted=$1 words=$2
    shift 2
    output=$(env LD_LIBRARY_PATH="$folder" "$@" "$program" 2>&1)
    status=$?
    [ "$status" -eq "$wanted" ] || fail "$*: status $status: $output"
    case $output in
    *"$words"*) ;;
    *) fail "$*: '$words' is not in: $output" ;;
    esac
}

run 0 '2 4 6 8 10 12 14 16'
for seed in 1 2 3; do
    run 0 '2 4 6 8 10 12 14 16' PTXGEN_EMU_SEED=$seed
done
run 0 '2 4 6 8 10 12 14 16' PTXGEN_EMU_SANITIZE=0 PTXGEN_EMU_DEVICE=sm_70 PTXGEN_EMU_DRIVER=11000
run 1 CUDA_ERROR_NO_DEVICE PTXGEN_EMU_FAIL=cuInit:100
run 1 CUDA_ERROR_OUT_OF_MEMORY PTXGEN_EMU_FAIL=cuMemAlloc:2@1
run 1 CUDA_ERROR_OUT_OF_MEMORY PTXGEN_EMU_MEMORY=1
run 1 'PTXGEN_EMU_DEVICE' PTXGEN_EMU_DEVICE=nonsense

if [ -n "$faults" ]; then
    log=$(mktemp) || exit 1
    trap 'rm -f "$log" "$log.count"' EXIT
    # failing NUMBER [NAME=VALUE...]: its output without a kernel's is not of interest
    failing() {
        env LD_LIBRARY_PATH="$folder" PTXGEN_EMU_THREADS=1 PTXGEN_EMU_LOG="$log" LD_PRELOAD="$faults" \
            FAULT_ALLOCATION="$@" "$program" >/dev/null 2>&1
    }
    failing 0 FAULT_COUNT="$log.count" || fail "does not run with $faults"
    number=$(cat "$log.count")
    while [ "$number" -gt 0 ]; do
        failing "$number"
        number=$((number - 1))
    done
    grep -q 'out of host memory' "$log" || fail "no report of an allocation that failed: $(cat "$log")"
    ! grep -nE '^ptxgen emulator: *(;|$)' "$log" >&2 || fail 'reports without a reason'
fi

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$document" | diff - "$source" ||
    fail "$document does not quote $source"
exit $failed

#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs all checks that need a GPU within nine minutes: builds, runs the whole test suite, runs the
# kernels, plans and operations under compute-sanitizer, and runs `ptxgen run` and `ptxgen clip`
# from file to file. Needs no network.
#
#     bench/gpu_check.sh OUTPUT [BUILD]
#
# Logs go to the folder OUTPUT; the table at the end of summary.txt has the result of each step. BUILD
# is the Meson build folder, created if it does not exist (default: build-gpu).
#
# For PTXGEN_DEPENDENCIES see dependencies.sh.
set -u

if [ $# -lt 1 ]; then
    echo 'usage: bench/gpu_check.sh OUTPUT [BUILD]' >&2
    exit 2
fi
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" || exit 1
output=$(cd "$1" && pwd)
mkdir -p "${2:-build-gpu}" || exit 1
build=$(cd "${2:-build-gpu}" && pwd)
deadline=$(($(date +%s) + 525))

# Texts of failing kernels; collected in one file at the end.
mkdir -p "$build/failed"
rm -f "$build"/failed/*
TMPDIR=$build/failed
export TMPDIR

# shellcheck source=bench/dependencies.sh
. "$source/bench/dependencies.sh"

summary=$output/summary.txt
: >"$summary"
failures=0

# limited SECONDS COMMAND...: limited to SECONDS and to the remaining time
limited() {
    limit=$1
    shift
    left=$((deadline - $(date +%s)))
    [ "$left" -gt 1 ] || left=1
    [ "$limit" -lt "$left" ] || limit=$left
    timeout -k 5 "$limit" "$@"
}

# ended NAME STATUS SECONDS NOTE: writes a line of the table
ended() {
    case $2 in
    0) word=ok ;;
    77) word=skipped ;;
    124 | 137) word='out of time' ;;
    *) word="FAILED ($2)" ;;
    esac
    case $2 in 0 | 77) ;; *) failures=$((failures + 1)) ;; esac
    printf '%-12s %-14s %4s s  %s\n' "$1" "$word" "$3" "$4" | tee -a "$summary"
}

# step NAME LOG SECONDS COMMAND...: runs the command and appends its output to the log
step() {
    name=$1
    log=$output/$2
    allowed=$3
    shift 3
    begun=$(date +%s)
    printf '\n$ %s\n' "$*" >>"$log"
    limited "$allowed" "$@" >>"$log" 2>&1
    status=$?
    ended "$name" $status $(($(date +%s) - begun)) "$(grep -E "$counts" "$log" | tail -4 | tr -s ' \n' ' ')"
    return $status
}

counts='^(Ok|Fail|Skipped|Timeout):'

# ---- the machine, the build, the tests ----------------------------------------------------------

{
    uname -srm
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    for tool in meson ninja cc ptxas compute-sanitizer; do
        command -v $tool || echo "no $tool"
    done
    git -C "$source" log -1 --format=%h 2>/dev/null
} >"$output/build.log" 2>&1

[ -f "$build/build.ninja" ] ||
    step setup build.log 60 meson setup "$build" "$source" -Dtests=enabled -Dtools=enabled
if ! step build build.log 150 ninja -C "$build"; then
    tail -30 "$output/build.log"
    exit 1
fi
rm -f "$output/tests.log"
step tests tests.log 200 meson test -C "$build" --no-rebuild --no-suite gpu --print-errorlogs
step 'gpu tests' tests.log 240 meson test -C "$build" --no-rebuild --suite gpu --verbose

# ---- compute-sanitizer: small sizes, all at the same time ----------------------------------------

tools='memcheck racecheck initcheck synccheck'

# tests_under TOOL: the groups of kernels, and the paths in the folder of tests, that run under the
# tool. The kernels of `sums`, `quantizers`, `learned`, `casts` and `observers` use shared memory and
# barriers, the others do not.
tests_under() {
    echo sums quantizers learned casts observers plans/test_clip_plan plans/test_step_plan
    case $1 in memcheck | initcheck) echo clips channels fake delayed averages others ;; esac
    case $1 in memcheck | racecheck)
        echo plans/test_clip_pack plans/test_clip_windows
        echo plans/test_operations plans/test_operation_learned plans/test_operation_observer
        ;;
    esac
}

# sanitize TOOL TEST: runs in the background; writes status and duration to the build folder.
sanitize() {
    binary=kernels/test_kernels_gpu
    case $2 in
    sums) filter='C-*' ;;
    clips) filter='gradient_clip*' ;;
    quantizers) filter='quantize_ste*' ;;
    channels) filter='quantize_channel*' ;;
    learned) filter='quantize_learned*' ;;
    casts) filter='cast*' ;;
    observers) filter='observe*' ;;
    fake) filter='fake*' ;;
    delayed) filter='delayed*' ;;
    averages) filter='moving*' ;;
    others) filter='l*' ;;
    *) binary=$2 filter='*' ;;
    esac
    {
        begun=$(date +%s)
        status=0
        PTXGEN_TEST_FILTER=$filter PTXGEN_TEST_MAX_SIZE=5000 PTXGEN_TEST_LARGE=0 limited 260 \
            compute-sanitizer --tool "$1" --error-exitcode 9 \
            "$build/tests/$binary" >"$output/$1-${2##*/}.log" 2>&1 || status=$?
        echo $status $(($(date +%s) - begun)) >"$build/$1-${2##*/}.status"
    } &
}

if command -v compute-sanitizer >/dev/null; then
    for tool in $tools; do
        for test in $(tests_under "$tool"); do
            sanitize "$tool" "$test"
        done
    done
    wait
    for tool in $tools; do
        for test in $(tests_under "$tool"); do
            name=$tool-${test##*/}
            read -r status seconds <"$build/$name.status"
            ended "$tool" "$status" "$seconds" \
                "${test##*/} $(grep -E 'SUMMARY|not supported' "$output/$name.log" | tail -1)"
        done
    done
else
    for tool in $tools; do
        ended "$tool" 77 0 'no compute-sanitizer'
    done
fi

# ---- the command, from file to file -------------------------------------------------------------

rm -f "$output/run.log"
counts='^(ptxgen (run|clip):|kernels:|from file to file:|.* same bits$|SKIPPED)'
step run run.log 60 "$build/tests/tools/check_run" "$build/tools/ptxgen" "$build/failed" 0
rm -f "$output/clip.log"
step clip clip.log 60 "$build/tests/tools/check_clip" "$build/tools/ptxgen" "$build/failed" 0

# The gradients of GPT-2 small, all at once and in windows of device memory.
rm -f "$output/gpt2.log"
# shellcheck disable=SC2016 # the inner shell expands it
step 'clip gpt2' gpt2.log 60 sh -ec '
    build=$1 in=$1/gpt2.in.safetensors out=$1/gpt2.out.safetensors
    "$build/tools/make_gradients" gpt2 12 768 50257 1024 "$in"
    for memory in 8G 64M; do
        "$build/tools/ptxgen" clip "$in" --max-norm 1 --device 0 --memory $memory --output "$out"
        "$build/tests/tools/compare_clip" "$in" "$out" 1
    done
    rm "$in" "$out"' sh "$build"

for text in "$build"/failed/*.ptx; do
    [ -f "$text" ] && printf '// %s\n' "$text" && cat "$text"
done >"$output/failed.ptx"
[ -s "$output/failed.ptx" ] || rm "$output/failed.ptx"
echo
cat "$summary"
[ $failures -eq 0 ]

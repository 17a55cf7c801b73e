#!/bin/sh
# SPDX-License-Identifier: MIT
# test_quickstart.sh QUICKSTART BUILD: what tools/quickstart.sh says to a new user, and how it ends, with stand-ins for
# every program that it calls; and that BUILD, unless it has no command, has the targets that the script builds. CI
# runs the script itself in a bare root.
set -u
work=$(mktemp -d "${TMPDIR:-/tmp}/ptxgen-quickstart-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
mkdir -p "$work/bin" "$work/tools" "$work/tests" "$work/build/tools" "$work/build/tests/tools" "$work/build/meson-logs"
cp "$1" "$work/tools/quickstart.sh"
: >"$work/build/build.ninja"
real_sleep=$(command -v sleep)

# stand_in PATH: makes a program of the text on standard input.
stand_in() {
    { echo '#!/bin/sh' && cat; } >"$work/$1"
    chmod +x "$work/$1"
}

for program in cc ninja pkg-config build/tests/tools/make_gradients; do
    case $program in */*) ;; *) program=bin/$program ;; esac
    echo 'exit 0' | stand_in "$program"
done
# 15 seconds are 0.3 here.
echo "exec '$real_sleep' 0.3" | stand_in bin/sleep
stand_in bin/meson <<END
case \$1 in
--version) echo 1.0.1 ;;
compile) echo '[7/9] Compiling' && '$real_sleep' 1; exit \${COMPILES:-0} ;;
test) echo '{}' >"$work/build/meson-logs/testlog.json" && '$real_sleep' 1; exit 1 ;;
esac
END
stand_in build/tools/ptxgen <<'END'
case $1 in
devices)
    echo 'emulator: ptxgen emulator (sm_90)'
    [ -z "${GPU-}" ] && echo 'no GPU: no usable libcuda.so.1: cannot open shared object file' || echo "0: $GPU"
    ;;
check) echo 'ptxgen check: no ptxas in PATH' >&2 && exit 77 ;;
emit) mkdir -p "$(dirname "$0")/../ptx" && echo text >"$(dirname "$0")/../ptx/k.ptx" ;;
clip)
    case $* in *'--device emulator'*) on='the emulator (sm_90)' ;; *) on=$GPU ;; esac
    echo "2 tensors (F32), 9 elements, clipped on $on"
    echo 'all tensors    2    9    5.5    0.25'
    echo "kernels: 12.5 ms, 3.5 GB/s (9 bytes)"
    ;;
run) echo '1.5 ms, 2 GB/s' ;;
esac
END
# shellcheck disable=SC2016 # of the stand-in
echo 'echo "${COMPARED-5.5 0.25 same bits}"; exit ${DIFFERS:-0}' | stand_in build/tests/tools/compare_clip
echo 'echo "x [768, 768]  same bits"' | stand_in build/tests/tools/compare_run
echo 'print("1 passed, 0 failed, 2 skipped")' >"$work/tests/summary.py"

# quickstart STATUS [ARGUMENT]: its output goes to $work/out.
quickstart() {
    wanted=$1
    shift
    CC=$work/bin/cc PATH=$work/bin:$PATH sh "$work/tools/quickstart.sh" "$@" >"$work/out" 2>&1
    status=$?
    [ $status -eq "$wanted" ] || wrong "status $status, not $wanted: $(cat "$work/out")"
}

wrong() {
    echo "$*"
    failed=1
}

# says EXPRESSION, silent EXPRESSION: whether a line matches
says() {
    grep -qE -- "$1" "$work/out" || wrong "no line is like '$1' in: $(cat "$work/out")"
}
silent() {
    ! grep -E -- "$1" "$work/out" || wrong "that should not be said"
}
# before EXPRESSION EXPRESSION: the first lines of each come in this order.
before() {
    [ "$(grep -nE -m 1 -- "$1" "$work/out" | cut -d : -f 1)" -lt "$(grep -nE -m 1 -- "$2" "$work/out" | cut -d : -f 1)" ] ||
        wrong "'$1' does not come before '$2': $(cat "$work/out")"
}

if [ -e "$2/tools/ptxgen" ]; then
    needed=$(sed -n 's/^needed="\(.*\)"$/\1/p' "$1")
    [ "$needed" ] || wrong "$1 does not say what it builds"
    for target in $needed; do
        grep -q "\"name\": \"${target%:*}\"" "$2/meson-info/intro-targets.json" || wrong "no target $target"
    done
fi

quickstart 0
says '^quickstart: no GPU here: everything runs on the emulator$'
silent 'libcuda|cannot|rror'
says '^plain C +5.5 +0.25'
says '^the emulator \(sm_90\) +5.5 +0.25  same bits +12.5 ms of emulator time$'
before '^plain C ' '^the emulator '
before '^the emulator ' 'the kernels: ptxgen list'
says '^quickstart: no ptxas: the PTX was written, not assembled$'
says 'emulator time$'
says '^quickstart: building: [0-9]+ s, \[7/9\]$'

GPU='NVIDIA H200' quickstart 0
silent 'no GPU'
says '^NVIDIA H200 +5.5 +0.25  same bits +12.5 ms, 3.5 GB/s$'
before '^the emulator ' '^NVIDIA H200 '

DIFFERS=1 COMPARED='5.5 0.25 3 of 9 differ' quickstart 1
says 'not what the plain-C reference computes'
COMPARED='5.5 0.5 same bits' quickstart 1
says 'plain C has norm and factor 5.5 0.5'
COMPILES=1 quickstart 1
says '^quickstart: the build failed$'
quickstart 1 help
says 'usage'

quickstart 0 test
says '^quickstart: testing: [0-9]+ s, [01] are done; '
[ "$(tail -n 1 "$work/out")" = '1 passed, 0 failed, 2 skipped' ] || wrong "the last line is $(tail -n 1 "$work/out")"
exit $failed

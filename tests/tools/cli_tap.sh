# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# Shared by the tests of the ptxgen command: TAP, tensor files, a temporary folder. For a shell script
# with the arguments PTXGEN FAKE_LIBCUDA EMULATOR.

set -u
LC_ALL=C
export LC_ALL
sources=$(cd "$(dirname "$0")/../.." && pwd)
ptxgen=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
fake_libcuda=$2
emulator=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/ptxgen-cli-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work" || exit 1
number=0
failures=0

# ---- TAP ----------------------------------------------------------------------------------------

# result NAME: prints the TAP line for the command before it
result() {
    ended=$?
    number=$((number + 1))
    if [ $ended -eq 0 ]; then
        echo "ok $number - $1"
        return
    fi
    failures=$((failures + 1))
    echo "not ok $number - $1"
    for file in out err; do
        sed "s/^/# $file: /" $file | head -n 20
    done
}

skip() {
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

# run STATUS [ARGUMENT]...: true if ptxgen ends with STATUS; its output goes to the files out and
# err
run() {
    wanted=$1
    shift
    "$ptxgen" "$@" >out 2>err </dev/null
    got=$?
    [ $got -eq "$wanted" ] && return 0
    echo "status $got, not $wanted: ptxgen $*" >>err
    return 1
}

# works NAME WORDS [ARGUMENT]...: ptxgen ends with 0, prints WORDS and nothing on standard error
works() {
    name=$1
    words=$2
    shift 2
    run 0 "$@" && [ ! -s err ] && grep -qF -e "$words" out
    result "$name"
}

# refuses STATUS WORDS [ARGUMENT]...: ptxgen ends with STATUS and one line with WORDS on standard
# error
refuses() {
    status=$1
    words=$2
    shift 2
    run "$status" "$@" && [ "$(wc -l <err)" -eq 1 ] && grep -q '^ptxgen' err &&
        grep -qF -e "$words" err
    result "$status for: $*"
}

# ---- tensor files -------------------------------------------------------------------------------

# byte NUMBER: prints a byte
byte() {
    printf "\\$(printf %03o "$1")"
}

# tensors FILE DATA_BYTES HEADER: writes a safetensors file with zeros as data
tensors() {
    {
        byte $((${#3} % 256))
        byte $((${#3} / 256))
        head -c 6 /dev/zero
        printf %s "$3"
        head -c "$2" /dev/zero
    } >"$1"
}

# entry NAME DTYPE SHAPE BEGIN END: prints a tensor's entry in a header
entry() {
    printf '"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%s,%s]}' "$1" "$2" "$3" "$4" "$5"
}

# numbers FORMAT: prints the output file's data, without its header
numbers() {
    size=$(od -An -tu8 -N8 o.st | tr -d ' ')
    od -An -v -w512 -t "$1" -j $((size + 8)) o.st | tr -s ' '
}

# finish: ends the script
finish() {
    echo "1..$number"
    [ $failures -eq 0 ]
}

# Meson puts the folder of each library that a test depends on into the loader's path. The loader
# would then find the emulator as the driver of this machine.
LD_LIBRARY_PATH=$(printf '%s' "${LD_LIBRARY_PATH-}" | tr : '\n' |
    grep -vxF -e "$(dirname "$emulator")" | paste -sd : -)
export LD_LIBRARY_PATH
PTXGEN_LIBCUDA=/nonexistent/libcuda.so
PTXGEN_EMULATOR=/nonexistent/emulator.so
export PTXGEN_LIBCUDA PTXGEN_EMULATOR

#!/bin/sh
# SPDX-License-Identifier: MIT
# sh tools/quickstart.sh         installs what is missing, builds, clips the gradients of GPT-2 small on
#                                the emulator and on the GPU, if there is one, beside plain C, and runs
#                                each kernel
# sh tools/quickstart.sh test    installs what is missing, builds, runs the tests
#
# Installs only Debian or Ubuntu packages; on other systems it lists what is missing and stops.
# Writes only to build/.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build=$root/build
ptxgen=$build/tools/ptxgen

say() {
    printf '%s\n' "quickstart: $*"
}

die() {
    printf '%s\n' "quickstart: $*" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# ---- a line at least every 20 seconds ------------------------------------------------------------

# doing WORDS: what the next commands do.
doing() {
    printf '%s %s\n' "$(date +%s)" "$*" >"$scratch/doing.new"
    mv "$scratch/doing.new" "$scratch/doing" # whole, as say_often reads it at any time
}

# How far a build or the tests are, and the tests that run.
how_far() {
    [ ! -f "$scratch/build" ] || sed -n 's/^\(\[[0-9]*\/[0-9]*\]\).*/, \1/p' "$scratch/build" | tail -n 1
    [ -f "$scratch/tests" ] || return 0
    echo ", $(grep -c . "$build/meson-logs/testlog.json" 2>/dev/null || :) are done"
    # shellcheck disable=SC2013 # words
    for child in $(cat /proc/"$(cat "$scratch/tests")"/task/*/children 2>/dev/null); do
        tr '\0' '\n' <"/proc/$child/cmdline" | sed 's|.*/||' | head -n 2 | tr '\n' ' ' | sed 's/^/; /; s/ *$//'
    done
}

# Ends with the script, whatever ends it.
say_often() {
    while sleep 15 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        read -r begun what <"$scratch/doing"
        say "$what: $(($(date +%s) - begun)) s$(how_far 2>/dev/null | tr -d '\n')"
    done
}

# ---- what must be there --------------------------------------------------------------------------

c_compiler_works() {
    printf '#include <stdio.h>\nint main(void) { return 0; }\n' >"$scratch/try.c"
    for compiler in "${CC:-cc}" gcc clang; do
        # shellcheck disable=SC2086 # CC may hold arguments
        $compiler "$scratch/try.c" -o "$scratch/try" >/dev/null 2>&1 && return 0
    done
    return 1
}

c_library_there() {
    has pkg-config && pkg-config --exists "$1"
}

# The Debian packages that are missing.
missing() {
    c_compiler_works || echo gcc libc6-dev
    has meson || echo meson
    has ninja || has ninja-build || echo ninja-build
    has pkg-config || echo pkg-config
    c_library_there cmocka || echo libcmocka-dev
    c_library_there jansson || echo libjansson-dev
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

install_missing() {
    packages=$(missing | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    has apt-get || die "missing, by the names of their Debian packages: $packages
Needed: a C11 compiler, Meson 1.0 or newer, Ninja, pkg-config, cmocka and jansson with their headers.
On Fedora: dnf install gcc meson ninja-build pkgconf-pkg-config libcmocka-devel jansson-devel
On Arch:   pacman -S gcc meson ninja pkgconf cmocka jansson
On macOS there is no CUDA: nothing here would run."
    [ "$(id -u)" -eq 0 ] || has sudo || die "not root and no sudo; as root: apt-get install $packages"
    say "installing $packages"
    doing "installing packages"
    as_root apt-get -q update || die "apt-get update failed"
    # shellcheck disable=SC2086 # one argument a package
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y --no-install-recommends install $packages ||
        die "apt-get could not install $packages"
    packages=$(missing | tr '\n' ' ')
    [ -z "$packages" ] || die "installed, but still not found: $packages"
}

meson_new_enough() {
    version=$(meson --version)
    case $version in
    0.*) die "Meson $version is too old; 1.0 or newer is needed (Debian 12, Ubuntu 24.04)" ;;
    esac
}

# ---- the build -----------------------------------------------------------------------------------

# What `quickstart.sh` without `test` needs.
needed="ptxgen:executable cuda:shared_library compare_clip compare_run make_gradients saxpy"

# make_build TARGET...: without one, everything
make_build() {
    targets=$*
    set -- -Dtests=enabled -Dtools=enabled
    if [ -f "$build/build.ninja" ]; then
        set -- --reconfigure "$@"
    fi
    doing "configuring"
    if ! meson setup "$@" "$build" "$root" >"$scratch/setup" 2>&1; then
        cat "$scratch/setup"
        die "cannot configure $build; if it is of an old checkout, delete it"
    fi
    say "building in $build"
    doing "building"
    # shellcheck disable=SC2086 # one argument a target
    if ! meson compile -C "$build" $targets >"$scratch/build" 2>&1; then
        cat "$scratch/build"
        die "the build failed"
    fi
    rm "$scratch/build"
}

# ---- test ----------------------------------------------------------------------------------------

run_tests() {
    rm -f "$build/meson-logs/testlog.json"
    say "testing; what this machine lacks is skipped, and named at the end"
    doing "testing"
    # shellcheck disable=SC2016 # of the inner shell
    sh -c 'echo $$ >"$0" && exec "$@"' "$scratch/tests" \
        meson test -C "$build" --no-rebuild --print-errorlogs -t 10 || : # other programs may run beside them
    rm "$scratch/tests"
    doing "counting"
    status=0
    python3 "$root/tests/summary.py" "$build" >"$scratch/summary" || status=$?
    # Nothing comes after the last line.
    kill "$often" 2>/dev/null
    wait "$often" 2>/dev/null || :
    echo
    cat "$scratch/summary"
    return $status
}

# ---- the main job: the gradients of a model, clipped from file to file ---------------------------

# reported EXPRESSION: prints its match in the report of the last ptxgen clip
reported() {
    sed -n "s/$1/\1/p" "$scratch/report"
}

# clip_line ON NORM FACTOR RESULT TIME: a line of the table
clip_line() {
    printf '%-22.22s %11s %12s  %-10s  %s\n' "$@"
}

# show_clip DEVICE: prints a line of the table; before the emulator's, that of plain C. Norm, factor and every
# element must equal plain C.
show_clip() {
    "$ptxgen" clip "$folder/gradients.safetensors" --max-norm 1 --device "$1" \
        --output "$folder/clipped.safetensors" >"$scratch/report" || die "ptxgen clip did not run"
    status=0
    compared=$("$build/tests/tools/compare_clip" "$folder/gradients.safetensors" \
        "$folder/clipped.safetensors" 1) || status=$?
    norm=$(reported '^all tensors  *[0-9]*  *[0-9]*  *\([^ ]*\) .*')
    factor=$(reported '^all tensors .* \([^ ]*\)$')
    time=$(reported '^kernels: \([^ ]* ms\).*')
    case $1 in
    emulator) time="$time of emulator time" ;; # says nothing about a GPU
    *) time="$time, $(reported '^kernels: [^,]*, \([^ ]* [kMG]*B\/s\).*')" ;;
    esac
    # shellcheck disable=SC2086 # norm and factor
    [ "$1" != emulator ] || clip_line "plain C" ${compared%"${compared#* * }"} "" ""
    clip_line "$(reported '.*, clipped on \(.*\)$')" "$norm" "$factor" "${compared#* * }" "$time"
    [ "$status" -eq 0 ] || die "that is not what the plain-C reference computes"
    [ "${compared% same bits}" = "$norm $factor" ] || die "plain C has norm and factor $compared"
}

# clip_model GPUS: on the emulator, and on the GPU if there is one
clip_model() {
    folder=$build/run/gpt2
    mkdir -p "$folder"
    doing "clipping the gradients of GPT-2 small"
    say "the gradients of GPT-2 small, 148 tensors in bf16 and f32, clipped to the norm 1:"
    say "ptxgen clip gradients.safetensors --max-norm 1 --output clipped.safetensors"
    "$build/tests/tools/make_gradients" gpt2 12 768 50257 1024 "$folder/gradients.safetensors"
    clip_line on norm factor 'plain C' "the kernels' time"
    (
        unset PTXGEN_LIBCUDA
        show_clip emulator
    ) || exit 1
    [ "$1" -eq 0 ] || show_clip 0
}

# ---- the kernels one by one ----------------------------------------------------------------------

# Writes every kernel's PTX and checks that of one with ptxas, if installed: all variants take minutes.
write_kernels() {
    doing "writing the kernels"
    say "the kernels: ptxgen list"
    "$ptxgen" list
    say "their PTX: ptxgen emit --all -o build/ptx"
    "$ptxgen" emit --all -o "$build/ptx"
    say "$(cat "$build"/ptx/*.ptx | wc -l) lines in $(find "$build/ptx" -name '*.ptx' | grep -c .) files"
    doing "assembling a kernel with ptxas"
    say "NVIDIA's assembler on a kernel in each type and choice: ptxgen check squared_sum"
    status=0
    "$ptxgen" check squared_sum || status=$?
    case $status in
    0) ;;
    77) say "no ptxas: the PTX was written, not assembled" ;;
    *) exit "$status" ;;
    esac
}

# run_kernel KERNEL INPUT OUTPUT [--set ...]: one kernel from file to file.
run_kernel() {
    kernel=$1 input=$2 output=$3
    shift 3
    "$ptxgen" run "$kernel" --input "$input" --output "$output" "$@"
}

# show_kernel KERNEL INPUT OUTPUT [--set ...]: the same on the emulator, compared with the reference; prints a table line.
show_kernel() {
    kernel=$1 input=$2 output=$3
    shift 3
    "$ptxgen" run "$kernel" --device emulator --input "$input" --output "$output" "$@" \
        >"$scratch/report" || die "$kernel did not run"
    time=$(sed -n 's/^\([0-9.]* ms\).*/\1/p' "$scratch/report")
    status=0
    compared=$("$build/tests/tools/compare_run" "$kernel" "$input" "$output") || status=$?
    printf '%-32s %s  %15s\n' "$kernel" "$compared" "$time"
    [ "$status" -eq 0 ] || die "$kernel: that is not what the plain-C reference computes"
}

# kernels HOW FOLDER ROWS COLUMNS TITLE: all five by run_kernel or show_kernel, on tensors of one shape: sums of squares,
# norm and scale, a clipped gradient, and two gradients of simple layers.
kernels() {
    say "$5: gradients of shape [$3, $4]"
    doing "running the kernels"
    folder=$build/run/$2
    mkdir -p "$folder"
    "$build/tests/tools/make_gradients" "$3" "$4" "$folder/in.safetensors"
    [ "$1" = run_kernel ] || printf '%-32s %-22s %-9s  %15s\n' kernel reads reference 'emulator time'
    "$1" squared_sum "$folder/in.safetensors" "$folder/partials.safetensors"
    "$1" clip_scale_reduce "$folder/partials.safetensors" "$folder/out.safetensors" --set max_norm=1
    "$1" gradient_clip_from_device_scale "$folder/in.safetensors" "$folder/clipped.safetensors"
    "$1" quantize_ste_backward "$folder/in.safetensors" "$folder/quantized.safetensors" --set scale=0.03
    "$1" lerp_backward "$folder/in.safetensors" "$folder/lerp.safetensors" --set weight=0.25
}

run_on_gpu() {
    cat "$scratch/devices"
    clip_model 1
    write_kernels
    kernels run_kernel mlp 768 3072 "GPT-2 small, a feed-forward matrix"
    kernels run_kernel wte 50257 768 "GPT-2 small, the token embedding"
}

run_on_emulator() {
    say "no GPU here: everything runs on the emulator"
    say "It executes the PTX on the CPU. Every result is compared with plain C, bit for bit."
    clip_model 0
    write_kernels
    kernels show_kernel attn 768 768 "GPT-2 small, the projection of an attention layer"
    kernels show_kernel mlp 768 3072 "GPT-2 small, a feed-forward matrix"
}

say_next() {
    say "done: the PTX is in build/ptx, the tensors are in build/run"
    say "next: build/tools/ptxgen clip --help         gradients of your own, by groups, with a loss scale"
    say "      build/tools/ptxgen info squared_sum    what a kernel computes"
    say "      docs/plans.md                          the same within a training loop, or a CUDA graph"
    say "      docs/ci.md                             the emulator in your own tests"
    say "      examples/saxpy.c                       a kernel of your own; build/examples/saxpy runs it"
}

run_main() {
    status=0
    "$ptxgen" devices >"$scratch/devices" 2>"$scratch/reason" || status=$?
    case $status in
    0)
        if grep -q '^[0-9]' "$scratch/devices"; then
            run_on_gpu
        else
            run_on_emulator
        fi
        say_next
        ;;
    77)
        write_kernels
        say "done: the PTX is in build/ptx; no kernel was run: $(cat "$scratch/reason")"
        ;;
    *)
        cat "$scratch/reason" >&2
        exit "$status"
        ;;
    esac
}

# ---- the two commands ----------------------------------------------------------------------------

case ${1-run} in
run | test) [ $# -le 1 ] || die "usage: sh tools/quickstart.sh [test]" ;;
*) die "usage: sh tools/quickstart.sh [test]" ;;
esac

scratch=$(mktemp -d)
trap 'kill "$often" 2>/dev/null || :; rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
doing "looking for what is missing"
say_often &
often=$!

install_missing
meson_new_enough
if [ "${1-run}" = test ]; then
    make_build
    run_tests
else
    # shellcheck disable=SC2086 # one argument a target
    make_build $needed
    run_main
fi

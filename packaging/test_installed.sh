#!/bin/sh
# SPDX-License-Identifier: MIT
# test_installed.sh PREFIX: an installation as its users find it, on the emulator: the command, pkg-config, CMake with
# the installed examples, the man pages, completion. The tests of the packages. Where ptxgen.pc is found under PREFIX,
# pkg-config says where the rest is.
set -eu

prefix=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset PTXGEN_LIBCUDA PTXGEN_EMULATOR

fail() {
    echo "FAILED: $*"
    exit 1
}

quietly() {
    "$@" >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        fail "$*"
    }
}

for pc in "$prefix"/lib*/pkgconfig/ptxgen.pc "$prefix"/lib/*/pkgconfig/ptxgen.pc; do
    [ ! -f "$pc" ] || PKG_CONFIG_PATH=${pc%/*}
done
export PKG_CONFIG_PATH="${PKG_CONFIG_PATH-}"
libdir=$(pkg-config --variable=libdir ptxgen) || fail "pkg-config knows no ptxgen under $prefix"
[ "$(pkg-config --variable=prefix ptxgen)" = "$prefix" ] || fail "ptxgen.pc is of $libdir"

version=$("$prefix/bin/ptxgen" --version)
"$prefix/bin/ptxgen" devices --json >"$scratch/devices"
grep -q "\"$libdir/ptxgen/libcuda.so.1\"" "$scratch/devices" || fail "no emulator: $(cat "$scratch/devices")"

[ "ptxgen $(pkg-config --modversion ptxgen)" = "$version" ] || fail "ptxgen.pc is not of $version"
emulator=$(pkg-config --variable=emulator ptxgen)
[ -f "$emulator" ] || fail "ptxgen.pc: no emulator in $emulator"
examples=$prefix/share/doc/ptxgen/examples
# shellcheck disable=SC2046,SC2086 # a word for each flag; CC may hold arguments
quietly ${CC:-cc} "$examples/saxpy.c" "$examples/host.c" -o "$scratch/saxpy" \
    $(pkg-config --cflags --libs ptxgen) -lm
quietly env "PTXGEN_LIBCUDA=$emulator" "LD_LIBRARY_PATH=$libdir" "$scratch/saxpy"

quietly cmake -S "$examples" -B "$scratch/examples" "-DCMAKE_PREFIX_PATH=$prefix"
quietly cmake --build "$scratch/examples"
quietly ctest --test-dir "$scratch/examples" --output-on-failure --no-tests=error

for page in man1/ptxgen.1 man3/ptx_fma.3; do
    [ -s "$prefix/share/man/$page" ] || [ -s "$prefix/share/man/$page.gz" ] || fail "no $page"
done
[ -s "$prefix/share/bash-completion/completions/ptxgen" ] || fail "no completion for bash"
[ -s "$prefix/share/zsh/site-functions/_ptxgen" ] || [ -s "$prefix/share/zsh/vendor-completions/_ptxgen" ] ||
    fail "no completion for zsh"
echo "$version in $prefix: the command, pkg-config, CMake, the examples and the pages work"

#!/bin/sh
# SPDX-License-Identifier: MIT
# cross.sh SOURCE: builds for other targets, as docs/install.md says: 32 bits and libraries of another C library are
# refused at setup; 64-bit ARM, without assertions, which has more warnings than other builds with gcc, with and without
# a runner. Ends with 77 where there is no compiler for it.
set -eu

source=$(CDPATH='' cd -- "$1" && pwd)
# shellcheck source=tests/packages/common.sh
. "$source/tests/packages/common.sh"
files=$source/packaging/cross

# refused TEXT OPTION...: meson setup fails, and says the text.
refused() {
    text=$1
    shift
    ! meson setup "$@" "$scratch/refused" "$source" >"$scratch/log" 2>&1 || fail "accepted: $*"
    grep -qF -- "$text" "$scratch/log" || {
        tail -n 5 "$scratch/log"
        fail "the message is not: $text"
    }
    rm -rf "$scratch/refused"
}

cat >"$scratch/i686.ini" <<'END'
[binaries]
c = ['gcc', '-m32']
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
END
if [ "$(uname -m)" = x86_64 ]; then
    refused 'This one (x86, gcc -m32) has pointers of 32 bits' --cross-file "$scratch/i686.ini"
    echo "32 bits are refused"
fi

# A stand-in for glibc's jansson beside another C library: pkg-config knows it, and it has no header.
mkdir "$scratch/foreign"
printf '%s\n' 'Name: jansson' 'Description: of another C library' 'Version: 2.14' 'Libs: -ljansson_of_another' \
    >"$scratch/foreign/jansson.pc"
PKG_CONFIG_PATH=$scratch/foreign
export PKG_CONFIG_PATH
refused 'the jansson that pkg-config finds is not for this compiler' -Dtools=enabled
quietly meson setup -Demulator=disabled "$scratch/foreign/build" "$source"
grep -q 'WARNING: the jansson .*Left out: tools' "$scratch/log" || fail "no warning of a foreign jansson"
unset PKG_CONFIG_PATH
! meson introspect --installed "$scratch/foreign/build" | grep -q libcuda || fail "-Demulator=disabled installs it"
echo "a jansson of another C library is refused, or left out"

for tool in aarch64-linux-gnu-gcc qemu-aarch64-static; do
    command -v $tool >/dev/null || {
        echo "skipped: no $tool; apt-get install gcc-aarch64-linux-gnu qemu-user-static"
        exit 77
    }
done
refused '-Dtests=enabled needs an exe_wrapper' --cross-file "$files/aarch64.ini" -Dtests=enabled
# Both builds compile the same files, at -O2. The build has the emulator's lanes at -O3, which takes 1.6 times as long,
# unless it is asked for -O1.
release='-Doptimization=1 -Db_ndebug=true'
: >"$scratch/ccache.ini"
if command -v ccache >/dev/null; then
    printf '%s\n' '[binaries]' "c = ['ccache', 'aarch64-linux-gnu-gcc']" >"$scratch/ccache.ini"
    export CCACHE_NOHASHDIR=1
fi
# shellcheck disable=SC2086 # words
quietly meson setup $release "-Dc_args=${CFLAGS-} -O2" --cross-file "$files/aarch64.ini" \
    --cross-file "$scratch/ccache.ini" -Ddocs=disabled -Dexamples=false -Dbench=disabled -Dpython=no \
    "$scratch/library" "$source"
quietly meson compile -C "$scratch/library"
quietly env DESTDIR="$scratch/root" meson install -C "$scratch/library" --no-rebuild
for library in $(find "$scratch/root" -name 'lib*.so*' -type f); do
    # The machine in the header: 183 is AArch64.
    [ "$(od -An -j18 -N2 -tu2 "$library" | tr -d ' ')" = 183 ] || fail "$library is not for AArch64"
done
[ "${library-}" ] || fail "no library is installed"
! find "$scratch/root" | grep -E 'share/(doc|man)' || fail "installed with -Ddocs=disabled"
# shellcheck disable=SC2086 # words
quietly meson setup $release "-Dc_args=${CFLAGS-} -O2" --cross-file "$files/aarch64.ini" \
    --cross-file "$files/aarch64-qemu.ini" --cross-file "$scratch/ccache.ini" -Ddocs=disabled -Dbench=disabled \
    "$scratch/qemu" "$source"
quietly meson test -C "$scratch/qemu" -t 10 'example saxpy emulator' 'emulator texts of clients'
tests=$(sed -n 's/^Ok: *\([0-9]*\).*/\1/p' "$scratch/log")
[ "${tests:-0}" -eq 2 ] || fail "only ${tests:-0} tests passed: $(tail -n 20 "$scratch/log")"
echo "64-bit ARM: library and emulator without a runner; $tests tests under qemu"

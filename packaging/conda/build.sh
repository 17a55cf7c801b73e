#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# As conda calls it: in the sources, with PREFIX, CPU_COUNT and, of conda's compilers, MESON_ARGS, which asks for a release.
# PTXGEN_SUITE is the suite of tests to run; emulator has all that need no GPU. PTXGEN_TESTS is
# `disabled` where that is `examples`, which needs no other test.
set -eu

# shellcheck disable=SC2086 # a word for each argument
meson setup build ${MESON_ARGS:---buildtype=release} --prefix="$PREFIX" --libdir=lib \
    --wrap-mode=nodownload -Ddefault_library=shared -Dtools=enabled -Dtests="${PTXGEN_TESTS:-enabled}" \
    -Dbench=disabled -Dpython=no
meson compile -C build -j "${CPU_COUNT:-2}"
meson test -C build --no-rebuild --print-errorlogs --num-processes "${CPU_COUNT:-2}" \
    --timeout-multiplier 10 --suite "${PTXGEN_SUITE:-emulator}"
meson install -C build --no-rebuild

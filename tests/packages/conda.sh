#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# conda.sh TARBALL: builds the conda recipe from the release's tarball, without a network, with tests on the
# emulator: the examples, because the Debian packages run all of them. Where there is no rattler-build, the
# recipe's scripts run as conda runs them.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# shellcheck source=tests/packages/common.sh
. "$here/common.sh"
[ -f "$1" ] || {
    echo "skipped: there is no tarball, see above"
    exit 77
}
command -v cmake >/dev/null || {
    echo "skipped: no cmake to test the installation with"
    exit 77
}
tar -xf "$1" -C "$scratch"
cd "$scratch"/ptxgen-*
recipe=packaging/conda
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" meson.build)
grep -q "^  version: $version\$" $recipe/recipe.yaml || fail "the recipe is not of $version"
if command -v rattler-build >/dev/null; then
    quietly rattler-build build --recipe $recipe --output-dir "$scratch/packages"
    echo "rattler-build: the package is built and tested"
    exit
fi
# Not as a release: so a cache of the compiler has what other builds compiled.
export PREFIX=$scratch/prefix CPU_COUNT=2 PTXGEN_SUITE=examples PTXGEN_TESTS=disabled MESON_ARGS=--buildtype=debugoptimized
quietly offline bash -eu $recipe/build.sh
tests=$(sed -n 's/^Ok: *\([0-9]*\).*/\1/p' "$scratch/log")
[ "${tests:-0}" -gt 0 ] || fail "build.sh ran no test"
quietly offline bash -eu $recipe/run_test.sh
tail -n 1 "$scratch/log"
echo "the recipe's scripts, $tests tests; not its yaml: rattler-build is neither in Debian nor on PyPI"

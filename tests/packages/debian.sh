#!/bin/sh
# SPDX-License-Identifier: MIT
# debian.sh TARBALL: builds the Debian packages from the release's tarball, without a network, with their
# tests on the emulator; installs them into a folder of their own, and uses them there.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# shellcheck source=tests/packages/common.sh
. "$here/common.sh"
[ -f "$1" ] || {
    echo "skipped: there is no tarball, see above"
    exit 77
}
for tool in dpkg-buildpackage dh; do
    command -v $tool >/dev/null || {
        echo "skipped: no $tool; apt-get install dpkg-dev debhelper"
        exit 77
    }
done
version=$(basename "$1" .tar.xz | sed 's/^ptxgen-//')
cp "$1" "$scratch/ptxgen_$version.orig.tar.xz"
tar -xf "$1" -C "$scratch"
cd "$scratch/ptxgen-$version"
cp -r packaging/debian debian
missing=$(dpkg-checkbuilddeps 2>&1 | sed 's/.*: //') || :
[ -z "$missing" ] || {
    echo "skipped: to build the packages, this is missing: $missing"
    exit 77
}
# What the packages have in them is checked here; warnings and speed are those of other builds. With the flags of these
# a cache of the compiler has what they compiled.
PTXGEN_SUITE=examples PTXGEN_TESTS=disabled PTXGEN_BUILD='--buildtype=debugoptimized -Dline_info=false'
export PTXGEN_SUITE PTXGEN_TESTS PTXGEN_BUILD
export DEB_BUILD_OPTIONS=noautodbgsym DEB_CPPFLAGS_SET= "DEB_CFLAGS_SET=${CFLAGS-}" "DEB_CXXFLAGS_SET=${CXXFLAGS-}"
export DPKG_DEB_COMPRESSOR_TYPE=none # they are unpacked at once
quietly offline dpkg-buildpackage -us -uc -b
tests=$(sed -n 's/^Ok: *\([0-9]*\).*/\1/p' "$scratch/log")
[ "${tests:-0}" -gt 0 ] || fail "the build ran no test"
for package in ../*.deb; do
    dpkg-deb -x "$package" "$scratch/root"
done
# Dependencies of the packages: the emulator is nobody's libcuda.
! dpkg-deb -I ../libptxgen0_*.deb control | grep '^Depends:.*libcuda' || fail "libptxgen0 depends on libcuda"
[ ! -e "$scratch/root/usr/share/doc/ptxgen/LICENSE" ] || fail "the licence is there twice"
# A prefix is fixed in ptxgen.pc; the others are relative.
sed -i "s|^prefix=.*|prefix=$scratch/root/usr|" "$scratch"/root/usr/lib/*/pkgconfig/ptxgen.pc
sh packaging/test_installed.sh "$scratch/root/usr"
# Where Debian's zsh looks; site-functions is the administrator's, under /usr/local.
[ -s "$scratch/root/usr/share/zsh/vendor-completions/_ptxgen" ] && [ ! -e "$scratch/root/usr/share/zsh/site-functions" ] ||
    fail "no completion where Debian's zsh looks"
echo "$(ls ../*.deb | wc -l) Debian packages, $tests tests while they were built"

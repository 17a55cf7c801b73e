#!/bin/sh
# SPDX-License-Identifier: MIT
# dist.sh SOURCE FOLDER: writes the release's tarball with `meson dist` into FOLDER, and uses it as WrapDB
# and distributions do: without git, as a wrap of another project, static, whose tests run on the emulator.
set -eu

source=$(CDPATH='' cd -- "$1" && pwd)
mkdir -p "$2"
folder=$(CDPATH='' cd -- "$2" && pwd)
# shellcheck source=tests/packages/common.sh
. "$source/tests/packages/common.sh"

# meson dist packs a commit: one of the files as they are here, in a repository of its own.
command -v git >/dev/null || {
    echo "skipped: meson dist needs git"
    exit 77
}
mkdir "$scratch/source"
copy_sources "$scratch/source"
cd "$scratch/source"
quietly git init -q
quietly git add -A
quietly git -c user.name=release -c user.email=release@example.org commit -q -m release
quietly meson setup "$scratch/dist" -Dtests=disabled -Dtools=disabled -Dbench=disabled -Dexamples=false
quietly meson dist -C "$scratch/dist" --no-tests --formats xztar
tarball=$(basename "$scratch"/dist/meson-dist/*.tar.xz)
cp "$scratch/dist/meson-dist/$tarball" "$folder"
! tar -tf "$folder/$tarball" | grep -E '(^|/)\.git/' || fail "the tarball has a repository"

PATH=$(path_without git)
! command -v git >/dev/null || fail "git is still there"

# The wrap file as WrapDB writes it, with the tarball already downloaded.
name=${tarball%.tar.xz}
mkdir -p "$scratch/host/subprojects/packagecache"
cp "$source/tests/subproject/meson.build" "$source/tests/subproject/meson_options.txt" \
    "$source/tests/subproject/host.c" "$scratch/host"
cp "$folder/$tarball" "$scratch/host/subprojects/packagecache"
cat >"$scratch/host/subprojects/ptxgen.wrap" <<END
[wrap-file]
directory = $name
source_url = https://example.invalid/$tarball
source_filename = $tarball
source_hash = $(sha256sum "$folder/$tarball" | cut -d ' ' -f 1)

[provide]
ptxgen = ptxgen_dep
END
sed -i '/fallback: /d' "$scratch/host/meson.build" # the wrap provides it
# Nothing here needs an optimizer, not even the emulator's lanes, which have one in any case.
quietly env "CFLAGS=${CFLAGS-} -O0" meson setup -Doptimization=0 -Ddefault_library=static --wrap-mode=forcefallback -Demulator=true \
    "$scratch/host/build" "$scratch/host"
quietly meson compile -C "$scratch/host/build"
quietly meson test -C "$scratch/host/build" -t 10
built=$scratch/host/build/subprojects/$name
[ ! -e "$built/libptxgen.so" ] || fail "a static subproject builds the shared library"
[ -e "$built/emulator/libcuda.so.1" ] || fail "the emulator was asked for"
echo "$tarball: made by meson dist; as a static wrap, without git, its tests pass on the emulator"

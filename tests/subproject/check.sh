#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh SOURCE: the library in another project, as a Meson subproject and installed, with ptxgen.pc
# and with CMake's find_package(). Also the installed documents, the names that the shared library
# exports, and the libraries that it needs.
set -eu
status=0

source=$(CDPATH='' cd -- "$1" && pwd)
here=$source/tests/subproject
# shellcheck source=tests/packages/common.sh
. "$source/tests/packages/common.sh"

# ---- as a subproject; with its emulator, static, as a wrap: tests/packages/dist.sh. Nothing here needs an optimizer.
# In the folder and with the flags that it has in dist.sh: the compiler's cache has what was compiled there.
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$source/meson.build")
mkdir -p "$scratch/host/subprojects"
cp "$here/meson.build" "$here/meson_options.txt" "$here/host.c" "$scratch/host"
ln -s "$source" "$scratch/host/subprojects/ptxgen-$version"
printf '%s\n' '[wrap-file]' "directory = ptxgen-$version" >"$scratch/host/subprojects/ptxgen.wrap"
quietly env "CFLAGS=${CFLAGS-} -O0" meson setup -Doptimization=0 "$scratch/host/build" "$scratch/host"
! grep -i jansson "$scratch/log" || fail "a subproject looks for jansson"
quietly meson compile -C "$scratch/host/build"
quietly meson test -C "$scratch/host/build" -t 10
built=$(cd "$scratch/host/build/subprojects/ptxgen-$version" && find . -type f -perm /111 ! -name '*.p')
[ "$built" = "./libptxgen.so.$version" ] || fail "a subproject builds more than the library: $built"
echo "a Meson subproject: works"

# ---- installed, in a place of its own

# install_as KIND OPTION...: installs with default_library=KIND into $tree, where pkg-config then
# searches.
prefix=/opt/ptxgen
builds=$source/build-check # there a cache of the compiler has what other builds compiled
trap 'rm -rf "$scratch" "$builds"-*' EXIT
install_as() {
    kind=$1
    shift
    tree=$scratch/$kind$prefix
    quietly meson setup --prefix "$prefix" --libdir lib "-Ddefault_library=$kind" -Dtests=disabled \
        -Dexamples=false -Dbench=disabled "$@" "$builds-$kind" "$source"
    [ ! -e "$builds-$kind/bench" ] || fail "-Dbench=disabled builds the benchmarks"
    quietly meson compile -C "$builds-$kind"
    quietly env DESTDIR="$scratch/$kind" meson install -C "$builds-$kind" --no-rebuild
    export PKG_CONFIG_PATH="$tree/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$scratch/$kind"
    [ "$(pkg-config --modversion ptxgen)" ] || fail "pkg-config does not know ptxgen"
    # shellcheck disable=SC2016 # a variable of pkg-config's
    grep -q -F -e '-I${srcdir}/include' "$builds-$kind/meson-uninstalled/ptxgen-uninstalled.pc" ||
        fail "ptxgen-uninstalled.pc does not have the headers"
}
link() {
    program=$1
    shift
    # shellcheck disable=SC2046,SC2086 # one word a flag; CC may hold arguments
    quietly ${CC:-cc} -std=c11 "$here/host.c" -o "$program" $(pkg-config "$@" --cflags --libs ptxgen)
}

# cmake_consumer NAME SOURCE OPTION...: builds a project with the installed package, and runs its tests.
missing=
command -v cmake >/dev/null 2>&1 || missing=cmake
cmake_consumer() {
    folder=$scratch/cmake-$1
    project=$2
    shift 2
    [ -z "$missing" ] || return 0
    quietly cmake -S "$project" -B "$folder" "-DCMAKE_PREFIX_PATH=$tree" "$@"
    quietly cmake --build "$folder"
    (
        unset PTXGEN_LIBCUDA LD_LIBRARY_PATH
        quietly ctest --test-dir "$folder" --output-on-failure --no-tests=error
    ) || exit 1
}

# cmake_refuses TEXT FIND: find_package(ptxgen FIND) fails, and the message has the text.
cmake_refuses() {
    [ -z "$missing" ] || return 0
    rm -rf "$scratch/refused"
    mkdir "$scratch/refused"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(refused C)' \
        "find_package(ptxgen $2)" >"$scratch/refused/CMakeLists.txt"
    ! cmake -S "$scratch/refused" -B "$scratch/refused/build" "-DCMAKE_PREFIX_PATH=$tree" \
        >"$scratch/log" 2>&1 || fail "find_package(ptxgen $2) is accepted"
    tr -s ' \n' ' ' <"$scratch/log" | grep -qF -- "$1" || {
        cat "$scratch/log"
        fail "the message of find_package(ptxgen $2) is not: $1"
    }
}

install_as static -Dtools=disabled -Ddocs=disabled
! ls "$tree"/lib/libptxgen.so* >/dev/null 2>&1 || fail "a static build installs the shared library"
for option in '' --static; do
    # shellcheck disable=SC2086 # no word if empty
    link "$scratch/program" $option
    quietly "$scratch/program"
done
quietly env "PTXGEN_LIBCUDA=$scratch/static$(pkg-config --variable=emulator ptxgen |
    sed "s|^$scratch/static||")" "$scratch/program"
cmake_consumer static "$here"
cmake_refuses 'compatible with requested version "0.2"' "0.2 REQUIRED"
cmake_refuses "no ptxgen::nonsense in $tree: its components are" "REQUIRED COMPONENTS nonsense"
install_as shared -Dtools=disabled -Ddocs=disabled -Dpython=install
package=$(dirname "$(find "$tree" -name _c.py)")
env -u PTXGEN_LIBCUDA -u PTXGEN_LIBRARY "PYTHONPATH=${package%/*}" PYTHONDONTWRITEBYTECODE=1 \
    python3 -m ptxgen emulate -- python3 -m ptxgen >"$scratch/log"
grep -q "^ptxgen .*: $tree/lib/libptxgen.so" "$scratch/log" && grep -q '^GPU: ptxgen emulator' "$scratch/log" ||
    fail "the installed Python package: $(cat "$scratch/log")"
echo "the installed Python package finds the installed library and emulator"
[ ! -e "$tree/lib/libptxgen.a" ] || fail "a shared build installs the archive"
link "$scratch/program"
quietly env LD_LIBRARY_PATH="$tree/lib" "$scratch/program"
cmake_consumer shared "$here"
cmake_refuses "no ptxgen::ptxgen_static in" "REQUIRED COMPONENTS ptxgen_static"
install_as both
cmake_consumer both "$here" -DSTATIC=ON
cmake_consumer examples "$tree/share/doc/ptxgen/examples"
link "$scratch/program"
quietly env LD_LIBRARY_PATH="$tree/lib" "$scratch/program"
# The archive, where both are installed, as docs/install.md says.
command=$(sed -n '/^cc trainer.c .*libptxgen.a/s/^cc trainer.c \(.*\) -o trainer$/\1/p' "$source/docs/install.md")
[ "$command" ] || fail "docs/install.md does not say how to link the archive"
quietly sh -c "${CC:-cc} -std=c11 '$here/host.c' -o '$scratch/program' $command"
quietly "$scratch/program"
cp "$tree/lib/libptxgen.so.0" "$scratch/libptxgen.so"
echo "installed, through ptxgen.pc, shared, static and both: works"
[ -n "$missing" ] ||
    echo "installed, with find_package(ptxgen), shared, static and both, and the installed examples: works"
if [ -x "$tree/bin/ptxgen" ]; then
    env -u PTXGEN_LIBCUDA -u PTXGEN_EMULATOR "$tree/bin/ptxgen" devices --json >"$scratch/log" 2>&1
    grep -q "\"$tree/lib/ptxgen/libcuda.so.1\"" "$scratch/log" ||
        fail "the installed command does not find the installed emulator: $(cat "$scratch/log")"
    echo "the installed command finds the installed emulator"
fi

# ---- the documents: every link leads to an installed file
(
    cd "$tree/share/doc/ptxgen"
    [ -s LICENSE ] && [ -s docs/install.md ] && [ -s examples/saxpy.c ] || exit 1
    grep -oHE '\]\([A-Za-z0-9_./-]+[)#]' -- *.md docs/*.md | sed 's/:\](/ /; s/[)#]$//' |
        while read -r page target; do
            [ -e "$(dirname "$page")/$target" ] || echo "$page: $target is not installed"
        done >"$scratch/links"
    [ ! -s "$scratch/links" ]
) || {
    cat "$scratch/links"
    fail "the installed documents"
}
[ -s "$tree/share/man/man3/ptx_mul_hi.3" ] && [ -s "$tree/share/doc/ptxgen/html/ops.html" ] ||
    fail "the API reference is not installed"
if command -v man >/dev/null 2>&1; then
    MANPATH=$tree/share/man MANWIDTH=100 man ptx_mul_hi >"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"
    grep -q 'ptx_mul_hi - the high half of x' "$scratch/log" || fail "man ptx_mul_hi: $(cat "$scratch/log")"
fi
for script in bash-completion/completions/ptxgen zsh/site-functions/_ptxgen; do
    [ -s "$tree/share/$script" ] || fail "no share/$script"
done
echo "installed: $(find "$tree/share/doc/ptxgen" -type f | wc -l) documents and examples, with their links"

# ---- what the libraries show and need
if ! command -v readelf >/dev/null 2>&1; then
    echo "skipped: no readelf to look into the libraries with"
    exit 77
fi

# globals_of FILE OPTION: prints the global names that the file defines.
globals_of() {
    readelf --wide "$2" "$1" | awk '$5 ~ /GLOBAL|WEAK|UNIQUE/ && $7 != "UND" && NF >= 8 { print $8 }'
}
globals_of "$tree/lib/libptxgen.a" --syms | sort -u >"$scratch/archive"
[ "$(wc -l <"$scratch/archive")" -gt 100 ] || fail "libptxgen.a defines hardly anything"
! grep -v '^ptx' "$scratch/archive" || fail "these names in libptxgen.a do not begin with ptx"
globals_of "$scratch/libptxgen.so" --dyn-syms >"$scratch/versioned"
sed 's/@.*//' "$scratch/versioned" | sort >"$scratch/symbols"
[ "$(wc -l <"$scratch/symbols")" -gt 100 ] || fail "libptxgen.so exports hardly anything"
! grep -vE '^(ptx_|ptxgen_|PTXGEN_0)' "$scratch/symbols" ||
    fail "these exported names are not ptx_ or ptxgen_"
! grep -vE '@@PTXGEN_0\.1$|^PTXGEN_0\.1$' "$scratch/versioned" || fail "these exported names have no version"
globals_of "$tree/lib/ptxgen/libcuda.so.1" --dyn-syms >"$scratch/emulator"
[ -s "$scratch/emulator" ] || fail "the emulator exports nothing"
! grep -v '^cu' "$scratch/emulator" || fail "the emulator exports more than the driver's functions"
readelf --dynamic "$scratch/libptxgen.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$scratch/needed"
# ld-linux, the loader, is part of the C library: it has the thread-local variables.
! grep -vE '^(libc|libm|libdl|ld-linux[^.]*)\.so\.' "$scratch/needed" || fail "libptxgen.so needs these as well"
[ -z "$missing" ] || { # at the end, so that nothing else is left out
    echo "skipped: no $missing to build the consumers of the CMake package with"
    status=77
}
echo "libptxgen.so exports $(wc -l <"$scratch/symbols") names, needs $(tr '\n' ' ' <"$scratch/needed")"
exit $status

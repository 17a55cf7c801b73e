#!/bin/sh
# SPDX-License-Identifier: MIT
# check_wheel.sh WHEEL BUILD: the wheel in a new environment, which has pytest beside it: its tests on
# the emulator; its types under mypy; the golden texts and the recorded bits of the H200 with the very
# libraries that it has. BUILD is a build folder of the same sources, with tests. Ends with 77 if PyPI
# cannot be reached.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
wheel=$1
build=$(CDPATH='' cd -- "$2" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=tests/packages/download.sh
. "$root/tests/packages/download.sh"
unset PYTHONPATH PTXGEN_LIBCUDA PTXGEN_LIBRARY
unset PYTHONDONTWRITEBYTECODE # pip compiles none, and each process would

# environment FOLDER PACKAGE...: a new one with these packages.
environment() {
    folder=$1
    shift
    new_environment "$folder"
    download "$folder/bin/pip" -q --disable-pip-version-check install --no-compile "$@" >"$scratch/log" 2>&1 || {
        echo "skipped: pip cannot install $*: $(tail -n 1 "$scratch/log")"
        exit 77
    }
}

# Nothing but Python is needed.
new_environment "$scratch/bare"
"$scratch/bare/bin/pip" -q --disable-pip-version-check install --no-index "$wheel"
"$scratch/bare/bin/python" -m ptxgen emulate -- "$scratch/bare/bin/python" -m ptxgen

environment "$scratch/venv" "$wheel" pytest==9.2.0 mypy==2.4.1
cd "$root/tests/python"
# Those of ptxgen.torch need torch: check_torch.sh.
"$scratch/venv/bin/python" -m pytest -q -p no:cacheprovider --ptxgen-emulate \
    --ignore-glob='*test_torch_*' .

cd "$scratch"
"$scratch/venv/bin/python" -m mypy --strict -m ptxgen -m ptxgen.__main__ -m ptxgen.pytest_plugin
"$scratch/venv/bin/python" -m mypy --strict "$root/tests/python/typed.py" \
    "$root/tests/python/typed_torch.py"

# The very libraries of the wheel: every text, and every bit that an H200 was seen to compute.
library=$(echo "$scratch"/venv/lib/python*/site-packages/.ptxgen.mesonpy.libs/libptxgen.so.*)
cp -r "$root/tests/golden" "$scratch/texts"
# Without those of functions that are not exported.
sed -i '/^muon_products_/d; /^muon_parts_/d; /^block_format_/d' "$scratch/texts/hashes.txt"
cc -std=c11 -DGOLDEN_EXPORTED "-DGOLDEN_DIR=\"$scratch/texts\"" -I"$root/include" -I"$root/tests/support" \
    -I"$root/tests/math" "$root/tests/kernels/golden_texts.c" "$root/tests/kernels/test_golden.c" \
    "$root/tests/math/math_kernels.c" "$root/tests/support/test.c" "$root/tests/support/variants.c" "$library" -lcmocka -lm -o "$scratch/golden"
ln -s "$library" "$scratch/libptxgen.so.0"
LD_LIBRARY_PATH=$scratch "$scratch/golden"
PTXGEN_LIBCUDA=${library%/*}/ptxgen/libcuda.so.1
export PTXGEN_LIBCUDA
hardware=$root/tests/hardware
"$build/tests/hardware/op_record" -c "$hardware/h200.txt"
"$build/tests/hardware/approximate_record" -c "$hardware/h200-approximate.txt"
"$build/tests/hardware/carry_record" -c "$hardware/h200-carry.txt"
"$build/tests/hardware/differential" -n 1000 -c "$hardware/h200-programs.txt"

#!/bin/sh
# SPDX-License-Identifier: MIT
# check_torch.sh WHEEL TESTS PACKAGE==VERSION...: tests of ptxgen.torch with the wheel and these packages
# of PyPI, torch among them, in a new environment, on the emulator. Ends with 77 if pip cannot install
# them. TESTS are `all`, or words of the names of files: "clip optim" for test_torch_clip.py and
# test_torch_optim.py. With `all` come the tests of rules, which need numpy.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
wheel=$1
tests=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=tests/packages/download.sh
. "$root/tests/packages/download.sh"
unset PYTHONPATH PTXGEN_LIBCUDA PTXGEN_LIBRARY PTXGEN_TORCH_PYTHON
unset PYTHONDONTWRITEBYTECODE # pip compiles none, and each process would

# install ARGUMENT...: packages into the new environment
install() {
    download "$scratch/venv/bin/pip" -q --disable-pip-version-check --no-cache-dir install --no-compile --only-binary :all: \
        "$@" >"$scratch/log" 2>&1 || {
        echo "skipped: pip cannot install $*: $(tail -n 1 "$scratch/log")"
        exit 77
    }
}

# Without NVIDIA's libraries, 3 GB: tests with tensors of the CPU call none of them.
new_environment "$scratch/venv"
packages=$(echo "$scratch"/venv/lib/python*/site-packages)
install --no-deps "$@"
python3 "$root/tests/python/cuda_stand_ins.py" needs "$packages" >"$scratch/needs"
install "$wheel" pytest==9.2.0 -r "$scratch/needs"
python3 "$root/tests/python/cuda_stand_ins.py" make "$packages"

# Tensors of the CPU stand for those of a GPU: the emulator reads memory of the host. Torch's threads would spin
# between its loops, for a sixth of all time.
cd "$root/tests/python"
files=
if [ "$tests" = all ]; then
    files=$(echo test_torch_*.py test_rules.py test_rules_published.py test_rule_numbers.py test_optimizers.py)
else
    for name in $tests; do
        files="$files test_torch_$name.py"
    done
fi
# shellcheck disable=SC2086 # words
PTXGEN_EMU_DEVICE=sm_90,pageable PTXGEN_EMU_THREADS=1 OMP_NUM_THREADS=1 \
    "$scratch/venv/bin/python" -m pytest -q -p no:cacheprovider --ptxgen-emulate $files

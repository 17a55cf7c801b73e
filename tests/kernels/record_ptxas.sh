#!/bin/sh
# SPDX-License-Identifier: MIT
# Records in golden/ptxas.txt which texts this ptxas accepts (tests/support/ptxas_batch.h); those of other versions of
# ptxas stay. A test that fails leaves the file as it is.
#
#     tests/kernels/record_ptxas.sh BUILD [TARGET...]    with targets: kernels for these alone
set -eu

file=$(cd "$(dirname "$0")/.." && pwd)/golden/ptxas.txt
build=$1
shift
record=$(mktemp)
trap 'rm -f "$record" "$record.all"' EXIT
export PTXGEN_PTXAS_RECORD="$record" PTXGEN_PTXAS_VERDICTS="$file"
if [ $# -gt 0 ]; then
    "$build/tests/kernels/test_ptxas" "$@"
else
    meson test -C "$build" -t 30 --suite ptxas
fi
[ -s "$record" ] || {
    echo "record_ptxas.sh: no text was assembled: is there a ptxas?" >&2
    exit 1
}
version=$(head -n 1 "$record" | cut -d ' ' -f 1)
{
    grep -v "^$version " "$file" || :
    cat "$record"
} | LC_ALL=C sort -u >"$record.all"
cp "$record.all" "$file"
echo "$file: $(wc -l <"$file") texts, $(grep -c "^$version " "$file") of ptxas $version"

#!/bin/sh
# SPDX-License-Identifier: MIT
# Records what the GPU of this machine computes, for machines without one to be held against:
#
#     sh tests/hardware/record.sh OUTPUT BUILD [PROGRAMS]
#
# BUILD is a build folder of this source; nothing is built here, so that it may come from elsewhere.
# Into OUTPUT go the files that tests/hardware has, under their names there; the hashes of each step
# of the random programs (steps.txt, to find where a program goes wrong; not kept); and logs.
# Fails if a test fails on this GPU, or if an approximate result is not as PTX documents it.
set -eu

output=$1
build=$2
programs=${3:-24000}
jobs=$(nproc)
failed=0

mkdir -p "$output"
rm -f "$output/failed"
device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
said_so() {
    echo "# Recorded on an ${device%,*}, driver ${device#*, }, by tests/hardware/record.sh."
}

"$build/tests/hardware/op_record" > "$output/h200.txt" || failed=1

"$build/tests/hardware/approximate_record" -o "$output/approximate.lines" \
    > "$output/approximate.log" 2>&1 || failed=1
{
    said_so
    echo "# Approximate instructions: the greatest error as a share of the documented one, and the"
    echo "# results of the operands of tests/hardware/approximate.c."
    cat "$output/approximate.lines"
} > "$output/h200-approximate.txt"

for test in "$build"/tests/hardware/test_rows_*; do
    [ -f "$test" ] && [ -x "$test" ] || continue
    { "$test" > "$output/$(basename "$test").log" 2>&1 || echo "$test" >> "$output/failed"; } &
done

# One process a core: a driver compiles one module at a time for each.
each=$(((programs + jobs - 1) / jobs))
first=1
while [ "$first" -le "$programs" ]; do
    count=$each
    [ $((first + count - 1)) -le "$programs" ] || count=$((programs - first + 1))
    { "$build/tests/hardware/differential" -s "$first" -n "$count" -j 1 -v "$output/steps.$first" \
        -o "$output/programs.$first" > "$output/differential.$first.log" 2>&1 ||
        echo "programs from $first on" >> "$output/failed"; } &
    first=$((first + count))
done
wait
if [ -e "$output/failed" ]; then
    cat "$output/failed"
    failed=1
fi
{
    said_so
    echo "# What the random programs of tests/hardware/differential.c write, one hash a program: 'seed hash'."
    echo "# Seeds 1 to $programs, two blocks of 256 threads each. The programs are frozen:"
    echo "# tests/hardware/random_program_alphabet.c says what they are made of."
    cat "$output"/programs.* | sort -n
} > "$output/h200-programs.txt"
cat "$output"/steps.* | sort -n > "$output/steps.txt"
cat "$output"/differential.*.log > "$output/differential.log"
rm -f "$output"/programs.* "$output"/steps.[0-9]* "$output"/differential.[0-9]*.log \
    "$output/approximate.lines" "$output/failed"

exit $failed

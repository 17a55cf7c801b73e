#!/bin/sh
# SPDX-License-Identifier: MIT
# Records the results of this machine's GPU, so that machines without a GPU can compare theirs:
#
#     sh tests/hardware/record.sh OUTPUT BUILD [PROGRAMS]
#     sh tests/hardware/record.sh --add OUTPUT BUILD
#
# BUILD is a build folder of this source. Nothing is built here, so another machine may have built
# it. OUTPUT receives the files of tests/hardware under their names, and logs. The first form
# records everything again. It also writes steps.txt, a hash of each step of the random programs, to
# find the wrong step of a program; it is not kept. With --add, recorded cases are verified and keep
# their lines, and cases without a line are added. Random programs are verified, and none is added.
#
# Fails if a result differs from plain C, the PTX ISA or a kept line.
set -eu

here=$(dirname "$0")
add=
if [ "$1" = --add ]; then
    add=1
    shift
fi
output=$1
build=$2/tests/hardware
programs=${3:-24000}
jobs=$(nproc)

mkdir -p "$output"
rm -f "$output/failed"
device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
made_by="# Recorded on an ${device%,*}, driver ${device#*, }, by tests/hardware/record.sh."

# record NAME FILE COMMENT: runs the program NAME, which writes the lines of FILE.
record() {
    if [ -n "$add" ]; then
        "$build/$1" -c "$here/$2" -o "$output/$2" > "$output/$1.log" 2>&1 ||
            echo "$1: see $1.log" >> "$output/failed"
        return
    fi
    "$build/$1" -o "$output/$2.lines" > "$output/$1.log" 2>&1 ||
        echo "$1: see $1.log" >> "$output/failed"
    { printf '%s\n%s\n' "$made_by" "$3"; cat "$output/$2.lines"; } > "$output/$2"
    rm -f "$output/$2.lines"
}

record op_record h200.txt \
    "# Value instructions: a hash of the results of 2,048 operands (tests/hardware/op_record.c)."
record approximate_record h200-approximate.txt \
    "# Approximate instructions: the greatest error as a share of the documented one, and results."
record carry_record h200-carry.txt \
    "# Carry chains: a hash of what each writes (tests/hardware/carry_chain.c)."

for test in memory atomic warp block special text; do
    { "$build/test_rows_$test" -o "$output/rows.$test" > "$output/rows_$test.log" 2>&1 ||
        echo "rows $test: see rows_$test.log" >> "$output/failed"; } &
done

# One process a core: a driver compiles one module at a time for each.
each=$(((programs + jobs - 1) / jobs))
first=1
while [ "$first" -le "$programs" ]; do
    count=$each
    [ $((first + count - 1)) -le "$programs" ] || count=$((programs - first + 1))
    { "$build/differential" -s "$first" -n "$count" -j 1 -v "$output/steps.$first" \
        -o "$output/programs.$first" > "$output/differential.$first.log" 2>&1 ||
        echo "programs from $first on" >> "$output/failed"; } &
    first=$((first + count))
done
wait

# Rows: a line for each first two words of their names, with the fingerprints of those confirmed.
{
    printf '%s\n%s\n' "$made_by" \
        "# Rows of tests/hardware/test_rows_*.c that came out as plain C wants them, by fingerprint."
    cat ${add:+"$here/h200-rows.txt"} "$output"/rows.* | awk '
        /^#/ { next }
        {
            if (!($1 in line)) name[++count] = $1
            for (k = 2; k <= NF; k++) if (!seen[$1, $k]++) line[$1] = line[$1] " " $k
        }
        END { for (k = 1; k <= count; k++) print name[k] line[name[k]] }'
} > "$output/h200-rows.txt"

{
    echo "$made_by"
    echo "# What the random programs of tests/hardware/differential.c write, one hash a program:"
    echo "# 'seed hash'. Seeds 1 to $programs, two blocks of 256 threads each. The programs are frozen:"
    echo "# tests/hardware/random_program_alphabet.c says what they are made of."
    cat "$output"/programs.* | sort -n
} > "$output/h200-programs.txt"
cat "$output"/steps.* | sort -n > "$output/steps.txt"
cat "$output"/differential.*.log > "$output/differential.log"
rm -f "$output"/programs.* "$output"/rows.* "$output"/steps.[0-9]* "$output"/differential.[0-9]*.log
if [ -n "$add" ]; then
    grep -v '^#' "$output/h200-programs.txt" > "$output/programs"
    grep -v '^#' "$here/h200-programs.txt" | grep -v 'left out' | head -n "$programs" |
        diff - "$output/programs" > "$output/programs.diff" ||
        echo "random programs differ: see programs.diff" >> "$output/failed"
    cp "$here/h200-programs.txt" "$output/h200-programs.txt"
    rm -f "$output/programs"
fi

grep -h unrecorded "$output"/*.log || true
if [ -e "$output/failed" ]; then
    cat "$output/failed"
    exit 1
fi

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
# their lines, and cases without a line are added. Random programs are verified; a file of them that
# does not exist yet is written.
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
later=$((programs < 5000 ? programs : 5000))
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

# Products of 256 tiles a shape, for machines without a GPU, then of 1,000,000.
record mma_record h200-mma.txt \
    "# Products of tiles: a hash of all result bits of each shape, after the number of tiles."
mv "$output/h200-mma.txt" "$output/h200-mma.256"
"$build/mma_record" -n 1000000 -j "$jobs" -c "$output/h200-mma.256" -o "$output/h200-mma.txt" \
    >> "$output/mma_record.log" 2>&1 || echo "mma_record: see mma_record.log" >> "$output/failed"
rm -f "$output/h200-mma.256"

# Products of warpgroups, 8 blocks a text for machines without a GPU, then 64.
record wgmma_record h200-wgmma.txt \
    "# Products of warpgroups: a hash of all result bits of each text, after the number of blocks."
mv "$output/h200-wgmma.txt" "$output/h200-wgmma.8"
"$build/wgmma_record" -n 64 -c "$output/h200-wgmma.8" -o "$output/h200-wgmma.txt" \
    >> "$output/wgmma_record.log" 2>&1 || echo "wgmma_record: see wgmma_record.log" >> "$output/failed"
rm -f "$output/h200-wgmma.8"

for test in memory atomic warp block special asm text; do
    { "$build/test_rows_$test" -o "$output/rows.$test" > "$output/rows_$test.log" 2>&1 ||
        echo "rows $test: see rows_$test.log" >> "$output/failed"; } &
done

# run_programs FILE FIRST COUNT: lines of the random programs for FILE. One process a core: a driver
# compiles one module at a time for each.
run_programs() {
    each=$((($3 + jobs - 1) / jobs))
    first=$2
    end=$(($2 + $3))
    while [ "$first" -lt "$end" ]; do
        count=$each
        [ $((first + count)) -le "$end" ] || count=$((end - first))
        { "$build/differential" -s "$first" -n "$count" -j 1 -v "$output/steps.$first" \
            -o "$output/$1.$first" > "$output/differential.$first.log" 2>&1 ||
            echo "programs from $first on" >> "$output/failed"; } &
        first=$((first + count))
    done
    wait
}

# keep_programs FILE COMMENT...: the lines of run_programs as FILE. With --add, a FILE that is kept
# already is compared with them.
keep_programs() {
    file=$1
    shift
    cat "$output/$file".[0-9]* | sort -n > "$output/programs"
    rm -f "$output/$file".[0-9]*
    if [ -n "$add" ] && [ -e "$here/$file" ]; then
        grep -v '^#' "$here/$file" | head -n "$(wc -l < "$output/programs")" |
            diff - "$output/programs" > "$output/$file.diff" ||
            echo "random programs differ: see $file.diff" >> "$output/failed"
        cp "$here/$file" "$output/$file"
    else
        { echo "$made_by"; printf '# %s\n' "$@"; cat "$output/programs"; } > "$output/$file"
    fi
    rm -f "$output/programs"
}

run_programs h200-programs.txt 1 "$programs"
run_programs h200-programs-later.txt 1000000 "$later"
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

keep_programs h200-programs.txt \
    "What the random programs of tests/hardware/differential.c write, one hash a program:" \
    "'seed hash'. Seeds 1 to $programs, two blocks of 256 threads each. The programs are frozen:" \
    "tests/hardware/random_program_alphabet.c says what they are made of."
keep_programs h200-programs-later.txt \
    "The same for $later programs from seed 1000000 on, with functions, data, text, matrices and the" \
    "other rows of tests/hardware/random_program_calls.c."
cat "$output"/steps.* | sort -n > "$output/steps.txt"
cat "$output"/differential.*.log > "$output/differential.log"
rm -f "$output"/rows.* "$output"/steps.[0-9]* "$output"/differential.[0-9]*.log

grep -h unrecorded "$output"/*.log || true
if [ -e "$output/failed" ]; then
    cat "$output/failed"
    exit 1
fi

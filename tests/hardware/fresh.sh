#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs random programs that nobody ran before on this machine's GPU and on the emulator, and compares
# them; and records the later programs anew:
#
#     sh tests/hardware/fresh.sh OUTPUT BUILD [PART]
#
# BUILD is a build folder of this source; nothing is built here. PART is a percentage of the
# programs. A program that faults destroys only its own process. OUTPUT receives, for each set, the
# lines `seed hash` with a hash of each step from both (SET.gpu, SET.emulator), the seeds without a
# result on the GPU (SET.faults) and those whose hashes differ (SET.differ); and
# h200-programs-later.txt. The summary is OUTPUT/summary. Fails if a program faults or differs.
#
# Without a GPU, PTXGEN_FRESH_GPU names the library that takes its place.
set -eu

if [ "$1" = --batch ]; then
    # --batch OUTPUT DIFFERENTIAL SET FIRST COUNT: one batch on the GPU. Halves it if it fails.
    shift
    output=$1
    differential=$2
    set=$3
    batch() {
        status=0
        timeout 120 "$differential" -s "$1" -n "$2" -j 1 -v "$output/$set.$1.$2" > /dev/null \
            2> "$output/$set.$1.$2.log" || status=$?
        if [ "$status" -gt 1 ]; then
            rm -f "$output/$set.$1.$2"
            if [ "$2" -eq 1 ]; then
                echo "$1 $(grep -v '^$' "$output/$set.$1.$2.log" | tail -n 1), status $status" \
                    > "$output/$set.$1.fault"
            else
                batch "$1" $(($2 / 2))
                batch $(($1 + $2 / 2)) $(($2 - $2 / 2))
            fi
        elif [ "$status" -eq 1 ]; then
            cp "$output/$set.$1.$2.log" "$output/$set.$1.beyond"
        fi
        rm -f "$output/$set.$1.$2.log"
    }
    batch "$4" "$5"
    exit 0
fi

output=$1
differential=$2/tests/hardware/differential
emulator=$2/emulator/libcuda.so.1
part=${3:-100}
jobs=$(nproc)
each=125
# CONTRIBUTING.md says of each why.
known='4001969 10006042 10007059'

mkdir -p "$output"
[ -z "$(ls -A "$output")" ] || {
    echo "$output is not empty" >&2
    exit 2
}
: > "$output/summary"
bad=0

say() {
    echo "$*" | tee -a "$output/summary"
}

# gather NAME PATTERN: joins the files of the pattern, in the order of their seeds.
gather() {
    find "$output" -name "$2" -exec cat {} + | sort -n > "$output/$1"
    find "$output" -name "$2" ! -name "$1" -exec rm -f {} +
}

# run_set SET FIRST COUNT: on the GPU, then on the emulator; compared.
run_set() {
    set=$1
    count=$(($3 * part / 100))
    [ "$count" -gt 0 ] || count=1
    start=$(date +%s)
    first=$2
    while [ "$first" -lt $(($2 + count)) ]; do
        left=$(($2 + count - first))
        echo "$set $first $((left < each ? left : each))"
        first=$((first + each))
    done | PTXGEN_LIBCUDA=${PTXGEN_FRESH_GPU:-} \
        xargs -P "$jobs" -L 1 sh "$0" --batch "$output" "$differential"
    gather "$set.faults" "$set.[0-9]*.fault"
    gather "$set.beyond" "$set.[0-9]*.beyond"
    gather "$set.gpu" "$set.[0-9]*.[0-9]*"
    middle=$(date +%s)
    PTXGEN_LIBCUDA=$emulator "$differential" -s "$2" -n "$count" -j "$jobs" \
        -v "$output/$set.emulator" > /dev/null 2> "$output/$set.log" ||
        { say "$set: the emulator failed: $(tail -n 1 "$output/$set.log")" && bad=1; }
    # Seeds with a result from both whose hashes differ.
    awk 'NR == FNR { hash[$1] = $2; next } $1 in hash && hash[$1] != $2 { print $1 }' \
        "$output/$set.gpu" "$output/$set.emulator" > "$output/$set.differ"
    [ "$(wc -l < "$output/$set.emulator")" -eq "$count" ] || bad=1
    for seed in $known; do
        ! grep -q "^$seed\b" "$output/$set.faults" "$output/$set.differ" || say "$set: $seed is known"
        sed -i "/^$seed\b/d" "$output/$set.faults" "$output/$set.differ"
        grep -q "^$seed " "$output/$set.gpu" || ! [ "$seed" -ge "$2" ] || ! [ "$seed" -lt $(($2 + count)) ] ||
            count=$((count - 1))
    done
    ran=$(wc -l < "$output/$set.gpu")
    faults=$(wc -l < "$output/$set.faults")
    differ=$(wc -l < "$output/$set.differ")
    say "$set: $ran of $count programs from $2 on ran, $faults faults, $differ differ;" \
        "$((middle - start)) s here, $(($(date +%s) - middle)) s on the emulator"
    head -n 20 "$output/$set.faults" | sed 's/^/    fault: /' | tee -a "$output/summary"
    head -n 20 "$output/$set.differ" | sed 's/^/    differs: /' | tee -a "$output/summary"
    head -n 20 "$output/$set.beyond" | sed 's/^/    approximate: /' | tee -a "$output/summary"
    [ "$ran" -eq "$count" ] && [ "$faults$differ" = 00 ] && [ ! -s "$output/$set.beyond" ] || bad=1
}

run_set later 1000000 5000
run_set known 3000000 3100
run_set fresh 4000000 10000
run_set messages 10000000 10000
run_set constants 20000000 20000

if [ -z "${PTXGEN_FRESH_GPU:-}" ]; then
    device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
    {
        echo "# Recorded on an ${device%,*}, driver ${device#*, }, by tests/hardware/fresh.sh."
        echo "# As h200-programs.txt, for programs from seed 1000000 on, with functions, data, text,"
        echo "# matrices and the other rows of tests/hardware/random_program_calls.c."
        cut -d ' ' -f 1,2 "$output/later.gpu"
    } > "$output/h200-programs-later.txt"
fi
exit "$bad"

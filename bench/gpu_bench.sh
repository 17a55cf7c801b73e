#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs measurements on a GPU within ten minutes: builds, and then
#
#     clip    checks agreement with PyTorch, measures kernels and clip plans (ptxgen_bench) and a training step
#             captured and not, and compares them with PyTorch, torch.compile, CUDA C++, apex's method, Triton and the pipeline they replace
#     step    the same for step plans; proofs of what they compute; a GPT-2 trained with them
#     python  the host's time of a step from PyTorch; clip and step over two GPUs, where there are two
#
# Results are checked before they are timed. Needs no network.
#
#     bench/gpu_bench.sh OUTPUT BUILD [clip|step|python]
#
# Without the last argument, clip and step. OUTPUT receives the raw files, tables, and plots if matplotlib is installed. BUILD is the Meson
# folder of a release build, created if it does not exist, or a folder with files built elsewhere:
# libptxgen.so, bench/ptxgen_bench, bench/original and bench/list_sets. nvcc builds the CUDA C++ peers if
# BUILD/libpeers.so does not exist. See dependencies.sh for PTXGEN_DEPENDENCIES. Exit status: 77
# without a GPU, 1 if a step failed; summary.txt names it.
set -u

case $#${3:-} in
2 | 3clip | 3step | 3python) ;;
*)
    echo 'usage: bench/gpu_bench.sh OUTPUT BUILD [clip|step|python]' >&2
    exit 2
    ;;
esac
only=${3:-}
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" || exit 1
output=$(cd "$1" && pwd)
mkdir -p "$2" || exit 1
build=$(cd "$2" && pwd)
peers=$build/libpeers.so
deadline=$(($(date +%s) + 585))
PYTHONUNBUFFERED=1
export PYTHONUNBUFFERED
# shellcheck source=bench/dependencies.sh
. "$source/bench/dependencies.sh"

if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo 'gpu_bench.sh: no GPU that PyTorch sees' >&2
    exit 77
fi

summary=$output/summary.txt
: >"$summary"
failures=0

# step NAME SECONDS COMMAND...: limited to SECONDS and to the remaining time; the log is NAME.log
step() {
    name=$1
    limit=$2
    shift 2
    left=$((deadline - $(date +%s)))
    [ "$left" -gt 1 ] || left=1
    [ "$limit" -lt "$left" ] || limit=$left
    begun=$(date +%s)
    timeout -k 5 "$limit" "$@" >"$output/$name.log" 2>&1
    status=$?
    case $status in
    0) word=ok ;;
    124 | 137) word='out of time' ;;
    *) word="FAILED ($status)" ;;
    esac
    [ $status -eq 0 ] || failures=$((failures + 1))
    printf '%-12s %-12s %4s s  %s\n' "$name" "$word" $(($(date +%s) - begun)) \
        "$(tail -1 "$output/$name.log" | cut -c1-90)" | tee -a "$summary"
    return $status
}

if [ -f "$build/build.ninja" ] || [ ! -f "$build/libptxgen.so" ]; then
    [ -f "$build/build.ninja" ] ||
        step setup 60 meson setup "$build" "$source" --buildtype=release -Dtests=disabled -Dtools=enabled \
            -Dbench=enabled ||
        exit 1
    step build 150 ninja -C "$build" || exit 1
fi
[ "$only" = python ] || [ -f "$peers" ] ||
    step nvcc 120 nvcc -std=c++17 -O3 -arch=native -Xcompiler -fPIC -shared \
    -o "$peers" "$source/bench/peers_kernels.cu" "$source/bench/peers_clip.cu" \
    "$source/bench/peers_quantize.cu" "$source/bench/peers_step.cu" || exit 1

# Plots FILE, if matplotlib is installed.
plot() {
    python3 -c 'import matplotlib' 2>/dev/null || return 0
    step "plot" 30 python3 "$source/bench/plot.py" "$1" "$output"
}

clip() {
    # Compiles at run time, in parallel with steps that are not timed.
    python3 "$source/bench/peers.py" "$build" "$peers" --warm >"$output/warm.log" 2>&1 &
    step agreement 150 python3 "$source/bench/torch_agreement.py" "$build/libptxgen.so" \
        -o "$output/agreement.jsonl"
    wait
    for suite in kernels clip growth; do
        step $suite 100 "$build/bench/ptxgen_bench" $suite --json "$output/$suite.jsonl"
    done
    step captured 30 python3 "$source/bench/captured.py" "$build" -o "$output/captured.jsonl"
    step peers 400 python3 "$source/bench/peers.py" "$build" "$peers" -o "$output/peers.jsonl"
    python3 "$source/bench/tables.py" "$output/peers.jsonl" >"$output/tables.md"
    plot "$output/peers.jsonl"
}

steps() {
    for part in 'LoRA 28 x 6/f32' 'GPT-2 124M/f32' 'GPT-2 124M/bf16'; do
        timeout 110 python3 "$source/bench/peers_step.py" "$build" --warm --only "$part" \
            >>"$output/warm_step.log" 2>&1 &
    done
    step proofs 200 python3 "$source/bench/step_proofs.py" "$build" -o "$output/proofs.jsonl"
    wait
    step peers_step 300 python3 "$source/bench/peers_step.py" "$build" --peers "$peers" \
        -o "$output/peers_step.jsonl"
    step train 150 python3 "$source/bench/train_gpt2.py" "$build" "$output" --seconds 60
    python3 "$source/bench/tables.py" "$output/peers_step.jsonl" >"$output/step_tables.md"
    plot "$output/peers_step.jsonl"
    plot "$output/loss.csv"
}

python() {
    PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH}
    export PYTHONPATH
    step python_host_time 120 python3 "$source/bench/python_host_time.py" "$output"
    if python3 -c 'import sys, torch; sys.exit(torch.cuda.device_count() < 2)'; then
        step fsdp2 240 python3 "$source/bench/fsdp2.py" "$output"
    fi
}

case $only in
'')
    clip
    steps
    ;;
step) steps ;;
*) "$only" ;;
esac
[ $failures -eq 0 ]

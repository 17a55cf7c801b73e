#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Allocations of the ptxgen command or of ptxgen_bench fail, one in each run: all of a command, or MOST of them, evenly
# spread, and one in fifteen of that where a run takes long. sweep_allocations.c gives the allowed
# results. Prints TAP. Needs no GPU.
#
# usage: test_cli_allocations.sh PROGRAM FAKE_LIBCUDA EMULATOR FAULTS SWEEP PART MOST

faults=$4 sweep=$5 part=$6 most=$7
. "$(dirname "$0")/cli_tap.sh"
PTXGEN_EMULATOR=$emulator
PTXGEN_EMU_THREADS=1
ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0:detect_leaks=0
export PTXGEN_EMU_THREADS ASAN_OPTIONS
unset PTXGEN_LIBCUDA

tensors g.st 40 "{\"__metadata__\":{\"from\":\"a test\"},$(entry x F32 6 0 24),$(entry i I32 4 24 40)}"
tensors d.st 16 "{$(entry d_output F32 4 0 16)}"
mkdir bin
printf '#!/bin/sh\nexit 0\n' >bin/ptxas
chmod +x bin/ptxas
PATH=$work/bin:$PATH

few=$(((most + 14) / 15))

# sweeps [OPTION]... -- [ARGUMENT]...: fails allocations of ptxgen with these arguments
sweeps() {
    options="-n $most"
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # The words of $options must be split.
    "$sweep" "$faults" $options -- "$ptxgen" "$@" >swept 2>&1
    ended=$?
    sed 's/^/# /' swept
    : >out >err
    [ $ended -eq 0 ]
    result "allocations of: $*"
}

on_emulator='--device emulator'
case $part in
text)
    sweeps -- list
    sweeps -- list --json
    sweeps -- info squared_sum
    sweeps -- info quantize_channel_ste_backward --json
    sweeps -- emit squared_sum --isa 8.0 --target sm_90a
    sweeps -o o.ptx -- emit squared_sum --dtype f16 -o o.ptx
    sweeps -- info step --set format=master --json
    sweeps -- info clip --json
    sweeps -- emit step --set rule=lion
    sweeps -n $few -o all -- emit --all -o all
    ;;
clip)
    sweeps -o o.st -- clip g.st --max-norm 1 $on_emulator -o o.st
    sweeps -o o.st -- clip g.st --max-norm 1 $on_emulator -o o.st --json --group-by x --nonfinite skip
    tensors l.st 40000 "{$(entry x F32 10000 0 40000)}"
    sweeps -o o.st -- clip l.st --max-norm 1 $on_emulator -o o.st --memory 24K
    mkdir model clipped.d
    cp g.st model/g.st
    names=$(grep -ao '"[a-z_0-9.]*":{"dtype"' g.st | sed 's/:{.*/:"g.st",/')
    echo "{\"weight_map\":{${names%,}}}" >model/m.index.json
    sweeps -o clipped.d/m.index.json -- clip model/m.index.json --max-norm 1 $on_emulator -o clipped.d/m.index.json
    ;;
run)
    sweeps -o o.st -- run squared_sum -i g.st $on_emulator -o o.st
    sweeps -o o.st -- run lerp_backward -i d.st $on_emulator -o o.st --set weight=0.5 --set outputs=da \
        --json
    run 0 emit squared_sum -o text.ptx
    sweeps -o o.st -- run text.ptx --grid 1 $on_emulator -i g.st --arg x --arg 6 --arg f64[1]:zeros -o o.st --json
    ;;
check)
    run 0 emit squared_sum -o text.ptx
    sweeps -- check squared_sum --dtype f32 -v
    sweeps -- check text.ptx --json
    ;;
devices)
    # The library of a GPU's driver does not survive a failed allocation, so that is left out.
    if "$ptxgen" devices | grep -q '^no GPU'; then
        sweeps -- devices
        sweeps -- devices --json
    fi
    PTXGEN_LIBCUDA=$emulator
    export PTXGEN_LIBCUDA
    sweeps -- devices
    sweeps -- devices --json
    ;;
bench)
    sweeps -f -- emit --samples 1 --only lerp
    sweeps -f -- load --samples 1 --only compiled $on_emulator
    sweeps -f -o o.jsonl -- kernels --samples 1 --only loss_scale $on_emulator --sizes 100 --json o.jsonl
    ;;
bench_plans)
    sweeps -n $few -f -- growth --samples 1 --only '1 x 1024' $on_emulator
    sweeps -n $few -f -- clip --samples 1 --only 'LoRA layer' $on_emulator
    sweeps -n $few -f -- step --samples 1 --only 'LoRA layer' $on_emulator
    ;;
esac

finish

#!/bin/sh
# SPDX-License-Identifier: MIT
#
# ptxgen_bench from end to end, on the emulator with small sizes: every suite, and what is refused. A
# kernel with wrong results is not timed. Prints TAP. Needs no GPU. Times are not compared.
#
# usage: test_bench.sh PTXGEN_BENCH FAKE_LIBCUDA EMULATOR

. "$(dirname "$0")/../tools/cli_tap.sh"

# ---- help and version ---------------------------------------------------------------------------

works 'help' 'usage: ptxgen_bench [emit|load|kernels|clip|growth|step|all]' --help
run 0 --help && mv out helped && run 0 -h && cmp -s out helped
result '-h is --help'
works 'version' 'ptxgen 0.' --version
works '-V' 'ptxgen 0.' -V
refuses 2 'did you mean --version?' --vrsion
refuses 2 "unknown option '-z': see ptxgen_bench --help" -z

# ---- what is refused before anything is measured ------------------------------------------------

refuses 2 "unknown suite 'kernel': did you mean 'kernels'?" kernel
refuses 2 "unexpected argument 'clip'" emit clip
refuses 2 '--device takes a number' emit --device emu
for samples in 0 -1 x 1x 1001 99999999999999999999999 ''; do
    refuses 2 '--samples takes a number from 1 to 1000' emit --samples "$samples"
done
for sizes in 0 -1 x '1,' ',1' '1,,2' 1KK 1T 65G 99999999999999999999 1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8 ''; do
    refuses 2 '--sizes takes numbers of elements' kernels --sizes "$sizes"
done
refuses 1 'none/o.jsonl: No such file' emit --json none/o.jsonl --samples 1
for suite in load kernels clip growth all; do
    refuses 77 'PTXGEN_LIBCUDA' $suite --json o.jsonl
done
refuses 77 'correct or unset PTXGEN_EMULATOR' load --device emulator
[ ! -e o.jsonl ]
result 'no file of a run that failed'
works 'bench emit needs no device' 'squared_sum bf16 ' emit --samples 1
! grep -q emulator out
result 'bench emit: nothing of the emulator in it'
works 'bench emit --only' 'lerp_backward f32 ' emit --samples 1 --only lerp
! grep -q squared_sum out
result 'bench --only leaves others out'

refuses 2 "--only 'lora': nothing that emit measures has it in its name" emit --only lora

# A libcuda whose launches do nothing.
PTXGEN_LIBCUDA=$fake_libcuda
run 1 kernels --samples 1 --sizes 4K --only lerp --json o.jsonl &&
    grep -q 'is not the random data' err && ! grep -q lerp out && [ ! -e o.jsonl ]
result 'bench times nothing that is not computed'

# ---- on the emulator ----------------------------------------------------------------------------

PTXGEN_EMULATOR=$emulator
unset PTXGEN_LIBCUDA

# measures SUITE WORDS [ARGUMENT]...: measures one sample; the output has WORDS, and each figure is
# marked (emulator)
measures() {
    suite=$1 words=$2
    shift 2
    run 0 "$suite" --samples 1 --device emulator --json "$suite.jsonl" "$@" &&
        [ ! -s err ] && grep -q "^on the emulator (sm_90), .* say nothing of a GPU" out &&
        grep -qF -e "$words" out && [ "$(grep -c '(emulator)$' out)" -ge 1 ] &&
        ! sed '1,4d' out | grep -vq '(emulator)$' && ! grep -Eq ' [0.]+ [kMG]?B/s' out
    result "bench $suite $*"
}

refuses 2 'nothing that all measures' all --samples 1 --device emulator --only nothing
measures load 'ptxgen, compiled anew ' --only compiled
measures kernels 'squared_sum bf16, 1000' --sizes 1000
measures kernels 'quantize_channel_ste_backward, last axis f16, 40000' --sizes 1,40000 --only channel
measures clip 'LoRA layer bf16, nothing to clip, eager'
grep -q 'LoRA layer f32, host, graph launch' out &&
    grep -q 'LoRA layer f32, clipped, loss scale updated, graph' out
result 'bench clip: the host, and the update of the loss scale'
measures growth '100 x 163 bf16, clipped, graph'
run 0 clip --samples 1 --device emulator --json - --only 'LoRA layer' &&
    grep -q '^LoRA layer' err && ! grep -qv '^{.*}$' out
result 'bench --json -: JSON alone on standard output'
if command -v jq >/dev/null; then
    jq -es '.[0].ptxgen and .[0].commit and .[0].date and .[0].driver and .[0].emulator and
            all(.[1:][]; .emulator and .suite == "kernels" and .median_us >= 0)' \
        <kernels.jsonl >/dev/null
    result 'bench --json is JSON, an object a line'
else
    skip 'bench --json is JSON' 'no jq'
fi
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
    bench="'$ptxgen' kernels --samples 1 --device emulator --sizes 100"
    TERM=xterm script -qec "$bench" /dev/null >out 2>err </dev/null && grep -q ' % .*kernels: ' out
    result 'bench draws a progress bar on a terminal'
    TERM=xterm script -qec "$bench --quiet" /dev/null >out 2>err </dev/null && ! grep -q ' %' out
    result 'bench --quiet draws none'
else
    skip 'bench draws a progress bar' 'no script(1)'
fi
echo before >kept.jsonl
for call in cuMemAlloc cuEventRecord cuLaunchKernel cuStreamBeginCapture cuGraphLaunch cuMemcpyDtoHAsync; do
    PTXGEN_EMU_FAIL=$call:999
    export PTXGEN_EMU_FAIL
    run 1 clip --samples 1 --device emulator --json kept.jsonl && [ "$(wc -l <err)" -ge 1 ] &&
        grep -q "^ptxgen_bench: .*$call" err && [ "$(cat kept.jsonl)" = before ]
    result "status 1 where $call fails, and the file stays as it was"
done
unset PTXGEN_EMU_FAIL
! ls | grep -q '\.tmp$'
result 'bench leaves nothing half-written behind'

finish

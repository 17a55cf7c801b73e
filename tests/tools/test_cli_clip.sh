#!/bin/sh
# SPDX-License-Identifier: MIT
#
# ptxgen clip from end to end: every option, every kind of refusal, small files whose numbers a reader
# can check. Prints TAP. Needs no GPU. (check_clip has the large files.)
#
# usage: test_cli_clip.sh PTXGEN FAKE_LIBCUDA EMULATOR

. "$(dirname "$0")/cli_tap.sh"

# ---- what is refused before there is a GPU ------------------------------------------------------

tensors broken.st 8 "{$(entry x F32 3 0 8)}"
tensors empty.st 0 "{$(entry x F16 0,5 0 0)}"
tensors i32.st 16 "{$(entry x I32 4 0 16)}"
# 3 and 4 in halves, and an I32
tensors c.st 0 "{\"__metadata__\":{\"from\":\"a test\"},$(entry h.0.w F16 2 0 4),$(entry step I32 1 4 8)}"
printf '\000\102\000\104\007\000\000\000' >>c.st
# 6 and 8, 1 and 2, nothing
tensors d.st 0 "{$(entry h.0.w F32 2 0 8),$(entry h.1.w F32 2 8 16),$(entry top F16 0 16 16)}"
printf '\000\000\300\100\000\000\000\101\000\000\200\077\000\000\000\100' >>d.st
# 1 and NaN; 3 and 4, at an odd place
tensors nan.st 0 "{$(entry a BF16 2 0 4),$(entry odd U8 1 4 5),$(entry b F32 2 5 13)}"
printf '\200\077\300\177\005\000\000\100\100\000\000\200\100' >>nan.st
echo 'this is not a tensor file' >text.st

# misuses WORDS [ARGUMENT]...: clip refuses this with status 2, before it looks for a GPU
misuses() {
    words=$1
    shift
    refuses 2 "$words" clip "$@" -o o.st
}

refuses 2 'which file?' clip --max-norm 1 -o o.st
refuses 2 '--output FILE is missing' clip c.st --max-norm 1
misuses '--max-norm X is missing' c.st
misuses "unexpected argument 'd.st'" c.st d.st --max-norm 1
misuses '--max-norm is given twice' c.st --max-norm 1 --max-norm 2
misuses '--max-norm must not be NaN' c.st --max-norm nan
misuses '--max-norm must not be below 0' c.st --max-norm -1
misuses "--max-norm: '1,5' is not a number" c.st --max-norm 1,5
misuses "'1e39' is beyond the range of f32" c.st --max-norm 1e39
misuses '--loss-scale must be above 0' c.st --max-norm 1 --loss-scale 0
misuses '--loss-scale must be finite' c.st --max-norm 1 --loss-scale inf
misuses '--loss-scale must not be NaN' c.st --max-norm 1 --loss-scale nan
misuses '--eps must not be below 0' c.st --max-norm 1 --eps -1e-6
misuses '--eps must be finite' c.st --max-norm 1 --eps inf
misuses "unknown policy 'stop': there is propagate, skip, zero, error" c.st --max-norm 1 --nonfinite stop
for bytes in 0 -1 1x 1KK K 99999999999999999999 16777216T ''; do
    misuses '--memory takes a number of bytes' c.st --max-norm 1 --memory "$bytes"
done
misuses '--device takes a number' c.st --max-norm 1 --device emu
misuses "--group-by 'h(': " c.st --max-norm 1 --group-by 'h('
[ "$(sed 's/.*: //' err | wc -c)" -gt 5 ]
result 'clip says what is wrong with the expression'
misuses "matches the name of no tensor; the first is 'h.0.w'" c.st --max-norm 1 --group-by 'x'
refuses 1 'none.st: No such file' clip none.st --max-norm 1 -o o.st
refuses 1 'not a regular file' clip . --max-norm 1 -o o.st
refuses 1 'text.st: byte 0: header length' clip text.st --max-norm 1 -o o.st
refuses 1 "tensor 'x': data_offsets [0, 8]" clip broken.st --max-norm 1 -o o.st
tensors none.st 0 '{}'
refuses 1 'none.st: there is no tensor in it' clip none.st --max-norm 1 -o o.st
tensors none.st 0 '{"__metadata__":{"from":"a test"}}'
refuses 1 'none.st: there is no tensor in it' clip none.st --max-norm 1 -o o.st
rm none.st
refuses 77 'PTXGEN_LIBCUDA' clip c.st --max-norm 1 -o o.st
[ ! -e o.st ]
result 'no output file of a run that failed'

# ---- on the emulator ----------------------------------------------------------------------------

refuses 77 'correct or unset PTXGEN_EMULATOR' clip c.st --max-norm 1 -o o.st --device emulator
PTXGEN_EMULATOR=$emulator
refuses 2 'is not the emulator' clip c.st --max-norm 1 -o o.st --device emulator
unset PTXGEN_LIBCUDA

# clipped NUMBERS FORMAT FILE [ARGUMENT]...: clips FILE; the output's data must be NUMBERS
clipped() {
    numbers=$1 format=$2
    shift 2
    rm -f o.st
    run 0 clip "$@" -o o.st --device emulator && [ ! -s err ] &&
        grep -q 'on the emulator (sm_90)' out && grep -q "the emulator's time" out &&
        [ "$(numbers "$format")" = " $numbers" ]
    result "clip $*: $numbers"
}

# clips NAME WORDS [ARGUMENT]...: clips into the file o.st, which is not there; the report has WORDS
clips() {
    rm -f o.st
    works "$@" -o o.st --device emulator
}

clipped '0007 0000 3e00 4000' x2 c.st --max-norm 2.5 --eps 0
! grep -Eq '[ ,][0.]+ [kMG]?B/s' out && grep -Eq '^kernels: [0-9.]+ ms, [0-9.]+ k?B/s' out &&
    grep -Eq '^from file to file: [0-9.]+ s, [0-9.]+ k?B/s' out
result 'clip gives small rates in small units'
grep -q '"__metadata__":{"from":"a test"}' o.st &&
    grep -q '^1 tensor of other types (I32) copied without a change' out
result 'clip keeps metadata and other tensors, and says so'
clipped '0007 0000 3e00 4000' x2 c.st --max-norm inf --loss-scale 2
clipped '0007 0000 4200 4400' x2 c.st --max-norm 5 --eps 0
clipped '0007 0000 0000 0000' x2 c.st --max-norm 0
clipped '0007 0000 3a00 3c00' x2 c.st --max-norm 1.5 --eps 1
clips 'clip prints the norm' ' 10.2469511 ' clip d.st --max-norm 1
clipped '3 4 1 2' f4 d.st --max-norm 5 --eps 0 --group-by '^h\.[0-9]+'
grep -Eq "^'h\.0' +1 +2 +10 +0\.5$" out && grep -Eq '^\(no match\) +1 +0 +0 +1$' out
result 'clip shows each group, and the one of what does not match'
clips 'clip names groups by what is in parentheses' "'1' " clip d.st --max-norm 1 --group-by 'h\.(.)\.'
header='' k=0
while [ $k -lt 45 ]; do
    header="$header,$(entry "h.$k.w" F64 1 $((8 * k)) $((8 * k + 8)))"
    k=$((k + 1))
done
tensors many.st 360 "{${header#,}}"
clips 'clip shows no more groups than a screen has room for' 'and 5 more groups; --json has them' \
    clip many.st --max-norm 1 --group-by '.*'
# As a model's file has them: by the text of the names, and other tensors first.
tensors order.st 40 "{$(entry wte F64 1 0 8),$(entry h.0.w F32 1 8 12),$(entry h.1.w F32 1 12 16),\
$(entry h.10.w F64 1 16 24),$(entry h.11.w F32 1 24 28),$(entry h.2.w F64 1 28 36),$(entry h.9.w F32 1 36 40)}"
clips 'clip shows groups in numeric order' "'h.10'" clip order.st --max-norm 1 --group-by 'h\.[0-9]+'
[ "$(sed -n "s/^\('h[0-9.]*'\|(no match)\) .*/\1/p" out | tr -d "'\n")" = 'h.0h.1h.2h.9h.10h.11(no match)' ]
result 'numbers in the names of groups go by their value, and what does not match comes last'
nan='ff ff ff 7f ff ff ff 7f ff 7f ff 7f 05'
clipped "$nan" x1 nan.st --max-norm 1
grep -q '^NaN or infinity in 1 of 1 group: .*(--nonfinite propagate)' out
result 'clip says that something is not finite'
clipped "$nan" x1 nan.st --max-norm 1 --nonfinite propagate
clipped '00 00 40 40 00 00 80 40 80 3f c0 7f 05' x1 nan.st --max-norm 1 --nonfinite skip
clipped '00 00 00 00 00 00 00 00 00 00 00 00 05' x1 nan.st --max-norm 1 --nonfinite zero
clipped '3 4 1 2' f4 d.st --max-norm 5 --eps 0 --group-by '^h\.[0-9]+' --nonfinite error
rm -f o.st
refuses 1 'NaN or infinity in 1 of 1 group: nothing is written (--nonfinite error)' clip nan.st \
    --max-norm 1 --nonfinite error -o o.st --device emulator
refuses 1 "NaN or infinity in 1 of 2 groups, first in 'a': nothing is written" clip nan.st \
    --max-norm 1 --nonfinite error -o o.st --device emulator --group-by '.*' --json
[ ! -e o.st ] && [ ! -s out ]
result '--nonfinite error leaves no file and no report'
run 1 clip nan.st --max-norm 1 --nonfinite error -o - --device emulator && [ ! -s out ]
result '--nonfinite error writes nothing to standard output'
clipped '00 00 c0 3f 00 00 00 40 ff 7f ff 7f 05' x1 nan.st --max-norm 2.5 --eps 0 --group-by '.*'
run 0 clip empty.st --max-norm 1 -o o.st --device emulator && [ -z "$(numbers x1)" ] &&
    grep -q '^1 tensor (F16), 0 elements' out
result 'clip a file without elements'
clipped '0 0 0 0' d4 i32.st --max-norm 1

# In windows: x.st is repeated, so that it has more elements than one part of a tensor.
tensors l.st 80000 "{$(entry x F32 5000 0 20000),$(entry y F64 7500 20000 80000)}"
run 0 clip l.st --max-norm 1 -o o.st --device emulator --memory 24K &&
    grep -q 'in [0-9]* windows' out && run 0 clip l.st --max-norm 1 -o o2.st --device emulator &&
    grep -q 'in one piece' out && cmp o.st o2.st >>err
result 'clip in windows gives the same file'
refuses 2 '1000 bytes of device memory can be used' clip l.st --max-norm 1 -o none.st --device emulator \
    --memory 1000
least=$(sed -n 's/^ptxgen clip: --memory must be \([0-9]*\) bytes or more: .*/\1/p' err)
refuses 2 "--memory must be $least bytes or more: " clip l.st --max-norm 1 -o none.st --device emulator \
    --memory $((least - 1))
run 0 clip l.st --max-norm 1 -o o2.st --device emulator --memory "$least" && cmp o.st o2.st >>err
result 'the error of too little --memory begins with what is enough'
PTXGEN_EMU_MEMORY=64K
export PTXGEN_EMU_MEMORY
run 1 clip l.st --max-norm 1 -o none.st --device emulator --memory 1G &&
    grep -q '^ptxgen clip: --memory BYTES, with less than [0-9]*, works in smaller parts: could not' err
result 'memory that is not there: the error names --memory'
unset PTXGEN_EMU_MEMORY
cp d.st same.st
run 0 clip same.st --max-norm 5 --eps 0 --group-by '.*' -o same.st --device emulator &&
    mv same.st o.st && [ "$(numbers f4)" = ' 3 4 1 2' ]
result 'clip writes over its input'
run 0 clip d.st --max-norm 5 -o o.st --device emulator &&
    run 0 clip d.st --max-norm 5 -o - --device emulator && cmp -s out o.st && grep -q 'B/s' err
result 'clip to standard output: tensors alone'

# ---- files that are replaced ----------------------------------------------------------------------

# says WORDS: standard error is the line with these words alone
says() {
    [ "$(cat err)" = "ptxgen clip: $1" ]
}
cp i32.st old.st
run 0 clip d.st --max-norm 5 -o old.st --device emulator && ! cmp -s old.st i32.st &&
    says 'old.st exists, and is replaced when the new file is complete'
result 'clip says that it replaces a file'
cp i32.st old.st
PTXGEN_EMU_FAIL=cuMemcpyDtoHAsync:999 run 1 clip d.st --max-norm 5 -o old.st --device emulator &&
    head -n 1 err | grep -q '^ptxgen clip: old.st exists' && cmp -s old.st i32.st
result 'it says so before it replaces it'
run 0 clip d.st --max-norm 5 -o old.st --device emulator --quiet && [ ! -s err ]
result 'not with --quiet'
cp d.st same.st && ln -s same.st named.st
run 0 clip same.st --max-norm 5 -o named.st --device emulator && [ ! -s err ]
result 'not of its input, by whatever name'
run 0 clip d.st --max-norm 5 -o /dev/null --device emulator && [ ! -s err ]
result 'not of a device'
"$ptxgen" clip d.st --max-norm 5 -o /dev/stdout --device emulator 2>err >old.st
! grep -q exists err
result 'not of what the shell has opened'

# ---- a model in shards ----------------------------------------------------------------------------

# h.0.w is 6 and 8, h.1.w 1 and 2 as in d.st; an I32 is copied.
mkdir model
tensors model/m-1.safetensors 0 "{\"__metadata__\":{\"format\":\"pt\"},$(entry h.0.w F32 2 0 8)}"
printf '\000\000\300\100\000\000\000\101' >>model/m-1.safetensors
tensors model/m-2.safetensors 0 "{$(entry h.1.w F32 2 0 8),$(entry step I32 1 8 12)}"
printf '\000\000\200\077\000\000\000\100\007\000\000\000' >>model/m-2.safetensors
# index FILE ENTRIES: writes an index of these tensors and shards
index() {
    printf '{"metadata":{"total_size":20},"weight_map":{%s}}\n' "$2" >"$1"
}
index model/m.safetensors.index.json \
    '"step":"m-2.safetensors","h.0.w":"m-1.safetensors","h.1.w":"m-2.safetensors"'
model=model/m.safetensors.index.json
# shard_numbers FILE: its data as f4, without the header
shard_numbers() {
    cp "$1" o.st && numbers f4
}
rm -f o.st
run 0 clip $model --max-norm inf --loss-scale 2 -o o.st --device emulator && [ ! -s err ] &&
    [ "$(numbers f4)" = ' 3 4 0.5 1 1e-44' ]
result 'clip shards into one file'
clips 'clip shards: one norm over all' ' 10.2469511 ' clip $model --max-norm 1
mkdir out.d
out=out.d/new.safetensors.index.json
run 0 clip $model --max-norm 5 --eps 0 --group-by 'h\..' -o $out --device emulator && [ ! -s err ] &&
    [ "$(ls out.d | tr '\n' ' ')" = 'm-1.safetensors m-2.safetensors new.safetensors.index.json ' ] &&
    cmp -s $out $model && [ "$(shard_numbers out.d/m-1.safetensors)" = ' 3 4' ] &&
    [ "$(shard_numbers out.d/m-2.safetensors)" = ' 1 2 1e-44' ] &&
    grep -q '"format":"pt"' out.d/m-1.safetensors && ! grep -q '"format"' out.d/m-2.safetensors
result 'clip shards into shards, with their notes'
run 0 clip $out --max-norm inf -o o2.st --device emulator
result 'the shards that clip writes can be read'
run 0 clip $model --max-norm 5 -o $out --device emulator &&
    says "$out and 2 more files exist, and are replaced when the new ones are complete"
result 'clip says that it replaces the shards of another model'
rm $out out.d/m-1.safetensors
run 0 clip $model --max-norm 5 --eps 0 --group-by 'h\..' -o $out --device emulator &&
    says 'out.d/m-2.safetensors exists, and is replaced when the new file is complete'
result 'clip names the one shard that it replaces'
cp -r model lost.d
run 0 clip lost.d/m.safetensors.index.json --max-norm 5 -o lost.d/m-1.safetensors --device emulator &&
    says 'lost.d/m-1.safetensors exists, and is replaced when the new file is complete'
result 'a shard of the input is another file than the whole'
cp -r model same.d && cp -r model force.d && chmod 400 force.d/m-2.safetensors
run 0 clip same.d/m.safetensors.index.json --max-norm 5 --eps 0 --group-by 'h\..' \
    -o same.d/m.safetensors.index.json --device emulator && [ ! -s err ] && cmp -s same.d/m-1.safetensors out.d/m-1.safetensors &&
    cmp -s same.d/m-2.safetensors out.d/m-2.safetensors
result 'clip shards in place'
refuses 1 'm-2.safetensors' clip force.d/m.safetensors.index.json --max-norm 1 \
    -o force.d/m.safetensors.index.json --device emulator
cmp -s model/m-1.safetensors force.d/m-1.safetensors
result 'a shard that is read-only: none is written'
refuses 2 'name one file with --output: the input is no index' clip d.st --max-norm 1 -o none.safetensors.index.json \
    --device emulator
# broken_index WORDS ENTRIES: an index of these tensors is refused
broken_index() {
    index model/broken.index.json "$2"
    refuses 1 "$1" clip model/broken.index.json --max-norm 1 -o none.st --device emulator
}
whole='"step":"m-2.safetensors","h.0.w":"m-1.safetensors"'
broken_index "tensor 'h.1.w' is not in the index" "$whole"
broken_index "tensor 'h.1.w' belongs into 'm-1.safetensors'" "$whole,\"h.1.w\":\"m-1.safetensors\""
broken_index "tensor 'h.2.w' is not in its shard 'm-1.safetensors'" \
    "$whole,\"h.1.w\":\"m-2.safetensors\",\"h.2.w\":\"m-1.safetensors\""
broken_index 'm-3.safetensors: No such file' "$whole,\"h.1.w\":\"m-3.safetensors\""
for name in ../m-1.safetensors a/b .. ''; do
    broken_index "'h.1.w' must have the name of a file in the same folder, not '$name'" \
        "$whole,\"h.1.w\":\"$name\""
done
index model/broken.index.json '"h.1.w":7'
refuses 1 "'h.1.w' must have the name of a file" clip model/broken.index.json --max-norm 1 -o none.st
broken_index 'no weight_map with tensors' ''
echo '[1]' >model/broken.index.json
refuses 1 'no weight_map with tensors' clip model/broken.index.json --max-norm 1 -o none.st
echo '{"weight_map":' >model/broken.index.json
refuses 1 'line 2: the index is not valid JSON' clip model/broken.index.json --max-norm 1 -o none.st
: >model/m-4.safetensors
broken_index 'm-4.safetensors: empty' "$whole,\"h.1.w\":\"m-4.safetensors\""
[ ! -e none.st ] && [ ! -e none.safetensors.index.json ] && ! ls -a . model force.d | grep -q '\.tmp$'
result 'what is refused leaves nothing behind'

# from_stdin NAME COMMAND...: `ptxgen clip -` reads what the command pipes, and writes the same as from
# the file d.st, which is in o.st
from_stdin() {
    name=$1
    shift
    rm -f piped.st
    "$@" 2>err >out && cmp -s o.st piped.st
    result "$name"
}
run 0 clip d.st --max-norm 5 -o o.st --device emulator
piped() {
    cat d.st | "$ptxgen" clip - --max-norm 5 -o piped.st "$@"
}
from_stdin 'clip from a pipe' piped --device emulator
grep -q '^piped.st$' out
result 'clip from a pipe reports as from a file'
redirected() {
    "$ptxgen" clip - --max-norm 5 -o piped.st --device emulator <d.st
}
from_stdin 'clip from a redirected file' redirected
after_other() {
    { echo skipped; cat d.st; } >offset.st
    { read -r _; "$ptxgen" clip - --max-norm 5 -o piped.st --device emulator; } <offset.st
}
from_stdin 'clip from the rest of a file' after_other
CUDA_VISIBLE_DEVICES='' from_stdin 'clip from a pipe, without a GPU to be seen' piped
cat d.st | "$ptxgen" clip - --max-norm 5 -o - --device emulator 2>err | cmp -s - o.st
result 'clip as a filter'
refuses 1 'standard input: empty' clip - --max-norm 1 -o none.st --device emulator
run 1 clip - --max-norm 1 -o none.st --device emulator <&- ; [ "$got" -eq 1 ]
result 'clip without a standard input'
head -c 40 d.st | "$ptxgen" clip - --max-norm 1 -o none.st --device emulator >out 2>err
[ $? -eq 1 ] && grep -q 'standard input: truncated' err
result 'clip from a pipe that ends early'
clips 'clip --quiet' 'all tensors' clip d.st --max-norm 5 --quiet
if command -v jq >/dev/null; then
    run 0 clip d.st --max-norm 5 --eps 0 -o o.st --device emulator --json --group-by 'h\.0' &&
        jq -e '.groups[0].name == "h.0" and .groups[0].norm == 10 and .groups[0].factor == 0.5 and
               .groups[1].name == null and .windows == 1 and .found_inf == false' <out >/dev/null
    result 'clip --json is JSON'
    run 0 clip nan.st --max-norm inf -o o.st --device emulator --json &&
        jq -e '.groups[0].norm == "nan" and .max_norm == "inf" and .found_inf' <out >/dev/null
    result 'clip --json: what JSON has no numbers for'
else
    skip 'clip --json is JSON' 'no jq'
fi
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
    clip="'$ptxgen' clip l.st --max-norm 1 -o o.st --device emulator"
    TERM=xterm script -qec "$clip" /dev/null >out 2>err </dev/null &&
        grep -q ' % .* of 160.00 kB' out && grep -q 'all tensors' out
    result 'clip draws a progress bar on a terminal'
    TERM=xterm script -qec "$clip --quiet" /dev/null >out 2>err </dev/null &&
        ! grep -q ' %' out && grep -q 'all tensors' out
    result 'clip --quiet draws none'
else
    skip 'clip draws a progress bar' 'no script(1)'
fi
refuses 1 'none/o.st: No such file' clip d.st --max-norm 1 -o none/o.st --device emulator
if [ -w /dev/full ]; then
    refuses 1 'cannot write /dev/full: No space left' clip d.st --max-norm 1 -o /dev/full \
        --device emulator
else
    skip 'clip to a full disk' 'no /dev/full'
fi
cp d.st kept.st
for call in cuMemAlloc cuMemHostAlloc cuModuleLoadDataEx cuMemcpyHtoDAsync cuMemcpyDtoHAsync; do
    PTXGEN_EMU_FAIL=$call:999
    export PTXGEN_EMU_FAIL
    run 1 clip l.st --max-norm 1 -o kept.st --device emulator --memory 24K && [ ! -s out ] &&
        grep -q "^ptxgen clip: .*$call" err
    result "status 1 where $call fails"
done
PTXGEN_EMU_FAIL=cuMemAlloc:2
run 1 clip l.st --max-norm 1 -o kept.st --device emulator &&
    grep -q '^free device memory or use smaller pieces$' err && ! grep -q 'ptx_' err
result 'what names functions of the library is left out of its errors'
PTXGEN_EMU_FAIL=cuGraphLaunch:700
run 1 clip l.st --max-norm 1 -o kept.st --device emulator &&
    grep -q '^ptxgen clip: an earlier kernel failed' err && ! grep -q 'ptx_' err
result 'so is the name of the function that failed'
unset PTXGEN_EMU_FAIL
cmp -s d.st kept.st && [ ! -e none.st ] && ! ls | grep -q '\.tmp$'
result 'clip leaves nothing half-written behind'
CUDA_VISIBLE_DEVICES=''
export CUDA_VISIBLE_DEVICES
rm -f o.st
works 'clip where no GPU is to be seen: on the emulator' 'on the emulator' clip d.st --max-norm 1 \
    -o o.st
run 0 clip d.st --max-norm 1 -o o.st && [ "$(wc -l <err)" -eq 1 ]
result 'and it is said once that a file is replaced'
unset CUDA_VISIBLE_DEVICES

finish

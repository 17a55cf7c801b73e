#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The ptxgen command on the user's own PTX: check FILE and run FILE, on the emulator. Prints TAP.
#
# usage: test_cli_text.sh PTXGEN FAKE_LIBCUDA EMULATOR

. "$(dirname "$0")/cli_tap.sh"

PTXGEN_EMULATOR=$emulator
unset PTXGEN_LIBCUDA PTXGEN_EMU_SANITIZE PTXGEN_EMU_LOG PTXGEN_EMU_DEVICE
set -f # brackets of arguments are no patterns
emulated='--device emulator'

head='.version 7.0
.target sm_80
.address_size 64'

# y[i] = a * x[i] + y[i]
cat >saxpy.ptx <<END
$head
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .f32 %f<4>;
    .reg .b64 %d<4>;
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [a];
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [y];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    mul.wide.u32 %d3, %r2, 4;
    add.u64 %d1, %d1, %d3;
    add.u64 %d2, %d2, %d3;
    ld.global.f32 %f2, [%d1];
    ld.global.f32 %f3, [%d2];
    fma.rn.f32 %f3, %f1, %f2, %f3;
    st.global.f32 [%d2], %f3;
    ret;
}
END

# put PARAMETER TYPE REGISTER OFFSET: a kernel that stores its parameter, of so many bytes, to an array
put() {
    cat <<END
$head
.visible .entry _Z3put_v($1, .param .u64 _Z3put_v_param_1)
{
    .reg .b16 %h;
    .reg .b32 %r;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [_Z3put_v_param_1];
    ld.param.$2 $3, [_Z3put_v_param_0$4];
    st.global.$2 [%d1], $3;
    ret;
}
END
}
put '.param .u32 _Z3put_v_param_0' u32 %r '' >put32.ptx
put '.param .u64 _Z3put_v_param_0' u64 %d2 '' >put64.ptx
put '.param .align 2 .b8 _Z3put_v_param_0[2]' u16 %h '' >put16.ptx
put '.param .align 4 .b8 _Z3put_v_param_0[12]' u32 %r '+8' >putstruct.ptx

# the index of each thread of a grid and blocks of three dimensions, and shared memory of the launch
cat >index.ptx <<END
$head
.extern .shared .align 4 .b8 room[];
.visible .entry index(.param .u64 to)
.reqntid 4, 2, 2
{
    .reg .b32 %r<9>;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [to];
    mov.u32 %r1, %tid.z;
    mov.u32 %r2, %tid.y;
    mad.lo.u32 %r1, %r1, 2, %r2;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r1, %r1, 4, %r2;
    mov.u32 %r3, %ctaid.z;
    mov.u32 %r4, %ctaid.y;
    mad.lo.u32 %r3, %r3, 2, %r4;
    mov.u32 %r4, %ctaid.x;
    mad.lo.u32 %r3, %r3, 3, %r4;
    mad.lo.u32 %r3, %r3, 16, %r1;
    mul.wide.u32 %d2, %r3, 4;
    add.u64 %d1, %d1, %d2;
    mov.u32 %r5, %dynamic_smem_size;
    mad.lo.u32 %r3, %r5, 1000, %r3;
    st.global.u32 [%d1], %r3;
    ret;
}
END

{
    cat saxpy.ptx
    sed -n '/^.visible/,$p' index.ptx | sed 's/ index(/ _Z5indexPj(/; /dynamic_smem/d; s/%r5, 1000/0, 0/'
} >both.ptx

# ---- run: arguments -----------------------------------------------------------------------------

saxpy="run saxpy.ptx --grid 4 --block 256 $emulated"
four='--arg n=4 --arg a=2 --arg x=f32[4]:iota --arg y=f32[4]:zeros'

# gives NAME FORMAT NUMBERS [ARGUMENT]...: the run writes arrays whose elements are, one after another, NUMBERS
gives() {
    name="run: $1"
    format=$2 elements=$3
    shift 3
    run 0 "$@" -o o.st && [ ! -s err ] && [ "$(numbers "$format")" = " $elements" ]
    result "$name"
}

works 'run says where' 'saxpy on the emulator (sm_90)' $saxpy $four
[ "$(sed -n 2p out)" = 'grid 4,1,1 of blocks of 256,1,1 threads' ] && grep -q "ms, the emulator's time" out
result 'run says the geometry and the time'
gives 'arguments by name' f4 '0 1 2 3 0 2 4 6' $saxpy $four
gives 'arguments in any order' f4 '0 1 2 3 0 2 4 6' $saxpy --arg y=f32[4]:zeros --arg x=f32[4]:iota --arg a=2 --arg n=4
gives 'arguments by position' f4 '0 1 2 3 0 2 4 6' $saxpy --arg 4 --arg 2 --arg f32[4]:iota --arg f32[4]:zeros
gives 'by position, then by name' f4 '0 1 2 3 0 2 4 6' $saxpy --arg 4 --arg 2 --arg y=f32[4]:zeros --arg x=f32[2,2]:iota
grep -qF 'x F32 [2, 2]' out && grep -qF 'y F32 [4]' out && grep -qF 'o.st:' out
result 'run lists the arrays that it writes'
mv o.st in.st
gives 'arrays of a file, by name' f4 '0 1 2 3 0 3 6 9' $saxpy -i in.st --arg n=4 --arg a=1
gives 'arrays of a file, with a type' f4 '0 1 2 3 0 3 6 9' $saxpy -i in.st --arg n=4 --arg a=1 --arg x=f32[4] --arg y=f32[4]
gives 'an array of a file under its own name' f4 '0 2 4 6 0 2 4 6' $saxpy -i in.st --arg 4 --arg 0.5 --arg y --arg y=x
grep -A1 '^o.st:' out | grep -q '  y F32'
result 'an array keeps its name of the file'
"$ptxgen" $saxpy -i - --arg n=4 --arg a=1 -o o.st <in.st >out 2>err && [ "$(numbers f4)" = ' 0 1 2 3 0 3 6 9' ]
result 'run: arrays from standard input'
"$ptxgen" run - --grid 1 --block 4 $emulated $four -o o.st <saxpy.ptx >out 2>err && [ "$(numbers f4)" = ' 0 1 2 3 0 2 4 6' ]
result 'run: the text from standard input'
"$ptxgen" $saxpy $four -o - >o.st 2>err </dev/null && [ "$(numbers f4)" = ' 0 1 2 3 0 2 4 6' ] && grep -q 'on the emulator' err
result 'run: arrays to standard output, the report beside it'
run 0 $saxpy $four && ! grep -q F32 out
result 'run without --output'

# ---- run: types and fills -----------------------------------------------------------------------

# holds TYPE FORMAT NUMBERS: what :iota gives in a type; the array is not touched
holds() {
    gives "$1:iota" "$2" "$3" $saxpy --arg 0 --arg 0 --arg "$1[3]:iota" --arg 0
}
holds u8 u1 '0 1 2'
holds s16 d2 '0 1 2'
holds f16 x2 '0000 3c00 4000'
holds bf16 x2 '0000 3f80 4000'
holds F64 f8 '0 1 2'
holds i64 d8 '0 1 2'
run 0 $saxpy --arg 0 --arg 0 --arg f16[2053]:iota --arg 0 -o o.st &&
    [ "$(numbers x2 | tr -s ' \n' ' ' | cut -d' ' -f2049-2054)" = '67ff 6800 6800 6801 6802 6802' ]
result 'iota is rounded to nearest even'
for type in f16 bf16 f32 f64; do
    run 0 $saxpy --arg 0 --arg 0 --arg "$type[1000]:random" --arg 0 -o o.st && cp o.st 1.st &&
        run 0 $saxpy --arg 0 --arg 0 --arg "$type[1000]:random" --arg 0 -o o.st && cmp -s o.st 1.st &&
        run 0 $saxpy --arg 0 --arg 0 --arg "$type[1000]:random" --arg 0 -o o.st --seed 1 && ! cmp -s o.st 1.st
    result "$type:random is the same again, and another with another seed"
done
run 0 $saxpy --arg 0 --arg 0 --arg f32[1000]:random --arg 0 -o o.st && numbers f4 | tr -s ' ' '\n' | grep . |
    awk '{ low += $1 < -0.9; high += $1 > 0.9; sum += $1; wrong += $1 < -1 || $1 >= 1; n++ }
         END { exit !(n == 1000 && wrong == 0 && low > 20 && high > 20 && sum > -60 && sum < 60) }'
result ':random is uniform in [-1, 1)'
run 0 $saxpy --arg 0 --arg 0 --arg f32[8]:random --arg f32[8]:random -o o.st &&
    [ "$(numbers f4 | cut -d' ' -f2-9)" != "$(numbers f4 | cut -d' ' -f10-17)" ]
result ':random differs between arguments'

put='--grid 1 --block 1 --device emulator'
gives 'an int may be negative' d4 -5 run put32.ptx $put --arg -5 --arg s32[1]:zeros
gives 'an unsigned int' u4 4294967295 run put32.ptx $put --arg 0xffffffff --arg u32[1]:zeros
gives 'a float in 32 bits' f4 0.5 run put32.ptx $put --arg f32:0.5 --arg f32[1]:zeros
gives 'a half of nvcc' x2 3800 run put16.ptx $put --arg f16:0.5 --arg f16[1]:zeros
gives 'bf16' x2 3f00 run put16.ptx $put --arg param_0=bf16:0.5 --arg param_1=bf16[1]:zeros
gives 'a struct by value' u4 2 run putstruct.ptx $put --arg u32[3]:iota --arg u32[1]:zeros
grep -q 'param_1 U32' out && ! grep -q param_0 out
result 'what goes by value is no array of the output'
gives '64 bits' d8 -9223372036854775808 run put64.ptx $put --arg -9223372036854775808 --arg i64[1]:zeros
gives 'a full name of a parameter' u4 7 run put32.ptx $put --arg _Z3put_v_param_0=7 --arg param_1=u32[1]:zeros
gives 'the name in a mangled one' u4 7 run put32.ptx $put --entry put --arg 7 --arg u32[1]:zeros

# ---- run: geometry ------------------------------------------------------------------------------

run 0 run index.ptx --grid 3,2,2 $emulated --arg u32[192]:zeros -o o.st &&
    [ "$(numbers u4 | tr -s ' \n' '\n' | grep .)" = "$(seq 0 191)" ]
result 'three dimensions; .reqntid is the block'
run 0 run index.ptx --grid 3x2x2 --block 4x2x2 $emulated --arg u32[192]:zeros -o o.st --shared 8 &&
    [ "$(numbers u4 | tr -s ' \n' ' ' | cut -d' ' -f2)" = 8000 ]
result '--shared'
works '--cooperative' 'saxpy on' $saxpy --cooperative $four
if command -v jq >/dev/null; then
    run 0 run index.ptx --grid 1,2 $emulated --arg u32[192]:zeros --json -o o.st && [ ! -s err ] &&
        jq -e '.kernel == "index" and .grid == [1,2,1] and .block == [4,2,2] and .emulator and .output == "o.st" and
               .tensors == [{"name": "to", "dtype": "U32", "shape": [192]}] and .seconds >= 0' <out >/dev/null
    result 'run --json'
else
    skip 'run --json' 'no jq'
fi
sed 's/sm_80/sm_110/; s/7\.0/9.0/' saxpy.ptx >thor.ptx
refuses 1 'the emulator has no sm_110: its targets are sm_70, sm_72, ' run thor.ptx --grid 1 --block 4 $emulated $four
PTXGEN_EMU_DEVICE=sm_110
export PTXGEN_EMU_DEVICE
run 1 run thor.ptx --grid 1 --block 4 $emulated $four && grep -q "PTXGEN_EMU_DEVICE='sm_110': wanted" err
result 'a device that the user chose is named as the user did'
unset PTXGEN_EMU_DEVICE
sed 's/sm_80/sm_120/; s/7\.0/8.7/' saxpy.ptx >new.ptx
works 'the emulator is a device for the text' 'saxpy on the emulator (sm_120)' run new.ptx --grid 1 --block 4 $emulated $four

# ---- run: faults --------------------------------------------------------------------------------

refuses 1 'saxpy failed: CUDA_ERROR_ILLEGAL_ADDRESS' $saxpy --arg n=5 --arg a=2 --arg x=f32[4]:iota --arg y=f32[8]:zeros
grep -q 'out of bounds: load of 4 bytes at .*thread (4,0,0), PTX line 23: .*; 0x[0-9a-f]* is the array x$' err
result 'the report names the thread, the line and the array'
refuses 1 'uninitialised' $saxpy --arg n=4 --arg a=2 --arg x=f32[4]:uninitialised --arg y=f32[4]:zeros
grep -q 'never written, read at line 23 of kernel saxpy' err
result 'an array without initial values: its use is reported'
gives 'an array without initial values that is written' u4 7 run put32.ptx --grid 1 --block 1 $emulated --arg 7 \
    --arg u32[1]:uninitialised
refuses 2 ':uninitialised is of arrays in device memory' run putstruct.ptx --grid 1 --block 1 $emulated \
    --arg u32[3]:uninitialised --arg u32[1]:zeros
sed 's/ld.global.f32 %f3, \[%d2\]/ld.global.f32 %f3, [%d2+-4]/' saxpy.ptx >before.ptx
refuses 1 ', 4 bytes before the allocation of 128 bytes at ' run before.ptx --grid 1 --block 4 $emulated --arg 4 --arg 2 \
    --arg f32[32]:iota --arg y=f32[32]:zeros
grep -q '; 0x[0-9a-f]* is the array y$' err
result 'an access before an array names that array, not the one below'
run 0 $saxpy $four --sanitize off && run 0 $saxpy $four --sanitize on
result '--sanitize on and off'
cat >race.ptx <<END
$head
.visible .entry race(.param .u64 to)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<2>;
    .shared .align 4 .b8 s[4];
    mov.u32 %r1, %tid.x;
    st.shared.u32 [s], %r1;
    ld.shared.u32 %r2, [s];
    ld.param.u64 %d1, [to];
    st.global.u32 [%d1], %r2;
    ret;
}
END
race="run race.ptx --grid 1 --block 64 $emulated --arg u32[1]:zeros"
refuses 1 'shared-memory race' $race
run 0 $race --sanitize warn && grep -q 'race' err
result '--sanitize warn goes on, and says what it found'
run 0 $race --sanitize off && [ ! -s err ]
result '--sanitize off'
[ ! -e none.st ]
run 1 $race -o none.st && [ ! -e none.st ]
result 'a fault writes nothing'

sed 's/%dynamic_smem_size/%tid.x/; s/mad.lo.u32 %r3, %r5/st.shared.u32 [room], %r5;\n    mad.lo.u32 %r3, %r5/' index.ptx >shared.ptx
refuses 1 '; --shared BYTES gives a block dynamic shared memory' run shared.ptx --grid 1 $emulated --arg u32[16]:zeros

# ---- run: wrong usage ---------------------------------------------------------------------------

refuses 2 'a name with a . or a / is a file of PTX' run
refuses 2 '--grid is missing: how many blocks?' run saxpy.ptx $emulated $four
refuses 2 '--block is missing: how many threads has a block?' run saxpy.ptx --grid 4 $emulated $four
for grid in 0 4,0 1,1,0; do
    refuses 2 "--grid $grid: a size of 0 launches nothing" run saxpy.ptx --grid $grid --block 1 $emulated $four
done
refuses 2 '--block 0: a size of 0' run saxpy.ptx --grid 1 --block 0 $emulated $four
for grid in x 1,2,3,4 1, -1 1.5 4294967296; do
    refuses 2 'give 1 to 3 numbers' run saxpy.ptx --grid=$grid --block 1 $emulated $four
done
refuses 2 '--grid 1,65536: at most 65535 blocks in y' run saxpy.ptx --grid 1,65536 --block 1 $emulated $four
refuses 2 '--block 1,1,65: at most 64 threads in z' run saxpy.ptx --grid 1 --block 1,1,65 $emulated $four
refuses 2 '--block 32,33: 1056 threads, and a block of this kernel has at most 1024' run saxpy.ptx --grid 1 \
    --block 32,33 $emulated $four
refuses 2 "--block 16: the kernel's .reqntid is 4,2,2" run index.ptx --grid 1 --block 16 $emulated --arg u32[16]:zeros
refuses 2 '--shared 300000: this kernel may have at most 2' $saxpy $four --shared 300000
refuses 2 '--shared '"'1k'"': give a number' $saxpy $four --shared 1k
refuses 2 '--seed '"'x'"': give a number' $saxpy $four --seed x
refuses 2 '--sanitize takes on, warn or off' $saxpy $four --sanitize yes
refuses 2 '--cooperative: 1000000 blocks, and ' run saxpy.ptx --grid 1000000 --block 256 $emulated --cooperative $four
refuses 2 '--entry is missing: both.ptx has saxpy, _Z5indexPj' run both.ptx --grid 1 --block 1 $emulated
refuses 2 '--entry sax: no such kernel; both.ptx has saxpy, _Z5indexPj' run both.ptx --entry sax --grid 1 --block 1 $emulated
works '--entry, mangled' '_Z5indexPj on' run both.ptx --entry index --grid 1 $emulated --arg u32[16]:zeros
refuses 2 '--arg n=NUMBER is missing, --arg y=TYPE[COUNT]:zeros (or a number) is missing' $saxpy --arg a=1 --arg x=f32[1]:zeros
refuses 2 '--arg n is given twice' $saxpy $four --arg n=5
refuses 2 'argument n is given twice: 4 and 5' $saxpy --arg 4 --arg n=5
refuses 2 "--arg 'm=1': no parameter has this name; the kernel's parameters are n (.u32), a (.f32), x (.u64), y (.u64)" \
    $saxpy $four --arg m=1
refuses 2 "--arg '5': one too many" $saxpy --arg 1 --arg 2 --arg 0 --arg 0 --arg 5
refuses 2 'has no name and comes after one that has' $saxpy --arg n=1 --arg 2
for arg in '' = =1 n=; do
    refuses 2 'give it as NAME=VALUE, or as VALUE' $saxpy --arg "$arg"
done
refuses 2 "argument n (.u32): '1.5' is not an integer" $saxpy --arg 1.5 --arg 0 --arg 0 --arg 0
refuses 2 "argument n (.u32): 4294967296 does not fit u32" $saxpy --arg 4294967296 --arg 0 --arg 0 --arg 0
refuses 2 "argument a (.f32): 'one' is not a number" $saxpy --arg 1 --arg one --arg 0 --arg 0
refuses 2 'argument n (.u32): f64 has 8 bytes' $saxpy --arg f64:1 --arg 0 --arg 0 --arg 0
refuses 2 'argument n (.u32): before : stands the type of a number' $saxpy --arg float:1 --arg 0 --arg 0 --arg 0
refuses 2 'argument a (.f32): takes a number, and an array has an address' $saxpy --arg 1 --arg f32[1]:zeros --arg 0 --arg 0
refuses 2 'argument param_0 (12 bytes by value): an array of 8 bytes' run putstruct.ptx $put --arg u32[2]:iota --arg 0
refuses 2 'argument param_0 (12 bytes by value): give its bytes as an array' run putstruct.ptx $put --arg 1 --arg 0
refuses 2 'argument x (.u64): unknown type f31; there are BOOL, u8, s8,' $saxpy --arg 0 --arg 0 --arg f31[4]:zeros --arg 0
refuses 2 "argument x (.u64): ':ones': after ] stands :zeros, :iota, :random, :uninitialised or nothing" $saxpy --arg 0 --arg 0 --arg f32[4]:ones --arg 0
refuses 2 "argument x (.u64): '10 00' is not a count" $saxpy --arg 0 --arg 0 --arg 'f32[10 00]:zeros' --arg 0
refuses 2 'an array has a count: write f32[COUNT]:random' $saxpy --arg 0 --arg 0 --arg f32:random --arg 0
PTXGEN_EMU_MEMORY=1M
export PTXGEN_EMU_MEMORY
refuses 2 'argument y (.u64): an array of 800000 bytes is more than is left of the device'"'s 1048576; PTXGEN_EMU_MEMORY=" \
    $saxpy --arg 0 --arg 0 --arg f32[200000]:zeros --arg f32[200000]:zeros
unset PTXGEN_EMU_MEMORY
for count in 3000000000 3000000000000000; do
    refuses 2 'argument x (.u64): an array of ' $saxpy --arg 0 --arg 0 --arg f32[$count]:random --arg 0
done
for end in npy npz; do
    refuses 2 "--output o.$end: the output is a safetensors file: name it .safetensors" run ./none.ptx -o o.$end
done
refuses 2 'between [ and ] stand numbers' $saxpy --arg 0 --arg 0 --arg f32[]:zeros --arg 0
refuses 2 'between [ and ] stand numbers' $saxpy --arg 0 --arg 0 --arg f32[-1]:zeros --arg 0
refuses 2 'the ] is missing' $saxpy --arg 0 --arg 0 --arg f32[1:zeros --arg 0
refuses 2 'more elements than memory can have' $saxpy --arg 0 --arg 0 --arg f32[4294967296,4294967296]:zeros --arg 0
refuses 2 'more than 8 dimensions' $saxpy --arg 0 --arg 0 --arg f32[1,1,1,1,1,1,1,1,1]:zeros --arg 0
refuses 2 'F8_E4M3 has no :random' $saxpy --arg 0 --arg 0 --arg f8_e4m3[4]:random --arg 0
refuses 2 'its elements are missing: :zeros, :iota, :random, or -i FILE with an array x' $saxpy --arg 0 --arg 0 --arg f32[4] --arg 0
refuses 2 "'z' is neither a number nor an array as f32[1000]:zeros, and there is no -i" $saxpy --arg 0 --arg 0 --arg z --arg 0
refuses 2 "no array 'z' in in.st" $saxpy -i in.st --arg 0 --arg 0 --arg z --arg 0
refuses 2 "argument x (.u64): the file's array is F32 with 4 elements, not F32 with 5" $saxpy -i in.st --arg 0 --arg 0 \
    --arg f32[5] --arg 0
refuses 2 "the file's array is F32 with 4 elements, not U32 with 4" $saxpy -i in.st --arg 0 --arg 0 --arg u32[4] --arg 0
cp in.st again.st
refuses 2 "two files have an array 'x'" $saxpy -i in.st -i again.st --arg 0 --arg 0
refuses 2 'two arrays of the name x: arguments x and y would be one array of the output; give one of them by a copy' $saxpy -i in.st --arg 0 --arg 0 --arg x --arg x
refuses 2 '--output o.st: no argument is an array' $saxpy --arg 0 --arg 0 --arg 0 --arg 0 -o o.st
refuses 2 '--output saxpy.ptx is a file that is read' $saxpy $four -o saxpy.ptx
refuses 2 '--output in.st is a file that is read' $saxpy -i in.st --arg 0 --arg 0 -o in.st
ln -s in.st other.st
refuses 2 '--output other.st is a file that is read' $saxpy -i in.st --arg 0 --arg 0 -o other.st
refuses 2 'standard input is one file' run - -i - --grid 1 --block 1 $emulated
refuses 1 'none/o.st: No such file' $saxpy $four -o none/o.st
refuses 1 'cannot read ./none.ptx: No such file' run ./none.ptx --grid 1 --block 1 $emulated
refuses 1 'cannot read none.st' $saxpy $four -i none.st
refuses 1 'is it a safetensors file?' $saxpy $four -i saxpy.ptx
refuses 1 'in.st: no .target: is this PTX text? nvcc -ptx and NVRTC make it of CUDA C++' run in.st --grid 1 --block 1 $emulated
refuses 2 '--device takes a number' run saxpy.ptx --grid 1 --block 1 --device x
refuses 2 'a file of PTX takes no --set' $saxpy $four --set a=1
for option in '--entry x' '--grid 1' '--block 1' '--shared 1' --cooperative '--arg 1' '--seed 1' '--sanitize on'; do
    # The words of $option must be split.
    refuses 2 "a kernel of ptxgen takes no ${option% *}; a name with a . or a / is a file of PTX" run squared_sum -i in.st -o o.st $option
done
sed 's/mul.wide.u32/mul.wode.u32/; s/add.u64 %d1/addx.u64 %d1/' saxpy.ptx >wrong.ptx
run 1 run wrong.ptx --grid 1 --block 1 $emulated $four && grep -q "^wrong.ptx:20:8: error: Unknown modifier '.wode'" err &&
    grep -q "^wrong.ptx:21:5: error: Not a name of any known instruction: 'addx'" err
result 'a refused module: file, line and column of each error'
PTXGEN_EMULATOR=/nonexistent/emulator.so
refuses 77 'PTXGEN_EMULATOR' $saxpy $four
PTXGEN_LIBCUDA=$fake_libcuda
export PTXGEN_LIBCUDA
refuses 2 '--sanitize is of the emulator: add --device emulator, or on a GPU run compute-sanitizer' run saxpy.ptx --grid 1 \
    --block 1 --sanitize on $four
unset PTXGEN_LIBCUDA
PTXGEN_EMULATOR=$emulator
CUDA_VISIBLE_DEVICES=''
export CUDA_VISIBLE_DEVICES
run 0 run saxpy.ptx --grid 4 --block 256 $four -o o.st && grep -q 'on the emulator' out && [ "$(numbers f4)" = ' 0 1 2 3 0 2 4 6' ]
result 'run without --device and without a GPU: on the emulator'
"$ptxgen" run - --grid 4 --block 256 $four -o o.st <saxpy.ptx >out 2>err && [ "$(numbers f4)" = ' 0 1 2 3 0 2 4 6' ]
result 'the same with the text from standard input'
unset CUDA_VISIBLE_DEVICES

# ---- .npy ---------------------------------------------------------------------------------------

# npy FILE DESCR ORDER SHAPE: writes a header of NumPy's format, and after it standard input
npy() {
    header="{'descr': '$2', 'fortran_order': $3, 'shape': ($4), }"
    {
        printf '\223NUMPY\001\000'
        byte $((${#header} + 1))
        byte 0
        printf '%s\n' "$header"
        cat
    } >"$1"
}
printf '\000\000\200\077\000\000\000\100' | npy x.npy '<f4' False '2,'
gives 'an array of NumPy, named as its file' f4 '1 2 3 6' $saxpy -i x.npy --arg 2 --arg 3 --arg y=f32[2]:zeros
printf '\000\000\200\077\000\000\000\100' | npy y.npy '<f4' True '2,'
gives 'two of them; the order of one dimension is no matter' f4 '1 2 4 8' $saxpy -i x.npy -i y.npy --arg 2 --arg 3
printf 'abc' | npy b.npy '|i1' False '1, 3'
gives 'bytes, in two dimensions' c 'a b c' $saxpy -i b.npy --arg 0 --arg 0 --arg b --arg 0
printf '\000\000\200\077' | npy s.npy '<f4' False ''
gives 'a number as an array' f4 1 $saxpy -i s.npy --arg 0 --arg 0 --arg s --arg 0
grep -qF 's F32 []' out
result 'its shape is empty'
printf '\000\000\200\077\000\000\000\100' | npy w.npy '>f4' False '2,'
refuses 1 "w.npy: big-endian" $saxpy -i w.npy --arg 0 --arg 0 --arg w --arg 0
printf '12345678' | npy w.npy '<f4' True '1, 2'
refuses 1 "w.npy: in Fortran order; save numpy.ascontiguousarray" $saxpy -i w.npy --arg 0 --arg 0 --arg w --arg 0
header="{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,), }"
{
    printf '\223NUMPY\001\000'
    byte ${#header}
    byte 0
    printf '%s' "$header" 12345678
} >w.npy
refuses 1 "w.npy: elements of a structured type; save array.view('u1')" $saxpy -i w.npy --arg 0 --arg 0 --arg w --arg 0
printf 'PK\003\004 and more' >w.npz
refuses 1 'w.npz: an .npz is an archive: save one array as .npy' $saxpy -i w.npz --arg 0 --arg 0 --arg w --arg 0
printf '12345678' | npy w.npy '|O' False '1,'
refuses 1 "w.npy: elements of type '|O'; there are" $saxpy -i w.npy --arg 0 --arg 0 --arg w --arg 0
printf '1234567' | npy w.npy '<f4' False '2,'
refuses 1 'w.npy: 7 bytes of data, which is not what its type and shape take' $saxpy -i w.npy --arg 0 --arg 0 --arg w --arg 0
for shape in '2' '4294967296, 4294967296, 4294967296' '99999999999999999999,' '-2,' '2 2' 'x'; do
    printf '12345678' | npy w.npy '<f4' False "$shape"
    run 1 $saxpy -i w.npy --arg 0 --arg 0 --arg w --arg 0 || [ "$shape" = 2 ]
    result "the shape ($shape)"
done
for header in "{'descr': '<f4', 'fortran_order': False}" "{'descr': '<f4', 'descr': '<f4', 'shape': (), 'fortran_order': False}" \
    "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}" "{'descr': '<f4" "" "{" "{'color': 'red'}"; do
    {
        printf '\223NUMPY\001\000'
        byte ${#header}
        byte 0
        printf '%s' "$header"
        printf 1234
    } >w.npy
    refuses 1 'w.npy: the header of the .npy file is damaged' $saxpy -i w.npy --arg 0 --arg 0 --arg w --arg 0
done
for bytes in 6 7 8 9 10 60; do
    head -c $bytes x.npy >w.npy
    refuses 1 'w.npy: ' $saxpy -i w.npy --arg 0 --arg 0 --arg w --arg 0
done
if python3 -c 'import numpy' 2>/dev/null; then
    python3 -c 'import numpy as np; np.save("n.npy", np.arange(6, dtype=np.int16).reshape(2, 3))'
    gives 'what numpy.save() writes' d2 '0 1 2 3 4 5' $saxpy -i n.npy --arg 0 --arg 0 --arg n --arg 0
else
    skip 'what numpy.save() writes' 'no numpy for python3'
fi

# ---- check --------------------------------------------------------------------------------------

# A ptxas that refuses nothing, and one that refuses everything.
mkdir yes no
printf '#!/bin/sh\nexit 0\n' >yes/ptxas
printf '#!/bin/sh\ngrep -q probe "$4" && exit 0\necho "not this one"\nexit 255\n' >no/ptxas
chmod +x yes/ptxas no/ptxas
real_path=$PATH
PATH=$work/yes:$real_path
works 'check: the emulator and ptxas' "accepted by the emulator's parser: saxpy.ptx" check saxpy.ptx
grep -q '^1 accepted, 0 refused, 0 skipped by .*yes/ptxas' out
result 'check: ptxas beside it'
run 1 check wrong.ptx && grep -q "^    wrong.ptx:20:8: error: Unknown modifier" out && grep -q "^    line 20 is: " out &&
    grep -q '^    correct the text' out && grep -q "wrong.ptx: refused by the emulator's parser" err
result 'check: line, column, and what to do'
"$ptxgen" check - <wrong.ptx >out 2>err
[ $? -eq 1 ] && grep -q '^    -:20:8: error: ' out
result 'check: standard input'
printf '.version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n    tcgen05.wait::ld.sync.aligned;\n    ret;\n}\n' >lacks.ptx
works 'check: what the emulator lacks and ptxas takes' "not supported by the emulator's parser: lacks.ptx" check lacks.ptx
grep -q "lacks.ptx:6:5: error: Instruction 'tcgen05' is not supported by the emulator" out &&
    grep -q '^    load it on a GPU, or write it without that: ' out
result 'check: names what it lacks'
works 'check: what the emulator does not emulate, by ptxas' "not supported by the emulator's parser: thor.ptx" check thor.ptx
grep -q '^    the emulator has no sm_110: its targets are sm_70, ' out && grep -q '^1 accepted, ' out
result 'check: the targets that it has'
cp saxpy.ptx kern
refuses 2 'the file of this name is ./kern' check kern
refuses 2 'the file of this name is ./kern' run kern -i in.st -o o.st
works 'check: for which targets the parser accepts' "parser: saxpy.ptx for sm_80 and newer" check saxpy.ptx --target sm_90
works 'check --target all: the same' "parser: saxpy.ptx for sm_80 and newer" check saxpy.ptx --target all
sed 's/sm_80/sm_90a/; s/7\.0/8.0/' saxpy.ptx >own.ptx
works 'check: for one target' "parser: own.ptx for sm_90a" check own.ptx
works 'check --target all: for one target' "parser: own.ptx for sm_90a" check own.ptx --target all
refuses 1 "own.ptx: refused by the emulator's parser" check own.ptx --target sm_90
refuses 1 "saxpy.ptx: refused by the emulator's parser" check saxpy.ptx --target sm_75
grep -q 'its .target is sm_80, and the text is for sm_80 and newer, not for sm_75: compile it for sm_75' out
result 'check: why it is not for an older target'
printf '#!/bin/sh\necho "ptxas: error while loading shared libraries"\nexit 127\n' >no/ptxas
PATH=$work/no:$real_path
refuses 1 "does not work: it refuses an empty kernel: 'ptxas: error while loading" check saxpy.ptx
printf '#!/bin/sh\necho "Unsupported .version 7.0"\nexit 255\n' >no/ptxas
works 'check: a version that ptxas does not know' 'unknown to this ptxas: sm_80 in .version 7.0' check saxpy.ptx
printf '#!/bin/sh\ngrep -q probe "$4" && exit 0\necho "not this one"\nexit 255\n' >no/ptxas
refuses 1 '1 of 1 text refused' check saxpy.ptx
refuses 1 '1 of 1 text refused' check lacks.ptx
if command -v jq >/dev/null; then
    PATH=$work/yes:$real_path
    run 1 check wrong.ptx --json && jq -e '.emulator.result == "refused" and (.emulator.log | contains("20:8")) and
        .accepted == 1' <out >/dev/null
    result 'check --json has the parser'
    run 0 check saxpy.ptx --json && jq -e '.emulator == {"result": "accepted", "targets": "sm_80 and newer"}' <out >/dev/null
    result 'check --json where both accept'
else
    skip 'check --json has the parser' 'no jq'
fi
PATH=$work/yes:$real_path
PTXGEN_EMULATOR=/nonexistent/emulator.so
works 'check: ptxas alone' "not parsed by the emulator's parser: saxpy.ptx" check saxpy.ptx
PTXGEN_EMULATOR=$emulator
PATH=$real_path
if [ -x /usr/local/cuda/bin/ptxas ]; then
    skip 'check without ptxas' 'there is a ptxas in /usr/local/cuda/bin'
else
    # Until the end there are only the shell's own commands: no program is found.
    CUDA_HOME='' PATH=/nonexistent "$ptxgen" check saxpy.ptx >out 2>err
    [ $? -eq 0 ] && IFS= read -r line <out && [ "$line" = "accepted by the emulator's parser: saxpy.ptx for sm_80 and newer" ] &&
        { read -r line && read -r line; } <out && [ "${line#no ptxas in PATH}" != "$line" ]
    result 'check without ptxas: the parser alone, and that it is alone'
    CUDA_HOME='' PATH=/nonexistent "$ptxgen" check lacks.ptx >out 2>err
    [ $? -eq 1 ] && result 'check without ptxas: what the emulator lacks is refused'
fi

finish

#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The ptxgen command from end to end: every subcommand, every exit status, every kind of refusal.
# Prints TAP. Needs neither a GPU nor ptxas: the fake libcuda, the emulator and a shell script replace
# them.
#
# usage: test_cli.sh PTXGEN FAKE_LIBCUDA EMULATOR

. "$(dirname "$0")/cli_tap.sh"

# ---- help, version, names -----------------------------------------------------------------------

works 'help' 'usage: ptxgen COMMAND' --help
works 'help, the command' 'usage: ptxgen COMMAND' help
works 'version' 'ptxgen 0.' --version
works '-V' 'ptxgen 0.' -V
for command in list info emit check run clip devices completion; do
    works "help of $command" "usage: ptxgen $command" $command --help
    run 0 help $command && mv out helped && run 0 $command -h && cmp -s out helped
    result "help $command is $command --help"
    works "version of $command" 'ptxgen 0.' $command --version
    works "-V of $command" 'ptxgen 0.' $command -V
    refuses 2 "did you mean --version?" $command --vrsion
    refuses 2 "unknown option '-z'" $command -z
done
run 2
grep -q 'no command given' err
result 'status 2 without a command'
refuses 2 "unknown command 'emti': did you mean 'emit'?" emti
refuses 2 "unknown command 'emti': did you mean 'emit'?" help emti
refuses 2 'help takes one command' help emit clip

# ---- list, info ---------------------------------------------------------------------------------

kernels='squared_sum clip_scale_reduce gradient_clip_from_device_scale quantize_ste_backward
         quantize_channel_ste_backward lerp_backward'
for kernel in $kernels; do
    works "list names $kernel" "$kernel" list
    works "list --json names $kernel" "\"name\": \"$kernel\"" list --json
    works "info $kernel" "parameters of ${kernel}_f32" info "$kernel"
    works "info $kernel --json" "\"entry\": \"${kernel}_f64\"" info "$kernel" --json --dtype f64
done
for kernel in loss_scale_update cast_fp8 delayed_scale_update; do
    works "list names $kernel" "$kernel" list
    works "info $kernel" "parameters of ${kernel}_f32" info "$kernel"
done
run 0 list && grep -Eq '^step +f16 bf16 f32 +a plan: ' out && grep -Eq '^clip +f16 bf16 f32 f64 +a plan: ' out
result 'list names the plans'
run 0 list --json && tr -d '\n ' <out | grep -qF '"name":"step"' && [ "$(grep -c '"kind": "plan"' out)" -eq 2 ] &&
    [ "$(grep -c '"kind": "kernel"' out)" -eq "$(($("$ptxgen" list | wc -l) - 2))" ]
result 'list --json tells plans from kernels'
refuses 2 'step is a plan: info and emit take it; ptxgen emit step | ptxgen check -' check step
refuses 2 'clip is a plan: info and emit take it; ptxgen emit clip | ptxgen check -' check clip
refuses 2 'step is a plan: info and emit take it' run step -i x.st -o o.st
refuses 2 "unknown kernel 'saxpy': ptxgen list names them" run saxpy
works 'info names the format of codes' 'codes of x * scale; e5m2' info cast_fp8 --set format=e5m2
works 'info shows options' 'exact | reciprocal' info quantize_ste_backward
works 'info shows presets' 'usually 127' info quantize_ste_backward --set target=any
works 'info shows bounds by name' 'q_max or less' info quantize_ste_backward --set target=any
works 'info shows the launch' '16384 elements, or with 4096 where n is 4194304 or less' info squared_sum
works 'info shows the accumulator' 'accumulator: f64' info squared_sum
if command -v jq >/dev/null; then
    run 0 list --json && jq -e 'length >= 5' <out >/dev/null
    result 'list --json is JSON'
    run 0 info squared_sum --json &&
        jq -e '.parameters[2].length == "blocks" and .launch.chunk == 16384' <out >/dev/null
    result 'info --json is JSON'
    jq -e '.launch.short_chunk == 4096 and .launch.short_most == 4194304' <out >/dev/null
    result 'info --json has the short chunk'
    run 0 info quantize_channel_ste_backward --json &&
        jq -e '.launch.chunk == 4096 and (.launch | has("short_chunk") | not)' <out >/dev/null
    result 'info --json has a short chunk where there is one'
else
    skip 'JSON is JSON' 'no jq'
fi
refuses 2 'which kernel?' info
refuses 2 "unexpected argument 'x'" list x
refuses 2 '--json takes no argument' list --json=1

# ---- emit ---------------------------------------------------------------------------------------

works 'emit has defaults' '.target sm_80' emit squared_sum
works 'emit writes the least version' '.version 7.0' emit squared_sum
works 'emit --dtype' '.entry lerp_backward_bf16(' emit lerp_backward --dtype bf16
works 'emit --target' '.target sm_90a' emit squared_sum --target sm_90a
works 'emit --isa' '.version 8.0' emit squared_sum --isa 8.0
works 'emit --name=value' '.entry squared_sum_f64(' emit squared_sum --dtype=f64
for rule in adamw adam sgd lion; do
    for format in full state_bf16 master remainder stochastic state_8bit state_f16; do
        works "emit step: $rule, $format" '.entry step_apply(' emit step --set rule=$rule \
            --set format=$format
    done
done
works 'emit step --target' '.target sm_90' emit step --target sm_90
run 0 emit step && mv out default && run 0 emit step --set rule=adamw --set format=full \
    --dtype f32 -o step.ptx && cmp -s step.ptx default
result 'emit step has defaults, and -o'
for choice in rule=lion format=remainder gradient=bf16 gradients=zero maximize=yes; do
    run 0 emit step --set $choice && ! cmp -s out default
    result "emit step --set $choice chooses"
done
run 0 emit step --set rule=sgd && mv out default && run 0 emit step --set rule=sgd \
    --set momentum=no && ! cmp -s out default
result 'emit step: SGD without momentum'
run 0 emit clip && mv out default && run 0 emit clip --set nonfinite=propagate --dtype f32 && cmp -s out default
result 'emit clip has defaults'
for choice in nonfinite=zero loss_scale=read loss_scale=update reports=yes; do
    run 0 emit clip --set $choice && ! cmp -s out default
    result "emit clip --set $choice chooses"
done
works 'info clip shows options' 'propagate | skip | zero' info clip
works 'info clip shows bytes' '12 read and written' info clip
works 'info clip shows bytes of what is measured' '4 read and written' info clip --set gradients=raw
works 'info clip --json' '"name": "clip"' info clip --json
refuses 2 "unknown option 'rule'" info clip --set rule=adam
refuses 2 'u32' emit clip --dtype u32
works 'info step shows options' 'full | state_bf16 | master | remainder | stochastic | state_8bit | state_f16' info step
works 'info step shows bytes' '28 read and written' info step --set format=remainder
works 'info step shows bytes of absmax' '12.06 read and written' info step --set format=state_8bit
works 'info step --json' '"bytes_per_element": 32.0' info step --json
refuses 2 "unknown value of option rule 'adagrad': there is adamw" emit step --set rule=adagrad
refuses 2 "unknown option 'rul': did you mean 'rule'?" emit step --set rul=adam
refuses 2 'format REMAINDER takes a parameter of bf16' emit step --set format=remainder --dtype f16
refuses 2 "there is no dtype 'float'" info step --dtype float
refuses 2 'nesterov is set, and its rule, adamw, has no such option' info step --set nesterov=yes
works 'emit -- KERNEL' '.entry squared_sum_f32(' emit -- squared_sum
run 0 emit quantize_ste_backward && mv out default &&
    run 0 emit quantize_ste_backward --set division=reciprocal && ! cmp -s out default
result 'emit --set chooses'
run 0 emit squared_sum -o file.ptx && [ ! -s out ] && run 0 emit squared_sum && cmp -s out file.ptx
result 'emit -o writes what standard output gets'
run 0 emit squared_sum -ofile2.ptx && cmp -s file.ptx file2.ptx
result 'emit -oFILE'
ln -s file.ptx link.ptx
run 0 emit squared_sum --dtype f16 -o link.ptx && [ -L link.ptx ] && grep -q f16 file.ptx
result 'emit -o keeps a symbolic link'
run 0 emit --all -o all && [ "$(ls all | wc -l)" -ge 23 ] && [ -s all/lerp_backward.bf16.ptx ] &&
    run 0 emit clip_scale_reduce --dtype f64 && cmp -s out all/clip_scale_reduce.f64.ptx
result 'emit --all'
run 0 emit --all -o all && ! ls all | grep -q tmp
result 'emit --all writes over what is there, and leaves nothing else'
# Lines of the kernels: of files that are there, of the call that wrote the instruction, beside the same text.
if [ "$PTXGEN_LINE_INFO" = true ]; then
    run 0 emit cast_fp8 && mv out plain
    run 0 emit cast_fp8 --line-info --source-folder "$sources" && mv out lines &&
        sed -n 's/^\.file [0-9]* "\(.*\)"$/\1/p' lines >files &&
        [ "$(grep -c "^$sources/src/kernels/" files)" -ge 4 ] &&
        while read -r file; do
            [ -f "$file" ] || echo "no file $file"
        done <files >err && [ ! -s err ] &&
        grep -v '^ *\.loc \|^\.file ' lines | cat -s >out && cat -s plain | cmp -s - out
    result 'emit --line-info: files that are there, and no other instruction'
    grep -B 1 -m 1 'shfl.sync' lines >loc && read -r _ file line _ <loc
    file=$(sed -n "s/^\.file $file \"\(.*\)\"$/\1/p" lines)
    sed -n "${line}p" "$file" >out && grep -q ptx_shfl_down out && ! grep -q '\.loc [0-9]* 0 ' lines
    result 'emit --line-info: the line is that of the call'
    works 'emit --line-info: without a folder' '.file 1 "src/kernels/' emit cast_fp8 --line-info
    works 'emit step --line-info' 'src/kernels/step/rules/lion.c"' emit step --set rule=lion --line-info
    run 0 emit --all -o lines_of_all --line-info && [ "$(grep -l '^\.file' lines_of_all/*.ptx | wc -l)" -ge 23 ]
    result 'emit --all --line-info'
    rm -r lines_of_all
    run 0 emit squared_sum --line-info --target sm_90 -o lines.ptx &&
        PTXGEN_EMULATOR=$emulator PTXGEN_LIBCUDA=$emulator "$ptxgen" check ./lines.ptx >out 2>err &&
        grep -q "^accepted by the emulator's parser" out
    result 'emit --line-info: the emulator reads it'
else
    refuses 2 "built without the lines of its kernels; meson's -Dline_info=true has them" emit cast_fp8 --line-info
    refuses 2 'built without the lines' emit --all -o all --line-info
    refuses 2 'built without the lines' check cast_fp8 --line-info
    refuses 2 'built without the lines' run cast_fp8 -i x.st -o o.st --line-info
fi
refuses 2 '--source-folder goes with --line-info' emit cast_fp8 --source-folder /
refuses 2 'which kernel?' emit
refuses 2 "unknown kernel 'squard_sum': did you mean 'squared_sum'?" emit squard_sum
refuses 2 "unknown kernel 'nothing_of_the_kind': ptxgen list names them" emit nothing_of_the_kind
refuses 2 'choose f32, f64' emit clip_scale_reduce --dtype f16
refuses 2 "has no dtype 'float'" emit squared_sum --dtype float
refuses 2 "unknown target 'sm_81'" emit squared_sum --target sm_81
refuses 2 "unknown target ''" emit squared_sum --target ''
for isa in 8 8. .0 8.00 a.b -8.0 ''; do
    refuses 2 'is no PTX ISA version' emit squared_sum --isa "$isa"
done
refuses 2 "'7.0' is below 7.8, the least PTX ISA version that has sm_90" emit squared_sum \
    --target sm_90 --isa 7.0
refuses 2 "there is no PTX ISA version '7.9'" emit squared_sum --isa 7.9
refuses 2 "'8.6' is below 8.8, the least PTX ISA version that has sm_100f" emit --all \
    --target sm_100f --isa 8.6 -o refused
[ ! -e refused ]
result 'no folder for a version that is refused'
refuses 2 "unknown option 'division': there is partials" emit squared_sum --set division=exact
refuses 2 "unknown value of option partials 'f16': there is f64, f32" emit squared_sum \
    --set partials=f16
refuses 2 'give it as name=value' emit squared_sum --set partials
refuses 2 'give it as name=value' emit squared_sum --set =f32
refuses 2 '--dtype is given twice' emit squared_sum --dtype f16 --dtype f32
refuses 2 '--output needs an argument' emit squared_sum -o
refuses 2 '--all takes no kernel' emit --all squared_sum -o all
refuses 2 '--all needs a folder' emit --all
for stdout in - /dev/stdout /dev/fd/1; do
    refuses 2 "name a folder, as -o FOLDER: --all writes a file for each kernel and type, and $stdout is" \
        emit --all -o $stdout
done
[ ! -e - ]
result 'emit --all makes no folder of the name -'
run 0 emit --all -o ./- && [ -s ./-/squared_sum.f32.ptx ] && rm -r ./-
result 'emit --all -o ./-'
refuses 1 'No such file or directory' emit squared_sum -o none/file.ptx
refuses 1 'cannot make the folder' emit --all -o none/all
refuses 1 'cannot write' emit --all -o file.ptx
refuses 2 "'\\x1b[2J'" emit "$(byte 27)[2J"
if [ -w /dev/full ]; then
    refuses 1 '/dev/full: No space left' emit squared_sum -o /dev/full
    for command in list 'emit squared_sum' 'info squared_sum'; do
        # The words of $command must be split.
        "$ptxgen" $command >/dev/full 2>err
        [ $? -eq 1 ] && grep -q 'standard output: No space left' err
        result "status 1 when standard output is full: $command"
    done
else
    skip 'full disk' 'no /dev/full'
fi

# ---- check --------------------------------------------------------------------------------------

# A ptxas that does not know one target, and refuses one kind of text.
mkdir bin
cat >bin/ptxas <<'SCRIPT'
#!/bin/sh
case $1 in -arch=sm_70) echo "ptxas fatal : Value 'sm_70' is not defined" && exit 1 ;; esac
if grep -q 'lerp_backward_f64' "$4"; then
    echo 'ptxas input.ptx, line 1; error : not this one'
    exit 255
fi
echo "$3" >/dev/null
SCRIPT
chmod +x bin/ptxas
real_path=$PATH
mkdir tmp
TMPDIR=$work/tmp
export TMPDIR
PATH=$work/bin:$real_path
works 'check a kernel: each dtype and option' '8 accepted, 0 refused, 0 skipped' check squared_sum
works 'check --dtype' '2 accepted' check squared_sum --dtype f32
works 'check --set' '4 accepted' check squared_sum --set partials=f32
[ "$PTXGEN_LINE_INFO" != true ] ||
    works 'check --line-info' '8 accepted, 0 refused, 0 skipped' check squared_sum --line-info
works 'check -v' 'accepted squared_sum.f32 partials=f32 sm_90a' check squared_sum -v --target sm_90a
works 'check --target all' 'unknown to this ptxas: sm_70' check squared_sum --target all
refuses 1 'texts refused' check --all
run 1 check lerp_backward && grep -q 'not this one' out && grep -q 'refused lerp_backward.f64' out
result 'check shows what ptxas said'
refuses 77 'does not know sm_70' check squared_sum --target sm_70
works 'check a file' '1 accepted' check ./file.ptx
works 'check a file for newer targets' 'accepted file.ptx sm_90a' check file.ptx --target all -v
run 0 emit squared_sum --target sm_90a -o a.ptx && run 0 check a.ptx --target all &&
    grep -q '^1 accepted' out
result 'check a file for one architecture for that one alone'
"$ptxgen" emit squared_sum | "$ptxgen" check - >out 2>err && grep -q '^1 accepted' out
result 'check standard input'
if command -v jq >/dev/null; then
    run 0 check squared_sum --dtype f32 --target all --json && [ ! -s err ] &&
        jq -e '.refused == 0 and .skipped == 2 and .accepted == (.texts | length) - 2 and
               .texts[0].name == "squared_sum.f32 partials=f64 sm_70" and
               .texts[0].result == "skipped" and .texts[0].unknown == "sm_70" and
               .texts[2].result == "accepted" and (.ptxas | endswith("bin/ptxas"))' <out >/dev/null
    result 'check --json'
    run 1 check lerp_backward --json && [ "$(wc -l <err)" -eq 1 ] &&
        jq -e '.refused > 0 and any(.texts[]; .result == "refused" and (.log | contains("not this one")))' \
            <out >/dev/null
    result 'check --json has what ptxas said'
else
    skip 'check --json' 'no jq'
fi
refuses 1 './none.ptx: No such file' check ./none.ptx
refuses 1 'no .target' check bin/ptxas
refuses 2 'check what?' check
refuses 2 "unknown kernel 'none'" check none
refuses 2 "unknown target 'sm_1'" check squared_sum --target sm_1
refuses 2 'unknown option' check squared_sum --set x=y
refuses 2 'a file takes no --dtype' check file.ptx --dtype f32
refuses 2 '--all takes no kernel' check --all squared_sum
refuses 2 '--source-folder goes with --line-info' check squared_sum --source-folder /
[ "$PTXGEN_LINE_INFO" != true ] || refuses 2 'it has its own lines' check ./file.ptx --line-info
TMPDIR=$work/none
works 'check needs no folder for files' '8 accepted' check squared_sum
TMPDIR=$work/tmp
printf '#!/bin/sh\nkill -TERM $PPID\n' >bin/ptxas
"$ptxgen" check squared_sum >out 2>err
[ $? -eq 143 ] && [ -z "$(ls tmp)" ]
result 'check leaves no files behind, ended by a signal too'
PATH=$real_path
if [ -x /usr/local/cuda/bin/ptxas ]; then
    skip 'status 77 without ptxas' 'there is a ptxas in /usr/local/cuda/bin'
else
    # Until the next heading there are only the shell's own commands: no program is found.
    CUDA_HOME='' PATH=/nonexistent "$ptxgen" check squared_sum >out 2>err
    [ $? -eq 77 ] && grep -q 'no ptxas in PATH' err
    result 'status 77 without ptxas'
fi
run 0 check squared_sum
case $? in
0) [ ! -s err ] && result 'check by the real ptxas' ;;
*) if grep -q 'no ptxas' err; then
    skip 'check by the real ptxas' 'no ptxas'
else
    false
    result 'check by the real ptxas'
fi ;;
esac

# ---- run: what is refused before there is a GPU -------------------------------------------------

tensors x.st 24 "{\"__metadata__\":{\"from\":\"a test\"},$(entry x F32 2,3 0 24)}"
tensors x64.st 24 "{$(entry x F64 3 0 24)}"
tensors empty.st 0 "{$(entry x F16 0,5 0 0)}"
tensors i32.st 16 "{$(entry x I32 4 0 16)}"
tensors p.st 16 "{$(entry partials F64 2 0 16)}"
tensors q.st 16 "{$(entry x F16 4 0 8),$(entry d_output F16 2,2 8 16)}"
tensors mixed.st 24 "{$(entry x F16 4 0 8),$(entry d_output F32 4 8 24)}"
tensors uneven.st 18 "{$(entry x F16 4 0 8),$(entry d_output F16 5 8 18)}"
tensors g.st 0 "{$(entry gradient BF16 2,4 0 16),$(entry record F32 1 16 20)}"
printf 'abcdefghijklmnop1234' >>g.st
tensors broken.st 8 "{$(entry x F32 3 0 8)}"
tensors l.st 32 "{$(entry d_output F64 4 0 32)}"

refuses 2 'which kernel?' run
refuses 2 '--input FILE is missing' run squared_sum --output o.st
refuses 2 '--output FILE is missing' run squared_sum --input x.st
refuses 2 'a file of PTX takes no --line-info' run ./x.ptx --line-info
refuses 2 '--source-folder goes with --line-info' run squared_sum -i x.st -o o.st --source-folder /
refuses 2 'did you mean' run squared_sun -i x.st -o o.st
refuses 2 '--device takes a number' run squared_sum -i x.st -o o.st --device -1
refuses 2 '--device takes a number' run squared_sum -i x.st -o o.st --device 1x
refuses 2 "unknown option or value 'max_nrm'" run clip_scale_reduce -i p.st -o o.st --set max_nrm=1
refuses 2 "there is value, device" run clip_scale_reduce -i p.st -o o.st --set max_norm=dvice
refuses 2 "'1.5.0' is not a number" run clip_scale_reduce -i p.st -o o.st --set max_norm=1.5.0
refuses 2 'x is a tensor' run squared_sum -i x.st -o o.st --set x=1
refuses 2 '--set max_norm is given twice' run clip_scale_reduce -i p.st -o o.st \
    --set max_norm=1 --set max_norm=2
refuses 2 'is given twice' run clip_scale_reduce -i p.st -o o.st --set nonfinite=skip \
    --set nonfinite=zero
refuses 2 'max_norm is not given: --set max_norm=VALUE' run clip_scale_reduce -i p.st -o o.st
refuses 2 'max_norm must not be NaN' run clip_scale_reduce -i p.st -o o.st --set max_norm=nan
refuses 2 'max_norm must not be below 0' run clip_scale_reduce -i p.st -o o.st --set max_norm=-1
refuses 2 'eps must be finite' run clip_scale_reduce -i p.st -o o.st --set max_norm=1 --set eps=inf
refuses 2 "'1e39' is beyond the range of f32" run clip_scale_reduce -i p.st -o o.st \
    --set max_norm=1e39
refuses 2 'scale must be above 0' run quantize_ste_backward -i q.st -o o.st --set scale=0
refuses 2 'zero_point must be 127 or less' run quantize_ste_backward -i q.st -o o.st \
    --set scale=1 --set zero_point=128
refuses 2 '1.5' run quantize_ste_backward -i q.st -o o.st --set scale=1 --set zero_point=1.5
refuses 2 'does not fit s32' run quantize_ste_backward -i q.st -o o.st --set scale=1 \
    --set zero_point=2147483648
refuses 2 'q_m' run quantize_ste_backward -i q.st -o o.st --set scale=1 --set target=any \
    --set q_min=5 --set q_max=4
refuses 1 'none.st: No such file' run squared_sum -i none.st -o o.st
refuses 1 'not a regular file' run squared_sum -i tmp -o o.st
refuses 1 "tensor 'x': data_offsets [0, 8]" run squared_sum -i broken.st -o o.st
refuses 1 "has no tensor 'x'; it has 'partials'" run squared_sum -i p.st -o o.st
refuses 1 "'x' is I32, but squared_sum takes F16 or BF16 or F32 or F64" run squared_sum -i i32.st \
    -o o.st
refuses 1 "'d_output' is F32" run quantize_ste_backward -i mixed.st -o o.st --set scale=1
refuses 1 "'d_output' has 5 elements, but n is 4, as tensor 'x' has it" run quantize_ste_backward \
    -i uneven.st -o o.st --set scale=1
refuses 1 "'x' has 6 elements, but n is 7" run squared_sum -i x.st -o o.st --set n=7
refuses 1 "'record' has 1 element, but the kernel takes 3" run gradient_clip_from_device_scale \
    -i g.st -o o.st --set nonfinite=zero

# ---- no GPU -------------------------------------------------------------------------------------

refuses 77 'PTXGEN_LIBCUDA' devices
refuses 77 'PTXGEN_LIBCUDA' devices --json
refuses 77 'ptxgen run: PTXGEN_LIBCUDA names this library: correct it or unset it: /nonexistent/' run squared_sum -i x.st -o o.st
[ ! -e o.st ]
result 'no output file of a run that failed'

# ---- a GPU that does not compute: outputs stay zero, in/out tensors as they were -----------------

PTXGEN_LIBCUDA=$fake_libcuda
works 'devices' '0: Fake GPU 0, sm_90' devices
works 'devices --json' '"sm": 90' devices --json
export CUDA_CACHE_PATH="$PWD/none/cache"
works 'devices: a compute cache' "compute cache: $PWD/none/cache, which can be written" devices
works 'devices --json: a compute cache' '"compute_cache_writable": true' devices --json
[ ! -e none ]
result 'devices makes no compute cache'
export CUDA_CACHE_PATH=none
works 'devices: a compute cache below this folder' 'compute cache: none, which can' devices
export CUDA_CACHE_PATH="$PWD/x.st/cache"
works 'devices: a compute cache in a file' 'x.st/cache, which cannot be written: Not a dir' devices
works 'devices --json: it in a file' '"compute_cache_writable": false' devices --json
unset CUDA_CACHE_PATH
works 'devices: the compute cache by default' "compute cache: $HOME/.nv/ComputeCache, which" devices
export CUDA_CACHE_DISABLE=1
works 'devices: no compute cache' 'compute cache: off, since CUDA_CACHE_DISABLE is 1' devices
unset CUDA_CACHE_DISABLE
works 'run' 'partials F64 [1]' run squared_sum -i x.st -o o.st
grep -q '"__metadata__":{"from":"a test"}' o.st && grep -q '"shape":\[1\]' o.st
result 'run keeps the metadata'
works 'run prints time and bandwidth' '1.0000 ms, 32.0 kB/s (32 bytes)' run squared_sum -i x.st -o o.st
works 'run takes the dtype of the tensor' 'squared_sum.f64' run squared_sum -i x64.st -o o.st
works 'run nothing' 'nothing to launch' run squared_sum -i empty.st -o o.st
works 'run sets values and options' 'outputs=da weight=value' run lerp_backward -i l.st -o o.st \
    --set weight=0x1p-3 --set outputs=da --set weight=value
works 'run shapes outputs like inputs' 'd_input F16 [4]' run quantize_ste_backward -i q.st -o o.st \
    --set scale=1
works 'run chooses outputs' 'd_b F64 [4]' run lerp_backward -i l.st -o o.st --set weight=0.5 \
    --set outputs=db
works 'run on another GPU' 'Fake GPU 1' run squared_sum -i x.st -o o.st --device 1
run 0 run gradient_clip_from_device_scale -i g.st -o g2.st && grep -q '"shape":\[2,4\]' g2.st &&
    [ "$(tail -c 16 g2.st)" = abcdefghijklmnop ]
result 'run writes in/out tensors'
if command -v jq >/dev/null; then
    run 0 run squared_sum -i x.st -o o.st --json && [ ! -s err ] &&
        jq -e '.kernel == "squared_sum" and .dtype == "f32" and .options.partials == "f64" and .n == 6 and
               .bytes == 32 and .blocks == 1 and .emulator == false and .seconds > 0 and
               .output == "o.st" and .tensors == [{"name": "partials", "dtype": "F64", "shape": [1]}]' \
            <out >/dev/null
    result 'run --json'
    run 0 run squared_sum -i empty.st -o o.st --json && jq -e '.seconds == null and .blocks == 0' <out >/dev/null
    result 'run --json of nothing to launch'
    run 0 run squared_sum -i x.st -o o2.st && run 0 run squared_sum -i x.st -o - --json &&
        cmp -s out o2.st && jq -e '.output == "-"' <err >/dev/null
    result 'run --json beside the tensors: on standard error'
else
    skip 'run --json' 'no jq'
fi
"$ptxgen" run squared_sum -i - -o piped.st <x.st >out 2>err && run 0 run squared_sum -i x.st -o o.st &&
    cmp -s piped.st o.st
result 'run from standard input'
cp x.st same.st
run 0 run squared_sum -i same.st -o same.st && grep -q partials same.st
result 'run writes over its input'
run 0 run squared_sum -i x.st -o o.st && run 0 run squared_sum -i x.st -o - && cmp -s out o.st &&
    grep -q 'B/s' err
result 'run to standard output: tensors alone'
if [ "$PTXGEN_LINE_INFO" = true ]; then
    for lines in '' --line-info; do
        # The option must vanish where it is empty.
        PTXGEN_LIBCUDA=$emulator "$ptxgen" run squared_sum -i x.st -o "emulated$lines.st" $lines >out 2>err || break
    done
    run 0 run squared_sum -i x.st -o o.st --line-info && cmp emulated.st emulated--line-info.st >out
    result 'run --line-info computes the same'
fi
refuses 2 '--device 2: the driver sees 2 GPUs' run squared_sum -i x.st -o o.st --device 2
refuses 1 'none/o.st: No such file' run squared_sum -i x.st -o none/o.st
! ls | grep -q '\.tmp$'
result 'run leaves nothing else behind'

# ---- the emulator -------------------------------------------------------------------------------

# computes KERNEL FORMAT NUMBERS [ARGUMENT]...: runs the kernel on the emulator, and checks that the
# output says so
computes() {
    name="run $1 on the emulator: $3"
    kernel=$1 format=$2 numbers=$3
    shift 3
    run 0 run "$kernel" -i n.st -o o.st --device emulator "$@" && [ ! -s err ] &&
        grep -q 'on the emulator (sm_90)' out && grep -q "the emulator's time" out &&
        [ "$(numbers "$format")" = " $numbers" ]
    result "$name"
}

refuses 77 'ptxgen run: correct or unset PTXGEN_EMULATOR' run squared_sum -i x.st -o o.st --device emulator
PTXGEN_EMULATOR=$emulator
refuses 2 'ptxgen run: unset PTXGEN_LIBCUDA: it names' run squared_sum -i x.st -o o.st --device emulator
works 'PTXGEN_LIBCUDA goes before the emulator' 'Fake GPU 0' run squared_sum -i x.st -o o.st
PTXGEN_LIBCUDA=$emulator
works 'PTXGEN_LIBCUDA may name the emulator' 'on the emulator (sm_90)' run squared_sum -i x.st \
    -o o.st
unset PTXGEN_LIBCUDA
if "$ptxgen" devices | grep -q '^no GPU'; then
    refuses 77 'ptxgen run: --device emulator needs no GPU: no ' run squared_sum -i x.st -o o.st --device 0
    PTXGEN_EMULATOR=/nonexistent/emulator.so
    refuses 77 'ptxgen run: correct or unset PTXGEN_EMULATOR, which names /nonexistent/emulator.so: ' run squared_sum -i x.st -o o.st
    refuses 77 'ptxgen devices: correct or unset PTXGEN_EMULATOR, which names /nonexistent/emulator.so: ' devices
    PTXGEN_EMULATOR=$emulator
else
    skip 'no GPU, and what the emulator could do' 'there is a GPU'
fi
works 'devices: the emulator' 'emulator: ptxgen emulator (sm_90)' devices
works 'devices --json: the emulator' '"emulator": true' devices --json

# x = 3 4, partials = 9 16, gradient = 8 -2, record = 0.5 4 0, d_output = 1 -4: little-endian halves
header="$(entry x F16 2 0 4),$(entry gradient F16 2 4 8),$(entry d_output F16 2 8 12)"
tensors n.st 0 "{$header,$(entry partials F64 2 12 28),$(entry record F32 3 28 40)}"
{
    printf '\000\102\000\104\000\110\000\300\000\074\000\304'
    printf '\000\000\000\000\000\000\042\100\000\000\000\000\000\000\060\100'
    printf '\000\000\000\077\000\000\200\100\000\000\000\000'
} >>n.st
computes squared_sum f8 25
computes clip_scale_reduce f4 '0.4 5 0' --set max_norm=2 --set eps=0
computes gradient_clip_from_device_scale x2 '4400 bc00'
computes quantize_ste_backward x2 '4000 0000' --set scale=0.5 --set q_max=7 --set target=any \
    --set q_min=-8
computes fake_quantize x2 '4400 4400' --set scale=2
computes fake_quantize x2 '4200 4200' --set scale=3 --set zero_point=learned --set zero_point=0.6 \
    --set q_min=0 --set q_max=2
refuses 2 'scale must be above 0' run fake_quantize -i n.st -o o.st --set scale=-1
refuses 2 'q_m' run fake_quantize -i n.st -o o.st --set scale=1 --set q_min=2 --set q_max=1
computes lerp_backward x2 '3a00 c200 3400 bc00' --set weight=0.25

# Without --device the command uses what the machine has: here the emulator, unless there is a GPU.
works 'run without --device' ' on ' run squared_sum -i n.st -o o.st
grep -qF 'on the emulator' out || echo '# on a GPU'
# If there is a driver, it is loaded, and finds no GPU.
CUDA_VISIBLE_DEVICES=''
export CUDA_VISIBLE_DEVICES
works 'run where no GPU is to be seen: on the emulator' 'on the emulator' run squared_sum -i n.st \
    -o o.st
unset CUDA_VISIBLE_DEVICES
PTXGEN_EMU_DEVICE=sm_80
export PTXGEN_EMU_DEVICE
works 'run as the device that the emulator is to be' 'sm_80 on the emulator (sm_80)' run \
    squared_sum -i n.st -o o.st --device emulator
PTXGEN_EMU_DEVICE=sm_91
run 1 run squared_sum -i x.st -o o.st --device emulator &&
    grep -q "^ptxgen run: .*PTXGEN_EMU_DEVICE='sm_91': wanted: sm_NN.* 70 72 75 80 " err &&
    ! grep -q PTXGEN_LIBCUDA err
result 'the error of a device that the emulator cannot be names the variable, and no other'
unset PTXGEN_EMU_DEVICE

# The same x and d_output with scale = 0.5 1, zero_point = 0 0; then scale = 8, growth_tracker = 5,
# found_inf = 1
header="$(entry x F16 2 0 4),$(entry d_output F16 2 4 8),$(entry scale F32 2 8 16)"
tensors n.st 0 "{$header,$(entry zero_point I32 2 16 24)}"
printf '\000\102\000\104\000\074\000\304\000\000\000\077\000\000\200\077\000\000\000\000\000\000\000\000' >>n.st
computes quantize_channel_ste_backward x2 '4000 c400'
computes quantize_channel_ste_backward x2 '0000 c400' --set target=any --set q_min=-5 --set q_max=5
computes fake_quantize_channel x2 '4200 4400' --set q_max=6
# 30 zeros, then 7 and -1.25: one group, whose scale is 1
tensors n.st 0 "{$(entry x F16 32 0 64)}"
{
    head -c 60 /dev/zero
    printf '\000\107\000\275'
} >>n.st
zeros=$(printf '%30s' '' | sed 's/ /0000 /g')
computes fake_quantize_groups x2 "0000 3f80 ${zeros}4700 bc00"
refuses 1 'n is 32, not a multiple of the group, 128' run fake_quantize_groups -i n.st -o o.st \
    --set group=128
# The same x with 32 ones as d_output, and scale = 1, zero_point = 0: 7 is above the levels
mv n.st x.st
header="$(entry x F16 32 0 64),$(entry d_output F16 32 64 128),$(entry scale F32 1 128 132)"
tensors n.st 0 "{$header,$(entry zero_point F32 1 132 136)}"
{
    tail -c 64 x.st
    printf '\000\074%.0s' $(seq 32)
    printf '\000\000\200\077\000\000\000\000'
} >>n.st
ones=$(printf '%30s' '' | sed 's/ /3c00 /g')
computes quantize_learned_groups x2 "0000 40a8 0000 bf80 ${ones}0000 3c00" --set q_max=5
refuses 2 'q_min must be q_max or less' run quantize_learned_groups -i n.st -o o.st --set q_max=-129
for scale in '0 must be above 0:\000\000\000\000' '-1 must be above 0:\000\000\200\277' \
    'nan must not be NaN:\000\000\300\177' 'inf must be finite:\000\000\200\177'; do
    tensors bad.st 0 "{$header,$(entry zero_point F32 1 132 136)}"
    {
        tail -c 136 n.st | head -c 128
        printf "${scale#*:}\000\000\000\000"
    } >>bad.st
    what=${scale%%:*}
    refuses 1 "tensor 'scale': element 0 is ${what%% *}; it ${what#* }" run \
        quantize_learned_groups -i bad.st -o o.st
done
header="$(entry scale F32 1 0 4),$(entry growth_tracker I32 1 4 8),$(entry found_inf F32 1 8 12)"
tensors n.st 0 "{$header}"
printf '\000\000\000\101\005\000\000\000\000\000\200\077' >>n.st
computes loss_scale_update f4 '4 0'
computes loss_scale_update f4 '6 0' --set backoff=0.1 --set min_scale=6

finish

#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The files that ptxgen writes: their mode, links to them, and what is refused. A process that is ended by
# a signal leaves no file. Prints TAP. Needs no GPU.
#
# usage: test_cli_output.sh PTXGEN FAKE_LIBCUDA EMULATOR FAULTS [PTXGEN_BENCH]
#
# With PTXGEN_BENCH, which holds a file open for long, also what a signal leaves.

faults=$4 bench=${5-}
. "$(dirname "$0")/cli_tap.sh"
PTXGEN_EMULATOR=$emulator
unset PTXGEN_LIBCUDA
umask 022

tensors g.st 24 "{$(entry x F32 6 0 24)}"

# Each command that writes a file writes it to $target.
target=unset
write_clip() { run "$1" clip g.st --max-norm 1 --device emulator -o "$target" ${2:-}; }
write_run() { run "$1" run squared_sum -i g.st --device emulator -o "$target" ${2:-}; }
write_emit() { run "$1" emit squared_sum -o "$target" ${2:-}; }
write_bench() ( ptxgen=$bench && run "$1" emit --samples 1 --only lerp --json "$target" ${2:-} )

mode() { stat -c %a "$1"; }
inode() { stat -c %i "$1"; }

for command in clip run emit ${bench:+bench}; do
    target=$command.new
    write_$command 0 && [ "$(mode $target)" = 644 ]
    result "$command: a new file has the mode of the umask"
    for bits in 600 640 666 755; do
        echo old >$target && chmod $bits $target && write_$command 0 && [ "$(mode $target)" = $bits ] &&
            [ "$(head -c 3 $target)" != old ]
        result "$command keeps the mode $bits"
    done
    echo old >$target && chmod 444 $target && write_$command 1 &&
        grep -q "cannot write $target: it is read-only (mode 0444); --force replaces it" err &&
        [ "$(cat $target)" = old ]
    result "$command refuses a file without a write bit"
    write_$command 0 --force && [ "$(mode $target)" = 444 ] && [ "$(head -c 3 $target)" != old ]
    result "$command --force writes over it, and it stays read-only"
    rm -f nowhere dangling && ln -s nowhere dangling && target=dangling && write_$command 1 &&
        grep -q 'dangling: it is a symbolic link to nowhere, which does not exist' err &&
        [ -L dangling ] && [ ! -e nowhere ]
    result "$command refuses a symbolic link that leads nowhere"
    mkdir -p folder && echo old >folder/real && chmod 600 folder/real && ln -sf folder/real link &&
        target=link && write_$command 0 && [ -L link ] && [ "$(mode folder/real)" = 600 ] &&
        [ "$(head -c 3 folder/real)" != old ]
    result "$command writes where a symbolic link leads"
    echo old >one && ln -f one other && target=one && write_$command 0 && [ "$(cat other)" = old ] &&
        [ "$(inode one)" != "$(inode other)" ]
    result "$command: another hard link keeps the old contents"
    target=folder && write_$command 1 && grep -q 'cannot write folder: it is a folder' err
    result "$command refuses a folder"
    target=absent/ && write_$command 1 && grep -q 'cannot write absent/: No such file' err
    result "$command refuses a name that ends like a folder's"
    target='' && write_$command 1 && grep -q 'cannot write a file without a name' err
    result "$command refuses an empty name"
done

# A name of the greatest length: the temporary file's name does not contain it.
target=$(printf '%0255d' 0)
write_emit 0 && write_emit 0 && [ -s "$target" ]
result 'the longest name'
rm -f "$target"

# ---- other names of standard output -------------------------------------------------------------

run 0 clip g.st --max-norm 1 --device emulator -o - && mv out data && grep -q 'all tensors' err
result 'clip -o -'
for name in /dev/stdout /dev/fd/1 /proc/self/fd/1; do
    echo begun >out
    "$ptxgen" clip g.st --max-norm 1 --device emulator -o $name >>out 2>err
    [ $? -eq 0 ] && { echo begun && cat data; } | cmp -s - out && grep -q 'all tensors' err
    result "clip -o $name is standard output: nothing but tensors is in it"
done
"$ptxgen" clip g.st --max-norm 1 --device emulator -o /dev/stdout 2>err | cmp -s - data &&
    grep -q 'all tensors' err
result 'clip -o /dev/stdout into a pipe'
echo begun >third
"$ptxgen" clip g.st --max-norm 1 --device emulator -o /dev/fd/3 3>>third >out 2>err
[ $? -eq 0 ] && { echo begun && cat data; } | cmp -s - third && grep -q 'all tensors' out
result 'clip -o /dev/fd/3 adds to what is there'
target=/dev/fd/99 && write_emit 1 && grep -q 'cannot write /dev/fd/99: Bad file descriptor' err
result 'a descriptor that is not open'
target=/dev/null && write_clip 0 && [ -c /dev/null ]
result 'clip -o /dev/null'

# ---- a folder, a file that may not be written ---------------------------------------------------

# Not as root, who may write everywhere.
if [ "$(id -u)" -ne 0 ]; then
    as_user() { "$@"; }
else
    chmod 755 "$work"
    as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
fi
if as_user test -x "$ptxgen" 2>err; then
    mkdir closed && echo old >closed/file && chmod 666 closed/file && chmod 555 closed
    [ "$(id -u)" -ne 0 ] || chown 65534:65534 closed/file
    as_user "$ptxgen" emit squared_sum -o closed/file >out 2>err
    [ $? -eq 1 ] && [ "$(cat closed/file)" = old ] &&
        grep -q 'cannot write closed/file: its folder takes no new file: Permission denied' err
    result 'a file in a folder that is read-only is not written in place'
    as_user "$ptxgen" run ./none.ptx --grid 1 --block 1 -o closed/new >out 2>err
    [ $? -eq 1 ] && grep -q 'cannot write closed/new: its folder takes no new file: Permission denied' err
    result 'run: such a folder is found before anything is read'
    chmod 755 closed
    mkdir open && chmod 777 open && echo old >open/file && chmod 400 open/file
    as_user "$ptxgen" emit squared_sum -o open/file >out 2>err
    [ $? -eq 1 ] && [ "$(cat open/file)" = old ] && grep -q 'cannot write open/file: .*--force' err
    result 'a file that may not be written, in a folder that may'
    chmod 440 open/file
    if [ "$(id -u)" -eq 0 ]; then
        as_user "$ptxgen" emit squared_sum -o open/file --force >out 2>err
        [ $? -eq 0 ] && [ "$(stat -c %a:%U open/file)" = "400:$(id -nu 65534)" ]
        result 'where the group cannot be kept, it gets no more than everybody'
    else
        skip 'where the group cannot be kept' 'not root'
    fi
else
    skip 'what only root may write' "no other user can run $ptxgen"
fi

# ---- signals ------------------------------------------------------------------------------------

# signalled NAME [VARIABLE=VALUE]...: starts a long measurement with an open output file, and ends
# it with the signal NAME. True if the folder is then as before. `before` lists the folder while the
# file was open.
signalled() {
    name=$1
    shift
    rm -rf held && mkdir held && echo old >held/o.jsonl
    # env resets what may be ignored: SIGINT by background processes of a script, SIGHUP under nohup.
    env --default-signal=INT,TERM,HUP "$@" "$bench" kernels --device emulator --samples 1000 --sizes 1M \
        --json held/o.jsonl >out 2>err &
    child=$!
    waited=0
    until ls -l "/proc/$child/fd" 2>/dev/null | grep -q "$work/held/" || [ $waited -gt 6000 ]; do
        sleep 0.05
        waited=$((waited + 1))
    done
    ls -A held >before
    kill -"$name" $child
    wait $child 2>/dev/null
    [ $? -gt 128 ] && [ "$(ls -A held)" = o.jsonl ] && [ "$(cat held/o.jsonl)" = old ]
}

# named: makes a command run as if there were no nameless files
named="LD_PRELOAD=$faults FAULT_NAMELESS=1 ASAN_OPTIONS=verify_asan_link_order=0"
for name in ${bench:+INT TERM HUP}; do
    signalled $name
    result "SIG$name leaves no file behind"
    # The words of $named must be split.
    signalled $name $named && grep -q '^ptxgen\..*\.tmp$' before
    result "SIG$name removes the temporary file, where it has a name"
done
env $named "$ptxgen" emit squared_sum -o named >out 2>err && env $named "$ptxgen" emit squared_sum \
    -o named >>out 2>&1 && run 0 emit squared_sum && cmp -s out named && [ "$(mode named)" = 644 ] &&
    chmod 600 named && env $named "$ptxgen" emit squared_sum -o named && [ "$(mode named)" = 600 ] &&
    ! ls | grep -q '\.tmp$'
result 'a file is the same where the temporary one has a name'

# ---- a limit of the size ------------------------------------------------------------------------

echo old >limited
(
    ulimit -f 1
    run 1 emit squared_sum -o limited
) && grep -q 'cannot write limited: File too large' err && [ "$(cat limited)" = old ]
result 'a file beyond the limit of size is an error, and the old one stays'

# ---- an input that becomes shorter ---------------------------------------------------------------

# Two windows of 100,000 bytes each. The pipe holds 64 KiB, so the file is cut while the first
# window is written; the second is then read beyond the end. Opening the pipe to read waits until
# ptxgen opens it to write; by then ptxgen has mapped its input.
read_pipe() {
    timeout 600 sh -c 'exec 3<pipe; : >long.st; cat <&3 >/dev/null'
}

if mkfifo pipe; then
    tensors long.st 200000 "{$(entry x F32 50000 0 200000)}"
    "$ptxgen" clip long.st --max-norm 1 --device emulator --memory 140K -o pipe >out 2>err &
    child=$!
    read_pipe
    wait $child
    [ $? -eq 1 ] && [ "$(cat err)" = 'ptxgen: long.st: the file became shorter while it was read' ]
    result 'an input that is truncated meanwhile is an error'
    # A tensor that is only copied is read from the file's memory by the kernel.
    tensors long.st 400000 "{$(entry x F32 1 0 4),$(entry step I32 99999 4 400000)}"
    "$ptxgen" clip long.st --max-norm 1 --device emulator -o pipe >out 2>err &
    child=$!
    read_pipe
    wait $child
    [ $? -eq 1 ] && grep -q 'became shorter' err && [ "$(wc -l <err)" -eq 1 ]
    result 'an input that is truncated while it is copied is an error'
else
    skip 'an input that is truncated' 'no mkfifo'
fi

finish

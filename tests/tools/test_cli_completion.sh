#!/bin/sh
# SPDX-License-Identifier: MIT
# The completion scripts in bash and zsh, as they complete a line. Prints TAP.
#
# usage: test_cli_completion.sh PTXGEN FAKE_LIBCUDA EMULATOR

. "$(dirname "$0")/cli_tap.sh"

: >tensors.safetensors
mkdir -p 'a folder' && : >'a folder/x'

# ---- bash -----------------------------------------------------------------------------------------

cat >complete.bash <<'END'
source ./script.bash
# As bash calls the function at the end of a line.
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
COMPREPLY=()
_ptxgen
printf '%s\n' "${COMPREPLY[@]}"
END

# in_bash LINE WORD...: the words that bash offers at the end of the line
in_bash() {
    line=$1
    shift
    bash complete.bash "$line" >out 2>err && [ ! -s err ] && printf '%s\n' "$@" >expected &&
        cmp -s out expected
    result "bash: '$line'"
}

if command -v bash >/dev/null; then
    run 0 completion bash && mv out script.bash && bash -n script.bash 2>err
    result 'bash reads the script'
    in_bash 'ptxgen c' clip check completion
    in_bash 'ptxgen help c' clip check completion
    in_bash 'ptxgen --v' --version
    in_bash 'ptxgen clip --non' --nonfinite
    in_bash 'ptxgen clip --nonfinite ' propagate skip zero error
    in_bash 'ptxgen clip --nonfinite=s' skip
    in_bash 'ptxgen clip --max-norm ' ''
    in_bash 'ptxgen clip ten' tensors.safetensors
    in_bash 'ptxgen clip a' 'a folder'
    in_bash 'ptxgen clip x -o t' tensors.safetensors
    in_bash 'ptxgen run sq' squared_sum
    in_bash 'ptxgen run squared_sum --device ' emulator
    in_bash 'ptxgen run ten' tensors.safetensors
    in_bash 'ptxgen run x.ptx --sanitize ' on warn off
    in_bash 'ptxgen run x.ptx --co' --cooperative
    in_bash 'ptxgen info st' step
    in_bash 'ptxgen emit cli' clip_scale_reduce clip
    in_bash 'ptxgen emit squared_sum --dtype b' bf16
    in_bash 'ptxgen emit --target sm_9' sm_90 sm_90a
    in_bash 'ptxgen emit squared_sum --source-folder a' 'a folder'
    in_bash 'ptxgen emit squared_sum --set part' partials=f64 partials=f32
    in_bash 'ptxgen emit squared_sum --set partials=' f64 f32
    # The choices of the kernel on the line, wherever it stands; of a plan; without one, of every kernel.
    in_bash 'ptxgen check lerp_backward --set ' outputs=both outputs=da outputs=db weight=value weight=device
    in_bash 'ptxgen run lerp_backward -i a.st --set=' outputs=both outputs=da outputs=db weight=value weight=device
    in_bash 'ptxgen emit squared_sum --set r' ''
    in_bash 'ptxgen emit step --set r' rule=adamw rule=adam rule=sgd rule=lion rule=muon
    in_bash 'ptxgen emit step --set rule=' adamw adam sgd lion muon
    in_bash 'ptxgen emit clip --set loss' loss_scale=no loss_scale=read loss_scale=update
    in_bash 'ptxgen info step --set rule=sgd --set mom' momentum=yes momentum=no
    in_bash 'ptxgen emit --set part' partials=f64 partials=f32
    in_bash 'ptxgen emit --set rule' ''
    in_bash 'ptxgen check le' lerp_backward
    in_bash 'ptxgen check squared_sum --target al' all
    in_bash 'ptxgen completion ' bash zsh
    # Every option of every command's help is offered, and no other.
    for command in clip list info emit check run devices completion; do
        run 0 "$command" --help
        sed -n '/^options:/,/^$/s/^ *\(-[A-Za-z],\)* *--\([a-z-]*\).*/--\2/p' out | sort >helped
        bash complete.bash "ptxgen $command -" 2>err | grep '^--' | sort >out
        [ -s out ] && cmp -s out helped
        result "bash: the options of $command are those of its help"
    done
else
    skip 'bash' 'no bash'
fi

# ---- zsh ------------------------------------------------------------------------------------------

# A terminal of its own, in which Tab is pressed after the line; what zsh then has on the line is
# printed between brackets.
cat >complete.zsh <<'END'
zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z 'PS1= PROMPT_EOL_MARK= ; unsetopt ZLE_RPROMPT_INDENT 2>/dev/null; fpath=($PWD/functions $fpath)'
zpty -w z 'autoload -U compinit && compinit -u -C -d $PWD/dump'
zpty -w z 'show() { zle complete-word; print -r -- "$BUFFER" >line; exit }; zle -N show; bindkey "^T" show'
zpty -w z 'print ready >started'
for k in {1..6000}; do [[ -e started ]] && break; sleep 0.05; done
zpty -w -n z "$1"$'\x14'
for k in {1..6000}; do [[ -s line ]] && break; sleep 0.05; done
zpty -d z
cat line
END

# in_zsh LINE COMPLETED
in_zsh() {
    rm -f line started
    zsh -f complete.zsh "$1" >out 2>err && [ "$(cat out)" = "$2" ]
    result "zsh: '$1'"
}

if command -v zsh >/dev/null; then
    mkdir functions
    run 0 completion zsh && mv out functions/_ptxgen && zsh -n functions/_ptxgen 2>err
    result 'zsh reads the script'
    if zsh -fc 'zmodload zsh/zpty' 2>/dev/null; then
        in_zsh 'ptxgen cl' 'ptxgen clip '
        in_zsh 'ptxgen help em' 'ptxgen help emit '
        in_zsh 'ptxgen clip --nonf' 'ptxgen clip --nonfinite='
        in_zsh 'ptxgen clip --nonfinite=s' 'ptxgen clip --nonfinite=skip '
        in_zsh 'ptxgen clip ten' 'ptxgen clip tensors.safetensors '
        in_zsh 'ptxgen check le' 'ptxgen check lerp_backward '
        in_zsh 'ptxgen check ten' 'ptxgen check tensors.safetensors '
        in_zsh 'ptxgen emit squared_sum --dtype b' 'ptxgen emit squared_sum --dtype bf16 '
        in_zsh 'ptxgen emit lerp_backward --set outputs=b' 'ptxgen emit lerp_backward --set outputs=both '
        in_zsh 'ptxgen emit step --set rule=l' 'ptxgen emit step --set rule=lion '
        in_zsh 'ptxgen emit lerp_backward --set part' 'ptxgen emit lerp_backward --set part'
        in_zsh 'ptxgen emit --set part' 'ptxgen emit --set partials=f'
        in_zsh 'ptxgen completion z' 'ptxgen completion zsh '
    else
        skip 'zsh' 'this zsh has no zpty'
    fi
else
    skip 'zsh' 'no zsh'
fi

refuses 2 'for which shell?' completion
refuses 2 "unknown shell 'fish'" completion fish
finish

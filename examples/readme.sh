#!/bin/sh
# SPDX-License-Identifier: MIT
# readme.sh README.md PLANS.md KERNELS.md CPP.md clip.c embed.c saxpy.c softmax_cpp.cc saxpy EXAMPLES.md softmax.c
# peers_examples.cu classify_cpp.cc: checks that the pages show the sources and the output of the examples.
set -eu

marked() {
    sed -n '/^\/\/ The pages show/,/^\/\/ End of what the pages show/p' "$1" | sed '1d;$d'
}

# shown PAGE WHAT TEXT: checks that the page contains the text.
shown() {
    if [ -z "$3" ]; then
        echo "cannot find $2"
        exit 1
    fi
    case $(cat "$1") in
    *"$3"*) ;;
    *)
        echo "$1 does not show $2, which is now:"
        printf '%s\n' "$3"
        exit 1
        ;;
    esac
}

shown "$2" 'the marked lines of examples/clip.c' "$(marked "$5")"
shown "$3" 'the marked lines of examples/embed.c' "$(marked "$6")"
shown "$4" 'the marked lines of examples/softmax_cpp.cc' "$(marked "$8")"
cpp=$4
shown "$1" 'build() of examples/saxpy.c' "$(sed -n '/^static void build/,/^}/p' "$7")"
shown "$1" 'what examples/saxpy --emit prints' "$("$9" --emit)"
shift 9
shown "$1" 'the marked lines of examples/softmax.c' "$(marked "$2")"
shown "$1" 'the marked lines of bench/peers_examples.cu' "$(marked "$3")"
shown "$cpp" 'the marked lines of examples/classify_cpp.cc' "$(marked "$4")"

#!/bin/sh
# SPDX-License-Identifier: MIT
# readme.sh README.md clip.c embed.c saxpy.c saxpy: the README shows what the examples are and print.
set -eu

readme=$(cat "$1")
marked() {
    sed -n '/^\/\/ README.md shows/,/^\/\/ End of what README.md shows/p' "$1" | sed '1d;$d'
}
clip=$(marked "$2")
embed=$(marked "$3")
build=$(sed -n '/^static void build/,/^}/p' "$4")
text=$("$5" --emit)

shown() {
    if [ -z "$2" ]; then
        echo "cannot find $1"
        exit 1
    fi
    case $readme in
    *"$2"*) ;;
    *)
        echo "README.md does not show $1, which is now:"
        printf '%s\n' "$2"
        exit 1
        ;;
    esac
}

shown 'the marked lines of examples/clip.c' "$clip"
shown 'the marked lines of examples/embed.c' "$embed"
shown 'build() of examples/saxpy.c' "$build"
shown 'what examples/saxpy --emit prints' "$text"

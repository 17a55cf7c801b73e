# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# Shared by the tests of packages and installations. $scratch is a folder of the script's own; it is removed at
# the end.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

# quietly COMMAND...: its output goes to $scratch/log, and is shown if it fails.
quietly() {
    "$@" >"$scratch/log" 2>&1 || {
        tail -n 200 "$scratch/log"
        fail "$*"
    }
}

# copy_sources FOLDER: the project's files, here in $source, without what was built.
copy_sources() {
    # shellcheck disable=SC2154 # the script's
    if git -C "$source" rev-parse --git-dir >/dev/null 2>&1; then
        git -C "$source" ls-files -co --exclude-standard -z
    else
        (cd "$source" && find . -name .git -prune -o -name 'build*' -type d ! -path './tests/builder' -prune -o \
            -type f -print0)
    fi | tar -C "$source" -cf - --null -T - | tar -xf - -C "$1"
}

# path_without PROGRAM...: prints a PATH of links to all programs but these.
path_without() {
    mkdir "$scratch/bin"
    echo "$PATH" | tr : '\n' | while read -r place; do
        ln -s "$place"/* "$scratch/bin/" 2>/dev/null || : # the first of a name counts
    done
    for program; do
        rm -f "$scratch/bin/$program" "$scratch/bin/$program"-*
    done
    echo "$scratch/bin"
}

# offline COMMAND...: runs it where there is no network, if the system allows that.
offline() {
    if unshare -n true 2>/dev/null; then
        unshare -n "$@"
    elif unshare -rn true 2>/dev/null; then
        unshare -rn "$@"
    else
        echo "this system cannot take the network away: $1 runs with it"
        "$@"
    fi
}

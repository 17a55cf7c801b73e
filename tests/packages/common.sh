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

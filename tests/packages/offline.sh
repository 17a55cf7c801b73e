# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# Shared by the tests of packages; the script that sources this sets `scratch`, a folder.
# shellcheck disable=SC2154

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

fail() {
    echo "FAILED: $*"
    exit 1
}

quietly() {
    "$@" >"$scratch/log" 2>&1 || {
        tail -n 200 "$scratch/log"
        fail "$*"
    }
}

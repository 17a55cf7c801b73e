# SPDX-License-Identifier: MIT
# shellcheck shell=sh

# download COMMAND...: runs what fetches and unpacks packages of others. Adds a line to $PTXGEN_DOWNLOADS, where that is
# set: its seconds, and its seconds of CPU.
download() (
    status=0 start=$(date +%s)
    "$@" || status=$?
    if [ "${PTXGEN_DOWNLOADS-}" ]; then
        times >"$PTXGEN_DOWNLOADS.$$" # not in a pipe: that would count its own
        awk -F '[ms ]+' -v "seconds=$(($(date +%s) - start))" \
            'NR == 2 { printf "%d %d\n", seconds, 60 * ($1 + $3) + $2 + $4 }' "$PTXGEN_DOWNLOADS.$$" >>"$PTXGEN_DOWNLOADS"
        rm "$PTXGEN_DOWNLOADS.$$"
    fi
    exit $status
)

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

# new_environment FOLDER: an environment of Python. Its pip is this machine's: to install another takes three seconds.
new_environment() {
    python3 -m venv --without-pip "$1" &&
        if python3 -m pip --disable-pip-version-check --python "$1/bin/python" --version >/dev/null 2>&1; then
            printf '#!/bin/sh\nexec "%s" -m pip --python "%s" "$@"\n' \
                "$(python3 -c 'import sys; print(sys.executable)')" "$1/bin/python" >"$1/bin/pip" && chmod +x "$1/bin/pip"
        else # older than 22.3, or none
            python3 -m venv "$1"
        fi
}

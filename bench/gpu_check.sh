#!/bin/sh
# SPDX-License-Identifier: MIT
# All checks that need a GPU, in two calls of at most nine minutes each on 16 cores. Needs no network.
#
#     bench/gpu_check.sh tests OUTPUT [BUILD]         builds, runs the whole test suite, and clips the
#                                                     gradients of GPT-2 small from file to file
#     bench/gpu_check.sh sanitizers OUTPUT [BUILD]    kernels, plans and operations under
#                                                     compute-sanitizer; builds what is missing
#
# BUILD is the Meson build folder, created if it does not exist (default: build-gpu). A call writes to
# the folder OUTPUT: summary.txt, with a line for each step; build.log; tests.log or sanitizers.log; and
# failed.ptx, with the texts of kernels that failed. It stops in time: summary.txt names what it did not
# reach, and the exit status is then not 0, as after a failure.
#
# For PTXGEN_DEPENDENCIES see dependencies.sh.
set -u

# shellcheck source=bench/dependencies.sh
. "$(dirname "$0")/dependencies.sh"
exec python3 "$(dirname "$0")/gpu_check.py" "$@"

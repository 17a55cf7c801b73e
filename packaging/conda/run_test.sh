#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# As conda calls it: in a folder with the files of the test, with PREFIX.
set -eu
sh packaging/test_installed.sh "$PREFIX"

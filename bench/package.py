# SPDX-License-Identifier: MIT
"""To be imported before ptxgen: finds the package in the build folder that the script's first argument
names, itself or by the libptxgen.so in it."""
import os
import sys

if len(sys.argv) > 1:
    named = sys.argv[1]
    build = named if os.path.isdir(named) else os.path.dirname(named)
    sys.path.insert(0, os.path.join(build, "python"))

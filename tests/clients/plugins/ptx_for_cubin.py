# SPDX-License-Identifier: MIT
"""A plugin of pytest for cuda.core's own tests, which own_tests.py runs: where they compile to machine code, they get
PTX."""
import cuda.core


class Program(cuda.core.Program):
    def compile(self, target_type, *args, **kwargs):
        return super().compile("ptx" if target_type == "cubin" else target_type, *args, **kwargs)


cuda.core.Program = Program

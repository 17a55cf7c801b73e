#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the cases of Triton in tests/clients/texts: the kernels of triton_kernels.py, compiled without a GPU. Needs
triton 3.9.0 and numpy. The bytes of the texts depend on the version alone."""
import os

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

# pylint: disable=wrong-import-position
import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from case import Case
from triton_kernels import by_warpgroups, cases

TYPES = {"float32": "*fp32", "float16": "*fp16", "int32": "*i32"}
MADE_BY = f"Made by make_triton.py with Triton {triton.__version__}."


def compiled(case, sm):
    names = case.kernel.arg_names
    signature, attributes, constants = {}, {}, {}
    for k, name in enumerate(names):
        if name in case.constants:
            signature[name] = "constexpr"
            constants[(k, )] = case.constants[name]
            continue
        a = case.arguments[k]
        if isinstance(a, np.ndarray):
            signature[name] = TYPES[str(a.dtype)]
            attributes[(k, )] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32" if isinstance(a, float) else "i32"
    source = ASTSource(case.kernel, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", sm, 32), options=case.options)


def arguments(case):
    """As the kernel has them: Triton adds two pointers to memory for itself, which these kernels do not use."""
    given = [a if isinstance(a, np.ndarray) else np.float32(a) if isinstance(a, float) else np.int32(a)
             for a in case.arguments]
    return [*given, np.uint64(0), np.uint64(0)]


def write(case, sm):
    kernel = compiled(case, sm)
    assert kernel.metadata.global_scratch_size == 0
    file = Case(f"triton_{case.name}_sm{sm}", MADE_BY, f"sm_{sm}")
    file.text(kernel.asm["ptx"])
    file.launch(kernel.metadata.name, case.grid, (32 * kernel.metadata.num_warps, ), arguments(case),
                kernel.metadata.shared)
    file.expect(case.result, case.expected, case.tolerance, case.tolerance)
    file.write()


def main():
    for case in cases():
        for sm in (80, 90, 100) if case.name == "softmax" else (80, ):
            write(case, sm)
        if case.name == "matmul":  # by wgmma on sm_90, by tcgen05 on sm_100
            large = by_warpgroups(case)
            write(large, 90)
            file = Case("triton_matmul_sm100", MADE_BY, "sm_100")
            file.refused(compiled(large, 100).asm["ptx"], "'tcgen05")
            file.write()


main()

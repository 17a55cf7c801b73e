# SPDX-License-Identifier: MIT
"""Triton on the emulator, without PyTorch: kernels compared with numpy. The emulator is in LD_LIBRARY_PATH.
ptxas is replaced by that of the Python package, because Triton launches what ptxas made of its PTX."""
import os
import pathlib
import shutil
import sys
import sysconfig

STAND_IN = str(pathlib.Path(__file__).resolve().parents[2] / "python/ptxgen/ptxas")
os.environ.update(TRITON_PTXAS_PATH=STAND_IN, TRITON_PTXAS_BLACKWELL_PATH=STAND_IN)

if not pathlib.Path(sysconfig.get_paths()["include"], "Python.h").exists() or not (
        os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
    print("skipped: Triton compiles its launcher, which needs Python.h and a C compiler")
    sys.exit(77)

# pylint: disable=wrong-import-position
import ctypes

import numpy as np
import triton

from triton_kernels import by_warpgroups, cases

cuda = ctypes.CDLL("libcuda.so.1")
NAMES = {"float32": "fp32", "float16": "fp16", "int32": "i32"}


class Array:
    """What Triton wants of a tensor, in memory of the driver API."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)
        self.dtype = NAMES[str(self.array.dtype)]
        self.address = ctypes.c_uint64()
        size = ctypes.c_size_t(self.array.nbytes)
        assert cuda.cuMemAlloc_v2(ctypes.byref(self.address), size) == 0
        assert cuda.cuMemcpyHtoD_v2(self.address, ctypes.c_void_p(self.array.ctypes.data), size) == 0

    def data_ptr(self):
        return self.address.value

    def numpy(self):
        result = np.empty_like(self.array)
        copied = cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(result.ctypes.data), self.address,
                                      ctypes.c_size_t(result.nbytes))
        assert copied == 0, f"error {copied} of the kernel"
        return result


def run(case):
    arguments = [Array(a) if isinstance(a, np.ndarray) else a for a in case.arguments]
    case.kernel[case.grid](*arguments, **case.constants, **case.options)
    np.testing.assert_allclose(arguments[case.result].numpy(), case.expected, case.tolerance, case.tolerance)


def main():
    triton.runtime.driver.active.get_current_device()  # makes the context that Array needs
    for case in cases():
        run(case)
        print(f"{case.name}: ok")
    # The last case is a product of matrices. With four warps Triton writes wgmma on sm_90, and tcgen05 on sm_100.
    try:
        run(by_warpgroups(case))
    except RuntimeError as error:
        assert "Instruction 'tcgen05" in str(error), error
    print(f"Triton {triton.__version__}: add, softmax, layer norm, histogram and product of matrices: ok")


if __name__ == "__main__":
    main()

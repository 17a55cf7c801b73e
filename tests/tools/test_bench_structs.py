# SPDX-License-Identifier: MIT
"""test_bench_structs.py BENCH PROGRAM: the structs of BENCH/ptxgen.py are as large as C's, which PROGRAM
prints. A field that only one of the two has is read as something else, without a word."""
import ctypes
import subprocess
import sys

sys.path.insert(0, sys.argv[1])
import ptxgen  # noqa: E402

OF = {"ptx_arg": ptxgen._Arg, "ptx_builder_params": ptxgen._BuilderParams,
      "ptx_clip_params": ptxgen._ClipParams, "ptx_clip_record": ptxgen.Record,
      "ptx_clip_summary": ptxgen.Summary,
      "ptx_clip_tensor": ptxgen.Tensor, "ptx_geometry": ptxgen._Geometry,
      "ptx_kernel_spec": ptxgen._Spec, "ptx_launch_params": ptxgen._Launch,
      "ptx_lerp_params": ptxgen._Lerp, "ptx_loss_scale_params": ptxgen.LossScaleParams,
      "ptx_loss_scale_state": ptxgen.LossScale, "ptx_quantize_params": ptxgen._Quantize,
      "ptx_step_group": ptxgen._StepGroup, "ptx_step_hyper": ptxgen.Hyper,
      "ptx_step_params": ptxgen._StepParams, "ptx_step_tensor": ptxgen._StepTensor,
      "ptx_target": ptxgen._Target}

printed = subprocess.run([sys.argv[2]], capture_output=True, text=True, check=True).stdout
sizes = {name: int(size) for name, size in map(str.split, printed.splitlines())}
wrong = [f"{name}: {ctypes.sizeof(OF[name])} bytes in Python, {sizes.get(name)} in C"
         for name in OF if ctypes.sizeof(OF[name]) != sizes.get(name)]
print("\n".join(wrong) or f"{len(OF)} structs agree")
sys.exit(bool(wrong or len(OF) != len(sizes)))

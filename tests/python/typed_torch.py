# SPDX-License-Identifier: MIT
"""For a type checker alone, as typed.py: the optimizers of ptxgen.torch. Needs no torch."""

from typing import Any

import ptxgen.torch as pt
from ptxgen import optimizers
from ptxgen.torch import quantization


def use(parameters: Any, rate: Any) -> None:
    optimizer = pt.AdamW(parameters, lr=rate, betas=(0.9, 0.95), fused=True, max_grad_norm=1.0, state_dtype="8bit")
    optimizer.load_state_dict(optimizer.state_dict(format="torch"))
    optimizer.step(lambda: 1.0)
    pt.Adam(parameters, decoupled_weight_decay=True, foreach=None, state_dtype="master", seed=3)
    pt.SGD(parameters, 0.1, 0.9, nesterov=True, maximize=True, state_dtype="remainder")
    pt.Lion(parameters, lr=1e-4, weight_decay=0.1, state_dtype="bf16", process_group=None)
    pt.Muon(parameters, lr=0.02, ns_coefficients=[(3.0, -4.0, 2.0)], ns_steps=1, adjust_lr_fn="match_rms_adamw",
            heads=lambda name, shape: shape[0] // 64 if "q_proj" in name else None, of_3d="batch", adamw_lr=1e-3, matrix_memory=1 << 30)
    pt.AdamW(parameters, qk_clip=[pt.QKClip(parameters, rate), pt.QKClip(parameters, rate, [pt.MatrixRange(0, 4)], columns=True)])
    own = pt.Optimizer(parameters, optimizers.adopt, lr=rate, max_grad_norm=1.0, state_dtype="bf16", eps=1e-6)
    own.eval()
    own.load_state_dict(own.state_dict(format="torch"))
    for described in own.describe():
        print(described.registers, described.warning or "")
    pt.Muon(parameters, heads=[pt.MatrixRange(0, 4), (4, 8)], uncovered="matrix").state_dict(format="torch")


    state = quantization.ObserverState(q_min=0, q_max=255)
    quantization.observe(parameters, state)
    quantization.fake_quantize(parameters, state.scale, state.zero_point, q_min=0, q_max=255, learn="both", grad_factor=0.5)
    quantization.fake_quantize(parameters, 0.5, q_min=-8, q_max=7, axis=-1, group=32, division="reciprocal")
    model = quantization.LearnedQuantizer.of(parameters, q_min=-8, q_max=7, axis=-1, group=32)
    quantization.quantize_model(model, weight=lambda w: quantization.LearnedQuantizer.of(w), activation=quantization.FakeQuantize)
    quantization.unquantize_model(model, keep="quantized")
    quantization.export_int4(parameters, model).dequantize()
    quantization.export_nvfp4(parameters, two_dimensional=True, like="te").dequantize(parameters.dtype)
    quantization.export_mx(parameters, "mxfp6_e3m2", "rceil", dtype=parameters.dtype).dequantize()
    first, second = quantization.fake_quantize_block([parameters, parameters], "nvfp4", two_dimensional=True, like="torchao")
    quantization.fake_quantize_block(first + second, "mxfp4", rounding="stochastic", seed=1, scale_rounding="rceil").sum()
    quantization.fake_quantize_block(parameters, "nvfp4", block_amax=parameters, grad_factor=0.1).sum()
    quantization.export_nvfp4(parameters, block_amax=quantization.LearnedBlocks.of(parameters, start="lsq"))
    quantization.NVFP4Linear.of(quantization.NVFP4Linear(32, 16, bias=False), hadamard=False)(parameters)
    quantization.fp8_cast(quantization.lerp(parameters, parameters, 0.5), 2.0, format="e5m2")


def misuse(parameters: Any) -> None:
    pt.AdamW(parameters, max_gradnorm=1.0)  # type: ignore[call-arg]
    pt.Adam(parameters, statedtype="8bit")  # type: ignore[call-arg]
    pt.SGD(parameters, nestrov=True)  # type: ignore[call-arg]
    pt.Lion(parameters, beta=(0.9, 0.99))  # type: ignore[call-arg]
    pt.Optimizer(parameters, optimizers.adopt, state_dtype="8-bit")  # type: ignore[arg-type]
    pt.Muon(parameters, ns_step=5)  # type: ignore[call-arg]
    pt.Muon(parameters, adjust_lr_fn="rms")  # type: ignore[arg-type]
    pt.Muon(parameters, of_3d="experts")  # type: ignore[arg-type]
    pt.AdamW(parameters, state_dtype="8-bit")  # type: ignore[arg-type]
    pt.SGD(parameters, state_dtype=8)  # type: ignore[arg-type]
    pt.Lion(parameters, max_grad_norm="1")  # type: ignore[arg-type]
    pt.AdamW(parameters, seed=1.5)  # type: ignore[arg-type]
    pt.AdamW(parameters).state_dict(format="numpy")  # type: ignore[arg-type]
    pt.AdamW(parameters).step(closur=None)  # type: ignore[call-arg, unused-ignore]
    quantization.fake_quantize(parameters, 1.0)  # type: ignore[call-arg]
    quantization.fake_quantize(parameters, 1.0, q_min=-8, q_max=7, learn="scales")  # type: ignore[arg-type]
    quantization.unquantize_model(parameters, keep="both")  # type: ignore[arg-type]
    quantization.fp8_cast(parameters, format="e3m4")  # type: ignore[arg-type]
    pt.clip_grad_norm_(parameters, max_nrm=1.0)  # type: ignore[call-arg]

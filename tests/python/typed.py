# SPDX-License-Identifier: MIT
"""For a type checker alone: a use without a complaint, and misuses that get one. Under mypy --strict
a comment that ignores nothing is an error."""

from typing import Any

import ptxgen


class HasItemsize:
    """As the types of numpy and torch."""

    itemsize = 4


def use(gpu: ptxgen.Device, weight: ptxgen.Array, gradient: ptxgen.Array, count: ptxgen.Array) -> float:
    plan: ptxgen.ClipPlan = gpu.clip_plan([gradient, ptxgen.ClipTensor(data=64, count=1, dtype="bf16")],
                                          max_norm=1.0, nonfinite="skip", update={"interval": 100})
    with gpu.stream() as stream, gpu.capture(stream) as graph:
        plan.run(stream)
    graph.launch()
    tensor = ptxgen.StepTensor(parameter=weight, gradient=gradient, step=count, format="full", group=0)
    step = gpu.step_plan([tensor], groups=[ptxgen.AdamW(lr=1e-3, betas=(0.9, 0.95))], max_norm=1.0)
    step.set_hyper(0, ptxgen.StepHyper(lr=0.5))
    module = gpu.load("text", max_registers=32)
    module["saxpy"](1, 2.0, weight, y=gradient, grid=(1, 2), stream=stream)
    gpu.zeros((2, 3), "float32"), gpu.kernel("squared_sum", HasItemsize())
    warning = step.describe().warning or ""
    gpu.step_plan([tensor], groups=[rule(0.5).group(lr=1e-3)], max_norm=1.0)
    return plan.read(stream).records[0].norm + step.read().summary.state.scale + len(warning)


def rule(kept: float) -> ptxgen.Rule:
    @ptxgen.rule(states=dict(m=ptxgen.State("signed", dtype="bf16")), scalars=dict(lr=ptxgen.Scalar(0.1, "at_least_0")),
                 options=dict(half=False), keys=dict(nesterov=False), version=2)
    def mine(p: Any, g: Any, m: Any, lr: Any, half: bool) -> Any:
        m = kept * m + ptxgen.sqrt(abs(g))
        return p - ptxgen.where(g > 0, lr, -lr) * (0.5 * m if half else m), m

    emitted: str = mine.with_options(half=True).emit("sm_90")
    return mine if emitted else rule(kept)


def misuse(gpu: ptxgen.Device, array: ptxgen.Array) -> None:
    gpu.clip_plan([array], max_nrm=1.0)  # type: ignore[call-arg]
    gpu.clip_plan([array], max_norm="1")  # type: ignore[arg-type]
    gpu.clip_plan([array], max_norm=1.0, nonfinite="ignore")  # type: ignore[arg-type]
    ptxgen.StepTensor(paramter=array)  # type: ignore[typeddict-unknown-key]
    ptxgen.AdamW(1e-3)  # type: ignore[call-arg]
    gpu.empty(1, "float")  # type: ignore[arg-type]
    gpu.zeros("3")  # type: ignore[arg-type]
    ptxgen.ClipTensor(data=64, count=1, dtype="half")  # type: ignore[typeddict-item]
    gpu.clip_plan([array], max_norm=1.0).run("stream")  # type: ignore[arg-type]
    gpu.capture(1, mode="fast")  # type: ignore[arg-type]
    ptxgen.rule(states={}, scalars={}, version="1")  # type: ignore[arg-type]
    ptxgen.rule(states=["m"], scalars={})  # type: ignore[arg-type]
    ptxgen.rule(states={}, scalars={}, clocks={})  # type: ignore[call-arg]

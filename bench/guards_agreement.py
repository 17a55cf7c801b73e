#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Guards beside the code of those whose rules they are: OLMo-core's SkipStepOptimizer and ZClip, step by step over finite
runs with spikes.

    pip download --no-deps ai2-olmo-core && unzip ai2_olmo_core-*.whl
    git clone https://github.com/bluorion-com/ZClip
    PYTHONPATH=build/python python3 bench/guards_agreement.py olmo_core/optim/skip_step_optimizer.py ZClip/zclip/zclip.py

Both files are taken as they are; OLMo-core's package is not imported: the file needs two functions of it, which stand
here. Their statistics are computed from the norm that the step plan found, in f64 and, as OLMo-core's trainer does, in
f32. On a GPU the steps are replays of a graph; else the emulator must be there (ptxgen.torch.emulate()). Prints what
differs, and ends with 1 if a decision does in f64."""

import ctypes
import hashlib
import importlib.util
import random
import sys
import types

import torch

import ptxgen
import ptxgen.torch as pt
from ptxgen import _c
from scripts import gpu_or_emulator

STEPS, SEEDS, ELEMENTS, WARMUP, MOST_NORM = 1000, 5, 64, 25, 1.0


def module(path, name, package=None):
    """The module of one file, within a package whose other modules are not there."""
    if package:
        utils = types.ModuleType(f"{package}.utils")
        utils.move_to_device = lambda tensor, device: tensor.to(device)
        utils.get_default_device = lambda: torch.device("cpu")
        for key, value in ((package, types.ModuleType(package)), (utils.__name__, utils),
                           (f"{package}.optim", types.ModuleType(f"{package}.optim"))):
            value.__path__ = []
            sys.modules[key] = value
        name = f"{package}.optim.{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def series(seed):
    """A norm and a loss for each step: noise around a level that drifts, and spikes of all heights."""
    r = random.Random(seed)
    for step in range(STEPS):
        level = 0.6 + 0.3 * step / STEPS
        norm = level * (1 + 0.05 * r.gauss(0, 1))
        loss = 3 - step / STEPS + 0.02 * r.gauss(0, 1)
        if r.random() < 0.03:
            norm *= 1 + 10 ** r.uniform(-2, 3)
        if r.random() < 0.02:
            loss += 10 ** r.uniform(-2, 1)
        yield abs(norm), loss


class Steps:
    """Calls of `work`, from capture() on replays of a graph, with gradients of a norm."""

    def __init__(self, device, parameter, work):
        self.parameter, self.work = parameter, work
        direction = torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        self.direction = (direction / direction.norm()).to(device)
        parameter.grad = torch.zeros_like(parameter)

    def give(self, norm):
        self.parameter.grad.copy_(self.direction * norm)

    def capture(self):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = self.work()
        self.work = lambda: (graph.replay(), result)[1]


def history(theirs, device, seed):
    """How many steps are skipped, and in how many OLMo-core decides otherwise, of f64 and of f32."""
    p = torch.nn.Parameter(torch.zeros(ELEMENTS, device=device))
    guards = pt.Guards(history=128, losses=True)
    optimizer = pt.SGD([p], lr=1e-3, guards=guards)
    steps = Steps(device, p, optimizer.step)
    others = {dtype: theirs.SkipStepOptimizer([p], {}) for dtype in (torch.float64, torch.float32)}
    skipped, otherwise = 0, dict.fromkeys(others, 0)
    for step, (norm, loss) in enumerate(series(seed)):
        steps.give(norm)
        guards.latest_loss = torch.tensor(loss, device=device)
        if step == 1 and device == "cuda":
            steps.capture()
        steps.work()
        ours, found = float(guards.skipped) != 0, float(optimizer.grad_norm)
        skipped += ours
        for dtype, other in others.items():
            other.latest_loss = torch.tensor(loss, dtype=torch.float32).to(dtype)
            other.latest_grad_norm = torch.tensor(found, dtype=torch.float32).to(dtype)
            otherwise[dtype] += (float(other.get_step_factor()) == 0) != ours
    return skipped, otherwise


def record_of(guards):
    """ZClip's mean and variance, from the state."""
    state = bytes(guards.state_dict()["state"].cpu().numpy())
    row = _c.ptx_guard_record.from_buffer_copy(state[ctypes.sizeof(_c.ptx_guard_state):])
    return row.mean, row.variance


def relative(a, b):
    return abs(a - b) / max(abs(a), abs(b), 1e-300)


def zclip(theirs, device, seed):
    """How many steps ZClip clips below max_norm, in how many it does otherwise, and the largest relative differences
    of clipped norms, means and variances."""
    p = torch.nn.Parameter(torch.zeros(ELEMENTS, device=device))
    guards = pt.Guards(zclip=WARMUP)
    steps = Steps(device, p, lambda: pt.clip_grad_norm_([p], MOST_NORM, guards=guards))
    made = torch.nn.Module()
    made.p = torch.nn.Parameter(torch.zeros(ELEMENTS, dtype=torch.float64))
    other = theirs.ZClip(max_grad_norm=MOST_NORM, warmup_steps=WARMUP)
    clips = otherwise = 0
    far = [0.0, 0.0, 0.0]
    for step, (norm, _) in enumerate(series(seed)):
        steps.give(norm)
        raw = p.grad.double().cpu()
        if step == 1 and device == "cuda":
            steps.capture()
        found = float(steps.work())
        other._compute_grad_norm = lambda model, found=found: found
        made.p.grad = raw.clone()
        limit = other._compute_clip_val(found) if other.initialized else None
        other.step(made)
        clips += limit is not None
        ours, must = float(p.grad.double().norm()), float(made.p.grad.norm())
        expected = min(found, MOST_NORM, found if limit is None else limit)
        otherwise += relative(ours, expected) > 1e-5
        far[0] = max(far[0], relative(ours, must))
        if other.initialized:
            mean, variance = record_of(guards)
            far[1:] = max(far[1], relative(mean, other.mean)), max(far[2], relative(variance, other.var))
    return clips, otherwise, far


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    _, device = gpu_or_emulator()
    olmo, other = module(sys.argv[1], "skip_step_optimizer", "olmo_core"), module(sys.argv[2], "zclip_file")
    print(f"{ptxgen.Device().info.name}, {'replays of a graph' if device == 'cuda' else 'launches'}, torch "
          f"{torch.__version__}, {SEEDS} runs of {STEPS} steps")
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            print(f"{path.rsplit('/', 1)[-1]}: sha256 {hashlib.sha256(file.read()).hexdigest()}")
    wrong = 0
    for seed in range(SEEDS):
        skipped, otherwise = history(olmo, device, seed)
        clips, differ, far = zclip(other, device, seed)
        print(f"seed {seed}: history skips {skipped}, OLMo-core otherwise in {otherwise[torch.float64]} (its f32: "
              f"{otherwise[torch.float32]}); ZClip clips {clips}, otherwise in {differ}; relative difference of the clipped "
              f"norm {far[0]:.1e}, mean {far[1]:.1e}, variance {far[2]:.1e}")
        wrong += otherwise[torch.float64] + differ
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()

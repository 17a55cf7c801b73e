# SPDX-License-Identifier: MIT
"""Training with quantizers, eager, captured in a CUDA graph, and by torch.compile: the same operators, so the same bits."""

import os

import pytest
import torch
from ptxgen.torch import quantization as q
from torch_parts import DEVICE, needs

GPU = DEVICE == "cuda"
STEPS = int(os.environ.get("PTXGEN_TEST_STEPS", "300" if GPU else "4"))
RATE = 0.02


def random_of(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def made():
    """Weights with a learned scale for each group and for each row, and a learned amax for each block; inputs with observers."""
    sizes = ((32, 64), (64, 48), (48, 16))
    layers = [layer for size in sizes for layer in (torch.nn.Linear(*size, bias=False), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers[:-1]).to(DEVICE)
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_(random_of(*p.shape, seed=k) / p.shape[1] ** 0.5)
    made = iter((lambda w: q.LearnedQuantizer.of(w, -8, 7, axis=-1, group=32), lambda w: q.LearnedQuantizer.of(w, -8, 7, axis=0),
                 q.LearnedBlocks.of))
    q.quantize_model(model, weight=lambda w: next(made)(w), activation=lambda: q.FakeQuantize(-8, 7))
    return model


class Training:
    """A step reads its batch from the same memory each time, and writes its loss there."""

    def __init__(self, wrap=lambda model: model):
        self.model = made()
        self.call = wrap(self.model)
        self.x, self.wanted, self.loss = (torch.zeros(shape, device=DEVICE) for shape in ((16, 32), (16, 16), ()))

    def step(self):
        parameters = list(self.model.parameters())
        loss = (self.call(self.x) - self.wanted).square().mean()
        for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
            with torch.no_grad():
                p.sub_(gradient, alpha=RATE)
        self.loss.copy_(loss.detach())

    def run(self, step):
        losses = []
        for k in range(STEPS):
            self.x.copy_(random_of(16, 32, seed=2 * k))
            self.wanted.copy_(random_of(16, 16, seed=2 * k + 1))
            step()
            losses.append(self.loss.clone())
        return torch.stack(losses).cpu()

    def state(self):
        return [value.cpu() for value in self.model.state_dict().values()]


@pytest.fixture(scope="module")
def eager():
    training = Training()
    losses = training.run(training.step)
    assert losses.isfinite().all() and losses.unique().numel() == STEPS
    return losses, training.state()


def same(training, losses, eager):
    assert torch.equal(losses, eager[0]), int((losses != eager[0]).nonzero()[0])
    assert all(map(torch.equal, training.state(), eager[1]))


@needs("torch.library.custom_op")
def test_compiled(eager):
    torch._dynamo.reset()
    training = Training(lambda model: torch.compile(model, backend="aot_eager", fullgraph=True))
    same(training, training.run(training.step), eager)


def captured(eager):
    training = Training()
    first = training.state()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        training.step()  # compiles the kernels
    torch.cuda.current_stream().wait_stream(stream)
    with torch.no_grad():
        for value, before in zip(training.model.state_dict().values(), first):
            value.copy_(before)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        training.step()
    same(training, training.run(graph.replay), eager)


if GPU:  # the CPU has no graphs
    test_captured = captured

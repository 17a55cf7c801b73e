# SPDX-License-Identifier: MIT
"""state_dtype="24bit" beside FlashOptim's own code (flashoptim 0.1.4): its kernels on a GPU, or on the CPU in
Triton's interpreter, with TRITON_INTERPRET=1. test_torch_flashoptim.py runs this file."""

import flashoptim.optimizers as its_module
import pytest
import torch
from test_torch_flashoptim import HALVES, RULES, trained
from torch_parts import DEVICE, distance, give

from ptxgen.torch import _flashoptim, _formats


def on_cpu(states):
    return {name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in states.items()}


class One:
    """A kernel with one size of block: the interpreter does not tune."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return lambda *values: self.kernel[(1,)](*values, BLOCK_SIZE_N=1024)


class Signs:
    """What the interpreter lacks."""

    @staticmethod
    def copysign(size, sign):
        import triton.language as tl
        return tl.where(sign < 0, -size, size)


@pytest.fixture
def theirs(monkeypatch):
    if DEVICE == "cpu":
        monkeypatch.setattr(its_module, "libdevice", Signs)
        monkeypatch.setattr(its_module, "_get_sm_count", lambda *_: 2)
        for kernel in ("_triton_quantize_kernel", "_triton_dequantize_kernel"):
            monkeypatch.setattr(its_module, kernel, One(getattr(its_module, kernel).fn))
    return its_module


@pytest.mark.parametrize("signed", [True, False])
def test_codes_beside_its_own(theirs, signed):
    """Scales are equal; codes differ by one where its quotient, which it rounds otherwise, is near the middle of two.
    Its decoding gives what ours does, to its roundings."""
    value = torch.randn(64, 32, generator=torch.Generator().manual_seed(7)) * torch.logspace(-6, 4, 64)[:, None]
    value = (value if signed else value.square()).to(DEVICE)
    value[0] = 0
    own, scale = _flashoptim.codes(value, signed)
    found, scales = theirs.quantize(value, signed=signed, sqrt=not signed, softsign=signed)
    assert torch.equal(scales.view(torch.int16), scale.view(torch.int16)) and found.dtype is own.dtype
    apart = own.int() - found.int()
    assert int(apart.abs().max()) <= 1 and int((apart != 0).sum()) <= 4
    wanted = theirs.dequantize(found, scales, signed=signed, sqrt=not signed, softsign=signed)
    ours = _flashoptim.values(found.reshape(value.shape), scale[:, None].expand_as(value), signed)
    assert float(((ours - wanted).abs() / wanted.abs().clamp(min=1e-30)).max()) <= 2.0 ** -20


@pytest.mark.parametrize("dtype", HALVES)
def test_corrections_beside_its_own(theirs, dtype):
    """Equal but for quotients near the middle of two."""
    generator = torch.Generator().manual_seed(8)
    exact = (torch.randn(4096, generator=generator) * torch.logspace(-7, 3, 4096)).to(DEVICE)
    near = exact.to(dtype)
    own, found = _flashoptim.corrections(near, exact), theirs.compute_ecc_bits(exact, near, 3)
    apart = own.int() - found.int()
    assert int(apart.abs().max()) <= 1 and int((apart != 0).sum()) <= 8
    ours, wanted = _flashoptim.whole(near, found), theirs.reconstruct_fp32_param(near, found)
    assert bool(((ours - wanted).abs() <= 2.0 ** -22 * wanted.abs()).all())


@pytest.mark.parametrize("cls,options", RULES)
@pytest.mark.parametrize("dtype", HALVES)
def test_through_its_optimizers(theirs, monkeypatch, cls, options, dtype):
    """Its optimizer takes our dict, and what it saves comes back to the bit."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # it asks, and runs nothing here
    params, optimizer = trained(cls, dtype, **options)
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    its = getattr(theirs, "Flash" + cls.__name__)(copies, lr=0.5, **options)
    its.load_state_dict(optimizer.state_dict(format="flashoptim"))
    assert its.param_groups[0]["lr"] == 1e-2
    for p, q in zip(params, copies):
        for name in optimizer._names:
            held = its.state[q][name]
            assert torch.equal(held.quantized.reshape(p.shape), optimizer.state[p][name])
            assert torch.equal(held.scales.flatten(), optimizer.state[p][name + "_scale"].flatten())
        assert torch.equal(its.state[q]["error_bits"], optimizer.state[p]["correction"])
    again = cls(params, lr=1.0, state_dtype="24bit", **options)
    again.load_state_dict(its.state_dict())
    for p in params:
        for name, value in on_cpu(optimizer.state[p]).items():
            assert torch.equal(again.state[p][name].cpu().reshape(value.shape), value), name


@pytest.mark.skipif(DEVICE == "cpu", reason="does not run on the emulator: its states ask for tensors of a GPU")
@pytest.mark.parametrize("cls,options", [RULES[0], RULES[3]])
def test_steps_beside_its_own(theirs, cls, options):
    """Ten steps from one dict, ours and its: weights differ by a few parts of a step."""
    params, optimizer = trained(cls, torch.bfloat16, lr=1e-3, **options)
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    its = getattr(theirs, "Flash" + cls.__name__)(copies, lr=1e-3, **options)
    its.load_state_dict(optimizer.state_dict(format="flashoptim"))
    for seed in range(10, 20):
        for some, one in ((params, optimizer), (copies, its)):
            give(some, seed)
            one.step()
    ours = [_formats.whole(p, optimizer.state[p]) for p in params]
    wanted = [theirs.reconstruct_fp32_param(q, its.state[q]["error_bits"]) for q in copies]
    assert distance(ours, wanted) <= (2e-3 if cls is RULES[0][0] else 2e-2)

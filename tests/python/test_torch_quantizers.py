# SPDX-License-Identifier: MIT
"""The quantizers beside PyTorch's, on its tensors of the CPU: bench/train_quantized.py and examples/quantized_gpt2.py in small."""

import sys

import pytest
from conftest import ROOT
from torch_parts import needs

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "examples")]
import quantized_gpt2  # noqa: E402
import train_quantized  # noqa: E402


@pytest.mark.parametrize("scheme", train_quantized.SCHEMES)
def test_gradients(scheme):
    """Outputs and d_input have PyTorch's bits; the sums are within 1e-5 of the terms."""
    report = train_quantized.compare(scheme, 1 << 13)
    assert report["y_differs"] == report["d_input_differs"] == 0
    assert max(report["d_scale_error"], report["d_zero_point_error"]) < 1e-5


def test_observers():
    report = train_quantized.compare_observers(20)
    assert report["differ"] == {"affine": 0, "symmetric": 0}


@pytest.mark.parametrize("recipe, apart", [("lsq", 1e-3), pytest.param("nvfp4", 1e-5, marks=needs("torch.float8_e4m3fn"))])
def test_gpt2(tmp_path, recipe, apart):
    """Losses of plain autograd code, and the exported weights loaded again."""
    report = quantized_gpt2.compare_gpt2((1, 32), 3, str(tmp_path), recipe, nearest=True)
    assert report["greatest_difference"] < apart and report["trained"] == report["loaded"]
    assert report["first_losses"]["ours"] == pytest.approx(report["first_losses"]["plain autograd"], rel=1e-5)


def test_training():
    ours = train_quantized.train(train_quantized.Ours(), "groups", 6)
    assert ours == pytest.approx(train_quantized.train(train_quantized.Torch(), "groups", 6), rel=1e-5)

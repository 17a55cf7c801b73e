# SPDX-License-Identifier: MIT
"""ptxgen for PyTorch: clipping and optimizers in a few launches, for tensors and DTensors.

    import ptxgen.torch
    optimizer = ptxgen.torch.AdamW(model.parameters(), lr=3e-4, max_grad_norm=1.0)

    ptxgen.torch.install()        # torch.nn.utils.clip_grad_norm_ is ptxgen's

Nothing here is built against torch: it takes addresses and streams. docs/python.md is the guide."""

from ._device import emulate
from .clip import (clip_grad_norm_, clip_grads_with_norm_, get_total_norm, install, uninstall)
from .fp8 import Float8Weights
from .guards import Guards
from .muon import MatrixRange, Muon
from .optim import SGD, Adam, AdamW, Lion
from .own import Optimizer
from .qk_clip import QKClip
from .scaler import GradScaler

__all__ = [
    "Adam", "AdamW", "Float8Weights", "GradScaler", "Guards", "Lion", "MatrixRange", "Muon", "Optimizer", "QKClip", "SGD",
    "clip_grad_norm_", "clip_grads_with_norm_", "emulate", "get_total_norm", "install", "uninstall",
]

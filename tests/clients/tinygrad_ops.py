# SPDX-License-Identifier: MIT
"""tinygrad's PTX backend on the emulator: operations compared with numpy, and a small network that is
trained as numpy trains it. The emulator is in LD_LIBRARY_PATH."""
import os
import sys

os.environ.update(DEV="CUDA:PTX", CACHELEVEL="0")

# pylint: disable=wrong-import-position
import numpy as np
from tinygrad import Context, Tensor, dtypes, nn

random = np.random.default_rng(7)
failures = 0


def floats(*shape):
    return random.standard_normal(shape, dtype=np.float32)


def check(name, got, expected, tolerance=1e-5):
    global failures
    try:
        np.testing.assert_allclose(got.numpy(), expected, rtol=tolerance, atol=tolerance)
        print(f"{name}: ok")
    except Exception as error:  # pylint: disable=broad-except
        failures += 1
        print(f"{name}: {error}", file=sys.stderr)


def convolution(x, w):
    n, _, height, width = x.shape
    out = np.zeros((n, w.shape[0], height - 2, width - 2), np.float32)
    for i in range(3):
        for j in range(3):
            out += np.einsum("nchw,oc->nohw", x[:, :, i:i + height - 2, j:j + width - 2], w[:, :, i, j])
    return out


def operations():
    a, b, c = floats(17, 23), floats(23, 9), floats(17, 23)
    i = random.integers(-1000, 1000, (40,), dtype=np.int32)
    j = random.integers(1, 60, (40,), dtype=np.int32)
    check("matmul", Tensor(a) @ Tensor(b), a @ b, 1e-4)
    half = Tensor(a).half() @ Tensor(b).half()
    check("matmul f16", half.float(), a.astype(np.float16) @ b.astype(np.float16), 2e-2)
    check("sum", Tensor(a).sum(), a.sum(), 1e-4)
    check("sum of rows", Tensor(a).sum(1), a.sum(1), 1e-4)
    check("max", Tensor(a).max(0), a.max(0), 0)
    check("argmax", Tensor(a).argmax(1), a.argmax(1), 0)
    check("mean and std", (Tensor(a) - Tensor(a).mean(0)) / Tensor(a).std(0),
          (a - a.mean(0)) / a.std(0, ddof=1), 1e-4)
    shifted = np.exp(a - a.max(1, keepdims=True))
    check("softmax", Tensor(a).softmax(1), shifted / shifted.sum(1, keepdims=True))
    check("exp, log, sqrt", (Tensor(a).exp() + 1).log().sqrt(), np.sqrt(np.log(np.exp(a) + 1)))
    check("sin", Tensor(a).sin(), np.sin(a), 1e-4)
    check("where", (Tensor(a) > 0).where(Tensor(a), Tensor(c)), np.where(a > 0, a, c), 0)
    check("relu, tanh", Tensor(a).relu() + Tensor(c).tanh(), np.maximum(a, 0) + np.tanh(c))
    check("cumsum", Tensor(i).cumsum(), i.cumsum(), 0)
    check("integer division", Tensor(i) // Tensor(j), i // j, 0)
    check("remainder", Tensor(i) % Tensor(j), i % j, 0)
    check("bits", (Tensor(i) & 0xff) ^ (Tensor(j) << 2) | 1, (i & 0xff) ^ (j << 2) | 1, 0)
    check("int64", Tensor(i).cast(dtypes.int64) * 5_000_000_000, i.astype(np.int64) * 5_000_000_000, 0)
    check("uint8", Tensor(j).cast(dtypes.uint8) * 7, (j.astype(np.uint8) * 7), 0)
    double = a.astype(np.float64)
    check("f64", Tensor(a).cast(dtypes.float64) / 3 + 1e-9, double / 3 + 1e-9, 1e-15)
    check("gather", Tensor(a)[Tensor(j % 17)], a[j % 17], 0)
    check("pad and transpose", Tensor(a).pad(((1, 2), (0, 3))).T, np.pad(a, ((1, 2), (0, 3))).T, 0)
    check("sort", Tensor(i).sort()[0], np.sort(i), 0)
    x, w = floats(2, 3, 11, 10), floats(4, 3, 3, 3)
    check("conv2d", Tensor(x).conv2d(Tensor(w)), convolution(x, w), 1e-4)
    pooled = x[:, :, :10].reshape(2, 3, 5, 2, 5, 2).max((3, 5))
    check("max_pool2d", Tensor(x)[:, :, :10].max_pool2d(2), pooled, 0)


def training():
    x, y = floats(64, 8), np.tanh(floats(64, 8) @ floats(8, 1))
    w1, w2 = floats(8, 16) * np.float32(0.3), floats(16, 1) * np.float32(0.3)
    t1, t2 = Tensor(w1.copy()), Tensor(w2.copy())
    optimizer = nn.optim.SGD([t1, t2], lr=0.1)
    losses = []
    for _ in range(10):
        with Context(TRAINING=1):
            loss = ((Tensor(x).matmul(t1).relu().matmul(t2) - Tensor(y)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        hidden = np.maximum(x @ w1, 0)
        difference = 2 * (hidden @ w2 - y) / 64
        g1, g2 = x.T @ ((difference @ w2.T) * (hidden > 0)), hidden.T @ difference
        w1, w2 = w1 - np.float32(0.1) * g1, w2 - np.float32(0.1) * g2
        losses.append(loss.item())
    check("trained, first layer", t1, w1, 1e-3)
    check("trained, second layer", t2, w2, 1e-3)
    check("the loss falls", Tensor(np.array(losses[-1] < losses[0])), True, 0)


operations()
training()
print(f"tinygrad: {'operations and training: ok' if not failures else 'failed'}")
sys.exit(failures > 0)

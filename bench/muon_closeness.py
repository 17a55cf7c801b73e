#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far Muon's orthogonalized matrices are from the plain iteration in f64, and how far that iteration in bf16 is, as
torch.optim.Muon has it: relative distances (Frobenius), five steps with Jordan's coefficients.

    bench/muon_closeness.py BUILD [--shapes ROWSxCOLUMNS...] [--seed N]
    bench/muon_closeness.py BUILD --sets N [--seed N] [--most ROWSxCOLUMNS]
    bench/muon_closeness.py BUILD --large ROWSxCOLUMNS...

Without --sets and --large: a table of kinds and shapes. With --sets: N sets of matrices of random kinds and shapes, each set
stepped in one plan; prints the greatest distances. With --large: random matrices of these shapes, ours alone, whose f64
is that of the Gram matrix, so that (128, 8388600) fits into a GPU. Matrices are those of ptxgen.torch.Muon, on the GPU, or on the emulator where
there is none: set PTXGEN_LIBCUDA, and PTXGEN_EMU_DEVICE=sm_90,pageable. The iterations are made on the GPU, too, or on
the CPU. Exits with 1 where ours is farther than the greater of 0.01 and bf16, or than 0.02 for a random matrix from
16 x 16 up.
"""
import argparse
import math
import sys

import torch

A, B, C, STEPS = 3.4445, -4.7750, 2.0315, 5
SHAPES = [(16, 16), (16, 64), (33, 60), (64, 64), (64, 288), (128, 128), (128, 576), (200, 100), (256, 256), (257, 300)]
KINDS = ["random", "rank 1", "rank 16", "ill-conditioned", "zero", "one row"]
ALONE = ["one number", "short"]  # of the table, without a verdict
EPS = 1e-7
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make(kind, shape, generator):
    """A matrix of norm 1, in f64. An ill-conditioned one has singular values from 1 down to 1e-7; a short one is
    shorter than eps, 1e-10."""
    rows, columns = (1, shape[1]) if kind == "one row" else shape
    if kind == "zero":
        return torch.zeros(rows, columns, dtype=torch.float64)
    if kind == "one number":
        return torch.full((rows, columns), 1 / math.sqrt(rows * columns), dtype=torch.float64)
    x = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    if kind.startswith("rank"):
        rank = min(int(kind.split()[1]), rows, columns)
        left = torch.randn(rows, rank, generator=generator, dtype=torch.float64)
        x = left @ torch.randn(rank, columns, generator=generator, dtype=torch.float64)
    if kind == "ill-conditioned" and min(rows, columns) > 1:
        left, sizes, right = torch.linalg.svd(x, full_matrices=False)
        x = left @ torch.diag(torch.logspace(0, -7, len(sizes), dtype=torch.float64)) @ right
    return x / x.norm() * (1e-10 if kind == "short" else 1)


def iterate(x, dtype):
    turned = x.shape[0] > x.shape[1]
    x = x / EPS if 0 < x.norm() < EPS else x
    x = (x.T if turned else x).to(DEVICE, dtype)
    for _ in range(STEPS):
        gram = x @ x.T
        x = A * x + (B * gram + C * (gram @ gram)) @ x
    return (x.T if turned else x).double().cpu()


def ours(matrices):
    """What one step from 0 leaves, without momentum and decay and with a learning rate of 1."""
    import ptxgen.torch
    if DEVICE == "cpu":
        ptxgen.torch.emulate()
    params = [torch.nn.Parameter(torch.zeros(x.shape, device=DEVICE)) for x in matrices]
    for p, x in zip(params, matrices):
        p.grad = x.float().to(DEVICE)
    optimizer = ptxgen.torch.Muon(params, lr=1.0, momentum=0.0, nesterov=False, weight_decay=0.0)
    optimizer.step()
    return [-p.detach().double().cpu() / math.sqrt(max(1, x.shape[0] / x.shape[1])) for p, x in zip(params, matrices)]


def distance(x, exact):
    size = float(exact.norm())
    return float((x - exact).norm()) / (size if size else 1)


def compare(kinds, matrices):
    """(kind, shape, ours, bf16, whether ours is near enough) of each."""
    rows = []
    for kind, x, found in zip(kinds, matrices, ours(matrices)):
        exact = iterate(x, torch.float64)
        near, bf16 = distance(found, exact), distance(iterate(x, torch.bfloat16), exact)
        absolute = kind == "random" and min(x.shape) >= 16
        right = kind in ALONE or near <= max(0.01, bf16) and (not absolute or near <= 0.02)
        rows.append((kind, tuple(x.shape), near, bf16, right))
    return rows


def table(generator, shapes):
    cases = [(kind, shape) for kind in KINDS + ALONE for shape in shapes]
    rows = compare([kind for kind, _ in cases], [make(kind, shape, generator) for kind, shape in cases])
    for kind, shape, near, bf16, right in rows:
        print(f"{kind:16} {shape[0]:4} x {shape[1]:4}  ours {near:8.5f}  bf16 {bf16:8.5f}{'' if right else '  TOO FAR'}")
    return rows


def sets(count, generator, most):
    def below(most):
        return int(torch.randint(most, (1,), generator=generator))
    rows = []
    for _ in range(count):
        kinds = [KINDS[below(len(KINDS))] for _ in range(1 + below(4))]
        shapes = [(1 + below(most[0]), 1 + below(most[1])) for _ in kinds]
        rows += compare(kinds, [make(kind, shape, generator) for kind, shape in zip(kinds, shapes)])
    print(f"{count} sets, {len(rows)} matrices, {sum(not row[-1] for row in rows)} too far")
    for kind in KINDS:
        of_kind = [row for row in rows if row[0] == kind]
        if of_kind:
            worst = max(of_kind, key=lambda row: row[2] / max(0.01, row[3]))
            print(f"{kind:16} {len(of_kind):4} matrices; ours at most {max(row[2] for row in of_kind):8.5f}; against the greater "
                  f"of 0.01 and bf16 at most {worst[2] / max(0.01, worst[3]):6.3f}, {worst[1][0]} x {worst[1][1]}")
    return rows


def polynomial(x, chunk):
    """The matrix that x / |x|, wide, is multiplied by in STEPS steps of the iteration, in f64."""
    gram = sum(part @ part.T for part in (part.double() for part in x.split(chunk, dim=1)))
    gram /= gram.trace()
    one = torch.eye(len(gram), dtype=torch.float64, device=gram.device)
    made = one
    for _ in range(STEPS):
        step = A * one + B * gram + C * (gram @ gram)
        made, gram = step @ made, step @ gram @ step
    return made


def large(rows, columns, seed, chunk=1 << 20):
    import ptxgen.torch
    if DEVICE == "cpu":
        ptxgen.torch.emulate()
    p = torch.nn.Parameter(torch.zeros(rows, columns, device=DEVICE))
    p.grad = torch.randn(rows, columns, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(seed))
    optimizer = ptxgen.torch.Muon([p], lr=1.0, momentum=0.0, nesterov=False, weight_decay=0.0)
    optimizer.step()
    x, found = (p.grad.T, p.detach().T) if rows > columns else (p.grad, p.detach())
    exact = polynomial(x, chunk) / float(optimizer.grad_norm)
    off = size = 0.0
    for part, ours_part in zip(x.split(chunk, dim=1), found.split(chunk, dim=1)):
        there = exact @ part.double()
        off += float((-ours_part.double() / math.sqrt(max(1, rows / columns)) - there).square().sum())
        size += float(there.square().sum())
    print(f"random           {rows} x {columns}  ours {math.sqrt(off / size):8.5f}", flush=True)


def shape_of(text):
    rows, columns = map(int, text.split("x"))
    return rows, columns


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build")
    parser.add_argument("--shapes", type=shape_of, nargs="+", default=SHAPES, metavar="ROWSxCOLUMNS", help="of the table")
    parser.add_argument("--sets", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=shape_of, default=(140, 200), help="the largest matrices of the sets")
    parser.add_argument("--large", type=shape_of, nargs="+", default=[], metavar="ROWSxCOLUMNS", help="random matrices of these shapes alone")
    args = parser.parse_args()
    sys.path.insert(0, f"{args.build}/python")
    generator = torch.Generator().manual_seed(args.seed)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if DEVICE == 'cuda' else 'the emulator'}")
    for shape in args.large:
        large(*shape, args.seed)
    if args.large:
        return
    rows = sets(args.sets, generator, args.most) if args.sets else table(generator, args.shapes)
    sys.exit(0 if all(row[-1] for row in rows) else 1)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""qk_clip of the optimizers: a step with factors is the step without them, times the factors, to the bit."""

import copy

import ptxgen.torch as pt
import pytest
import torch
from ptxgen import optimizers
from torch_parts import DEVICE, give, parameters, run, same

SHAPES = [(24, 10), (6, 40), (16, 16), (12,)]
RANGES = [pt.MatrixRange(0, 3, 10, True), (4, 2, 10, True), (37, 3, 0, True)]  # of the second's columns
KINDS = {
    "AdamW": lambda params, **settings: pt.AdamW(params, lr=0.01, **settings),
    "Adam": lambda params, **settings: pt.Adam(params, lr=0.01, weight_decay=0.1, **settings),
    "SGD": lambda params, **settings: pt.SGD(params, lr=0.1, momentum=0.9, **settings),
    "Lion": lambda params, **settings: pt.Lion(params, lr=0.01, **settings),
    "Optimizer": lambda params, **settings: pt.Optimizer(params, optimizers.adopt, lr=0.01, **settings),
    "Muon": lambda params, **settings: pt.Muon([{"params": params[:3]}, {"params": params[3:], "use_muon": False}], lr=0.1,
                                               **settings),
}


def factors_of(*values):
    return torch.tensor(values, dtype=torch.float32, device=DEVICE)


def clips_of(params):
    """Four heads of rows; three ranges of columns."""
    return [pt.QKClip(params[0], factors_of(0.5, 1.0, 0.7, 0.9)), pt.QKClip(params[1], factors_of(0.25, 1.0, 1.5), RANGES)]


def of_elements(params, clips):
    """The factor of each element of the first two."""
    rows, columns = torch.ones(SHAPES[0], device=DEVICE), torch.ones(SHAPES[1], device=DEVICE)
    for k, factor in enumerate(clips[0].factors):
        rows[6 * k:6 * (k + 1)] *= factor
    for k, (first, length, stride) in enumerate([(0, 3, 10), (4, 2, 10), (37, 3, 40)]):
        for at in range(first, 40, stride):
            columns[:, at:at + length] *= clips[1].factors[k]
    return rows, columns


@pytest.mark.parametrize("kind", KINDS)
def test_factors(kind):
    params = parameters(shapes=SHAPES)
    plain = [torch.nn.Parameter(p.detach().clone()) for p in params]
    clips = clips_of(params)
    optimizer = KINDS[kind](params, max_grad_norm=1.0, reports=True, qk_clip=clips)
    without = KINDS[kind](plain, max_grad_norm=1.0, reports=True)
    for step in range(3):
        clips[0].factors.mul_(0.9)
        clips[1].factors.copy_(factors_of(1.0, 0.3 + step, 0.99))
        before = [p.detach().clone() for p in params]
        run(optimizer, params, first=step)
        run(without, plain, first=step)
        with torch.no_grad():
            for p, factor in zip(plain, of_elements(params, clips)):
                p.mul_(factor)
        assert same(params, plain), step
        found = optimizer.report()
        for k, (p, was) in enumerate(zip(params, before)):
            change = float((p.detach().double() - was.double()).norm())
            assert abs(float(found.change_norm[k]) - change) <= 1e-9 * change
            assert float(found.weight_largest[k]) == float(p.detach().abs().max())
    for p, own in zip(params, plain):
        assert same([s for s in optimizer.state[p].values()], [s for s in without.state[own].values()])


@pytest.mark.parametrize("state_dtype", ["master", "remainder"])
@pytest.mark.parametrize("kind", ["AdamW", "Muon"])
def test_on_the_master(kind, state_dtype):
    params = parameters(torch.bfloat16, SHAPES)
    plain = [torch.nn.Parameter(p.detach().clone()) for p in params]
    clips = clips_of(params)
    optimizer = KINDS[kind](params, state_dtype=state_dtype, qk_clip=clips)
    without = KINDS[kind](plain, state_dtype="master")
    run(optimizer, params, first=1)
    run(without, plain, first=1)
    for p, own, factor in zip(params, plain, of_elements(params, clips)):
        expected = without.state[own]["master"] * factor
        if state_dtype == "master":
            assert torch.equal(optimizer.state[p]["master"], expected)
            assert torch.equal(p.detach(), expected.bfloat16())
        else:
            low = optimizer.state[p]["remainder"].to(torch.int64)
            high = p.detach().view(torch.int16).to(torch.int64) << 16
            assert torch.equal((high + low).to(torch.int32), expected.view(torch.int32))


def test_heads():
    """Heads that are matrices, of rows and of columns; factors of other parts than these."""
    shapes = [(24, 10), (10, 24), (8, 6)]
    params = parameters(shapes=shapes)
    plain = [torch.nn.Parameter(p.detach().clone()) for p in params]

    def groups(of):
        return [{"params": of[:1], "heads": 3}, {"params": of[1:2], "heads": [(0, 8, 12, True), (8, 4, 12, True)]},
                {"params": of[2:], "in_by_out": True, "heads": 2}]

    values = factors_of(0.5, 0.6, 0.7, 0.8)
    clips = [pt.QKClip(params[0], values), pt.QKClip(params[1], values, columns=True),
             pt.QKClip(params[2], values[:2], [(1, 2), (5, 3)])]
    optimizer, without = pt.Muon(groups(params), lr=0.1, qk_clip=clips), pt.Muon(groups(plain), lr=0.1)
    run(optimizer, params, first=3)
    run(without, plain, first=3)
    with torch.no_grad():
        plain[0].mul_(values.repeat_interleave(6)[:, None])
        plain[1].mul_(values.repeat_interleave(6)[None])
        plain[2][1:3].mul_(values[0])
        plain[2][5:8].mul_(values[1])
    assert same(params, plain)


def test_beside_matrices_without_factors():
    params = parameters(shapes=[(24, 10), (8, 6)])
    plain = [torch.nn.Parameter(p.detach().clone()) for p in params]
    values = factors_of(0.5, 0.6)

    def groups(of):
        return [{"params": of[:1]}, {"params": of[1:], "use_muon": False}]

    optimizer = pt.Muon(groups(params), qk_clip=pt.QKClip(params[1], values, columns=True))
    without = pt.Muon(groups(plain))
    run(optimizer, params, first=4)
    run(without, plain, first=4)
    with torch.no_grad():
        plain[1].mul_(values.repeat_interleave(3))
    assert same(params, plain)


def test_steps_that_write_nothing():
    params = parameters(shapes=SHAPES)
    clips = clips_of(params)
    optimizer = pt.AdamW(params, lr=0.01, max_grad_norm=1.0, qk_clip=clips)
    run(optimizer, params, first=1)
    before = [p.detach().clone() for p in params]
    params[0].grad[0, 0] = float("inf")
    optimizer.step()
    assert same(params, before) and float(optimizer.found_inf) == 1
    give(params, 2)
    params[0].grad = None
    optimizer.step()
    assert torch.equal(params[0].detach(), before[0]) and not torch.equal(params[1].detach(), before[1])


def test_factors_of_one_and_copies():
    """Factors of 1 leave the step's bits, and an optimizer that is copied has its own parameters'."""
    params = parameters(torch.bfloat16, SHAPES)
    plain = [torch.nn.Parameter(p.detach().clone()) for p in params]
    clips = [pt.QKClip(params[0], torch.ones(24, device=DEVICE))]
    model = {"params": params, "optimizer": pt.SGD(params, lr=0.1, state_dtype="bf16", qk_clip=clips)}
    without = pt.SGD(plain, lr=0.1, state_dtype="bf16")
    give(params, 1)
    give(plain, 1)
    copied = copy.deepcopy(model)
    give(copied["params"], 1)
    for one in (model["optimizer"], without, copied["optimizer"]):
        one.step()
    assert same(params, plain) and same(copied["params"], plain)
    assert copied["optimizer"].qk_clip[0].parameter is copied["params"][0]


def test_factors_that_move():
    """A step reads factors where they are then, and nothing else than such factors as were there."""
    params = parameters(shapes=SHAPES[:1])
    values = factors_of(0.5, 1.0, 1.0, 1.0)
    optimizer = pt.SGD(params, lr=0.0, qk_clip=[pt.QKClip(params[0], values)])

    def factor():
        before = params[0].detach().clone()
        run(optimizer, params)
        return float((params[0].detach() / before)[0, 0])

    assert factor() == 0.5
    plan, = optimizer._engine()._parts
    kept = [one.data_ptr() for one in plan.factors]
    assert kept == [values.data_ptr()]
    values.data = factors_of(0.25, 1.0, 1.0, 1.0)
    assert factor() == 0.25 and [one.data_ptr() for one in plan.factors] == kept != [values.data_ptr()]
    good, before = values.data, params[0].detach().clone()
    freed = factors_of(1.0, 1.0, 1.0, 1.0)
    for given, words in ((good.double(), "a contiguous tensor of float32 is needed .*float64"), (good[:2], "4 ranges, and 2 factors"),
                         (good.repeat(2)[::2], "a contiguous tensor of float32 is needed"),
                         (good.view(torch.int32), "a contiguous tensor of float32 is needed .*int32"), (freed, "have no memory")):
        values.data = given
        if given is freed:
            given.untyped_storage().resize_(0)
        with pytest.raises(ValueError, match=words):
            run(optimizer, params)
    for given in (None, good.to_sparse()):
        optimizer.qk_clip[0].factors = given
        with pytest.raises(ValueError, match="a contiguous tensor of float32 is needed"):
            run(optimizer, params)
    values.data, optimizer.qk_clip[0].factors = good, values
    assert same(params, [before]) and factor() == 0.25
    optimizer.qk_clip = None
    assert factor() == 1.0 and optimizer.qk_clip == ()
    optimizer.qk_clip = [pt.QKClip(params[0], values)]
    assert factor() == 0.25
    other = pt.QKClip(parameters(shapes=SHAPES[:1])[0], values)
    for given, words in ((values, "are needed, not tensor"), (other, "is none of the optimizer's")):
        optimizer.qk_clip = [given]
        with pytest.raises(ValueError, match=words):
            run(optimizer, params)


def test_misuse():
    params = parameters(shapes=SHAPES)
    ones = torch.ones(4, device=DEVICE)
    for make, words in [
            (lambda: pt.QKClip(params[3], ones), r"a parameter of shape \(12,\) has no two dimensions"),
            (lambda: pt.QKClip(params[0], ones.double()), "a contiguous tensor of float32 is needed .*float64"),
            (lambda: pt.QKClip(params[0], ones[::2]), "a contiguous tensor of float32 is needed"),
            (lambda: pt.QKClip(params[0], 0.5), "a contiguous tensor of float32 is needed for factors, not 0.5"),
            (lambda: pt.QKClip(params[0], torch.ones(5)), "24 rows are not 5 equal parts"),
            (lambda: pt.QKClip(params[0], ones, [(0, 4)]), "1 ranges, and 4 factors"),
            (lambda: pt.QKClip(params[0], ones[:2], [(0, 4), (3, 4)]), "ranges 0 and 1 overlap: both have row 3"),
            (lambda: pt.QKClip(params[0], ones[:2], [(0, 4), (4, 1, 0, True)]), "range 1 is of columns, and range 0 of rows"),
            (lambda: pt.QKClip(params[0], ones[:1], [(20, 5)]), "range 0, first 20 and run 5, is not within the 24 rows"),
            (lambda: pt.QKClip(params[0], ones[:1], [(0, 2**64 + 4)]), "range 0, is no range"),
            (lambda: pt.QKClip(params[0], ones[:1], [(0, 4, 2**64)]), "range 0, is no range"),
            (lambda: pt.QKClip(params[0], ones[:1], [(2, 2, 3)]), "range 0 has a stride of 3, below first"),
            (lambda: pt.QKClip(params[0], ones[:1], ["rows"]), "'rows', range 0, is no range"),
            (lambda: pt.QKClip(params[0], ones, columns=2), "columns: 2 is neither"),
            (lambda: pt.QKClip(params[0], ones[:1], [pt.MatrixRange(0, 4)], columns=True), "columns=True, and .* is of rows"),
            (lambda: pt.AdamW(params, qk_clip=[ones]), "are needed, not tensor"),
            (lambda: pt.AdamW(params, qk_clip=[pt.QKClip(params[0], ones), pt.QKClip(params[0], ones)]),
             "two of them are of one parameter"),
            (lambda: pt.AdamW(params[1:], qk_clip=pt.QKClip(params[0], ones)), "is none of the optimizer's"),
            (lambda: pt.AdamW([{"params": params, "qk_clip": []}]), "qk_clip is in a group, and is one for all groups"),
            (lambda: pt.Optimizer(params, optimizers.schedule_free_adamw, qk_clip=pt.QKClip(params[0], ones)),
             "qk_clip with rule schedule_free_adamw: .*leave qk_clip out")]:
        with pytest.raises(ValueError, match=words):
            make()
    for shared in (params[0].detach()[0, :4], params[3].detach()[4:8]):  # the one with factors, and another
        optimizer = pt.AdamW(params, qk_clip=[pt.QKClip(params[0], shared), pt.QKClip(params[2], shared)])
        give(params, 1)
        with pytest.raises(ValueError, match="the factors of a parameter of shape .24, 10. and parameter [03] share memory: give the"):
            optimizer.step()
    optimizer = pt.SGD(params, lr=0.1, qk_clip=pt.QKClip(params[0], ones))
    run(optimizer, params)
    params[0].data = params[0].data.reshape(12, 20)
    give(params, 1)
    with pytest.raises(ValueError, match=r"parameter 0 is of shape \(12, 20\), and its factors of qk_clip are for \(24, 10\)"):
        optimizer.step()
    turned = torch.nn.Parameter(torch.randn(10, 24, device=DEVICE).t())
    optimizer = pt.AdamW([turned], qk_clip=pt.QKClip(turned, ones))
    turned.grad = torch.ones_like(turned)
    with pytest.raises(ValueError, match="has factors of qk_clip, and does not lie row by row in memory"):
        optimizer.step()

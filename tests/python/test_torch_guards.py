# SPDX-License-Identifier: MIT
"""Guards of ptxgen.torch's optimizers and of clip_grad_norm_, compared with plain loops."""

import copy
import math
import pickle
import statistics

import ptxgen.torch as pt
import pytest
import torch
from ptxgen.torch.guards import REASONS
from torch_parts import DEVICE, distance, give, needs, parameters, same

SKIPPED = {name: float(k) for k, name in enumerate(REASONS)}


def scaled(params, seed, norm):
    """Gradients of this norm."""
    give(params, seed)
    total = math.sqrt(sum(float(p.grad.double().square().sum()) for p in params))
    for p in params:
        p.grad.mul_(norm / total)


def usual(step):
    return 2.0 + 0.2 * math.sin(step)


def test_a_limit_skips_the_step_and_counts_nothing():
    params, guards = parameters(), pt.Guards(limit=10.0)
    optimizer = pt.AdamW(params, max_grad_norm=1.0, guards=guards)
    skipped = optimizer.skipped
    assert skipped.device.type == DEVICE and float(skipped) == 0.0 and guards.counts.tolist() == [0] * 5
    for step in range(6):
        scaled(params, step, 50.0 if step == 3 else usual(step))
        before = [p.detach().clone() for p in params]
        grads = [p.grad.clone() for p in params]
        optimizer.step()
        skips = step == 3
        assert float(optimizer.skipped) == float(skipped) == (SKIPPED["limit"] if skips else 0.0)
        assert float(optimizer.found_inf) == 0.0
        assert same(before, params) == skips
        assert same(grads, [p.grad for p in params])
    assert [int(n) for n in guards.counts] == [5, 0, 0, 1, 0]
    assert {float(optimizer.state[p]["step"]) for p in params} == {5.0}


def test_a_skipped_step_is_as_if_it_had_not_been():
    params, guards = parameters(), pt.Guards(limit=10.0)
    plain = parameters()
    optimizer = pt.AdamW(params, max_grad_norm=1.0, guards=guards)
    other = pt.AdamW(plain, max_grad_norm=1.0)
    for step in range(4):
        scaled(params, step, 50.0 if step == 2 else usual(step))
        if step != 2:
            for p, q in zip(params, plain):
                q.grad = p.grad.clone()
            other.step()
        optimizer.step()
    assert distance(params, plain) == 0


class Loop:
    """OLMo-core's rule with lists, as its source has it."""

    def __init__(self, length, deviations):
        self.length, self.deviations, self.norms, self.losses = length, deviations, [], []

    def takes(self, norm, loss):
        self.norms, self.losses = (self.norms + [norm])[-self.length - 1:], (self.losses + [loss])[-self.length - 1:]
        if len(self.losses) < max(2, self.length // 2):
            return True
        return all(values[-1] - statistics.fmean(values[:-1])
                   <= self.deviations * statistics.stdev(values[:-1]) for values in (self.norms, self.losses))


def test_history_is_that_of_a_plain_loop():
    params, guards = parameters(shapes=[(40,), (3, 5)]), pt.Guards(history=16, deviations=3.0, losses=True)
    optimizer = pt.AdamW(params, guards=guards)
    loop, seen = Loop(16, 3.0), set()
    for step in range(80):
        scaled(params, step, 9.0 if step in (20, 50, 51) else usual(step))
        loss = torch.tensor(9.0 if step in (35, 60) else 3.0 + 0.1 * math.cos(step), device=DEVICE)
        guards.latest_loss = loss
        optimizer.step()
        taken = loop.takes(float(guards.norm), float(loss))
        assert float(optimizer.skipped) == (0.0 if taken else SKIPPED["history"]), step
        seen.add((step, taken))
    assert sum(not taken for _, taken in seen) >= 4
    assert int(guards.counts.sum()) == 80


class ZLoop:
    """ZClip as its source has it: what the norm is clipped to."""

    def __init__(self, warmup):
        self.warmup, self.buffer, self.mean, self.var = warmup, [], None, None

    def limit(self, norm):
        if self.mean is None:
            self.buffer.append(norm)
            if len(self.buffer) == self.warmup:
                self.mean = sum(self.buffer) / self.warmup
                self.var = sum((x - self.mean) ** 2 for x in self.buffer) / self.warmup
            return math.inf
        std = self.var ** 0.5
        z = (norm - self.mean) / (std + 1e-6)
        limit = self.mean + 2.5 * std / (z / 2.5) if z > 2.5 else None
        used = norm if limit is None else limit
        self.mean = 0.97 * self.mean + 0.03 * used
        self.var = 0.97 * self.var + 0.03 * (used - self.mean) ** 2
        return math.inf if limit is None else limit


def test_zclip_clips_as_its_source():
    params, guards = parameters(shapes=[(40,), (3, 5)]), pt.Guards(zclip=25)
    loop, clipped = ZLoop(25), 0
    for step in range(120):
        scaled(params, step, 9.0 if step % 17 == 16 else usual(step))
        norm = float(pt.clip_grad_norm_(params, 100.0, guards=guards))
        limit = loop.limit(norm)
        now = math.sqrt(sum(float(p.grad.double().square().sum()) for p in params))
        assert now == pytest.approx(min(norm, limit), rel=2e-6)
        clipped += limit < norm
    assert clipped >= 4 and float(guards.skipped) == 0.0


def test_an_optimizer_obeys_the_guards_of_a_clip():
    params, guards = parameters(), pt.Guards(limit=10.0)
    optimizer = pt.AdamW(params, obey=guards)
    for step in range(5):
        scaled(params, step, 50.0 if step in (1, 3) else usual(step))
        grads = [p.grad.clone() for p in params]
        norm = pt.clip_grad_norm_(params, 1.0, guards=guards)
        before = [p.detach().clone() for p in params]
        optimizer.step()
        skips = step in (1, 3)
        assert (float(guards.skipped) == SKIPPED["limit"]) == skips
        assert same(before, params) == skips and same(grads, [p.grad for p in params]) == skips
        assert (float(norm) > 10) == skips
    assert {float(optimizer.state[p]["step"]) for p in params} == {3.0}


def test_the_state_goes_on_in_another_optimizer():
    def make(seed):
        params, guards = parameters(shapes=[(40,)], seed=seed), pt.Guards(history=8, deviations=2.0, zclip=5)
        return params, guards, pt.AdamW(params, max_grad_norm=1.0, guards=guards)

    params, guards, optimizer = make(1)
    for step in range(12):
        scaled(params, step, usual(step))
        optimizer.step()
    others, other_guards, other = make(1)
    with torch.no_grad():
        for p, q in zip(params, others):
            q.copy_(p)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for step in range(12, 24):
        scaled(params, step, 30.0 if step == 18 else usual(step))
        for p, q in zip(params, others):
            q.grad = p.grad.clone()
        optimizer.step()
        other.step()
        assert torch.equal(guards.state_dict()["state"], other_guards.state_dict()["state"])
    assert distance(params, others) == 0
    assert int(guards.counts[4]) >= 1
    third = copy.deepcopy(optimizer)
    assert torch.equal(third.guards.state_dict()["state"].cpu(), guards.state_dict()["state"].cpu())
    assert "guards" not in optimizer.state_dict(format="torch")


def test_the_state_of_other_guards_is_refused():
    params = parameters(shapes=[(40,)])
    optimizer = pt.AdamW(params, guards=pt.Guards(history=8))
    scaled(params, 1, 2.0)
    optimizer.step()
    saved = optimizer.state_dict()
    other = pt.AdamW(parameters(shapes=[(40,)]), guards=pt.Guards(history=16, losses=True, zclip=5))
    with pytest.raises(ValueError, match="other guards: it has a history of 8 norms, neither ZClip nor AdaGC, and these "
                                         "have a history of 16 norms and losses, ZClip"):
        other.load_state_dict(saved)
    assert not other.state
    small = pt.Guards(history=6, zclip=3)
    for wrong, words in ((pt.Guards(history=6, adagc=3).state_dict()["state"] + 1, "the state is of version"),
                         (pt.Guards(history=6).state_dict()["state"], "it has 152 bytes, and these, with a history of 6")):
        with pytest.raises(ValueError, match=words):
            small.load_state_dict({"state": wrong})
    for wrong in ({}, None, {"state": [1]}, {"state": torch.zeros(3, dtype=torch.uint8)}):
        with pytest.raises(ValueError, match="guards: what state_dict.. of Guards gives is needed"):
            optimizer.load_state_dict({**saved, "guards": wrong})


def test_what_there_is_before_the_first_step():
    """And after copies and loading."""
    params, guards = parameters(shapes=[(40,)]), pt.Guards(limit=10.0)
    assert float(guards.skipped) == float(guards.norm) == 0.0 and guards.counts.tolist() == [0] * 5
    optimizer = pt.AdamW(params, guards=guards)
    scaled(params, 1, 50.0)
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert other.guards.counts.tolist() == [0, 0, 0, 1, 0] and other.skipped.device.type == DEVICE
    fresh = pt.AdamW(params, guards=pt.Guards(limit=10.0))
    fresh.load_state_dict(optimizer.state_dict())
    assert float(fresh.skipped) == SKIPPED["limit"] and fresh.guards.norm.device.type == DEVICE


def test_losses_need_a_loss():
    params, guards = parameters(shapes=[(40,)]), pt.Guards(history=8, losses=True)
    optimizer = pt.AdamW(params, guards=guards)
    scaled(params, 1, 2.0)
    for call in (optimizer.step, lambda: pt.clip_grad_norm_(params, 1.0, guards=pt.Guards(history=8, losses=True))):
        with pytest.raises(ValueError, match="set guards.latest_loss"):
            call()
    assert not optimizer.state
    for wrong in ("x", None, 1j, torch.ones(2)):
        with pytest.raises(ValueError, match="latest_loss: a number is needed"):
            guards.latest_loss = wrong
    guards.latest_loss = 3.0
    optimizer.step()
    assert guards.counts.tolist() == [1, 0, 0, 0, 0]


def test_guards_have_one_owner():
    params, others = parameters(shapes=[(40,)]), parameters(shapes=[(30,)])
    guards = pt.Guards(limit=10.0)
    optimizer, other = pt.AdamW(params, guards=guards), pt.SGD(others, lr=0.1, guards=guards)
    scaled(params, 1, 2.0)
    scaled(others, 1, 2.0)
    optimizer.step()
    for call, who in ((other.step, "an optimizer SGD"),
                      (lambda: pt.clip_grad_norm_(others, 1.0, guards=guards), "clip_grad_norm_")):
        with pytest.raises(ValueError, match=f"those of an optimizer AdamW, and {who}.*obey=guards"):
            call()
    optimizer.step()
    assert int(guards.counts[0]) == 2 and not other.state
    cut = pt.Guards(limit=10.0)
    pt.clip_grad_norm_(params, 1.0, guards=cut)
    pt.clip_grad_norm_(params[:1], 1.0, guards=cut)
    with pytest.raises(ValueError, match="those of clip_grad_norm_.*, and an optimizer AdamW"):
        pt.AdamW(params, guards=cut).step()


@needs("torch.nn.utils.get_total_norm")  # of torch 2.6, whose fused AdamW takes the CPU
def test_torchs_fused_step_takes_found_inf_of_the_page():
    params, guards = parameters(shapes=[(40,)]), pt.Guards(limit=10.0)
    optimizer = torch.optim.AdamW(params, fused=True)
    for step, norm in enumerate((2.0, 50.0, 2.0)):
        scaled(params, step, norm)
        pt.clip_grad_norm_(params, 1.0, guards=guards)
        before = [p.detach().clone() for p in params]
        optimizer.found_inf = (guards.skipped != 0).float()
        optimizer.step()
        assert same(before, params) == (norm > 10)
    assert float(optimizer.state[params[0]]["step"]) == 2.0


def test_a_call_without_gradients():
    params, guards = parameters(shapes=[(40,)]), pt.Guards(limit=10.0)
    scaled(params, 1, 50.0)
    pt.clip_grad_norm_(params, 1.0, guards=guards)
    assert float(guards.skipped) == SKIPPED["limit"]
    params[0].grad = None
    assert float(pt.clip_grad_norm_(params, 1.0, guards=guards)) == 0.0 and float(guards.skipped) == 0.0


def test_numbers_of_numpy():
    numpy = pytest.importorskip("numpy")
    guards = pt.Guards(limit=numpy.float32(10), history=numpy.int64(8), deviations=numpy.float64(3), zclip=numpy.int32(5))
    assert repr(guards) == repr(pt.Guards(limit=10.0, history=8, deviations=3.0, zclip=5))
    assert repr(pt.Guards(history=8, losses=True)) == "Guards(history=8, losses=True)"


def test_misuse():
    for given, words in (({"limit": -1.0}, "limit: -1.0"), ({"limit": math.nan}, "limit: nan"),
                         ({"limit": 1e-50}, "limit: 1e-50 is not a number above 0 in f32"), ({"limit": True}, "limit: True"),
                         ({"history": 5}, "history: 5 is not 0, or a number of steps from 6 to 65536"),
                         ({"history": 65537}, "history: 65537 is not 0, or a number of steps from 6 to 65536"),
                         ({"history": True}, "history: True"), ({"history": 8.5}, "history: 8.5"),
                         ({"history": 8, "most_skips": True}, "most_skips: True"),
                         ({"history": 8, "deviations": True}, "deviations: True"),
                         ({"history": 8, "deviations": 0}, "deviations: 0 is not a number above 0"),
                         ({"losses": True}, "losses=True is of the history, and history is 0"),
                         ({"deviations": 3.0}, "deviations is of the history, and history is 0"),
                         ({"most_skips": 3}, "most_skips is of the history, and history is 0"),
                         ({"zclip": {}}, "zclip: {} has no warmup"), ({"adagc": {"beta": 0.5}}, "adagc: .* has no warmup"),
                         ({"zclip": 0}, "zclip: 0 is not a number of steps"), ({"adagc": True}, "adagc: .*True"),
                         ({"zclip": {"warmup": 5, "alpha": True}}, "zclip: a number is needed for alpha, not True"),
                         ({"zclip": {"warmup": 5, "alpha": 2.0}}, "guards.zclip.alpha is 2"),
                         ({"zclip": 5, "adagc": 5}, "guards has zclip and adagc")):
        with pytest.raises(ValueError, match=words):
            pt.Guards(**given)
    with pytest.raises(TypeError, match="guards: ptxgen.torch.Guards"):
        pt.AdamW(parameters(), guards={"limit": 1.0})
    guards = pt.Guards(limit=1.0)
    for name in ("latest_los", "limit", "skipped"):
        with pytest.raises(AttributeError, match=f"no '{name}' to set.*latest_loss"):
            setattr(guards, name, 5)
    with pytest.raises(ValueError, match="one object"):
        pt.AdamW(parameters(), guards=guards, obey=guards)
    with pytest.raises(ValueError, match="look at no losses"):
        guards.latest_loss = 1.0


@pytest.mark.parametrize("change,options,words", [
    (lambda g: g, {"norm_type": 1.0}, "norm_type is 1.0"), (lambda g: g, {"max_norm": -1.0}, "max_norm is -1.0"),
    (lambda g: g.to_sparse(), {}, "the gradient of parameter 0 is sparse"),
    (lambda g: g.double(), {}, "the gradient of parameter 0 is torch.float64"),
    (lambda g: torch.cat([g, g])[::2], {}, "the gradient of parameter 0 is not contiguous"),
    (lambda g: g[:1].expand(40), {}, "the gradient of parameter 0 is not contiguous")])
def test_gradients_that_guards_cannot_look_at(change, options, words):
    param = torch.zeros(40, dtype=change(torch.zeros(40)).dtype, device=DEVICE, requires_grad=True)
    param.grad = change(torch.ones(40, device=DEVICE))
    with pytest.raises(ValueError, match="guards look at the 2-norm of gradients that plans take: " + words):
        pt.clip_grad_norm_([param], options.pop("max_norm", 1.0), guards=pt.Guards(limit=1.0), **options)


def test_a_dict_that_is_refused_leaves_the_guards():
    params = parameters()
    optimizer = pt.SGD(params, lr=0.5, guards=pt.Guards(limit=1e6), fp8=pt.Float8Weights())
    give(params, 0)
    optimizer.step()
    given = {**optimizer.state_dict(), "guards": pt.Guards(limit=1.0).state_dict(), "fp8": {"scale": 3}}
    with pytest.raises(ValueError, match="fp8: what state_dict"):
        optimizer.load_state_dict(given)
    assert optimizer.guards.counts.tolist()[0] == 1

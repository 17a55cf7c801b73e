# SPDX-License-Identifier: MIT
"""Guards of ptxgen.torch's optimizers and of clip_grad_norm_, compared with plain loops."""

import copy
import math
import statistics

import ptxgen.torch as pt
import pytest
import torch
from ptxgen.torch.guards import REASONS
from torch_parts import DEVICE, distance, give, parameters, same

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
    assert optimizer.skipped is None
    for step in range(6):
        scaled(params, step, 50.0 if step == 3 else usual(step))
        before = [p.detach().clone() for p in params]
        grads = [p.grad.clone() for p in params]
        optimizer.step()
        skips = step == 3
        assert float(optimizer.skipped) == (SKIPPED["limit"] if skips else 0.0)
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
    other = pt.AdamW(parameters(shapes=[(40,)]), guards=pt.Guards(history=16))
    with pytest.raises(ValueError, match="is that of other guards"):
        other.load_state_dict(saved)
    assert not other.state
    same_size = pt.Guards(history=6, losses=False, zclip=3)
    with pytest.raises(ValueError, match="is that of other guards|the state has"):
        same_size.load_state_dict({"state": pt.Guards(history=6, adagc=3).state_dict()["state"] + 1})


def test_misuse():
    for given, words in (({"limit": -1.0}, "limit: -1.0"), ({"limit": math.nan}, "limit: nan"),
                         ({"history": 5}, "guards.history.length is 5; it must be 6"),
                         ({"losses": True}, "history is 0"),
                         ({"zclip": {"warmup": 5, "alpha": 2.0}}, "guards.zclip.alpha is 2"),
                         ({"zclip": 5, "adagc": 5}, "guards has zclip and adagc")):
        with pytest.raises(ValueError, match=words):
            pt.Guards(**given)
    with pytest.raises(TypeError, match="guards: ptxgen.torch.Guards"):
        pt.AdamW(parameters(), guards={"limit": 1.0})
    guards = pt.Guards(limit=1.0)
    with pytest.raises(ValueError, match="one object"):
        pt.AdamW(parameters(), guards=guards, obey=guards)
    with pytest.raises(ValueError, match="look at no losses"):
        guards.latest_loss = 1.0
    with pytest.raises(ValueError, match="guards look at the 2-norm"):
        pt.clip_grad_norm_(parameters(), 1.0, guards=guards)

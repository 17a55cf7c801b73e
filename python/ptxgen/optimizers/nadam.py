# SPDX-License-Identifier: MIT
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
"""NAdam (Dozat 2016), as torch 2.11's. momentum_decay is an option: nadam.with_options(momentum_decay=...),
and so is decoupled_weight_decay. The product of the momenta is its clock."""

from ..rules import rule
from ..symbols import sqrt


@rule(states=dict(exp_avg="signed", exp_avg_sq="positive"), clock=dict(mu_product=1.0),
      options=dict(momentum_decay=4e-3, decoupled_weight_decay=False),
      scalars=dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0))
def nadam(p, g, exp_avg, exp_avg_sq, t, mu_product, lr, betas, eps, weight_decay, momentum_decay,
          decoupled_weight_decay):
    slow = 0.96 ** momentum_decay
    now = betas[0] * (1 - 0.5 * slow ** t)
    later = betas[0] * (1 - 0.5 * (slow * slow ** t))
    mu_product = mu_product * now
    if decoupled_weight_decay:
        p = p - lr * weight_decay * p
    else:
        g = g + weight_decay * p
    m = exp_avg + (1 - betas[0]) * (g - exp_avg)
    v = betas[1] * exp_avg_sq + (1 - betas[1]) * (g * g)
    size = sqrt(v / (1 - betas[1] ** t)) + eps
    p = p - lr * (1 - now) / (1 - mu_product) * (g / size)
    return p - lr * later / (1 - mu_product * later) * (m / size), m, v, mu_product

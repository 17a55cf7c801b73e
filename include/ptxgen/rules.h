// SPDX-License-Identifier: MIT
/// The optimizers' rules, and the formats of parameters and states. step.h has the plan.
///
/// A rule computes in f32. Every operation is rounded to nearest even (.rn), fused only where the
/// formula says fma. The scalars of a rule are rounded to f32 first; 1 - beta^t is formed in f64
/// from those (beta^t by squaring and multiplying over the bits of t, the most significant first,
/// each product rounded) and rounded once. t counts from 1. `g` is the gradient times the factor of
/// its norm group, rounded once, and -g under `maximize`.
///
///     ADAMW  p = fma(-(lr * weight_decay), p, p)
///            m = fma(beta1, m, fma(-beta1, g, g))
///            v = fma(beta2, v, fma(-beta2, g * g, g * g))
///            p = p - ((lr / (1 - beta1^t)) * m) / (sqrt(v) / sqrt(1 - beta2^t) + eps)
///     ADAM   g = fma(weight_decay, p, g) in place of the first line; the rest as ADAMW
///     SGD    g = fma(weight_decay, p, g)
///            m = t == 1 ? g : momentum * m + (1 - dampening) * g
///            p = p - lr * (nesterov ? g + momentum * m : m)
///            without momentum: p = p - lr * g, and no state
///     LION   p = fma(-(lr * weight_decay), p, p)
///            p = p - lr * sign(beta1 * m + (1 - beta1) * g)     sign(+-0) = sign(NaN) = 0
///            m = beta2 * m + (1 - beta2) * g
///
/// sqrt(1 - beta2^t) is taken in f64 and rounded once.
///
/// MUON steps matrices: muon.h has its formulas.
///
/// An infinite p becomes NaN under every rule, also where weight_decay is 0. In PyTorch p stays
/// infinite in AdamW and Muon, which multiply it by 1 - lr * weight_decay, and in the other rules
/// where weight_decay is 0.
///
/// A tensor with an average of its weights (EMA) takes one more line, whatever its rule:
///
///     EMA    ema = fma(1 - ema_decay, p - ema, ema)
///
/// p is the parameter as stored: what the next forward pass sees, rounded to its type, and not its
/// master. 1 - ema_decay is formed in f64 from the decay as it is, not rounded to f32 before, and
/// rounded once. These are the bits of torch.Tensor.lerp_(p, 1 - ema_decay) on a GPU, for an ema in
/// f32 and a decay above 0.5; below, torch computes p - (p - ema) * ema_decay. An ema in bf16 is
/// rounded stochastically, in every format. It is the caller's to set first: to the parameter,
/// usually.
///
/// Sources: Loshchilov and Hutter 2019 (AdamW),
/// Kingma and Ba 2015 (Adam), Sutskever et al. 2013 (SGD with momentum), Chen et al. 2023 (Lion);
/// the order of operations is that of PyTorch's fused kernels, where those do not leave it to the
/// compiler.
#ifndef PTXGEN_RULES_H
#define PTXGEN_RULES_H

#include <ptxgen/types.h>

PTXGEN_BEGIN

/// What a rule has at most: arrays beside the parameter, outputs of rules of callers and the
/// average of the weights among them, and scalars. The rules here have up to 2 states and 5
/// scalars.
enum { PTX_STEP_MAX_STATES = 8, PTX_STEP_MAX_SCALARS = 16 };

/// The optimizers, by the formulas above.
typedef enum ptx_step_rule {
    PTX_STEP_RULE_ADAMW,
    PTX_STEP_RULE_ADAM,
    PTX_STEP_RULE_SGD,
    PTX_STEP_RULE_LION,
    PTX_STEP_RULE_MUON,
    PTX_STEP_RULE_COUNT
} ptx_step_rule;

/// X(enumerator, name, type of a state, type of what is beside the parameter): the formats, in the
/// order of their enumeration.
#define PTX_STEP_FORMATS(X)                                                                        \
    X(FULL, full, F32, NONE)                                                                       \
    X(STATE_BF16, state_bf16, BF16, NONE)                                                          \
    X(MASTER, master, F32, F32)                                                                    \
    X(REMAINDER, remainder, F32, S16)                                                              \
    X(STOCHASTIC, stochastic, BF16, NONE)                                                          \
    X(STATE_8BIT, state_8bit, U8, NONE)                                                            \
    X(STATE_F16, state_f16, F16, NONE)                                                             \
    X(MASTER_24BIT, master_24bit, U8, S8)

/// How a parameter and its states are stored. Every rule takes every format, but MUON those without
/// blocks of states, with a gradient in f32, f16 or bf16. A rule uses the new states in f32, before
/// they are rounded to their format.
///
///     format       parameter    beside it             states
///     FULL         f32                                f32
///     STATE_BF16   f32                                bf16, to nearest
///     MASTER       bf16, f16    master, f32           f32
///     REMAINDER    bf16         remainder, s16        f32
///     STOCHASTIC   bf16, f16                          bf16
///     STATE_8BIT   f32, bf16, f16                     8-bit codes with an f32 absmax a block
///     STATE_F16    f32, bf16, f16                     f16 codes with an f32 scale a block
///     MASTER_24BIT bf16, f16    correction, s8        8-bit codes with an f16 scale a block
///
/// MASTER: the rule works on the master; the parameter is the master rounded to nearest. REMAINDER:
/// parameter and remainder are the two halves of an f32 with bits x:
///     parameter = (x + 0x8000) >> 16, remainder = the low half of x, as s16
/// and x is (parameter << 16) plus the sign-extended remainder. Ties round away from zero, because
/// only then the split can be undone. A NaN is stored as 0x7fc0 with remainder 0. A parameter that
/// others wrote keeps its sign and stays finite, whatever the remainder: beside +-0 a negative
/// remainder counts as 0, and beside infinity and NaN each does. So one f32 in 65536 does not come
/// back: the finite ones from 0x7f7f8000 on, of either sign, are infinity at the next step.
///
/// STOCHASTIC: the parameter, Adam's v and the single state of SGD and Lion are rounded
/// stochastically; Adam's m is rounded to nearest. Stochastic rounding adds 16 random bits to the
/// f32's bits and keeps the upper half. A finite value may round to infinity; NaN becomes 0x7fff.
/// A parameter in f16, with R its 16 random bits:
///     |x| >= 2^-14     R >> 3 is added to the f32's bits, of which the 13 lowest become 0
///     |x| < 2^-14      |x| + R * 2^-40, cut to a multiple of 2^-24, with the sign of x
/// From 65504 on that may round to infinity, and from 65536 on it does; NaN becomes 0x7fff.
///
/// The random bits are those of Philox4x32-7 with the counter { e / 8 mod 2^32, e / 8 / 2^32 + 2^29
/// * which, t, id } and the key { seed mod 2^32, seed / 2^32 }. e is the element's index in the
/// whole parameter, so e / 8 / 2^32 is below 2^29. `which` is 0 for the parameter, 1 for the
/// average of the weights, and 4 for the first state that is rounded stochastically; 5, 6 and 7 are
/// for the second, third and fourth.
/// Element e uses word (e mod 8) / 2 of the result: the lower half if e is even, else the upper
/// half.
///
/// STATE_8BIT: a parameter in 16 bits is rounded stochastically, as in STOCHASTIC. A state has a
/// code for each element, and an absmax for each block of 256 elements, counted from the tensor's
/// first; the last block may be shorter. They are those of bitsandbytes' blockwise 8-bit optimizers
/// (Dettmers et al. 2022), and so are the maps:
///     state = map[code] * absmax
/// After the rule, with M the largest |state| of the block,
///     absmax = M                     where 2^-126 <= M < infinity
///     q      = state * (1 / absmax)  both rounded; then its 8 lowest bits become 0x80
///     code   = that of the map's entry nearest to q
/// No q is midway between two entries. Where M < 2^-126, absmax is 0 and each code that of 0. Where
/// M is infinite or NaN, absmax is NaN (0x7fffffff) and each code that of 0: the block's states are
/// NaN from then on. States that are all zero bits read as 0 (-0, where the code 0 is negative).
///
/// ptx_step_map() gives the maps: the signed one for Adam's m and the single state of SGD and Lion,
/// the unsigned one for v. An entry is 0, 1, or 10^(i - 6) times the middle of one of n equal parts
/// of [0.1, 1], for i from 0 to 6; n is 2^i, with either sign, in the signed map, and 2 * 2^i in
/// the unsigned one. The code is the entry's place, the least entry first.
///
/// STATE_F16: parameters and blocks as STATE_8BIT; the field absmax has the scales. With x the
/// state, or its root sqrt(v) in place of Adam's v,
///     x = f32(code) * scale          and v = x * x
/// After the rule, with M the largest |x| of the block,
///     scale  = M / 2048              where that is at least 2^-126, and finite
///     code   = f16(x * (1 / scale))  each rounded to nearest
/// Where M / 2048 is below 2^-126, scale is 1 and each code +0. Where M is infinite or NaN, scale
/// is NaN (0x7fffffff) and each code +0. States that are all zero bits read as 0.
///
/// MASTER_24BIT: what FlashOptim (its Python package, version 0.1.4) keeps with master_weight_bits
/// 24, so that codes, scales and corrections of its compressed checkpoints are taken and given as
/// they are. With `half` half the distance of two parameters there, 2^(exponent - 8) in bf16 and
/// 2^(exponent - 11) in f16, but at least 2^-126 in bf16 (smaller only below 2^-118) and 2^-25 in
/// f16, and each operation rounded once, a division by 127 or 255 being a product with its rounded
/// reciprocal,
///     x            = fma(correction / 127, half, parameter)    what the rule works on
///     parameter    = x to nearest
///     correction   = the integer nearest to 127 * ((x - parameter) / half)
/// Beside infinity and NaN a correction does not count; a step leaves 0 beside an infinity that a
/// finite x was rounded to, else -1. A parameter that others wrote is off by at most half.
///
/// A block has 32 elements, counted from the tensor's first, and its scale is an f16 in the field
/// absmax. A state with both signs has a signed code q, Adam's v an unsigned one:
///     state = (q * (1 / (254 - |q|))) * scale      v = y * y, y = q * min(|scale / 255|, 2^100)
/// After the rule, with M the largest |state|, or sqrt(v), of the block, largest = max(M, 1e-12)
/// and n = state * (1 / largest), or that of the root,
///     scale = f16(largest), to nearest
///     q     = floor(254 * (n * (1 / (1 + |n|))) + 1/2)  or  floor(255 * n + 1/2), rounded only so
/// So a block whose largest is at most 2^-25 has scale 0, and reads as 0; from 65520 on its scale
/// is infinite, and it reads as infinity, and where q is 0 as NaN, v as 0. Where M is infinite or
/// NaN, scale is NaN (0x7fff), and each code 0. States that are all zero bits read as 0.
/// FlashOptim's kernels divide approximately, so steps differ from its in bits.
typedef enum ptx_step_format {
#define PTX_STEP_FORMAT(enumerator, name, state, beside) PTX_STEP_FORMAT_##enumerator,
    PTX_STEP_FORMATS(PTX_STEP_FORMAT)
#undef PTX_STEP_FORMAT
        PTX_STEP_FORMAT_COUNT
} ptx_step_format;

/// The scalars of a hyperparameter group. None has a default: what is left out is 0, also lr and
/// the betas. In device memory they are the same doubles. A rule ignores the scalars
/// that it does not use, but all are checked. "Finite" and "below 1" hold after rounding to f32.
struct ptx_step_hyper {
    double lr;           ///< finite, >= 0
    double beta1, beta2; ///< >= 0, below 1
    double eps;          ///< finite, >= 0; with 0, an element whose v is 0 is divided by 0
    double weight_decay; ///< finite, >= 0
    double momentum;     ///< SGD: finite, >= 0; MUON: below 1, too
    double dampening;    ///< SGD: finite; MUON: 0
    double ema_decay;    ///< of averages of weights: from 0 to 1; 1 keeps them as they are
    /// Of rules of the caller's (rule.h), in their order; else 0.
    double more[PTX_STEP_MAX_SCALARS];
};

PTXGEN_END

#endif

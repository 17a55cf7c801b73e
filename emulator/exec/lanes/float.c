// SPDX-License-Identifier: MIT
// f32 and f64: operations that round once, to nearest even; signs, extremes, classes; approximate
// instructions. directed.c has the other rounding modes. No function here reads the mode of the
// calling thread.
#include "float.h"

#include <math.h>

#define nan_f32(x) EMU_F32_NAN
#define nan_f64(x) emu_quiet64(x)

// The smaller or the larger of two numbers; -0 is below +0. A number takes precedence over a NaN;
// with .NaN (`strict`), the NaN does. Without branches, so that compilers vectorise it.
#define EXTREME(n, S, F)                                                                           \
    static inline S extreme_##n(S a, S b, bool larger, bool strict)                                \
    {                                                                                              \
        const F x = emu_##n(a), y = emu_##n(b);                                                    \
        const S lower = x < y ? a : b, upper = x > y ? a : b;                                      \
        const S equal = larger ? a & b : a | b;                                                    \
        const S x_is_nan = x == x ? 0 : ~(S)0, y_is_nan = y == y ? 0 : ~(S)0;                      \
        S r = larger ? upper : lower;                                                              \
        r = x == y ? equal : r;                                                                    \
        r = y_is_nan ? a : r;                                                                      \
        r = x_is_nan ? b : r;                                                                      \
        return (strict ? x_is_nan | y_is_nan : x_is_nan & y_is_nan) ? nan_##n(b) : r;              \
    }
EXTREME(f32, uint32_t, float)
EXTREME(f64, uint64_t, double)

// The smaller or larger magnitude, of two or three numbers; with .xorsign, its sign is that of a
// product. Without .abs, of three numbers.
struct magnitudes {
    uint32_t keep, sign;
    bool larger, strict;
};

static inline uint32_t magnitude_f32(const struct magnitudes *of, uint32_t a, uint32_t b)
{
    const uint32_t result = extreme_f32(a & of->keep, b & of->keep, of->larger, of->strict);
    return result == EMU_F32_NAN ? result : result | ((a ^ b) & of->sign);
}

static inline void magnitudes_f32(void *out, const void *const *src, const struct emu_insn *insn,
                                  bool larger)
{
    const struct magnitudes of = { insn->abs ? UINT32_C(0x7fffffff) : UINT32_MAX,
                                   insn->xorsign ? UINT32_C(0x80000000) : 0, larger, insn->nan };
    const uint32_t *a = src[0], *b = src[1], *c = insn->src_count > 2 ? src[2] : NULL;
    uint32_t *r = out, two[EMU_LANES];
    EMU_FOR_LANES two[i] = magnitude_f32(&of, a[i], b[i]);
    if (c)
        EMU_FOR_LANES r[i] = magnitude_f32(&of, two[i], c[i]);
    else
        EMU_FOR_LANES r[i] = two[i];
}

EMU_LANE_FUNCTION(min_magnitude_f32)
{
    magnitudes_f32(out, src, insn, false);
}

EMU_LANE_FUNCTION(max_magnitude_f32)
{
    magnitudes_f32(out, src, insn, true);
}

static inline bool test(unsigned kind, uint64_t magnitude, uint64_t normal, uint64_t infinity)
{
    switch (kind) {
    case EMU_FINITE:
        return magnitude < infinity;
    case EMU_INFINITE:
        return magnitude == infinity;
    case EMU_NUMBER:
        return magnitude <= infinity;
    case EMU_NOTANUMBER:
        return magnitude > infinity;
    case EMU_NORMAL:
        return magnitude == 0 || (magnitude >= normal && magnitude < infinity);
    default: // zero counts as normal
        return magnitude > 0 && magnitude < normal;
    }
}

#define EXTREMES(name, n, S, larger)                                                               \
    EMU_LANE_FUNCTION(name##_##n)                                                                  \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        S *r = out;                                                                                \
        if (insn->nan)                                                                             \
            EMU_FOR_LANES r[i] = extreme_##n(a[i], b[i], larger, true);                            \
        else                                                                                       \
            EMU_FOR_LANES r[i] = extreme_##n(a[i], b[i], larger, false);                           \
    }

#define FAMILY(n, S, F, SIGN, NORMAL, INFINITY_BITS)                                               \
    UNARY(neg_##n, S, F, x == x ? a[i] ^ SIGN : nan_##n(a[i]))                                     \
    UNARY(abs_##n, S, F, x == x ? a[i] & ~SIGN : nan_##n(a[i]))                                    \
    EXTREMES(min, n, S, false)                                                                     \
    EXTREMES(max, n, S, true)                                                                      \
    EMU_LANE_FUNCTION(copysign_##n) /* sign of the first, magnitude of the second */               \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = (a[i] & SIGN) | (b[i] & ~SIGN);                                       \
    }                                                                                              \
    EMU_LANE_FUNCTION(testp_##n)                                                                   \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        uint32_t mask = 0;                                                                         \
        EMU_FOR_LANES if (test(insn->test, a[i] & ~SIGN, NORMAL, INFINITY_BITS)) mask |= 1u << i;  \
        *(uint32_t *)out = mask;                                                                   \
    }

ROUNDED_ONCE(f32, uint32_t, float, sqrtf, fmaf)
ROUNDED_ONCE(f64, uint64_t, double, sqrt, fma)
FAMILY(f32, uint32_t, float, UINT32_C(0x80000000), UINT32_C(0x00800000), UINT32_C(0x7f800000))
FAMILY(f64, uint64_t, double, UINT64_C(0x8000000000000000), UINT64_C(0x0010000000000000),
       UINT64_C(0x7ff0000000000000))

// ---- approximate --------------------------------------------------------------------------------

// Approximate instructions. PTX bounds their error and leaves their bits open. The host's
// double-precision functions, rounded once, are within every bound:
//
//   rcp.approx.f32     1 ulp                sin, cos.approx.f32   2^-20.5 absolute to 2 pi
//   sqrt.approx.f32    relative 2^-23       ex2.approx.f32        2 ulp
//   rsqrt.approx.f32   relative 2^-22.9     lg2.approx.f32        2^-22
//   div.approx.f32     2 ulp                tanh.approx.f32       relative 2^-11
//   div.full.f32       2 ulp                rcp, rsqrt.approx.ftz.f64   20 bits
//
// A GPU gives other bits for most arguments.
static inline uint32_t round_f32(double x)
{
    return canonical((float)x);
}

#define APPROXIMATE(name, expression)                                                              \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const uint32_t *a = src[0];                                                                \
        uint32_t *r = out;                                                                         \
        (void)insn;                                                                                \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            double x = (double)emu_f32(a[i]);                                                      \
            r[i] = round_f32(expression);                                                          \
        }                                                                                          \
    }
APPROXIMATE(rcp_approx_f32, 1 / x)
APPROXIMATE(sqrt_approx_f32, sqrt(x))
APPROXIMATE(rsqrt_approx_f32, 1 / sqrt(x))
APPROXIMATE(sin_approx_f32, sin(x))
APPROXIMATE(cos_approx_f32, cos(x))
APPROXIMATE(ex2_approx_f32, exp2(x))
APPROXIMATE(lg2_approx_f32, log2(x))
APPROXIMATE(tanh_approx_f32, tanh(x))

// div.approx where 2^126 < |y| < 2^128, as the PTX manual says: 0 for a finite x, otherwise NaN.
static double quotient_f32(double x, double y, bool full)
{
    if (!full && fabs(y) > 0x1p126 && fabs(y) < (double)INFINITY)
        return isfinite(x) ? copysign(0, x / y) : (double)NAN;
    return x / y;
}

EMU_LANE_FUNCTION(div_approx_f32)
{
    const uint32_t *a = src[0], *b = src[1];
    uint32_t *r = out;
    EMU_FOR_LANES
    r[i] = round_f32(quotient_f32((double)emu_f32(a[i]), (double)emu_f32(b[i]), insn->full));
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 read the upper word of the argument and take the
// lower word as zero. The lower word of the result is zero. All NaN results are equal.
static uint64_t reciprocal_f64(uint64_t bits, bool root)
{
    const uint64_t nan = UINT64_C(0x7fffffff00000000);
    uint64_t upper = bits & ~UINT64_C(0xffffffff);
    if (!(upper & UINT64_C(0x7ff0000000000000)))
        upper &= UINT64_C(0x8000000000000000);
    double quotient = 1 / (root ? sqrt(emu_f64(upper)) : emu_f64(upper));
    if (isnan(quotient))
        return nan;
    uint64_t result = emu_f64_bits(quotient) & ~UINT64_C(0xffffffff);
    if (!(result & UINT64_C(0x7ff0000000000000)))
        result &= UINT64_C(0x8000000000000000);
    return result;
}

EMU_LANE_FUNCTION(rcp_approx_f64)
{
    const uint64_t *a = src[0];
    uint64_t *r = out;
    (void)insn;
    EMU_FOR_LANES r[i] = reciprocal_f64(a[i], false);
}

// Without .ftz, a GPU runs a function in software whose result is as near as any of f64.
EMU_LANE_FUNCTION(rsqrt_approx_f64)
{
    const uint64_t *a = src[0];
    uint64_t *r = out;
    EMU_FOR_LANES
    {
        if (insn->ftz) {
            r[i] = reciprocal_f64(a[i], true);
            continue;
        }
        double root = (double)(1 / sqrtl((long double)emu_f64(a[i])));
        r[i] = root == root ? emu_f64_bits(root) : emu_nan64(a[i], a[i]);
    }
}

// ---- by row -------------------------------------------------------------------------------------

static emu_lane_function *find(const struct emu_insn *insn)
{
    const bool wide = insn->type == EMU_F64, approximate = insn->approx || insn->full;
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define MAGNITUDES(stem)                                                                           \
    if (!wide && (insn->abs || insn->src_count > 2))                                               \
        return stem##_magnitude_f32;
#define FLOATS(stem)                                                                               \
    if (!approximate)                                                                              \
        return wide ? stem##_f64 : stem##_f32;
#define ROUNDED(stem) FLOATS(stem)
#define APPROXIMATE_F32(stem)                                                                      \
    if (approximate && !wide)                                                                      \
        return stem##_approx_f32;
#define APPROXIMATE_F64(stem)                                                                      \
    if (approximate && wide)                                                                       \
        return stem##_approx_f64;
#include "isa.def"
    default:
        break;
    }
    return NULL;
}

bool EMU_NAMED(emu_find_float)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    if (insn->type != EMU_F32 && insn->type != EMU_F64 && insn->type != EMU_F32X2)
        return false;
    info->fn = find(insn);
    info->is_float = insn->type != EMU_F64 || (!insn->approx && !insn->full);
    return info->fn != NULL;
}

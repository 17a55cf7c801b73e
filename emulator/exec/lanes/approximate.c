// SPDX-License-Identifier: MIT
// The approximate instructions. PTX bounds their error and leaves the bits open; here they are the
// host's double-precision functions rounded once, so that they lie within every bound:
//
//   rcp.approx.f32     1 ulp                sin, cos.approx.f32   2^-20.5 absolute to 2 pi
//   sqrt.approx.f32    relative 2^-23       ex2.approx.f32        2 ulp
//   rsqrt.approx.f32   relative 2^-22.9     lg2.approx.f32        2^-22
//   div.approx.f32     2 ulp                tanh.approx.f32       relative 2^-11
//   div.full.f32       2 ulp                rcp, rsqrt.approx.ftz.f64   20 bits
//
// A GPU gives other bits for most arguments.
#include "exec/lanes/formats.h"
#include "family.h"

#include <math.h>

static uint32_t round_f32(double x)
{
    return (uint32_t)emu_round_f64(&emu_format_f32, EMU_RN, x);
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
APPROXIMATE(rcp_f32, 1 / x)
APPROXIMATE(sqrt_f32, sqrt(x))
APPROXIMATE(rsqrt_f32, 1 / sqrt(x))
APPROXIMATE(sin_f32, sin(x))
APPROXIMATE(cos_f32, cos(x))
APPROXIMATE(ex2_f32, exp2(x))
APPROXIMATE(lg2_f32, log2(x))
APPROXIMATE(tanh_f32, tanh(x))

// div.approx, by its table: 0 for a finite x, and NaN for another one, where 2^126 < |y| < 2^128.
static double quotient_f32(double x, double y, bool full)
{
    if (!full && fabs(y) > 0x1p126 && fabs(y) < (double)INFINITY)
        return isfinite(x) ? copysign(0, x / y) : (double)NAN;
    return x / y;
}

EMU_LANE_FUNCTION(div_f32)
{
    const uint32_t *a = src[0], *b = src[1];
    uint32_t *r = out;
    EMU_FOR_LANES
    r[i] = round_f32(quotient_f32((double)emu_f32(a[i]), (double)emu_f32(b[i]), insn->full));
}

// With .ftz, which is in the name of rcp: of the argument's upper word alone, its lower one taken
// as zero, and so is the result's; every NaN is one.
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

EMU_LANE_FUNCTION(rcp_f64)
{
    const uint64_t *a = src[0];
    uint64_t *r = out;
    (void)insn;
    EMU_FOR_LANES r[i] = reciprocal_f64(a[i], false);
}

// Without .ftz a function in software, as near as any f64 result.
EMU_LANE_FUNCTION(rsqrt_f64)
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

static emu_lane_function *find(const struct emu_insn *insn)
{
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define APPROXIMATE_F32(stem)                                                                      \
    if (insn->type == EMU_F32)                                                                     \
        return stem##_f32;
#define APPROXIMATE_F64(stem)                                                                      \
    if (insn->type == EMU_F64)                                                                     \
        return stem##_f64;
#include "isa.def"
    default:
        break;
    }
    return NULL;
}

bool emu_find_approximate(const struct emu_insn *insn, struct emu_lane_info *info)
{
    if (!insn->approx && !insn->full)
        return false;
    *info = (struct emu_lane_info) { find(insn), insn->type == EMU_F32 };
    return info->fn != NULL;
}

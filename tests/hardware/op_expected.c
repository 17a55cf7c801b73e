// SPDX-License-Identifier: MIT
#include "op_expected.h"
#include "reference/small.h"

#include <string.h>

// The operands as bits and as signed values, and the type's width. A result may have more bits; it
// is cut to that width.
struct in {
    uint64_t x, y, z, w;
    int64_t sx, sy, sz;
    unsigned width;
    bool is_signed, sat;
};

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static int64_t sign_extend(uint64_t v, unsigned width)
{
    const uint64_t sign = UINT64_C(1) << (width - 1);
    return (int64_t)((v ^ sign) - sign);
}

static uint64_t low_bits(uint64_t v, unsigned width)
{
    return width < 64 ? v & ((UINT64_C(1) << width) - 1) : v;
}

static bool bit(uint64_t v, unsigned k)
{
    return v >> k & 1;
}

static uint64_t clamp_s32(int64_t v)
{
    return (uint64_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

static wide product(const struct in *v)
{
    return v->is_signed ? (wide)v->sx * v->sy : (wide)((unsigned_wide)v->x * v->y);
}

static bool is_below(const struct in *v)
{
    return v->is_signed ? v->sx < v->sy : v->x < v->y;
}

// ---- bits ---------------------------------------------------------------------------------------

static uint64_t not_(const struct in *v)
{
    return ~v->x;
}

static uint64_t and_(const struct in *v)
{
    return v->x & v->y;
}

static uint64_t or_(const struct in *v)
{
    return v->x | v->y;
}

static uint64_t xor_(const struct in *v)
{
    return v->x ^ v->y;
}

static uint64_t popc(const struct in *v)
{
    uint64_t count = 0;

    for (unsigned k = 0; k < v->width; k++)
        count += bit(v->x, k);
    return count;
}

static uint64_t clz(const struct in *v)
{
    unsigned k = v->width;

    while (k > 0 && !bit(v->x, k - 1))
        k--;
    return v->width - k;
}

static uint64_t bfind(const struct in *v)
{
    const uint64_t x = v->is_signed && v->sx < 0 ? ~v->x : v->x;

    for (unsigned k = v->width; k-- > 0;)
        if (bit(x, k))
            return k;
    return UINT32_MAX;
}

static uint64_t brev(const struct in *v)
{
    uint64_t reversed = 0;

    for (unsigned k = 0; k < v->width; k++)
        reversed |= (uint64_t)bit(v->x, k) << (v->width - 1 - k);
    return reversed;
}

static uint64_t shl(const struct in *v)
{
    return v->y < v->width ? v->x << v->y : 0;
}

static uint64_t shr(const struct in *v)
{
    if (v->is_signed)
        return (uint64_t)(v->sx >> (v->y < 63 ? v->y : 63));
    return v->y < 64 ? v->x >> v->y : 0;
}

static uint64_t shf_l(const struct in *v)
{
    const uint64_t n = v->z < 32 ? v->z : 32;
    return (v->y << 32 | v->x) << n >> 32;
}

static uint64_t shf_r(const struct in *v)
{
    const uint64_t n = v->z < 32 ? v->z : 32;
    return (v->y << 32 | v->x) >> n;
}

// Position and length count modulo 256. A field ends at the end of the register.
static uint64_t bfe(const struct in *v)
{
    const unsigned first = v->y & 255, length = v->z & 255, last = v->width - 1;
    const unsigned top = first + length - 1 < last ? first + length - 1 : last;
    const bool sign = v->is_signed && length && bit(v->x, top);
    uint64_t field = 0;

    for (unsigned k = 0; k < v->width; k++)
        field |= (uint64_t)(k < length && first + k <= last ? bit(v->x, first + k) : sign) << k;
    return field;
}

static uint64_t bfi(const struct in *v)
{
    const unsigned first = v->z & 255, length = v->w & 255;
    uint64_t result = v->y;

    for (unsigned k = 0; k < length && first + k < v->width; k++)
        result = (result & ~(UINT64_C(1) << (first + k))) | (uint64_t)bit(v->x, k) << (first + k);
    return result;
}

// .clamp: a position or length above 32 is 32.
static uint64_t bmsk(const struct in *v)
{
    const uint64_t first = v->x < 32 ? v->x : 32, length = v->y < 32 ? v->y : 32;
    return ((UINT64_C(1) << length) - 1) << first;
}

// .clamp: from 32 bits on, the whole value; for 0 bits, 0.
static uint64_t szext(const struct in *v)
{
    if (v->y == 0)
        return 0;
    if (v->y >= 32)
        return v->x;
    return v->is_signed ? (uint64_t)sign_extend(low_bits(v->x, (unsigned)v->y), (unsigned)v->y)
                        : low_bits(v->x, (unsigned)v->y);
}

static uint64_t prmt(const struct in *v)
{
    const uint64_t bytes = v->y << 32 | v->x;
    uint64_t result = 0;

    for (unsigned k = 0; k < 4; k++) {
        const unsigned choice = v->z >> 4 * k & 15;
        const uint64_t byte = bytes >> 8 * (choice & 7) & 255;
        result |= (choice < 8 ? byte : byte < 128 ? 0 : 255) << 8 * k;
    }
    return result;
}

static uint64_t lop3(const struct in *v)
{
    uint64_t result = 0;

    for (unsigned k = 0; k < v->width; k++)
        result |= (uint64_t)bit(v->w, bit(v->x, k) * 4u + bit(v->y, k) * 2u + bit(v->z, k)) << k;
    return result;
}

static uint64_t selp(const struct in *v)
{
    return v->z ? v->x : v->y;
}

// ---- integers -----------------------------------------------------------------------------------

static uint64_t neg(const struct in *v)
{
    return 0 - v->x;
}

static uint64_t abs_(const struct in *v)
{
    return v->sx < 0 ? 0 - v->x : v->x;
}

static uint64_t add(const struct in *v)
{
    return v->sat ? clamp_s32(v->sx + v->sy) : v->x + v->y;
}

static uint64_t sub(const struct in *v)
{
    return v->sat ? clamp_s32(v->sx - v->sy) : v->x - v->y;
}

static uint64_t mul(const struct in *v)
{
    return v->x * v->y;
}

static uint64_t mul_hi(const struct in *v)
{
    return (uint64_t)(product(v) >> v->width);
}

static uint64_t mul_wide(const struct in *v)
{
    return (uint64_t)product(v);
}

static uint64_t mad(const struct in *v)
{
    return v->x * v->y + v->z;
}

static uint64_t mad_hi(const struct in *v)
{
    return v->sat ? clamp_s32(((v->sx * v->sy) >> 32) + v->sz) : mul_hi(v) + v->z;
}

static uint64_t mad_wide(const struct in *v)
{
    return (uint64_t)product(v) + v->z;
}

static uint64_t div_(const struct in *v)
{
    return v->is_signed ? (uint64_t)(v->sx / v->sy) : v->x / v->y;
}

static uint64_t rem_(const struct in *v)
{
    return v->is_signed ? (uint64_t)(v->sx % v->sy) : v->x % v->y;
}

static uint64_t min_(const struct in *v)
{
    return is_below(v) ? v->x : v->y;
}

static uint64_t max_(const struct in *v)
{
    return is_below(v) ? v->y : v->x;
}

static uint64_t sad(const struct in *v)
{
    return (is_below(v) ? v->y - v->x : v->x - v->y) + v->z;
}

static uint64_t dp4a(const struct in *v)
{
    uint64_t sum = v->z;

    for (unsigned k = 0; k < 32; k += 8) {
        const uint64_t x = v->x >> k & 255, y = v->y >> k & 255;
        sum += v->is_signed ? (uint64_t)(sign_extend(x, 8) * sign_extend(y, 8)) : x * y;
    }
    return sum;
}

static uint64_t eq(const struct in *v)
{
    return v->x == v->y;
}

static uint64_t ne(const struct in *v)
{
    return v->x != v->y;
}

static uint64_t lt(const struct in *v)
{
    return is_below(v);
}

static uint64_t le(const struct in *v)
{
    return is_below(v) || v->x == v->y;
}

static uint64_t gt(const struct in *v)
{
    return !is_below(v) && v->x != v->y;
}

static uint64_t ge(const struct in *v)
{
    return !is_below(v);
}

// ---- by name ------------------------------------------------------------------------------------

static const struct expectation {
    const char *name;
    uint64_t (*compute)(const struct in *v);
    bool any_type;
} expectations[] = {
    { "abs", abs_ },
    { "add", add },
    { "and", and_ },
    { "bfe", bfe },
    { "bfi", bfi },
    { "bfind", bfind },
    { "bmsk", bmsk },
    { "brev", brev },
    { "clz", clz },
    { "div", div_ },
    { "dp4a", dp4a },
    { "eq", eq },
    { "ge", ge },
    { "gt", gt },
    { "le", le },
    { "lop3", lop3 },
    { "lt", lt },
    { "mad", mad },
    { "mad_hi", mad_hi },
    { "mad_wide", mad_wide },
    { "max", max_ },
    { "min", min_ },
    { "mul", mul },
    { "mul_hi", mul_hi },
    { "mul_wide", mul_wide },
    { "ne", ne },
    { "neg", neg },
    { "not", not_ },
    { "or", or_ },
    { "popc", popc },
    { "prmt", prmt },
    { "rem", rem_ },
    { "sad", sad },
    { "selp", selp, .any_type = true },
    { "shf_l", shf_l },
    { "shf_r", shf_r },
    { "shl", shl },
    { "shr", shr },
    { "sub", sub },
    { "szext", szext },
    { "xor", xor_ },
};

// ---- floats of 8 bits, tf32 ---------------------------------------------------------------------

static bool is_fp8(ptx_type type)
{
    return type == PTX_E4M3X2 || type == PTX_E5M2X2;
}

static bool is_small(const struct op_case *c)
{
    return c->kind == CASE_CVT && (c->type >= PTX_E4M3X2 || c->from >= PTX_E4M3X2);
}

static enum small_format small_of(ptx_type type)
{
    return type == PTX_E4M3X2 ? SMALL_E4M3 : SMALL_E5M2;
}

static double value_of(ptx_type type, uint64_t bits)
{
    return type == PTX_F32 ? (double)f32_of_bits((uint32_t)bits) : f16_to_f64((uint16_t)bits);
}

static uint64_t small(const struct op_case *c, uint64_t x, uint64_t hi)
{
    const char modes[] = { 'a', 'n', 'z', 0, 0, 'a' }; // by ptx_round

    if (c->type == c->from || (c->type == PTX_F32 && c->from == PTX_TF32))
        return x;
    if (c->type == PTX_TF32)
        return tf32_from_f32((uint32_t)x, modes[c->round], c->relu, c->satfinite);
    if (is_fp8(c->from))
        return (uint64_t)small_to_f16(small_of(c->from), x >> 8 & 255, c->relu) << 16 |
               small_to_f16(small_of(c->from), x & 255, c->relu);
    const enum small_format to = small_of(c->type);
    const double upper = value_of(c->from, c->two ? hi : x >> 16), lower = value_of(c->from, x);
    return small_from_f64(to, upper, c->relu) << 8 | small_from_f64(to, lower, c->relu);
}

// ---- all of them --------------------------------------------------------------------------------

static bool is_signed(ptx_type type)
{
    return type == PTX_S16 || type == PTX_S32 || type == PTX_S64;
}

static const struct expectation *find(const struct op_case *c)
{
    const uint32_t integers = PTX_TYPES_BITS | PTX_TYPE_BIT(PRED);

    if (c->kind != CASE_OP)
        return NULL;
    const char *name = ptx_op_get_info((ptx_opcode)c->what)->name;
    for (size_t k = 0; k < sizeof expectations / sizeof *expectations; k++) {
        const struct expectation *e = &expectations[k];
        if (*e->name == *name && !strcmp(e->name, name))
            return e->any_type || integers >> c->type & 1 ? e : NULL;
    }
    return NULL;
}

bool op_is_expected(const struct op_case *c)
{
    return is_small(c) || find(c);
}

// Undefined: a division by zero, the division that overflows, and 64-bit fields with a position or
// length above 255: PTX takes these modulo 256, an H200 does not.
static bool is_open(const struct expectation *e, const struct in *v)
{
    const bool overflows = v->is_signed && v->sy == -1 && v->x == UINT64_C(1) << (v->width - 1);

    if (e->compute == bfe)
        return v->width == 64 && (v->y | v->z) > 255;
    if (e->compute == bfi)
        return v->width == 64 && (v->z | v->w) > 255;
    return (e->compute == div_ || e->compute == rem_) && (v->y == 0 || overflows);
}

bool op_expected(const struct op_case *c, const uint64_t operand[4], uint64_t *result)
{
    const struct expectation *e = find(c);
    const unsigned width = c->type == PTX_PRED ? 1 : 8 * ptx_type_bytes(c->type);
    struct in v = { .width = width, .is_signed = is_signed(c->type), .sat = c->sat };

    if (is_small(c)) {
        *result = small(c, operand[0], operand[1]);
        return true;
    }
    if (!e)
        return false;
    v.x = operand[0];
    v.y = operand[1];
    v.z = operand[2];
    v.w = operand[3];
    v.sx = sign_extend(v.x, width);
    v.sy = sign_extend(v.y, width);
    v.sz = sign_extend(v.z, width);
    if (is_open(e, &v))
        return false;
    const char of_result = ptx_op_get_info((ptx_opcode)c->what)->shape[0];
    *result = low_bits(e->compute(&v), of_result == 'W'   ? 2 * width
                                       : of_result == 'u' ? 32
                                       : of_result == 'p' ? 1
                                                          : width);
    return true;
}

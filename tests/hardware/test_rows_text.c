// SPDX-License-Identifier: MIT
// Results of instructions that the builder does not write, as text in kernels: video instructions,
// lop3 with a predicate, min and max of magnitudes, fma.oob, cvt.pack. Compared with plain C, which
// follows the descriptions of the PTX ISA. On a GPU if there is one, and on the emulator in CI.
#include "rows.h"
#include "test.h"

#include "reference/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 wide;

enum { THREADS = 512, MOST_ROWS = 1024 };

static struct rows rows;
static struct row list[MOST_ROWS];
static unsigned row_count;

// One instruction. The values of thread t are three words of the input.
struct text {
    char line[240]; // %0: result; %1 to %3: a, b, c
    uint32_t (*expect)(const struct text *text, uint32_t a, uint32_t b, uint32_t c);
    unsigned operation; // of video instructions: enum operation; else the function's own
    unsigned parts;     // 1: scalar
    bool sign_d, sign_a, sign_b;
    bool sat, add, least, greatest; // after the operation
    int d, a, b;                    // scalar: parts as below; else numbers of a selection
    unsigned compare, shift;
    unsigned scale; // vmad
    bool one, minus_product, minus_c;
    bool greater, nan, ftz;
    unsigned sm; // least target; 0: 86
};

static struct text texts[MOST_ROWS];

// Operand k of thread t is word t * word_step[k] + word_first[k] of the input.
static const unsigned word_step[] = { 1, 7, 13 }, word_first[] = { 0, 3, 11 };

static uint32_t operand(const struct rows *r, unsigned t, unsigned k)
{
    return (uint32_t)rows_in(r, 4, (t * word_step[k] + word_first[k]) % (ROWS_IN / 4));
}

// The same in the kernel.
static ptx_val load_operand(ptx_builder *b, ptx_ptr in, unsigned k)
{
    ptx_val at =
        ptx_rem(b, ptx_mad(b, ptx_tid(b, PTX_X), ptx_u32(word_step[k]), ptx_u32(word_first[k])),
                ptx_u32(ROWS_IN / 4));
    return ptx_load(b, ptx_ptr_cast(b, PTX_U32, in), at);
}

static void emit_text(ptx_builder *b, const struct row *row, ptx_ptr in, ptx_ptr out)
{
    ptx_val x[3];
    for (unsigned k = 0; k < 3; k++)
        x[k] = load_operand(b, in, k);
    const char *line = texts[row->c.what].line;
    const unsigned sm = texts[row->c.what].sm ? texts[row->c.what].sm : 86;
    ptx_val result = strstr(line, "%3")
                         ? ptx_asm(b, line, .result = { PTX_U32 }, .in = { x[0], x[1], x[2] },
                                   .isa = 82, .sm = (int)sm, .pure = true)
                         : ptx_asm(b, line, .result = { PTX_U32 }, .in = { x[0], x[1] }, .isa = 82,
                                   .sm = 86, .pure = true);
    rows_store_result(b, out, result);
}

static void expect_text(struct rows *r, const struct row *row)
{
    const struct text *text = &texts[row->c.what];
    for (unsigned t = 0; t < THREADS; t++)
        rows_put(r->want + 8 * t, 4, 0,
                 text->expect(text, operand(r, t, 0), operand(r, t, 1), operand(r, t, 2)));
}

static struct text *add_text(const char *group)
{
    assert_true(row_count < MOST_ROWS);
    struct row *row = &list[row_count];
    *row = (struct row) { .c = { .kind = CASE_WARP, .what = row_count }, .threads = THREADS };
    snprintf(row->name, sizeof row->name, "text %s ", group);
    texts[row_count] = (struct text) { .parts = 1 };
    return &texts[row_count++];
}

static void name_rows(void)
{
    for (unsigned k = 0; k < row_count; k++) {
        const size_t used = strlen(list[k].name);
        snprintf(list[k].name + used, sizeof list->name - used, "%.80s", texts[k].line);
    }
}

static void run_all(void)
{
    static const struct row_test test = { emit_text, expect_text, NULL };
    const unsigned count = row_count;
    name_rows();
    row_count = 0; // also after a failure
    rows_run(&rows, &test, list, count);
}

// ---- video --------------------------------------------------------------------------------------

enum operation { ADD, SUB, AVERAGE, DIFFERENCE, LEAST, GREATEST, SET, LEFT, RIGHT, OPERATIONS };

static const char *const mnemonics[] = { "vadd", "vsub", "vavrg", "vabsdiff", "vmin",
                                         "vmax", "vset", "vshl",  "vshr" };
static const char *const compares[] = { "eq", "ne", "lt", "le", "gt", "ge" };
// A part of a register: 0 is all of it.
static const char *const part_names[] = { "", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1" };
// Selections of halves and of bytes, as digits from the left; the first ones are the defaults.
static const char *const halves_of_a[] = { "10", "23", "31" }, *const halves_of_b[] = { "32", "01",
                                                                                        "20" };
static const char *const bytes_of_a[] = { "3210", "7463", "0050" };
static const char *const bytes_of_b[] = { "7654", "0123", "6217" };
static const char *const halves_of_d[] = { "10", "1", "0" }, *const bytes_of_d[] = { "3210", "20",
                                                                                     "31" };

static wide computed(const struct text *t, wide x, wide y)
{
    switch (t->operation) {
    case ADD:
        return x + y;
    case SUB:
        return x - y;
    case AVERAGE:
        return x + y >= 0 ? (x + y + 1) >> 1 : (x + y) >> 1;
    case DIFFERENCE:
        return x > y ? x - y : y - x;
    case LEAST:
        return x < y ? x : y;
    case GREATEST:
        return x > y ? x : y;
    case LEFT:
    case RIGHT:
        y = t->shift ? y % 32 : y > 32 ? 32 : y;
        return t->operation == LEFT ? x * ((wide)1 << y) : x >> y;
    default: {
        const bool holds[] = { x == y, x != y, x<y, x <= y, x> y, x >= y };
        return holds[t->compare];
    }
    }
}

static wide extended(uint64_t x, unsigned bits, bool is_signed)
{
    x &= (UINT64_C(1) << bits) - 1;
    return is_signed && x >> (bits - 1) ? (wide)x - ((wide)1 << bits) : (wide)x;
}

static wide limited(wide x, unsigned bits, bool is_signed)
{
    const wide most = ((wide)1 << (bits - is_signed)) - 1, least = is_signed ? -most - 1 : 0;
    return x > most ? most : x < least ? least : x;
}

static unsigned part_bits(int part)
{
    return part == 0 ? 32 : part < 5 ? 8 : 16;
}

static unsigned part_first(int part)
{
    return part == 0 ? 0 : part < 5 ? 8 * (unsigned)(part - 1) : 16 * (unsigned)(part - 5);
}

static uint32_t expect_scalar(const struct text *t, uint32_t a, uint32_t b, uint32_t c)
{
    const unsigned bits = part_bits(t->d), first = part_first(t->d);
    const bool shifts = t->operation >= LEFT, of_c = t->operation == SET ? t->sign_a : t->sign_d;
    wide x =
        (int64_t)(uint64_t)computed(t, extended(a >> part_first(t->a), part_bits(t->a), t->sign_a),
                                    extended(b >> part_first(t->b), part_bits(t->b), t->sign_b));
    // As the code of ptxas 13.0 has it, unlike the PTX manual. Shifts take 34 bits; of the others,
    // a part that is below the range becomes the greatest value, and a u32 above it stays.
    if (t->sat && shifts)
        x = limited(extended((uint64_t)x, 34, true), 32, t->sign_d);
    else if (t->sat && t->d)
        x = x < 0 ? limited(INT64_MAX, bits, t->sign_d) : limited(x, bits, t->sign_d);
    else if (t->sat && (t->sign_d || x < 0))
        x = limited(x, 32, t->sign_d);
    // min and max compare 64 bits, that of a sum or of a saturated shift has been 32.
    if (t->operation <= SUB || (shifts && t->sat))
        x = extended((uint64_t)x, 32, true);
    const uint32_t r = (uint32_t)(t->d == 6 ? x >> 16 : x); // .h1 is the upper half
    const wide u = of_c ? x : (wide)(uint64_t)x;
    const wide v = extended(c, 32, of_c);
    if (t->add)
        return r + c;
    if (t->least)
        return u < v ? r : c;
    if (t->greatest)
        return u > v ? r : c;
    uint64_t mask = ((UINT64_C(1) << bits) - 1) << first;
    return (uint32_t)((c & ~mask) | ((uint64_t)r << first & mask));
}

// Whole factors and the addend count as signed in the code of ptxas 13.0.
static uint32_t expect_product(const struct text *t, uint32_t a, uint32_t b, uint32_t c)
{
    const bool is_signed = t->sign_a || t->sign_b || t->minus_product || t->minus_c;
    const wide x = extended(a >> part_first(t->a), part_bits(t->a), t->sign_a || !t->a);
    const wide y = extended(b >> part_first(t->b), part_bits(t->b), t->sign_b || !t->b);
    // -x is ~x + 1: c alone is inverted as 32 bits.
    const wide z = t->minus_c ? (int32_t)~c + (wide)1 : (wide)(int32_t)c;
    const uint64_t sum = (uint64_t)((t->minus_product ? -x * y : x * y) + z + t->one);
    const int64_t r = is_signed ? (int64_t)sum >> t->scale : (int64_t)(sum >> t->scale);
    return (uint32_t)(t->sat ? limited(r, 32, is_signed) : r);
}

static uint32_t expect_simd(const struct text *t, uint32_t a, uint32_t b, uint32_t c)
{
    const unsigned bits = 32 / t->parts;
    const char *of_a = (bits == 16 ? halves_of_a : bytes_of_a)[t->a];
    const char *of_b = (bits == 16 ? halves_of_b : bytes_of_b)[t->b];
    const char *mask = (bits == 16 ? halves_of_d : bytes_of_d)[t->d];
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t sum = c, merged = 0;
    for (unsigned k = 0; k < t->parts; k++) {
        const unsigned at = t->parts - 1 - k, from = (unsigned)(of_a[at] - '0') * bits;
        const unsigned other = (unsigned)(of_b[at] - '0') * bits;
        wide x = computed(t, extended(both >> from, bits, t->sign_a),
                          extended(both >> other, bits, t->sign_b));
        const bool named = strchr(mask, (int)('0' + k)) != NULL;
        if (t->sat)
            x = limited(x, bits, t->sign_d);
        sum += named ? (uint32_t)x : 0;
        merged |= ((named ? (uint32_t)x : c >> k * bits) & (UINT32_MAX >> (32 - bits))) << k * bits;
    }
    return t->add ? sum : merged;
}

// The types and modifiers of a video instruction.
static size_t write_name(struct text *t, unsigned signs)
{
    t->sign_d = signs & 4 && t->operation != SET;
    t->sign_a = signs & 2;
    t->sign_b = signs & 1 && t->operation != LEFT && t->operation != RIGHT;
    char parts[2] = { (char)('0' + t->parts), 0 };
    size_t used = (size_t)snprintf(t->line, sizeof t->line, "%s%s", mnemonics[t->operation],
                                   t->parts > 1 ? parts : "");
    if (t->operation != SET)
        used +=
            (size_t)snprintf(t->line + used, sizeof t->line - used, ".%c32", t->sign_d ? 's' : 'u');
    used += (size_t)snprintf(t->line + used, sizeof t->line - used, ".%c32.%c32",
                             t->sign_a ? 's' : 'u', t->sign_b ? 's' : 'u');
    return used + (size_t)snprintf(
                      t->line + used, sizeof t->line - used, "%s%s%s%s%s%s%s",
                      t->operation == SET ? "." : "",
                      t->operation == SET ? compares[t->compare] : "", t->sat ? ".sat" : "",
                      t->operation < LEFT ? ""
                      : t->shift          ? ".wrap"
                                          : ".clamp",
                      t->add ? ".add" : "", t->least ? ".min" : "", t->greatest ? ".max" : "");
}

static void write_scalar(struct text *t, unsigned signs)
{
    const size_t used = write_name(t, signs);
    const bool with_c = t->add || t->least || t->greatest || t->d;
    snprintf(t->line + used, sizeof t->line - used, " %%0%s, %%1%s, %%2%s%s;", part_names[t->d],
             part_names[t->a], part_names[t->b], with_c ? ", %3" : "");
}

// A selection.
TEST(scalar_videos)
{
    unsigned n = 0;
    for (unsigned operation = 0; operation < OPERATIONS; operation++)
        for (unsigned signs = 0; operation != AVERAGE && signs < 8; signs++)
            for (unsigned kind = 0; kind < 6; kind++, n++) {
                if ((operation >= LEFT && signs & 1) ||
                    (operation == LEFT && (kind == 2 || kind == 3)))
                    continue;
                struct text *t = add_text(mnemonics[operation]);
                t->operation = operation;
                t->expect = expect_scalar;
                t->sat = operation != SET && operation != LEFT && n % 3 == 0;
                t->add = kind == 1;
                t->least = kind == 2;
                t->greatest = kind == 3;
                t->compare = n % 6;
                t->shift = n % 2;
                t->a = (int)(n % 7);
                t->b = (int)(n / 7 % 7);
                t->d = kind == 4 ? (int)(1 + n % 6) : 0;
                if (operation <= SUB && signs < 4 && (t->sat || t->least || t->greatest) &&
                    ((!t->a && !(signs & 2)) || (!t->b && !(signs & 1))))
                    t->a = t->b = 1;
                write_scalar(t, signs);
            }
    run_all();
}

// Saturation, second operations and parts of the result in all combinations, of whole sources and
// of parts.
TEST(scalar_videos_combined)
{
    unsigned n = 0;
    for (unsigned operation = 0; operation < OPERATIONS; operation++)
        for (unsigned signs = 0; operation != AVERAGE && signs < 8; signs++)
            for (unsigned kind = 0; kind < 20; kind++, n++) {
                const bool sat = kind >= 10;
                if ((operation >= LEFT && signs & 1) || (operation == SET && (sat || signs & 4)))
                    continue;
                struct text *t = add_text(mnemonics[operation]);
                t->operation = operation;
                t->expect = expect_scalar;
                t->sat = sat;
                t->add = kind % 10 == 1;
                t->least = kind % 10 == 2;
                t->greatest = kind % 10 == 3;
                t->d = kind % 10 >= 4 ? (int)(kind % 10 - 3) : 0;
                t->compare = n % 6;
                t->shift = n / 3 % 2;
                t->a = n % 3 ? (int)(n * 5 % 7) : 0;
                t->b = n / 2 % 3 ? (int)(n * 3 % 7) : 0;
                write_scalar(t, signs);
            }
    run_all();
}

TEST(products_of_parts)
{
    static const char *const scales[] = { "", ".shr7", ".shr15" };
    unsigned n = 0;
    for (unsigned signs = 0; signs < 8; signs++)
        for (unsigned scale = 0; scale < 3; scale++)
            for (unsigned kind = 0; kind < 12; kind++, n++) {
                struct text *t = add_text("vmad");
                const unsigned minus = kind % 6; // none, .po, a, b, c, a and b
                t->expect = expect_product;
                t->sign_a = signs & 2;
                t->sign_b = signs & 1;
                t->sat = kind >= 6;
                t->one = minus == 1;
                t->minus_product = minus == 2 || minus == 3;
                t->minus_c = minus == 4;
                t->scale = scale ? 8 * scale - 1 : 0;
                t->a = n % 3 ? (int)(n * 5 % 7) : 0;
                t->b = n / 2 % 3 ? (int)(n * 3 % 7) : 0;
                snprintf(t->line, sizeof t->line,
                         "vmad.%c32.%c32.%c32%s%s%s %%0, %s%%1%s, %s%%2%s, %s%%3;",
                         signs & 4 ? 's' : 'u', t->sign_a ? 's' : 'u', t->sign_b ? 's' : 'u',
                         t->one ? ".po" : "", t->sat ? ".sat" : "", scales[scale],
                         minus == 2 || minus == 5 ? "-" : "", part_names[t->a],
                         minus == 3 || minus == 5 ? "-" : "", part_names[t->b],
                         minus == 4 ? "-" : "");
            }
    run_all();
}

TEST(simd_videos)
{
    unsigned n = 0;
    for (unsigned operation = 0; operation < LEFT; operation++)
        for (unsigned bytes = 0; bytes < 2; bytes++)
            for (unsigned signs = 0; signs < 8; signs++)
                for (unsigned kind = 0; kind < 4; kind++, n++) {
                    if (operation == SET && signs & 4)
                        continue;
                    struct text *t = add_text(mnemonics[operation]);
                    const char kind_of = bytes ? 'b' : 'h';
                    t->operation = operation;
                    t->expect = expect_simd;
                    t->parts = bytes ? 4 : 2;
                    t->sat = kind == 1 && operation != SET;
                    t->add = kind == 2;
                    t->compare = n % 6;
                    t->a = (int)(n % 3);
                    t->b = (int)(n / 3 % 3);
                    t->d = (int)(n / 9 % 3);
                    const size_t used = write_name(t, signs);
                    if (t->a + t->b + t->d == 0) // as the defaults say
                        snprintf(t->line + used, sizeof t->line - used, " %%0, %%1, %%2, %%3;");
                    else
                        snprintf(t->line + used, sizeof t->line - used,
                                 " %%0.%c%s, %%1.%c%s, %%2.%c%s, %%3;", kind_of,
                                 (bytes ? bytes_of_d : halves_of_d)[t->d], kind_of,
                                 (bytes ? bytes_of_a : halves_of_a)[t->a], kind_of,
                                 (bytes ? bytes_of_b : halves_of_b)[t->b]);
                }
    run_all();
}

// ---- lop3 with a predicate ----------------------------------------------------------------------

static uint32_t expect_lop3(const struct text *t, uint32_t a, uint32_t b, uint32_t c)
{
    const bool with = (int32_t)c >= 0;
    uint32_t value = 0;
    for (unsigned k = 0; k < 32; k++)
        value |= (t->operation >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1) << k;
    const bool holds = t->add ? value && with : value || with;
    return value ^ (holds ? 0x5bd1e995 : 0);
}

TEST(lop3_with_a_predicate)
{
    for (unsigned k = 0; k < 32; k++) {
        struct text *t = add_text("lop3");
        t->expect = expect_lop3;
        t->operation = k < 2 ? 0 : k < 4 ? 0x80 : (k * 37 + 5) & 0xff;
        t->add = k & 1;
        snprintf(t->line, sizeof t->line,
                 "{ .reg .pred p, q; .reg .b32 t; setp.ge.s32 q, %%3, 0;\n"
                 "lop3.%s.b32 t|p, %%1, %%2, %%3, 0x%02x, q;\n"
                 "selp.b32 %%0, 0x5bd1e995, 0, p; xor.b32 %%0, %%0, t; }",
                 t->add ? "and" : "or", t->operation);
    }
    run_all();
}

// ---- min and max of magnitudes ------------------------------------------------------------------

static const struct format {
    const char *name;
    unsigned bits;
    uint32_t infinity, least; // the least normal number
    bool ftz;
} formats[] = {
    { "f32", 32, 0x7f800000, 0x00800000, true },
    { "f16x2", 16, 0x7c00, 0x0400, true },
    { "bf16x2", 16, 0x7f80, 0x0080, false },
};

static uint32_t one_magnitude(const struct text *t, uint32_t x, uint32_t y)
{
    const struct format *f = &formats[t->operation];
    const uint32_t sign = UINT32_C(1) << (f->bits - 1), nan = sign - 1;
    uint32_t p = x & nan, q = y & nan;
    p = t->ftz && p < f->least ? 0 : p;
    q = t->ftz && q < f->least ? 0 : q;
    const bool p_nan = p > f->infinity, q_nan = q > f->infinity;
    if ((p_nan && q_nan) || (t->nan && (p_nan || q_nan)))
        return nan;
    const uint32_t m = p_nan ? q : q_nan ? p : (p < q) != t->greater ? p : q;
    return m | ((x ^ y) & sign);
}

static uint32_t expect_magnitude(const struct text *t, uint32_t a, uint32_t b, uint32_t c)
{
    (void)c;
    if (formats[t->operation].bits == 32)
        return one_magnitude(t, a, b);
    return one_magnitude(t, a >> 16, b >> 16) << 16 | one_magnitude(t, a & 0xffff, b & 0xffff);
}

TEST(magnitudes)
{
    for (unsigned k = 0; k < 24; k++) {
        const struct format *f = &formats[k / 8];
        if (k % 8 >= 4 && !f->ftz)
            continue;
        struct text *t = add_text("xorsign");
        t->expect = expect_magnitude;
        t->operation = k / 8;
        t->greater = k & 1;
        t->nan = k & 2;
        t->ftz = k & 4;
        snprintf(t->line, sizeof t->line, "%s%s%s.xorsign.abs.%s %%0, %%1, %%2;",
                 t->greater ? "max" : "min", t->ftz ? ".ftz" : "", t->nan ? ".NaN" : "", f->name);
    }
    run_all();
}

// ---- fma.oob, cvt.pack --------------------------------------------------------------------------

// One f16 in units of 2^-24, of its product 2^-48.
static wide fixed(uint32_t h)
{
    const unsigned field = h >> 10 & 31;
    const wide units = field ? (wide)(1024 | (h & 1023)) << (field - 1) : (wide)(h & 1023);
    return h & 0x8000 ? -units : units;
}

// The sum is exact in 128 bits; all bits below the 50 that are kept go into the last of them.
static uint32_t fused_half(uint32_t a, uint32_t b, uint32_t c)
{
    const double x = f16_to_f64((uint16_t)a), y = f16_to_f64((uint16_t)b);
    const double z = f16_to_f64((uint16_t)c), plain = fma(x, y, z);
    if (isnan(plain))
        return 0x7fff;
    if (isinf(plain) || plain == 0)
        return f16_from_f64(plain);
    const wide sum = fixed(a) * fixed(b) + fixed(c) * ((wide)1 << 24);
    wide kept = sum < 0 ? -sum : sum;
    int exponent = -48;
    for (; kept >> 50; exponent++)
        kept = kept >> 1 | (kept & 1);
    return f16_from_f64(ldexp(sum < 0 ? -(double)kept : (double)kept, exponent));
}

static uint32_t one_outside(const struct text *t, uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t sum = fused_half(a, b, c);
    if ((a & 0x7fff) == 0x7ff7 || (b & 0x7fff) == 0x7ff7)
        return 0;
    return t->greater && sum & 0x8000 && (sum & 0x7fff) <= 0x7c00 ? 0 : sum;
}

// Every other thread has the NaN of what is outside a tensor in a half of a.
static uint32_t expect_outside(const struct text *t, uint32_t a, uint32_t b, uint32_t c)
{
    a = c & 1 ? (a & 0xffff0000) | 0x7ff7 : a;
    a = c & 2 ? (a & 0xffff) | 0xfff70000 : a;
    return one_outside(t, a >> 16, b >> 16, c >> 16) << 16 |
           one_outside(t, a & 0xffff, b & 0xffff, c & 0xffff);
}

TEST(outside_tensors)
{
    for (unsigned k = 0; k < 2; k++) {
        struct text *t = add_text("oob");
        t->expect = expect_outside;
        t->greater = k;
        t->sm = 90;
        snprintf(
            t->line, sizeof t->line,
            "{ .reg .b32 x, y; and.b32 x, %%3, 1; mul.lo.u32 x, x, 0xffff; and.b32 y, %%3, 2;\n"
            "mul.lo.u32 y, y, 0x7fff8000; or.b32 x, x, y;\n"
            "lop3.b32 x, x, 0xfff77ff7, %%1, 0xca;\n"
            "fma.rn.oob%s.f16x2 %%0, x, %%2, %%3; }",
            k ? ".relu" : "");
    }
    if (rows.target.sm >= 90)
        run_all();
    else
        row_count = 0;
}

static uint32_t expect_pack(const struct text *t, uint32_t a, uint32_t b, uint32_t c)
{
    const unsigned bits = t->parts;
    const uint32_t low = UINT32_MAX >> (32 - bits);
    const uint32_t x = (uint32_t)limited((int32_t)a, bits, t->sign_d) & low;
    const uint32_t y = (uint32_t)limited((int32_t)b, bits, t->sign_d) & low;
    return x << bits | y | (bits < 16 ? c << 2 * bits : 0);
}

TEST(packs)
{
    for (unsigned k = 0; k < 8; k++) {
        struct text *t = add_text("pack");
        t->expect = expect_pack;
        t->parts = 16u >> k / 2;
        t->sign_d = k & 1;
        snprintf(t->line, sizeof t->line, "cvt.pack.sat.%c%u.s32%s %%0, %%1, %%2%s;",
                 t->sign_d ? 's' : 'u', t->parts, t->parts < 16 ? ".b32" : "",
                 t->parts < 16 ? ", %3" : "");
    }
    run_all();
}

int main(int argc, char **argv)
{
    return rows_tests_run(&rows, argc, argv);
}

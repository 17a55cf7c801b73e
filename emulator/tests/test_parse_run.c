// SPDX-License-Identifier: MIT
// Text of nvcc, parsed and executed: the results are those of its C++ source.
#include "sample.h"

enum { LANES = 32 };

// The functions of calls.cu.
static float scale(float x, int power)
{
    return power > 3 ? x * 8 : x - 1;
}

static void calls(const char *text)
{
    struct emulator e;
    float in[LANES];
    emulator_open(&e);
    emulator_load(&e, text);
    initialise(&e);
    for (int i = 0; i < LANES; i++)
        in[i] = (float)i * 1.25f - 7;
    const uint64_t out = emulator_zeros(&e, 64 * sizeof(float));
    const uint64_t wide = emulator_zeros(&e, LANES * 8);
    const uint64_t seen = emulator_zeros(&e, 8);
    const uint64_t params[] = { emulator_upload(&e, in, sizeof in), out, wide, seen };
    emulator_expect(&e, emulator_run(&e, params), 0, "");
    const float *got = emulator_at(&e, out, 64 * sizeof(float));
    const int64_t *got_wide = emulator_at(&e, wide, LANES * 8);
    for (int i = 0; i < LANES; i++) {
        const float value = in[i] + 0.5f;
        const int twice = (int)scale((float)i, 9) + (int)scale((float)i, 1);
        assert_true(got[i] == scale(value, i) + (float)(i + 1));
        assert_int_equal(got_wide[i], ((int64_t)i << 40) - (i + 1) - 6 * i + twice);
        assert_true(got[i + 32] == in[i] * (float)(i & 7));
    }
    assert_int_equal(*(const int *)emulator_at(&e, seen, 4), -16);
    assert_int_equal(*(const int *)emulator_at(&e, e.global_base, 4), 5 + 16);
    emulator_close(&e);
}

TEST(calls_with_structures)
{
    calls(sample_text("calls"));
}

// Appends text to what is written.
struct writer {
    char text[1 << 16];
    size_t length;
};

static EMU_PRINTF(2, 3) void say(struct writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    w->length +=
        (size_t)vsnprintf(w->text + w->length, sizeof w->text - w->length, format, arguments);
    va_end(arguments);
    assert_true(w->length < sizeof w->text);
}

// What `nvcc -G` writes in place of a line of `nvcc`, or null: local memory by generic addresses,
// and an intrinsic function that is declared first and defined last.
static const char *debug_line(const char *line)
{
    static const struct {
        const char *line, *debug;
    } lines[] = {
        { ".target sm_80", ".target sm_80, debug" },
        { ".address_size 64",
          ".address_size 64\n\n.func  (.param .b32 func_retval0) __iAtomicAdd\n(\n"
          "\t.param .b64 __iAtomicAdd_param_0,\n\t.param .b32 __iAtomicAdd_param_1\n)\n;" },
        { "\tatom.add.u32 \t%r2, [%rd3], 1;",
          "\t{ // callseq 9, 0\n\t.reg .b32 temp_param_reg;\n\t.param .b64 param0;\n\tst.param.b64 "
          "\t[param0+0], %rd3;\n"
          "\t.param .b32 param1;\n\tst.param.b32 \t[param1+0], 1;\n\t.param .b32 retval0;\n"
          "\tcall.uni (retval0), \n\t__iAtomicAdd, \n\t(\n\tparam0, \n\tparam1\n\t);\n"
          "\tld.param.b32 \t%r2, [retval0+0];\n\t} // callseq 9" },
        { "\tadd.u64 \t%rd9, %SPL, 0;",
          "\tcvta.local.u64 \t%SP, %SPL;\n\tadd.u64 \t%rd9, %SP, 0;" },
        { "\tst.local.v4.f32 \t[%rd9], {%f9, %f6, %f8, %f7};",
          "\tst.v4.f32 \t[%rd9], {%f9, %f6, %f8, %f7};" },
        { "\tst.local.v4.f32 \t[%rd9+16], {%f13, %f12, %f11, %f10};",
          "\tst.v4.f32 \t[%rd9+16], {%f13, %f12, %f11, %f10};" },
        { "\tld.local.f32 \t%f14, [%rd25];", "\tld.f32 \t%f14, [%rd25];" },
    };
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        if (strcmp(line, lines[k].line) == 0)
            return lines[k].debug;
    }
    return NULL;
}

// Sections as DWARF has them: bytes, numbers and addresses of labels, sections and variables.
static void debug_sections(struct writer *w, int labels)
{
    say(w, "\t.file\t1 \"calls.cu\"\n\t.section\t.debug_loc\n\t{\n");
    for (int k = 0; k + 1 < labels; k++)
        say(w, ".b64 $L__tmp%d\n.b64 $L__tmp%d\n.b8 5,0,144,%d,228,149,1\n", k, k + 1, 177 + k % 8);
    say(w, ".b64 0\n.b64 0\n\t}\n\t.section\t.debug_abbrev\n\t{\n");
    for (int k = 0; k < 20; k++)
        say(w, ".b8 %d,17,1,37,8,19,5,3,8,16,6,27,8,17,1,0,0,2,52,0\n", k + 1);
    say(w, ".b8 0\n\t}\n\t.section\t.debug_info\n\t{\n.b32 1023\n.b8 2,0\n.b32 .debug_abbrev\n"
           ".b32 .debug_line\n.b64 total\n.b64 k_param_0\n.b64 __local_depot4\n");
    for (int k = 0; k < 5; k++)
        say(w, ".b64 $L__func_begin%d\n.b64 $L__func_end%d\n.b8 1,156,107,0\n", k, k);
    say(w, ".b32 .debug_loc\n.b8 0\n\t}\n\t.section\t.debug_macinfo\n\t{\n.b8 0\n\n\t}\n");
}

// calls.ptx as a debug build: with debug_line(), a `.loc` and a label after each statement, labels
// around each function, and sections.
static void write_debug_build(struct writer *w, const char *text)
{
    int depth = 0, functions = 0, labels = 0, replaced = 0;
    for (const char *next, *at = text; *at; at = next) {
        char line[256];
        const size_t length = strcspn(at, "\n");
        next = at + length + (at[length] == '\n');
        assert_true(length < sizeof line);
        memcpy(line, at, length);
        line[length] = '\0';
        if (strcmp(line, "}") == 0)
            say(w, "$L__func_end%d:\n\n", functions++);
        const char *debug = debug_line(line);
        replaced += debug != NULL;
        say(w, "%s\n", debug ? debug : line);
        depth += strncmp(line, "\t{", 2) == 0 ? 1 : strncmp(line, "\t}", 2) == 0 ? -1 : 0;
        if (strcmp(line, "{") == 0)
            say(w, "\t.loc\t1 %d 0\n$L__func_begin%d:\n\t.loc\t1 %d 0\n\n", functions + 1,
                functions, functions + 1);
        else if (depth == 0 && line[0] == '\t' && line[1] >= 'a' && line[1] <= 'z' &&
                 line[length - 1] == ';')
            say(w, "$L__tmp%d:\n\t.loc\t1 %d 5\n", labels, labels + 10), labels++;
    }
    assert_int_equal(replaced, 7);
    assert_int_equal(functions, 5);
    say(w, ".func  (.param .b32 func_retval0) __iAtomicAdd(\n\t.param .b64 __iAtomicAdd_param_0,\n"
           "\t.param .b32 __iAtomicAdd_param_1\n)\n{\n\t.reg .b32 \t%%r<3>;\n\t.reg .b64 "
           "\t%%rd<2>;\n\n\n"
           "\tld.param.u64 \t%%rd1, [__iAtomicAdd_param_0];\n\tld.param.u32 \t%%r1, "
           "[__iAtomicAdd_param_1];\n"
           "\tatom.add.u32 \t%%r2, [%%rd1], %%r1;\n\tst.param.b32 \t[func_retval0+0], "
           "%%r2;\n\tret;\n\n}\n");
    debug_sections(w, labels);
}

TEST(calls_of_a_debug_build)
{
    static struct writer w;
    w.length = 0;
    write_debug_build(&w, sample_text("calls"));
    calls(w.text);
}

TEST(reduction)
{
    struct emulator e;
    float in[1000], sum = 0;
    emulator_open(&e);
    load_sample(&e, "reduce");
    for (int i = 0; i < 1000; i++)
        sum += in[i] = (float)(i % 37);
    e.block = 128;
    e.dynamic_shared = 128 * sizeof(float);
    const uint64_t out = emulator_zeros(&e, 129 * sizeof(float));
    const uint64_t params[] = { emulator_upload(&e, in, sizeof in), out, 1000 };
    emulator_expect(&e, emulator_run(&e, params), 0, "");
    const float *got = emulator_at(&e, out, 129 * sizeof(float));
    assert_true(got[0] == sum);
    float partial = 0;
    for (int i = 127; i < 1000; i += 128)
        partial += in[i];
    assert_true(got[1] == partial);
    emulator_close(&e);
}

TEST(warps)
{
    struct emulator e;
    uint32_t in[LANES];
    emulator_open(&e);
    load_sample(&e, "warps");
    for (uint32_t i = 0; i < LANES; i++)
        in[i] = i % 6;
    const uint64_t p = emulator_zeros(&e, 288 * 4), v = emulator_zeros(&e, 64 * 16);
    const uint64_t params[] = { p, emulator_upload(&e, in, sizeof in), v };
    emulator_expect(&e, emulator_run(&e, params), 0, "");
    const uint32_t *got = emulator_at(&e, p, 288 * 4);
    uint32_t ballot = 0, sum = 0, parity = 0, above = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        ballot |= (in[i] > 3 ? 1u : 0u) << i;
        above += in[i] > 3;
        sum += in[i];
        parity ^= in[i];
    }
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t match = 0;
        for (uint32_t j = 0; j < LANES; j++)
            match |= (in[j] == in[i] ? 1u : 0u) << j;
        assert_int_equal(got[i], ballot + 2);
        assert_int_equal(got[i + 32], in[3] + in[i ^ 1] + in[i < 2 ? i : i - 2]);
        assert_int_equal(got[i + 64], match);
        assert_int_equal(got[i + 96], sum + parity);
        assert_int_equal(got[i + 128], above);
        assert_int_equal(got[i + 160], UINT32_MAX + in[31 - i] + in[i]);
        assert_int_equal(got[i + 192], in[i]);
        assert_int_equal(got[i + 224], in[i]);
        assert_int_equal(got[i + 256], in[i] == 3 ? 3 : 4);
    }
    emulator_close(&e);
}

// 64 bits by 64 bits.
static void product(uint64_t x, uint64_t y, uint64_t *low, uint64_t *high)
{
    const uint64_t a = x >> 32, b = (uint32_t)x, c = y >> 32, d = (uint32_t)y;
    const uint64_t middle = a * d + (b * d >> 32), other = b * c + (uint32_t)middle;
    *high = a * c + (middle >> 32) + (other >> 32);
    *low = x * y;
}

TEST(wide)
{
    struct emulator e;
    uint64_t a[LANES], b[LANES];
    emulator_open(&e);
    load_sample(&e, "wide");
    for (uint64_t i = 0; i < LANES; i++) {
        a[i] = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
        b[i] = i % 3 ? ~a[i] << i : UINT64_MAX - i;
    }
    const uint64_t out = emulator_zeros(&e, LANES * 64);
    const uint64_t params[] = { emulator_upload(&e, a, sizeof a), emulator_upload(&e, b, sizeof b),
                                out };
    emulator_expect(&e, emulator_run(&e, params), 0, "");
    const uint64_t *got = emulator_at(&e, out, LANES * 64);
    for (unsigned i = 0; i < LANES; i++, got += 8) {
        // x has a and b, y has b and a, high halves first.
        const uint64_t sum = a[i] + b[i], carry = sum < a[i] ? 1 : 0, borrow = b[i] < a[i] ? 1 : 0;
        const uint64_t x24 = (a[i] & 0xffffff) * (b[i] & 0xffffff);
        const int64_t xs = (int64_t)(a[i] << 40) >> 40, ys = (int64_t)(b[i] << 40) >> 40;
        const uint64_t last[8] = { a[i] + 17,        b[i] + 1,
                                   (uint32_t)x24,    (uint64_t)(int64_t)(int32_t)(xs * ys),
                                   a[i] >> 3 ^ b[i], ~a[i],
                                   6 * a[i],         99 };
        uint64_t low, high;
        product(b[i], a[i], &low, &high);
        assert_true(got[0] == sum && got[1] == sum + carry);
        assert_true(got[2] == b[i] - a[i] && got[3] == a[i] - b[i] - borrow);
        assert_true(got[4] == low && got[5] == high + a[i] * a[i] + b[i] * b[i]);
        assert_true(got[6] == a[i] * b[i] + (a[i] ^ b[i]));
        assert_true(got[7] == last[i % 8]);
    }
    emulator_close(&e);
}

// Two tiles of shared memory, filled in turn.
TEST(copies)
{
    enum { TILE = 128, COUNT = 300 };
    struct emulator e;
    float in[COUNT * 4], bias[TILE];
    emulator_open(&e);
    load_sample(&e, "copies");
    for (int i = 0; i < COUNT * 4; i++)
        in[i] = (float)(i % 1000) * 0.5f;
    for (int i = 0; i < TILE; i++)
        bias[i] = (float)i;
    e.block = TILE;
    const uint64_t out = emulator_zeros(&e, sizeof in);
    const uint64_t params[] = { emulator_upload(&e, in, sizeof in),
                                emulator_upload(&e, bias, sizeof bias), out, COUNT };
    emulator_expect(&e, emulator_run(&e, params), 0, "");
    const float *got = emulator_at(&e, out, sizeof in);
    for (int i = 0; i < COUNT; i++) {
        // Each thread reads what the thread opposite copied, zeros past the end.
        const int from = i / TILE * TILE + (TILE - 1 - i % TILE);
        const float c = bias[i % TILE], zero[4] = { 0 };
        const float *x = from < COUNT ? in + 4 * (size_t)from : zero;
        assert_true(got[4 * i] == x[0] + c);
        assert_true(got[4 * i + 1] == x[1] * c);
        assert_true(got[4 * i + 2] == x[2] - c);
        assert_true(got[4 * i + 3] == c);
    }
    emulator_close(&e);
}

TEST(compares)
{
    struct emulator e;
    uint32_t words[4][LANES];
    // 1, 2, NaN, -1 as f16 and as bf16
    static const uint32_t f16[4] = { 0x3c00, 0x4000, 0x7e00, 0xbc00 };
    static const uint32_t bf16[4] = { 0x3f80, 0x4000, 0x7fc0, 0xbf80 };
    static const double values[4] = { 1, 2, 0, -1 };
    emulator_open(&e);
    load_sample(&e, "compares");
    for (unsigned i = 0; i < LANES; i++) {
        words[0][i] = f16[i % 4] | f16[i / 8] << 16;
        words[1][i] = f16[i / 4 % 4] | f16[1] << 16;
        words[2][i] = bf16[i % 4] | bf16[i / 8] << 16;
        words[3][i] = bf16[i / 4 % 4] | bf16[1] << 16;
    }
    const uint64_t out = emulator_zeros(&e, LANES * 32);
    uint64_t params[5] = { 0, 0, 0, 0, out };
    for (unsigned k = 0; k < 4; k++)
        params[k] = emulator_upload(&e, words[k], sizeof words[k]);
    emulator_expect(&e, emulator_run(&e, params), 0, "");
    const uint32_t *got = emulator_at(&e, out, LANES * 32);
    for (unsigned i = 0; i < LANES; i++, got += 8) {
        const unsigned x[2] = { i % 4, i / 8 }, y[2] = { i / 4 % 4, 1 };
        uint32_t equal = 0, below = 0, above = 0, more = 0;
        bool differs = true, at_most = true;
        for (unsigned k = 0; k < 2; k++) {
            const double a = values[x[k]], b = values[y[k]];
            const bool ordered = x[k] != 2 && y[k] != 2;
            equal |= ordered && a == b ? 0xffffu << 16 * k : 0;
            below |= !ordered || a < b ? 0xffffu << 16 * k : 0;
            above |= ordered && a >= b ? 0x3c00u << 16 * k : 0;
            more |= ordered && a > b ? 0x3f80u << 16 * k : 0;
            differs = differs && ordered && a != b;
            at_most = at_most && ordered && a <= b;
        }
        assert_int_equal(got[0], equal);
        assert_int_equal(got[1], below);
        assert_int_equal(got[2], above);
        assert_int_equal(got[3], more);
        assert_int_equal(got[4], differs);
        assert_int_equal(got[5], at_most);
    }
    emulator_close(&e);
}

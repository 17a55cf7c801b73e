// SPDX-License-Identifier: MIT
/// For tests of the emulator's parser.
#ifndef PTXGEN_TESTS_EMULATOR_PARSE_H
#define PTXGEN_TESTS_EMULATOR_PARSE_H

#include "ptx/program.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "\n.version 8.8\n.target sm_100a\n.address_size 64\n"

struct parsed {
    struct emu_module *module;
    int result;
    char log[4096];
};

static inline struct parsed parse_for(const char *text, int isa, int sm, char suffix)
{
    const struct emu_parse_limits limits = { isa, sm, suffix };
    struct parsed parsed = { NULL, -1, "" };
    parsed.module = emu_module_parse(text, strlen(text), &limits, parsed.log, sizeof parsed.log,
                                     &parsed.result);
    return parsed;
}

/// On a device that runs everything that sm_100a text may have.
static inline struct parsed parse(const char *text)
{
    return parse_for(text, 95, 100, 'a');
}

static inline struct emu_module *parse_ok(const char *text)
{
    struct parsed parsed = parse(text);
    if (!parsed.module)
        fail_msg("%d: %s\n%s", parsed.result, parsed.log, text);
    assert_int_equal(parsed.result, 0);
    assert_string_equal(parsed.log, "");
    return parsed.module;
}

/// The lines inside a kernel that has registers and variables of every type.
static inline const char *frame(const char *lines, char *text, size_t size)
{
    snprintf(
        text, size,
        ".version 8.8\n.target sm_100a\n.address_size 64\n"
        ".global .u32 gv[4]; .const .f32 cv[4]; .shared .b32 sv[8]; .extern .shared .b8 dyn[];\n"
        ".visible .entry k(.param .u64 p0, .param .u32 p1, .param .align 8 .b8 pa[32])\n{\n"
        ".reg .pred p, q, r0; .reg .b8 rb8; .reg .b16 h, h1, h2, h3; .reg .u16 us;\n"
        ".reg .s16 ss; .reg .f16 hf, hf1; .reg .b32 r, r1, r2, r3; .reg .u32 u, u1;\n"
        ".reg .s32 s, s1; .reg .f32 f, f1, f2, f3; .reg .b64 d, d1, d2, d3; .reg .u64 ud;\n"
        ".reg .s64 sd; .reg .f64 e, e1, e2, e3; .reg .f16x2 hx; .reg .u8 u8;\n"
        ".local .b8 lv[32];\n%s\nL: ret;\n}\n",
        lines);
    return text;
}

/// The contents of a file. The caller frees them.
static inline char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    const size_t count = fread(text, 1, (1 << 20) - 1, file);
    assert_true(count > 0 && count < (1 << 20) - 1);
    fclose(file);
    return text;
}

#endif

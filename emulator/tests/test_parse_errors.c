// SPDX-License-Identifier: MIT
// Errors for wrong text: line, column, CUresult. Hostile text takes little time and memory.
#include "parse.h"

static void expect(const char *text, int result, const char *words)
{
    struct parsed parsed = parse(text);
    if (parsed.module)
        fail_msg("accepted: %s", text);
    if (parsed.result != result || !strstr(parsed.log, words))
        fail_msg("%d, not %d with '%s': %s\n%s", parsed.result, result, words, parsed.log, text);
    emu_module_destroy(&parsed.module);
}

TEST(places)
{
    expect(HEAD ".entry k()\n{\n  .reg .b32 r;\n\tadd.foo.u32 r, r, 1;\n}", 218,
           "ptxas application ptx input, line 8; error   : Unknown modifier '.foo' of instruction "
           "'add': not "
           "PTX, or not supported by the emulator (column 5)\n");
    expect(HEAD ".entry k()\n{ .reg .b32 r; /* \n\n */ add.u32 r, r, x;\n}", 218,
           "line 8; error   : Unknown symbol 'x' (column 19)\n");
    expect(HEAD ".entry k() { @p bra L; L: }", 218,
           "line 5; error   : Predicate expression expected (column 15)");
    expect(HEAD ".entry k() { ret;", 218, "at the end of the text");
}

TEST(several_errors)
{
    struct parsed parsed = parse(HEAD ".entry k() { .reg .b32 r;\nfoo r;\nmov.b64 {r, r}, x;\n"
                                      "bra A;\nadd.u32 r, r, 1;\nadd.u32 r, r;\n}\n.bad;\n"
                                      ".entry q() {\nbar r;\n}");
    assert_null(parsed.module);
    for (const char *const *line =
             (const char *const[]) { "line 6;", "line 7;", "line 8;", "line 10;", "line 12;",
                                     "line 14;", NULL };
         *line; line++)
        if (!strstr(parsed.log, *line))
            fail_msg("no %s in:\n%s", *line, parsed.log);
    assert_null(strstr(parsed.log, "line 9;"));
    assert_null(strstr(parsed.log, "line 11;"));
}

TEST(versions_and_targets)
{
    static const struct {
        const char *head;
        int isa, sm;
        char suffix;
        int result;
    } rows[] = {
        { ".version 8.0\n.target sm_90", 80, 90, 0, 0 },
        { ".version 8.1\n.target sm_90", 80, 90, 0, 222 },
        { ".version 99.0\n.target sm_90", 90, 90, 0, 222 },
        { ".version 8.0\n.target sm_80", 90, 90, 0, 0 },
        { ".version 8.0\n.target sm_50", 90, 90, 0, 0 },
        { ".version 8.0\n.target sm_90", 90, 80, 0, 209 },
        { ".version 8.0\n.target sm_90a", 90, 90, 'a', 0 },
        { ".version 8.0\n.target sm_90a", 90, 90, 0, 209 },
        { ".version 8.0\n.target sm_90a", 90, 100, 'a', 209 },
        { ".version 8.8\n.target sm_100f", 90, 100, 0, 0 },
        { ".version 8.8\n.target sm_100f", 90, 103, 0, 0 },
        { ".version 8.8\n.target sm_103f", 90, 100, 0, 209 },
        { ".version 8.8\n.target sm_100f", 90, 120, 0, 209 },
        { ".version 8.8\n.target sm_90f", 90, 90, 'a', 218 },
        { ".version 7.0\n.target sm_90", 90, 90, 0, 218 },
        { ".version 8.0\n.target sm_81", 90, 90, 0, 218 },
        { ".version 8.0\n.target compute_80", 90, 90, 0, 218 },
        { ".version 8\n.target sm_80", 90, 90, 0, 218 },
        { ".target sm_80", 90, 90, 0, 218 },
        { ".version 8.0", 90, 90, 0, 218 },
        { ".version 8.0\n.target sm_80, map_f64_to_f32", 90, 90, 0, 218 },
        { ".version 8.0\n.target sm_80\n.address_size 32", 90, 90, 0, 218 },
        { "", 90, 90, 0, 218 },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct parsed parsed = parse_for(rows[k].head, rows[k].isa, rows[k].sm, rows[k].suffix);
        if (parsed.result != rows[k].result)
            fail_msg("%s on sm_%d: %d\n%s", rows[k].head, rows[k].sm, parsed.result, parsed.log);
        assert_int_equal(parsed.module == NULL, parsed.result != 0);
        emu_module_destroy(&parsed.module);
    }
}

TEST(floors)
{
    static const struct {
        const char *version, *target, *line, *words;
    } rows[] = {
        { "6.5", "sm_75", "redux.sync.add.u32 r, r, -1;",
          "requires PTX ISA .version 7.0 or later" },
        { "7.0", "sm_75", "redux.sync.add.u32 r, r, -1;", "requires .target sm_80 or higher" },
        { "7.0", "sm_80", "add.bf16 h, h, h;", "'add.bf16' requires PTX ISA .version 7.8" },
        { "7.8", "sm_80", "add.bf16 h, h, h;", "requires .target sm_90 or higher" },
        { "7.0", "sm_80", "ld.global.L1::no_allocate.u32 r, [d];", ".version 7.4 or later" },
        { "8.0", "sm_90", "ld.global.v8.b32 {r, r, r, r, r, r, r, r}, [d];", ".version 8.8" },
        { "7.8", "sm_80", "mov.u32 r, %cluster_ctarank;", "requires .target sm_90 or higher" },
        { "6.0", "sm_70", "cvt.rn.bf16.f32 h, f;", ".version 7.0 or later" },
        { "8.5", "sm_90", "add.rn.f32x2 d, d, d;", "'add.f32x2' requires PTX ISA .version 8.6" },
        { "8.6", "sm_90", "add.rn.f32x2 d, d, d;",
          "'add.f32x2' requires .target sm_100 or higher" },
        { "8.6", "sm_100", "cvt.rs.f16x2.f32 r, f, f, r;", "requires PTX ISA .version 8.7" },
        { "8.7", "sm_100", "cvt.rs.f16x2.f32 r, f, f, r;", "'cvt.rs' requires .target sm_100a" },
        { "8.7", "sm_100a", "cvt.rs.f16x2.f32 r, f, f, r;", "'cvt.rs' is not supported by the" },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char text[512];
        snprintf(text, sizeof text,
                 ".version %s\n.target %s\n.entry k() { .reg .b32 r, f; .reg .b64 d; .reg .b16 h;\n"
                 "%s }",
                 rows[k].version, rows[k].target, rows[k].line);
        expect(text, 218, rows[k].words);
    }
}

// .abi_preserve and .abi_preserve_control, of a function and of a prototype: as ptxas 13.0 takes
// and refuses them.
TEST(registers_that_a_call_preserves)
{
    static const struct {
        const char *version, *function, *prototype, *words;
    } rows[] = {
        { "9.0", ".abi_preserve 5 .abi_preserve_control 3",
          ".noreturn .abi_preserve 3 .abi_preserve_control 0", NULL },
        { "8.9", ".abi_preserve 5", "", "'.abi_preserve' requires PTX ISA .version 9.0" },
        { "8.9", "", ".abi_preserve 5", "'.abi_preserve' requires PTX ISA .version 9.0" },
        { "8.9", "", ".abi_preserve_control 5",
          "'.abi_preserve_control' requires PTX ISA .version 9.0" },
        { "9.0", ".abi_preserve", "", "syntax error" },
        { "9.0", "", ".abi_preserve", "syntax error" },
        { "9.0", "", ".abi_preserve -1", "An integer from 0 to 4294967295 is expected" },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char text[512];
        snprintf(text, sizeof text,
                 ".version %s\n.target sm_90\n.address_size 64\n.func g() %s { ret; }\n"
                 ".entry k(.param .b64 f) { .reg .b64 d; ld.param.b64 d, [f];\n"
                 "P: .callprototype _ () %s; call d, P; }",
                 rows[k].version, rows[k].function, rows[k].prototype);
        if (rows[k].words) {
            expect(text, 218, rows[k].words);
        } else {
            struct emu_module *module = parse_ok(text);
            emu_module_destroy(&module);
        }
    }
}

TEST(orders_of_fences)
{
    static const char *const orders[] = { "relaxed", "weak", "volatile" };
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        char text[256], words[64];
        snprintf(text, sizeof text, HEAD ".entry k() { fence.%s.gpu; }", orders[k]);
        snprintf(words, sizeof words, "Illegal modifier '.%s' for instruction 'fence'", orders[k]);
        expect(text, 218, words);
    }
}

TEST(what_is_not_supported_says_so)
{
    static const char *const lines[] = {
        "tex.1d.v4.f32.s32 {f, f, f, f}, [t, {r}];",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [r], r, [r];",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {r}, {r}, {r}, {r};",
        "multimem.st.relaxed.gpu.global.u32 [d], r;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [r], r, [r];",
        "barrier.cluster.arrive;",
        "add.b128 r, r, r;",
        "max.foo.f32 f, f, f;",
        "mbarrier.foo.b64 r;",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [r], {r, r}, [r];",
        "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u32 [r], r, [r];",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [d], [r], 16;",
    };
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        char text[512];
        snprintf(text, sizeof text,
                 HEAD ".func k2() { ret; }\n"
                      ".entry k() { .reg .b32 r; .reg .f32 f; .reg .b64 d; .reg .pred p;\n%s\n}",
                 lines[k]);
        expect(text, 218, "not supported by the emulator");
    }
    expect(HEAD ".entry k() { wgmma.fence.sync.aligned; }", 218,
           "Instruction 'wgmma' not supported on .target 'sm_100a'");
    expect(HEAD ".global .texref t;", 218, "not supported by the emulator");
    expect(HEAD ".func f(.reg .b128 x) { ret; }", 218,
           "Parameter 'x', a register of 128 bits, is not supported by the emulator");
    expect(
        HEAD ".func f(.param .b128 x) { .reg .b128 o; ld.param.b128 o, [x]; ret; }", 218,
        "access of 128 bits to 'x', a parameter of a function, is not supported by the emulator");
    expect(HEAD ".func f(.param .b32 x) { .reg .b64 d; cvta.param.u64 d, x; ret; }", 218,
           "generic address of 'x', a parameter of a function, is not supported by the emulator");
    expect(HEAD ".global .attribute(.unified(1, 2)) .u32 x;", 218, "not supported by the emulator");
    expect(HEAD ".const .attribute(.managed) .u32 x;", 218, "Illegal attribute '.managed'");
}

TEST(aliases_and_linkage)
{
    expect(HEAD ".alias a, b;", 218, "'a' is no .func");
    expect(HEAD ".func a() { ret; }\n.func b() { ret; }\n.alias a, b;", 218,
           "'a' is defined and cannot be an alias");
    expect(HEAD ".visible .func a();\n.visible .func b();\n.alias a, b;", 218,
           "'b' is not defined and cannot have an alias");
    expect(HEAD ".func a();\n.func b(.param .b32 x) { ret; }\n.alias a, b;\n"
                ".entry k() { call a; }",
           218, "do not match");
    expect(HEAD ".func a() { ret; }\n.alias a;", 218, "syntax error");
    expect(HEAD ".visible .weak .func a() { ret; }", 218, "one of .visible, .extern");
    expect(HEAD ".common .shared .b32 x;", 218, "'.common' is for variables of .global");
    expect(HEAD ".common .func a() { ret; }", 218, "'.common' is for variables of .global");
    expect(".version 6.2\n.target sm_70\n.address_size 64\n.func a();\n.alias a, a;", 218,
           "'.alias' requires PTX ISA .version 6.3");
    expect(".version 4.3\n.target sm_50\n.address_size 64\n.common .global .b32 x;", 218,
           "'.common' requires PTX ISA .version 5.0");
    expect(HEAD ".weak .func a() { ret; }\n.weak .func a() { ret; }", 218, "Duplicate definition");
}

TEST(modules)
{
    expect(HEAD ".entry k() { ret; }\n.entry k() { ret; }", 218, "Duplicate definition");
    expect(HEAD ".extern .func f();\n.entry k() { call f; }", 218,
           "Unresolved extern function 'f'");
    expect(HEAD ".extern .global .u32 x;\n.entry k() { .reg .b32 r; ld.global.u32 r, [x]; }", 218,
           "Unresolved extern variable 'x'");
    expect(HEAD ".func f(.param .b32 a) { ret; }\n.entry k() { call f; }", 218, "do not match");
    expect(HEAD ".func f(.reg .b64 a) { ret; }\n"
                ".entry k() { .reg .b32 r; mov.b32 r, 1; call f, (r); }",
           218, "do not match");
    expect(HEAD ".entry e() { ret; }\n.entry k() { call e; }", 218, "cannot be called");
    expect(HEAD ".func f() { bra L; }\n.entry k() { L: ret; }", 218, "Unknown symbol 'L'");
    expect(HEAD ".global .u32 x[2] = {1, 2, 3};", 218, "more values");
    expect(HEAD ".global .u32 x[2][2] = {{1, 2, 3}};", 218, "more values");
    expect(HEAD ".global .f32 x = 1;", 218, "does not fit the type");
    expect(HEAD ".entry k() { .shared .b8 x[49153]; .reg .b32 r; mov.u32 r, x; }", 218,
           "too much shared data");
    expect(HEAD ".const .b8 x[65537];", 218, "too much constant data");
    expect(HEAD ".entry k(.param .b8 p[32765]) { ret; }", 218, "more than 32764 bytes");
    expect(HEAD ".reg .b32 r;", 218, "within a function");
    expect(HEAD ".entry k() .maxntid 0 { ret; }", 218, "from 1 to 4294967295");
    expect(HEAD ".entry k() .reqntid 64, 4294967296 { ret; }", 218, "from 1 to 4294967295");
    expect(HEAD ".entry k() .reqnctapercluster 2 { ret; }", 218, "several blocks is not supported");
}

// ---- hostile text -------------------------------------------------------------------------------

static void repeat(char *text, size_t size, const char *head, const char *piece, const char *tail)
{
    size_t at = (size_t)snprintf(text, size, "%s", head);
    while (at + strlen(piece) + strlen(tail) + 1 < size)
        at += (size_t)snprintf(text + at, size - at, "%s", piece);
    snprintf(text + at, size - at, "%s", tail);
}

TEST(nesting)
{
    static char text[200000];
    static const struct {
        const char *head, *piece, *tail;
    } rows[] = {
        { HEAD ".entry k() {", "{", "}" },
        { HEAD ".entry k() { .reg .b32 r; mov.b32 r, ", "(", "1;}" },
        { HEAD ".entry k() { .reg .b32 r; mov.b32 r, ", "-", "1;}" },
        { HEAD ".entry k() { .reg .b32 r; mov.b32 r, 1 ", "? 1 : 1", ";}" },
        { HEAD ".global .u32 x[9] = ", "{", "1}" },
        { HEAD ".entry k() { .reg .b32 r; mov.b32 {", "r, ", "r}, r;}" },
        { HEAD ".entry k() { .reg .b32 r; add.u32 ", "r, ", "r;}" },
        { HEAD ".entry k() { .reg .b32 r; add", ".ftz", " r, r, r;}" },
        { HEAD ".global .u32 x", "[2]", ";" },
        { HEAD, ".entry ", ";" },
        { HEAD "/*", " *", "" },
        { HEAD ".pragma \"", "\\\"", "" },
        { HEAD ".global .f32 x = ", "1", ";" },
        { HEAD ".global .f32 x = 1.", "1", ";" },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        repeat(text, sizeof text, rows[k].head, rows[k].piece, rows[k].tail);
        struct parsed parsed = parse(text);
        assert_null(parsed.module);
        assert_int_equal(parsed.result, 218);
        assert_true(strlen(parsed.log) > 0);
    }
}

TEST(appetite)
{
    expect(HEAD ".entry k() { .reg .b32 %r<4000000000>; }", 218, "1 to 1048576 registers");
    expect(HEAD ".shared .b8 x[0xffffffffffff];", 218, "An integer from");
    expect(HEAD ".global .u64 x[0x10000000000][0x10000000000];", 218, "too large");
    expect(HEAD ".global .b8 x[0x8000000000] = {1};", 2, "Out of memory: the text needs more");
    expect(HEAD ".global .b8 x[99999999999999999999];", 218, "does not fit into 64 bits");
    expect(HEAD ".func f(.param .b8 p[100000]) { ret; }", 218, "not supported by the emulator");
    expect(HEAD ".entry k() { .local .b8 x[600000]; }", 218, "more than 524288 bytes");
    expect(HEAD ".entry k() { .reg .b64 %a; .local .b8 x[600000]; mov.u64 %a, x; ret; }", 218,
           "more than 524288 bytes");
    expect(HEAD ".entry k() { .reg .b64 d; ld.local.u32 d, [d+99999999999999999999]; }", 218,
           "does not fit into 64 bits");
}

TEST(logs_are_cut)
{
    const struct emu_parse_limits limits = { 90, 90, 0 };
    const char text[] = ".version 99.9\n";
    int result = 0;
    for (size_t size = 0; size < 40; size++) {
        char log[41];
        memset(log, 'x', sizeof log);
        assert_null(emu_module_parse(text, sizeof text, &limits, log, size, &result));
        assert_int_equal(result, 222);
        assert_int_equal(log[size], 'x');
        if (size)
            assert_int_equal(strlen(log), size - 1);
    }
    assert_null(emu_module_parse(text, sizeof text, &limits, NULL, 0, &result));
    assert_null(emu_module_parse(NULL, 0, &limits, NULL, 0, NULL));
}

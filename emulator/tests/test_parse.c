// SPDX-License-Identifier: MIT
// The parser on the library's kernels, on text of nvcc, and on single constructs.
#include "parse.h"

#include <ptxgen/kernels.h>

#include "sanitized.h"
#include "variants.h"

#include <errno.h>

// ---- whole texts --------------------------------------------------------------------------------

TEST(every_variant_on_every_target)
{
    struct ptx_target target;
    ALLOCATED(char) *last = NULL;
    for (size_t t = 0; ptx_target_at(t, &target, NULL); t += SANITIZED_EVERY(11)) {
        OWNED(ptx_builder) *b =
            ptx_builder_create(&(struct ptx_builder_params) { .target = target });
        variants_emit(b, variants_for(target, &last));
        const char *text = ptx_builder_finish(b);
        assert_non_null(text);
        struct parsed parsed = parse_for(text, 95, target.sm, 'a');
        if (!parsed.module)
            fail_msg("sm_%d: %s", target.sm, parsed.log);
        assert_int_equal(parsed.module->sm, target.sm);
        assert_true(parsed.module->function_count > 40);
        emu_module_destroy(&parsed.module);
        assert_null(parsed.module);
    }
}

TEST(every_variant_alone)
{
    const ptx_kernel *kernel;
    unsigned seen = 0;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)) != NULL; k++) {
        struct ptx_kernel_spec spec;
        for (bool more = variant_first(kernel, PTX_NONE, &spec); more;
             more = variant_next(kernel, &spec)) {
            if (seen++ % SANITIZED_EVERY(29))
                continue;
            OWNED(ptx_builder) *b = ptx_builder_create(NULL);
            ptx_kernel_emit(b, kernel, &spec);
            const char *text = ptx_builder_finish(b);
            assert_non_null(text);
            OWNED_STRUCT(emu_module) *module = parse_ok(text);
            assert_int_equal(module->function_count, 1);
            assert_true(module->functions[0].is_entry && module->functions[0].param_count > 0);
            assert_ptr_equal(emu_module_entry(module, module->functions[0].name),
                             &module->functions[0]);
        }
    }
}

TEST(samples_of_nvcc)
{
    static const struct {
        const char *name;
        uint32_t functions;
    } samples[] = {
        { "reduce", 2 }, { "integers", 1 }, { "halves", 1 }, { "calls", 5 }, { "warps", 1 }
    };
    for (size_t k = 0; k < sizeof samples / sizeof *samples; k++) {
        char path[512];
        snprintf(path, sizeof path, PTX_DIR "/%s.ptx", samples[k].name);
        ALLOCATED(char) *text = read_text(path);
        OWNED_STRUCT(emu_module) *module = parse_ok(text);
        assert_int_equal(module->function_count, samples[k].functions);
        assert_non_null(emu_module_entry(module, "k"));
        assert_null(emu_module_entry(module, "nothing"));
    }
}

// ---- single constructs --------------------------------------------------------------------------

// The instructions of a kernel's body, and its operands.
struct body {
    struct emu_module *module;
    const struct emu_function *f;
};

static struct body body_of(const char *lines)
{
    char text[8192];
    struct body body = { parse_ok(frame(lines, text, sizeof text)), NULL };
    body.f = emu_module_entry(body.module, "k");
    assert_non_null(body.f);
    return body;
}

static const struct emu_operand *operand(const struct body *body, uint32_t insn, uint32_t k)
{
    return &body->f->operands[body->f->insns[insn].operands + k];
}

TEST(literals)
{
    static const struct {
        const char *line;
        uint64_t bits;
    } rows[] = {
        { "mov.u32 r, 0x1F;", 31 },
        { "mov.u32 r, 0X1f;", 31 },
        { "mov.u32 r, 017;", 15 },
        { "mov.u32 r, 0b101;", 5 },
        { "mov.u32 r, 18U;", 18 },
        { "mov.u32 r, -1;", 0xffffffff },
        { "mov.s16 h, -2;", 0xfffe },
        { "mov.u64 d, 0xffffffffffffffff;", UINT64_MAX },
        { "mov.f32 f, 0f3F800000;", 0x3f800000 },
        { "mov.f32 f, 0d3FF8000000000000;", 0x3fc00000 },
        { "mov.f64 e, 0f3F800000;", 0x3ff0000000000000 },
        { "mov.f32 f, 1.5;", 0x3fc00000 },
        { "mov.f32 f, -1.5e0;", 0xbfc00000 },
        { "mov.f32 f, .5;", 0x3f000000 },
        { "mov.f64 e, 1e-3;", 0x3f50624dd2f1a9fc },
        { "mov.f64 e, 12.5E+1;", 0x405f400000000000 },
        { "mov.f64 e, 1e999;", 0x7ff0000000000000 },
        { "mov.b32 r, 0f7fc00001;", 0x7fc00001 },
        { "mov.u32 r, (3+4)*2;", 14 },
        { "mov.u32 r, 1 << 4 | 3;", 19 },
        { "mov.u32 r, 7 - 3 - 2;", 2 },
        { "mov.u32 r, 3 > 2 ? 5 : 6;", 5 },
        { "mov.u32 r, ~3;", 0xfffffffc },
        { "mov.u32 r, !3;", 0 },
        { "mov.u32 r, -7 / 2;", 0xfffffffd },
        { "mov.u32 r, -8 >> 1;", 0xfffffffc },
        { "mov.u32 r, WARP_SZ;", 32 },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        errno = 0; // the caller's
        struct body body = body_of(rows[k].line);
        assert_int_equal(errno, 0);
        assert_int_equal(operand(&body, 0, 1)->kind, EMU_OPERAND_IMMEDIATE);
        if (operand(&body, 0, 1)->bits != rows[k].bits)
            fail_msg("%s gives 0x%llx", rows[k].line,
                     (unsigned long long)operand(&body, 0, 1)->bits);
        emu_module_destroy(&body.module);
    }
}

TEST(fields)
{
    struct body body = body_of("@!p fma.sat.ftz.rz.f32 f, f1, 2.0, f2;\n"
                               "ld.acquire.cta.global.v2.u32 {r, _}, [d+-8];\n"
                               "setp.geu.or.f32 p|q, f, f1, !r0;\n"
                               "bar.red.popc.u32 r, 1, 64, p;\n"
                               "shfl.sync.up.b32 r|p, r1, 1, 0, -1;\n"
                               "atom.shared.cas.b32 r, [sv+4], 1, r2;\n"
                               "mov.u32 r, %ctaid.y;");
    const struct emu_insn *insn = body.f->insns;
    assert_int_equal(body.f->insn_count, 9); // with the return
    assert_int_equal(insn[0].opcode, EMU_OP_FMA);
    assert_true(insn[0].sat && insn[0].ftz && insn[0].round == EMU_RZ && insn[0].guard_negated);
    assert_string_equal(body.f->registers[insn[0].guard].name, "p");
    assert_int_equal(insn[0].dst_count, 1);
    assert_int_equal(insn[0].src_count, 3);
    assert_int_equal(insn[1].order, EMU_ACQUIRE);
    assert_int_equal(insn[1].scope, EMU_SCOPE_CTA);
    assert_int_equal(insn[1].lanes, 2);
    assert_int_equal(operand(&body, 1, 1)->kind, EMU_OPERAND_SINK);
    assert_int_equal(operand(&body, 1, 2)->offset, -8);
    assert_int_equal(insn[2].compare, EMU_GEU);
    assert_int_equal(insn[2].boolean, EMU_BOOL_OR);
    assert_int_equal(insn[2].dst_count, 2);
    assert_true(operand(&body, 2, 4)->negated);
    assert_int_equal(insn[3].opcode, EMU_OP_BAR);
    assert_true(insn[3].aligned && insn[3].src_count == 3);
    assert_int_equal(insn[4].opcode, EMU_OP_SHFL);
    assert_int_equal(insn[4].mode, EMU_MODE_UP);
    assert_int_equal(insn[5].atomic, EMU_ATOMIC_CAS);
    assert_int_equal(operand(&body, 5, 1)->kind, EMU_OPERAND_SYMBOL_ADDRESS);
    assert_int_equal(operand(&body, 5, 1)->offset, 4);
    assert_int_equal(operand(&body, 6, 1)->special, EMU_CTAID);
    assert_int_equal(operand(&body, 6, 1)->index, 1);
    assert_int_equal(insn[6].line, 18);
    emu_module_destroy(&body.module);
}

TEST(labels_and_scopes)
{
    struct body body = body_of("bra A;\n"
                               "{ .reg .u64 r; A: mov.u64 r, 1; bra A; bra B; }\n"
                               "A: mov.u32 r, 2;\n"
                               "B: @p bra END;\n"
                               "END:");
    const struct emu_insn *insn = body.f->insns;
    assert_int_equal(insn[0].target, 4); // the outer A
    assert_int_equal(insn[2].target, 1); // the inner one
    assert_int_equal(insn[3].target, 5);
    assert_int_equal(insn[5].target, 6);
    assert_int_not_equal(operand(&body, 1, 0)->index, operand(&body, 4, 0)->index);
    emu_module_destroy(&body.module);
}

TEST(end_of_body_returns)
{
    OWNED_STRUCT(emu_module) *module = parse_ok(HEAD ".entry a() { }\n"
                                                     ".entry b() { .reg .pred p; @p ret; }\n"
                                                     ".entry c() { ret; }\n"
                                                     ".entry d() { bra E; E: }");
    assert_int_equal(module->functions[0].insn_count, 1);
    assert_int_equal(module->functions[1].insn_count, 2);
    assert_int_equal(module->functions[2].insn_count, 2);
    assert_int_equal(module->functions[3].insn_count, 2);
    for (uint32_t k = 0; k < 4; k++) {
        const struct emu_function *f = &module->functions[k];
        assert_int_equal(f->insns[f->insn_count - 1].opcode, EMU_OP_RET);
    }
}

TEST(registers_are_those_named)
{
    OWNED_STRUCT(emu_module) *module =
        parse_ok(HEAD ".entry k() { .reg .b32 %r<1000000>; .reg .f32 %f;\n"
                      "mov.b32 %r15, 1; mov.b32 %r999999, %r15; mov.f32 %f, 1.0; }");
    const struct emu_function *f = emu_module_entry(module, "k");
    assert_int_equal(f->register_count, 3);
    assert_string_equal(f->registers[0].name, "%f");
    assert_string_equal(f->registers[1].name, "%r15");
    assert_string_equal(f->registers[2].name, "%r999999");
}

TEST(heads)
{
    OWNED_STRUCT(emu_module) *module = parse_ok(
        "// comment\n/* another\n */ .version 8.8\n.target sm_100a, texmode_unified, debug\n"
        ".address_size 64\n.visible .entry k(.param .u8 a, .param .align 16 .b8 b[20],\n"
        ".param .u64 .ptr .global .align 4 c)\n.maxntid 32, 2 .minnctapersm 3 .maxnreg 64\n"
        ".pragma \"nounroll\"; { ret; }\n.entry q() .reqntid 8, 4, 2 { .pragma \"x\", \"y\"; ret; "
        "}\n"
        ".file 1 \"a.cu\", 123, 456\n.section .debug_str { L: .b8 1, 2 .b64 L+4 }\n");
    const struct emu_function *f = emu_module_entry(module, "k");
    assert_int_equal(module->isa, 88);
    assert_int_equal(module->sm_suffix, 'a');
    assert_int_equal(f->param_bytes, 48);
    assert_int_equal(module->symbols[f->params[1]].offset, 16);
    assert_int_equal(module->symbols[f->params[2]].offset, 40);
    assert_int_equal(f->max_block[0] * f->max_block[1] * f->max_block[2], 64);
    assert_int_equal(f->min_blocks, 3);
    assert_int_equal(f->max_registers, 64);
    assert_int_equal(emu_module_entry(module, "q")->required_block[2], 2);
}

TEST(initial_values)
{
    OWNED_STRUCT(emu_module) *module =
        parse_ok(HEAD ".global .align 4 .b8 bytes[6] = {1, 0xff, -1};\n"
                      ".const .f32 grid[2][3] = {{1.0, 2.0}, {3.0}};\n"
                      ".global .u64 at[2] = {generic(bytes)+2, grid}, last = 7;\n"
                      ".visible .global .align 16 .v2 .f64 pair;\n");
    static const unsigned char bytes[] = { 1, 0xff, 0xff, 0, 0, 0 };
    static const float grid[] = { 1, 2, 0, 3, 0, 0 };
    const struct emu_symbol *symbols = module->symbols;
    assert_int_equal(module->symbol_count, 5);
    assert_memory_equal(symbols[0].init, bytes, sizeof bytes);
    assert_memory_equal(symbols[1].init, grid, sizeof grid);
    assert_int_equal(symbols[3].init[0], 7);
    assert_null(symbols[4].init);
    assert_int_equal(symbols[2].offset, 8);
    assert_int_equal(symbols[4].offset, 32);
    assert_int_equal(module->global_bytes, 48);
    assert_int_equal(module->const_bytes, 24);
    assert_int_equal(module->relocation_count, 2);
    assert_int_equal(module->relocations[0].target, 0);
    assert_int_equal(module->relocations[0].addend, 2);
    assert_int_equal(module->relocations[1].offset, 8);
    assert_int_equal(module->relocations[1].symbol, 2);
}

// The upper half is 0, also of a negative number, as in what ptxas 13.0 writes.
TEST(initial_values_of_128_bits)
{
    OWNED_STRUCT(emu_module) *module = parse_ok(".version 8.8\n.target sm_90\n.address_size 64\n"
                                                ".const .align 16 .b128 wide[3] = {5, -8};\n");
    static const uint64_t wide[] = { 5, 0, UINT64_C(0) - 8, 0, 0, 0 };

    assert_memory_equal(module->symbols[0].init, wide, sizeof wide);
}

// Each kernel has its own shared variables and those of the functions that it calls. Common ones
// have one address.
TEST(shared_memory)
{
    OWNED_STRUCT(emu_module) *module =
        parse_ok(HEAD ".shared .align 8 .b8 common[24];\n.extern .shared .align 16 .b8 dyn[];\n"
                      ".func f() { .shared .b32 inner[2]; st.shared.b32 [inner], 1; ret; }\n"
                      ".entry a() { .shared .b32 own[4]; st.shared.b32 [own], 1; call f; ret; }\n"
                      ".entry b() { st.shared.b8 [common], 1; call f; ret; }\n"
                      ".entry c() { .reg .b32 r; mov.u32 r, dyn; ld.shared.b8 r, [common]; ret; }\n"
                      ".entry d() { .shared .b32 own[4]; st.shared.b32 [own+4], 1; ret; }\n");
    assert_int_equal(emu_module_entry(module, "d")->shared_bytes, 16);
    assert_int_equal(emu_module_entry(module, "b")->shared_bytes, 32);
    assert_true(emu_module_entry(module, "a")->shared_bytes >= 24);
    assert_true(emu_module_entry(module, "c")->shared_bytes >= 24);
    assert_true(module->symbols[1].is_extern && module->symbols[1].bytes == 0);
}

// SPDX-License-Identifier: MIT
// Whole modules through ptxas: errors that single instructions do not show.
#define PTXGEN_HERE NULL // places are what the tests say, so that texts have the same in all builds
#include "asm_module.h"
#include "builder_fixture.h"
#include "kitchen_sink.h"
#include "ptxas_batch.h"
#include "skip.h"

static void accepted(ptx_builder *b, const char *target)
{
    const char *text = finished(b);
    struct ptxas_report report = ptxas_run(text, target);

    if (!report.accepted)
        fail_msg("%s, line %d: %s\n%s", target, report.count ? report.errors[0].line : 0,
                 report.count ? report.errors[0].text : "no message", text);
    ptxas_report_free(&report);
    ptx_builder_destroy(&b);
}

static void need_ptxas(void)
{
    if (!ptxas_find())
        skip_because("no ptxas: a module with everything is not assembled");
}

TEST(a_kitchen_sink_assembles)
{
    struct ptx_target target;
    char name[PTX_TARGET_NAME_SIZE];
    unsigned count = 0;

    need_ptxas();
    for (size_t k = 0; ptx_target_at(k, &target, NULL); k++) {
        if (target.sm < 80 || target.suffix || !ptxas_knows(ptx_target_name(target, name)))
            continue;
        ptx_builder *b = builder_at(target.sm);
        kitchen_sink(b, "sink");
        kitchen_sink(b, "sink_too");
        accepted(b, name);
        count++;
    }
    assert_true(count > 0);
}

// Source lines of blocks and functions, inlined in each other; a function with two results; and
// .maxnreg.
static void lines_and_results(ptx_builder *b)
{
    ptx_builder_place(b, "parts.c:3");
    ptx_func (b, "divide", .results = { PTX_U32, PTX_F32 }) {
        ptx_val x = ptx_param(b, PTX_U32, "x"), y = ptx_param(b, PTX_U32, "y");
        ptx_builder_place(b, "parts.c:5");
        ptx_if (b, ptx_eq(b, y, 0))
            ptx_return_values(b, x, 0.5);
        ptx_builder_place(b, "parts.c:7");
        ptx_return_values(b, ptx_div(b, x, y), ptx_cvt(b, PTX_F32, ptx_rem(b, x, y)));
    }
    ptx_builder_place(b, "kernel.c:10");
    ptx_entry (b, "k", .block = { 64 }, .max_registers = 40) {
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out");
        ptx_val n = ptx_param(b, PTX_U32, "n"), sum = ptx_var(b, ptx_f32(0));
        ptx_builder_place(b, "kernel.c:12");
        ptx_for (b, i, ptx_u32(0), n, 1) {
            ptx_builder_place(b, "kernel.c:13");
            ptx_inlined (b, "outer") {
                ptx_builder_place(b, "outer.c:20");
                ptx_inlined (b, "inner") {
                    ptx_builder_place(b, "inner.c:30");
                    ptx_vec d = ptx_call_many(b, "divide", n, i);
                    ptx_set(b, sum, ptx_add(b, d.lane[1], ptx_cvt(b, PTX_F32, d.lane[0])));
                }
            }
        }
        ptx_builder_place(b, NULL);
        ptx_store(b, out, ptx_tid(b, PTX_X), ptx_math_exp(b, sum));
        ptx_builder_place(b, "kernel.c:19");
    }
}

TEST(lines_and_results_assemble)
{
    struct ptx_target target;
    char name[PTX_TARGET_NAME_SIZE];
    unsigned count = 0;

    need_ptxas();
    for (size_t k = 0; ptx_target_at(k, &target, NULL); k++) {
        if (!ptxas_knows(ptx_target_name(target, name)))
            continue;
        ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) {
            .target = target, .line_info = true, .source_folder = "/home/me" });
        lines_and_results(b);
        const char *text = finished(b);
        assert_non_null(strstr(text, "inlined_at"));
        assert_non_null(strstr(text, ".maxnreg 40"));
        accepted(b, name);
        count++;
    }
    assert_true(count > 0);
}

// Texts with operands, at the target for which they are written and at the newest.
TEST(texts_assemble)
{
    need_ptxas();
    for (int sm = 75; sm <= 120; sm += 45) {
        ptx_builder *b = builder_at(sm);
        asm_module(b);
        accepted(b, sm == 75 ? "sm_75" : "sm_120");
    }
}

// ptxas accepts every name and comment that the builder accepts.
TEST(names_and_comments_assemble)
{
    static const char *const names[] = { "add",   "ret", "entry", "reg", "u32", "tid",
                                         "param", "_k",  "x1_",   "k",   "E" };
    static const char *const params[] = { "mov",   "bra", "func", "align", "f32", "ntid",
                                          "const", "_p",  "y1_",  "p",     "e" };
    static char longest[1025];

    need_ptxas();
    memset(longest, 'z', 1024);
    ptx_builder *b = builder_at(80);
    for (size_t k = 0; k <= sizeof names / sizeof *names; k++) {
        const char *name = k < sizeof names / sizeof *names ? names[k] : longest;
        const char *param = k < sizeof names / sizeof *names ? params[k] : longest + 1;
        ptx_entry (b, name) {
            ptx_ptr p = ptx_param_ptr(b, PTX_F32, param, .length = "\xc3\xa9\n.x",
                                      .computed_length = true, .meaning = "\\");
            ptx_ptr a = ptx_param_array(b, PTX_S8, "array", 3);
            ptx_label label = ptx_label_create(b, k & 1 ? "shared" : longest);
            ptx_ptr s = ptx_shared(b, PTX_F32, 1);
            ptx_val lane = ptx_laneid(b);
            ptx_branch_if(b, ptx_eq(b, lane, ptx_u32(0)), label);
            ptx_comment(b, "caf\xc3\xa9 \\");
            ptx_comment(b, "\x01\t\r\n.y");
            ptx_store(b, s, ptx_u32(0), ptx_load(b, p, lane));
            ptx_store(b, ptx_ptr_cast(b, PTX_S8, s), ptx_u32(0), ptx_load(b, a, lane));
            ptx_label_place(b, label);
        }
    }
    accepted(b, "sm_80");
}

// The least and greatest value of every type, as literals.
TEST(extreme_immediates_assemble)
{
    static const ptx_type types[] = { PTX_U16, PTX_U32, PTX_U64, PTX_S16,
                                      PTX_S32, PTX_S64, PTX_F32, PTX_F64 };

    need_ptxas();
    NEW_ENTRY (b, 80) {
        for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
            const unsigned bits = 8 * ptx_type_bytes(types[k]);
            const uint64_t ones = UINT64_MAX >> (64 - bits), top = UINT64_C(1) << (bits - 1);
            ptx_val x = ptx_var(b, ptx_imm_bits(types[k], ones));
            ptx_add(b, x, ptx_imm_bits(types[k], ones));
            ptx_add(b, x, ptx_imm_bits(types[k], top));
            ptx_add(b, ptx_imm_bits(types[k], ones >> 1), x);
        }
    }
    accepted(b, "sm_80");
}

int main(void)
{
    const int failed = tests_run(NULL, NULL);

    return ptxas_status(failed);
}

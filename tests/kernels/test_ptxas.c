// SPDX-License-Identifier: MIT
// Every kernel x dtype x option combination through NVIDIA's assembler, a module for each kernel
// and each target from which on the texts are others. Where a portable target has its predecessor's
// texts, but for the target's line, every kernel x dtype with every option's values; for targets
// with a suffix every kernel x dtype. Muon's products and parts for portable targets from sm_80 on,
// a plan of matrices for sm_80 and sm_90. Without ptxas, skips with 77 and says so. Prints the
// targets that this ptxas does not know. What this ptxas is recorded to have accepted is believed:
// see ptxas_batch.h.
//
//     test_ptxas [TARGET...]    for these targets alone
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/kernels.h>
#include <ptxgen/step.h>

#include "kernels/blocks.h"
#include "kernels/muon.h"
#include "kernels/muon_parts.h"
#include "ptxas_batch.h"
#include "test.h"
#include "variants.h"

enum { EXIT_SKIPPED = 77 };

static char *last_text; // of variants_for()
static unsigned believed, assembled;

static void assemble(ptx_builder *b, const char *what, const char *target)
{
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s, %s: %s", what, target, ptx_builder_error(b));
    struct ptxas_report report = ptxas_assemble(text, target, 1);
    // A warning means that the text does not say what it was meant to say.
    if (!report.accepted || report.warned)
        fail_msg("ptxas -arch=%s, a warning or line %d: %s\n%s", target,
                 report.count ? report.errors[0].line : 0,
                 report.count ? report.errors[0].text : "no error", text);
    ++*(report.believed ? &believed : &assembled);
    ptxas_report_free(&report);
    ptx_builder_destroy(&b);
}

// A plan of matrices that are rows or columns of a parameter, whose kernels others' are part of.
static void assemble_plan(const struct ptx_builder_params *target, const char *name)
{
    static const struct ptx_muon_params muon = { .steps = 0 };
    static const struct ptx_step_group group = {
        .rule = PTX_STEP_RULE_MUON, .nesterov = true, .hyper = { .momentum = 0.9 }, .muon = &muon
    };
    static const struct ptx_step_tensor tensors[] = {
        { .count = 1000, .columns = 20, .spread = { 20, 60 }, .dtype = PTX_F32 },
        { .count = 1000, .columns = 20, .dtype = PTX_BF16, .format = PTX_STEP_FORMAT_STOCHASTIC },
    };
    const struct ptx_step_params params = { .tensors = tensors,
                                            .tensor_count = sizeof tensors / sizeof *tensors,
                                            .groups = &group,
                                            .group_count = 1,
                                            .max_norm = 1,
                                            .reports_at = 8,
                                            .weight_reports_at = 8 };
    ptx_builder *b = ptx_builder_create(target);
    if (ptx_step_emit(b, &params))
        fail_msg("%s", ptx_error_message());
    assemble(b, "a plan of matrices", name);
}

// One whose products step their matrices.
static void assemble_chips(const struct ptx_builder_params *target, const char *name)
{
    static const struct ptx_step_group group = { .rule = PTX_STEP_RULE_MUON,
                                                 .hyper = { .momentum = 0.9 } };
    static const struct ptx_step_tensor tensor = {
        .count = 5280, .columns = 80, .dtype = PTX_BF16, .format = PTX_STEP_FORMAT_STOCHASTIC
    };
    const struct ptx_step_params params = {
        .tensors = &tensor, .tensor_count = 1, .groups = &group, .group_count = 1, .max_norm = 1
    };
    ptx_builder *b = ptx_builder_create(target);
    if (ptx_step_emit(b, &params))
        fail_msg("%s", ptx_error_message());
    assemble(b, "a plan whose products step", name);
}

static void test_target(void **state)
{
    const struct ptx_target *target = *state;
    const enum variants which = variants_for(*target, &last_text);
    const struct ptx_builder_params params = { .target = *target };
    const ptx_kernel *kernel;
    char name[PTX_TARGET_NAME_SIZE];
    ptx_target_name(*target, name);
    for (size_t k = 0; (kernel = ptx_kernel_at(k)) != NULL; ++k) {
        ptx_builder *b = ptx_builder_create(&params);
        variants_emit_of(b, kernel, which);
        assemble(b, kernel->name, name);
    }
    if (target->sm >= 80 && (!target->suffix || target->sm == 90)) {
        ptx_builder *b = ptx_builder_create(&params);
        ptxk_muon_emit(b, MUON_ALL);
        assemble(b, "Muon's products", name);
    }
    if (target->sm >= 80 && !target->suffix) {
        ptx_builder *b;
        static const struct blocks_spec formats[] = {
            { PTX_BF16, BLOCK_E2M1, BLOCK_NVFP4_TE, 16, 1, true, false, false, BLOCK_MEASURED },
            { PTX_BF16, BLOCK_E2M1, BLOCK_NVFP4_TE, 16, 1, false, true, false, BLOCK_MEASURED },
            { PTX_BF16, BLOCK_E2M1, BLOCK_NVFP4_TE, 16, 1, false, true, true, BLOCK_MEASURED },
            { PTX_F16, BLOCK_E5M2, BLOCK_MX_RCEIL, 32, 1, false, false, false, BLOCK_MEASURED },
            { PTX_F32, BLOCK_E4M3, BLOCK_FP8_TE, 128, 128, false, false, false, BLOCK_MEASURED },
            { PTX_F16, BLOCK_E2M1, BLOCK_NVFP4_TE, 16, 1, false, false, false, BLOCK_LEARNED },
            { PTX_BF16, BLOCK_E2M1, BLOCK_NVFP4_TE, 16, 1, false, false, false, BLOCK_GRADIENT },
        };
        for (unsigned k = 0; k < sizeof formats / sizeof *formats; ++k) {
            b = ptx_builder_create(&params);
            ptxk_blocks_emit(b, &formats[k]);
            assemble(b, "a block format", name);
        }
        b = ptx_builder_create(&params);
        ptxk_muon_parts_emit(b);
        assemble(b, "Muon's parts", name);
    }
    if ((target->sm == 80 || target->sm == 90) && !target->suffix)
        assemble_plan(&params, name);
    if (target->sm == 90 || (target->sm == 80 && !target->suffix))
        assemble_chips(&params, name);
}

static bool is_wanted(const char *target, int count, char **wanted)
{
    for (int k = 0; k < count; ++k)
        if (strcmp(wanted[k], target) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv)
{
    enum { MOST_TARGETS = 64 };
    static struct ptx_target targets[MOST_TARGETS];
    static char names[MOST_TARGETS][PTX_TARGET_NAME_SIZE];
    struct CMUnitTest tests[MOST_TARGETS];
    size_t count = 0;
    int isa;
    const char *ptxas = ptxas_find();
    if (!ptxas) {
        fprintf(stderr, "SKIPPED: no ptxas in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin\n");
        return EXIT_SKIPPED;
    }
    for (size_t k = 0; count < MOST_TARGETS && ptx_target_at(k, &targets[count], &isa); ++k) {
        ptx_target_name(targets[count], names[count]);
        if (!is_wanted(names[count], argc - 1, argv + 1))
            continue;
        if (!ptxas_knows_both(names[count], isa)) {
            fprintf(stderr, "SKIPPED, %s: unknown to %s\n", names[count], ptxas);
            continue;
        }
        tests[count] =
            (struct CMUnitTest) { names[count], test_target, NULL, NULL, &targets[count] };
        ++count;
    }
    printf("%s\n", ptxas);
    int failed = count ? _cmocka_run_group_tests("ptxas", tests, count, NULL, NULL) : EXIT_SKIPPED;
    printf("%u texts assembled, %u believed\n", assembled, believed);
    free(last_text);
    return failed;
}

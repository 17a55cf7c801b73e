// SPDX-License-Identifier: MIT
/// A plan's text in tests: taken from its builder, and held to ptxas.
#ifndef PTXGEN_TESTS_PLAN_TEXT_H
#define PTXGEN_TESTS_PLAN_TEXT_H

#include <ptxgen/builder.h>

#include <stdlib.h>
#include <string.h>

#include "ptxas_batch.h"

/// The builder's text, for the caller to free; the builder is destroyed.
static inline char *plan_text_finish(ptx_builder *b)
{
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s", ptx_builder_error(b));
    char *copy = malloc(strlen(text) + 1);
    assert_non_null(copy);
    strcpy(copy, text);
    ptx_builder_destroy(&b);
    return copy;
}

/// ptxas accepts the text, where there is one that knows the target. Frees the text.
static inline void plan_text_assemble(char *text, struct ptx_target target)
{
    char name[PTX_TARGET_NAME_SIZE];
    ptx_target_name(target, name);
    if (ptxas_find() && ptxas_knows(name)) {
        struct ptxas_report report = ptxas_run(text, name);
        if (!report.accepted)
            fail_msg("%s, line %d: %s\n%s", name, report.count ? report.errors[0].line : 0,
                     report.count ? report.errors[0].text : "no message", text);
        ptxas_report_free(&report);
    }
    free(text);
}

#endif

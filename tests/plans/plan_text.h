// SPDX-License-Identifier: MIT
/// A plan's text in tests: taken from its builder, and assembled by ptxas.
#ifndef PTXGEN_TESTS_PLAN_TEXT_H
#define PTXGEN_TESTS_PLAN_TEXT_H

#include <ptxgen/builder.h>

#include <stdlib.h>
#include <string.h>

#include "ptxas_batch.h"
#include "skip.h"

/// Returns the builder's text, which the caller frees, and destroys the builder.
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

/// Fails unless ptxas accepts the text, if there is a ptxas that knows the target. Frees the text.
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

/// Ends a test of texts, as skipped where there is no ptxas: the texts were built, and no more.
static inline void plan_text_end(void)
{
    if (!ptxas_find())
        skip_because("no ptxas: texts are built, and not assembled");
}

#endif

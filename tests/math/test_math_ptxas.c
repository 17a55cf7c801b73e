// SPDX-License-Identifier: MIT
// The functions of math.h through ptxas, for every target without a suffix that it knows.
#include "builder_fixture.h"
#include "math_kernels.h"
#include "ptxas_batch.h"
#include "skip.h"

TEST(every_function_assembles)
{
    struct ptx_target target;
    char name[PTX_TARGET_NAME_SIZE];
    unsigned count = 0;

    if (!ptxas_find())
        skip_because("no ptxas: the functions of math.h are not assembled");
    for (size_t k = 0; ptx_target_at(k, &target, NULL); k++) {
        if (target.suffix || !ptxas_knows(ptx_target_name(target, name)))
            continue;
        ptx_builder *b = builder_at(target.sm);
        math_kernels(b);
        const char *text = finished(b);
        struct ptxas_report report = ptxas_run(text, name);
        if (!report.accepted)
            fail_msg("%s, line %d: %s\n%s", name, report.count ? report.errors[0].line : 0,
                     report.count ? report.errors[0].text : "no message", text);
        ptxas_report_free(&report);
        ptx_builder_destroy(&b);
        count++;
    }
    assert_true(count > 0);
}

int main(void)
{
    return ptxas_status(tests_run(NULL, NULL));
}

// SPDX-License-Identifier: MIT
// Line by line: what ptxas takes the emulator's parser takes, and what the one refuses so does the
// other. ptxas itself is asked where it is found.
#include "parse.h"

#include "ptxas_batch.h"

enum { LINE_SIZE = 256, TOGETHER = 20 };

typedef void with_line(const char *line, const char *text);

static size_t each_line(const char *path, with_line *with)
{
    char line[LINE_SIZE], text[LINE_SIZE + 2048];
    size_t count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); count++) {
        line[strcspn(line, "\n")] = '\0';
        with(line, frame(line, text, sizeof text));
    }
    fclose(file);
    return count;
}

static void is_accepted(const char *line, const char *text)
{
    struct parsed parsed = parse(text);
    if (!parsed.module)
        fail_msg("%s\n%s", line, parsed.log);
    emu_module_destroy(&parsed.module);
}

static void is_refused(const char *line, const char *text)
{
    struct parsed parsed = parse(text);
    if (parsed.module)
        fail_msg("accepted: %s", line);
    assert_int_equal(parsed.result, 218);
    if (!strstr(parsed.log, "ptxas application ptx input, line 12; error   : "))
        fail_msg("%s\n%s", line, parsed.log);
}

// Lines that ptxas is asked about together, each in a scope of its own.
static char together[TOGETHER * (LINE_SIZE + 8)];
static unsigned together_count;

static void ask_together(void)
{
    static char text[sizeof together + 2048];
    struct ptxas_report report = ptxas_run(frame(together, text, sizeof text), "sm_100a");
    if (!report.accepted)
        fail_msg("ptxas: %s\n%s", report.count ? report.errors[0].text : "", together);
    ptxas_report_free(&report);
    together[0] = '\0';
    together_count = 0;
}

static void ptxas_accepts(const char *line, const char *text)
{
    (void)text;
    const size_t length = strlen(together);
    snprintf(together + length, sizeof together - length, "{ %s }\n", line);
    if (++together_count == TOGETHER)
        ask_together();
}

static void ptxas_refuses(const char *line, const char *text)
{
    struct ptxas_report report = ptxas_run(text, "sm_100a");
    if (report.accepted)
        fail_msg("ptxas accepts: %s", line);
    ptxas_report_free(&report);
}

static void accepted(void **state)
{
    (void)state;
    assert_true(each_line(PTX_DIR "/accepted.txt", is_accepted) > 500);
}

static void refused(void **state)
{
    (void)state;
    assert_true(each_line(PTX_DIR "/refused.txt", is_refused) > 250);
}

static void ptxas_agrees(void **state)
{
    (void)state;
    if (!ptxas_find() || !ptxas_knows("sm_100a"))
        skip();
    each_line(PTX_DIR "/accepted.txt", ptxas_accepts);
    if (together_count)
        ask_together();
    each_line(PTX_DIR "/refused.txt", ptxas_refuses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),
        cmocka_unit_test(refused),
        cmocka_unit_test(ptxas_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

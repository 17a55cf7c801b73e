// SPDX-License-Identifier: MIT
#include "op_batch.h"
#include "ptxas_batch.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_AN_ENTRY = 250 };

static char *copy(const char *text, size_t length)
{
    char *own = calloc(1, length + 1);

    return own ? memcpy(own, text, length) : NULL;
}

char *op_case_text(const struct op_case *c, struct ptx_target target, int isa, int *needs,
                   bool *failed)
{
    struct ptx_builder_params params = { .target = target, .isa = isa };
    OWNED(ptx_builder) *b = ptx_builder_create(&params);

    ptx_entry (b, "k") {
        struct op_frame frame = op_frame_open(b);
        ptx_comment(b, "case");
        op_case_emit(b, &frame, c);
        ptx_comment(b, "end");
    }
    const char *text = ptx_builder_finish(b);
    *failed = !text;
    if (needs)
        *needs = ptx_builder_get_info(b).isa;
    if (!text)
        text = ptx_builder_error(b);
    char *own = copy(text, strlen(text));
    return own;
}

char *op_case_body(const char *text)
{
    const char *first = strstr(text, "// case\n") + strlen("// case\n");

    return copy(first, (size_t)(strstr(text, "// end\n") - first));
}

void op_batch_begin(struct op_batch *batch, struct ptx_target target)
{
    *batch = (struct op_batch) { 0 };
    batch->b = ptx_builder_create(&(struct ptx_builder_params) { .target = target });
}

static void close_entry(struct op_batch *batch)
{
    if (batch->in_entry)
        ptx_entry_end(batch->b, batch->entry);
    batch->in_entry = 0;
}

void op_batch_add(struct op_batch *batch, const struct op_case *c, size_t number)
{
    char name[16];

    if (batch->in_entry == CASES_AN_ENTRY)
        close_entry(batch);
    if (!batch->in_entry) {
        snprintf(name, sizeof name, "k%d", ++batch->entries);
        batch->entry = ptx_entry_begin(batch->b, (struct ptx_entry_params) { .name = name });
        batch->frame = op_frame_open(batch->b);
    }
    ptx_comment(batch->b, "case %zu", number);
    op_case_emit(batch->b, &batch->frame, c);
    batch->in_entry++;
}

// The module's text with another header; the caller frees it.
static char *with_header(const char *text, int isa, const char *target)
{
    const char *rest = strstr(text, ".address_size");
    const size_t size = strlen(rest) + 80;
    char *patched = malloc(size);

    snprintf(patched, size, ".version %d.%d\n.target %s\n%s", isa / 10, isa % 10, target, rest);
    return patched;
}

// The case that each line belongs to; SIZE_MAX for none.
static size_t *cases_of_lines(const char *text, size_t *lines)
{
    size_t *of = NULL, now = SIZE_MAX, count = 1;

    for (const char *c = text; *c; c++)
        count += *c == '\n';
    of = malloc((count + 1) * sizeof *of);
    *lines = count;
    of[0] = SIZE_MAX;
    for (size_t line = 1; line <= count; line++) {
        const char *end = strchr(text, '\n');
        const char *mark = text + strspn(text, " ");
        if (strncmp(mark, "// case ", strlen("// case ")) == 0)
            now = (size_t)strtoul(mark + strlen("// case "), NULL, 10);
        else if (*text == '}')
            now = SIZE_MAX;
        of[line] = now;
        if (!end)
            break;
        text = end + 1;
    }
    return of;
}

bool *op_batch_refused(struct op_batch *batch, int isa, const char *target, size_t count,
                       unsigned *unplaced)
{
    bool *refused = calloc(count, sizeof *refused);
    size_t lines;

    close_entry(batch);
    const char *text = ptx_builder_finish(batch->b);
    if (!text)
        fail_msg("the builder refuses a batch: %s", ptx_builder_error(batch->b));
    char *patched = with_header(text, isa, target);
    struct ptxas_report report = ptxas_run(patched, target);
    size_t *of = cases_of_lines(patched, &lines);
    *unplaced = !report.accepted && !report.count;
    for (size_t e = 0; e < report.count; e++) {
        const int line = report.errors[e].line;
        if (line > 0 && (size_t)line < lines && of[line] < count) {
            refused[of[line]] = true;
        } else if (line > 0 || !strstr(report.errors[e].text, "aborted due to errors")) {
            print_message("%s %d: line %d: %s\n", target, isa, line, report.errors[e].text);
            ++*unplaced;
        }
    }
    free(of);
    free(patched);
    ptxas_report_free(&report);
    ptx_builder_destroy(&batch->b);
    return refused;
}

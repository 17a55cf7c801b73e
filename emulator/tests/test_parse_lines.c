// SPDX-License-Identifier: MIT
// Line by line: the parser accepts what ptxas accepts, and refuses what it refuses. With the
// argument "ptxas" asks ptxas for both, else compares with the lists of tests/ptx.
#include "parse.h"

#include "ptx/isa.h"
#include "ptxas_batch.h"
#include "skip.h"

enum { LINE_SIZE = 512, TOGETHER = 20 };

typedef void with_line(const char *line, const char *text);

static size_t each_line(const char *path, with_line *with)
{
    char line[LINE_SIZE], text[LINE_SIZE + 2048];
    size_t count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line == '#')
            continue;
        with(line, frame(line, text, sizeof text));
        count++;
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

// What this test asks ptxas and expects of it; while `asks` is false, it is not asked.
static uint64_t expected_answers;
static bool asks;

static void ptxas_answers(const char *line, const char *text, const char *target, bool accepts)
{
    expected_answers = ptxas_hash(ptxas_hash(expected_answers, text), target);
    expected_answers = ptxas_hash(expected_answers, accepts ? "accepted" : "refused");
    if (!asks)
        return;
    struct ptxas_report report = ptxas_run(text, target);
    if (report.accepted != accepts)
        fail_msg("ptxas %s for %s: %s\n%s", report.accepted ? "accepts" : "refuses", target, line,
                 report.count ? report.errors[0].text : "");
    ptxas_report_free(&report);
}

// Lines that one run of ptxas assembles, each in its own scope.
static char together[TOGETHER * (LINE_SIZE + 8)];
static unsigned together_count;

static void ask_together(void)
{
    static char text[sizeof together + 2048];
    ptxas_answers(together, frame(together, text, sizeof text), "sm_100a", true);
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
    ptxas_answers(line, text, "sm_100a", false);
}

// ---- functions ----------------------------------------------------------------------------------

// Functions of their own; a line that begins with '!' is refused.
static void each_functions(bool ask)
{
    char line[LINE_SIZE], text[LINE_SIZE + 256];
    FILE *file = fopen(PTX_DIR "/functions.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        const bool accepted = *line != '!';
        snprintf(text, sizeof text, ".version 8.5\n.target sm_90\n.address_size 64\n%s",
                 line + !accepted);
        struct parsed parsed = parse(text);
        if ((parsed.module != NULL) != accepted)
            fail_msg("%s\n%s", line, parsed.log);
        emu_module_destroy(&parsed.module);
        if (ask)
            ptxas_answers(line, text, "sm_90", accepted);
    }
    fclose(file);
}

// Lines for sm_90a, with the same mark.
static void each_warpgroups(bool ask)
{
    static const char head[] = ".version 8.4\n.target sm_90a\n.address_size 64\n"
                               ".visible .entry k()\n{\n.reg .pred p; .reg .b16 h, h1;\n"
                               ".reg .b32 r, r1, r2, r3; .reg .f32 f, f1, f2, f3;\n"
                               ".reg .b64 d, d1; .reg .f64 e;\n";
    char line[LINE_SIZE], text[LINE_SIZE + sizeof head + 8];
    FILE *file = fopen(PTX_DIR "/warpgroups.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        const bool accepted = *line != '!';
        snprintf(text, sizeof text, "%s%sret;\n}\n", head, line + !accepted);
        struct parsed parsed = parse_for(text, 95, 90, 'a');
        if ((parsed.module != NULL) != accepted)
            fail_msg("%s\n%s", line, parsed.log);
        emu_module_destroy(&parsed.module);
        if (ask)
            ptxas_answers(line, text, "sm_90a", accepted);
    }
    fclose(file);
}

// ---- PTX that the emulator does not run ---------------------------------------------------------

// "86 100a LINE": the least PTX ISA and target.
struct unsupported {
    int isa, sm;
    bool own; // of sm_NNa alone
    const char *line;
};

static struct unsupported read_unsupported(const char *line)
{
    char *end;
    struct unsupported u = { .isa = (int)strtol(line, &end, 10) };
    u.sm = (int)strtol(end, &end, 10);
    u.own = *end == 'a';
    u.line = end + u.own + 1;
    return u;
}

static const struct {
    int sm, isa, own_isa;
} targets[] = { { 70, 60, 0 },  { 75, 63, 0 },   { 80, 70, 0 },   { 86, 71, 0 },  { 89, 78, 0 },
                { 90, 78, 80 }, { 100, 86, 86 }, { 107, 94, 94 }, { 120, 87, 87 } };
enum { TARGETS = sizeof targets / sizeof *targets };

static const char *frame_for(const struct unsupported *u, char *text, size_t size)
{
    snprintf(text, size,
             ".version %d.%d\n.target sm_%d%s\n.address_size 64\n"
             ".shared .align 16 .b32 sv[8];\n%s.visible .entry k(.param .u64 p0)\n{\n"
             ".reg .pred p, q; .reg .b16 h, h1, h2, h3;\n.reg .b32 r, r1, r2, r3;\n"
             ".reg .u32 u, u1; .reg .s32 s, s1; .reg .f32 f, f1, f2, f3;\n"
             ".reg .b64 d, d1, d2, d3; .reg .f64 e, e1, e2, e3;\n%s\nret;\n}\n",
             u->isa / 10, u->isa % 10, u->sm, u->own ? "a" : "",
             strstr(u->line, "[tr") || strstr(u->line, "[sr")
                 ? ".global .texref tr; .global .surfref sr;\n"
                 : "",
             u->line);
    return text;
}

// The least versions: a text at them, and texts just below.
static unsigned around_floors(const char *line, struct unsupported at[3])
{
    const struct unsupported u = read_unsupported(line);
    unsigned count = 1;
    size_t k = 0;
    while (k < TARGETS && (targets[k].sm < u.sm || (u.own && !targets[k].own_isa)))
        k++;
    assert_true(k < TARGETS);
    const int least = u.own ? targets[k].own_isa : targets[k].isa;
    at[0] = u;
    at[0].sm = targets[k].sm;
    at[0].isa = u.isa > least ? u.isa : least;
    if (u.isa > least) {
        static const int versions[] = {
            60, 61, 62, 63, 64, 65, 70, 71, 72, 73, 74, 75, 76, 77, 78,
            80, 81, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 95
        };
        size_t v = 0;
        while (versions[v + 1] < u.isa)
            v++;
        at[count] = at[0];
        at[count++].isa = versions[v];
    }
    if (u.own || (k > 0 && u.sm > targets[0].sm)) {
        at[count] = at[0];
        at[count].own = false;
        if (!u.own)
            at[count].sm = targets[k - 1].sm;
        count++;
    }
    return count;
}

static void is_named_unsupported(const char *line, const char *text)
{
    struct unsupported at[3];
    const unsigned count = around_floors(line, at);
    char own_text[2048], mnemonic[64];
    (void)text;
    for (unsigned k = 0; k < count; k++) {
        struct parsed parsed =
            parse_for(frame_for(&at[k], own_text, sizeof own_text), 95, at[k].sm, 'a');
        const char *wanted = k == 0                  ? "is not supported by the emulator"
                             : at[k].isa < at[0].isa ? "requires PTX ISA .version"
                                                     : "requires .target";
        if (parsed.module || parsed.result != 218 || !strstr(parsed.log, wanted))
            fail_msg("%s\nwith .version %d and sm_%d: %s, not '%s'", line, at[k].isa, at[k].sm,
                     parsed.log, wanted);
    }
    // The error names the instruction and nothing else.
    struct parsed parsed = parse_for(frame_for(at, own_text, sizeof own_text), 95, at->sm, 'a');
    const char *begin = at->line[0] == '{' ? strstr(at->line, "; ") + 2 : at->line;
    snprintf(mnemonic, sizeof mnemonic, "Instruction '%.*s", (int)strcspn(begin, ". ;"), begin);
    if (!strstr(parsed.log, mnemonic) || strstr(parsed.log, "Parsing error"))
        fail_msg("%s: %s", line, parsed.log);
}

static void ptxas_has_the_floors(const char *line, const char *text)
{
    struct unsupported at[3];
    const unsigned count = around_floors(line, at);
    char own_text[2048], target[16];
    (void)text;
    for (unsigned k = 0; k < count; k++) {
        snprintf(target, sizeof target, "sm_%d%s", at[k].sm, at[k].own ? "a" : "");
        if (!ptxas_knows(target) || !ptxas_knows_isa(at[k].isa))
            continue;
        ptxas_answers(line, frame_for(&at[k], own_text, sizeof own_text), target, k == 0);
    }
}

// A line that runs from its least versions on.
static void runs_from_its_floors(const char *line, const char *text)
{
    struct unsupported at[3];
    const unsigned count = around_floors(line, at);
    char own_text[2048];
    (void)text;
    for (unsigned k = 0; k < count; k++) {
        struct parsed parsed =
            parse_for(frame_for(&at[k], own_text, sizeof own_text), 95, at[k].sm, 'a');
        if ((parsed.module != NULL) != (k == 0))
            fail_msg("%s\nwith .version %d and sm_%d: %s", line, at[k].isa, at[k].sm, parsed.log);
        emu_module_destroy(&parsed.module);
    }
}

// What ptxas 13.0 does not know.
TEST(later)
{
    assert_true(each_line(PTX_DIR "/later.txt", runs_from_its_floors) > 4);
}

// Each unsupported row of isa.def has a line, which that row refuses.
TEST(unsupported)
{
    unsigned rows, lacks = 0;
    const struct emu_spelling *all = emu_spellings_all(&rows);
    for (unsigned row = 0; row < rows; row++)
        for (unsigned k = 0; k < all[row].form_count; k++)
            lacks += all[row].forms[k].lacks != NULL;
    assert_int_equal(each_line(PTX_DIR "/unsupported.txt", is_named_unsupported), lacks);
}

// What is older than sm_100 stands under a reason, a line that begins with #.
TEST(unsupported_has_reasons)
{
    char line[LINE_SIZE], reason[LINE_SIZE] = "";
    FILE *file = fopen(PTX_DIR "/unsupported.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (*line == '#')
            memcpy(reason, line, sizeof reason);
        else if (read_unsupported(line).sm < 100 &&
                 (strlen(reason) < 20 || strstr(reason, "sm_100")))
            fail_msg("no reason: %s", line);
    }
    fclose(file);
}

TEST(accepted)
{
    assert_true(each_line(PTX_DIR "/accepted.txt", is_accepted) > 500);
}

TEST(refused)
{
    assert_true(each_line(PTX_DIR "/refused.txt", is_refused) > 250);
}

TEST(functions)
{
    each_functions(false);
}

TEST(warpgroups)
{
    each_warpgroups(false);
}

static void ask_lines(bool ask)
{
    asks = ask;
    expected_answers = PTXAS_NO_TEXT;
    each_line(PTX_DIR "/accepted.txt", ptxas_accepts);
    if (together_count)
        ask_together();
    each_line(PTX_DIR "/refused.txt", ptxas_refuses);
    each_functions(true);
    each_warpgroups(true);
    each_line(PTX_DIR "/unsupported.txt", ptxas_has_the_floors);
    each_line(PTX_DIR "/later.txt", ptxas_has_the_floors);
}

static void ptxas_agrees(void **state)
{
    (void)state;
    if (!ptxas_find())
        skip_because("no ptxas: the parser is not compared with it");
    if (!ptxas_knows("sm_100a"))
        skip_because("sm_100a: unknown to %s", ptxas_find());
    ask_lines(false);
    if (ptxas_answers_believed("lines", expected_answers))
        return;
    ask_lines(true);
    ptxas_answers_seen("lines", expected_answers);
}

// ---- floors -------------------------------------------------------------------------------------

enum { MOST_LINES = 1024 };

struct lines {
    char text[MOST_LINES][LINE_SIZE];
    bool refused[MOST_LINES];
    size_t count;
};

static struct lines accepted_lines;

static void keep_line(const char *line, const char *text)
{
    (void)text;
    assert_true(accepted_lines.count < MOST_LINES);
    memcpy(accepted_lines.text[accepted_lines.count++], line, strlen(line) + 1);
}

static void with_head(char *text, size_t size, const char *lines, int isa, const char *target)
{
    static char whole[MOST_LINES * 64 + 4096];
    char *rest = strchr(strchr(frame(lines, whole, sizeof whole), '\n') + 1, '\n');
    snprintf(text, size, ".version %d.%d\n.target %s%s", isa / 10, isa % 10, target, rest);
}

// Finds the lines that ptxas refuses: runs it again without them until it accepts the rest.
static void ask_for_floors(struct lines *lines, int isa, const char *target)
{
    static char body[MOST_LINES * 64], text[MOST_LINES * 64 + 4096];
    static size_t line_of[MOST_LINES + 32];
    bool again = true;
    memset(lines->refused, 0, sizeof lines->refused);
    while (again) {
        size_t used = 0, at = 12; // where frame() puts the first line
        for (size_t k = 0; k < lines->count; k++)
            if (!lines->refused[k]) {
                used +=
                    (size_t)snprintf(body + used, sizeof body - used, "{ %s }\n", lines->text[k]);
                line_of[at++] = k;
            }
        with_head(text, sizeof text, body, isa, target);
        struct ptxas_report report = ptxas_run(text, target);
        again = false;
        for (size_t k = 0; k < report.count; k++)
            if (report.errors[k].line >= 12 && (size_t)report.errors[k].line < at) {
                lines->refused[line_of[report.errors[k].line]] = true;
                again = true;
            }
        ptxas_report_free(&report);
    }
}

// ptxas 13.0 accepts fence.acquire from 6.0 and sm_70 on, 13.5 from 8.6 and sm_90 on. The emulator
// accepts what any of them accepts.
static bool later_floor(const char *line)
{
    return strncmp(line, "fence.acquire.", strlen("fence.acquire.")) == 0 && ptxas_knows_isa(91);
}

// The emulator accepts the lines at a version and target if and only if ptxas does, which is not
// asked while `asks` is false.
static void compare_floors(struct lines *lines, int isa, const char *target, int sm)
{
    static char text[LINE_SIZE + 4096];

    if (asks)
        ask_for_floors(lines, isa, target);
    for (size_t k = 0; k < lines->count; k++) {
        with_head(text, sizeof text, lines->text[k], isa, target);
        struct parsed parsed = parse_for(text, 95, sm, 0);
        const bool taken = parsed.module != NULL;
        if (asks && taken == lines->refused[k] && !later_floor(lines->text[k]))
            fail_msg("%s\nwith .version %d for %s: ptxas %s it. %s", lines->text[k], isa, target,
                     lines->refused[k] ? "refuses" : "takes", parsed.log);
        emu_module_destroy(&parsed.module);
        expected_answers =
            ptxas_hash(ptxas_hash(expected_answers, text), taken ? "taken" : "refused");
    }
}

static void ask_all_floors(bool ask)
{
    static const int versions[] = { 63, 64, 65, 70, 71, 72, 73, 74, 75, 76, 77, 78, 80, 81,
                                    82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 95 };
    static const struct {
        const char *name;
        int sm, isa;
    } asked[] = {
        { "sm_75", 75, 63 }, { "sm_80", 80, 70 }, { "sm_90", 90, 78 }, { "sm_100", 100, 86 }
    };

    asks = ask;
    expected_answers = PTXAS_NO_TEXT;
    for (size_t t = 0; t < sizeof asked / sizeof *asked; t++)
        for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
            if (versions[v] >= asked[t].isa && ptxas_knows_isa(versions[v]))
                compare_floors(&accepted_lines, versions[v], asked[t].name, asked[t].sm);
}

static void floors_agree(void **state)
{
    (void)state;
    if (!ptxas_find())
        skip_because("no ptxas: the parser's floors are not compared with it");
    if (!ptxas_knows("sm_100"))
        skip_because("sm_100: unknown to %s", ptxas_find());
    accepted_lines.count = 0;
    each_line(PTX_DIR "/accepted.txt", keep_line);
    ask_all_floors(false);
    if (ptxas_answers_believed("floors", expected_answers))
        return;
    ask_all_floors(true);
    ptxas_answers_seen("floors", expected_answers);
}

// ---- what a later version allows ----------------------------------------------------------------

// .volatile in local memory, since PTX ISA 9.1: by the emulator, and by ptxas where it knows 9.1.
TEST(volatile_local_since_9_1)
{
    static char text[LINE_SIZE + 4096];
    static const char *const lines[] = { "ld.volatile.local.u32 r, [lv];",
                                         "st.volatile.local.u32 [lv], r;" };
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
        for (int isa = 90; isa <= 91; isa++) {
            with_head(text, sizeof text, lines[k], isa, "sm_90");
            struct parsed parsed = parse_for(text, 95, 90, 0);
            if ((parsed.module != NULL) != (isa == 91) ||
                (isa == 90 && !strstr(parsed.log, "'.volatile' on '.local' requires PTX ISA "
                                                  ".version 9.1 or later")))
                fail_msg("%s with .version %d: %s", lines[k], isa, parsed.log);
            emu_module_destroy(&parsed.module);
            if (!ptxas_find() || !ptxas_knows_isa(isa))
                continue;
            struct ptxas_report report = ptxas_run(text, "sm_90");
            assert_true(report.accepted == (isa == 91));
            ptxas_report_free(&report);
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest with_ptxas[] = {
        cmocka_unit_test(ptxas_agrees),
        cmocka_unit_test(floors_agree),
    };
    if (argc == 2 && strcmp(argv[1], "ptxas") == 0)
        return ptxas_status(cmocka_run_group_tests(with_ptxas, NULL, NULL));
    if (!ptxas_find())
        fprintf(stderr,
                "SKIPPED, .volatile on .local: no ptxas: the parser is not compared with it\n");
    return tests_run(NULL, NULL);
}

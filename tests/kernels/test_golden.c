// SPDX-License-Identifier: MIT
// Compares each text of golden_texts.c with the hash of it in golden/hashes.txt. The texts that
// golden/ has whole are there to be read: each kernel's default in f32, and two plans. Of a
// text that differs, golden_difference.py prints the difference from the text of the last commit.
// After an intended change: meson compile -C build golden. In each text a comment stands at least
// every 40 lines.
//
//     test_golden --text NAME       prints the text that has this name in hashes.txt
//     test_golden --texts FOLDER    writes all of them, each to FOLDER/NAME.ptx
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_texts.h"
#include "test.h"

#ifndef GOLDEN_DIR
#error "GOLDEN_DIR: the folder of the golden texts"
#endif

enum { PATH_SIZE = 1024, HASHES_SIZE = 1 << 18, SHOWN = 3, MOST_IN_A_ROW = 40 };

static struct {
    const char *program, *wanted; // --text: a name in hashes.txt
    const char *folder;           // --texts
    bool found;
} call;

static const char *golden_path(const char *name, char path[PATH_SIZE])
{
    const char *folder = getenv("PTXGEN_GOLDEN_DIR");
    snprintf(path, PATH_SIZE, "%s/%s", folder ? folder : GOLDEN_DIR, name);
    return path;
}

/// The file's bytes with a NUL after them, or NULL. Freed by the caller.
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t room = 1 << 16, size = 0;
    char *text = malloc(room + 1);
    for (size_t got; text && (got = fread(text + size, 1, room - size, file)) > 0;) {
        size += got;
        if (size < room)
            continue;
        char *larger = realloc(text, 2 * room + 1);
        if (!larger)
            free(text);
        text = larger;
        room *= 2;
    }
    fclose(file);
    if (text)
        text[size] = '\0';
    return text;
}

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

/// Prints what a command that reads the text prints, on standard error. The command's exit status,
/// or -1.
static int pass_to(const char *command, const char *text)
{
    fprintf(stderr, "\n");
    FILE *reader = popen(command, "w");
    if (!reader)
        return -1;
    fputs(text, reader);
    const int status = pclose(reader);
    return status == -1 ? -1 : status >> 8;
}

struct golden {
    bool rewrite;
    unsigned differences, written, long_runs;
    char hashes[HASHES_SIZE]; // a line each: name and hash
    size_t used;
};

/// A file of golden/.
static void check_file(struct golden *g, const char *name, const char *text)
{
    char path[PATH_SIZE], command[PATH_SIZE + 64];
    golden_path(name, path);
    if (g->rewrite) {
        if (!write_file(path, text))
            fail_msg("cannot write %s", path);
        ++g->written;
        return;
    }
    ALLOCATED(char) *golden = read_file(path);
    if (!golden) {
        fprintf(stderr, "%s is missing; meson compile golden writes it\n", path);
        ++g->differences;
    } else if (strcmp(golden, text) != 0) {
        snprintf(command, sizeof command, "diff -u '%s' - 1>&2", path);
        if (pass_to(command, text) != 1)
            fprintf(stderr, "no diff(1); %s should be:\n%s", path, text);
        ++g->differences;
    }
}

/// Names each place where too many lines of code follow each other without a comment. Declarations
/// and blank lines are no code.
static void check_comments(struct golden *g, const char *name, const char *text)
{
    unsigned number = 1, in_a_row = 0;
    for (const char *line = text, *end; *line; line = end + 1, ++number) {
        end = line + strcspn(line, "\n");
        const char *first = line + strspn(line, " ");
        const bool is_comment = strncmp(first, "//", 2) == 0;
        const bool is_code = first > line ? *first != '.' && !is_comment : *first == '$';
        if (first < end)
            in_a_row = is_code ? in_a_row + 1 : 0;
        if (in_a_row == MOST_IN_A_ROW + 1) {
            fprintf(stderr, "%s:%u: more than %d lines of code without a comment\n", name,
                    number - MOST_IN_A_ROW, MOST_IN_A_ROW);
            ++g->long_runs;
        }
        if (!*end)
            break;
    }
}

void check_text(struct golden *g, ptx_builder *b, const char *name, const char *file)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s: %s", name, ptx_builder_error(b));
    for (const char *c = text; *c; ++c)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    check_comments(g, name, text);
    assert_true(g->used + strlen(name) + 24 < sizeof g->hashes);
    g->used += (size_t)snprintf(g->hashes + g->used, sizeof g->hashes - g->used,
                                "%s %016" PRIx64 "\n", name, hash);
    if (call.wanted && strcmp(call.wanted, name) == 0) {
        call.found = true;
        fputs(text, stdout);
    } else if (call.folder) {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%s/%s.ptx", call.folder, name);
        if (!write_file(path, text))
            fail_msg("cannot write %s", path);
    } else if (!call.wanted && file) {
        check_file(g, file, text);
    }
    ptx_builder_destroy(&b);
}

/// Whether the line is among the lines of the text.
static bool has_line(const char *text, const char *line, size_t length)
{
    for (const char *at = text; at; at = strchr(at, '\n'), at += at != NULL)
        if (strncmp(at, line, length) == 0)
            return true;
    return false;
}

/// Names the texts whose hash is not the recorded one, and shows how the first few differ.
static void check_hashes(struct golden *g)
{
    char path[PATH_SIZE], names[SHOWN * 160] = "";
    char command[4 * PATH_SIZE];
    char *golden = g->rewrite ? NULL : read_file(golden_path("hashes.txt", path));
    if (!golden || strcmp(golden, g->hashes) == 0) {
        check_file(g, "hashes.txt", g->hashes);
        free(golden);
        return;
    }
    unsigned before = g->differences, lost = 0;
    for (const char *line = g->hashes, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        if (has_line(golden, line, (size_t)(end - line) + 1))
            continue;
        const int name = (int)(strcspn(line, " "));
        fprintf(stderr, "%.*s differs from what hashes.txt records\n", name, line);
        if (++g->differences - before <= SHOWN)
            snprintf(names + strlen(names), sizeof names - strlen(names), " %.*s", name, line);
    }
    for (const char *line = golden, *end; *line && (end = strchr(line, '\n')); line = end + 1)
        if (!has_line(g->hashes, line, strcspn(line, " ") + 1) && ++lost)
            fprintf(stderr, "%.*s is in hashes.txt, and is written no more\n",
                    (int)strcspn(line, " "), line);
    g->differences += lost + (g->differences == before && !lost); // another order, at least
    free(golden);
    const char *script = getenv("PTXGEN_GOLDEN_DIFFERENCE");
    if (!script || !*names)
        return;
    snprintf(command, sizeof command, "python3 '%s' '%s'%s 1>&2", script, call.program, names);
    if (system(command) != 0)
        fprintf(stderr, "%s: no difference printed\n", script);
}

TEST(test_golden)
{
    static struct golden g;
    g.rewrite = getenv("PTXGEN_REWRITE_GOLDEN") != NULL;
    check_all_texts(&g);
    check_hashes(&g);
    if (g.rewrite)
        fprintf(stderr, "%u golden texts written\n", g.written);
    if (g.differences)
        fail_msg("%u golden texts differ", g.differences);
    if (g.long_runs)
        fail_msg("%u places need a comment: ptx_comment() writes one", g.long_runs);
}

int main(int argc, char **argv)
{
    call.program = argv[0];
    if (argc == 3 && (strcmp(argv[1], "--text") == 0 || strcmp(argv[1], "--texts") == 0)) {
        static struct golden g;
        *(argv[1][6] ? &call.folder : &call.wanted) = argv[2];
        check_all_texts(&g);
        if (call.wanted && !call.found)
            fprintf(stderr, "%s: no text has this name\n", argv[2]);
        return call.wanted && !call.found;
    }
    return tests_run(NULL, NULL);
}

// SPDX-License-Identifier: MIT
// fragments: prints the table of docs/matrices.md that says which elements of a fragment a lane
// has. Its rows are the fragments that the builder knows.
// fragments FILE: says whether FILE has that table; with --write: puts it there.
#include <ptxgen/ptxgen.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fragment.h"

static const char head[] = "| fragment | k | words | rows | columns | a word has |\n"
                           "|---|---|---|---|---|---|\n";

// How many words the builder's fragment has; 0: there is none.
static unsigned words_of(ptx_fragment_role role, ptx_type type, unsigned k)
{
    const ptx_vec words = { { { 0 } }, 9 };
    unsigned count = 0;
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = 90 } });

    ptx_entry (b, "k")
        ptx_fragment_from(b, role, type, k, words);
    const char *error = ptx_builder_finish(b) ? NULL : ptx_builder_error(b);
    const char *has = error ? strstr(error, " has ") : NULL;
    if (has)
        count = (unsigned)strtoul(has + 5, NULL, 10);
    ptx_builder_destroy(&b);
    return count;
}

// constant + g slope + t slope, as far as they are not 0.
static void print_place(FILE *to, unsigned constant, unsigned by_g, unsigned by_t)
{
    char text[32] = "";

    if (by_g)
        strcat(text, "g");
    if (by_t > 1)
        snprintf(text + strlen(text), 16, "%ut", by_t);
    else if (by_t)
        strcat(text, "t");
    if (constant)
        snprintf(text + strlen(text), 16, "%s%u", *text ? " + " : "", constant);
    fputs(*text ? text : "0", to);
}

// The first elements of the words; false if they are not what the text says for every lane.
static bool print_words(FILE *to, ptx_fragment_role role, ptx_type type, unsigned words,
                        bool columns)
{
    bool right = true;

    for (unsigned w = 0; w < words; w++) {
        unsigned at[32];
        for (unsigned lane = 0; lane < 32; lane++) {
            const struct fragment_place p = fragment_place(role, type, lane, w, 0);
            at[lane] = columns ? p.column : p.row;
        }
        const unsigned by_t = at[1] - at[0], by_g = at[4] - at[0];
        for (unsigned lane = 0; lane < 32; lane++)
            right &= at[lane] == at[0] + lane / 4 * by_g + lane % 4 * by_t && by_g <= 1;
        fputs(w ? ", " : "", to);
        print_place(to, at[0], by_g, by_t);
    }
    return right;
}

// Types whose fragments have the same places are in one row.
static bool print_row(FILE *to, ptx_fragment_role role, unsigned k, unsigned first)
{
    const unsigned words = words_of(role, (ptx_type)first, k);
    const unsigned parts = fragment_parts((ptx_type)first);
    const char *before = "";

    for (unsigned type = 1; type < first; type++)
        if (fragment_bits((ptx_type)type) == fragment_bits((ptx_type)first) &&
            words_of(role, (ptx_type)type, k) == words)
            return true; // printed
    fprintf(to, "| %c of ", "?ABC"[role]);
    for (unsigned type = first; type < PTX_TYPE_COUNT; type++)
        if (fragment_bits((ptx_type)type) == fragment_bits((ptx_type)first) &&
            words_of(role, (ptx_type)type, k) == words) {
            fprintf(to, "%s%s", before, ptx_type_name((ptx_type)type));
            before = ", ";
        }
    fprintf(to, " | ");
    if (k)
        fprintf(to, "%u", k);
    fprintf(to, " | %u | ", words);
    bool right = print_words(to, role, (ptx_type)first, words, false);
    fprintf(to, " | ");
    right &= print_words(to, role, (ptx_type)first, words, true);
    fprintf(to, parts > 1 ? " | %u, %s |\n" : " | %u |\n", parts,
            role == PTX_FRAGMENT_B ? "down" : "along the row");
    return right;
}

static bool print_table(FILE *to)
{
    static const ptx_fragment_role roles[] = { PTX_FRAGMENT_A, PTX_FRAGMENT_B, PTX_FRAGMENT_C };
    bool right = true;

    fputs(head, to);
    for (unsigned r = 0; r < 3; r++)
        for (unsigned type = 1; type < PTX_TYPE_COUNT; type++)
            for (unsigned k = 0; k <= 64; k++)
                if (words_of(roles[r], (ptx_type)type, k))
                    right &= print_row(to, roles[r], k, type);
    return right;
}

static char *read_all(const char *path)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "r");
    char *text = calloc(1, MOST);

    if (file && text)
        text[fread(text, 1, MOST - 1, file)] = 0;
    if (file)
        fclose(file);
    return file ? text : NULL;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : NULL;
    const bool write = argc > 2 && !strcmp(argv[2], "--write");
    char *page = path ? read_all(path) : NULL, *at = page ? strstr(page, head) : NULL;
    FILE *to = !path ? stdout : tmpfile();

    if (!to || !print_table(to)) {
        fprintf(stderr, "fragments: a place is not a sum of lane / 4 and lane %% 4\n");
        return 1;
    }
    if (!path)
        return fflush(stdout) != 0;
    char *end = at ? strstr(at, "\n\n") : NULL;
    const long length = ftell(to);
    char *table = calloc(1, (size_t)length + 1);
    rewind(to);
    if (!end || !table || fread(table, 1, (size_t)length, to) != (size_t)length) {
        fprintf(stderr, "%s: no table of fragments\n", path);
        return 1;
    }
    end++; // the table's last line ends there
    int status = 0;
    if (write) {
        FILE *file = fopen(path, "w");
        status = !file || fwrite(page, 1, (size_t)(at - page), file) != (size_t)(at - page) ||
                 fputs(table, file) < 0 || fputs(end, file) < 0;
        if (file && fclose(file))
            status = 1;
    } else if ((long)(end - at) != length || memcmp(at, table, (size_t)length)) {
        fprintf(stderr,
                "%s: the table of fragments differs: meson compile -C build "
                "fragments_table writes it anew\n",
                path);
        status = 1;
    }
    free(table);
    free(page);
    fclose(to);
    return status;
}

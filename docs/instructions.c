// SPDX-License-Identifier: MIT
// instructions: prints docs/instructions.md, from the table in ops.h; instructions places: prints
// include/ptxgen/places_ops.h.
// instructions [places] FILE: says whether that is what FILE holds; with --write: writes it.
#include <ptxgen/builder.h>

#include <stdio.h>
#include <string.h>

static const char head[] =
    "# Instructions\n\n"
    "Every row of the table in `include/ptxgen/ops.h`, printed from it\n"
    "(`meson compile -C build instructions_page` writes this page anew).\n\n"
    "A row is a function of the builder: `ptx_add(b, x, y)`; `ptx_op()` takes it with the "
    "modifiers\n"
    "in parentheses. Shape: T is the type of the row, W twice its width, u a u32, s an s32, p a\n"
    "predicate, f a u32 that is 0 to 255 as an immediate, i an immediate u32 from 0 to 255. What\n"
    "needs more than PTX ISA 6.0 and sm_70 says so; the builder refuses it below.\n";

static const struct {
    unsigned bit;
    const char *name;
} modifiers[] = {
    { PTX_MOD_ROUND, "round" },
    { PTX_MOD_FTZ, "ftz" },
    { PTX_MOD_SAT, "sat" },
};

static void print_form(FILE *to, const struct ptx_op_form *form, uint32_t taken)
{
    const char *before = "";
    for (int type = 1; type < PTX_TYPE_COUNT; type++) {
        if (!((form->types & ~taken) >> type & 1))
            continue;
        fprintf(to, "%s%s", before, ptx_type_name((ptx_type)type));
        before = " ";
    }
    const char *open = " (";
    for (size_t k = 0; k < sizeof modifiers / sizeof *modifiers; k++)
        if (form->modifiers & modifiers[k].bit) {
            fprintf(to, "%s%s", open, modifiers[k].name);
            open = " ";
        }
    if (*open == ' ' && open[1] == '\0')
        fprintf(to, ")");
    if (form->isa > 60 || form->sm > 70)
        fprintf(to, "%sPTX %d.%d, sm_%d", form->types ? ": " : "", form->isa / 10, form->isa % 10,
                form->sm);
}

// '|' ends a cell.
static void print_cell(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', to);
        fputc(*text, to);
    }
}

static void print_row(FILE *to, const char *prefix, const struct ptx_op_info *info)
{
    uint32_t taken = 0;
    fprintf(to, "| `%s%s` | ", prefix, info->name);
    if (info->shape)
        fprintf(to, "%s | ", info->shape);
    print_cell(to, info->meaning);
    fprintf(to, " | ");
    for (size_t k = 0; k < info->form_count; k++) {
        fprintf(to, "%s", k ? "; " : "");
        print_form(to, &info->forms[k], taken);
        taken |= info->forms[k].types;
    }
    fprintf(to, " |\n");
}

static void print_page(FILE *to)
{
    static const char columns[] = "|---|---|---|\n";
    fprintf(to, "%s\n## Values in, one value out\n\n", head);
    fprintf(to, "| function | shape | meaning | types |\n|---%s", columns);
    for (int op = PTX_OP_NONE + 1; op < PTX_OP_COUNT; op++)
        if (ptx_op_get_info((ptx_opcode)op)->shape)
            print_row(to, "ptx_", ptx_op_get_info((ptx_opcode)op));
    fprintf(to, "\n## Atomics\n\n| function | what memory becomes | types |\n%s", columns);
    for (int op = 0; op < PTX_ATOMIC_COUNT; op++)
        print_row(to, "ptx_atomic_", ptx_atomic_get_info((ptx_atomic_op)op));
    fprintf(
        to,
        "\n## What other functions write\n\nThey are one by one in `memory.h` (loads, stores, "
        "fences), `threads.h` (barriers, shuffles),\n`control.h` (branches) and `builder.h` "
        "(conversions, special registers). What has no function is written as\n[text](asm.md).\n\n"
        "| instruction | meaning | needs |\n%s",
        columns);
    for (int op = PTX_OP_NONE + 1; op < PTX_OP_COUNT; op++)
        if (!ptx_op_get_info((ptx_opcode)op)->shape)
            print_row(to, "", ptx_op_get_info((ptx_opcode)op));
}

// ---- places_ops.h -------------------------------------------------------------------------------

static const char places_head[] =
    "// SPDX-License-Identifier: MIT\n"
    "/// Part of places.h: the macros of the rows of ops.h, printed from it\n"
    "/// (`meson compile -C build places_header` writes this file anew).\n"
    "#ifndef PTXGEN_PLACES_OPS_H\n#define PTXGEN_PLACES_OPS_H\n\n"
    "// clang-format off\n";

// The macro of a function of up to four operands, and the call that takes them.
static void print_place(FILE *to, const char *prefix, const char *name, unsigned operands,
                        const char *call)
{
    static const char *const lists[] = { "", "x", "x, y", "x, y, z", "x, y, z, w" };

    fprintf(to, "#define ptx_%s%s(b, %s) PTXGEN_V%u(b, %s, ptxgen_popped%s%s))\n", prefix, name,
            lists[operands], operands, lists[operands], call, name);
}

static void print_places(FILE *to)
{
    fprintf(to, "%s", places_head);
    for (int op = PTX_OP_NONE + 1; op < PTX_OP_COUNT; op++) {
        const struct ptx_op_info *info = ptx_op_get_info((ptx_opcode)op);
        if (info->shape)
            print_place(to, "", info->name, (unsigned)strlen(info->shape + 2), // after "T="
                        "_op(b, PTXGEN_HERE, PTX_OP_");
    }
#define PLACE(name, ...) print_place(to, "redux_", #name, 2, "2(b, PTXGEN_HERE, ptx_redux_");
    PTX_WARP_REDUCTIONS(PLACE)
#undef PLACE
#define PLACE(name, ...)                                                                           \
    fprintf(to, "#define ptx_%s(b, axis) PTXGEN_PLACED(val, b, ptx_%s(b, axis))\n", #name, #name);
    PTX_SPECIAL_VECTORS(PLACE)
#undef PLACE
#define PLACE(name, ...)                                                                           \
    fprintf(to, "#define ptx_%s(b) PTXGEN_PLACED(val, b, ptx_%s(b))\n", #name, #name);
    PTX_SPECIAL_SCALARS(PLACE)
#undef PLACE
#define PLACE(name, ...)                                                                           \
    fprintf(to, "#define ptx_atomic_%s(b, p, i, x) PTXGEN_ATOMIC(PTX_ATOMIC_%s, b, p, i, x)\n",    \
            #name, #name);
    PTX_ATOMICS(PLACE)
#undef PLACE
    fprintf(to, "// clang-format on\n\n#endif\n");
}

// ---- either page --------------------------------------------------------------------------------

static int compare(const char *target, FILE *page, FILE *file)
{
    int x, y, line = 1;
    do {
        x = getc(page);
        y = getc(file);
        if (x != y) {
            fprintf(stderr, "line %d differs: meson compile -C build %s writes the file anew\n",
                    line, target);
            return 1;
        }
        line += x == '\n';
    } while (x != EOF);
    return 0;
}

int main(int argc, char **argv)
{
    const bool places = argc > 1 && strcmp(argv[1], "places") == 0;
    void (*print)(FILE *) = places ? print_places : print_page;
    const char *path = argc > 1 + places ? argv[1 + places] : NULL;
    const bool write = argc == 3 + places && strcmp(argv[2 + places], "--write") == 0;

    if (!path) {
        print(stdout);
        return fflush(stdout) != 0;
    }
    FILE *file = fopen(path, write ? "w" : "r"), *page = write ? file : tmpfile();
    int status = 1;
    if (file && page) {
        print(page);
        rewind(page);
        status = write ? ferror(page) != 0
                       : compare(places ? "places_header" : "instructions_page", page, file);
    } else {
        perror(path);
    }
    if (page && page != file)
        fclose(page);
    if (file && fclose(file) != 0)
        status = 1;
    return status;
}

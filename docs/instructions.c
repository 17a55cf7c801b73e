// SPDX-License-Identifier: MIT
// instructions: prints docs/instructions.md, from the table in ops.h; instructions places: prints
// include/ptxgen/places_ops.h.
// instructions [places] FILE: says whether that is what FILE holds; with --write: writes it.
#include <ptxgen/builder.h>

#include <stdio.h>
#include <stdlib.h>
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

// The functions that write the rows without a function of their own name, and their header.
static const struct {
    const char *functions, *header;
} callers[PTX_OP_COUNT] = {
    [PTX_OP_mov] = { "ptx_var ptx_set", "ops.h" },
    [PTX_OP_add_cc] = { "ptx_words_add", "words.h" },
    [PTX_OP_sub_cc] = { "ptx_words_sub", "words.h" },
    [PTX_OP_mad_cc] = { "ptx_words_mad", "words.h" },
    [PTX_OP_cvt] = { "ptx_cvt", "convert.h" },
    [PTX_OP_cvt_bf16] = { "ptx_cvt", "convert.h" },
    [PTX_OP_cvt_bf16_any] = { "ptx_cvt", "convert.h" },
    [PTX_OP_cvt_pack] = { "ptx_cvt_pack", "convert.h" },
    [PTX_OP_cvt_fp8] = { "ptx_cvt", "convert.h" },
    [PTX_OP_cvt_tf32] = { "ptx_cvt", "convert.h" },
    [PTX_OP_cvt_tf32_any] = { "ptx_cvt", "convert.h" },
    [PTX_OP_cvta] = { "ptx_ptr_generic", "memory.h" },
    [PTX_OP_ld] = { "ptx_load ptx_load_vec", "memory.h" },
    [PTX_OP_st] = { "ptx_store ptx_store_vec", "memory.h" },
    [PTX_OP_wide_256] = { "ptx_load_vec ptx_store_vec", "memory.h" },
    [PTX_OP_atom] = { "ptx_atomic ptx_atomic_add", "memory.h" },
    [PTX_OP_red] = { "ptx_atomic ptx_atomic_add", "memory.h" },
    [PTX_OP_atom_vec] = { "ptx_atomic_vec", "memory.h" },
    [PTX_OP_fence] = { "ptx_fence", "memory.h" },
    [PTX_OP_prefetch] = { "ptx_prefetch", "memory.h" },
    [PTX_OP_prefetch_evict] = { "ptx_prefetch", "memory.h" },
    [PTX_OP_prefetchu] = { "ptx_prefetch", "memory.h" },
    [PTX_OP_bar] = { "ptx_barrier ptx_barrier_named", "threads.h" },
    [PTX_OP_bar_arrive] = { "ptx_barrier_arrive", "threads.h" },
    [PTX_OP_bar_red] = { "ptx_barrier_all ptx_barrier_any ptx_barrier_count", "threads.h" },
    [PTX_OP_bar_warp] = { "ptx_barrier_warp", "threads.h" },
    [PTX_OP_shfl] = { "ptx_shfl ptx_shfl_idx ptx_shfl_up ptx_shfl_down ptx_shfl_bfly",
                      "threads.h" },
    [PTX_OP_vote] = { "ptx_ballot ptx_vote_all ptx_vote_any ptx_vote_uniform", "threads.h" },
    [PTX_OP_match] = { "ptx_match_any ptx_match_all", "threads.h" },
    [PTX_OP_redux] = { "ptx_redux_add ptx_redux_min ptx_redux_max ptx_redux_and ptx_redux_or "
                       "ptx_redux_xor",
                       "threads.h" },
    [PTX_OP_activemask] = { "ptx_activemask", "threads.h" },
    [PTX_OP_ldmatrix] = { "ptx_ldmatrix ptx_fragment_load ptx_matrix_load", "matrix.h" },
    [PTX_OP_stmatrix] = { "ptx_stmatrix ptx_fragment_store ptx_matrix_store", "matrix.h" },
    [PTX_OP_mma] = { "ptx_mma", "matrix.h" },
    [PTX_OP_mma_k8] = { "ptx_mma", "matrix.h" },
    [PTX_OP_mma_f64] = { "ptx_mma", "matrix.h" },
    [PTX_OP_mma_f8] = { "ptx_mma", "matrix.h" },
    [PTX_OP_mma_f8_f16] = { "ptx_mma", "matrix.h" },
    [PTX_OP_cp_async] = { "ptx_cp_async", "matrix.h" },
    [PTX_OP_bra] = { "ptx_if ptx_for ptx_while ptx_loop ptx_branch", "control.h" },
    [PTX_OP_ret] = { "ptx_return", "control.h" },
    [PTX_OP_trap] = { "ptx_trap", "control.h" },
    [PTX_OP_nanosleep] = { "ptx_nanosleep", "control.h" },
    [PTX_OP_griddepcontrol] = { "ptx_griddepcontrol_wait ptx_griddepcontrol_launch_dependents",
                                "control.h" },
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

// What follows the name of the function.
static void print_rest(FILE *to, const struct ptx_op_info *info)
{
    uint32_t taken = 0;
    print_cell(to, info->meaning);
    fprintf(to, " | ");
    for (size_t k = 0; k < info->form_count; k++) {
        fprintf(to, "%s", k ? "; " : "");
        print_form(to, &info->forms[k], taken);
        taken |= info->forms[k].types;
    }
    fprintf(to, " |\n");
}

static void print_row(FILE *to, const char *prefix, const struct ptx_op_info *info)
{
    fprintf(to, "| `%s%s` | ", prefix, info->name);
    if (info->shape)
        fprintf(to, "%s | ", info->shape);
    print_rest(to, info);
}

static void print_callers(FILE *to, ptx_opcode op)
{
    const char *at = callers[op].functions;
    if (!at) {
        fprintf(stderr, "instructions: which functions write PTX_OP_%s? See callers.\n",
                ptx_op_get_info(op)->name);
        exit(1);
    }
    for (const char *before = "| "; *at; before = ", ") {
        const size_t length = strcspn(at, " ");
        fprintf(to, "%s`%.*s`", before, (int)length, at);
        at += length + (at[length] == ' ');
    }
    fprintf(to, " | %s | ", callers[op].header);
    print_rest(to, ptx_op_get_info(op));
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
        "\n## What other functions write\n\nA function chooses the row by its types and options, "
        "and "
        "is refused where the row's needs are not met.\nSpecial registers have functions of their "
        "names. What has no function is written as [text](asm.md).\n\n"
        "| functions | header | meaning | needs |\n|---%s",
        columns);
    for (int op = PTX_OP_NONE + 1; op < PTX_OP_COUNT; op++)
        if (!ptx_op_get_info((ptx_opcode)op)->shape)
            print_callers(to, (ptx_opcode)op);
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

// SPDX-License-Identifier: MIT
// What every value instruction and conversion of the table computes: runs each, in each type, with
// each modifier, on corner values and random ones, and prints one line a case with a hash of the
// result bits. The lines of a real GPU are kept in tests/hardware; a driver that computes the same
// prints the same.
//
//     op_record [-d FILE]           prints the lines; with -d, writes all result bits to FILE
//     op_record -c LINES            compares with the lines of a file; approximate ones are left
//     out
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op_cases.h"
#include "op_inputs.h"

enum { VALUES = 2048, BATCH = 64, MAX_OPERANDS = 4 };

struct record {
    ptx_device *gpu;
    ptx_builder *builder;
    struct op_case batch[BATCH];
    unsigned out_bytes[BATCH]; // of one result
    unsigned count;
    ptx_buffer *in[PTX_TYPE_COUNT][MAX_OPERANDS];
    ptx_buffer *out;
    FILE *dump, *known;
    unsigned cases, differences;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "op_record: %s: %s\n", what, why);
    exit(1);
}

static void check(ptx_status status)
{
    if (status != PTX_OK)
        die("driver", ptx_error_message());
}

// ---- inputs -------------------------------------------------------------------------------------

static void make_inputs(struct record *r)
{
    struct random random = { 20260 };
    unsigned char bytes[VALUES * 8];

    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        for (unsigned operand = 0; operand < MAX_OPERANDS; operand++) {
            const ptx_type type = t == PTX_PRED ? PTX_U32 : (ptx_type)t;
            const unsigned size = ptx_type_bytes(type);
            for (unsigned i = 0; i < VALUES; i++) {
                const uint64_t v = op_input(&random, type, operand, i);
                for (unsigned k = 0; k < size; k++)
                    bytes[i * size + k] = (unsigned char)(v >> 8 * k);
            }
            r->in[t][operand] = ptx_buffer_create(r->gpu, VALUES * size);
            if (!r->in[t][operand])
                die("memory", ptx_error_message());
            check(ptx_buffer_upload(r->in[t][operand], 0, bytes, VALUES * size, NULL));
            check(ptx_stream_synchronize(r->gpu, NULL));
        }
}

// ---- one case, one entry ------------------------------------------------------------------------

// The types of the operands; returns how many.
static unsigned operand_types(const struct op_case *c, ptx_type types[MAX_OPERANDS])
{
    if (c->kind == CASE_CVT) {
        types[0] = c->from;
        return 1;
    }
    if (c->kind == CASE_CVT_PACK) {
        types[0] = types[1] = PTX_F32;
        return 2;
    }
    const char *shape = ptx_op_info((ptx_opcode)c->what)->shape + 2;
    const unsigned count = (unsigned)strlen(shape);
    for (unsigned k = 0; k < count; k++)
        types[k] = shape[k] == 'W'   ? (ptx_type)(c->type + 1)
                   : shape[k] == 'u' ? PTX_U32
                   : shape[k] == 'p' ? PTX_PRED
                                     : c->type;
    return count;
}

static ptx_val result_of(ptx_builder *b, const struct op_case *c, const ptx_val v[MAX_OPERANDS])
{
    if (c->kind == CASE_CVT)
        return ptx_cvt(b, c->type, v[0], .round = c->round, .ftz = c->ftz, .sat = c->sat);
    if (c->kind == CASE_CVT_PACK)
        return ptx_cvt_pack(b, c->type, v[0], v[1]);
    return ptx_op(b, (ptx_opcode)c->what, .x = v[0], .y = v[1], .z = v[2],
                  .w = c->what == PTX_OP_lop3 ? ptx_u32(0xe2) : v[3], .round = c->round,
                  .ftz = c->ftz, .sat = c->sat);
}

static void emit_case(ptx_builder *b, const struct op_case *c, const char *name)
{
    static const char *const names[] = { "x", "y", "z", "w" };
    ptx_type types[MAX_OPERANDS];
    ptx_val v[MAX_OPERANDS] = { { 0 } };
    const unsigned count = operand_types(c, types);

    ptx_entry (b, name, .block = { 256 }) {
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_val i = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_u32(256), tid);
        for (unsigned k = 0; k < count; k++) {
            if (c->kind == CASE_OP && c->what == PTX_OP_lop3 && k == 3)
                continue;
            const bool pred = types[k] == PTX_PRED;
            ptx_ptr p = ptx_param_ptr(b, pred ? PTX_U32 : types[k], names[k]);
            v[k] = ptx_load(b, p, i);
            if (pred)
                v[k] = ptx_ne(b, ptx_and(b, v[k], ptx_u32(1)), ptx_u32(0));
        }
        ptx_val result = result_of(b, c, v);
        if (result.type == PTX_PRED)
            result = ptx_select(b, result, ptx_u32(1), ptx_u32(0));
        const ptx_type type = result.type ? (ptx_type)result.type : PTX_U32;
        ptx_store(b, ptx_param_ptr(b, type, "out", .writeonly = true), i, result);
    }
}

// ---- running ------------------------------------------------------------------------------------

static struct ptx_target newest_target(ptx_device *gpu)
{
    struct ptx_target newest = { 0 };
    ptx_target_newest(ptx_device_get_info(gpu)->sm, 0, &newest);
    return newest;
}

static ptx_builder *new_builder(struct record *r)
{
    const struct ptx_builder_params params = { .target = newest_target(r->gpu) };
    return ptx_builder_create(&params);
}

static void compare(struct record *r, const char *name, uint64_t hash)
{
    char line[160], known[80];
    uint64_t wanted;

    rewind(r->known);
    while (fgets(line, sizeof line, r->known))
        if (sscanf(line, "%79s %" SCNx64, known, &wanted) == 2 && !strcmp(known, name)) {
            if (wanted == hash)
                return;
            printf("%s: %016" PRIx64 ", the GPU gave %016" PRIx64 "\n", name, hash, wanted);
            r->differences++;
            return;
        }
    printf("%s: the GPU's lines have no such case\n", name);
    r->differences++;
}

static void report(struct record *r, const struct op_case *c, const unsigned char *out, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
    char name[OP_CASE_NAME];

    for (size_t k = 0; k < size; k++)
        hash = (hash ^ out[k]) * UINT64_C(0x100000001b3);
    op_case_name(c, name);
    r->cases++;
    if (r->dump &&
        (fprintf(r->dump, "%s %zu\n", name, size) < 0 || fwrite(out, 1, size, r->dump) != size))
        die("dump", "cannot write");
    if (!r->known)
        printf("%s %016" PRIx64 "%s\n", name, hash,
               op_case_is_approximate(c) ? " approximate" : "");
    else if (!op_case_is_approximate(c))
        compare(r, name, hash);
}

static void run_entry(struct record *r, ptx_module *module, const char *entry,
                      const struct op_case *c, size_t out_bytes)
{
    static unsigned char out[VALUES * 8];
    const ptx_function *function = ptx_module_function(module, entry);
    ptx_type types[MAX_OPERANDS];
    const unsigned count = operand_types(c, types);
    CUdeviceptr address[MAX_OPERANDS + 1];
    struct ptx_arg args[MAX_OPERANDS + 1];
    unsigned n = 0;

    if (!function)
        die(entry, ptx_error_message());
    for (unsigned k = 0; k < count; k++)
        if (!(c->kind == CASE_OP && c->what == PTX_OP_lop3 && k == 3))
            address[n++] = ptx_buffer_address(r->in[types[k]][k]);
    address[n++] = ptx_buffer_address(r->out);
    for (unsigned k = 0; k < n; k++)
        args[k] = (struct ptx_arg)PTX_ARG(address[k]);
    const struct ptx_launch_params launch = { .grid = { VALUES / 256 },
                                              .args = args,
                                              .arg_count = n };
    check(ptx_buffer_fill(r->out, 0, 0xcc, VALUES * 8, NULL));
    check(ptx_launch(function, &launch));
    check(ptx_buffer_download(r->out, 0, out, VALUES * out_bytes, NULL));
    check(ptx_stream_synchronize(r->gpu, NULL));
    report(r, c, out, VALUES * out_bytes);
}

static void run_batch(struct record *r)
{
    if (!r->count)
        return;
    const char *text = ptx_builder_finish(r->builder);
    if (!text)
        die("builder", ptx_builder_error(r->builder));
    ptx_module *module = ptx_module_load(r->gpu, text, NULL);
    if (!module)
        die("load", ptx_error_message());
    for (unsigned k = 0; k < r->count; k++) {
        char entry[16];
        snprintf(entry, sizeof entry, "case_%u", k);
        run_entry(r, module, entry, &r->batch[k], r->out_bytes[k]);
    }
    ptx_module_unload(&module);
    ptx_builder_destroy(&r->builder);
    r->count = 0;
}

static void visit(void *user, const struct op_case *c)
{
    struct record *r = user;
    char entry[16];

    if (c->kind > CASE_CVT_PACK)
        return;
    ptx_builder *trial = new_builder(r); // some combinations are refused
    emit_case(trial, c, "trial");
    const bool allowed = ptx_builder_finish(trial) != NULL;
    struct ptx_param_info out = { 0 }; // the last parameter
    for (unsigned k = 0; ptx_builder_param(trial, 0, k, &out);)
        k++;
    ptx_builder_destroy(&trial);
    if (!allowed)
        return;
    if (!r->builder)
        r->builder = new_builder(r);
    snprintf(entry, sizeof entry, "case_%u", r->count);
    emit_case(r->builder, c, entry);
    r->out_bytes[r->count] = ptx_type_bytes((ptx_type)out.type);
    r->batch[r->count++] = *c;
    if (r->count == BATCH)
        run_batch(r);
}

int main(int argc, char **argv)
{
    struct record r = { .gpu = ptx_device_open(NULL) };

    if (!r.gpu) {
        fprintf(stderr, "op_record: nothing to run on: %s\n", ptx_error_message());
        return 77;
    }
    for (int k = 1; k + 1 < argc; k += 2) {
        if (!strcmp(argv[k], "-d") && !(r.dump = fopen(argv[k + 1], "wb")))
            die(argv[k + 1], "cannot be written");
        if (!strcmp(argv[k], "-c") && !(r.known = fopen(argv[k + 1], "r")))
            die(argv[k + 1], "cannot be read");
    }
    make_inputs(&r);
    r.out = ptx_buffer_create(r.gpu, VALUES * 8);
    if (!r.out)
        die("memory", ptx_error_message());
    op_cases(visit, &r);
    run_batch(&r);
    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        for (unsigned operand = 0; operand < MAX_OPERANDS; operand++)
            ptx_buffer_destroy(&r.in[t][operand]);
    ptx_buffer_destroy(&r.out);
    ptx_device_close(&r.gpu);
    if (r.dump)
        fclose(r.dump);
    if (r.known) {
        fclose(r.known);
        printf("%u of %u cases differ from the GPU's\n", r.differences, r.cases);
    }
    return r.differences ? 1 : 0;
}

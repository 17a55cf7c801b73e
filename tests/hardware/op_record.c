// SPDX-License-Identifier: MIT
// Runs every value instruction and conversion of the table, in each type, with each modifier, on
// corner values and random values. Prints a line for each case, with a hash of the result bits. The
// lines of a real GPU are in tests/hardware; a driver that computes the same bits prints the same
// lines. Results are also compared with plain C, for the cases of op_expected.c.
//
//     op_record [-o FILE] [-d FILE]   writes the lines to standard output or FILE; with -d, also
//                                     all result bits
//     op_record -c LINES [-o FILE]    compares with the lines of a file, except approximate cases;
//                                     with -o, writes the lines and those of the missing cases
//
// A case without a line is unrecorded. It fails if there is no expectation in plain C either.
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op_cases.h"
#include "op_expected.h"
#include "op_inputs.h"
#include "recording.h"

#define PROGRAM "op_record"
#include "die.h"

enum { VALUES = 2048, BATCH = 64, MAX_OPERANDS = 4, LOP3_TABLE = 0xe2 };

struct record {
    ptx_device *gpu;
    ptx_builder *builder;
    struct op_case batch[BATCH];
    unsigned out_bytes[BATCH]; // of one result
    unsigned count;
    ptx_buffer *in[PTX_TYPE_COUNT][MAX_OPERANDS];
    ptx_buffer *out;
    uint64_t values[PTX_TYPE_COUNT][MAX_OPERANDS][VALUES]; // the contents of `in`
    FILE *dump;
    struct recording recording;
    unsigned cases, differences;
};

// ---- inputs -------------------------------------------------------------------------------------

static void make_input(struct record *r, ptx_type type, unsigned operand, struct random *random)
{
    const ptx_type in_memory = type == PTX_PRED ? PTX_U32 : type;
    const unsigned size = ptx_type_bytes(in_memory);
    unsigned char bytes[VALUES * 8];
    ptx_buffer *in = ptx_buffer_create(r->gpu, VALUES * size);

    if (!in)
        die("memory", ptx_error_message());
    for (unsigned i = 0; i < VALUES; i++) {
        const uint64_t v = op_input(random, in_memory, operand, i);
        for (unsigned k = 0; k < size; k++)
            bytes[i * size + k] = (unsigned char)(v >> 8 * k);
        r->values[type][operand][i] = type == PTX_PRED ? v & 1
                                      : size < 8       ? v & ((UINT64_C(1) << 8 * size) - 1)
                                                       : v;
    }
    check(ptx_buffer_upload(in, 0, bytes, VALUES * size, NULL));
    check(ptx_stream_synchronize(r->gpu, NULL));
    r->in[type][operand] = in;
}

// The types of the first recording share one sequence of random numbers. A later type has its own.
static void make_inputs(struct record *r)
{
    struct random random = { 20260 };

    for (unsigned t = 1; t < OP_TYPES; t++)
        for (unsigned operand = 0; operand < MAX_OPERANDS; operand++)
            make_input(r, op_type(t), operand, &random);
    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        if (!r->in[t][0]) {
            random.state = op_type_number((ptx_type)t);
            for (unsigned operand = 0; operand < MAX_OPERANDS; operand++)
                make_input(r, (ptx_type)t, operand, &random);
        }
}

// ---- one case, one entry ------------------------------------------------------------------------

// Sets the types of the operands; returns their number.
static unsigned operand_types(const struct op_case *c, ptx_type types[MAX_OPERANDS])
{
    if (c->kind == CASE_CVT) {
        types[0] = types[1] = c->from;
        return c->two ? 2 : 1;
    }
    if (c->kind == CASE_CVT_PACK) {
        types[0] = types[1] = PTX_F32;
        return 2;
    }
    const char *shape = ptx_op_get_info((ptx_opcode)c->what)->shape + 2;
    const unsigned count = (unsigned)strlen(shape);
    for (unsigned k = 0; k < count; k++)
        types[k] = shape[k] == 'W'   ? (ptx_type)(c->type + 1)
                   : shape[k] == 'p' ? PTX_PRED
                   : shape[k] == 'T' ? c->type
                                     : PTX_U32;
    return count;
}

static ptx_val result_of(ptx_builder *b, const struct op_case *c, const ptx_val v[MAX_OPERANDS])
{
    if (c->kind == CASE_CVT)
        return op_case_cvt(b, c, v[0], v[1]);
    if (c->kind == CASE_CVT_PACK)
        return ptx_cvt_pack(b, c->type, v[0], v[1]);
    return ptx_op(b, (ptx_opcode)c->what, .x = v[0], .y = v[1], .z = v[2],
                  .w = c->what == PTX_OP_lop3 ? ptx_u32(LOP3_TABLE) : v[3], .round = c->round,
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

// Compares each result with plain C.
static void expect(struct record *r, const struct op_case *c, const char *name,
                   const unsigned char *out, unsigned size)
{
    ptx_type types[MAX_OPERANDS];
    const unsigned count = operand_types(c, types);
    uint64_t operand[MAX_OPERANDS] = { 0 }, wanted;

    for (unsigned i = 0; i < VALUES && op_is_expected(c); i++) {
        uint64_t result = 0;
        for (unsigned k = 0; k < count; k++)
            operand[k] = r->values[types[k]][k][i];
        if (c->what == PTX_OP_lop3)
            operand[3] = LOP3_TABLE;
        for (unsigned k = 0; k < size; k++)
            result |= (uint64_t)out[i * size + k] << 8 * k;
        if (!op_expected(c, operand, &wanted) || result == wanted)
            continue;
        printf("%s of %" PRIx64 ", %" PRIx64 ", %" PRIx64 ", %" PRIx64 ": %" PRIx64
               ", plain C gives %" PRIx64 "\n",
               name, operand[0], operand[1], operand[2], operand[3], result, wanted);
        r->differences++;
        return;
    }
}

static void compare(struct record *r, const struct op_case *c, const char *name, uint64_t hash)
{
    const char *known = recording_find(&r->recording, name);
    const bool approximate = op_case_is_approximate(c);
    uint64_t wanted;

    if (!known && r->recording.text && !approximate && !op_is_expected(c)) {
        printf("%s: no recorded line, and no expectation in tests/hardware/op_expected.c\n", name);
        r->differences++;
    } else if (!known) {
        recording_add(&r->recording, name, "%016" PRIx64 "%s", hash,
                      approximate ? " approximate" : "");
    } else if (!approximate && (sscanf(known, "%" SCNx64, &wanted) != 1 || wanted != hash)) {
        printf("%s: %016" PRIx64 ", the GPU gave%.17s\n", name, hash, known);
        r->differences++;
    }
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
    expect(r, c, name, out, (unsigned)(size / VALUES));
    compare(r, c, name, hash);
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
    ptx_builder *trial = new_builder(r); // the builder refuses some combinations
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
    static struct record r;

    r.gpu = ptx_device_open(NULL);
    if (!r.gpu)
        return skipped("no GPU: ", ptx_error_message());
    for (int k = 1; k + 1 < argc; k += 2) {
        if (!strcmp(argv[k], "-d") && !(r.dump = fopen(argv[k + 1], "wb")))
            die(argv[k + 1], "cannot be written");
    }
    if (!recording_open_by(&r.recording, argc, argv))
        return 2;
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
    if (r.recording.text)
        printf("%u of %u cases differ from the GPU's or from plain C\n", r.differences, r.cases);
    if (!recording_close(&r.recording))
        die("the recording", "cannot be written");
    return r.differences ? 1 : 0;
}

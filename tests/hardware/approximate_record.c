// SPDX-License-Identifier: MIT
// Runs every approximate instruction of the table, in every type, with and without .ftz, over
// 65,792 operands (every value of a 16-bit type), and compares each result with what the PTX ISA
// documents (approximate.c).
//
//     approximate_record [-o FILE]    writes a line for each case: its name, its greatest error as
//                                     a share of the documented bound, and the results of the first
//                                     256 operands
//     approximate_record -c FILE [-o FILE]
//                                     also compares with the recorded lines of a GPU: corner cases
//                                     have the same bits, and other results of both are within the
//                                     bound; with -o, writes the lines and those of missing cases
//
// Fails if a result is not as documented. A case without a line is unrecorded.
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "approximate.h"
#include "recording.h"

#define PROGRAM "approximate_record"
#include "die.h"

enum { MAX_CASES = 64, BLOCK = 256, SHOWN = 5 };

struct record {
    ptx_device *gpu;
    ptx_builder *builder;
    struct op_case c[MAX_CASES];
    unsigned count;
    ptx_buffer *in[2], *out;
    struct recording recording;
    unsigned faults;
};

static bool has_two(const struct op_case *c)
{
    return ptx_op_get_info((ptx_opcode)c->what)->shape[3] != 0;
}

static void emit(ptx_builder *b, const struct op_case *c, const char *name)
{
    ptx_entry (b, name, .block = { BLOCK }) {
        ptx_val tid = ptx_tid(b, PTX_X), none = { 0 };
        ptx_val i = ptx_mad(b, ptx_ctaid(b, PTX_X), ptx_u32(BLOCK), tid);
        ptx_ptr in = ptx_param_ptr(b, c->type, "x", .readonly = true);
        ptx_val x = ptx_load(b, in, i), y = none;
        if (has_two(c)) {
            in = ptx_param_ptr(b, c->type, "y", .readonly = true);
            y = ptx_load(b, in, i);
        }
        ptx_val result = ptx_op(b, (ptx_opcode)c->what, .x = x, .y = y, .ftz = c->ftz);
        ptx_store(b, ptx_param_ptr(b, c->type, "out", .writeonly = true), i, result);
    }
}

static ptx_builder *new_builder(void)
{
    const struct ptx_builder_params params = { .target = { .sm = 90 } };
    return ptx_builder_create(&params);
}

static void visit(void *user, const struct op_case *c)
{
    struct record *r = user;
    char name[16];

    if (!op_case_is_approximate(c))
        return;
    if (!approximate_is_documented(c))
        die(ptx_op_get_info((ptx_opcode)c->what)->name,
            "has no function and bound in tests/hardware/approximate.c");
    if (r->count == MAX_CASES)
        die("cases", "more than there is room for");
    snprintf(name, sizeof name, "case_%u", r->count);
    emit(r->builder, c, name);
    r->c[r->count++] = *c;
}

// ---- one case -----------------------------------------------------------------------------------

static uint64_t word(const unsigned char *bytes, unsigned size, unsigned i)
{
    uint64_t v = 0;
    for (unsigned k = 0; k < size; k++)
        v |= (uint64_t)bytes[i * size + k] << 8 * k;
    return v;
}

static void upload(struct record *r, ptx_type type, unsigned operand)
{
    static unsigned char bytes[APPROXIMATE_SWEEP * 8];
    const unsigned size = ptx_type_bytes(type);

    for (unsigned i = 0; i < APPROXIMATE_SWEEP; i++)
        for (unsigned k = 0; k < size; k++)
            bytes[i * size + k] = (unsigned char)(approximate_input(type, operand, i) >> 8 * k);
    check(ptx_buffer_upload(r->in[operand], 0, bytes, APPROXIMATE_SWEEP * size, NULL));
    check(ptx_stream_synchronize(r->gpu, NULL));
}

static struct approximate_error hold(struct record *r, const struct op_case *c, unsigned i,
                                     uint64_t result, const char *whose, unsigned *shown)
{
    const uint64_t x = approximate_input(c->type, 0, i), y = approximate_input(c->type, 1, i);
    const struct approximate_error error = approximate_error(c, x, y, result);
    char name[OP_CASE_NAME];

    if (error.right)
        return error;
    r->faults++;
    op_case_name(c, name);
    if ((*shown)++ < SHOWN)
        fprintf(stderr, "%s of %" PRIx64 ", %" PRIx64 ": %s gives %" PRIx64 ", %g of the bound\n",
                name, x, y, whose, result, error.share);
    return error;
}

static void compare(struct record *r, const struct op_case *c, const char *name, const char *at,
                    const uint64_t *results)
{
    unsigned shown = 0;
    double share;
    int used = 0;

    if (sscanf(at, " %lf%n", &share, &used) != 1)
        die(name, "has no share of the bound in its line");
    at += used;
    for (unsigned i = 0; i < APPROXIMATE_CHOSEN; i++, at += used) {
        uint64_t gpu;
        if (sscanf(at, " %" SCNx64 "%n", &gpu, &used) != 1)
            die(name, "the record ends early");
        const struct approximate_error error = hold(r, c, i, gpu, "the GPU", &shown);
        if (!error.documented || error.share > 0 || gpu == results[i])
            continue;
        r->faults++;
        if (shown++ < SHOWN)
            fprintf(stderr, "%s of %" PRIx64 ": %" PRIx64 ", the GPU gave %" PRIx64 "\n", name,
                    approximate_input(c->type, 0, i), results[i], gpu);
    }
}

static void add(struct record *r, const char *name, double worst, const uint64_t *results)
{
    static char line[APPROXIMATE_CHOSEN * 17 + 1];
    size_t used = 0;

    for (unsigned i = 0; i < APPROXIMATE_CHOSEN; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %" PRIx64, results[i]);
    recording_add(&r->recording, name, "%.4f%s", worst, line);
}

static void run(struct record *r, ptx_module *module, unsigned k)
{
    static unsigned char out[APPROXIMATE_SWEEP * 8];
    static uint64_t results[APPROXIMATE_SWEEP];
    const struct op_case *c = &r->c[k];
    const unsigned size = ptx_type_bytes(c->type), bytes = APPROXIMATE_SWEEP * size;
    const CUdeviceptr x = ptx_buffer_address(r->in[0]), y = ptx_buffer_address(r->in[1]);
    const CUdeviceptr to = ptx_buffer_address(r->out);
    const struct ptx_arg one[] = { PTX_ARG(x), PTX_ARG(to) };
    const struct ptx_arg two[] = { PTX_ARG(x), PTX_ARG(y), PTX_ARG(to) };
    const bool pair = has_two(c);
    const struct ptx_launch_params launch = { .grid = { APPROXIMATE_SWEEP / BLOCK },
                                              .args = pair ? two : one,
                                              .arg_count = pair ? 3 : 2 };
    char name[OP_CASE_NAME];
    unsigned shown = 0;
    double worst = 0;

    snprintf(name, sizeof name, "case_%u", k);
    const ptx_function *function = ptx_module_function(module, name);
    if (!function)
        die(name, ptx_error_message());
    upload(r, c->type, 0);
    upload(r, c->type, 1);
    check(ptx_launch(function, &launch));
    check(ptx_buffer_download(r->out, 0, out, bytes, NULL));
    check(ptx_stream_synchronize(r->gpu, NULL));
    for (unsigned i = 0; i < APPROXIMATE_SWEEP; i++) {
        results[i] = word(out, size, i);
        worst = fmax(worst, hold(r, c, i, results[i], "this driver", &shown).share);
    }
    op_case_name(c, name);
    const char *known = recording_find(&r->recording, name);
    if (known)
        compare(r, c, name, known, results);
    else
        add(r, name, worst, results);
}

static void run_all(struct record *r)
{
    op_cases(visit, r);
    const char *text = ptx_builder_finish(r->builder);
    if (!text)
        die("builder", ptx_builder_error(r->builder));
    ptx_module *module = ptx_module_load(r->gpu, text, NULL);
    if (!module)
        die("load", ptx_error_message());
    for (unsigned k = 0; k < 2; k++)
        if (!(r->in[k] = ptx_buffer_create(r->gpu, APPROXIMATE_SWEEP * 8)))
            die("memory", ptx_error_message());
    if (!(r->out = ptx_buffer_create(r->gpu, APPROXIMATE_SWEEP * 8)))
        die("memory", ptx_error_message());
    for (unsigned k = 0; k < r->count; k++)
        run(r, module, k);
    ptx_buffer_destroy(&r->out);
    ptx_buffer_destroy(&r->in[1]);
    ptx_buffer_destroy(&r->in[0]);
    ptx_module_unload(&module);
}

int main(int argc, char **argv)
{
    struct record r = { .gpu = ptx_device_open(NULL) };

    if (!r.gpu)
        return skipped("no GPU: ", ptx_error_message());
    if (!recording_open_by(&r.recording, argc, argv))
        return 2;
    r.builder = new_builder();
    run_all(&r);
    printf("%u cases, %u operands each: %u results are wrong\n", r.count,
           (unsigned)APPROXIMATE_SWEEP, r.faults);
    ptx_builder_destroy(&r.builder);
    ptx_device_close(&r.gpu);
    if (!recording_close(&r.recording))
        die("the recording", "cannot be written");
    return r.faults ? 1 : 0;
}

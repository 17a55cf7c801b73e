// SPDX-License-Identifier: MIT
// Compares the output of `ptxgen run` with the plain-C reference, bit for bit, for a table of
// tools/quickstart.sh.
//
//     compare_run KERNEL INPUT OUTPUT
//
// Prints the input tensor, its shape, and "same bits" or the number of elements that differ. The
// arguments are those of quickstart.sh: max_norm=1, scale=0.03, weight=0.25, all tensors f32 except
// the partials. Ends with 1 if an element differs, with 2 if the files are not those of the kernel.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"
#include "safetensors.h"

/// The files of one run, and memory for the expected contents of the second.
struct run {
    struct tensor_file in, out;
    void *want[2];
};

static const struct tensor *find(const struct tensor_file *file, const char *name, ptx_type type)
{
    const struct tensor *tensor = tensor_file_find(file, name);
    if (tensor && tensor->dtype->type == type)
        return tensor;
    fprintf(stderr, "compare_run: %s has no %s '%s'\n", file->path, ptx_type_name(type), name);
    exit(2);
}

static void *memory(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (p)
        return p;
    fputs("compare_run: out of memory\n", stderr);
    exit(2);
}

/// The number of elements of the output `name` that are wrong.
static uint64_t differing(const struct run *run, const char *name, enum ref_type type,
                          const void *want, uint64_t count)
{
    const struct tensor *got = find(&run->out, name, type == REF_F64 ? PTX_F64 : PTX_F32);
    uint64_t wrong = 0;
    if (got->count != count)
        return count;
    for (uint64_t i = 0; i < count; i++)
        wrong += !ref_same(type, got->data, want, i);
    return wrong;
}

static uint64_t squared_sum(struct run *run, const struct tensor **read)
{
    const struct tensor *x = *read = find(&run->in, "x", PTX_F32);
    uint64_t chunks = ref_partial_count(x->count);
    run->want[0] = memory(chunks * sizeof(double));
    ref_squared_sum(REF_F32, x->data, x->count, false, run->want[0]);
    return differing(run, "partials", REF_F64, run->want[0], chunks);
}

static uint64_t clip_scale_reduce(struct run *run, const struct tensor **read)
{
    const struct tensor *partials = *read = find(&run->in, "partials", PTX_F64);
    struct ref_clip clip = { REF_PROPAGATE, 1, 0 };
    float record[3];
    ref_clip_scale_reduce(REF_F64, partials->data, partials->count, clip, record);
    return differing(run, "out", REF_F32, record, 3);
}

static uint64_t gradient_clip(struct run *run, const struct tensor **read)
{
    const struct tensor *gradient = *read = find(&run->in, "gradient", PTX_F32);
    const struct tensor *record = find(&run->in, "record", PTX_F32);
    run->want[0] = memory((size_t)gradient->bytes);
    memcpy(run->want[0], gradient->data, (size_t)gradient->bytes);
    ref_gradient_clip_from_device_scale(REF_F32, run->want[0], gradient->count, REF_PROPAGATE,
                                        record->data);
    return differing(run, "gradient", REF_F32, run->want[0], gradient->count);
}

static uint64_t quantize_ste_backward(struct run *run, const struct tensor **read)
{
    const struct tensor *x = *read = find(&run->in, "x", PTX_F32);
    const struct tensor *d_output = find(&run->in, "d_output", PTX_F32);
    struct ref_quantize quantize = { .scale = (double)0.03f, .q_min = -128, .q_max = 127 };
    run->want[0] = memory((size_t)x->bytes);
    ref_quantize_ste_backward(REF_F32, x->data, d_output->data, run->want[0], x->count, quantize);
    return differing(run, "d_input", REF_F32, run->want[0], x->count);
}

static uint64_t lerp_backward(struct run *run, const struct tensor **read)
{
    const struct tensor *d_output = *read = find(&run->in, "d_output", PTX_F32);
    uint64_t n = d_output->count;
    for (size_t k = 0; k < 2; k++)
        run->want[k] = memory((size_t)d_output->bytes);
    ref_lerp_backward(REF_F32, d_output->data, run->want[0], run->want[1], n, 0.25);
    return differing(run, "d_a", REF_F32, run->want[0], n) +
           differing(run, "d_b", REF_F32, run->want[1], n);
}

static const struct {
    const char *name;
    uint64_t (*compare)(struct run *run, const struct tensor **read);
} kernels[] = {
    { "squared_sum", squared_sum },
    { "clip_scale_reduce", clip_scale_reduce },
    { "gradient_clip_from_device_scale", gradient_clip },
    { "quantize_ste_backward", quantize_ste_backward },
    { "lerp_backward", lerp_backward },
};

static int report(const struct tensor *read, uint64_t wrong)
{
    char shape[64];
    int length = snprintf(shape, sizeof(shape), "%s [%" PRIu64, read->name, read->shape[0]);
    if (read->rank > 1)
        length +=
            snprintf(shape + length, sizeof(shape) - (size_t)length, ", %" PRIu64, read->shape[1]);
    snprintf(shape + length, sizeof(shape) - (size_t)length, "]");
    printf("%-22s ", shape);
    if (wrong == 0)
        puts("same bits");
    else
        printf("%" PRIu64 " DIFFER\n", wrong);
    return wrong != 0;
}

static int refuse(const struct message *error)
{
    fprintf(stderr, "compare_run: %s\n", error->text);
    return 2;
}

int main(int argc, char **argv)
{
    struct run run = { 0 };
    struct message error;
    size_t k = 0, count = sizeof(kernels) / sizeof(kernels[0]);
    while (argc == 4 && k < count && strcmp(argv[1], kernels[k].name) != 0)
        k++;
    if (argc != 4 || k == count) {
        fputs("usage: compare_run KERNEL INPUT OUTPUT\n", stderr);
        return 2;
    }
    if (!tensor_file_open(&run.in, argv[2], &error))
        return refuse(&error);
    if (!tensor_file_open(&run.out, argv[3], &error)) {
        tensor_file_close(&run.in);
        return refuse(&error);
    }
    const struct tensor *read;
    uint64_t wrong = kernels[k].compare(&run, &read);
    int status = report(read, wrong);
    for (size_t i = 0; i < 2; i++)
        free(run.want[i]);
    tensor_file_close(&run.in);
    tensor_file_close(&run.out);
    return status;
}

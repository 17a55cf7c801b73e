// SPDX-License-Identifier: MIT
#include "gpu.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/// Around inputs: NaN in every type, so that a load outside changes the result. Around and in
/// outputs: a number, so that a missing store, or one outside, is detected.
enum { GUARD = 256, INPUT_GUARD = 0xff, POISON = 0xa5 };

void gpu_case_begin(struct gpu_case *c, const struct gpu_kernel *kernel, uint64_t n)
{
    memset(c, 0, sizeof *c);
    c->kernel = kernel;
    c->n = n;
}

struct gpu_tensor *gpu_case_tensor(struct gpu_case *c, const char *name, enum ref_type type,
                                   uint64_t length, const void *before, const void *after)
{
    assert_true(c->tensors < GPU_MOST_TENSORS);
    struct gpu_tensor *tensor = &c->tensor[c->tensors++];
    tensor->name = name;
    tensor->type = type;
    tensor->length = length;
    tensor->before = before;
    tensor->after = after;
    gpu_case_alias(c, tensor);
    return tensor;
}

void gpu_case_alias(struct gpu_case *c, const struct gpu_tensor *tensor)
{
    gpu_case_value(c, &tensor->address, sizeof tensor->address);
}

void gpu_case_value(struct gpu_case *c, const void *value, size_t size)
{
    assert_true(c->args < GPU_MOST_ARGS);
    c->arg[c->args++] = (struct ptx_arg) { value, size };
}

/// The memory of the tensors, for the run and for the report.
struct placement {
    const struct gpu *gpu;
    const struct gpu_case *c;
    size_t guard; ///< bytes before and after; 0: a memory checker sees the ends
};

static void report(const struct placement *p)
{
    char target[PTX_TARGET_NAME_SIZE];
    const struct gpu_kernel *kernel = p->c->kernel;
    fprintf(stderr, "\n%s (%s): n = %" PRIu64 ", %s\n", kernel->name,
            ptx_target_name(kernel->target, target), p->c->n, p->c->note);
    for (size_t k = 0; k < p->c->tensors; ++k)
        fprintf(stderr, "  %s: %" PRIu64 " elements of %zu bytes, %u beyond alignment\n",
                p->c->tensor[k].name, p->c->tensor[k].length, ref_bytes(p->c->tensor[k].type),
                p->c->tensor[k].offset);
    fprintf(stderr, "  guard bytes: %zu; PTXGEN_TEST_SEED=%" PRIu64 "\n", p->guard, p->gpu->seed);
    gpu_report_text(kernel);
}

static void print_bits(const char *what, const void *element, size_t bytes)
{
    fprintf(stderr, " %s 0x", what);
    for (size_t i = bytes; i-- > 0;)
        fprintf(stderr, "%02x", ((const unsigned char *)element)[i]);
}

static void require(const struct placement *p, ptx_status status, const char *what)
{
    if (status == PTX_OK)
        return;
    report(p);
    fail_msg("%s: %s: %s: %s", p->c->kernel->name, what, ptx_status_name(status),
             ptx_error_message());
}

static size_t head_bytes(const struct placement *p, const struct gpu_tensor *tensor)
{
    return p->guard + tensor->offset * ref_bytes(tensor->type);
}

static size_t data_bytes(const struct gpu_tensor *tensor)
{
    return (size_t)tensor->length * ref_bytes(tensor->type);
}

static size_t buffer_bytes(const struct placement *p, const struct gpu_tensor *tensor)
{
    return head_bytes(p, tensor) + data_bytes(tensor) + p->guard;
}

static unsigned char *image_of(const struct placement *p, const struct gpu_tensor *tensor)
{
    size_t bytes = buffer_bytes(p, tensor);
    unsigned char *image = malloc(bytes + 1);
    assert_non_null(image);
    memset(image, tensor->before ? INPUT_GUARD : POISON, bytes);
    if (tensor->before && data_bytes(tensor))
        memcpy(image + head_bytes(p, tensor), tensor->before, data_bytes(tensor));
    return image;
}

static void compare_data(const struct placement *p, const struct gpu_tensor *tensor,
                         const unsigned char *got, const void *want)
{
    size_t element = ref_bytes(tensor->type);
    uint64_t wrong = 0, first = 0;
    if (!want || memcmp(got, want, data_bytes(tensor)) == 0)
        return;
    for (uint64_t i = 0; i < tensor->length; ++i) {
        const char *expected = (const char *)want + i * element;
        bool same = tensor->exact ? memcmp(got + i * element, expected, element) == 0
                                  : ref_same(tensor->type, got, want, i);
        if (!same && wrong++ == 0)
            first = i;
    }
    if (wrong == 0)
        return;
    report(p);
    fprintf(stderr, "  %s[%" PRIu64 "]:", tensor->name, first);
    print_bits("got", got + first * element, element);
    print_bits("want", (const char *)want + first * element, element);
    if (tensor->before)
        print_bits("before", (const char *)tensor->before + first * element, element);
    fprintf(stderr, "; %" PRIu64 " elements differ\n", wrong);
    fail_msg("%s: %s[%" PRIu64 "] differs from the reference", p->c->kernel->name, tensor->name,
             first);
}

static void compare_guard(const struct placement *p, const struct gpu_tensor *tensor,
                          const unsigned char *got, const unsigned char *image, size_t from,
                          size_t to)
{
    for (size_t i = from; i < to; ++i) {
        if (got[i] == image[i])
            continue;
        report(p);
        int64_t at = (int64_t)i - (int64_t)head_bytes(p, tensor);
        fail_msg("%s: a store outside %s: byte %" PRId64 " of %zu became 0x%02x",
                 p->c->kernel->name, tensor->name, at, data_bytes(tensor), got[i]);
    }
}

static void compare(const struct placement *p, const struct gpu_tensor *tensor,
                    const unsigned char *image)
{
    size_t head = head_bytes(p, tensor), bytes = buffer_bytes(p, tensor);
    if (bytes == 0)
        return;
    unsigned char *got = malloc(bytes);
    assert_non_null(got);
    require(p, ptx_buffer_download(tensor->buffer, 0, got, bytes, p->gpu->stream), tensor->name);
    require(p, ptx_stream_synchronize(p->gpu->device, p->gpu->stream), "reading back");
    if (data_bytes(tensor))
        compare_data(p, tensor, got + head, tensor->after ? tensor->after : tensor->before);
    compare_guard(p, tensor, got, image, 0, head);
    compare_guard(p, tensor, got, image, head + data_bytes(tensor), bytes);
    free(got);
}

static void run(struct gpu *gpu, struct gpu_case *c, size_t guard)
{
    const struct placement p = { gpu, c, guard };
    unsigned char *image[GPU_MOST_TENSORS];
    for (size_t k = 0; k < c->tensors; ++k) {
        struct gpu_tensor *tensor = &c->tensor[k];
        image[k] = image_of(&p, tensor);
        tensor->buffer = ptx_buffer_create(gpu->device, buffer_bytes(&p, tensor));
        require(&p, tensor->buffer ? PTX_OK : ptx_error_status(), tensor->name);
        require(
            &p,
            ptx_buffer_upload(tensor->buffer, 0, image[k], buffer_bytes(&p, tensor), gpu->stream),
            tensor->name);
        tensor->address = ptx_buffer_address(tensor->buffer) + head_bytes(&p, tensor);
    }
    require(&p,
            c->grid ? gpu_launch_grid(gpu, c->kernel, c->grid, c->arg, c->args)
                    : gpu_launch(gpu, c->kernel, c->n, c->arg, c->args),
            "launch");
    require(&p, ptx_stream_synchronize(gpu->device, gpu->stream), "run");
    *c->kernel->launched = *c->kernel->launched || c->n > 0;
    for (size_t k = 0; k < c->tensors; ++k) {
        compare(&p, &c->tensor[k], image[k]);
        free(image[k]);
        ptx_buffer_destroy(&c->tensor[k].buffer);
    }
}

void gpu_check(struct gpu *gpu, struct random *r, struct gpu_case *c)
{
    enum { BIG = 20000, RANDOM_RUNS = 4 };
    unsigned lanes = 16 / (unsigned)ref_bytes(c->kernel->type);
    for (size_t k = 0; k < c->tensors; ++k)
        c->tensor[k].offset = 0;
    run(gpu, c, 0);
    // The same offset for all tensors, so that vectors follow a common head.
    for (unsigned offset = 1; offset < lanes; ++offset) {
        if (c->n > BIG)
            offset = 1 + random_below(r, lanes - 1);
        for (size_t k = 0; k < c->tensors; ++k)
            c->tensor[k].offset = offset;
        run(gpu, c, offset % 2 ? GUARD : 0);
        if (c->n > BIG)
            break;
    }
    // An offset of its own for each tensor.
    for (int trial = 0; trial < (c->n > BIG ? 1 : RANDOM_RUNS); ++trial) {
        for (size_t k = 0; k < c->tensors; ++k)
            c->tensor[k].offset = random_below(r, lanes);
        run(gpu, c, GUARD);
    }
}

// SPDX-License-Identifier: MIT
#include "gpu.h"
#include "sanitized.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum { MOST_RUNS = 20, PIECE = 256, MOST_BYTES = 64 << 20 };

/// One run of a case: where its tensors are.
struct placement {
    const struct gpu_case *c;
    size_t guard; ///< bytes before and after; 0: a memory checker sees the ends
    unsigned offset[GPU_MOST_TENSORS];
    size_t place[GPU_MOST_TENSORS]; ///< in the host's memory and, where runs share it, the device's
    ptx_buffer *own[GPU_MOST_TENSORS]; ///< NULL: the shared buffer
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
                p->offset[k]);
    fprintf(stderr, "  guard bytes: %zu; PTXGEN_TEST_SEED=%" PRIu64 "\n", p->guard, gpu.seed);
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

static size_t head_bytes(const struct placement *p, size_t k)
{
    return p->guard + p->offset[k] * ref_bytes(p->c->tensor[k].type);
}

static size_t data_bytes(const struct gpu_tensor *tensor)
{
    return (size_t)tensor->length * ref_bytes(tensor->type);
}

static size_t buffer_bytes(const struct placement *p, size_t k)
{
    return head_bytes(p, k) + data_bytes(&p->c->tensor[k]) + p->guard;
}

static unsigned char guard_of(const struct gpu_tensor *tensor)
{
    return tensor->before ? INPUT_GUARD : POISON;
}

static void fill(const struct placement *p, size_t k, unsigned char *image)
{
    const struct gpu_tensor *tensor = &p->c->tensor[k];
    memset(image, guard_of(tensor), buffer_bytes(p, k));
    if (tensor->before && data_bytes(tensor))
        memcpy(image + head_bytes(p, k), tensor->before, data_bytes(tensor));
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

static void compare_guard(const struct placement *p, size_t k, const unsigned char *got,
                          size_t from, size_t to)
{
    const struct gpu_tensor *tensor = &p->c->tensor[k];
    for (size_t i = from; i < to; ++i) {
        if (got[i] == guard_of(tensor))
            continue;
        report(p);
        int64_t at = (int64_t)i - (int64_t)head_bytes(p, k);
        fail_msg("%s: a store outside %s: byte %" PRId64 " of %zu became 0x%02x",
                 p->c->kernel->name, tensor->name, at, data_bytes(tensor), got[i]);
    }
}

static void compare(const struct placement *p, size_t k, const unsigned char *got)
{
    const struct gpu_tensor *tensor = &p->c->tensor[k];
    const size_t head = head_bytes(p, k), data = data_bytes(tensor);
    if (data)
        compare_data(p, tensor, got + head, tensor->after ? tensor->after : tensor->before);
    compare_guard(p, k, got, 0, head);
    compare_guard(p, k, got, head + data, buffer_bytes(p, k));
}

/// The bytes of a run's tensors, which it places from `begin` on.
static size_t lay_out(struct placement *p, size_t begin)
{
    size_t end = begin;
    for (size_t k = 0; k < p->c->tensors; ++k) {
        p->place[k] = end;
        end += (buffer_bytes(p, k) + PIECE) / PIECE * PIECE;
    }
    return end - begin;
}

/// The memory that runs share, with at least so many bytes.
static void memory_grow(const struct placement *p, size_t bytes)
{
    if (bytes <= gpu.shared_bytes)
        return;
    ptx_buffer_destroy(&gpu.shared);
    ptx_host_free(gpu.device, &gpu.host);
    gpu.shared_bytes = 0;
    gpu.host = ptx_host_alloc(gpu.device, bytes);
    require(p, gpu.host ? PTX_OK : ptx_error_status(), "pinned memory");
    gpu.shared = ptx_buffer_create(gpu.device, bytes);
    require(p, gpu.shared ? PTX_OK : ptx_error_status(), "memory");
    gpu.shared_bytes = bytes;
}

/// Copies what the runs read to the device, or what they wrote back.
static void copy_all(const struct placement *runs, size_t count, size_t bytes, bool back)
{
    unsigned char *host = gpu.host;
    if (!gpu.own_buffers) {
        require(runs,
                back ? ptx_buffer_download(gpu.shared, 0, host, bytes, gpu.stream)
                     : ptx_buffer_upload(gpu.shared, 0, host, bytes, gpu.stream),
                "copy");
        return;
    }
    for (size_t n = 0; n < count; ++n)
        for (size_t k = 0; k < runs[n].c->tensors; ++k) {
            const struct placement *p = &runs[n];
            unsigned char *image = host + p->place[k];
            require(p,
                    back ? ptx_buffer_download(p->own[k], 0, image, buffer_bytes(p, k), gpu.stream)
                         : ptx_buffer_upload(p->own[k], 0, image, buffer_bytes(p, k), gpu.stream),
                    p->c->tensor[k].name);
        }
}

static void launch(struct gpu_case *c, const struct placement *p)
{
    for (size_t k = 0; k < c->tensors; ++k)
        c->tensor[k].address =
            head_bytes(p, k) + (p->own[k] ? ptx_buffer_address(p->own[k])
                                          : ptx_buffer_address(gpu.shared) + p->place[k]);
    require(p,
            c->grid ? gpu_launch_grid(c->kernel, c->grid, c->arg, c->args)
                    : gpu_launch(c->kernel, c->n, c->arg, c->args),
            "launch");
}

/// Runs the case at these placements, of `bytes` in all, with one wait.
static void run_all(struct gpu_case *c, struct placement *runs, size_t count, size_t bytes)
{
    unsigned char *host;
    memory_grow(runs, bytes);
    host = gpu.host;
    for (size_t n = 0; n < count; ++n)
        for (size_t k = 0; k < c->tensors; ++k) {
            struct placement *p = &runs[n];
            fill(p, k, host + p->place[k]);
            if (!gpu.own_buffers)
                continue;
            p->own[k] = ptx_buffer_create(gpu.device, buffer_bytes(p, k));
            require(p, p->own[k] ? PTX_OK : ptx_error_status(), c->tensor[k].name);
        }
    copy_all(runs, count, bytes, false);
    for (size_t n = 0; n < count; ++n)
        launch(c, &runs[n]);
    copy_all(runs, count, bytes, true);
    require(runs, ptx_stream_synchronize(gpu.device, gpu.stream), "run");
    *c->kernel->launched = *c->kernel->launched || c->n > 0;
    for (size_t n = 0; n < count; ++n)
        for (size_t k = 0; k < c->tensors; ++k) {
            compare(&runs[n], k, host + runs[n].place[k]);
            ptx_buffer_destroy(&runs[n].own[k]);
        }
}

/// All placements of a case. Returns their number.
static size_t placements(struct random *r, const struct gpu_case *c,
                         struct placement runs[MOST_RUNS])
{
    enum { RANDOM_RUNS = 4 };
    // More elements than these take few offsets: on the emulator, each element takes time.
    const uint64_t big = !gpu.own_buffers ? 20000 : SANITIZED ? 30 : 1000;
    const unsigned lanes = 16 / (unsigned)ref_bytes(c->kernel->type);
    const size_t least_guard = gpu.own_buffers ? 0 : GUARD;
    size_t count = 0;
    runs[count++] = (struct placement) { .guard = least_guard };
    // The same offset for all tensors, so that vectors follow a common head.
    for (unsigned offset = 1; offset < lanes; ++offset) {
        if (c->n > big)
            offset = 1 + random_below(r, lanes - 1);
        struct placement *p = &runs[count++];
        *p = (struct placement) { .guard = offset % 2 ? GUARD : least_guard };
        for (size_t k = 0; k < c->tensors; ++k)
            p->offset[k] = offset;
        if (c->n > big)
            break;
    }
    // An offset of its own for each tensor.
    for (int trial = 0; trial < (c->n > big ? 1 : RANDOM_RUNS); ++trial) {
        struct placement *p = &runs[count++];
        *p = (struct placement) { .guard = GUARD };
        for (size_t k = 0; k < c->tensors; ++k)
            p->offset[k] = random_below(r, lanes);
    }
    for (size_t n = 0; n < count; ++n)
        runs[n].c = c;
    return count;
}

void gpu_check(struct random *r, struct gpu_case *c)
{
    struct placement runs[MOST_RUNS];
    const size_t count = placements(r, c, runs);
    size_t first = 0, bytes = 0;
    for (size_t n = 0; n < count; ++n) {
        bytes += lay_out(&runs[n], bytes);
        if (n + 1 < count && bytes < MOST_BYTES && !gpu.own_buffers)
            continue;
        run_all(c, runs + first, n + 1 - first, bytes);
        first = n + 1;
        bytes = 0;
    }
}

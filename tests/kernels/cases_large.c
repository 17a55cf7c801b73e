// SPDX-License-Identifier: MIT
// More than 2^32 elements. The data is made on the device: each chunk of 16384 elements is a copy
// of one of eight, chosen by a hash of the chunk's number, so a truncated index finds the wrong
// one. The host computes those eight chunks in each step, and the device's chunks are compared with
// them. All partials of squared_sum are compared, and each element is in one of them.
#include "cases.h"
#include "skip.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ELEMENTS ((UINT64_C(1) << 32) + 5 * CHUNK + 3)
#define CHUNKS   ((ELEMENTS + CHUNK - 1) / CHUNK)

enum { CHUNK = 16384, CLASSES = 8, SAMPLE = 65536, OFFSET = 1 };

static const uint32_t hash_factor = UINT32_C(2654435761);

struct large {
    ptx_buffer *buffer;
    CUdeviceptr address; ///< OFFSET elements into its memory, so that there is a misaligned head
    uint16_t chunk[CLASSES][CHUNK];
};

static unsigned class_of(uint64_t chunk)
{
    return (uint32_t)chunk * hash_factor >> 29;
}

static uint16_t model(uint32_t salt, unsigned class, uint32_t j)
{
    return (uint16_t)((j * 25173 + class * 8191 + salt) & 0xbfff);
}

/// x[i] = model(), computed by a kernel of the test.
static ptx_module *load_fill(struct gpu *gpu)
{
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = gpu_target(gpu) });
    ptx_entry (b, "fill", .block = { 256 }) {
        ptx_ptr x = ptx_param_ptr(b, PTX_U16, "x");
        ptx_val n = ptx_param(b, PTX_U64, "n");
        ptx_val salt = ptx_param(b, PTX_U32, "salt");
        ptx_val thread = ptx_cvt(b, PTX_U64, ptx_tid(b, PTX_X));
        ptx_val i = ptx_mad_wide(b, ptx_ctaid(b, PTX_X), ptx_u32(256), thread);
        ptx_if (b, ptx_lt(b, i, n)) {
            ptx_val chunk = ptx_cvt(b, PTX_U32, ptx_shr(b, i, ptx_u32(14)));
            ptx_val hash = ptx_mul(b, chunk, ptx_u32(hash_factor));
            ptx_val class = ptx_shr(b, hash, ptx_u32(29));
            ptx_val j = ptx_and(b, ptx_cvt(b, PTX_U32, i), ptx_u32(CHUNK - 1));
            ptx_val shift = ptx_mad(b, class, ptx_u32(8191), salt);
            ptx_val sum = ptx_mad(b, j, ptx_u32(25173), shift);
            ptx_val bits = ptx_and(b, sum, ptx_u32(0xbfff));
            ptx_store(b, x, i, ptx_cvt(b, PTX_U16, bits));
        }
    }
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("fill: %s", ptx_builder_error(b));
    ptx_module *module = ptx_module_load(gpu->device, text, NULL);
    if (!module)
        fail_msg("fill: %s", ptx_error_message());
    ptx_builder_destroy(&b);
    return module;
}

static void require(ptx_status status, const char *what)
{
    if (status != PTX_OK)
        fail_msg("%s: %s", what, ptx_error_message());
}

static struct large *large_create(struct gpu *gpu, uint32_t salt)
{
    struct large *x = malloc(sizeof *x);
    assert_non_null(x);
    x->buffer = ptx_buffer_create(gpu->device, (size_t)(ELEMENTS + OFFSET) * 2);
    if (!x->buffer)
        fail_msg("%s", ptx_error_message());
    x->address = ptx_buffer_address(x->buffer) + 2 * OFFSET;
    ptx_module *module = load_fill(gpu);
    uint64_t n = ELEMENTS;
    require(ptx_launch(
                ptx_module_function(module, "fill"),
                &(struct ptx_launch_params) {
                    .grid = { (unsigned)((n + 255) / 256) },
                    .stream = gpu->stream,
                    .args = (struct ptx_arg[]) { PTX_ARG(x->address), PTX_ARG(n), PTX_ARG(salt) },
                    .arg_count = 3 }),
            "fill");
    require(ptx_stream_synchronize(gpu->device, gpu->stream), "fill");
    ptx_module_unload(&module);
    for (unsigned class = 0; class < CLASSES; ++class)
        for (uint32_t j = 0; j < CHUNK; ++j)
            x->chunk[class][j] = model(salt, class, j);
    return x;
}

static void large_destroy(struct large *x)
{
    ptx_buffer_destroy(&x->buffer);
    free(x);
}

static void load_f16(struct gpu *gpu, const ptx_kernel *kernel, const char *option,
                     const char *value, struct gpu_kernel *loaded)
{
    struct ptx_kernel_spec spec = { .dtype = PTX_F16 };
    assert_true(!option || ptx_kernel_spec_set(&spec, kernel, option, value));
    gpu_kernel_load(gpu, kernel, &spec, gpu_target(gpu), loaded);
}

static void compare_partials(struct gpu *gpu, const struct gpu_kernel *square,
                             const struct large *x, const char *step)
{
    uint64_t n = ELEMENTS;
    size_t bytes = (size_t)CHUNKS * sizeof(double);
    ptx_buffer *buffer = ptx_buffer_create(gpu->device, bytes);
    double *partials = malloc(bytes), full[CLASSES], tail;
    assert_true(buffer && partials);
    CUdeviceptr address = ptx_buffer_address(buffer);
    require(ptx_buffer_fill(buffer, 0, 0xff, bytes, gpu->stream), "poison");
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(n), PTX_ARG(address) };
    require(gpu_launch(gpu, square, n, args, 3), "squared_sum");
    require(ptx_buffer_download(buffer, 0, partials, bytes, gpu->stream), "partials");
    require(ptx_stream_synchronize(gpu->device, gpu->stream), step);
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_partials(REF_F16, x->chunk[class], CHUNK, CHUNK, false, &full[class]);
    ref_partials(REF_F16, x->chunk[class_of(CHUNKS - 1)], ELEMENTS % CHUNK, CHUNK, false, &tail);
    for (uint64_t k = 0; k < CHUNKS; ++k) {
        const double *want = k == CHUNKS - 1 ? &tail : &full[class_of(k)];
        if (ref_same(REF_F64, &partials[k], want, 0))
            continue;
        gpu_report_text(square);
        fail_msg("%s: chunk %" PRIu64 ": sum of squares %a, want %a", step, k, partials[k], *want);
    }
    free(partials);
    ptx_buffer_destroy(&buffer);
}

static void compare_sample(struct gpu *gpu, const struct large *x, uint64_t begin, const char *step)
{
    static uint16_t got[SAMPLE];
    uint64_t count = ELEMENTS - begin < SAMPLE ? ELEMENTS - begin : SAMPLE;
    require(ptx_buffer_download(x->buffer, (size_t)(begin + OFFSET) * 2, got, (size_t)count * 2,
                                gpu->stream),
            "sample");
    require(ptx_stream_synchronize(gpu->device, gpu->stream), step);
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t at = begin + i;
        uint16_t want = x->chunk[class_of(at / CHUNK)][at % CHUNK];
        if (got[i] != want)
            fail_msg("%s: element %" PRIu64 ": got 0x%04x, want 0x%04x", step, at, got[i], want);
    }
}

static void compare_large(struct gpu *gpu, const struct gpu_kernel *square, const struct large *x,
                          const char *step)
{
    struct random r = gpu_random(gpu, step);
    compare_partials(gpu, square, x, step);
    compare_sample(gpu, x, 0, step);
    compare_sample(gpu, x, (UINT64_C(1) << 31) - SAMPLE / 2, step);
    compare_sample(gpu, x, (UINT64_C(1) << 32) - SAMPLE / 2, step);
    compare_sample(gpu, x, ELEMENTS - SAMPLE, step);
    for (int k = 0; k < 32; ++k)
        compare_sample(gpu, x, random_u64(&r) % ELEMENTS, step);
}

static void clip_large(struct gpu *gpu, struct large *x)
{
    const float record = 0.37f;
    struct gpu_kernel loaded;
    load_f16(gpu, &ptx_kernel_gradient_clip_from_device_scale, NULL, NULL, &loaded);
    ptx_buffer *scale = ptx_buffer_create(gpu->device, sizeof record);
    CUdeviceptr address = ptx_buffer_address(scale);
    uint64_t n = ELEMENTS;
    require(ptx_buffer_upload(scale, 0, &record, sizeof record, gpu->stream), "scale");
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(n), PTX_ARG(address) };
    require(gpu_launch(gpu, &loaded, n, args, 3), "gradient_clip_from_device_scale");
    require(ptx_stream_synchronize(gpu->device, gpu->stream), "gradient_clip_from_device_scale");
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_gradient_clip_from_device_scale(REF_F16, x->chunk[class], CHUNK, REF_PROPAGATE,
                                            &record);
    ptx_buffer_destroy(&scale);
    gpu_kernel_unload(&loaded);
}

static void lerp_large(struct gpu *gpu, struct large *x)
{
    const double weight = 0.3;
    struct gpu_kernel loaded;
    load_f16(gpu, &ptx_kernel_lerp_backward, "outputs", "da", &loaded);
    uint64_t n = ELEMENTS;
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(x->address), PTX_ARG(n),
                                    PTX_ARG(weight) };
    require(gpu_launch(gpu, &loaded, n, args, 4), "lerp_backward");
    require(ptx_stream_synchronize(gpu->device, gpu->stream), "lerp_backward");
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_lerp_backward(REF_F16, x->chunk[class], x->chunk[class], NULL, CHUNK, weight);
    gpu_kernel_unload(&loaded);
}

static void quantize_large(struct gpu *gpu, const struct large *x, struct large *dy)
{
    // Bounds inside the range of x, so that the mask depends on the values.
    const float scale = 0.002f;
    const struct ref_quantize p = {
        .scale = (double)scale, .zero_point = 5, .q_min = -128, .q_max = 127
    };
    struct gpu_kernel loaded;
    load_f16(gpu, &ptx_kernel_quantize_ste_backward, "target", "s8", &loaded);
    uint64_t n = ELEMENTS;
    const struct ptx_arg args[] = {
        PTX_ARG(x->address), PTX_ARG(dy->address), PTX_ARG(dy->address),
        PTX_ARG(n),          PTX_ARG(scale),       PTX_ARG(p.zero_point)
    };
    require(gpu_launch(gpu, &loaded, n, args, 6), "quantize_ste_backward");
    require(ptx_stream_synchronize(gpu->device, gpu->stream), "quantize_ste_backward");
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_quantize_ste_backward(REF_F16, x->chunk[class], dy->chunk[class], dy->chunk[class],
                                  CHUNK, p);
    gpu_kernel_unload(&loaded);
}

/// Each chunk has all channels, so the host's chunks stand for all of them.
static void quantize_channels_large(struct gpu *gpu, const struct large *x, struct large *dy,
                                    const char *layout, uint64_t inner)
{
    static float scales[CHUNK];
    static double exact_scales[CHUNK];
    static int32_t zero_points[CHUNK];
    const uint64_t channels = CHUNK / inner, n = ELEMENTS;
    for (uint64_t k = 0; k < channels; ++k) {
        scales[k] = 0.002f + 0.0001f * (float)(k % 50);
        exact_scales[k] = (double)scales[k];
        zero_points[k] = (int32_t)(k % 100);
    }
    struct gpu_kernel loaded;
    load_f16(gpu, &ptx_kernel_quantize_channel_ste_backward, "layout", layout, &loaded);
    ptx_buffer *buffer = ptx_buffer_create(gpu->device, sizeof scales + sizeof zero_points);
    assert_non_null(buffer);
    const CUdeviceptr scale = ptx_buffer_address(buffer), zero_point = scale + sizeof scales;
    require(ptx_buffer_upload(buffer, 0, scales, sizeof scales, gpu->stream), "scales");
    require(ptx_buffer_upload(buffer, sizeof scales, zero_points, sizeof zero_points, gpu->stream),
            "zero points");
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(dy->address), PTX_ARG(dy->address),
                                    PTX_ARG(n),          PTX_ARG(scale),       PTX_ARG(zero_point),
                                    PTX_ARG(channels),   PTX_ARG(inner) };
    require(gpu_launch(gpu, &loaded, n, args, 8), layout);
    require(ptx_stream_synchronize(gpu->device, gpu->stream), layout);
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_quantize_channel_ste_backward(
            REF_F16, x->chunk[class], dy->chunk[class], dy->chunk[class], CHUNK,
            (struct ref_channels) { channels, inner, exact_scales, zero_points },
            (struct ref_quantize) { .q_min = -128, .q_max = 127 });
    ptx_buffer_destroy(&buffer);
    gpu_kernel_unload(&loaded);
}

void check_beyond_32_bits(struct gpu *gpu)
{
    const size_t one = (size_t)(ELEMENTS + OFFSET) * 2, spare = (size_t)64 << 20;
    size_t available = 0;
    require(ptx_device_memory(gpu->device, &available, NULL), "memory");
    if (gpu->max_size < ELEMENTS)
        skip_because("more than 2^32 elements: left out by %s", gpu->limit);
    if (available < one + spare)
        skip_because("more than 2^32 elements: %.3f GB free, %.3f GB wanted",
                     (double)available * 1e-9, (double)(one + spare) * 1e-9);
    struct gpu_kernel square;
    load_f16(gpu, &ptx_kernel_squared_sum, NULL, NULL, &square);
    struct large *x = large_create(gpu, 77);
    compare_large(gpu, &square, x, "squared_sum");
    clip_large(gpu, x);
    compare_large(gpu, &square, x, "gradient_clip_from_device_scale");
    lerp_large(gpu, x);
    compare_large(gpu, &square, x, "lerp_backward");
    if (available < 2 * (one + spare)) {
        fprintf(stderr,
                "SKIPPED, quantize_ste_backward on more than 2^32 elements: %.3f GB free, %.3f GB "
                "wanted\n",
                (double)available * 1e-9, 2e-9 * (double)(one + spare));
    } else {
        struct large *dy = large_create(gpu, 4242);
        quantize_large(gpu, x, dy);
        compare_large(gpu, &square, dy, "quantize_ste_backward");
        compare_large(gpu, &square, x, "quantize_ste_backward, x");
        quantize_channels_large(gpu, x, dy, "rows", 64);
        compare_large(gpu, &square, dy, "quantize_channel_ste_backward, rows");
        quantize_channels_large(gpu, x, dy, "columns", 1);
        compare_large(gpu, &square, dy, "quantize_channel_ste_backward, columns");
        large_destroy(dy);
    }
    large_destroy(x);
    gpu_kernel_unload(&square);
}

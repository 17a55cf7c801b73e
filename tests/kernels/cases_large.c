// SPDX-License-Identifier: MIT
// More than 2^32 elements, also of the quantizers that training needs. The data is made on the
// device: each chunk of 16384 elements is a copy of one of eight, chosen by a hash of the chunk's
// number, so a truncated index finds the wrong one. The host computes those eight chunks in each
// step, and the device's chunks are compared with them. All partials of squared_sum are compared,
// and each element is in one of them.
#include "cases.h"
#include "data.h"
#include "reference/fp8.h"
#include "reference/learned.h"
#include "skip.h"
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS ((UINT64_C(1) << 32) + 5 * CHUNK + 3)
#define CHUNKS   ((ELEMENTS + CHUNK - 1) / CHUNK)
/// The last group is whole, too.
#define GROUPS   ((ELEMENTS + GROUP - 1) / GROUP)

enum { CHUNK = 16384, CLASSES = 8, SAMPLE = 65536, GROUP = 32 };
/// Elements from the start of the memory to the data: a misaligned head, or vectors.
enum { MISALIGNED = 1, ALIGNED = 8 };

static const uint32_t hash_factor = UINT32_C(2654435761);

struct large {
    ptx_buffer *buffer;
    unsigned offset;
    CUdeviceptr address;
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
static ptx_module *load_fill(void)
{
    OWNED(ptx_builder) *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = gpu_target() });
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
    ptx_module *module = ptx_module_load(gpu.device, text, NULL);
    if (!module)
        fail_msg("fill: %s", ptx_error_message());
    return module;
}

static void require(ptx_status status, const char *what)
{
    if (status != PTX_OK)
        fail_msg("%s: %s", what, ptx_error_message());
}

static struct large *large_create(uint32_t salt, unsigned offset)
{
    uint64_t n = GROUPS * GROUP;
    struct large *x = malloc(sizeof *x);
    assert_non_null(x);
    x->buffer = ptx_buffer_create(gpu.device, (size_t)(n + offset) * 2);
    if (!x->buffer)
        fail_msg("%s", ptx_error_message());
    x->offset = offset;
    x->address = ptx_buffer_address(x->buffer) + 2 * (CUdeviceptr)offset;
    ptx_module *module = load_fill();
    require(ptx_launch(
                ptx_module_function(module, "fill"),
                &(struct ptx_launch_params) {
                    .grid = { (unsigned)((n + 255) / 256) },
                    .stream = gpu.stream,
                    .args = (struct ptx_arg[]) { PTX_ARG(x->address), PTX_ARG(n), PTX_ARG(salt) },
                    .arg_count = 3 }),
            "fill");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), "fill");
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

static void load_f16(const ptx_kernel *kernel, const char *option, const char *value,
                     struct gpu_kernel *loaded)
{
    struct ptx_kernel_spec spec = { .dtype = PTX_F16 };
    assert_true(!option || ptx_kernel_spec_set(&spec, kernel, option, value));
    gpu_kernel_load(kernel, &spec, gpu_target(), loaded);
}

static void compare_partials(const struct gpu_kernel *square, const struct large *x,
                             const char *step)
{
    uint64_t n = ELEMENTS;
    size_t bytes = (size_t)CHUNKS * sizeof(double);
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu.device, bytes);
    ALLOCATED(double) *partials = malloc(bytes);
    double full[CLASSES], tail;
    assert_true(buffer && partials);
    CUdeviceptr address = ptx_buffer_address(buffer);
    require(ptx_buffer_fill(buffer, 0, 0xff, bytes, gpu.stream), "poison");
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(n), PTX_ARG(address) };
    require(gpu_launch(square, n, args, 3), "squared_sum");
    require(ptx_buffer_download(buffer, 0, partials, bytes, gpu.stream), "partials");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), step);
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
}

static void compare_sample(const struct large *x, uint64_t begin, const char *step)
{
    static uint16_t got[SAMPLE];
    uint64_t count = ELEMENTS - begin < SAMPLE ? ELEMENTS - begin : SAMPLE;
    require(ptx_buffer_download(x->buffer, (size_t)(begin + x->offset) * 2, got, (size_t)count * 2,
                                gpu.stream),
            "sample");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), step);
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t at = begin + i;
        uint16_t want = x->chunk[class_of(at / CHUNK)][at % CHUNK];
        if (got[i] != want)
            fail_msg("%s: element %" PRIu64 ": got 0x%04x, want 0x%04x", step, at, got[i], want);
    }
}

static void compare_large(const struct gpu_kernel *square, const struct large *x, const char *step)
{
    struct random r = gpu_random(step);
    compare_partials(square, x, step);
    compare_sample(x, 0, step);
    compare_sample(x, (UINT64_C(1) << 31) - SAMPLE / 2, step);
    compare_sample(x, (UINT64_C(1) << 32) - SAMPLE / 2, step);
    compare_sample(x, ELEMENTS - SAMPLE, step);
    for (int k = 0; k < 32; ++k)
        compare_sample(x, random_u64(&r) % ELEMENTS, step);
}

static void clip_large(struct large *x)
{
    const float record = 0.37f;
    struct gpu_kernel loaded;
    load_f16(&ptx_kernel_gradient_clip_from_device_scale, NULL, NULL, &loaded);
    ptx_buffer *scale = ptx_buffer_create(gpu.device, sizeof record);
    CUdeviceptr address = ptx_buffer_address(scale);
    uint64_t n = ELEMENTS;
    require(ptx_buffer_upload(scale, 0, &record, sizeof record, gpu.stream), "scale");
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(n), PTX_ARG(address) };
    require(gpu_launch(&loaded, n, args, 3), "gradient_clip_from_device_scale");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), "gradient_clip_from_device_scale");
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_gradient_clip_from_device_scale(REF_F16, x->chunk[class], CHUNK, REF_PROPAGATE,
                                            &record);
    ptx_buffer_destroy(&scale);
    gpu_kernel_unload(&loaded);
}

static void lerp_large(struct large *x)
{
    const double weight = 0.3;
    struct gpu_kernel loaded;
    load_f16(&ptx_kernel_lerp_backward, "outputs", "da", &loaded);
    uint64_t n = ELEMENTS;
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(x->address), PTX_ARG(n),
                                    PTX_ARG(weight) };
    require(gpu_launch(&loaded, n, args, 4), "lerp_backward");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), "lerp_backward");
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_lerp_backward(REF_F16, x->chunk[class], x->chunk[class], NULL, CHUNK, weight);
    gpu_kernel_unload(&loaded);
}

static void quantize_large(const struct large *x, struct large *dy)
{
    // Bounds inside the range of x, so that the mask depends on the values.
    const float scale = 0.002f;
    const struct ref_quantize p = {
        .scale = (double)scale, .zero_point = 5, .q_min = -128, .q_max = 127
    };
    struct gpu_kernel loaded;
    load_f16(&ptx_kernel_quantize_ste_backward, "target", "s8", &loaded);
    uint64_t n = ELEMENTS;
    const struct ptx_arg args[] = {
        PTX_ARG(x->address), PTX_ARG(dy->address), PTX_ARG(dy->address),
        PTX_ARG(n),          PTX_ARG(scale),       PTX_ARG(p.zero_point)
    };
    require(gpu_launch(&loaded, n, args, 6), "quantize_ste_backward");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), "quantize_ste_backward");
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_quantize_ste_backward(REF_F16, x->chunk[class], dy->chunk[class], dy->chunk[class],
                                  CHUNK, p);
    gpu_kernel_unload(&loaded);
}

/// Each chunk has all channels, so the host's chunks stand for all of them.
static void quantize_channels_large(const struct large *x, struct large *dy, const char *layout,
                                    uint64_t inner)
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
    load_f16(&ptx_kernel_quantize_channel_ste_backward, "layout", layout, &loaded);
    ptx_buffer *buffer = ptx_buffer_create(gpu.device, sizeof scales + sizeof zero_points);
    assert_non_null(buffer);
    const CUdeviceptr scale = ptx_buffer_address(buffer), zero_point = scale + sizeof scales;
    require(ptx_buffer_upload(buffer, 0, scales, sizeof scales, gpu.stream), "scales");
    require(ptx_buffer_upload(buffer, sizeof scales, zero_points, sizeof zero_points, gpu.stream),
            "zero points");
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(dy->address), PTX_ARG(dy->address),
                                    PTX_ARG(n),          PTX_ARG(scale),       PTX_ARG(zero_point),
                                    PTX_ARG(channels),   PTX_ARG(inner) };
    require(gpu_launch(&loaded, n, args, 8), layout);
    require(ptx_stream_synchronize(gpu.device, gpu.stream), layout);
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_quantize_channel_ste_backward(
            REF_F16, x->chunk[class], dy->chunk[class], dy->chunk[class], CHUNK,
            (struct ref_channels) { channels, inner, exact_scales, zero_points },
            (struct ref_quantize) { .q_min = -128, .q_max = 127 });
    ptx_buffer_destroy(&buffer);
    gpu_kernel_unload(&loaded);
}

// ---- the quantizers of training -----------------------------------------------------------------

/// Memory whose bytes are all `byte`.
static ptx_buffer *filled(uint64_t bytes, unsigned char byte)
{
    ptx_buffer *buffer = ptx_buffer_create(gpu.device, (size_t)bytes);
    if (!buffer)
        fail_msg("%s", ptx_error_message());
    require(ptx_buffer_fill(buffer, 0, byte, (size_t)bytes, gpu.stream), "fill");
    return buffer;
}

static void read_back(ptx_buffer *buffer, uint64_t from, void *to, size_t bytes)
{
    require(ptx_buffer_download(buffer, (size_t)from, to, bytes, gpu.stream), "download");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), "download");
}

/// The places of samples: the ends, where 31 and 32 bits end, and others.
static uint64_t sample_begin(struct random *r, int k)
{
    const uint64_t last = ELEMENTS / CHUNK - 1;
    const uint64_t chunks[] = { 0, UINT64_C(1) << 17, (UINT64_C(1) << 18) - 1, UINT64_C(1) << 18,
                                last };
    const int known = sizeof chunks / sizeof *chunks;
    const uint64_t chunk = k < known ? chunks[k] : random_u64(r) % last;
    return (chunk > last ? last : chunk) * CHUNK;
}
enum { SAMPLES = 24 };

/// One scale for all elements, or one a group of 32.
static void fake_quantize_large(struct large *y)
{
    const float scale = 0.004f;
    const struct ref_quantize p = {
        .scale = (double)scale, .zero_point = 5, .q_min = -128, .q_max = 127
    };
    struct gpu_kernel loaded;
    uint64_t n = ELEMENTS;
    load_f16(&ptx_kernel_fake_quantize, NULL, NULL, &loaded);
    const struct ptx_arg args[] = { PTX_ARG(y->address), PTX_ARG(y->address),   PTX_ARG(n),
                                    PTX_ARG(scale),      PTX_ARG(p.zero_point), PTX_ARG(p.q_min),
                                    PTX_ARG(p.q_max) };
    require(gpu_launch(&loaded, n, args, 7), "fake_quantize");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), "fake_quantize");
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_fake_quantize(REF_F16, y->chunk[class], y->chunk[class], CHUNK, p);
    gpu_kernel_unload(&loaded);
}

static void fake_quantize_groups_large(struct large *y)
{
    const struct ref_groups groups = { .group = GROUP, .bits = 4 };
    const CUdeviceptr none = 0;
    struct gpu_kernel loaded;
    uint64_t n = GROUPS * GROUP;
    load_f16(&ptx_kernel_fake_quantize_groups, NULL, NULL, &loaded);
    const struct ptx_arg args[] = { PTX_ARG(y->address), PTX_ARG(y->address), PTX_ARG(n),
                                    PTX_ARG(none) };
    require(gpu_launch(&loaded, n, args, 4), "fake_quantize_groups");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), "fake_quantize_groups");
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_fake_quantize_groups(REF_F16, y->chunk[class], y->chunk[class], CHUNK, groups, NULL,
                                 NULL);
    gpu_kernel_unload(&loaded);
}

/// A learned quantizer whose channels are the same in each chunk.
struct learned_large {
    const char *layout;
    uint64_t channels, inner;
    float scales[CHUNK], zero_points[CHUNK];
    double exact_scales[CHUNK], exact_zero_points[CHUNK];
    double sums[2][CHUNK], sizes[2][CHUNK]; ///< of each channel: its terms, and their magnitudes
};

static struct ref_learned learned_of(const struct learned_large *q)
{
    const bool tensor = strcmp(q->layout, "tensor") == 0;
    return (struct ref_learned) { .q_min = -128,
                                  .q_max = 127,
                                  // The kernel's sums are in another order.
                                  .layout = tensor ? REF_TENSOR : REF_COLUMNS,
                                  .channels = q->channels,
                                  .inner = q->inner,
                                  .scale = q->exact_scales,
                                  .zero_point = q->exact_zero_points };
}

/// Adds the terms of `count` copies of the first `n` elements of a class.
static void add_terms(struct learned_large *q, const struct large *x, struct large *dy,
                      unsigned class, uint64_t n, uint64_t count)
{
    static double sums[2][2 * CHUNK];
    static uint16_t d_input[CHUNK];
    const struct ref_learned p = learned_of(q);
    const uint64_t pieces = ref_learned_pieces(REF_F16, n, &p);
    assert_true(pieces <= 2 * CHUNK);
    ref_learned_backward(REF_F16, x->chunk[class], dy->chunk[class], d_input, n, &p, sums[0],
                         sums[1]);
    for (uint64_t k = 0; k < pieces; ++k)
        for (int g = 0; g < 2; ++g) {
            const uint64_t channel = p.layout == REF_TENSOR ? 0 : k / q->inner % q->channels;
            q->sums[g][channel] += (double)count * sums[g][k];
            q->sizes[g][channel] += (double)count * fabs(sums[g][k]);
        }
    if (n == CHUNK)
        memcpy(dy->chunk[class], d_input, sizeof d_input);
}

static void expect_gradients(const struct learned_large *q, int gradient, const float *got)
{
    for (uint64_t c = 0; c < q->channels; ++c)
        if (!(fabs((double)got[c] - q->sums[gradient][c]) <= 1e-6 * q->sizes[gradient][c]))
            fail_msg("%s, channel %" PRIu64 ", %s: %a, want %a", q->layout, c,
                     gradient ? "d_zero_point" : "d_scale", (double)got[c], q->sums[gradient][c]);
}

static void fill_learned(struct learned_large *q, const struct large *x, struct large *dy)
{
    uint64_t count[CLASSES] = { 0 };
    for (uint64_t k = 0; k < q->channels; ++k) {
        q->scales[k] = 0.002f + 0.0001f * (float)(k % 50);
        q->zero_points[k] = (float)(k % 100);
        q->exact_scales[k] = (double)q->scales[k];
        q->exact_zero_points[k] = (double)q->zero_points[k];
    }
    for (uint64_t k = 0; k < CHUNKS - 1; ++k)
        ++count[class_of(k)];
    add_terms(q, x, dy, class_of(CHUNKS - 1), ELEMENTS % CHUNK, 1);
    for (unsigned class = 0; class < CLASSES; ++class)
        add_terms(q, x, dy, class, CHUNK, count[class]);
}

static void learned_large(const struct large *x, struct large *dy, const char *layout,
                          uint64_t inner)
{
    ALLOCATED(struct learned_large) *q = calloc(1, sizeof *q);
    assert_non_null(q);
    q->layout = layout;
    q->inner = inner;
    q->channels = inner ? CHUNK / inner : 1;
    fill_learned(q, x, dy);

    const uint64_t n = ELEMENTS;
    const int32_t q_min = -128, q_max = 127;
    struct gpu_kernel loaded, reduce;
    load_f16(&ptx_kernel_quantize_learned_backward, "layout", layout, &loaded);
    const struct ptx_kernel_spec spec = { .dtype = PTX_F32 };
    gpu_kernel_load(&ptx_kernel_quantize_learned_reduce, &spec, gpu_target(), &reduce);
    const struct ptx_kernel_sizes sizes = { n, q->channels, inner };
    uint64_t pieces = 0;
    assert_true(ptx_kernel_length(loaded.kernel, &loaded.spec, &sizes, "pieces", &pieces));
    const uint64_t rows = inner ? (n + inner - 1) / inner : 0;
    const uint64_t width = !inner ? pieces : strcmp(layout, "rows") == 0 ? pieces / rows : inner;
    // Rows end with a part of the channels; the reduction takes as many sums of each.
    const uint64_t whole =
        (pieces + q->channels * width - 1) / (q->channels * width) * (q->channels * width);
    ptx_buffer *sums = filled(2 * whole * sizeof(double), 0);
    ptx_buffer *small = filled(4 * sizeof q->scales, 0);
    const CUdeviceptr scale_sums = ptx_buffer_address(sums);
    const CUdeviceptr zero_sums = scale_sums + whole * sizeof(double);
    const CUdeviceptr scale = ptx_buffer_address(small), zero_point = scale + sizeof q->scales;
    const CUdeviceptr d_scale = zero_point + sizeof q->scales, d_zero = d_scale + sizeof q->scales;
    require(ptx_buffer_upload(small, 0, q->scales, sizeof q->scales, gpu.stream), "scales");
    require(
        ptx_buffer_upload(small, sizeof q->scales, q->zero_points, sizeof q->scales, gpu.stream),
        "zero points");
    struct ptx_arg args[] = { PTX_ARG(x->address),  PTX_ARG(dy->address), PTX_ARG(dy->address),
                              PTX_ARG(n),           PTX_ARG(scale),       PTX_ARG(zero_point),
                              PTX_ARG(q->channels), PTX_ARG(inner),       PTX_ARG(q_min),
                              PTX_ARG(q_max),       PTX_ARG(scale_sums),  PTX_ARG(zero_sums) };
    size_t count = sizeof args / sizeof *args;
    if (!inner) { // without channels
        memmove(&args[6], &args[8], 4 * sizeof *args);
        count -= 2;
    }
    require(gpu_launch(&loaded, n, args, count), layout);
    const double factor = 1;
    const struct ptx_arg of_sums[] = { PTX_ARG(scale_sums),  PTX_ARG(zero_sums), PTX_ARG(whole),
                                       PTX_ARG(q->channels), PTX_ARG(width),     PTX_ARG(factor),
                                       PTX_ARG(d_scale),     PTX_ARG(d_zero) };
    require(gpu_launch(&reduce, whole, of_sums, 8), "quantize_learned_reduce");
    static float got[2][CHUNK];
    read_back(small, 2 * sizeof q->scales, got, sizeof got);
    expect_gradients(q, 0, got[0]);
    expect_gradients(q, 1, got[1]);
    ptx_buffer_destroy(&small);
    ptx_buffer_destroy(&sums);
    gpu_kernel_unload(&reduce);
    gpu_kernel_unload(&loaded);
}

/// Compares samples of the groups' gradients.
static void expect_groups(ptx_buffer *of_scale, ptx_buffer *of_zero,
                          float (*want)[2][CHUNK / GROUP])
{
    static float got[2][CHUNK / GROUP];
    struct random r = gpu_random("groups");
    for (int k = 0; k < SAMPLES; ++k) {
        const uint64_t begin = sample_begin(&r, k), group = begin / GROUP;
        const unsigned class = class_of(begin / CHUNK);
        read_back(of_scale, group * sizeof(float), got[0], sizeof got[0]);
        read_back(of_zero, group * sizeof(float), got[1], sizeof got[1]);
        for (uint64_t i = 0; i < CHUNK / GROUP; ++i)
            if (!ref_same(REF_F32, got[0], want[class][0], i) ||
                !ref_same(REF_F32, got[1], want[class][1], i))
                fail_msg("quantize_learned_groups, group %" PRIu64 ": %a and %a, want %a and %a",
                         group + i, (double)got[0][i], (double)got[1][i], (double)want[class][0][i],
                         (double)want[class][1][i]);
    }
}

static void learned_groups_large(const struct large *x, struct large *dy)
{
    enum { IN_CHUNK = CHUNK / GROUP };
    static float want[CLASSES][2][IN_CHUNK];
    static double sums[2][IN_CHUNK], scales[IN_CHUNK], zero_points[IN_CHUNK];
    const unsigned char scale_byte = 0x3b;
    const uint32_t scale_bits = UINT32_C(0x3b3b3b3b);
    float scale;
    memcpy(&scale, &scale_bits, sizeof scale);
    for (int k = 0; k < IN_CHUNK; ++k)
        scales[k] = (double)scale;
    const struct ref_learned p = { .q_min = -128,
                                   .q_max = 127,
                                   .layout = REF_ROWS,
                                   .channels = IN_CHUNK,
                                   .inner = GROUP,
                                   .scale = scales,
                                   .zero_point = zero_points };
    for (unsigned class = 0; class < CLASSES; ++class) {
        ref_learned_backward(REF_F16, x->chunk[class], dy->chunk[class], dy->chunk[class], CHUNK,
                             &p, sums[0], sums[1]);
        for (int g = 0; g < 2; ++g)
            ref_learned_reduce(REF_F32, sums[g], IN_CHUNK, IN_CHUNK, 1, 1, want[class][g]);
    }

    const uint64_t n = GROUPS * GROUP;
    const int32_t q_min = -128, q_max = 127;
    const double factor = 1;
    ptx_buffer *of_scale = filled(GROUPS * sizeof(float), scale_byte);
    ptx_buffer *of_zero = filled(GROUPS * sizeof(float), 0);
    ptx_buffer *d_scales = filled(GROUPS * sizeof(float), 0xff);
    ptx_buffer *d_zeros = filled(GROUPS * sizeof(float), 0xff);
    const CUdeviceptr at_scale = ptx_buffer_address(of_scale);
    const CUdeviceptr at_zero = ptx_buffer_address(of_zero);
    const CUdeviceptr d_scale = ptx_buffer_address(d_scales), d_zero = ptx_buffer_address(d_zeros);
    struct gpu_kernel loaded;
    load_f16(&ptx_kernel_quantize_learned_groups, NULL, NULL, &loaded);
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(dy->address), PTX_ARG(dy->address),
                                    PTX_ARG(n),          PTX_ARG(at_scale),    PTX_ARG(at_zero),
                                    PTX_ARG(q_min),      PTX_ARG(q_max),       PTX_ARG(factor),
                                    PTX_ARG(d_scale),    PTX_ARG(d_zero) };
    require(gpu_launch(&loaded, n, args, 11), "quantize_learned_groups");
    expect_groups(d_scales, d_zeros, want);
    ptx_buffer_destroy(&d_zeros);
    ptx_buffer_destroy(&d_scales);
    ptx_buffer_destroy(&of_zero);
    ptx_buffer_destroy(&of_scale);
    gpu_kernel_unload(&loaded);
}

static void cast_large(const struct large *x)
{
    static unsigned char want[CLASSES][CHUNK], got[CHUNK];
    const float scale = 100;
    const uint64_t n = ELEMENTS;
    float amax = 0, got_amax = 0;
    for (unsigned class = 0; class < CLASSES; ++class)
        ref_cast_fp8(REF_F16, x->chunk[class], CHUNK, REF_E4M3, scale, want[class], &amax);
    ptx_buffer *codes = filled(n + x->offset, 0xaa), *most = filled(sizeof amax, 0);
    const CUdeviceptr y = ptx_buffer_address(codes) + x->offset, at = ptx_buffer_address(most);
    struct gpu_kernel loaded;
    load_f16(&ptx_kernel_cast_fp8, NULL, NULL, &loaded);
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(y), PTX_ARG(n), PTX_ARG(scale),
                                    PTX_ARG(at) };
    require(gpu_launch(&loaded, n, args, 5), "cast_fp8");
    struct random r = gpu_random("cast_fp8");
    for (int k = 0; k < SAMPLES; ++k) {
        const uint64_t begin = sample_begin(&r, k);
        read_back(codes, begin + x->offset, got, sizeof got);
        if (memcmp(got, want[class_of(begin / CHUNK)], sizeof got) != 0)
            fail_msg("cast_fp8: a code from %" PRIu64 " on is wrong", begin);
    }
    read_back(most, 0, &got_amax, sizeof got_amax);
    assert_true(got_amax == amax);
    ptx_buffer_destroy(&most);
    ptx_buffer_destroy(&codes);
    gpu_kernel_unload(&loaded);
}

/// The least element is beyond 2^31, the greatest beyond 2^32.
static void observe_large(const struct large *x)
{
    static const uint16_t extremes[2] = { 0xd640, 0x5640 }; // -100 and 100
    static const float want[2] = { -100, 100 };
    const uint64_t n = ELEMENTS, places[2] = { ELEMENTS / 2 + 7, ELEMENTS - 2 };
    const float before[2] = { INFINITY, -INFINITY };
    uint16_t saved[2];
    float got[2];
    ptx_buffer *pair = filled(sizeof before, 0);
    const CUdeviceptr at = ptx_buffer_address(pair);
    require(ptx_buffer_upload(pair, 0, before, sizeof before, gpu.stream), "extremes");
    for (int k = 0; k < 2; ++k) {
        const uint64_t byte = (places[k] + x->offset) * 2;
        read_back(x->buffer, byte, &saved[k], 2);
        require(ptx_buffer_upload(x->buffer, (size_t)byte, &extremes[k], 2, gpu.stream), "x");
    }
    struct gpu_kernel loaded;
    load_f16(&ptx_kernel_observe_min_max, NULL, NULL, &loaded);
    const struct ptx_arg args[] = { PTX_ARG(x->address), PTX_ARG(n), PTX_ARG(at) };
    require(gpu_launch(&loaded, n, args, 3), "observe_min_max");
    read_back(pair, 0, got, sizeof got);
    assert_true(got[0] == want[0] && got[1] == want[1]);
    for (int k = 0; k < 2; ++k)
        require(ptx_buffer_upload(x->buffer, (size_t)(places[k] + x->offset) * 2, &saved[k], 2,
                                  gpu.stream),
                "x");
    require(ptx_stream_synchronize(gpu.device, gpu.stream), "x");
    ptx_buffer_destroy(&pair);
    gpu_kernel_unload(&loaded);
}

/// `x` and `dy` are consumed.
static void training_large(const struct gpu_kernel *square, struct large *x, struct large *dy)
{
    observe_large(x);
    cast_large(x);
    learned_large(x, dy, "tensor", 0);
    compare_large(square, dy, "quantize_learned_backward");
    learned_large(x, dy, "rows", 64);
    compare_large(square, dy, "quantize_learned_backward, rows");
    learned_large(x, dy, "columns", 1);
    compare_large(square, dy, "quantize_learned_backward, columns");
    learned_groups_large(x, dy);
    compare_large(square, dy, "quantize_learned_groups");
    compare_large(square, x, "x of the quantizers");
    fake_quantize_large(x);
    compare_large(square, x, "fake_quantize");
    fake_quantize_groups_large(x);
    compare_large(square, x, "fake_quantize_groups");
}

void check_beyond_32_bits(void)
{
    const size_t one = (size_t)(GROUPS * GROUP + ALIGNED) * 2, spare = (size_t)64 << 20;
    const size_t groups = (size_t)GROUPS * 4 * sizeof(float);
    size_t available = 0;
    require(ptx_device_memory(gpu.device, &available, NULL), "memory");
    if (gpu.max_size < ELEMENTS)
        skip_because("more than 2^32 elements: left out by %s", gpu.limit);
    if (available < one + spare)
        skip_because("more than 2^32 elements: %.3f GB free, %.3f GB wanted",
                     (double)available * 1e-9, (double)(one + spare) * 1e-9);
    struct gpu_kernel square;
    load_f16(&ptx_kernel_squared_sum, NULL, NULL, &square);
    struct large *x = large_create(77, MISALIGNED);
    compare_large(&square, x, "squared_sum");
    clip_large(x);
    compare_large(&square, x, "gradient_clip_from_device_scale");
    lerp_large(x);
    compare_large(&square, x, "lerp_backward");
    if (available < 2 * (one + spare)) {
        fprintf(stderr,
                "SKIPPED, quantize_ste_backward on more than 2^32 elements: %.3f GB free, %.3f GB "
                "wanted\n",
                (double)available * 1e-9, 2e-9 * (double)(one + spare));
    } else {
        struct large *dy = large_create(4242, MISALIGNED);
        quantize_large(x, dy);
        compare_large(&square, dy, "quantize_ste_backward");
        compare_large(&square, x, "quantize_ste_backward, x");
        quantize_channels_large(x, dy, "rows", 64);
        compare_large(&square, dy, "quantize_channel_ste_backward, rows");
        quantize_channels_large(x, dy, "columns", 1);
        compare_large(&square, dy, "quantize_channel_ste_backward, columns");
        large_destroy(dy);
    }
    large_destroy(x);
    if (available < 2 * (one + spare) + groups)
        fprintf(stderr,
                "SKIPPED, the quantizers of training on more than 2^32 elements: %.3f GB free, "
                "%.3f GB wanted\n",
                (double)available * 1e-9, 1e-9 * (double)(2 * (one + spare) + groups));
    for (unsigned offset = MISALIGNED; available >= 2 * (one + spare) + groups; offset = ALIGNED) {
        struct large *x_of = large_create(77, offset), *dy = large_create(4242, offset);
        training_large(&square, x_of, dy);
        large_destroy(dy);
        large_destroy(x_of);
        if (offset == ALIGNED)
            break;
    }
    gpu_kernel_unload(&square);
}

// SPDX-License-Identifier: MIT
// The gradients of a learned quantizer in one call: results compared with plain C, capture.
#include <math.h>

#include "data.h"
#include "operation_fixture.h"
#include "reference/learned.h"

enum { MOST = 9000, BYTES = (MOST + 8) * 8, SCALES = 64, SUMS = 2 * (MOST + 70000) };

static const ptx_type dtypes[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };

/// Host and device memory of one trial.
struct trial {
    enum ref_type type;
    unsigned char x[BYTES], dy[BYTES], want[BYTES], got[BYTES];
    double scale[SCALES], zero_point[SCALES];
    float f32_scale[SCALES], f32_zero_point[SCALES];
    int32_t zero_fixed[SCALES];
    double sums[2][SUMS / 2];
    ptx_buffer *x_buffer, *dy_buffer, *dx_buffer, *scales, *zero_points, *fixed, *d_scales,
        *d_zeros;
    ptx_buffer *workspace;
};

static void fill(struct trial *t, struct random *r, ptx_type dtype)
{
    t->type = gpu_ref_type(dtype);
    data_fill_ties(r, t->type, 0.03, t->x, MOST);
    data_fill(r, t->type, DATA_PLAIN, t->dy, MOST);
    for (int k = 0; k < SCALES; k++) {
        t->f32_scale[k] = k % 3 ? 0.03f : 0.5f * (float)(k + 1);
        t->f32_zero_point[k] = (float)random_below(r, 64) / 4 - 8;
        t->scale[k] = t->type == REF_F64 ? 0.03 + 0.01 * k : (double)t->f32_scale[k];
        t->zero_point[k] = (double)t->f32_zero_point[k];
        t->zero_fixed[k] = (int32_t)random_below(r, 16) - 8;
    }
    const bool f64 = t->type == REF_F64;
    t->x_buffer = upload(t->x, BYTES);
    t->dy_buffer = upload(t->dy, BYTES);
    t->dx_buffer = upload(t->got, BYTES);
    t->scales = f64 ? upload(t->scale, sizeof t->scale) : upload(t->f32_scale, sizeof t->f32_scale);
    t->zero_points = f64 ? upload(t->zero_point, sizeof t->zero_point)
                         : upload(t->f32_zero_point, sizeof t->f32_zero_point);
    t->fixed = upload(t->zero_fixed, sizeof t->zero_fixed);
    t->d_scales = upload(t->got, SCALES * 8);
    t->d_zeros = upload(t->got, SCALES * 8);
}

static void empty(struct trial *t)
{
    ptx_buffer **const buffers[] = { &t->d_zeros, &t->d_scales,  &t->fixed,     &t->zero_points,
                                     &t->scales,  &t->dx_buffer, &t->dy_buffer, &t->x_buffer };
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++)
        ptx_buffer_destroy(buffers[k]);
}

enum kind { TENSOR, CHANNELS, GROUPS, KINDS };

/// Parameters with random shape and options.
static struct ptx_quantize_learned_backward_params ask(const struct trial *t, struct random *r,
                                                       ptx_type dtype, enum kind kind)
{
    const uint64_t skip = random_below(r, 3) * ref_bytes(t->type);
    const bool learned = random_below(r, 2);
    struct ptx_quantize_learned_backward_params p = { .dtype = dtype,
                                                      .reciprocal = random_below(r, 2),
                                                      .quotient_range = random_below(r, 2),
                                                      .grad_factor = random_below(r, 2) ? 1 : 0.01,
                                                      .q_min = -8,
                                                      .q_max = 7 };
    uint64_t period = 1;
    if (kind == GROUPS) {
        p.group = UINT32_C(32) << random_below(r, 3);
        p.columns = random_below(r, 2) ? 0 : p.group;
        period = p.group;
    } else if (kind == CHANNELS) {
        p.channels = 1 + random_below(r, SCALES);
        p.inner = random_below(r, 2) ? 1 + random_below(r, 5) : 16 * random_below(r, 9);
        period = p.channels * (p.inner ? p.inner : 1);
    }
    p.count = random_below(r, kind == GROUPS ? SCALES * p.group : MOST - 8) / period * period;
    if (kind == CHANNELS && random_below(r, 3) == 0)
        p.count = period; // whole rows
    p.x = ptx_buffer_address(t->x_buffer) + skip;
    p.d_output = ptx_buffer_address(t->dy_buffer) + skip;
    p.d_input = random_below(r, 2) ? p.d_output : ptx_buffer_address(t->dx_buffer) + skip;
    p.scales = ptx_buffer_address(t->scales);
    p.d_scales = ptx_buffer_address(t->d_scales);
    if (learned) {
        p.zero_points = ptx_buffer_address(t->zero_points);
        p.d_zero_points = ptx_buffer_address(t->d_zeros);
    } else {
        p.fixed_zero_points = ptx_buffer_address(t->fixed);
    }
    return p;
}

/// The gradient of each channel, from sums in any order: the layout is the library's choice.
static void check_gradient(const struct trial *t, ptx_buffer *buffer, const double *sums,
                           uint64_t pieces, const struct ptx_quantize_learned_backward_params *p)
{
    const enum ref_type type = t->type == REF_F64 ? REF_F64 : REF_F32;
    const uint64_t channels = p->channels ? p->channels : 1, inner = p->inner ? p->inner : 1;
    const double factor = p->grad_factor;
    double got[SCALES];
    download(buffer, 0, got, (size_t)channels * ref_bytes(type));
    for (uint64_t c = 0; c < channels; c++) {
        double want = 0, size = 0;
        for (uint64_t k = 0; k < pieces; k++)
            if (k / inner % channels == c || !p->channels) {
                want += factor * sums[k];
                size += fabs(factor * sums[k]);
            }
        const double error = fabs(ref_load(type, got, c) - want);
        if (!(error <= size * (type == REF_F64 ? 1e-12 : 1e-6) + (type == REF_F64 ? 0 : 0x1p-149)))
            fail_msg("channel %llu of %llu: %a, want %a", (unsigned long long)c,
                     (unsigned long long)channels, ref_load(type, got, c), want);
    }
}

/// Whether one launch has the gradients: each channel has one short row, or the tensor is small.
static bool is_whole(const struct trial *t, const struct ptx_quantize_learned_backward_params *p)
{
    const uint64_t inner = p->inner ? p->inner : 1;
    if (p->channels > 1)
        return p->count == p->channels * inner && inner <= 2048;
    return p->count * ref_bytes(t->type) <= 32768 && (!p->channels || p->count == inner);
}

static void check_learned(ptx_operations *operations, struct trial *t,
                          struct ptx_quantize_learned_backward_params p)
{
    struct ptx_operation_description d;
    const uint64_t groups = p.group ? p.count / p.group : 0;
    const struct ref_learned q = { .reciprocal = p.reciprocal,
                                   .quotient_range = p.quotient_range,
                                   .q_min = p.q_min,
                                   .q_max = p.q_max,
                                   .layout = REF_COLUMNS,
                                   .channels = p.channels ? p.channels
                                               : groups   ? groups
                                                          : 1,
                                   .inner = p.group                 ? p.group
                                            : p.channels && p.inner ? p.inner
                                                                    : 1,
                                   .scale = t->scale,
                                   .zero_point = p.zero_points ? t->zero_point : NULL,
                                   .zero_fixed = p.zero_points ? NULL : t->zero_fixed };
    const size_t skip = (size_t)(p.x - ptx_buffer_address(t->x_buffer));
    ref_learned_backward(t->type, t->x + skip, t->dy + skip, t->want, p.count, &q, t->sums[0],
                         t->sums[1]);
    require(ptx_quantize_learned_backward_describe(&p, &d));
    const bool whole = is_whole(t, &p);
    assert_int_equal(d.launches, !p.count ? 0 : p.group || whole ? 1 : 2);
    assert_true((d.workspace == 0) == (p.group || whole || !p.count));
    // Exactly as much memory as the description says.
    t->workspace = made(ptx_buffer_create(gpu.device, (size_t)d.workspace));
    p.workspace = p.group || whole ? 0 : ptx_buffer_address(t->workspace);
    require(ptx_quantize_learned_backward(operations, &p, gpu.stream));
    const uint64_t pieces = ref_learned_pieces(t->type, p.count, &q);
    download(p.d_input == p.d_output ? t->dy_buffer : t->dx_buffer, skip, t->got,
             (size_t)p.count * ref_bytes(t->type));
    assert_memory_equal(t->got, t->want, (size_t)p.count * ref_bytes(t->type));
    if (p.group) {
        p.channels = q.channels;
        p.inner = q.inner;
    }
    if (p.count)
        check_gradient(t, t->d_scales, t->sums[0], pieces, &p);
    if (p.count && p.zero_points)
        check_gradient(t, t->d_zeros, t->sums[1], pieces, &p);
    ptx_buffer_destroy(&t->workspace);
}

TEST(test_results)
{
    static struct trial trial;
    struct random r = gpu_random("learned");
    OWNED(ptx_operations) *operations = create();
    for (int k = 0; k < 72; k++) {
        const ptx_type dtype = dtypes[k % 4];
        fill(&trial, &r, dtype);
        const enum kind kind = (enum kind)(k / 4 % KINDS);
        check_learned(operations, &trial,
                      ask(&trial, &r, dtype, dtype == PTX_F64 && kind == GROUPS ? CHANNELS : kind));
        empty(&trial);
    }
}

// ---- small arguments ----------------------------------------------------------------------------

enum { COUNT = 96, PART = 8192, PARTS = 8 };

/// One buffer, with a part for each address. Every byte is MARK.
static struct scene scene;
SCENE_OF(PARTS *PART)

static struct ptx_quantize_learned_backward_params good(void)
{
    const CUdeviceptr at = ptx_buffer_address(scene.memory);
    return (struct ptx_quantize_learned_backward_params) { .dtype = PTX_F32,
                                                           .count = COUNT,
                                                           .x = at,
                                                           .d_output = at + PART,
                                                           .d_input = at + 2 * PART,
                                                           .scales = at + 3 * PART,
                                                           .zero_points = at + 4 * PART,
                                                           .d_scales = at + 5 * PART,
                                                           .d_zero_points = at + 6 * PART,
                                                           .workspace = at + 7 * PART,
                                                           .grad_factor = 1 };
}

// ---- capture ------------------------------------------------------------------------------------

static void check_captured(struct ptx_quantize_learned_backward_params p)
{
    const float scale[] = { 0.5f, 0.5f, 0.5f }, zero_point[] = { 0, 0, 0 };
    const int sums = p.group ? COUNT / (int)p.group : 1;
    float x[COUNT], dy[COUNT], got[3] = { 0 };
    for (int k = 0; k < COUNT; k++) {
        x[k] = 1000;
        dy[k] = 1;
    }
    require(ptx_quantize_learned_backward_prepare(scene.operations, &p));
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    require(ptx_quantize_learned_backward(scene.operations, &p, gpu.stream));
    OWNED(ptx_graph) *graph = ptx_capture_end(gpu.device, gpu.stream);
    assert_non_null(graph);
    require(ptx_buffer_upload(scene.memory, 0, x, sizeof x, gpu.stream));
    require(ptx_buffer_upload(scene.memory, PART, dy, sizeof dy, gpu.stream));
    require(ptx_buffer_upload(scene.memory, 3 * PART, scale, sizeof scale, gpu.stream));
    require(ptx_buffer_upload(scene.memory, 4 * PART, zero_point, sizeof zero_point, gpu.stream));
    require(ptx_graph_launch(graph, gpu.stream));
    download(scene.memory, 5 * PART, got, sizeof got);
    for (int k = 0; k < sums; k++)
        assert_true(got[k] == (float)(COUNT / sums) * 127.0f);
    download(scene.memory, 6 * PART, got, sizeof got);
    for (int k = 0; k < sums; k++)
        assert_true(got[k] == (float)(COUNT / sums) * -0.5f);
}

TEST_WITH(test_captured, set_up, tear_down)
{
    struct ptx_quantize_learned_backward_params p = good();
    check_captured(p);
    p.group = 32;
    check_captured(p);
}

GPU_MAIN

// SPDX-License-Identifier: MIT
// The arguments that one-call operations refuse. The message names the argument, and nothing is
// written. Also their descriptions.
#include <inttypes.h>
#include <math.h>

#include "operation_fixture.h"

enum { COUNT = 96, BYTES = COUNT * 8 };

/// Three tensors with room for COUNT elements of any type, scales, zero points. Every byte is 0x3f.
static struct {
    ptx_operations *operations;
    ptx_buffer *memory;
    CUdeviceptr x, dy, dx, scales, zero_points;
} scene;

enum { PARTS = 5 };

static int set_up(void **state)
{
    (void)state;
    scene.operations = ptx_operations_create(gpu.device, NULL);
    scene.memory = ptx_buffer_create(gpu.device, PARTS * BYTES);
    assert_true(scene.operations && scene.memory);
    assert_int_equal(ptx_buffer_fill(scene.memory, 0, MARK, PARTS * BYTES, gpu.stream), PTX_OK);
    scene.x = ptx_buffer_address(scene.memory);
    scene.dy = scene.x + BYTES;
    scene.dx = scene.dy + BYTES;
    scene.scales = scene.dx + BYTES;
    scene.zero_points = scene.scales + BYTES;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ptx_buffer_destroy(&scene.memory);
    ptx_operations_destroy(&scene.operations);
    return 0;
}

static void assert_refused(ptx_status status, const char *function, const char *part)
{
    expect_refusal(status, function, part, scene.memory, PARTS * BYTES);
}

static struct ptx_quantize_backward_params good_quantize(void)
{
    return (struct ptx_quantize_backward_params) { .dtype = PTX_F32,
                                                   .count = COUNT,
                                                   .x = scene.x,
                                                   .d_output = scene.dy,
                                                   .d_input = scene.dx,
                                                   .scale = 0.05 };
}

#define QUANTIZE_REFUSED(part, ...)                                                                \
    do {                                                                                           \
        struct ptx_quantize_backward_params p = good_quantize();                                   \
        __VA_ARGS__;                                                                               \
        assert_refused(ptx_quantize_backward(scene.operations, &p, gpu.stream),                    \
                       "ptx_quantize_backward: ", part);                                           \
    } while (0)

static void test_quantize_addresses(void **state)
{
    (void)state;
    QUANTIZE_REFUSED("x: its address is 0", p.x = 0);
    QUANTIZE_REFUSED("d_output: its address is 0", p.d_output = 0);
    QUANTIZE_REFUSED("d_input: its address is 0", p.d_input = 0);
    QUANTIZE_REFUSED("not a multiple of its element's 4 bytes", p.x += 2);
    QUANTIZE_REFUSED("d_output: its address 0x", p.d_output += 1);
    QUANTIZE_REFUSED("not a multiple of its element's 2 bytes", p.dtype = PTX_F16; p.d_input += 1);
    QUANTIZE_REFUSED("d_input: its address 0x", p.dtype = PTX_F64; p.d_input += 4);
    QUANTIZE_REFUSED("d_output and d_input overlap", p.d_input = p.d_output + 4);
    QUANTIZE_REFUSED("may begin exactly where d_output does", p.d_input = p.d_output - 4);
    QUANTIZE_REFUSED("x and", p.d_input = p.x);
    QUANTIZE_REFUSED("overlap", p.d_input = p.x + 4 * (COUNT - 1));
    QUANTIZE_REFUSED("beyond the end of memory", p.x = UINT64_MAX - 3);
    QUANTIZE_REFUSED("the driver knows no memory at its address", p.x = 4096);
    QUANTIZE_REFUSED("d_output: 200 elements are 800 bytes, and its memory ends 768 bytes after",
                     p.count = 200;
                     p.d_output = p.d_input = scene.zero_points);
    QUANTIZE_REFUSED("its memory ends", p.x = scene.zero_points + BYTES - 8);
    ptx_buffer *freed = ptx_buffer_create(gpu.device, 1 << 24);
    const CUdeviceptr address = ptx_buffer_address(freed);
    ptx_buffer_destroy(&freed);
    QUANTIZE_REFUSED("x: the driver knows no memory", p.x = address);
}

static void test_quantize_scalars(void **state)
{
    (void)state;
    QUANTIZE_REFUSED("dtype is u32; it must be f32, f64, f16 or bf16", p.dtype = PTX_U32);
    QUANTIZE_REFUSED("dtype is none", p.dtype = PTX_NONE);
    QUANTIZE_REFUSED("dtype is 1000; it must be", p.dtype = (ptx_type)1000);
    QUANTIZE_REFUSED("scale is 0; it must be finite and above 0", p.scale = 0);
    QUANTIZE_REFUSED("scale is -1", p.scale = -1);
    QUANTIZE_REFUSED("scale is nan; it must be finite and above 0", p.scale = (double)NAN);
    QUANTIZE_REFUSED("scale is inf", p.scale = (double)INFINITY);
    QUANTIZE_REFUSED("which does not fit f32", p.scale = 1e300);
    QUANTIZE_REFUSED("which does not fit f32", p.scale = 1e-60; p.dtype = PTX_BF16);
    QUANTIZE_REFUSED("q_min is 5 and q_max 4", p.q_min = 5; p.q_max = 4);
    QUANTIZE_REFUSED("zero_point is 128; it must be from q_min -128 to q_max 127",
                     p.zero_point = 128);
    QUANTIZE_REFUSED("zero_point is -1", p.q_max = 255; p.zero_point = -1);
    QUANTIZE_REFUSED("more than a launch can cover", p.count = UINT64_MAX);
    QUANTIZE_REFUSED("more than a launch can cover", p.count = UINT64_C(1) << 45);
    assert_refused(ptx_quantize_backward(NULL, NULL, gpu.stream),
                   "ptx_quantize_backward: ", "operations is NULL");
    assert_refused(ptx_quantize_backward(scene.operations, NULL, gpu.stream),
                   "ptx_quantize_backward: ", "params is NULL");
}

static void by_channels(struct ptx_quantize_backward_params *p, uint64_t channels, uint64_t inner)
{
    p->scale = 0;
    p->scales = scene.scales;
    p->zero_points = scene.zero_points;
    p->channels = channels;
    p->inner = inner;
}

static void test_quantize_channels(void **state)
{
    (void)state;
    QUANTIZE_REFUSED("no multiple of channels 7 * inner 1", by_channels(&p, 7, 0));
    QUANTIZE_REFUSED("no multiple of channels 3 * inner 64", by_channels(&p, 3, 64));
    QUANTIZE_REFUSED("no multiple of", by_channels(&p, UINT64_MAX, 2));
    QUANTIZE_REFUSED("no multiple of", by_channels(&p, UINT64_C(1) << 63, 2));
    QUANTIZE_REFUSED("inner is 3, and channels is 0; give the number", by_channels(&p, 0, 3));
    QUANTIZE_REFUSED("scale is 0.5, and scales is 0x", by_channels(&p, 3, 1); p.scale = 0.5);
    QUANTIZE_REFUSED("zero_point is 1, and scales is 0x", by_channels(&p, 3, 1); p.zero_point = 1);
    QUANTIZE_REFUSED("scales is 0, and channels is 3; with channels, give the address",
                     p.channels = 3);
    QUANTIZE_REFUSED("scales is 0, and zero_points is 0x", by_channels(&p, 3, 1); p.scales = 0);
    QUANTIZE_REFUSED("zero_points: its address is 0", by_channels(&p, 3, 1); p.zero_points = 0);
    QUANTIZE_REFUSED("scales: its address 0x", by_channels(&p, 3, 1); p.scales += 2);
    QUANTIZE_REFUSED("multiple of its element's 8 bytes", by_channels(&p, 3, 1); p.dtype = PTX_F64;
                     p.scales += 4);
    QUANTIZE_REFUSED("d_input and scales overlap", by_channels(&p, 96, 1);
                     p.scales = p.d_input - 4);
    QUANTIZE_REFUSED("d_input and zero_points overlap", by_channels(&p, 2, 48);
                     p.zero_points = p.d_input);
    QUANTIZE_REFUSED("zero_points: 96 elements are", by_channels(&p, 96, 1);
                     p.zero_points += BYTES - 4 * 95);
}

#define LERP_REFUSED(part, ...)                                                                    \
    do {                                                                                           \
        struct ptx_lerp_backward_params p = { .dtype = PTX_F64,                                    \
                                              .count = COUNT,                                      \
                                              .d_output = scene.dy,                                \
                                              .d_a = scene.x,                                      \
                                              .d_b = scene.dx,                                     \
                                              .weight = 0.5 };                                     \
        __VA_ARGS__;                                                                               \
        assert_refused(ptx_lerp_backward(scene.operations, &p, gpu.stream),                        \
                       "ptx_lerp_backward: ", part);                                               \
    } while (0)

static void test_lerp(void **state)
{
    (void)state;
    LERP_REFUSED("dtype is s32", p.dtype = PTX_S32);
    LERP_REFUSED("d_a is 0, and d_b is 0; one of them must be an address", p.d_a = p.d_b = 0);
    LERP_REFUSED("d_output: its address is 0", p.d_output = 0);
    LERP_REFUSED("d_a: its address 0x", p.d_a += 4);
    LERP_REFUSED("weight is nan; it must be a number", p.weight = (double)NAN);
    LERP_REFUSED("weight is 0.5, and weight_at is 0x", p.weight_at = scene.scales);
    LERP_REFUSED("weight_at: its address 0x", p.weight = 0; p.weight_at = scene.scales + 4);
    LERP_REFUSED("d_a and", p.d_b = p.d_a);
    LERP_REFUSED("d_a and", p.d_a = p.d_b = p.d_output);
    LERP_REFUSED("may begin exactly where d_output does", p.d_b = p.d_output + 8);
    LERP_REFUSED("weight_at", p.weight = 0; p.weight_at = p.d_a + 8);
    LERP_REFUSED("d_b: 96 elements are 768 bytes, and", p.d_b = scene.zero_points + 8);
    assert_refused(ptx_lerp_backward(scene.operations, NULL, NULL),
                   "ptx_lerp_backward: ", "params is NULL");
    assert_refused(ptx_lerp_backward_prepare(NULL, NULL),
                   "ptx_lerp_backward_prepare: ", "operations is NULL");
}

#define SCALE_REFUSED(part, ...)                                                                   \
    do {                                                                                           \
        const struct ptx_loss_scale_params p = { __VA_ARGS__ };                                    \
        struct ptx_loss_scale_state host = { 2.0f, 3 };                                            \
        const struct ptx_loss_scale_update_params update = { scene.x, scene.dy, p };               \
        assert_refused(ptx_loss_scale_update(scene.operations, &update, gpu.stream),               \
                       "ptx_loss_scale_update: ", part);                                           \
        assert_refused(ptx_loss_scale_step(&host, true, &p), "ptx_loss_scale_step: ", part);       \
        assert_true(host.scale == 2.0f && host.growth_tracker == 3);                               \
        assert_refused(ptx_loss_scale_update_describe(&update, NULL),                              \
                       "ptx_loss_scale_update_describe: ", part);                                  \
    } while (0)

static void test_loss_scale(void **state)
{
    (void)state;
    SCALE_REFUSED("growth is 1; it must be finite and above 1", .growth = 1);
    SCALE_REFUSED("growth is nan", .growth = NAN);
    SCALE_REFUSED("growth is inf", .growth = INFINITY);
    SCALE_REFUSED("backoff is 1", .backoff = 1);
    SCALE_REFUSED("backoff is -0.5", .backoff = -0.5f);
    SCALE_REFUSED("backoff is nan", .backoff = NAN);
    SCALE_REFUSED("interval is -1", .interval = -1);
    SCALE_REFUSED("min_scale is -1", .min_scale = -1);
    SCALE_REFUSED("min_scale is inf", .min_scale = INFINITY);
    SCALE_REFUSED("max_scale is 2; it must be above 0 and not below min_scale", .min_scale = 3,
                  .max_scale = 2);
    SCALE_REFUSED("max_scale is nan", .max_scale = NAN);
    SCALE_REFUSED("hysteresis is -2", .hysteresis = -2);
    const CUdeviceptr at = scene.x;
    ptx_operations *ops = scene.operations;
    static const char name[] = "ptx_loss_scale_update: ";
    assert_refused(
        ptx_loss_scale_update(NULL, &(struct ptx_loss_scale_update_params) { at, scene.dy }, NULL),
        name, "operations");
    assert_refused(
        ptx_loss_scale_update(ops, &(struct ptx_loss_scale_update_params) { 0, scene.dy }, NULL),
        name, "state: its address is 0");
    assert_refused(
        ptx_loss_scale_update(ops, &(struct ptx_loss_scale_update_params) { at, 0 }, NULL), name,
        "found_inf: its address is 0");
    assert_refused(ptx_loss_scale_update(
                       ops, &(struct ptx_loss_scale_update_params) { at + 2, scene.dy }, NULL),
                   name, "state: its address 0x");
    assert_refused(
        ptx_loss_scale_update(ops, &(struct ptx_loss_scale_update_params) { at, at + 4 }, NULL),
        name, "overlap");
    assert_refused(ptx_loss_scale_update(ops, NULL, NULL), name, "params is NULL");
    struct ptx_loss_scale_state bad = { NAN, 0 };
    assert_refused(ptx_loss_scale_step(&bad, true, NULL),
                   "ptx_loss_scale_step: ", "state->scale is nan");
    bad.scale = INFINITY;
    assert_refused(ptx_loss_scale_step(&bad, true, NULL),
                   "ptx_loss_scale_step: ", "state->scale is inf");
    bad.scale = -1;
    assert_refused(ptx_loss_scale_step(&bad, true, NULL),
                   "ptx_loss_scale_step: ", "state->scale is -1");
    assert_refused(ptx_loss_scale_step(NULL, true, NULL), "ptx_loss_scale_step: ", "state is NULL");
}

// An operation by its number is the same call; a number of no operation is refused.
static void test_by_number(void **state)
{
    (void)state;
    struct ptx_operation_description d, other;
    struct ptx_lerp_backward_params p = { .dtype = PTX_F32, .count = 9, .d_output = 4, .d_a = 8 };
    assert_int_equal(ptx_operation_describe(PTX_OPERATION_lerp_backward, &p, &d), PTX_OK);
    assert_int_equal(ptx_lerp_backward_describe(&p, &other), PTX_OK);
    assert_string_equal(d.entry, "lerp_backward_f32");
    assert_string_equal(d.entry, other.entry);
    assert_true(d.launches == 1 && d.launches == other.launches && d.bytes == other.bytes);
    const ptx_operation none[] = { PTX_OPERATION_COUNT, (ptx_operation)-1 };
    for (size_t k = 0; k < 2; k++) {
        assert_refused(ptx_operation_run(scene.operations, none[k], &p, gpu.stream),
                       "ptx_operation_run: ", "is no operation");
        assert_refused(ptx_operation_prepare(scene.operations, none[k], &p),
                       "ptx_operation_prepare: ", "is no operation");
        assert_refused(ptx_operation_describe(none[k], &p, &d),
                       "ptx_operation_describe: ", "is no operation");
    }
}

#define CAST_REFUSED(part, ...)                                                                    \
    do {                                                                                           \
        struct ptx_fp8_cast_params p = {                                                           \
            .dtype = PTX_BF16, .count = COUNT, .x = scene.x, .y = scene.dx, .scale = 2             \
        };                                                                                         \
        __VA_ARGS__;                                                                               \
        assert_refused(ptx_fp8_cast(scene.operations, &p, gpu.stream), "ptx_fp8_cast: ", part);    \
    } while (0)

static void test_fp8_cast(void **state)
{
    (void)state;
    CAST_REFUSED("dtype is f64; it must be f32, f16 or bf16", p.dtype = PTX_F64);
    CAST_REFUSED("dtype is u8", p.dtype = PTX_U8);
    CAST_REFUSED("dtype is 99; it must be", p.dtype = (ptx_type)99);
    CAST_REFUSED("format is 2; it must be PTX_FP8_E4M3 (0) or PTX_FP8_E5M2 (1)",
                 p.format = (ptx_fp8)2);
    CAST_REFUSED("scale is 0; it must be finite and above 0, or scale_at", p.scale = 0);
    CAST_REFUSED("scale is -1", p.scale = -1);
    CAST_REFUSED("scale is nan", p.scale = (double)NAN);
    CAST_REFUSED("scale is inf; it", p.scale = (double)INFINITY);
    CAST_REFUSED("1e+300, which does not fit f32", p.scale = 1e300);
    CAST_REFUSED("which does not fit f32", p.scale = 1e-60);
    CAST_REFUSED("scale is 2, and scale_at is 0x", p.scale_at = scene.scales);
    CAST_REFUSED("scale_at: its address 0x", p.scale = 0; p.scale_at = scene.scales + 2);
    CAST_REFUSED("x: its address is 0", p.x = 0);
    CAST_REFUSED("y: its address is 0", p.y = 0);
    CAST_REFUSED("x: its address 0x", p.x += 1);
    CAST_REFUSED("not a multiple of its element's 4 bytes", p.amax = scene.scales + 1);
    CAST_REFUSED("x and", p.y = p.x);
    CAST_REFUSED("x and y overlap", p.y = p.x + 2 * COUNT - 1);
    CAST_REFUSED("y and amax overlap", p.amax = p.y + COUNT - 4);
    CAST_REFUSED("x and amax overlap", p.amax = p.x);
    CAST_REFUSED("overlap", p.scale = 0; p.scale_at = p.amax = scene.scales);
    CAST_REFUSED("y: 96 elements are 96 bytes, and its memory ends 95",
                 p.y = scene.zero_points + BYTES - 95);
    CAST_REFUSED("more than a launch can cover", p.count = UINT64_MAX);
    CAST_REFUSED("more than a launch can cover", p.count = UINT64_C(1) << 45);
    assert_refused(ptx_fp8_cast(NULL, NULL, NULL), "ptx_fp8_cast: ", "operations is NULL");
    assert_refused(ptx_fp8_cast(scene.operations, NULL, NULL), "ptx_fp8_cast: ", "params is NULL");
    assert_refused(ptx_fp8_cast_prepare(NULL, NULL),
                   "ptx_fp8_cast_prepare: ", "operations is NULL");
    assert_refused(ptx_fp8_cast_prepare(scene.operations, NULL),
                   "ptx_fp8_cast_prepare: ", "params");
}

#define UPDATE_REFUSED(part, ...)                                                                  \
    do {                                                                                           \
        struct ptx_delayed_scale_update_params p = { .tensors = COUNT,                             \
                                                     .rows = 2,                                    \
                                                     .history = scene.x,                           \
                                                     .scale = scene.dy,                            \
                                                     .scale_inv = scene.dx };                      \
        __VA_ARGS__;                                                                               \
        assert_refused(ptx_delayed_scale_update(scene.operations, &p, gpu.stream),                 \
                       "ptx_delayed_scale_update: ", part);                                        \
    } while (0)

static void test_delayed_scale(void **state)
{
    (void)state;
    UPDATE_REFUSED("format is 5", p.format = (ptx_fp8)5);
    UPDATE_REFUSED("leave one out", p.format = PTX_FP8_E5M2; p.formats = scene.scales);
    UPDATE_REFUSED("margin is 101; it must be from -100 to 100", p.margin = 101);
    UPDATE_REFUSED("margin is -2147483648", p.margin = INT32_MIN);
    UPDATE_REFUSED("rows is 0; the history has 1 row or more", p.rows = 0);
    UPDATE_REFUSED("a history cannot be so large", p.rows = UINT64_MAX);
    UPDATE_REFUSED("a history cannot be so large", p.rows = UINT64_C(1) << 60);
    UPDATE_REFUSED("tensors is 4294967296 and rows 2", p.tensors = UINT64_C(1) << 32);
    UPDATE_REFUSED("history: its address is 0", p.history = 0);
    UPDATE_REFUSED("scale: its address is 0", p.scale = 0);
    UPDATE_REFUSED("scale_inv: its address is 0", p.scale_inv = 0);
    UPDATE_REFUSED("history: its address 0x", p.history += 2);
    UPDATE_REFUSED("formats: its address 0x", p.formats = scene.scales + 1);
    UPDATE_REFUSED("scale and", p.scale_inv = p.scale);
    UPDATE_REFUSED("history and scale overlap", p.rows = 3);
    UPDATE_REFUSED("history and formats overlap", p.formats = p.history + 4);
    UPDATE_REFUSED("history: 288 elements are 1152 bytes, and its memory ends 768", p.rows = 3;
                   p.history = scene.zero_points);
    UPDATE_REFUSED("formats: 96 elements are", p.formats = scene.zero_points + BYTES - 4);
    assert_refused(ptx_delayed_scale_update(NULL, NULL, NULL),
                   "ptx_delayed_scale_update: ", "operations is NULL");
    assert_refused(ptx_delayed_scale_update(scene.operations, NULL, NULL),
                   "ptx_delayed_scale_update: ", "params is NULL");
    assert_refused(ptx_delayed_scale_update_prepare(NULL, NULL),
                   "ptx_delayed_scale_update_prepare: ", "operations is NULL");
}

#define FAKE_REFUSED(part, ...)                                                                    \
    do {                                                                                           \
        struct ptx_fake_quantize_params p = {                                                      \
            .dtype = PTX_F32, .count = COUNT, .x = scene.x, .y = scene.dx, .scale = 2              \
        };                                                                                         \
        __VA_ARGS__;                                                                               \
        assert_refused(ptx_fake_quantize(scene.operations, &p, gpu.stream),                        \
                       "ptx_fake_quantize: ", part);                                               \
    } while (0)

static void test_fake_quantize(void **state)
{
    (void)state;
    FAKE_REFUSED("dtype is u8; it must be", p.dtype = PTX_U8);
    FAKE_REFUSED("scale is 0; it must be finite and above 0", p.scale = 0);
    FAKE_REFUSED("scale is -2", p.scale = -2);
    FAKE_REFUSED("scale is nan", p.scale = (double)NAN);
    FAKE_REFUSED("which does not fit f32", p.scale = 1e-60);
    FAKE_REFUSED("q_min is 5 and q_max 4", p.q_min = 5; p.q_max = 4);
    FAKE_REFUSED("zero_point is 8; it must be from q_min -8 to q_max 7", p.q_min = -8; p.q_max = 7;
                 p.zero_point = 8);
    FAKE_REFUSED("scales is 0, and learned_zero_points is true", p.learned_zero_points = true);
    FAKE_REFUSED("scale is 2, and scales is 0x", p.scales = p.zero_points = scene.scales);
    FAKE_REFUSED("zero_points: its address is 0", p.scale = 0; p.scales = scene.scales);
    FAKE_REFUSED("no multiple of channels 7 * inner 1", p.scale = 0; p.channels = 7;
                 p.scales = p.zero_points = scene.scales);
    FAKE_REFUSED("inner is 3, and channels is 0; give the number", p.inner = 3);
    FAKE_REFUSED("scales is 0, and channels is 3; with channels, give the address", p.channels = 3);
    FAKE_REFUSED("multiple of its element's 8 bytes", p.dtype = PTX_F64; p.scale = 0;
                 p.learned_zero_points = true; p.scales = scene.scales;
                 p.zero_points = scene.zero_points + 4);
    FAKE_REFUSED("x: its address is 0", p.x = 0);
    FAKE_REFUSED("y: its address is 0", p.y = 0);
    FAKE_REFUSED("not a multiple of its element's 4 bytes", p.y += 2);
    FAKE_REFUSED("x and y overlap", p.y = p.x + 4);
    FAKE_REFUSED("may begin exactly where x does", p.y = p.x + 4);
    FAKE_REFUSED("y and", p.scale = 0; p.scales = p.y; p.zero_points = scene.zero_points);
    FAKE_REFUSED("y: 96 elements are", p.y = scene.zero_points + BYTES - 4);
    FAKE_REFUSED("more than a launch can cover", p.count = UINT64_C(1) << 45);
    assert_refused(ptx_fake_quantize(NULL, NULL, NULL), "ptx_fake_quantize: ", "operations");
    assert_refused(ptx_fake_quantize(scene.operations, NULL, NULL),
                   "ptx_fake_quantize: ", "params is NULL");
    assert_refused(ptx_fake_quantize_prepare(NULL, NULL),
                   "ptx_fake_quantize_prepare: ", "operations is NULL");
}

#define GROUPS_REFUSED(part, ...)                                                                  \
    do {                                                                                           \
        struct ptx_fake_quantize_groups_params p = {                                               \
            .dtype = PTX_F32, .count = COUNT, .x = scene.x, .y = scene.dx, .scales = scene.scales  \
        };                                                                                         \
        __VA_ARGS__;                                                                               \
        assert_refused(ptx_fake_quantize_groups(scene.operations, &p, gpu.stream),                 \
                       "ptx_fake_quantize_groups: ", part);                                        \
    } while (0)

static void test_fake_quantize_groups(void **state)
{
    (void)state;
    GROUPS_REFUSED("dtype is f64; it must be f32, f16 or bf16", p.dtype = PTX_F64);
    GROUPS_REFUSED("dtype is 99; it must be", p.dtype = (ptx_type)99);
    GROUPS_REFUSED("bits is 3; it must be 4 or 8", p.bits = 3);
    GROUPS_REFUSED("levels is 4; it must be", p.levels = (ptx_levels)4);
    GROUPS_REFUSED("levels is -1; it must be", p.levels = (ptx_levels)-1);
    GROUPS_REFUSED("group is 16; it must be 32, 64 or 128", p.group = 16);
    GROUPS_REFUSED("group is 256", p.group = 256);
    GROUPS_REFUSED("count is 96, no multiple of group 64", p.group = 64);
    GROUPS_REFUSED("columns is 48, no multiple of group 32", p.columns = 48);
    GROUPS_REFUSED("count is 96, no multiple of columns 64", p.columns = 64);
    GROUPS_REFUSED("columns is 192, no multiple of group 128", p.columns = 192; p.group = 128);
    GROUPS_REFUSED("symmetric and full levels have no zero points", p.zero_points = scene.dy);
    GROUPS_REFUSED("x: its address is 0", p.x = 0);
    GROUPS_REFUSED("y: its address 0x", p.y += 1);
    GROUPS_REFUSED("scales: its address 0x", p.scales += 2);
    GROUPS_REFUSED("x and y overlap", p.y = p.x + 4);
    GROUPS_REFUSED("overlap", p.scales = p.x);
    GROUPS_REFUSED("scales and zero_points overlap", p.levels = PTX_LEVELS_UNSIGNED;
                   p.zero_points = p.scales);
    GROUPS_REFUSED("scales: 3 elements are 12 bytes, and its memory ends 8",
                   p.scales = scene.zero_points + BYTES - 8);
    GROUPS_REFUSED("more than a launch can cover", p.count = UINT64_C(1) << 45);
    assert_refused(ptx_fake_quantize_groups(NULL, NULL, NULL),
                   "ptx_fake_quantize_groups: ", "operations is NULL");
    assert_refused(ptx_fake_quantize_groups(scene.operations, NULL, NULL),
                   "ptx_fake_quantize_groups: ", "params is NULL");
    assert_refused(ptx_fake_quantize_groups_prepare(scene.operations, NULL),
                   "ptx_fake_quantize_groups_prepare: ", "params is NULL");
}

static void test_no_elements(void **state)
{
    (void)state;
    struct ptx_quantize_backward_params q = { .dtype = PTX_F32, .scale = 1 };
    struct ptx_lerp_backward_params l = { .dtype = PTX_F16 };
    const struct ptx_fake_quantize_params f = { .dtype = PTX_F16, .scale = 1 };
    const struct ptx_fake_quantize_groups_params g = { .dtype = PTX_F16 };
    assert_int_equal(ptx_fake_quantize(scene.operations, &f, gpu.stream), PTX_OK);
    assert_int_equal(ptx_fake_quantize_groups(scene.operations, &g, gpu.stream), PTX_OK);
    const struct ptx_fp8_cast_params c = { .dtype = PTX_F16, .scale = 1 };
    struct ptx_delayed_scale_update_params s = { .tensors = 0 };
    assert_int_equal(ptx_fp8_cast(scene.operations, &c, gpu.stream), PTX_OK);
    assert_int_equal(ptx_delayed_scale_update(scene.operations, &s, gpu.stream), PTX_OK);
    s.margin = 200;
    assert_refused(ptx_delayed_scale_update(scene.operations, &s, gpu.stream),
                   "ptx_delayed_scale_update: ", "margin is 200");
    assert_int_equal(ptx_quantize_backward(scene.operations, &q, gpu.stream), PTX_OK);
    assert_int_equal(ptx_lerp_backward(scene.operations, &l, gpu.stream), PTX_OK);
    // An invalid value is refused for no elements too.
    q.scale = 0;
    assert_refused(ptx_quantize_backward(scene.operations, &q, gpu.stream),
                   "ptx_quantize_backward: ", "scale is 0");
    expect_untouched(scene.memory, PARTS * BYTES);
}

/// If the driver is not asked about addresses, the other checks remain.
static void test_any_address(void **state)
{
    (void)state;
    ptx_operations *any =
        ptx_operations_create(gpu.device, &(struct ptx_operations_params) { .any_address = true });
    assert_non_null(any);
    struct ptx_quantize_backward_params p = good_quantize();
    p.d_input = p.d_output + 4;
    assert_refused(ptx_quantize_backward(any, &p, gpu.stream),
                   "ptx_quantize_backward: ", "overlap");
    p = good_quantize();
    assert_int_equal(ptx_quantize_backward(any, &p, gpu.stream), PTX_OK);
    float dx[COUNT];
    assert_int_equal(ptx_buffer_download(scene.memory, 2 * BYTES, dx, sizeof dx, gpu.stream),
                     PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
    float marked;
    memset(&marked, MARK, sizeof marked);
    for (int k = 0; k < COUNT; k++)
        assert_true(dx[k] == marked / 0.05f);
    ptx_operations_destroy(&any);
}

static void test_operations_outlive_the_handle(void **state)
{
    (void)state;
    ptx_device *second = ptx_device_open(NULL);
    assert_non_null(second);
    ptx_operations *operations = ptx_operations_create(second, NULL);
    ptx_device_close(&second);
    struct ptx_quantize_backward_params p = good_quantize();
    assert_int_equal(ptx_quantize_backward(operations, &p, gpu.stream), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
    ptx_operations_destroy(&operations);
    ptx_operations_destroy(&operations);
    ptx_operations_destroy(NULL);
    assert_null(ptx_operations_create(NULL, NULL));
}

// ---- descriptions -------------------------------------------------------------------------------

static void test_descriptions(void **state)
{
    (void)state;
    struct ptx_operation_description d;
    struct ptx_quantize_backward_params q = { .dtype = PTX_BF16, .count = 100, .scale = 0.1 };
    assert_int_equal(ptx_quantize_backward_describe(&q, &d), PTX_OK);
    assert_string_equal(d.entry, "quantize_ste_backward_bf16");
    assert_true(d.launches == 1 && d.bytes == 600 && d.workspace == 0);
    assert_string_equal(d.accumulator, "none");
    assert_non_null(strstr(d.determinism, "deterministic"));
    q = (struct ptx_quantize_backward_params) {
        .dtype = PTX_F64, .count = 60, .scales = 8, .zero_points = 4, .channels = 5, .inner = 4
    };
    assert_int_equal(ptx_quantize_backward_describe(&q, &d), PTX_OK);
    assert_string_equal(d.entry, "quantize_channel_ste_backward_f64");
    assert_true(d.bytes == 3 * 60 * 8 + 5 * 12);
    q.inner = 5;
    assert_int_equal(ptx_quantize_backward_describe(&q, &d), PTX_ERROR_INVALID);
    assert_int_equal(ptx_quantize_backward_describe(NULL, &d), PTX_ERROR_INVALID);
    struct ptx_lerp_backward_params l = { .dtype = PTX_F32, .count = 10, .d_a = 4, .d_b = 8 };
    assert_int_equal(ptx_lerp_backward_describe(&l, &d), PTX_OK);
    assert_string_equal(d.entry, "lerp_backward_f32");
    assert_true(d.launches == 1 && d.bytes == 120);
    l.d_b = 0;
    l.weight_at = 8;
    assert_int_equal(ptx_lerp_backward_describe(&l, &d), PTX_OK);
    assert_true(d.bytes == 88);
    l.count = 0;
    assert_int_equal(ptx_lerp_backward_describe(&l, &d), PTX_OK);
    assert_string_equal(d.entry, "");
    assert_true(d.launches == 0 && d.bytes == 0);
    assert_int_equal(ptx_lerp_backward_describe(&l, NULL), PTX_ERROR_INVALID);
    struct ptx_fp8_cast_params c = {
        .dtype = PTX_BF16, .count = 1000, .scale_at = 4, .amax = 8, .format = PTX_FP8_E5M2
    };
    assert_int_equal(ptx_fp8_cast_describe(&c, &d), PTX_OK);
    assert_string_equal(d.entry, "cast_fp8_bf16");
    assert_true(d.launches == 1 && d.bytes == 3012 && d.workspace == 0);
    assert_int_equal(ptx_fp8_cast_describe(&c, NULL), PTX_ERROR_INVALID);
    c.count = 0;
    assert_int_equal(ptx_fp8_cast_describe(&c, &d), PTX_OK);
    assert_true(d.launches == 0 && d.bytes == 0);
    assert_int_equal(ptx_fp8_cast_describe(NULL, &d), PTX_ERROR_INVALID);
    struct ptx_delayed_scale_update_params s = { .tensors = 10, .rows = 3, .formats = 4 };
    assert_int_equal(ptx_delayed_scale_update_describe(&s, &d), PTX_OK);
    assert_string_equal(d.entry, "delayed_scale_update_f32");
    assert_true(d.launches == 1 && d.bytes == 2 * 120 + 10 * 16);
    assert_int_equal(ptx_delayed_scale_update_describe(&s, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_delayed_scale_update_describe(NULL, &d), PTX_ERROR_INVALID);
    struct ptx_fake_quantize_params f = {
        .dtype = PTX_BF16, .count = 60, .scales = 8, .zero_points = 4, .channels = 5, .inner = 4
    };
    assert_int_equal(ptx_fake_quantize_describe(&f, &d), PTX_OK);
    assert_string_equal(d.entry, "fake_quantize_channel_bf16");
    assert_true(d.launches == 1 && d.bytes == 2 * 60 * 2 + 5 * 8);
    assert_int_equal(ptx_fake_quantize_describe(&f, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_fake_quantize_describe(NULL, &d), PTX_ERROR_INVALID);
    struct ptx_fake_quantize_groups_params g = { .dtype = PTX_F32, .count = 640, .scales = 4 };
    assert_int_equal(ptx_fake_quantize_groups_describe(&g, &d), PTX_OK);
    assert_string_equal(d.entry, "fake_quantize_groups_f32");
    assert_true(d.launches == 1 && d.bytes == 2 * 640 * 4 + 20 * 4);
    assert_int_equal(ptx_fake_quantize_groups_describe(&g, NULL), PTX_ERROR_INVALID);
    g.count = 0;
    assert_int_equal(ptx_fake_quantize_groups_describe(&g, &d), PTX_OK);
    assert_true(d.launches == 0 && d.bytes == 0);
    assert_int_equal(
        ptx_loss_scale_update_describe(&(struct ptx_loss_scale_update_params) { 0 }, &d), PTX_OK);
    assert_string_equal(d.entry, "loss_scale_update_f32");
    assert_true(d.launches == 1 && d.bytes == 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_quantize_addresses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_quantize_scalars, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_quantize_channels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lerp, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_loss_scale, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_by_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fp8_cast, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_delayed_scale, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fake_quantize, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fake_quantize_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_elements, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_any_address, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_operations_outlive_the_handle, set_up, tear_down),
        cmocka_unit_test(test_descriptions),
    };
    gpu_open(&gpu);
    int failed = cmocka_run_group_tests_name("operations: input", tests, NULL, NULL);
    gpu_close(&gpu);
    return failed;
}

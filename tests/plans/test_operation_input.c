// SPDX-License-Identifier: MIT
// The arguments that one-call operations refuse. The message names the argument, and nothing is
// written. Also their descriptions.
#include <inttypes.h>
#include <math.h>

#include "input_arrays.h"
#include "operation_fixture.h"

enum { COUNT = 96, BYTES = COUNT * 8, PARTS = 8 };

/// Places with room for COUNT elements of any type, the last of them at the end of memory. Every
/// byte is MARK.
static struct {
    ptx_operations *operations;
    ptx_buffer *memory;
    CUdeviceptr x, dy, dx, scales, d_scales, d_zeros, workspace, last;
} scene;

static int set_up(void **state)
{
    (void)state;
    const struct scene made = scene_create(PARTS * BYTES);
    CUdeviceptr *const places[PARTS] = { &scene.x,         &scene.dy,       &scene.dx,
                                         &scene.scales,    &scene.d_scales, &scene.d_zeros,
                                         &scene.workspace, &scene.last };
    scene.operations = made.operations;
    scene.memory = made.memory;
    for (unsigned k = 0; k < PARTS; k++)
        *places[k] = ptx_buffer_address(made.memory) + k * BYTES;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ptx_buffer_destroy(&scene.memory);
    ptx_operations_destroy(&scene.operations);
    return 0;
}

static void refused(ptx_status status, const char *function, const char *part)
{
    expect_refusal(status, function, part, scene.memory, PARTS * BYTES);
}

// Arguments that are not refused.
#define RIGHT_quantize_backward                                                                    \
    .dtype = PTX_F32, .count = COUNT, .x = scene.x, .d_output = scene.dy, .d_input = scene.dx,     \
    .scale = 0.05
#define RIGHT_fake_quantize                                                                        \
    .dtype = PTX_F32, .count = COUNT, .x = scene.x, .y = scene.dx, .scale = 2
#define RIGHT_fake_quantize_groups                                                                 \
    .dtype = PTX_F32, .count = COUNT, .x = scene.x, .y = scene.dx, .scales = scene.scales
#define RIGHT_quantize_learned_backward                                                            \
    .dtype = PTX_F32, .count = COUNT, .x = scene.x, .d_output = scene.dy, .d_input = scene.dx,     \
    .scales = scene.scales, .zero_points = scene.last, .d_scales = scene.d_scales,                 \
    .d_zero_points = scene.d_zeros, .workspace = scene.workspace, .grad_factor = 1
#define RIGHT_observer_update                                                                      \
    .dtype = PTX_F32, .count = COUNT, .x = scene.x, .state = scene.dy, .scales = scene.scales,     \
    .zero_points = scene.last, .averaging_constant = 0.01f
#define RIGHT_lerp_backward                                                                        \
    .dtype = PTX_F64, .count = COUNT, .d_output = scene.dy, .d_a = scene.x, .d_b = scene.dx,       \
    .weight = 0.5
#define RIGHT_fp8_cast .dtype = PTX_BF16, .count = COUNT, .x = scene.x, .y = scene.dx, .scale = 2
#define RIGHT_delayed_scale_update                                                                 \
    .tensors = COUNT, .rows = 2, .history = scene.x, .scale = scene.dy, .scale_inv = scene.dx
#define RIGHT_loss_scale_update .state = scene.x, .found_inf = scene.dy

// With this change, `p`, the arguments of OPERATION, are refused with these words.
#define REFUSED(words, ...)          REFUSED_BY(OPERATION, words, __VA_ARGS__)
#define REFUSED_BY(name, words, ...) REFUSED_BY_NAME(name, words, __VA_ARGS__)
#define REFUSED_BY_NAME(name, words, ...)                                                          \
    do {                                                                                           \
        struct ptx_##name##_params p = { RIGHT_##name };                                           \
        __VA_ARGS__;                                                                               \
        refused(ptx_##name(scene.operations, &p, gpu.stream), "ptx_" #name ": ", words);           \
    } while (0)

static void by_channels(struct ptx_quantize_backward_params *p, uint64_t channels, uint64_t inner)
{
    p->scale = 0;
    p->scales = scene.scales;
    p->zero_points = scene.last;
    p->channels = channels;
    p->inner = inner;
}

// ---- addresses ----------------------------------------------------------------------------------

static ptx_status (*call)(void); ///< whose addresses are wrong
static const char *call_name;

static void refuse_address(const struct input_array *of, const struct input_array *over,
                           const char *words)
{
    refused(call(), call_name, words);
    expect_failure(PTX_ERROR_INVALID, of->name);
    if (over)
        expect_failure(PTX_ERROR_INVALID, over->name);
}

// The arrays of an operation with these arguments, each as A(member, bytes of an element, elements,
// access).
#define ARRAYS_OF(name, change, ...)                                                               \
    static struct ptx_##name##_params name##_params;                                               \
    static ptx_status name##_call(void)                                                            \
    {                                                                                              \
        return ptx_##name(scene.operations, &name##_params, gpu.stream);                           \
    }                                                                                              \
    TEST_WITH(test_addresses_of_##name, set_up, tear_down)                                         \
    {                                                                                              \
        struct ptx_##name##_params *p = &name##_params;                                            \
        *p = (struct ptx_##name##_params) { RIGHT_##name };                                        \
        change;                                                                                    \
        const struct input_array arrays[] = { __VA_ARGS__ };                                       \
        call = name##_call;                                                                        \
        call_name = "ptx_" #name ": ";                                                             \
        input_arrays_check(arrays, sizeof arrays / sizeof *arrays, scene.last + BYTES,             \
                           refuse_address);                                                        \
        require(call());                                                                           \
    }
#define A(member, bytes, count, access)                                                            \
    {                                                                                              \
        &p->member, #member, bytes, count, access, NULL                                            \
    }
#define IN_PLACE(member, bytes, count, access, of)                                                 \
    {                                                                                              \
        &p->member, #member, bytes, count, INPUT_WRITTEN | INPUT_IN_PLACE | (access), &p->of       \
    }
enum { READ = 0, WRITTEN = INPUT_WRITTEN, OPTIONAL = INPUT_OPTIONAL };

ARRAYS_OF(quantize_backward, by_channels(p, 3, 1), A(x, 4, COUNT, READ),
          A(d_output, 4, COUNT, READ), IN_PLACE(d_input, 4, COUNT, 0, d_output),
          A(scales, 4, 3, OPTIONAL), A(zero_points, 4, 3, READ))
ARRAYS_OF(fake_quantize,
          (p->scale = 0, p->channels = 3, p->scales = scene.scales, p->zero_points = scene.last),
          A(x, 4, COUNT, READ), IN_PLACE(y, 4, COUNT, 0, x), A(scales, 4, 3, OPTIONAL),
          A(zero_points, 4, 3, READ))
ARRAYS_OF(fake_quantize_groups, (p->levels = PTX_LEVELS_UNSIGNED, p->zero_points = scene.dy),
          A(x, 4, COUNT, READ), IN_PLACE(y, 4, COUNT, 0, x), A(scales, 4, 3, WRITTEN | OPTIONAL),
          A(zero_points, 4, 3, WRITTEN | OPTIONAL))
ARRAYS_OF(quantize_learned_backward, (p->count = 2 * COUNT, p->channels = 1, p->inner = COUNT),
          A(x, 4, 2 * COUNT, READ), A(d_output, 4, 2 * COUNT, READ),
          IN_PLACE(d_input, 4, 2 * COUNT, 0, d_output), A(scales, 4, 1, READ),
          A(zero_points, 4, 1, OPTIONAL), A(d_scales, 4, 1, WRITTEN),
          A(d_zero_points, 4, 1, WRITTEN), A(workspace, 8, 4, WRITTEN))
ARRAYS_OF(observer_update, (void)p, A(x, 4, COUNT, READ), A(state, 4, 4, WRITTEN),
          A(scales, 4, 1, WRITTEN), A(zero_points, 4, 1, WRITTEN))
ARRAYS_OF(lerp_backward, (p->weight = 0, p->weight_at = scene.scales), A(d_output, 8, COUNT, READ),
          IN_PLACE(d_a, 8, COUNT, OPTIONAL, d_output), IN_PLACE(d_b, 8, COUNT, OPTIONAL, d_output),
          A(weight_at, 8, 1, OPTIONAL))
ARRAYS_OF(fp8_cast, (p->scale = 0, p->scale_at = scene.scales, p->amax = scene.d_scales),
          A(x, 2, COUNT, READ), A(y, 1, COUNT, WRITTEN), A(scale_at, 4, 1, OPTIONAL),
          A(amax, 4, 1, WRITTEN | OPTIONAL))
ARRAYS_OF(delayed_scale_update, p->formats = scene.scales, A(history, 4, 2 * COUNT, WRITTEN),
          A(scale, 4, COUNT, WRITTEN), A(scale_inv, 4, COUNT, WRITTEN),
          A(formats, 4, COUNT, OPTIONAL))
ARRAYS_OF(loss_scale_update, (void)p, A(state, 4, 2, WRITTEN), A(found_inf, 4, 1, READ))

// ---- the other arguments ------------------------------------------------------------------------

TEST_WITH(test_no_arguments, set_up, tear_down)
{
    struct ptx_operation_description d;
#define NONE(name, ...)                                                                            \
    refused(ptx_##name(NULL, NULL, NULL), "ptx_" #name ": ", "operations is NULL");                \
    refused(ptx_##name(scene.operations, NULL, NULL), "ptx_" #name ": ", "params is NULL");        \
    refused(ptx_##name##_prepare(NULL, NULL), "ptx_" #name "_prepare: ", "operations is NULL");    \
    refused(ptx_##name##_prepare(scene.operations, NULL),                                          \
            "ptx_" #name "_prepare: ", "params is NULL");                                          \
    refused(ptx_##name##_describe(NULL, &d), "ptx_" #name "_describe: ", "NULL");                  \
    refused(ptx_##name##_describe(&(struct ptx_##name##_params) { RIGHT_##name }, NULL),           \
            "ptx_" #name "_describe: ", "NULL");
    PTX_OPERATIONS(NONE)
#undef NONE
    assert_null(ptx_operations_create(NULL, NULL));
}

#define OPERATION quantize_backward
TEST_WITH(test_quantize_addresses, set_up, tear_down)
{
    REFUSED("not a multiple of its element's 2 bytes", p.dtype = PTX_F16; p.d_input += 1);
    REFUSED("d_input: its address 0x", p.dtype = PTX_F64; p.d_input += 4);
    REFUSED("d_output and d_input overlap", p.d_input = p.d_output + 4);
    REFUSED("may begin exactly where d_output does", p.d_input = p.d_output - 4);
    REFUSED("overlap", p.d_input = p.x + 4 * (COUNT - 1));
    REFUSED("beyond the end of memory", p.x = UINT64_MAX - 3);
    REFUSED("d_output: 200 elements are 800 bytes, and its memory ends 768 bytes after",
            p.count = 200;
            p.d_output = p.d_input = scene.last);
    ptx_buffer *freed = ptx_buffer_create(gpu.device, 1 << 24);
    const CUdeviceptr address = ptx_buffer_address(freed);
    ptx_buffer_destroy(&freed);
    REFUSED("x: the driver knows no memory", p.x = address);
}

TEST_WITH(test_quantize_scalars, set_up, tear_down)
{
    REFUSED("dtype is u32; it must be f32, f64, f16 or bf16", p.dtype = PTX_U32);
    REFUSED("dtype is none", p.dtype = PTX_NONE);
    REFUSED("dtype is 1000; it must be", p.dtype = (ptx_type)1000);
    REFUSED("scale is 0; it must be finite and above 0", p.scale = 0);
    REFUSED("scale is -1", p.scale = -1);
    REFUSED("scale is nan; it must be finite and above 0", p.scale = (double)NAN);
    REFUSED("scale is inf", p.scale = (double)INFINITY);
    REFUSED("which does not fit f32", p.scale = 1e300);
    REFUSED("which does not fit f32", p.scale = 1e-60; p.dtype = PTX_BF16);
    REFUSED("q_min is 5 and q_max 4", p.q_min = 5; p.q_max = 4);
    REFUSED("zero_point is 128; it must be from q_min -128 to q_max 127", p.zero_point = 128);
    REFUSED("zero_point is -1", p.q_max = 255; p.zero_point = -1);
    REFUSED("more than a launch can cover", p.count = UINT64_MAX);
    REFUSED("more than a launch can cover", p.count = UINT64_C(1) << 45);
}

TEST_WITH(test_quantize_channels, set_up, tear_down)
{
    REFUSED("no multiple of channels 7 * inner 1", by_channels(&p, 7, 0));
    REFUSED("no multiple of channels 3 * inner 64", by_channels(&p, 3, 64));
    REFUSED("no multiple of", by_channels(&p, UINT64_MAX, 2));
    REFUSED("no multiple of", by_channels(&p, UINT64_C(1) << 63, 2));
    REFUSED("inner is 3, and channels is 0; give the number", by_channels(&p, 0, 3));
    REFUSED("scale is 0.5, and scales is 0x", by_channels(&p, 3, 1); p.scale = 0.5);
    REFUSED("zero_point is 1, and scales is 0x", by_channels(&p, 3, 1); p.zero_point = 1);
    REFUSED("scales is 0, and channels is 3; with channels, give the address", p.channels = 3);
    REFUSED("scales is 0, and zero_points is 0x", by_channels(&p, 3, 1); p.scales = 0);
    REFUSED("multiple of its element's 8 bytes", by_channels(&p, 3, 1); p.dtype = PTX_F64;
            p.scales += 4);
    REFUSED("d_input and scales overlap", by_channels(&p, 96, 1); p.scales = p.d_input - 4);
    REFUSED("zero_points: 96 elements are", by_channels(&p, 96, 1);
            p.zero_points += BYTES - 4 * 95);
}

#undef OPERATION
#define OPERATION fake_quantize
TEST_WITH(test_fake_quantize, set_up, tear_down)
{
    REFUSED("dtype is u8; it must be", p.dtype = PTX_U8);
    REFUSED("scale is 0; it must be finite and above 0", p.scale = 0);
    REFUSED("scale is -2", p.scale = -2);
    REFUSED("scale is nan", p.scale = (double)NAN);
    REFUSED("which does not fit f32", p.scale = 1e-60);
    REFUSED("q_min is 5 and q_max 4", p.q_min = 5; p.q_max = 4);
    REFUSED("zero_point is 8; it must be from q_min -8 to q_max 7", p.q_min = -8; p.q_max = 7;
            p.zero_point = 8);
    REFUSED("scales is 0, and learned_zero_points is true", p.learned_zero_points = true);
    REFUSED("scale is 2, and scales is 0x", p.scales = p.zero_points = scene.scales);
    REFUSED("no multiple of channels 7 * inner 1", p.scale = 0; p.channels = 7;
            p.scales = p.zero_points = scene.scales);
    REFUSED("inner is 3, and channels is 0; give the number", p.inner = 3);
    REFUSED("scales is 0, and channels is 3; with channels, give the address", p.channels = 3);
    REFUSED("multiple of its element's 8 bytes", p.dtype = PTX_F64; p.scale = 0;
            p.learned_zero_points = true; p.scales = scene.scales; p.zero_points = scene.last + 4);
    REFUSED("x and y overlap", p.y = p.x + 4);
    REFUSED("may begin exactly where x does", p.y = p.x + 4);
    REFUSED("more than a launch can cover", p.count = UINT64_C(1) << 45);
}

#undef OPERATION
#define OPERATION fake_quantize_groups
TEST_WITH(test_fake_quantize_groups, set_up, tear_down)
{
    REFUSED("dtype is f64; it must be f32, f16 or bf16", p.dtype = PTX_F64);
    REFUSED("dtype is 99; it must be", p.dtype = (ptx_type)99);
    REFUSED("bits is 3; it must be 4 or 8", p.bits = 3);
    REFUSED("levels is 4; it must be", p.levels = (ptx_levels)4);
    REFUSED("levels is -1; it must be", p.levels = (ptx_levels)-1);
    REFUSED("group is 16; it must be 32, 64 or 128", p.group = 16);
    REFUSED("group is 256", p.group = 256);
    REFUSED("count is 96, no multiple of group 64", p.group = 64);
    REFUSED("columns is 48, no multiple of group 32", p.columns = 48);
    REFUSED("count is 96, no multiple of columns 64", p.columns = 64);
    REFUSED("columns is 192, no multiple of group 128", p.columns = 192; p.group = 128);
    REFUSED("symmetric and full levels have no zero points", p.zero_points = scene.dy);
    REFUSED("x and y overlap", p.y = p.x + 4);
    REFUSED("more than a launch can cover", p.count = UINT64_C(1) << 45);
}

#undef OPERATION
#define OPERATION quantize_learned_backward
TEST_WITH(test_learned, set_up, tear_down)
{
    REFUSED("dtype is s32", p.dtype = PTX_S32);
    REFUSED("workspace: its address is 0, and the call needs 32 bytes there, as "
            "ptx_quantize_learned_backward_describe() says",
            p.workspace = 0;
            p.count = 2 * COUNT; p.channels = 1; p.inner = COUNT);
    REFUSED("zero_points is 0, and fixed_zero_points is 0; one of", p.zero_points = 0);
    REFUSED("leave one out", p.fixed_zero_points = p.zero_points);
    REFUSED("fixed zero points have no gradient", p.fixed_zero_points = p.zero_points;
            p.zero_points = 0);
    REFUSED("q_min is 3 and q_max 2", p.q_min = 3; p.q_max = 2);
    REFUSED("grad_factor is 0; it must be given: finite, not 0", p.grad_factor = 0);
    REFUSED("grad_factor is nan", p.grad_factor = (double)NAN);
    REFUSED("grad_factor is inf", p.grad_factor = (double)INFINITY);
    REFUSED("inner is 4, and channels is 0", p.inner = 4);
    REFUSED("no multiple of channels 7 * inner 1", p.channels = 7);
    REFUSED("no multiple of channels 3 * inner 64", p.channels = 3; p.inner = 64);
    REFUSED("no multiple", p.channels = UINT64_MAX; p.inner = 2);
    REFUSED("group is 48; it must be 32, 64 or 128", p.group = 48);
    REFUSED("count is 96, no multiple of group 64", p.group = 64);
    REFUSED("columns is 48, no multiple of group 32", p.group = 32; p.columns = 48);
    REFUSED("no multiple of columns 64, the length of", p.group = 32; p.columns = 64);
    REFUSED("columns is 48, and group is 0", p.columns = 48);
    REFUSED("channels is 3, and group is 32", p.group = 32; p.channels = 3);
    REFUSED("dtype is f64", p.group = 32; p.dtype = PTX_F64);
    REFUSED("inner is 32, and channels is 0", p.group = 32; p.inner = 32);
    REFUSED("zero_points and d_scales overlap", p.group = 32; p.d_scales = p.zero_points + 8);
    REFUSED("its memory ends", p.group = 32; p.d_zero_points = scene.last + BYTES - 8);
    REFUSED("count is", p.group = 32; p.count = UINT64_MAX / 4 / 32 * 32);
    REFUSED("count is", p.count = UINT64_MAX / 4);
    REFUSED("d_output and d_input overlap", p.d_input = p.d_output + 4);
}

#undef OPERATION
#define OPERATION observer_update
TEST_WITH(test_observer, set_up, tear_down)
{
    REFUSED("dtype is s32", p.dtype = PTX_S32);
    REFUSED("averaging_constant is 0; it must be given: above 0, at most 1",
            p.averaging_constant = 0);
    REFUSED("averaging_constant is -0.5", p.averaging_constant = -0.5f);
    REFUSED("averaging_constant is 2", p.averaging_constant = 2);
    REFUSED("averaging_constant is nan", p.averaging_constant = NAN);
    REFUSED("eps is -1", p.eps = -1);
    REFUSED("eps is inf", p.eps = INFINITY);
    REFUSED("q_min is 3 and q_max 2", p.q_min = 3; p.q_max = 2);
    REFUSED("q_min and q_max are both 7", p.q_min = p.q_max = 7);
    REFUSED("zero_point is 1, and symmetric is false; only a symmetric scheme", p.zero_point = 1);
    REFUSED("zero_point is 128; it must be from q_min -128 to q_max 127", p.symmetric = true;
            p.zero_point = 128);
    REFUSED("state and scales overlap", p.scales = p.state + 12);
    REFUSED("count is", p.count = UINT64_MAX / 4);
}

#undef OPERATION
#define OPERATION lerp_backward
TEST_WITH(test_lerp, set_up, tear_down)
{
    REFUSED("dtype is s32", p.dtype = PTX_S32);
    REFUSED("d_a is 0, and d_b is 0; one of them must be an address", p.d_a = p.d_b = 0);
    REFUSED("weight is nan; it must be a number", p.weight = (double)NAN);
    REFUSED("weight is 0.5, and weight_at is 0x", p.weight_at = scene.scales);
    REFUSED("d_a and", p.d_a = p.d_b = p.d_output);
    REFUSED("may begin exactly where d_output does", p.d_b = p.d_output + 8);
    REFUSED("weight_at", p.weight = 0; p.weight_at = p.d_a + 8);
}

#undef OPERATION
#define OPERATION fp8_cast
TEST_WITH(test_fp8_cast, set_up, tear_down)
{
    REFUSED("dtype is f64; it must be f32, f16 or bf16", p.dtype = PTX_F64);
    REFUSED("dtype is u8", p.dtype = PTX_U8);
    REFUSED("dtype is 99; it must be", p.dtype = (ptx_type)99);
    REFUSED("format is 2; it must be PTX_FP8_E4M3 (0) or PTX_FP8_E5M2 (1)", p.format = (ptx_fp8)2);
    REFUSED("scale is 0; it must be finite and above 0, or scale_at", p.scale = 0);
    REFUSED("scale is -1", p.scale = -1);
    REFUSED("scale is nan", p.scale = (double)NAN);
    REFUSED("scale is inf; it", p.scale = (double)INFINITY);
    REFUSED("1e+300, which does not fit f32", p.scale = 1e300);
    REFUSED("which does not fit f32", p.scale = 1e-60);
    REFUSED("scale is 2, and scale_at is 0x", p.scale_at = scene.scales);
    REFUSED("x and y overlap", p.y = p.x + 2 * COUNT - 1);
    REFUSED("y and amax overlap", p.amax = p.y + COUNT - 4);
    REFUSED("more than a launch can cover", p.count = UINT64_MAX);
    REFUSED("more than a launch can cover", p.count = UINT64_C(1) << 45);
}

#undef OPERATION
#define OPERATION delayed_scale_update
TEST_WITH(test_delayed_scale, set_up, tear_down)
{
    REFUSED("format is 5", p.format = (ptx_fp8)5);
    REFUSED("leave one out", p.format = PTX_FP8_E5M2; p.formats = scene.scales);
    REFUSED("margin is 101; it must be from -100 to 100", p.margin = 101);
    REFUSED("margin is -2147483648", p.margin = INT32_MIN);
    REFUSED("rows is 0; the history has 1 row or more", p.rows = 0);
    REFUSED("a history cannot be so large", p.rows = UINT64_MAX);
    REFUSED("a history cannot be so large", p.rows = UINT64_C(1) << 60);
    REFUSED("tensors is 4294967296 and rows 2", p.tensors = UINT64_C(1) << 32);
    REFUSED("history and scale overlap", p.rows = 3);
    REFUSED("history and formats overlap", p.formats = p.history + 4);
    REFUSED("history: 288 elements are 1152 bytes, and its memory ends 768", p.rows = 3;
            p.history = scene.last);
}

#define SCALE_REFUSED(part, ...)                                                                   \
    do {                                                                                           \
        const struct ptx_loss_scale_params p = { __VA_ARGS__ };                                    \
        struct ptx_loss_scale_state host = { 2.0f, 3 };                                            \
        const struct ptx_loss_scale_update_params update = { scene.x, scene.dy, p };               \
        refused(ptx_loss_scale_update(scene.operations, &update, gpu.stream),                      \
                "ptx_loss_scale_update: ", part);                                                  \
        refused(ptx_loss_scale_step(&host, true, &p), "ptx_loss_scale_step: ", part);              \
        assert_true(host.scale == 2.0f && host.growth_tracker == 3);                               \
        refused(ptx_loss_scale_update_describe(&update, NULL),                                     \
                "ptx_loss_scale_update_describe: ", part);                                         \
    } while (0)

#undef OPERATION
#define OPERATION loss_scale_update
TEST_WITH(test_loss_scale, set_up, tear_down)
{
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
    REFUSED("overlap", p.found_inf = p.state + 4);
    struct ptx_loss_scale_state bad = { NAN, 0 };
    refused(ptx_loss_scale_step(&bad, true, NULL), "ptx_loss_scale_step: ", "state->scale is nan");
    bad.scale = INFINITY;
    refused(ptx_loss_scale_step(&bad, true, NULL), "ptx_loss_scale_step: ", "state->scale is inf");
    bad.scale = -1;
    refused(ptx_loss_scale_step(&bad, true, NULL), "ptx_loss_scale_step: ", "state->scale is -1");
    refused(ptx_loss_scale_step(NULL, true, NULL), "ptx_loss_scale_step: ", "state is NULL");
}

// An operation by its number is the same call; a number of no operation is refused.
TEST_WITH(test_by_number, set_up, tear_down)
{
    struct ptx_operation_description d, other;
    const struct ptx_fp8_cast_params p = { RIGHT_fp8_cast };
    assert_int_equal(ptx_operation_describe(PTX_OPERATION_fp8_cast, &p, &d), PTX_OK);
    assert_int_equal(ptx_fp8_cast_describe(&p, &other), PTX_OK);
    assert_string_equal(d.entry, "cast_fp8_bf16");
    assert_string_equal(d.entry, other.entry);
    assert_true(d.launches == 1 && d.launches == other.launches && d.bytes == other.bytes);
    const ptx_operation none[] = { PTX_OPERATION_COUNT, (ptx_operation)-1 };
    for (size_t k = 0; k < 2; k++) {
        refused(ptx_operation_run(scene.operations, none[k], &p, gpu.stream),
                "ptx_operation_run: ", "is no operation");
        refused(ptx_operation_prepare(scene.operations, none[k], &p),
                "ptx_operation_prepare: ", "is no operation");
        refused(ptx_operation_describe(none[k], &p, &d),
                "ptx_operation_describe: ", "is no operation");
    }
}

TEST_WITH(test_no_elements, set_up, tear_down)
{
#define NOTHING(name, ...)                                                                         \
    do {                                                                                           \
        struct ptx_##name##_params p = { RIGHT_##name };                                           \
        __VA_ARGS__;                                                                               \
        require(ptx_##name(scene.operations, &p, gpu.stream));                                     \
    } while (0)
    NOTHING(quantize_backward, p.count = p.x = p.d_output = p.d_input = 0);
    NOTHING(fake_quantize, p.count = p.x = p.y = 0);
    NOTHING(fake_quantize_groups, p.count = p.x = p.y = p.scales = 0);
    NOTHING(observer_update, p.count = 0);
    NOTHING(lerp_backward, p.count = p.d_output = p.d_a = p.d_b = 0; p.weight = 0);
    NOTHING(fp8_cast, p.count = p.x = p.y = 0);
    NOTHING(delayed_scale_update, p.tensors = p.history = p.scale = p.scale_inv = 0; p.rows = 0);
#undef NOTHING
    expect_untouched(scene.memory, PARTS * BYTES);
    // An invalid value is refused for no elements too.
#undef OPERATION
#define OPERATION quantize_backward
    REFUSED("scale is 0", p.count = 0; p.scale = 0);
#undef OPERATION
#define OPERATION delayed_scale_update
    REFUSED("margin is 200", p.tensors = 0; p.margin = 200);
}

/// If the driver is not asked about addresses, the other checks remain.
TEST_WITH(test_any_address, set_up, tear_down)
{
    OWNED(ptx_operations) *any = made(
        ptx_operations_create(gpu.device, &(struct ptx_operations_params) { .any_address = true }));
    struct ptx_quantize_backward_params p = { RIGHT_quantize_backward };
    p.d_input = p.d_output + 4;
    refused(ptx_quantize_backward(any, &p, gpu.stream), "ptx_quantize_backward: ", "overlap");
    p.d_input = scene.dx;
    assert_int_equal(ptx_quantize_backward(any, &p, gpu.stream), PTX_OK);
    float dx[COUNT];
    assert_int_equal(ptx_buffer_download(scene.memory, 2 * BYTES, dx, sizeof dx, gpu.stream),
                     PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
    float marked;
    memset(&marked, MARK, sizeof marked);
    for (int k = 0; k < COUNT; k++)
        assert_true(dx[k] == marked / 0.05f);
}

// ---- descriptions -------------------------------------------------------------------------------

// With this change, the arguments are described so.
#define DESCRIBED(name, entry_, launches_, bytes_, workspace_, ...)                                \
    do {                                                                                           \
        struct ptx_##name##_params p = { RIGHT_##name };                                           \
        __VA_ARGS__;                                                                               \
        require(ptx_##name##_describe(&p, &d));                                                    \
        assert_string_equal(d.entry, entry_);                                                      \
        assert_int_equal(d.launches, launches_);                                                   \
        assert_int_equal(d.bytes, bytes_);                                                         \
        assert_int_equal(d.workspace, workspace_);                                                 \
    } while (0)

TEST_WITH(test_descriptions, set_up, tear_down)
{
    struct ptx_operation_description d;
    DESCRIBED(quantize_backward, "quantize_ste_backward_bf16", 1, 600, 0, p.dtype = PTX_BF16;
              p.count = 100);
    assert_string_equal(d.accumulator, "none");
    assert_non_null(strstr(d.determinism, "deterministic"));
    DESCRIBED(quantize_backward, "quantize_channel_ste_backward_f64", 1, 3 * 60 * 8 + 5 * 12, 0,
              p.dtype = PTX_F64;
              p.count = 60; by_channels(&p, 5, 4));
    DESCRIBED(
        fake_quantize, "fake_quantize_channel_bf16", 1, 2 * 60 * 2 + 5 * 8, 0, p.dtype = PTX_BF16;
        p.count = 60; p.scale = 0; p.scales = 8; p.zero_points = 4; p.channels = 5; p.inner = 4);
    DESCRIBED(fake_quantize_groups, "fake_quantize_groups_f32", 1, 2 * 640 * 4 + 20 * 4, 0,
              p.count = 640);
    DESCRIBED(fake_quantize_groups, "", 0, 0, 0, p.count = 0);
    DESCRIBED(observer_update, "observe_min_max_bf16", 2, 2 * 5000 + 40, 0, p.dtype = PTX_BF16;
              p.count = 5000);
    DESCRIBED(observer_update, "", 0, 0, 0, p.count = 0);
    DESCRIBED(lerp_backward, "lerp_backward_f32", 1, 120, 0, p.dtype = PTX_F32; p.count = 10);
    DESCRIBED(lerp_backward, "lerp_backward_f32", 1, 88, 0, p.dtype = PTX_F32; p.count = 10;
              p.d_b = 0; p.weight = 0; p.weight_at = 8);
    DESCRIBED(lerp_backward, "", 0, 0, 0, p.count = 0);
    DESCRIBED(fp8_cast, "cast_fp8_bf16", 1, 3012, 0, p.count = 1000; p.scale = 0; p.scale_at = 4;
              p.amax = 8; p.format = PTX_FP8_E5M2);
    DESCRIBED(fp8_cast, "", 0, 0, 0, p.count = 0);
    DESCRIBED(delayed_scale_update, "delayed_scale_update_f32", 1, 2 * 120 + 10 * 16, 0,
              p.tensors = 10;
              p.rows = 3; p.formats = 4);
    DESCRIBED(loss_scale_update, "loss_scale_update_f32", 1, 20, 0, (void)p);
    struct ptx_quantize_backward_params no_multiple = { RIGHT_quantize_backward };
    by_channels(&no_multiple, 5, 5);
    assert_int_equal(ptx_quantize_backward_describe(&no_multiple, &d), PTX_ERROR_INVALID);
}

// The sums of a learned quantizer need memory: two f64 a block, or one where zero points are fixed.
TEST_WITH(test_learned_descriptions, set_up, tear_down)
{
    struct ptx_operation_description d;
    const uint64_t n = 1 << 20;
    DESCRIBED(quantize_learned_backward, "quantize_learned_backward_bf16", 2,
              6 * n + 2 * d.workspace + 16, 2 * 8 * 64, p.dtype = PTX_BF16;
              p.count = n);
    assert_string_equal(d.accumulator, "f64");
    DESCRIBED(quantize_learned_backward, "quantize_learned_groups_bf16", 1,
              6 * n + 16 * (UINT64_C(1) << 13), 0, p.dtype = PTX_BF16;
              p.count = n; p.group = 128);
    DESCRIBED(quantize_learned_backward, "", 0, 0, 0, p.count = 0);
    struct ptx_quantize_learned_backward_params p = { RIGHT_quantize_learned_backward };
    p.count = n;
    p.channels = 1024;
    require(ptx_quantize_learned_backward_describe(&p, &d));
    assert_int_equal(d.workspace, 2 * 8 * 32 * 1024); // columns
    p.fixed_zero_points = p.zero_points;
    p.zero_points = p.d_zero_points = 0;
    p.inner = 512;
    require(ptx_quantize_learned_backward_describe(&p, &d));
    assert_int_equal(d.workspace, 8 * 2048); // rows
    p.inner = 1024;
    require(ptx_quantize_learned_backward_describe(&p, &d));
    assert_int_equal(d.workspace, 0); // whole rows
    assert_int_equal(d.launches, 1);
    p.count = 0;
    p.q_max = -200;
    assert_int_equal(ptx_quantize_learned_backward_describe(&p, &d), PTX_ERROR_INVALID);
}

GPU_MAIN

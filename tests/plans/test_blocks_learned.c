// SPDX-License-Identifier: MIT
// Block plans whose amaxes are learned, against plain C, bit for bit: what they quantize, and the
// gradients of lists; and what is refused.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_calls.h"
#include "reference/blocks.h"
#include "test.h"

#define GRAD_FACTOR 0.10206207261596575 // 1 / sqrt(96)
enum { BLOCK = 16, TENSORS = 3, MOST = 6000, GUARD = 16 };

static const ptx_type types[] = { PTX_BF16, PTX_F32, PTX_F16 };

// ---- a list -------------------------------------------------------------------------------------

// Of a tensor; values as the type has them. In the buffer each array has its own room.
struct tensor {
    uint64_t rows, columns, count;
    float amax, x[MOST], d[MOST], amaxes[MOST / BLOCK];
    float y[MOST], d_x[MOST], d_amaxes[MOST / BLOCK]; // expected
};
enum array { X, D, Y, D_X, AMAXES, D_AMAXES, AMAX, ARRAYS };
enum { ROOM = (MOST + 2 * GUARD) * 4, FILL = 0xa5 };

static struct tensor tensors[TENSORS];
static uint8_t before[TENSORS][ARRAYS][ROOM], after[TENSORS][ARRAYS][ROOM];

// Elements in range, beyond it and at its bounds; some blocks of what else there may be.
static void make(struct random *r, struct tensor *t, ptx_type type)
{
    static const float others[] = { 0, -0.0f, NAN, INFINITY, -INFINITY, FLT_TRUE_MIN, 0x1p120f };
    static const float odd[] = { 0, -1, NAN, 0x1p-140f, 0x1p-30f, INFINITY, 1e30f };

    t->columns = BLOCK * (1 + random_below(r, 12));
    t->rows = random_below(r, (uint32_t)(MOST / t->columns));
    t->count = t->rows * t->columns;
    t->amax = 0;
    for (uint64_t block = 0; block < t->count / BLOCK; block++) {
        const bool is_odd = random_below(r, 10) == 0;
        const double size = ldexp(1, (int)random_below(r, 9) - 4);
        float amax = (float)(size * (0.25 + fabs(random_unit(r))));
        if (is_odd && random_below(r, 2))
            amax = odd[random_below(r, sizeof odd / sizeof *odd)];
        t->amaxes[block] = amax;
        t->amax = isfinite(amax) && amax < 1e9f && amax > t->amax ? amax : t->amax;
        for (uint64_t i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
            uint32_t room;
            float x = (float)(size * random_unit(r));
            if (random_below(r, 4) == 0)
                x = (float)((int)random_below(r, 17) - 8) * amax / 6; // between floats, if exact
            if (is_odd && random_below(r, 3) == 0)
                x = others[random_below(r, sizeof others / sizeof *others)];
            gpu_set_element(type, &room, 0, x);
            t->x[i] = gpu_element(type, &room, 0);
            gpu_set_element(type, &room, 0, (float)random_unit(r));
            t->d[i] = gpu_element(type, &room, 0);
        }
    }
    if (random_below(r, 6) == 0)
        t->amax = fabsf(odd[random_below(r, sizeof odd / sizeof *odd)]);
}

static void put(ptx_type type, uint8_t *room, unsigned skew, const float *from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        gpu_set_element(type, room + skew, i, from[i]);
}

static void same(ptx_type type, const char *what, const uint8_t *found, unsigned skew,
                 const float *expected, uint64_t count)
{
    const unsigned bytes = ptx_type_bytes(type);

    for (uint64_t i = 0; i < ROOM; i++)
        if ((i < skew || i >= skew + count * bytes) && found[i] != FILL)
            fail_msg("%s: byte %d is written", what, (int)i);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t room = 0;
        gpu_set_element(type, &room, 0, expected[i]);
        const float y = gpu_element(type, found + skew, i), wanted = gpu_element(type, &room, 0);
        if (memcmp(&y, &wanted, sizeof y) != 0 && !(isnan(y) && isnan(wanted)))
            fail_msg("%s %s: element %d is %a and not %a", ptx_type_name(type), what, (int)i,
                     (double)y, (double)wanted);
    }
}

static void run(struct random *r, ptx_type type, ptx_block_like like)
{
    struct ptx_block_params params = { .dtype = type, .like = like, .learned = true };
    OWNED(ptx_block_plan) *forward = ptx_block_plan_create(gpu.device, &params, gpu.stream);
    params.gradients = true;
    params.grad_factor = GRAD_FACTOR;
    OWNED(ptx_block_plan) *backward = ptx_block_plan_create(gpu.device, &params, gpu.stream);
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu.device, sizeof before);
    struct ptx_block_tensor there[TENSORS], back[TENSORS];
    const unsigned bytes = ptx_type_bytes(type), skew = bytes * (random_below(r, 3) ? 16 : 3);

    if (!forward || !backward || !buffer)
        fail_msg("%s", ptx_error_message());
    memset(before, FILL, sizeof before);
    for (unsigned k = 0; k < TENSORS; k++) {
        struct tensor *t = &tensors[k];
        const struct ref_blocks how = { .fraction = 1,
                                        .largest = 6,
                                        .width = BLOCK,
                                        .height = 1,
                                        .scale = like == PTX_BLOCK_LIKE_TORCHAO ? REF_NVFP4_TORCHAO
                                                                                : REF_NVFP4_TE,
                                        .amaxes = t->amaxes };
        make(r, t, type);
        ref_blocks(&how, t->x, t->rows, t->columns, t->amax, 0, t->y);
        ref_blocks_gradients(&how, t->x, t->d, t->count, t->amax, 16 / bytes, GRAD_FACTOR / 6,
                             t->d_x, t->d_amaxes);
        put(type, before[k][X], skew, t->x, t->count);
        put(type, before[k][D], skew, t->d, t->count);
        put(PTX_F32, before[k][AMAXES], 0, t->amaxes, t->count / BLOCK);
        put(PTX_F32, before[k][AMAX], 0, &t->amax, 1);
        const CUdeviceptr at = ptx_buffer_address(buffer) + k * sizeof before[0];
#define AT(array, skip) (at + (unsigned)(array) * sizeof before[0][0] + (skip))
        there[k] = (struct ptx_block_tensor) { .x = AT(X, skew),
                                               .y = AT(Y, skew),
                                               .rows = t->rows,
                                               .columns = t->columns,
                                               .amax = AT(AMAX, 0),
                                               .amaxes = AT(AMAXES, 0) };
        back[k] = there[k];
        back[k].y = AT(D_X, skew);
        back[k].d_output = AT(D, skew);
        back[k].d_amaxes = AT(D_AMAXES, 0);
    }
    if (random_below(r, 2)) { // in place
        back[0].y = back[0].d_output;
        back[1].y = back[1].x;
    }
    assert_int_equal(ptx_buffer_upload(buffer, 0, before, sizeof before, gpu.stream), PTX_OK);
    if (ptx_block_plan_run(forward, there, TENSORS, NULL, gpu.stream) ||
        ptx_block_plan_run(backward, back, TENSORS, NULL, gpu.stream))
        fail_msg("%s", ptx_error_message());
    assert_int_equal(ptx_buffer_download(buffer, 0, after, sizeof after, gpu.stream), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
    for (unsigned k = 0; k < TENSORS; k++) {
        const struct tensor *t = &tensors[k];
        const enum array d_x = back[k].y == back[k].d_output ? D : back[k].y == back[k].x ? X : D_X;
        same(type, "y", after[k][Y], skew, t->y, t->count);
        same(type, "d_x", after[k][d_x], skew, t->d_x, t->count);
        same(PTX_F32, "d_amaxes", after[k][D_AMAXES], 0, t->d_amaxes, t->count / BLOCK);
    }
}

// ---- tests --------------------------------------------------------------------------------------

TEST(test_learned_lists)
{
    struct random r = gpu_random("learned");

    for (int trial = 0; trial < 3; trial++)
        for (int type = 0; type < 3; type++)
            run(&r, types[type], trial == 1 ? PTX_BLOCK_LIKE_TORCHAO : PTX_BLOCK_LIKE_TE);
}

static void refused(const struct ptx_block_params *params, const char *text)
{
    assert_null(ptx_block_plan_create(gpu.device, params, gpu.stream));
    expect_failure(PTX_ERROR_INVALID, text);
}

#define REFUSED(words, ...)                                                                        \
    refused(&(struct ptx_block_params) { .dtype = PTX_BF16, __VA_ARGS__ }, words)

TEST(test_refused)
{
    REFUSED("gradients is true, and learned is not", .gradients = true);
    REFUSED("grad_factor is 0; it must be finite and not 0", .gradients = true, .learned = true);
    REFUSED("it must be finite and not 0", .gradients = true, .learned = true, .grad_factor = NAN);
    REFUSED("grad_factor is 1, and gradients is not true", .learned = true, .grad_factor = 1);
    REFUSED("learned is true, and two_dimensional is true; learned amaxes are of nvfp4",
            .learned = true, .two_dimensional = true);
    REFUSED("learned is true, and stochastic is true", .learned = true, .stochastic = true);
    REFUSED("learned is true, and format is no nvfp4", .learned = true,
            .format = PTX_BLOCK_FORMAT_MXFP4);
}

static void run_refused(ptx_block_plan *plan, const struct ptx_block_tensor *t, const char *text)
{
    assert_int_equal(ptx_block_plan_run(plan, t, 1, NULL, gpu.stream), PTX_ERROR_INVALID);
    if (!strstr(ptx_error_message(), text))
        fail_msg("\"%s\" is not in: %s", text, ptx_error_message());
}

TEST(test_refused_runs)
{
    struct ptx_block_params params = { .dtype = PTX_BF16, .learned = true };
    OWNED(ptx_block_plan) *learned = ptx_block_plan_create(gpu.device, &params, gpu.stream);
    params.gradients = true;
    params.grad_factor = 1;
    OWNED(ptx_block_plan) *gradients = ptx_block_plan_create(gpu.device, &params, gpu.stream);
    OWNED(ptx_block_plan) *plain = ptx_block_plan_create(
        gpu.device, &(struct ptx_block_params) { .dtype = PTX_BF16 }, gpu.stream);
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu.device, 4096);

    assert_true(learned && gradients && plain && buffer);
    const CUdeviceptr at = ptx_buffer_address(buffer);
    const struct ptx_block_tensor good = { .x = at,
                                           .y = at + 1024,
                                           .rows = 2,
                                           .columns = 32,
                                           .amax = at + 2048,
                                           .amaxes = at + 2064,
                                           .d_output = at + 512,
                                           .d_amaxes = at + 2304 };
    struct ptx_block_tensor t = good;
    assert_int_equal(ptx_block_plan_run(gradients, &good, 1, NULL, gpu.stream), PTX_OK);
    run_refused(learned, &good, "tensor 0: d_output is 0x");
    t.d_output = 0;
    run_refused(learned, &t, "tensor 0: d_amaxes is 0x");
    run_refused(gradients, &t, "tensor 0's d_output");
    run_refused(plain, &t, "tensor 0: amaxes is 0x");
    t = good;
    t.amaxes = 0;
    run_refused(gradients, &t, "tensor 0's amaxes");
    t = good;
    t.d_amaxes = t.amaxes;
    run_refused(gradients, &t, "the run would overwrite the one with the other");
    t = good;
    t.y = t.d_output + 16;
    run_refused(gradients, &t, "the run would overwrite the one with the other");
}

int main(void)
{
    gpu_open_from(80);
    return gpu_tests_run();
}

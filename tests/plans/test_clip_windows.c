// SPDX-License-Identifier: MIT
// Clip plans whose gradients share a window of device memory, in turn: the results have the bits of
// a plan with all gradients in memory.
#include <stdio.h>
#include <string.h>

#include "clip_fixture.h"
#include "test.h"

enum { CHUNK_BYTES = 4096 * 8 };

/// A set, its plan, and the window that its chunks use in turn.
struct scene {
    struct clip_set set;
    struct ptx_clip_params params;
    ptx_clip_plan *plan;
    ptx_buffer *window;
};

static void scene_create(struct scene *s, struct random *r, const struct clip_shape *shape)
{
    struct ptx_clip_description d;
    clip_set_create(&s->set, r, shape);
    s->params = clip_set_params(&s->set);
    s->params.any_address = true;
    require(ptx_clip_describe(&s->params, &d));
    assert_true(d.chunk * 8 <= CHUNK_BYTES);
    s->plan = clip_create(&s->params);
    assert_int_equal(ptx_clip_plan_get_info(s->plan)->chunks, d.chunks);
    s->window = made(ptx_buffer_create(gpu.device, 2 * CHUNK_BYTES));
}

static void scene_destroy(struct scene *s)
{
    ptx_buffer_destroy(&s->window);
    ptx_clip_plan_destroy(&s->plan);
}

static size_t piece_bytes(const struct scene *s, const struct ptx_clip_piece *piece)
{
    return (size_t)piece->count * ref_bytes(s->set.host[piece->tensor].type);
}

/// Copies a piece to this place in the window. Returns the next free place.
static size_t bring_in(struct scene *s, const struct ptx_clip_piece *piece, size_t place)
{
    const size_t bytes = ref_bytes(s->set.host[piece->tensor].type);
    const size_t before = (size_t)piece->first * bytes;
    const CUdeviceptr data = ptx_buffer_address(s->window) + place - before;
    char *host = (char *)s->set.host[piece->tensor].data + before;
    require(ptx_buffer_upload(s->window, place, host, piece_bytes(s, piece), gpu.stream));
    require(ptx_clip_plan_set_data(s->plan, piece->tensor, 1, &data, gpu.stream));
    return place + (piece_bytes(s, piece) + 7) / 8 * 8;
}

/// Copies a piece from the window to the set's memory, where the check finds it.
static void take_out(struct scene *s, const struct ptx_clip_piece *piece, size_t place)
{
    const size_t before = (size_t)piece->first * ref_bytes(s->set.host[piece->tensor].type);
    require(ptx_buffer_copy(s->set.memory, s->set.offset[piece->tensor] + before, s->window, place,
                            piece_bytes(s, piece), gpu.stream));
}

/// Chunk after chunk, alternately at both ends of the window. Of a chunk with several pieces, those
/// at odd positions are scaled later than the others, as if they were in another window.
static void measure(struct scene *s)
{
    struct ptx_clip_piece piece;
    for (uint64_t k = 0; k < ptx_clip_plan_get_info(s->plan)->chunks; ++k) {
        size_t place = k % 2 * CHUNK_BYTES;
        for (uint32_t i = 0; ptx_clip_plan_piece(s->plan, k, i, &piece); ++i)
            place = bring_in(s, &piece, place);
        require(ptx_clip_plan_norm_sq_chunks(s->plan, k, 1, gpu.stream));
    }
    require(ptx_clip_plan_finish(s->plan, gpu.stream));
}

static void scale(struct scene *s)
{
    static const CUdeviceptr absent;
    struct ptx_clip_piece piece;
    for (uint64_t k = 0; k < ptx_clip_plan_get_info(s->plan)->chunks; ++k)
        for (uint32_t turn = 0; turn < 2; ++turn) {
            size_t place = 0;
            for (uint32_t i = 0; ptx_clip_plan_piece(s->plan, k, i, &piece); ++i)
                if (i % 2 == turn)
                    place = bring_in(s, &piece, place);
                else
                    require(ptx_clip_plan_set_data(s->plan, piece.tensor, 1, &absent, gpu.stream));
            if (place == 0) // no element of it in this pass
                continue;
            require(ptx_clip_plan_apply_chunks(s->plan, k, 1, gpu.stream));
            place = 0;
            for (uint32_t i = turn; ptx_clip_plan_piece(s->plan, k, i, &piece); i += 2) {
                take_out(s, &piece, place);
                place += (piece_bytes(s, &piece) + 7) / 8 * 8;
            }
        }
}

static void check(struct scene *s)
{
    struct clip_expected expected;
    measure(s);
    scale(s);
    clip_set_expect(&s->set, &s->params, 1.0f, &expected);
    clip_set_check(&s->set, s->plan, &expected);
}

TEST(test_chunks)
{
    static const struct clip_shape shape = { .tensors = 9, .groups = 2, .most = 2500 };
    struct random r = gpu_random("windows");
    static struct scene s;
    scene_create(&s, &r, &shape);
    check(&s);
    scene_destroy(&s);
}

TEST(test_packed_chunks)
{
    static const struct clip_shape shape = { .tensors = 900, .groups = 3, .most = 300 };
    struct random r = gpu_random("packed windows");
    struct ptx_clip_piece piece;
    static struct scene s;
    scene_create(&s, &r, &shape);
    size_t several = 0, pieces = 0;
    for (uint64_t k = 0; k < ptx_clip_plan_get_info(s.plan)->chunks; ++k) {
        several += ptx_clip_plan_piece(s.plan, k, 1, &piece);
        for (uint32_t i = 0; ptx_clip_plan_piece(s.plan, k, i, &piece); ++i, ++pieces)
            assert_true(piece.first == 0 && piece.count == s.set.tensors[piece.tensor].count);
    }
    for (size_t t = 0; t < s.set.count; ++t)
        pieces -= s.set.tensors[t].count > 0;
    assert_true(several > 3 && pieces == 0); // each tensor is there once
    check(&s);
    scene_destroy(&s);
}

TEST(test_no_piece)
{
    struct ptx_clip_piece piece;
    OWNED(ptx_clip_plan) *plan =
        clip_create(&(struct ptx_clip_params) { .group_count = 2, .max_norm = 1 });
    assert_int_equal(ptx_clip_plan_get_info(plan)->chunks, 2);
    assert_false(ptx_clip_plan_piece(plan, 0, 0, &piece)); // the group is empty
    assert_false(ptx_clip_plan_piece(plan, 2, 0, &piece));
    assert_false(ptx_clip_plan_piece(NULL, 0, 0, &piece));
}

GPU_MAIN

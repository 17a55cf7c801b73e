// SPDX-License-Identifier: MIT
// The registry: its facts about each kernel, the launches that it computes, and every text for
// every target.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/kernels.h>

#include "sanitized.h"
#include "test.h"
#include "variants.h"

enum { WITH_F64_PARTIALS = PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F32) };
#define ALL_DTYPES  (PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16))
#define WITHOUT_F64 (PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16))

static const struct {
    const char *name;
    const ptx_kernel *kernel;
    uint32_t dtypes;
    ptx_grid grid;
    uint32_t block;
} expected[] = {
    { "squared_sum", &ptx_kernel_squared_sum, ALL_DTYPES, PTX_GRID_CHUNKS, 256 },
    { "clip_scale_reduce", &ptx_kernel_clip_scale_reduce, WITH_F64_PARTIALS, PTX_GRID_ONE, 1024 },
    { "gradient_clip_from_device_scale", &ptx_kernel_gradient_clip_from_device_scale, ALL_DTYPES,
      PTX_GRID_VECTORS, 256 },
    { "quantize_ste_backward", &ptx_kernel_quantize_ste_backward, ALL_DTYPES, PTX_GRID_VECTORS,
      256 },
    { "lerp_backward", &ptx_kernel_lerp_backward, ALL_DTYPES, PTX_GRID_VECTORS, 256 },
    { "loss_scale_update", &ptx_kernel_loss_scale_update, PTX_TYPE_BIT(F32), PTX_GRID_ONE, 1 },
    { "quantize_channel_ste_backward", &ptx_kernel_quantize_channel_ste_backward, ALL_DTYPES,
      PTX_GRID_CHUNKS, 128 },
    { "cast_fp8", &ptx_kernel_cast_fp8, WITHOUT_F64, PTX_GRID_CHUNKS, 256 },
    { "delayed_scale_update", &ptx_kernel_delayed_scale_update, PTX_TYPE_BIT(F32), PTX_GRID_CHUNKS,
      512 },
    { "fake_quantize_groups", &ptx_kernel_fake_quantize_groups, WITHOUT_F64, PTX_GRID_CHUNKS, 128 },
    { "quantize_learned_backward", &ptx_kernel_quantize_learned_backward, ALL_DTYPES,
      PTX_GRID_CHUNKS, 256 },
    { "quantize_learned_reduce", &ptx_kernel_quantize_learned_reduce, WITH_F64_PARTIALS,
      PTX_GRID_CHUNKS, 1024 },
    { "fake_quantize", &ptx_kernel_fake_quantize, ALL_DTYPES, PTX_GRID_VECTORS, 256 },
    { "fake_quantize_channel", &ptx_kernel_fake_quantize_channel, ALL_DTYPES, PTX_GRID_CHUNKS,
      128 },
    { "quantize_learned_groups", &ptx_kernel_quantize_learned_groups, WITHOUT_F64, PTX_GRID_CHUNKS,
      256 },
    { "observe_min_max", &ptx_kernel_observe_min_max, ALL_DTYPES, PTX_GRID_CHUNKS, 256 },
    { "moving_average_update", &ptx_kernel_moving_average_update, PTX_TYPE_BIT(F32), PTX_GRID_ONE,
      1 },
};

enum { KERNELS = sizeof expected / sizeof *expected };

TEST(test_every_kernel_is_found_by_name)
{
    for (size_t k = 0; k < KERNELS; ++k) {
        const ptx_kernel *kernel = ptx_kernel_find(expected[k].name);
        assert_ptr_equal(kernel, expected[k].kernel);
        assert_ptr_equal(ptx_kernel_at(k), kernel);
        assert_string_equal(kernel->name, expected[k].name);
        assert_int_equal(kernel->dtypes, expected[k].dtypes);
        assert_int_equal(kernel->grid, expected[k].grid);
        assert_int_equal(kernel->block, expected[k].block);
        assert_true(*kernel->summary && *kernel->formula && *kernel->guarantees);
    }
    assert_null(ptx_kernel_at(KERNELS));
    assert_null(ptx_kernel_at(SIZE_MAX));
    assert_null(ptx_kernel_find("squared"));
    assert_null(ptx_kernel_find("squared_sum2"));
    assert_null(ptx_kernel_find(""));
    assert_null(ptx_kernel_find(NULL));
}

TEST(test_options_are_set_by_name)
{
    const ptx_kernel *kernel = &ptx_kernel_quantize_ste_backward;
    struct ptx_kernel_spec spec = { .dtype = PTX_F32 };
    assert_true(ptx_kernel_spec_set(&spec, kernel, "division", "reciprocal"));
    assert_true(ptx_kernel_spec_set(&spec, kernel, "target", "any"));
    assert_true(variant_is(kernel, &spec, "division", "reciprocal"));
    assert_true(variant_is(kernel, &spec, "gradient", "quantize"));
    assert_true(variant_is(kernel, &spec, "target", "any"));
    const struct ptx_kernel_spec before = spec;
    assert_false(ptx_kernel_spec_set(&spec, kernel, "target", "s4"));
    assert_false(ptx_kernel_spec_set(&spec, kernel, "target", ""));
    assert_false(ptx_kernel_spec_set(&spec, kernel, "target", NULL));
    assert_false(ptx_kernel_spec_set(&spec, kernel, "nonfinite", "skip"));
    assert_false(ptx_kernel_spec_set(&spec, kernel, "", "exact"));
    assert_false(ptx_kernel_spec_set(&spec, kernel, NULL, "exact"));
    assert_memory_equal(&spec, &before, sizeof spec);
    assert_true(ptx_kernel_spec_set(&spec, kernel, "division", "exact"));
    assert_true(variant_is(kernel, &spec, "division", "exact"));
    assert_int_equal(ptx_kernel_find_option(kernel, "scalars"), 3);
    assert_int_equal(ptx_kernel_find_option(kernel, "scalar"), -1);
}

TEST(test_entry_names)
{
    char name[PTX_ENTRY_NAME_SIZE];
    struct ptx_kernel_spec spec = { .dtype = PTX_BF16 };
    assert_string_equal(
        ptx_kernel_entry_name(&ptx_kernel_gradient_clip_from_device_scale, &spec, name),
        "gradient_clip_from_device_scale_bf16");
    spec.entry = "mine";
    assert_string_equal(ptx_kernel_entry_name(&ptx_kernel_squared_sum, &spec, name), "mine");
}

// ---- geometry -----------------------------------------------------------------------------------

static uint32_t blocks(const ptx_kernel *kernel, ptx_type dtype, uint64_t n)
{
    struct ptx_geometry geometry;
    if (!ptx_kernel_geometry(kernel, dtype, n, &geometry))
        return UINT32_MAX;
    assert_int_equal(geometry.block, kernel->block);
    return geometry.grid;
}

TEST(test_geometry_of_chunks)
{
    static const struct {
        uint64_t n;
        uint32_t blocks;
    } rows[] = {
        { 0, 0 },
        { 1, 1 },
        { 4095, 1 },
        { 4096, 1 },
        { 4097, 2 },
        { 8192, 2 },
        { 16385, 5 },
        { (1u << 22) - 4096, 1023 },
        { (1u << 22) - 4095, 1024 },
        { 1u << 22, 1024 },
        { (1u << 22) + 1, 257 },
        { (1u << 22) + 16384, 257 },
        { (1u << 22) + 16385, 258 },
        { (UINT64_C(1) << 32) + 1, (1u << 18) + 1 },
        { UINT64_C(1) << 40, 1u << 26 },
        { (UINT64_C(0x7fffffff) << 14) - 1, 0x7fffffff },
        { UINT64_C(0x7fffffff) << 14, 0x7fffffff },
        { (UINT64_C(0x7fffffff) << 14) + 1, UINT32_MAX },
        { UINT64_MAX, UINT32_MAX },
        { UINT64_MAX - 16383, UINT32_MAX },
    };
    const ptx_type dtypes[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
    for (size_t t = 0; t < 4; ++t)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k)
            assert_int_equal(blocks(&ptx_kernel_squared_sum, dtypes[t], rows[k].n), rows[k].blocks);
}

TEST(test_chunk)
{
    const ptx_kernel *square = &ptx_kernel_squared_sum;
    const ptx_kernel *channel = &ptx_kernel_quantize_channel_ste_backward;
    assert_int_equal(ptx_kernel_chunk(square, 0), 4096);
    assert_int_equal(ptx_kernel_chunk(square, 1), 4096);
    assert_int_equal(ptx_kernel_chunk(square, 1u << 22), 4096);
    assert_int_equal(ptx_kernel_chunk(square, (1u << 22) + 1), 16384);
    assert_int_equal(ptx_kernel_chunk(square, (UINT64_C(1) << 32) + 1), 16384);
    assert_int_equal(ptx_kernel_chunk(square, UINT64_MAX), 16384);
    assert_int_equal(ptx_kernel_chunk(channel, 0), 4096);
    assert_int_equal(ptx_kernel_chunk(channel, UINT64_MAX), 4096);
    assert_int_equal(ptx_kernel_chunk(&ptx_kernel_cast_fp8, UINT64_MAX), 8192);
    assert_int_equal(ptx_kernel_chunk(&ptx_kernel_delayed_scale_update, UINT64_MAX), 8);
    assert_int_equal(square->short_most, 1u << 22);
    assert_int_equal(channel->short_most, 0);
    assert_int_equal(ptx_kernel_chunk(&ptx_kernel_lerp_backward, 1), 0);
    assert_int_equal(ptx_kernel_chunk(&ptx_kernel_clip_scale_reduce, 1), 0);
    assert_int_equal(ptx_kernel_chunk(NULL, 1), 0);
}

/// Each thread has a vector of L elements. Data that starts between two boundaries may need one
/// vector more than n / L, but never a whole block more.
TEST(test_geometry_of_vectors)
{
    static const uint64_t sizes[] = { 1,
                                      2,
                                      7,
                                      8,
                                      9,
                                      255,
                                      256,
                                      257,
                                      511,
                                      512,
                                      513,
                                      1023,
                                      1024,
                                      1025,
                                      2047,
                                      2048,
                                      2049,
                                      65537,
                                      (UINT64_C(1) << 32) + 1,
                                      UINT64_C(1) << 38 };
    for (size_t k = 0; k < KERNELS; ++k)
        for (int t = PTX_F16; t <= PTX_F64; ++t) {
            const ptx_kernel *kernel = expected[k].kernel;
            ptx_type dtype = (ptx_type)t;
            if (kernel->grid != PTX_GRID_VECTORS)
                continue;
            uint64_t lanes = 16 / ptx_type_bytes(dtype);
            uint64_t span = 256 * lanes;
            assert_int_equal(blocks(kernel, dtype, 0), 0);
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
                uint64_t elements = (uint64_t)blocks(kernel, dtype, sizes[s]) * span;
                assert_true(elements >= sizes[s] + lanes - 1);
                assert_true(elements - span < sizes[s] + lanes - 1);
            }
            assert_int_equal(blocks(kernel, dtype, UINT64_C(1) << 44), UINT32_MAX);
            assert_int_equal(blocks(kernel, dtype, UINT64_MAX), UINT32_MAX);
            assert_int_equal(blocks(kernel, dtype, UINT64_MAX - 1), UINT32_MAX);
        }
}

TEST(test_geometry_of_one_block)
{
    static const uint64_t counts[] = { 0, 1, 1024, 1025, UINT64_C(1) << 40 };
    for (size_t k = 0; k < sizeof counts / sizeof *counts; ++k)
        assert_int_equal(blocks(&ptx_kernel_clip_scale_reduce, PTX_F64, counts[k]), 1);
}

TEST(test_geometry_refuses_what_the_kernel_has_not)
{
    struct ptx_geometry geometry = { 5, 6 };
    assert_false(ptx_kernel_geometry(&ptx_kernel_clip_scale_reduce, PTX_F16, 1, &geometry));
    assert_false(ptx_kernel_geometry(&ptx_kernel_squared_sum, PTX_U32, 1, &geometry));
    assert_false(ptx_kernel_geometry(&ptx_kernel_squared_sum, PTX_NONE, 1, &geometry));
    assert_false(ptx_kernel_geometry(NULL, PTX_F32, 1, &geometry));
    assert_true(geometry.grid == 5 && geometry.block == 6);
}

// ---- texts --------------------------------------------------------------------------------------

TEST(test_every_variant_builds_for_every_target)
{
    struct ptx_target target;
    int least = 0;
    for (size_t t = 0; ptx_target_at(t, &target, &least); t += SANITIZED_EVERY(5))
        for (size_t k = 0; k < KERNELS; ++k) {
            const ptx_kernel *kernel = expected[k].kernel;
            struct ptx_kernel_spec spec;
            bool more = variant_first(kernel, PTX_NONE, &spec);
            for (assert_true(more); more; more = variant_next(kernel, &spec)) {
                char entry[VARIANT_NAME_SIZE], header[VARIANT_NAME_SIZE + 32], required[32];
                struct ptx_kernel_spec named = spec;
                named.entry = variant_name(kernel, &spec, entry);
                OWNED(ptx_builder) *b =
                    ptx_builder_create(&(struct ptx_builder_params) { .target = target });
                ptx_kernel_emit(b, kernel, &named);
                const char *text = ptx_builder_finish(b);
                if (!text)
                    fail_msg("%s for sm_%d: %s", entry, target.sm, ptx_builder_error(b));
                // The command relies on this: the least version depends on the target alone.
                if (ptx_builder_get_info(b).isa != least)
                    fail_msg("%s for sm_%d needs more than the target: %s", entry, target.sm,
                             ptx_builder_get_info(b).isa_reason);
                snprintf(header, sizeof header, ".visible .entry %s(", entry);
                snprintf(required, sizeof required, ".reqntid %u", kernel->block);
                if (!strstr(text, header) || !strstr(text, required))
                    fail_msg("%s lacks \"%s\" or \"%s\":\n%s", entry, header, required, text);
            }
        }
}

TEST(test_a_second_build_gives_the_same_bytes)
{
    for (size_t k = 0; k < KERNELS; ++k) {
        const ptx_kernel *kernel = expected[k].kernel;
        struct ptx_kernel_spec spec;
        for (bool more = variant_first(kernel, PTX_NONE, &spec); more;
             more = variant_next(kernel, &spec)) {
            ptx_builder *first = ptx_builder_create(NULL), *second = ptx_builder_create(NULL);
            ptx_kernel_emit(first, kernel, &spec);
            ptx_kernel_emit(second, kernel, &spec);
            const char *text = ptx_builder_finish(first);
            assert_non_null(text);
            assert_string_equal(text, ptx_builder_finish(second));
            ptx_builder_destroy(&second);
            ptx_builder_destroy(&first);
        }
    }
}

TEST(test_what_a_kernel_has_not_is_an_error)
{
    static const struct {
        const ptx_kernel *kernel;
        struct ptx_kernel_spec spec;
    } rows[] = {
        { &ptx_kernel_clip_scale_reduce, { .dtype = PTX_F16 } },
        { &ptx_kernel_squared_sum, { .dtype = PTX_U32 } },
        { &ptx_kernel_squared_sum, { .dtype = PTX_NONE } },
        { &ptx_kernel_squared_sum, { .dtype = PTX_F32, .option = { 2 } } },
        { &ptx_kernel_squared_sum, { .dtype = PTX_F32, .option = { 0, 1 } } },
        { &ptx_kernel_lerp_backward, { .dtype = PTX_F32, .option = { 255 } } },
        { &ptx_kernel_lerp_backward, { .dtype = PTX_F32, .entry = "1st" } },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        ptx_builder *b = ptx_builder_create(NULL);
        ptx_kernel_emit(b, rows[k].kernel, &rows[k].spec);
        assert_null(ptx_builder_finish(b));
        assert_non_null(ptx_builder_error(b));
        ptx_builder_destroy(&b);
        ptx_kernel_emit(NULL, rows[k].kernel, &rows[k].spec); // does nothing
    }
    for (unsigned k = 0; k < 2; ++k) {
        OWNED(ptx_builder) *b = ptx_builder_create(NULL);
        ptx_kernel_emit(b, k ? rows[0].kernel : NULL, k ? NULL : &rows[0].spec);
        assert_non_null(
            strstr(ptx_builder_error(b), k ? "the spec is NULL" : "the kernel is NULL"));
    }
}

/// The count of a length, or UINT64_MAX, and then the count is untouched.
static uint64_t length_of(const ptx_kernel *kernel, struct ptx_kernel_sizes sizes,
                          const char *length)
{
    const struct ptx_kernel_spec spec = { .dtype = PTX_F32 };
    uint64_t count = UINT64_MAX;
    const bool known = ptx_kernel_length(kernel, &spec, &sizes, length, &count);
    assert_int_equal(known, count != UINT64_MAX);
    return count;
}

TEST(test_lengths)
{
    const ptx_kernel *square = &ptx_kernel_squared_sum;
    const struct ptx_kernel_sizes sizes = { 100000, 7, 3 };
    assert_int_equal(length_of(square, sizes, "n"), 100000);
    assert_int_equal(length_of(square, sizes, "channels"), 7);
    assert_int_equal(length_of(square, sizes, "inner"), 3);
    assert_int_equal(length_of(square, sizes, "blocks"), 25);
    assert_int_equal(length_of(square, sizes, "3"), 3);
    assert_int_equal(length_of(&ptx_kernel_fake_quantize_groups, sizes, "groups"), 3125);
    assert_int_equal(length_of(&ptx_kernel_fake_quantize_groups,
                               (struct ptx_kernel_sizes) { .n = 100001 }, "groups"),
                     UINT64_MAX);
    assert_int_equal(length_of(&ptx_kernel_quantize_learned_groups, sizes, "groups"), 3125);
    assert_int_equal(length_of(square, sizes, "3x"), UINT64_MAX);
    assert_int_equal(length_of(square, sizes, ""), UINT64_MAX);
    assert_int_equal(length_of(square, sizes, "pieces"), UINT64_MAX);
    assert_int_equal(length_of(square, (struct ptx_kernel_sizes) { UINT64_MAX, 1, 1 }, "blocks"),
                     UINT64_MAX);
    assert_int_equal(length_of(square, sizes, NULL), UINT64_MAX);
    assert_int_equal(length_of(NULL, sizes, "n"), UINT64_MAX);
}

/// The sums of quantize_learned_backward for a layout; UINT64_MAX: there is no such length.
static uint64_t pieces_of(const char *layout, ptx_type dtype, uint64_t n, uint64_t channels,
                          uint64_t inner)
{
    const ptx_kernel *kernel = &ptx_kernel_quantize_learned_backward;
    struct ptx_kernel_spec spec = { .dtype = dtype };
    uint64_t count = UINT64_MAX;
    assert_true(ptx_kernel_spec_set(&spec, kernel, "layout", layout));
    ptx_kernel_length(kernel, &spec, &(struct ptx_kernel_sizes) { n, channels, inner }, "pieces",
                      &count);
    return count;
}

TEST(test_lengths_of_sums)
{
    assert_int_equal(pieces_of("tensor", PTX_F32, 0, 0, 0), 0);
    assert_int_equal(pieces_of("tensor", PTX_F32, 1 << 24, 0, 0), 2048);
    assert_int_equal(pieces_of("tensor", PTX_F32, (1 << 24) + 1, 0, 0), 2049);
    assert_int_equal(pieces_of("tensor", PTX_BF16, 1 << 18, 0, 0), 128);
    assert_int_equal(pieces_of("tensor", PTX_BF16, (1 << 18) + 1, 0, 0), 17);
    assert_int_equal(pieces_of("rows", PTX_F32, 30000, 3, 5000), 18);
    assert_int_equal(pieces_of("rows", PTX_F32, 30001, 3, 5000), 21);
    assert_int_equal(pieces_of("rows", PTX_F32, 1 << 25, 1, 8193), 8192);
    // A tile has 32 rows of 128 columns, 64 rows of 64 in f64; 4 and 16 times as many rows later
    // on.
    assert_int_equal(pieces_of("columns", PTX_F32, 1 << 20, 1000, 1), 33 * 1000);
    assert_int_equal(pieces_of("columns", PTX_F32, 1 << 24, 1024, 1), 128 * 1024);
    assert_int_equal(pieces_of("columns", PTX_F32, 1 << 25, 1024, 1), 64 * 1024);
    assert_int_equal(pieces_of("columns", PTX_F32, 1 << 20, 7, 1), 33 * 36 * 28);
    assert_int_equal(pieces_of("columns", PTX_F64, 1 << 20, 7, 1), 17 * 73 * 14);
    assert_int_equal(pieces_of("columns", PTX_BF16, 1, 5, 3), 17 * 60);
    assert_int_equal(pieces_of("rows", PTX_F32, 100, 0, 1), UINT64_MAX);
    assert_int_equal(pieces_of("columns", PTX_F32, 100, 1, 0), UINT64_MAX);
    assert_int_equal(pieces_of("columns", PTX_F32, 100, UINT64_C(1) << 62, 4), UINT64_MAX);
}

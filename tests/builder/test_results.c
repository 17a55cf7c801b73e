// SPDX-License-Identifier: MIT
// What control flow, indices and fragments compute, on a GPU and on the emulator, compared with
// plain C.
#include "gpu.h"
#include "test.h"

#include <math.h>
#include <string.h>

// An entry gets `in` and `out`, both of u64.
enum { IN = 4, OUT = 4096, UNTOUCHED = 0x5c }; // elements, and a byte

struct kernel {
    ptx_module *module;
    const ptx_function *function;
};

typedef void write_body(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type);

static struct kernel load(write_body *body, ptx_type type)
{
    struct kernel k;
    OWNED(ptx_builder) *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = gpu_target() });

    ptx_entry (b, "k") {
        ptx_ptr in = ptx_param_ptr(b, PTX_U64, "in", .readonly = true);
        ptx_ptr out = ptx_param_ptr(b, PTX_U64, "out");
        body(b, in, out, type);
    }
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s", ptx_builder_error(b));
    k.module = ptx_module_load(gpu.device, text, NULL);
    k.function = ptx_module_function(k.module, "k");
    if (!k.function)
        fail_msg("%s\n%s", ptx_error_message(), text);
    return k;
}

// Elements of `out` that the kernel does not write have bytes UNTOUCHED.
static void launch(const struct kernel *k, unsigned grid, unsigned block, const uint64_t in[IN],
                   uint64_t out[OUT])
{
    OWNED(ptx_buffer) *from = ptx_buffer_create(gpu.device, IN * sizeof *in);
    OWNED(ptx_buffer) *to = ptx_buffer_create(gpu.device, OUT * sizeof *out);
    const CUdeviceptr from_at = ptx_buffer_address(from), to_at = ptx_buffer_address(to);
    const struct ptx_arg args[] = { PTX_ARG(from_at), PTX_ARG(to_at) };
    const struct ptx_launch_params params = {
        .grid = { grid }, .block = { block }, .stream = gpu.stream, .args = args, .arg_count = 2
    };

    memset(out, UNTOUCHED, OUT * sizeof *out);
    assert_int_equal(ptx_buffer_upload(from, 0, in, IN * sizeof *in, gpu.stream), PTX_OK);
    assert_int_equal(ptx_buffer_upload(to, 0, out, OUT * sizeof *out, gpu.stream), PTX_OK);
    assert_int_equal(ptx_launch(k->function, &params), PTX_OK);
    assert_int_equal(ptx_buffer_download(to, 0, out, OUT * sizeof *out, gpu.stream), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
}

// ---- loops --------------------------------------------------------------------------------------

enum { MOST_VISITS = 100 };

// Input k in the type.
static ptx_val input(ptx_builder *b, ptx_ptr in, unsigned k, ptx_type type)
{
    return ptx_cvt(b, type, ptx_load(b, in, ptx_u32(k)));
}

// Appends i to the list at `out`, whose length is its first element; leaves the loop when it is
// full.
static void visit(ptx_builder *b, ptx_ptr out, ptx_val count, ptx_val i)
{
    ptx_val place = ptx_add(b, count, 1);

    ptx_set(b, count, place);
    ptx_store(b, out, place, ptx_cvt(b, PTX_U64, i));
    ptx_store(b, out, 0, ptx_cvt(b, PTX_U64, place));
    ptx_break_if(b, ptx_eq(b, place, MOST_VISITS));
}

static void count_both_ways(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    ptx_val lo = input(b, in, 0, type), hi = input(b, in, 1, type);
    ptx_val step = input(b, in, 2, type);

    for (uint32_t k = 0; k < 2; k++) {
        ptx_val count = ptx_var(b, ptx_u32(0));
        ptx_ptr list = ptx_at(b, out, ptx_u32(k * (MOST_VISITS + 1)));
        ptx_store(b, list, 0, ptx_u64(0));
        if (k) {
            ptx_for_down (b, i, hi, lo, step)
                visit(b, list, count, i);
        } else {
            ptx_for (b, i, lo, hi, step)
                visit(b, list, count, i);
        }
    }
}

// The values that ptx_for visits, in plain C, of the type's width.
static unsigned visited(const uint64_t in[IN], ptx_type type, uint64_t list[MOST_VISITS])
{
    const bool is_signed = type == PTX_S32 || type == PTX_S64;
    const uint64_t width = type == PTX_U32 || type == PTX_S32 ? UINT32_MAX : UINT64_MAX;
    uint64_t i = in[0];
    unsigned n = 0;

    if (is_signed ? (int64_t)in[0] >= (int64_t)in[1] : in[0] >= in[1])
        return 0;
    for (;; i += in[2]) {
        list[n++] = type == PTX_S32 ? (uint64_t)(int32_t)i : i & width;
        if (in[1] - i <= in[2])
            return n;
    }
}

static void expect_both_ways(const struct kernel *k, const uint64_t in[IN], ptx_type type)
{
    uint64_t out[OUT], list[MOST_VISITS];
    const unsigned n = visited(in, type, list);
    const uint64_t *up = out, *down = out + MOST_VISITS + 1;

    launch(k, 1, 1, in, out);
    if (up[0] != n || down[0] != n)
        fail_msg("%s from %llx to %llx by %llu: %llu values up, %llu down, not %u",
                 ptx_type_name(type), (unsigned long long)in[0], (unsigned long long)in[1],
                 (unsigned long long)in[2], (unsigned long long)up[0], (unsigned long long)down[0],
                 n);
    for (unsigned v = 0; v < n; v++)
        if (up[1 + v] != list[v] || down[n - v] != list[v])
            fail_msg("%s from %llx to %llx by %llu: value %u is %llx up and %llx down, not %llx",
                     ptx_type_name(type), (unsigned long long)in[0], (unsigned long long)in[1],
                     (unsigned long long)in[2], v, (unsigned long long)up[1 + v],
                     (unsigned long long)down[n - v], (unsigned long long)list[v]);
}

// Ranges at the ends of each type, where i + step or i - step would wrap.
TEST(loops_count_both_ways)
{
    static const struct {
        ptx_type type;
        uint64_t least, most;
    } types[] = {
        { PTX_U32, 0, UINT32_MAX },
        { PTX_U64, 0, UINT64_MAX },
        { PTX_S32, (uint64_t)INT32_MIN, INT32_MAX },
        { PTX_S64, (uint64_t)INT64_MIN, INT64_MAX },
    };
    static const uint64_t spans[][2] = { // hi - lo, step
                                         { 0, 1 },   { 1, 1 },   { 2, 1 },   { 7, 1 },  { 1, 5 },
                                         { 5, 5 },   { 6, 5 },   { 10, 5 },  { 11, 5 }, { 64, 16 },
                                         { 65, 16 }, { 63, 16 }, { 3, 1000 }
    };

    for (unsigned t = 0; t < 4; t++) {
        struct kernel k = load(count_both_ways, types[t].type);
        const uint64_t least = types[t].least, most = types[t].most;
        for (unsigned s = 0; s < sizeof spans / sizeof *spans; s++) {
            const uint64_t span = spans[s][0], step = spans[s][1];
            expect_both_ways(&k, (uint64_t[IN]) { least, least + span, step }, types[t].type);
            expect_both_ways(&k, (uint64_t[IN]) { most - span, most, step }, types[t].type);
            expect_both_ways(&k, (uint64_t[IN]) { 100, 100 + span, step }, types[t].type);
            expect_both_ways(&k, (uint64_t[IN]) { 100 + span, 100, step }, types[t].type);
        }
        // Nearly the whole type in a few steps, and the greatest step.
        expect_both_ways(&k, (uint64_t[IN]) { least, most, most / 3 }, types[t].type);
        expect_both_ways(&k, (uint64_t[IN]) { least, most, most }, types[t].type);
        expect_both_ways(&k, (uint64_t[IN]) { least + 3, most, most - 1 }, types[t].type);
        expect_both_ways(&k, (uint64_t[IN]) { most, least, 1 }, types[t].type);
        ptx_module_unload(&k.module);
    }
}

// Constants take other instructions than values do; continue and break in a loop that counts down.
static void count_constants(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    ptx_val count = ptx_var(b, ptx_u32(0));
    ptx_val lo = input(b, in, 0, type);

    ptx_for_down (b, i, ptx_imm(type, 23), ptx_imm(type, 3), ptx_imm(type, 8))
        visit(b, out, count, i);
    ptx_for_down (b, i, ptx_imm(type, 23), ptx_imm(type, 0), ptx_imm(type, 7))
        visit(b, out, count, i);
    ptx_for_down (b, i, 9, lo, 1) {
        ptx_continue_if(b, ptx_eq(b, i, 6));
        ptx_break_if(b, ptx_eq(b, i, 4));
        visit(b, out, count, i);
    }
    ptx_for_down (b, i, lo, ptx_imm(type, 100), 1)
        visit(b, out, count, i);
}

TEST(constants_count_down)
{
    static const uint64_t in[IN] = { 2 };
    static const uint64_t want[] = { 19, 11, 3, 21, 14, 7, 0, 8, 7, 5 };
    static const ptx_type types[] = { PTX_U32, PTX_S32, PTX_U64, PTX_S64 };
    uint64_t out[OUT];

    for (unsigned t = 0; t < 4; t++) {
        struct kernel k = load(count_constants, types[t]);
        launch(&k, 1, 1, in, out);
        assert_int_equal(out[0], sizeof want / sizeof *want);
        for (unsigned i = 0; i < sizeof want / sizeof *want; i++)
            assert_int_equal(out[1 + i], want[i]);
        ptx_module_unload(&k.module);
    }
}

// ---- chains of conditions -----------------------------------------------------------------------

static void classify(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    ptx_val tid = ptx_tid(b, PTX_X), kind = ptx_var(b, ptx_u64(0));
    ptx_val odd = ptx_eq(b, ptx_and(b, tid, 1), 1);
    ptx_val limit = input(b, in, 0, type);

    ptx_if (b, ptx_lt(b, tid, 3))
        ptx_set(b, kind, 1);
    ptx_else_if (b, ptx_eq(b, tid, 5))
        ptx_set(b, kind, 2);
    ptx_else_if (b, odd) {
        ptx_if (b, ptx_lt(b, tid, limit))
            ptx_set(b, kind, 3);
        ptx_else_if (b, ptx_gt(b, tid, 20))
            ptx_set(b, kind, 4);
    }
    ptx_else_if (b, ptx_lt(b, ptx_mul(b, tid, tid), 200)) {
        ptx_set(b, kind, 5);
    }
    ptx_else (b) {
        ptx_if (b, ptx_eq(b, tid, 30)) {}
        ptx_else_if (b, ptx_eq(b, tid, 28))
            ptx_set(b, kind, 6);
        ptx_else (b)
            ptx_set(b, kind, 7);
    }
    ptx_store(b, out, tid, kind);
}

static uint64_t class_of(uint32_t t, uint32_t limit)
{
    if (t < 3)
        return 1;
    else if (t == 5)
        return 2;
    else if (t & 1)
        return t < limit ? 3 : t > 20 ? 4 : 0;
    else if (t * t < 200)
        return 5;
    return t == 30 ? 0 : t == 28 ? 6 : 7;
}

TEST(chains_take_the_first_that_holds)
{
    static const uint64_t in[IN] = { 11 };
    uint64_t out[OUT];

    struct kernel k = load(classify, PTX_U32);
    launch(&k, 1, 64, in, out);
    for (uint32_t t = 0; t < 64; t++)
        assert_int_equal(out[t], class_of(t, 11));
    ptx_module_unload(&k.module);
}

// ---- indices and grids --------------------------------------------------------------------------

// Counts how often each number below n is visited, in out[number]; in[0] is n.
static void share(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    ptx_val n = ptx_cvt(b, type, ptx_load(b, in, 0));
    ptx_val one = ptx_copy(b, ptx_u64(1));

    ptx_grid_stride (b, i, n) {
        ptx_continue_if(b, ptx_ge(b, i, OUT));
        ptx_atomic_add(b, out, i, one);
    }
}

static void expect_shared(const struct kernel *k, unsigned grid, unsigned block, uint64_t n)
{
    const uint64_t in[IN] = { n };
    uint64_t out[OUT], none;

    memset(&none, UNTOUCHED, sizeof none);
    launch(k, grid, block, in, out);
    for (uint64_t i = 0; i < OUT; i++)
        if (out[i] != none + ((int64_t)n > 0 && i < n))
            fail_msg("%u blocks of %u: %llu of %llu visited %lld times", grid, block,
                     (unsigned long long)i, (unsigned long long)n, (long long)(out[i] - none));
}

TEST(a_grid_shares_all_numbers)
{
    static const ptx_type types[] = { PTX_U32, PTX_S32, PTX_U64, PTX_S64 };
    static const unsigned shapes[][2] = { { 1, 1 }, { 1, 32 }, { 7, 33 }, { 3, 128 }, { 64, 256 } };
    static const uint64_t sizes[] = { 0, 1, 31, 32, 33, 384, 1000, OUT - 1, OUT };

    for (unsigned t = 0; t < 4; t++) {
        struct kernel k = load(share, types[t]);
        for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (unsigned n = 0; n < sizeof sizes / sizeof *sizes; n++)
                expect_shared(&k, shapes[s][0], shapes[s][1], sizes[n]);
        if (t % 2) // signed
            expect_shared(&k, 2, 64, (uint64_t)-3);
        // More threads than 32 bits can count, on a GPU.
        if (gpu.max_size > UINT32_MAX)
            expect_shared(&k, (1 << 22) + 3, 1024, 1000);
        ptx_module_unload(&k.module);
    }
}

// Each thread writes its index in the grid, by either function, and adds the index along y.
static void write_index(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    ptx_val i = ptx_global_index(b, PTX_X), wide = ptx_global_index_wide(b, PTX_X);
    ptx_val y = ptx_add(b, ptx_global_index(b, PTX_Y), ptx_global_index(b, PTX_Z));

    (void)type;
    y = ptx_add(b, ptx_load(b, in, 0), ptx_cvt(b, PTX_U64, y));
    ptx_store(b, ptx_at(b, out, i), 0, ptx_add(b, wide, y));
}

TEST(each_thread_has_its_index)
{
    static const uint64_t in[IN] = { 1000 };
    uint64_t out[OUT], untouched;

    struct kernel k = load(write_index, PTX_U32);
    launch(&k, 9, 70, in, out);
    memset(&untouched, UNTOUCHED, sizeof untouched);
    for (uint64_t i = 0; i < OUT; i++)
        assert_int_equal(out[i], i < 630 ? 1000 + i : untouched);
    ptx_module_unload(&k.module);
}

// ---- vectors ------------------------------------------------------------------------------------

static void write_vectors(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    ptx_val x = ptx_load(b, in, 0);
    ptx_ptr words = ptx_ptr_cast(b, PTX_U32, out);
    ptx_val low = ptx_cvt(b, PTX_U32, x);

    (void)type;
    ptx_store_vec(b, out, 0, ptx_vec2(x, 7));
    ptx_store_vec(b, words, 4, ptx_vec4(1, low, 3, ptx_add(b, low, 1)));
    ptx_val packed = ptx_pack(b, PTX_B64, ptx_vec2(9, ptx_bitcast(b, PTX_B32, low)));
    ptx_store(b, out, 4, ptx_bitcast(b, PTX_U64, packed));
    ptx_val half = ptx_cvt(b, PTX_U16, x);
    ptx_store_vec(b, ptx_ptr_cast(b, PTX_U16, out), 24,
                  ptx_vec8(half, 1, 2, half, 4, half, 6, 0xffff));
}

TEST(vectors_have_their_lanes)
{
    static const uint64_t in[IN] = { 5 };
    static const uint64_t want[] = { 5,
                                     7,
                                     1 | 5ull << 32,
                                     3 | 6ull << 32,
                                     9 | 5ull << 32,
                                     0x5c5c5c5c5c5c5c5c,
                                     5 | 1ull << 16 | 2ull << 32 | 5ull << 48,
                                     4 | 5ull << 16 | 6ull << 32 | 0xffffull << 48 };
    uint64_t out[OUT];

    struct kernel k = load(write_vectors, PTX_U64);
    launch(&k, 1, 1, in, out);
    assert_memory_equal(out, want, sizeof want);
    ptx_module_unload(&k.module);
}

// ---- fragments ----------------------------------------------------------------------------------

enum { TILE = 16, TILE_STRIDE = 24, FIRST = 0x51 };

// Element (r, c) of a tile in shared memory is 256 r + c + in[0]. Each lane writes its words of the
// fragments that both ways of loading give, first of A, then of B.
static void load_fragments(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type, unsigned k)
{
    ptx_ptr tile = ptx_shared(b, type, TILE * TILE_STRIDE);
    ptx_val lane = ptx_laneid(b);
    ptx_val at = ptx_var(b, ptx_mul(b, lane, 16));
    ptx_val first = ptx_cvt(b, PTX_U32, ptx_load(b, in, 0));

    ptx_for (b, i, lane, TILE * TILE_STRIDE, 32) {
        ptx_val row = ptx_div(b, i, TILE_STRIDE), column = ptx_rem(b, i, TILE_STRIDE);
        ptx_val x = ptx_cvt(b, PTX_U16, ptx_mad(b, row, 256, ptx_add(b, column, first)));
        ptx_store(b, ptx_ptr_cast(b, PTX_U16, tile), i, x);
    }
    ptx_barrier(b);
    for (unsigned way = 0; way < 4; way++) {
        const ptx_fragment_role role = way < 2 ? PTX_FRAGMENT_A : PTX_FRAGMENT_B;
        ptx_fragment f =
            ptx_fragment_load(b, role, type, k, tile, TILE_STRIDE, .trans = way % 2 == 1);
        ptx_vec words = ptx_fragment_words(b, f);
        for (unsigned w = 0; w < words.lanes; w++)
            ptx_store(b, out, ptx_add(b, at, w),
                      ptx_cvt(b, PTX_U64, ptx_bitcast(b, PTX_U32, words.lane[w])));
        ptx_set(b, at, ptx_add(b, at, 4));
    }
}

static void load_fragments_8(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    load_fragments(b, in, out, type, 8);
}

static void load_fragments_16(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    load_fragments(b, in, out, type, 16);
}

// PTX's figures: a lane has two neighbours along k in a word. A has rows lane / 4 and those 8
// below; B has column lane / 4.
static uint32_t fragment_word(unsigned lane, unsigned w, bool is_a, bool trans)
{
    uint32_t word = 0;

    for (unsigned half = 0; half < 2; half++) {
        const unsigned step = is_a ? w / 2 : w;
        const unsigned side = lane / 4 + (is_a ? w % 2 * 8 : 0);
        const unsigned k = lane % 4 * 2 + half + 8 * step;
        word |= (FIRST + (trans ? 256 * k + side : 256 * side + k)) << 16 * half;
    }
    return word;
}

TEST(fragments_are_loaded_both_ways)
{
    static const ptx_type types[] = { PTX_F16, PTX_BF16 };
    static const uint64_t in[IN] = { FIRST };
    uint64_t out[OUT];

    for (unsigned t = 0; t < 4; t++) {
        const unsigned most = t / 2 ? 4 : 2; // words of A
        struct kernel k = load(t / 2 ? load_fragments_16 : load_fragments_8, types[t % 2]);
        launch(&k, 1, 32, in, out);
        for (unsigned lane = 0; lane < 32; lane++)
            for (unsigned way = 0; way < 4; way++)
                for (unsigned w = 0; w < (way < 2 ? most : most / 2); w++)
                    if (out[lane * 16 + way * 4 + w] !=
                        fragment_word(lane, w, way < 2, way % 2 == 1))
                        fail_msg("k = %u, way %u, lane %u, word %u: 0x%llx", t / 2 ? 16 : 8, way,
                                 lane, w, (unsigned long long)out[lane * 16 + way * 4 + w]);
        ptx_module_unload(&k.module);
    }
}

// A sum in variables: x y + x y + ..., in[0] times, of matrices of ones with k = 16. Then a copy
// that a later assignment does not change.
static void add_products(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    ptx_val one = ptx_bitcast(b, PTX_B32, ptx_copy(b, ptx_u32(0x3f803f80)));
    ptx_fragment x = ptx_fragment_from(b, PTX_FRAGMENT_A, type, 16, ptx_vec4(one, one, one, one));
    ptx_fragment y = ptx_fragment_from(b, PTX_FRAGMENT_B, type, 16, ptx_vec2(one, one));
    ptx_fragment sum = ptx_fragment_var(b, ptx_fragment_fill(b, ptx_f32(1)));
    ptx_fragment start = ptx_fragment_var(b, sum), left = ptx_fragment_var(b, x);

    ptx_for (b, i, ptx_u64(0), ptx_load(b, in, 0), 1) {
        ptx_fragment_set(b, sum, ptx_mma(b, left, y, sum));
        ptx_fragment_set(b, left, x);
    }
    for (unsigned w = 0; w < 4; w++) {
        ptx_val at = ptx_mad(b, ptx_laneid(b), 8, w);
        ptx_store(b, out, at, ptx_cvt(b, PTX_U64, ptx_fragment_words(b, sum).lane[w]));
        ptx_store(b, out, ptx_add(b, at, 4),
                  ptx_cvt(b, PTX_U64, ptx_fragment_words(b, start).lane[w]));
    }
}

TEST(fragments_are_variables)
{
    static const uint64_t in[IN] = { 5 };
    uint64_t out[OUT];

    struct kernel k = load(add_products, PTX_BF16);
    launch(&k, 1, 32, in, out);
    for (unsigned i = 0; i < 32 * 8; i++)
        assert_int_equal(out[i], i % 8 < 4 ? 1 + 5 * 16 : 1);
    ptx_module_unload(&k.module);
}

// Rows of 12 elements of f32, then of `type`: row r, column c is 1 + (8 r + c) / 1000. in[0] is 0.
static void store_fragments(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_type type)
{
    ptx_val lane = ptx_laneid(b), first = ptx_cvt(b, PTX_U32, ptx_load(b, in, 0));
    ptx_vec words = { .lanes = 4 };

    for (unsigned w = 0; w < 4; w++) {
        ptx_val row = ptx_add(b, ptx_shr(b, lane, 2), w / 2 * 8);
        ptx_val column = ptx_mad(b, ptx_and(b, lane, 3), 2, w % 2);
        ptx_val element = ptx_mad(b, row, 8, ptx_add(b, column, first));
        words.lane[w] = ptx_fma(b, ptx_cvt(b, PTX_F32, element), ptx_f32(1e-3), ptx_f32(1));
    }
    ptx_fragment f = ptx_fragment_from(b, PTX_FRAGMENT_C, PTX_F32, 0, words);
    ptx_fragment_store(b, f, ptx_ptr_cast(b, PTX_F32, out), 12);
    ptx_fragment_store(b, f, ptx_ptr_cast(b, type, ptx_at(b, out, 16 * 12 / 2)), 12);
}

TEST(fragments_are_stored_and_rounded)
{
    static const uint64_t in[IN] = { 0 };
    uint64_t out[OUT];
    float wide[16 * 12];
    uint16_t narrow[16 * 12];

    for (unsigned t = 0; t < 2; t++) {
        struct kernel k = load(store_fragments, t ? PTX_BF16 : PTX_F16);
        launch(&k, 1, 32, in, out);
        memcpy(wide, out, sizeof wide);
        memcpy(narrow, (const unsigned char *)out + sizeof wide, sizeof narrow);
        for (unsigned i = 0; i < 16 * 12; i++) {
            const float want = fmaf((float)(i / 12 * 8 + i % 12), 1e-3f, 1);
            // From 1 to 2 an f16 has steps of 2^-10, a bf16 of 2^-7.
            const unsigned steps = (unsigned)lrintf((want - 1) * (t ? 0x1p7f : 0x1p10f));
            if (i % 12 >= 8) {
                assert_int_equal(narrow[i], 0x0101 * UNTOUCHED);
                continue;
            }
            assert_true(wide[i] == want);
            assert_int_equal(narrow[i], (t ? 0x3f80 : 0x3c00) + steps);
        }
        ptx_module_unload(&k.module);
    }
}

GPU_MAIN

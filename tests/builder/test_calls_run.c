// SPDX-License-Identifier: MIT
// What integers of several words, functions with several results, vectors of atomics, arrivals and
// prefetches compute, on a GPU and on the emulator, compared with plain C.
#include "gpu.h"
#include "test.h"

#include <string.h>

enum { THREADS = 128 };

// ---- a kernel with an array of u64 in and one out, per thread -----------------------------------

typedef void write_body(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_val thread);

// x / y, the lowest bits of x % y, and whether it is odd; of nothing by zero.
static void divide(ptx_builder *b)
{
    ptx_func (b, "divide", .results = { PTX_U64, PTX_U16, PTX_PRED }) {
        ptx_val x = ptx_param(b, PTX_U64, "x"), y = ptx_param(b, PTX_U64, "y");
        ptx_if (b, ptx_eq(b, y, 0))
            ptx_return_values(b, 0, 0, ptx_bool(false));
        ptx_val rest = ptx_rem(b, x, y);
        ptx_return_values(b, ptx_div(b, x, y), ptx_cvt(b, PTX_U16, rest),
                          ptx_ne(b, ptx_and(b, rest, 1), 0));
    }
}

static void run(void (*before)(ptx_builder *), write_body *body, const void *in, size_t in_bytes,
                void *out, size_t out_bytes)
{
    OWNED(ptx_builder) *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = gpu_target() });
    if (before)
        before(b);
    ptx_entry (b, "k", .block = { THREADS }, .max_registers = 128) {
        ptx_param(b, PTX_U32, "unused", .unused = true);
        ptx_ptr from = ptx_param_ptr(b, PTX_U64, "from", .readonly = true);
        ptx_ptr to = ptx_param_ptr(b, PTX_U64, "to");
        body(b, from, to, ptx_tid(b, PTX_X));
    }
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s", ptx_builder_error(b));
    OWNED(ptx_module) *module = ptx_module_load(gpu.device, text, NULL);
    const ptx_function *function = ptx_module_function(module, "k");
    if (!function)
        fail_msg("%s\n%s", ptx_error_message(), text);
    OWNED(ptx_buffer) *source = ptx_buffer_create(gpu.device, in_bytes);
    OWNED(ptx_buffer) *target = ptx_buffer_create(gpu.device, out_bytes);
    const CUdeviceptr from_at = ptx_buffer_address(source), to_at = ptx_buffer_address(target);
    const uint32_t unused = 7;
    const struct ptx_arg args[] = { PTX_ARG(unused), PTX_ARG(from_at), PTX_ARG(to_at) };
    const struct ptx_launch_params launch = {
        .grid = { 1 }, .block = { THREADS }, .stream = gpu.stream, .args = args, .arg_count = 3
    };
    memset(out, 0, out_bytes);
    assert_int_equal(ptx_buffer_upload(source, 0, in, in_bytes, gpu.stream), PTX_OK);
    assert_int_equal(ptx_buffer_upload(target, 0, out, out_bytes, gpu.stream), PTX_OK);
    assert_int_equal(ptx_launch(function, &launch), PTX_OK);
    assert_int_equal(ptx_buffer_download(target, 0, out, out_bytes, gpu.stream), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
}

static uint64_t random_word(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return z % 4 == 0 ? 0 : z % 4 == 1 ? UINT64_MAX : z; // carries go far
}

// ---- integers of several words ------------------------------------------------------------------

// x and y of four words of 64 bits: x + y, x - y and what is left over, x * y.
static void wide_arithmetic(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_val thread)
{
    ptx_val x[4], y[4], sum[5], difference[5], product[8];

    ptx_ptr from = ptx_at(b, in, ptx_mul(b, thread, 8));
    for (unsigned k = 0; k < 4; k++) {
        x[k] = ptx_load(b, from, k);
        y[k] = ptx_load(b, from, 4 + k);
    }
    ptx_words_add(b, 4, sum, x, y, &sum[4]);
    ptx_words_sub(b, 4, difference, x, y, &difference[4]);
    for (unsigned k = 0; k < 4; k++)
        product[k] = ptx_u64(0);
    for (unsigned k = 0; k < 4; k++)
        ptx_words_mad(b, 4, product + k, x, y[k], product + k);
    ptx_ptr to = ptx_at(b, out, ptx_mul(b, thread, 18));
    for (unsigned k = 0; k < 5; k++) {
        ptx_store(b, to, k, sum[k]);
        ptx_store(b, to, 5 + k, difference[k]);
    }
    for (unsigned k = 0; k < 8; k++)
        ptx_store(b, to, 10 + k, product[k]);
}

// The same in halves of the words: eight of 32 bits each.
static void narrow_arithmetic(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_val thread)
{
    ptx_val x[8], y[8], sum[8], difference[8], left[2], product[16];

    ptx_ptr from = ptx_ptr_cast(b, PTX_U32, ptx_at(b, in, ptx_mul(b, thread, 8)));
    for (unsigned k = 0; k < 8; k++) {
        x[k] = ptx_load(b, from, k);
        y[k] = ptx_load(b, from, 8 + k);
    }
    ptx_words_add(b, 8, sum, x, y, &left[0]);
    ptx_words_sub(b, 8, difference, x, y, &left[1]);
    for (unsigned k = 0; k < 8; k++)
        product[k] = ptx_u32(0);
    for (unsigned k = 0; k < 8; k++)
        ptx_words_mad(b, 8, product + k, x, y[k], product + k);
    ptx_ptr to = ptx_ptr_cast(b, PTX_U32, ptx_at(b, out, ptx_mul(b, thread, 18)));
    for (unsigned k = 0; k < 8; k++) {
        ptx_store(b, to, k, sum[k]);
        ptx_store(b, to, 10 + k, difference[k]);
    }
    ptx_store(b, to, 8, left[0]);
    ptx_store(b, to, 18, left[1]);
    for (unsigned k = 0; k < 16; k++)
        ptx_store(b, to, 20 + k, product[k]);
}

// By digits of 32 bits.
static void expected_arithmetic(const uint64_t in[8], uint64_t out[18])
{
    uint32_t x[8], y[8], sum[10] = { 0 }, difference[10] = { 0 }, product[16] = { 0 };
    uint64_t carry = 0, borrow = 0;

    memcpy(x, in, sizeof x);
    memcpy(y, in + 4, sizeof y);
    for (unsigned k = 0; k < 8; k++) {
        carry += (uint64_t)x[k] + y[k];
        sum[k] = (uint32_t)carry;
        carry >>= 32;
        const uint64_t d = (uint64_t)x[k] - y[k] - borrow;
        difference[k] = (uint32_t)d;
        borrow = d >> 63;
    }
    sum[8] = (uint32_t)carry;
    difference[8] = (uint32_t)borrow;
    for (unsigned k = 0; k < 8; k++) {
        carry = 0;
        for (unsigned n = 0; n < 8; n++) {
            carry += (uint64_t)x[n] * y[k] + product[n + k];
            product[n + k] = (uint32_t)carry;
            carry >>= 32;
        }
        product[8 + k] = (uint32_t)carry;
    }
    memcpy(out, sum, sizeof sum);
    memcpy(out + 5, difference, sizeof difference);
    memcpy(out + 10, product, sizeof product);
}

TEST(integers_of_several_words)
{
    static uint64_t in[THREADS][8], out[THREADS][18], want[THREADS][18];
    uint64_t seed = 5;

    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned k = 0; k < 8; k++)
            in[t][k] = random_word(&seed);
        if (t % 8 == 0) // equal but for the lowest word
            memcpy(&in[t][5], &in[t][1], 3 * sizeof in[t][1]);
        expected_arithmetic(in[t], want[t]);
    }
    run(NULL, wide_arithmetic, in, sizeof in, out, sizeof out);
    assert_memory_equal(out, want, sizeof want);
    run(NULL, narrow_arithmetic, in, sizeof in, out, sizeof out);
    assert_memory_equal(out, want, sizeof want);
}

// One word, and the most: the sum of numbers of 32 words whose carry goes through all of them.
static void one_and_many(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_val thread)
{
    ptx_val x[PTX_WORDS_MAX], sum[PTX_WORDS_MAX + 1], one = ptx_load(b, in, thread);

    for (unsigned k = 0; k < PTX_WORDS_MAX; k++)
        x[k] = ptx_u64(UINT64_MAX);
    ptx_val y[PTX_WORDS_MAX] = { one };
    for (unsigned k = 1; k < PTX_WORDS_MAX; k++)
        y[k] = ptx_u64(0);
    ptx_words_add(b, PTX_WORDS_MAX, sum, x, y, &sum[PTX_WORDS_MAX]);
    ptx_val low[2];
    ptx_words_mad(b, 1, low, &one, ptx_u64(UINT64_MAX), &one);
    ptx_ptr to = ptx_at(b, out, ptx_mul(b, thread, 4));
    ptx_store(b, to, 0, sum[PTX_WORDS_MAX - 1]);
    ptx_store(b, to, 1, sum[PTX_WORDS_MAX]);
    ptx_store(b, to, 2, low[0]);
    ptx_store(b, to, 3, low[1]);
}

TEST(one_word_and_the_most)
{
    static uint64_t in[THREADS], out[THREADS][4];

    for (unsigned t = 0; t < THREADS; t++)
        in[t] = t;
    run(NULL, one_and_many, in, sizeof in, out, sizeof out);
    for (unsigned t = 0; t < THREADS; t++) {
        assert_int_equal(out[t][0], t ? 0 : UINT64_MAX);
        assert_int_equal(out[t][1], t != 0);
        assert_int_equal(out[t][2], 0); // t * 2^64
        assert_int_equal(out[t][3], t);
    }
}

// ---- functions with several results -------------------------------------------------------------

static void two_ways(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_val thread)
{
    ptx_val x = ptx_load(b, in, thread), steps = ptx_var(b, ptx_u64(0));
    ptx_val rest = ptx_var(b, x), odd = ptx_var(b, ptx_bool(false));

    ptx_while (b, ptx_gt(b, rest, 9)) { // results are set to variables that are arguments
        ptx_vec d = ptx_call_many(b, "divide", rest, ptx_add(b, steps, 2));
        ptx_set(b, rest, d.lane[0]);
        ptx_set(b, steps, ptx_add(b, steps, ptx_cvt(b, PTX_U64, d.lane[1])));
        ptx_set(b, odd, ptx_xor(b, odd, d.lane[2]));
    }
    ptx_ptr to = ptx_at(b, out, ptx_mul(b, thread, 4));
    ptx_store(b, to, 0, rest);
    ptx_store(b, to, 1, steps);
    ptx_store(b, to, 2, ptx_select(b, odd, ptx_u64(1), 0));
}

TEST(several_results)
{
    static uint64_t in[THREADS], out[THREADS][4];
    uint64_t seed = 11;

    for (unsigned t = 0; t < THREADS; t++)
        in[t] = random_word(&seed) >> t % 60;
    run(divide, two_ways, in, sizeof in, out, sizeof out);
    for (unsigned t = 0; t < THREADS; t++) {
        uint64_t rest = in[t], steps = 0, odd = 0;
        while (rest > 9) {
            const uint64_t by = steps + 2, left = by ? rest % by : 0;
            rest = by ? rest / by : 0;
            steps += (uint16_t)left;
            odd ^= left & 1;
        }
        assert_int_equal(out[t][0], rest);
        assert_int_equal(out[t][1], steps);
        assert_int_equal(out[t][2], odd);
    }
}

// ---- memory and threads -------------------------------------------------------------------------

// All threads add to the same four elements; one of them in vectors of two, whose old values it
// keeps.
static void sums(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_val thread)
{
    ptx_ptr f = ptx_ptr_cast(b, PTX_F32, out), h = ptx_ptr_cast(b, PTX_F16, ptx_at(b, out, 2));
    ptx_val x = ptx_cvt(b, PTX_F32, ptx_load(b, in, thread));
    ptx_val half = ptx_cvt(b, PTX_F16, x);

    ptx_prefetch(b, in, ptx_add(b, thread, 1), PTX_PREFETCH_L2);
    ptx_prefetch(b, in, thread, PTX_PREFETCH_UNIFORM);
    ptx_atomic_vec(b, PTX_ATOMIC_add, f, 0, ptx_vec4(x, 1, ptx_neg(b, x), ptx_mul(b, x, 2)));
    ptx_atomic_vec(b, PTX_ATOMIC_max, h, 0, ptx_vec2(half, ptx_neg(b, half)));
    ptx_barrier(b);
    ptx_if (b, ptx_eq(b, thread, 0)) {
        ptx_vec old = ptx_atomic_vec(b, PTX_ATOMIC_add, f, 2, ptx_vec2(1, 2));
        ptx_store(b, f, 6, old.lane[0]);
        ptx_store(b, f, 7, old.lane[1]);
    }
}

TEST(vectors_of_atomics)
{
    static uint64_t in[THREADS];
    float out[8];
    uint16_t halves[2];
    const float total = THREADS * (THREADS - 1) / 2;

    if (gpu_target().sm < 90)
        return;
    for (unsigned t = 0; t < THREADS; t++)
        in[t] = t;
    run(NULL, sums, in, sizeof in, out, sizeof out);
    assert_true(out[0] == total && out[1] == THREADS);
    assert_true(out[2] == 1 - total && out[3] == 2 * total + 2);
    assert_true(out[6] == -total && out[7] == 2 * total);
    memcpy(halves, &out[4], sizeof halves);
    assert_int_equal(halves[0], 0x57f0); // 127
    assert_int_equal(halves[1], 0);      // 0 is the greatest of 0, -0, -1, ...
}

// Half of the warps write, arrive, and go on; the others wait for them and read.
static void handed_over(ptx_builder *b, ptx_ptr in, ptx_ptr out, ptx_val thread)
{
    ptx_ptr shared = ptx_shared(b, PTX_U64, THREADS / 2);
    ptx_val half = ptx_rem(b, thread, THREADS / 2);

    ptx_if (b, ptx_lt(b, thread, THREADS / 2)) {
        ptx_store(b, shared, half, ptx_load(b, in, thread));
        ptx_barrier_arrive(b, 1, THREADS);
    }
    ptx_else (b) {
        ptx_barrier_named(b, 1, THREADS);
        ptx_store(b, out, half, ptx_load(b, shared, ptx_sub(b, THREADS / 2 - 1, half)));
    }
}

TEST(arrivals_hand_over)
{
    static uint64_t in[THREADS], out[THREADS / 2];

    for (unsigned t = 0; t < THREADS; t++)
        in[t] = 1000 + t;
    run(NULL, handed_over, in, sizeof in, out, sizeof out);
    for (unsigned t = 0; t < THREADS / 2; t++)
        assert_int_equal(out[t], 1000 + THREADS / 2 - 1 - t);
}

GPU_MAIN

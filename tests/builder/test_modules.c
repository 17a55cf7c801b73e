// SPDX-License-Identifier: MIT
// Modules with data, functions and messages, run through the driver layer: on a GPU, and on the
// emulator. Where ptxas is found, it assembles each text for several targets.
#define _POSIX_C_SOURCE 200809L
#include "module_fixture.h"
#include "ptxas_batch.h"

enum { THREADS = 64, WORDS = 256 };

static uint32_t out[WORDS]; // what the kernel `k` left, from zeros

// Writes the module with the entry `k(out)`, for blocks of THREADS.
typedef void module_writer(ptx_builder *b);

static void assemble(module_writer *write)
{
    static const int targets[] = { 75, 80, 90, 121 };
    char name[PTX_TARGET_NAME_SIZE];

    for (size_t k = 0; ptxas_find() && k < sizeof targets / sizeof *targets; k++) {
        if (!ptxas_knows(ptx_target_name((struct ptx_target) { .sm = targets[k] }, name)))
            continue;
        OWNED(ptx_builder) *b = builder_at(targets[k]);
        write(b);
        struct ptxas_report report = ptxas_run(finished(b), name);
        if (!report.accepted)
            fail_msg("%s, line %d: %s\n%s", name, report.count ? report.errors[0].line : 0,
                     report.count ? report.errors[0].text : "no message", finished(b));
        ptxas_report_free(&report);
    }
}

static ptx_module *load(module_writer *write)
{
    OWNED(ptx_builder) *b = builder_at(70);

    assemble(write);
    write(b);
    ptx_module *module = ptx_module_load(gpu, finished(b), NULL);
    if (!module)
        fail_msg("%s\n%s", ptx_error_message(), finished(b));
    return module;
}

static void launch(ptx_module *module)
{
    ptx_function *k = ptx_module_function(module, "k");
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu, sizeof out);
    CUdeviceptr address = ptx_buffer_address(buffer);
    const struct ptx_arg args[] = { PTX_ARG(address) };

    memset(out, 0, sizeof out);
    check(ptx_buffer_upload(buffer, 0, out, sizeof out, NULL));
    check(ptx_launch(k, &(struct ptx_launch_params) {
                            .grid = { 1 }, .block = { THREADS }, .args = args, .arg_count = 1 }));
    check(ptx_buffer_download(buffer, 0, out, sizeof out, NULL));
    check(ptx_stream_synchronize(gpu, NULL));
}

// ---- data ---------------------------------------------------------------------------------------

static const float weights[] = { 0.5f, -2.0f, 1e-40f };
static const int8_t steps[] = { -128, 127, 3, 0, -1 };
static const uint64_t wide[] = { UINT64_MAX, 1, UINT64_C(0x123456789abcdef0) };
static const double doubles[] = { 0.1, -0.0 };
static const uint16_t halves[] = { 0x3c00, 0x8001, 0x7e00 };

// Copies an array to out[first], an element to a word, or to two words.
static void copy(ptx_builder *b, ptx_ptr to, unsigned first, ptx_ptr from)
{
    const unsigned size = ptx_type_bytes((ptx_type)from.type);

    if (size == 8)
        ptx_store(b, ptx_ptr_cast(b, PTX_U64, ptx_at(b, to, first)), 0,
                  ptx_load(b, ptx_ptr_cast(b, PTX_U64, from), 0));
    for (unsigned k = 0; k < from.count; k++) {
        ptx_val x = ptx_load(b, from, k);
        ptx_val i = ptx_var(b, ptx_u32(k)); // the same by a computed address
        ptx_val y = ptx_load(b, from, i);
        if (size == 8) {
            ptx_ptr at = ptx_ptr_cast(b, PTX_B64, ptx_at(b, to, first + 4 * k));
            ptx_store(b, at, 0, ptx_bitcast(b, PTX_B64, x));
            ptx_store(b, at, 1, ptx_bitcast(b, PTX_B64, y));
        } else {
            ptx_ptr at = ptx_ptr_cast(b, (ptx_type)from.type, ptx_at(b, to, first + 2 * k));
            ptx_store(b, at, 0, x);
            ptx_store(b, ptx_at(b, at, 4 / size), 0, y);
        }
    }
}

static void write_data(ptx_builder *b)
{
    ptx_ptr c1 = ptx_const(b, PTX_F32, "weights", .values = weights, .bytes = sizeof weights);
    ptx_ptr c2 = ptx_const(b, PTX_S8, "steps", .values = steps, .bytes = sizeof steps);
    ptx_ptr c3 = ptx_const(b, PTX_F64, "doubles", .values = doubles, .bytes = 16, .count = 3);
    ptx_ptr g1 = ptx_global(b, PTX_U64, "wide", .values = wide, .bytes = sizeof wide);
    ptx_ptr g2 = ptx_global(b, PTX_F16, "halves", .values = halves, .bytes = 6, .align = 256);
    ptx_ptr count = ptx_global(b, PTX_U32, "launches", .count = 1);

    ptx_entry (b, "k") {
        ptx_ptr to = ptx_param_ptr(b, PTX_U32, "out");
        ptx_return_if(b, ptx_ne(b, ptx_tid(b, PTX_X), 0));
        copy(b, to, 0, c1);
        copy(b, to, 8, c2);
        copy(b, to, 20, c3);
        copy(b, to, 40, g1);
        copy(b, to, 60, g2);
        ptx_ptr text =
            ptx_ptr_from(b, PTX_U8, PTX_SPACE_GENERIC, ptx_ptr_generic(b, ptx_string(b, "hello")));
        ptx_store(b, to, 70, ptx_cvt(b, PTX_U32, ptx_load(b, text, 4)));
        ptx_store(b, to, 71, ptx_atomic_add(b, count, 0, 1));
    }
    ptx_entry (b, "set") {
        ptx_ptr p = ptx_param_ptr(b, PTX_U64, "p");
        ptx_store(b, p, 1, 77);
    }
}

static void expect(unsigned first, const void *values, unsigned count, unsigned bytes)
{
    const unsigned words = bytes == 8 ? 2 : 1;

    for (unsigned k = 0; k < count; k++)
        for (unsigned twice = 0; twice < 2; twice++)
            if (memcmp(&out[first + (2 * k + twice) * words],
                       (const unsigned char *)values + (size_t)k * bytes, bytes) != 0)
                fail_msg("element %u of the array at %u differs, read %s", k, first,
                         twice ? "by a computed address" : "at its place");
}

TEST(data_reach_kernels_and_hosts)
{
    static const double padded[] = { 0.1, -0.0, 0 };
    const uint64_t changed = 77;
    CUdeviceptr address = 0;
    size_t bytes = 0;

    OWNED(ptx_module) *module = load(write_data);
    launch(module);
    expect(0, weights, 3, 4);
    expect(8, steps, 5, 1);
    expect(20, padded, 3, 8);
    expect(40, wide, 3, 8);
    expect(60, halves, 3, 2);
    assert_int_equal(out[70], 'o');
    assert_int_equal(out[71], 0);

    // The host finds them by name; they keep what kernels stored.
    check(ptx_module_global(module, "wide", &address, &bytes));
    assert_int_equal(bytes, sizeof wide);
    const struct ptx_arg args[] = { PTX_ARG(address) };
    check(ptx_launch(ptx_module_function(module, "set"),
                     &(struct ptx_launch_params) {
                         .grid = { 1 }, .block = { 1 }, .args = args, .arg_count = 1 }));
    launch(module);
    assert_memory_equal(&out[44], &changed, 8);
    assert_int_equal(out[71], 1);
    check(ptx_module_global(module, "weights", &address, &bytes));
    assert_int_equal(bytes, sizeof weights);
    assert_int_equal(ptx_module_global(module, "absent", &address, NULL), PTX_ERROR_NOT_FOUND);
}

// ---- functions ----------------------------------------------------------------------------------

static void sum_over_warp(ptx_builder *b)
{
    ptx_func (b, "warp_sum", .result = PTX_U32) {
        ptx_val sum = ptx_var(b, ptx_param(b, PTX_U32, "x"));
        for (unsigned step = 16; step; step /= 2)
            ptx_set(b, sum, ptx_add(b, sum, ptx_shfl_bfly(b, sum, step)));
        ptx_return_value(b, sum);
    }
    // Its shared array and its barrier are those of the caller's block.
    ptx_func (b, "block_sum", .result = PTX_U32) {
        ptx_val x = ptx_param(b, PTX_U32, "x"), tid = ptx_tid(b, PTX_X);
        ptx_ptr sums = ptx_shared(b, PTX_U32, THREADS / 32);
        ptx_store(b, sums, ptx_shr(b, tid, ptx_u32(5)), ptx_call(b, "warp_sum", x));
        ptx_barrier(b);
        ptx_return_value(b, ptx_add(b, ptx_load(b, sums, 0), ptx_load(b, sums, 1)));
    }
}

// A function of every type that gives back its argument; and one with paths.
static void small_functions(ptx_builder *b)
{
    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++) {
        char name[16];
        snprintf(name, sizeof name, "same_%s", ptx_type_name((ptx_type)t));
        ptx_func (b, name, .result = (ptx_type)t)
            ptx_return_value(b, ptx_param(b, (ptx_type)t, "x"));
    }
    ptx_func (b, "collatz", .result = PTX_U32) {
        ptx_val x = ptx_var(b, ptx_param(b, PTX_U32, "x")), count = ptx_var(b, ptx_u32(0));
        ptx_loop (b) {
            ptx_if (b, ptx_le(b, x, 1))
                ptx_return_value(b, count);
            ptx_set(b, count, ptx_add(b, count, 1));
            ptx_val odd = ptx_ne(b, ptx_and(b, x, 1), 0);
            ptx_set(b, x, ptx_select(b, odd, ptx_mad(b, x, 3, ptx_u32(1)), ptx_shr(b, x, 1)));
        }
    }
    ptx_func (b, "put") {
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p", .writeonly = true);
        ptx_val x = ptx_param(b, PTX_U32, "x"), i = ptx_param(b, PTX_U16, "i");
        ptx_store(b, p, ptx_cvt(b, PTX_U32, i), x);
    }
}

static void write_functions(ptx_builder *b)
{
    sum_over_warp(b);
    small_functions(b);
    ptx_entry (b, "k", .block = { THREADS }) {
        ptx_ptr to = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_val sum = ptx_call(b, "block_sum", tid);
        ptx_if (b, ptx_ge(b, tid, 40)) // some lanes of a warp
            ptx_store(b, to, tid, ptx_call(b, "collatz", tid));
        ptx_return_if(b, ptx_ne(b, tid, 27));
        ptx_call(b, "put", ptx_ptr_address(b, to), sum, 100);
        ptx_call(b, "put", ptx_ptr_generic(b, ptx_at(b, to, 1)), ptx_call(b, "collatz", tid), 100);
        for (unsigned t = 1; t < PTX_TYPE_COUNT; t++) {
            char name[16];
            const ptx_type type = (ptx_type)t;
            const unsigned bytes = ptx_type_bytes(type);
            snprintf(name, sizeof name, "same_%s", ptx_type_name(type));
            ptx_ptr at =
                ptx_ptr_cast(b, type == PTX_PRED ? PTX_U32 : type, ptx_at(b, to, 110 + 4 * t));
            if (type == PTX_PRED) {
                ptx_val x = ptx_call(b, name, ptx_eq(b, tid, 27));
                ptx_store(b, at, 0, ptx_select(b, x, ptx_u32(7), ptx_u32(8)));
                continue;
            }
            ptx_val bits = ptx_imm_bits(type, UINT64_C(0x81a2c3e4f5061728) >> (64 - 8 * bytes));
            ptx_store(b, at, 0, ptx_call(b, name, bits));
            ptx_store(b, at, 1, ptx_call(b, name, ptx_copy(b, bits)));
        }
    }
}

static uint32_t collatz(uint32_t x)
{
    uint32_t count = 0;

    for (; x > 1; count++)
        x = x & 1 ? 3 * x + 1 : x / 2;
    return count;
}

TEST(functions_compute)
{
    OWNED(ptx_module) *module = load(write_functions);
    launch(module);
    for (uint32_t tid = 0; tid < THREADS; tid++)
        assert_int_equal(out[tid], tid >= 40 ? collatz(tid) : 0);
    assert_int_equal(out[100], THREADS * (THREADS - 1) / 2);
    assert_int_equal(out[101], collatz(27));
    assert_int_equal(out[110 + 4 * PTX_PRED], 7);
    for (unsigned t = PTX_PRED + 1; t < PTX_TYPE_COUNT; t++) {
        const unsigned bytes = ptx_type_bytes((ptx_type)t);
        const uint64_t bits = UINT64_C(0x81a2c3e4f5061728) >> (64 - 8 * bytes);
        for (unsigned twice = 0; twice < 2; twice++)
            if (memcmp((unsigned char *)&out[110 + 4 * t] + (size_t)twice * bytes, &bits, bytes))
                fail_msg("%s is not what was passed", ptx_type_name((ptx_type)t));
    }
}

// ---- messages -----------------------------------------------------------------------------------

// The kernel's output goes to a file from here on; printed_at_end() gives it back.
static void write_prints(ptx_builder *b)
{
    ptx_func (b, "print_three") {
        ptx_val x = ptx_param(b, PTX_S8, "x");
        ptx_printf(b, "%d %hu %c|", x, x, 65);
    }
    ptx_entry (b, "k") {
        ptx_ptr to = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val tid = ptx_tid(b, PTX_X), big = ptx_shl(b, ptx_cvt(b, PTX_U64, tid), ptx_u32(40));
        ptx_store(b, to, tid, tid);
        ptx_if (b, ptx_lt(b, tid, 2)) {
            ptx_val half = ptx_cvt(b, PTX_F16, tid), minus = ptx_copy(b, ptx_s16(-5));
            ptx_printf(b, "thread %u: %5.2f %g %e %a|", tid, ptx_f32(0.125), half, -1.5, 1.0);
            ptx_printf(b, "%llx %lld %ld %%|", big, -5000000000, big);
            ptx_printf(b, "%d %hd %x %o %i %d|", minus, minus, ptx_bitcast(b, PTX_U16, minus), 8,
                       ptx_eq(b, tid, 0), ptx_eq(b, tid, 1));
            ptx_printf(b, "%s %-6s|", ptx_ptr_generic(b, ptx_string(b, "one")),
                       ptx_ptr_generic(b, ptx_string(b, "two")));
            ptx_printf(b, "%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%lld|", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                       11, 12, 13, 14, 15);
            ptx_call(b, "print_three", -3);
            ptx_printf(b, "done\n");
        }
    }
}

TEST(kernels_print)
{
    char wanted[2048], sum[512];

    OWNED(ptx_module) *module = load(write_prints);
    begin_printing(STDOUT_FILENO);
    launch(module);
    const char *text = end_printing(STDOUT_FILENO);
    for (unsigned tid = 0; tid < 2; tid++) {
        const unsigned long long big = (unsigned long long)tid << 40;
        snprintf(wanted, sizeof wanted, "thread %u: %5.2f %g %e %a|", tid, 0.125, (double)tid, -1.5,
                 1.0);
        snprintf(sum, sizeof sum, "%llx %lld %lld %%|", big, -5000000000LL, (long long)big);
        const bool lines = strstr(text, wanted) && strstr(text, sum);
        snprintf(sum, sizeof sum, "-5 -5 fffb 10 %d %d|", tid == 0, tid == 1);
        if (!lines || !strstr(text, sum) || !strstr(text, "one two   |") ||
            !strstr(text, "01234567891011121314"
                          "15|") ||
            !strstr(text, "-3 65533 A|done\n"))
            fail_msg("thread %u is not as C prints it in: %s", tid, text);
    }
}

static void write_assertion(ptx_builder *b)
{
    ptx_func (b, "check")
        ptx_assert(b, ptx_lt(b, ptx_param(b, PTX_U32, "x"), 37), "x < 37", .file = "k.c",
                   .line = 9);
    ptx_entry (b, "k") {
        ptx_ptr to = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val tid = ptx_tid(b, PTX_X);
        ptx_assert(b, ptx_lt(b, tid, THREADS), "all");
        ptx_if (b, ptx_eq(b, tid, 37))
            ptx_call(b, "check", tid);
        ptx_if (b, ptx_gt(b, tid, THREADS))
            ptx_trap_message(b, "never");
        ptx_store(b, to, tid, tid);
    }
}

// The last test: the context is lost.
TEST(an_assertion_stops_the_kernel)
{
    CUdeviceptr address = 0;
    const struct ptx_arg args[] = { PTX_ARG(address) };

    OWNED(ptx_module) *module = load(write_assertion);
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu, sizeof out);
    address = ptx_buffer_address(buffer);
    begin_printing(STDERR_FILENO);
    ptx_status status =
        ptx_launch(ptx_module_function(module, "k"),
                   &(struct ptx_launch_params) {
                       .grid = { 1 }, .block = { THREADS }, .args = args, .arg_count = 1 });
    if (!status)
        status = ptx_stream_synchronize(gpu, NULL);
    const char *text = end_printing(STDERR_FILENO);
    if (!strstr(text, "k.c:9: check: block: [0,0,0], thread: [37,0,0] Assertion `x < 37` failed."))
        fail_msg("no message in: %s", text);
    assert_null(strstr(text, "Assertion `all`"));
    assert_int_not_equal(status, PTX_OK);
    if (!strstr(ptx_error_message(), "ASSERT"))
        fail_msg("another error: %s", ptx_error_message());
}

int main(void)
{
    gpu = open_device();
    if (!ptxas_find())
        fprintf(stderr, "SKIPPED, the assembler: no ptxas: modules are run, and not assembled\n");
    const int failed = tests_run(NULL, NULL);
    ptx_device_close(&gpu);
    return failed;
}

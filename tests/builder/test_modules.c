// SPDX-License-Identifier: MIT
// Modules with data, run through the driver layer: on a GPU, and on the emulator. Where ptxas is
// found, it assembles each text for several targets.
#include "builder_fixture.h"
#include "ptxas_batch.h"

#include <ptxgen/driver.h>

enum { THREADS = 64, WORDS = 256 };

static ptx_device *gpu;
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
        ptx_builder *b = builder_at(targets[k]);
        write(b);
        struct ptxas_report report = ptxas_run(finished(b), name);
        if (!report.accepted)
            fail_msg("%s, line %d: %s\n%s", name, report.count ? report.errors[0].line : 0,
                     report.count ? report.errors[0].text : "no message", finished(b));
        ptxas_report_free(&report);
        ptx_builder_destroy(&b);
    }
}

static void check(ptx_status status)
{
    if (status)
        fail_msg("%s: %s", ptx_status_name(status), ptx_error_message());
}

static ptx_module *load(module_writer *write)
{
    ptx_builder *b = builder_at(70);

    assemble(write);
    write(b);
    ptx_module *module = ptx_module_load(gpu, finished(b), NULL);
    if (!module)
        fail_msg("%s\n%s", ptx_error_message(), finished(b));
    ptx_builder_destroy(&b);
    return module;
}

static void launch(ptx_module *module)
{
    ptx_function *k = ptx_module_function(module, "k");
    ptx_buffer *buffer = ptx_buffer_create(gpu, sizeof out);
    CUdeviceptr address = ptx_buffer_address(buffer);
    const struct ptx_arg args[] = { PTX_ARG(address) };

    memset(out, 0, sizeof out);
    check(ptx_buffer_upload(buffer, 0, out, sizeof out, NULL));
    check(ptx_launch(k, &(struct ptx_launch_params) {
                            .grid = { 1 }, .block = { THREADS }, .args = args, .arg_count = 1 }));
    check(ptx_buffer_download(buffer, 0, out, sizeof out, NULL));
    check(ptx_stream_synchronize(gpu, NULL));
    ptx_buffer_destroy(&buffer);
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

static void data_reach_kernels_and_hosts(void **state)
{
    static const double padded[] = { 0.1, -0.0, 0 };
    const uint64_t changed = 77;
    CUdeviceptr address = 0;
    size_t bytes = 0;

    (void)state;
    ptx_module *module = load(write_data);
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
    ptx_module_unload(&module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_reach_kernels_and_hosts),
    };

    gpu = ptx_device_open(NULL);
    if (!gpu) {
        const ptx_status status = ptx_error_status();
        const bool absent = status == PTX_ERROR_NO_DRIVER || status == PTX_ERROR_NO_DEVICE;
        fprintf(stderr, "%s: %s\n", absent ? "SKIPPED, no GPU" : "FAILED, GPU unusable",
                ptx_error_message());
        return absent ? 77 : 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ptx_device_close(&gpu);
    return failed;
}

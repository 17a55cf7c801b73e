// SPDX-License-Identifier: MIT
// The k-th allocation fails, for every k: the result is an error, without a leak or a crash.
#include "asm_module.h"
#include "builder_fixture.h"
#include "kitchen_sink.h"
#include "sanitized.h"

#include <ptxgen/kernels.h>

#include <stdlib.h>
#include <string.h>

struct allocator {
    size_t calls, fail_at; // counted from 1; 0: none fails
    size_t blocks;         // live
    size_t bytes, peak;
    bool misused;
};

// Each block has its size in front, so the freed bytes can be counted.
static void *resize(void *user, void *memory, size_t bytes)
{
    struct allocator *a = user;
    max_align_t *block = memory ? (max_align_t *)memory - 1 : NULL;
    const size_t before = block ? *(size_t *)block : 0;

    if (!bytes) {
        a->misused |= !memory; // nothing is freed that was never allocated
        a->bytes -= before;
        a->blocks--;
        free(block);
        return NULL;
    }
    if (++a->calls == a->fail_at)
        return NULL;
    block = realloc(block, sizeof *block + bytes);
    if (!block)
        abort();
    *(size_t *)block = bytes;
    a->blocks += !memory;
    a->bytes += bytes - before;
    if (a->bytes > a->peak)
        a->peak = a->bytes;
    return block + 1;
}

typedef void write_module(ptx_builder *b, const void *with);

static void write_sink(ptx_builder *b, const void *with)
{
    (void)with;
    kitchen_sink(b, "sink");
    kitchen_sink(b, "sink_too");
    asm_module(b);
}

static void write_kernel(ptx_builder *b, const void *with)
{
    const ptx_kernel *kernel = with;

    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        if (kernel->dtypes >> t & 1)
            ptx_kernel_emit(b, kernel, &(struct ptx_kernel_spec) { .dtype = (ptx_type)t });
}

static void write_everything(ptx_builder *b, const void *with)
{
    write_sink(b, with);
    for (size_t k = 0; ptx_kernel_at(k); k++)
        write_kernel(b, ptx_kernel_at(k));
}

// Lines far longer than the estimate: the text buffer grows while it is written.
static void write_long_names(ptx_builder *b, const void *with)
{
    static char name[700];

    (void)with;
    memset(name, 'l', sizeof name - 1);
    ptx_entry (b, "names") {
        ptx_val done = ptx_eq(b, ptx_tid(b, PTX_X), ptx_u32(0));
        ptx_label far = ptx_label_create(b, name);
        for (int k = 0; k < 60; k++)
            ptx_branch_if(b, done, far);
        ptx_label_place(b, far);
        ptx_comment(b, "%s%s%s%s", name, name, name, name);
    }
}

// False if no allocation failed: then the module is complete.
static bool write_with(struct allocator *a, write_module *write, const void *with)
{
    struct ptx_builder_params params = { .target = { .sm = 80 }, .resize = resize, .user = a };
    ptx_builder *b = ptx_builder_create(&params);

    write(b, with);
    const char *text = ptx_builder_finish(b);
    const bool failed = a->fail_at && a->calls >= a->fail_at;
    const char *error = ptx_builder_error(b);
    assert_int_equal(ptx_builder_out_of_memory(b), failed);
    if (failed) {
        assert_null(text);
        if (!error || !strstr(error, "out of memory"))
            fail_msg("allocation %zu failed: %s", a->fail_at, error ? error : "no error");
        write(b, with); // must do nothing
        assert_null(ptx_builder_finish(b));
        assert_string_equal(ptx_builder_error(b), error);
    } else {
        if (!text)
            fail_msg("%s", error);
        assert_int_equal(ptx_builder_get_info(b).peak_bytes, a->peak);
    }
    ptx_builder_destroy(&b);
    assert_null(b);
    assert_int_equal(a->blocks, 0);
    assert_int_equal(a->bytes, 0);
    assert_false(a->misused);
    return failed;
}

static void every_allocation_can_fail(write_module *write, const void *with)
{
    struct allocator counted = { 0 };
    size_t k = 1;

    assert_false(write_with(&counted, write, with));
    for (;; k++) {
        struct allocator a = { .fail_at = k };
        if (!write_with(&a, write, with))
            break;
    }
    assert_int_equal(k, counted.calls + 1);
    assert_true(k > 2);
}

// A module after a comment that takes a given part of the builder's memory, and after a given
// number of instructions. Over all lengths, each call is once the one that needs more memory.
struct filled {
    write_module *write;
    const void *with;
    int length, instructions;
};

static void write_filled(ptx_builder *b, const void *with)
{
    const struct filled *filled = with;

    ptx_entry (b, "filler") {
        ptx_comment(b, "%*s", filled->length, "x");
        for (int k = 0; k < filled->instructions; k++)
            ptx_copy(b, ptx_u32(1));
    }
    filled->write(b, filled->with);
}

static void every_call_can_fail(write_module *write, const void *with)
{
    enum { FIRST_CHUNK = 8192, STEP = 40, FAILURES = 6 };

    // Each step adds an instruction. The last has more than the first allocation of code holds.
    for (int k = 0; k * STEP < FIRST_CHUNK; k += SANITIZED_EVERY(4)) {
        const struct filled filled = { write, with, k * STEP, k };
        for (size_t at = 1; at <= FAILURES; at++) {
            struct allocator a = { .fail_at = at };
            write_with(&a, write_filled, &filled);
        }
    }
}

TEST(every_call_survives)
{
    every_call_can_fail(write_sink, NULL);
    for (size_t k = 0; ptx_kernel_at(k); k++)
        every_call_can_fail(write_kernel, ptx_kernel_at(k));
}

TEST(a_kitchen_sink_survives)
{
    every_allocation_can_fail(write_sink, NULL);
}

TEST(a_text_that_grows_survives)
{
    every_allocation_can_fail(write_long_names, NULL);
}

TEST(the_kernels_survive)
{
    size_t k = 0;

    for (; ptx_kernel_at(k); k += SANITIZED_EVERY(3))
        every_allocation_can_fail(write_kernel, ptx_kernel_at(k));
    assert_true(k >= 5);
    every_allocation_can_fail(write_everything, NULL);
}

// A text takes up to 2.4 times its length while it is written. Those of three kernels are long, as
// the vectors that a thread reads ahead are unrolled: cast_fp8 has some 40 conversions, in integer
// arithmetic on targets below sm_90; the learned quantizers add each element to two sums of f64.
static size_t most_bytes(const ptx_kernel *kernel)
{
    if (strcmp(kernel->name, "cast_fp8") == 0)
        return 148 << 10;
    if (strcmp(kernel->name, "quantize_learned_backward") == 0)
        return 256 << 10;
    if (strcmp(kernel->name, "quantize_learned_groups") == 0)
        return 220 << 10;
    return 108 << 10;
}

TEST(a_kernel_takes_little_memory)
{
    const ptx_kernel *kernel;

    for (size_t k = 0; (kernel = ptx_kernel_at(k)); k++)
        for (unsigned t = 1; t < PTX_TYPE_COUNT; t++) {
            if (!(kernel->dtypes >> t & 1))
                continue;
            OWNED(ptx_builder) *b = ptx_builder_create(NULL);
            ptx_kernel_emit(b, kernel, &(struct ptx_kernel_spec) { .dtype = (ptx_type)t });
            assert_non_null(ptx_builder_finish(b));
            if (ptx_builder_get_info(b).peak_bytes > most_bytes(kernel))
                fail_msg("%s %s takes %zu bytes", kernel->name, ptx_type_name((ptx_type)t),
                         ptx_builder_get_info(b).peak_bytes);
        }
}

TEST(no_builder_is_an_error_too)
{
    OWNED(ptx_builder) *none = NULL;

    write_everything(none, NULL);
    assert_null(ptx_builder_finish(none));
    assert_string_equal(ptx_builder_error(none),
                        "the builder is NULL: out of memory when it was created, or destroyed");
}

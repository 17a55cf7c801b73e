// SPDX-License-Identifier: MIT
// Arguments are found by name, and put into the order of a kernel's parameters.
#include <string.h>

#include "test.h"

#include <ptxgen/ptxgen.h>

static const CUdeviceptr x = 16, partials = 32;
static const uint64_t n = 1000;
static const float half = 0.5f;
static const uint64_t table[3] = { 1, 2, 3 };

static ptx_builder *builder_of(const char *kernel)
{
    ptx_builder *b = ptx_builder_create(NULL);
    struct ptx_kernel_spec spec = { .dtype = PTX_F32 };
    ptx_kernel_emit(b, ptx_kernel_find(kernel), &spec);
    // A second entry, which has an array.
    ptx_entry (b, "second", .block = { 32 }) {
        ptx_ptr values = ptx_param_array(b, PTX_U64, "table", 3);
        ptx_ptr to = ptx_param_ptr(b, PTX_U64, "x");
        ptx_store(b, to, ptx_u32(0), ptx_load(b, values, ptx_u32(0)));
    }
    assert_non_null(ptx_builder_finish(b));
    return b;
}

TEST(test_order)
{
    const struct ptx_named_arg values[] = {
        { "nothing", PTX_ARG(half) }, { "partials", PTX_ARG(partials) },
        { "table", PTX_ARG(table) },  { "n", PTX_ARG(n) },
        { "x", PTX_ARG(x) },          { "x", PTX_ARG(half) },
    };
    const void *const squared_sum[] = { &x, &n, &partials };
    struct ptx_arg args[3];
    size_t count = 0;
    OWNED(ptx_builder) *b = builder_of("squared_sum");
    assert_int_equal(ptx_bind(b, 0, values, 6, args, 3, &count), PTX_OK);
    assert_int_equal(count, 3);
    for (int k = 0; k < 3; k++) {
        assert_ptr_equal(args[k].value, squared_sum[k]);
        assert_int_equal(args[k].size, 8);
        assert_int_equal(args[k].type, PTX_ARG_INTEGER);
    }
    assert_int_equal(ptx_bind(b, 1, values, 6, args, 3, &count), PTX_OK);
    assert_int_equal(count, 2);
    assert_ptr_equal(args[0].value, table);
    assert_ptr_equal(args[1].value, &x);
    assert_int_equal(ptx_bind(b, 2, NULL, 0, NULL, 0, &count), PTX_OK); // no such entry
    assert_int_equal(count, 0);
}

static void refuse(const ptx_builder *b, const struct ptx_named_arg *values, size_t value_count,
                   size_t room, const char *words)
{
    struct ptx_arg args[3];
    size_t count = 99;
    assert_int_equal(ptx_bind(b, 0, values, value_count, args, room, &count), PTX_ERROR_INVALID);
    assert_int_equal(count, 99);
    if (!strstr(ptx_error_message(), words))
        fail_msg("\"%s\" is not in \"%s\"", words, ptx_error_message());
}

TEST(test_refused)
{
    struct ptx_named_arg values[] = { { "x", PTX_ARG(x) },
                                      { "n", PTX_ARG(n) },
                                      { "partials", PTX_ARG(partials) } };
    struct ptx_arg args[3];
    size_t count = 0;
    OWNED(ptx_builder) *b = builder_of("squared_sum");
    refuse(b, values, 2, 3, "parameter 'partials' has no value");
    refuse(b, values, 3, 2, "more than the 2 parameters");
    values[1].arg = (struct ptx_arg)PTX_ARG(half);
    refuse(b, values, 3, 3, "parameter 'n' takes 8 bytes, and its value has 4");
    values[1].arg.value = NULL;
    refuse(b, values, 3, 3, "parameter 'n' has no value");
    refuse(NULL, values, 3, 3, "the builder is NULL");
    refuse(b, NULL, 3, 3, "the list of values is NULL");
    assert_int_equal(ptx_bind(b, 0, values, 3, NULL, 3, &count), PTX_ERROR_INVALID);
    assert_int_equal(ptx_bind(b, 0, values, 3, args, 3, NULL), PTX_ERROR_INVALID);
}

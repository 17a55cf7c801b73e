// SPDX-License-Identifier: MIT
// The one check of the addresses that callers give, without a device: each array for itself, and
// all against each other. test_clip_input.c and test_step_input.c have the driver's allocations.
#include <stdio.h>

#include <ptxgen/error.h>

#include "plans/arrays.h"
#include "test.h"

enum { PLAN = 0x100000, PLAN_BYTES = 0x1000 };

static ptx_status check(const struct plan_array *arrays, size_t count)
{
    return ptxp_check_arrays(NULL, arrays, count, PLAN, PLAN_BYTES);
}

static void refuses(const struct plan_array *arrays, size_t count, const char *message)
{
    assert_int_equal(check(arrays, count), PTX_ERROR_INVALID);
    assert_string_equal(ptx_error_message(), message);
}

static struct plan_array named(const char *field, CUdeviceptr at, uint64_t count)
{
    return (struct plan_array) {
        .at = at, .count = count, .bytes = 4, .tensor = ARRAY_OF_PLAN, .field = field, .effect = "!"
    };
}

TEST(test_each)
{
    struct plan_array x = named("x", 0x1000, 1);
    assert_int_equal(check(&x, 1), PTX_OK);
    x.at = 0;
    refuses(&x, 1, "x: its address is 0, and it has 1 element");
    x.count = 0;
    assert_int_equal(check(&x, 1), PTX_OK);
    x = named("x", 0x1002, 8);
    refuses(&x, 1, "x: its address 0x1002 is not a multiple of its element's 4 bytes");
    x = named("x", UINT64_MAX - 15, 3);
    assert_int_equal(check(&x, 1), PTX_OK);
    x.count = 4;
    refuses(&x, 1,
            "x: 4 elements from its address 0xfffffffffffffff0 on reach beyond the end of "
            "memory");
    x = named("x", PLAN - 4, 2);
    refuses(&x, 1,
            "x overlaps the plan's own memory at 0x100000: its memory was freed before the "
            "plan was made");
    x.count = 1;
    assert_int_equal(check(&x, 1), PTX_OK);
    x.at = PLAN + PLAN_BYTES;
    assert_int_equal(check(&x, 1), PTX_OK);
}

TEST(test_pairs)
{
    struct plan_array a[] = { named("x", 0x1000, 8), named("y", 0x1020, 8) };
    assert_int_equal(check(a, 2), PTX_OK);
    a[1].at = 0x101c;
    refuses(a, 2, "x and y overlap at 0x101c: !");
    a[0].read_only = true;
    refuses(a, 2, "x and y overlap at 0x101c: !");
    a[1].read_only = true;
    assert_int_equal(check(a, 2), PTX_OK);
    a[1].at = a[0].at;
    assert_int_equal(check(a, 2), PTX_OK);
}

/// An output may be exactly where the input is, and no two outputs in one place.
TEST(test_in_place)
{
    struct plan_array a[] = { named("x", 0x1000, 8), named("y", 0x1000, 8), named("z", 0x2000, 8) };
    a[0].read_only = true;
    assert_int_equal(check(a, 3), PTX_ERROR_INVALID);
    a[1].in_place_of = a[2].in_place_of = &a[0];
    assert_int_equal(check(a, 3), PTX_OK);
    a[1].at = 0x1004;
    refuses(a, 3, "x and y overlap at 0x1004: !; y may begin exactly where x does");
    a[1].at = a[2].at = 0x1000;
    assert_int_equal(check(a, 3), PTX_ERROR_INVALID);
    a[0].read_only = false;
    a[2].at = 0x2000;
    assert_int_equal(check(a, 3), PTX_OK);
}

/// An output in place of one input, where another input is, too, is refused in any order.
TEST(test_in_place_of_one)
{
    const char *const names[] = { "x", "y", "z" };
    for (size_t input = 0; input < 3; input++)
        for (size_t output = 0; output < 3; output++) {
            struct plan_array a[3];
            if (input == output)
                continue;
            for (size_t k = 0; k < 3; k++) {
                a[k] = named(names[k], 0x1000, 8);
                a[k].read_only = k != output;
            }
            a[output].in_place_of = &a[input];
            assert_int_equal(check(a, 3), PTX_ERROR_INVALID);
            a[3 - input - output].at = 0x2000;
            assert_int_equal(check(a, 3), PTX_OK);
        }
}

/// What is shared is one field: a count of steps, say, which is no learning rate.
TEST(test_shared)
{
    struct plan_array a[] = { named("step", 0x1000, 1), named("step", 0x1000, 1) };
    a[0].tensor = 0, a[1].tensor = 1;
    refuses(a, 2, "tensor 0's step and tensor 1's step overlap at 0x1000: !");
    a[0].shared = a[1].shared = true;
    assert_int_equal(check(a, 2), PTX_OK);
    a[1].field = "lr_at";
    a[1].tensor = ARRAY_OF_GROUP, a[1].group = 7;
    refuses(a, 2, "tensor 0's step and group 7's lr_at overlap at 0x1000: !");
}

/// Few arrays and many, in any order: the two that overlap are found.
TEST(test_many)
{
    enum { MOST = 40 };
    struct plan_array a[MOST];
    char message[64];
    for (size_t count = 1; count <= MOST; count++) {
        for (size_t k = 0; k < count; k++)
            a[k] = named("x", 0x1000 * (1 + k * 7 % 41), 0x400);
        assert_int_equal(check(a, count), PTX_OK);
        if (count < 2)
            continue;
        const CUdeviceptr at = a[count - 1].at + 0xffc;
        a[count / 2 - 1] = named("x", at, 1);
        snprintf(message, sizeof message, "x and x overlap at 0x%llx: !", (unsigned long long)at);
        refuses(a, count, message);
    }
}

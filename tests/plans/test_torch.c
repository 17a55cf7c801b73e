// SPDX-License-Identifier: MIT
// Where PyTorch's tensors are, with functions that stand for PyTorch's. tests/python has the same
// with PyTorch itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <ptxgen/torch.h>

enum { COUNT = 4, STRIDED = 1, SPARSE = 2 };

// A TensorImpl. What PyTorch knows of a gradient is in the at::Tensor that grad() returns.
struct impl {
    struct impl *gradient;
    void *data;
    int64_t dim, sizes[2], strides[2];
    int32_t dtype, layout, type, index, version;
};

static struct impl parameters[COUNT], gradients[COUNT], others[COUNT], undefined;
static float memory[3 * COUNT][8];
static const struct impl *broken; // the tensor of which nothing can be told
static const void *objects[COUNT];
static struct ptx_torch_tensor tensors[COUNT];
static CUdeviceptr known[COUNT], now[COUNT];
static size_t first, moved;

static struct impl *of(const void *tensor)
{
    struct impl *impl;

    memcpy(&impl, tensor, sizeof impl);
    assert_ptr_not_equal(impl, NULL);
    return impl;
}

static int32_t get_data_ptr(const void *tensor, void **data)
{
    *data = of(tensor)->data;
    assert_int_equal(of(tensor)->layout, STRIDED); // PyTorch prints an error
    return of(tensor) == broken;
}

static int32_t get_numel(const void *tensor, int64_t *numel)
{
    *numel = 1;
    for (int k = 0; k < of(tensor)->dim; k++)
        *numel *= of(tensor)->sizes[k];
    return 0;
}

#define GETTER(name, type, field)                                                                  \
    static int32_t name(const void *tensor, type *value)                                           \
    {                                                                                              \
        *value = of(tensor)->field;                                                                \
        assert_ptr_not_equal(of(tensor), &undefined);                                              \
        return of(tensor) == broken;                                                               \
    }
GETTER(get_dtype, int32_t, dtype)
GETTER(get_layout, int32_t, layout)
GETTER(get_device_type, int32_t, type)
GETTER(get_device_index, int32_t, index)
GETTER(get_dim, int64_t, dim)
GETTER(get_sizes, int64_t *, sizes)
GETTER(get_strides, int64_t *, strides)

static int32_t is_defined(const void *tensor, bool *defined)
{
    *defined = of(tensor) != &undefined;
    return 0;
}

static const void *grad(const void *impl)
{
    return &((const struct impl *)impl)->gradient;
}

static void bump_version(const void *tensor)
{
    of(tensor)->version++;
}

static const struct ptx_torch_functions functions = {
    .get_data_ptr = get_data_ptr,
    .get_numel = get_numel,
    .get_dtype = get_dtype,
    .get_layout = get_layout,
    .get_device_type = get_device_type,
    .get_device_index = get_device_index,
    .get_dim = get_dim,
    .get_sizes = get_sizes,
    .get_strides = get_strides,
    .is_defined = is_defined,
    .grad = grad,
    .bump_version = bump_version,
};

static struct impl tensor_at(float *data, int64_t rows)
{
    return (struct impl) { &undefined, data, 2, { rows, 2 }, { 2, 1 }, 6, STRIDED, 1, 0, 0 };
}

static int set_up(void **state)
{
    (void)state;
    broken = NULL;
    for (int k = 0; k < COUNT; k++) {
        parameters[k] = tensor_at(memory[k], k);
        gradients[k] = tensor_at(memory[COUNT + k], k);
        others[k] = tensor_at(memory[2 * COUNT + k], k);
        parameters[k].gradient = &gradients[k];
        gradients[k].dtype = 15;
        others[k].dtype = 15;
        objects[k] = &parameters[k];
        tensors[k] = (struct ptx_torch_tensor) {
            .tensor = &objects[k],
            .impl = &parameters[k],
            .data = (uintptr_t)memory[k],
            .numel = 2 * k,
            .instead = 8,
            .gradient_dtype = 15,
        };
        known[k] = now[k] = k ? (uintptr_t)gradients[k].data : 8;
    }
    first = moved = 99;
    return 0;
}

static ptx_torch_found look(void)
{
    return ptx_torch_look(&functions, tensors, COUNT, NULL, 0, known, now, &first, &moved);
}

static void test_same(void **state)
{
    (void)state;
    memset(now, 0xff, sizeof now);
    assert_int_equal(look(), PTX_TORCH_FOUND_SAME);
    assert_memory_equal(now, known, sizeof now);
    assert_int_equal(ptx_torch_look(&functions, NULL, 0, NULL, 0, known, now, &first, &moved),
                     PTX_TORCH_FOUND_SAME);
}

static void test_moved(void **state)
{
    (void)state;
    for (unsigned which = 1; which < 1 << COUNT; which++) {
        set_up(NULL);
        size_t begin = COUNT, end = 0;
        for (size_t k = 0; k < COUNT; k++)
            if (which >> k & 1) {
                parameters[k].gradient = k == 0 ? &undefined : &others[k];
                begin = begin == COUNT ? k : begin;
                end = k + 1;
            }
        assert_int_equal(look(), PTX_TORCH_FOUND_MOVED);
        assert_int_equal(first, begin);
        assert_int_equal(moved, end - begin);
        for (int k = 0; k < COUNT; k++)
            assert_int_equal(now[k], !(which >> k & 1) ? known[k]
                                     : k               ? (uintptr_t)others[k].data
                                                       : 0);
    }
}

// A gradient that was missing comes, and one goes.
static void test_missing(void **state)
{
    (void)state;
    known[1] = 0;
    parameters[2].gradient = &undefined;
    assert_int_equal(look(), PTX_TORCH_FOUND_MOVED);
    assert_int_equal(first, 1);
    assert_int_equal(moved, 2);
    assert_int_equal(now[1], (uintptr_t)gradients[1].data);
    assert_int_equal(now[2], 0);
}

static void test_changed(void **state)
{
    (void)state;
    struct impl other = parameters[2];
    objects[2] = &other; // torch.utils.swap_tensors
    parameters[2].data = NULL;
    assert_int_equal(look(), PTX_TORCH_FOUND_CHANGED);
    assert_int_equal(first, 2);
    set_up(NULL);
    parameters[3].data = memory[0]; // p.data = ...
    assert_int_equal(look(), PTX_TORCH_FOUND_CHANGED);
    assert_int_equal(first, 3);
    set_up(NULL);
    parameters[1].sizes[0] = 3; // p.resize_()
    assert_int_equal(look(), PTX_TORCH_FOUND_CHANGED);
    assert_int_equal(first, 1);
    set_up(NULL);
    broken = &parameters[1];
    assert_int_equal(look(), PTX_TORCH_FOUND_CHANGED);
}

static void test_unusual(void **state)
{
    (void)state;
    for (int what = 0; what < 10; what++) {
        struct impl *gradient = &gradients[2];
        set_up(NULL);
        switch (what) {
        case 0:
            gradient->dtype = 6;
            break;
        case 1:
            gradient->layout = SPARSE;
            break;
        case 2:
            gradient->type = 0;
            break;
        case 3:
            gradient->index = 1;
            break;
        case 4:
            gradient->dim = 1;
            break;
        case 5:
            gradient->sizes[0] = 1;
            break;
        case 6:
            gradient->sizes[1] = 3;
            break;
        case 7:
            gradient->strides[0] = 4;
            break;
        case 8:
            gradient->data = NULL;
            break;
        default:
            broken = gradient;
            break;
        }
        assert_int_equal(look(), PTX_TORCH_FOUND_UNUSUAL);
        assert_int_equal(first, 2);
    }
}

// The stride of a dimension of one element says nothing.
static void test_strides(void **state)
{
    (void)state;
    gradients[1].strides[0] = 77;
    assert_int_equal(look(), PTX_TORCH_FOUND_SAME);
    for (int k = 0; k < 2; k++) { // both transposed
        struct impl *const one = k ? &gradients[3] : &parameters[3];
        one->strides[0] = 1;
        one->strides[1] = 3;
        assert_int_equal(look(), k ? PTX_TORCH_FOUND_SAME : PTX_TORCH_FOUND_UNUSUAL);
    }
}

// Gradients that the caller has, in place of those that grad() would give.
static void test_given_gradients(void **state)
{
    (void)state;
    struct {
        uint64_t head[2];
        const struct impl *impl;
    } held[COUNT];
    const char *given[COUNT];
    for (int k = 0; k < COUNT; k++) {
        held[k].impl = k == 2 ? &others[k] : &gradients[k];
        given[k] = (const char *)&held[k];
        parameters[k].gradient = NULL; // not asked for
    }
    assert_int_equal(
        ptx_torch_look(&functions, tensors, COUNT, given, 16, known, now, &first, &moved),
        PTX_TORCH_FOUND_MOVED);
    assert_int_equal(first, 2);
    assert_int_equal(moved, 1);
    assert_int_equal(now[1], known[1]);
    assert_int_equal(now[2], (uintptr_t)others[2].data);
    held[3].impl = &undefined;
    assert_int_equal(
        ptx_torch_look(&functions, tensors, COUNT, given, 16, known, now, &first, &moved),
        PTX_TORCH_FOUND_MOVED);
    assert_int_equal(moved, 2);
    assert_int_equal(now[3], 0);
    held[1].impl = &parameters[1]; // another type
    assert_int_equal(
        ptx_torch_look(&functions, tensors, COUNT, given, 16, known, now, &first, &moved),
        PTX_TORCH_FOUND_UNUSUAL);
    assert_int_equal(first, 1);
}

static void test_versions(void **state)
{
    (void)state;
    const void *const written[] = { &objects[1], &objects[2] };
    ptx_torch_bump_versions(&functions, written, 2);
    for (int k = 0; k < COUNT; k++) {
        assert_int_equal(parameters[k].version, k == 1 || k == 2);
        assert_int_equal(gradients[k].version, 0);
    }
}

static void test_gradient_versions(void **state)
{
    (void)state;
    parameters[3].gradient = &undefined;
    ptx_torch_bump_gradient_versions(&functions, tensors, COUNT);
    for (int k = 0; k < COUNT; k++) {
        assert_int_equal(parameters[k].version, 0);
        assert_int_equal(gradients[k].version, k != 3);
    }
    assert_int_equal(undefined.version, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_same, set_up),
        cmocka_unit_test_setup(test_moved, set_up),
        cmocka_unit_test_setup(test_missing, set_up),
        cmocka_unit_test_setup(test_changed, set_up),
        cmocka_unit_test_setup(test_unusual, set_up),
        cmocka_unit_test_setup(test_strides, set_up),
        cmocka_unit_test_setup(test_given_gradients, set_up),
        cmocka_unit_test_setup(test_versions, set_up),
        cmocka_unit_test_setup(test_gradient_versions, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

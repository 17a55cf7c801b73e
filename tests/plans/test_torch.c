// SPDX-License-Identifier: MIT
// Where PyTorch's tensors are, with functions that stand for PyTorch's. tests/python has the same
// with PyTorch itself.
#include <string.h>

#include "test.h"

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
static int64_t shapes[COUNT][4]; // sizes and strides
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

static int64_t version(const void *tensor)
{
    return of(tensor)->version;
}

static void *mutable_grad(const void *impl)
{
    return (char *)impl + offsetof(struct impl, gradient);
}

static const struct impl *const undefined_tensor = &undefined;

static int32_t assign(const void *from, void *to)
{
    if (of(to) == broken)
        return 1;
    memcpy(to, from, sizeof undefined_tensor);
    return 0;
}

static const struct ptx_torch_functions functions = {
    .get_data_ptr = get_data_ptr,
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
    .version = version,
    .mutable_grad = mutable_grad,
    .assign = assign,
    .undefined = &undefined_tensor,
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
        memcpy(shapes[k], parameters[k].sizes, sizeof parameters[k].sizes);
        memcpy(shapes[k] + 2, parameters[k].strides, sizeof parameters[k].strides);
        tensors[k] = (struct ptx_torch_tensor) {
            .tensor = &objects[k],
            .impl = &parameters[k],
            .data = (uintptr_t)memory[k],
            .numel = 2 * k,
            .dim = 2,
            .shape = shapes[k],
            .instead = 8,
            .dtype = 6,
            .gradient_dtype = 15,
            .layout = STRIDED,
            .device_type = 1,
        };
        known[k] = now[k] = k ? (uintptr_t)gradients[k].data : 8;
    }
    first = moved = 99;
    return 0;
}

static ptx_torch_found look(void)
{
    return ptx_torch_look(&functions, NULL, tensors, COUNT, known, now, &first, &moved);
}

TEST_WITH(test_same, set_up, NULL)
{
    memset(now, 0xff, sizeof now);
    assert_int_equal(look(), PTX_TORCH_FOUND_SAME);
    assert_memory_equal(now, known, sizeof now);
    assert_int_equal(ptx_torch_look(&functions, NULL, NULL, 0, known, now, &first, &moved),
                     PTX_TORCH_FOUND_SAME);
}

TEST_WITH(test_moved, set_up, NULL)
{
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
TEST_WITH(test_missing, set_up, NULL)
{
    known[1] = 0;
    parameters[2].gradient = &undefined;
    assert_int_equal(look(), PTX_TORCH_FOUND_MOVED);
    assert_int_equal(first, 1);
    assert_int_equal(moved, 2);
    assert_int_equal(now[1], (uintptr_t)gradients[1].data);
    assert_int_equal(now[2], 0);
}

TEST_WITH(test_changed, set_up, NULL)
{
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
    for (int both = 0; both < 2; both++) { // p.data = p.data.view(), then its gradient, too
        struct impl *const one = both ? &gradients[3] : &parameters[3];
        one->sizes[0] = 2;
        one->sizes[1] = one->strides[0] = 3;
        assert_int_equal(look(), PTX_TORCH_FOUND_CHANGED);
    }
    set_up(NULL);
    broken = &parameters[1];
    assert_int_equal(look(), PTX_TORCH_FOUND_CHANGED);
}

// The plan's device, type and layout count, not whether parameter and gradient agree. The device is
// asked for where there is no address.
TEST_WITH(test_moved_together, set_up, NULL)
{
    for (int what = 0; what < 4; what++)
        for (int k = 0; k < COUNT; k++) {
            set_up(NULL);
            for (int both = 0; both < 2; both++) {
                struct impl *const one = both ? &gradients[k] : &parameters[k];
                *(what == 0   ? &one->type
                  : what == 1 ? &one->index
                  : what == 2 ? &one->layout
                              : &one->dtype) = 9;
            }
            if (what < 2) {
                parameters[k].data = NULL;
                tensors[k].data = 0;
            }
            assert_int_equal(look(), PTX_TORCH_FOUND_CHANGED);
            assert_int_equal(first, k);
        }
}

TEST_WITH(test_unusual, set_up, NULL)
{
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
        case 2: // what is elsewhere has another address
            gradient->type = 0;
            gradient->data = memory[2 * COUNT];
            break;
        case 3:
            gradient->index = 1;
            gradient->data = memory[2 * COUNT];
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
TEST_WITH(test_strides, set_up, NULL)
{
    gradients[1].strides[0] = 77;
    assert_int_equal(look(), PTX_TORCH_FOUND_SAME);
    for (int k = 0; k < 3; k++) { // the parameter transposed; as it is known; its gradient, too
        int64_t *const strides = k == 0   ? parameters[3].strides
                                 : k == 1 ? shapes[3] + 2
                                          : gradients[3].strides;
        strides[0] = 1;
        strides[1] = 3;
        assert_int_equal(look(), k == 0   ? PTX_TORCH_FOUND_CHANGED
                                 : k == 1 ? PTX_TORCH_FOUND_UNUSUAL
                                          : PTX_TORCH_FOUND_SAME);
    }
}

// Objects of Python: DTensors, the tensors that they have, and a TensorImpl of a DTensor.
enum { PART, SPEC, FIELDS };
struct object {
    const void *type;
    const struct impl *impl;
    const void *fields[FIELDS];
};

static int dtensor, plain, spec, other_spec; // their addresses are what counts
static struct object wholes[COUNT], parts[COUNT], whole_gradients[COUNT], gradient_parts[COUNT];
static struct impl whole_impls[COUNT], whole_gradient_impls[COUNT];
static const struct ptx_torch_layout layout = {
    .type = offsetof(struct object, type),
    .tensor = offsetof(struct object, impl),
    .object = offsetof(struct impl, data),
    .part = offsetof(struct object, fields) + PART * sizeof(void *),
    .spec = offsetof(struct object, fields) + SPEC * sizeof(void *),
    .dtensor = &dtensor,
    .plain = &plain,
};

// Makes all but the first tensor DTensors. The odd ones' addresses have the bit that is not of
// them.
static void make_dtensors(void)
{
    for (int k = 1; k < COUNT; k++) {
        parts[k] = (struct object) { &plain, &parameters[k], { NULL } };
        wholes[k] = (struct object) { &dtensor, &whole_impls[k], { &parts[k], &spec } };
        gradient_parts[k] = (struct object) { &plain, &gradients[k], { NULL } };
        whole_gradients[k] =
            (struct object) { &dtensor, &whole_gradient_impls[k], { &gradient_parts[k], &spec } };
        whole_impls[k] = (struct impl) { .gradient = &whole_gradient_impls[k] };
        whole_gradient_impls[k] = (struct impl) { .data = (char *)&whole_gradients[k] + k % 2 };
        parameters[k].gradient = NULL; // not asked for
        tensors[k].tensor = (const void *const *)&parts[k].impl;
        tensors[k].whole = (const char *)&wholes[k];
        tensors[k].whole_impl = &whole_impls[k];
        tensors[k].part = &parts[k];
        tensors[k].spec = &spec;
    }
}

static ptx_torch_found look_at_dtensors(void)
{
    return ptx_torch_look(&functions, &layout, tensors, COUNT, known, now, &first, &moved);
}

TEST_WITH(test_dtensors, set_up, NULL)
{
    make_dtensors();
    assert_int_equal(look_at_dtensors(), PTX_TORCH_FOUND_SAME);
    assert_memory_equal(now, known, sizeof now);
    gradient_parts[2].impl = &others[2];
    whole_impls[3].gradient = &undefined;
    assert_int_equal(look_at_dtensors(), PTX_TORCH_FOUND_MOVED);
    assert_int_equal(first, 2);
    assert_int_equal(moved, 2);
    assert_int_equal(now[2], (uintptr_t)others[2].data);
    assert_int_equal(now[3], 0);
    ptx_torch_bump_gradient_versions(&functions, tensors, COUNT);
    for (int k = 0; k < COUNT; k++) {
        assert_int_equal(gradients[k].version, k == 0);
        assert_int_equal(whole_gradient_impls[k].version, k == 1 || k == 2);
    }
}

TEST_WITH(test_dtensors_that_changed, set_up, NULL)
{
    struct object *const cut = &wholes[2];

    for (int what = 0; what < 4; what++) {
        set_up(NULL);
        make_dtensors();
        switch (what) {
        case 0:
            cut->fields[PART] = &parts[1];
            break;
        case 1:
            cut->impl = &whole_impls[1]; // torch.utils.swap_tensors
            break;
        case 2:
            cut->type = &plain;
            break;
        default:
            parts[2].impl = &others[2];
            break;
        }
        assert_int_equal(look_at_dtensors(), PTX_TORCH_FOUND_CHANGED);
        assert_int_equal(first, 2);
    }
}

TEST_WITH(test_unusual_gradients_of_dtensors, set_up, NULL)
{
    for (int what = 0; what < 7; what++) {
        set_up(NULL);
        make_dtensors();
        switch (what) {
        case 0:
            whole_gradient_impls[2].data = NULL; // Python does not know it
            break;
        case 1:
            whole_gradients[2].type = &plain;
            break;
        case 2:
            whole_gradients[2].fields[SPEC] = &other_spec;
            break;
        case 3:
            whole_gradients[2].fields[PART] = NULL;
            break;
        case 4:
            gradient_parts[2].type = &dtensor;
            break;
        case 5:
            gradients[2].sizes[0] = 1;
            break;
        default:
            whole_gradient_impls[2].data = &first;
            break;
        }
        assert_int_equal(look_at_dtensors(), PTX_TORCH_FOUND_UNUSUAL);
        assert_int_equal(first, 2);
    }
}

TEST_WITH(test_versions, set_up, NULL)
{
    const void *const written[] = { &objects[1], &objects[2] };
    parameters[2].version = INT32_MAX;
    assert_int_equal(ptx_torch_versions(&functions, written, 2), INT32_MAX);
    parameters[2].version = 0;
    ptx_torch_bump_versions(&functions, written, 2);
    assert_int_equal(ptx_torch_versions(&functions, written, 2), 2);
    assert_int_equal(ptx_torch_versions(&functions, written, 1), 1);
    assert_int_equal(ptx_torch_versions(&functions, NULL, 0), 0);
    for (int k = 0; k < COUNT; k++) {
        assert_int_equal(parameters[k].version, k == 1 || k == 2);
        assert_int_equal(gradients[k].version, 0);
    }
}

TEST_WITH(test_gradient_versions, set_up, NULL)
{
    parameters[3].gradient = &undefined;
    ptx_torch_bump_gradient_versions(&functions, tensors, COUNT);
    for (int k = 0; k < COUNT; k++) {
        assert_int_equal(parameters[k].version, 0);
        assert_int_equal(gradients[k].version, k != 3);
    }
    assert_int_equal(undefined.version, 0);
}

TEST_WITH(test_dropped, set_up, NULL)
{
    parameters[1].gradient = &undefined;
    assert_true(ptx_torch_drop_gradients(&functions, tensors, COUNT));
    for (int k = 0; k < COUNT; k++)
        assert_ptr_equal(parameters[k].gradient, &undefined);
    set_up(NULL);
    make_dtensors();
    broken = &whole_gradient_impls[2];
    assert_false(ptx_torch_drop_gradients(&functions, tensors, COUNT));
    for (int k = 1; k < COUNT; k++)
        assert_ptr_equal(whole_impls[k].gradient, k == 1 ? &undefined : &whole_gradient_impls[k]);
    assert_ptr_equal(parameters[0].gradient, &undefined);
    assert_true(ptx_torch_drop_gradients(&functions, NULL, 0));
}

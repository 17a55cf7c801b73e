// SPDX-License-Identifier: MIT
#include <ptxgen/torch.h>

#include <string.h>

// Whether it is laid out and of a type as the caller's plan has it. The layout first: PyTorch
// prints what it cannot tell, such as the strides of a sparse tensor.
static bool is_as_planned(const struct ptx_torch_functions *f, const void *some, int32_t dtype,
                          const struct ptx_torch_tensor *tensor)
{
    int32_t layout = 0, type = 0;

    return !f->get_layout(some, &layout) && layout == tensor->layout &&
           !f->get_dtype(some, &type) && type == dtype;
}

// Whether it is where the caller's plan is.
static bool is_on_device(const struct ptx_torch_functions *f, const void *some,
                         const struct ptx_torch_tensor *tensor)
{
    int32_t place = 0, index = 0;

    return !f->get_device_type(some, &place) && place == tensor->device_type &&
           !f->get_device_index(some, &index) && index == tensor->device_index;
}

// Whether it has the sizes and strides that the caller's plan has; a stride of a dimension of one
// element says nothing.
static bool has_shape(const struct ptx_torch_functions *f, const void *some,
                      const struct ptx_torch_tensor *tensor)
{
    const int64_t *const sizes = tensor->shape;
    int64_t dim = 0, *found = NULL, *steps = NULL;

    if (f->get_dim(some, &dim) || dim != tensor->dim || f->get_sizes(some, &found) ||
        f->get_strides(some, &steps))
        return false;
    for (int64_t k = 0; k < dim; k++)
        if (found[k] != sizes[k] || (sizes[k] > 1 && steps[k] != sizes[dim + k]))
            return false;
    return true;
}

static const char *pointer_at(const char *object, size_t offset)
{
    const char *pointer;

    memcpy(&pointer, object + offset, sizeof pointer);
    return pointer;
}

// The at::Tensor of this rank's part of a DTensor's gradient, or of the gradient if there is none.
// NULL if it is not what the caller expects.
static const void *part_of_gradient(const struct ptx_torch_functions *f,
                                    const struct ptx_torch_layout *at,
                                    const struct ptx_torch_tensor *tensor)
{
    const void *gradient = f->grad(tensor->whole_impl);
    const char *object, *part;
    bool defined = false;

    if (f->is_defined(gradient, &defined))
        return NULL;
    if (!defined)
        return gradient;
    object = pointer_at(pointer_at(gradient, 0), at->object);
    object -= (uintptr_t)object & 1;
    if (!object || pointer_at(object, at->type) != at->dtensor ||
        pointer_at(object, at->spec) != tensor->spec)
        return NULL;
    part = pointer_at(object, at->part);
    return part && pointer_at(part, at->type) == at->plain ? part + at->tensor : NULL;
}

// The address of the gradient, 0 if it is missing; `known`: the one before. False if it is not what
// the caller expects.
static bool look_at_gradient(const struct ptx_torch_functions *f, const struct ptx_torch_layout *at,
                             const struct ptx_torch_tensor *tensor, CUdeviceptr known,
                             CUdeviceptr *address)
{
    const void *const gradient =
        tensor->whole ? part_of_gradient(f, at, tensor) : f->grad(tensor->impl);
    void *data = NULL;

    *address = 0;
    if (!gradient)
        return false;
    if (pointer_at(gradient, 0) == pointer_at(f->undefined, 0))
        return true;
    if (!is_as_planned(f, gradient, tensor->gradient_dtype, tensor) ||
        !has_shape(f, gradient, tensor) || f->get_data_ptr(gradient, &data))
        return false;
    *address = tensor->numel ? (uintptr_t)data : tensor->instead;
    if (!data && tensor->numel)
        return false;
    // PyTorch takes no gradient that is on another device than its parameter.
    return (data && *address == known) || is_on_device(f, gradient, tensor);
}

// What is elsewhere has another address; without one its device is asked.
static bool is_there(const struct ptx_torch_functions *f, const struct ptx_torch_layout *at,
                     const struct ptx_torch_tensor *tensor)
{
    const char *const whole = tensor->whole;
    void *data = NULL;

    if (whole && (pointer_at(whole, at->type) != at->dtensor ||
                  pointer_at(whole, at->part) != tensor->part ||
                  pointer_at(whole, at->tensor) != tensor->whole_impl))
        return false;
    return *tensor->tensor == tensor->impl &&
           is_as_planned(f, tensor->tensor, tensor->dtype, tensor) &&
           !f->get_data_ptr(tensor->tensor, &data) && (uintptr_t)data == tensor->data &&
           (data || is_on_device(f, tensor->tensor, tensor)) &&
           has_shape(f, tensor->tensor, tensor);
}

// PyTorch's objects are all over memory. Each step of the loop below asks for what later steps
// read: first the at::Tensor, then, once that is there, its TensorImpl.
static void prefetch(const struct ptx_torch_tensor *tensors, size_t count, size_t k)
{
    enum { AHEAD = 8, LINE = 64, IMPL_LINES = 4 };

    if (k + 2 * AHEAD < count)
        __builtin_prefetch(tensors[k + 2 * AHEAD].tensor);
    if (k + AHEAD >= count)
        return;
    const char *impl = tensors[k + AHEAD].impl, *whole = tensors[k + AHEAD].whole_impl;
    for (size_t line = 0; line < IMPL_LINES; line++) {
        __builtin_prefetch(impl + line * LINE);
        if (whole)
            __builtin_prefetch(whole + line * LINE);
    }
}

ptx_torch_found ptx_torch_look(const struct ptx_torch_functions *functions,
                               const struct ptx_torch_layout *layout,
                               const struct ptx_torch_tensor *tensors, size_t count,
                               const CUdeviceptr *known, CUdeviceptr *now, size_t *first,
                               size_t *moved)
{
    size_t begin = count, end = 0;

    for (size_t k = 0; k < count; k++) {
        *first = k;
        prefetch(tensors, count, k);
        if (!is_there(functions, layout, &tensors[k]))
            return PTX_TORCH_FOUND_CHANGED;
        if (!look_at_gradient(functions, layout, &tensors[k], known[k], &now[k]))
            return PTX_TORCH_FOUND_UNUSUAL;
        if (now[k] != known[k]) {
            begin = begin == count ? k : begin;
            end = k + 1;
        }
    }
    if (!end)
        return PTX_TORCH_FOUND_SAME;
    *first = begin;
    *moved = end - begin;
    return PTX_TORCH_FOUND_MOVED;
}

void ptx_torch_bump_versions(const struct ptx_torch_functions *functions,
                             const void *const *tensors, size_t count)
{
    for (size_t k = 0; k < count; k++)
        functions->bump_version(tensors[k]);
}

// The TensorImpl that has the gradient.
static const void *impl_with_gradient(const struct ptx_torch_tensor *tensor)
{
    return tensor->whole ? tensor->whole_impl : tensor->impl;
}

void ptx_torch_bump_gradient_versions(const struct ptx_torch_functions *functions,
                                      const struct ptx_torch_tensor *tensors, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const void *gradient = functions->grad(impl_with_gradient(&tensors[k]));
        bool defined = false;

        if (!functions->is_defined(gradient, &defined) && defined)
            functions->bump_version(gradient);
    }
}

bool ptx_torch_drop_gradients(const struct ptx_torch_functions *functions,
                              const struct ptx_torch_tensor *tensors, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        void *gradient = functions->mutable_grad(impl_with_gradient(&tensors[k]));
        if (functions->assign(functions->undefined, gradient))
            return false;
    }
    return true;
}

uint64_t ptx_torch_versions(const struct ptx_torch_functions *functions, const void *const *tensors,
                            size_t count)
{
    uint64_t sum = 0;

    for (size_t k = 0; k < count; k++)
        sum += (uint64_t)functions->version(tensors[k]);
    return sum;
}

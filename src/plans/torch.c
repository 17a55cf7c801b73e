// SPDX-License-Identifier: MIT
#include <ptxgen/torch.h>

#include <string.h>

static bool same_place(const struct ptx_torch_functions *f, const void *a, const void *b)
{
    int32_t here = 0, there = 0;

    if (f->get_device_type(a, &here) || f->get_device_type(b, &there) || here != there)
        return false;
    return !f->get_device_index(a, &here) && !f->get_device_index(b, &there) && here == there;
}

// Whether the elements of both are the same places of memory from their first one on.
static bool same_shape(const struct ptx_torch_functions *f, const void *a, const void *b)
{
    int64_t dim = 0, dims = 0, *sizes = NULL, *others = NULL, *strides = NULL, *steps = NULL;

    if (f->get_dim(a, &dim) || f->get_dim(b, &dims) || dim != dims || f->get_sizes(a, &sizes) ||
        f->get_sizes(b, &others) || f->get_strides(a, &strides) || f->get_strides(b, &steps))
        return false;
    for (int64_t k = 0; k < dim; k++)
        if (sizes[k] != others[k] || (sizes[k] > 1 && strides[k] != steps[k]))
            return false;
    return true;
}

// The address of the gradient, 0 if it is missing. False if it is not what the caller expects.
static bool look_at_gradient(const struct ptx_torch_functions *f,
                             const struct ptx_torch_tensor *tensor, const void *gradient,
                             CUdeviceptr *address)
{
    const void *parameter = tensor->tensor;
    int32_t dtype = 0, layout = 0, layouts = 0;
    bool defined = false;
    void *data = NULL;

    *address = 0;
    if (f->is_defined(gradient, &defined))
        return false;
    if (!defined)
        return true;
    // The layout first: PyTorch prints what it cannot tell, such as the strides of a sparse tensor.
    if (f->get_layout(gradient, &layout) || f->get_layout(parameter, &layouts) ||
        layout != layouts || f->get_dtype(gradient, &dtype) || dtype != tensor->gradient_dtype ||
        !same_place(f, gradient, parameter) || !same_shape(f, gradient, parameter))
        return false;
    if (!tensor->numel) {
        *address = tensor->instead;
        return true;
    }
    if (f->get_data_ptr(gradient, &data))
        return false;
    *address = (uintptr_t)data;
    return data != NULL;
}

static bool is_there(const struct ptx_torch_functions *f, const struct ptx_torch_tensor *tensor)
{
    void *data = NULL;
    int64_t numel = 0;

    return *tensor->tensor == tensor->impl && !f->get_data_ptr(tensor->tensor, &data) &&
           (uintptr_t)data == tensor->data && !f->get_numel(tensor->tensor, &numel) &&
           numel == tensor->numel;
}

// PyTorch's objects are all over memory. Each step of the loop below asks for what later steps
// read: first the at::Tensor, then, once that is there, its TensorImpl.
static void prefetch(const struct ptx_torch_tensor *tensors, size_t count,
                     const char *const *gradients, size_t offset, size_t k)
{
    enum { AHEAD = 8, LINE = 64, IMPL_LINES = 4 };

    if (k + 2 * AHEAD < count) {
        __builtin_prefetch(tensors[k + 2 * AHEAD].tensor);
        if (gradients)
            __builtin_prefetch(gradients[k + 2 * AHEAD] + offset);
    }
    if (k + AHEAD >= count)
        return;
    const char *impl = tensors[k + AHEAD].impl, *gradient = NULL;
    if (gradients)
        memcpy(&gradient, gradients[k + AHEAD] + offset, sizeof gradient);
    for (size_t line = 0; line < IMPL_LINES; line++) {
        __builtin_prefetch(impl + line * LINE);
        if (gradient)
            __builtin_prefetch(gradient + line * LINE);
    }
}

ptx_torch_found ptx_torch_look(const struct ptx_torch_functions *functions,
                               const struct ptx_torch_tensor *tensors, size_t count,
                               const char *const *gradients, size_t offset,
                               const CUdeviceptr *known, CUdeviceptr *now, size_t *first,
                               size_t *moved)
{
    size_t begin = count, end = 0;

    for (size_t k = 0; k < count; k++) {
        const struct ptx_torch_tensor *tensor = &tensors[k];
        const void *gradient;

        *first = k;
        prefetch(tensors, count, gradients, offset, k);
        if (!is_there(functions, tensor))
            return PTX_TORCH_FOUND_CHANGED;
        gradient = gradients ? gradients[k] + offset : functions->grad(tensor->impl);
        if (!look_at_gradient(functions, tensor, gradient, &now[k]))
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

void ptx_torch_bump_gradient_versions(const struct ptx_torch_functions *functions,
                                      const struct ptx_torch_tensor *tensors, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const void *gradient = functions->grad(tensors[k].impl);
        bool defined = false;
        if (!functions->is_defined(gradient, &defined) && defined)
            functions->bump_version(gradient);
    }
}

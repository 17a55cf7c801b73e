// SPDX-License-Identifier: MIT
/// Layer 4: where PyTorch's tensors are, read through functions of the PyTorch that the process has
/// loaded. For bindings of languages in which asking tensor by tensor takes longer than a step: the
/// package for Python looks at all parameters and gradients of an optimizer in one call.
///
/// Neither the library nor its build knows PyTorch. The caller finds the functions by dlsym();
/// those named aoti_torch_* are PyTorch's stable C interface
/// (torch/csrc/inductor/aoti_torch/c/shim.h).
#ifndef PTXGEN_TORCH_H
#define PTXGEN_TORCH_H

#include <ptxgen/device.h>

PTXGEN_BEGIN

/// Functions of PyTorch. A `tensor` is an AtenTensorHandle: the address of an at::Tensor, which
/// holds the address of its TensorImpl. Those that return int32_t return 0, or an error.
struct ptx_torch_functions {
    int32_t (*get_data_ptr)(const void *tensor, void **data);      ///< aoti_torch_get_data_ptr
    int32_t (*get_dtype)(const void *tensor, int32_t *dtype);      ///< aoti_torch_get_dtype
    int32_t (*get_layout)(const void *tensor, int32_t *layout);    ///< aoti_torch_get_layout
    int32_t (*get_device_type)(const void *tensor, int32_t *type); ///< aoti_torch_get_device_type
    int32_t (*get_device_index)(const void *tensor,
                                int32_t *index);                   ///< aoti_torch_get_device_index
    int32_t (*get_dim)(const void *tensor, int64_t *dim);          ///< aoti_torch_get_dim
    int32_t (*get_sizes)(const void *tensor, int64_t **sizes);     ///< aoti_torch_get_sizes
    int32_t (*get_strides)(const void *tensor, int64_t **strides); ///< aoti_torch_get_strides
    int32_t (*is_defined)(const void *tensor, bool *defined);      ///< aoti_torch_is_defined
    const void *(*grad)(const void *impl); ///< c10::TensorImpl::grad() const
    void (*bump_version)(
        const void *tensor); ///< torch::autograd::impl::bump_version(at::Tensor const&)
    int64_t (*version)(const void *tensor);        ///< at::TensorBase::_version() const
    void *(*mutable_grad)(const void *impl);       ///< c10::TensorImpl::mutable_grad()
    int32_t (*assign)(const void *from, void *to); ///< aoti_torch_assign_tensors
    const void *undefined; ///< a tensor that is none, of aoti_torch_new_uninitialized_tensor()
};

/// Where objects of Python have what is read of a DTensor (torch.distributed.tensor), in bytes from
/// their begin, and the classes that they must have: a DTensor is known to Python alone. Its object
/// has another tensor, this rank's part, and a spec, which says how the whole is placed.
struct ptx_torch_layout {
    size_t type;         ///< in any object: its class
    size_t tensor;       ///< in a tensor's object: the at::Tensor
    size_t object;       ///< in a TensorImpl: the tensor's object; the lowest bit is not of it
    size_t part;         ///< in a DTensor: _local_tensor, an object
    size_t spec;         ///< in a DTensor: _spec, an object
    const void *dtensor; ///< the class of a DTensor
    const void *plain;   ///< the class of a gradient's part
};

/// A parameter as the caller knows it. Of a DTensor: what this rank has of it.
struct ptx_torch_tensor {
    const void *const *tensor; ///< the at::Tensor within the caller's object, which must stay
    const void *impl;          ///< its TensorImpl
    CUdeviceptr data;          ///< of its elements
    int64_t numel;             ///< their number
    int64_t dim;               ///< how many dimensions it has
    const int64_t *shape;      ///< their sizes, then their strides; must stay; NULL if dim is 0
    CUdeviceptr instead;       ///< the address to give for a gradient without elements
    int32_t dtype;             ///< of the parameter, as get_dtype() says it
    int32_t gradient_dtype;    ///< of the gradient
    int32_t layout;            ///< of both, as get_layout() says it
    int32_t device_type;    ///< of both, as get_device_type() says it: where the caller's plan is
    int32_t device_index;   ///< of both, as get_device_index() says it
    const char *whole;      ///< the DTensor's object, which must stay; NULL if it is none
    const void *whole_impl; ///< the DTensor's TensorImpl
    const void *part;       ///< its _local_tensor
    const void *spec;       ///< the _spec of a gradient that is placed as the caller expects
};

/// What ptx_torch_look() found.
typedef enum ptx_torch_found {
    PTX_TORCH_FOUND_SAME,    ///< parameters and gradients are where they were
    PTX_TORCH_FOUND_MOVED,   ///< gradients moved, came or went
    PTX_TORCH_FOUND_CHANGED, ///< a parameter has another TensorImpl, part, memory, shape, stride,
                             ///< type, layout or device
    PTX_TORCH_FOUND_UNUSUAL, ///< a gradient has another class, spec, type, layout, device, shape or
                             ///< stride than expected, or PyTorch could not tell
} ptx_torch_found;

/// Looks at `count` parameters, in order, and at their gradients. known: the addresses of the
/// gradients as they were, 0 where one was missing; now: gets those of now, and *first and *moved
/// the range of tensors in which the two differ. A parameter and its gradient must have
/// the device, layout, types and sizes that the caller names, and, in dimensions of more than one
/// element, the strides. The gradient of a DTensor must be one, with the same object as spec.
/// layout: may be NULL if no tensor has a `whole`. What is where it was is on the device where it
/// was.
///
/// For CHANGED and UNUSUAL *first is the tensor, and `now` has no meaning. No function is called of
/// a parameter that has another TensorImpl. May be called from any thread while no other changes
/// the tensors: in Python, with the interpreter's lock held. Errors: none; the arguments are not
/// checked.
PTXGEN_API ptx_torch_found ptx_torch_look(const struct ptx_torch_functions *functions,
                                          const struct ptx_torch_layout *layout,
                                          const struct ptx_torch_tensor *tensors, size_t count,
                                          const CUdeviceptr *known, CUdeviceptr *now, size_t *first,
                                          size_t *moved);

/// Tells PyTorch that tensors were written: their version counters go up by one each. The same
/// threads as above.
PTXGEN_API void ptx_torch_bump_versions(const struct ptx_torch_functions *functions,
                                        const void *const *tensors, size_t count);
/// The same for the gradients of parameters that ptx_torch_look() found SAME or MOVED; of a
/// DTensor, not for its part. A missing one is left out.
PTXGEN_API void ptx_torch_bump_gradient_versions(const struct ptx_torch_functions *functions,
                                                 const struct ptx_torch_tensor *tensors,
                                                 size_t count);

/// Lets go of the gradients of parameters that ptx_torch_look() found SAME or MOVED, as `p.grad =
/// None` does; of a DTensor, of the whole. Returns whether all are gone: PyTorch may refuse one,
/// and those after it stay. The same threads as above.
PTXGEN_API bool ptx_torch_drop_gradients(const struct ptx_torch_functions *functions,
                                         const struct ptx_torch_tensor *tensors, size_t count);

/// The sum of tensors' version counters. They go up alone, so two sums are the same if PyTorch
/// knows of no writing in between. The same threads as above.
PTXGEN_API uint64_t ptx_torch_versions(const struct ptx_torch_functions *functions,
                                       const void *const *tensors, size_t count);

PTXGEN_END

#endif

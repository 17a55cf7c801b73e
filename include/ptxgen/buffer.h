// SPDX-License-Identifier: MIT
/// Part of driver.h: device memory in buffers, pinned host memory, and queries about addresses. The
/// rules of driver.h apply.
#ifndef PTXGEN_BUFFER_H
#define PTXGEN_BUFFER_H

#include <ptxgen/device.h>

PTXGEN_BEGIN

/// A block of device memory of known size.
typedef struct ptx_buffer ptx_buffer;

/// Allocates uninitialised device memory. 0 bytes make an empty buffer, whose address is 0. Errors
/// (NULL): OUT_OF_MEMORY, CAPTURE (a blocking stream of the context is being captured), DRIVER,
/// FORKED, INVALID.
PTXGEN_API ptx_buffer *ptx_buffer_create(ptx_device *device, size_t bytes);

/// Frees the memory and sets *buffer to NULL. The driver waits for work that uses the memory.
PTXGEN_API void ptx_buffer_destroy(ptx_buffer **buffer);

/// The device address, to pass to kernels; 0 for an empty buffer and for NULL.
PTXGEN_API CUdeviceptr ptx_buffer_address(const ptx_buffer *buffer);

/// The size in bytes; 0 for NULL.
PTXGEN_API size_t ptx_buffer_size(const ptx_buffer *buffer);

/// Copies `bytes` bytes of host memory to the buffer, `offset` bytes from its start, in stream
/// order. `source` must not change until the stream has done the copy. The copy is certain to
/// overlap with the host only if the memory is pinned. Errors: INVALID (exceeds the buffer),
/// CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_upload(ptx_buffer *buffer, size_t offset, const void *source,
                                        size_t bytes, CUstream stream);

/// Copies `bytes` bytes of the buffer, from `offset` bytes after its start, to host memory, in
/// stream order. `target` is valid after ptx_stream_synchronize(). Errors: INVALID (exceeds the
/// buffer), CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_download(const ptx_buffer *buffer, size_t offset, void *target,
                                          size_t bytes, CUstream stream);

/// Copies `bytes` bytes from `from` at `from_offset` to `to` at `to_offset`, in stream order. Both
/// buffers belong to one device; the ranges must not overlap. Errors: INVALID (exceeds a buffer,
/// two devices, overlap), CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_copy(ptx_buffer *to, size_t to_offset, const ptx_buffer *from,
                                      size_t from_offset, size_t bytes, CUstream stream);

/// Sets a range of bytes of the buffer to one value, in stream order. Errors: INVALID (exceeds the
/// buffer), CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_fill(ptx_buffer *buffer, size_t offset, unsigned char value,
                                      size_t bytes, CUstream stream);

/// Copies `bytes` bytes of device memory at `address`, of a buffer or of the caller's, to host
/// memory, in stream order. `target` is valid after ptx_stream_synchronize(). What is there is not
/// checked: ptx_address_range() says. Errors: INVALID, CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_address_download(ptx_device *device, CUdeviceptr address, void *target,
                                           size_t bytes, CUstream stream);

/// Allocates pinned host memory, for copies at full speed. Errors (NULL): those of
/// ptx_buffer_create(); 0 bytes are INVALID.
PTXGEN_API void *ptx_host_alloc(ptx_device *device, size_t bytes);

/// Takes the address of the caller's pointer to pinned host memory, frees the memory and sets the
/// pointer to NULL: ptx_host_free(gpu, &memory).
PTXGEN_API void ptx_host_free(ptx_device *device, void *memory);

/// The base address and size in bytes of the allocation that contains `address`; either pointer may
/// be NULL. At most `*base + *bytes - address` bytes are accessible at `address`. May be called at
/// any time, also during a capture.
///
/// The driver knows device memory of this GPU however it was allocated (cuMemAlloc, memory pools,
/// managed memory, variables of modules; for virtual address ranges with mapped memory, the whole
/// reserved range), and pinned or registered host memory that the GPU can access. It does not know
/// ordinary host memory, which some systems let a GPU read: NOT_FOUND means that the driver did not
/// allocate the address, not that a kernel cannot use it.
///
/// Errors: NOT_FOUND, INVALID (memory of another GPU, which the message names), DRIVER, FORKED;
/// *base and *bytes are then 0.
PTXGEN_API ptx_status ptx_address_range(ptx_device *device, CUdeviceptr address, CUdeviceptr *base,
                                        size_t *bytes);

PTXGEN_END

#endif

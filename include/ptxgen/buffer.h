// SPDX-License-Identifier: MIT
/// Part of driver.h, which says what holds for all of it: device memory
/// in buffers, pinned host memory, and what an address stands for.
#ifndef PTXGEN_BUFFER_H
#define PTXGEN_BUFFER_H

#include <ptxgen/device.h>

PTXGEN_BEGIN

/// A block of device memory of known size.
typedef struct ptx_buffer ptx_buffer;

/// Allocates device memory, not initialised. 0 bytes make an empty buffer whose address is 0.
/// Errors (NULL): OUT_OF_MEMORY, CAPTURE (a blocking stream of the context is being captured),
/// DRIVER, FORKED, INVALID.
PTXGEN_API ptx_buffer *ptx_buffer_create(ptx_device *device, size_t bytes);

/// Frees the memory and sets *buffer to NULL. The driver waits for work that uses it.
PTXGEN_API void ptx_buffer_destroy(ptx_buffer **buffer);

/// The device address, to be handed to kernels; 0 for an empty buffer and for NULL.
PTXGEN_API CUdeviceptr ptx_buffer_address(const ptx_buffer *buffer);

/// The size in bytes; 0 for NULL.
PTXGEN_API size_t ptx_buffer_size(const ptx_buffer *buffer);

/// Copies host memory to `offset` bytes into the buffer, in the stream's order. `source` must stay
/// as it is until the stream has passed the copy; only from pinned memory is the copy sure to run
/// alongside the host. Errors: INVALID (does not fit into the buffer), CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_upload(ptx_buffer *buffer, size_t offset, const void *source,
                                        size_t bytes, CUstream stream);

/// Copies from `offset` bytes into the buffer to host memory, in the stream's order. `target` holds
/// the bytes once the stream has passed the copy: ptx_stream_synchronize().
/// Errors: INVALID (reaches beyond the buffer), CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_download(const ptx_buffer *buffer, size_t offset, void *target,
                                          size_t bytes, CUstream stream);

/// Copies within device memory, in the stream's order: `bytes` from `from_offset` bytes into `from`
/// to `to_offset` bytes into `to`. Both belong to one device; the ranges must not overlap.
/// Errors: INVALID (reaches beyond a buffer, two devices, overlap), CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_copy(ptx_buffer *to, size_t to_offset, const ptx_buffer *from,
                                      size_t from_offset, size_t bytes, CUstream stream);

/// Sets bytes of the buffer to one value, in the stream's order.
/// Errors: INVALID (does not fit into the buffer), CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_fill(ptx_buffer *buffer, size_t offset, unsigned char value,
                                      size_t bytes, CUstream stream);

/// Allocates pinned host memory, for copies at full speed. Errors (NULL): as ptx_buffer_create();
/// 0 bytes are INVALID.
PTXGEN_API void *ptx_host_alloc(ptx_device *device, size_t bytes);

/// Frees pinned host memory; `memory` is the address of the caller's pointer, which is set to NULL.
PTXGEN_API void ptx_host_free(ptx_device *device, void *memory);

/// Where the allocation that `address` lies in begins, and its size in bytes; either pointer may be
/// NULL. So `*base + *bytes - address` bytes are the most that `address` can stand for. May be
/// called at any time, also while a stream is being captured.
///
/// Known are device memory of this GPU however it was allocated (by cuMemAlloc, from a memory pool,
/// as managed memory, as a module's variable; for reserved addresses with mapped memory the whole
/// reserved range), and pinned or registered host memory that the GPU can reach. Not known is
/// ordinary host memory, which some systems let a GPU read all the same: NOT_FOUND says that the
/// driver did not allocate it, not that a kernel must fail on it.
///
/// Errors: NOT_FOUND, INVALID (the memory of another GPU; the message says of which), DRIVER,
/// FORKED. *base and *bytes are set to 0 then.
PTXGEN_API ptx_status ptx_address_range(ptx_device *device, CUdeviceptr address, CUdeviceptr *base,
                                        size_t *bytes);

PTXGEN_END

#endif

// SPDX-License-Identifier: MIT
/// Part of driver.h, which says what holds for all of it: errors, a device, its streams, events and
/// memory.
#ifndef PTXGEN_DEVICE_H
#define PTXGEN_DEVICE_H

#include <ptxgen/common.h>

PTXGEN_BEGIN

// The driver's handles, as cuda.h has them.
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
#if UINTPTR_MAX > 0xffffffffu
typedef unsigned long long CUdeviceptr;
#else
typedef unsigned int CUdeviceptr;
#endif

/// A GPU with the context that work on it happens in.
typedef struct ptx_device ptx_device;
/// A block of device memory of known size.
typedef struct ptx_buffer ptx_buffer;

// ---------------------------------------------------------------------------------------- errors

/// How a call ended. ptx_error_message() has the particulars.
typedef enum ptx_status {
    PTX_OK = 0,
    PTX_ERROR_INVALID,       ///< an argument is wrong: fix the call; the message names it
    PTX_ERROR_OUT_OF_MEMORY, ///< host or device memory ran out
    PTX_ERROR_NO_DRIVER,     ///< no usable libcuda was found
    PTX_ERROR_NO_DEVICE,     ///< the driver works but has no such GPU
    PTX_ERROR_DRIVER,        ///< a driver call failed; ptx_error_code() is its CUresult
    PTX_ERROR_JIT,           ///< the driver would not compile the text; the message has its log
    PTX_ERROR_NOT_FOUND,     ///< no kernel or variable of that name, no memory at the address
    PTX_ERROR_UNSUPPORTED,   ///< this driver or GPU lacks the feature
    PTX_ERROR_CAPTURE,       ///< not possible while the stream is being captured, or not captured
    PTX_ERROR_FORKED,        ///< the object was made before fork(), by the parent process
} ptx_status;

/// The status's name, "PTX_ERROR_JIT" say. A constant string, never NULL.
PTXGEN_API const char *ptx_status_name(ptx_status status);

/// What went wrong in this thread's last failing call and what to do about it: one or more lines
/// of English without a newline at the end; "" if nothing failed yet. Calls that succeed leave it
/// as it is. The string lives until this thread's next failing call.
PTXGEN_API const char *ptx_error_message(void);

/// The status of this thread's last failing call (for constructors, which return NULL);
/// PTX_OK if nothing failed yet.
PTXGEN_API ptx_status ptx_error_status(void);

/// The driver's own error number (CUresult) behind this thread's last failing call; 0 if it was
/// not the driver that failed.
PTXGEN_API int ptx_error_code(void);

// ---------------------------------------------------------------------------------------- device

/// Which GPU and which context. All zero: whatever the calling thread is working with, else the
/// first GPU.
struct ptx_device_params {
    /// This context is used as it is. The caller keeps it alive until the device is closed.
    CUcontext context;
    /// GPU number, from 0, in the driver's order (CUDA_VISIBLE_DEVICES applies). A number above 0
    /// takes up the thread's current context only if that one is on this GPU.
    int ordinal;
    /// Leave the thread's current context alone, also for ordinal 0: retain the primary context
    /// of GPU `ordinal`, the one that the CUDA runtime shares.
    bool primary;
};

/// How many GPUs there are. Sets *count to 0 unless it returns PTX_OK.
/// Errors: NO_DRIVER, NO_DEVICE (the driver sees no GPU at all), DRIVER.
PTXGEN_API ptx_status ptx_device_count(int *count);

/// Finds libcuda, initialises it and takes up a context. `params` may be NULL, for the defaults.
///
/// The context is, in this order: `params->context`; the calling thread's current one (adopted: it
/// must outlive the device); the primary context of `params->ordinal`, retained until the device
/// is closed. The context is not made current.
///
/// The library is, in this order: the libcuda.so.1 already in the process, since handles of one
/// libcuda mean nothing to another; the file $PTXGEN_LIBCUDA names, and then only that one;
/// libcuda.so.1 by the usual search; the places where distributions, WSL and Jetson keep it. The
/// toolkit's stub library is passed over. So $PTXGEN_LIBCUDA has no effect in a process that uses
/// CUDA already: ptx_device_info.library_path says which library serves.
///
/// Errors (NULL): NO_DRIVER, NO_DEVICE, INVALID, DRIVER, OUT_OF_MEMORY.
PTXGEN_API ptx_device *ptx_device_open(const struct ptx_device_params *params);

/// Gives the device up and sets *device to NULL. The context is released, if it was retained, as
/// soon as the last module and buffer of the device is destroyed too. Streams and events of the
/// device must be destroyed before.
PTXGEN_API void ptx_device_close(ptx_device **device);

/// What a device is. All sizes are in bytes.
struct ptx_device_info {
    const char *library_path;   ///< the libcuda that serves
    int driver_version;         ///< of that libcuda, as CUDA counts: 12040 is 12.4
    int isa;                    ///< newest PTX ISA it is known to accept: 84 is 8.4
    int ordinal;                ///< GPU number
    char name[128];             ///< "NVIDIA H200"
    int sm;                     ///< compute capability: 90 is 9.0, .target sm_90
    size_t memory;              ///< device memory in all
    int multiprocessors;        ///< how many SMs
    int warp_size;              ///< threads
    int l2_cache;               ///< bytes
    int max_grid[3];            ///< blocks, by dimension
    int max_block[3];           ///< threads, by dimension
    int max_threads_per_block;  ///< threads in all
    int max_threads_per_sm;     ///< resident threads
    int shared_per_block;       ///< that every kernel may use
    int shared_per_block_optin; ///< that a launch may ask for
    int shared_per_sm;          ///< of all resident blocks together
    int registers_per_block;    ///< 32-bit registers
    int cooperative_launch;     ///< 1 if grid-wide synchronisation is possible
    int memory_clock;           ///< kHz; 0 if the driver does not say
    int memory_bus_width;       ///< bits
};

/// The device's particulars, owned by the device. Makes no driver call. NULL for NULL.
PTXGEN_API const struct ptx_device_info *ptx_device_get_info(const ptx_device *device);

/// The context that the device works in, to be made current by callers who have driver calls of
/// their own to make. NULL for NULL.
PTXGEN_API CUcontext ptx_device_context(const ptx_device *device);

/// Device memory that is free now, and in all, in bytes; either pointer may be NULL.
/// Errors: DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_device_memory(ptx_device *device, size_t *available, size_t *total);

// ------------------------------------------------------------------------------ streams and events

/// A new stream that does not synchronise with the legacy default stream. The caller destroys it.
/// Any other CUstream does as well wherever a stream is wanted: the caller's own, NULL for the
/// legacy default stream, (CUstream)2 for the per-thread one. Its context must be the device's.
/// Errors (NULL): DRIVER, OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API CUstream ptx_stream_create(ptx_device *device);

/// Destroys a stream made by ptx_stream_create() and sets *stream to NULL. Does not wait: work
/// on it is still done.
PTXGEN_API void ptx_stream_destroy(ptx_device *device, CUstream *stream);

/// Waits until all work on the stream is done, and reports what failed in it.
/// Errors: DRIVER (also for the kernels that ran), CAPTURE, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_synchronize(ptx_device *device, CUstream stream);

/// Says whether the stream is being captured into a graph. For NULL, the legacy default stream:
/// whether a blocking stream of the context is, which the default stream would disturb.
/// Errors: DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_is_capturing(ptx_device *device, CUstream stream, bool *capturing);

/// Makes later work on `stream` wait for the event. Does not wait itself.
/// Errors: CAPTURE, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_wait_event(ptx_device *device, CUstream stream, CUevent event);

/// A new event that measures time. The caller destroys it.
/// Errors (NULL): DRIVER, OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API CUevent ptx_event_create(ptx_device *device);

/// Destroys an event and sets *event to NULL.
PTXGEN_API void ptx_event_destroy(ptx_device *device, CUevent *event);

/// Marks the point that the stream has come to. Errors: CAPTURE, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_event_record(ptx_device *device, CUevent event, CUstream stream);

/// Waits until the recorded point is reached. Errors: DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_event_synchronize(ptx_device *device, CUevent event);

/// The time from one event to another, in milliseconds. Both must have been reached.
/// Errors: DRIVER (CUDA_ERROR_NOT_READY: not reached yet), FORKED, INVALID.
PTXGEN_API ptx_status ptx_event_elapsed(ptx_device *device, CUevent start, CUevent end,
                                        float *milliseconds);

// ---------------------------------------------------------------------------------------- memory

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

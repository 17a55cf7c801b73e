// SPDX-License-Identifier: MIT
/// Layer 3: load PTX text through the NVIDIA driver and launch its kernels.
///
///     ptx_device   *gpu    = ptx_device_open(NULL);
///     ptx_module   *module = ptx_module_load(gpu, text, NULL);
///     ptx_function *square = ptx_module_function(module, "square");
///     ptx_buffer   *x      = ptx_buffer_create(gpu, n * sizeof(float));
///     CUdeviceptr   data   = ptx_buffer_address(x);
///
///     ptx_buffer_upload(x, 0, host, n * sizeof(float), stream);
///     ptx_launch(square, &(struct ptx_launch_params){
///         .grid = { (n + 255) / 256 }, .block = { 256 }, .stream = stream,
///         .args = (struct ptx_arg[]){ PTX_ARG(data), PTX_ARG(n) }, .arg_count = 2 });
///
/// This header includes those of the layer: error.h, device.h, stream.h (and events), buffer.h
/// (device memory), graph.h (and captures), module.h, launch.h.
///
/// What holds for all of it:
///
/// - **Errors are values.** A function returns a ptx_status, or NULL from a constructor, and leaves
///   the details with ptx_error_message() of the same thread. Nothing is half done after an error,
///   and nothing is printed. Destructors take the address of the caller's pointer and set it to
///   NULL; NULL in it is fine; they never fail and never change the thread's error. Where a
///   function's comment lists its errors, PTX_ERROR_ is left out: DRIVER is PTX_ERROR_DRIVER.
/// - **A good guest.** Every call leaves the thread's current CUDA context as it found it, also
///   after an error. ptx_launch() never waits, allocates or compiles.
/// - **Two phases.** ptx_module_load() compiles and makes every kernel ready. After it, launching
///   is safe on a stream that is being captured into a graph. Work that belongs before a capture
///   (loading, allocating) is refused on a capturing stream, and the capture goes on undisturbed.
///   Work on the legacy default stream (NULL) is refused while a blocking stream of its context is
///   being captured, which it would spoil. Either is CAPTURE.
/// - **Threads.** Every function may be called from any thread at any time, on the same objects,
///   except that a destructor must be the last use of its object. Objects made from a device keep
///   it alive: the order of destruction is free.
/// - **fork.** CUDA does not survive fork(). In the child, every call on the parent's objects is
///   refused with PTX_ERROR_FORKED, and destructors release host memory only.
///
/// No header of NVIDIA's is needed; `<cuda.h>` may be included before or after this one. Streams,
/// events and addresses are the driver's own handles and mix with any other CUDA code in the
/// process, the runtime API included. Driver 450 (CUDA 11.0) or newer.
#ifndef PTXGEN_DRIVER_H
#define PTXGEN_DRIVER_H

#include <ptxgen/buffer.h>
#include <ptxgen/device.h>
#include <ptxgen/error.h>
#include <ptxgen/graph.h>
#include <ptxgen/launch.h>
#include <ptxgen/module.h>
#include <ptxgen/stream.h>

#endif

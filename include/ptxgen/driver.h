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
/// This header includes error.h, device.h, stream.h (streams, events), buffer.h (memory), graph.h
/// (captures, graphs), module.h (modules and their kernels) and launch.h.
///
/// Rules for all of them:
///
/// - **Errors are values.** A function returns a ptx_status; a constructor returns NULL.
///   ptx_error_message() has the details for the calling thread. A failing call changes nothing and
///   prints nothing. Destructors take the address of the caller's pointer and set it to NULL; they
///   accept NULL in it, never fail, and never change the thread's error. Lists of errors omit the
///   prefix PTX_ERROR_: DRIVER is PTX_ERROR_DRIVER.
/// - **A good guest.** Every call restores the thread's current CUDA context, also after an error.
///   ptx_launch() never waits, allocates or compiles.
/// - **Two phases.** ptx_module_load() compiles and prepares every kernel. Launches after it are
///   safe on a stream that is being captured into a graph. Work that belongs before a capture
///   (loading, allocating) is refused on a capturing stream, and the capture continues undisturbed.
///   Work on the legacy default stream (NULL) is refused while a blocking stream of its context is
///   being captured, because it would invalidate the capture. Both are reported as CAPTURE.
/// - **Threads.** Any thread may call any function on any object at any time, with one exception: a
///   destructor must be the last use of its object. Objects made from a device keep it alive, so
///   they may be destroyed in any order.
/// - **fork.** CUDA does not survive fork(). In the child process, every call on the parent's
///   objects is refused with PTX_ERROR_FORKED, destructors release host memory only, and no device
///   can be opened. A child that is to use CUDA starts before the parent opens it, or with exec.
///
/// No NVIDIA header is needed; `<cuda.h>` may be included before or after this one. Streams, events
/// and addresses are the driver's own handles and work with any other CUDA code in the process,
/// including the runtime API. Requires driver 450 (CUDA 11.0) or newer.
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

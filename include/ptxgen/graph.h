// SPDX-License-Identifier: MIT
/// Part of driver.h: captures work once and launches it as a whole. The rules of driver.h apply.
#ifndef PTXGEN_GRAPH_H
#define PTXGEN_GRAPH_H

#include <ptxgen/device.h>

PTXGEN_BEGIN

/// Captured work that is launched as a whole.
typedef struct ptx_graph ptx_graph;

/// Which other unsafe CUDA calls in the process (allocations, for example) are allowed during a
/// capture. Calls of this library outside the capture are safe in every mode.
enum ptx_capture_mode {
    PTX_CAPTURE_THREAD_LOCAL = 0, ///< not by the capturing thread; others may
    PTX_CAPTURE_GLOBAL,           ///< by no thread, unless its own mode allows it
    PTX_CAPTURE_RELAXED,          ///< by all threads; another thread may end the capture
};

/// Starts a capture: until ptx_capture_end(), work on the stream is recorded, not executed.
/// Launches, copies, fills, events and waits for events can be captured. A stream that waits for an
/// event of the capture joins it and must be joined back to `stream` before the end.
///
/// Errors: INVALID (the legacy default stream, NULL, cannot be captured), CAPTURE (the stream is
/// already being captured), DRIVER, FORKED.
PTXGEN_API ptx_status ptx_capture_begin(ptx_device *device, CUstream stream,
                                        enum ptx_capture_mode mode);

/// Ends the capture that ptx_capture_begin() started on this stream and returns its graph, ready to
/// launch. The caller destroys the graph. The graph holds addresses and argument values as they
/// were at capture; the buffers, modules and host memory that it uses must live as long as it does.
///
/// An error also ends the capture and frees the stream for other work, unless the capture began on
/// another stream: then only that stream can end it.
///
/// Errors (NULL): CAPTURE (the stream is not being captured; the capture was invalidated; another
/// stream has not joined back; another thread began it), UNSUPPORTED (driver older than 470),
/// OUT_OF_MEMORY, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_graph *ptx_capture_end(ptx_device *device, CUstream stream);

/// Ends a capture and drops what was recorded, after an error during the capture, say. Like a
/// destructor: never fails, does not change the thread's error, and does nothing for a stream that
/// is not being captured.
PTXGEN_API void ptx_capture_abandon(ptx_device *device, CUstream stream);

/// Launches the graph on a stream of the same device and returns at once. Launches of one graph do
/// not overlap: each waits for the one before. On a stream that is being captured, the graph
/// becomes one node. Errors: DRIVER, CAPTURE, OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API ptx_status ptx_graph_launch(const ptx_graph *graph, CUstream stream);

/// The number of nodes by kind. Nodes of graphs within the graph are not counted.
struct ptx_graph_info {
    size_t nodes;        ///< total
    size_t kernel_nodes; ///< launches
    size_t memcpy_nodes; ///< copies
    size_t memset_nodes; ///< memory fills
    size_t host_nodes;   ///< calls of host functions
    size_t other_nodes;  ///< anything else: child graphs, allocations, events
};

/// The counts of the graph, owned by the graph. Makes no driver call. Returns NULL for NULL.
PTXGEN_API const struct ptx_graph_info *ptx_graph_get_info(const ptx_graph *graph);

/// Destroys the graph and sets *graph to NULL. Launches already under way still complete.
PTXGEN_API void ptx_graph_destroy(ptx_graph **graph);

PTXGEN_END

#endif

// SPDX-License-Identifier: MIT
/// Part of driver.h, which says what holds for all of it: work captured once, launched as a whole.
#ifndef PTXGEN_GRAPH_H
#define PTXGEN_GRAPH_H

#include <ptxgen/device.h>

PTXGEN_BEGIN

/// Work that was captured once and is launched as a whole.
typedef struct ptx_graph ptx_graph;

/// What other work of the process, allocations for one, may go on during a capture without spoiling
/// it. What this library does beside a capture spoils none in any mode.
enum ptx_capture_mode {
    PTX_CAPTURE_THREAD_LOCAL = 0, ///< the capturing thread must not; others may
    PTX_CAPTURE_GLOBAL,           ///< no thread must, unless it is in another mode
    PTX_CAPTURE_RELAXED,          ///< all may; the capture may even end in another thread
};

/// From now on work on the stream is not done but noted down, until ptx_capture_end(). All that is
/// of the second phase can be captured: launches, copies, fills, events, waiting for events (by
/// which other streams join the capture; they must come back to `stream` before its end).
///
/// Errors: INVALID (the legacy default stream, NULL, which cannot be captured), CAPTURE (the stream
/// is being captured already), DRIVER, FORKED.
PTXGEN_API ptx_status ptx_capture_begin(ptx_device *device, CUstream stream,
                                        enum ptx_capture_mode mode);

/// Ends the capture that ptx_capture_begin() began on this stream and makes the work ready to
/// launch. The caller destroys the graph. What it uses (buffers, modules, host memory of copies)
/// must live as long as it does: it has their addresses and the values of arguments as they were.
///
/// Also after an error the capture has ended and the stream is free for other work, except where
/// the capture began on another stream: it is that one's to end.
///
/// Errors (NULL): CAPTURE (the stream is not being captured; the capture was spoilt, or another
/// stream has not come back from it; another thread began it), UNSUPPORTED (a driver before 470),
/// OUT_OF_MEMORY, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_graph *ptx_capture_end(ptx_device *device, CUstream stream);

/// Ends a capture that is not wanted any more, after an error in its midst, say; what was captured
/// is dropped. Like a destructor: never fails, leaves the thread's error alone, and does nothing
/// for a stream that is not being captured.
PTXGEN_API void ptx_capture_abandon(ptx_device *device, CUstream stream);

/// Puts the captured work on a stream, of the same device, and returns at once. A graph does not
/// run beside itself: the next launch waits for the one before. On a stream that is being captured,
/// the whole graph becomes a node. Errors: DRIVER, CAPTURE, OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API ptx_status ptx_graph_launch(const ptx_graph *graph, CUstream stream);

/// What was captured, as numbers of nodes: those of the graph itself, not of graphs within it.
struct ptx_graph_info {
    size_t nodes;        ///< in all
    size_t kernel_nodes; ///< launches
    size_t memcpy_nodes; ///< copies
    size_t memset_nodes; ///< fills
    size_t host_nodes;   ///< calls of host functions
    size_t other_nodes;  ///< anything else: graphs within the graph, allocations, events
};

/// The graph's particulars, owned by the graph. Makes no driver call. NULL for NULL.
PTXGEN_API const struct ptx_graph_info *ptx_graph_get_info(const ptx_graph *graph);

/// Destroys the graph and sets *graph to NULL. Launches of it that are under way are still done.
PTXGEN_API void ptx_graph_destroy(ptx_graph **graph);

PTXGEN_END

#endif

// SPDX-License-Identifier: MIT
// Inside the driver API: its state, its objects, and the path of every call.
//
// One lock guards everything here. Work for the device runs without the lock, one piece at a time
// and in the order of submission (api_engine_enter), inside the call that submits it.
#ifndef PTXGEN_EMULATOR_CUDA_API_H
#define PTXGEN_EMULATOR_CUDA_API_H

#include "exec/exec.h"
#include "extensions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum api_needs {
    API_NEEDS_ANY,
    API_NEEDS_INIT,
    API_NEEDS_CURRENT,
    API_NEEDS_CALLBACK,
    API_NEEDS_CONTEXT,
    API_NEEDS_UNSAFE,
    API_NEEDS_LEGACY,
};

enum api_function {
#define API(symbol, needs, implementation) API_ID_##symbol,
#include "functions.def"
    API_FUNCTION_COUNT
};

// An implementation has the type of its driver function.
#define API(symbol, needs, implementation) __typeof__(symbol) api_##implementation;
#include "functions.def"

struct api_row {
    const char *symbol, *name;
    int since;
    void (*function)(void);
    void (*variant)(void); // the one for the per-thread default stream, or NULL
};
extern const struct api_row api_rows[API_FUNCTION_COUNT];
// True for the function's symbol, and for its name without _v2.
bool api_row_has_name(const struct api_row *row, const char *name);

// ---------------------------------------------------------------------------------- configuration

// The settings from the environment (docs/emulator.md), read once, at the first call.

// A call that PTXGEN_EMU_FAIL makes fail.
struct api_fault {
    char function[96];
    int code;
    unsigned long call; // which call, from 1; 0: every call
    unsigned long seen;
};

enum { API_MAX_FAULTS = 64 };

struct api_config {
    const struct emu_gpu *gpu;
    int multiprocessors; // the user may set another number than gpu->multiprocessors
    bool pageable;       // kernels may access all memory of the process
    char name[256];
    int driver; // 13000
    int isa;    // 90: the newest PTX that the driver accepts
    uint64_t memory, seed, instructions;
    enum emu_sanitize sanitize;
    unsigned threads, timeout;
    struct api_fault faults[API_MAX_FAULTS];
    unsigned fault_count;
    char log[4096];  // the file to which reports are appended; "": standard error
    char error[320]; // the malformed variable and the reason; "" if there is none
};

void api_config_read(struct api_config *config);
// The CUresult that a call of the function must return; 0: none.
int api_config_fault(struct api_config *config, const struct api_row *row);

// --------------------------------------------------------------------------------------- objects

enum api_kind {
    API_CONTEXT,
    API_STREAM,
    API_DEFAULT_STREAM, // has no handle: a stale handle must not match it
    API_EVENT,
    API_MODULE,
    API_LINK,
    API_FUNCTION,
    API_LIBRARY,
    API_KERNEL,
    API_GRAPH,
    API_NODE,
    API_EXECUTABLE,
    API_DEVICE_MEMORY,
    API_MANAGED_MEMORY,
    API_PINNED_MEMORY,
    API_REGISTERED_MEMORY,
    API_MODULE_MEMORY,
    API_POOL,
    API_USER_OBJECT,
};

// The first member of every object with a handle. `key` is the handle, or the address of memory.
struct api_object {
    uint64_t key;
    enum api_kind kind;
    CUcontext context; // the context that it is destroyed with, or NULL
    struct api_object *next;
};

void api_object_add(struct api_object *object, enum api_kind kind, uint64_t key, CUcontext context);
void api_object_remove(struct api_object *object);
// The live object, or NULL. Any value may be looked up.
struct api_object *api_object_at(uint64_t key, enum api_kind kind);
#define API_FIND(handle, kind) ((void *)api_object_at((uint64_t)(uintptr_t)(handle), kind))
// Any object that belongs to the context; NULL: there is none left.
struct api_object *api_object_of(CUcontext context);

struct CUctx_st {
    struct api_object object;
    bool alive, primary;
    unsigned flags, references;
    unsigned long long id;
    size_t limits[9];
    struct emu_heap heap;
    CUfunc_cache cache;
    CUstream legacy;
    CUstream threads; // the per-thread default streams
};

struct CUstream_st {
    struct api_object object;
    CUcontext context;
    unsigned flags;
    int priority;
    unsigned long long id;
    pthread_t thread;
    CUstream next;
    // Under capture:
    struct api_capture *capture;
    CUstream next_member;
    CUgraphNode *tail; // the nodes on which the next one depends
    size_t tail_count;
};

struct api_capture {
    unsigned long long id;
    CUstreamCaptureMode mode;
    pthread_t thread;
    CUcontext context;
    CUstream origin, members;
    CUgraph graph;
    bool borrowed; // the graph existed before the capture
    bool invalid;
    struct api_capture *next;
};

struct CUevent_st {
    struct api_object object;
    unsigned flags;
    bool recorded;
    uint64_t nanoseconds;
    unsigned long long capture; // id of the capture that recorded it; 0: none
    CUgraphNode *nodes;
    size_t node_count;
};

struct CUfunc_st {
    struct api_object object;
    CUmodule module;
    const struct emu_function *entry;
    int max_dynamic, carveout, non_portable;
};

struct CUmod_st {
    struct api_object object;
    struct emu_module *program;
    struct emu_programs *programs;
    CUfunction functions;
    unsigned references; // also from graphs, which may outlive the handle
    bool of_library;     // it belongs to a library, which unloads it
    uint64_t global_base, const_base;
    struct api_module_memory {
        struct api_object object;
        CUmodule module;
    } memory[2]; // at both addresses, if they are not 0
};

// ------------------------------------------------------------------------------------------ state

struct api_state {
    pthread_mutex_t lock;
    atomic_int process; // the process that called cuInit(); 0: none
    struct api_config config;
    struct emu_memory *memory;
    struct CUctx_st primary;
    struct api_capture *captures;
    unsigned long long last_id;
    _Atomic CUresult error; // the result of a failed kernel, which later calls return
    CUcontext failed;       // the kernel's context, which ends the error
    uint64_t grids;
    char report[16384]; // the last report
    char fault[16640];  // of the failed kernel: the description of the result, and the report
};
extern struct api_state api_state;

enum { API_MAX_DEPTH = 256, API_GREATEST_PRIORITY = -5 };

struct api_thread {
    CUcontext stack[API_MAX_DEPTH];
    unsigned depth;
    CUstreamCaptureMode mode;
    bool in_callback;
    bool per_thread;        // stream 0 is the per-thread default stream
    enum api_function call; // the function that this thread is in
    bool told_now;          // whether that call has given a reason
    CUresult told;          // the result that `why` explains; CUDA_SUCCESS: none
    char why[2048];
};
extern _Thread_local struct api_thread api_thread;

unsigned long long api_new_id(void);
CUcontext api_current(void);
// Does what api_enter() does for a function with these needs, for needs that depend on the
// arguments.
CUresult api_require(enum api_needs needs);
// The fixed description of a result, for cuGetErrorString(); NULL: no such result.
const char *api_result_text(CUresult result);
const char *api_result_name(CUresult result);
// Appends to the log. May be called from anywhere.
void api_log(const char *text);
// The same, and stores the text for cuEmulatorReport().
void api_report(const char *text);
// The same for a call that fails with the result. cuGetErrorString() then includes the text, in
// this thread, until a call returns that result for another reason.
void api_explain(CUresult result, const char *text);
// The same, with the name of the call before the text, for what a GPU would have done. Returns the
// result.
CUresult api_refuse(CUresult result, const char *format, ...) EMU_PRINTF(2, 3);
// The result that cuEmulatorFail() injects into this call after its work; CUDA_SUCCESS: none.
CUresult api_fails_late(void);
// The fault that cuEmulatorFail() injects into this call, if it has logs; or NULL.
const struct emulator_fault *api_fault_with_logs(void);
// Records that a kernel failed, and the context with it: later calls return the result until the
// context ends. Called without the lock, in the engine.
void api_fail(CUcontext context, CUresult result, const char *report);

// What kernels print, kept until the next synchronisation, launch or copy. Beyond the limit of the
// context the oldest text is dropped.
void api_print(bool error, const char *text, size_t length);
// Writes it to the standard output. `limit`: in bytes, from now on.
void api_print_flush(size_t limit);

void api_engine_enter(void);
void api_engine_leave(void);
// Waits for all work submitted before.
void api_drain(void);

// ------------------------------------------------------------------------------ devices, contexts

const struct emu_gpu *api_gpu(void);

// Memory of any of the four kinds.
void api_memory_free(struct api_object *object);

// ---------------------------------------------------------------------------- streams and capture

// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT if the handle is that of the legacy stream and a capture
// forbids its use.
CUresult api_stream_find(CUstream handle, CUstream *stream);
// The same without the check of captures.
CUresult api_stream_any(CUstream handle, CUstream *stream);
// For a call that waits for the per-thread default stream: checks that the stream is not under
// capture.
CUresult api_stream_idle(void);
bool api_stream_is_legacy(CUstream handle);
void api_stream_free(CUstream stream);
void api_event_free(CUevent event);
// Without the lock, in the engine.
void api_event_record(CUevent event);

CUresult api_capture_unsafe(void);
CUresult api_capture_legacy(bool invalidate);
CUresult api_capture_fail(struct api_capture *capture, CUresult result);
struct api_capture *api_capture_by_id(unsigned long long id);
// Ends the capture. The graph is destroyed unless it is wanted.
void api_capture_end(struct api_capture *capture, CUgraph *graph);
void api_capture_leave(CUstream stream);
CUresult api_capture_wait(CUstream stream, CUevent event);
CUresult api_capture_record(CUstream stream, CUevent event);
// A node that records or waits for an event with a real time.
CUresult api_capture_external(CUstream stream, CUevent event, CUgraphNodeType type);

// ------------------------------------------------------------------------------------------- work

struct api_side {
    bool device; // the address is a device address
    uint64_t address;
    size_t pitch, height; // of the whole array
    size_t x, y, z;
};

struct api_work {
    CUgraphNodeType type;
    bool disabled; // only in an executable graph
    union {
        struct {
            CUfunction function;
            unsigned grid[3], block[3], shared;
            bool cooperative;
            unsigned char *params;
            void **pointers; // pointers to the params
        } kernel;
        struct {
            struct api_side to, from;
            size_t width, height, depth;
        } copy;
        CUDA_MEMSET_NODE_PARAMS set;
        struct {
            CUhostFn function;
            CUstreamCallback callback;
            CUstream stream;
            void *data;
        } host;
        CUevent event; // a handle: it may have been destroyed
    } as;
};

// Runs the work now, or records it if the stream is under capture. Takes the work over and clears
// it.
CUresult api_submit(CUstream stream, struct api_work *work);
CUresult api_work_check(const struct api_work *work);
// Without the lock, in the engine.
CUresult api_work_run(const struct api_work *work, char *report, size_t report_size);
CUresult api_work_run_all(CUcontext context, const struct api_work *works, size_t count);
CUresult api_work_copy(struct api_work *to, const struct api_work *from);
void api_work_clear(struct api_work *work);
CUresult api_copy_check(const struct api_work *work);

// Counts an allocation of a pool. NULL: there is no such pool, or it is full.
CUmemoryPool api_pool_enter(CUmemoryPool pool, size_t bytes, CUresult *result);
void api_pool_leave(CUmemoryPool pool, size_t bytes);
CUmemoryPool api_pool_current(void);
// If the host would receive undefined values: CUDA_ERROR_LAUNCH_FAILED with the report, and nothing
// is copied.
CUresult api_copy_run(const struct api_work *work, char *report, size_t report_size);
CUresult api_copy_work(struct api_work *work, const CUDA_MEMCPY3D *copy);
CUresult api_set_check(const CUDA_MEMSET_NODE_PARAMS *set);
void api_set_run(const CUDA_MEMSET_NODE_PARAMS *set);
struct api_side api_side_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch,
                            size_t height);

// ----------------------------------------------------------------------------- modules, functions

// Invalidates the handles of the module and its functions. What graphs launch remains.
void api_module_retire(CUmodule module);
void api_module_release(CUmodule module);
// The variable that contains the address; false: none.
bool api_module_variable(CUmodule module, uint64_t address, uint64_t *start, uint64_t *bytes);
// Of `bytes` bytes, API_UNKNOWN_BYTES if the caller did not say. `partial`: an input of the linker,
// which may need others; the module is for its log alone.
CUresult api_module_create(CUmodule *module, const void *image, size_t bytes, bool partial,
                           unsigned count, const CUjit_option *options, void **values);
// Loads a module into the current context.
CUresult api_module_load(CUmodule *module, const void *image, size_t bytes);
char *api_file_read(const char *path, size_t *bytes);

// The PTX texts in an image. They live as long as the image and `owned`.
struct api_image {
    struct emu_text *texts;
    unsigned count;
    char *owned;
};
#define API_UNKNOWN_BYTES SIZE_MAX
// On failure `log` has the reason, in the manner of ptxas.
CUresult api_image_open(const void *image, size_t bytes, struct api_image *opened, char *log,
                        size_t log_size);
void api_image_close(struct api_image *opened);
// The image without nvcc's wrapper, and its bytes if they were not known. NULL: the wrapper is
// empty.
const void *api_image_find(const void *image, size_t *bytes);
// How to ask for PTX instead of machine code, for that GPU; 0: for an unknown one.
void api_refuse_machine_code(unsigned sm, char *log, size_t size);
// The texts of the linker's code; any other image is its own text.
CUresult api_link_open(const char *image, struct api_image *opened);
// The function of a CUfunction or CUkernel; NULL: there is none, and *result says why. It has to be
// of the context; NULL: a kernel's of the current one, a function of any.
CUfunction api_function_find(CUfunction handle, CUcontext context, CUresult *result);
// The kernel's function in the context.
CUresult api_kernel_function(CUfunction *function, CUkernel kernel, CUcontext context);
int api_function_threads(CUfunction function);
int api_function_blocks(CUfunction function, int threads, size_t shared);
size_t api_align(size_t value, size_t to);

struct api_launch {
    CUfunction function;
    unsigned grid[3], block[3], shared, cluster[3];
    bool cooperative;
    void **params, **extra;
};
CUresult api_kernel_work(struct api_work *work, const struct api_launch *launch);

// ----------------------------------------------------------------------------------------- graphs

struct CUgraphNode_st {
    struct api_object object;
    CUgraph graph;
    CUgraphNode next;
    struct api_work work;
    CUgraphNode *after;
    size_t after_count;
    size_t mark;          // scratch for graph walks
    CUgraphNode original; // of a cloned node, only as a handle
};

// References of a graph, or of an executable one, to a user object.
struct api_held {
    CUuserObject object;
    unsigned count;
    struct api_held *next;
};
// Copies the references of a graph; false: host memory is out, and nothing is copied.
bool api_held_copy(struct api_held **to, const struct api_held *from);
// Drops all of them. May run destructors, without the lock: nothing may be half done.
void api_held_drop(struct api_held **held);

struct CUgraph_st {
    struct api_object object;
    struct api_held *held;
    CUgraphNode first, last;
    size_t count;
    bool capturing;
};

struct CUgraphExec_st {
    struct api_object object;
    struct api_held *held;
    cuuint64_t flags;
    size_t count;
    struct api_work *works;
    CUgraphNode *nodes;  // the node that each work is a copy of, only as handles
    CUgraphNode *before; // the dependencies of all nodes, one node after another
    size_t *before_count;
};

CUgraph api_graph_new(void);
void api_graph_free(CUgraph graph);
// Takes the work over, even on failure.
CUresult api_graph_add(CUgraph graph, struct api_work *work, const CUgraphNode *after, size_t count,
                       CUgraphNode *node);
// Whether a node may be added with these arguments. `params` may not be NULL.
CUresult api_graph_check_add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                             size_t count, const void *params);
// The node, if it has that type and `params` is not NULL.
CUgraphNode api_graph_node(CUgraphNode handle, CUgraphNodeType type, const void *params);
bool api_nodes_copy(CUgraphNode **to, size_t *to_count, const CUgraphNode *from, size_t count);
// Adds the nodes that the list does not have yet.
bool api_nodes_unite(CUgraphNode **to, size_t *to_count, const CUgraphNode *from, size_t count);
// Whether each of `nodes` is one of `ends` or a predecessor of one.
bool api_nodes_joined(CUgraph graph, const CUgraphNode *nodes, size_t count,
                      const CUgraphNode *ends, size_t end_count);

#endif

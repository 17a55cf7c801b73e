// SPDX-License-Identifier: MIT
// The base of the driver API: its state, its objects, reports.
//
// One lock guards everything here. Work for the device runs without the lock, one piece at a time
// and in the order of submission (api_engine_enter), inside the call that submits it.
#ifndef PTXGEN_EMULATOR_CUDA_STATE_H
#define PTXGEN_EMULATOR_CUDA_STATE_H

#include "exec/base/exec.h"
#include "extensions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum api_function {
#define API(symbol, needs, implementation) API_ID_##symbol,
#include "functions.def"
    API_FUNCTION_COUNT
};

// The functions' names. entry.c has their code.
struct api_row {
    const char *symbol, *name;
    int since;
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
    const struct emu_module *program;
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

// A piece of work, run now or kept in a graph (work.h).
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
            bool cooperative, programmatic;
            unsigned long long stream; // its id
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

// References of a graph, or of an executable one, to a user object.
struct api_held {
    CUuserObject object;
    unsigned count;
    struct api_held *next;
};

struct CUgraph_st {
    struct api_object object;
    struct api_held *held;
    CUgraphNode first, last;
    size_t count;
    bool capturing;
};

// ------------------------------------------------------------------------------------------ state

// The last kernel, if a launch of its stream may overlap it: what it wrote.
struct api_overlap {
    unsigned long long stream;
    struct emu_constants *writes;
};

struct api_state {
    pthread_mutex_t lock;
    atomic_bool begun;  // cuInit() has succeeded, in this process or in the one it is a fork of
    atomic_bool forked; // in the latter: no call does anything
    struct api_config config;
    pthread_mutex_t fault_lock; // of the counters of config.faults
    atomic_ullong objects;      // that have handles
    struct emu_memory *memory;
    struct CUctx_st primary;
    struct api_capture *captures;
    unsigned long long last_id;
    _Atomic CUresult error; // the result of a failed kernel, which later calls return
    CUcontext failed;       // the kernel's context, which ends the error
    uint64_t grids;
    struct api_overlap overlap;
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
const struct emu_gpu *api_gpu(void);

// ---------------------------------------------------------------------------------------- reports

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
// Records that a kernel failed, and the context with it: later calls return the result until the
// context ends. Called without the lock, in the engine.
void api_fail(CUcontext context, CUresult result, const char *report);

// ------------------------------------------------------------------------------------------- work

// What kernels print, kept until the next synchronisation, launch or copy. Beyond the limit of the
// context the oldest text is dropped.
void api_print(bool error, const char *text, size_t length);
// Writes it to the standard output. `limit`: in bytes, from now on.
void api_print_flush(size_t limit);

// Work for the device runs between these, in the order of submission and without the lock.
void api_engine_enter(void);
void api_engine_leave(void);
// Waits for all work submitted before.
void api_drain(void);
// In a child process: unlocks what other threads of the parent, which are not here, may have held.
void api_state_forked(void);

#endif

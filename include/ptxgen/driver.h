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
/// What holds for all of it:
///
/// - **Errors are values.** A function returns a ptx_status, or NULL from a constructor, and leaves
///   the details with ptx_error_message() of the same thread. Nothing is half done after an error,
///   and nothing is printed. Destructors take the address of the caller's pointer and set it to
///   NULL; NULL in it is fine; they never fail and never change the thread's error.
/// - **A good guest.** Every call leaves the thread's current CUDA context as it found it, also
///   after an error. ptx_launch() never waits, allocates or compiles.
/// - **Two phases.** ptx_module_load() compiles and makes every kernel ready. After it, launching
///   is safe on a stream that is being captured into a graph. Work that belongs before a capture
///   (loading, allocating) is refused on a capturing stream, and the capture goes on undisturbed.
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
/// Compiled PTX text, loaded on one device.
typedef struct ptx_module ptx_module;
/// One kernel of a module; owned by the module.
typedef struct ptx_function ptx_function;
/// A block of device memory of known size.
typedef struct ptx_buffer ptx_buffer;
/// Work that was captured once and is launched as a whole.
typedef struct ptx_graph ptx_graph;

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
/// Errors: DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_wait_event(ptx_device *device, CUstream stream, CUevent event);

/// A new event that measures time. The caller destroys it.
/// Errors (NULL): DRIVER, OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API CUevent ptx_event_create(ptx_device *device);

/// Destroys an event and sets *event to NULL.
PTXGEN_API void ptx_event_destroy(ptx_device *device, CUevent *event);

/// Marks the point that the stream has come to. Errors: DRIVER, FORKED, INVALID.
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
/// alongside the host. Errors: INVALID (does not fit into the buffer), DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_upload(ptx_buffer *buffer, size_t offset, const void *source,
                                        size_t bytes, CUstream stream);

/// Copies from `offset` bytes into the buffer to host memory, in the stream's order. `target` holds
/// the bytes once the stream has passed the copy: ptx_stream_synchronize().
/// Errors: INVALID (reaches beyond the buffer), DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_download(const ptx_buffer *buffer, size_t offset, void *target,
                                          size_t bytes, CUstream stream);

/// Copies within device memory, in the stream's order: `bytes` from `from_offset` bytes into `from`
/// to `to_offset` bytes into `to`. Both belong to one device; the ranges must not overlap.
/// Errors: INVALID (reaches beyond a buffer, two devices, overlap), DRIVER, FORKED.
PTXGEN_API ptx_status ptx_buffer_copy(ptx_buffer *to, size_t to_offset, const ptx_buffer *from,
                                      size_t from_offset, size_t bytes, CUstream stream);

/// Sets bytes of the buffer to one value, in the stream's order.
/// Errors: INVALID (does not fit into the buffer), DRIVER, FORKED.
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

// ---------------------------------------------------------------------------------------- graphs

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

// ---------------------------------------------------------------------------------------- modules

/// How to load a module. All zero is right for most.
struct ptx_module_params {
    /// The stream that the kernels are for. If it is being captured, loading is refused.
    CUstream stream;
    /// Most registers a thread may use; 0: the compiler decides.
    int max_registers;
    /// Keep source lines for profilers, where the text has them.
    bool line_info;
    /// Ask the compiler for registers and memory of each kernel in ptx_module_log().
    bool verbose;
    /// Folder that keeps what was compiled, so that a later load, in any process, has it without
    /// the compiler; NULL: none. See ptx_module_cache_result().
    const char *cache;
    /// Most bytes that the folder is to hold; 0: PTX_CACHE_BYTES. What was not used for longest
    /// goes first.
    uint64_t cache_bytes;
};

/// The size of a cache unless ptx_module_params.cache_bytes says another: 64 MiB.
#define PTX_CACHE_BYTES (UINT64_C(64) << 20)

/// How a load and its cache got on.
enum ptx_cache_outcome {
    PTX_CACHE_OFF = 0, ///< none was asked for
    PTX_CACHE_HIT,     ///< taken from the cache; nothing was compiled
    PTX_CACHE_STORED,  ///< compiled, and kept for the next time
    PTX_CACHE_FAILED,  ///< compiled, as without a cache, and not kept
};

struct ptx_cache_result {
    enum ptx_cache_outcome outcome;
    size_t bytes;     ///< of the file that was read or written; 0 where there was none
    char reason[256]; ///< STORED: why it was no hit; FAILED: why it was not kept; else ""
};

/// Compiles PTX text for the device and makes all of its kernels ready to launch, with as much
/// shared memory as the device allows. Takes from milliseconds to seconds. `text` ends with a NUL
/// and is not needed afterwards; `params` may be NULL.
///
/// A capture that goes on elsewhere is not disturbed. Refused with CAPTURE: a params->stream that
/// is being captured, or, with none given, a blocking stream of the context that is.
///
/// Errors (NULL): JIT (the message has the compiler's log, the lines of text it means, the
/// versions concerned and a remedy), UNSUPPORTED (a parameter list that cannot be read), CAPTURE,
/// OUT_OF_MEMORY, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_module *ptx_module_load(ptx_device *device, const char *text,
                                       const struct ptx_module_params *params);

/// Unloads the module with its functions and sets *module to NULL. Their work must be done.
PTXGEN_API void ptx_module_unload(ptx_module **module);

/// The kernel of that name, ready to launch; owned by the module, always the same pointer. Makes
/// no driver call. Errors (NULL): NOT_FOUND (the message lists what there is), FORKED, INVALID.
PTXGEN_API ptx_function *ptx_module_function(ptx_module *module, const char *name);

/// Address and size in bytes of a `.global` or `.const` variable; either pointer may be NULL.
/// Errors: NOT_FOUND, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_module_global(ptx_module *module, const char *name, CUdeviceptr *address,
                                        size_t *bytes);

/// What the compiler said while it compiled the module, warnings for one; "" if nothing. The same
/// where the module came from a cache. Owned by the module.
PTXGEN_API const char *ptx_module_log(const ptx_module *module);

/// What ptx_module_params.cache has done for this module. Owned by the module; NULL for NULL.
///
/// A cache never makes a load fail: a folder that cannot be used, a full disk, a file that is
/// damaged, of another format, or refused by the driver only mean that the text is compiled. The
/// thread's error stays as it is then; `reason` says what was in the way.
///
/// The compiler does not give its code out, the driver's linker does. So to keep a module it is
/// compiled twice: once to run now, once by the linker with the same registers. The code differs a
/// little, its results do not. Where it would take more registers or spill, it is not kept:
/// FAILED, and the driver's own cache is what helps. A module is worth keeping or not as a whole.
///
/// What is kept is found again by the text, the compute capability, the version of the driver (and
/// the name of its file, which has the exact version on most systems) and the options in
/// ptx_module_params that the compiler sees. Files appear whole or not at all, and processes and
/// threads may share a folder. The files' checksum is against damage, not against somebody who
/// means harm: who can write to the folder can run code on the GPU. So the folder, made with mode
/// 0700 where it is missing (and the folders above it), has to belong to the user or to root, and
/// nobody else may be able to write to it. One that the user cannot write to serves hits.
PTXGEN_API const struct ptx_cache_result *ptx_module_cache_result(const ptx_module *module);

// -------------------------------------------------------------------------------------- functions

/// One parameter of a kernel, as its text declares it.
struct ptx_function_param {
    const char *name;
    char type[12]; ///< "u32", "f32", "b8" ...
    size_t size;   ///< bytes that the argument must have; of the whole array, for one
    size_t offset; ///< bytes from the start of the parameter space
};

/// What a kernel is and needs. All sizes are in bytes.
struct ptx_function_info {
    const char *name;
    const struct ptx_function_param *params;
    size_t param_count;
    int required_block[3];     ///< .reqntid; 0, 0, 0 where the text has none
    int max_threads_per_block; ///< that this kernel can run with
    int registers;             ///< per thread
    int static_shared;         ///< per block
    int max_dynamic_shared;    ///< that a launch may ask for
    int local;                 ///< per thread: spills and local arrays
    int binary_version;        ///< of the machine code: 90 is sm_90
};

/// The kernel's particulars, owned by the module. Makes no driver call. NULL for NULL.
PTXGEN_API const struct ptx_function_info *ptx_function_get_info(const ptx_function *function);

/// How many blocks of `threads` threads and `shared_bytes` of dynamic shared memory are resident
/// on one SM at a time; times `multiprocessors`, the largest grid of a cooperative launch.
/// Errors: INVALID, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_function_occupancy(const ptx_function *function, int threads,
                                             size_t shared_bytes, int *blocks_per_sm);

/// One argument of a launch: the address and the size of a value of exactly the parameter's type.
struct ptx_arg {
    const void *value;
    size_t size;
};

/// An argument from a variable: PTX_ARG(n). Mind its type: an `int` for a .u64 parameter is
/// refused. Not for arrays and pointers to host memory; a buffer goes in as its CUdeviceptr.
#define PTX_ARG(variable)                                                                          \
    {                                                                                              \
        &(variable), sizeof(variable)                                                              \
    }

/// One launch. Dimensions that are 0 are 1, but see `grid` and `block`.
struct ptx_launch_params {
    /// Blocks in x, y, z. 0 in x: nothing to do; the call is checked and returns PTX_OK.
    unsigned grid[3];
    /// Threads of a block in x, y, z. All 0: what the kernel's .reqntid says.
    unsigned block[3];
    /// Dynamic shared memory of a block.
    size_t shared_bytes;
    /// Where it runs; may be under capture.
    CUstream stream;
    /// The kernel's arguments, in order. Read before the call returns.
    const struct ptx_arg *args;
    size_t arg_count;
    /// All blocks resident at once, so that they may wait for each other. Driver 520 and newer.
    bool cooperative;
    /// Blocks of a cluster in x, y, z; all 0: no cluster. sm_90, driver 520 and newer.
    unsigned cluster[3];
    /// May start before the kernel ahead of it on the stream has ended; the kernel then says
    /// griddepcontrol.wait. sm_90, driver 520 and newer; elsewhere it starts after it as usual.
    bool programmatic;
};

/// Puts a launch on the stream and returns at once. Arguments are held against the kernel's
/// parameter list, the geometry against the limits of device and kernel, before the driver is
/// asked. Safe on a stream under capture. Faults of the kernel itself (a bad address, say) show
/// in a later call: ptx_stream_synchronize().
/// Errors: INVALID (the message names the field), UNSUPPORTED, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_launch(const ptx_function *function,
                                 const struct ptx_launch_params *params);

PTXGEN_END

#endif

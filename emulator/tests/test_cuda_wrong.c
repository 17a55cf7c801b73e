// SPDX-License-Identifier: MIT
/// Every function of the driver with wrong arguments: null, stale and foreign handles, odd sizes,
/// structures with odd fields. The calls are random, and the same in each run. A call may return
/// any result, but the process survives, no memory leaks, and the emulator works afterwards. ASan
/// and UBSan make this test stronger.
///
/// The values for an argument come from its type and name in abi/functions.def, so the row of a new
/// function is enough. Invalid pointers to host memory and lengths beyond the given arrays are not
/// tried, because no libcuda can detect them.
#define _POSIX_C_SOURCE 200809L // setenv
#include "api.h"

enum { PARAMS = 12, ZONE = 1 << 13, POOL = 12, HOST_BYTES = 1 << 25 };

typedef CUresult call(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                      uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static const struct function {
    const char *name, *parameters;
    void (*code)(void);
} functions[] = {
#define VARIANT_none(symbol, parameters)
#define VARIANT_ptsz(symbol, parameters)                                                           \
    { #symbol "_ptsz", #parameters, (void (*)(void))symbol##_ptsz },
#define VARIANT_ptds(symbol, parameters)                                                           \
    { #symbol "_ptds", #parameters, (void (*)(void))symbol##_ptds },
#define CUDA_FUNCTION(symbol, name, since, variant, parameters, arguments)                         \
    { #symbol, #parameters, (void (*)(void))symbol }, VARIANT_##variant(symbol, parameters)
#include "abi/functions.def"
};

/// Handles and addresses that the calls returned, and plausible guesses. Destroyed ones stay.
static struct pool {
    const char *type;
    uint64_t values[POOL], newest;
    unsigned count;
} pools[] = {
    { .type = "CUcontext" },   { .type = "CUstream" },     { .type = "CUevent" },
    { .type = "CUmodule" },    { .type = "CUfunction" },   { .type = "CUlinkState" },
    { .type = "CUlibrary" },   { .type = "CUkernel" },     { .type = "CUgraph" },
    { .type = "CUgraphNode" }, { .type = "CUgraphExec" },  { .type = "CUdeviceptr" },
    { .type = "void *" },      { .type = "CUmemoryPool" }, { .type = "CUuserObject" },
};
enum { POOLS = sizeof(pools) / sizeof(pools[0]) };

static uint64_t seed = 1;
static unsigned char host[HOST_BYTES];
static _Alignas(16) unsigned char zones[PARAMS][ZONE];

static uint32_t below(uint32_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(((seed >> 33) * limit) >> 31);
}

static uint64_t one_of(const uint64_t *values, size_t count)
{
    return values[below((uint32_t)count)];
}
#define ONE_OF(...)                                                                                \
    one_of((const uint64_t[]) { __VA_ARGS__ }, sizeof((const uint64_t[]) { __VA_ARGS__ }) / 8)

static struct pool *pool_of(const char *type)
{
    for (size_t i = 0; i < POOLS; i++)
        if (strcmp(pools[i].type, type) == 0)
            return &pools[i];
    return NULL;
}

static void keep(struct pool *pool, uint64_t value)
{
    if (value == 0)
        return;
    pool->newest = value;
    if (pool->count < POOL)
        pool->values[pool->count++] = value;
    else
        pool->values[below(POOL)] = value;
}

static uint64_t from_pool(const struct pool *pool)
{
    if (below(2))
        return pool->newest; // belongs to the newest of other kinds
    return pool->count ? pool->values[below(pool->count)] : 0;
}

/// Most arguments are right, so that a call reaches its last checks.
static bool wrong(void)
{
    return below(16) == 0;
}

static uint64_t handle(const struct pool *pool)
{
    if (!wrong())
        return from_pool(pool);
    switch (below(3)) {
    case 0:
        return 0;
    case 1:
        return ONE_OF(1, 2, 3, 0xdead0000, UINT64_MAX);
    default:
        return from_pool(&pools[below(POOLS)]);
    }
}

static uint64_t device_address(void)
{
    uint64_t address = from_pool(pool_of("CUdeviceptr"));
    return wrong() ? ONE_OF(0, 1, address + 1, address + 65535, UINT64_MAX)
                   : address + ONE_OF(0, 4, 4096);
}

static void host_call(void *data)
{
    int count = 0;
    (void)data;
    cuDeviceGetCount(&count);
}

static void stream_call(CUstream stream, CUresult result, void *data)
{
    (void)stream;
    (void)result;
    host_call(data);
}

static size_t shared_of(int threads)
{
    return (size_t)threads * 4;
}

static const char *const images[] = {
    "",       "nonsense", "\177ELF", "\177PTXEMU 090",
    emu_text, emu_text,   emu_text,  EMU_TEXT_HEAD ".visible .entry small()\n{ ret; }\n",
};

#define NUMBERS 2, 3, 4, 5, 7, 8, 16, 31, 32, 64, 99, 1024, INT32_MAX, UINT32_MAX

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static uint64_t make(const char *type, const char *name, unsigned char *zone);

/// Sets each field of a structure of abi/cuda.h. False for any other type.
static bool make_struct(const char *type, unsigned char *zone)
{
    unsigned char *room = zone + 1024;
    uint64_t value = 0;
#define FIELD(field_type, field)                                                                   \
    value = make(#field_type, #field, room);                                                       \
    room += 256;                                                                                   \
    memcpy(&s->field, &value, sizeof(s->field) < 8 ? sizeof(s->field) : 8);
#define STRUCT(their, ours, fields)                                                                \
    if (strstr(type, #their " *")) {                                                               \
        struct ours *s = (struct ours *)(void *)zone;                                              \
        memset(s, 0, sizeof(*s));                                                                  \
        fields(FIELD) return true;                                                                 \
    }
    CUDA_ABI_STRUCTS(STRUCT)
    return false;
}

/// A copy from or to the host stays within its memory, and no other address counts as one of the
/// host.
static void tame(unsigned char *zone, bool solid)
{
    struct cuda_copy_3d flat, *copy = &flat;
    struct cuda_copy_2d *plane = (struct cuda_copy_2d *)(void *)zone;
    memset(&flat, 0, sizeof(flat));
    if (solid)
        copy = (struct cuda_copy_3d *)(void *)zone;
    CUmemorytype *types[2] = { solid ? &copy->srcMemoryType : &plane->srcMemoryType,
                               solid ? &copy->dstMemoryType : &plane->dstMemoryType };
    CUdeviceptr *devices[2] = { solid ? &copy->srcDevice : &plane->srcDevice,
                                solid ? &copy->dstDevice : &plane->dstDevice };
    bool hosts = false;
    for (int i = 0; i < 2; i++) {
        if (*types[i] == CU_MEMORYTYPE_UNIFIED)
            *devices[i] = (uint64_t)(uintptr_t)host;
        hosts = hosts || *types[i] == CU_MEMORYTYPE_HOST || *types[i] == CU_MEMORYTYPE_UNIFIED;
    }
    if (!hosts)
        return;
    size_t *sizes[] = { &copy->srcXInBytes, &copy->srcY,         &copy->srcZ,
                        &copy->srcPitch,    &copy->srcHeight,    &copy->dstXInBytes,
                        &copy->dstY,        &copy->dstZ,         &copy->dstPitch,
                        &copy->dstHeight,   &copy->WidthInBytes, &copy->Height,
                        &copy->Depth };
    size_t *flat_sizes[] = { &plane->srcXInBytes,  &plane->srcY,  &plane->srcPitch,
                             &plane->dstXInBytes,  &plane->dstY,  &plane->dstPitch,
                             &plane->WidthInBytes, &plane->Height };
    for (size_t i = 0; solid && i < sizeof(sizes) / sizeof(sizes[0]); i++)
        *sizes[i] %= 64;
    for (size_t i = 0; !solid && i < sizeof(flat_sizes) / sizeof(flat_sizes[0]); i++)
        *flat_sizes[i] %= 64;
}

static uint64_t array_of(const char *type, unsigned char *zone)
{
    uint64_t *values = (uint64_t *)(void *)zone;
    for (int i = 0; i < 64; i++)
        values[i] = is(type, "CUgraphNode") ? handle(pool_of(type)) : ONE_OF(0, 1, 2, 3, 8, 64);
    return (uint64_t)(uintptr_t)zone;
}

/// Pointers to what is read or written. `base` is the type without the last star.
static uint64_t make_pointer(const char *type, const char *name, unsigned char *zone)
{
    if (wrong())
        return 0;
    if (make_struct(type, zone)) {
        if (strstr(type, "CUDA_MEMCPY"))
            tame(zone, strstr(type, "3D") != NULL);
        return (uint64_t)(uintptr_t)zone;
    }
    if (is(type, "CUlaunchAttribute *")) {
        CUlaunchAttribute *attributes = (CUlaunchAttribute *)(void *)zone;
        memset(zone, 0, 3 * sizeof(*attributes));
        for (int i = 0; i < 3; i++) {
            attributes[i].id = (CUlaunchAttributeID)ONE_OF(0, 2, 4, 6, 16, 99);
            attributes[i].value.clusterDim.x = (unsigned)ONE_OF(0, 1, 2, UINT32_MAX);
            attributes[i].value.clusterDim.y = attributes[i].value.clusterDim.z = 1;
        }
        return (uint64_t)(uintptr_t)zone;
    }
    if (is(type, "const char *"))
        return (uint64_t)(uintptr_t)(const char *[]) {
            "", "x", "small", "store", "counter", "cuInit", "/nowhere/at/all"
        }[below(7)];
    if (is(type, "const void *") && (is(name, "image") || is(name, "code")))
        return (uint64_t)(uintptr_t)images[below(sizeof(images) / sizeof(images[0]))];
    if (is(name, "memory") && is(type, "void *"))
        return wrong() ? (uint64_t)(uintptr_t)host : from_pool(pool_of("void *"));
    if (is(type, "void *") || is(type, "const void *"))
        return (uint64_t)(uintptr_t)host;
    if (is(name, "params") || is(name, "kernelParams") || is(name, "values") || is(name, "data") ||
        strstr(name, "_values")) {
        void **values = (void **)(void *)zone;
        for (int i = 0; i < 64; i++) {
            uint64_t value = below(2) ? device_address() : ONE_OF(NUMBERS);
            values[i] = host + 65536 + 64 * i;
            if (!is(name, "values") && !is(name, "data"))
                memcpy(values[i], &value, 8);
        }
        return (uint64_t)(uintptr_t)zone;
    }
    if (is(name, "extra")) {
        uint64_t *list = (uint64_t *)(void *)zone;
        list[8] = ONE_OF(0, 4, 8, 20, 64);
        list[0] = ONE_OF(1, 1, 1, 0, 9);
        list[1] = (uint64_t)(uintptr_t)host;
        list[2] = 2;
        list[3] = (uint64_t)(uintptr_t)&list[8];
        list[4] = 0;
        return wrong() ? (uint64_t)(uintptr_t)zone : 0;
    }
    return array_of(strstr(type, "CUgraphNode *") ? "CUgraphNode" : "", zone);
}

static uint64_t make(const char *type, const char *name, unsigned char *zone)
{
    const struct pool *pool = pool_of(type);
    if (is(type, "CUdeviceptr"))
        return device_address();
    if (strchr(type, '*'))
        return make_pointer(type, name, zone);
    if (pool)
        return handle(pool);
    if (is(type, "CUdevice"))
        return ONE_OF(0, 0, 0, 0, 0, 1, UINT32_MAX);
    if (is(type, "CUhostFn"))
        return below(4) ? (uint64_t)(uintptr_t)host_call : 0;
    if (is(type, "CUstreamCallback"))
        return below(4) ? (uint64_t)(uintptr_t)stream_call : 0;
    if (is(type, "CUoccupancyB2DSize"))
        return below(4) ? (uint64_t)(uintptr_t)shared_of : 0;
    if (is(type, "CUarray"))
        return 0;
    if (is(type, "unsigned") && is(name, "count"))
        return wrong() ? below(4) : 0;
    if (strstr(name, "count") || is(name, "numAttrs"))
        return wrong() ? 3 : below(4) == 0; // of arrays
    if (is(type, "int") && is(name, "size"))
        return ONE_OF(UINT32_MAX, 0, 1, 12, 13, 512);
    if (is(type, "size_t") && is(name, "size"))
        return below(512); // of the log
    if (is(type, "size_t") && (strstr(name, "LOD") || name[3] == 'Y' || name[3] == 'Z'))
        return wrong() ? 1 : 0;
    if (is(type, "size_t") && (strstr(name, "itch") || strstr(name, "Height")))
        return wrong() ? ONE_OF(0, 1, UINT64_MAX) : ONE_OF(256, 512);
    if (is(type, "size_t"))
        return !wrong() ? ONE_OF(1, 4, 16, 64, 256)
                        : ONE_OF(0, 4096, 65536, 1 << 20, UINT64_C(1) << 40, UINT64_MAX / 4,
                                 UINT64_MAX / 2 + 1, UINT64_MAX - 15, UINT64_MAX);
    if (strncmp(name, "block", 5) == 0 || strncmp(name, "grid", 4) == 0)
        return wrong() ? ONE_OF(0, NUMBERS) : ONE_OF(1, 1, 2, 32);
    if (is(name, "elementSize"))
        return wrong() ? ONE_OF(0, 3, 8) : ONE_OF(1, 2, 4);
    if (is(type, "CUmemorytype"))
        return wrong() ? ONE_OF(0, 3, 5) : ONE_OF(1, 2, 2, 2, 4);
    if (is(name, "version"))
        return ONE_OF(11000, 12000, 13000, 99999);
    return wrong() ? ONE_OF(NUMBERS) : ONE_OF(0, 0, 1);
}

struct argument {
    char type[64], name[64];
    uint64_t value;
};

static unsigned read_parameters(const char *text, struct argument *arguments)
{
    unsigned count = 0;
    text++; // (
    while (*text != ')' && strcmp(text, "void)") != 0) {
        size_t length = strcspn(text, ",)"), start = length;
        while (start > 0 && text[start - 1] != ' ' && text[start - 1] != '*')
            start--;
        struct argument *a = &arguments[count++];
        snprintf(a->name, sizeof(a->name), "%.*s", (int)(length - start), text + start);
        while (start > 0 && text[start - 1] == ' ')
            start--;
        snprintf(a->type, sizeof(a->type), "%.*s", (int)start, text);
        text += length;
        while (*text == ',' || *text == ' ')
            text++;
    }
    return count;
}

/// Keeps what the call returned, for other calls.
static void collect(const struct argument *arguments, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char type[64];
        snprintf(type, sizeof(type), "%s", arguments[i].type);
        size_t length = strlen(type);
        if (length < 2 || type[length - 1] != '*' || strncmp(type, "const", 5) == 0 ||
            !arguments[i].value || arguments[i].value != (uint64_t)(uintptr_t)zones[i])
            continue;
        type[length - 1] = '\0';
        if (length >= 2 && type[length - 2] == ' ')
            type[length - 2] = '\0';
        struct pool *pool = pool_of(is(type, "void *") || is(type, "void") ? "-" : type);
        if (is(arguments[i].name, "memory"))
            pool = pool_of("void *");
        uint64_t value = 0;
        memcpy(&value, zones[i], 8);
        if (pool)
            keep(pool, value);
    }
}

/// Functions for which an address that is not of the device is one of the host.
static bool takes_any_address(const char *name)
{
    return strncmp(name, "cuMemcpy", 8) == 0 && strncmp(name, "cuMemcpyD", 9) != 0 &&
           strncmp(name, "cuMemcpyH", 9) != 0;
}

static void call_one(const struct function *function)
{
    struct argument a[PARAMS] = { 0 };
    unsigned count = read_parameters(function->parameters, a);
    bool link = strncmp(function->name, "cuLinkAddData", 13) == 0;
    assert_true(count <= PARAMS);
    for (unsigned i = 0; i < count; i++) {
        a[i].value = make(a[i].type, a[i].name, zones[i]);
        if (takes_any_address(function->name) && is(a[i].type, "CUdeviceptr") &&
            a[i].value < (UINT64_C(1) << 48))
            a[i].value = (uint64_t)(uintptr_t)&host[below(8) << 20];
        if (strncmp(function->name, "cuMemHostRegister", 17) == 0 && is(a[i].name, "memory"))
            a[i].value = wrong() ? ONE_OF(0, 1, 4096) : (uint64_t)(uintptr_t)&host[below(8) << 20];
        if ((link || takes_any_address(function->name)) && is(a[i].name, "bytes"))
            a[i].value %= 4096;
    }
    CUresult result = ((call *)function->code)(a[0].value, a[1].value, a[2].value, a[3].value,
                                               a[4].value, a[5].value, a[6].value, a[7].value,
                                               a[8].value, a[9].value, a[10].value, a[11].value);
    if (!result)
        collect(a, count);
}

#define KEEP(type, handle) keep(pool_of(type), (uint64_t)(uintptr_t)(handle))

/// Creates objects of each kind in place of destroyed ones.
static void refill(void)
{
    CUcontext context = NULL;
    CUdeviceptr address = 0;
    void *memory = NULL;
    CUmodule loaded = NULL;
    CUfunction function = NULL, small = NULL;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphExec executable = NULL;
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUlinkState link = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuEmulatorClearError();
    cuThreadExchangeStreamCaptureMode(&mode);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    KEEP("CUcontext", context);
    if (!cuMemAlloc_v2(&address, 65536))
        keep(pool_of("CUdeviceptr"), address);
    if (!cuMemAllocHost_v2(&memory, 4096))
        KEEP("void *", memory);
    OK(cuModuleLoadData(&loaded, emu_text));
    KEEP("CUmodule", loaded);
    OK(cuModuleGetFunction(&small, loaded, "small"));
    KEEP("CUfunction", small);
    OK(cuModuleGetFunction(&function, loaded, "store"));
    KEEP("CUfunction", function);
    OK(cuStreamCreate(&stream, below(2)));
    KEEP("CUstream", stream);
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, stream));
    KEEP("CUevent", event);
    OK(cuGraphCreate(&graph, 0));
    KEEP("CUgraph", graph);
    switch (below(6)) {
    case 0:
        OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
        break;
    case 1:
        OK(cuGraphAddHostNode(&node, graph, NULL, 0, &(CUDA_HOST_NODE_PARAMS) { host_call, NULL }));
        break;
    case 2:
        OK(cuGraphAddEventRecordNode(&node, graph, NULL, 0, event));
        break;
    case 3:
        OK(cuGraphAddEventWaitNode(&node, graph, NULL, 0, event));
        break;
    case 4:
        OK(cuGraphAddKernelNode_v2(
            &node, graph, NULL, 0,
            &(CUDA_KERNEL_NODE_PARAMS_v2) { .func = small, EMU_ONE_THREAD }));
        break;
    default:
        cuGraphAddMemsetNode(&node, graph, NULL, 0,
                             &(CUDA_MEMSET_NODE_PARAMS) { address, 0, 0, 4, 16, 1 }, context);
    }
    KEEP("CUgraphNode", node);
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    KEEP("CUgraphExec", executable);
    OK(cuLibraryLoadData(&library, emu_text, NULL, NULL, 0, NULL, NULL, 0));
    KEEP("CUlibrary", library);
    OK(cuLibraryGetKernel(&kernel, library, "store"));
    KEEP("CUkernel", kernel);
    OK(cuLinkCreate_v2(0, NULL, NULL, &link));
    KEEP("CUlinkState", link);
}

static unsigned calls = 20000;

TEST(random_calls)
{
    enum { COUNT = sizeof(functions) / sizeof(functions[0]) };
    memcpy(host, emu_text, sizeof(emu_text)); // for the linker
    for (unsigned i = 0; i < calls; i++) {
        if (i % 40 == 0)
            refill();
        call_one(&functions[below(COUNT)]);
    }
    refill(); // each kind of object can still be created
}

/// A context of its own, current, with a module and a stream.
static struct place {
    CUcontext context;
    CUmodule module;
    CUfunction small;
    CUstream stream;
    CUevent event;
} new_place(void)
{
    struct place p;
    OK(cuCtxCreate_v2(&p.context, 0, 0));
    p.module = emu_module();
    p.small = emu_function(p.module, "small");
    OK(cuStreamCreate(&p.stream, 1));
    OK(cuEventCreate(&p.event, 0));
    return p;
}

static CUresult launch(CUfunction function, CUstream stream)
{
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

TEST(foreign_contexts)
{
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    struct place a = new_place(), b = new_place();
    OK(launch(a.small, a.stream)); // whatever is current
    RETURNS(launch(a.small, b.stream), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(launch(a.small, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(a.event, a.stream));
    RETURNS(cuEventRecord(a.event, b.stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamWaitEvent(b.stream, a.event, 0));
    OK(cuLibraryLoadData(&library, emu_text, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "small"));
    OK(launch((CUfunction)(void *)kernel, a.stream)); // of no context
    OK(launch((CUfunction)(void *)kernel, b.stream));
    OK(cuLibraryUnload(library));
    OK(cuCtxDestroy_v2(b.context));
    OK(cuCtxSetCurrent(a.context));
    OK(cuCtxDestroy_v2(a.context));
}

/// Objects are destroyed with their context, even if a graph refers to them.
TEST(stale_functions)
{
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    struct place a = new_place();
    const CUDA_KERNEL_NODE_PARAMS_v2 params = { .func = a.small, EMU_ONE_THREAD };
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
    OK(cuCtxDestroy_v2(a.context));
    struct place b = new_place();
    RETURNS(launch(a.small, b.stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cuGraphDestroy(graph));
    OK(cuCtxDestroy_v2(b.context));
}

/// A kernel in a graph, without a context and with one.
TEST(kernels_without_context)
{
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUcontext before = NULL, none = NULL;
    struct place a = new_place();
    OK(cuLibraryLoadData(&library, emu_text, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "small"));
    OK(cuGraphCreate(&graph, 0));
    CUDA_KERNEL_NODE_PARAMS_v2 params = { .kern = kernel, EMU_ONE_THREAD };
    while (!cuCtxGetCurrent(&none) && none)
        OK(cuCtxPopCurrent_v2(&before));
    RETURNS(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_CONTEXT);
    params.ctx = a.context;
    OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
    OK(cuGraphDestroy(graph));
    OK(cuCtxSetCurrent(before));
    OK(cuLibraryUnload(library));
    OK(cuCtxDestroy_v2(a.context));
}

/// A library's modules are unloaded by the library.
TEST(modules_of_libraries)
{
    CUlibrary library = NULL;
    CUmodule module = NULL;
    struct place a = new_place();
    OK(cuLibraryLoadData(&library, emu_text, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetModule(&module, library));
    RETURNS(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
    emu_function(module, "small");
    OK(cuLibraryUnload(library));
    RETURNS(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxDestroy_v2(a.context));
}

/// A library does not unload what a destroyed context had of it: other modules may have its memory
/// by then.
TEST(libraries_outlive_contexts)
{
    enum { COUNT = 32 };
    CUlibrary libraries[COUNT];
    CUmodule modules[COUNT];
    struct place a = new_place();
    for (unsigned k = 0; k < COUNT; k++) {
        OK(cuLibraryLoadData(&libraries[k], emu_text, NULL, NULL, 0, NULL, NULL, 0));
        OK(cuLibraryGetModule(&modules[k], libraries[k]));
    }
    OK(cuCtxDestroy_v2(a.context));
    struct place b = new_place();
    for (unsigned k = 0; k < COUNT; k++)
        modules[k] = emu_module();
    for (unsigned k = 0; k < COUNT; k++)
        OK(cuLibraryUnload(libraries[k]));
    for (unsigned k = 0; k < COUNT; k++)
        OK(cuModuleUnload(modules[k]));
    OK(cuCtxDestroy_v2(b.context));
}

/// An attribute has its size even if the address is unknown.
TEST(sizes_of_attributes)
{
    static const struct {
        CUpointer_attribute attribute;
        size_t size;
    } known[] = {
        { CU_POINTER_ATTRIBUTE_P2P_TOKENS, 16 },
        { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4 },
        { CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 1 },
        { CU_POINTER_ATTRIBUTE_MAPPED, 1 },
        { CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 1 },
        { CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 4 },
        { CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, 1 },
    };
    struct place a = new_place();
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        unsigned char value[32];
        void *data = value;
        CUpointer_attribute attribute = known[i].attribute;
        memset(value, 0xaa, sizeof(value));
        OK(cuPointerGetAttributes(1, &attribute, &data, 4096));
        for (size_t k = 0; k < sizeof(value); k++)
            assert_int_equal(value[k], k < known[i].size ? 0 : 0xaa);
    }
    OK(cuCtxDestroy_v2(a.context));
}

TEST(odd_copies)
{
    CUdeviceptr address = 0;
    void *pinned = NULL;
    struct place a = new_place();
    OK(cuMemAlloc_v2(&address, 8192));
    OK(cuMemAllocHost_v2(&pinned, 4096));
    OK(cuMemcpyHtoD_v2(address, pinned, 4096));
    RETURNS(cuMemcpyHtoD_v2(address, pinned, 4097), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemcpyDtoH_v2(pinned, address, 4097), CUDA_ERROR_INVALID_VALUE);
    // A copy of nothing takes no time, whatever its depth.
    const CUDA_MEMCPY3D nothing = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                    .srcDevice = address,
                                    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                    .dstDevice = address,
                                    .WidthInBytes = 1,
                                    .Height = 0,
                                    .Depth = SIZE_MAX };
    OK(cuMemcpy3D_v2(&nothing));
    // Host memory that is not mapped.
    RETURNS(cuMemHostRegister_v2((void *)4096, 4096, 0), CUDA_ERROR_INVALID_VALUE);
    static unsigned char own[4096]; // random calls may have left `host` registered
    RETURNS(cuMemHostRegister_v2(own, UINT64_C(1) << 46, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemHostRegister_v2(own, SIZE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemHostRegister_v2(own, sizeof(own), 0));
    OK(cuMemHostUnregister(own));
    OK(cuCtxDestroy_v2(a.context));
}

static size_t shared_by_asking(int threads)
{
    int count = 0;
    OK(cuDeviceGetCount(&count)); // the callback may call the driver
    return shared_of(threads);
}

TEST(asking_callback)
{
    int grid = 0, block = 0, plain_grid = 0, plain_block = 0;
    struct place a = new_place();
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, a.small, shared_by_asking, 0, 0));
    OK(cuOccupancyMaxPotentialBlockSize(&plain_grid, &plain_block, a.small, shared_of, 0, 0));
    assert_int_equal(block, 64);
    assert_int_equal(block, plain_block);
    assert_int_equal(grid, plain_grid);
    OK(cuCtxDestroy_v2(a.context));
}

int main(int count, char **arguments)
{
    if (count > 1) // number of calls and first seed, for longer runs
        calls = (unsigned)strtoul(arguments[1], NULL, 10);
    if (count > 2)
        seed = strtoull(arguments[2], NULL, 10);
    setenv("PTXGEN_EMU_LOG", "/dev/null", 1);
    setenv("PTXGEN_EMU_MEMORY", "64M", 1);
    setenv("PTXGEN_EMU_INSTRUCTIONS", "20000", 1);
    setenv("PTXGEN_EMU_THREADS", "1", 1);
    if (cuInit(0))
        return 1;
    return tests_run(NULL, NULL);
}

// SPDX-License-Identifier: MIT
// libFuzzer: for any text, geometry and arguments, the emulator refuses the module or the launch,
// runs it, or reports the fault of the kernel, and works afterwards.
//
// An input is PTX text, up to its first NUL or its end. The bytes after the NUL are the recipe: the
// number of launches, and for each the entry, the way, the geometry and the arguments. Missing
// bytes are zeros, so text alone is an input too: its first entry is launched with one block of the
// required size or 32 threads, with buffers for parameters of 8 bytes.
#include "fuzz_device.h"

#include <stdio.h>

enum {
    MOST_PARAMS = 64,
    MOST_BYTES = 1 << 18, // of shared and local memory of the blocks of a launch
    SURELY_REFUSED = 1 << 20,
};

static uint8_t take(struct recipe *recipe)
{
    return recipe->at < recipe->end ? *recipe->at++ : 0;
}

static uint64_t take_raw(struct recipe *recipe, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)take(recipe) << 8 * i;
    return value;
}

// A byte selects one of the usual numbers, is the number, or is followed by it.
static uint32_t take_number(struct recipe *recipe, const uint32_t *usual, unsigned count)
{
    uint8_t choice = take(recipe);
    if (choice < count)
        return usual[choice];
    return choice == UINT8_MAX ? (uint32_t)take_raw(recipe, 4) : choice;
}

// The sizes after the first .reqntid of the text, because few random geometries match it; 0 without
// one.
static void required_block(const char *text, uint32_t block[3])
{
    const char *at = strstr(text, ".reqntid");
    at = at ? at + strlen(".reqntid") : "";
    for (int i = 0; i < 3; i++) {
        char *end = NULL;
        unsigned long size = strtoul(at, &end, 10);
        block[i] = end != at && size <= UINT32_MAX ? (uint32_t)size : 0;
        at = *end == ',' ? end + 1 : "";
    }
}

static void take_geometry(struct recipe *recipe, struct launch *launch)
{
    static const uint32_t grids[] = { 1,     2,     3,          5,          8,         0,
                                      65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff };
    static const uint32_t blocks[] = { 0, 1, 2, 31, 32, 33, 64, 96, 256, 1023, 1024, 1025 };
    static const uint32_t depths[] = { 0, 1, 2, 3, 64, 65, 0xffffffff };
    static const uint32_t shared[] = { 0, 4, 16, 64, 100, 1024, 49152, 232448, 0xffffffff };
    uint32_t required[3];
    required_block(launch->text, required);
    for (int i = 0; i < 3; i++)
        launch->grid[i] = take_number(recipe, grids, sizeof(grids) / sizeof(grids[0]));
    launch->block[0] = take_number(recipe, blocks, sizeof(blocks) / sizeof(blocks[0]));
    for (int i = 1; i < 3; i++)
        launch->block[i] = take_number(recipe, depths, sizeof(depths) / sizeof(depths[0]));
    for (int i = 0; i < 3; i++)
        if (launch->block[i] == 0)
            launch->block[i] = required[i] ? required[i] : i == 0 ? 32 : 1;
    launch->shared = take_number(recipe, shared, sizeof(shared) / sizeof(shared[0]));
}

static uint64_t take_pointer(struct recipe *recipe, const struct device *device, unsigned index)
{
    uint8_t choice = take(recipe);
    switch (choice & 15) {
    case 0:
        return device->buffers[index % BUFFERS];
    case 1:
        return 64; // a count
    case 2:
        return device->buffers[choice >> 4] + 4u * take(recipe);
    case 3:
        return device->buffers[choice >> 4] + take(recipe);
    case 4:
        return device->buffers[choice >> 4] + BUFFER_BYTES - take(recipe);
    case 5:
        return device->freed + take(recipe);
    case 6: // shared, local and param memory as generic addresses
        return UINT64_C(0x800000000000) + ((uint64_t)(choice >> 4 & 3) << 32) + take(recipe);
    case 7:
        return (uint64_t)(uintptr_t)device->pinned + take(recipe);
    case 8:
        return 0;
    case 9:
        return UINT64_MAX - take(recipe);
    case 10:
        return (uint64_t)(uintptr_t)device +
               take(recipe); // host memory, which no kernel may access
    default:
        return take_raw(recipe, 8);
    }
}

static void take_bytes(struct recipe *recipe, unsigned char *bytes, size_t count)
{
    uint8_t choice = take(recipe);
    for (size_t i = 0; i < count; i++)
        bytes[i] = choice == 0   ? (i == 0 ? 64 : 0)
                   : choice == 1 ? 0
                   : choice == 2 ? UINT8_MAX
                                 : take(recipe);
}

// Each argument has memory of its size, so that ASan detects a read beyond it.
static bool take_arguments(struct recipe *recipe, struct launch *launch,
                           const struct device *device)
{
    for (launch->param_count = 0;; launch->param_count++) {
        size_t offset = 0, bytes = 0;
        unsigned k = launch->param_count;
        if (cuFuncGetParamInfo(launch->function, k, &offset, &bytes) != CUDA_SUCCESS)
            break;
        if (k == MOST_PARAMS)
            return false;
        launch->params[k] = malloc(bytes ? bytes : 1);
        if (!launch->params[k])
            return false;
        uint64_t pointer = bytes == 8 ? take_pointer(recipe, device, k) : 0;
        if (bytes == 8)
            memcpy(launch->params[k], &pointer, 8);
        else
            take_bytes(recipe, launch->params[k], bytes);
        launch->param_bytes = offset + bytes;
    }
    return true;
}

// Blocks clear their shared and local memory, which takes seconds in a large grid.
static bool is_small(const struct launch *launch)
{
    int shared = 0, local = 0;
    uint64_t threads = 1, blocks = 1;
    for (int i = 0; i < 3; i++) {
        threads *= launch->block[i] < 1024 ? launch->block[i] : 1024;
        blocks *= launch->grid[i] < 1024 ? launch->grid[i] : 1024;
    }
    require(cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, launch->function) ==
            0);
    require(cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, launch->function) == 0);
    uint64_t warps = (threads + 31) / 32;
    uint64_t shared_bytes = (uint64_t)(unsigned)shared + launch->shared;
    uint64_t local_bytes = (uint64_t)(unsigned)local * 32 * warps;
    return (shared_bytes >= SURELY_REFUSED || blocks * shared_bytes <= MOST_BYTES) &&
           ((unsigned)local >= SURELY_REFUSED || blocks * local_bytes <= 8 * MOST_BYTES);
}

static void take_launch(struct recipe *recipe, struct device *device, CUmodule module,
                        const char *text)
{
    CUfunction functions[8];
    unsigned count = 0;
    struct launch launch = { .text = text };
    require(cuModuleGetFunctionCount(&count, module) == CUDA_SUCCESS);
    count = count < 8 ? count : 8;
    require(cuModuleEnumerateFunctions(functions, count, module) == CUDA_SUCCESS);
    if (count == 0)
        return;
    launch.function = functions[take(recipe) % count];
    launch.way = take(recipe);
    launch.attribute = launch.way & 7 ? (uint32_t)take_raw(recipe, 2) : 0;
    take_geometry(recipe, &launch);
    if (take_arguments(recipe, &launch, device) && is_small(&launch))
        launch_run(device, &launch);
    for (unsigned k = 0; k < MOST_PARAMS; k++)
        free(launch.params[k]);
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count;
    (void)arguments;
    // A variable that is set is kept.
    setenv("PTXGEN_EMU_THREADS", "1", 0);
    setenv("PTXGEN_EMU_MEMORY", "4M", 0);
    setenv("PTXGEN_EMU_INSTRUCTIONS", "2000", 0);
    setenv("PTXGEN_EMU_LOG", "/dev/null", 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct device *device = device_ready();
    size_t length = strnlen((const char *)bytes, size);
    struct recipe recipe = { bytes + (length < size ? length + 1 : size), bytes + size };
    char *text = malloc(length + 1);
    require(text);
    memcpy(text, bytes, length);
    text[length] = '\0';
    uint8_t choice = take(&recipe);
    struct loaded loaded = { 0 };
    if (load(&loaded, choice >> 2, text)) {
        for (unsigned k = 0; k <= (choice & 3u) && device->module_lives; k++)
            take_launch(&recipe, device, loaded.module, text);
        unload(&loaded, device->module_lives);
    } else {
        fuzz_forget();
    }
    device_check(device, strstr(text, "malloc") != NULL);
    free(text);
    return 0;
}

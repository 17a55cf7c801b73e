// SPDX-License-Identifier: MIT
// A program in C++ that writes a kernel, loads and runs it, with each of its allocations failing
// once: it gets PTX_ERROR_OUT_OF_MEMORY or std::bad_alloc, and no other error; and nothing leaks.
//
// Linked with --wrap for malloc, calloc, realloc and free.
#include <ptxgen/ptxgen.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

extern "C" {
#include "failing_allocations.h"
}

void *operator new(size_t size)
{
    void *const memory = std::malloc(size);

    if (!memory)
        throw std::bad_alloc();
    return memory;
}

void operator delete(void *memory) noexcept
{
    std::free(memory);
}

void operator delete(void *memory, size_t) noexcept
{
    std::free(memory);
}

enum { COUNT = 1000, TERMS = 500 };

// y = x + x + ..., in a kernel that is longer than the first memory of a builder.
static void run(const ptx::device &gpu)
{
    std::vector<float> data(COUNT, 1);
    ptx::builder b(gpu.target());

    b.entry("sum", { 64 }, [&] {
        ptx::value n = b.param<uint64_t>("n");
        ptx::pointer x = b.param_ptr<float>("x");
        b.grid_stride(n, [&](ptx::value i) {
            ptx::value one = x[i];
            ptx_val sum = one;
            for (int k = 1; k < TERMS; k++) // in C, which allocates for the builder alone
                sum = ptx_add(b, sum, one);
            x[i] = sum;
        });
    });
    ptx::module module(gpu, b.finish());
    ptx::stream stream(gpu);
    ptx::buffer memory(gpu, COUNT * sizeof(float));
    memory.upload(data.data(), memory.size(), stream);
    ptx::launch(module.function("sum"), ptx::grid(3, stream), uint64_t(COUNT), memory);
    memory.download(data.data(), memory.size(), stream);
    gpu.synchronize(stream);
    for (float each : data)
        if (each != TERMS)
            throw ptx::error(PTX_ERROR_INVALID, "another result");
}

// Whether the program ends as it should, if that allocation fails; `made` counts them.
static bool fails_well(const ptx::device &gpu, int allocation, int *made, int *out_of_memory)
{
    const int live = live_allocations;
    bool well = true;

    allocations = 0;
    failing_allocation = allocation;
    try {
        run(gpu);
    } catch (const ptx::error &e) {
        well = e.status() == PTX_ERROR_OUT_OF_MEMORY;
        ++*out_of_memory;
        if (!well)
            std::fprintf(stderr, "%d: %s: %s\n", allocation, ptx_status_name(e.status()), e.what());
    } catch (const std::bad_alloc &) {
    }
    failing_allocation = 0;
    *made = allocations;
    if (allocation && live_allocations > live) {
        std::fprintf(stderr, "%d: %d blocks are left\n", allocation, live_allocations - live);
        well = false;
    }
    return well;
}

int main()
{
    int count = 0, made = 0, out_of_memory = 0;
    bool well = true;

    try {
        ptx::device gpu;
        well = fails_well(gpu, 0, &count, &out_of_memory);
        for (int k = 1; k <= count; k++)
            well = fails_well(gpu, k, &made, &out_of_memory) && well;
    } catch (const ptx::error &e) {
        std::fprintf(stderr, "FAILED: %s\n", e.what());
        return 1;
    }
    std::printf("%d allocations, %d errors of the library\n", count, out_of_memory);
    return !well || count < 10 || out_of_memory < 3;
}

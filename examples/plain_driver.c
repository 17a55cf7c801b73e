// SPDX-License-Identifier: MIT
// A host program that uses only the driver API and does not know of the emulator: it doubles eight
// numbers.
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry twice(.param .u64 numbers)\n"
                           "{\n"
                           "    .reg .b32 %r<3>;\n"
                           "    .reg .b64 %d<4>;\n"
                           "    ld.param.u64 %d1, [numbers];\n"
                           "    mov.u32 %r1, %tid.x;\n"
                           "    mul.wide.u32 %d2, %r1, 4;\n"
                           "    add.u64 %d3, %d1, %d2;\n"
                           "    ld.global.u32 %r2, [%d3];\n"
                           "    add.u32 %r2, %r2, %r2;\n"
                           "    st.global.u32 [%d3], %r2;\n"
                           "    ret;\n"
                           "}\n";

static void check(CUresult result)
{
    const char *name = "unknown error";
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorName(result, &name);
    fprintf(stderr, "%s\n", name);
    exit(1);
}

int main(void)
{
    unsigned numbers[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    CUcontext context;
    CUmodule module;
    CUfunction twice;
    CUdeviceptr memory;
    void *arguments[] = { &memory };
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxSetCurrent(context));
    check(cuModuleLoadData(&module, text));
    check(cuModuleGetFunction(&twice, module, "twice"));
    check(cuMemAlloc(&memory, sizeof numbers));
    check(cuMemcpyHtoD(memory, numbers, sizeof numbers));
    check(cuLaunchKernel(twice, 1, 1, 1, 8, 1, 1, 0, NULL, arguments, NULL));
    check(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    for (int i = 0; i < 8; i++)
        printf("%u%c", numbers[i], i < 7 ? ' ' : '\n');
    check(cuMemFree(memory));
    return 0;
}

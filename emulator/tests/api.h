// SPDX-License-Identifier: MIT
/// For tests of the emulator as a driver: its functions as a host program sees them, and modules.
#ifndef PTXGEN_TESTS_EMULATOR_API_H
#define PTXGEN_TESTS_EMULATOR_API_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/extensions.h"
#include "test.h"

#define RETURNS(call, result) assert_int_equal((int)(call), (int)(result))
#define OK(call)              RETURNS(call, CUDA_SUCCESS)

/// The grid of a kernel node that runs one thread.
#define EMU_ONE_THREAD                                                                             \
    .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1

#define EMU_TEXT_HEAD ".version 6.4\n.target sm_70\n.address_size 64\n"

// store: *p = value, by one thread. add: x[i] += value for i < n. wait: a trap.
static const char emu_text[] =
    EMU_TEXT_HEAD ".visible .global .align 8 .u64 counter = 11;\n"
                  ".visible .const .align 4 .u32 limits[2] = {7, 8};\n"
                  ".visible .entry store(.param .u64 p, .param .u32 value)\n"
                  "{\n"
                  "    .reg .b32 %r<2>;\n"
                  "    .reg .b64 %d<2>;\n"
                  "    ld.param.u64 %d1, [p];\n"
                  "    ld.param.u32 %r1, [value];\n"
                  "    st.global.u32 [%d1], %r1;\n"
                  "    ret;\n"
                  "}\n"
                  ".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 value)\n"
                  "{\n"
                  "    .reg .pred %p<2>;\n"
                  "    .reg .b32 %r<8>;\n"
                  "    .reg .b64 %d<4>;\n"
                  "    ld.param.u64 %d1, [p];\n"
                  "    ld.param.u32 %r1, [n];\n"
                  "    ld.param.u32 %r2, [value];\n"
                  "    mov.u32 %r3, %ctaid.x;\n"
                  "    mov.u32 %r4, %ntid.x;\n"
                  "    mov.u32 %r5, %tid.x;\n"
                  "    mad.lo.u32 %r6, %r3, %r4, %r5;\n"
                  "    setp.ge.u32 %p1, %r6, %r1;\n"
                  "    @%p1 bra DONE;\n"
                  "    mul.wide.u32 %d2, %r6, 4;\n"
                  "    add.u64 %d3, %d1, %d2;\n"
                  "    ld.global.u32 %r7, [%d3];\n"
                  "    add.u32 %r7, %r7, %r2;\n"
                  "    st.global.u32 [%d3], %r7;\n"
                  "DONE:\n"
                  "    ret;\n"
                  "}\n"
                  ".visible .entry stop()\n{\n    trap;\n    ret;\n}\n"
                  ".visible .entry shape(.param .u64 a, .param .u8 b, .param .f64 c,\n"
                  "                      .param .align 4 .b8 d[12])\n"
                  ".reqntid 32, 2\n"
                  "{\n    ret;\n}\n"
                  ".visible .entry small()\n.maxntid 64\n{\n    ret;\n}\n"
                  ".visible .entry shared()\n"
                  "{\n"
                  "    .shared .align 4 .b8 buffer[1024];\n"
                  "    .reg .b32 %r<2>;\n"
                  "    mov.u32 %r1, buffer;\n"
                  "    st.volatile.shared.u32 [%r1], %r1;\n"
                  "    ret;\n"
                  "}\n"
                  ".visible .entry rank(.param .u64 p)\n"
                  "{\n"
                  "    .reg .b32 %r<2>;\n"
                  "    .reg .b64 %d<2>;\n"
                  "    ld.param.u64 %d1, [p];\n"
                  "    mov.u32 %r1, %gridid;\n"
                  "    st.global.u32 [%d1], %r1;\n"
                  "    ret;\n"
                  "}\n";

static inline CUcontext emu_context(void)
{
    CUcontext context = NULL;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    return context;
}

static inline CUmodule emu_module(void)
{
    CUmodule module = NULL;
    OK(cuModuleLoadData(&module, emu_text));
    return module;
}

static inline CUfunction emu_function(CUmodule module, const char *name)
{
    CUfunction function = NULL;
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

static inline uint32_t emu_read(CUdeviceptr address)
{
    uint32_t value = 0;
    OK(cuMemcpyDtoH_v2(&value, address, sizeof(value)));
    return value;
}

#endif

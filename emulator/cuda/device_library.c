// SPDX-License-Identifier: MIT
// The functions of libcudadevrt.a: the barrier of a grid, as cooperative groups of Numba and others
// call it.
#include "device_library.h"

#include <stdlib.h>
#include <string.h>

static const char magic[] = "!<arch>\n", object[] = "cuda_device_runtime.o/";

// The head of each member: its name, then other fields, all of them text.
enum { MEMBER_SIZE = 48, MEMBER_SIZE_DIGITS = 10, MEMBER_HEAD = 60 };

static bool holds(const char *bytes, size_t length, const char *word)
{
    const size_t letters = strlen(word);
    for (size_t at = 0; at + letters <= length; at++)
        if (memcmp(bytes + at, word, letters) == 0)
            return true;
    return false;
}

// Names of more than 15 letters are in a member of the name "//".
bool api_is_device_library(const void *bytes, size_t length)
{
    const char *archive = bytes;
    size_t at = sizeof(magic) - 1;
    if (length < at || memcmp(archive, magic, at) != 0)
        return false;
    while (length - at >= MEMBER_HEAD) {
        char digits[MEMBER_SIZE_DIGITS + 1] = "";
        memcpy(digits, archive + at + MEMBER_SIZE, MEMBER_SIZE_DIGITS);
        const bool names = memcmp(archive + at, "// ", 3) == 0;
        const unsigned long long size = strtoull(digits, NULL, 10);
        at += MEMBER_HEAD;
        if (size > length - at)
            return false;
        if (names)
            return holds(archive + at, (size_t)size, object);
        at += (size_t)size;
        at += at % 2 && at < length;
    }
    return false;
}

// A grid's handle is the address of its workspace, which a cooperative launch has. Its second word
// counts the blocks that have come: all but the first add 1, and the first adds what makes the sum
// of all 2^31, so each barrier flips the highest bit.
const char api_device_library[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)\n"
    "{\n"
    "    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<2>;\n"
    "    ld.param.b32 %r1, [scope];\n"
    "    mov.b32 %r2, %envreg2;\n"
    "    mov.b32 %r3, %envreg1;\n"
    "    mov.b64 %d1, {%r2, %r3};\n"
    "    setp.eq.u32 %p, %r1, 1; // cudaCGScopeGrid\n"
    "    selp.b64 %d1, %d1, 0, %p;\n"
    "    st.param.b64 [handle], %d1;\n"
    "    ret;\n"
    "}\n"
    ".visible .func (.param .b32 error) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)\n"
    "{\n"
    "    .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<2>;\n"
    "    ld.param.b64 %d1, [handle];\n"
    "    setp.eq.u64 %p, %d1, 0;\n"
    "    @%p trap; // the launch is not cooperative\n"
    "    barrier.sync 0;\n"
    "    mov.b32 %r1, %tid.x;\n"
    "    mov.b32 %r2, %tid.y;\n"
    "    mov.b32 %r3, %tid.z;\n"
    "    or.b32 %r1, %r1, %r2;\n"
    "    or.b32 %r1, %r1, %r3;\n"
    "    setp.ne.u32 %p, %r1, 0;\n"
    "    @%p bra MEET;\n"
    "    mov.b32 %r1, %nctaid.x;\n"
    "    mov.b32 %r2, %nctaid.y;\n"
    "    mov.b32 %r3, %nctaid.z;\n"
    "    mul.lo.u32 %r1, %r1, %r2;\n"
    "    mul.lo.u32 %r1, %r1, %r3;\n"
    "    sub.u32 %r4, 0x80000001, %r1; // 2^31 without the other blocks\n"
    "    mov.b32 %r1, %ctaid.x;\n"
    "    mov.b32 %r2, %ctaid.y;\n"
    "    mov.b32 %r3, %ctaid.z;\n"
    "    or.b32 %r1, %r1, %r2;\n"
    "    or.b32 %r1, %r1, %r3;\n"
    "    setp.eq.u32 %p, %r1, 0;\n"
    "    selp.b32 %r4, %r4, 1, %p;\n"
    "    fence.acq_rel.gpu;\n"
    "    atom.add.acq_rel.gpu.u32 %r5, [%d1+4], %r4;\n"
    "WAIT:\n"
    "    ld.acquire.gpu.u32 %r6, [%d1+4];\n"
    "    xor.b32 %r7, %r5, %r6;\n"
    "    setp.ge.s32 %p, %r7, 0;\n"
    "    @%p bra WAIT;\n"
    "    fence.acq_rel.gpu;\n"
    "MEET:\n"
    "    barrier.sync 0;\n"
    "    st.param.b32 [error], 0;\n"
    "    ret;\n"
    "}\n";

// SPDX-License-Identifier: MIT
// For tests of texts that are refused.
#ifndef PTXGEN_TESTS_ASM_REFUSED_H
#define PTXGEN_TESTS_ASM_REFUSED_H

#include "builder_fixture.h"

// The call, in an entry for sm_80, must be refused at its place with an error that has all of the
// words. It can use the variables u (u32), f (f32) and p (pred), and m, a pointer to u32.
#define REFUSED(call, ...)                                                                         \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_entry (b, "k") {                                                                       \
            ptx_val u = ptx_var(b, ptx_u32(1)), f = ptx_var(b, ptx_f32(1)),                        \
                    p = ptx_var(b, ptx_bool(1));                                                   \
            ptx_ptr m = ptx_ptr_from(b, PTX_U32, PTX_SPACE_GLOBAL, ptx_u64(256));                  \
            (void)u, (void)f, (void)p, (void)m;                                                    \
            call;                                                                                  \
        }                                                                                          \
        EXPECT_ERROR(b, "test_asm", "k: ptx_asm", __VA_ARGS__);                                    \
    } while (0)

#endif

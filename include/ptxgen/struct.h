// SPDX-License-Identifier: MIT
/// Part of common.h: macros whose text compilers would warn of in a caller's source, were this not
/// a system header. In C++ the fields that PTXGEN_STRUCT leaves out are zero, as meant (g++
/// -Wextra). Operands in operands and blocks in blocks declare one name in nested scopes
/// (-Wshadow).
#ifndef PTXGEN_STRUCT_H
#define PTXGEN_STRUCT_H

#ifdef __GNUC__
#pragma GCC system_header
#endif

#ifdef __cplusplus
#define PTXGEN_STRUCT(tag, ...)                                                                    \
    tag                                                                                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#else
// f(b, x), where f may name x several times: `x` stands here once, so that operands in operands
// cost a compiler no more than operands beside each other. Without GNU C it stands as often as in
// f, and each level of operands doubles the work.
#ifdef __GNUC__
#define PTXGEN_ONCE(f, b, x)                                                                       \
    __extension__({                                                                                \
        __auto_type ptxgen_x = ((void)0, (x));                                                     \
        f(b, ptxgen_x);                                                                            \
    })
#else
#define PTXGEN_ONCE(f, b, x) f(b, x)
#endif
#endif

// The variable of a block's C loop: the number of the block.
#ifdef __GNUC__
#define PTXGEN_BLOCK_NUMBER ptxgen_block
#else
#define PTXGEN_BLOCK_NUMBER PTXGEN_JOIN(ptxgen_block_, __LINE__)
#endif

#endif

// SPDX-License-Identifier: MIT
/// Part of common.h: macros whose text compilers would warn of in a caller's source, were this not
/// a system header. In C++ the fields that PTXGEN_STRUCT leaves out are zero, as meant (g++
/// -Wextra). Operands in operands and blocks in blocks declare one name in nested scopes
/// (-Wshadow). An error in a macro's text is at the call, in few lines, where all macros on the way
/// are a system header's: those of the builder are in C++. In C, gcc would then not say that a
/// plain number stands in a field that is a value, so only those without such fields are.
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
#define PTXGEN_NAMED(tag, ...) PTXGEN_STRUCT(tag, .name = __VA_ARGS__)
#else
#define PTXGEN_NAMED(tag, ...) ((struct tag) { .name = __VA_ARGS__ })
// f(b, x), where f names x twice. So each level of operands in operands would double a compiler's
// work. An operand that begins with a parenthesis, as a call's macro does, stands here once.
#ifdef __GNUC__
#define PTXGEN_ONCE(f, b, x)       PTXGEN_ONCE_(PTXGEN_SECOND(PTXGEN_PARENTHESIS x, BRIEF, ), f, b, x)
#define PTXGEN_ONCE_(how, f, b, x) PTXGEN_JOIN(PTXGEN_ONCE_, how)(f, b, x)
#define PTXGEN_ONCE_BRIEF(f, b, x) f(b, (x)) // an error is at the call, in few lines
#define PTXGEN_ONCE_NAMED(f, b, x)                                                                 \
    __extension__({                                                                                \
        __auto_type ptxgen_x = x;                                                                  \
        f(b, ptxgen_x);                                                                            \
    })
#define PTXGEN_PARENTHESIS(...)   , NAMED,
#define PTXGEN_SECOND(...)        PTXGEN_SECOND_(__VA_ARGS__)
#define PTXGEN_SECOND_(x, y, ...) y
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

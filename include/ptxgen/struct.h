// SPDX-License-Identifier: MIT
/// Part of common.h: PTXGEN_STRUCT in C++. Fields that are left out are zero, as meant, and
/// g++ -Wextra would warn of each, were this not a system header.
#ifndef PTXGEN_STRUCT_H
#define PTXGEN_STRUCT_H

#ifdef __cplusplus
#ifdef __GNUC__
#pragma GCC system_header
#endif
#define PTXGEN_STRUCT(tag, ...)                                                                    \
    tag                                                                                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#endif

#endif

// SPDX-License-Identifier: MIT
/// Holds src/driver/cuda_abi.h against NVIDIA's own cuda.h, while compiling: every value, every
/// field, every signature. There is nothing left to do at run time but to say so.
#include <stdio.h>

#ifdef HAVE_CUDA_H
#include <cuda.h>
#include <stddef.h>

#include "cuda_abi.h"

#define SAME_VALUE(name, value)   _Static_assert((int)(name) == (value), #name);
#define SAME_VALUES(type, values) values(SAME_VALUE)
CUDA_ABI_ENUMS(SAME_VALUES)
_Static_assert(CU_MEMHOSTALLOC_PORTABLE == CUDA_ABI_MEMHOSTALLOC_PORTABLE, "flag");

// Our enums have fewer constants, but have to be as wide.
enum narrow { NARROW };
#define SAME_WIDTH(type, values) _Static_assert(sizeof(type) == sizeof(enum narrow), #type);
CUDA_ABI_ENUMS(SAME_WIDTH)

#define SAME_FIELD(type, ours, field)                                                              \
    _Static_assert(offsetof(type, field) == offsetof(struct ours, field), #type "." #field);       \
    _Static_assert(sizeof(((type *)0)->field) == sizeof(((struct ours *)0)->field),                \
                   #type "." #field);                                                              \
    _Static_assert(sizeof(type) == sizeof(struct ours), #type);
CUDA_ABI_FIELDS(SAME_FIELD)

#define SAME_SIGNATURE(since, name, parameters)                                                    \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), CUresult parameters), #name);
CUDA_ABI_FUNCTIONS(SAME_SIGNATURE)

#define COUNT_VALUE(name, value)                +1
#define COUNT_VALUES(type, values)              values(COUNT_VALUE)
#define COUNT_FIELD(type, ours, field)          +1
#define COUNT_FUNCTION(since, name, parameters) +1

int main(void)
{
    printf("as in cuda.h %d: %d values, %d fields, %d functions\n", CUDA_VERSION,
           0 CUDA_ABI_ENUMS(COUNT_VALUES), 0 CUDA_ABI_FIELDS(COUNT_FIELD),
           0 CUDA_ABI_FUNCTIONS(COUNT_FUNCTION));
    return 0;
}

#else

int main(void)
{
    puts("skipped: no cuda.h of CUDA 12.4 or newer was found to compare with");
    return 77;
}

#endif

// SPDX-License-Identifier: MIT
/// Compares abi/cuda.h and abi/functions.def with NVIDIA's headers at compile time: every value,
/// every field, every signature, and the CUDA version that introduced it.
#include <stdint.h>
#include <stdio.h>

#ifdef HAVE_CUDA_H
#define __CUDA_API_VERSION_INTERNAL // every version of every function, under its own name
#include <cuda.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

// Not every package has the header that declares them.
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

#include "abi/cuda.h"

#define SAME(type, ours, what) _Static_assert(__builtin_types_compatible_p(type, ours), what);

#define SAME_RESULT(name, value, text) _Static_assert((int)(name) == (value), #name);
CUDA_ABI_RESULTS(SAME_RESULT)

// Our enums have fewer constants, but must be as wide.
enum narrow { NARROW };
#define SAME_VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#define SAME_ENUM(type, values)                                                                    \
    _Static_assert(sizeof(type) == sizeof(enum narrow), #type);                                    \
    values(SAME_VALUE)
CUDA_ABI_ENUMS(SAME_ENUM)

#define SAME_FIELD(type, field)                                                                    \
    _Static_assert(offsetof(THEIRS, field) == offsetof(OURS, field), #field);                      \
    _Static_assert(sizeof(((THEIRS *)0)->field) == sizeof(((OURS *)0)->field), #field);
#define SAME_FIELDS(theirs, ours, fields)                                                          \
    {                                                                                              \
        typedef theirs THEIRS;                                                                     \
        typedef ours OURS;                                                                         \
        _Static_assert(sizeof(THEIRS) == sizeof(OURS), #theirs);                                   \
        fields(SAME_FIELD)                                                                         \
    }
#define SAME_STRUCT(name, ours, fields) SAME_FIELDS(name, struct ours, fields)
#define LAUNCH_VALUES(X)                                                                           \
    X(int, cooperative)                                                                            \
    X(unsigned, clusterDim.x)                                                                      \
    X(unsigned, clusterDim.y)                                                                      \
    X(unsigned, clusterDim.z)                                                                      \
    X(int, programmaticStreamSerializationAllowed)

#define VARIANT_none(symbol, parameters)
#define VARIANT_ptsz(symbol, parameters)                                                           \
    SAME(__typeof__(symbol##_ptsz), CUresult parameters, #symbol "_ptsz")
#define VARIANT_ptds(symbol, parameters)                                                           \
    SAME(__typeof__(symbol##_ptds), CUresult parameters, #symbol "_ptds")
// cudaTypedefs.h has a type for each name and each version that changed it.
#define CUDA_FUNCTION(symbol, name, since, variant, parameters, arguments)                         \
    SAME(__typeof__(symbol), CUresult parameters, #symbol)                                         \
    SAME(PFN_##name##_v##since, CUresult(*) parameters, #symbol " since " #since)                  \
    VARIANT_##variant(symbol, parameters)
#include "abi/functions.def"

#define COUNT(...)                    +1
#define COUNT_VALUES(type, values)    values(COUNT)
#define COUNT_FIELDS(x, ours, fields) fields(COUNT)

int main(void)
{
    int different = 0;
    CUDA_ABI_STRUCTS(SAME_STRUCT)
    SAME_FIELDS(CUlaunchAttributeValue, union cuda_launch_value, LAUNCH_VALUES)
    // Some are pointers, so they are no constant expressions.
#define SAME_FLAG(name, value)                                                                     \
    if ((uintptr_t)(name) != (value)) {                                                            \
        fprintf(stderr, "%s is %u here\n", #name, value);                                          \
        different++;                                                                               \
    }
    CUDA_ABI_FLAGS(SAME_FLAG)
    printf("as in cuda.h %d: %d values, %d fields, %d functions\n", CUDA_VERSION,
           0 CUDA_ABI_RESULTS(COUNT) CUDA_ABI_ENUMS(COUNT_VALUES) CUDA_ABI_FLAGS(COUNT),
           0 CUDA_ABI_STRUCTS(COUNT_FIELDS), 0
#define CUDA_FUNCTION COUNT
#include "abi/functions.def"
    );
    return different != 0;
}

#else

int main(void)
{
    puts("SKIPPED: no cuda.h of CUDA 13.0 or newer was found to compare abi/cuda.h with; name its "
         "folder with meson configure -Dnvidia_headers=FOLDER");
    return 77;
}

#endif

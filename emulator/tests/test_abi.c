// SPDX-License-Identifier: MIT
/// The emulator exports each function of the driver's interface for which it has a row, and nothing
/// else. tests/driver/test_cuda_abi.c compares the rows with NVIDIA's cuda.h.
#include "cuda/extensions.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments)
{
    int missing = 0, exported = 0;
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "usage: test_emulator_abi LIBCUDA: %s\n", dlerror());
        return 1;
    }
#define LOOK(symbol)                                                                               \
    if (!dlsym(library, #symbol)) {                                                                \
        fprintf(stderr, "%s does not export %s\n", arguments[1], #symbol);                         \
        missing++;                                                                                 \
    } else {                                                                                       \
        exported++;                                                                                \
    }
#define LOOK_none(symbol)
#define LOOK_ptsz(symbol) LOOK(symbol##_ptsz)
#define LOOK_ptds(symbol) LOOK(symbol##_ptds)
#define CUDA_FUNCTION(symbol, name, since, variant, parameters, arguments)                         \
    LOOK(symbol) LOOK_##variant(symbol)
#include "abi/functions.def"
    LOOK(cuEmulatorReport)
    LOOK(cuEmulatorClearError)
    LOOK(cuEmulatorCounts)
    LOOK(cuEmulatorFail)
    if (dlsym(library, "emu_run") || dlsym(library, "api_state")) {
        fprintf(stderr, "%s exports more than the driver's functions\n", arguments[1]);
        missing++;
    }
    printf("%d functions exported\n", exported);
    return missing != 0;
}

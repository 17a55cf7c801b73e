// SPDX-License-Identifier: MIT
#include "nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const char *nccl_open(struct nccl *nccl)
{
    const char *name = getenv("PTXGEN_NCCL");
    nccl->library = dlopen(name && *name ? name : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!nccl->library)
        return dlerror();
        // memcpy, because ISO C has no conversion between object pointers and function pointers.
#define NCCL_FIND(result, name, parameters)                                                        \
    {                                                                                              \
        void *symbol = dlsym(nccl->library, "nccl" #name);                                         \
        if (!symbol)                                                                               \
            return dlerror();                                                                      \
        memcpy(&nccl->name, &symbol, sizeof symbol);                                               \
    }
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    if (nccl->GetVersion(&nccl->version) != NCCL_SUCCESS)
        return "ncclGetVersion fails";
    return NULL;
}

// SPDX-License-Identifier: MIT
/// The little of NCCL that is needed to add a few numbers up over GPUs, found at run time.
///
/// Types and values are those of NVIDIA's nccl.h, the same in every release of NCCL 2 (checked
/// against that of 2.28): github.com/NVIDIA/nccl, src/nccl.h.in.
#ifndef PTXGEN_EXAMPLES_SHARDED_NCCL_H
#define PTXGEN_EXAMPLES_SHARDED_NCCL_H

#include <ptxgen/ptxgen.h>

typedef struct ncclComm *ncclComm_t;
enum { NCCL_SUCCESS = 0, NCCL_FLOAT64 = 8, NCCL_SUM = 0 };

/// X(result, name without "nccl", parameters); CUstream is the runtime's cudaStream_t.
#define NCCL_FUNCTIONS(X)                                                                          \
    X(int, GetVersion, (int *version))                                                             \
    X(const char *, GetErrorString, (int result))                                                  \
    X(int, CommInitAll, (ncclComm_t * comms, int count, const int *devices))                       \
    X(int, CommDestroy, (ncclComm_t comm))                                                         \
    X(int, AllReduce,                                                                              \
      (const void *from, void *to, size_t count, int type, int operation, ncclComm_t comm,         \
       CUstream stream))

struct nccl {
    void *library;
    int version; ///< 22809 is 2.28.9
#define NCCL_DECLARE(result, name, parameters) result(*name) parameters;
    NCCL_FUNCTIONS(NCCL_DECLARE)
#undef NCCL_DECLARE
};

/// Opens the library that $PTXGEN_NCCL names, else libnccl.so.2 by the usual search. NULL: it is
/// there; else why it is not, until the next such call.
const char *nccl_open(struct nccl *nccl);

#endif

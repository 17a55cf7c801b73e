// SPDX-License-Identifier: MIT
/// The part of NCCL that adds a few numbers over GPUs, loaded at run time.
///
/// Types and values are those of NVIDIA's nccl.h and are the same in every release of NCCL 2
/// (checked with 2.28): github.com/NVIDIA/nccl, src/nccl.h.in.
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
    int version; ///< 22809 for 2.28.9
#define NCCL_DECLARE(result, name, parameters) result(*name) parameters;
    NCCL_FUNCTIONS(NCCL_DECLARE)
#undef NCCL_DECLARE
};

/// Opens the library in $PTXGEN_NCCL, or libnccl.so.2 by the usual search. Returns NULL on success,
/// else the reason, valid until the next such call.
const char *nccl_open(struct nccl *nccl);

#endif

// SPDX-License-Identifier: MIT
/// Checks PTX text with NVIDIA's assembler, if it is installed.
#ifndef PTXGEN_TOOLS_PTXAS_H
#define PTXGEN_TOOLS_PTXAS_H

#include "message.h"

#include <ptxgen/types.h>

enum { PTXAS_PATH_SIZE = 4096, PTXAS_KNOWN_LIMIT = 64 };

struct ptxas {
    char path[PTXAS_PATH_SIZE];
    struct {
        char version[16];
        char target[PTX_TARGET_NAME_SIZE];
        bool accepted;
    } known[PTXAS_KNOWN_LIMIT]; ///< results of ptxas_knows()
    size_t known_count;
};

/// The first word after `directive` (".target", ".version") in the text, without a comma. False if
/// there is none or it does not fit.
bool ptx_directive(const char *text, const char *directive, char *word, size_t size);

/// Searches $PATH, $CUDA_HOME/bin and /usr/local/cuda/bin. False if there is no ptxas.
bool ptxas_find(struct ptxas *ptxas, struct message *error);

/// Whether ptxas accepts the text for the target. If not, *log is its output, which the caller
/// frees; *log is NULL if ptxas could not be run, with the reason in `error`.
bool ptxas_accepts(struct ptxas *ptxas, const char *text, const char *target, char **log,
                   struct message *error);
/// *known: whether it knows the text's version and the target at all, asked with a kernel that is
/// empty. False if it refuses that kernel for another reason, or could not be run.
bool ptxas_knows(struct ptxas *ptxas, const char *text, const char *target, bool *known,
                 struct message *error);

#endif

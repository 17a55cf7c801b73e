// SPDX-License-Identifier: MIT
/// A kernel's parameters with what the command line and a tensor file give for them: all that can
/// be settled, and refused, before there is a GPU.
#ifndef PTXGEN_TOOLS_BINDING_H
#define PTXGEN_TOOLS_BINDING_H

#include "cli.h"
#include "safetensors.h"
#include "scalar.h"
#include "select.h"

enum { BINDING_LIMIT = 32 };

struct argument {
    struct ptx_param_info info;
    // By value.
    struct scalar value;
    bool given;   ///< by --set
    bool settled; ///< the value is known
    // Pointers.
    uint64_t length;            ///< elements that the kernel reads or writes
    const struct tensor *input; ///< what it reads; NULL where it only writes
    struct tensor output;       ///< what it writes; a NULL name where it only reads
    uint64_t extent;            ///< output.shape of what no input shapes
};

struct binding {
    struct selection selection;
    const struct cli_list *sets;
    bool used[CLI_LIST_LIMIT]; ///< of `sets`: an option's
    ptx_builder *builder;      ///< holds the text that the parameters were read from
    struct argument arguments[BINDING_LIMIT];
    size_t count;
    struct ptx_geometry geometry;
    uint64_t n; ///< elements that the launch covers
};

/// Looks up the kernel and its options, and holds `sets` against what there is. Returns EXIT_DONE,
/// or the status to exit with and the reason in `error`; the binding is to be released in any case.
int binding_select(struct binding *binding, const char *kernel, const struct cli_list *sets,
                   struct message *error);
/// Takes the dtype and the counts from the tensors, the values from `sets` or the presets, and
/// checks them. The file must outlive the binding, which must then stay where it is: outputs point
/// into it.
int binding_fill(struct binding *binding, const struct tensor_file *file, struct message *error);
void binding_release(struct binding *binding);

/// Bytes that the parameters say the kernel moves: each input read once, each output written once.
uint64_t binding_traffic(const struct binding *binding);

#endif

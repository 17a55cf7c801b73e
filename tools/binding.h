// SPDX-License-Identifier: MIT
/// Combines a kernel's parameters with the command line and a tensor file: everything that can be
/// determined, and refused, before there is a GPU.
#ifndef PTXGEN_TOOLS_BINDING_H
#define PTXGEN_TOOLS_BINDING_H

#include "cli.h"
#include "safetensors.h"
#include "scalar.h"
#include "select.h"

enum { BINDING_LIMIT = 32 };

struct argument {
    struct ptx_param_info info;
    // For parameters passed by value.
    struct scalar value;
    bool given;   ///< by --set
    bool settled; ///< the value is known
    // For pointers.
    uint64_t length;            ///< number of elements that the kernel reads or writes
    const struct tensor *input; ///< the tensor it reads; NULL if it only writes
    struct tensor output;       ///< the tensor it writes; NULL name if it only reads
    uint64_t extent;            ///< output.shape if no input determines the shape
};

struct binding {
    struct selection selection;
    const struct cli_list *sets;
    bool used[CLI_LIST_LIMIT]; ///< of `sets`: whether it selected an option
    ptx_builder *builder;      ///< owns the text that the parameters were read from
    struct argument arguments[BINDING_LIMIT];
    size_t count;
    struct ptx_geometry geometry;
    uint64_t n; ///< number of elements that the launch covers
};

/// Looks up the kernel and its options and checks `sets` against them. The binding is zeroed but
/// for the selection's lines. Returns EXIT_DONE, or the exit status with the reason in `error`. The
/// caller releases the binding in both cases.
int binding_select(struct binding *binding, const char *kernel, const struct cli_list *sets,
                   struct message *error);
/// Takes the dtype and the counts from the tensors and the values from `sets` or the presets, and
/// checks them. The file must outlive the binding. The binding must not be moved afterwards,
/// because outputs point into it.
int binding_fill(struct binding *binding, const struct tensor_file *file, struct message *error);
void binding_release(struct binding *binding);

/// The bytes that a launch moves according to the parameters: each input read once, each output
/// written once.
uint64_t binding_traffic(const struct binding *binding);

#endif

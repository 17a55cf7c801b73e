// SPDX-License-Identifier: MIT
/// What every run of a kernel prints: its time and its arrays.
#ifndef PTXGEN_TOOLS_RUN_REPORT_H
#define PTXGEN_TOOLS_RUN_REPORT_H

#include "json.h"
#include "safetensors.h"

/// "  x f32 [2, 3]".
void print_tensor(FILE *stream, const struct tensor *tensor);
/// An object with name, dtype and shape.
json_t *tensor_json(const struct tensor *tensor);

#endif

// SPDX-License-Identifier: MIT
/// The JSON header of a safetensors file. For safetensors.c alone.
#ifndef PTXGEN_TOOLS_SAFETENSORS_HEADER_H
#define PTXGEN_TOOLS_SAFETENSORS_HEADER_H

#include "safetensors.h"

/// Fills `file` from a header of `length` bytes at `text`, which `data_bytes` bytes of data follow.
/// On failure what was filled in so far is for tensor_file_close().
bool tensor_header_read(struct tensor_file *file, const char *text, size_t length,
                        size_t data_bytes, struct message *error);

#endif

// SPDX-License-Identifier: MIT
/// NumPy's file format: one array, in C order, behind a header that is a literal of Python. Files
/// are not trusted: an error names the file and what is wrong in it.
#ifndef PTXGEN_TOOLS_NPY_H
#define PTXGEN_TOOLS_NPY_H

#include "safetensors.h"

/// Whether the bytes begin as an .npy file does. No safetensors file does.
bool npy_is(const void *bytes, size_t size);
/// Makes the array the file's only tensor. Its name is that of the file, without folder and suffix.
/// After a failure the caller closes the file.
bool npy_parse(struct tensor_file *file, const char *path, const void *bytes, size_t size,
               struct message *error);

#endif

// SPDX-License-Identifier: MIT
// Modules.
#ifndef PTXGEN_EMULATOR_CUDA_MODULE_H
#define PTXGEN_EMULATOR_CUDA_MODULE_H

#include "state.h"

// Invalidates the handles of the module and its functions. What graphs launch remains.
void api_module_retire(CUmodule module);
void api_module_release(CUmodule module);
// The variable that contains the address; false: none.
bool api_module_variable(CUmodule module, uint64_t address, uint64_t *start, uint64_t *bytes,
                         bool *managed);
// Of `bytes` bytes, API_UNKNOWN_BYTES if the caller did not say. `partial`: an input of the linker,
// which may need others; the module is for its log alone.
CUresult api_module_create(CUmodule *module, const void *image, size_t bytes, bool partial,
                           unsigned count, const CUjit_option *options, void **values);
// Loads a module into the current context.
CUresult api_module_load(CUmodule *module, const void *image, size_t bytes);
char *api_file_read(const char *path, size_t *bytes);

#endif

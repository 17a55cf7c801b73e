// SPDX-License-Identifier: MIT
// Parsed texts, which modules share and which stay for later modules of the same text.
#ifndef PTXGEN_EMULATOR_CUDA_PARSED_H
#define PTXGEN_EMULATOR_CUDA_PARSED_H

#include "state.h"

// As emu_module_link(): the module of the same texts, if one is there, or a new one. It does not
// change; with the last api_parsed_drop() it may go.
const struct emu_module *api_parsed_get(const struct emu_text *texts, unsigned count,
                                        const struct emu_parse_limits *limits, char *log,
                                        size_t log_size, int *result);
void api_parsed_drop(const struct emu_module *module);

#endif

// SPDX-License-Identifier: MIT
// Calls, and accesses to the .param variables of functions and calls.
#ifndef PTXGEN_EMULATOR_PTX_CALL_H
#define PTXGEN_EMULATOR_PTX_CALL_H

#include "form.h"

// Parses a call after its mnemonic.
bool emu_parse_call(struct emu_parser *p, struct emu_spelled *spelled);
// ld.param and st.param of parameters that are kept in registers.
bool emu_param_access(struct emu_parser *p, struct emu_spelled *spelled,
                      const struct emu_written_list *list, bool *handled);

#endif

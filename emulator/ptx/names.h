// SPDX-License-Identifier: MIT
// Names by scope, and the registers that they name.
#ifndef PTXGEN_EMULATOR_PTX_NAMES_H
#define PTXGEN_EMULATOR_PTX_NAMES_H

#include "parser.h"

bool emu_scope_open(struct emu_parser *p);
void emu_scope_close(struct emu_parser *p);
// The innermost name, or NULL. Makes the register of a range at its first use.
struct emu_name *emu_find(struct emu_parser *p, const struct emu_token *name);
struct emu_name *emu_find_label(struct emu_parser *p, const char *at, uint32_t length);
struct emu_name *emu_declare(struct emu_parser *p, const struct emu_token *name,
                             enum emu_name_kind kind, uint32_t index);
// The function or variable of the module that a declaration of that name declares again, or NULL.
struct emu_name *emu_find_linked(struct emu_parser *p, const struct emu_token *name,
                                 enum emu_name_kind kind);
// Whether the definition that is parsed takes the place of that of another text.
bool emu_overrides(const struct emu_parser *p, const struct emu_name *name);
// The end of a text: forgets the names that others do not see.
void emu_forget_static(struct emu_parser *p);
// A new register of the body, without a name. EMU_NO_REGISTER: reported.
uint32_t emu_new_register(struct emu_parser *p, const char *name, uint32_t length, uint8_t type);
// The same for each element of a vector register.
bool emu_new_vector(struct emu_parser *p, struct emu_name *name, uint8_t type);

#endif

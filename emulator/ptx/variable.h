// SPDX-License-Identifier: MIT
// Declarations of registers, variables and parameters.
#ifndef PTXGEN_EMULATOR_PTX_VARIABLE_H
#define PTXGEN_EMULATOR_PTX_VARIABLE_H

#include "parser.h"

// Parses .reg, .shared, .const ... from the state space up to the ';', which is left.
bool emu_parse_variables(struct emu_parser *p, bool is_extern);

enum { EMU_MOST_DIMENSIONS = 8 };

// A variable or parameter as it is declared.
struct emu_declaration {
    struct emu_token name;
    uint8_t space;
    bool is_reg;
    uint8_t type;
    uint64_t align;
    uint64_t lanes;                        // .v2, .v4
    uint64_t extents[EMU_MOST_DIMENSIONS]; // 0 for []
    unsigned dimensions;
    uint64_t bytes;
    bool is_extern;
    bool managed; // .attribute(.managed)
};
// Alignment and type; then, once or more often, a name with its extents.
bool emu_parse_declaration(struct emu_parser *p, struct emu_declaration *d);
bool emu_parse_declarator(struct emu_parser *p, struct emu_declaration *d);
// Adds a symbol at the end of its state space. EMU_NO_REGISTER: reported.
uint32_t emu_new_symbol(struct emu_parser *p, const struct emu_declaration *d);
// After '=': bytes and relocations.
bool emu_parse_init(struct emu_parser *p, const struct emu_declaration *d, uint32_t symbol);

// The registers of a parameter of a .func or of a call: how many, and their type. What is no scalar
// of at most 64 bits has one for each byte.
uint64_t emu_formal_registers(const struct emu_declaration *d, uint8_t *type);
// Makes them.
bool emu_declare_param(struct emu_parser *p, const struct emu_declaration *d,
                       enum emu_param_role role, struct emu_param_registers *param);
// A register, or a vector of them. NULL: reported.
struct emu_name *emu_declare_register(struct emu_parser *p, const struct emu_declaration *d);

#endif

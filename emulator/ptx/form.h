// SPDX-License-Identifier: MIT
// The mnemonic and modifiers of an instruction, and the form of its row that they choose.
#ifndef PTXGEN_EMULATOR_PTX_FORM_H
#define PTXGEN_EMULATOR_PTX_FORM_H

#include "isa.h"
#include "operand.h"

struct emu_spelled {
    struct emu_token name;
    struct emu_token modifiers[EMU_MOST_MODIFIERS];
    const struct emu_modifier
        *known[EMU_MOST_MODIFIERS]; // looked up from the first on; the rest is NULL
    unsigned count;
    emu_groups groups;
    uint8_t types[4];
    unsigned type_count;
    struct emu_insn insn;        // the fields that modifiers set
    const struct emu_form *form; // once it is found
    struct emu_token guard;
};

// Appended to the message about an instruction that matches no row.
#define EMU_NOT_PTX ": not PTX, or not supported by the emulator"

// The modifier of one of these groups, or NULL.
const struct emu_modifier *emu_spelled_in(const struct emu_spelled *spelled, emu_groups group);
// Reads the modifiers after the mnemonic, of which these are the rows.
bool emu_parse_modifiers(struct emu_parser *p, struct emu_spelled *spelled,
                         const struct emu_spelling *rows, unsigned count);

struct emu_choice {
    enum emu_opcode opcode;
    const struct emu_form *form;
};

// Finds the form among `count` rows that matches in spelling and in the number of operands.
bool emu_choose_form(struct emu_parser *p, const struct emu_spelled *spelled,
                     const struct emu_spelling *rows, unsigned count,
                     const struct emu_written_list *list, struct emu_choice *choice);
// Whether .version and .target support the form and its modifiers.
bool emu_check_floors(struct emu_parser *p, const struct emu_spelled *spelled,
                      const struct emu_form *form);

#endif

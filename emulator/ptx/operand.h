// SPDX-License-Identifier: MIT
// Operands as they are written.
#ifndef PTXGEN_EMULATOR_PTX_OPERAND_H
#define PTXGEN_EMULATOR_PTX_OPERAND_H

#include "expression.h"

// A vector is longest in wgmma, for 256 columns.
enum { EMU_MOST_OPERANDS = 12, EMU_MOST_LANES = 128, EMU_MOST_MODIFIERS = 24 };

enum emu_syntax {
    EMU_SYNTAX_NAME, // register, symbol, label ...
    EMU_SYNTAX_CONSTANT,
    EMU_SYNTAX_ADDRESS,
    EMU_SYNTAX_VECTOR,
    EMU_SYNTAX_SINK,
    EMU_SYNTAX_SPECIAL,
};

// An operand as written, before the instruction gives it a type.
struct emu_written {
    enum emu_syntax syntax;
    struct emu_token at;
    bool negated; // !p
    bool minus;   // -r
    uint32_t select;
    bool pair; // a|b: this one is a, and the next in the list b
    bool offset_given;
    bool wide;     // a register of 128 bits, as a vector of its halves
    bool is_whole; // a special register that is a vector, without an axis
    uint8_t lanes; // of a vector: the elements follow in emu_written_list.elements
    uint8_t first;
    const struct emu_name *name; // NULL: not known yet
    int64_t offset;
    struct emu_constant constant;
    uint8_t special, axis, special_bits;
};

struct emu_written_list {
    struct emu_written at[EMU_MOST_OPERANDS];
    unsigned count;
    struct emu_written elements[EMU_MOST_LANES + 32];
    unsigned element_count;
};

bool emu_parse_operands(struct emu_parser *p, struct emu_written_list *list);

#endif

// SPDX-License-Identifier: MIT
// Inside the typing of operands: from what is written to what an instruction takes.
#ifndef PTXGEN_EMULATOR_PTX_TYPED_H
#define PTXGEN_EMULATOR_PTX_TYPED_H

#include "parse.h"

// What the conversion of one operand needs.
struct emu_typing {
    struct emu_parser *p;
    struct emu_spelled *spelled;
    const struct emu_written_list *list;
    struct emu_operand *out; // next to be filled
    bool destination;
};

// The operand does not fit, or is not declared. Always false.
bool emu_mismatch(const struct emu_typing *t, const struct emu_written *w);
bool emu_unknown(const struct emu_typing *t, const struct emu_written *w);
// Of a register.
enum emu_type emu_declared_type(const struct emu_typing *t, const struct emu_written *w);
bool emu_put_operand(struct emu_typing *t, struct emu_operand operand);
bool emu_put_register(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted,
                      bool relaxed);
// A register, constant, special register or '_'; `relaxed`: a wider register will do.
bool emu_put_plain(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted,
                   bool relaxed, bool element);

bool emu_put_address(struct emu_typing *t, const struct emu_written *w);
bool emu_put_global_address(struct emu_typing *t, const struct emu_written *w);
// A register or the address of a variable: mov and cvta.
bool emu_put_movable(struct emu_typing *t, const struct emu_written *w, enum emu_type wanted);
bool emu_put_label(struct emu_typing *t, const struct emu_written *w);
bool emu_put_targets(struct emu_typing *t, const struct emu_written *w);
bool emu_put_pointer(struct emu_typing *t, const struct emu_written *w);

#endif

// SPDX-License-Identifier: MIT
// The rules of matrices.
#include "rules_matrix.h"

#include <string.h>

bool emu_rule_matrix(const struct check *c)
{
    const uint8_t space = c->insn->space;

    return space == EMU_SHARED || space == EMU_GENERIC ||
           emu_error(c->p, &c->spelled->name, "State space incorrect for instruction '%.*s'",
                     EMU_TEXT(&c->spelled->name));
}

bool emu_rule_movmatrix(const struct check *c)
{
    return c->operands[1].kind == EMU_OPERAND_REGISTER ||
           emu_error(c->p, &c->spelled->name, "Arguments mismatch for instruction '%.*s'",
                     EMU_TEXT(&c->spelled->name));
}

// xor and and of bits.
static bool check_bits(const struct check *c)
{
    if (c->insn->source_type != EMU_B1 || c->insn->boolean == EMU_BOOL_XOR)
        return true;
    return c->insn->boolean == EMU_BOOL_AND ? emu_at_least(c, "products of bits by .and", 71, 80)
                                            : emu_illegal(c, EMU_G(LOGIC));
}

// The metadata is a register, and the selector one of the lanes or pairs of lanes that have it.
static bool check_sparse(const struct check *c)
{
    const struct emu_insn *insn = c->insn;
    const struct emu_operand *metadata = &c->operands[insn->dst_count + insn->src_count - 2];
    const unsigned bits = emu_bits((enum emu_type)insn->source_type);
    const unsigned row = emu_sizes_of((enum emu_shape)insn->shape).k * bits;
    const unsigned lanes = (bits >= 16 ? row / 256 : row / 128);

    if (metadata[0].kind != EMU_OPERAND_REGISTER)
        return emu_error(c->p, &c->spelled->name, "Arguments mismatch for instruction '%.*s'",
                         EMU_TEXT(&c->spelled->name));
    return metadata[1].bits * lanes < 4 ||
           emu_error(c->p, &c->spelled->name,
                     "Sparsity selector '%llu' of instruction '%.*s' out of range, expected to be "
                     "in range [0..%u]",
                     (unsigned long long)metadata[1].bits, EMU_TEXT(&c->spelled->name),
                     4 / lanes - 1);
}

// C and D have one type; so have A and B, but that integers may differ in sign, and floats of 8
// bits in format.
bool emu_rule_mma(const struct check *c)
{
    const uint8_t *types = c->spelled->types;
    const bool free = types[0] == EMU_S32 || types[1] == EMU_E4M3 || types[1] == EMU_E5M2;
    const struct emu_modifier *layout = emu_spelled_in(c->spelled, EMU_G(ROW) | EMU_G(COL));

    if (layout->group != EMU_GROUP_INDEX_ROW) // the layout of A comes first
        return emu_illegal(c, EMU_G(COL));
    if (!check_bits(c) || (emu_is_sparse(c->insn) && !check_sparse(c)))
        return false;
    return (types[3] == types[0] && (free || types[2] == types[1])) ||
           emu_error(c->p, &c->spelled->name,
                     "Unexpected instruction types specified for '%.*s'" EMU_NOT_PTX,
                     EMU_TEXT(&c->spelled->name));
}

// A and B have one type, and both layouts are written.
bool emu_rule_wmma(const struct check *c)
{
    const uint8_t *types = c->spelled->types;
    const emu_groups all = EMU_G(ROW) | EMU_G(COL) | EMU_G(ROW_B) | EMU_G(COL_B);
    unsigned layouts = 0;

    for (unsigned group = 0; group < EMU_GROUP_COUNT; group++)
        layouts += (c->spelled->groups & all) >> group & 1;
    if (layouts != 2)
        return emu_error(c->p, &c->spelled->name,
                         "Layouts of A and B are required for instruction '%.*s'",
                         EMU_TEXT(&c->spelled->name));
    if (!check_bits(c))
        return false;
    return c->spelled->type_count < 4 || types[1] == types[2] ||
           emu_error(c->p, &c->spelled->name,
                     "Unexpected instruction types specified for '%.*s'" EMU_NOT_PTX,
                     EMU_TEXT(&c->spelled->name));
}

bool emu_rule_wmma_move(const struct check *c)
{
    const uint8_t space = c->insn->space;

    c->insn->mode = spells(c, EMU_G(COL)) ? EMU_MODE_TRANSPOSED : EMU_MODE_NONE;
    return space == EMU_SHARED || space == EMU_GLOBAL || space == EMU_GENERIC ||
           emu_error(c->p, &c->spelled->name, "State space incorrect for instruction '%.*s'",
                     EMU_TEXT(&c->spelled->name));
}

// D is read too.
static bool check_sums(const struct check *c)
{
    for (unsigned k = 0; k < c->insn->dst_count; k++)
        if (c->operands[k].kind != EMU_OPERAND_REGISTER)
            return emu_error(c->p, &c->spelled->name, "Sink '_' not allowed as a source operand");
    return true;
}

// The scales of A and B are 1 or -1, and whether they are transposed 0 or 1.
static bool check_scales(const struct check *c)
{
    enum { FIRST = 4 }; // the number of the first one in messages
    const struct emu_insn *insn = c->insn;
    const unsigned count = (unsigned)strlen(strchr(insn->letters, 'p') + 1);
    const struct emu_operand *given = &c->operands[insn->dst_count + insn->src_count - count];

    for (unsigned k = 0; k < count; k++) {
        const bool scale = k < 2;
        const int32_t value = (int32_t)given[k].bits;
        if (scale ? value != 1 && value != -1 : value != 0 && value != 1)
            return emu_error(c->p, &c->spelled->name,
                             "Argument %u of instruction 'wgmma.mma_async': unexpected value '%d', "
                             "expected to be %s",
                             FIRST + k, (int)value, scale ? "-1 or 1" : "0 or 1");
    }
    return true;
}

static bool check_integers(const struct check *c)
{
    const struct emu_insn *insn = c->insn;

    if (insn->eighths > 4 && insn->eighths % 2)
        return emu_error(c->p, &c->spelled->name,
                         "Illegal matrix shape '.%s' for instruction 'wgmma.mma_async'",
                         emu_spelled_in(c->spelled, EMU_G(SHAPE64))->name);
    return insn->source_type == insn->factor_type ||
           emu_at_least(c, "WGMMA with mixed integer types", 84, 90);
}

bool emu_rule_wgmma(const struct check *c)
{
    const struct emu_insn *insn = c->insn;

    if (c->p->module->sm != 90) // no later target has it
        return emu_error(c->p, &c->spelled->name,
                         "Instruction 'wgmma' not supported on .target 'sm_%d%c'", c->p->module->sm,
                         c->p->module->sm_suffix);
    if (spells(c, EMU_G(WAIT)) && c->operands[0].bits > INT32_MAX)
        return emu_error(c->p, &c->spelled->name,
                         "Argument 0 of instruction 'wgmma.wait_group': unexpected value '%d', "
                         "expected to be non-negative integer",
                         (int)c->operands[0].bits);
    if (!insn->dst_count)
        return true;
    return check_sums(c) && check_scales(c) && (insn->type != EMU_S32 || check_integers(c));
}

// SPDX-License-Identifier: MIT
// Rules of what goes to memory.
#include "check.h"

#include <string.h>

bool emu_illegal(const struct emu_check *c, uint64_t group)
{
    const struct emu_modifier *known = emu_spelled_in(c->spelled, group);

    return emu_error(c->p, &c->spelled->name,
                     "Illegal modifier '.%s' for instruction '%.*s'" EMU_NOT_PTX,
                     known ? known->name : "", EMU_TEXT(&c->spelled->name));
}

bool emu_cannot_combine(const struct emu_check *c, uint64_t one, uint64_t other)
{
    const struct emu_modifier *a = emu_spelled_in(c->spelled, one);
    const struct emu_modifier *b = emu_spelled_in(c->spelled, other);

    return emu_error(c->p, &c->spelled->name,
                     "Modifier '.%s' cannot be combined with modifier '.%s'", a ? a->name : "",
                     b ? b->name : "");
}

bool emu_requires(const struct emu_check *c, const char *what, int isa, int sm)
{
    if (c->p->module->isa < isa)
        return emu_error(c->p, &c->spelled->name,
                         "Feature '%s' requires PTX ISA .version %d.%d or later", what, isa / 10,
                         isa % 10);
    if (c->p->module->sm < sm)
        return emu_error(c->p, &c->spelled->name, "Feature '%s' requires .target sm_%d or higher",
                         what, sm);
    return true;
}

bool emu_spells(const struct emu_check *c, uint64_t group)
{
    return (c->spelled->groups & group) != 0;
}

static const struct emu_symbol *symbol_of(const struct emu_check *c)
{
    const struct emu_operand *address = &c->operands[c->insn->dst_count];

    return address->kind == EMU_OPERAND_SYMBOL_ADDRESS ? &c->p->module->symbols[address->index]
                                                       : NULL;
}

static bool check_order(const struct emu_check *c)
{
    const struct emu_insn *insn = c->insn;
    const bool ordered = insn->order >= EMU_RELAXED;
    const bool strong = ordered || insn->is_volatile;
    const bool load = insn->opcode == EMU_OP_LD;
    const struct emu_modifier *order = emu_spelled_in(c->spelled, EMU_G(ORDER));

    if (insn->order >= EMU_ACQ_REL || insn->order == (load ? EMU_RELEASE : EMU_ACQUIRE))
        return emu_illegal(c, EMU_G(ORDER));
    if (ordered && !emu_spells(c, EMU_G(SCOPE)))
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.%s' requires scope with '%.*s' instruction", order->name,
                         EMU_TEXT(&c->spelled->name));
    if (!ordered && emu_spells(c, EMU_G(SCOPE)))
        return emu_error(
            c->p, &c->spelled->name, "Modifier '.%s' requires memory order with '%.*s' instruction",
            emu_spelled_in(c->spelled, EMU_G(SCOPE))->name, EMU_TEXT(&c->spelled->name));
    if (strong && emu_spells(c, EMU_G(CACHE) | EMU_G(NC)))
        return emu_cannot_combine(c, EMU_G(ORDER), EMU_G(CACHE) | EMU_G(NC));
    const bool weak_space =
        insn->space == EMU_LOCAL || insn->space == EMU_PARAM || insn->space == EMU_CONST;
    if (strong && weak_space)
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.%s' cannot be applied to this state space", order->name);
    return true;
}

static bool check_cache(const struct emu_check *c)
{
    const struct emu_insn *insn = c->insn;
    const struct emu_modifier *cache = emu_spelled_in(c->spelled, EMU_G(CACHE));
    const uint64_t hints = EMU_G(LEVEL1) | EMU_G(LEVEL2) | EMU_G(EVICT) | EMU_G(HINT);
    const bool load = insn->opcode == EMU_OP_LD;

    if (cache && cache->value == (load ? 1 : 2))
        return emu_illegal(c, EMU_G(CACHE));
    if (cache && emu_spells(c, EMU_G(LEVEL1)))
        return emu_cannot_combine(c, EMU_G(LEVEL1), EMU_G(CACHE));
    if (insn->is_volatile && emu_spells(c, EMU_G(HINT)))
        return emu_cannot_combine(c, EMU_G(HINT), EMU_G(ORDER));
    if (emu_spells(c, hints) && insn->space != EMU_GLOBAL && insn->space != EMU_GENERIC)
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.%s' cannot be applied to this state space",
                         emu_spelled_in(c->spelled, hints)->name);
    if (insn->nc && insn->space != EMU_GLOBAL)
        return emu_error(c->p, &c->spelled->name, "Modifier '.nc' requires .global space");
    return true;
}

static bool check_width(const struct emu_check *c)
{
    const unsigned bits = emu_bits((enum emu_type)c->insn->type);
    const unsigned width = bits * c->insn->lanes;

    if (width > 256 || (c->insn->lanes == 8 && bits != 32))
        return emu_error(c->p, &c->spelled->name, "Vector size exceeds 128 bits");
    const struct emu_modifier *evict = emu_spelled_in(c->spelled, EMU_G(EVICT));
    if (evict && evict->value == 3)
        return emu_illegal(c, EMU_G(EVICT));
    if (evict && width <= 128)
        return emu_error(c->p, &c->spelled->name,
                         "Instruction '%.*s' requires '.v8.b32/.v4.b64' type with '.%s' modifier",
                         EMU_TEXT(&c->spelled->name), evict->name);
    if (width <= 128)
        return true;
    if (c->insn->space != EMU_GLOBAL)
        return emu_error(c->p, &c->spelled->name, "256 bit wide accesses are to .global alone");
    return emu_requires(c, "256 bit wide load/store", 88, 100);
}

bool emu_rule_access(const struct emu_check *c)
{
    const struct emu_symbol *symbol = symbol_of(c);
    const bool store = c->insn->opcode == EMU_OP_ST;

    if (store && c->insn->space == EMU_CONST)
        return emu_error(c->p, &c->spelled->name, "State space incorrect for instruction 'st'");
    if (store && c->insn->space == EMU_PARAM)
        return emu_error(c->p, &c->spelled->name,
                         "Illegal to write to function input parameter '%.64s'",
                         symbol ? symbol->name : "");
    return check_order(c) && check_cache(c) && check_width(c);
}

// Of a vector each element is an operation of its own.
static bool check_atomic_vector(const struct emu_check *c)
{
    const unsigned bits = emu_bits((enum emu_type)c->insn->type);

    if (c->insn->lanes * bits > 128)
        return emu_error(c->p, &c->spelled->name, "Vector size exceeds 128 bits");
    return c->insn->space != EMU_SHARED ||
           emu_error(c->p, &c->spelled->name,
                     "State space incorrect for feature '%.*s instruction with vector types'",
                     EMU_TEXT(&c->spelled->name));
}

bool emu_rule_atomic(const struct emu_check *c)
{
    struct emu_insn *insn = c->insn;
    const bool red = insn->opcode == EMU_OP_RED;
    const struct emu_modifier *order = emu_spelled_in(c->spelled, EMU_G(ORDER));

    insn->boolean = EMU_BOOL_NONE;
    if (insn->space != EMU_GENERIC && insn->space != EMU_GLOBAL && insn->space != EMU_SHARED)
        return emu_error(c->p, &c->spelled->name, "State space incorrect for instruction '%.*s'",
                         EMU_TEXT(&c->spelled->name));
    if (order && (insn->order == EMU_WEAK || insn->order == EMU_SEQ_CST ||
                  (red && (insn->order == EMU_ACQUIRE || insn->order == EMU_ACQ_REL))))
        return emu_illegal(c, EMU_G(ORDER));
    if (!order)
        insn->order = EMU_RELAXED;
    if (insn->lanes > 1 && !check_atomic_vector(c))
        return false;
    if (emu_spells(c, EMU_G(HINT)) && insn->space == EMU_SHARED)
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.L2::cache_hint' cannot be applied to this state space");
    return !emu_spells(c, EMU_G(SCOPE)) || emu_requires(c, "scopes of atomics", 50, 60);
}

bool emu_rule_fence(const struct emu_check *c)
{
    struct emu_insn *insn = c->insn;

    if (emu_token_is_name(&c->spelled->name, "membar")) {
        if (emu_spells(c, EMU_G(SCOPE)) &&
            (insn->scope == EMU_SCOPE_GPU || insn->scope == EMU_SCOPE_CLUSTER))
            return emu_illegal(c, EMU_G(SCOPE));
        insn->order = EMU_SEQ_CST;
        return true;
    }
    if (!emu_spells(c, EMU_G(ORDER)))
        insn->order = EMU_ACQ_REL;
    else if (insn->order < EMU_ACQUIRE)
        return emu_illegal(c, EMU_G(ORDER));
    return true;
}

bool emu_rule_copy(const struct emu_check *c)
{
    const struct emu_insn *insn = c->insn;
    const struct emu_modifier *cache = emu_spelled_in(c->spelled, EMU_G(CACHE));
    const struct emu_operand *size = &c->operands[2];
    const bool whole = strcmp(cache->name, "cg") == 0;

    if (strcmp(cache->name, "ca") != 0 && !whole)
        return emu_illegal(c, EMU_G(CACHE));
    if (insn->space != EMU_SHARED)
        return emu_error(c->p, &c->spelled->name,
                         "State space incorrect for instruction 'cp.async'");
    if (size->bits != 16 && (whole || (size->bits != 4 && size->bits != 8)))
        return emu_error(c->p, &c->spelled->name,
                         "Argument 2 of instruction 'cp.async': unexpected value '%llu', expected "
                         "to be %s",
                         (unsigned long long)size->bits, whole ? "16" : "4 or 8 or 16");
    if (insn->src_count > 3 && size[1].kind == EMU_OPERAND_IMMEDIATE && size[1].bits > size->bits)
        return emu_error(c->p, &c->spelled->name,
                         "Argument 3 of instruction 'cp.async': value '%llu' out of range",
                         (unsigned long long)size[1].bits);
    return true;
}

bool emu_rule_copy_batch(const struct emu_check *c)
{
    const struct emu_modifier *batch = emu_spelled_in(c->spelled, EMU_G(BATCH));
    const bool counted = batch->value == 1;

    if (counted != (c->insn->src_count == 1))
        return emu_error(c->p, &c->spelled->name,
                         "Arguments mismatch for instruction 'cp.async.%s'", batch->name);
    c->insn->opcode = batch->value ? EMU_OP_CP_WAIT : EMU_OP_CP_COMMIT;
    return true;
}

// A policy is a number that means something to caches alone.
bool emu_rule_policy(const struct emu_check *c)
{
    struct emu_insn *insn = c->insn;
    const struct emu_modifier *policy = emu_spelled_in(c->spelled, EMU_G(POLICY));

    if (insn->dst_count != 1 || (policy && policy->value) != emu_spells(c, EMU_G(PREFETCH)))
        return emu_error(c->p, &c->spelled->name, "Modifiers mismatch for instruction '%.*s'",
                         EMU_TEXT(&c->spelled->name));
    c->operands[1] = (struct emu_operand) { .kind = EMU_OPERAND_IMMEDIATE };
    insn->src_count = 1;
    return true;
}

bool emu_rule_prefetch(const struct emu_check *c)
{
    const uint8_t space = c->insn->space;
    const struct emu_modifier *evict = emu_spelled_in(c->spelled, EMU_G(EVICT));

    if (evict && (evict->value & 1 || (c->insn->src_count > 1 && evict->value != 2)))
        return emu_illegal(c, EMU_G(EVICT));
    if (c->insn->src_count > 1 && c->operands[1].bits != 128)
        return emu_error(c->p, &c->spelled->name,
                         "Argument 2 of instruction '%.*s': unexpected value '%llu', expected to "
                         "be 128",
                         EMU_TEXT(&c->spelled->name), (unsigned long long)c->operands[1].bits);

    return space == EMU_GENERIC || space == EMU_GLOBAL || space == EMU_LOCAL ||
           emu_error(c->p, &c->spelled->name, "State space incorrect for instruction 'prefetch'");
}

// SPDX-License-Identifier: MIT
// The rules of single instructions that the rows of isa.def name; those of matrices and of video
// instructions lie in rules_matrix.c and rules_video.c.
#include "rules.h"

#include "check.h"
#include "rules_matrix.h"
#include "rules_video.h"
#include "type.h"

#include <string.h>

// ---- what goes to memory ------------------------------------------------------------------------

static const struct emu_symbol *symbol_of(const struct check *c)
{
    const struct emu_operand *address = &c->operands[c->insn->dst_count];

    return address->kind == EMU_OPERAND_SYMBOL_ADDRESS ? &c->p->module->symbols[address->index]
                                                       : NULL;
}

static bool is_load(const struct check *c)
{
    return c->insn->dst_count != 0;
}

static bool check_order(const struct check *c)
{
    const struct emu_insn *insn = c->insn;
    const bool ordered = insn->order >= EMU_RELAXED;
    const bool strong = ordered || insn->is_volatile;
    const struct emu_modifier *order = emu_spelled_in(c->spelled, EMU_G(ORDER));

    if (insn->order >= EMU_ACQ_REL || insn->order == (is_load(c) ? EMU_RELEASE : EMU_ACQUIRE))
        return emu_illegal(c, EMU_G(ORDER));
    if (ordered && !spells(c, EMU_G(SCOPE)))
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.%s' requires scope with '%.*s' instruction", order->name,
                         EMU_TEXT(&c->spelled->name));
    if (!ordered && spells(c, EMU_G(SCOPE)))
        return emu_error(
            c->p, &c->spelled->name, "Modifier '.%s' requires memory order with '%.*s' instruction",
            emu_spelled_in(c->spelled, EMU_G(SCOPE))->name, EMU_TEXT(&c->spelled->name));
    if (strong && spells(c, EMU_G(CACHE) | EMU_G(NC)))
        return emu_cannot_combine(c, EMU_G(ORDER), EMU_G(CACHE) | EMU_G(NC));
    if (insn->is_volatile && insn->space == EMU_LOCAL && c->p->module->isa < 91)
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.volatile' on '.local' requires PTX ISA .version 9.1 or later");
    if ((ordered && insn->space == EMU_LOCAL) ||
        (strong && (insn->space == EMU_PARAM || insn->space == EMU_CONST)))
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.%s' cannot be applied to this state space", order->name);
    return true;
}

static bool check_cache(const struct check *c)
{
    const struct emu_insn *insn = c->insn;
    const struct emu_modifier *cache = emu_spelled_in(c->spelled, EMU_G(CACHE));
    const emu_groups hints = EMU_G(LEVEL1) | EMU_G(LEVEL2) | EMU_G(EVICT) | EMU_G(HINT);

    if (cache && cache->value == (is_load(c) ? 1 : 2))
        return emu_illegal(c, EMU_G(CACHE));
    if (cache && spells(c, EMU_G(LEVEL1)))
        return emu_cannot_combine(c, EMU_G(LEVEL1), EMU_G(CACHE));
    if (insn->is_volatile && spells(c, EMU_G(HINT)))
        return emu_cannot_combine(c, EMU_G(HINT), EMU_G(ORDER));
    if (spells(c, hints) && insn->space != EMU_GLOBAL && insn->space != EMU_GENERIC)
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.%s' cannot be applied to this state space",
                         emu_spelled_in(c->spelled, hints)->name);
    if (insn->nc && insn->space != EMU_GLOBAL)
        return emu_error(c->p, &c->spelled->name, "Modifier '.nc' requires .global space");
    return true;
}

static bool check_width(const struct check *c)
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
        return emu_error(c->p, &c->spelled->name, "256-bit accesses require .global space");
    return emu_at_least(c, "256 bit wide load/store", 88, 100);
}

// An access to a device's registers is one of its own.
static bool check_mmio(const struct check *c)
{
    const struct emu_insn *insn = c->insn;

    if (!spells(c, EMU_G(MMIO)))
        return true;
    if (insn->scope != EMU_SCOPE_SYS)
        return emu_cannot_combine(c, EMU_G(MMIO), EMU_G(SCOPE));
    if (insn->space != EMU_GLOBAL && insn->space != EMU_GENERIC)
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.mmio' cannot be applied to this state space");
    if (is_load(c) && insn->order == EMU_ACQUIRE)
        return emu_at_least(c, "ld.mmio.acquire", 93, 70);
    return insn->order == EMU_RELAXED || emu_illegal(c, EMU_G(ORDER));
}

// Parameters of functions whose address is taken lie in local memory.
static void settle_space(const struct check *c)
{
    const struct emu_modifier *space = emu_spelled_in(c->spelled, EMU_G(SPACE));
    const bool in_entry = c->p->module->functions[c->p->body->function].is_entry;

    if (c->insn->space == EMU_PARAM &&
        c->operands[c->insn->dst_count].kind == EMU_OPERAND_ADDRESS &&
        strcmp(space->name, "param::entry") != 0 &&
        (!in_entry || strcmp(space->name, "param::func") == 0))
        c->insn->space = EMU_LOCAL;
}

static bool rule_load(const struct check *c)
{
    settle_space(c);
    return check_mmio(c) && check_order(c) && check_cache(c) && check_width(c);
}

static bool rule_store(const struct check *c)
{
    const struct emu_symbol *symbol = symbol_of(c);

    settle_space(c);
    if (c->insn->space == EMU_CONST)
        return emu_error(c->p, &c->spelled->name, "State space incorrect for instruction 'st'");
    if (c->insn->space == EMU_PARAM)
        return emu_error(c->p, &c->spelled->name,
                         "Illegal to write to function input parameter '%.64s'",
                         symbol ? symbol->name : "");
    return rule_load(c);
}

// Each element of a vector is an operation of its own.
static bool check_atomic_vector(const struct check *c)
{
    const unsigned bits = emu_bits((enum emu_type)c->insn->type);

    if (c->insn->lanes * bits > 128)
        return emu_error(c->p, &c->spelled->name, "Vector size exceeds 128 bits");
    return c->insn->space != EMU_SHARED ||
           emu_error(c->p, &c->spelled->name,
                     "State space incorrect for feature '%.*s instruction with vector types'",
                     EMU_TEXT(&c->spelled->name));
}

static bool rule_atomic(const struct check *c)
{
    struct emu_insn *insn = c->insn;
    const bool red = insn->dst_count == 0;
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
    if (spells(c, EMU_G(HINT)) && insn->space == EMU_SHARED)
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.L2::cache_hint' cannot be applied to this state space");
    return !spells(c, EMU_G(SCOPE)) || emu_at_least(c, "scopes of atomics", 50, 60);
}

static bool rule_membar(const struct check *c)
{
    struct emu_insn *insn = c->insn;

    if (spells(c, EMU_G(SCOPE)) &&
        (insn->scope == EMU_SCOPE_GPU || insn->scope == EMU_SCOPE_CLUSTER))
        return emu_illegal(c, EMU_G(SCOPE));
    insn->order = EMU_SEQ_CST;
    return true;
}

static bool rule_fence(const struct check *c)
{
    struct emu_insn *insn = c->insn;

    if (!spells(c, EMU_G(ORDER)))
        insn->order = EMU_ACQ_REL;
    else if (insn->order < EMU_ACQUIRE)
        return emu_illegal(c, EMU_G(ORDER));
    return true;
}

// Only clusters of several blocks need the fence.
static bool rule_fence_restrict(const struct check *c)
{
    const struct emu_modifier *to = emu_spelled_in(c->spelled, EMU_G(RESTRICT));
    const struct emu_insn *insn = c->insn;

    if (spells(c, EMU_G(PROXY)) != spells(c, EMU_G(ASYNC_GENERIC)))
        return emu_illegal(c, EMU_G(PROXY) | EMU_G(ASYNC_GENERIC));
    if (insn->scope != EMU_SCOPE_CLUSTER)
        return emu_illegal(c, EMU_G(SCOPE));
    return insn->order == (to->value ? EMU_RELEASE : EMU_ACQUIRE) || emu_illegal(c, EMU_G(ORDER));
}

static bool rule_alloca(const struct check *c)
{
    const uint64_t align = c->insn->src_count > 1 ? c->operands[2].bits : 8;

    return (align && !(align & (align - 1))) ||
           emu_error(c->p, &c->spelled->name, "Alignment must be a power of two");
}

static bool rule_stackrestore(const struct check *c)
{
    return c->operands[0].kind == EMU_OPERAND_REGISTER ||
           emu_error(c->p, &c->spelled->name, "Result register required for instruction '%.*s'",
                     EMU_TEXT(&c->spelled->name));
}

static bool rule_pmevent(const struct check *c)
{
    const uint64_t most = spells(c, EMU_G(MASK)) ? 65535 : 15;

    return c->operands[0].bits <= most ||
           emu_error(c->p, &c->spelled->name,
                     "Argument 0 of instruction 'pmevent': value '%llu' out of range, expected to "
                     "be in range [0..%llu]",
                     (unsigned long long)c->operands[0].bits, (unsigned long long)most);
}

static bool rule_copy(const struct check *c)
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
    const struct emu_function *f = &c->p->module->functions[c->p->body->function];
    const bool ignores = insn->src_count > 3 && size[1].kind == EMU_OPERAND_REGISTER &&
                         f->registers[size[1].index].type == EMU_PRED;
    return !ignores || emu_at_least(c, "cp.async with a predicate", 75, 80);
}

// A policy only matters to caches, so its value is 0.
static bool rule_policy(const struct check *c)
{
    struct emu_insn *insn = c->insn;
    const struct emu_modifier *policy = emu_spelled_in(c->spelled, EMU_G(POLICY));

    if (insn->dst_count != 1 || (policy && policy->value) != spells(c, EMU_G(PREFETCH)))
        return emu_error(c->p, &c->spelled->name, "Modifiers mismatch for instruction '%.*s'",
                         EMU_TEXT(&c->spelled->name));
    c->operands[1] = (struct emu_operand) { .kind = EMU_OPERAND_IMMEDIATE };
    insn->src_count = 1;
    return true;
}

static bool rule_prefetch(const struct check *c)
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

// ---- barriers -----------------------------------------------------------------------------------

static bool rule_barrier(const struct check *c)
{
    struct emu_insn *insn = c->insn;
    const struct emu_operand *source = &c->operands[insn->dst_count];
    const unsigned predicate = insn->dst_count != 0;

    if (!(c->spelled->form->may & EMU_G(ALIGNED)))
        insn->aligned = true; // bar, for which there is no modifier
    if (spells(c, EMU_G(SCOPE)) && insn->scope != EMU_SCOPE_CTA)
        return emu_illegal(c, EMU_G(SCOPE));
    if (spells(c, EMU_G(SCOPE)) && !emu_at_least(c, "bar.cta", 78, 30))
        return false;
    if (insn->boolean == EMU_BOOL_XOR)
        return emu_error(c->p, &c->spelled->name,
                         "Illegal reduction operation for instruction 'bar.red.pred'");
    if (source->kind == EMU_OPERAND_IMMEDIATE && source->bits > 15)
        return emu_error(c->p, &c->spelled->name,
                         "Barrier number '%llu' out of range, expected to be in range [0..15]",
                         (unsigned long long)source->bits);
    const bool counted = insn->src_count > 1 + predicate;
    if (counted && source[1].kind == EMU_OPERAND_IMMEDIATE &&
        (source[1].bits % 32 || !source[1].bits))
        return emu_error(c->p, &c->spelled->name,
                         "Number of threads participating in barrier must be in multiple of warp "
                         "size");
    return true;
}

// ---- comparisons --------------------------------------------------------------------------------

static bool rule_compare(const struct check *c)
{
    const enum emu_type type = (enum emu_type)c->insn->source_type;
    const uint8_t compare = c->insn->compare;
    const bool is_unsigned = emu_is_integer(type) && type <= EMU_U64;
    const bool fine = emu_is_bits(type)    ? compare <= EMU_NE
                      : emu_is_float(type) ? compare <= EMU_GE || compare >= EMU_EQU
                      : compare >= EMU_EQU ? false
                      : compare >= EMU_LO  ? is_unsigned
                                           : true;

    return fine || emu_error(c->p, &c->spelled->name,
                             "Mismatch between instruction type and comparison qualifier");
}

// ---- conversions --------------------------------------------------------------------------------

enum rounds { ROUNDS_NONE, ROUNDS_FLOAT, ROUNDS_MAY_FLOAT, ROUNDS_INTEGRAL, ROUNDS_MAY_INTEGRAL };

// The rounding modifiers that a pair of types allows.
static enum rounds rounding_of(enum emu_type to, enum emu_type from)
{
    if (emu_is_integer(to))
        return emu_is_float(from) ? ROUNDS_INTEGRAL : ROUNDS_NONE;
    if (emu_is_integer(from))
        return ROUNDS_FLOAT;
    if (to == from)
        return ROUNDS_MAY_INTEGRAL;
    if (emu_bits(to) == emu_bits(from)) // f16 and bf16: ptxas takes .rn where there is none
        return ROUNDS_MAY_FLOAT;
    return emu_bits(to) < emu_bits(from) ? ROUNDS_FLOAT : ROUNDS_NONE;
}

static bool check_rounding(const struct check *c, enum rounds rounds)
{
    const bool to_float = spells(c, EMU_G(RN) | EMU_G(DIRECTED));
    const bool integral = spells(c, EMU_G(INTEGRAL));

    if ((to_float && rounds != ROUNDS_FLOAT && rounds != ROUNDS_MAY_FLOAT) ||
        (integral && rounds != ROUNDS_INTEGRAL && rounds != ROUNDS_MAY_INTEGRAL))
        return emu_error(c->p, &c->spelled->name,
                         "Illegal rounding modifier for instruction 'cvt'");
    if ((rounds == ROUNDS_FLOAT && !to_float) || (rounds == ROUNDS_INTEGRAL && !integral))
        return emu_error(c->p, &c->spelled->name,
                         "Rounding modifier required for instruction 'cvt'");
    return true;
}

static bool illegal_rounding(const struct check *c)
{
    return emu_error(c->p, &c->spelled->name, "Illegal rounding modifier for instruction 'cvt'");
}

static bool check_tf32(const struct check *c)
{
    const struct emu_insn *insn = c->insn;

    if (insn->round != EMU_RNA && insn->round > EMU_RZ)
        return illegal_rounding(c);
    if (!insn->satfinite)
        return true;
    return insn->round == EMU_RNA ? emu_at_least(c, "cvt.satfinite.tf32", 81, 80)
                                  : emu_at_least(c, "cvt.satfinite.tf32 with .rn and .rz", 86, 100);
}

static bool is_fp8(enum emu_type type)
{
    return type == EMU_E4M3X2 || type == EMU_E5M2X2;
}

// A pair of f32 as one register.
static bool check_pair(const struct check *c)
{
    if (c->insn->round > EMU_RZ)
        return illegal_rounding(c);
    return !c->insn->satfinite || emu_at_least(c, "cvt.satfinite", 81, 80);
}

static bool check_satfinite(const struct check *c)
{
    const struct emu_insn *insn = c->insn;

    if (!insn->satfinite)
        return true;
    if ((insn->type != EMU_F16 && insn->type != EMU_BF16) || insn->source_type != EMU_F32)
        return emu_illegal(c, EMU_G(SATFINITE));
    if (insn->round > EMU_RZ)
        return emu_cannot_combine(c, EMU_G(SATFINITE), EMU_G(DIRECTED));
    if (insn->sat || insn->ftz)
        return emu_cannot_combine(c, EMU_G(SATFINITE), EMU_G(SAT) | EMU_G(FTZ));
    return emu_at_least(c, "cvt.satfinite", 81, 53);
}

static bool rule_cvt(const struct check *c)
{
    struct emu_insn *insn = c->insn;
    const enum emu_type to = (enum emu_type)insn->type, from = (enum emu_type)insn->source_type;

    if (to == EMU_TF32)
        return check_tf32(c);
    if (is_fp8(to) || is_fp8(from)) // sm_90 had them first
        return c->p->module->sm >= 90 || emu_at_least(c, "cvt of 8-bit floats on sm_89", 81, 89);
    if (to == EMU_F16X2 || to == EMU_BF16X2)
        return check_pair(c);
    if (!check_satfinite(c))
        return false;
    if (!check_rounding(c, rounding_of(to, from)))
        return false;
    if (insn->ftz && to != EMU_F32 && from != EMU_F32)
        return emu_error(c->p, &c->spelled->name,
                         "Modifier '.ftz' does not apply to this type of convert operation");
    if (insn->sat && to == EMU_BF16)
        return emu_illegal(c, EMU_G(SAT));
    if (insn->relu && ((to != EMU_F16 && to != EMU_BF16) || from != EMU_F32))
        return emu_illegal(c, EMU_G(RELU));
    if (insn->relu && insn->round > EMU_RZ)
        return emu_cannot_combine(c, EMU_G(RELU), EMU_G(DIRECTED));
    if (insn->relu && insn->sat)
        return emu_cannot_combine(c, EMU_G(RELU), EMU_G(SAT));
    if (to == EMU_BF16 && from == EMU_F32)
        return emu_at_least(c, "cvt.bf16.f32", 70, 80);
    if (from == EMU_BF16 && to == EMU_F32)
        return insn->ftz ? emu_at_least(c, "cvt.ftz.f32.bf16", 78, 90)
                         : emu_at_least(c, "cvt.f32.bf16", 71, 80);
    if (to == EMU_BF16 || from == EMU_BF16)
        return emu_at_least(c, "cvt with .bf16", 78, 90);
    return true;
}

// ---- the rest -----------------------------------------------------------------------------------

static bool rule_move(const struct check *c)
{
    return c->insn->lanes == 1 ||
           (c->insn->lanes < 8 && c->insn->lanes * emu_bits((enum emu_type)c->insn->type) <= 128) ||
           emu_error(c->p, &c->spelled->name, "Vector type too large, exceeds 128 bit limit");
}

static bool wrong_space(const struct check *c)
{
    return emu_error(c->p, &c->spelled->name, "State space incorrect for instruction '%.*s'",
                     EMU_TEXT(&c->spelled->name));
}

// Arrivals release and waits acquire, if nothing else is written.
static bool rule_mbarrier(const struct check *c)
{
    struct emu_insn *insn = c->insn;
    const bool waits = spells(c, EMU_G(TEST_WAIT) | EMU_G(TRY_WAIT));
    const bool arrives = spells(c, EMU_G(ARRIVE) | EMU_G(ARRIVE_DROP));
    const bool ordered = spells(c, EMU_G(ORDER));

    if (insn->space != EMU_GENERIC && insn->space != EMU_SHARED)
        return wrong_space(c);
    if (spells(c, EMU_G(CLUSTER_SHARED)) && insn->dst_count &&
        c->operands[0].kind != EMU_OPERAND_SINK)
        return emu_error(c->p, &c->spelled->name,
                         "Sink '_' is expected as a destination operand for instruction "
                         "'mbarrier.arrive' with '.shared::cluster'");
    if (ordered != spells(c, EMU_G(SCOPE)))
        return emu_error(c->p, &c->spelled->name,
                         "A memory order requires a scope, and a scope an "
                         "order, with instruction 'mbarrier'");
    if (ordered && insn->order != EMU_RELAXED && !(waits && insn->order == EMU_ACQUIRE) &&
        !(arrives && insn->order == EMU_RELEASE))
        return emu_illegal(c, EMU_G(ORDER));
    if (ordered && insn->scope != EMU_SCOPE_CTA && insn->scope != EMU_SCOPE_CLUSTER)
        return emu_illegal(c, EMU_G(SCOPE));
    const bool sink = insn->dst_count && c->operands[0].kind == EMU_OPERAND_SINK;
    if ((ordered && !emu_at_least(c, "mbarrier with a memory order", 80, 80)) ||
        (ordered && insn->order == EMU_RELAXED && (waits || arrives) &&
         !emu_at_least(c, "mbarrier with '.relaxed'", 86, 90)) ||
        (sink && !emu_at_least(c, "mbarrier.arrive to '_'", 71, 80)) ||
        (spells(c, EMU_G(CLUSTER_SHARED)) && !emu_at_least(c, "mbarrier.shared::cluster", 80, 90)))
        return false;
    if (!ordered)
        insn->order = waits ? EMU_ACQUIRE : arrives ? EMU_RELEASE : EMU_WEAK;
    return true;
}

static bool rule_bulk(const struct check *c)
{
    const struct emu_modifier *space = emu_spelled_in(c->spelled, EMU_G(SPACE));
    const char *wanted = spells(c, EMU_G(BULK_GROUP)) ? "global" : "shared::cta";

    if (space && strcmp(space->name, wanted) != 0)
        return wrong_space(c);
    return c->operands[2].kind != EMU_OPERAND_IMMEDIATE || c->operands[2].bits % 16 == 0 ||
           emu_error(c->p, &c->spelled->name,
                     "Argument 2 of instruction 'cp.async.bulk': unexpected value '%llu', expected "
                     "to be multiple of 16",
                     (unsigned long long)c->operands[2].bits);
}

static bool rule_elect(const struct check *c)
{
    return c->insn->dst_count == 2 ||
           emu_error(c->p, &c->spelled->name, "Predicate output expected for instruction 'elect'");
}

static bool rule_proxy(const struct check *c)
{
    const struct emu_modifier *space = emu_spelled_in(c->spelled, EMU_G(SPACE));

    return !space || space->value == EMU_GLOBAL || strcmp(space->name, "shared::cta") == 0 ||
           emu_illegal(c, EMU_G(SPACE));
}

static bool rule_fence_mbarrier(const struct check *c)
{
    if (c->insn->order != EMU_RELEASE)
        return emu_illegal(c, EMU_G(ORDER));
    return c->insn->scope == EMU_SCOPE_CLUSTER || emu_illegal(c, EMU_G(SCOPE));
}

static bool rule_registers(const struct check *c)
{
    const uint64_t count = c->operands[0].bits;

    return (count % 8 == 0 && count >= 24 && count <= 256) ||
           emu_error(c->p, &c->spelled->name,
                     "Argument 1 of instruction 'setmaxnreg': unexpected value '%llu', expected to "
                     "be a multiple of 8 from 24 to 256",
                     (unsigned long long)count);
}

static bool rule_address(const struct check *c)
{
    const uint8_t space = c->insn->space;

    if (space == EMU_PARAM)
        return emu_at_least(c, "cvta.param", 77, 70);
    return space != EMU_CONST || emu_at_least(c, "cvta.const", 31, 20);
}

static bool rule_redux(const struct check *c)
{
    c->insn->boolean = EMU_BOOL_NONE;
    return true;
}

static bool rule_lop3(const struct check *c)
{
    c->operands[c->insn->dst_count + 3].bits &= 0xff;
    return true;
}

static bool rule_lop3_truth(const struct check *c)
{
    if (c->insn->boolean == EMU_BOOL_XOR)
        return emu_illegal(c, EMU_G(LOGIC));
    if (c->insn->dst_count != 2)
        return emu_error(c->p, &c->spelled->name,
                         "Predicate output expected for instruction '%.*s'",
                         EMU_TEXT(&c->spelled->name));
    return rule_lop3(c);
}

#define rule_none      NULL
#define rule_matrix    emu_rule_matrix
#define rule_mma       emu_rule_mma
#define rule_movmatrix emu_rule_movmatrix
#define rule_wmma      emu_rule_wmma
#define rule_wmma_move emu_rule_wmma_move
#define rule_wgmma     emu_rule_wgmma
#define rule_video     emu_rule_video
#define rule_vmad      emu_rule_vmad
#define rule_video2    emu_rule_video2
#define rule_video4    emu_rule_video4

bool emu_check(struct emu_parser *p, struct emu_spelled *spelled, struct emu_operand *operands)
{
    static bool (*const rules[EMU_OP_COUNT])(const struct check *) = {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, defined, rule, ...)                          \
    [EMU_OP_##opcode] = rule_##rule,
#include "isa.def"
    };
    const struct check c = { p, spelled, &spelled->insn, operands };

    return !rules[spelled->insn.opcode] || rules[spelled->insn.opcode](&c);
}

// SPDX-License-Identifier: MIT
#include "own_flow.h"

#include <ptxgen/rule.h>

// Of PTXK_QUICK_MOST.
enum { MOST_BITS = (127 + 27) << 23 };

static bool same(ptx_val x, ptx_val y)
{
    return x.bits == y.bits && x.reg == y.reg && x.kind == y.kind && x.type == y.type;
}

static bool is_register(ptx_val x)
{
    return x.type == PTX_F32 && x.kind == PTX_KIND_REGISTER;
}

void ptxk_flow_begin(ptx_builder *b, struct ptxk_flow *flow, struct ptxk_quick *quick)
{
    flow->quick = quick;
    flow->blocks = ptx_builder_get_info(b).blocks;
    flow->count = flow->roots = flow->waits = 0;
}

// ---- what made a value --------------------------------------------------------------------------

static unsigned operands_of(ptx_opcode op)
{
    switch (op) {
    case PTX_OP_neg:
    case PTX_OP_sqrt:
        return 1;
    case PTX_OP_add:
    case PTX_OP_sub:
    case PTX_OP_mul:
    case PTX_OP_div:
    case PTX_OP_max:
        return 2;
    case PTX_OP_fma:
        return 3;
    default:
        return 0;
    }
}

void ptxk_flow_made(struct ptxk_flow *flow, ptx_val result, ptx_opcode op, const ptx_val *operands)
{
    struct ptxk_flow_made *made = &flow->made[flow->count % PTXK_FLOW_MADE];
    const unsigned count = operands_of(op);

    if (!is_register(result) || !count)
        return;
    *made = (struct ptxk_flow_made) { .result = result, .op = op };
    for (unsigned k = 0; k < count; k++)
        made->operand[k] = operands[k];
    flow->count++;
}

// Registers have rising numbers.
static struct ptxk_flow_made *maker_of(struct ptxk_flow *flow, ptx_val x)
{
    uint32_t first = flow->count < PTXK_FLOW_MADE ? 0 : flow->count - PTXK_FLOW_MADE;
    uint32_t end = flow->count;

    while (is_register(x) && first < end) {
        const uint32_t middle = first + (end - first) / 2;
        struct ptxk_flow_made *made = &flow->made[middle % PTXK_FLOW_MADE];
        if (same(made->result, x))
            return made;
        if (made->result.reg < x.reg)
            first = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

// ---- ranges -------------------------------------------------------------------------------------

void ptxk_flow_root(struct ptxk_flow *flow, struct ptxk_flow_root root)
{
    flow->root[flow->roots++ % PTXK_FLOW_ROOTS] = root;
}

// NULL: it is no root, and none divided.
static const struct ptxk_flow_root *root_of(const struct ptxk_flow *flow, ptx_val value)
{
    for (uint32_t k = 0; k < flow->roots && k < PTXK_FLOW_ROOTS; k++)
        if (is_register(value) && same(flow->root[k].value, value))
            return &flow->root[k];
    return NULL;
}

ptx_val ptxk_flow_scaled_root(const struct ptxk_flow *flow, ptx_val value)
{
    const struct ptxk_flow_root *root = root_of(flow, value);

    return root && !root->divided ? root->scaled : (ptx_val) { 0 };
}

// A number in range, or a coefficient, which is checked once for all elements of a thread's vector.
static bool is_limited(ptx_builder *b, struct ptxk_flow *flow, const ptx_val *c,
                       uint32_t coefficients, ptx_val x)
{
    if (x.kind == PTX_KIND_IMMEDIATE)
        return x.type == PTX_F32 && x.bits <= MOST_BITS;
    for (uint32_t k = 0; k < PTX_RULE_MAX_COEFFICIENTS; k++)
        if (coefficients >> k & 1 && is_register(x) && same(c[k], x)) {
            ptxk_quick_at_most(b, flow->quick, k, x);
            return true;
        }
    return false;
}

bool ptxk_flow_in_range(ptx_builder *b, struct ptxk_flow *flow, const ptx_val *c,
                        uint32_t coefficients, ptx_val *y)
{
    if (root_of(flow, *y))
        return true;
    const struct ptxk_flow_made *made = maker_of(flow, *y);
    if (!made || (made->op != PTX_OP_add && made->op != PTX_OP_max))
        return false;
    for (unsigned k = 0; k < 2; k++) {
        const ptx_val other = made->operand[!k];
        const struct ptxk_flow_root *root = root_of(flow, made->operand[k]);
        if (!root || !is_limited(b, flow, c, coefficients, other))
            continue;
        if (made->op == PTX_OP_add)
            *y = ptx_fma(b, root->scaled, 1 / PTXK_QUICK_SCALE, other);
        return true;
    }
    return false;
}

// ---- NaN ----------------------------------------------------------------------------------------

void ptxk_flow_note(ptx_builder *b, struct ptxk_flow *flow, ptx_val result)
{
    if (!is_register(result) || flow->waits == PTXK_FLOW_WAITING ||
        ptx_builder_get_info(b).blocks != flow->blocks)
        ptxk_quick_note(b, flow->quick, result);
    else
        flow->waiting[flow->waits++] = result;
}

// Takes from what waits x, and all that makes it NaN.
static void settle(struct ptxk_flow *flow, ptx_val x)
{
    bool reached[PTXK_FLOW_MADE] = { false };
    const uint32_t kept = flow->count < PTXK_FLOW_MADE ? flow->count : PTXK_FLOW_MADE;
    const struct ptxk_flow_made *maker = maker_of(flow, x);

    for (uint32_t k = 0; k < flow->waits; k++)
        if (same(flow->waiting[k], x))
            flow->waiting[k] = (ptx_val) { 0 };
    if (maker)
        reached[maker - flow->made] = true;
    for (uint32_t n = 0; n < kept; n++) {
        const struct ptxk_flow_made *made = &flow->made[(flow->count - 1 - n) % PTXK_FLOW_MADE];
        if (!reached[made - flow->made] || made->op == PTX_OP_max)
            continue;
        for (unsigned k = 0; k < operands_of(made->op); k++) {
            const struct ptxk_flow_made *of = maker_of(flow, made->operand[k]);
            if (of)
                reached[of - flow->made] = true;
            for (uint32_t w = 0; w < flow->waits; w++)
                if (is_register(made->operand[k]) && same(flow->waiting[w], made->operand[k]))
                    flow->waiting[w] = (ptx_val) { 0 };
        }
    }
}

// What waited last is noted first: it tells of others.
void ptxk_flow_end(ptx_builder *b, struct ptxk_flow *flow, ptx_val p)
{
    ptxk_quick_note(b, flow->quick, p);
    settle(flow, p);
    while (flow->waits) {
        const ptx_val x = flow->waiting[--flow->waits];
        if (x.type == PTX_NONE)
            continue;
        ptxk_quick_note(b, flow->quick, x);
        settle(flow, x);
    }
}

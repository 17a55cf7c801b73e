// SPDX-License-Identifier: MIT
// A vote with the full mask under random conditions, which are made of indices, loaded values and
// parameters of every type. The builder must accept it only if no warp diverges. Plain C computes
// each condition for all threads of the block.
//
//     test_uniform [-s SEED] [-n COUNT]    COUNT conditions, from that of SEED on
#include <stdlib.h>

#include "../hardware/op_expected.h"
#include "builder_fixture.h"
#include "random.h"

enum { SEED = 2026, CONDITIONS = 20000, NODES = 40, TURNS = 3, ELEMENTS = 64 };

enum kind {
    TID_X,
    TID_Y,
    LANE,
    WIDTH,
    COUNT, // the parameter of 32 bits
    LARGE, // the parameter of 64 bits
    CONSTANT,
    LOAD, // element x of the memory
    CVT,
    BITCAST,
    PACK,   // y:x
    UNPACK, // the upper half of x, or the lower
    OP,
    TURN, // x, and TURNS times `op` of that and y, in a loop
};

struct node {
    enum kind kind;
    ptx_type type;
    uint64_t constant;
    ptx_opcode op;
    ptx_type of_type; // of a row of ops.h
    bool sat, upper;
    bool decides; // the condition is made of it
    int of[4];    // numbers of earlier nodes
};

struct condition {
    struct node node[NODES];
    int count, last;
    bool any_type; // values of all types, or u32 alone
    bool loop;     // the vote is in a loop from node `last` to `limit`; else in an if
    uint64_t limit, step;
    uint32_t block[2];
    unsigned char memory[ELEMENTS * 8];
};

static const ptx_type types[] = { PTX_U8,  PTX_S8,  PTX_U16, PTX_S16, PTX_U32, PTX_S32, PTX_U64,
                                  PTX_S64, PTX_B16, PTX_B32, PTX_B64, PTX_F16, PTX_F32, PTX_F16X2 };

#define PICK(r, array) (array)[random_below(r, sizeof(array) / sizeof *(array))]

static unsigned width_of(ptx_type type)
{
    return type == PTX_PRED ? 1 : 8 * ptx_type_bytes(type);
}

static uint64_t cut(uint64_t x, unsigned width)
{
    return width < 64 ? x & ((UINT64_C(1) << width) - 1) : x;
}

static bool is_integer(ptx_type type)
{
    return type >= PTX_U8 && type <= PTX_S64;
}

static bool is_signed(ptx_type type)
{
    return type >= PTX_S8 && type <= PTX_S64;
}

// Whether the row has the type, and plain C computes it.
static bool is_computed(ptx_opcode op, ptx_type type)
{
    const struct ptx_op_info *info = ptx_op_get_info(op);
    const struct op_case c = { .kind = CASE_OP, .what = op, .type = type };

    for (size_t k = 0; info && info->shape && k < info->form_count; k++)
        if (info->forms[k].types >> type & 1)
            return op_is_expected(&c);
    return false;
}

// ---- making -------------------------------------------------------------------------------------

static uint64_t some_constant(struct random *r, ptx_type type)
{
    static const uint64_t constants[] = {
        0,  1,  2,  3,  4,   5,   7,    8,    15,     16,     24,         31,
        32, 33, 63, 64, 127, 128, 1024, 0xe0, 0x8000, 0xff80, 0x80000000, 0x7fffffff,
    };
    const uint64_t x = PICK(r, constants);

    return cut(random_below(r, 4) ? x : ~x, width_of(type));
}

static int append(struct condition *c, struct node node)
{
    c->node[c->count] = node;
    return c->count++;
}

static int append_constant(struct condition *c, struct random *r, ptx_type type, uint64_t mask)
{
    return append(c, (struct node) { .kind = CONSTANT,
                                     .type = type,
                                     .constant = some_constant(r, type) & mask });
}

static ptx_type result_type(char letter, ptx_type type)
{
    return letter == 'W'                     ? (ptx_type)(type + 1)
           : letter == 'p'                   ? PTX_PRED
           : letter && strchr("ufi", letter) ? PTX_U32
                                             : type;
}

// A node; later ones are likelier.
static int some_node(const struct condition *c, struct random *r)
{
    const int x = (int)random_below(r, (uint32_t)c->count);
    const int y = (int)random_below(r, (uint32_t)c->count);

    return x > y ? x : y;
}

// Appends at most two nodes. Node 0 is a u32.
static int operand_of(struct condition *c, struct random *r, ptx_type type)
{
    const int x = some_node(c, r);
    const ptx_type from = c->node[x].type;

    for (int k = 0; k < c->count && random_below(r, 6); k++)
        if (c->node[(x + k) % c->count].type == type)
            return (x + k) % c->count;
    if (is_integer(type) && is_integer(from) && random_below(r, 6))
        return append(c, (struct node) {
                             .kind = CVT, .type = type, .sat = !random_below(r, 6), .of = { x } });
    if (width_of(from) == width_of(type) && type != PTX_PRED && random_below(r, 6))
        return append(c, (struct node) { .kind = BITCAST, .type = type, .of = { x } });
    if (type != PTX_PRED)
        return append_constant(c, r, type, UINT64_MAX);
    const int y = append_constant(c, r, PTX_U32, UINT64_MAX);
    return append(
        c, (struct node) {
               .kind = OP, .type = PTX_PRED, .op = PTX_OP_lt, .of_type = PTX_U32, .of = { 0, y } });
}

static void append_op(struct condition *c, struct random *r, ptx_opcode op, ptx_type type)
{
    const char *shape = ptx_op_get_info(op)->shape;
    struct node node = { .kind = OP,
                         .op = op,
                         .of_type = type,
                         .type = result_type(shape[0], type),
                         .sat = type == PTX_S32 && (op == PTX_OP_add || op == PTX_OP_sub) &&
                                !random_below(r, 4) };

    for (unsigned k = 0; shape[2 + k]; k++) {
        const bool field = strchr("fi", shape[2 + k]);
        node.of[k] = field || (shape[2 + k] == 'u' && random_below(r, 3))
                         ? append_constant(c, r, PTX_U32, field ? 255 : UINT32_MAX)
                         : operand_of(c, r, result_type(shape[2 + k], type));
    }
    append(c, node);
}

static const ptx_opcode usual[] = { PTX_OP_add, PTX_OP_sub, PTX_OP_mul, PTX_OP_and,
                                    PTX_OP_or,  PTX_OP_xor, PTX_OP_shl, PTX_OP_shr,
                                    PTX_OP_shr, PTX_OP_div, PTX_OP_div, PTX_OP_rem,
                                    PTX_OP_not, PTX_OP_mad, PTX_OP_bfe, PTX_OP_min };

// The halves of a value, or a value of halves.
static void append_halves(struct condition *c, struct random *r)
{
    const int x = some_node(c, r);
    const unsigned width = width_of(c->node[x].type);
    const bool pack = width == 16 || (width == 32 && random_below(r, 2));
    ptx_type type;

    if (width < 16)
        return;
    do
        type = PICK(r, types);
    while (width_of(type) != (pack ? 2 * width : width / 2));
    append(c, (struct node) { .kind = pack ? PACK : UNPACK,
                              .type = type,
                              .upper = random_below(r, 2),
                              .of = { x, pack ? operand_of(c, r, c->node[x].type) : 0 } });
}

static void append_loop(struct condition *c, struct random *r)
{
    ptx_opcode op;
    ptx_type type;

    do {
        op = PICK(r, usual);
        type = c->any_type ? PICK(r, types) : PTX_U32;
    } while (strcmp(ptx_op_get_info(op)->shape, "T=TT") != 0 || !is_computed(op, type));
    const int x = operand_of(c, r, type), y = operand_of(c, r, type);
    append(c,
           (struct node) { .kind = TURN, .type = type, .op = op, .of_type = type, .of = { x, y } });
}

static void append_any(struct condition *c, struct random *r)
{
    const unsigned what = random_below(r, c->any_type ? 12 : 6);
    ptx_opcode op = PICK(r, usual);
    ptx_type type = c->any_type ? PICK(r, types) : PTX_U32;

    if (what == 0) {
        append_loop(c, r);
    } else if (what == 6) {
        append(c,
               (struct node) { .kind = LOAD, .type = type, .of = { operand_of(c, r, PTX_U32) } });
    } else if (what == 7) {
        append_halves(c, r);
    } else {
        if (what > 7)
            op = (ptx_opcode)(1 + random_below(r, PTX_OP_COUNT - 1));
        for (int tries = 0; tries < 30 && !is_computed(op, type); tries++)
            type = c->any_type && tries ? PICK(r, types) : PTX_PRED;
        if (is_computed(op, type))
            append_op(c, r, op, type);
    }
}

// The lane's bits at the top of a narrow type, where they are a sign.
static void append_narrow(struct condition *c, struct random *r)
{
    static const ptx_type narrow[] = { PTX_U8, PTX_S8, PTX_U16, PTX_S16 };
    const ptx_type type = PICK(r, narrow);
    const int by = append(c, (struct node) { .kind = CONSTANT,
                                             .type = PTX_U32,
                                             .constant = width_of(type) - 5 - random_below(r, 2) });
    const int x = append(
        c,
        (struct node) {
            .kind = OP, .type = PTX_U32, .op = PTX_OP_shl, .of_type = PTX_U32, .of = { 0, by } });
    append(c, (struct node) { .kind = CVT, .type = type, .of = { x } });
}

// Some bits of an integer, or itself.
static int append_bits(struct condition *c, struct random *r, int x)
{
    static const ptx_opcode ops[] = { PTX_OP_and, PTX_OP_shr };
    const ptx_opcode op = PICK(r, ops);
    const ptx_type type = c->node[x].type;
    const uint64_t bit = random_below(r, width_of(type));

    if (random_below(r, 3) == 0)
        return x;
    const int y =
        append(c, (struct node) { .kind = CONSTANT,
                                  .type = op == PTX_OP_and ? type : PTX_U32,
                                  .constant = op == PTX_OP_and ? UINT64_C(1) << bit : bit });
    return append(
        c, (struct node) { .kind = OP, .type = type, .op = op, .of_type = type, .of = { x, y } });
}

static void append_last(struct condition *c, struct random *r)
{
    static const ptx_opcode compares[] = { PTX_OP_lt, PTX_OP_le, PTX_OP_gt,
                                           PTX_OP_ge, PTX_OP_eq, PTX_OP_ne };
    int x = c->count - 1;

    while (!is_computed(PTX_OP_lt, c->node[x].type))
        x--;
    const ptx_type type = c->node[x].type;
    x = append_bits(c, r, x);
    c->last = x;
    c->loop = width_of(type) >= 32 && !random_below(r, 6);
    c->limit = some_constant(r, type);
    c->step = random_below(r, 2) ? UINT64_C(1) << random_below(r, 10) : 1 + random_below(r, 100);
    if (c->loop)
        return;
    const int y = random_below(r, 2) ? operand_of(c, r, type) : append_constant(c, r, type, 1);
    c->last = append(c, (struct node) { .kind = OP,
                                        .type = PTX_PRED,
                                        .op = PICK(r, compares),
                                        .of_type = type,
                                        .of = { x, y } });
}

static void mark_deciding(struct condition *c)
{
    c->node[c->last].decides = true;
    for (int k = c->last; k > 0; k--)
        for (int n = 0; n < 4 && c->node[k].decides; n++)
            c->node[c->node[k].of[n]].decides = true;
}

static struct condition make_condition(uint64_t seed)
{
    static const uint32_t blocks[][2] = { { 64, 1 }, { 64, 1 }, { 32, 2 }, { 48, 2 }, { 64, 2 } };
    static const unsigned char corners[] = { 0, 1, 0x7f, 0x80, 0xff };
    struct random r = { seed };
    struct condition c = { .any_type = random_below(&r, 4) != 0 };

    memcpy(c.block, PICK(&r, blocks), sizeof c.block);
    for (size_t k = 0; k < sizeof c.memory; k++)
        c.memory[k] = random_below(&r, 2) ? PICK(&r, corners) : (unsigned char)random_u64(&r);
    for (int k = 0; k < 4; k++) {
        const enum kind kind = (enum kind)random_below(&r, CONSTANT);
        append(&c, (struct node) { .kind = k ? kind : TID_X,
                                   .type = k && kind == LARGE ? PTX_U64 : PTX_U32 });
    }
    if (c.any_type && random_below(&r, 2))
        append_narrow(&c, &r);
    const int wanted = 6 + (int)random_below(&r, 12);
    while (c.count < wanted) // by up to 9
        append_any(&c, &r);
    append_last(&c, &r);
    mark_deciding(&c);
    return c;
}

// ---- plain C ------------------------------------------------------------------------------------

struct inputs {
    uint32_t count;
    uint64_t large;
};

static int64_t extended(uint64_t x, ptx_type type)
{
    const uint64_t sign = UINT64_C(1) << (width_of(type) - 1);

    return (int64_t)(is_signed(type) ? (x ^ sign) - sign : x);
}

static uint64_t converted(ptx_type to, ptx_type from, uint64_t x, bool sat)
{
    const int64_t value = extended(x, from);
    const bool negative = is_signed(from) && value < 0;
    const uint64_t most = cut(UINT64_MAX, width_of(to)) >> is_signed(to);
    const uint64_t least = is_signed(to) ? ~most : 0; // as a number of 64 bits

    if (sat && negative && (!is_signed(to) || value < (int64_t)least))
        return cut(least, width_of(to));
    return sat && !negative && (uint64_t)value > most ? most : cut((uint64_t)value, width_of(to));
}

// The result of a division by zero is undefined. Here it only has to be the same for the same
// operands.
static uint64_t computed(const struct node *n, const uint64_t operand[4])
{
    const struct op_case c = { .kind = CASE_OP, .what = n->op, .type = n->of_type, .sat = n->sat };
    uint64_t result = n->op == PTX_OP_rem ? operand[0] : cut(UINT64_MAX, width_of(n->type));

    op_expected(&c, operand, &result);
    return result;
}

static uint64_t value_of(const struct condition *c, const struct node *n, const uint64_t *v,
                         uint32_t thread, const struct inputs *in)
{
    uint64_t x[] = { v[n->of[0]], v[n->of[1]], v[n->of[2]], v[n->of[3]] };
    const ptx_type from = c->node[n->of[0]].type;
    const unsigned width = width_of(n->type);

    switch (n->kind) {
    case TID_X:
        return thread % c->block[0];
    case TID_Y:
        return thread / c->block[0];
    case LANE:
        return thread % 32;
    case WIDTH:
        return c->block[0];
    case COUNT:
        return in->count;
    case LARGE:
        return in->large;
    case CONSTANT:
        return n->constant;
    case LOAD: {
        uint64_t element = 0;
        for (unsigned k = width / 8; k-- > 0;)
            element = element << 8 | c->memory[x[0] % ELEMENTS * (width / 8) + k];
        return element;
    }
    case CVT:
        return converted(n->type, from, x[0], n->sat);
    case BITCAST:
        return x[0];
    case PACK:
        return x[1] << width / 2 | x[0];
    case UNPACK:
        return n->upper ? x[0] >> width : cut(x[0], width);
    case OP:
        return computed(n, x);
    default:
        for (int turn = 0; turn < TURNS; turn++)
            x[0] = computed(n, x);
        return x[0];
    }
}

// What decides: the condition, or how often a loop runs.
static uint64_t deciding(const struct condition *c, uint32_t thread, const struct inputs *in)
{
    uint64_t v[NODES] = { 0 };

    for (int k = 0; k <= c->last; k++)
        if (c->node[k].decides)
            v[k] = value_of(c, &c->node[k], v, thread, in);
    if (!c->loop)
        return v[c->last];
    const ptx_type type = c->node[c->last].type;
    const int64_t from = extended(v[c->last], type), to = extended(c->limit, type);
    const bool none = is_signed(type) ? from >= to : (uint64_t)from >= (uint64_t)to;
    return none ? 0 : ((uint64_t)to - (uint64_t)from - 1) / c->step + 1;
}

static bool no_warp_parts(const struct condition *c)
{
    static const struct inputs inputs[] = {
        { 0, INT64_MAX },   { 31, 0 },    { 64, 0xff00 },    { 1000, UINT64_C(1) << 63 },
        { 0x7fffffff, 33 }, { 0x80, 64 }, { UINT32_MAX, 1 }, { 5, 0x8000000012345678 },
    };
    const uint32_t threads = c->block[0] * c->block[1];

    for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++)
        for (uint32_t warp = 0; warp < threads; warp += 32) {
            const uint64_t first = deciding(c, warp, &inputs[k]);
            for (uint32_t lane = 1; lane < 32; lane++)
                if (deciding(c, warp + lane, &inputs[k]) != first)
                    return false;
        }
    return true;
}

// ---- the builder --------------------------------------------------------------------------------

struct parameters {
    ptx_val count, large;
    ptx_ptr memory;
};

static ptx_val op_emit(ptx_builder *b, const struct node *n, const ptx_val x[4])
{
    const size_t operands = strlen(ptx_op_get_info(n->op)->shape + 2);
    const ptx_val none = { 0 };

    return ptx_op(b, n->op, .x = x[0], .y = operands > 1 ? x[1] : none,
                  .z = operands > 2 ? x[2] : none, .w = operands > 3 ? x[3] : none, .sat = n->sat);
}

static ptx_val turns_emit(ptx_builder *b, const struct node *n, const ptx_val x[4])
{
    ptx_val var = ptx_var(b, x[0]);

    ptx_for (b, i, ptx_u32(0), ptx_u32(TURNS), ptx_u32(1)) {
        const ptx_val operands[4] = { var, x[1] };
        ptx_set(b, var, op_emit(b, n, operands));
    }
    return ptx_copy(b, var);
}

static ptx_val node_emit(ptx_builder *b, const struct node *n, const ptx_val *v,
                         const struct parameters *p)
{
    const ptx_val x[] = { v[n->of[0]], v[n->of[1]], v[n->of[2]], v[n->of[3]] };

    switch (n->kind) {
    case TID_X:
        return ptx_tid(b, PTX_X);
    case TID_Y:
        return ptx_tid(b, PTX_Y);
    case LANE:
        return ptx_laneid(b);
    case WIDTH:
        return ptx_ntid(b, PTX_X);
    case COUNT:
        return p->count;
    case LARGE:
        return p->large;
    case CONSTANT:
        return ptx_imm_bits(n->type, n->constant);
    case LOAD:
        return ptx_load(b, ptx_ptr_cast(b, n->type, p->memory),
                        ptx_and(b, x[0], ptx_u32(ELEMENTS - 1)));
    case CVT:
        return ptx_cvt(b, n->type, x[0], .sat = n->sat);
    case BITCAST:
        return ptx_bitcast(b, n->type, x[0]);
    case PACK:
        return ptx_pack(b, n->type, ptx_vec2(x[0], x[1]));
    case UNPACK:
        return ptx_unpack(b, n->type, x[0]).lane[n->upper];
    case OP:
        return op_emit(b, n, x);
    default:
        return turns_emit(b, n, x);
    }
}

// The builder, in which all is written.
static ptx_builder *written(const struct condition *c)
{
    NEW_ENTRY_WITH (b, 80, .block = { c->block[0], c->block[1] }) {
        struct parameters p = { .count = ptx_param(b, PTX_U32, "count"),
                                .large = ptx_param(b, PTX_U64, "large"),
                                .memory = ptx_param_ptr(b, PTX_U64, "memory") };
        ptx_ptr out = ptx_param_ptr(b, PTX_U32, "out");
        ptx_val v[NODES] = { { 0 } };
        ptx_store(b, out, ptx_u32(0), p.count);
        ptx_store(b, p.memory, ptx_u32(0), p.large);
        for (int k = 0; k < c->count; k++)
            v[k] = node_emit(b, &c->node[k], v, &p);
        if (c->loop) {
            const ptx_type type = c->node[c->last].type;
            ptx_for (b, i, v[c->last], ptx_imm_bits(type, c->limit), ptx_imm_bits(type, c->step))
                ptx_store(b, out, ptx_u32(1), ptx_redux_add(b, p.count, ptx_full_warp()));
        } else {
            ptx_if (b, v[c->last])
                ptx_store(b, out, ptx_u32(1), ptx_redux_add(b, p.count, ptx_full_warp()));
        }
    }
    return b;
}

static bool is_accepted(const struct condition *c, uint64_t seed)
{
    OWNED(ptx_builder) *b = written(c);
    const bool accepted = ptx_builder_finish(b) != NULL;

    if (!accepted && !strstr(ptx_builder_error(b), "lanes"))
        fail_msg("condition %llu: %s", (unsigned long long)seed, ptx_builder_error(b));
    return accepted;
}

static void show(const struct condition *c)
{
    OWNED(ptx_builder) *b = written(c);
    const char *text = ptx_builder_finish(b);

    fprintf(stderr, "%s\n", text ? text : ptx_builder_error(b));
}

static struct {
    uint64_t seed;
    unsigned count;
} asked = { SEED, CONDITIONS };

TEST(accepted_only_where_no_warp_parts)
{
    unsigned accepted = 0;

    for (unsigned k = 0; k < asked.count; k++) {
        const struct condition c = make_condition(asked.seed + k);
        const bool taken = is_accepted(&c, asked.seed + k);
        accepted += taken;
        if (!taken || no_warp_parts(&c))
            continue;
        show(&c);
        fail_msg("a warp diverges, and the builder accepts it; again by -s %llu -n 1",
                 (unsigned long long)asked.seed + k);
    }
    print_message("%u of %u conditions are accepted\n", accepted, asked.count);
    // The number that the analysis accepts today. Fewer would refuse programs that were accepted;
    // more is fine if the analysis learns more.
    if (asked.seed == SEED && asked.count == CONDITIONS)
        assert_int_equal(accepted, 12688);
}

// Rare among random conditions: 2 * tid.x < ntid.x in rows of 32 threads.
TEST(half_of_a_row)
{
    struct condition c = {
        .node = { { .kind = TID_X, .type = PTX_U32 },
                  { .kind = CONSTANT, .type = PTX_U32, .constant = 2 },
                  { OP, PTX_U32, .op = PTX_OP_mul, .of_type = PTX_U32, .of = { 0, 1 } },
                  { .kind = WIDTH, .type = PTX_U32 },
                  { OP, PTX_PRED, .op = PTX_OP_gt, .of_type = PTX_U32, .of = { 3, 2 } } },
        .count = 5,
        .last = 4,
        .block = { 32, 4 },
    };

    mark_deciding(&c);
    assert_false(no_warp_parts(&c));
    assert_false(is_accepted(&c, 0));
}

int main(int argc, char **argv)
{
    for (int k = 1; k + 1 < argc; k += 2) {
        if (!strcmp(argv[k], "-s"))
            asked.seed = strtoull(argv[k + 1], NULL, 10);
        else if (!strcmp(argv[k], "-n"))
            asked.count = (unsigned)strtoul(argv[k + 1], NULL, 10);
    }
    return tests_run(NULL, NULL);
}

// SPDX-License-Identifier: MIT
// Loads and stores.
#include "internal.h"

static const char *const scope_names[] = { ".gpu", ".cta", ".cluster", ".gpu", ".sys" };
static const char *const order_names[] = { "",         ".volatile", ".relaxed", ".acquire",
                                           ".release", ".acq_rel",  ".sc" };

// What a cache operator is: its text, where it may stand, and since when.
static const struct {
    const char *text;
    bool load, store;
    uint8_t isa, sm;
} caches[] = {
    [PTX_CACHE_DEFAULT] = { "", true, true, 60, 70 },
    [PTX_CACHE_STREAMING] = { ".cs", true, true, 60, 70 },
    [PTX_CACHE_ALL] = { ".ca", true, false, 60, 70 },
    [PTX_CACHE_L2] = { ".cg", true, true, 60, 70 },
    [PTX_CACHE_WRITE_BACK] = { ".wb", false, true, 60, 70 },
    [PTX_CACHE_NO_ALLOCATE] = { ".L1::no_allocate", true, true, 74, 70 },
    [PTX_CACHE_EVICT_FIRST] = { ".L1::evict_first", true, true, 74, 70 },
    [PTX_CACHE_EVICT_LAST] = { ".L1::evict_last", true, true, 74, 70 },
};

struct access {
    bool nc;
    ptx_cache cache;
    ptx_order order;
    ptx_scope scope;
};

static void fail_access(ptx_builder *b, const char *call, const char *wrong, ptx_ptr p,
                        const struct access *a)
{
    const bool known = (unsigned)a->cache <= PTX_CACHE_EVICT_LAST &&
                       (unsigned)a->order <= PTX_ORDER_SEQ_CST &&
                       (unsigned)a->scope <= PTX_SCOPE_SYSTEM;

    if (known)
        ptxb_fail(b, call, "%s; got '%s%s%s%s' on a %s pointer", wrong, order_names[a->order],
                  a->scope ? scope_names[a->scope] : "", caches[a->cache].text, a->nc ? ".nc" : "",
                  ptxb_space_name(p.space));
    else
        ptxb_fail(b, call, "%s; got cache operator %d, order %d, scope %d", wrong, (int)a->cache,
                  (int)a->order, (int)a->scope);
}

static bool access_ok(ptx_builder *b, const char *call, ptx_ptr p, const struct access *a,
                      bool store)
{
    const bool scoped = a->order >= PTX_ORDER_RELAXED;
    const char *wrong = NULL;

    if ((unsigned)a->cache > PTX_CACHE_EVICT_LAST || (unsigned)a->order > PTX_ORDER_SEQ_CST ||
        (unsigned)a->scope > PTX_SCOPE_SYSTEM)
        wrong = "the cache operator, order and scope are ptx_cache, ptx_order and ptx_scope";
    else if (store ? !caches[a->cache].store : !caches[a->cache].load)
        wrong = store ? ".ca is for loads" : ".wb is for stores";
    else if (a->nc && (store || p.space != PTX_SPACE_GLOBAL))
        wrong = ".nc is for loads from global memory";
    else if (a->order >= PTX_ORDER_ACQ_REL ||
             a->order == (store ? PTX_ORDER_ACQUIRE : PTX_ORDER_RELEASE))
        wrong = "a load can be relaxed or acquire, a store relaxed or release";
    else if (a->order != PTX_ORDER_WEAK && (a->cache != PTX_CACHE_DEFAULT || a->nc))
        wrong = "a cache operator or .nc goes with weak accesses alone";
    else if (!scoped && a->scope != PTX_SCOPE_DEFAULT)
        wrong = "a scope goes with relaxed, acquire or release";
    else if (a->order != PTX_ORDER_WEAK &&
             (p.space == PTX_SPACE_PARAM || p.space == PTX_SPACE_LOCAL))
        wrong = "local memory and parameters have no order";
    else if (a->cache >= PTX_CACHE_NO_ALLOCATE && p.space != PTX_SPACE_GLOBAL)
        wrong = "L1 hints are for global memory";
    else if (a->cache != PTX_CACHE_DEFAULT && p.space == PTX_SPACE_PARAM)
        wrong = "parameters have no cache operator";
    else if (store ? p.readonly : p.writeonly)
        wrong = store ? "the pointer is declared readonly" : "the pointer is declared writeonly";
    if (wrong)
        fail_access(b, call, wrong, p, a);
    return !wrong;
}

// How a vector of lanes travels: as itself, or pairs of 16-bit lanes as 32-bit words.
struct shape {
    const char *type;
    unsigned words;
    bool paired;
};

static bool vector_shape(ptx_builder *b, const char *call, ptx_ptr p, unsigned lanes,
                         struct shape *shape)
{
    const unsigned size = ptx_type_bytes((ptx_type)p.type);
    const bool wide = lanes * size > 16;

    if (lanes != 1 && lanes != 2 && lanes != 4 && lanes != 8) {
        ptxb_fail(b, call, "%u lanes; an access has 1, 2, 4 or 8", lanes);
        return false;
    }
    if (lanes * size > 32 || (lanes == 8 && size == 1) || (wide && p.space != PTX_SPACE_GLOBAL)) {
        ptxb_fail(b, call,
                  "%u lanes of %s: an access has at most 16 bytes (32 in global memory "
                  "on sm_100), and lanes of 8 bits at most 4",
                  lanes, ptx_type_name((ptx_type)p.type));
        return false;
    }
    if (wide) {
        const struct ptx_op_form *form = ptx_op_get_info(PTX_OP_wide_256)->forms;
        if (!ptxb_require(b, call, form->isa, form->sm, "an access of 32 bytes"))
            return false;
    }
    shape->paired = lanes == 8 && size == 2;
    shape->words = shape->paired ? 4 : lanes;
    shape->type = shape->paired ? "b32" : ptxb_memory_name((ptx_type)p.type);
    return true;
}

static uint32_t memory_opcode(ptx_builder *b, const char *call, bool store, ptx_ptr p,
                              const struct access *a, const struct shape *shape)
{
    static const char *const vectors[] = { "", "", ".v2", "", ".v4", "", "", "", ".v8" };
    const bool scoped = a->order >= PTX_ORDER_RELAXED;
    const bool l1 = a->cache >= PTX_CACHE_NO_ALLOCATE;
    const uint64_t key =
        (store ? SPELLED_ST : SPELLED_LD) | (uint64_t)a->cache << 8 | (uint64_t)a->order << 12 |
        (uint64_t)a->scope << 16 | (uint64_t)p.space << 48 | (uint64_t)a->nc << 24 |
        (uint64_t)shape->words << 28 | (uint64_t)shape->paired << 32 | (uint64_t)p.type << 40;
    const uint32_t known = ptxb_remembered(b, key);
    if (known)
        return known;
    const char *opcode = ptxb_join(
        b, store ? "st" : "ld", order_names[a->order], scoped ? scope_names[a->scope] : "",
        ptxb_space_text(p.space), l1 ? "" : caches[a->cache].text, a->nc ? ".nc" : "",
        l1 ? caches[a->cache].text : "", vectors[shape->words], ".", shape->type, NULL);

    if (!ptxb_require(b, call, caches[a->cache].isa, caches[a->cache].sm, opcode))
        return 0;
    if (scoped && a->scope == PTX_SCOPE_CLUSTER && !ptxb_require(b, call, 78, 90, opcode))
        return 0;
    return ptxb_remember(b, key, opcode);
}

static ptx_vec load(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i, unsigned lanes,
                    struct access a)
{
    ptx_vec v = { { { 0 } }, lanes <= 8 ? lanes : 8 };
    struct shape shape;

    p = ptxb_at(b, call, p, i);
    if (!b || b->failed || !access_ok(b, call, p, &a, false) ||
        !vector_shape(b, call, p, lanes, &shape) ||
        !ptxb_in_array(b, call, p, lanes * ptx_type_bytes((ptx_type)p.type)))
        return v;
    const uint32_t opcode = memory_opcode(b, call, false, p, &a, &shape);
    const ptx_type type = shape.paired ? PTX_B32 : (ptx_type)p.type;
    ptx_vec words = { { { 0 } }, shape.words };
    for (unsigned k = 0; opcode && k < shape.words; k++)
        words.lane[k] = ptxb_register(b, type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, shape.words, 1);
    if (!insn)
        return v;
    for (unsigned k = 0; k < shape.words; k++)
        ptxb_result(insn, k, words.lane[k]);
    ptxb_address(b, insn, shape.words, p);
    insn->operands[0].open = insn->operands[shape.words - 1].close = shape.words > 1;
    insn->varying = p.space == PTX_SPACE_LOCAL || a.order != PTX_ORDER_WEAK;
    if (!shape.paired)
        return words;
    for (unsigned k = 0; k < shape.words; k++) {
        ptx_vec pair = ptx_unpack(b, (ptx_type)p.type, words.lane[k]);
        v.lane[2 * k] = pair.lane[0];
        v.lane[2 * k + 1] = pair.lane[1];
    }
    return v;
}

static void store(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i, ptx_vec x,
                  struct access a)
{
    struct shape shape;

    p = ptxb_at(b, call, p, i);
    if (!b || b->failed || !access_ok(b, call, p, &a, true) ||
        !vector_shape(b, call, p, x.lanes, &shape) ||
        !ptxb_in_array(b, call, p, x.lanes * ptx_type_bytes((ptx_type)p.type)))
        return;
    for (unsigned k = 0; k < x.lanes; k++) {
        if (!ptxb_usable(b, call, "the value", x.lane[k]))
            return;
        if (x.lane[k].type != p.type) {
            ptxb_fail(b, call, "the value is %s; the pointer is to %s",
                      ptx_type_name((ptx_type)x.lane[k].type), ptx_type_name((ptx_type)p.type));
            return;
        }
    }
    for (unsigned k = 0; k < shape.words; k++)
        x.lane[k] = shape.paired ? ptx_pack(b, PTX_B32, ptx_vec2(x.lane[2 * k], x.lane[2 * k + 1]))
                                 : ptxb_in_register(b, x.lane[k]);
    const uint32_t opcode = memory_opcode(b, call, true, p, &a, &shape);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 0, 1 + shape.words);
    if (!insn)
        return;
    ptxb_address(b, insn, 0, p);
    for (unsigned k = 0; k < shape.words; k++)
        ptxb_source(b, insn, 1 + k, &x.lane[k]);
    insn->operands[1].open = insn->operands[shape.words].close = shape.words > 1;
}

ptx_val ptx_load_emit(ptx_builder *b, ptx_ptr p, struct ptx_load_params l)
{
    struct access a = { l.nc, l.cache, l.order, l.scope };
    return load(b, "load", p, l.index, 1, a).lane[0];
}

ptx_vec ptx_load_vec_emit(ptx_builder *b, ptx_ptr p, ptx_val i, struct ptx_load_vec_params l)
{
    struct access a = { l.nc, l.cache, l.order, l.scope };
    return load(b, "load_vec", p, i, l.lanes, a);
}

void ptx_store_emit(ptx_builder *b, ptx_ptr p, ptx_val i, struct ptx_store_params s)
{
    struct access a = { s.nc, s.cache, s.order, s.scope };
    store(b, "store", p, i, (ptx_vec) { { s.x }, 1 }, a);
}

void ptx_store_vec_emit(ptx_builder *b, ptx_ptr p, ptx_val i, struct ptx_store_vec_params s)
{
    struct access a = { s.nc, s.cache, s.order, s.scope };
    store(b, "store_vec", p, i, s.x, a);
}

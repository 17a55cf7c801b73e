// SPDX-License-Identifier: MIT
// Pointers, loads, stores, atomics, fences.
#include "internal.h"

static const char *const space_names[] = { "", ".global", ".shared", ".local", ".param" };
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
    [PTX_STREAM] = { ".cs", true, true, 60, 70 },
    [PTX_CACHE_ALL] = { ".ca", true, false, 60, 70 },
    [PTX_CACHE_L2] = { ".cg", true, true, 60, 70 },
    [PTX_CACHE_BACK] = { ".wb", false, true, 60, 70 },
    [PTX_NO_ALLOCATE] = { ".L1::no_allocate", true, true, 74, 70 },
    [PTX_EVICT_FIRST] = { ".L1::evict_first", true, true, 74, 70 },
    [PTX_EVICT_LAST] = { ".L1::evict_last", true, true, 74, 70 },
};

struct access {
    bool nc;
    ptx_cache cache;
    ptx_order order;
    ptx_scope scope;
};

// ---- pointers -----------------------------------------------------------------------------------

static bool pointer_ok(ptx_builder *b, const char *call, ptx_ptr p)
{
    if (!ptxb_ready(b, call))
        return false;
    if (!ptx_type_bytes((ptx_type)p.type) || (!p.symbol && p.base.kind == PTX_POISON)) {
        ptxb_fail(b, call, "the pointer was never set");
        return false;
    }
    if (p.base.kind != PTX_POISON)
        return ptxb_usable(b, call, "the pointer", p.base);
    if (p.symbol > b->symbols.count || b->symbols.at[p.symbol - 1].entry != b->entries.count - 1) {
        ptxb_fail(b, call, "the array was declared in another entry");
        return false;
    }
    b->symbols.at[p.symbol - 1].used = true;
    return true;
}

static bool index_ok(ptx_builder *b, const char *call, ptx_val i)
{
    if (!ptxb_usable(b, call, "the index", i))
        return false;
    if ((PTX_SET_I32 | PTX_SET_I64) >> i.type & 1)
        return true;
    ptxb_fail(b, call, "the index is %s; it must be u32, s32, u64 or s64",
              ptx_type_name((ptx_type)i.type));
    return false;
}

static int64_t signed_immediate(ptx_val i)
{
    return i.type == PTX_S32 ? (int32_t)(uint32_t)i.bits : (int64_t)i.bits;
}

static ptx_val base_register(ptx_builder *b, ptx_ptr p)
{
    return p.base.kind != PTX_POISON ? p.base : ptxb_symbol_base(b, p.symbol);
}

// base + i * size as one instruction, in the width of the address.
static ptx_val scaled(ptx_builder *b, ptx_ptr p, ptx_val i)
{
    const uint32_t size = ptx_type_bytes((ptx_type)p.type);
    ptx_val base = base_register(b, p);

    if (p.space == PTX_SHARED) {
        i = ptx_cvt(b, PTX_U32, i);
        return size == 1 ? ptx_add(b, base, i) : ptx_mad(b, i, ptx_u32(size), base);
    }
    if (i.type == PTX_U32)
        return ptx_mad_wide(b, i, ptx_u32(size), base);
    if (i.type == PTX_S32) {
        const ptx_val src[] = { i, ptx_s32((int32_t)size), base };
        return ptxb_emit(b, PTX_U64, "mad.wide.s32", 3, src);
    }
    i = ptx_bitcast(b, PTX_U64, i);
    return size == 1 ? ptx_add(b, base, i) : ptx_mad(b, i, ptx_u64(size), base);
}

static ptx_ptr at(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i)
{
    const ptx_ptr poison = { { 0 }, 0, 0, 0, 0, 0, 0, 0 };
    const int64_t size = (int64_t)ptx_type_bytes((ptx_type)p.type);

    if (!pointer_ok(b, call, p) || !index_ok(b, call, i))
        return poison;
    if (i.kind != PTX_IMMEDIATE) {
        p.base = scaled(b, p, i);
        p.count = 0;
        return b->failed ? poison : p;
    }
    const int64_t index = signed_immediate(i);
    if (p.count && (index < 0 || index > p.count)) {
        ptxb_fail(b, call, "index %lld is outside the array of %u", (long long)index, p.count);
        return poison;
    }
    // What an instruction can carry beside the register; further away goes into the register.
    if (index > INT32_MAX / size - p.offset || index < INT32_MIN / size - p.offset) {
        p.base = scaled(b, p, ptxb_mov(b, i));
        p.count = 0;
        return b->failed ? poison : p;
    }
    p.offset += index * size;
    p.count = p.count ? p.count - (uint32_t)index : 0;
    return p;
}

ptx_ptr ptx_at(ptx_builder *b, ptx_ptr p, ptx_val i)
{
    return at(b, "at", p, i);
}

ptx_ptr ptx_ptr_cast(ptx_builder *b, ptx_type type, ptx_ptr p)
{
    if (!pointer_ok(b, "ptr_cast", p))
        return p;
    if (!ptx_type_bytes(type)) {
        ptxb_fail(b, "ptr_cast", "memory does not hold %s", ptx_type_name(type));
        return p;
    }
    p.count =
        (uint32_t)((uint64_t)p.count * ptx_type_bytes((ptx_type)p.type) / ptx_type_bytes(type));
    p.type = (uint8_t)type;
    return p;
}

ptx_ptr ptx_pointer(ptx_builder *b, ptx_type type, ptx_space space, ptx_val address)
{
    ptx_ptr p = { .type = (uint8_t)type, .space = (uint8_t)space };
    const ptx_type wanted = space == PTX_SHARED ? PTX_U32 : PTX_U64;

    if (!ptxb_ready(b, "pointer") || !ptxb_usable(b, "pointer", "the address", address))
        return p;
    if ((unsigned)space > PTX_LOCAL || !ptx_type_bytes(type) || address.type != wanted) {
        ptxb_fail(b, "pointer", "a %s pointer to %s needs a %s address; got %s",
                  (unsigned)space > PTX_LOCAL ? "param"
                  : space                     ? space_names[space] + 1
                                              : "generic",
                  ptx_type_name(type), ptx_type_name(wanted),
                  ptx_type_name((ptx_type)address.type));
        return p;
    }
    address = ptxb_in_register(b, address);
    p.base = space == PTX_GLOBAL ? ptxb_emit(b, PTX_U64, "cvta.to.global.u64", 1, &address)
             : address.kind == PTX_VARIABLE ? ptxb_mov(b, address)
                                            : address;
    return p;
}

ptx_val ptx_address(ptx_builder *b, ptx_ptr p)
{
    if (!pointer_ok(b, "address", p))
        return (ptx_val) { 0 };
    ptx_val base = base_register(b, p);
    if (!p.offset)
        return base;
    return ptx_add(
        b, base, base.type == PTX_U32 ? ptx_u32((uint32_t)p.offset) : ptx_u64((uint64_t)p.offset));
}

// ---- loads and stores ---------------------------------------------------------------------------

static bool access_ok(ptx_builder *b, const char *call, ptx_ptr p, const struct access *a,
                      bool store)
{
    const bool scoped = a->order >= PTX_RELAXED;
    const char *wrong = NULL;

    if ((unsigned)a->cache > PTX_EVICT_LAST || (unsigned)a->order > PTX_SEQ_CST ||
        (unsigned)a->scope > PTX_SCOPE_SYSTEM)
        wrong = "there is no such cache operator, order or scope";
    else if (store ? !caches[a->cache].store : !caches[a->cache].load)
        wrong = "the cache operator is for the other direction";
    else if (a->nc && (store || p.space != PTX_GLOBAL))
        wrong = ".nc is for loads from global memory";
    else if (a->order >= PTX_ACQ_REL || a->order == (store ? PTX_ACQUIRE : PTX_RELEASE))
        wrong = "a load can be relaxed or acquire, a store relaxed or release";
    else if (a->order != PTX_WEAK && (a->cache != PTX_CACHE_DEFAULT || a->nc))
        wrong = "a cache operator or .nc goes with weak accesses alone";
    else if (!scoped && a->scope != PTX_SCOPE_DEFAULT)
        wrong = "a scope goes with relaxed, acquire or release";
    else if (a->order != PTX_WEAK && (p.space == PTX_PARAM || p.space == PTX_LOCAL))
        wrong = "local memory and parameters have no order";
    else if (a->cache >= PTX_NO_ALLOCATE && p.space != PTX_GLOBAL)
        wrong = "L1 hints are for global memory";
    else if (a->cache != PTX_CACHE_DEFAULT && p.space == PTX_PARAM)
        wrong = "parameters have no cache operator";
    else if (store ? p.readonly : p.writeonly)
        wrong = store ? "the pointer is declared readonly" : "the pointer is declared writeonly";
    if (wrong)
        ptxb_fail(b, call, "%s", wrong);
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
        ptxb_fail(b, call, "%u lanes; there are accesses of 1, 2, 4 and 8", lanes);
        return false;
    }
    if (lanes * size > 32 || (lanes == 8 && size == 1) || (wide && p.space != PTX_GLOBAL)) {
        ptxb_fail(b, call,
                  "%u lanes of %s: an access has at most 16 bytes (32 in global memory "
                  "on sm_100), and lanes of 8 bits at most 4",
                  lanes, ptx_type_name((ptx_type)p.type));
        return false;
    }
    if (wide) {
        const struct ptx_form *form = ptx_op_info(PTX_OP_wide_256)->forms;
        if (!ptxb_require(b, call, form->isa, form->sm, "an access of 32 bytes"))
            return false;
    }
    shape->paired = lanes == 8 && size == 2;
    shape->words = shape->paired ? 4 : lanes;
    shape->type = shape->paired ? "b32" : ptxb_memory_name((ptx_type)p.type);
    return true;
}

static const char *memory_opcode(ptx_builder *b, const char *call, const char *base, ptx_ptr p,
                                 const struct access *a, const struct shape *shape)
{
    static const char *const vectors[] = { "", "", ".v2", "", ".v4", "", "", "", ".v8" };
    const bool scoped = a->order >= PTX_RELAXED;
    const bool l1 = a->cache >= PTX_NO_ALLOCATE;
    const char *opcode =
        ptxb_join(b, base, order_names[a->order], scoped ? scope_names[a->scope] : "",
                  space_names[p.space], l1 ? "" : caches[a->cache].text, a->nc ? ".nc" : "",
                  l1 ? caches[a->cache].text : "", vectors[shape->words], ".", shape->type, NULL);

    if (!ptxb_require(b, call, caches[a->cache].isa, caches[a->cache].sm, opcode))
        return NULL;
    if (scoped && a->scope == PTX_SCOPE_CLUSTER && !ptxb_require(b, call, 78, 90, opcode))
        return NULL;
    return opcode;
}

static bool in_array(ptx_builder *b, const char *call, ptx_ptr p, unsigned lanes)
{
    if (!p.count && p.base.kind == PTX_POISON && b->symbols.at[p.symbol - 1].count) {
        ptxb_fail(b, call, "the index is at the end of the array of %u",
                  b->symbols.at[p.symbol - 1].count);
        return false;
    }
    if (!p.count || lanes <= p.count)
        return true;
    ptxb_fail(b, call, "%u lanes reach past the array's end, which is %u elements away", lanes,
              p.count);
    return false;
}

static ptx_vec load(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i, unsigned lanes,
                    struct access a)
{
    ptx_vec v = { { { 0 } }, lanes <= 8 ? lanes : 8 };
    struct shape shape;

    p = at(b, call, p, i);
    if (!b || b->failed || !access_ok(b, call, p, &a, false) ||
        !vector_shape(b, call, p, lanes, &shape) || !in_array(b, call, p, lanes))
        return v;
    const char *opcode = memory_opcode(b, call, "ld", p, &a, &shape);
    const ptx_type type = shape.paired ? PTX_B32 : (ptx_type)p.type;
    ptx_vec words = { { { 0 } }, shape.words };
    for (unsigned k = 0; opcode && k < shape.words; k++)
        words.lane[k] = ptxb_register(b, type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, shape.words, 1);
    if (!insn)
        return v;
    for (unsigned k = 0; k < shape.words; k++)
        ptxb_operand(b, insn, k, words.lane[k]);
    ptxb_address(b, insn, shape.words, p);
    insn->operands[0].open = insn->operands[shape.words - 1].close = shape.words > 1;
    insn->varying = p.space == PTX_LOCAL || a.order != PTX_WEAK;
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

    p = at(b, call, p, i);
    if (!b || b->failed || !access_ok(b, call, p, &a, true) ||
        !vector_shape(b, call, p, x.lanes, &shape) || !in_array(b, call, p, x.lanes))
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
    const char *opcode = memory_opcode(b, call, "st", p, &a, &shape);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 0, 1 + shape.words);
    if (!insn)
        return;
    ptxb_address(b, insn, 0, p);
    for (unsigned k = 0; k < shape.words; k++)
        ptxb_operand(b, insn, 1 + k, x.lane[k]);
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

// SPDX-License-Identifier: MIT
// Typed pointers, loads, stores and prefetches.
#include "internal.h"

// ---- pointers -----------------------------------------------------------------------------------

bool ptxb_pointer_ok(ptx_builder *b, const char *call, ptx_ptr p)
{
    if (!ptxb_ready(b, call))
        return false;
    if (!ptx_type_bytes((ptx_type)p.type) || (!p.symbol && p.base.kind == PTX_KIND_POISON)) {
        if (!ptxb_follows(b))
            ptxb_fail(b, call, "the pointer was never set");
        return false;
    }
    if (p.base.kind != PTX_KIND_POISON)
        return ptxb_usable(b, call, "the pointer", p.base);
    if (p.base.bits != b->number || p.symbol > b->symbols.count) {
        ptxb_fail(b, call, "the array belongs to another builder");
        return false;
    }
    const uint32_t entry = b->symbols.at[p.symbol - 1].entry;
    if (entry != b->entries.count - 1 && !ptxb_is_of_module(&b->symbols.at[p.symbol - 1])) {
        ptxb_fail(b, call, "the array was declared in another %s, '%.64s'",
                  ptxb_entry_kind(&b->entries.at[entry]), b->entries.at[entry].decl.name);
        return false;
    }
    b->symbols.at[p.symbol - 1].used = true;
    return true;
}

static bool index_ok(ptx_builder *b, const char *call, ptx_val i)
{
    if (!ptxb_usable(b, call, "the index", i))
        return false;
    if ((PTX_TYPES_I32 | PTX_TYPES_I64) >> i.type & 1)
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
    return p.base.kind != PTX_KIND_POISON ? p.base : ptxb_symbol_base(b, p.symbol);
}

// base + i * size as one instruction, in the width of the address.
static ptx_val scaled(ptx_builder *b, ptx_ptr p, ptx_val base, ptx_val i)
{
    const uint32_t size = ptx_type_bytes((ptx_type)p.type);

    if (p.space == PTX_SPACE_SHARED) {
        i = ptx_cvt(b, PTX_U32, i);
        return size == 1 ? ptx_add(b, base, i) : ptx_mad(b, i, ptx_u32(size), base);
    }
    if (i.type == PTX_U32)
        return ptx_mad_wide(b, i, ptx_u32(size), base);
    if (i.type == PTX_S32) {
        const ptx_val src[] = { i, ptx_s32((int32_t)size), base };
        return ptxb_emit(b, PTX_U64, ptxb_opcode(b, "mad.wide.s32"), 3, src);
    }
    i = ptx_bitcast(b, PTX_U64, i);
    return size == 1 ? ptx_add(b, base, i) : ptx_mad(b, i, ptx_u64(size), base);
}

// A pointer to a declared array at a constant offset. `bytes` is the size of the array; 0: not
// known. Only the launch knows that of dynamic shared memory, which has a most.
static bool has_constant_place(const ptx_builder *b, ptx_ptr p, int64_t *bytes)
{
    if (!p.symbol || p.base.kind != PTX_KIND_POISON)
        return false;
    const struct symbol *symbol = &b->symbols.at[p.symbol - 1];
    *bytes = symbol->kind == SYMBOL_DYNAMIC
                 ? DYNAMIC_BYTES
                 : (int64_t)symbol->count * (int64_t)ptx_type_bytes((ptx_type)symbol->type);
    return true;
}

// ---- what straight code has computed ------------------------------------------------------------

// Whether there is an address of the key, which it completes.
static bool is_kept(const ptx_builder *b, struct address *key)
{
    const struct addresses *a = &b->addresses;

    for (uint32_t k = 0; k < a->count; k++)
        if (a->at[k].index == key->index && a->at[k].base == key->base &&
            a->at[k].size == key->size && a->at[k].index_type == key->index_type &&
            a->at[k].address >= b->first_reg) {
            *key = a->at[k];
            return true;
        }
    return false;
}

static void keep(ptx_builder *b, struct address key, ptx_val address)
{
    struct addresses *a = &b->addresses;

    key.address = address.reg;
    a->next = a->count < ADDRESSES ? a->count++ : (a->next + 1) % ADDRESSES;
    a->at[a->next] = key;
}

static ptx_val element_address(ptx_builder *b, ptx_ptr p, ptx_val i)
{
    const ptx_val base = base_register(b, p);
    struct address key = { .base = base.reg,
                           .index = i.reg,
                           .index_type = i.type,
                           .size = (uint8_t)ptx_type_bytes((ptx_type)p.type) };
    ptx_val address = base;

    if (is_kept(b, &key)) {
        address.reg = key.address;
        return address;
    }
    address = scaled(b, p, base, i);
    keep(b, key, address);
    return address;
}

// The place of a lane is kept as the address of an element of no type.
static struct address lane_key(ptx_val stride, uint8_t shape)
{
    const bool constant = stride.kind == PTX_KIND_IMMEDIATE;

    return (struct address) { .base = constant ? (uint32_t)stride.bits : 0,
                              .index = constant ? 0 : stride.reg,
                              .index_type = PTX_NONE,
                              .size = shape };
}

ptx_val ptxb_kept_lane(const ptx_builder *b, ptx_val stride, uint8_t shape)
{
    struct address key = lane_key(stride, shape);

    if (!is_kept(b, &key))
        return (ptx_val) { 0 };
    return (ptx_val) {
        .reg = key.address, .bits = b->number, .kind = PTX_KIND_REGISTER, .type = PTX_U32
    };
}

void ptxb_keep_lane(ptx_builder *b, ptx_val stride, uint8_t shape, ptx_val lane)
{
    if (!b->failed)
        keep(b, lane_key(stride, shape), lane);
}

static ptx_ptr at_register(ptx_builder *b, ptx_ptr p, ptx_val i)
{
    p.base = element_address(b, p, i);
    p.count = 0;
    return b->failed ? (ptx_ptr) { 0 } : p;
}

static void fail_index(ptx_builder *b, const char *call, ptx_ptr p, int64_t index, int64_t bytes)
{
    const char *type = ptx_type_name((ptx_type)p.type);
    const bool dynamic = b->symbols.at[p.symbol - 1].kind == SYMBOL_DYNAMIC;

    if (dynamic)
        ptxb_fail(b, call,
                  "index %lld of %s, from byte %lld on, is outside dynamic shared memory, of which "
                  "no target has more than %lld bytes",
                  (long long)index, type, (long long)p.offset, (long long)bytes);
    else if (bytes)
        ptxb_fail(b, call,
                  "index %lld of %s, from byte %lld on, is outside the array of %lld bytes",
                  (long long)index, type, (long long)p.offset, (long long)bytes);
    else
        ptxb_fail(b, call, "index %lld of %s, from byte %lld on, is outside the array",
                  (long long)index, type, (long long)p.offset);
}

ptx_ptr ptxb_at(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i)
{
    const int64_t size = (int64_t)ptx_type_bytes((ptx_type)p.type);
    int64_t bytes = 0;

    if (!ptxb_pointer_ok(b, call, p))
        return (ptx_ptr) { 0 };
    i = ptxb_typed(b, call, "the index", i, i.type == PTX_U64 ? PTX_U64 : PTX_S64);
    if (!index_ok(b, call, i))
        return (ptx_ptr) { 0 };
    if (i.kind != PTX_KIND_IMMEDIATE)
        return at_register(b, p, i);
    const int64_t index = signed_immediate(i);
    const bool near = index >= INT32_MIN && index <= INT32_MAX;
    const int64_t offset = near ? p.offset + index * size : 0;
    if (has_constant_place(b, p, &bytes) && (!near || offset < 0 || (bytes && offset > bytes))) {
        fail_index(b, call, p, index, bytes);
        return (ptx_ptr) { 0 };
    }
    // The offset that an instruction can encode; a larger offset is added to the register.
    if (!near || offset < INT32_MIN || offset > INT32_MAX)
        return at_register(b, p, ptxb_mov(b, i));
    p.offset = offset;
    if (p.count)
        p.count = (uint32_t)((bytes - offset) / size);
    return p;
}

ptx_ptr ptx_at(ptx_builder *b, ptx_ptr p, ptx_val i)
{
    return ptxb_at(b, "at", p, i);
}

bool ptxb_in_array(ptx_builder *b, const char *call, ptx_ptr p, unsigned bytes)
{
    int64_t whole;

    if (!has_constant_place(b, p, &whole))
        return true;
    if (whole && p.offset + (int64_t)bytes > whole) {
        ptxb_fail(b, call, "%u byte%s at byte %lld would end past the %s, which is at %lld", bytes,
                  bytes == 1 ? "" : "s", (long long)p.offset,
                  b->symbols.at[p.symbol - 1].kind == SYMBOL_DYNAMIC
                      ? "most dynamic shared memory of any target"
                      : "array's end",
                  (long long)whole);
        return false;
    }
    const struct data *data = b->symbols.at[p.symbol - 1].data;
    if (data && data->align < bytes) {
        ptxb_fail(b, call, "%u bytes are accessed, and the array is aligned to %u", bytes,
                  data->align);
        return false;
    }
    if (p.offset % (int64_t)bytes == 0) // arrays without data are aligned to 16 bytes
        return true;
    ptxb_fail(b, call, "byte %lld of the array is not a multiple of the %u bytes accessed",
              (long long)p.offset, bytes);
    return false;
}

ptx_ptr ptx_ptr_cast(ptx_builder *b, ptx_type type, ptx_ptr p)
{
    if (!ptxb_pointer_ok(b, "ptr_cast", p))
        return p;
    if (!ptx_type_bytes(type)) {
        ptxb_fail(b, "ptr_cast", "memory does not hold elements of type %s", ptx_type_name(type));
        return p;
    }
    p.count =
        (uint32_t)((uint64_t)p.count * ptx_type_bytes((ptx_type)p.type) / ptx_type_bytes(type));
    p.type = (uint8_t)type;
    return p;
}

ptx_ptr ptx_ptr_from(ptx_builder *b, ptx_type type, ptx_space space, ptx_val address)
{
    ptx_ptr p = { .type = (uint8_t)type, .space = (uint8_t)space };
    const ptx_type wanted = space == PTX_SPACE_SHARED ? PTX_U32 : PTX_U64;

    if (!ptxb_ready(b, "ptr_from") || !ptxb_usable(b, "ptr_from", "the address", address))
        return p;
    if ((unsigned)space > PTX_SPACE_CONST || space == PTX_SPACE_PARAM) {
        ptxb_fail(b, "ptr_from",
                  "the space is %s; computed addresses are generic, global, shared, local or const",
                  ptxb_space_name(space));
        return p;
    }
    if (!ptx_type_bytes(type)) {
        ptxb_fail(b, "ptr_from", "memory does not hold elements of type %s", ptx_type_name(type));
        return p;
    }
    if (address.type != wanted) {
        ptxb_fail(b, "ptr_from", "a %s pointer to %s needs a %s address; got %s",
                  ptxb_space_name(space), ptx_type_name(type), ptx_type_name(wanted),
                  ptx_type_name((ptx_type)address.type));
        return p;
    }
    address = ptxb_in_register(b, address);
    p.base = space == PTX_SPACE_GLOBAL
                 ? ptxb_emit(b, PTX_U64, ptxb_opcode(b, "cvta.to.global.u64"), 1, &address)
             : address.kind == PTX_KIND_VARIABLE ? ptxb_mov(b, address)
                                                 : address;
    return p;
}

ptx_val ptx_ptr_address(ptx_builder *b, ptx_ptr p)
{
    if (!ptxb_pointer_ok(b, "ptr_address", p))
        return (ptx_val) { 0 };
    ptx_val base = base_register(b, p);
    if (!p.offset)
        return base;
    return ptx_add(
        b, base, base.type == PTX_U32 ? ptx_u32((uint32_t)p.offset) : ptx_u64((uint64_t)p.offset));
}

ptx_val ptx_ptr_generic(ptx_builder *b, ptx_ptr p)
{
    ptx_val address = ptx_ptr_address(b, p);

    if (!b || b->failed || p.space == PTX_SPACE_GENERIC)
        return address;
    if (p.space == PTX_SPACE_PARAM) {
        ptxb_fail(b, "ptr_generic", "parameters have no generic address");
        return (ptx_val) { 0 };
    }
    address = ptx_cvt(b, PTX_U64, address);
    return ptxb_emit(b, PTX_U64, ptxb_spell(b, "cvta", ptxb_space_text(p.space), ".u64", NULL), 1,
                     &address);
}

// ---- loads and stores ---------------------------------------------------------------------------

const char *const ptxb_scope_names[] = { ".gpu", ".cta", ".cluster", ".gpu", ".sys" };
const char *const ptxb_order_names[] = { "",         ".volatile", ".relaxed", ".acquire",
                                         ".release", ".acq_rel",  ".sc" };

// A cache operator: its text, where it is allowed, and its minimum ISA.
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
        ptxb_fail(b, call, "%s; got '%s%s%s%s' on a %s pointer", wrong, ptxb_order_names[a->order],
                  a->scope ? ptxb_scope_names[a->scope] : "", caches[a->cache].text,
                  a->nc ? ".nc" : "", ptxb_space_name(p.space));
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
        wrong = "a cache operator or .nc goes with weak accesses only";
    else if (!scoped && a->scope != PTX_SCOPE_DEFAULT)
        wrong = "a scope goes with relaxed, acquire or release";
    else if (a->order != PTX_ORDER_WEAK && p.space >= PTX_SPACE_LOCAL)
        wrong = "local memory, constant memory and parameters have no order";
    else if (a->cache >= PTX_CACHE_NO_ALLOCATE && p.space != PTX_SPACE_GLOBAL)
        wrong = "L1 hints are for global memory";
    else if (a->cache != PTX_CACHE_DEFAULT && p.space >= PTX_SPACE_PARAM)
        wrong = "parameters and constant memory have no cache operator";
    if (wrong)
        fail_access(b, call, wrong, p, a);
    else if (store && p.space == PTX_SPACE_CONST)
        ptxb_fail(b, call, "constant memory is only read, and this stores to it");
    else if (store && p.readonly)
        ptxb_fail(b, call, "the pointer is declared readonly, and this stores through it");
    else if (!store && p.writeonly)
        ptxb_fail(b, call, "the pointer is declared writeonly, and this loads through it");
    else
        return true;
    return false;
}

// How the lanes of a vector are moved: one by one, or 16-bit lanes in pairs as 32-bit words.
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

    if (!lanes && ptxb_follows(b))
        return false;
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

static uint32_t spell_memory(ptx_builder *b, bool store, ptx_ptr p, const struct access *a,
                             const struct shape *shape)
{
    static const char *const vectors[] = { "", "", ".v2", "", ".v4", "", "", "", ".v8" };
    const bool scoped = a->order >= PTX_ORDER_RELAXED;
    const bool l1 = a->cache >= PTX_CACHE_NO_ALLOCATE;

    return ptxb_spell(b, store ? "st" : "ld", ptxb_order_names[a->order],
                      scoped ? ptxb_scope_names[a->scope] : "", ptxb_space_text(p.space),
                      l1 ? "" : caches[a->cache].text, a->nc ? ".nc" : "",
                      l1 ? caches[a->cache].text : "", vectors[shape->words], ".", shape->type,
                      NULL);
}

static uint32_t memory_opcode(ptx_builder *b, const char *call, bool store, ptx_ptr p,
                              const struct access *a, const struct shape *shape)
{
    const unsigned how = (unsigned)a->cache << 3 | (unsigned)a->order;
    const unsigned where = (unsigned)a->scope << 3 | p.space;
    const unsigned what = shape->words << 2 | (unsigned)shape->paired << 1 | a->nc;
    const uint32_t spelling = ptxb_spelling(store ? PTX_OP_st : PTX_OP_ld, (ptx_type)p.type,
                                            how << 12 | where << 6 | what);
    const uint32_t noted = ptxb_noted(b, spelling);

    if (noted)
        return noted;
    uint32_t opcode = ptxb_required(b, call, caches[a->cache].isa, caches[a->cache].sm,
                                    spell_memory(b, store, p, a, shape));
    if (a->scope == PTX_SCOPE_CLUSTER)
        opcode = ptxb_required(b, call, 78, 90, opcode);
    return ptxb_note(b, spelling, opcode);
}

bool ptxb_traffic_ok(ptx_builder *b, const char *call, ptx_ptr p, bool nc)
{
    const uint16_t entry = (uint16_t)b->entries.count;
    struct param *param = p.param && p.param <= ptxb_entry(b)->params.count
                              ? &ptxb_entry(b)->params.at[p.param - 1]
                              : NULL;
    struct symbol *symbol = p.symbol ? &b->symbols.at[p.symbol - 1] : NULL;

    if (!param && !symbol)
        return true;
    struct traffic *traffic = param ? &param->traffic : &symbol->traffic;
    *(nc ? &traffic->nc : &traffic->written) = entry;
    if (traffic->nc != entry || traffic->written != entry)
        return true;
    ptxb_fail(b, call,
              "'%.64s' is loaded with .nc and written by one %s; .nc is for memory that nothing "
              "writes while the kernel runs",
              param ? param->info.name : symbol->name, ptxb_entry_kind(ptxb_entry(b)));
    return false;
}

static ptx_vec load(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i, unsigned lanes,
                    struct access a)
{
    ptx_vec v = { { { 0 } }, lanes <= 8 ? lanes : 8 };
    struct shape shape;

    p = ptxb_at(b, call, p, i);
    if (!b || b->failed || !access_ok(b, call, p, &a, false) ||
        !vector_shape(b, call, p, lanes, &shape) ||
        !ptxb_in_array(b, call, p, lanes * ptx_type_bytes((ptx_type)p.type)) ||
        (a.nc && !ptxb_traffic_ok(b, call, p, true)))
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
        ptxb_result(b, insn, k, words.lane[k]);
    ptxb_address(b, insn, shape.words, p);
    if (shape.words > 1)
        ptxb_brace(b, insn, 0, shape.words - 1);
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
        !ptxb_in_array(b, call, p, x.lanes * ptx_type_bytes((ptx_type)p.type)) ||
        !ptxb_traffic_ok(b, call, p, false))
        return;
    for (unsigned k = 0; k < x.lanes; k++) {
        x.lane[k] = ptxb_typed(b, call, "the value", x.lane[k], (ptx_type)p.type);
        if (!ptxb_usable(b, call, "the value", x.lane[k]))
            return;
        if (x.lane[k].type != p.type) {
            ptxb_fail(b, call, "the value is %s; the pointer is to %s",
                      ptx_type_name((ptx_type)x.lane[k].type), ptx_type_name((ptx_type)p.type));
            return;
        }
    }
    for (unsigned k = 0; k < shape.words; k++)
        if (shape.paired)
            x.lane[k] = ptx_pack(b, PTX_B32, ptx_vec2(x.lane[2 * k], x.lane[2 * k + 1]));
    const uint32_t opcode = memory_opcode(b, call, true, p, &a, &shape);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 0, 1 + shape.words);
    if (!insn)
        return;
    ptxb_address(b, insn, 0, p);
    for (unsigned k = 0; k < shape.words; k++)
        ptxb_source(b, insn, 1 + k, x.lane[k]);
    if (shape.words > 1)
        ptxb_brace(b, insn, 1, shape.words);
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

// ---- prefetches ---------------------------------------------------------------------------------

static const struct {
    const char *text;
    bool local, uniform;
    ptx_opcode row;
} prefetches[] = {
    [PTX_PREFETCH_L1] = { ".L1", true, false, PTX_OP_prefetch },
    [PTX_PREFETCH_L2] = { ".L2", true, false, PTX_OP_prefetch },
    [PTX_PREFETCH_L2_EVICT_LAST] = { ".L2::evict_last", false, false, PTX_OP_prefetch_evict },
    [PTX_PREFETCH_L2_EVICT_NORMAL] = { ".L2::evict_normal", false, false, PTX_OP_prefetch_evict },
    [PTX_PREFETCH_UNIFORM] = { ".L1", false, true, PTX_OP_prefetchu },
};

void ptx_prefetch(ptx_builder *b, ptx_ptr p, ptx_val i, ptx_prefetch_kind kind)
{
    p = ptxb_at(b, "prefetch", p, i);
    if (!b || b->failed)
        return;
    if ((unsigned)kind > PTX_PREFETCH_UNIFORM) {
        ptxb_fail(b, "prefetch", "%d is not a cache; see ptx_prefetch_kind", (int)kind);
        return;
    }
    const bool local = p.space == PTX_SPACE_LOCAL && prefetches[kind].local;
    if (!local && p.space != PTX_SPACE_GLOBAL && p.space != PTX_SPACE_GENERIC) {
        ptxb_fail(b, "prefetch", "'%s' of %s memory; it takes global%s memory or a generic address",
                  prefetches[kind].uniform ? "prefetchu.L1" : prefetches[kind].text,
                  ptxb_space_name(p.space), prefetches[kind].local ? " or local" : "");
        return;
    }
    if (!ptxb_in_array(b, "prefetch", p, ptx_type_bytes((ptx_type)p.type)))
        return;
    if (prefetches[kind].uniform && p.space != PTX_SPACE_GENERIC) {
        p.base = ptx_ptr_generic(b, p); // as the instruction wants it
        p.offset = 0;
        p.space = PTX_SPACE_GENERIC;
    }
    const struct ptx_op_form *form = ptx_op_get_info(prefetches[kind].row)->forms;
    const uint32_t opcode = ptxb_required(
        b, "prefetch", form->isa, form->sm,
        ptxb_spell(b, form->text, ptxb_space_text(p.space), prefetches[kind].text, NULL));
    const struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 0, 1);
    if (insn)
        ptxb_address(b, insn, 0, p);
}

// SPDX-License-Identifier: MIT
// Typed pointers: places in memory.
#include "internal.h"

static bool pointer_ok(ptx_builder *b, const char *call, ptx_ptr p)
{
    if (!ptxb_ready(b, call))
        return false;
    if (!ptx_type_bytes((ptx_type)p.type) || (!p.symbol && p.base.kind == PTX_KIND_POISON)) {
        ptxb_fail(b, call, "the pointer was never set");
        return false;
    }
    if (p.base.kind != PTX_KIND_POISON)
        return ptxb_usable(b, call, "the pointer", p.base);
    if (p.base.owner != b->owner || p.symbol > b->symbols.count) {
        ptxb_fail(b, call, "the array belongs to another builder");
        return false;
    }
    const uint32_t entry = b->symbols.at[p.symbol - 1].entry;
    if (entry != b->entries.count - 1) {
        ptxb_fail(b, call, "the array was declared in another entry, '%.64s'",
                  b->entries.at[entry].decl.name);
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
static ptx_val scaled(ptx_builder *b, ptx_ptr p, ptx_val i)
{
    const uint32_t size = ptx_type_bytes((ptx_type)p.type);
    ptx_val base = base_register(b, p);

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

// A pointer to a declared array at a place known now; `bytes` is the array's size, 0 for dynamic
// shared memory, whose size is the launch's.
static bool has_constant_place(const ptx_builder *b, ptx_ptr p, int64_t *bytes)
{
    if (!p.symbol || p.base.kind != PTX_KIND_POISON)
        return false;
    const struct symbol *symbol = &b->symbols.at[p.symbol - 1];
    *bytes = (int64_t)symbol->count * (int64_t)ptx_type_bytes((ptx_type)symbol->type);
    return true;
}

static ptx_ptr at_register(ptx_builder *b, ptx_ptr p, ptx_val i)
{
    p.base = scaled(b, p, i);
    p.count = 0;
    return b->failed ? (ptx_ptr) { 0 } : p;
}

static void fail_index(ptx_builder *b, const char *call, ptx_ptr p, int64_t index, int64_t bytes)
{
    const char *type = ptx_type_name((ptx_type)p.type);

    if (bytes)
        ptxb_fail(b, call,
                  "index %lld of %s, from byte %lld on, is outside the array of %lld bytes",
                  (long long)index, type, (long long)p.offset, (long long)bytes);
    else
        ptxb_fail(b, call, "index %lld of %s, from byte %lld on, is outside dynamic shared memory",
                  (long long)index, type, (long long)p.offset);
}

ptx_ptr ptxb_at(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i)
{
    const int64_t size = (int64_t)ptx_type_bytes((ptx_type)p.type);
    int64_t bytes = 0;

    if (!pointer_ok(b, call, p) || !index_ok(b, call, i))
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
    // What an instruction can carry beside the register; further away goes into the register.
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
        ptxb_fail(b, call, "%u bytes at byte %lld reach past the array's end, which is at %lld",
                  bytes, (long long)p.offset, (long long)whole);
        return false;
    }
    if (p.offset % (int64_t)bytes == 0) // arrays are aligned to 16 bytes
        return true;
    ptxb_fail(b, call, "byte %lld of the array is not a multiple of the %u bytes accessed",
              (long long)p.offset, bytes);
    return false;
}

ptx_ptr ptx_ptr_cast(ptx_builder *b, ptx_type type, ptx_ptr p)
{
    if (!pointer_ok(b, "ptr_cast", p))
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
    if ((unsigned)space > PTX_SPACE_LOCAL) {
        ptxb_fail(b, "ptr_from",
                  "the space is %s; computed addresses are generic, global, shared or local",
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
                 ? ptxb_emit(b, PTX_U64, ptxb_opcode(b, ptxb_cvta), 1, &address)
             : address.kind == PTX_KIND_VARIABLE ? ptxb_mov(b, address)
                                                 : address;
    return p;
}

ptx_val ptx_ptr_address(ptx_builder *b, ptx_ptr p)
{
    if (!pointer_ok(b, "ptr_address", p))
        return (ptx_val) { 0 };
    ptx_val base = base_register(b, p);
    if (!p.offset)
        return base;
    return ptx_add(
        b, base, base.type == PTX_U32 ? ptx_u32((uint32_t)p.offset) : ptx_u64((uint64_t)p.offset));
}

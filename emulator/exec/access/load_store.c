// SPDX-License-Identifier: MIT
// Addresses: which memory they belong to, and whether a lane may access it. Loads and stores. The
// access of a warp is usually within one allocation: then bounds and alignment are checked once for
// all lanes. Otherwise, and to name the lane at fault, each lane is checked.
#include "access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"

#include <stdalign.h>

// ---- addresses ----------------------------------------------------------------------------------

// What the instruction adds to the register of the address.
uint64_t emu_added(const struct emu_value *value)
{
    bool offset = value->operand->kind == EMU_OPERAND_ADDRESS && value->place == EMU_AT_SLOT;
    return offset ? (uint64_t)value->operand->offset : 0;
}

const uint64_t *emu_addresses(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                              uint64_t *scratch)
{
    const struct emu_value *value = &op->src[0];
    const uint64_t *base = emu_fetch(warp, frame, value, scratch);
    uint64_t add = emu_added(value);
    uint64_t keep = op->space == EMU_SHARED || op->space == EMU_LOCAL ? UINT32_MAX : UINT64_MAX;
    if (add == 0 && keep == UINT64_MAX)
        return base;
    for (unsigned i = 0; i < EMU_LANES; i++)
        scratch[i] = (base[i] + add) & keep;
    return scratch;
}

const struct emu_region *emu_find_allocation(struct emu_worker *worker, uint64_t address)
{
    for (unsigned i = 0; i < EMU_REGIONS; i++)
        if (address - worker->regions[i].start < worker->regions[i].bytes)
            return &worker->regions[i];
    struct emu_region found = { 0 };
    enum emu_access_fault fault;
    if (emu_heap_has(worker->exec->memory, address) ||
        !emu_memory_find(worker->exec->memory, address, &found.start, &found.bytes))
        return NULL;
    found.host =
        emu_memory_access(worker->exec->memory, found.start, found.bytes, &found.shadow, &fault);
    if (!found.host)
        return NULL;
    if (!worker->exec->sanitize)
        found.shadow = NULL;
    unsigned at = worker->next_region++ % EMU_REGIONS;
    worker->regions[at] = found;
    return &worker->regions[at];
}

static struct emu_region shared_region(const struct emu_block *block, uint64_t start)
{
    struct emu_region region = { start, block->exec->shared_bytes, block->shared,
                                 block->shared_shadow };
    return region;
}

static struct emu_region param_region(const struct emu_exec *exec, uint64_t start)
{
    // Parameters are read-only.
    struct emu_region region = { start, exec->launch->entry->param_bytes,
                                 (unsigned char *)(uintptr_t)exec->launch->params, NULL };
    return region;
}

// The region of an address, if all lanes may use one.
static bool region_at(struct emu_warp *warp, unsigned space, uint64_t address,
                      struct emu_region *region, bool *shared)
{
    const struct emu_region *found;
    *shared = space == EMU_SHARED;
    if (space == EMU_GENERIC && address >= EMU_SHARED_WINDOW && address < EMU_WINDOWS_END) {
        *shared = true;
        *region = shared_region(warp->block, EMU_SHARED_WINDOW);
    } else if (space == EMU_SHARED) {
        *region = shared_region(warp->block, 0);
    } else if (space == EMU_PARAM) {
        *region = param_region(warp->block->exec, 0);
    } else if (space == EMU_LOCAL) {
        return false;
    } else {
        found = emu_find_allocation(warp->block->worker, address);
        if (!found)
            return false;
        *region = *found;
    }
    return address - region->start < region->bytes;
}

static int64_t within_31_bits(uint64_t x)
{
    return x < INT32_MAX ? (int64_t)x : INT32_MAX;
}

bool emu_reach_all(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                   uint32_t mask, uint32_t bytes, struct emu_reach *reach)
{
    const struct emu_access_build *access = warp->block->exec->access;
    const struct emu_value *value = &op->src[0];
    const bool words =
        op->space == EMU_SHARED && value->place == EMU_AT_SLOT && value->width == EMU_WORD;
    const unsigned lane = emu_first(mask);
    alignas(64) uint64_t scratch[EMU_LANES];
    const uint32_t *word = words ? (const void *)(frame + value->at) : NULL;
    const uint64_t *longs = NULL;
    uint64_t first = 0;
    if (words) {
        first = word[lane] + (uint32_t)emu_added(value);
    } else if (op->space == EMU_SHARED) {
        longs = emu_addresses(warp, frame, op, scratch);
        first = longs[lane];
    } else {
        longs = emu_fetch(warp, frame, value, scratch);
        first = longs[lane] + emu_added(value);
    }
    struct emu_region region;
    if (first & (bytes - 1) || !region_at(warp, op->space, first, &region, &reach->shared))
        return false;
    const uint64_t before = first - region.start, after = region.bytes - before;
    if (bytes > after)
        return false;
    const int64_t low = -within_31_bits(before), high = within_31_bits(after - bytes);
    reach->host = region.host + before;
    reach->shadow = region.shadow ? region.shadow + before : NULL;
    return words ? access->reach_words(reach->away, word, mask, bytes, (int32_t)low, (int32_t)high,
                                       &reach->in_row)
                 : access->reach_longs(reach->away, longs, mask, bytes, low, high, &reach->in_row);
}

static bool local_access(struct emu_warp *warp, unsigned lane, uint64_t address, uint32_t bytes,
                         struct emu_access *access)
{
    uint64_t size = warp->block->exec->local_bytes;
    if (address >= size || bytes > size - address)
        return false;
    access->host = warp->local + lane * size + address;
    access->shadow = warp->local_shadow ? warp->local_shadow + lane * size + address : NULL;
    return true;
}

static const char *verb(enum emu_use use)
{
    return use == EMU_USE_LOAD ? "load" : use == EMU_USE_STORE ? "store" : "atomic";
}

static bool global_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                          uint64_t address, uint32_t bytes, enum emu_use use,
                          struct emu_access *access)
{
    struct emu_exec *exec = warp->block->exec;
    enum emu_access_fault fault;
    unsigned char *shadow = NULL;
    access->host = emu_memory_access(exec->memory, address, bytes, &shadow, &fault);
    access->shadow = exec->sanitize ? shadow : NULL;
    if (!access->host)
        return emu_fault_address(warp, op, lane, address, bytes, fault, verb(use));
    return emu_constant_access(warp, op, lane, address, access->host, bytes, use);
}

static bool in_region(const struct emu_region *region, uint64_t address, uint32_t bytes,
                      struct emu_access *access)
{
    uint64_t offset = address - region->start;
    if (offset >= region->bytes || bytes > region->bytes - offset)
        return false;
    access->host = region->host + offset;
    access->shadow = region->shadow ? region->shadow + offset : NULL;
    return true;
}

bool emu_lane_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                     uint64_t address, uint32_t bytes, enum emu_use use, struct emu_access *access)
{
    if (address & (bytes - 1))
        return emu_fault(warp, op->insn, lane, EMU_MISALIGNED_ADDRESS,
                         "misaligned %s of %u bytes at 0x%llx", verb(use), (unsigned)bytes,
                         (unsigned long long)address);
    return emu_lane_range(warp, op, lane, address, bytes, use, access);
}

bool emu_lane_range(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint64_t address,
                    uint32_t bytes, enum emu_use use, struct emu_access *access)
{
    unsigned space = op->space;
    uint64_t given = address;
    if (space == EMU_GENERIC && address >= EMU_SHARED_WINDOW && address < EMU_WINDOWS_END) {
        space = address < EMU_LOCAL_WINDOW   ? EMU_SHARED
                : address < EMU_PARAM_WINDOW ? EMU_LOCAL
                                             : EMU_PARAM;
        address &= EMU_WINDOW_SIZE - 1;
    }
    struct emu_region region;
    bool ok;
    switch (space) {
    case EMU_SHARED:
        region = shared_region(warp->block, 0);
        ok = in_region(&region, address, bytes, access);
        access->shared = true;
        break;
    case EMU_PARAM:
        region = param_region(warp->block->exec, 0);
        ok = use == EMU_USE_LOAD && in_region(&region, address, bytes, access);
        access->shared = false;
        break;
    case EMU_LOCAL:
        ok = local_access(warp, lane, address, bytes, access);
        access->shared = false;
        break;
    default:
        access->shared = false;
        return global_access(warp, op, lane, address, bytes, use, access);
    }
    return ok ? true : emu_fault_window(warp, op, lane, space, given, address, bytes, verb(use));
}

// ---- loads and stores ---------------------------------------------------------------------------

static inline uint64_t read_element(const unsigned char *at, unsigned bytes)
{
    uint64_t x8;
    uint32_t x4;
    uint16_t x2;
    switch (bytes) {
    case 1:
        return *at;
    case 2:
        memcpy(&x2, at, 2);
        return x2;
    case 4:
        memcpy(&x4, at, 4);
        return x4;
    default:
        memcpy(&x8, at, 8);
        return x8;
    }
}

static inline void write_element(unsigned char *at, unsigned bytes, uint64_t x)
{
    uint32_t x4 = (uint32_t)x;
    uint16_t x2 = (uint16_t)x;
    switch (bytes) {
    case 1:
        *at = (unsigned char)x;
        break;
    case 2:
        memcpy(at, &x2, 2);
        break;
    case 4:
        memcpy(at, &x4, 4);
        break;
    default:
        memcpy(at, &x, 8);
    }
}

// Volatile, relaxed and stronger accesses are atomic on the host, because other workers may access
// the same memory on purpose. Weak ones are plain accesses of the host: if blocks of a program race
// with them, the workers race on the same bytes. As on a GPU, the result is one of the values.
uint64_t emu_read_strong(unsigned char *at, unsigned bytes)
{
    switch (bytes) {
    case 1:
        return atomic_load((_Atomic(uint8_t) *)(void *)at);
    case 2:
        return atomic_load((_Atomic(uint16_t) *)(void *)at);
    case 4:
        return atomic_load((_Atomic(uint32_t) *)(void *)at);
    default:
        return atomic_load((_Atomic(uint64_t) *)(void *)at);
    }
}

static void write_strong(unsigned char *at, unsigned bytes, uint64_t x)
{
    switch (bytes) {
    case 1:
        atomic_store((_Atomic(uint8_t) *)(void *)at, (uint8_t)x);
        break;
    case 2:
        atomic_store((_Atomic(uint16_t) *)(void *)at, (uint16_t)x);
        break;
    case 4:
        atomic_store((_Atomic(uint32_t) *)(void *)at, (uint32_t)x);
        break;
    default:
        atomic_store((_Atomic(uint64_t) *)(void *)at, x);
    }
}

static uint64_t read_one(const struct emu_op *op, unsigned char *at)
{
    return op->strong ? emu_read_strong(at, op->bytes) : read_element(at, op->bytes);
}

static void write_one(const struct emu_op *op, unsigned char *at, uint64_t x)
{
    if (op->strong)
        write_strong(at, op->bytes, x);
    else
        write_element(at, op->bytes, x);
}

// A lane of values that are stored as words or as longs.
static inline uint64_t value_of(const void *values, uint8_t want, unsigned lane)
{
    return want == EMU_LONG ? ((const uint64_t *)values)[lane] : ((const uint32_t *)values)[lane];
}

bool emu_shadow_set(const unsigned char *shadow, uint32_t bytes)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t other = 0, part;
    while (bytes >= 8) {
        memcpy(&part, shadow, 8);
        other |= part ^ ones;
        shadow += 8;
        bytes -= 8;
    }
    if (bytes)
        other |= read_element(shadow, bytes) ^ (ones & ((UINT64_C(1) << 8 * bytes) - 1));
    return other == 0;
}

static _Atomic(uint8_t) *strong_byte(unsigned char *shadow)
{
    return (_Atomic(uint8_t) *)(void *)shadow;
}

bool emu_shadow_set_strong(unsigned char *shadow, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (atomic_load_explicit(strong_byte(shadow + i), memory_order_relaxed) != 1)
            return false;
    return true;
}

void emu_shadow_fill_strong(unsigned char *shadow, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (atomic_load_explicit(strong_byte(shadow + i), memory_order_relaxed) != 1)
            atomic_store_explicit(strong_byte(shadow + i), 1, memory_order_relaxed);
}

// ---- lane by lane -------------------------------------------------------------------------------

// What a warp loads or stores, after the check of all lanes has found something unusual.
struct transfer {
    enum emu_use use;
    uint32_t total;                // bytes of a lane
    uint64_t (*out)[EMU_LANES];    // loads: by element
    const void *const *values;     // stores: by element
    struct emu_undefined_lanes *u; // by element; of stores NULL if everything is defined
    uint32_t open; // loads: lanes in which something is undefined, which alone have `u`
};

static bool load_lane(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                      uint64_t address, const struct emu_access *access, struct transfer *t)
{
    for (unsigned k = 0; k < op->dst_count; k++)
        t->out[k][lane] = read_one(op, access->host + k * op->bytes);
    // Read it after the value: a store marks its bytes before it writes them.
    if (!access->shadow || (op->strong ? emu_shadow_set_strong(access->shadow, t->total)
                                       : emu_shadow_set(access->shadow, t->total)))
        return true;
    t->open |= 1u << lane;
    for (unsigned k = 0; k < op->dst_count; k++)
        t->u[k].lane[lane] =
            emu_undefined_load(warp, op, address, access->shadow + k * op->bytes, op->bytes);
    return true;
}

// Marks which bits of a lane's memory are defined.
static bool mark(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint64_t address,
                 const struct emu_access *access, const struct transfer *t)
{
    if (access->shadow && !t->u) {
        if (op->strong)
            emu_shadow_fill_strong(access->shadow, t->total);
        else
            memset(access->shadow, EMU_SHADOW_DEFINED, t->total);
        return true;
    }
    for (unsigned k = 0; t->u && k + 1u < op->src_count; k++) {
        struct emu_undefined value = t->u[k].lane[lane];
        if (op->bytes < 8)
            value.computed &= (UINT64_C(1) << 8 * op->bytes) - 1;
        if (access->shadow)
            emu_undefined_store(warp, access->shadow + k * op->bytes, op->bytes, value);
        else if (emu_is_host_address(op->space, address) && value.computed &&
                 !emu_report_finding(warp, op->insn, lane, EMU_FINDING_HOST, EMU_TO_HOST,
                                     emu_origin_text(warp->block->exec->shadows, value.origin)))
            return false;
    }
    return true;
}

static bool store_lane(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                       uint64_t address, const struct emu_access *access, struct transfer *t)
{
    if (!mark(warp, op, lane, address, access, t))
        return false;
    for (unsigned k = 0; k + 1u < op->src_count; k++)
        write_one(op, access->host + k * op->bytes,
                  value_of(t->values[k], op->src[k + 1].want, lane));
    return true;
}

// Whether memory already has the lane's values: then a store of them is no race with another.
static bool holds(const unsigned char *host, const struct emu_op *op, const struct transfer *t,
                  unsigned lane)
{
    unsigned char bytes[8];
    for (unsigned k = 0; t->use == EMU_USE_STORE && k + 1u < op->src_count; k++) {
        write_element(bytes, op->bytes, value_of(t->values[k], op->src[k + 1].want, lane));
        if (memcmp(bytes, host + k * op->bytes, op->bytes))
            return false;
    }
    return t->use == EMU_USE_STORE;
}

static bool lane_by_lane(struct emu_warp *warp, const struct emu_op *op, uint32_t mask,
                         unsigned char *frame, struct transfer *t)
{
    alignas(64) uint64_t scratch[EMU_LANES];
    const uint64_t *address = emu_addresses(warp, frame, op, scratch);
    if (op->strong)
        emu_race_atomic(warp, op);
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        struct emu_access access;
        if (!emu_lane_access(warp, op, i, address[i], t->total, t->use, &access))
            return false;
        if (access.shared && warp->block->race &&
            !emu_race_access(warp, op, i, (uint32_t)(access.host - warp->block->shared), t->total,
                             t->use, holds(access.host, op, t, i)))
            return false;
        if (!(t->use == EMU_USE_LOAD ? load_lane : store_lane)(warp, op, i, address[i], &access, t))
            return false;
    }
    return true;
}

// ---- all lanes ----------------------------------------------------------------------------------

// Once loads have checked as many bytes as the block's shared memory has, all of it is checked: by
// then it may be defined, and stay so.
bool emu_shared_defined(struct emu_block *block, uint32_t bytes)
{
    const struct emu_exec *exec = block->exec;
    if (block->shared_defined)
        return true;
    block->shared_checked += bytes;
    if (block->shared_checked < exec->shared_bytes)
        return false;
    block->shared_checked = 0;
    return block->shared_defined = exec->access->all_ones(block->shared_shadow, exec->shared_bytes);
}

static bool all_defined(const struct emu_warp *warp, const struct emu_reach *reach, uint32_t bytes)
{
    const struct emu_access_build *access = warp->block->exec->access;
    if (!reach->shadow || (reach->shared && emu_shared_defined(warp->block, bytes * EMU_LANES)))
        return true;
    return reach->in_row ? access->all_ones(reach->shadow, bytes * EMU_LANES)
                         : access->each_ones(reach->shadow, reach->away, bytes);
}

static bool no_race(struct emu_warp *warp, const struct emu_op *op, uint32_t mask,
                    const struct emu_reach *reach, uint32_t bytes, enum emu_use use)
{
    return !reach->shared || !warp->block->race ||
           emu_race_lanes(warp, op, mask, (uint32_t)(reach->host - warp->block->shared),
                          reach->away, bytes, use);
}

// Element k of each lane, to all lanes of `to`.
static void load_element(const struct emu_warp *warp, const struct emu_op *op,
                         const struct emu_reach *reach, unsigned k, void *to)
{
    const unsigned char *host = reach->host + (size_t)k * op->bytes;
    if (reach->in_row && op->dst_count == 1 && op->bytes == 4)
        memcpy(to, host, sizeof(uint32_t) * EMU_LANES);
    else if (reach->in_row && op->dst_count == 1 && op->bytes == 8)
        memcpy(to, host, sizeof(uint64_t) * EMU_LANES);
    else
        warp->block->exec->access->load(to, host, reach->away, op->bytes);
}

static bool load_lanes(struct emu_warp *warp, const struct emu_op *op, uint32_t mask,
                       unsigned char *frame, uint32_t *init, uint32_t total)
{
    uint64_t out[8][EMU_LANES];
    struct emu_undefined_lanes u[8];
    struct transfer t = { .use = EMU_USE_LOAD, .total = total, .out = out, .u = u };
    if (!lane_by_lane(warp, op, mask, frame, &t))
        return false;
    for (unsigned k = 0; k < op->dst_count; k++)
        emu_put_longs(frame, init, &op->dst[k], mask, out[k]);
    for (unsigned k = 0; t.open && k < op->dst_count; k++)
        emu_undefined_put(warp, init, &op->dst[k], t.open, &u[k]);
    return true;
}

bool emu_do_load(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    uint32_t total = (uint32_t)op->bytes * op->dst_count;
    struct emu_reach reach;
    if (op->strong || !emu_reach_all(warp, frame, op, mask, total, &reach) ||
        !all_defined(warp, &reach, total) ||
        !no_race(warp, op, mask, &reach, total, EMU_USE_LOAD) ||
        !emu_constant_lanes(warp, op, mask, &reach, total, EMU_USE_LOAD))
        return load_lanes(warp, op, mask, frame, init, total);
    const bool whole = mask == warp->exists;
    for (unsigned k = 0; k < op->dst_count; k++) {
        const struct emu_value *value = &op->dst[k];
        alignas(64) uint64_t out[EMU_LANES];
        if (value->place == EMU_AT_SINK)
            continue;
        if (whole && value->direct) {
            load_element(warp, op, &reach, k, frame + value->at);
            if (init)
                init[value->reg] |= mask;
            continue;
        }
        load_element(warp, op, &reach, k, out);
        emu_put(frame, init, value, mask, out);
    }
    return true;
}

static void scatter(unsigned char *host, const int32_t *away, uint32_t mask, unsigned bytes,
                    const void *from, uint8_t want)
{
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        write_element(host + away[i], bytes, value_of(from, want, i));
    }
}

static void scatter_row(unsigned char *host, unsigned bytes, unsigned step, const void *from)
{
    const uint32_t *words = from;
    const uint64_t *longs = from;
    if (bytes == step && bytes >= 4) {
        memcpy(host, from, (size_t)bytes * EMU_LANES);
        return;
    }
    for (unsigned i = 0; i < EMU_LANES; i++)
        write_element(host + (size_t)i * step, bytes, bytes == 8 ? longs[i] : words[i]);
}

bool emu_do_store(struct emu_warp *warp, const struct emu_op *op, uint32_t mask)
{
    const struct emu_program *program = warp->block->exec->program;
    unsigned char *frame = emu_frame(warp, warp->depth, program, warp->code);
    const uint32_t *init = emu_init(warp, warp->depth, program, warp->code);
    alignas(64) uint64_t scratch[8][EMU_LANES];
    const void *values[8];
    uint32_t open = 0;
    unsigned count = op->src_count - 1u;
    uint32_t total = op->bytes * count;
    for (unsigned k = 0; k < count; k++)
        values[k] = emu_fetch(warp, frame, &op->src[k + 1], scratch[k]);
    for (unsigned k = 0; k < count; k++)
        open |= emu_undefined_in(init, &op->src[k + 1], mask);
    struct transfer t = { .use = EMU_USE_STORE, .total = total, .values = values };
    if (open) {
        struct emu_undefined_lanes u[8];
        for (unsigned k = 0; k < count; k++)
            emu_undefined_fetch(warp, init, op, &op->src[k + 1], mask, &u[k]);
        t.u = u;
        return lane_by_lane(warp, op, mask, frame, &t);
    }
    struct emu_reach reach;
    if (op->space == EMU_PARAM || op->strong ||
        !emu_reach_all(warp, frame, op, mask, total, &reach) ||
        !no_race(warp, op, mask, &reach, total, EMU_USE_STORE) ||
        !emu_constant_lanes(warp, op, mask, &reach, total, EMU_USE_STORE))
        return lane_by_lane(warp, op, mask, frame, &t);
    for (unsigned k = 0; k < count; k++) {
        unsigned char *host = reach.host + (size_t)k * op->bytes;
        if (reach.in_row)
            scatter_row(host, op->bytes, total, values[k]);
        else
            scatter(host, reach.away, mask, op->bytes, values[k], op->src[k + 1].want);
    }
    if (!reach.shadow)
        return true;
    if (reach.in_row) {
        memset(reach.shadow, EMU_SHADOW_DEFINED, (size_t)total * EMU_LANES);
        return true;
    }
    for (uint32_t m = mask; m; m &= m - 1)
        memset(reach.shadow + reach.away[emu_first(m)], EMU_SHADOW_DEFINED, total);
    return true;
}

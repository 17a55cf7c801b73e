// SPDX-License-Identifier: MIT
// Addresses: which memory they are in, and whether a lane may go there.
#include "warp.h"

struct emu_span emu_span_of(const uint64_t *address, uint32_t mask, uint64_t step)
{
    struct emu_span s = { UINT64_MAX, 0, 0, false };
    if (mask == UINT32_MAX) {
        uint64_t bits = 0, off = 0;
        for (unsigned i = 0; i < EMU_LANES; i++) {
            bits |= address[i];
            off |= address[i] ^ (address[0] + i * step);
        }
        s.bits = bits;
        if (off == 0 && address[31] >= address[0]) {
            s.least = address[0];
            s.most = address[31];
            s.in_row = true;
            return s;
        }
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t a = address[emu_first(m)];
        s.least = a < s.least ? a : s.least;
        s.most = a > s.most ? a : s.most;
        s.bits |= a;
    }
    return s;
}

static const struct emu_region *find_allocation(struct emu_worker *worker, uint64_t address)
{
    for (unsigned i = 0; i < EMU_REGIONS; i++)
        if (address - worker->regions[i].start < worker->regions[i].bytes)
            return &worker->regions[i];
    struct emu_region found = { 0 };
    enum emu_access_fault fault;
    if (!emu_memory_find(worker->exec->memory, address, &found.start, &found.bytes))
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
    // Parameters are only read.
    struct emu_region region = { start, exec->launch->entry->param_bytes,
                                 (unsigned char *)(uintptr_t)exec->launch->params, NULL };
    return region;
}

bool emu_common_region(struct emu_warp *warp, unsigned space, const struct emu_span *s,
                       uint32_t bytes, struct emu_region *region, bool *shared)
{
    const struct emu_region *found;
    *shared = space == EMU_SHARED;
    if (space == EMU_GENERIC && s->least >= EMU_SHARED_WINDOW && s->least < EMU_WINDOWS_END) {
        if (s->most - EMU_SHARED_WINDOW >= EMU_WINDOW_SIZE)
            return false;
        *shared = true;
        *region = shared_region(warp->block, EMU_SHARED_WINDOW);
    } else if (space == EMU_SHARED) {
        *region = shared_region(warp->block, 0);
    } else if (space == EMU_PARAM) {
        *region = param_region(warp->block->exec, 0);
    } else if (space == EMU_LOCAL) {
        return false;
    } else {
        found = find_allocation(warp->block->worker, s->least);
        if (!found)
            return false;
        *region = *found;
    }
    return s->least >= region->start && s->most - region->start < region->bytes &&
           bytes <= region->bytes - (s->most - region->start);
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

static bool global_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                          uint64_t address, uint32_t bytes, struct emu_access *access)
{
    struct emu_exec *exec = warp->block->exec;
    enum emu_access_fault fault;
    unsigned char *shadow = NULL;
    access->host = emu_memory_access(exec->memory, address, bytes, &shadow, &fault);
    access->shadow = exec->sanitize ? shadow : NULL;
    return access->host ? true : emu_fault_address(warp, op, lane, address, bytes, fault);
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

static const char *verb(enum emu_use use)
{
    return use == EMU_USE_LOAD ? "load" : use == EMU_USE_STORE ? "store" : "atomic";
}

bool emu_lane_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                     uint64_t address, uint32_t bytes, enum emu_use use, struct emu_access *access)
{
    unsigned space = op->space;
    uint64_t given = address;
    if (address & (bytes - 1))
        return emu_fault(warp, op->insn, lane, EMU_MISALIGNED_ADDRESS,
                         "misaligned %s of %u bytes at 0x%llx", verb(use), (unsigned)bytes,
                         (unsigned long long)address);
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
        return global_access(warp, op, lane, address, bytes, access);
    }
    return ok ? true : emu_fault_window(warp, op, lane, space, given, address, bytes, verb(use));
}

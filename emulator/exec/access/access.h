// SPDX-License-Identifier: MIT
// Accesses to memory, and loads by .nc.
#ifndef PTXGEN_EMULATOR_EXEC_ACCESS_ACCESS_H
#define PTXGEN_EMULATOR_EXEC_ACCESS_ACCESS_H

#include "exec/base/state.h"

// The host bytes of [address, address + bytes) of a state space for one lane, after all checks.
// False after a fault.
bool emu_lane_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                     uint64_t address, uint32_t bytes, enum emu_use use, struct emu_access *access);
// The same, at any alignment.
bool emu_lane_range(struct emu_warp *warp, const struct emu_op *op, unsigned lane, uint64_t address,
                    uint32_t bytes, enum emu_use use, struct emu_access *access);

// Whether it is memory that the host sees immediately.
static inline bool emu_is_host_address(unsigned space, uint64_t address)
{
    return address < EMU_SHARED_WINDOW && space != EMU_SHARED && space != EMU_LOCAL &&
           space != EMU_PARAM;
}

// Finds the memory that lanes access at the first source of the instruction, `bytes` each. False if
// they have to be checked one by one.
bool emu_reach_all(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                   uint32_t mask, uint32_t bytes, struct emu_reach *reach);
// The cached region of the allocation that has the address; NULL: none, or it must be looked up
// each time.
const struct emu_region *emu_find_allocation(struct emu_worker *worker, uint64_t address);
// What the instruction adds to the register of the address.
uint64_t emu_added(const struct emu_value *value);
// Whether all of the block's shared memory is known to be defined, when `bytes` of it are read.
bool emu_shared_defined(struct emu_block *block, uint32_t bytes);
// The operation of the instruction, an atomic one, on an element of memory of integers.
void emu_reduce(const struct emu_insn *insn, unsigned char *host, unsigned bytes, uint64_t x);
uint64_t emu_read_strong(unsigned char *at, unsigned bytes);
bool emu_shadow_set(const unsigned char *shadow, uint32_t bytes);
// The same, with all bytes initialised, for accesses that other workers may make to the same bytes
// on purpose: atomic, volatile, relaxed and stronger ones.
bool emu_shadow_set_strong(unsigned char *shadow, uint32_t bytes);
void emu_shadow_fill_strong(unsigned char *shadow, uint32_t bytes);
// The addresses of all lanes; `scratch` has room for them.
const uint64_t *emu_addresses(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                              uint64_t *scratch);
// Loads by .nc: see constant.c. The first is false if one of the lanes is at fault, which the other
// reports for each. NULL if host memory is out.
struct emu_constants *emu_constants_create(const char *kernel);
bool emu_constant_lanes(struct emu_warp *warp, const struct emu_op *op, uint32_t mask,
                        const struct emu_reach *reach, uint32_t bytes, enum emu_use use);
bool emu_constant_access(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                         uint64_t address, const unsigned char *host, uint32_t bytes,
                         enum emu_use use);

#endif

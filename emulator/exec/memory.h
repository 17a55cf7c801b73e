// SPDX-License-Identifier: MIT
/// Host memory that the device may reach at its own address: pinned and managed memory.
#ifndef PTXGEN_EMULATOR_EXEC_MEMORY_H
#define PTXGEN_EMULATOR_EXEC_MEMORY_H

#include "exec.h"

#include <pthread.h>

struct emu_host_range;

struct emu_host_ranges {
    _Atomic(struct emu_host_range *) first;
    pthread_mutex_t lock; // of changes
};

void emu_host_ranges_init(struct emu_host_ranges *ranges);
void emu_host_ranges_destroy(struct emu_host_ranges *ranges);
bool emu_host_ranges_add(struct emu_host_ranges *ranges, uint64_t start, uint64_t bytes);
bool emu_host_ranges_remove(struct emu_host_ranges *ranges, uint64_t start);
// The range that holds all of [address, address + bytes). Lock-free; `start` and `size` may be
// NULL.
bool emu_host_ranges_find(struct emu_host_ranges *ranges, uint64_t address, uint64_t bytes,
                          uint64_t *start, uint64_t *size);

#endif

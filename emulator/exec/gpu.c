// SPDX-License-Identifier: MIT
// The GPUs that can be emulated, and their occupancy.
#include "exec/base/exec.h"

#include <stddef.h>

static const struct emu_gpu gpus[] = {
    // sm, SMs, threads, blocks, shared, opt-in, reserved, unit, L2, bus, memory kHz, kHz
    { 70, 80, 2048, 32, 98304, 98304, 0, 256, 6 << 20, 4096, 877000, 1530000 },
    { 72, 8, 2048, 32, 98304, 98304, 0, 256, 512 << 10, 256, 1377000, 1377000 },
    { 75, 40, 1024, 16, 65536, 65536, 0, 256, 4 << 20, 256, 5001000, 1590000 },
    { 80, 108, 2048, 32, 167936, 166912, 1024, 128, 40 << 20, 5120, 1215000, 1410000 },
    { 86, 84, 1536, 16, 102400, 101376, 1024, 128, 6 << 20, 384, 9751000, 1695000 },
    { 87, 16, 1536, 16, 167936, 166912, 1024, 128, 4 << 20, 256, 1300000, 1300000 },
    { 89, 142, 1536, 24, 102400, 101376, 1024, 128, 96 << 20, 384, 9001000, 2490000 },
    { 90, 132, 2048, 32, 233472, 232448, 1024, 128, 60 << 20, 6016, 3201000, 1980000 },
    { 100, 148, 2048, 32, 233472, 232448, 1024, 128, 126 << 20, 8192, 3996000, 1965000 },
    { 103, 160, 2048, 32, 233472, 232448, 1024, 128, 126 << 20, 8192, 3996000, 1965000 },
    { 120, 170, 1536, 24, 102400, 101376, 1024, 128, 96 << 20, 512, 14001000, 2407000 },
    { 121, 48, 1536, 24, 102400, 101376, 1024, 128, 24 << 20, 256, 4266000, 2418000 },
};

const struct emu_gpu *emu_gpu_of(int sm)
{
    for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++)
        if (gpus[i].sm == sm)
            return &gpus[i];
    return NULL;
}

uint32_t emu_dynamic_start(const struct emu_module *module, const struct emu_function *entry)
{
    uint32_t align = 16;
    for (uint32_t i = 0; i < module->symbol_count; i++) {
        const struct emu_symbol *s = &module->symbols[i];
        if (s->space == EMU_SHARED && s->is_extern && s->align > align && s->align <= 4096)
            align = s->align;
    }
    return (entry->shared_bytes + align - 1) / align * align;
}

uint64_t emu_shared_bytes(const struct emu_module *module, const struct emu_function *entry,
                          uint64_t dynamic)
{
    return dynamic ? emu_dynamic_start(module, entry) + dynamic : entry->shared_bytes;
}

int emu_blocks_per_sm(const struct emu_gpu *gpu, uint64_t threads, uint64_t shared)
{
    uint64_t warps = (threads + EMU_LANES - 1) / EMU_LANES, unit = (uint64_t)gpu->shared_unit;
    uint64_t most = (uint64_t)gpu->blocks_per_sm;
    uint64_t taken = (shared + (uint64_t)gpu->shared_reserved + unit - 1) / unit * unit;
    if (threads == 0 || shared > (uint64_t)gpu->shared_optin)
        return 0;
    if (most > (uint64_t)gpu->threads_per_sm / EMU_LANES / warps)
        most = (uint64_t)gpu->threads_per_sm / EMU_LANES / warps;
    if (taken && most > (uint64_t)gpu->shared_per_sm / taken)
        most = (uint64_t)gpu->shared_per_sm / taken;
    return (int)most;
}

uint64_t emu_shared_for_blocks(const struct emu_gpu *gpu, uint64_t blocks)
{
    uint64_t unit = (uint64_t)gpu->shared_unit, reserved = (uint64_t)gpu->shared_reserved;
    uint64_t each = blocks ? (uint64_t)gpu->shared_per_sm / blocks / unit * unit : 0;
    each = each > reserved ? each - reserved : 0;
    return each < (uint64_t)gpu->shared_optin ? each : (uint64_t)gpu->shared_optin;
}

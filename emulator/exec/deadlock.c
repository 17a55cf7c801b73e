// SPDX-License-Identifier: MIT
// The report of a block in which no lane can run: who waits where.
#include "exec/async/async.h"
#include "exec/check/report.h"
#include "warps.h"

// Lists which lanes wait where. Lanes of one warp that wait for the same are listed together.
static void append_waiting(struct emu_exec *exec, const struct emu_warp *warp)
{
    uint32_t lanes = warp->live & warp->waiting;
    while (lanes) {
        unsigned first = emu_first(lanes);
        uint32_t same = 0;
        for (uint32_t m = lanes; m; m &= m - 1) {
            unsigned i = emu_first(m);
            if (warp->lane_pc[i] == warp->lane_pc[first] &&
                warp->lane_code[i] == warp->lane_code[first] &&
                warp->wait_mask[i] == warp->wait_mask[first])
                same |= 1u << i;
        }
        lanes &= ~same;
        uint32_t line =
            exec->program->codes[warp->lane_code[first]].ops[warp->lane_pc[first]].insn->line;
        char phase[192 + EMU_SOURCE] = "", source[EMU_SOURCE];
        emu_beside_line(exec->launch->module, line, source);
        if (warp->wait[first] == EMU_WAIT_PHASE)
            emu_mbarrier_describe(warp->block, warp->wait_mask[first], phase, sizeof(phase));
        if (*phase)
            emu_report_append(exec, "; warp %u lanes 0x%08x wait for %s, line %u%s",
                              (unsigned)warp->index, (unsigned)same, phase, (unsigned)line, source);
        else if (warp->wait[first] == EMU_WAIT_BARRIER)
            emu_report_append(exec, "; warp %u lanes 0x%08x wait at barrier %u, line %u%s",
                              (unsigned)warp->index, (unsigned)same,
                              (unsigned)warp->wait_mask[first], (unsigned)line, source);
        else
            emu_report_append(
                exec, "; warp %u lanes 0x%08x wait for the lanes of membermask 0x%08x, line %u%s",
                (unsigned)warp->index, (unsigned)same, (unsigned)warp->wait_mask[first],
                (unsigned)line, source);
    }
}

bool emu_fault_deadlock(struct emu_block *block)
{
    struct emu_exec *exec = block->exec;
    bool barrier = false, phase = false;
    for (uint32_t w = 0; w < block->warp_count; w++)
        for (uint32_t m = block->warps[w].waiting & block->warps[w].live; m; m &= m - 1) {
            barrier = barrier || block->warps[w].wait[emu_first(m)] == EMU_WAIT_BARRIER;
            phase = phase || block->warps[w].wait[emu_first(m)] == EMU_WAIT_PHASE;
        }
    if (!emu_report_begin(exec, EMU_TIMEOUT))
        return false;
    emu_report_append(exec,
                      "deadlock: %s; kernel %s, block (%u,%u,%u), %u of %u threads have ended",
                      phase     ? "a phase of an mbarrier never completes"
                      : barrier ? "divergent barrier, not reached by all"
                                : "lanes wait for each other",
                      exec->launch->entry->name, (unsigned)block->id[0], (unsigned)block->id[1],
                      (unsigned)block->id[2], (unsigned)block->exited, (unsigned)block->threads);
    for (uint32_t w = 0; w < block->warp_count; w++)
        append_waiting(exec, &block->warps[w]);
    emu_report_end(exec);
    return false;
}

// SPDX-License-Identifier: MIT
// Lists of asynchronous operations that are under way: those of a warp (copy.c) and of a block
// (bulk.c). An operation is done when a thread waits for it.
#include "async.h"
#include "exec/check/report.h"

#include <stdlib.h>

bool emu_pending_add(struct emu_exec *exec, struct emu_pending *list, const struct emu_async *async)
{
    if (list->count == list->room) {
        const uint32_t room = list->room ? 2 * list->room : 4 * EMU_LANES;
        struct emu_async *more = realloc(list->at, room * sizeof(*more));
        if (!more)
            return emu_fault_launch(exec, EMU_OUT_OF_MEMORY,
                                    "no host memory for %u asynchronous copies", (unsigned)room);
        list->at = more;
        list->room = room;
    }
    list->at[list->count++] = *async;
    return true;
}

bool emu_pending_finish(struct emu_pending *list, const struct emu_ending *ending)
{
    uint32_t left = 0;
    bool fine = true;
    for (uint32_t k = 0; k < list->count; k++) {
        const struct emu_async async = list->at[k];
        if (ending->ends(&async, ending))
            fine = fine && ending->finish(&async);
        else
            list->at[left++] = async;
    }
    list->count = left;
    return fine;
}

bool emu_ends_with_group(const struct emu_async *async, const struct emu_ending *ending)
{
    return async->warp == ending->warp && async->mbarrier == EMU_NO_MBARRIER &&
           ending->lanes >> async->lane & 1 &&
           (ending->open || async->batch + ending->kept < ending->batches[async->lane]);
}

bool emu_ends_before(const struct emu_async *async, const struct emu_ending *ending)
{
    return ending->lanes >> async->lane & 1 && async->order <= ending->order;
}

bool emu_ends_at_mbarrier(const struct emu_async *async, const struct emu_ending *ending)
{
    return async->mbarrier == ending->mbarrier;
}

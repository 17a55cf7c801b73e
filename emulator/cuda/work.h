// SPDX-License-Identifier: MIT
// Pieces of work, run now or kept in a graph.
#ifndef PTXGEN_EMULATOR_CUDA_WORK_H
#define PTXGEN_EMULATOR_CUDA_WORK_H

#include "state.h"

CUresult api_work_check(const struct api_work *work);
// Without the lock, in the engine.
CUresult api_work_run(const struct api_work *work, char *report, size_t report_size);
CUresult api_work_run_all(CUcontext context, const struct api_work *works, size_t count);
CUresult api_work_copy(struct api_work *to, const struct api_work *from);
void api_work_clear(struct api_work *work);
// Without the lock, in the engine.
void api_event_record(CUevent event);
// The event is recorded now, with the lock.
void api_event_stamp(CUevent event);

#endif

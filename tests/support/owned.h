// SPDX-License-Identifier: MIT
/// An object that is destroyed where its block ends, the newest first:
///
///     OWNED(ptx_buffer) *memory = ptx_buffer_create(device, bytes);
///
/// Declare one object at a time: the attribute applies to every name of a declaration.
/// It may be destroyed earlier, which leaves NULL, and then made again. What a failed assertion
/// leaves stays allocated.
#ifndef PTXGEN_TESTS_OWNED_H
#define PTXGEN_TESTS_OWNED_H

#include <stdlib.h>

#define OWNED(type)        __attribute__((cleanup(OWNED_##type))) type
#define OWNED_STRUCT(type) __attribute__((cleanup(OWNED_##type))) struct type
/// What malloc() returned.
#define ALLOCATED(type)    __attribute__((cleanup(owned_free))) type

#define OWNED_emu_memory         emu_memory_destroy
#define OWNED_emu_module         emu_module_destroy
#define OWNED_ptx_block_plan     ptx_block_plan_destroy
#define OWNED_ptx_buffer         ptx_buffer_destroy
#define OWNED_ptx_builder        ptx_builder_destroy
#define OWNED_ptx_clip_plan      ptx_clip_plan_destroy
#define OWNED_ptx_device         ptx_device_close
#define OWNED_ptx_graph          ptx_graph_destroy
#define OWNED_ptx_module         ptx_module_unload
#define OWNED_ptx_muon_plan      ptx_muon_plan_destroy
#define OWNED_ptx_operation_call ptx_operation_call_destroy
#define OWNED_ptx_operations     ptx_operations_destroy
#define OWNED_ptx_rule           ptx_rule_destroy
#define OWNED_ptx_step_plan      ptx_step_plan_destroy

static inline void owned_free(void *pointer)
{
    free(*(void **)pointer);
}

#endif

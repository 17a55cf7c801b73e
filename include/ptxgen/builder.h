// SPDX-License-Identifier: MIT
/// Layer 1: write a PTX module.
///
/// A builder takes typed calls, keeps a list of instructions, checks it, and prints the text once
/// at the end. It knows nothing of CUDA and touches no file.
///
/// Here is the builder itself. entry.h has entries with their parameters and arrays; ops.h values
/// and instructions; convert.h conversions; memory.h pointers, loads, stores and atomics; threads.h
/// barriers and what warps do; control.h blocks and branches. This header includes them all.
///
/// Errors stick: the first one is kept, later calls do nothing and return poisoned values, and
/// ptx_builder_finish() returns NULL. So a kernel is written straight down and checked once.
///
/// A builder is used by one thread at a time; different builders are independent. The same calls
/// give the same bytes on every machine, compiler and locale - provided that at most one emitting
/// call stands among the arguments of another, since C leaves their order open.
#ifndef PTXGEN_BUILDER_H
#define PTXGEN_BUILDER_H

#include <ptxgen/control.h>
#include <ptxgen/convert.h>
#include <ptxgen/entry.h>
#include <ptxgen/memory.h>
#include <ptxgen/ops.h>
#include <ptxgen/threads.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

// ---- the builder --------------------------------------------------------------------------------

struct ptx_builder_params {
    struct ptx_target target; ///< zero: sm_80
    /// PTX ISA of the text, 80 for 8.0; an instruction that needs more is an error, and so is a
    /// version that never was (7.9, say). Zero: the least version that covers the target and every
    /// instruction used.
    int isa;
    /// Where memory comes from: resize `memory` (NULL to allocate) to `bytes` (0 to free), as
    /// realloc does. NULL: the C library. Called a few times a module, for pieces of some KiB, not
    /// once for every call that emits.
    void *(*resize)(void *user, void *memory, size_t bytes);
    void *user;
};

/// A new builder; NULL parameters for the defaults. NULL only if memory runs out; every function
/// takes a NULL builder, so that this, too, is seen at ptx_builder_finish().
PTXGEN_API ptx_builder *ptx_builder_create(const struct ptx_builder_params *params);
/// Frees the builder with all that it returned, and sets *builder to NULL.
PTXGEN_API void ptx_builder_destroy(ptx_builder **builder);
/// Checks the module and returns its text, or NULL if anything failed: ptx_builder_error() says
/// what. The text lives as long as the builder. Nothing can be added afterwards: a call that tries
/// is an error that ptx_builder_error() names, and this function keeps returning the finished text.
PTXGEN_API const char *ptx_builder_finish(ptx_builder *b);
/// The first error, or NULL. Names the entry, the call, what it got and what it wanted. Lives as
/// long as the builder.
PTXGEN_API const char *ptx_builder_error(const ptx_builder *b);
/// Reports an error of the caller's own, under the same rule that the first one stays.
PTXGEN_API void ptx_builder_fail(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);
/// Least PTX ISA of what has been written (80 for 8.0), or the pinned one.
PTXGEN_API int ptx_builder_isa(const ptx_builder *b);
/// The instruction or target that forces that version, as text: "cvt.rn.bf16.f32"; "pinned" where
/// ptx_builder_params.isa said it. Never NULL.
PTXGEN_API const char *ptx_builder_isa_reason(const ptx_builder *b);
/// The target that the text is for.
PTXGEN_API struct ptx_target ptx_builder_target(const ptx_builder *b);
/// Most bytes that the builder has held so far, its text included.
PTXGEN_API size_t ptx_builder_peak_bytes(const ptx_builder *b);

PTXGEN_END

#endif

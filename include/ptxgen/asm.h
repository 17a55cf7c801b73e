// SPDX-License-Identifier: MIT
/// Part of builder.h: PTX text in a kernel and beside it, for what the builder has no call for. The
/// rules of builder.h apply. docs/asm.md has examples.
///
///     ptx_val d = ptx_asm(b, "dp2a.lo.s32.u32 %0, %1, %2, %3;", .result = { PTX_S32 },
///                         .in = { x, y, sum }, .isa = 60, .sm = 70, .pure = true);
///
/// The builder reads the text as far as its checks need it, and the driver's compiler all of it.
/// What a caller does not say about a text, the builder takes with care: that it reads and writes
/// any memory, that its results differ between threads, that it needs all threads where an
/// instruction of it may need them. What a caller says is held against what is known of the
/// instructions of PTX ISA 9.0; of other instructions it is trusted. A text is never moved, merged
/// or removed by the builder.
#ifndef PTXGEN_ASM_H
#define PTXGEN_ASM_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/types.h>

PTXGEN_BEGIN

/// The memory that a text may access.
typedef enum ptx_memory {
    PTX_MEMORY_ANY, ///< left out
    PTX_MEMORY_NONE,
    PTX_MEMORY_SHARED,
    PTX_MEMORY_GLOBAL,
} ptx_memory;

/// The threads that must execute a text together. It is refused in code that only some of them may
/// reach, as barriers are.
typedef enum ptx_convergence {
    /// Left out: the most that an instruction needs. bar, barrier, call and unknown instructions
    /// need the whole block, unless the text is pure; instructions with .sync or .aligned need the
    /// whole warp; others need nobody else. An instruction that needs others may then have no
    /// guard, and no branch of the text may skip it: there, say what is needed.
    PTX_CONVERGENCE_TEXT,
    PTX_CONVERGENCE_NONE, ///< each thread for itself; or a mask in the text says which lanes
    PTX_CONVERGENCE_WARP,
    PTX_CONVERGENCE_BLOCK,
} ptx_convergence;

/// How the results may differ between threads, for conditions that barriers and warp operations
/// depend on. Some texts read %tid, %laneid or another register that differs between threads, or
/// have an instruction whose results differ (atom, activemask, ld.local). They are refused with
/// PTX_DIVERGENCE_OPERANDS and PTX_DIVERGENCE_NONE, unless an instruction can make threads agree,
/// as vote and shfl.idx can. Beside %laneid or such an instruction, PTX_DIVERGENCE_WARPS needs
/// that, too, or the .convergence of a warp or block.
typedef enum ptx_divergence {
    PTX_DIVERGENCE_ANY,      ///< left out: between all threads
    PTX_DIVERGENCE_OPERANDS, ///< only where an operand differs
    PTX_DIVERGENCE_WARPS,    ///< between warps, not within a warp
    PTX_DIVERGENCE_NONE,     ///< not within a block
} ptx_divergence;

/// Operands that a text can have.
enum {
    PTX_ASM_MAX_RESULTS = 16,
    PTX_ASM_MAX_INOUTS = 64,
    PTX_ASM_MAX_INPUTS = 32,
    PTX_ASM_MAX_ADDRESSES = 4,
};

/// The fields after the text can be left out. `result`, `inout`, `in` and `at` end at the first
/// element that is not set. In this order their elements are the operands %0, %1, ... of the text;
/// each must occur in it.
struct ptx_asm_params {
    /// Statements that end with `;`, in ASCII. `%%` is a percent sign (%%laneid), `%=` a number of
    /// its own for each call (done_%=:). In { } the text can declare registers (without %%) and
    /// labels of its own. It cannot return, nor branch out of the text.
    const char *text;
    /// Types of new values, in registers of their own. The text sets each on each way through it:
    /// not under a guard alone, nor where a branch of the text skips it.
    ptx_type result[PTX_ASM_MAX_RESULTS];
    ptx_val inout[PTX_ASM_MAX_INOUTS]; ///< variables of ptx_var() that the text reads and sets
    /// Values of any type, in registers, which the text only reads. Constants that must be literals
    /// stand in the text. Numbers have a type: ptx_u32(5).
    ptx_val in[PTX_ASM_MAX_INPUTS];
    /// Pointers, for addresses: with ptx_at(b, p, 4) as %1, [%1] becomes [%rd2+16]. `writes`
    /// must exclude the memory of a readonly pointer, and `reads` that of a writeonly one. The
    /// state space of an instruction must suit its pointers.
    ptx_ptr at[PTX_ASM_MAX_ADDRESSES];
    int isa;     ///< least PTX ISA version of the text, 80 for 8.0; 0: any. Nothing else says it
    int sm;      ///< least target, 90 for sm_90; 0: any, as what is below 70. Nothing else says it
    char suffix; ///< with `sm`: 'a': that target with 'a' alone; 'f': its family of targets; 0: all
    /// The results depend on the operands alone, and there are no other effects: short for no
    /// `reads`, no `writes`, PTX_DIVERGENCE_OPERANDS, and no need of other threads. Most arithmetic
    /// is pure.
    bool pure;
    ptx_memory reads;
    ptx_memory writes;
    ptx_convergence convergence;
    ptx_divergence divergence;
};

/// Appends the text. Returns its single result, or a poisoned value if it has none. Errors, among
/// others: an operand that the text lacks or that the call lacks, a statement without its end,
/// braces that do not match, an input that the text sets, a result that it does not set, facts that
/// the text's instructions contradict, a target or pinned ISA below the least.
PTXGEN_API ptx_val ptx_asm_emit(ptx_builder *b, struct ptx_asm_params params);
#define ptx_asm(b, ...) ptx_asm_emit(b, PTXGEN_STRUCT(ptx_asm_params, .text = __VA_ARGS__))
/// The same for any number of results, which `out` must have room for. After an error they are
/// poisoned: ptx_asm_many(b, d, "shfl.sync.idx.b32 %0|%1, ...;", .result = { PTX_B32, PTX_PRED }).
PTXGEN_API void ptx_asm_many_emit(ptx_builder *b, ptx_val *out, struct ptx_asm_params params);
#define ptx_asm_many(b, out, ...)                                                                  \
    ptx_asm_many_emit(b, out, PTXGEN_STRUCT(ptx_asm_params, .text = __VA_ARGS__))

/// Names that a module's text can declare.
enum { PTX_ASM_MAX_NAMES = 16 };

struct ptx_asm_module_params {
    /// Variables and functions with their ends, `;` or a body, in ASCII. There are no operands: a
    /// percent sign is itself.
    const char *text;
    /// All names that the text declares outside of bodies and parentheses, and no others. Entries,
    /// parameters and other texts cannot have them.
    const char *declares[PTX_ASM_MAX_NAMES];
    int isa; ///< as in struct ptx_asm_params
    int sm;
    char suffix;
};

/// Puts the text into the module, before the entry that is open or comes next:
/// ptx_asm_module(b, ".global .align 4 .u32 counter;", .declares = { "counter" }). Texts of
/// ptx_asm() can name what it declares, and ptx_asm_ptr() gives a pointer to it.
PTXGEN_API void ptx_asm_module_emit(ptx_builder *b, struct ptx_asm_module_params params);
#define ptx_asm_module(b, ...)                                                                     \
    ptx_asm_module_emit(b, PTXGEN_STRUCT(ptx_asm_module_params, .text = __VA_ARGS__))
/// A pointer to the variable `name` that a text of the module declares in this space, global or
/// const; another space, and a function, are errors. Its elements have this type; their number is
/// not known. The text must align it as its accesses need it.
PTXGEN_API ptx_ptr ptx_asm_ptr(ptx_builder *b, ptx_type type, ptx_space space, const char *name);

PTXGEN_END

#endif

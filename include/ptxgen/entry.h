// SPDX-License-Identifier: MIT
/// Part of builder.h: entries, their parameters and arrays. The rules of builder.h apply.
#ifndef PTXGEN_ENTRY_H
#define PTXGEN_ENTRY_H

#ifdef __GNUC__ // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/control.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// What an entry is called, and the blocks that it is launched with.
struct ptx_entry_params {
    const char *name;  ///< a PTX identifier, unique in the module and different from the parameters
    uint32_t block[3]; ///< .reqntid: the block must have exactly this shape; zero: any shape
    uint32_t max_block[3];  ///< .maxntid: upper bound of the block; not together with `block`
    uint32_t min_blocks;    ///< .minnctapersm: blocks wanted on an SM; needs `block` or `max_block`
    uint32_t max_registers; ///< .maxnreg: registers of a thread, 24 to 255; 0: as the compiler
                            ///< likes. Not together with `min_blocks`, which bounds them, too
};

/// Opens an entry (a kernel); use the block macro ptx_entry(b, "name", .block = { 256 }) { ... }.
PTXGEN_API int ptx_entry_begin(ptx_builder *b, struct ptx_entry_params params);
PTXGEN_API int ptx_entry_end(ptx_builder *b, int block);
#define ptx_entry(b, ...)                                                                          \
    PTXGEN_BLOCK(ptx_entry_begin(b, PTXGEN_NAMED(ptx_entry_params, __VA_ARGS__)), ptx_entry_end, b)

/// Documentation of the values that a host may pass for a parameter, which nothing in the kernel
/// checks; bits that can be combined. It is printed with the text, and ptx_builder_param() returns
/// it.
enum ptx_range {
    PTX_RANGE_ANY = 0,
    PTX_RANGE_NOT_NAN = 1,
    PTX_RANGE_FINITE = 2,
    PTX_RANGE_POSITIVE = 4,
    PTX_RANGE_NOT_NEGATIVE = 8,
};

/// One declared parameter of an entry. The builder copies the strings; the strings that
/// ptx_builder_param() returns live as long as the builder.
struct ptx_param_info {
    const char *name;
    const char *meaning; ///< printed as a comment beside the declaration
    const char *length;  ///< pointers: number of elements: the name of an integer parameter, a
                         ///< decimal integer, or "blocks" for one element a block; else refused
    const char *preset;  ///< scalars: usual value, as text
    const char *low; ///< scalars: inclusive bounds, each a decimal number or the name of another
                     ///< parameter; anything else is refused
    const char *high;
    const char *format; ///< pointers: what integer elements are codes of, "e4m3"; NULL: of nothing
    uint8_t range;      ///< scalars: enum ptx_range
    /// Pointers: the kernel never stores through it; or never loads through it. Checked for all
    /// calls that take the pointer, and for .at of ptx_asm(). Not checked for its address, which
    /// ptx_ptr_address() gives to functions, to .in of a text, or to ptx_ptr_from().
    bool readonly;
    bool writeonly;
    /// The entry or function does not use the parameter, which its callers pass nevertheless, as
    /// variants of a kernel have the same parameters: `.unused = !causal`. It is not loaded, and a
    /// use of it is an error.
    bool unused;
    /// Pointers: `length` is the name of a number that the host computes, as those of
    /// ptx_kernel_length(), and not of a parameter.
    bool computed_length;
    bool is_pointer; ///< set by ptx_param_ptr()
    uint8_t type;    ///< set by the call: type of the value or of the elements
    uint32_t count;  ///< set by ptx_param_array(): number of elements, else 0
};

/// A parameter passed by value. An entry must use every parameter, but for those with `.unused`.
PTXGEN_API ptx_val ptx_param_emit(ptx_builder *b, ptx_type type, struct ptx_param_info info);
#define ptx_param(b, type, ...) ptx_param_emit(b, type, PTXGEN_NAMED(ptx_param_info, __VA_ARGS__))
/// A pointer to global memory, passed as a 64-bit address.
PTXGEN_API ptx_ptr ptx_param_ptr_emit(ptx_builder *b, ptx_type type, struct ptx_param_info info);
#define ptx_param_ptr(b, type, ...)                                                                \
    ptx_param_ptr_emit(b, type, PTXGEN_NAMED(ptx_param_info, __VA_ARGS__))
/// An array of `count` elements passed by value, read with ptx_load().
PTXGEN_API ptx_ptr ptx_param_array(ptx_builder *b, ptx_type type, const char *name, uint32_t count);
/// Parameter `k` of entry `e`, in order of declaration. False past the last.
PTXGEN_API bool ptx_builder_param(const ptx_builder *b, unsigned e, unsigned k,
                                  struct ptx_param_info *info);

/// An uninitialised array in shared memory, one for each block, aligned to 16 bytes.
PTXGEN_API ptx_ptr ptx_shared(ptx_builder *b, ptx_type type, uint32_t count);
/// The block's dynamic shared memory; the launch gives its size, which no target has above 227 KiB.
/// All arrays that an entry declares this way share the same memory.
PTXGEN_API ptx_ptr ptx_shared_dynamic(ptx_builder *b, ptx_type type);
/// An uninitialised array in local memory, one for each thread, aligned to 16 bytes.
PTXGEN_API ptx_ptr ptx_local(ptx_builder *b, ptx_type type, uint32_t count);

PTXGEN_END

#endif

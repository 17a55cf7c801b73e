// SPDX-License-Identifier: MIT
// A PTX module after parsing: names resolved to numbers, labels to instruction indices, modifiers
// to fields. Made when a module is loaded, then read-only, so any number of threads may run it.
#ifndef PTXGEN_EMULATOR_PTX_PROGRAM_H
#define PTXGEN_EMULATOR_PTX_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define EMU_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define EMU_PRINTF(at, first)
#endif

enum { EMU_LANES = 32 }; // threads of a warp: WARP_SZ

// The limits of a program.
enum {
    EMU_SHARED_DEFAULT =
        48 * 1024,              // bytes of shared memory of a block without the opt-in attribute
    EMU_MAX_CONST = 64 * 1024,  // bytes of .const of a module
    EMU_MAX_LOCAL = 512 * 1024, // bytes of .local of a thread
    EMU_MAX_OPERANDS = 16384,   // of a call, on either side; a byte of a structure counts as one
};

enum emu_type {
    EMU_NONE,
    EMU_PRED,
    EMU_U8,
    EMU_U16,
    EMU_U32,
    EMU_U64,
    EMU_S8,
    EMU_S16,
    EMU_S32,
    EMU_S64,
    EMU_B8,
    EMU_B16,
    EMU_B32,
    EMU_B64,
    EMU_F16,
    EMU_BF16,
    EMU_F32,
    EMU_F64,
    EMU_F16X2,
    EMU_BF16X2,
    EMU_E4M3X2, // two floats of 8 bits
    EMU_E5M2X2,
    EMU_U16X2, // two integers of 16 bits
    EMU_S16X2,
    EMU_TF32,  // an f32 with 10 bits of fraction
    EMU_F32X2, // two f32
    EMU_E4M3,  // of mma: floats of 8 bits, integers of 4, bits
    EMU_E5M2,
    EMU_U4,
    EMU_S4,
    EMU_B1,
    EMU_U2, // of cvt.pack
    EMU_S2,
    EMU_B128, // of moves and accesses; a register of it is two of 64 bits
};

// Bits of a type; 1 for predicates.
unsigned emu_bits(enum emu_type type);
// The integer or bit type of twice the width of one of 16 or 32 bits; EMU_NONE for any other type.
enum emu_type emu_twice(enum emu_type type);

static inline bool emu_is_signed(enum emu_type type)
{
    return type >= EMU_S8 && type <= EMU_S64;
}

enum emu_space { EMU_GENERIC, EMU_GLOBAL, EMU_SHARED, EMU_LOCAL, EMU_PARAM, EMU_CONST };

// The rows of isa.def. `mul.lo`, `mul.hi` and `mul.wide` have one each.
enum emu_opcode {
#define INSTRUCTION(opcode, ...) EMU_OP_##opcode,
#include "isa.def"
    EMU_OP_COUNT
};

enum emu_round {
    EMU_ROUND_NONE,
    EMU_RN,
    EMU_RZ,
    EMU_RM,
    EMU_RP,
    EMU_RNI, // to an integer, in conversions
    EMU_RZI,
    EMU_RMI,
    EMU_RPI,
    EMU_RNA, // to nearest, ties away from zero
};

enum emu_compare {
    EMU_EQ,
    EMU_NE,
    EMU_LT,
    EMU_LE,
    EMU_GT,
    EMU_GE,
    EMU_LO, // unsigned
    EMU_LS,
    EMU_HI,
    EMU_HS,
    EMU_EQU, // or unordered
    EMU_NEU,
    EMU_LTU,
    EMU_LEU,
    EMU_GTU,
    EMU_GEU,
    EMU_NUM,
    EMU_NAN,
};

// What tells the forms of one handler or lane function apart: set by a modifier, or by the form in
// isa.def. None is the usual one: shf.clamp, prmt without a mode, dp2a.lo, shfl.idx, cvta to a
// generic address, bar.sync, an addition without a carry in.
enum emu_mode {
    EMU_MODE_NONE,
    EMU_MODE_WRAP,
    EMU_MODE_PRMT_F4E,
    EMU_MODE_PRMT_B4E,
    EMU_MODE_PRMT_RC8,
    EMU_MODE_PRMT_ECL,
    EMU_MODE_PRMT_ECR,
    EMU_MODE_PRMT_RC16,
    EMU_MODE_DP2A_HI,
    EMU_MODE_SHIFTAMT, // bfind
    EMU_MODE_UP,       // shfl
    EMU_MODE_DOWN,
    EMU_MODE_BFLY,
    EMU_MODE_ALL, // vote, match
    EMU_MODE_ANY,
    EMU_MODE_UNI,
    EMU_MODE_BALLOT,
    EMU_MODE_ARRIVE, // bar
    EMU_MODE_INIT,   // mbarrier
    EMU_MODE_INVAL,
    EMU_MODE_EXPECT_TX,
    EMU_MODE_COMPLETE_TX,
    EMU_MODE_ARRIVE_AT,
    EMU_MODE_ARRIVE_EXPECT,
    EMU_MODE_DROP,
    EMU_MODE_DROP_EXPECT,
    EMU_MODE_NOINC,          // cp.async.mbarrier.arrive
    EMU_MODE_BULK_TO_GLOBAL, // cp.async.bulk; else to shared memory
    EMU_MODE_BULK_SHARED,
    EMU_MODE_BULK_REDUCE, // cp.reduce.async.bulk, to global memory
    EMU_MODE_INDIRECT,    // call: the last source is the address of the function
    EMU_MODE_TO,          // cvta from a generic address
    EMU_MODE_ADD_CARRY,   // a sum with a carry in, or a difference without and with one
    EMU_MODE_SUBTRACT,
    EMU_MODE_SUBTRACT_CARRY,
    EMU_MODE_PRODUCT, // f32: how .ftz finds results that round up to the least normal number
    EMU_MODE_PRODUCT_SUM,
    EMU_MODE_QUOTIENT,
    EMU_MODE_RECIPROCAL,
    EMU_MODE_TRANSPOSED,   // ldmatrix, stmatrix; wmma.load, wmma.store of columns
    EMU_MODE_WAIT_PRIMARY, // griddepcontrol
    EMU_MODE_START_DEPENDENTS,
    EMU_MODE_ALLOCATE, // alloca, stacksave, stackrestore
    EMU_MODE_SAVE,
    EMU_MODE_RESTORE,
    EMU_MODE_SPARSE, // mma.sp: half of A's elements, and metadata that says which
    EMU_MODE_SPARSE_ORDERED,
    EMU_MODE_MAP,  // mapa
    EMU_MODE_RANK, // getctarank
};

// Memory order. atom and red are relaxed by default. is_volatile is set only for .volatile.
enum emu_order {
    EMU_WEAK,
    EMU_RELAXED,
    EMU_ACQUIRE,
    EMU_RELEASE,
    EMU_ACQ_REL,
    EMU_SEQ_CST,
};

enum emu_shape {
    EMU_M8N8K4,
    EMU_M8N8K16,
    EMU_M8N8K32,
    EMU_M8N8K128,
    EMU_M16N8K4,
    EMU_M16N8K8,
    EMU_M16N8K16,
    EMU_M16N8K32,
    EMU_M16N8K64,
    EMU_M16N8K128,
    EMU_M16N8K256,
    EMU_M64K8, // of wgmma, for any number of columns
    EMU_M64K16,
    EMU_M64K32,
    EMU_M16N16K16, // of wmma alone, from here on
    EMU_M8N32K16,
    EMU_M32N8K16,
    EMU_M16N16K8,
};

enum emu_bool { EMU_BOOL_NONE, EMU_BOOL_AND, EMU_BOOL_OR, EMU_BOOL_XOR };
enum emu_test { EMU_FINITE, EMU_INFINITE, EMU_NUMBER, EMU_NOTANUMBER, EMU_NORMAL, EMU_SUBNORMAL };
enum emu_atomic {
    EMU_ATOMIC_ADD,
    EMU_ATOMIC_MIN,
    EMU_ATOMIC_MAX,
    EMU_ATOMIC_INC,
    EMU_ATOMIC_DEC,
    EMU_ATOMIC_AND,
    EMU_ATOMIC_OR,
    EMU_ATOMIC_XOR,
    EMU_ATOMIC_EXCH,
    EMU_ATOMIC_CAS,
};

// Special registers; the axis of a vector one is in emu_operand.index.
enum emu_special {
    EMU_TID,
    EMU_NTID,
    EMU_CTAID,
    EMU_NCTAID,
    EMU_LANEID,
    EMU_WARPID,
    EMU_NWARPID,
    EMU_SMID,
    EMU_NSMID,
    EMU_GRIDID,
    EMU_LANEMASK_EQ,
    EMU_LANEMASK_LE,
    EMU_LANEMASK_LT,
    EMU_LANEMASK_GE,
    EMU_LANEMASK_GT,
    EMU_CLOCK,
    EMU_CLOCK_HI,
    EMU_CLOCK64,
    EMU_GLOBALTIMER,
    EMU_GLOBALTIMER_LO,
    EMU_GLOBALTIMER_HI,
    EMU_DYNAMIC_SMEM_SIZE,
    EMU_TOTAL_SMEM_SIZE,
    EMU_ENVREG,
    EMU_CLUSTERID,
    EMU_NCLUSTERID,
    EMU_CLUSTER_CTAID,
    EMU_CLUSTER_NCTAID,
    EMU_CLUSTER_CTARANK,
    EMU_CLUSTER_NCTARANK,
    EMU_IS_EXPLICIT_CLUSTER, // a predicate; the last one of clusters
    EMU_AGGR_SMEM_SIZE,
    EMU_CURRENT_GRAPH_EXEC,
    EMU_PM,
    EMU_RESERVED_SMEM_BEGIN,
    EMU_RESERVED_SMEM_END,
    EMU_RESERVED_SMEM_CAP,
    EMU_RESERVED_SMEM_OFFSET,
};

// The scope of an access or fence. The default is the GPU.
enum emu_scope { EMU_SCOPE_CTA, EMU_SCOPE_CLUSTER, EMU_SCOPE_GPU, EMU_SCOPE_SYS };

enum emu_operand_kind {
    EMU_OPERAND_REGISTER,  // index: register of the function
    EMU_OPERAND_IMMEDIATE, // bits, already in the instruction's operand type
    EMU_OPERAND_SYMBOL,    // address of symbol `index`, plus offset
    EMU_OPERAND_FUNCTION,  // address of function `index`
    EMU_OPERAND_SPECIAL,   // special, and index: its axis, or the number of an %envreg
    EMU_OPERAND_ADDRESS,   // [register index + offset], or [offset] if index is EMU_NO_REGISTER
    EMU_OPERAND_SYMBOL_ADDRESS, // [symbol index + offset]
    EMU_OPERAND_SINK,           // '_', as a destination or as an element of one
};

#define EMU_NO_REGISTER UINT32_MAX

struct emu_operand {
    uint8_t kind;
    uint8_t special;
    bool negated; // a predicate written !p
    uint32_t index;
    int64_t offset;
    uint64_t bits;
};

// The parts of a register that a video instruction names, as .h10 or .b3: how many there are, bits
// of a part, and the number of part k from the right. 0: none is named.
enum { EMU_SELECT_HALVES = 1 << 20 };

static inline unsigned emu_select_count(uint32_t select)
{
    return select >> 16 & 15;
}

static inline unsigned emu_select_bits(uint32_t select)
{
    return select & EMU_SELECT_HALVES ? 16 : 8;
}

static inline unsigned emu_select_part(uint32_t select, unsigned k)
{
    return select >> 4 * k & 15;
}

struct emu_insn {
    const char *letters; // its operands, of the form in isa.def (ptx/isa.h)
    uint16_t opcode;
    uint8_t type;        // the type in the spelling; in cvt and set, the type of the result
    uint8_t source_type; // type of the source in cvt, set, slct; otherwise as `type`
    uint8_t round;
    uint8_t compare;
    uint8_t boolean;     // setp and set with a predicate
    uint8_t test;        // testp
    uint8_t atomic;      // atom, red
    uint8_t space;       // ld, st, atom, red, cvta, isspacep
    uint8_t lanes;       // ld, st, atom, red: 1, 2, 4 or 8; ldmatrix, stmatrix: tiles
    uint8_t factor_type; // mma: of B; that of A is source_type, that of D type
    uint8_t sum_type;    // mma: of C
    uint8_t shape;       // mma, wmma, wgmma: enum emu_shape
    uint8_t eighths;     // wgmma: columns of B, in tiles of eight
    bool ftz, sat, approx, full, nan, is_volatile;
    bool aligned; // barrier.sync.aligned, bar.sync
    bool abs, xorsign, relu, satfinite;
    bool oob;           // fma: +0 for a NaN of memory outside a tensor
    uint32_t select[3]; // video: parts of the result and of the sources, see EMU_SELECT
    bool secondary;     // video: a second operation, with the third source
    bool plus_one;      // vmad.po
    bool negates_product, negates_addend; // vmad
    uint8_t scale;                        // vmad: the result is shifted right by so many bits
    bool noftz;                           // atom, red
    bool no_complete;                     // mbarrier.arrive.noComplete
    bool carry_out;                       // add.cc, addc.cc, sub.cc, subc.cc, mad.cc, madc.cc
    uint8_t mode;                         // enum emu_mode
    uint8_t order;                        // enum emu_order, of ld, st, atom, red and fence
    uint8_t scope;                        // enum emu_scope, of the same
    bool nc; // ld: from memory that no thread writes while the kernel runs
    // Operands lie in emu_function.operands from here on: destinations first, then sources. A
    // vector {a, b} is as many operands as it has lanes; setp p|q and shfl d|p have two
    // destinations. Where the order is not that of the text:
    //   st, red, atom  the address is the first source; then values (cas: compare, then new)
    //   mov            packs 2, 4 or 8 sources into one destination, or unpacks one source into as
    //                  many destinations; each lane has an equal part of the type's bits
    //   bar.red        barrier, then the count if it is written, and the predicate last
    //   cp.async       the addresses in shared and in global memory, the size, and, where they are
    //                  written, the size of the source or the predicate to ignore it
    //   call           results are destinations and arguments are sources, as many as the called
    //                  function has, in its order; in an indirect call the address is the last
    //                  source
    // An integer source register may be wider than the type (ld, st, cvt): its low bits count. A
    // wider destination register is filled with the sign or with zeros.
    uint32_t operands;
    uint16_t dst_count, src_count;
    uint32_t guard; // register of the guard predicate, EMU_NO_REGISTER: none
    bool guard_negated;
    uint32_t target; // bra: instruction index; call: function index, in an indirect call one that
                     // has the same parameters; brx: the first of its targets
    uint32_t target_count; // brx
    uint32_t line;         // in the text, from 1
};

// The sizes of a product of matrices, m x k times k x n. Of wgmma those of a warp, for eight
// columns.
struct emu_sizes {
    unsigned m, n, k;
};
struct emu_sizes emu_sizes_of(enum emu_shape shape);
// Whether the shape is one of wmma, whose fragments only wmma reads.
static inline bool emu_is_opaque(enum emu_shape shape)
{
    return shape >= EMU_M16N16K16;
}

static inline bool emu_is_sparse(const struct emu_insn *insn)
{
    return insn->mode == EMU_MODE_SPARSE || insn->mode == EMU_MODE_SPARSE_ORDERED;
}

// Registers of an operand of ldmatrix, stmatrix (letter 'F'), mma, wmma or wgmma ('A' to 'D').
unsigned emu_fragment_registers(const struct emu_insn *insn, char letter);

struct emu_register {
    const char *name; // "%f3"
    uint8_t type;     // as declared
    bool follows;     // of a parameter with several registers: not the first
};

// A variable: shared, local, const, global or a parameter of an entry. Shared offsets overlap if no
// entry reaches both variables.
struct emu_symbol {
    const char *name;
    uint8_t space;
    uint8_t type;
    uint32_t align;
    uint64_t offset; // within its space: of the block's static shared memory, of a thread's local
                     // memory, of the parameters, of the module's global or const data
    uint64_t bytes;  // 0 for an extern shared array: it begins after the static ones
    bool is_extern;
    bool managed;              // global: the host uses the same address
    const unsigned char *init; // global and const: bytes, or NULL for zeros
};

// Functions that the driver defines and a text declares as .extern.
enum emu_system {
    EMU_SYSTEM_NONE,
    EMU_SYSTEM_VPRINTF,
    EMU_SYSTEM_ASSERTFAIL,
    EMU_SYSTEM_MALLOC,
    EMU_SYSTEM_FREE,
};

struct emu_function {
    const char *name;
    bool is_entry;
    uint8_t system; // enum emu_system; then it has no instructions
    struct emu_insn *insns;
    uint32_t insn_count;
    struct emu_operand *operands;
    uint32_t operand_count;
    uint32_t *targets; // targets of brx: instruction indices
    uint32_t target_count;
    struct emu_register *registers;
    uint32_t register_count;
    // Entry: parameters in order, as symbols; param_bytes is the size of their space.
    uint32_t *params;
    uint32_t param_count;
    uint32_t param_bytes;
    // .func: registers that hold the return values and parameters. A .param array is a register
    // of type b8 for each of its bytes; ld.param and st.param on these come as mov and cvt.
    uint32_t *results;
    uint32_t result_count;
    uint32_t *arguments;
    uint32_t argument_count;
    uint32_t shared_bytes; // static, of the entry and what it names
    uint32_t local_bytes;
    uint32_t required_block[3]; // .reqntid, 0 if none
    uint32_t max_block[3];      // .maxntid
    uint32_t min_blocks;        // .minnctapersm
    bool in_cluster;            // .explicitcluster, .reqnctapercluster
    uint32_t max_registers;     // .maxnreg
    bool has_address;           // some text uses its address
    bool calls_by_address;
};

// An address in an initialiser: `bytes` bytes at `offset` of the variable `symbol` get the device
// address of the variable or function `target` plus `addend`.
struct emu_relocation {
    uint32_t symbol, target;
    bool is_function;
    uint64_t offset;
    int64_t addend;
    uint8_t bytes; // 4 or 8
};

// .file: a source file of the text of that number.
struct emu_file {
    uint32_t text, number;
    const char *name;
};

// .loc: where the instructions from a line of PTX on come from, up to the next one. Sorted by
// `ptx_line`. file 0: not known.
struct emu_location {
    uint32_t ptx_line;
    uint32_t text, file, line, column;
    uint32_t at_file, at_line, at_column; // inlined_at; 0: it is not inlined
};

struct emu_module {
    int isa;        // 80 for .version 8.0
    int sm;         // 90
    char sm_suffix; // 'a', 'f' or 0
    struct emu_function *functions;
    uint32_t function_count;
    struct emu_symbol *symbols;
    uint32_t symbol_count;
    struct emu_relocation *relocations;
    uint32_t relocation_count;
    uint64_t global_bytes, const_bytes;
    bool managed;     // some variable is
    uint64_t code_at; // addresses of functions, as an offset among the global data
    const char *text; // a copy, for reports that quote a line
    struct emu_file *files;
    uint32_t file_count;
    struct emu_location *locations;
    uint32_t location_count;
    struct emu_arena *arena;
};

// The address of a function is one of the module's global memory, where nothing is stored.
enum { EMU_FUNCTION_STEP = 16 };

static inline uint64_t emu_function_offset(const struct emu_module *module, uint32_t function)
{
    return module->code_at + (uint64_t)function * EMU_FUNCTION_STEP;
}

// The address that a relocation stores, in the global and constant data at these addresses.
static inline uint64_t emu_relocated(const struct emu_module *module,
                                     const struct emu_relocation *r, uint64_t global_base,
                                     uint64_t const_base)
{
    const struct emu_symbol *symbol = r->is_function ? NULL : &module->symbols[r->target];

    if (!symbol)
        return global_base + emu_function_offset(module, r->target) + (uint64_t)r->addend;
    return (symbol->space == EMU_CONST ? const_base : global_base) + symbol->offset +
           (uint64_t)r->addend;
}

struct emu_parse_limits {
    int isa;        // the newest version that the driver accepts
    int sm;         // of the device
    char sm_suffix; // 'a' if the device runs sm_NNa text
    bool partial;   // an input of the linker: what is .extern may be defined elsewhere
};

// Parses a module. On failure NULL: *result is the CUresult of the driver (218 invalid PTX, 222
// unsupported PTX version, 209 no binary for the GPU, 2 out of memory), and `log` (if not NULL) has
// lines in the format of ptxas: "ptxas application ptx input, line 7; error : ...". Never crashes,
// whatever the text.
struct emu_module *emu_module_parse(const char *text, size_t length,
                                    const struct emu_parse_limits *limits, char *log,
                                    size_t log_size, int *result);
// The same of several texts, linked: what is .extern in one is what another defines as .visible,
// .weak or .common. The lines of the second text are counted on from those of the first.
struct emu_text {
    const char *at;
    size_t length;
};
struct emu_module *emu_module_link(const struct emu_text *texts, unsigned count,
                                   const struct emu_parse_limits *limits, char *log,
                                   size_t log_size, int *result);
void emu_module_destroy(struct emu_module **module);
// The source line of a line of PTX with the calls that it was inlined into, as "a.cu:7, inlined at
// a.cu:30"; "" where the text has no .loc for it.
void emu_module_source(const struct emu_module *module, uint32_t ptx_line, char *text, size_t size);
// The entry of that name, or NULL.
const struct emu_function *emu_module_entry(const struct emu_module *module, const char *name);

#endif

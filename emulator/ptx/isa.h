// SPDX-License-Identifier: MIT
// The rows of isa.def, every modifier and every special register.
#ifndef PTXGEN_EMULATOR_PTX_ISA_H
#define PTXGEN_EMULATOR_PTX_ISA_H

#include "program.h"

// The group of a modifier. A form says for each group whether it is required, optional or
// forbidden. Columns: name, and its name in messages.
#define EMU_GROUPS(X)                                                                              \
    X(TYPE, "Type")                                                                                \
    X(RN, "Rounding")                                                                              \
    X(DIRECTED, "Rounding") /* .rz .rm .rp */                                                      \
    X(AWAY, "Rounding")     /* .rna */                                                             \
    X(INTEGRAL, "Rounding") /* .rni ... */                                                         \
    X(FTZ, "'.ftz'")                                                                               \
    X(SAT, "'.sat'")                                                                               \
    X(SATFINITE, "'.satfinite'")                                                                   \
    X(APPROX, "'.approx'")                                                                         \
    X(FULL, "'.full'")                                                                             \
    X(NAN, "'.NaN'")                                                                               \
    X(ABS, "'.abs'")                                                                               \
    X(XORSIGN, "'.xorsign'")                                                                       \
    X(RELU, "'.relu'")                                                                             \
    X(NOFTZ, "'.noftz'")                                                                           \
    X(COMPARE, "Comparison")                                                                       \
    X(LOGIC, "Boolean operation") /* .and .or .xor */                                              \
    X(TEST, "Test")                                                                                \
    X(PLUS, "'.add'")                                                                              \
    X(EXTREME, "'.min/.max'")                                                                      \
    X(COUNTER, "'.inc/.dec'")                                                                      \
    X(EXCHANGE, "'.exch'")                                                                         \
    X(CAS, "'.cas'")                                                                               \
    X(SPACE, "State space")                                                                        \
    X(FROM, "'.global'") /* after .shared, of cp.async */                                          \
    X(ASYNC, "'.async'")                                                                           \
    X(COMMIT, "'.commit_group'")                                                                   \
    X(WAIT, "'.wait_group'")                                                                       \
    X(WAIT_ALL, "'.wait_all'")                                                                     \
    X(POLICY, "'.fractional/.range/.cvt'") /* .fractional .cvt */                                  \
    X(RANGE, "'.range'")                                                                           \
    X(CACHE, "Cache")                                                                              \
    X(LEVEL1, "Eviction")                                                                          \
    X(EVICT, "Eviction") /* of the second level */                                                 \
    X(EVICT2, "Secondary eviction")                                                                \
    X(HINT, "'.L2::cache_hint'")                                                                   \
    X(LEVEL2, "Prefetch size")                                                                     \
    X(NC, "'.nc'")                                                                                 \
    X(ORDER, "Memory order")                                                                       \
    X(SCOPE, "Scope")                                                                              \
    X(VECTOR, "Vector")                                                                            \
    X(SYNC, "'.sync'")                                                                             \
    X(ALIGNED, "'.aligned'")                                                                       \
    X(UNI, "'.uni'")                                                                               \
    X(LO, "'.lo'")                                                                                 \
    X(HI, "'.hi'")                                                                                 \
    X(WIDE, "'.wide'")                                                                             \
    X(CC, "'.cc'")                                                                                 \
    X(SHUFFLE, "'.up/.down/.bfly'")                                                                \
    X(IDX, "'.idx'")                                                                               \
    X(ALL, "'.all'")                                                                               \
    X(ANY, "'.any'")                                                                               \
    X(BALLOT, "'.ballot'")                                                                         \
    X(ARRIVE, "'.arrive'")                                                                         \
    X(RED, "'.red'")                                                                               \
    X(POPC, "'.popc'")                                                                             \
    X(WARP, "'.warp'")                                                                             \
    X(LEFT, "'.l'")                                                                                \
    X(RIGHT, "'.r'")                                                                               \
    X(CLAMP, "Clamp") /* .wrap .clamp */                                                           \
    X(SHIFTAMT, "'.shiftamt'")                                                                     \
    X(TO, "'.to'")                                                                                 \
    X(PERMUTE, "Permute") /* of prmt */                                                            \
    X(DEPEND, "'.wait/.launch_dependents'")                                                        \
    X(MEMBAR, "'.cta/.gl/.sys'") /* .gl */                                                         \
    X(PREFETCH, "Cache level")                                                                     \
    X(CLUSTER_SHARED, "'.shared::cluster'")                                                        \
    X(FROM_SHARED, "'.shared::cta'") /* after .global, of cp.async.bulk */                         \
    X(INIT, "'.init'")                                                                             \
    X(INVAL, "'.inval'")                                                                           \
    X(EXPECT_TX, "'.expect_tx'")                                                                   \
    X(COMPLETE_TX, "'.complete_tx'")                                                               \
    X(ARRIVE_DROP, "'.arrive_drop'")                                                               \
    X(NO_COMPLETE, "'.noComplete'")                                                                \
    X(TEST_WAIT, "'.test_wait'")                                                                   \
    X(TRY_WAIT, "'.try_wait'")                                                                     \
    X(PARITY, "'.parity'")                                                                         \
    X(PENDING, "'.pending_count'")                                                                 \
    X(MBARRIER, "'.mbarrier'")                                                                     \
    X(NOINC, "'.noinc'")                                                                           \
    X(BULK, "'.bulk'")                                                                             \
    X(BYTES, "'.mbarrier::complete_tx::bytes'")                                                    \
    X(BULK_GROUP, "'.bulk_group'")                                                                 \
    X(READ, "'.read'")                                                                             \
    X(PROXY, "'.proxy'")                                                                           \
    X(MBARRIER_INIT, "'.mbarrier_init'")                                                           \
    X(REGISTERS, "'.inc/.dec'")                                                                    \
    X(TILE, "Shape") /* .m8n8 */                                                                   \
    X(TILES, "'.x1/.x2/.x4'")                                                                      \
    X(TRANSPOSED, "'.trans'")                                                                      \
    X(PACK, "'.pack'")                                                                             \
    X(OOB, "'.oob'")                                                                               \
    X(MMIO, "'.mmio'")                                                                             \
    X(MASK, "'.mask'")                                                                             \
    X(ALIAS, "'.alias'")                                                                           \
    X(PLUS_ONE, "'.po'")                                                                           \
    X(SCALE, "'.shr7/.shr15'")                                                                     \
    X(REDUCE, "'.reduce'")                                                                         \
    X(RESTRICT, "'.sync_restrict'")                                                                \
    X(ASYNC_GENERIC, "'.async::generic'")                                                          \
    X(PROXY_READ, "'.proxy::readonly'")                                                            \
    X(BULK_PREFETCH, "'.prefetch'")                                                                \
    X(SPARSE, "'.sp'")                                                                             \
    X(ROW, "'.row'")                                                                               \
    X(COL, "'.col'")                                                                               \
    X(ROW_B, "'.row'") /* the second one, of wmma.mma */                                           \
    X(COL_B, "'.col'")                                                                             \
    X(SHAPE, "Shape")                                                                              \
    X(SHAPE64, "Shape") /* of wgmma */                                                             \
    X(MMA_ASYNC, "'.mma_async'")                                                                   \
    X(FENCE, "'.fence'")                                                                           \
    X(MOVE_IN, "'.load'")                                                                          \
    X(MOVE_OUT, "'.store'")                                                                        \
    X(MULTIPLY, "'.mma'")                                                                          \
    X(OF_A, "'.a'")                                                                                \
    X(OF_B, "'.b'")                                                                                \
    X(OF_C, "'.c'")                                                                                \
    X(OF_D, "'.d'")

enum emu_group_index {
#define EMU_GROUP_INDEX(name, text) EMU_GROUP_INDEX_##name,
    EMU_GROUPS(EMU_GROUP_INDEX)
#undef EMU_GROUP_INDEX
        EMU_GROUP_COUNT
};

// A set of groups, a bit each.
__extension__ typedef unsigned __int128 emu_groups;

#define EMU_GROUP_BIT(index) ((emu_groups)1 << (index))
#define EMU_G(name)          EMU_GROUP_BIT(EMU_GROUP_INDEX_##name)

_Static_assert(EMU_GROUP_COUNT <= 8 * sizeof(emu_groups), "a bit for each group");

struct emu_modifier {
    const char *name;
    uint8_t group; // emu_group_index
    uint8_t value; // value of the field that it sets
    uint8_t isa;   // least version; 0: any
    uint8_t sm;
};

// The modifier with this spelling, without its dot, or NULL.
const struct emu_modifier *emu_modifier_find(const char *at, size_t length);
const char *emu_group_name(unsigned index);

#define EMU_TYPE_BIT(type) (UINT64_C(1) << (type))

// Operands, one letter each: "destinations=sources".
//   t s  of the first type, of the second    T S  the same, and a wider register will do
//   w    of twice the type's width           u    of 32 bits, an integer
//   p    predicate                           q    predicate after '|', may be missing
//   P    predicate, also %is_explicit_cluster
//   a    address                             v    vector of the type, as .v2, .v4 says
//   m    register or variable's address      i    integer of 32 or 64 bits
//   k    constant                            l    label
//   j    list of branch targets              g    address in global memory
//   z    u, or a predicate                   h    policy of .L2::cache_hint, if that is there
//   b    a, or a parameter of a function     M    m, or a vector of parts: mov
//   x    skipped                             c    results, function and arguments of a call
//   A-D  registers of the fragments of mma  F    registers of ldmatrix and stmatrix
//   y    descriptor of a matrix
//   e    u, or parts of it: .b0, .h10       W    register of 128 bits: two operands
//   E    e, or its negation
//   _    after a destination: it may be '_'
struct emu_form {
    const char *operands; // NULL: any
    // For PTX that the emulator does not run: the modifiers that identify it, separated by spaces,
    // "" for none. Otherwise NULL.
    const char *lacks;
    uint64_t types, second; // bits of emu_type; 0: the form has no such type
    uint64_t third, fourth;
    uint32_t shapes;   // bits of emu_shape, where the form has group SHAPE
    uint8_t factors;   // mma: the type of A and B, where it is not written; the second is that of C
    emu_groups must;   // required groups
    emu_groups one_of; // exactly one of these groups is required, if not 0
    emu_groups may;    // optional groups
    uint8_t mode;      // enum emu_mode; 0: that of the modifiers
    uint8_t isa, sm;   // least
    bool own;          // only on sm_NNa
};

// The forms of an instruction with one mnemonic.
struct emu_spelling {
    const char *mnemonic;
    uint16_t opcode; // EMU_OP_COUNT: PTX that the emulator does not run
    uint16_t form_count;
    const struct emu_form *forms;
};

// The first of *count rows of the mnemonic; NULL if there are none.
const struct emu_spelling *emu_spellings_find(const char *at, size_t length, unsigned *count);
// All rows, for tests.
const struct emu_spelling *emu_spellings_all(unsigned *count);

struct emu_special_row {
    const char *name; // without the axis
    uint8_t special;  // emu_special
    bool has_axis;
    uint8_t bits;
    uint8_t isa, sm; // least
};

// The special register of that name, for example "%tid", or NULL.
const struct emu_special_row *emu_special_find(const char *at, size_t length);
// The number of an %envreg; EMU_ENVREGS for any other name.
enum { EMU_ENVREGS = 32 };
unsigned emu_envreg_number(const char *at, size_t length);

#endif

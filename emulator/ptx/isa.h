// SPDX-License-Identifier: MIT
// The rows of isa.def as the parser uses them, and every modifier.
#ifndef PTXGEN_EMULATOR_PTX_ISA_H
#define PTXGEN_EMULATOR_PTX_ISA_H

#include "program.h"

// The group of a modifier. A form says for each group whether it is required, optional or
// forbidden. Columns: name, and its name in messages.
#define EMU_GROUPS(X)                                                                              \
    X(TYPE, "Type")                                                                                \
    X(RN, "Rounding")                                                                              \
    X(DIRECTED, "Rounding") /* .rz .rm .rp */                                                      \
    X(INTEGRAL, "Rounding") /* .rni ... */                                                         \
    X(FTZ, "'.ftz'")                                                                               \
    X(SAT, "'.sat'")                                                                               \
    X(APPROX, "'.approx'")                                                                         \
    X(FULL, "'.full'")                                                                             \
    X(NAN, "'.NaN'")                                                                               \
    X(ABS, "'.abs'")                                                                               \
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
    X(PREFETCH, "Cache level")

enum emu_group_index {
#define EMU_GROUP_INDEX(name, text) EMU_GROUP_INDEX_##name,
    EMU_GROUPS(EMU_GROUP_INDEX)
#undef EMU_GROUP_INDEX
        EMU_GROUP_COUNT
};

#define EMU_G(name) (UINT64_C(1) << EMU_GROUP_INDEX_##name)

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

#define EMU_TYPE_BIT(type) (UINT32_C(1) << (type))

// Operands, one letter each: "destinations=sources".
//   t s  of the first type, of the second    T S  the same, and a wider register will do
//   w    of twice the type's width           u    of 32 bits, an integer
//   p    predicate                           q    predicate after '|', may be missing
//   a    address                             v    vector of the type, as .v2, .v4 says
//   m    register or variable's address      i    integer of 32 or 64 bits
//   k    constant                            l    label
//   j    list of branch targets              g    address in global memory
//   z    u, or a predicate                   h    policy of .L2::cache_hint, if that is there
//   b    a, or a parameter of a function     M    m, or a vector of parts: mov
//   x    skipped                             c    results, function and arguments of a call
//   _    after a destination: it may be '_'
struct emu_form {
    const char *operands; // NULL: any
    // For PTX that the emulator does not run: the modifiers that identify it, separated by spaces,
    // "" for none. Otherwise NULL.
    const char *lacks;
    uint32_t types, second; // bits of emu_type; 0: the form has no such type
    uint64_t must;          // required groups
    uint64_t one_of;        // exactly one of these groups is required, if not 0
    uint64_t may;           // optional groups
    uint8_t mode;           // enum emu_mode; 0: that of the modifiers
    uint8_t isa, sm;        // least
    bool own;               // only on sm_NNa
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

// ---- special registers --------------------------------------------------------------------------

struct emu_special_row {
    const char *name; // without the axis
    uint8_t special;  // emu_special
    bool has_axis;
    uint8_t bits;
    uint8_t isa, sm; // least
};

// The special register of that name, for example "%tid", or NULL.
const struct emu_special_row *emu_special_find(const char *at, size_t length);
// Whether PTX has this special register and the emulator does not.
bool emu_special_is_unsupported(const char *at, size_t length);

#endif

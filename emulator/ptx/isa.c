// SPDX-License-Identifier: MIT
// Lookup of the rows of isa.def, of the modifiers and of the special registers.
#include "isa.h"

#include <string.h>

#define BIT(name) EMU_TYPE_BIT(EMU_##name)
#define S32_64    (BIT(S32) | BIT(S64))
#define S16_64    (BIT(S16) | S32_64)
#define U16_64    (BIT(U16) | BIT(U32) | BIT(U64))
#define I16_64    (S16_64 | U16_64)
#define I32       (BIT(S32) | BIT(U32))
#define I64       (BIT(S64) | BIT(U64))
#define I16_32    (BIT(S16) | BIT(U16) | I32)
#define B32_64    (BIT(B32) | BIT(B64))
#define B16_64    (BIT(B16) | B32_64)
#define I16X2     (BIT(U16X2) | BIT(S16X2))
#define F16S      (BIT(F16) | BIT(F16X2))
#define BF16S     (BIT(BF16) | BIT(BF16X2))
#define INT8S     (BIT(S8) | BIT(U8))
#define INT2S     (BIT(S2) | BIT(U2))
#define INT4S     (BIT(S4) | BIT(U4))
#define E8S       (BIT(E4M3) | BIT(E5M2))
#define FP8S      (BIT(E4M3X2) | BIT(E5M2X2))
#define F32_64    (BIT(F32) | BIT(F64))
#define ANY8      (BIT(U8) | BIT(S8) | BIT(B8))
#define MEMORY    (ANY8 | I16_64 | B16_64 | F32_64)
#define CONVERT   (BIT(U8) | BIT(S8) | I16_64 | F32_64 | BIT(F16) | BIT(BF16))

#define G(name)          EMU_G(name)
#define MODE(name)       .mode = EMU_MODE_##name
#define ROUND            (G(RN) | G(DIRECTED))
#define DIVIDE           (ROUND | G(APPROX) | G(FULL))
// Of the forms that have both, an instruction has one.
#define SPACES           (G(SPACE) | G(CLUSTER_SHARED))
#define STORE            (SPACES | G(CACHE) | G(LEVEL1) | G(EVICT) | G(HINT) | G(ORDER) | G(SCOPE) | G(VECTOR))
#define LOAD             (STORE | G(LEVEL2) | G(NC))
#define ATOMIC           (SPACES | G(ORDER) | G(SCOPE) | G(HINT))
#define COPY             (G(ASYNC) | G(SPACE) | G(FROM) | G(CACHE))
#define BULK_COPY        (G(ASYNC) | G(BULK))
#define BULK_REDUCE      (BULK_COPY | G(REDUCE) | G(SPACE) | G(FROM_SHARED) | G(BULK_GROUP))
#define SEMANTIC         (G(ORDER) | G(SCOPE) | G(SPACE))
#define CONVERTS         (G(RN) | G(DIRECTED) | G(INTEGRAL) | G(FTZ) | G(SAT) | G(SATFINITE) | G(RELU))
#define COMPARES         (G(FTZ) | G(LOGIC))
#define MATRIX           (G(SYNC) | G(ALIGNED) | G(TILE) | G(TILES))
#define LAYOUT           (G(ROW) | G(COL))
#define LAYOUTS          (LAYOUT | G(ROW_B) | G(COL_B))
#define WMMA(what)       (G(SYNC) | G(ALIGNED) | G(what))
// After the last group that must be there: the shapes of the form.
#define SHAPED(name)     (UINT32_C(1) << EMU_##name)
#define IN_SHAPE(set)    G(SHAPE), .shapes = (set)
#define OPAQUE           IN_SHAPE(SHAPED(M16N16K16) | SHAPED(M8N32K16) | SHAPED(M32N8K16))
#define MMA(shape)       (G(SYNC) | G(ALIGNED) | G(ROW) | G(COL)) | IN_SHAPE(SHAPED(shape))
#define WGMMA(what)      (G(SYNC) | G(ALIGNED) | G(what))
#define MMA_ASYNC(shape) WGMMA(MMA_ASYNC) | G(SHAPE64), .shapes = SHAPED(shape), .own = true
#define MMA_SPARSE(shape)                                                                          \
    (G(SYNC) | G(ALIGNED) | G(ROW) | G(COL) | G(SPARSE)) | IN_SHAPE(SHAPED(shape))

#define FORM(least_isa, least_sm, ...)                                                             \
    { .isa = least_isa, .sm = least_sm, .operands = __VA_ARGS__ },
#define LACKS(least_isa, least_sm, modifiers)                                                      \
    { .isa = least_isa, .sm = least_sm, .lacks = modifiers },
#define LACKS_OWN(least_isa, least_sm, modifiers)                                                  \
    { .isa = least_isa, .sm = least_sm, .lacks = modifiers, .own = true },

#define INSTRUCTION(opcode, mnemonic, handler, lanes, defined, rule, ...)                          \
    static const struct emu_form forms_##opcode[] = { __VA_ARGS__ };
#define ALSO(name, opcode, mnemonic, ...)                                                          \
    static const struct emu_form forms_##name[] = { __VA_ARGS__ };
#define UNSUPPORTED(name, mnemonic, ...)                                                           \
    static const struct emu_form forms_##name[] = { __VA_ARGS__ };
#include "isa.def"

#define SPELLED(name, opcode, mnemonic)                                                            \
    { mnemonic, EMU_OP_##opcode, sizeof forms_##name / sizeof *forms_##name, forms_##name },

static const struct emu_spelling spellings[] = {
#define INSTRUCTION(opcode, mnemonic, ...) SPELLED(opcode, opcode, mnemonic)
#define ALSO(name, opcode, mnemonic, ...)  SPELLED(name, opcode, mnemonic)
#define UNSUPPORTED(name, mnemonic, ...)   SPELLED(name, COUNT, mnemonic)
#include "isa.def"
};

// As strncmp(), whose call takes longer than the first characters, which tell most names apart.
static int order(const char *name, const char *at, size_t length)
{
    for (size_t k = 0; k < length; k++)
        if (name[k] != at[k] || name[k] == '\0')
            return (unsigned char)name[k] - (unsigned char)at[k];
    return name[length] != '\0';
}

const struct emu_spelling *emu_spellings_find(const char *at, size_t length, unsigned *count)
{
    const size_t all = sizeof spellings / sizeof *spellings;
    size_t low = 0, high = all, end;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (order(spellings[middle].mnemonic, at, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < all && !order(spellings[end].mnemonic, at, length);)
        end++;
    *count = (unsigned)(end - low);
    return *count ? &spellings[low] : NULL;
}

const struct emu_spelling *emu_spellings_all(unsigned *count)
{
    *count = sizeof spellings / sizeof *spellings;
    return spellings;
}

// ---- modifiers ----------------------------------------------------------------------------------

#define ROW(name, group, value, isa, sm)                                                           \
    {                                                                                              \
        name, EMU_GROUP_INDEX_##group, value, isa, sm                                              \
    }
#define PLAIN(name, group, value) ROW(name, group, value, 0, 0)
// The tiles of eight columns, and how far the shape is from the first one of wgmma.
#define WGMMA_SHAPE(n, k, away)   PLAIN("m64n" #n "k" #k, SHAPE64, (n) / 8 | (away) << 6)
#define WGMMA_SHAPES(n)           WGMMA_SHAPE(n, 16, 1), WGMMA_SHAPE(n, 32, 2), WGMMA_SHAPE(n, 8, 0)

// clang-format off

// Sorted by the bytes of their names. The value is that of the field of emu_insn that the group
// sets. Cache operators: 1 is for stores only, 2 for loads only. Eviction priorities: odd ones are
// for the secondary priority of createpolicy.
static const struct emu_modifier modifiers[] = {
    ROW("L1", PREFETCH, 0, 0, 0),
    ROW("L1::evict_first", LEVEL1, 0, 74, 70),
    ROW("L1::evict_last", LEVEL1, 0, 74, 70),
    ROW("L1::evict_normal", LEVEL1, 0, 74, 70),
    ROW("L1::evict_unchanged", LEVEL1, 0, 74, 70),
    ROW("L1::no_allocate", LEVEL1, 0, 74, 70),
    ROW("L2", PREFETCH, 0, 0, 0),
    ROW("L2::128B", LEVEL2, 0, 74, 75),
    ROW("L2::256B", LEVEL2, 0, 74, 80),
    ROW("L2::64B", LEVEL2, 0, 74, 75),
    ROW("L2::cache_hint", HINT, 0, 74, 80),
    ROW("L2::evict_first", EVICT, 1, 74, 80),
    ROW("L2::evict_last", EVICT, 0, 74, 80),
    ROW("L2::evict_normal", EVICT, 2, 74, 80),
    ROW("L2::evict_unchanged", EVICT, 3, 74, 80),
    PLAIN("NaN", NAN, 0),
    PLAIN("a", OF_A, 0),
    PLAIN("abs", ABS, 0),
    ROW("acq_rel", ORDER, EMU_ACQ_REL, 60, 70),
    ROW("acquire", ORDER, EMU_ACQUIRE, 60, 70),
    PLAIN("add", PLUS, EMU_ATOMIC_ADD),
    ROW("alias", ALIAS, 0, 75, 70),
    PLAIN("aligned", ALIGNED, 0),
    PLAIN("all", ALL, EMU_MODE_ALL),
    PLAIN("and", LOGIC, EMU_BOOL_AND),
    PLAIN("any", ANY, EMU_MODE_ANY),
    PLAIN("approx", APPROX, 0),
    PLAIN("arrive", ARRIVE, EMU_MODE_ARRIVE),
    PLAIN("arrive_drop", ARRIVE_DROP, 0),
    ROW("async", ASYNC, 0, 70, 80),
    PLAIN("async::generic", ASYNC_GENERIC, 0),
    PLAIN("b", OF_B, 0),
    PLAIN("b1", TYPE, EMU_B1),
    ROW("b128", TYPE, EMU_B128, 83, 70),
    PLAIN("b16", TYPE, EMU_B16),
    PLAIN("b32", TYPE, EMU_B32),
    PLAIN("b4e", PERMUTE, EMU_MODE_PRMT_B4E),
    PLAIN("b64", TYPE, EMU_B64),
    PLAIN("b8", TYPE, EMU_B8),
    PLAIN("ballot", BALLOT, EMU_MODE_BALLOT),
    PLAIN("bf16", TYPE, EMU_BF16),
    PLAIN("bf16x2", TYPE, EMU_BF16X2),
    PLAIN("bfly", SHUFFLE, EMU_MODE_BFLY),
    PLAIN("bulk", BULK, 0),
    PLAIN("bulk_group", BULK_GROUP, 0),
    PLAIN("c", OF_C, 0),
    ROW("ca", CACHE, 2, 20, 20),
    PLAIN("cas", CAS, EMU_ATOMIC_CAS),
    PLAIN("cc", CC, 0),
    ROW("cg", CACHE, 3, 20, 20),
    PLAIN("clamp", CLAMP, EMU_MODE_NONE),
    ROW("cluster", SCOPE, EMU_SCOPE_CLUSTER, 78, 90),
    PLAIN("col", COL, 0),
    ROW("commit_group", COMMIT, 0, 70, 80),
    PLAIN("complete_tx", COMPLETE_TX, 0),
    PLAIN("const", SPACE, EMU_CONST),
    ROW("cs", CACHE, 0, 20, 20),
    PLAIN("cta", SCOPE, EMU_SCOPE_CTA),
    ROW("cv", CACHE, 2, 20, 20),
    ROW("cvt", POLICY, 1, 74, 80),
    PLAIN("d", OF_D, 0),
    PLAIN("dec", COUNTER, EMU_ATOMIC_DEC),
    PLAIN("down", SHUFFLE, EMU_MODE_DOWN),
    PLAIN("e4m3", TYPE, EMU_E4M3),
    PLAIN("e4m3x2", TYPE, EMU_E4M3X2),
    PLAIN("e5m2", TYPE, EMU_E5M2),
    PLAIN("e5m2x2", TYPE, EMU_E5M2X2),
    PLAIN("ecl", PERMUTE, EMU_MODE_PRMT_ECL),
    PLAIN("ecr", PERMUTE, EMU_MODE_PRMT_ECR),
    PLAIN("eq", COMPARE, EMU_EQ),
    PLAIN("equ", COMPARE, EMU_EQU),
    PLAIN("exch", EXCHANGE, EMU_ATOMIC_EXCH),
    PLAIN("expect_tx", EXPECT_TX, 0),
    PLAIN("f16", TYPE, EMU_F16),
    PLAIN("f16x2", TYPE, EMU_F16X2),
    PLAIN("f32", TYPE, EMU_F32),
    PLAIN("f32x2", TYPE, EMU_F32X2),
    PLAIN("f4e", PERMUTE, EMU_MODE_PRMT_F4E),
    PLAIN("f64", TYPE, EMU_F64),
    PLAIN("fence", FENCE, 0),
    PLAIN("finite", TEST, EMU_FINITE),
    ROW("fractional", POLICY, 0, 74, 80),
    PLAIN("ftz", FTZ, 0),
    PLAIN("full", FULL, 0),
    PLAIN("ge", COMPARE, EMU_GE),
    PLAIN("geu", COMPARE, EMU_GEU),
    PLAIN("gl", MEMBAR, EMU_SCOPE_GPU),
    PLAIN("global", SPACE, EMU_GLOBAL),
    PLAIN("gpu", SCOPE, EMU_SCOPE_GPU),
    PLAIN("gt", COMPARE, EMU_GT),
    PLAIN("gtu", COMPARE, EMU_GTU),
    PLAIN("hi", HI, 0),
    PLAIN("hs", COMPARE, EMU_HS),
    PLAIN("idx", IDX, 0),
    PLAIN("inc", COUNTER, EMU_ATOMIC_INC),
    PLAIN("infinite", TEST, EMU_INFINITE),
    PLAIN("init", INIT, 0),
    PLAIN("inval", INVAL, 0),
    PLAIN("l", LEFT, 0),
    PLAIN("launch_dependents", DEPEND, EMU_MODE_START_DEPENDENTS),
    PLAIN("le", COMPARE, EMU_LE),
    PLAIN("leu", COMPARE, EMU_LEU),
    PLAIN("lo", LO, 0),
    PLAIN("load", MOVE_IN, 0),
    PLAIN("local", SPACE, EMU_LOCAL),
    PLAIN("ls", COMPARE, EMU_LS),
    PLAIN("lt", COMPARE, EMU_LT),
    PLAIN("ltu", COMPARE, EMU_LTU),
    ROW("lu", CACHE, 2, 20, 20),
    ROW("m16n16k16", SHAPE, EMU_M16N16K16, 60, 70),
    ROW("m16n16k8", SHAPE, EMU_M16N16K8, 70, 80),
    ROW("m16n8k128", SHAPE, EMU_M16N8K128, 0, 0),
    ROW("m16n8k16", SHAPE, EMU_M16N8K16, 0, 0),
    ROW("m16n8k256", SHAPE, EMU_M16N8K256, 0, 0),
    ROW("m16n8k32", SHAPE, EMU_M16N8K32, 0, 0),
    ROW("m16n8k4", SHAPE, EMU_M16N8K4, 0, 0),
    ROW("m16n8k64", SHAPE, EMU_M16N8K64, 0, 0),
    ROW("m16n8k8", SHAPE, EMU_M16N8K8, 0, 0),
    ROW("m32n8k16", SHAPE, EMU_M32N8K16, 61, 70),
    WGMMA_SHAPES(104),
    WGMMA_SHAPES(112),
    WGMMA_SHAPES(120),
    WGMMA_SHAPES(128),
    WGMMA_SHAPES(136),
    WGMMA_SHAPES(144),
    WGMMA_SHAPES(152),
    WGMMA_SHAPES(160),
    WGMMA_SHAPES(168),
    WGMMA_SHAPES(16),
    WGMMA_SHAPES(176),
    WGMMA_SHAPES(184),
    WGMMA_SHAPES(192),
    WGMMA_SHAPES(200),
    WGMMA_SHAPES(208),
    WGMMA_SHAPES(216),
    WGMMA_SHAPES(224),
    WGMMA_SHAPES(232),
    WGMMA_SHAPES(240),
    WGMMA_SHAPES(248),
    WGMMA_SHAPES(24),
    WGMMA_SHAPES(256),
    WGMMA_SHAPES(32),
    WGMMA_SHAPES(40),
    WGMMA_SHAPES(48),
    WGMMA_SHAPES(56),
    WGMMA_SHAPES(64),
    WGMMA_SHAPES(72),
    WGMMA_SHAPES(80),
    WGMMA_SHAPES(88),
    WGMMA_SHAPES(8),
    WGMMA_SHAPES(96),
    ROW("m8n32k16", SHAPE, EMU_M8N32K16, 61, 70),
    ROW("m8n8", TILE, 0, 0, 0),
    ROW("m8n8k128", SHAPE, EMU_M8N8K128, 0, 0),
    ROW("m8n8k16", SHAPE, EMU_M8N8K16, 0, 0),
    ROW("m8n8k32", SHAPE, EMU_M8N8K32, 0, 0),
    ROW("m8n8k4", SHAPE, EMU_M8N8K4, 0, 0),
    ROW("mask", MASK, 0, 30, 20),
    PLAIN("max", EXTREME, EMU_ATOMIC_MAX),
    PLAIN("mbarrier", MBARRIER, 0),
    PLAIN("mbarrier::complete_tx::bytes", BYTES, 0),
    PLAIN("mbarrier_init", MBARRIER_INIT, 0),
    PLAIN("min", EXTREME, EMU_ATOMIC_MIN),
    PLAIN("mma", MULTIPLY, 0),
    PLAIN("mma_async", MMA_ASYNC, 0),
    ROW("mmio", MMIO, 0, 82, 70),
    PLAIN("nan", COMPARE, EMU_NAN),
    ROW("nc", NC, 0, 31, 32),
    PLAIN("ne", COMPARE, EMU_NE),
    PLAIN("neu", COMPARE, EMU_NEU),
    PLAIN("noComplete", NO_COMPLETE, 0),
    PLAIN("noftz", NOFTZ, 0),
    PLAIN("noinc", NOINC, 0),
    PLAIN("normal", TEST, EMU_NORMAL),
    PLAIN("notanumber", TEST, EMU_NOTANUMBER),
    PLAIN("num", COMPARE, EMU_NUM),
    PLAIN("number", TEST, EMU_NUMBER),
    ROW("oob", OOB, 0, 81, 90),
    PLAIN("or", LOGIC, EMU_BOOL_OR),
    PLAIN("pack", PACK, 0),
    PLAIN("param", SPACE, EMU_PARAM),
    ROW("param::entry", SPACE, EMU_PARAM, 83, 20),
    ROW("param::func", SPACE, EMU_PARAM, 83, 20),
    PLAIN("parity", PARITY, 0),
    PLAIN("pending_count", PENDING, 0),
    PLAIN("po", PLUS_ONE, 0),
    PLAIN("popc", POPC, 0),
    PLAIN("pred", TYPE, EMU_PRED),
    PLAIN("prefetch", BULK_PREFETCH, 0),
    PLAIN("proxy", PROXY, 0),
    PLAIN("proxy::readonly", PROXY_READ, 0),
    PLAIN("r", RIGHT, 0),
    ROW("range", RANGE, 0, 74, 80),
    PLAIN("rc16", PERMUTE, EMU_MODE_PRMT_RC16),
    PLAIN("rc8", PERMUTE, EMU_MODE_PRMT_RC8),
    PLAIN("read", READ, 0),
    PLAIN("red", RED, 0),
    PLAIN("reduce", REDUCE, 0),
    ROW("relaxed", ORDER, EMU_RELAXED, 60, 70),
    ROW("release", ORDER, EMU_RELEASE, 60, 70),
    ROW("relu", RELU, 0, 70, 80),
    PLAIN("rm", DIRECTED, EMU_RM),
    PLAIN("rmi", INTEGRAL, EMU_RMI),
    PLAIN("rn", RN, EMU_RN),
    PLAIN("rna", AWAY, EMU_RNA),
    PLAIN("rni", INTEGRAL, EMU_RNI),
    PLAIN("row", ROW, 0),
    PLAIN("rp", DIRECTED, EMU_RP),
    PLAIN("rpi", INTEGRAL, EMU_RPI),
    PLAIN("rz", DIRECTED, EMU_RZ),
    PLAIN("rzi", INTEGRAL, EMU_RZI),
    PLAIN("s16", TYPE, EMU_S16),
    PLAIN("s16x2", TYPE, EMU_S16X2),
    PLAIN("s2", TYPE, EMU_S2),
    PLAIN("s32", TYPE, EMU_S32),
    PLAIN("s4", TYPE, EMU_S4),
    PLAIN("s64", TYPE, EMU_S64),
    PLAIN("s8", TYPE, EMU_S8),
    PLAIN("sat", SAT, 0),
    PLAIN("satfinite", SATFINITE, 0),
    ROW("sc", ORDER, EMU_SEQ_CST, 60, 70),
    PLAIN("shared", SPACE, EMU_SHARED),
    ROW("shared::cluster", CLUSTER_SHARED, EMU_SHARED, 78, 90),
    ROW("shared::cta", SPACE, EMU_SHARED, 78, 30),
    PLAIN("shiftamt", SHIFTAMT, EMU_MODE_SHIFTAMT),
    PLAIN("shr15", SCALE, 15),
    PLAIN("shr7", SCALE, 7),
    ROW("sp", SPARSE, EMU_MODE_SPARSE, 71, 80),
    ROW("sp::ordered_metadata", SPARSE, EMU_MODE_SPARSE_ORDERED, 85, 80),
    PLAIN("store", MOVE_OUT, 0),
    PLAIN("subnormal", TEST, EMU_SUBNORMAL),
    PLAIN("sync", SYNC, 0),
    PLAIN("sync_restrict::shared::cluster", RESTRICT, 0),
    PLAIN("sync_restrict::shared::cta", RESTRICT, 1),
    PLAIN("sys", SCOPE, EMU_SCOPE_SYS),
    PLAIN("test_wait", TEST_WAIT, 0),
    PLAIN("tf32", TYPE, EMU_TF32),
    PLAIN("to", TO, EMU_MODE_TO),
    PLAIN("trans", TRANSPOSED, EMU_MODE_TRANSPOSED),
    PLAIN("try_wait", TRY_WAIT, 0),
    PLAIN("u16", TYPE, EMU_U16),
    PLAIN("u16x2", TYPE, EMU_U16X2),
    PLAIN("u2", TYPE, EMU_U2),
    PLAIN("u32", TYPE, EMU_U32),
    PLAIN("u4", TYPE, EMU_U4),
    PLAIN("u64", TYPE, EMU_U64),
    PLAIN("u8", TYPE, EMU_U8),
    PLAIN("uni", UNI, EMU_MODE_UNI),
    PLAIN("up", SHUFFLE, EMU_MODE_UP),
    PLAIN("v2", VECTOR, 2),
    PLAIN("v4", VECTOR, 4),
    PLAIN("v8", VECTOR, 8),
    PLAIN("volatile", ORDER, EMU_WEAK),
    PLAIN("wait", DEPEND, EMU_MODE_WAIT_PRIMARY),
    ROW("wait_all", WAIT_ALL, 0, 70, 80),
    ROW("wait_group", WAIT, 0, 70, 80),
    PLAIN("warp", WARP, 0),
    ROW("wb", CACHE, 1, 20, 20),
    ROW("weak", ORDER, EMU_WEAK, 60, 70),
    PLAIN("wide", WIDE, 0),
    PLAIN("wrap", CLAMP, EMU_MODE_WRAP),
    ROW("wt", CACHE, 1, 20, 20),
    PLAIN("x1", TILES, 1),
    PLAIN("x2", TILES, 2),
    PLAIN("x4", TILES, 4),
    PLAIN("xor", LOGIC, EMU_BOOL_XOR),
    PLAIN("xorsign", XORSIGN, 0),
};

// clang-format on

const struct emu_modifier *emu_modifier_find(const char *at, size_t length)
{
    size_t low = 0, high = sizeof modifiers / sizeof *modifiers;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int difference = order(modifiers[middle].name, at, length);
        if (!difference)
            return &modifiers[middle];
        if (difference < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *emu_group_name(unsigned index)
{
    static const char *const names[] = {
#define NAME(name, text) text,
        EMU_GROUPS(NAME)
#undef NAME
    };
    return index < EMU_GROUP_COUNT ? names[index] : "";
}

// ---- special registers --------------------------------------------------------------------------

// clang-format off

static const struct emu_special_row rows[] = {
    { "%aggr_smem_size",      EMU_AGGR_SMEM_SIZE,       false, 32, 81, 90 },
    { "%current_graph_exec",  EMU_CURRENT_GRAPH_EXEC,   false, 64, 80, 50 },
    { "%is_explicit_cluster", EMU_IS_EXPLICIT_CLUSTER,  false, 1, 78, 90 },
    { "%pm0",                 EMU_PM,                   false, 32, 13, 10 },
    { "%pm1",                 EMU_PM,                   false, 32, 13, 10 },
    { "%pm2",                 EMU_PM,                   false, 32, 13, 10 },
    { "%pm3",                 EMU_PM,                   false, 32, 13, 10 },
    { "%pm4",                 EMU_PM,                   false, 32, 13, 10 },
    { "%pm5",                 EMU_PM,                   false, 32, 13, 10 },
    { "%pm6",                 EMU_PM,                   false, 32, 13, 10 },
    { "%pm7",                 EMU_PM,                   false, 32, 13, 10 },
    { "%pm0_64",              EMU_PM,                   false, 64, 40, 50 },
    { "%pm1_64",              EMU_PM,                   false, 64, 40, 50 },
    { "%pm2_64",              EMU_PM,                   false, 64, 40, 50 },
    { "%pm3_64",              EMU_PM,                   false, 64, 40, 50 },
    { "%pm4_64",              EMU_PM,                   false, 64, 40, 50 },
    { "%pm5_64",              EMU_PM,                   false, 64, 40, 50 },
    { "%pm6_64",              EMU_PM,                   false, 64, 40, 50 },
    { "%pm7_64",              EMU_PM,                   false, 64, 40, 50 },
    { "%reserved_smem_offset_begin",EMU_RESERVED_SMEM_BEGIN,  false, 32, 76, 80 },
    { "%reserved_smem_offset_end",EMU_RESERVED_SMEM_END,    false, 32, 76, 80 },
    { "%reserved_smem_offset_cap",EMU_RESERVED_SMEM_CAP,    false, 32, 76, 80 },
    { "%reserved_smem_offset_0",EMU_RESERVED_SMEM_OFFSET, false, 32, 76, 80 },
    { "%reserved_smem_offset_1",EMU_RESERVED_SMEM_OFFSET, false, 32, 76, 80 },
    { "%clock",              EMU_CLOCK,              false, 32, 10, 10 },
    { "%clock64",            EMU_CLOCK64,            false, 64, 20, 20 },
    { "%clock_hi",           EMU_CLOCK_HI,           false, 32, 50, 20 },
    { "%cluster_ctaid",      EMU_CLUSTER_CTAID,      true,  32, 78, 90 },
    { "%cluster_ctarank",    EMU_CLUSTER_CTARANK,    false, 32, 78, 90 },
    { "%cluster_nctaid",     EMU_CLUSTER_NCTAID,     true,  32, 78, 90 },
    { "%cluster_nctarank",   EMU_CLUSTER_NCTARANK,   false, 32, 78, 90 },
    { "%clusterid",          EMU_CLUSTERID,          true,  32, 78, 90 },
    { "%ctaid",              EMU_CTAID,              true,  32, 10, 10 },
    { "%dynamic_smem_size",  EMU_DYNAMIC_SMEM_SIZE,  false, 32, 41, 20 },
    { "%globaltimer",        EMU_GLOBALTIMER,        false, 64, 31, 30 },
    { "%globaltimer_hi",     EMU_GLOBALTIMER_HI,     false, 32, 31, 30 },
    { "%globaltimer_lo",     EMU_GLOBALTIMER_LO,     false, 32, 31, 30 },
    { "%envreg",             EMU_ENVREG,             false, 32, 21, 20 },
    { "%gridid",             EMU_GRIDID,             false, 64, 10, 10 },
    { "%laneid",             EMU_LANEID,             false, 32, 13, 10 },
    { "%lanemask_eq",        EMU_LANEMASK_EQ,        false, 32, 20, 20 },
    { "%lanemask_ge",        EMU_LANEMASK_GE,        false, 32, 20, 20 },
    { "%lanemask_gt",        EMU_LANEMASK_GT,        false, 32, 20, 20 },
    { "%lanemask_le",        EMU_LANEMASK_LE,        false, 32, 20, 20 },
    { "%lanemask_lt",        EMU_LANEMASK_LT,        false, 32, 20, 20 },
    { "%nclusterid",         EMU_NCLUSTERID,         true,  32, 78, 90 },
    { "%nctaid",             EMU_NCTAID,             true,  32, 10, 10 },
    { "%nsmid",              EMU_NSMID,              false, 32, 20, 20 },
    { "%ntid",               EMU_NTID,               true,  32, 10, 10 },
    { "%nwarpid",            EMU_NWARPID,            false, 32, 20, 20 },
    { "%smid",               EMU_SMID,               false, 32, 13, 10 },
    { "%tid",                EMU_TID,                true,  32, 10, 10 },
    { "%total_smem_size",    EMU_TOTAL_SMEM_SIZE,    false, 32, 41, 20 },
    { "%warpid",             EMU_WARPID,             false, 32, 13, 10 },
};

// clang-format on

unsigned emu_envreg_number(const char *at, size_t length)
{
    static const char name[] = "%envreg";
    const size_t digits = length - (sizeof name - 1);
    unsigned number = 0;

    if (length < sizeof name || digits > 2 || memcmp(at, name, sizeof name - 1) != 0 ||
        (digits == 2 && at[sizeof name - 1] == '0'))
        return EMU_ENVREGS;
    for (size_t k = sizeof name - 1; k < length; k++) {
        if (at[k] < '0' || at[k] > '9')
            return EMU_ENVREGS;
        number = 10 * number + (unsigned)(at[k] - '0');
    }
    return number < EMU_ENVREGS ? number : EMU_ENVREGS;
}

const struct emu_special_row *emu_special_find(const char *at, size_t length)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strlen(rows[k].name) == length && memcmp(rows[k].name, at, length) == 0 &&
            rows[k].special != EMU_ENVREG)
            return &rows[k];
    // %envreg0 to %envreg31
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].special == EMU_ENVREG && emu_envreg_number(at, length) < EMU_ENVREGS)
            return &rows[k];
    return NULL;
}

// SPDX-License-Identifier: MIT
#include "opcode_table.h"

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
#define F16S      (BIT(F16) | BIT(F16X2))
#define BF16S     (BIT(BF16) | BIT(BF16X2))
#define F32_64    (BIT(F32) | BIT(F64))
#define ANY8      (BIT(U8) | BIT(S8) | BIT(B8))
#define MEMORY    (ANY8 | I16_64 | B16_64 | F32_64)
#define CONVERT   (BIT(U8) | BIT(S8) | I16_64 | F32_64 | BIT(F16) | BIT(BF16))

#define G(name) EMU_G(name)
#define ROUND   (G(RN) | G(DIRECTED))
#define DIVIDE  (ROUND | G(APPROX) | G(FULL))
#define STORE                                                                                      \
    (G(SPACE) | G(CACHE) | G(LEVEL1) | G(EVICT) | G(HINT) | G(ORDER) | G(SCOPE) | G(VECTOR))
#define LOAD     (STORE | G(LEVEL2) | G(NC))
#define ATOMIC   (G(SPACE) | G(ORDER) | G(SCOPE) | G(HINT))
#define COPY     (G(ASYNC) | G(SPACE) | G(FROM) | G(CACHE))
#define CONVERTS (G(RN) | G(DIRECTED) | G(INTEGRAL) | G(FTZ) | G(SAT) | G(RELU))
#define COMPARES (G(FTZ) | G(LOGIC))

// clang-format off

// Sorted by mnemonic. Where a later form has the same types and modifiers, it has other operands.
static const struct emu_form forms[] = {
    // name        opcode             operands   types             types2        required               one of   allowed                    ISA sm
    { "abs",       EMU_OP_ABS,        "t=t",     S16_64,           0,            0,                     0,       0,                          10, 10 },
    { "abs",       EMU_OP_ABS,        "t=t",     BIT(F32),         0,            0,                     0,       G(FTZ),                     10, 10 },
    { "abs",       EMU_OP_ABS,        "t=t",     BIT(F64),         0,            0,                     0,       0,                          10, 13 },
    { "abs",       EMU_OP_ABS,        "t=t",     F16S,             0,            0,                     0,       G(FTZ),                     65, 53 },
    { "abs",       EMU_OP_ABS,        "t=t",     BF16S,            0,            0,                     0,       0,                          70, 80 },
    { "activemask", EMU_OP_ACTIVEMASK, "t=",     BIT(B32),         0,            0,                     0,       0,                          62, 30 },
    { "add",       EMU_OP_ADD,        "t=tt",    BIT(S32),         0,            0,                     0,       G(SAT),                     10, 10 },
    { "add",       EMU_OP_ADD,        "t=tt",    I16_64,           0,            0,                     0,       0,                          10, 10 },
    { "add",       EMU_OP_ADD,        "t=tt",    I32,              0,            G(CC),                 0,       0,                          12, 10 },
    { "add",       EMU_OP_ADD,        "t=tt",    I64,              0,            G(CC),                 0,       0,                          43, 20 },
    { "add",       EMU_OP_ADD,        "t=tt",    BIT(F32),         0,            0,                     0,       ROUND | G(FTZ) | G(SAT),    10, 10 },
    { "add",       EMU_OP_ADD,        "t=tt",    BIT(F64),         0,            0,                     0,       ROUND,                      10, 13 },
    { "add",       EMU_OP_ADD,        "t=tt",    F16S,             0,            0,                     0,       G(RN) | G(FTZ) | G(SAT),    42, 53 },
    { "add",       EMU_OP_ADD,        "t=tt",    BF16S,            0,            0,                     0,       G(RN),                      78, 90 },
    { "addc",      EMU_OP_ADDC,       "t=tt",    I32,              0,            0,                     0,       G(CC),                      12, 10 },
    { "addc",      EMU_OP_ADDC,       "t=tt",    I64,              0,            0,                     0,       G(CC),                      43, 20 },
    { "and",       EMU_OP_AND,        "t=tt",    B16_64,           0,            0,                     0,       0,                          10, 10 },
    { "and",       EMU_OP_AND,        "p=pp",    BIT(PRED),        0,            0,                     0,       0,                          10, 10 },
    { "applypriority", EMU_OP_PREFETCH,   "=ak",     0,                0,            G(EVICT),              0,       G(SPACE),                   74, 80 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   I32 | BIT(U64) | BIT(F32), 0,            G(PLUS),               0,       ATOMIC,                     20, 20 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   BIT(F64),         0,            G(PLUS),               0,       ATOMIC,                     50, 60 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   BIT(F16X2),       0,            G(PLUS) | G(NOFTZ),    0,       ATOMIC,                     62, 60 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   BIT(F16),         0,            G(PLUS) | G(NOFTZ),    0,       ATOMIC,                     63, 70 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   BF16S,            0,            G(PLUS) | G(NOFTZ),    0,       ATOMIC,                     78, 90 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   I32,              0,            G(EXTREME),            0,       ATOMIC,                     20, 20 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   I64,              0,            G(EXTREME),            0,       ATOMIC,                     31, 32 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   BIT(U32),         0,            G(COUNTER),            0,       ATOMIC,                     20, 20 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   BIT(B32),         0,            G(LOGIC),              0,       ATOMIC,                     20, 20 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   BIT(B64),         0,            G(LOGIC),              0,       ATOMIC,                     31, 32 },
    { "atom",      EMU_OP_ATOM,       "t=ath",   B32_64,           0,            G(EXCHANGE),           0,       ATOMIC,                     20, 20 },
    { "atom",      EMU_OP_ATOM,       "t=att",   B32_64,           0,            G(CAS),                0,       ATOMIC & ~G(HINT),          20, 20 },
    { "atom",      EMU_OP_ATOM,       "t=att",   BIT(B16),         0,            G(CAS),                0,       ATOMIC & ~G(HINT),          63, 70 },
    { "atom",      EMU_OP_ATOM,       "v=avh",   BIT(F32),         0,            G(PLUS) | G(VECTOR),   0,       ATOMIC,                     81, 90 },
    { "atom",      EMU_OP_ATOM,       "v=avh",   F16S | BF16S,     0,            G(PLUS) | G(NOFTZ) | G(VECTOR), 0,       ATOMIC,                     81, 90 },
    { "bar",       EMU_OP_BAR_SYNC,   "=u",      0,                0,            G(SYNC),               0,       G(SCOPE),                   10, 10 },
    { "bar",       EMU_OP_BAR_SYNC,   "=uu",     0,                0,            G(SYNC),               0,       G(SCOPE),                   20, 20 },
    { "bar",       EMU_OP_BAR_ARRIVE, "=uu",     0,                0,            G(ARRIVE),             0,       G(SCOPE),                   20, 20 },
    { "bar",       EMU_OP_BAR_RED_POPC, "t=up",  BIT(U32),         0,            G(RED) | G(POPC),      0,       G(SCOPE),                   20, 20 },
    { "bar",       EMU_OP_BAR_RED_POPC, "t=uup", BIT(U32),         0,            G(RED) | G(POPC),      0,       G(SCOPE),                   20, 20 },
    { "bar",       EMU_OP_BAR_RED_AND, "p=up",   BIT(PRED),        0,            G(RED) | G(LOGIC),     0,       G(SCOPE),                   20, 20 },
    { "bar",       EMU_OP_BAR_RED_AND, "p=uup",  BIT(PRED),        0,            G(RED) | G(LOGIC),     0,       G(SCOPE),                   20, 20 },
    { "bar",       EMU_OP_BAR_WARP,   "=u",      0,                0,            G(WARP) | G(SYNC),     0,       0,                          60, 30 },
    { "barrier",   EMU_OP_BAR_SYNC,   "=u",      0,                0,            G(SYNC),               0,       G(SCOPE) | G(ALIGNED),      60, 30 },
    { "barrier",   EMU_OP_BAR_SYNC,   "=uu",     0,                0,            G(SYNC),               0,       G(SCOPE) | G(ALIGNED),      60, 30 },
    { "barrier",   EMU_OP_BAR_ARRIVE, "=uu",     0,                0,            G(ARRIVE),             0,       G(SCOPE) | G(ALIGNED),      60, 30 },
    { "barrier",   EMU_OP_BAR_RED_POPC, "t=up",  BIT(U32),         0,            G(RED) | G(POPC),      0,       G(SCOPE) | G(ALIGNED),      60, 30 },
    { "barrier",   EMU_OP_BAR_RED_POPC, "t=uup", BIT(U32),         0,            G(RED) | G(POPC),      0,       G(SCOPE) | G(ALIGNED),      60, 30 },
    { "barrier",   EMU_OP_BAR_RED_AND, "p=up",   BIT(PRED),        0,            G(RED) | G(LOGIC),     0,       G(SCOPE) | G(ALIGNED),      60, 30 },
    { "barrier",   EMU_OP_BAR_RED_AND, "p=uup",  BIT(PRED),        0,            G(RED) | G(LOGIC),     0,       G(SCOPE) | G(ALIGNED),      60, 30 },
    { "bfe",       EMU_OP_BFE,        "t=tuu",   I32 | I64,        0,            0,                     0,       0,                          20, 20 },
    { "bfi",       EMU_OP_BFI,        "t=ttuu",  B32_64,           0,            0,                     0,       0,                          20, 20 },
    { "bfind",     EMU_OP_BFIND,      "u=t",     I32 | I64,        0,            0,                     0,       0,                          20, 20 },
    { "bfind",     EMU_OP_BFIND_SHIFTAMT, "u=t", I32 | I64,        0,            G(SHIFTAMT),           0,       0,                          20, 20 },
    { "bra",       EMU_OP_BRA,        "=l",      0,                0,            0,                     0,       G(UNI),                     10, 10 },
    { "brev",      EMU_OP_BREV,       "t=t",     B32_64,           0,            0,                     0,       0,                          20, 20 },
    { "brx",       EMU_OP_BRX,        "=uj",     0,                0,            G(IDX),                0,       G(UNI),                     60, 30 },
    { "call",      EMU_OP_CALL,       "",        0,                0,            0,                     0,       G(UNI),                     10, 10 },
    { "clz",       EMU_OP_CLZ,        "u=t",     B32_64,           0,            0,                     0,       0,                          20, 20 },
    { "cnot",      EMU_OP_CNOT,       "t=t",     B16_64,           0,            0,                     0,       0,                          10, 10 },
    { "copysign",  EMU_OP_COPYSIGN,   "t=tt",    F32_64,           0,            0,                     0,       0,                          20, 20 },
    { "cos",       EMU_OP_COS,        "t=t",     BIT(F32),         0,            G(APPROX),             0,       G(FTZ),                     10, 10 },
    { "cp",        EMU_OP_CP_ASYNC,   "=agkh",   0,                0,            COPY,                  0,       G(HINT) | G(LEVEL2),        70, 80 },
    { "cp",        EMU_OP_CP_ASYNC,   "=agkzh",  0,                0,            COPY,                  0,       G(HINT) | G(LEVEL2),        70, 80 },
    { "cp",        EMU_OP_CP_COMMIT,  "=",       0,                0,            G(ASYNC) | G(BATCH),   0,       0,                          70, 80 },
    { "cp",        EMU_OP_CP_WAIT,    "=k",      0,                0,            G(ASYNC) | G(BATCH),   0,       0,                          70, 80 },
    { "createpolicy", EMU_OP_MOV,        "t=",      BIT(B64),         0,            G(POLICY) | G(EVICT),  0,       G(EVICT2),                  74, 80 },
    { "createpolicy", EMU_OP_MOV,        "t=x",     BIT(B64),         0,            G(POLICY) | G(EVICT),  0,       G(EVICT2),                  74, 80 },
    { "createpolicy", EMU_OP_MOV,        "t=xxx",   BIT(B64),         0,            G(RANGE) | G(EVICT),   0,       G(EVICT2) | G(SPACE),       74, 80 },
    { "createpolicy", EMU_OP_MOV,        "t=x",     BIT(B64),         0,            G(POLICY) | G(PREFETCH), 0,       0,                          74, 80 },
    { "cvt",       EMU_OP_CVT,        "T=S",     CONVERT,          CONVERT,      0,                     0,       CONVERTS,                   10, 10 },
    { "cvt",       EMU_OP_CVT,        "t=ss",    BIT(F16X2) | BIT(BF16X2), BIT(F32), 0,                 ROUND,   G(RELU),                    70, 80 },
    { "cvta",      EMU_OP_CVTA,       "t=m",     BIT(U64),         0,          G(SPACE),              0,       0,                          20, 20 },
    { "cvta",      EMU_OP_CVTA_TO,    "t=t",     BIT(U64),         0,          G(SPACE) | G(TO),      0,       0,                          20, 20 },
    { "discard",   EMU_OP_PREFETCH,   "=ak",     0,                0,            G(PREFETCH),           0,       G(SPACE),                   74, 80 },
    { "div",       EMU_OP_DIV,        "t=tt",    I16_64,           0,            0,                     0,       0,                          10, 10 },
    { "div",       EMU_OP_DIV,        "t=tt",    BIT(F32),         0,            0,                     DIVIDE,  G(FTZ),                     14, 10 },
    { "div",       EMU_OP_DIV,        "t=tt",    BIT(F64),         0,            0,                     ROUND,   0,                          14, 13 },
    { "dp2a",      EMU_OP_DP2A,       "u=uuu",   I32,              I32,          0,               G(LO) | G(HI), 0,                          50, 61 },
    { "dp4a",      EMU_OP_DP4A,       "u=uuu",   I32,              I32,          0,                     0,       0,                          50, 61 },
    { "ex2",       EMU_OP_EX2,        "t=t",     BIT(F32),         0,            G(APPROX),             0,       G(FTZ),                     10, 10 },
    { "ex2",       EMU_OP_EX2,        "t=t",     F16S,             0,            G(APPROX),             0,       0,                          70, 75 },
    { "ex2",       EMU_OP_EX2,        "t=t",     BF16S,            0,            G(APPROX) | G(FTZ),    0,       0,                          78, 90 },
    { "exit",      EMU_OP_EXIT,       "=",       0,                0,            0,                     0,       0,                          10, 10 },
    { "fence",     EMU_OP_FENCE,      "=",       0,                0,            G(SCOPE),              0,       G(ORDER),                   60, 70 },
    { "fma",       EMU_OP_FMA,        "t=ttt",   BIT(F32),         0,            0,                     ROUND,   G(FTZ) | G(SAT),            20, 20 },
    { "fma",       EMU_OP_FMA,        "t=ttt",   BIT(F64),         0,            0,                     ROUND,   0,                          14, 13 },
    { "fma",       EMU_OP_FMA,        "t=ttt",   F16S,             0,            G(RN),                 0,       G(FTZ) | G(SAT),            42, 53 },
    { "fma",       EMU_OP_FMA,        "t=ttt",   F16S,             0,            G(RN) | G(RELU),       0,       G(FTZ),                     70, 80 },
    { "fma",       EMU_OP_FMA,        "t=ttt",   BF16S,            0,            G(RN),                 0,       G(RELU),                    70, 80 },
    { "fns",       EMU_OP_FNS,        "t=uuu",   BIT(B32),         0,            0,                     0,       0,                          60, 30 },
    { "griddepcontrol", EMU_OP_GRIDDEPCONTROL, "=", 0,             0,            G(DEPEND),             0,       0,                          78, 90 },
    { "isspacep",  EMU_OP_ISSPACEP,   "p=i",     0,                0,            G(SPACE),              0,       0,                          20, 20 },
    { "ld",        EMU_OP_LD,         "v=ah",    MEMORY,           0,            0,                     0,       LOAD,                       10, 10 },
    { "ldu",       EMU_OP_LD,         "v=a",     MEMORY,           0,            0,                     0,       G(SPACE) | G(VECTOR),       20, 20 },
    { "lg2",       EMU_OP_LG2,        "t=t",     BIT(F32),         0,            G(APPROX),             0,       G(FTZ),                     10, 10 },
    { "lop3",      EMU_OP_LOP3,       "t=tttk",  BIT(B32),         0,            0,                     0,       0,                          43, 50 },
    { "mad",       EMU_OP_MAD_LO,     "t=ttt",   I16_64,           0,            G(LO),                 0,       0,                          10, 10 },
    { "mad",       EMU_OP_MAD_LO,     "t=ttt",   I32,              0,            G(LO) | G(CC),         0,       0,                          30, 20 },
    { "mad",       EMU_OP_MAD_LO,     "t=ttt",   I64,              0,            G(LO) | G(CC),         0,       0,                          43, 20 },
    { "mad",       EMU_OP_MAD_HI,     "t=ttt",   BIT(S32),         0,            G(HI),                 0,       G(SAT),                     10, 10 },
    { "mad",       EMU_OP_MAD_HI,     "t=ttt",   I16_64,           0,            G(HI),                 0,       0,                          10, 10 },
    { "mad",       EMU_OP_MAD_HI,     "t=ttt",   I32,              0,            G(HI) | G(CC),         0,       0,                          30, 20 },
    { "mad",       EMU_OP_MAD_HI,     "t=ttt",   I64,              0,            G(HI) | G(CC),         0,       0,                          43, 20 },
    { "mad",       EMU_OP_MAD_WIDE,   "w=ttw",   I16_32,           0,            G(WIDE),               0,       0,                          10, 10 },
    { "mad",       EMU_OP_FMA,        "t=ttt",   BIT(F32),         0,            0,                     ROUND,   G(FTZ) | G(SAT),            20, 20 },
    { "mad",       EMU_OP_FMA,        "t=ttt",   BIT(F64),         0,            0,                     ROUND,   0,                          14, 13 },
    { "mad24",     EMU_OP_MAD24_LO,   "t=ttt",   I32,              0,            G(LO),                 0,       0,                          10, 10 },
    { "mad24",     EMU_OP_MAD24_HI,   "t=ttt",   BIT(S32),         0,            G(HI),                 0,       G(SAT),                     10, 10 },
    { "mad24",     EMU_OP_MAD24_HI,   "t=ttt",   I32,              0,            G(HI),                 0,       0,                          10, 10 },
    { "madc",      EMU_OP_MADC_LO,    "t=ttt",   I32,              0,            G(LO),                 0,       G(CC),                      30, 20 },
    { "madc",      EMU_OP_MADC_LO,    "t=ttt",   I64,              0,            G(LO),                 0,       G(CC),                      43, 20 },
    { "madc",      EMU_OP_MADC_HI,    "t=ttt",   I32,              0,            G(HI),                 0,       G(CC),                      30, 20 },
    { "madc",      EMU_OP_MADC_HI,    "t=ttt",   I64,              0,            G(HI),                 0,       G(CC),                      43, 20 },
    { "match",     EMU_OP_MATCH_ALL,  "uq=tu",   B32_64,           0,            G(ALL) | G(SYNC),      0,       0,                          60, 70 },
    { "match",     EMU_OP_MATCH_ANY,  "u=tu",    B32_64,           0,            G(ANY) | G(SYNC),      0,       0,                          60, 70 },
    { "max",       EMU_OP_MAX,        "t=tt",    I16_64,           0,            0,                     0,       0,                          10, 10 },
    { "max",       EMU_OP_MAX,        "t=tt",    BIT(F32),         0,            0,                     0,       G(FTZ),                     10, 10 },
    { "max",       EMU_OP_MAX,        "t=tt",    BIT(F32),         0,            G(NAN),                0,       G(FTZ),                     70, 80 },
    { "max",       EMU_OP_MAX,        "t=tt",    BIT(F64),         0,            0,                     0,       0,                          10, 13 },
    { "max",       EMU_OP_MAX,        "t=tt",    F16S,             0,            0,                     0,       G(FTZ) | G(NAN),            70, 80 },
    { "max",       EMU_OP_MAX,        "t=tt",    BF16S,            0,            0,                     0,       G(NAN),                     70, 80 },
    { "membar",    EMU_OP_FENCE,      "=",       0,                0,            0,       G(SCOPE) | G(MEMBAR), 0,                          14, 10 },
    { "min",       EMU_OP_MIN,        "t=tt",    I16_64,           0,            0,                     0,       0,                          10, 10 },
    { "min",       EMU_OP_MIN,        "t=tt",    BIT(F32),         0,            0,                     0,       G(FTZ),                     10, 10 },
    { "min",       EMU_OP_MIN,        "t=tt",    BIT(F32),         0,            G(NAN),                0,       G(FTZ),                     70, 80 },
    { "min",       EMU_OP_MIN,        "t=tt",    BIT(F64),         0,            0,                     0,       0,                          10, 13 },
    { "min",       EMU_OP_MIN,        "t=tt",    F16S,             0,            0,                     0,       G(FTZ) | G(NAN),            70, 80 },
    { "min",       EMU_OP_MIN,        "t=tt",    BF16S,            0,            0,                     0,       G(NAN),                     70, 80 },
    { "mov",       EMU_OP_MOV,        "t=m",     I16_64 | B16_64 | F32_64, 0,    0,                     0,       0,                          10, 10 },
    { "mov",       EMU_OP_MOV,        "p=p",     BIT(PRED),        0,            0,                     0,       0,                          10, 10 },
    { "mul",       EMU_OP_MUL_LO,     "t=tt",    I16_64,           0,            G(LO),                 0,       0,                          10, 10 },
    { "mul",       EMU_OP_MUL_HI,     "t=tt",    I16_64,           0,            G(HI),                 0,       0,                          10, 10 },
    { "mul",       EMU_OP_MUL_WIDE,   "w=tt",    I16_32,           0,            G(WIDE),               0,       0,                          10, 10 },
    { "mul",       EMU_OP_MUL_LO,     "t=tt",    BIT(F32),         0,            0,                     0,       ROUND | G(FTZ) | G(SAT),    10, 10 },
    { "mul",       EMU_OP_MUL_LO,     "t=tt",    BIT(F64),         0,            0,                     0,       ROUND,                      10, 13 },
    { "mul",       EMU_OP_MUL_LO,     "t=tt",    F16S,             0,            0,                     0,       G(RN) | G(FTZ) | G(SAT),    42, 53 },
    { "mul",       EMU_OP_MUL_LO,     "t=tt",    BF16S,            0,            0,                     0,       G(RN),                      78, 90 },
    { "mul24",     EMU_OP_MUL24_LO,   "t=tt",    I32,              0,            G(LO),                 0,       0,                          10, 10 },
    { "mul24",     EMU_OP_MUL24_HI,   "t=tt",    I32,              0,            G(HI),                 0,       0,                          10, 10 },
    { "nanosleep", EMU_OP_NANOSLEEP,  "=t",      BIT(U32),         0,            0,                     0,       0,                          63, 70 },
    { "neg",       EMU_OP_NEG,        "t=t",     S16_64,           0,            0,                     0,       0,                          10, 10 },
    { "neg",       EMU_OP_NEG,        "t=t",     BIT(F32),         0,            0,                     0,       G(FTZ),                     10, 10 },
    { "neg",       EMU_OP_NEG,        "t=t",     BIT(F64),         0,            0,                     0,       0,                          10, 13 },
    { "neg",       EMU_OP_NEG,        "t=t",     F16S,             0,            0,                     0,       G(FTZ),                     60, 53 },
    { "neg",       EMU_OP_NEG,        "t=t",     BF16S,            0,            0,                     0,       0,                          70, 80 },
    { "not",       EMU_OP_NOT,        "t=t",     B16_64,           0,            0,                     0,       0,                          10, 10 },
    { "not",       EMU_OP_NOT,        "p=p",     BIT(PRED),        0,            0,                     0,       0,                          10, 10 },
    { "or",        EMU_OP_OR,         "t=tt",    B16_64,           0,            0,                     0,       0,                          10, 10 },
    { "or",        EMU_OP_OR,         "p=pp",    BIT(PRED),        0,            0,                     0,       0,                          10, 10 },
    { "popc",      EMU_OP_POPC,       "u=t",     B32_64,           0,            0,                     0,       0,                          20, 20 },
    { "prefetch",  EMU_OP_PREFETCH,   "=a",      0,                0,            0, G(PREFETCH) | G(EVICT),  G(SPACE),                   20, 20 },
    { "prefetchu", EMU_OP_PREFETCH,   "=a",      0,                0,            G(PREFETCH),           0,       0,                          20, 20 },
    { "prmt",      EMU_OP_PRMT,       "t=ttu",   BIT(B32),         0,            0,                     0,       G(PERMUTE),                 20, 20 },
    { "rcp",       EMU_OP_RCP,        "t=t",     BIT(F32),         0,            0,          ROUND | G(APPROX),  G(FTZ),                     10, 10 },
    { "rcp",       EMU_OP_RCP,        "t=t",     BIT(F64),         0,            0,                     ROUND,   0,                          14, 13 },
    { "rcp",       EMU_OP_RCP,        "t=t",     BIT(F64),         0,            G(APPROX) | G(FTZ),    0,       0,                          21, 20 },
    { "red",       EMU_OP_RED,        "=ath",    I32 | BIT(U64) | BIT(F32), 0,            G(PLUS),               0,       ATOMIC,                     20, 20 },
    { "red",       EMU_OP_RED,        "=ath",    BIT(F64),         0,            G(PLUS),               0,       ATOMIC,                     50, 60 },
    { "red",       EMU_OP_RED,        "=ath",    BIT(F16X2),       0,            G(PLUS) | G(NOFTZ),    0,       ATOMIC,                     62, 60 },
    { "red",       EMU_OP_RED,        "=ath",    BIT(F16),         0,            G(PLUS) | G(NOFTZ),    0,       ATOMIC,                     63, 70 },
    { "red",       EMU_OP_RED,        "=ath",    BF16S,            0,            G(PLUS) | G(NOFTZ),    0,       ATOMIC,                     78, 90 },
    { "red",       EMU_OP_RED,        "=ath",    I32,              0,            G(EXTREME),            0,       ATOMIC,                     20, 20 },
    { "red",       EMU_OP_RED,        "=ath",    I64,              0,            G(EXTREME),            0,       ATOMIC,                     31, 32 },
    { "red",       EMU_OP_RED,        "=ath",    BIT(U32),         0,            G(COUNTER),            0,       ATOMIC,                     20, 20 },
    { "red",       EMU_OP_RED,        "=ath",    BIT(B32),         0,            G(LOGIC),              0,       ATOMIC,                     20, 20 },
    { "red",       EMU_OP_RED,        "=ath",    BIT(B64),         0,            G(LOGIC),              0,       ATOMIC,                     31, 32 },
    { "red",       EMU_OP_RED,        "=avh",    BIT(F32),         0,            G(PLUS) | G(VECTOR),   0,       ATOMIC,                     81, 90 },
    { "red",       EMU_OP_RED,        "=avh",    F16S | BF16S,     0,            G(PLUS) | G(NOFTZ) | G(VECTOR), 0,       ATOMIC,                     81, 90 },
    { "redux",     EMU_OP_REDUX,      "t=tu",    I32,              0,            G(SYNC),    G(PLUS) | G(EXTREME), 0,                        70, 80 },
    { "redux",     EMU_OP_REDUX,      "t=tu",    BIT(B32),         0,            G(SYNC) | G(LOGIC),    0,       0,                          70, 80 },
    { "rem",       EMU_OP_REM,        "t=tt",    I16_64,           0,            0,                     0,       0,                          10, 10 },
    { "ret",       EMU_OP_RET,        "=",       0,                0,            0,                     0,       G(UNI),                     10, 10 },
    { "rsqrt",     EMU_OP_RSQRT,      "t=t",     BIT(F32),         0,            G(APPROX),             0,       G(FTZ),                     10, 10 },
    { "rsqrt",     EMU_OP_RSQRT,      "t=t",     BIT(F64),         0,            G(APPROX),             0,       0,                          10, 13 },
    { "rsqrt",     EMU_OP_RSQRT,      "t=t",     BIT(F64),         0,            G(APPROX) | G(FTZ),    0,       0,                          40, 20 },
    { "sad",       EMU_OP_SAD,        "t=ttt",   I16_64,           0,            0,                     0,       0,                          10, 10 },
    { "selp",      EMU_OP_SELP,       "t=ttp",   I16_64 | B16_64 | F32_64, 0,    0,                     0,       0,                          10, 10 },
    { "set",       EMU_OP_SET,        "t=ss",    I32 | BIT(F32),   I16_64 | B16_64 | F32_64, G(COMPARE),            0,       G(FTZ),                     10, 10 },
    { "set",       EMU_OP_SET,        "t=ssp",   I32 | BIT(F32),   I16_64 | B16_64 | F32_64, G(COMPARE) | G(LOGIC), 0,       G(FTZ),                     10, 10 },
    { "set",       EMU_OP_SET,        "t=ss",    BIT(F16),         BIT(F16),     G(COMPARE),            0,       G(FTZ),                     42, 53 },
    { "set",       EMU_OP_SET,        "t=ss",    BIT(U16) | BIT(S16) | I32, BIT(F16),     G(COMPARE),            0,       G(FTZ),                     65, 53 },
    { "set",       EMU_OP_SET,        "t=ssp",   BIT(F16),         BIT(F16),     G(COMPARE) | G(LOGIC), 0,       G(FTZ),                     42, 53 },
    { "set",       EMU_OP_SET,        "t=ssp",   BIT(U16) | BIT(S16) | I32, BIT(F16),     G(COMPARE) | G(LOGIC), 0,       G(FTZ),                     65, 53 },
    { "set",       EMU_OP_SET,        "t=ss",    BIT(BF16) | BIT(U16) | BIT(S16) | I32, BIT(BF16),    G(COMPARE),            0,       0,                          78, 90 },
    { "set",       EMU_OP_SET,        "t=ssp",   BIT(BF16) | BIT(U16) | BIT(S16) | I32, BIT(BF16),    G(COMPARE) | G(LOGIC), 0,       0,                          78, 90 },
    { "set",       EMU_OP_SET,        "t=ss",    BIT(F16X2) | I32, BIT(F16X2),   G(COMPARE),            0,       G(FTZ),                     65, 53 },
    { "set",       EMU_OP_SET,        "t=ssp",   BIT(F16X2) | I32, BIT(F16X2),   G(COMPARE) | G(LOGIC), 0,       G(FTZ),                     65, 53 },
    { "set",       EMU_OP_SET,        "t=ss",    BIT(BF16X2) | I32, BIT(BF16X2),  G(COMPARE),            0,       0,                          78, 90 },
    { "set",       EMU_OP_SET,        "t=ssp",   BIT(BF16X2) | I32, BIT(BF16X2),  G(COMPARE) | G(LOGIC), 0,       0,                          78, 90 },
    { "setp",      EMU_OP_SETP,       "pq=tt",   I16_64 | B16_64 | BIT(F64), 0,            G(COMPARE),            0,       0,                          10, 10 },
    { "setp",      EMU_OP_SETP,       "pq=ttp",  I16_64 | B16_64 | BIT(F64), 0,            G(COMPARE) | G(LOGIC), 0,       0,                          10, 10 },
    { "setp",      EMU_OP_SETP,       "pq=tt",   BIT(F32),         0,            G(COMPARE),            0,       G(FTZ),                     10, 10 },
    { "setp",      EMU_OP_SETP,       "pq=ttp",  BIT(F32),         0,            G(COMPARE) | G(LOGIC), 0,       G(FTZ),                     10, 10 },
    { "setp",      EMU_OP_SETP,       "pq=tt",   BIT(F16),         0,            G(COMPARE),            0,       G(FTZ),                     42, 53 },
    { "setp",      EMU_OP_SETP,       "pq=ttp",  BIT(F16),         0,            G(COMPARE) | G(LOGIC), 0,       G(FTZ),                     42, 53 },
    { "setp",      EMU_OP_SETP,       "pq=tt",   BIT(BF16),        0,            G(COMPARE),            0,       0,                          78, 90 },
    { "setp",      EMU_OP_SETP,       "pq=ttp",  BIT(BF16),        0,            G(COMPARE) | G(LOGIC), 0,       0,                          78, 90 },
    { "setp",      EMU_OP_SETP,       "pq=tt",   BIT(F16X2),       0,            G(COMPARE),            0,       G(FTZ),                     42, 53 },
    { "setp",      EMU_OP_SETP,       "pq=ttp",  BIT(F16X2),       0,            G(COMPARE) | G(LOGIC), 0,       G(FTZ),                     42, 53 },
    { "setp",      EMU_OP_SETP,       "pq=tt",   BIT(BF16X2),      0,            G(COMPARE),            0,       0,                          78, 90 },
    { "setp",      EMU_OP_SETP,       "pq=ttp",  BIT(BF16X2),      0,            G(COMPARE) | G(LOGIC), 0,       0,                          78, 90 },
    { "shf",       EMU_OP_SHF_L,      "t=ttu",   BIT(B32),         0,            G(LEFT) | G(CLAMP),    0,       0,                          31, 32 },
    { "shf",       EMU_OP_SHF_R,      "t=ttu",   BIT(B32),         0,            G(RIGHT) | G(CLAMP),   0,       0,                          31, 32 },
    { "shfl",      EMU_OP_SHFL_BFLY,  "tq=tuuu", BIT(B32),         0,            G(BFLY) | G(SYNC),     0,       0,                          60, 30 },
    { "shfl",      EMU_OP_SHFL_DOWN,  "tq=tuuu", BIT(B32),         0,            G(DOWN) | G(SYNC),     0,       0,                          60, 30 },
    { "shfl",      EMU_OP_SHFL_IDX,   "tq=tuuu", BIT(B32),         0,            G(IDX) | G(SYNC),      0,       0,                          60, 30 },
    { "shfl",      EMU_OP_SHFL_UP,    "tq=tuuu", BIT(B32),         0,            G(UP) | G(SYNC),       0,       0,                          60, 30 },
    { "shl",       EMU_OP_SHL,        "t=tu",    B16_64,           0,            0,                     0,       0,                          10, 10 },
    { "shr",       EMU_OP_SHR,        "t=tu",    B16_64 | I16_64,  0,            0,                     0,       0,                          10, 10 },
    { "sin",       EMU_OP_SIN,        "t=t",     BIT(F32),         0,            G(APPROX),             0,       G(FTZ),                     10, 10 },
    { "slct",      EMU_OP_SLCT,       "t=tts",   I16_64 | B16_64 | F32_64, BIT(S32), 0,                 0,       0,                          10, 10 },
    { "slct",      EMU_OP_SLCT,       "t=tts",   I16_64 | B16_64 | F32_64, BIT(F32), 0,                 0,       G(FTZ),                     10, 10 },
    { "sqrt",      EMU_OP_SQRT,       "t=t",     BIT(F32),         0,            0,          ROUND | G(APPROX),  G(FTZ),                     10, 10 },
    { "sqrt",      EMU_OP_SQRT,       "t=t",     BIT(F64),         0,            0,                     ROUND,   0,                          14, 13 },
    { "st",        EMU_OP_ST,         "=avh",    MEMORY,           0,            0,                     0,       STORE,                      10, 10 },
    { "sub",       EMU_OP_SUB,        "t=tt",    BIT(S32),         0,            0,                     0,       G(SAT),                     10, 10 },
    { "sub",       EMU_OP_SUB,        "t=tt",    I16_64,           0,            0,                     0,       0,                          10, 10 },
    { "sub",       EMU_OP_SUB,        "t=tt",    I32,              0,            G(CC),                 0,       0,                          12, 10 },
    { "sub",       EMU_OP_SUB,        "t=tt",    I64,              0,            G(CC),                 0,       0,                          43, 20 },
    { "sub",       EMU_OP_SUB,        "t=tt",    BIT(F32),         0,            0,                     0,       ROUND | G(FTZ) | G(SAT),    10, 10 },
    { "sub",       EMU_OP_SUB,        "t=tt",    BIT(F64),         0,            0,                     0,       ROUND,                      10, 13 },
    { "sub",       EMU_OP_SUB,        "t=tt",    F16S,             0,            0,                     0,       G(RN) | G(FTZ) | G(SAT),    42, 53 },
    { "sub",       EMU_OP_SUB,        "t=tt",    BF16S,            0,            0,                     0,       G(RN),                      78, 90 },
    { "subc",      EMU_OP_SUBC,       "t=tt",    I32,              0,            0,                     0,       G(CC),                      12, 10 },
    { "subc",      EMU_OP_SUBC,       "t=tt",    I64,              0,            0,                     0,       G(CC),                      43, 20 },
    { "tanh",      EMU_OP_TANH,       "t=t",     BIT(F32) | F16S,  0,            G(APPROX),             0,       0,                          70, 75 },
    { "tanh",      EMU_OP_TANH,       "t=t",     BF16S,            0,            G(APPROX),             0,       0,                          78, 90 },
    { "testp",     EMU_OP_TESTP,      "p=t",     F32_64,           0,            G(TEST),               0,       0,                          20, 20 },
    { "trap",      EMU_OP_TRAP,       "=",       0,                0,            0,                     0,       0,                          10, 10 },
    { "vote",      EMU_OP_VOTE_ALL,   "p=pu",    BIT(PRED),        0,            G(ALL) | G(SYNC),      0,       0,                          60, 30 },
    { "vote",      EMU_OP_VOTE_ANY,   "p=pu",    BIT(PRED),        0,            G(ANY) | G(SYNC),      0,       0,                          60, 30 },
    { "vote",      EMU_OP_VOTE_BALLOT, "t=pu",   BIT(B32),         0,            G(BALLOT) | G(SYNC),   0,       0,                          60, 30 },
    { "vote",      EMU_OP_VOTE_UNI,   "p=pu",    BIT(PRED),        0,            G(UNI) | G(SYNC),      0,       0,                          60, 30 },
    { "xor",       EMU_OP_XOR,        "t=tt",    B16_64,           0,            0,                     0,       0,                          10, 10 },
    { "xor",       EMU_OP_XOR,        "p=pp",    BIT(PRED),        0,            0,                     0,       0,                          10, 10 },
};

static const char *const unsupported[] = {
    "alloca", "bmsk", "brkpt", "clusterlaunchcontrol", "elect", "getctarank", "istypep", "ldmatrix",
    "mapa", "mbarrier", "mma", "movmatrix", "multimem", "pmevent", "setmaxnreg", "stackrestore", "stacksave",
    "stmatrix", "st_async", "suld", "suq", "sured", "sust", "szext", "tcgen05", "tensormap", "tex",
    "tld4", "txq", "vabsdiff", "vabsdiff2", "vabsdiff4", "vadd", "vadd2", "vadd4", "vavrg2",
    "vavrg4", "vmad", "vmax", "vmax2", "vmax4", "vmin", "vmin2", "vmin4", "vset", "vset2", "vset4",
    "vshl", "vshr", "vsub", "vsub2", "vsub4", "wgmma", "wmma",
};

// clang-format on

static int order(const char *name, const char *at, size_t length)
{
    const int difference = strncmp(name, at, length);
    return difference ? difference : name[length] != '\0';
}

const struct emu_form *emu_forms_find(const char *at, size_t length, unsigned *count)
{
    size_t low = 0, high = sizeof forms / sizeof *forms, end;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (order(forms[middle].name, at, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < sizeof forms / sizeof *forms && !order(forms[end].name, at, length);)
        end++;
    *count = (unsigned)(end - low);
    return *count ? &forms[low] : NULL;
}

bool emu_is_unsupported(const char *at, size_t length)
{
    for (size_t k = 0; k < sizeof unsupported / sizeof *unsupported; k++)
        if (!order(unsupported[k], at, length))
            return true;
    return false;
}

const struct emu_form *emu_forms_all(unsigned *count)
{
    *count = sizeof forms / sizeof *forms;
    return forms;
}

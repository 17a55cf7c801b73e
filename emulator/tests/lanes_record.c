// SPDX-License-Identifier: MIT
// The lane functions of f32 and f64 that round once, and min and max, of one build alone, on the
// operands of tests/hardware/op_record.c in every rounding mode: compares the hashes of the results
// with those that a GPU gave.
//
//     lanes_record tests/hardware/h200.txt
#include "exec/lanes/family.h"
#include "op_inputs.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { VALUES = 2048, OPERANDS = 4 };

static uint64_t values[2][OPERANDS][VALUES]; // of f32 and f64

// In the order in which op_record draws them.
static void make_values(void)
{
    struct random random = { 20260 };
    for (unsigned t = 1; t < OP_TYPES; t++)
        for (unsigned k = 0; k < OPERANDS; k++)
            for (unsigned i = 0; i < VALUES; i++) {
                const ptx_type type = op_type(t) == PTX_PRED ? PTX_U32 : op_type(t);
                const uint64_t x = op_input(&random, type, k, i);
                if (type == PTX_F32 || type == PTX_F64)
                    values[type == PTX_F64][k][i] = x;
            }
}

static uint64_t hash_of(emu_lane_function *fn, const struct emu_insn *insn)
{
    const bool wide = insn->type == EMU_F64;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (unsigned first = 0; first < VALUES; first += EMU_LANES) {
        uint32_t words[3][EMU_LANES], out_words[EMU_LANES];
        uint64_t longs[3][EMU_LANES], out_longs[EMU_LANES];
        const void *src[4] = { NULL };
        for (unsigned k = 0; k < 3; k++) {
            EMU_FOR_LANES longs[k][i] = values[wide][k][first + i];
            EMU_FOR_LANES words[k][i] = (uint32_t)values[wide][k][first + i];
            src[k] = wide ? (const void *)longs[k] : (const void *)words[k];
        }
        emu_apply(fn, wide ? (void *)out_longs : (void *)out_words, src, insn);
        for (unsigned k = 0; k < EMU_LANES * (wide ? 8 : 4); k++) {
            const uint64_t x =
                wide ? out_longs[k / 8] >> 8 * (k % 8) : out_words[k / 4] >> 8 * (k % 4);
            hash = (hash ^ (x & 0xff)) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

// True if the file has the line, with this hash.
static bool recorded(const char *path, const char *name, uint64_t hash)
{
    FILE *file = fopen(path, "r");
    char line[256], wanted[96];
    bool found = false;
    snprintf(wanted, sizeof(wanted), "%s %016" PRIx64, name, hash);
    while (file && !found && fgets(line, sizeof(line), file))
        found = strncmp(line, wanted, strlen(wanted)) == 0;
    if (file)
        fclose(file);
    return found;
}

static bool check(const char *path, const char *name, struct emu_insn insn)
{
    static const int modes[] = { [EMU_RN] = FE_TONEAREST,
                                 [EMU_RZ] = FE_TOWARDZERO,
                                 [EMU_RM] = FE_DOWNWARD,
                                 [EMU_RP] = FE_UPWARD };
    struct emu_lane_info info;
    if (!EMU_NAMED(emu_find_directed)(&insn, &info) && !EMU_NAMED(emu_find_float)(&insn, &info)) {
        printf("%s: no function\n", name);
        return false;
    }
    fesetround(insn.round ? modes[insn.round] : FE_TONEAREST);
    const uint64_t hash = hash_of(info.fn, &insn);
    fesetround(FE_TONEAREST);
    if (recorded(path, name, hash))
        return true;
    printf("%s: %016" PRIx64 " is not what is recorded\n", name, hash);
    return false;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        unsigned opcode;
        bool rounds;
    } ops[] = {
        { "add", EMU_OP_ADD, true },  { "sub", EMU_OP_SUB, true },  { "mul", EMU_OP_MUL_LO, true },
        { "div", EMU_OP_DIV, true },  { "fma", EMU_OP_FMA, true },  { "sqrt", EMU_OP_SQRT, true },
        { "rcp", EMU_OP_RCP, true },  { "min", EMU_OP_MIN, false }, { "max", EMU_OP_MAX, false },
        { "neg", EMU_OP_NEG, false }, { "abs", EMU_OP_ABS, false },
    };
    static const struct {
        const char *name;
        unsigned round;
    } rounds[] = { { "", EMU_ROUND_NONE },
                   { ".rn", EMU_RN },
                   { ".rz", EMU_RZ },
                   { ".rm", EMU_RM },
                   { ".rp", EMU_RP } };
    unsigned cases = 0, wrong = 0;
    if (argc != 2)
        return 2;
    make_values();
    for (size_t k = 0; k < sizeof(ops) / sizeof(*ops); k++)
        for (unsigned wide = 0; wide < 2; wide++)
            for (unsigned m = 0; m < (ops[k].rounds ? 5 : 1); m++) {
                char name[32];
                const struct emu_insn insn = { .opcode = (uint16_t)ops[k].opcode,
                                               .type = wide ? EMU_F64 : EMU_F32,
                                               .src_count = 2,
                                               .round = (uint8_t)rounds[m].round };
                snprintf(name, sizeof(name), "%s%s.%s", ops[k].name, rounds[m].name,
                         wide ? "f64" : "f32");
                wrong += !check(argv[1], name, insn);
                cases++;
            }
    printf("%u of %u cases differ from the recording\n", wrong, cases);
    return wrong != 0;
}

// SPDX-License-Identifier: MIT
// f32 and f64 rounded towards zero or an infinity: the operations of float.h, compiled for any
// rounding mode of the calling thread.
#include "float.h"

#include <math.h>

ROUNDED_ONCE(f32, uint32_t, float, sqrtf, fmaf)
ROUNDED_ONCE(f64, uint64_t, double, sqrt, fma)

static emu_lane_function *find(const struct emu_insn *insn)
{
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define ROUNDED(stem) return insn->type == EMU_F64 ? stem##_f64 : stem##_f32;
#include "isa.def"
    default:
        break;
    }
    return NULL;
}

bool EMU_NAMED(emu_find_directed)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    if ((insn->type != EMU_F32 && insn->type != EMU_F64 && insn->type != EMU_F32X2) ||
        insn->round < EMU_RZ || insn->round > EMU_RP)
        return false;
    info->fn = find(insn);
    info->is_float = true;
    return info->fn != NULL;
}

// SPDX-License-Identifier: MIT
// The rows of isa.def are sorted, and each has a lane function for everything that its forms allow,
// in every build.
#include "exec/lanes/lanes.h"
#include "ptx/isa.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static const char *const lanes_of[EMU_OP_COUNT] = {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...) [EMU_OP_##opcode] = #lanes,
#include "isa.def"
};

TEST(rows_are_sorted)
{
    unsigned count;
    const struct emu_spelling *rows = emu_spellings_all(&count);
    assert_true(count > 100);
    for (unsigned k = 1; k < count; k++)
        assert_true(strcmp(rows[k - 1].mnemonic, rows[k].mnemonic) <= 0);
    for (unsigned k = 0; k < count; k++) {
        unsigned found;
        const struct emu_spelling *first =
            emu_spellings_find(rows[k].mnemonic, strlen(rows[k].mnemonic), &found);
        assert_true(first <= &rows[k] && &rows[k] < first + found);
    }
}

static bool finds(enum emu_lane_build build, const struct emu_insn *insn)
{
    struct emu_lane_info info;
    return emu_lane_find(build, insn, &info) && info.fn;
}

static void require_lanes(const struct emu_spelling *row, const struct emu_insn *insn)
{
    for (enum emu_lane_build build = EMU_LANES_PLAIN; build <= EMU_LANES_AVX2; build++)
        if (!finds(build, insn))
            fail_msg("%s, type %u, source type %u: no function in build %u", row->mnemonic,
                     insn->type, insn->source_type, build);
}

// Whether the comparison exists for the type.
static bool applies(unsigned compare, unsigned type)
{
    if (type >= EMU_F16)
        return compare <= EMU_GE || compare >= EMU_EQU;
    return compare <= (type >= EMU_B8 ? EMU_NE : type >= EMU_S8 ? EMU_GE : EMU_HS);
}

static unsigned sources(const struct emu_form *form)
{
    return (unsigned)strlen(strchr(form->operands, '=') + 1);
}

static void try_types(const struct emu_spelling *row, const struct emu_form *form,
                      struct emu_insn insn)
{
    for (unsigned type = EMU_NONE; type <= EMU_F32X2; type++)
        for (unsigned second = EMU_NONE; second <= EMU_F32X2; second++) {
            bool is_first = form->types ? form->types >> type & 1 : type == EMU_NONE;
            bool is_second = form->second ? form->second >> second & 1 : second == type;
            if (!is_first || !is_second)
                continue;
            insn.type = (uint8_t)type;
            insn.source_type = (uint8_t)second;
            insn.src_count = (uint8_t)sources(form);
            for (unsigned compare = EMU_EQ; compare <= EMU_NAN; compare++) {
                insn.compare = (uint8_t)compare;
                if (compare == EMU_EQ || (form->must & EMU_G(COMPARE) && applies(compare, second)))
                    require_lanes(row, &insn);
            }
        }
}

// With each modifier that a form may have.
TEST(every_form_has_a_function)
{
    unsigned count, tried = 0;
    const struct emu_spelling *rows = emu_spellings_all(&count);
    for (unsigned k = 0; k < count; k++)
        for (unsigned i = 0; i < rows[k].form_count; i++) {
            const struct emu_form *form = &rows[k].forms[i];
            if (form->lacks || !lanes_of[rows[k].opcode][0])
                continue;
            tried++;
            const emu_groups may = form->must | form->one_of | form->may;
            const bool rounds = form->one_of & EMU_G(RN);
            struct emu_insn insn = { .opcode = rows[k].opcode,
                                     .lanes = 1,
                                     .approx = form->must >> EMU_GROUP_INDEX_APPROX & 1 };
            // the handler adds; only products have a lane function
            if (form->must & EMU_G(CC) && sources(form) < 3)
                continue;
            try_types(&rows[k], form, insn);
            insn.sat = may >> EMU_GROUP_INDEX_SAT & 1;
            insn.ftz = may >> EMU_GROUP_INDEX_FTZ & 1;
            insn.relu = may >> EMU_GROUP_INDEX_RELU & 1;
            insn.nan = may >> EMU_GROUP_INDEX_NAN & 1;
            insn.abs = may >> EMU_GROUP_INDEX_ABS & 1;
            insn.xorsign = may >> EMU_GROUP_INDEX_XORSIGN & 1;
            insn.round = may & EMU_G(DIRECTED) ? EMU_RP : EMU_ROUND_NONE;
            try_types(&rows[k], form, insn);
            insn.round = rounds ? EMU_RN : EMU_ROUND_NONE;
            insn.approx = insn.approx || form->one_of >> EMU_GROUP_INDEX_APPROX & 1;
            if (form->one_of & EMU_G(APPROX))
                try_types(&rows[k], form, insn);
            insn.approx = false;
            insn.full = form->one_of >> EMU_GROUP_INDEX_FULL & 1;
            if (insn.full)
                try_types(&rows[k], form, insn);
        }
    assert_true(tried > 100);
}

// A row names a lane function if and only if its handler runs one.
TEST(rows_name_what_their_handler_runs)
{
    static const char *const handlers[EMU_OP_COUNT] = {
#define INSTRUCTION(opcode, mnemonic, handler, ...) [EMU_OP_##opcode] = #handler,
#include "isa.def"
    };
    for (unsigned k = 0; k < EMU_OP_COUNT; k++) {
        assert_non_null(handlers[k]);
        bool runs = !strcmp(handlers[k], "LANES") || !strcmp(handlers[k], "COMPARE") ||
                    !strcmp(handlers[k], "TRUTH");
        if (runs)
            assert_true(lanes_of[k][0]);
        else if (strcmp(handlers[k], "CARRY") != 0)
            assert_false(lanes_of[k][0]);
    }
}

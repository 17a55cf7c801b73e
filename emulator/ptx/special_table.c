// SPDX-License-Identifier: MIT
#include "special_table.h"

#include <string.h>

// clang-format off

static const struct emu_special_row rows[] = {
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

const struct emu_special_row *emu_special_find(const char *at, size_t length)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strlen(rows[k].name) == length && memcmp(rows[k].name, at, length) == 0)
            return &rows[k];
    return NULL;
}

bool emu_special_is_unsupported(const char *at, size_t length)
{
    static const char *const prefixes[] = {
        "%aggr_smem_size", "%current_graph_exec", "%envreg", "%is_explicit_cluster", "%pm",
        "%reserved_smem_",
    };

    for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++)
        if (length >= strlen(prefixes[k]) && memcmp(at, prefixes[k], strlen(prefixes[k])) == 0)
            return true;
    return false;
}

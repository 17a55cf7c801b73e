// SPDX-License-Identifier: MIT
// What a spec of the step kernel asks of its launch: tiles, blocks, arguments.
#include "step_apply.h"

// Eight where an array has fewer than 32 bits, so that a vector of it is 16 bytes or 8. A gradient
// alone is too little to read for the registers that eight lanes of all the others take.
unsigned ptxk_step_lanes(const struct ptxk_step_variant *v)
{
    for (unsigned k = 0; k < ARRAYS; k++)
        if (k != ARRAY_GRADIENT && ptxk_step_array_type(v, k) != PTX_NONE &&
            ptx_type_bytes(ptxk_step_array_type(v, k)) < 4)
            return 8;
    return 4;
}

static unsigned blocks_of(const struct ptxk_step_variant *v, uint32_t tile)
{
    const struct ptxk_step_format *format = ptxk_step_format_of(v->format);
    const bool is_short = tile <= 2 * NORM_BLOCK * ptxk_step_lanes(v);

    const unsigned blocks = is_short ? format->blocks_if_short : format->blocks;

    // The average of eight elements takes registers, which more blocks do not leave.
    return v->ema != PTX_NONE && ptxk_step_lanes(v) == 8 && blocks > 4 ? 4 : blocks;
}

enum { MOST_WITH_REGISTERS_LEFT = 4 };

unsigned ptxk_step_blocks_per_sm(const struct ptxk_step_spec *spec)
{
    unsigned blocks = 0;

    for (unsigned k = 0; k < spec->variant_count; k++) {
        const unsigned own = blocks_of(&spec->variants[k], spec->tile);
        if (!spec->variants[k].rule->of_matrices) // they have a kernel of their own
            blocks = !blocks || own < blocks ? own : blocks;
    }
    // Reports of weights take registers that so many blocks do not leave.
    if (spec->reports_weights && blocks > MOST_WITH_REGISTERS_LEFT)
        blocks--;
    return blocks * (NORM_BLOCK / ptxk_step_threads(spec));
}

unsigned ptxk_step_threads(const struct ptxk_step_spec *spec)
{
    return spec->threads ? spec->threads : NORM_BLOCK;
}

bool ptxk_step_may_have_fewer_threads(const struct ptxk_step_spec *spec)
{
    return !ptxk_step_has_blocks(spec) && !ptxk_step_has_sums(spec) &&
           !ptxk_step_has_matrices(spec);
}

// Several vectors a thread only if that leaves tiles enough for every SM, the more the longer a
// tile takes.
static uint32_t tile_of(const struct ptxk_step_variant *v, uint64_t elements)
{
    enum { TILES = 256 };
    const uint32_t span = NORM_BLOCK * ptxk_step_lanes(v);
    uint32_t vectors = ptxk_step_format_of(v->format)->vectors;

    while (vectors > 1 && elements / (span * vectors) < TILES * vectors)
        vectors /= 2;
    return span * vectors;
}

uint32_t ptxk_step_tile(const struct ptxk_step_spec *spec, uint64_t elements)
{
    uint32_t tile = 0;

    for (unsigned k = 0; k < spec->variant_count; k++) {
        const uint32_t own = tile_of(&spec->variants[k], elements);
        tile = own > tile ? own : tile;
    }
    return tile;
}

// Variants are in the order of their rules.
struct ptxk_step_rules ptxk_step_rules(const struct ptxk_step_spec *spec)
{
    struct ptxk_step_rules rules = { .count = 0 };

    for (unsigned k = 0; k < spec->variant_count; k++)
        if (!rules.count || rules.rule[rules.count - 1] != spec->variants[k].rule)
            rules.rule[rules.count++] = spec->variants[k].rule;
    return rules;
}

bool ptxk_step_has_ema(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (spec->variants[k].ema != PTX_NONE)
            return true;
    return false;
}

bool ptxk_step_has_copies(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (spec->variants[k].copy)
            return true;
    return false;
}

bool ptxk_step_has_copy_rows(const struct ptxk_step_spec *spec)
{
    return spec->takes_amax || ptxk_step_has_copies(spec);
}

struct ptxk_step_matrices ptxk_step_matrices(const struct ptxk_step_spec *spec)
{
    struct ptxk_step_matrices found = { 0 };

    for (unsigned k = 0; k < spec->variant_count; k++)
        if (spec->variants[k].rule->of_matrices && !found.count++)
            found.first = k;
    return found;
}

bool ptxk_step_has_matrices(const struct ptxk_step_spec *spec)
{
    return ptxk_step_matrices(spec).count != 0;
}

bool ptxk_step_beside_products(const struct ptxk_step_spec *spec)
{
    return ptxk_step_has_matrices(spec) && !spec->over_ranks;
}

bool ptxk_step_has_sums(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (spec->variants[k].rule->sums)
            return true;
    return false;
}

bool ptxk_step_draws(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (ptxk_step_streams(&spec->variants[k]))
            return true;
    return false;
}

uint32_t ptxk_step_row_words(const struct ptxk_step_spec *spec)
{
    unsigned most = 0;

    for (unsigned k = 0; k < spec->variant_count; k++) {
        const unsigned states = ptxk_step_states(&spec->variants[k]);
        most = states > most ? states : most;
    }
    if (most > PTX_RULE_MAX_STATES)
        return STEP_ROW_WORDS;
    return most > STEP_ROW_STATES ? NORM_PLACE(uint64_t, struct step_tensor_row, last_states)
                                  : NORM_PLACE(uint64_t, struct step_tensor_row, more_states);
}

const char *ptxk_step_row_meaning(const struct ptxk_step_spec *spec, const char *const meanings[3])
{
    const uint32_t words = ptxk_step_row_words(spec);

    return meanings[words == STEP_ROW_WORDS                                             ? 2
                    : words > NORM_PLACE(uint64_t, struct step_tensor_row, more_states) ? 1
                                                                                        : 0];
}

uint32_t ptxk_step_set_scalars(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (ptxk_step_rule_places(spec->variants[k].rule) > STEP_FEW_SCALARS)
            return STEP_SCALARS;
    return STEP_FEW_SCALARS;
}

bool ptxk_step_has_blocks(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (ptxk_step_blocks_of(&spec->variants[k]))
            return true;
    return false;
}

// The blocks of variant `k`, if they have tables that no variant before has.
static const struct ptxk_step_blocks *tables_of(const struct ptxk_step_spec *spec, unsigned k)
{
    const struct ptxk_step_blocks *blocks = ptxk_step_blocks_of(&spec->variants[k]);

    for (unsigned n = 0; n < k && blocks; n++)
        if (ptxk_step_blocks_of(&spec->variants[n]) == blocks)
            return NULL;
    return blocks && blocks->table_bytes ? blocks : NULL;
}

uint32_t ptxk_step_tables_before(const struct ptxk_step_spec *spec,
                                 const struct ptxk_step_blocks *blocks)
{
    uint32_t bytes = 0;

    for (unsigned k = 0; k < spec->variant_count; k++) {
        const struct ptxk_step_blocks *own = tables_of(spec, k);
        if (own && own == blocks)
            break;
        bytes += own ? (uint32_t)own->table_bytes : 0;
    }
    return bytes;
}

uint32_t ptxk_step_tables_most(const struct ptxk_step_spec *spec)
{
    uint32_t most = 0;

    for (unsigned k = 0; k < spec->variant_count; k++) {
        const struct ptxk_step_blocks *own = tables_of(spec, k);
        most = own && own->table_bytes > most ? (uint32_t)own->table_bytes : most;
    }
    return most;
}

const char *ptxk_step_tables_meaning(const struct ptxk_step_spec *spec)
{
    const char *meaning = NULL;

    for (unsigned k = 0; k < spec->variant_count; k++) {
        const struct ptxk_step_blocks *own = tables_of(spec, k);
        if (own)
            meaning = meaning ? "of several formats" : own->tables_meaning;
    }
    return meaning;
}

void ptxk_step_tables_fill(const struct ptxk_step_spec *spec, unsigned char *tables)
{
    for (unsigned k = 0; k < spec->variant_count; k++) {
        const struct ptxk_step_blocks *own = tables_of(spec, k);
        if (own)
            own->tables_fill(tables + ptxk_step_tables_before(spec, own));
    }
}

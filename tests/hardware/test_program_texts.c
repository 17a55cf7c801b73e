// SPDX-License-Identifier: MIT
// The random programs are those that a GPU ran: the hash of the texts and inputs of all recorded
// seeds is the one of the recording, whatever instructions the builder has now.
#include "random_program.h"

#include <inttypes.h>
#include <stdio.h>

static const struct set {
    uint64_t first;
    unsigned count;
    uint64_t hash;
} sets[] = {
    { 1, 24000, UINT64_C(0x4e121c482c60e58b) },
    { PROGRAM_LATER, 5000, UINT64_C(0x61c649cb10c72bd0) },
};
static const uint64_t inputs_hash = UINT64_C(0x3218c20058b85b9d);
static const uint64_t hash_begin = UINT64_C(0xcbf29ce484222325); // FNV-1a

static uint64_t hash_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

static bool add_text(uint64_t *hash, uint64_t seed)
{
    static const struct ptx_target target = { .sm = 90 };
    static struct program p;
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = target });
    char error[400];

    program_plan(&p, seed);
    if (p.later && !program_fit(&p, target, error, sizeof error))
        printf("program %" PRIu64 ": %s\n", seed, error);
    program_emit(b, &p, "program");
    const char *text = ptx_builder_finish(b);
    if (!text)
        printf("program %" PRIu64 ": %s\n", seed, ptx_builder_error(b));
    for (const char *c = text; c && *c; c++)
        *hash = hash_byte(*hash, (unsigned char)*c);
    ptx_builder_destroy(&b);
    return text != NULL;
}

static bool is_same(const char *what, uint64_t hash, uint64_t recorded)
{
    if (hash != recorded)
        printf("%s: hash %016" PRIx64 ", recorded %016" PRIx64 "\n", what, hash, recorded);
    return hash == recorded;
}

int main(void)
{
    static unsigned char in[PROGRAM_IN_BYTES];
    uint64_t inputs = hash_begin;
    bool same = true;

    program_catalogue();
    for (const struct set *s = sets; s < sets + sizeof sets / sizeof *sets; s++) {
        uint64_t texts = hash_begin;
        for (uint64_t seed = s->first; seed < s->first + s->count; seed++)
            if (!add_text(&texts, seed))
                return 1;
        printf("%u programs from %" PRIu64 " on\n", s->count, s->first);
        same &= is_same("texts", texts, s->hash);
    }
    program_inputs(in);
    for (unsigned k = 0; k < PROGRAM_IN_BYTES; k++)
        inputs = hash_byte(inputs, in[k]);
    if (!is_same("inputs", inputs, inputs_hash) || !same) {
        printf(
            "The builder writes the recorded programs differently, or the generator makes others.\n"
            "If the builder's text was meant to change, set the new hash here once "
            "'differential -n 24000' and 'differential -s 1000000 -n 5000' agree with the "
            "recordings.\n");
        return 1;
    }
    return 0;
}

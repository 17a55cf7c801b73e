// SPDX-License-Identifier: MIT
// Steps of weak loads and stores by all 32 lanes of a warp, for each width and number of elements.
// One pass over the addresses finds whether all are within one region, aligned, and in which
// pattern; then the sanitizers check the lanes together. What a step does not know, it leaves to
// emu_step_any(), which names the lane at fault.
//
// As the lane functions, this is compiled once for any processor and once for AVX2.
#include "exec/access/access.h"
#include "exec/check/race.h"
#include "lanes/family.h"
#include "step.h"

#include <stdalign.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define ALWAYS inline __attribute__((always_inline))

typedef uint16_t __attribute__((may_alias, aligned(1))) half;
typedef uint32_t __attribute__((may_alias, aligned(1))) word;
typedef uint64_t __attribute__((may_alias, aligned(1))) wide;

// How eight lanes lie to each other: one after the other, all at the same address, or otherwise.
enum { GROUP = 8, GROUPS = EMU_LANES / GROUP };
enum kind { IN_ROW, SAME, APART };

// Offsets of the lanes in a region, in eights that a processor with AVX2 keeps in registers.
struct offsets {
#ifdef __AVX2__
    __m256i of[GROUPS];
#else
    uint32_t lane[EMU_LANES];
#endif
};

// The region that the lanes access.
struct place {
    unsigned char *host, *shadow; // shadow may be NULL
    uint64_t bytes, add;          // an address plus `add` is an offset
    bool shared;
};

// ---- addresses ----------------------------------------------------------------------------------

// Each finds the offsets of the lanes. False if one is above `last` or not a multiple of `total`.
#ifdef __AVX2__
static ALWAYS __m256i load_vector(const void *from)
{
    return _mm256_loadu_si256(from);
}

static ALWAYS bool offsets_of_words(struct offsets *to, const uint32_t *address, uint32_t add,
                                    uint32_t last, uint32_t total)
{
    const __m256i adds = _mm256_set1_epi32((int)add), lasts = _mm256_set1_epi32((int)last);
    __m256i bad = _mm256_setzero_si256(), low = bad;
    for (unsigned g = 0; g < GROUPS; g++) {
        const __m256i x = _mm256_add_epi32(load_vector(address + GROUP * g), adds);
        bad = _mm256_or_si256(bad, _mm256_sub_epi32(lasts, x)); // only the sign counts
        low = _mm256_or_si256(low, x);
        to->of[g] = x;
    }
    bad = _mm256_or_si256(_mm256_srai_epi32(bad, 31), low);
    return _mm256_testz_si256(bad, _mm256_set1_epi32((int)(UINT32_C(0x80000000) | (total - 1))));
}

static ALWAYS bool offsets_of_longs(struct offsets *to, const uint64_t *address, uint64_t add,
                                    uint64_t last, uint32_t total)
{
    const __m256i adds = _mm256_set1_epi64x((long long)add);
    const __m256i lasts = _mm256_set1_epi64x((long long)last);
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    __m256i bad = _mm256_setzero_si256(), low = bad;
    for (unsigned g = 0; g < GROUPS; g++) {
        const __m256i x = _mm256_add_epi64(load_vector(address + GROUP * g), adds);
        const __m256i y = _mm256_add_epi64(load_vector(address + GROUP * g + 4), adds);
        bad = _mm256_or_si256(bad, _mm256_sub_epi64(lasts, x));
        bad = _mm256_or_si256(bad, _mm256_sub_epi64(lasts, y));
        low = _mm256_or_si256(low, _mm256_or_si256(x, y));
        to->of[g] = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(x, even),
                                       _mm256_permutevar8x32_epi32(y, even), 0xf0);
    }
    const __m256i sign = _mm256_set1_epi64x(INT64_MIN);
    bad = _mm256_or_si256(_mm256_and_si256(bad, sign), low);
    return _mm256_testz_si256(bad, _mm256_or_si256(sign, _mm256_set1_epi64x((int)total - 1)));
}

static ALWAYS bool offsets_of_low_words(struct offsets *to, const uint64_t *address, uint32_t add,
                                        uint32_t last, uint32_t total)
{
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    uint32_t words[EMU_LANES];
    for (unsigned g = 0; g < 2 * GROUPS; g++) {
        const __m256i x = _mm256_permutevar8x32_epi32(load_vector(address + 4 * g), even);
        _mm_storeu_si128((__m128i *)(void *)(words + 4 * g), _mm256_castsi256_si128(x));
    }
    return offsets_of_words(to, words, add, last, total);
}

static ALWAYS uint32_t first_of(const struct offsets *from, unsigned g)
{
    return (uint32_t)_mm256_extract_epi32(from->of[g], 0);
}

static ALWAYS enum kind kind_of(const struct offsets *from, unsigned g, uint32_t total)
{
    const int t = (int)total;
    const __m256i steps = _mm256_setr_epi32(0, t, 2 * t, 3 * t, 4 * t, 5 * t, 6 * t, 7 * t);
    const __m256i first = _mm256_broadcastd_epi32(_mm256_castsi256_si128(from->of[g]));
    const __m256i away = _mm256_sub_epi32(from->of[g], first);
    const __m256i off = _mm256_xor_si256(away, steps);
    return _mm256_testz_si256(off, off) ? IN_ROW : _mm256_testz_si256(away, away) ? SAME : APART;
}

// Whether all lanes lie one after the other.
static ALWAYS bool is_row(const struct offsets *from, uint32_t total)
{
    const int t = (int)total;
    const __m256i steps = _mm256_setr_epi32(0, t, 2 * t, 3 * t, 4 * t, 5 * t, 6 * t, 7 * t);
    const __m256i first = _mm256_broadcastd_epi32(_mm256_castsi256_si128(from->of[0]));
    __m256i off = _mm256_setzero_si256();
    for (unsigned g = 0; g < GROUPS; g++) {
        const __m256i more = _mm256_add_epi32(steps, _mm256_set1_epi32((int)(GROUP * g) * t));
        const __m256i away = _mm256_sub_epi32(from->of[g], first);
        off = _mm256_or_si256(off, _mm256_xor_si256(away, more));
    }
    return _mm256_testz_si256(off, off);
}

static ALWAYS void spill(uint32_t *to, const struct offsets *from, unsigned g)
{
    _mm256_storeu_si256((__m256i *)(void *)to, from->of[g]);
}
#else
#define OFFSETS(name, T, U)                                                                        \
    static ALWAYS bool name(struct offsets *to, const T *address, U add, U last, uint32_t total)   \
    {                                                                                              \
        uint32_t *at = to->lane;                                                                   \
        U beyond = 0, low = 0;                                                                     \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            const U x = (U)address[i] + add;                                                       \
            beyond |= x | (last - x);                                                              \
            low |= x;                                                                              \
            at[i] = (uint32_t)x;                                                                   \
        }                                                                                          \
        return !(beyond >> (8 * sizeof(U) - 1)) && !(low & (total - 1));                           \
    }
OFFSETS(offsets_of_words, uint32_t, uint32_t)
OFFSETS(offsets_of_longs, uint64_t, uint64_t)
OFFSETS(offsets_of_low_words, uint64_t, uint32_t)

static ALWAYS uint32_t first_of(const struct offsets *from, unsigned g)
{
    return from->lane[GROUP * g];
}

static ALWAYS enum kind kind_of(const struct offsets *from, unsigned g, uint32_t total)
{
    const uint32_t *at = from->lane + GROUP * g;
    uint32_t off = 0, away = 0;
    for (unsigned i = 0; i < GROUP; i++) {
        off |= at[i] ^ (at[0] + i * total);
        away |= at[i] ^ at[0];
    }
    return off == 0 ? IN_ROW : away == 0 ? SAME : APART;
}

static ALWAYS bool is_row(const struct offsets *from, uint32_t total)
{
    uint32_t off = 0;
    for (unsigned i = 0; i < EMU_LANES; i++)
        off |= from->lane[i] ^ (from->lane[0] + i * total);
    return off == 0;
}

static ALWAYS void spill(uint32_t *to, const struct offsets *from, unsigned g)
{
    memcpy(to, from->lane + GROUP * g, sizeof(uint32_t) * GROUP);
}
#endif

// The place of a generic address, or one of global memory. False: the lanes are looked up one by
// one.
static ALWAYS bool global_place(struct emu_running *run, const struct emu_op *op, uint64_t first,
                                struct place *place)
{
    const struct emu_region *region =
        &run->worker->regions[run->worker->near[op->index % EMU_REGIONS]];
    place->shared =
        op->space == EMU_GENERIC && first >= EMU_SHARED_WINDOW && first < EMU_WINDOWS_END;
    if (place->shared) {
        place->host = run->block->shared;
        place->shadow = run->block->shared_shadow;
        place->bytes = run->exec->shared_bytes;
        place->add = op->offset - EMU_SHARED_WINDOW;
        return true;
    }
    if (first - region->start >= region->bytes) {
        region = emu_find_allocation(run->worker, first);
        if (!region)
            return false;
        run->worker->near[op->index % EMU_REGIONS] = (uint8_t)(region - run->worker->regions);
    }
    place->host = region->host;
    place->shadow = region->shadow;
    place->bytes = region->bytes;
    place->add = op->offset - region->start;
    return region->bytes <= UINT32_MAX && region->start % 32 == 0;
}

static ALWAYS bool reach(struct emu_running *run, const struct emu_op *op, bool shared,
                         uint32_t total, struct place *place, struct offsets *at)
{
    const void *address = run->pools[op->pool[0]] + op->from[0];
    if (!shared)
        return global_place(run, op, *(const uint64_t *)address + op->offset, place) &&
               place->bytes >= total &&
               offsets_of_longs(at, address, place->add, place->bytes - total, total);
    place->host = run->block->shared;
    place->shadow = run->block->shared_shadow;
    place->shared = true;
    const uint32_t bytes = run->exec->shared_bytes, add = (uint32_t)op->offset;
    return bytes >= total &&
           (op->short_address ? offsets_of_words(at, address, add, bytes - total, total)
                              : offsets_of_low_words(at, address, add, bytes - total, total));
}

// ---- sanitizers ---------------------------------------------------------------------------------

static ALWAYS bool all_defined(const struct emu_running *run, const struct emu_op *op,
                               unsigned first, unsigned count)
{
    uint32_t defined = UINT32_MAX;
    for (unsigned k = first; k < first + count; k++)
        defined &= run->init[op->reads[k]];
    return defined == UINT32_MAX;
}

static ALWAYS uint64_t element(const unsigned char *from, unsigned bytes)
{
    return bytes == 1   ? *from
           : bytes == 2 ? *(const half *)from
           : bytes == 4 ? *(const word *)from
                        : *(const wide *)from;
}

// Whether every byte that the lanes access is defined.
static ALWAYS bool memory_defined(const struct place *place, const struct offsets *at, bool row,
                                  uint32_t total)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t some = ones >> (total < 8 ? 64 - 8 * total : 0);
    uint64_t other = 0;
    if (row) {
        const wide *eights = (const wide *)(place->shadow + first_of(at, 0));
        for (unsigned i = 0; i < total * EMU_LANES / 8; i++)
            other |= eights[i] ^ ones;
        return other == 0;
    }
    for (unsigned g = 0; g < GROUPS; g++) {
        uint32_t each[GROUP];
        const enum kind kind = kind_of(at, g, total);
        const unsigned lanes = kind == APART ? GROUP : kind == SAME ? 1 : 0;
        const wide *eights = (const wide *)(place->shadow + first_of(at, g));
        for (unsigned i = 0; kind == IN_ROW && i < total; i++)
            other |= eights[i] ^ ones;
        if (lanes)
            spill(each, at, g);
        for (unsigned i = 0; i < lanes; i++)
            for (unsigned part = 0; part < total; part += 8)
                other |= element(place->shadow + each[i] + part, total < 8 ? total : 8) ^ some;
    }
    return other == 0;
}

static ALWAYS bool shared_defined(const struct emu_running *run, uint32_t total)
{
    return run->block->shared_defined || emu_shared_defined(run->block, total * EMU_LANES);
}

static ALWAYS bool no_race(struct emu_running *run, const struct emu_op *op,
                           const struct offsets *at, uint32_t total, enum emu_use use)
{
    struct emu_race *race = run->block->race;
    uint32_t each[EMU_LANES], *to = each;
    if (!race)
        return true;
    const bool listed = use == EMU_USE_LOAD && emu_race_lists(race);
    if (listed)
        to = (uint32_t *)emu_race_list(race, run->warp, op, UINT32_MAX, 0, total);
    for (unsigned g = 0; g < GROUPS; g++)
        spill(to + GROUP * g, at, g);
    return listed ||
           emu_race_lanes(run->warp, op, UINT32_MAX, 0, (const int32_t *)each, total, use);
}

// ---- loads --------------------------------------------------------------------------------------

// An element of each of some lanes, from the lane `first` on; `step` bytes from lane to lane.
static ALWAYS void load_element(unsigned char *restrict to, const unsigned char *restrict from,
                                unsigned first, unsigned lanes, unsigned bytes, unsigned step)
{
    uint64_t *longs = (void *)to;
    uint32_t *words = (void *)to;
    if (step == bytes && bytes >= 4)
        memcpy(to + (size_t)bytes * first, from, (size_t)bytes * lanes);
#ifdef __AVX2__
    else if (step == 0 && lanes == GROUP && bytes < 8)
        _mm256_storeu_si256((void *)to, _mm256_set1_epi32((int)element(from, bytes)));
#endif
    else if (bytes == 8)
        for (unsigned i = 0; i < lanes; i++)
            longs[first + i] = element(from + i * step, 8);
    else
        for (unsigned i = 0; i < lanes; i++)
            words[first + i] = (uint32_t)element(from + i * step, bytes);
}

#ifdef __AVX2__
static ALWAYS __m256i halves_of(const unsigned char *low, const unsigned char *high)
{
    const __m128i x = _mm_loadu_si128((const void *)low), y = _mm_loadu_si128((const void *)high);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(x), y, 1);
}

static ALWAYS void store_vector(unsigned char *to, __m256i x)
{
    _mm256_storeu_si256((void *)to, x);
}

static ALWAYS __m256i shuffle(__m256i x, __m256i y, bool odd)
{
    const __m256 a = _mm256_castsi256_ps(x), b = _mm256_castsi256_ps(y);
    return _mm256_castps_si256(odd ? _mm256_shuffle_ps(a, b, 0xdd) : _mm256_shuffle_ps(a, b, 0x88));
}

// Vectors of the eight lanes of a group, one after the other. False if it is left to a loop.
static ALWAYS bool load_vectors(unsigned char *const *to, const unsigned char *from, unsigned bytes,
                                unsigned count)
{
    if (bytes == 4 && count == 2) {
        const __m256i x = load_vector(from), y = load_vector(from + 32);
        store_vector(to[0], _mm256_permute4x64_epi64(shuffle(x, y, false), 0xd8));
        store_vector(to[1], _mm256_permute4x64_epi64(shuffle(x, y, true), 0xd8));
    } else if (bytes == 4 && count == 4) {
        const __m256i a = halves_of(from, from + 64), b = halves_of(from + 16, from + 80);
        const __m256i c = halves_of(from + 32, from + 96), d = halves_of(from + 48, from + 112);
        const __m256i p = _mm256_unpacklo_epi32(a, b), q = _mm256_unpacklo_epi32(c, d);
        const __m256i u = _mm256_unpackhi_epi32(a, b), v = _mm256_unpackhi_epi32(c, d);
        store_vector(to[0], _mm256_unpacklo_epi64(p, q));
        store_vector(to[1], _mm256_unpackhi_epi64(p, q));
        store_vector(to[2], _mm256_unpacklo_epi64(u, v));
        store_vector(to[3], _mm256_unpackhi_epi64(u, v));
    } else if (bytes == 8 && count == 2) {
        for (unsigned i = 0; i < 2; i++) {
            const __m256i x = load_vector(from + 64 * i), y = load_vector(from + 64 * i + 32);
            store_vector(to[0] + 32 * i,
                         _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(x, y), 0xd8));
            store_vector(to[1] + 32 * i,
                         _mm256_permute4x64_epi64(_mm256_unpackhi_epi64(x, y), 0xd8));
        }
    } else {
        return false;
    }
    return true;
}
#else
static ALWAYS bool load_vectors(unsigned char *const *to, const unsigned char *from, unsigned bytes,
                                unsigned count)
{
    (void)to, (void)from, (void)bytes, (void)count;
    return false;
}
#endif

static ALWAYS void load_lanes(unsigned char *const *to, const unsigned char *host,
                              const struct offsets *at, bool row, unsigned bytes, unsigned count)
{
    const unsigned char *start = host + first_of(at, 0);
    for (unsigned g = 0; g < GROUPS; g++) {
        const enum kind kind = row ? IN_ROW : kind_of(at, g, bytes * count);
        const unsigned char *from =
            row ? start + (size_t)GROUP * g * bytes * count : host + first_of(at, g);
        const unsigned width = bytes == 8 ? 8 : 4; // of a lane in a register
        unsigned char *of[EMU_STEP_RESULTS];
        uint32_t each[GROUP];
        for (unsigned k = 0; k < count; k++)
            of[k] = to[k] + width * GROUP * g;
        if (kind == IN_ROW) {
            if (load_vectors(of, from, bytes, count))
                continue;
            for (unsigned k = 0; k < count; k++)
                load_element(of[k], from + k * bytes, 0, GROUP, bytes, bytes * count);
        } else if (kind == SAME) {
            for (unsigned k = 0; k < count; k++)
                load_element(of[k], from + k * bytes, 0, GROUP, bytes, 0);
        } else {
            spill(each, at, g);
            for (unsigned i = 0; i < GROUP; i++)
                for (unsigned k = 0; k < count; k++)
                    load_element(of[k], host + each[i] + k * bytes, i, 1, bytes, 0);
        }
    }
}

static ALWAYS bool load(struct emu_running *run, const struct emu_op *op, uint32_t mask,
                        unsigned bytes, unsigned count, bool shared)
{
    const uint32_t total = bytes * count;
    unsigned char *to[EMU_STEP_RESULTS];
    struct place place;
    struct offsets at;
    if (mask != UINT32_MAX || !reach(run, op, shared, total, &place, &at))
        return emu_step_any(run, op, mask);
    const bool row = !shared && is_row(&at, total);
    if (run->init) {
        if (!all_defined(run, op, 0, 1) ||
            (place.shadow && !(place.shared && shared_defined(run, total)) &&
             !memory_defined(&place, &at, row, total)) ||
            (op->constant && run->exec->constants) || (run->exec->primary && !place.shared) ||
            (place.shared && !no_race(run, op, &at, total, EMU_USE_LOAD)))
            return emu_step_any(run, op, mask);
        for (unsigned k = 0; k < count; k++)
            run->init[op->writes[k]] = UINT32_MAX;
    }
    for (unsigned k = 0; k < count; k++)
        to[k] = run->pools[0] + op->to[k];
    if (row)
        load_lanes(to, place.host, &at, true, bytes, count);
    else
        load_lanes(to, place.host, &at, false, bytes, count);
    return true;
}

// ---- stores -------------------------------------------------------------------------------------

static ALWAYS void store_element(unsigned char *to, unsigned bytes, const unsigned char *from,
                                 unsigned i)
{
    const uint32_t *words = (const void *)from;
    const uint64_t *longs = (const void *)from;
    if (bytes == 1)
        *to = (unsigned char)words[i];
    else if (bytes == 2)
        *(half *)to = (uint16_t)words[i];
    else if (bytes == 4)
        *(word *)to = words[i];
    else
        *(wide *)to = longs[i];
}

// Lanes in order: of several at one address, the last one stays.
static ALWAYS void store_lanes(unsigned char *host, const struct offsets *at,
                               const unsigned char *const *from, unsigned bytes, unsigned count)
{
    for (unsigned g = 0; g < GROUPS; g++) {
        const bool row = kind_of(at, g, bytes * count) == IN_ROW;
        unsigned char *to = host + first_of(at, g);
        uint32_t each[GROUP];
        if (row && count == 1 && bytes >= 4) {
            memcpy(to, from[0] + (size_t)bytes * GROUP * g, bytes * GROUP);
            continue;
        }
        spill(each, at, g);
        for (unsigned i = 0; i < GROUP; i++)
            for (unsigned k = 0; k < count; k++)
                store_element(host + each[i] + k * bytes, bytes, from[k], GROUP * g + i);
    }
}

// The shadow of what the lanes have stored.
static ALWAYS void define(unsigned char *shadow, const struct offsets *at, uint32_t total)
{
    for (unsigned g = 0; g < GROUPS; g++) {
        uint32_t each[GROUP];
        if (kind_of(at, g, total) == IN_ROW) {
            memset(shadow + first_of(at, g), EMU_SHADOW_DEFINED, GROUP * total);
            continue;
        }
        spill(each, at, g);
        for (unsigned i = 0; i < GROUP; i++)
            memset(shadow + each[i], EMU_SHADOW_DEFINED, total);
    }
}

static ALWAYS bool store(struct emu_running *run, const struct emu_op *op, uint32_t mask,
                         unsigned bytes, unsigned count, bool shared)
{
    const uint32_t total = bytes * count;
    const unsigned char *from[EMU_STEP_SOURCES];
    struct place place;
    struct offsets at;
    if (mask != UINT32_MAX || !reach(run, op, shared, total, &place, &at))
        return emu_step_any(run, op, mask);
    if (run->init && (!all_defined(run, op, 0, 1 + count) || run->exec->constants ||
                      (place.shared && !no_race(run, op, &at, total, EMU_USE_STORE))))
        return emu_step_any(run, op, mask);
    for (unsigned k = 0; k < count; k++)
        from[k] = run->pools[op->pool[1 + k]] + op->from[1 + k];
    store_lanes(place.host, &at, from, bytes, count);
    if (place.shadow)
        define(place.shadow, &at, total);
    return true;
}

// ---- by width -----------------------------------------------------------------------------------

#define STEP(use, space, bytes, count)                                                             \
    static bool use##_##space##_##bytes##_##count(struct emu_running *run,                         \
                                                  const struct emu_op *op, uint32_t mask)          \
    {                                                                                              \
        return use(run, op, mask, bytes, count, space);                                            \
    }
#define COUNTS(use, space, bytes)                                                                  \
    STEP(use, space, bytes, 1) STEP(use, space, bytes, 2) STEP(use, space, bytes, 4)
#define WIDTHS(use, space)                                                                         \
    COUNTS(use, space, 1) COUNTS(use, space, 2) COUNTS(use, space, 4) COUNTS(use, space, 8)
enum { global, shared };
WIDTHS(load, global)
WIDTHS(load, shared)
WIDTHS(store, global)
WIDTHS(store, shared)

#define ROW(use, space, bytes)                                                                     \
    {                                                                                              \
        use##_##space##_##bytes##_1, use##_##space##_##bytes##_2, use##_##space##_##bytes##_4      \
    }
#define TABLE(use, space)                                                                          \
    {                                                                                              \
        ROW(use, space, 1), ROW(use, space, 2), ROW(use, space, 4), ROW(use, space, 8)             \
    }
static emu_step *const steps[2][2][4][3] = { { TABLE(load, global), TABLE(load, shared) },
                                             { TABLE(store, global), TABLE(store, shared) } };

static bool is_fit(const struct emu_op *op, unsigned count)
{
    const struct emu_value *address = &op->src[0];
    const bool in_space = op->space == EMU_SHARED || op->space == EMU_GENERIC ||
                          op->space == EMU_GLOBAL || op->space == EMU_CONST;
    const bool read = address->place == EMU_AT_SLOT || address->place == EMU_AT_CONST;
    const bool wide_enough =
        address->width == EMU_LONG || (address->width == EMU_WORD && op->space == EMU_SHARED);
    if (op->strong || !in_space || !read || !wide_enough || (count & (count - 1)) || count > 4)
        return false;
    for (unsigned k = 0; k < op->dst_count; k++)
        if (op->dst[k].place != EMU_AT_SLOT || !op->dst[k].direct)
            return false;
    for (unsigned k = 1; k < op->src_count; k++)
        if (!op->src[k].direct)
            return false;
    return true;
}

emu_step *EMU_NAMED(emu_access_step)(const struct emu_op *op)
{
    const bool stores = op->handler == EMU_DO_STORE;
    const unsigned count = stores ? op->src_count - 1u : op->dst_count;
    if ((!stores && op->handler != EMU_DO_LOAD) || count == 0 || op->bytes > 8 ||
        !is_fit(op, count))
        return NULL;
    return steps[stores][op->space == EMU_SHARED][__builtin_ctz(op->bytes)][count / 2];
}

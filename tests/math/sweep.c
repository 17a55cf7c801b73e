// SPDX-License-Identifier: MIT
// The error of the functions of <ptxgen/math.h> over all inputs, and a hash of their results, by
// the plain C of math_twin.c. Prints a row of math_hashes.h and of docs/math.md for each function.
//
//     math_sweep all|NAME [STEP]       every STEP-th f32; of pow, every STEP-th of 2^32 pairs
//     math_sweep powers [STEP]         pow of every STEP-th f32 x and each of 50 exponents
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "math_error.h"
#include "math_inputs.h"
#include "math_powers.h"
#include "math_twin.h"

enum { BLOCK = 1 << 12 };

struct sweep {
    uint64_t inputs, wrong, hash;
    double worst;
    float x, y; // of the worst error
};

struct block {
    float x[BLOCK], y[BLOCK], out[BLOCK];
    size_t n;
};

static const struct math_twin *twins(void)
{
#if defined HAVE_FMA
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return math_twins_fma;
#endif
    return math_twins;
}

static void count(struct sweep *s, const struct block *block, const struct math_exact *row)
{
    static double exact[BLOCK], error[BLOCK];

    row->many(block->x, block->y, exact, block->n);
    math_errors(block->out, exact, error, block->n);
    for (size_t k = 0; k < block->n; k++)
        s->hash +=
            math_hash(math_bits(block->x[k]), math_bits(block->y[k]), math_bits(block->out[k]));
    for (size_t k = 0; k < block->n; k++) {
        if (error[k] <= s->worst)
            continue;
        if (error[k] < (double)INFINITY) {
            s->worst = error[k];
            s->x = block->x[k];
            s->y = block->y[k];
        } else if (!s->wrong++) {
            printf("%s(%a, %a) gives %a, not %a\n", row->name, (double)block->x[k],
                   (double)block->y[k], (double)block->out[k], exact[k]);
        }
    }
    s->inputs += block->n;
}

static void print(const char *name, const struct sweep *s)
{
    printf("X(%s, 0x%016" PRIx64 ") // %" PRIu64 " inputs, %.3f ulp at %a", name, s->hash,
           s->inputs, s->worst, (double)s->x);
    if (s->y != 0)
        printf(", %a", (double)s->y);
    printf("; %" PRIu64 " wrong\n", s->wrong);
    fflush(stdout);
}

// Every step-th input, from all x and y = 0, or from the pairs.
static struct sweep sweep_row(const struct math_twin *twin, const struct math_exact *exact,
                              bool pairs, uint64_t step)
{
    static struct block block;
    struct sweep s = { 0 };

    memset(block.y, 0, sizeof block.y);
    for (uint64_t i = 0; i < UINT64_C(1) << 32;) {
        for (block.n = 0; block.n < BLOCK && i < UINT64_C(1) << 32; block.n++, i += step) {
            uint32_t x = (uint32_t)i, y;
            if (pairs) {
                math_pair(i, &x, &y);
                block.y[block.n] = math_value(y);
            }
            block.x[block.n] = math_value(x);
        }
        twin->many(block.x, block.y, block.out, block.n);
        count(&s, &block, exact);
    }
    return s;
}

// pow(x, y) for all x and one y.
static struct sweep sweep_power(const struct math_twin *twin, const struct math_exact *exact,
                                float y, uint64_t step)
{
    static struct block block;
    struct sweep s = { 0 };

    for (size_t k = 0; k < BLOCK; k++)
        block.y[k] = y;
    for (uint64_t i = 0; i < UINT64_C(1) << 32;) {
        for (block.n = 0; block.n < BLOCK && i < UINT64_C(1) << 32; block.n++, i += step)
            block.x[block.n] = math_value((uint32_t)i);
        twin->many(block.x, block.y, block.out, block.n);
        count(&s, &block, exact);
    }
    return s;
}

static bool sweep_powers(const struct math_twin *twin, uint64_t step)
{
    const struct math_exact *exact = math_exact;
    bool right = true;

    for (; strcmp(twin->name, "pow") != 0; twin++)
        exact++;
    for (size_t k = 0; k < MATH_POWERS; k++) {
        char name[32];
        const struct sweep s = sweep_power(twin, exact, math_powers[k], step);
        snprintf(name, sizeof name, "pow(x, %a)", (double)math_powers[k]);
        print(name, &s);
        right = right && !s.wrong;
    }
    return right;
}

int main(int argc, char **argv)
{
    const uint64_t step = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    bool found = false, right = true;

    if (argc < 2 || !step) {
        fprintf(stderr, "usage: %s all|powers|NAME [STEP]\n", argv[0]);
        return 2;
    }
    if (!strcmp(argv[1], "powers"))
        return sweep_powers(twins(), step) ? 0 : 1;
    const struct math_twin *twin = twins();
    for (size_t k = 0; twin[k].name; k++) {
        if (strcmp(argv[1], "all") != 0 && strcmp(argv[1], twin[k].name) != 0)
            continue;
        const bool pairs = ptx_math_get_info(k)->operands == 2;
        const struct sweep s = sweep_row(&twin[k], &math_exact[k], pairs, step);
        print(twin[k].name, &s);
        found = true;
        right = right && !s.wrong;
    }
    if (!found)
        fprintf(stderr, "%s: there is no function %s\n", argv[0], argv[1]);
    return found && right ? 0 : 1;
}

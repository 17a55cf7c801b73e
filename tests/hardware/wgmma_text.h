// SPDX-License-Identifier: MIT
/// Products of warpgroups by wgmma.mma_async: their texts, images of their matrices in shared
/// memory, random inputs, and results in plain C.
#ifndef PTXGEN_TESTS_WGMMA_TEXT_H
#define PTXGEN_TESTS_WGMMA_TEXT_H

#include "random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WGMMA_THREADS = 128,
    WGMMA_ROWS = 64,
    WGMMA_MOST_N = 256,
    WGMMA_MOST_K = 32,
    WGMMA_MOST_SUMS = 128, ///< registers of D of a thread
    WGMMA_MOST_A = 4,
    WGMMA_IMAGE_A = 8192, ///< bytes of shared memory
    WGMMA_IMAGE_B = 36864,
};

/// How a matrix lies in shared memory. The descriptor's `leading` and `stride` are those of the
/// manual's canonical layouts.
struct wgmma_layout {
    unsigned swizzle; ///< bytes: 0, 32, 64 or 128
    bool across;      ///< imm-trans: M or N is contiguous, not K
    uint32_t start, leading, stride;
    unsigned base; ///< the base offset of the descriptor
};

struct wgmma_text {
    const char *name;
    unsigned n;
    char a_type, b_type, sum; ///< h f16, y bf16, t tf32, s s8, u u8, 4 e4m3, 5 e5m2; f f32, i s32
    bool satfinite, negates_a, negates_b, a_in_registers;
    struct wgmma_layout a, b;
};

extern const struct wgmma_text wgmma_texts[];
extern const size_t wgmma_text_count;

/// The inputs of a block and what it writes, by threads. A block whose number divides by 4 leaves
/// D out: scale-d is false.
struct wgmma_block {
    unsigned char a[WGMMA_IMAGE_A], b[WGMMA_IMAGE_B];
    uint32_t of_a[WGMMA_THREADS][WGMMA_MOST_A];
    uint32_t sums[WGMMA_THREADS][WGMMA_MOST_SUMS];
};

unsigned wgmma_text_sums(const struct wgmma_text *s); ///< registers of D of a thread
void wgmma_text_write(const struct wgmma_text *s, char *text, size_t size);
void wgmma_text_fill(struct random *r, const struct wgmma_text *s, unsigned block,
                     struct wgmma_block *in, uint32_t want[WGMMA_THREADS][WGMMA_MOST_SUMS]);

#endif

// SPDX-License-Identifier: MIT
/// Products of matrices that the builder does not write, as PTX text: f64, floats of 8 bits,
/// integers of 4 bits, bits, shapes of eight rows, sparse A. A lane's registers are words in
/// memory.
#ifndef PTXGEN_TESTS_MMA_TEXT_H
#define PTXGEN_TESTS_MMA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "random.h"

enum { MMA_TEXT_IN = 36, MMA_TEXT_OUT = 8, MMA_LANES = 32 }; // words of a lane, at most

struct mma_text {
    const char *name;      ///< as in the recording
    const char *spelling;  ///< after "mma."
    unsigned m, k, a_bits; ///< n is 8
    char a, b, sum; ///< 'd' f64, 'h' f16, 'y' bf16, 't' tf32, '4' e4m3, '5' e5m2, 's' and 'u'
                    ///< integers, 'b' bits
    unsigned isa, sm;
    unsigned lanes; ///< sparse: lanes of four that share the metadata of two rows; else 0
    int rounding;   ///< of <fenv.h>
    bool satfinite, and;
};

extern const struct mma_text mma_texts[];
extern const size_t mma_text_count;

/// Whether plain C has the sums of a GPU of this compute capability.
bool mma_text_known(const struct mma_text *s, int sm);
/// A module with the entry "product": parameters in, out; a block of a warp for each tile.
void mma_text_write(const struct mma_text *s, char *text, size_t size);
/// Words of a lane: those that it reads, and those of D.
unsigned mma_text_in(const struct mma_text *s);
unsigned mma_text_out(const struct mma_text *s);
/// A random tile: what the lanes read, and what plain C computes.
void mma_text_fill(struct random *r, const struct mma_text *s, int sm,
                   uint32_t in[MMA_LANES][MMA_TEXT_IN], uint32_t want[MMA_LANES][MMA_TEXT_OUT]);
/// A random element of one of these types. Kind 0: numbers near each other, so that sums cancel; 1:
/// some corners among them; 2: some zeros; 3: any bits.
uint64_t mma_text_element(struct random *r, char type, unsigned bits, unsigned kind);

#endif

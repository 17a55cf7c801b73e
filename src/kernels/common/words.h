// SPDX-License-Identifier: MIT
// Vectors of 16 bytes that are read ahead of their use, into variables: ptxas moves any other load
// down to the first use of its value, behind branches too. Lanes of 16 bits travel as words of two.
#ifndef PTXGEN_KERNELS_WORDS_H
#define PTXGEN_KERNELS_WORDS_H

#include "common.h"

// Variables for a vector of `dtype`, zeros until it is read.
ptx_vec ptxk_words_var(ptx_builder *b, ptx_type dtype);

// Sets them to the vector that begins with p[i], at a 16-byte boundary.
void ptxk_words_read(ptx_builder *b, ptx_vec words, ptx_ptr p, ptx_val i);

ptx_vec ptxk_words_copy(ptx_builder *b, ptx_vec words);

// The lanes, of `dtype`.
ptx_vec ptxk_words_lanes(ptx_builder *b, ptx_vec words, ptx_type dtype);

#endif

// SPDX-License-Identifier: MIT
// Elementwise kernels with a quantizer for each channel: which thread has which elements, in the
// layout of rows and in that of columns.
#ifndef PTXGEN_KERNELS_CHANNEL_WALK_H
#define PTXGEN_KERNELS_CHANNEL_WALK_H

#include "channels.h"
#include "elementwise.h"
#include "quantizer.h"

enum { CHANNELS_BLOCK = 128, CHANNELS_CHUNK = 4096 };

#define CHANNEL_LAYOUT_ROW                                                                         \
    {                                                                                              \
        "layout", { "rows", "columns" },                                                           \
            "fast where inner is large, or where it is small; the same bits"                       \
    }
enum { LAYOUT_ROWS, LAYOUT_COLUMNS };

// Positions are elements counted from the 16-byte boundary at or before in[0].
struct channel_walk {
    const struct ptx_kernel_spec *spec;
    ptx_ptr in[MAX_INPUTS], out; // out may be in[k]
    unsigned inputs;
    ptx_ptr scale, zero_point; // of each channel
    struct levels levels;
    struct channels channels;
    // The quantizer of a channel.
    struct quantizer (*quantizer_of)(ptx_builder *b, const struct channel_walk *w, ptx_val channel);
    // The output, computed from vectors of the inputs.
    ptx_vec (*compute)(ptx_builder *b, const struct ptx_kernel_spec *spec,
                       const struct quantizers *q, const ptx_vec *in);
    // Set by the walk:
    unsigned lanes;
    ptx_val skew, end; // the first position of the tensor, and the one after its last
    ptx_val alike;     // all tensors have the same misalignment
};

// The parameters `channels` and `inner`.
void ptxk_channel_walk_params(ptx_builder *b, struct channel_walk *w);

// Computes n elements.
void ptxk_channel_walk(ptx_builder *b, struct channel_walk *w, ptx_val n, bool columns);

#endif

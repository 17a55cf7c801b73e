// SPDX-License-Identifier: MIT
// Kernels with a quantizer for each channel: which thread has which elements, in the layout of rows
// and in that of columns.
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
    // The quantizer of a channel, from its elements of `scale` and `zero_point`.
    struct quantizer (*quantizer_of)(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                     ptx_val scale, ptx_val zero_point, struct levels levels);
    // The output, computed from vectors of the inputs.
    ptx_vec (*compute)(ptx_builder *b, const struct ptx_kernel_spec *spec,
                       const struct quantizers *q, const ptx_vec *in);
    // What `compute` adds to, for ptxk_piece_walk().
    unsigned sums;
    ptx_ptr sums_to[MAX_SUMS]; // of each piece; of whole rows the gradients
    ptx_val factor;            // f64, of gradients
    // Set by the walk:
    unsigned lanes;
    ptx_val skew, end;       // the first position of the tensor, and the one after its last
    ptx_val alike;           // all tensors have the same misalignment
    ptx_val tid, lane, warp; // u32, of ptxk_piece_walk()
};

// The parameters `channels` and `inner`.
void ptxk_channel_walk_params(ptx_builder *b, struct channel_walk *w);

// Computes n elements.
void ptxk_channel_walk(ptx_builder *b, struct channel_walk *w, ptx_val n, bool columns);

// ---- for walks ----------------------------------------------------------------------------------

// Whether all tensors have the same misalignment.
ptx_val ptxk_channel_walk_alike(ptx_builder *b, const struct channel_walk *w);

struct quantizer ptxk_channel_walk_quantizer(ptx_builder *b, const struct channel_walk *w,
                                             ptx_val channel);

// The quantizers of adjacent lanes, and sums of 0 where there are any.
struct lane_quantizers {
    struct quantizer of[PTXK_LANES];
    ptx_val sums[PTXK_LANES][MAX_SUMS];
    struct quantizers each;
};
void ptxk_channel_walk_quantizers(ptx_builder *b, const struct channel_walk *w, ptx_val place,
                                  struct lane_quantizers *q);

// The vectors at element i, one of each input; and the output computed from such vectors.
void ptxk_channel_walk_read(ptx_builder *b, const struct channel_walk *w,
                            const struct ptxk_lanes *in, ptx_val i);
ptx_vec ptxk_channel_walk_output(ptx_builder *b, const struct channel_walk *w,
                                 const struct quantizers *q, const struct ptxk_lanes *in);

// Computes `lanes` elements from element i on.
void ptxk_channel_walk_pass(ptx_builder *b, const struct channel_walk *w,
                            const struct quantizers *q, ptx_val i, unsigned lanes);

#endif

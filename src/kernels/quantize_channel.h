// SPDX-License-Identifier: MIT
// The two ways through a tensor whose quantizer changes with the channel; the same bits.
#ifndef PTXGEN_KERNELS_QUANTIZE_CHANNEL_H
#define PTXGEN_KERNELS_QUANTIZE_CHANNEL_H

#include "common/channel.h"
#include "common/quantizer.h"

enum { CHANNEL_BLOCK = 128, CHANNEL_CHUNK = 4096 };

// Places are elements counted from the 16-byte boundary at or before x.
struct channel_work {
    const struct ptx_kernel_spec *spec;
    unsigned lanes;
    ptx_ptr x, d_output, d_input, scale, zero_point;
    struct levels levels;
    struct channels channels;
    ptx_val skew, end; // the places of the tensor
    ptx_val alike;     // x, d_output and d_input are equally far from a 16-byte boundary
};

// Elements of a channel lie next to each other in rows that are long: a warp has adjacent vectors
// and a thread every 32nd of them. Completes w->channels.
void ptxk_channel_pass_rows(ptx_builder *b, struct channel_work *w);
// Channels change from element to element: a thread has the vectors below each other that have the
// same channels, and a quantizer for each lane. Completes w->channels.
void ptxk_channel_pass_columns(ptx_builder *b, struct channel_work *w);

struct quantizer ptxk_channel_quantizer(ptx_builder *b, const struct channel_work *w,
                                        ptx_val channel);
// `lanes` elements from `place` on, all of them in the tensor.
void ptxk_channel_pass_through(ptx_builder *b, const struct channel_work *w,
                               const struct quantizers *q, ptx_val place, unsigned lanes);
// What the tensor has of the vector at `place`, element by element.
void ptxk_channel_pass_each(ptx_builder *b, const struct channel_work *w, ptx_val place,
                            struct position start);
// Whether the vector at `place` lies in the tensor, and can be accessed at once.
ptx_val ptxk_channel_is_whole(ptx_builder *b, const struct channel_work *w, ptx_val place);

#endif

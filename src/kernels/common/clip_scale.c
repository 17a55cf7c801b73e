// SPDX-License-Identifier: MIT
#include "clip_scale.h"

ptx_val ptxk_clip_scale(ptx_builder *b, ptx_val total, ptx_val root, ptx_val norm, ptx_val max_norm,
                        ptx_val eps)
{
    ptx_val ratio = ptx_var(b, ptx_div(b, max_norm, ptx_add(b, norm, eps)));

    ptx_comment(b, "a finite sum whose norm is beyond f32 is divided in f64");
    ptx_val finite = ptx_is_finite(b, total);
    ptx_if (b, ptx_and(b, finite, ptx_is_infinite(b, norm))) {
        ptx_val wide = ptx_div(b, ptx_cvt(b, PTX_F64, max_norm), root);
        ptx_set(b, ratio, ptx_cvt(b, PTX_F32, wide));
    }

    ptx_val clips = ptx_ltu(b, ratio, ptx_f32(1.0f));
    ptx_val scale = ptx_select(b, clips, ratio, ptx_f32(1.0f));
    ptx_val empty = ptx_eq(b, total, ptx_f64(0));
    return ptx_select(b, empty, ptx_f32(1.0f), scale);
}

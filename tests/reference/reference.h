// SPDX-License-Identifier: MIT
/// The kernels in plain C: the results that a GPU must give, bit for bit.
///
/// Written from the formulas; shares no code with the library. Must be compiled without contraction
/// of multiplications and additions.
///
/// NaN results are 0x7fffffff in f32 and 0x7fff in f16 and bf16, as in PTX. NaN partials in f64
/// have all bits set except the sign. In f64 tensors PTX does not define the payload, so f64 NaNs
/// must be compared as equal; ref_same() does so.
#ifndef PTXGEN_TOOLS_REFERENCE_H
#define PTXGEN_TOOLS_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// REF_U8 has no arithmetic: it is for codes, which are compared.
enum ref_type { REF_F32, REF_F64, REF_F16, REF_BF16, REF_U8 };

size_t ref_bytes(enum ref_type type);
/// The exact value of element i.
double ref_load(enum ref_type type, const void *p, uint64_t i);
/// Sets element i to x, rounded to nearest even.
void ref_store(enum ref_type type, void *p, uint64_t i, double x);
/// Whether element i of both arrays has the same bits, or is NaN in both (f64).
bool ref_same(enum ref_type type, const void *p, const void *q, uint64_t i);

/// The sum of v in the order of a block of this many threads (a multiple of 32): over the lanes of
/// each warp, then over the warps. Overwrites v.
double ref_block_sum(double *v, int threads);
/// The sum of squares of elements begin to end - 1 in the order of a block of 256 threads.
double ref_chunk_sum(enum ref_type type, const void *x, uint64_t begin, uint64_t end);

/// The chunk of squared_sum for n elements, and the number of partials.
uint64_t ref_chunk(uint64_t n);
uint64_t ref_partial_count(uint64_t n);
/// partials[k], f64 or f32: the sum for each `chunk` elements of x; the last chunk has the
/// remainder.
void ref_partials(enum ref_type type, const void *x, uint64_t n, uint64_t chunk, bool f32_partials,
                  void *partials);
/// The same with the kernel's chunk.
void ref_squared_sum(enum ref_type type, const void *x, uint64_t n, bool f32_partials,
                     void *partials);

/// The policy for a NaN or infinite sum.
enum ref_nonfinite { REF_PROPAGATE, REF_SKIP, REF_ZERO };

struct ref_clip {
    enum ref_nonfinite nonfinite;
    float max_norm;
    float eps;
};

/// out = { scale, norm, found }. `type` is the type of the partials, f64 or f32.
void ref_clip_scale_reduce(enum ref_type type, const void *partials, uint64_t count,
                           struct ref_clip clip, float out[3]);

/// record[2] is read only with REF_ZERO.
void ref_gradient_clip_from_device_scale(enum ref_type type, void *gradient, uint64_t n,
                                         enum ref_nonfinite nonfinite, const float *record);

struct ref_quantize {
    bool reciprocal;    ///< multiply by the rounded 1 / scale
    bool fake_quantize; ///< the gradient of quantize-dequantize: d_output unchanged
    double scale;       ///< exactly a float, except for f64 tensors
    int32_t zero_point, q_min, q_max;
};

/// d_input may be d_output.
void ref_quantize_ste_backward(enum ref_type type, const void *x, const void *d_output,
                               void *d_input, uint64_t n, struct ref_quantize quantize);

/// A tensor [outer, channels, inner]: element i belongs to channel i / inner % count.
struct ref_channels {
    uint64_t count, inner;
    const double *scale; ///< one for each channel; exactly floats, except for f64 tensors
    const int32_t *zero_point;
};

/// The same with a scale and a zero point for each channel, instead of those in `quantize`.
void ref_quantize_channel_ste_backward(enum ref_type type, const void *x, const void *d_output,
                                       void *d_input, uint64_t n, struct ref_channels channels,
                                       struct ref_quantize quantize);

/// y = x, quantized and scaled back; y may be x. Uses all fields but fake_quantize.
void ref_fake_quantize(enum ref_type type, const void *x, void *y, uint64_t n,
                       struct ref_quantize quantize);
/// The same with a scale and a zero point for each channel.
void ref_fake_quantize_channel(enum ref_type type, const void *x, void *y, uint64_t n,
                               struct ref_channels channels, struct ref_quantize quantize);
/// x in the type of the arithmetic: f64 for f64 tensors, f32 for the others.
double ref_narrow(enum ref_type type, double x);
/// A level of up to 33 bits in that type, rounded up (`towards` INFINITY) or down (-INFINITY).
double ref_level_towards(enum ref_type type, int64_t level, double towards);
/// A learned zero point as an integer: rounded to even, from q_min to q_max, q_min for NaN.
int32_t ref_nearest_level(double zero_point, int32_t q_min, int32_t q_max);

/// Which levels a group has, for `bits` b and half = 2^(b - 1).
enum ref_levels {
    REF_LEVELS_SYMMETRIC,  ///< 1 - half to half - 1, scale = max |x| / (half - 1)
    REF_LEVELS_FULL,       ///< -half to half - 1, scale = max |x| / (half - 1/2)
    REF_LEVELS_ASYMMETRIC, ///< -half to half - 1 around a zero point
    REF_LEVELS_UNSIGNED,   ///< 0 to 2 half - 1 around a zero point
};

struct ref_groups {
    uint64_t group; ///< elements
    enum ref_levels levels;
    int bits;
};

/// y = x, quantized and scaled back in groups; y may be x. Elements after the last whole group are
/// not touched. `scale` (f32) and `zero_point` have an element a group; each may be NULL.
/// zero_point is written only if the levels have one.
void ref_fake_quantize_groups(enum ref_type type, const void *x, void *y, uint64_t n,
                              struct ref_groups groups, float *scale, int32_t *zero_point);

/// A dynamic loss scale. No bounds: min_scale 0, max_scale INFINITY; no hysteresis: 1.
struct ref_loss_scale {
    float growth, backoff;
    int32_t interval;
    float min_scale, max_scale;
    int32_t hysteresis;
};

/// Consecutive bad steps are counted below zero in *tracker.
void ref_loss_scale_update(float *scale, int32_t *tracker, bool found, struct ref_loss_scale rule);

/// Either output may be NULL, or d_output.
void ref_lerp_backward(enum ref_type type, const void *d_output, void *d_a, void *d_b, uint64_t n,
                       double weight);

// ---- by name ------------------------------------------------------------------------------------

enum { REF_MOST_TENSORS = 3, REF_MOST_CHANNELS = 16384 };

/// A launch of a kernel with default options, or a range of it: elements `first` to `first + count
/// - 1` of n, with the contents of the small tensors.
struct ref_stretch {
    enum ref_type type;
    uint64_t n, first, count;
    uint64_t channels, inner; ///< for kernels with channels; a range begins at the start of a
                              ///< channel and has at most REF_MOST_CHANNELS channels
    const void *in[REF_MOST_TENSORS];
    void *out[REF_MOST_TENSORS];
    /// A parameter's value, or value `k` at its address.
    double (*value)(const void *user, const char *name, uint64_t k);
    const void *user;
};

/// The tensors of a range, by the names of the kernel's parameters, and their expected contents.
struct ref_kernel {
    const char *name;
    const char *in[REF_MOST_TENSORS], *out[REF_MOST_TENSORS];
    void (*compute)(const struct ref_stretch *s);
};
/// NULL: no such kernel.
const struct ref_kernel *ref_kernel_find(const char *name);

#endif

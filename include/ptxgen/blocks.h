// SPDX-License-Identifier: MIT
/// Layer 4: block formats. Tensors are quantized to floats of 4, 6 or 8 bits with a scale a block,
/// and scaled back ("fake quantization"), many tensors in one launch, on sm_80 and newer.
///
///     ptx_block_plan *plan = ptx_block_plan_create(gpu, &(struct ptx_block_params){
///         .dtype = PTX_BF16, .format = PTX_BLOCK_FORMAT_NVFP4 }, NULL);
///     const struct ptx_block_tensor list[] = {
///         { .x = w0, .y = q0, .rows = 4096, .columns = 6144, .amax = amax0 },
///         { .x = w1, .y = q1, .rows = 4096, .columns = 1024, .amax = amax1 } };
///     ptx_block_plan_run(plan, list, 2, NULL, stream);
///
/// For an element x of a block, with `by` and `times` of the block's scale,
///
///     y = round(clamp(x * by, -largest, largest)) * times
///
/// where round() goes to the format's floats, subnormal ones among them, and each product is
/// rounded once to f32 and y once more to its type. y has the sign of x, that of a zero too.
/// Nearest: ties to even. Stochastic: the magnitude m lies between floats a and a + d, and becomes
/// a + d if (m - a) / d + u / 2^16 is 1 or more, u being 16 random bits of the element.
///
/// A is the greatest magnitude of the block, T the tensor's `amax`, which is read and not checked;
/// rn() rounds to f32, and each operation in it is rounded:
///
/// - nvfp4, te: S = min(2688 / T, FLT_MAX), or 1 where T is 0 or the quotient 0;
///   s = e4m3(A * (S * rn(1 / 6))); times = s * (1 / S); by = min(1 / times, FLT_MAX)
/// - nvfp4, torchao: P = T / 2688; s = e4m3(clamp((A / 6) / P, 2^-6, 448)); times = P * s;
///   x / times in place of x * by
/// - mx, torchao, floor: e = floor(log2(A)) - emax, at least -127; times = 2^e, by = 2^-e;
///   NaN where A is infinite
/// - mx, torchao, rceil: e = ceil(log2(A * rn(1 / largest))), at least -127; times, by the same
/// - mxfp8, te, rceil: the same, but e = 127 where A is infinite
/// - fp8, te, f32 or power_of_2: by = min(448 / A, FLT_MAX), or 1 where A is 0, infinite or NaN;
///   its fraction cleared for power_of_2; times = 1 / by
/// - fp8, deepgemm, f32 or power_of_2: times = max(A, 1e-4) / 448, rounded up to a power of 2 if
///   finite; by = 1 / times
///
/// So these blocks have
///
/// | block | nvfp4 te | nvfp4 torchao | mx | fp8 te | fp8 deepgemm |
/// |---|---|---|---|---|---|
/// | a NaN | NaN | NaN | NaN | NaN where x is | NaN |
/// | an infinity, T finite | s = 448 | s = 448 | NaN; te: e = 127 | by = 1: infinity to 448 | NaN |
/// | T = 0, x = 0 | 0 | NaN | - | - | - |
/// | T = 0, A > 0 | S = 1 | s = 448, y = 0 | - | - | - |
/// | T infinite | S = 1 | NaN | - | - | - |
/// | T NaN | NaN | NaN | - | - | - |
/// | all 0 | 0 | 0 (s = 2^-6) | 0 | 0 | 0 |
/// | tiny: s is 0 | 0 | s is at least 2^-6 | e = -127 | by = FLT_MAX at most | A counts as 1e-4 |
/// | tiny T: S overflows | S = FLT_MAX | P may be 0: as T = 0 | - | - | - |
///
/// With `hadamard` x is first replaced by its transform: of each 16 elements along a row, times the
/// signs 1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1, sums and differences at distance
/// 1, then 2, 4 and 8, each rounded to f32 (Sylvester's matrix); times 1/4, rounded to bf16. T is
/// the amax of the transformed tensor then. Two operands that are transformed along the axis that
/// their product sums over have the same product.
///
/// With `learned` A is not measured: it is max(amaxes[block], 0), a parameter. With `gradients`,
/// for the gradient d of y, u = x * by (like torchao x / times), c = u clamped to -6 and 6, and q =
/// c rounded to nearest,
///
///     d_x = u is c ? d : 0          d_amaxes[block] = rn((grad_factor / 6) * sum d * r)
///     r = u is c ? q - u : q        which is straight through the scale's rounding
///
/// r is rounded to f32. Terms are exact in f64; the sum begins with the elements of 16 bytes in
/// their order, and adds halves of the block's sums in pairs: of those of 4 of f32 the first and
/// the third, the second and the fourth, then both. NaN of x or of a scale counts as u below -6. A
/// learned amax beyond `amax` saturates the block's scale.
///
/// Transformer Engine leaves NaN out of A; here a NaN is not lost. A zero keeps its sign.
///
/// Sources: Transformer Engine 433b1dbc (nvfp4: S, by), c2d9c991 of its fork timmoon10 (nvfp4: s);
/// torchao 0367cd81 (nvfp4_tensor.py), 050515e8 (mx_tensor.py); DeepGEMM 38939a4c (utils/math.py).
#ifndef PTXGEN_BLOCKS_H
#define PTXGEN_BLOCKS_H

#include <ptxgen/device.h>
#include <ptxgen/module.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// X(FORMAT, name, float, elements of a block along a row, rows of a block): the formats. Floats
/// have as many bits of exponent and fraction as they say; e4m3 has no infinity, and those of 6 and
/// 4 bits have neither infinity nor NaN.
#define PTX_BLOCK_FORMATS(X)                                                                       \
    X(NVFP4, nvfp4, E2M1, 16, 1)                                                                   \
    X(MXFP4, mxfp4, E2M1, 32, 1)                                                                   \
    X(MXFP6_E3M2, mxfp6_e3m2, E3M2, 32, 1)                                                         \
    X(MXFP6_E2M3, mxfp6_e2m3, E2M3, 32, 1)                                                         \
    X(MXFP8_E4M3, mxfp8_e4m3, E4M3, 32, 1)                                                         \
    X(MXFP8_E5M2, mxfp8_e5m2, E5M2, 32, 1)                                                         \
    X(FP8_1X128, fp8_1x128, E4M3, 128, 1)                                                          \
    X(FP8_128X128, fp8_128x128, E4M3, 128, 128)

/// X(prefix, LIKE, SCALE, rule): whose scales, and how rounded, formats have whose names begin with
/// the prefix; the first of a format is its default. The rule is a name for its formula above.
#define PTX_BLOCK_WAYS(X)                                                                          \
    X(nvfp4, TE, DEFAULT, NVFP4_TE)                                                                \
    X(nvfp4, TORCHAO, DEFAULT, NVFP4_TORCHAO)                                                      \
    X(mx, TORCHAO, FLOOR, MX_FLOOR)                                                                \
    X(mx, TORCHAO, RCEIL, MX_RCEIL)                                                                \
    X(mxfp8, TE, RCEIL, MX_RCEIL_TE)                                                               \
    X(fp8, TE, POWER_OF_2, FP8_TE_POWER)                                                           \
    X(fp8, TE, F32, FP8_TE)                                                                        \
    X(fp8, DEEPGEMM, F32, FP8_DEEPGEMM)                                                            \
    X(fp8, DEEPGEMM, POWER_OF_2, FP8_DEEPGEMM_POWER)

/// A format: PTX_BLOCK_FORMAT_NVFP4 and so on.
typedef enum ptx_block_format {
#define PTX_BLOCK_FORMAT(id, ...) PTX_BLOCK_FORMAT_##id,
    PTX_BLOCK_FORMATS(PTX_BLOCK_FORMAT)
#undef PTX_BLOCK_FORMAT
} ptx_block_format;

/// Whose scales.
typedef enum ptx_block_like {
    PTX_BLOCK_LIKE_DEFAULT,  ///< te; torchao for mx
    PTX_BLOCK_LIKE_TE,       ///< nvfp4, mxfp8, fp8
    PTX_BLOCK_LIKE_TORCHAO,  ///< nvfp4, mx
    PTX_BLOCK_LIKE_DEEPGEMM, ///< fp8
} ptx_block_like;

/// How scales are rounded.
typedef enum ptx_block_scale {
    /// nvfp4: e4m3, which nothing changes. mx like torchao: floor; like te: rceil. fp8 like te:
    /// power_of_2; like deepgemm: f32.
    PTX_BLOCK_SCALE_DEFAULT,
    PTX_BLOCK_SCALE_FLOOR,      ///< mx, as OCP MX 1.0
    PTX_BLOCK_SCALE_RCEIL,      ///< mx
    PTX_BLOCK_SCALE_F32,        ///< fp8
    PTX_BLOCK_SCALE_POWER_OF_2, ///< fp8
} ptx_block_scale;

struct ptx_block_params {
    ptx_type dtype; ///< of x and y: PTX_F32, PTX_F16 or PTX_BF16
    ptx_block_format format;
    ptx_block_like like;
    ptx_block_scale scale;
    bool two_dimensional; ///< nvfp4: blocks of 16 rows and 16 columns
    bool stochastic;      ///< in place of nearest even
    bool hadamard;        ///< nvfp4 in bf16, in one dimension: transforms x along rows first
    /// In place of y: `amax` of each tensor becomes max(amax, |x|), of the transformed x with
    /// `hadamard`; NaN if any is. It is read and written, and 0 or more. nvfp4 alone.
    bool measure;
    /// nvfp4, in one dimension, to nearest, without `hadamard`: blocks have amaxes that are read.
    bool learned;
    /// With learned, in place of y: the gradients of x and of the amaxes, in one launch.
    bool gradients;
    /// With gradients: what multiplies those of amaxes. That of learned step sizes (Esser et al.,
    /// 2020) is 1 / sqrt(16 * 6).
    double grad_factor;
    /// Do not ask the driver about addresses, as in struct ptx_operations_params.
    bool any_address;
    const struct ptx_module_params *module; ///< how the kernel is loaded; NULL: the defaults
};

/// A tensor of a run. A tensor with more dimensions has all but the last as rows.
struct ptx_block_tensor {
    CUdeviceptr x; ///< read
    /// Written; may be x. Overlaps no other tensor of the run, which is not checked. 0 with
    /// measure. With gradients that of x; may be d_output, too.
    CUdeviceptr y;
    /// `columns` is a multiple of a block's; of 8 for blocks of 128 x 128, which edges cut. `rows`
    /// is a multiple of 16 for nvfp4's two dimensions.
    uint64_t rows, columns;
    CUdeviceptr amax;     ///< f32[1], read; written with measure. nvfp4 alone, 0 for other formats
    CUdeviceptr amaxes;   ///< learned: f32[rows * columns / 16], read; else 0
    CUdeviceptr d_output; ///< gradients: of x's type and size, read; else 0
    CUdeviceptr d_amaxes; ///< gradients: f32[rows * columns / 16], written; else 0
};

/// What the random bits of a run depend on, besides the place of an element in the list: of a
/// tensor's element i, which begins at element `first` of the list, they are half i % 2 of word
/// i % 8 / 2 of Philox4x32-7 of the counter ((first + i) / 8, offset) and the key `seed`, each of
/// 64 bits, the lower half first.
struct ptx_block_random {
    uint64_t seed, offset;
    CUdeviceptr seed_at, offset_at; ///< if not 0: s64[1] on the device, in place of the values
};

/// A kernel for a format. It belongs to one device.
typedef struct ptx_block_plan ptx_block_plan;

/// Compiles and loads the kernel; `params` is not needed afterwards. Errors (NULL): INVALID (what
/// does not go together is named), CAPTURE, UNSUPPORTED below sm_80, JIT, OUT_OF_MEMORY, DRIVER,
/// FORKED.
PTXGEN_API ptx_block_plan *
ptx_block_plan_create(ptx_device *device, const struct ptx_block_params *params, CUstream stream);
/// As ptx_clip_plan_destroy().
PTXGEN_API void ptx_block_plan_destroy(ptx_block_plan **plan);
/// The number of tensors of a launch; a longer list has several launches.
enum { PTX_BLOCK_TENSORS = 64 };
/// Quantizes a list and scales back. Launches only: may be captured, and several threads may use
/// one plan. Addresses and sizes go to the kernel by value. `random` is needed by a stochastic plan
/// alone, and NULL for others. Errors: INVALID, with nothing launched, whose message names the
/// tensor; CAPTURE, DRIVER, FORKED.
PTXGEN_API ptx_status ptx_block_plan_run(ptx_block_plan *plan,
                                         const struct ptx_block_tensor *tensors, size_t count,
                                         const struct ptx_block_random *random, CUstream stream);

PTXGEN_END

#endif

// SPDX-License-Identifier: MIT
// D = 2 A B + C by nvcuda::wmma: every shape and type that the emulator runs, in both layouts, through
// shared memory too.
#include <mma.h>

using namespace nvcuda;

// Each warp of the grid has its own tiles. The scale is applied to the elements of a fragment,
// whatever their order.
template <int M, int N, int K, class T, class In, class Sum, class LA, class LB>
__device__ void product(const In *a, const In *b, const Sum *c, Sum *d, bool columns)
{
    wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> fc, fd;
    const auto layout = columns ? wmma::mem_col_major : wmma::mem_row_major;
    const int lda = std::is_same<LA, wmma::row_major>::value ? K : M;
    const int ldb = std::is_same<LB, wmma::row_major>::value ? N : K;
    __shared__ alignas(32) In shared[(M + 16) * (K + 16)];
    for (int i = threadIdx.x; i < M * K; i += 32)
        shared[i / lda * (lda + 16) + i % lda] = a[blockIdx.x * M * K + i];
    __syncthreads();
    wmma::load_matrix_sync(fa, shared, lda + 16);
    wmma::load_matrix_sync(fb, b + blockIdx.x * K * N, ldb);
    wmma::load_matrix_sync(fc, c + blockIdx.x * M * N, columns ? M : N, layout);
    wmma::fill_fragment(fd, Sum(0));
    for (int k = 0; k < 2; k++)
        wmma::mma_sync(fd, fa, fb, fd);
    for (int i = 0; i < fd.num_elements; i++)
        fd.x[i] = fd.x[i] + fc.x[i];
    wmma::store_matrix_sync(d + blockIdx.x * M * N, fd, columns ? M : N, layout);
}

#define KERNEL(name, M, N, K, T, In, Sum, LA, LB)                                                  \
    extern "C" __global__ void name(const In *a, const In *b, const Sum *c, Sum *d, long columns)  \
    {                                                                                              \
        product<M, N, K, T, In, Sum, wmma::LA##_major, wmma::LB##_major>(a, b, c, d, columns);     \
    }
#define SHAPES(name, T, In, Sum)                                                                   \
    KERNEL(name##_16_16, 16, 16, 16, T, In, Sum, row, col)                                         \
    KERNEL(name##_8_32, 8, 32, 16, T, In, Sum, col, row)                                           \
    KERNEL(name##_32_8, 32, 8, 16, T, In, Sum, row, row)
SHAPES(half_float, half, half, float)
SHAPES(half_half, half, half, half)
SHAPES(bf16_float, __nv_bfloat16, __nv_bfloat16, float)
SHAPES(s8_int, signed char, signed char, int)
SHAPES(u8_int, unsigned char, unsigned char, int)
KERNEL(tf32_float, 16, 16, 8, wmma::precision::tf32, float, float, col, col)

// SPDX-License-Identifier: MIT
// Functions that are not inlined: scalars, structures and nothing in and out, recursion of calls.
struct mixed {
    unsigned char tag;
    short half;
    float value;
    long long wide;
};

__device__ int total = 5;
__device__ int *where = &total;

__device__ __noinline__ float scale(float x, int power)
{
    return power > 3 ? x * 8 : x - 1;
}

__device__ __noinline__ mixed change(mixed m, double by)
{
    m.value += (float)by;
    m.tag++;
    m.half = (short)(m.half * 2);
    m.wide -= m.tag;
    return m;
}

__device__ __noinline__ void note(int *at, bool negative)
{
    if (negative)
        atomicAdd(at, -1);
    else
        atomicAdd(where, 1);
}

__device__ __noinline__ int twice(int x)
{
    return (int)scale((float)x, 9) + (int)scale((float)x, 1);
}

extern "C" __global__ void k(const float *in, float *out, long long *wide, int *seen)
{
    int i = threadIdx.x;
    mixed m = { (unsigned char)i, (short)(-3 * i), in[i], (long long)i << 40 };
    m = change(m, 0.5);
    out[i] = scale(m.value, i) + m.tag;
    wide[i] = m.wide + m.half + twice(i);
    note(seen, i % 2 == 1);
    float local[8];
    for (int j = 0; j < 8; j++)
        local[j] = in[i] * j;
    out[i + 32] = local[(i + seen[1]) & 7];
}

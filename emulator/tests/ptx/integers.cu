// SPDX-License-Identifier: MIT
// Integer instructions, a switch, atomics, variables with initial values.
__constant__ int table[4] = { 1, -2, 3, 1000000 };
__device__ unsigned counter = 7;
__device__ unsigned *link = &counter;

extern "C" __global__ void k(const int *in, long long *out, unsigned char *bytes)
{
    int i = threadIdx.x, x = in[i], y = in[i + 32];
    long long r;
    switch (i % 12) {
    case 0:
        r = __popc(x) + __clz(y);
        break;
    case 1:
        r = __brev(x) + __ffs(y);
        break;
    case 2:
        r = x / 3 + y % 7;
        break;
    case 3:
        r = __byte_perm(x, y, 0x3614);
        break;
    case 4:
        r = __mulhi(x, y);
        break;
    case 5:
        r = (long long)x * y + table[x & 3];
        break;
    case 6:
        r = (unsigned)__funnelshift_l(x, y, 9);
        break;
    case 7:
        r = max(x, min(y, 3)) + abs(x - y);
        break;
    case 8:
        r = __popcll((long long)x << 32 | (unsigned)y) + __clzll(y);
        break;
    case 9:
        r = x == y ? 0 : (long long)x / (y | 1);
        break;
    case 10:
        r = __dp4a(x, y, i);
        break;
    default:
        r = x < 0 ? -1ll : (long long)((unsigned)x >> 3 ^ (unsigned)y << 2);
    }
    out[i] = r;
    bytes[i] = (unsigned char)(bytes[i] + x);
    atomicMax((int *)bytes + 16, i);
    atomicAdd(link, 1u);
    atomicAdd((unsigned long long *)out + 32, 3ull);
    if (i == 0)
        atomicCAS((int *)bytes + 17, 0, table[1]);
}

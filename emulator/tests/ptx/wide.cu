// SPDX-License-Identifier: MIT
// Numbers of 128 bits, with the carries that they are made of, products of 24 bits, and a switch.
#include <stdint.h>

// x * y + z, of 64 bits in halves of 32.
static __device__ uint64_t chain(uint64_t x, uint64_t y, uint64_t z)
{
    uint32_t low, high;
    asm("mad.lo.cc.u32 %0, %2, %3, %4;\n\t"
        "madc.hi.u32 %1, %2, %3, %5;\n\t"
        "mad.lo.u32 %1, %2, %6, %1;\n\t"
        "mad.lo.u32 %1, %7, %3, %1;"
        : "=&r"(low), "=&r"(high)
        : "r"((uint32_t)x), "r"((uint32_t)y), "r"((uint32_t)z), "r"((uint32_t)(z >> 32)),
          "r"((uint32_t)(y >> 32)), "r"((uint32_t)(x >> 32)));
    return (uint64_t)high << 32 | low;
}

extern "C" __global__ void k(const uint64_t *a, const uint64_t *b, uint64_t *out)
{
    unsigned i = threadIdx.x;
    unsigned __int128 x = (unsigned __int128)a[i] << 64 | b[i];
    unsigned __int128 y = (unsigned __int128)b[i] << 64 | a[i];
    unsigned __int128 sum = x + y, difference = x - y, product = x * y;
    out += 8 * i;
    out[0] = (uint64_t)sum;
    out[1] = (uint64_t)(sum >> 64);
    out[2] = (uint64_t)difference;
    out[3] = (uint64_t)(difference >> 64);
    out[4] = (uint64_t)product;
    out[5] = (uint64_t)(product >> 64);
    out[6] = chain(a[i], b[i], a[i] ^ b[i]);
    volatile uint64_t *last = out + 7;
    switch (i % 8) {
    case 0:
        *last = a[i] + 17;
        break;
    case 1:
        *last = b[i] - 3;
        *last = *last + 4;
        break;
    case 2:
        *last = __umul24((unsigned)a[i], (unsigned)b[i]);
        break;
    case 3:
        *last = (uint64_t)__mul24((int)a[i], (int)b[i]);
        break;
    case 4:
        *last = a[i] >> 3;
        *last = *last ^ b[i];
        break;
    case 5:
        *last = ~a[i];
        break;
    case 6:
        *last = 6;
        *last = *last * a[i];
        break;
    default:
        *last = 99;
    }
}

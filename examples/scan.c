// SPDX-License-Identifier: MIT
// Prefix sums in one launch: y[i] = x[0] + ... + x[i]. A block has a tile. It publishes the tile's
// sum, then looks back over the sums of the tiles before it until one has its whole prefix, and
// publishes its own (decoupled look-back: Merrill and Garland 2016).
#include "host.h"

enum { BLOCK = 256, WARPS = BLOCK / 32, EACH = 4, TILE = BLOCK * EACH };
enum { TILE_SUM = 1, PREFIX = 2 }; // what a tile has published; 0: nothing yet

// The sums of lanes 0 to this one.
static ptx_val warp_scan(ptx_builder *b, ptx_val lane, ptx_val x)
{
    for (unsigned d = 1; d < 32; d *= 2) {
        ptx_val below = ptx_shfl_up(b, x, d);
        x = ptx_add(b, x, ptx_select(b, ptx_ge(b, lane, d), below, 0));
    }
    return x;
}

// One store of 64 bits has both, so no other thread sees the one without the other.
static void publish(ptx_builder *b, ptx_ptr tiles, ptx_val tile, uint32_t what, ptx_val sum)
{
    ptx_val word = ptx_pack(b, PTX_U64, ptx_vec2(sum, ptx_u32(what)));
    ptx_store(b, tiles, tile, word, .order = PTX_ORDER_RELAXED);
}

// The sum of all tiles before this one, by a warp: 32 tiles at a time, the nearest in lane 0.
static ptx_val look_back(ptx_builder *b, ptx_ptr tiles, ptx_val tile, ptx_val lane)
{
    ptx_val before = ptx_var(b, ptx_u32(0)), next = ptx_var(b, ptx_bitcast(b, PTX_S32, tile));
    ptx_val signed_lane = ptx_bitcast(b, PTX_S32, lane);

    ptx_loop (b) {
        ptx_val at = ptx_sub(b, ptx_sub(b, next, 1), signed_lane);
        ptx_val word = ptx_var(b, ptx_u64((uint64_t)PREFIX << 32)); // in front of the first tile
        ptx_loop (b) {
            ptx_if (b, ptx_ge(b, at, 0))
                ptx_set(b, word, ptx_load(b, tiles, at, .order = PTX_ORDER_RELAXED));
            ptx_val published = ptx_ge(b, word, (uint64_t)TILE_SUM << 32);
            ptx_break_if(b, ptx_vote_all(b, published, UINT32_MAX));
        }
        ptx_vec half = ptx_unpack(b, PTX_U32, word); // the sum, and what it is
        ptx_val whole = ptx_ballot(b, ptx_eq(b, half.lane[1], PREFIX), UINT32_MAX);
        ptx_val nearest = ptx_clz(b, ptx_brev(b, whole)); // 32: none of them
        ptx_val counts = ptx_le(b, lane, nearest);
        ptx_val sums = warp_scan(b, lane, ptx_select(b, counts, half.lane[0], 0));
        ptx_set(b, before, ptx_add(b, before, ptx_shfl_idx(b, sums, 31)));
        ptx_break_if(b, ptx_ne(b, whole, 0));
        ptx_set(b, next, ptx_sub(b, next, 32));
    }
    return before;
}

static void build(ptx_builder *b)
{
    ptx_entry (b, "scan", .block = { BLOCK }) {
        ptx_ptr x = ptx_param_ptr(b, PTX_U32, "x", .length = "n", .readonly = true);
        ptx_ptr y = ptx_param_ptr(b, PTX_U32, "y", .length = "n", .meaning = "may be x");
        ptx_val n = ptx_param(b, PTX_U32, "n");
        ptx_ptr tiles = ptx_param_ptr(b, PTX_U64, "tiles", .meaning = "one a block; zeros");
        ptx_ptr started = ptx_param_ptr(b, PTX_U32, "started", .length = "1", .meaning = "0");
        ptx_ptr shared = ptx_shared(b, PTX_U32, WARPS + 2);
        ptx_val tid = ptx_tid(b, PTX_X), lane = ptx_and(b, tid, 31), warp = ptx_shr(b, tid, 5);
        ptx_val value[EACH];

        ptx_comment(b, "tiles in the order in which blocks start: those before this one run");
        ptx_if (b, ptx_eq(b, tid, 0))
            ptx_store(b, shared, WARPS, ptx_atomic_add(b, started, 0, ptx_u32(1)));
        ptx_barrier(b);
        ptx_val tile = ptx_load(b, shared, WARPS);
        ptx_val first = ptx_mad(b, tile, TILE, ptx_mul(b, tid, EACH));

        ptx_comment(b, "the thread's elements, and what they sum to so far");
        for (unsigned k = 0; k < EACH; k++) {
            ptx_val i = ptx_add(b, first, k), element = ptx_var(b, ptx_u32(0));
            ptx_if (b, ptx_lt(b, i, n))
                ptx_set(b, element, ptx_load(b, x, i));
            value[k] = k ? ptx_add(b, value[k - 1], element) : element;
        }
        ptx_val upto = warp_scan(b, lane, value[EACH - 1]);

        ptx_comment(b, "the sums of the warps before, and of the whole tile");
        ptx_if (b, ptx_eq(b, lane, 31))
            ptx_store(b, shared, warp, upto);
        ptx_barrier(b);
        ptx_val own = ptx_sub(b, upto, value[EACH - 1]), sum = ptx_u32(0);
        for (uint32_t k = 0; k < WARPS; k++) {
            ptx_val of_warp = ptx_load(b, shared, k);
            own = ptx_add(b, own, ptx_select(b, ptx_gt(b, warp, k), of_warp, 0));
            sum = ptx_add(b, sum, of_warp);
        }

        ptx_comment(b, "the tiles before");
        ptx_val is_first = ptx_eq(b, warp, 0);
        ptx_assume_warp_uniform(b, is_first);
        ptx_if (b, is_first) {
            ptx_if (b, ptx_eq(b, lane, 0))
                publish(b, tiles, tile, TILE_SUM, sum);
            ptx_val before = look_back(b, tiles, tile, lane);
            ptx_if (b, ptx_eq(b, lane, 0)) {
                publish(b, tiles, tile, PREFIX, ptx_add(b, before, sum));
                ptx_store(b, shared, WARPS + 1, before);
            }
        }
        ptx_barrier(b);
        own = ptx_add(b, own, ptx_load(b, shared, WARPS + 1));
        for (unsigned k = 0; k < EACH; k++) {
            ptx_val i = ptx_add(b, first, k);
            ptx_if (b, ptx_lt(b, i, n))
                ptx_store(b, y, i, ptx_add(b, own, value[k]));
        }
    }
}

static bool run(struct host *host)
{
    const uint32_t n = example.sizes[0], blocks = (n + TILE - 1) / TILE;
    uint32_t *x = host_alloc(host, n, sizeof *x), *y = host_alloc(host, n, sizeof *y);
    uint32_t seed = n, sum = 0;

    for (uint32_t i = 0; x && i < n; i++)
        x[i] = host_random(&seed);
    CUdeviceptr at = host_upload(host, x, n * sizeof *x);
    CUdeviceptr tiles = host_zeros(host, blocks * sizeof(uint64_t));
    CUdeviceptr started = host_zeros(host, sizeof(uint32_t));
    const struct ptx_arg args[] = { PTX_ARG(at), PTX_ARG(at), PTX_ARG(n), PTX_ARG(tiles),
                                    PTX_ARG(started) };
    host_launch(host, "scan",
                &(struct ptx_launch_params) { .grid = { blocks }, .args = args, .arg_count = 5 });
    bool right = host_download(host, at, y, n * sizeof *y);
    for (uint32_t i = 0; right && i < n; i++)
        right = y[i] == (sum += x[i]); // modulo 2^32
    return right;
}

struct example example = {
    .name = "scan", .build = build, .run = run, .size_names = { "N" }, .sizes = { 100003 }
};

// SPDX-License-Identifier: MIT
// O = softmax(Q K^T / sqrt(HEAD)) V of many heads, in bf16 on tensor cores; causal too, where a
// query sees the keys up to its own. A block has ROWS queries of a head and goes over its keys, a
// tile at a time, while the next is copied. Of each row it keeps the sum of the exponentials, and
// what was subtracted from their scores.
#include "host.h"

#include <math.h>

enum {
    ROWS = 128, // queries of a block,
    PART = 32,  // and of a warp
    KEYS = 64,  // of a tile
    MAX_HEAD = 128,
    PIECE = 8, // elements that a thread copies at a time: 16 bytes
    THREADS = 32 * ROWS / PART,
    CACHED = 1 << 25, // bytes of keys and values that L2 holds
    SLACK = 8,        // powers of 2 that a row's largest score may grow by before it is subtracted
};
enum { DOWN = PART / 16, LANE_ROWS = 2 * DOWN, ACROSS = MAX_HEAD / 8 };

// Fragments of a warp, variables. A lane has a word of rows r and column n, counted as it has them.
typedef ptx_fragment parts[DOWN][ACROSS];

static ptx_val word(ptx_builder *b, parts c, unsigned r, unsigned n)
{
    return ptx_fragment_words(b, c[r / 2][n / 2]).lane[r % 2 * 2 + n % 2];
}

struct rows {
    parts s, out;                            // scores of a tile, then their powers of 2; O so far
    ptx_val less[LANE_ROWS], sum[LANE_ROWS]; // what is subtracted from scores; the lane's sums
};

static unsigned head(void)
{
    return example.sizes[2];
}

// Rows in shared memory are a piece longer, so that 8 pieces of a column are in all banks.
static unsigned stride(void)
{
    return head() + PIECE;
}

// Exponentials are powers of 2: log2(e) / sqrt(HEAD).
static float scale(void)
{
    return 1.44269504f / sqrtf((float)head());
}

static ptx_val power(ptx_builder *b, ptx_val x)
{
    return ptx_op(b, PTX_OP_ex2, .x = x, .ftz = true);
}

// Over the four lanes that share a row.
static ptx_val reduce(ptx_builder *b, ptx_val (*op)(ptx_builder *b, ptx_val x, ptx_val y),
                      ptx_val x)
{
    x = op(b, x, ptx_shfl_bfly(b, x, 1));
    return op(b, x, ptx_shfl_bfly(b, x, 2));
}

static void scale_row(ptx_builder *b, struct rows *w, unsigned r, ptx_val by)
{
    for (unsigned n = 0; n < head() / 4; n++) {
        ptx_val x = word(b, w->out, r, n);
        ptx_set(b, x, ptx_mul(b, x, by));
    }
}

// S = Q K^T.
static void scores(ptx_builder *b, ptx_matrix queries, ptx_matrix keys, struct rows *w)
{
    ptx_fragment q[DOWN], k[KEYS / 8], zero = ptx_fragment_fill(b, ptx_f32(0));

    for (unsigned d = 0; d < head(); d += 16) {
        ptx_matrix_load(b, queries, 0, d, DOWN, q);
        ptx_matrix_load(b, keys, d, 0, KEYS / 8, k);
        for (unsigned f = 0; f < DOWN * KEYS / 8; f++) {
            ptx_fragment s = w->s[f % DOWN][f / DOWN];
            ptx_fragment_set(b, s, ptx_mma(b, q[f % DOWN], k[f / DOWN], d ? s : zero));
        }
    }
}

// Scores of keys behind the query become -infinity; `ahead` is the warp's first query less the
// tile's first key.
static void mask(ptx_builder *b, ptx_val ahead, struct rows *w)
{
    ptx_val lane = ptx_laneid(b), column = ptx_mul(b, ptx_rem(b, lane, 4), 2);

    ahead = ptx_bitcast(b, PTX_S32, ptx_sub(b, ptx_add(b, ahead, ptx_div(b, lane, 4)), column));
    for (unsigned r = 0; r < LANE_ROWS; r++)
        for (unsigned n = 0; n < KEYS / 4; n++) {
            const int behind = (int)(n / 2 * 8 + n % 2) - (int)(8 * r);
            ptx_val x = word(b, w->s, r, n);
            ptx_set(b, x, ptx_select(b, ptx_ge(b, ahead, behind), x, -INFINITY));
        }
}

// P = 2^(S - less), and adds it up. What is subtracted is the row's largest score; it may become
// larger by SLACK before that changes, as sums of powers up to 2^SLACK are as exact.
static void softmax(ptx_builder *b, struct rows *w)
{
    ptx_val most[LANE_ROWS], grown = ptx_bool(false);

    for (unsigned r = 0; r < LANE_ROWS; r++) {
        most[r] = word(b, w->s, r, 0);
        for (unsigned n = 1; n < KEYS / 4; n++)
            most[r] = ptx_max(b, most[r], word(b, w->s, r, n));
        most[r] = ptx_mul(b, reduce(b, ptx_max, most[r]), scale());
        grown = ptx_or(b, grown, ptx_gt(b, most[r], ptx_add(b, w->less[r], SLACK)));
    }
    ptx_if (b, ptx_vote_any(b, grown, UINT32_MAX)) {
        for (unsigned r = 0; r < LANE_ROWS; r++) {
            ptx_val less = ptx_max(b, most[r], w->less[r]);
            ptx_val by = power(b, ptx_sub(b, w->less[r], less));
            ptx_set(b, w->less[r], less);
            ptx_set(b, w->sum[r], ptx_mul(b, w->sum[r], by));
            scale_row(b, w, r, by);
        }
    }
    for (unsigned r = 0; r < LANE_ROWS; r++) {
        ptx_val less = ptx_neg(b, w->less[r]), sum = w->sum[r];
        for (unsigned n = 0; n < KEYS / 4; n++) {
            ptx_val x = word(b, w->s, r, n);
            ptx_set(b, x, power(b, ptx_fma(b, x, scale(), less)));
            sum = ptx_add(b, sum, x);
        }
        ptx_set(b, w->sum[r], sum);
    }
}

// O += P V.
static void add_values(ptx_builder *b, ptx_matrix values, struct rows *w)
{
    ptx_fragment p[DOWN], v[ACROSS];

    for (unsigned key = 0; key < KEYS; key += 16) {
        for (unsigned m = 0; m < DOWN; m++)
            p[m] = ptx_fragment_to_a(b, PTX_BF16, 16, &w->s[m][key / 8]);
        ptx_matrix_load(b, values, key, 0, head() / 8, v);
        for (unsigned f = 0; f < DOWN * head() / 8; f++) {
            ptx_fragment sum = w->out[f % DOWN][f / DOWN];
            ptx_fragment_set(b, sum, ptx_mma(b, p[f % DOWN], v[f / DOWN], sum));
        }
    }
}

// Begins to copy this thread's pieces of rows that follow each other.
static void copy(ptx_builder *b, ptx_ptr from, ptx_ptr to, unsigned rows)
{
    for (unsigned row = 0; row < rows; row += THREADS * PIECE / head())
        ptx_cp_async(b, ptx_at(b, to, row * stride()), ptx_at(b, from, row * head()), 16,
                     .bypass = true);
}

// The block's head, and its first query. Blocks of as many heads as L2 holds follow each other,
// those with the most keys first.
static ptx_val find_head(ptx_builder *b, ptx_val tokens, ptx_val heads, ptx_val *query)
{
    ptx_val block = ptx_ctaid(b, PTX_X), tiles = ptx_div(b, tokens, ROWS);
    ptx_val together = ptx_max(b, ptx_div(b, CACHED / 4 / head(), tokens), 1);
    ptx_val group = ptx_mul(b, together, tiles), in_group = ptx_rem(b, block, group);
    ptx_val first = ptx_mul(b, ptx_div(b, block, group), together);

    together = ptx_min(b, together, ptx_sub(b, heads, first));
    ptx_val before = ptx_add(b, ptx_div(b, in_group, together), 1);
    *query = ptx_mul(b, ptx_sub(b, tiles, before), ROWS);
    return ptx_add(b, first, ptx_rem(b, in_group, together));
}

static void attention(ptx_builder *b, const char *name, bool causal)
{
    const unsigned tile = KEYS * stride(), stage = 2 * tile; // keys, then values
    struct rows w;

    ptx_entry (b, name, .block = { THREADS }, .min_blocks = head() == 64 ? 3 : 2) {
        ptx_ptr q = ptx_param_ptr(b, PTX_BF16, "q", .readonly = true);
        ptx_ptr k = ptx_param_ptr(b, PTX_BF16, "k", .readonly = true);
        ptx_ptr v = ptx_param_ptr(b, PTX_BF16, "v", .readonly = true);
        ptx_ptr o = ptx_param_ptr(b, PTX_BF16, "o", .writeonly = true);
        ptx_val tokens = ptx_param(b, PTX_U32, "tokens", .meaning = "a multiple of 128"), query;
        ptx_val heads = ptx_param(b, PTX_U32, "heads");
        ptx_ptr shared = ptx_shared_dynamic(b, PTX_BF16),
                stages = ptx_at(b, shared, ROWS * stride());

        ptx_val start = ptx_mul(b, find_head(b, tokens, heads, &query), tokens);
        // The warp's rows. ptxas sees that a word of lane 0 is the same in all lanes.
        ptx_val warp = ptx_shfl_idx(b, ptx_div(b, ptx_tid(b, PTX_X), 32), 0);
        ptx_val part = ptx_mul(b, warp, PART);
        start = ptx_mul_wide(b, start, head());
        q = ptx_at(b, ptx_at(b, q, start), ptx_mul_wide(b, query, head()));
        o = ptx_at(b, ptx_at(b, o, start), ptx_mul_wide(b, ptx_add(b, query, part), head()));

        // This thread's first piece, and where it goes.
        ptx_val piece = ptx_mul(b, ptx_tid(b, PTX_X), PIECE), column = ptx_rem(b, piece, head());
        ptx_val to = ptx_mad(b, ptx_div(b, piece, head()), stride(), column);
        ptx_ptr target = ptx_at(b, stages, to);
        k = ptx_at(b, ptx_at(b, k, start), piece), v = ptx_at(b, ptx_at(b, v, start), piece);
        copy(b, ptx_at(b, q, piece), ptx_at(b, shared, to), ROWS);
        copy(b, k, target, KEYS);
        copy(b, v, ptx_at(b, target, tile), KEYS);

        ptx_matrix queries =
            ptx_matrix_from(b, PTX_FRAGMENT_A, PTX_BF16, 16,
                            ptx_at(b, shared, ptx_mul(b, part, stride())), stride());
        ptx_matrix keys = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 16, stages, stride());
        ptx_matrix values = ptx_matrix_from(b, PTX_FRAGMENT_B, PTX_BF16, 16,
                                            ptx_at(b, stages, tile), stride(), .trans = true);
        for (unsigned f = 0; f < DOWN * ACROSS; f++) {
            w.s[f % DOWN][f / DOWN] = ptx_fragment_var(b, ptx_fragment_fill(b, ptx_f32(0)));
            w.out[f % DOWN][f / DOWN] = ptx_fragment_var(b, ptx_fragment_fill(b, ptx_f32(0)));
        }
        for (unsigned r = 0; r < LANE_ROWS; r++) {
            w.less[r] = ptx_var(b, ptx_f32(-INFINITY));
            w.sum[r] = ptx_var(b, ptx_f32(0));
        }
        part = ptx_add(b, part, query);
        ptx_val end = causal ? ptx_add(b, query, ROWS) : tokens; // of the keys, of the warp's
        ptx_val own_end = causal ? ptx_add(b, part, PART) : tokens, at = ptx_var(b, ptx_u32(0));
        ptx_for (b, key, ptx_u32(0), end, KEYS) {
            ptx_val next = ptx_add(b, key, KEYS), other = ptx_sub(b, stage, at);
            ptx_cp_async_wait_all(b);
            ptx_barrier(b); // the tile is there, and all have read the one before
            ptx_if (b, ptx_lt(b, next, end)) {
                ptx_val further = ptx_mul_wide(b, next, head());
                copy(b, ptx_at(b, k, further), ptx_at(b, target, other), KEYS);
                copy(b, ptx_at(b, v, further), ptx_at(b, ptx_at(b, target, other), tile), KEYS);
            }
            ptx_if (b, ptx_lt(b, key, own_end)) {
                scores(b, queries, ptx_matrix_at(b, keys, at), &w);
                if (causal)
                    ptx_if (b, ptx_lt(b, part, next))
                        mask(b, ptx_sub(b, part, key), &w);
                softmax(b, &w);
                add_values(b, ptx_matrix_at(b, values, at), &w);
            }
            ptx_set(b, at, other);
        }
        ptx_matrix result = ptx_matrix_from(b, PTX_FRAGMENT_C, PTX_F32, 0, o, head());
        for (unsigned r = 0; r < LANE_ROWS; r++)
            scale_row(b, &w, r, ptx_rcp(b, reduce(b, ptx_add, w.sum[r])));
        for (unsigned m = 0; m < DOWN; m++) // rounds to bf16
            ptx_matrix_store(b, result, 16 * m, 0, head() / 8, w.out[m]);
    }
}

static void build(ptx_builder *b)
{
    if (example.sizes[0] % ROWS || (head() != 64 && head() != 128))
        ptx_builder_fail(b, "TOKENS must be a multiple of %d, and HEAD 64 or 128", ROWS);
    attention(b, "attention", false);
    attention(b, "attention_causal", true);
}

// Whether a head's rows are as far from the formula in f64 as P and O in bf16 make them.
static bool right(const float *q, const float *k, const float *v, const float *o, bool causal,
                  double *p)
{
    const size_t tokens = example.sizes[0];

    for (size_t i = 0; i < tokens; i++) {
        const size_t seen = causal ? i + 1 : tokens;
        double sum = 0;
        for (size_t j = 0; j < seen; j++) {
            double score = 0;
            for (size_t d = 0; d < head(); d++)
                score += (double)q[i * head() + d] * k[j * head() + d];
            sum += p[j] = exp(score / sqrt(head()));
        }
        for (size_t d = 0; d < head(); d++) {
            double wanted = 0, size = 0;
            for (size_t j = 0; j < seen; j++) {
                const double term = p[j] / sum * v[j * head() + d];
                wanted += term, size += fabs(term);
            }
            if (!(fabs(o[i * head() + d] - wanted) <= 0x1p-8 * (fabs(wanted) + size)))
                return false;
        }
    }
    return true;
}

static bool run(struct host *host)
{
    const uint32_t tokens = example.sizes[0], heads = example.sizes[1];
    const size_t of_head = (size_t)tokens * head(), count = heads * of_head;
    double *p = (double *)host_alloc(host, tokens, sizeof *p);
    float *o = host_random_array(host, count, 0, 0), *in[3];
    CUdeviceptr at[3], out = host_zeros(host, count * 2);
    bool all = p != NULL;

    for (unsigned n = 0; n < 3; n++) {
        in[n] = host_random_array(host, count + n, -2, 2);
        at[n] = host_upload_floats(host, PTX_BF16, in[n], count);
    }
    const struct ptx_arg args[] = { PTX_ARG(at[0]), PTX_ARG(at[1]),  PTX_ARG(at[2]),
                                    PTX_ARG(out),   PTX_ARG(tokens), PTX_ARG(heads) };
    const struct ptx_launch_params params = { .grid = { tokens / ROWS * heads },
                                              .shared_bytes = 2 * (ROWS + 4 * KEYS) * stride(),
                                              .args = args,
                                              .arg_count = 6 };
    for (unsigned causal = 0; causal < 2; causal++) {
        host_launch(host, causal ? "attention_causal" : "attention", &params);
        all = all && host_download_floats(host, PTX_BF16, out, o, count);
        for (size_t h = 0; all && h < count; h += of_head)
            all = right(&in[0][h], &in[1][h], &in[2][h], &o[h], causal, p);
    }
    return all;
}

struct example example = { "attention",    build,   run, { "TOKENS", "HEADS", "HEAD" },
                           { 256, 3, 64 }, PTX_NONE };

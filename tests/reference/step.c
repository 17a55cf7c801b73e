// SPDX-License-Identifier: MIT
#include "reference/step.h"

#include "reference/half.h"

#include <math.h>
#include <stdlib.h>

// f32 arithmetic on a GPU gives one NaN.
static float one_nan(float x)
{
    return isnan(x) ? f32_of_bits(0x7fffffff) : x;
}

static float load(enum ref_type type, const void *data, uint64_t i)
{
    switch (type) {
    case REF_F16:
        return (float)f16_to_f64(((const uint16_t *)data)[i]);
    case REF_BF16:
        return (float)bf16_to_f64(((const uint16_t *)data)[i]);
    default:
        return ((const float *)data)[i];
    }
}

static void store(enum ref_type type, void *data, uint64_t i, float x)
{
    switch (type) {
    case REF_F16:
        ((uint16_t *)data)[i] = f16_from_f64((double)x);
        break;
    case REF_BF16:
        ((uint16_t *)data)[i] = bf16_from_f64((double)x);
        break;
    default:
        ((float *)data)[i] = one_nan(x);
    }
}

// ---- scalars ------------------------------------------------------------------------------------

static double power(float base, uint32_t t)
{
    double r = 1;

    for (int bit = 31; bit >= 0; bit--) {
        r = r * r;
        if (t >> bit & 1)
            r = r * (double)base;
    }
    return r;
}

struct scalars {
    float lr, beta1, beta2, eps, weight_decay, momentum, dampening;
    float step_size, root2; // Adam
    uint32_t t;
};

static struct scalars scalars_of(const struct ref_step_hyper *h, uint32_t t)
{
    struct scalars s = {
        .lr = (float)h->lr,
        .beta1 = (float)h->beta1,
        .beta2 = (float)h->beta2,
        .eps = (float)h->eps,
        .weight_decay = (float)h->weight_decay,
        .momentum = (float)h->momentum,
        .dampening = (float)h->dampening,
        .t = t,
    };
    const float bc1 = (float)(1 - power(s.beta1, t));

    s.step_size = s.lr / bc1;
    s.root2 = (float)sqrt(1 - power(s.beta2, t));
    return s;
}

// ---- rules --------------------------------------------------------------------------------------

struct element {
    float p, g, state[2], x;
};

// What a matrix's momentum becomes.
static float momentum_of(const struct scalars *s, float m, float g)
{
    const float apart = g - m;

    return fmaf(1.0f - s->momentum, apart, m);
}

static void adam(const struct scalars *s, struct element *e)
{
    const float g = e->g, gg = g * g;
    const float m = fmaf(s->beta1, e->state[0], fmaf(-s->beta1, g, g));
    const float v = fmaf(s->beta2, e->state[1], fmaf(-s->beta2, gg, gg));
    const float root = sqrtf(v) / s->root2;
    const float denominator = root + s->eps;
    const float step = s->step_size * m;
    const float move = step / denominator;

    e->p = e->p - move;
    e->state[0] = m;
    e->state[1] = v;
}

static void sgd(const struct scalars *s, bool nesterov, struct element *e)
{
    const float g = fmaf(s->weight_decay, e->p, e->g);
    float direction = g;

    if (s->momentum != 0) {
        const float old = s->momentum * e->state[0];
        const float rest = 1.0f - s->dampening;
        const float part = rest * g;
        const float m = s->t == 1 ? g : old + part;
        const float ahead = s->momentum * m;
        direction = nesterov ? g + ahead : m;
        e->state[0] = m;
    }
    const float move = s->lr * direction;
    e->p = e->p - move;
}

static float mix(float beta, float m, float g)
{
    const float rest = 1.0f - beta;
    const float x = beta * m, y = rest * g;
    return x + y;
}

static void lion(const struct scalars *s, struct element *e)
{
    const float decay = s->lr * s->weight_decay;
    const float u = mix(s->beta1, e->state[0], e->g);
    const float move = u > 0 ? s->lr : u < 0 ? -s->lr : 0.0f;
    const float p = fmaf(-decay, e->p, e->p);

    e->p = p - move;
    e->state[0] = mix(s->beta2, e->state[0], e->g);
}

static void step_element(const struct ref_step_tensor *t, const struct scalars *s,
                         struct element *e)
{
    const float decay = s->lr * s->weight_decay;

    switch (t->rule) {
    case REF_ADAMW:
        e->p = fmaf(-decay, e->p, e->p);
        adam(s, e);
        break;
    case REF_ADAM:
        e->g = fmaf(s->weight_decay, e->p, e->g);
        adam(s, e);
        break;
    case REF_SGD:
        sgd(s, t->nesterov, e);
        break;
    case REF_LION:
        lion(s, e);
        break;
    case REF_MUON:
        e->state[0] = momentum_of(s, e->state[0], e->g);
        e->p = fmaf(-decay, e->p, e->p);
        e->p = fmaf(-t->rate, e->x, e->p);
        break;
    }
}

unsigned ref_step_states(enum ref_step_rule rule, double momentum)
{
    switch (rule) {
    case REF_ADAMW:
    case REF_ADAM:
        return 2;
    case REF_SGD:
        return momentum != 0;
    case REF_LION:
    case REF_MUON:
        return 1;
    }
    return 0;
}

// ---- random bits --------------------------------------------------------------------------------

void ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x[4] = { counter[0], counter[1], counter[2], counter[3] };
    uint32_t k[2] = { key[0], key[1] };

    for (int round = 0; round < 7; round++) {
        const uint64_t a = UINT64_C(0xd2511f53) * x[0], b = UINT64_C(0xcd9e8d57) * x[2];
        const uint32_t next[4] = { (uint32_t)(b >> 32) ^ x[1] ^ k[0], (uint32_t)b,
                                   (uint32_t)(a >> 32) ^ x[3] ^ k[1], (uint32_t)a };
        for (int n = 0; n < 4; n++)
            x[n] = next[n];
        k[0] += 0x9e3779b9;
        k[1] += 0xbb67ae85;
    }
    for (int n = 0; n < 4; n++)
        out[n] = x[n];
}

static uint32_t random_half(const struct ref_step_tensor *t, uint64_t i, uint32_t step,
                            uint32_t which)
{
    const uint64_t e = t->first + (t->run ? i / t->run * t->stride + i % t->run : i);
    const uint32_t counter[4] = { (uint32_t)(e / 8), (uint32_t)(e / 8 >> 32) | which << 29, step,
                                  t->id };
    const uint32_t key[2] = { (uint32_t)t->seed, (uint32_t)(t->seed >> 32) };
    uint32_t word[4];

    ref_philox(counter, key, word);
    return e % 2 ? word[e % 8 / 2] >> 16 : word[e % 8 / 2] & 0xffff;
}

// ---- formats ------------------------------------------------------------------------------------

static uint16_t rounded_stochastically(float x, uint32_t random)
{
    if (!isfinite(x))
        return bf16_from_f64((double)x);
    return (uint16_t)((bits_of_f32(x) + random) >> 16);
}

// The value of the f16 that x is rounded to.
static double f16_rounded_stochastically(float x, uint32_t random)
{
    const double size = fabs((double)x);

    if (!isfinite(x))
        return (double)x;
    if (size >= 0x1p-14) {
        const uint32_t bits = bits_of_f32(x) + (random >> 3);
        return (double)f32_of_bits(bits >> 13 << 13);
    }
    return copysign(floor((size + random * 0x1p-40) * 0x1p24) * 0x1p-24, (double)x);
}

// ---- corrections --------------------------------------------------------------------------------

// Half the distance of parameters at one.
static double half_apart(enum ref_type type, float p)
{
    int exponent = -200;

    if (!isfinite(p))
        exponent = 128;
    else if (p != 0)
        exponent = ilogb((double)p);
    const int half = exponent - (type == REF_F16 ? 11 : 8), least = type == REF_F16 ? -25 : -126;
    return ldexp(1, half < least ? least : half);
}

// Integers that the reference rounds are exact in f64: 127 or 255 times an f32.
static float corrected(const struct ref_step_tensor *t, uint64_t i)
{
    const float p = load(t->parameter_type, t->parameter, i);
    const float part = ((const int8_t *)t->beside)[i] * (1 / 127.0f);

    return fmaf(part, (float)half_apart(t->parameter_type, p), p);
}

static void set_corrected(const struct ref_step_tensor *t, uint64_t i, float x)
{
    store(t->parameter_type, t->parameter, i, x);
    const float p = load(t->parameter_type, t->parameter, i);
    const float apart = x - p, rest = apart * (float)(1 / half_apart(t->parameter_type, p));

    ((int8_t *)t->beside)[i] = (int8_t)(isnan(rest)   ? -1
                                        : isinf(rest) ? 0
                                                      : nearbyint(127 * (double)rest));
}

static float parameter_of(const struct ref_step_tensor *t, uint64_t i)
{
    if (t->format == REF_MASTER)
        return ((const float *)t->beside)[i];
    if (t->format == REF_REMAINDER) {
        const uint32_t high = ((const uint16_t *)t->parameter)[i], size = high & 0x7fff;
        const int32_t low = ((const int16_t *)t->beside)[i];
        const bool counts = size == 0 ? low > 0 : size < 0x7f80;
        return f32_of_bits((high << 16) + (counts ? (uint32_t)low : 0));
    }
    if (t->format == REF_MASTER_24BIT)
        return corrected(t, i);
    return load(t->parameter_type, t->parameter, i);
}

static void set_parameter(const struct ref_step_tensor *t, uint64_t i, float p, uint32_t step)
{
    const uint32_t bits = bits_of_f32(p);

    switch (t->format) {
    case REF_MASTER:
        ((float *)t->beside)[i] = one_nan(p);
        store(t->parameter_type, t->parameter, i, p);
        break;
    case REF_REMAINDER:
        ((uint16_t *)t->parameter)[i] = isnan(p) ? 0x7fc0 : (uint16_t)((bits + 0x8000) >> 16);
        ((uint16_t *)t->beside)[i] = isnan(p) ? 0 : (uint16_t)bits;
        break;
    case REF_MASTER_24BIT:
        set_corrected(t, i, p);
        break;
    case REF_STOCHASTIC:
    case REF_STATE_8BIT:
    case REF_STATE_F16:
        if (t->parameter_type == REF_F32)
            store(REF_F32, t->parameter, i, p);
        else if (t->parameter_type == REF_F16)
            ((uint16_t *)t->parameter)[i] =
                f16_from_f64(f16_rounded_stochastically(p, random_half(t, i, step, 0)));
        else
            ((uint16_t *)t->parameter)[i] = rounded_stochastically(p, random_half(t, i, step, 0));
        break;
    default:
        store(t->parameter_type, t->parameter, i, p);
    }
}

// The average follows the parameter, which is stored.
static void set_ema(const struct ref_step_tensor *t, uint64_t i, uint32_t step)
{
    const float rate = (float)(1 - t->hyper.ema_decay);
    const float p = load(t->parameter_type, t->parameter, i), old = load(t->ema_type, t->ema, i);
    const float apart = p - old, x = fmaf(rate, apart, old);

    if (t->ema_type == REF_BF16)
        ((uint16_t *)t->ema)[i] = rounded_stochastically(x, random_half(t, i, step, 1));
    else
        store(REF_F32, t->ema, i, x);
}

// ---- states in blocks ---------------------------------------------------------------------------

enum { BLOCK = 256, SMALL_BLOCK = 32 };

// The largest size; NaN if one is.
static float largest(const float *x, uint64_t count)
{
    float most = 0;

    for (uint64_t i = 0; i < count; i++)
        if (isnan(x[i]) || fabsf(x[i]) > most)
            most = isnan(x[i]) || isnan(most) ? NAN : fabsf(x[i]);
    return most;
}

static bool is_usual(float scale)
{
    return scale >= 0x1p-126f && scale < INFINITY;
}

static void insert(float map[256], int *count, float x)
{
    int k = (*count)++;

    for (; k > 0 && map[k - 1] > x; k--)
        map[k] = map[k - 1];
    map[k] = x;
}

void ref_map(bool is_signed, float map[256])
{
    int count = 0;
    double decade = 1e-6;

    insert(map, &count, 0);
    insert(map, &count, 1);
    for (int i = 0; i < 7; i++, decade = i < 6 ? 1 / pow(10, 6 - i) : 1) {
        const int n = is_signed ? 1 << i : 1 << (i + 1);
        const float length = (1.0f - 0.1f) / (float)n;
        float end[129];
        for (int k = 0; k <= n; k++)
            end[k] = 2 * k < n ? fmaf(length, (float)k, 0.1f) : fmaf(-length, (float)(n - k), 1);
        for (int k = 0; k < n; k++) {
            const float middle = (end[k] + end[k + 1]) / 2;
            const float entry = (float)decade * middle;
            insert(map, &count, entry);
            if (is_signed)
                insert(map, &count, -entry);
        }
    }
}

unsigned ref_code(const float map[256], float state, float absmax)
{
    const float inverse = 1.0f / absmax;
    const float quotient = state * inverse;
    const double q = (double)f32_of_bits((bits_of_f32(quotient) & ~UINT32_C(0xff)) | 0x80);
    unsigned low = 0, high = 255;

    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if ((double)map[middle] < q)
            low = middle;
        else
            high = middle;
    }
    return q - (double)map[low] < (double)map[high] - q ? low : high;
}

static void set_block_8bit(const struct ref_step_tensor *t, unsigned k, uint64_t first,
                           uint64_t count, const float state[BLOCK], const float map[256])
{
    uint8_t *codes = (uint8_t *)t->state[k] + first;
    const float most = largest(state, count);

    for (uint64_t i = 0; i < count; i++)
        codes[i] = (uint8_t)(is_usual(most) ? ref_code(map, state[i], most) : k == 0 ? 127 : 0);
    ((float *)t->absmax[k])[first / BLOCK] = is_usual(most) ? most
                                             : most < 1     ? 0
                                                            : f32_of_bits(0x7fffffff);
}

static void set_block_f16(const struct ref_step_tensor *t, unsigned k, uint64_t first,
                          uint64_t count, const float state[BLOCK])
{
    uint16_t *codes = (uint16_t *)t->state[k] + first;
    float x[BLOCK];

    for (uint64_t i = 0; i < count; i++)
        x[i] = k == 0 ? state[i] : sqrtf(state[i]);
    const float scale = largest(x, count) / 2048;
    const float inverse = 1 / scale;
    for (uint64_t i = 0; i < count; i++) {
        const float quotient = x[i] * inverse;
        codes[i] = is_usual(scale) ? f16_from_f64((double)quotient) : 0;
    }
    ((float *)t->absmax[k])[first / BLOCK] = is_usual(scale) ? scale
                                             : scale < 1     ? 1
                                                             : f32_of_bits(0x7fffffff);
}

// Signed codes of a state with both signs, unsigned ones of a root.
static void set_block_24bit(const struct ref_step_tensor *t, unsigned k, uint64_t first,
                            uint64_t count, const float state[BLOCK])
{
    uint8_t *codes = (uint8_t *)t->state[k] + first;
    float x[BLOCK];

    for (uint64_t i = 0; i < count; i++)
        x[i] = k == 0 ? state[i] : sqrtf(state[i]);
    const float most = largest(x, count), scale = most < 1e-12f ? 1e-12f : most;
    const float inverse = 1 / scale;
    for (uint64_t i = 0; i < count; i++) {
        float n = x[i] * inverse;
        if (k == 0) {
            const float more = 1 + fabsf(n), rest = 1 / more;
            n = n * rest;
        }
        const double q = floor((k == 0 ? 254 : 255) * (double)n + 0.5);
        codes[i] = isfinite(scale) ? (uint8_t)(int)q : 0;
    }
    ((uint16_t *)t->absmax[k])[first / SMALL_BLOCK] =
        isfinite(scale) ? f16_from_f64((double)scale) : 0x7fff;
}

static float state_24bit(const struct ref_step_tensor *t, unsigned k, uint64_t i)
{
    const uint8_t code = ((const uint8_t *)t->state[k])[i];
    const float scale = load(REF_F16, t->absmax[k], i / SMALL_BLOCK);

    if (k == 0) {
        const int q = (int8_t)code;
        const float rest = 1.0f / (float)(254 - abs(q)), part = (float)q * rest;
        return part * scale;
    }
    const float part = fabsf(scale * (1 / 255.0f)), each = part > 0x1p100f ? 0x1p100f : part;
    const float y = code * each;
    return y * y;
}

// ---- states -------------------------------------------------------------------------------------

static void set_state(const struct ref_step_tensor *t, unsigned k, uint64_t i, float x,
                      uint32_t step)
{
    const bool is_adam_m = k == 0 && ref_step_states(t->rule, t->hyper.momentum) == 2;

    if (t->format == REF_STOCHASTIC && !is_adam_m)
        ((uint16_t *)t->state[k])[i] = rounded_stochastically(x, random_half(t, i, step, 4));
    else if (t->format == REF_STOCHASTIC || t->format == REF_STATE_BF16)
        store(REF_BF16, t->state[k], i, x);
    else
        store(REF_F32, t->state[k], i, x);
}

static float state_of(const struct ref_step_tensor *t, unsigned k, uint64_t i, const float map[256])
{
    switch (t->format) {
    case REF_STATE_BF16:
    case REF_STOCHASTIC:
        return load(REF_BF16, t->state[k], i);
    case REF_STATE_8BIT:
        return map[((const uint8_t *)t->state[k])[i]] * ((const float *)t->absmax[k])[i / BLOCK];
    case REF_STATE_F16: {
        const float x = load(REF_F16, t->state[k], i) * ((const float *)t->absmax[k])[i / BLOCK];
        return k == 0 ? x : x * x;
    }
    case REF_MASTER_24BIT:
        return state_24bit(t, k, i);
    default:
        return load(REF_F32, t->state[k], i);
    }
}

void ref_muon_updates(const struct ref_step_tensor *t, float factor, float *updates)
{
    const struct scalars s = scalars_of(&t->hyper, 1);

    for (uint64_t i = 0; i < t->count; i++) {
        const float scaled = load(t->gradient_type, t->gradient, i) * factor;
        const float g = t->maximize ? -scaled : scaled;
        const float m = momentum_of(&s, state_of(t, 0, i, NULL), g), apart = m - g;
        updates[i] = t->nesterov ? fmaf(-(1.0f - s.momentum), apart, m) : m;
    }
}

void ref_step(const struct ref_step_tensor *t, uint32_t step, float factor,
              enum ref_step_gradients gradients)
{
    const struct scalars s = scalars_of(&t->hyper, step);
    const unsigned states = ref_step_states(t->rule, t->hyper.momentum);
    const bool codes = t->format == REF_STATE_8BIT, small = t->format == REF_MASTER_24BIT;
    const bool in_blocks = codes || small || t->format == REF_STATE_F16;
    const uint64_t length = small ? SMALL_BLOCK : BLOCK;
    float map[2][256], block[2][BLOCK];

    for (int is_signed = 0; is_signed < 2 && codes; is_signed++)
        ref_map(is_signed, map[is_signed]);
    for (uint64_t i = 0; i < t->count; i++) {
        const float g = load(t->gradient_type, t->gradient, i) * factor;
        struct element e = { parameter_of(t, i), t->maximize ? -g : g, { 0 }, 0 };
        if (t->x)
            e.x = load(REF_F16, t->x, i);
        for (unsigned k = 0; k < states; k++)
            e.state[k] = state_of(t, k, i, map[k == 0]);
        step_element(t, &s, &e);
        if (t->factors && t->factors[i] != 1)
            e.p = e.p * t->factors[i];
        set_parameter(t, i, e.p, step);
        if (t->ema)
            set_ema(t, i, step);
        for (unsigned k = 0; k < states; k++) {
            const uint64_t place = i % length;
            block[k][place] = e.state[k];
            const bool ends = place == length - 1 || i == t->count - 1;
            if (!in_blocks)
                set_state(t, k, i, e.state[k], step);
            else if (ends && codes)
                set_block_8bit(t, k, i - place, place + 1, block[k], map[k == 0]);
            else if (ends && small)
                set_block_24bit(t, k, i - place, place + 1, block[k]);
            else if (ends)
                set_block_f16(t, k, i - place, place + 1, block[k]);
        }
        if (gradients != REF_GRADIENTS_RAW)
            store(t->gradient_type, t->gradient, i, gradients == REF_GRADIENTS_WRITE ? g : 0.0f);
    }
}

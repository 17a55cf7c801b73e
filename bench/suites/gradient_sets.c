// SPDX-License-Identifier: MIT
#include "gradient_sets.h"

#include <stdlib.h>

struct gradient_list {
    struct ptx_clip_tensor *tensors; // NULL: count only
    size_t count;
};

static void add(struct gradient_list *list, uint64_t count, uint32_t group)
{
    if (list->tensors) {
        list->tensors[list->count].count = count;
        list->tensors[list->count].group = group;
    }
    list->count++;
}

// The tensors of equal layers; `groups`: one norm for each of them.
static void add_layers(struct gradient_list *list, int layers, const uint64_t *layer, size_t count,
                       bool groups)
{
    for (int k = 0; k < layers; k++)
        for (size_t t = 0; t < count; t++)
            add(list, layer[t], groups ? (uint32_t)k : 0);
}

#define ALL(sizes) sizes, sizeof(sizes) / sizeof *(sizes)

// GPT-2 with the given number of layers and channels.
static void gpt2(struct gradient_list *list, int layers, int channels)
{
    const uint64_t c = (uint64_t)channels;
    const uint64_t block[] = { c, c, 3 * c * c, 3 * c, c * c,     c,
                               c, c, 4 * c * c, 4 * c, 4 * c * c, c };

    add(list, 50257 * c, 0);
    add(list, 1024 * c, 0);
    add_layers(list, layers, ALL(block), false);
    add(list, c, 0);
    add(list, c, 0);
}

// LoRA adapters of rank 16 on layers of 1536 channels; `groups`: one norm for each layer.
static void lora(struct gradient_list *list, int layers, int groups)
{
    static const uint64_t layer[] = { 1536 * 16, 16 * 1536, 1536 * 16, 16 * 256, 1536, 1536 };

    add_layers(list, layers, ALL(layer), groups);
}

// LoRA adapters of rank 16 on Qwen2-7B.
static void qwen_lora(struct gradient_list *list, int layers, int unused)
{
    static const uint64_t layer[] = { 16 * 3584, 3584 * 16, 16 * 3584, 512 * 16, 3584, 3584 };

    (void)unused;
    add_layers(list, layers, ALL(layer), false);
}

// Qwen2.5-0.5B: 2 heads of keys and values for 14 of queries, tied embeddings.
static void qwen(struct gradient_list *list, int layers, int channels)
{
    const uint64_t c = (uint64_t)channels, kv = 128, wide = 4864;
    const uint64_t layer[] = { c * c, c,        kv * c,   kv,       kv * c, kv,
                               c * c, wide * c, wide * c, c * wide, c,      c };

    add(list, 151936 * c, 0);
    add_layers(list, layers, ALL(layer), false);
    add(list, c, 0);
}

static void llama(struct gradient_list *list, int layers, int channels)
{
    const uint64_t c = (uint64_t)channels, wide = 14336, kv = 1024;
    const uint64_t layer[] = { c * c, kv * c, kv * c, c * c, wide * c, wide * c, c * wide, c, c };

    add(list, 128256 * c, 0);
    add_layers(list, layers, ALL(layer), false);
    add(list, c, 0);
    add(list, 128256 * c, 0);
}

static void alike(struct gradient_list *list, int count, int elements)
{
    for (int k = 0; k < count; k++)
        add(list, (uint64_t)elements, 0);
}

static const struct gradient_set sets[] = {
    { "LoRA layer", lora, 1, 0 },       { "LoRA 28 x 6", lora, 28, 0 },
    { "LoRA 28 norms", lora, 28, 1 },   { "Qwen2-7B LoRA", qwen_lora, 28, 0 },
    { "2000 x 512", alike, 2000, 512 }, { "GPT-2 124M", gpt2, 12, 768 },
    { "GPT-2 350M", gpt2, 24, 1024 },   { "GPT-2 1.5B", gpt2, 48, 1600 },
    { "Qwen2.5-0.5B", qwen, 24, 896 },  { "Llama-3 8B", llama, 32, 4096 },
};

const struct gradient_set *gradient_set_at(size_t k)
{
    return k < sizeof sets / sizeof *sets ? &sets[k] : 0;
}

size_t gradient_set_list(const struct gradient_set *set, struct ptx_clip_tensor *tensors)
{
    struct gradient_list list = { tensors, 0 };
    set->list(&list, set->first, set->second);
    return list.count;
}

uint64_t gradient_set_elements(const struct gradient_set *set)
{
    uint64_t elements = 0;
    const size_t count = gradient_set_list(set, NULL);
    struct ptx_clip_tensor *tensors = calloc(count, sizeof *tensors);

    // If there is no memory for a list of tensors, there is none for the tensors either.
    if (!tensors)
        return UINT64_MAX;
    gradient_set_list(set, tensors);
    for (size_t t = 0; t < count; t++)
        elements += tensors[t].count;
    free(tensors);
    return elements;
}

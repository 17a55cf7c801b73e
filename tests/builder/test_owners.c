// SPDX-License-Identifier: MIT
// What belongs to a builder is refused by every other one: also by one at the same address, later,
// and by those of other threads.
#include "builder_fixture.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>

// All that a caller can hold of an entry.
struct objects {
    ptx_val value, variable, none;
    ptx_ptr pointer, array, named;
    ptx_fragment fragment;
    ptx_label label;
};

static void make(ptx_builder *b, struct objects *o)
{
    ptx_func (b, "f", PTX_NONE) {}
    ptx_entry (b, "k", .block = { 32 }) {
        o->pointer = ptx_param_ptr(b, PTX_U32, "p");
        o->array = ptx_shared(b, PTX_U32, 4);
        o->named = ptx_global(b, PTX_U32, "named", .count = 4);
        o->value = ptx_tid(b, PTX_X);
        o->variable = ptx_var(b, o->value);
        o->fragment = ptx_fragment_fill(b, ptx_f32(0));
        o->label = ptx_label_create(b, "label");
        o->none = ptx_call(b, "f");
        ptx_store(b, o->pointer, o->value, o->variable);
        ptx_label_place(b, o->label);
    }
}

enum { USES = 8 };

// A use of each object, and what a builder says that does not own it.
static const char *use(ptx_builder *b, unsigned k, const struct objects *o)
{
    switch (k) {
    case 0:
        ptx_add(b, o->value, 1);
        return "ptx_add: x belongs to another builder";
    case 1:
        ptx_set(b, o->variable, 1);
        return "ptx_set: the variable belongs to another builder";
    case 2:
        ptx_load(b, o->pointer, 0);
        return "ptx_load: the pointer belongs to another builder";
    case 3:
        ptx_store(b, o->array, 0, 1);
        return "ptx_store: the array belongs to another builder";
    case 4:
        ptx_store(b, o->named, 0, 1);
        return "ptx_store: the array belongs to another builder";
    case 5:
        ptx_fragment_words(b, o->fragment);
        return "belongs to another builder";
    case 6:
        ptx_branch(b, o->label);
        return "ptx_branch: the label is not one of this entry";
    default:
        ptx_add(b, ptx_u32(1), o->none);
        return "ptx_add: y was never set";
    }
}

// How many of the uses are refused by builders like the one that made the objects; and, where one
// is not, the text.
static unsigned refusals(const struct ptx_builder_params *params, const struct objects *o)
{
    for (unsigned k = 0; k < USES; k++) {
        ptx_builder *b = ptx_builder_create(params);
        struct objects own;
        const char *words = "";
        make(b, &own);
        ptx_entry (b, "l", .block = { 32 }) {
            ptx_add(b, ptx_tid(b, PTX_X), 1);
            ptx_label_place(b, ptx_label_create(b, "label"));
            words = use(b, k, o);
        }
        const char *text = ptx_builder_finish(b), *error = ptx_builder_error(b);
        const bool ok = !text && error && strstr(error, words);
        if (!ok)
            fprintf(stderr, "use %u, \"%s\":\n%s\n", k, words, text ? text : error);
        ptx_builder_destroy(&b);
        if (!ok)
            return k;
    }
    return USES;
}

// Memory for one builder at a time, at one address; what it holds besides is anywhere.
struct place {
    alignas(max_align_t) unsigned char bytes[1 << 16];
    bool taken;
};

static void *resize(void *user, void *memory, size_t bytes)
{
    struct place *place = user;

    if (memory == place->bytes) {
        place->taken = false;
        return NULL;
    }
    if (!memory && !place->taken && bytes <= sizeof place->bytes) {
        place->taken = true;
        return place->bytes;
    }
    if (bytes)
        return realloc(memory, bytes);
    free(memory);
    return NULL;
}

TEST(builders_at_one_address_refuse)
{
    static struct place place;
    const struct ptx_builder_params params = { .resize = resize, .user = &place };
    struct objects o;

    ptx_builder *b = ptx_builder_create(&params);
    assert_ptr_equal(b, &place);
    make(b, &o);
    assert_non_null(finished(b));
    ptx_builder_destroy(&b);
    assert_int_equal(refusals(&params, &o), USES);
    for (int k = 0; k < 100000; k++) {
        b = ptx_builder_create(&params);
        assert_ptr_equal(b, &place);
        ptx_builder_destroy(&b);
    }
    assert_int_equal(refusals(&params, &o), USES);
}

// Threads make builders at the same time, whose numbers differ; then each tries what others made.
enum { THREADS = 8, TURNS = 500, TRIED = 20 };

struct worker {
    pthread_t thread;
    struct objects made[TURNS];
    const struct worker *next;
    unsigned refused;
};

static void *make_many(void *own)
{
    struct worker *w = own;

    for (int k = 0; k < TURNS; k++) {
        OWNED(ptx_builder) *b = ptx_builder_create(NULL);
        make(b, &w->made[k]);
    }
    return NULL;
}

static void *try_many(void *own)
{
    struct worker *w = own;

    for (int k = 0; k < TRIED; k++)
        w->refused += refusals(NULL, &w->next->made[k * (TURNS / TRIED)]);
    return NULL;
}

static void run(struct worker workers[THREADS], void *(*work)(void *))
{
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
}

static int by_number(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

TEST(builders_of_threads_refuse)
{
    static struct worker workers[THREADS];
    static uint64_t numbers[THREADS * TURNS];
    size_t count = 0;

    for (int t = 0; t < THREADS; t++)
        workers[t].next = &workers[(t + 1) % THREADS];
    run(workers, make_many);
    for (int t = 0; t < THREADS; t++)
        for (int k = 0; k < TURNS; k++)
            numbers[count++] = workers[t].made[k].value.bits;
    qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t k = 1; k < count; k++)
        assert_true(numbers[k - 1] != numbers[k]);
    run(workers, try_many);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(workers[t].refused, TRIED * USES);
}

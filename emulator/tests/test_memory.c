// SPDX-License-Identifier: MIT
/// The emulator's device memory: addresses, red zones, quarantine, shadow, limits, threads.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka.h needs the headers above.

#include "exec/base/exec.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

static unsigned char *at(struct emu_memory *memory, uint64_t address, uint64_t bytes,
                         enum emu_access_fault wanted)
{
    enum emu_access_fault fault = EMU_ACCESS_FREED;
    unsigned char *found = emu_memory_access(memory, address, bytes, NULL, &fault);
    assert_int_equal(fault, wanted);
    assert_int_equal(found != NULL, wanted == EMU_ACCESS_OK);
    return found;
}

TEST(addresses_and_red_zones)
{
    struct emu_memory *memory = emu_memory_create(64 * MIB, true);
    const uint64_t sizes[] = { 1, 255, 256, 257, 4096, MIB, MIB + 1, 3 * MIB };
    uint64_t starts[8];
    for (int i = 0; i < 8; i++) {
        starts[i] = emu_memory_alloc(memory, sizes[i]);
        assert_true(starts[i] >= EMU_DEVICE_BASE);
        assert_int_equal(starts[i] % 256, 0);
    }
    for (int i = 0; i < 8; i++) {
        at(memory, starts[i], sizes[i], EMU_ACCESS_OK);
        at(memory, starts[i] + sizes[i] - 1, 1, EMU_ACCESS_OK);
        at(memory, starts[i] + sizes[i] - 1, 2, EMU_ACCESS_OUTSIDE);
        at(memory, starts[i] + sizes[i], 1, EMU_ACCESS_OUTSIDE);
        at(memory, starts[i] - 1, 1, EMU_ACCESS_OUTSIDE);
        at(memory, starts[i], UINT64_MAX, EMU_ACCESS_OUTSIDE);
        uint64_t start = 0, bytes = 0;
        bool freed = true;
        assert_true(emu_memory_nearest(memory, starts[i] + sizes[i], &start, &bytes, &freed));
        assert_true(start == starts[i] && bytes == sizes[i] && !freed);
        assert_true(emu_memory_nearest(memory, starts[i] - 4, &start, &bytes, &freed));
        assert_true(start == starts[i] && bytes == sizes[i] && !freed);
        assert_true(emu_memory_find(memory, starts[i] + sizes[i] / 2, &start, &bytes));
        assert_true(start == starts[i] && bytes == sizes[i]);
    }
    at(memory, 0, 1, EMU_ACCESS_OUTSIDE);
    at(memory, 4096, 1, EMU_ACCESS_OUTSIDE);
    at(memory, UINT64_MAX, 1, EMU_ACCESS_OUTSIDE);
    at(memory, EMU_DEVICE_BASE, 1, EMU_ACCESS_OUTSIDE);
    emu_memory_destroy(&memory);
    assert_null(memory);
}

TEST(freed_is_told_from_outside)
{
    OWNED_STRUCT(emu_memory) *memory = emu_memory_create(64 * MIB, true);
    uint64_t first = emu_memory_alloc(memory, 1000), start = 0, bytes = 0;
    bool freed = false;
    assert_false(emu_memory_free(memory, first + 256));
    assert_true(emu_memory_free(memory, first));
    assert_false(emu_memory_free(memory, first));
    at(memory, first + 8, 4, EMU_ACCESS_FREED);
    at(memory, first + 1000, 4, EMU_ACCESS_OUTSIDE);
    assert_false(emu_memory_find(memory, first, NULL, NULL));
    assert_true(emu_memory_nearest(memory, first + 8, &start, &bytes, &freed));
    assert_true(start == first && bytes == 1000 && freed);
    for (int i = 0; i < 1000; i++) // an address in quarantine is not reused
        assert_true(emu_memory_alloc(memory, 1000) != first);
}

TEST(addresses_come_back_in_the_end)
{
    OWNED_STRUCT(emu_memory) *memory = emu_memory_create(64 * MIB, false);
    uint64_t highest = 0;
    for (int i = 0; i < 100000; i++) {
        uint64_t address = emu_memory_alloc(memory, 1 + (uint64_t)i % 5000);
        assert_true(address != 0);
        memset(at(memory, address, 1, EMU_ACCESS_OK), 1, 1);
        assert_true(emu_memory_free(memory, address));
        highest = address > highest ? address : highest;
    }
    assert_true(highest < EMU_DEVICE_BASE + 40000 * MIB);
}

TEST(shadow_starts_uninitialised)
{
    OWNED_STRUCT(emu_memory) *memory = emu_memory_create(64 * MIB, true);
    const uint64_t sizes[] = { 77, 4 * MIB + 13 };
    for (int i = 0; i < 2; i++) {
        uint64_t address = emu_memory_alloc(memory, sizes[i]);
        unsigned char *shadow = NULL;
        enum emu_access_fault fault;
        unsigned char *data = emu_memory_access(memory, address, sizes[i], &shadow, &fault);
        assert_non_null(data);
        assert_int_equal((uintptr_t)data % 256, 0);
        assert_int_equal(shadow[0] | shadow[sizes[i] - 1], 0);
        shadow[5] = 1;
        unsigned char *later = NULL;
        emu_memory_access(memory, address + 5, 1, &later, &fault);
        assert_ptr_equal(later, shadow + 5);
    }
    emu_memory_destroy(&memory);

    memory = emu_memory_create(64 * MIB, false);
    unsigned char *shadow = (unsigned char *)&memory;
    enum emu_access_fault fault;
    emu_memory_access(memory, emu_memory_alloc(memory, 8), 8, &shadow, &fault);
    assert_null(shadow);
}

TEST(the_limit_holds)
{
    OWNED_STRUCT(emu_memory) *memory = emu_memory_create(MIB, true);
    uint64_t available = 0, total = 0;
    assert_int_equal(emu_memory_alloc(memory, 0), 0);
    assert_int_equal(emu_memory_alloc(memory, MIB + 1), 0);
    assert_int_equal(emu_memory_alloc(memory, UINT64_MAX), 0);
    uint64_t half = emu_memory_alloc(memory, MIB / 2), rest = emu_memory_alloc(memory, MIB / 2);
    assert_true(half && rest);
    emu_memory_info(memory, &available, &total);
    assert_true(available == 0 && total == MIB);
    assert_int_equal(emu_memory_alloc(memory, 1), 0);
    assert_true(emu_memory_free(memory, half));
    emu_memory_info(memory, &available, &total);
    assert_int_equal(available, MIB / 2);
    assert_true(emu_memory_alloc(memory, MIB / 2) != 0);
}

TEST(some_bits_of_a_byte)
{
    enum { BYTES = 4096 };
    static unsigned char shadow[BYTES + 8];
    struct emu_shadows *shadows = emu_shadows_create();
    assert_non_null(shadows);
    uint32_t origin = emu_origin_add(shadows, "a place");
    assert_int_equal(emu_origin_add(shadows, "a place"), origin);
    assert_string_equal(emu_origin_text(shadows, origin), "a place");
    assert_true(emu_origin_report(shadows, origin));
    assert_false(emu_origin_report(shadows, origin));
#define BYTE(i) ((struct emu_undefined) { (i) % 255 + 1, 0, origin })
    for (unsigned i = 0; i < BYTES; i++)
        emu_shadow_put(shadows, shadow + i, BYTE(i));
    assert_int_equal(emu_shadow_computed(shadows, shadow, BYTES), BYTES);
    // Overlapping copies, upward and downward.
    emu_shadow_move(shadows, shadow + 3, shadow, BYTES);
    for (unsigned i = 0; i < BYTES; i++)
        assert_int_equal(emu_shadow_get(shadows, shadow + 3 + i).bits, BYTE(i).bits);
    emu_shadow_move(shadows, shadow, shadow + 3, BYTES);
    for (unsigned i = 0; i < BYTES; i++) {
        struct emu_undefined byte = emu_shadow_get(shadows, shadow + i);
        assert_int_equal(byte.bits, BYTE(i).bits);
        assert_int_equal(byte.origin, origin);
    }
    emu_shadow_put(shadows, shadow + 77, (struct emu_undefined) { 12, 4, origin });
    assert_int_equal(emu_shadow_computed(shadows, shadow, BYTES), 77);
    // Forgetting entries keeps all others.
    emu_shadow_forget(shadows, shadow + 1000, 2000);
    for (unsigned i = 0; i < BYTES; i++) {
        uint64_t bits = emu_shadow_get(shadows, shadow + i).bits;
        if (i == 77)
            assert_int_equal(bits, 12);
        else if (i < 1000 || i >= 3000 || shadow[i] != EMU_SHADOW_LISTED)
            assert_int_equal(bits, BYTE(i).bits);
        else
            assert_int_equal(bits, 0xff);
    }
    // The same with entries that collide.
    static unsigned char wide[1 << 16];
    uint32_t random = 1;
    for (unsigned i = 0; i < 4000; i++, random = random * 1664525 + 1013904223) {
        unsigned at = random >> 16;
        emu_shadow_put(shadows, wide + at, (struct emu_undefined) { at % 254 + 1, 0, origin });
    }
    emu_shadow_forget(shadows, wide, 30000);
    for (unsigned at = 30000; at < sizeof(wide); at++)
        if (wide[at] != EMU_SHADOW_NEVER)
            assert_int_equal(emu_shadow_get(shadows, wide + at).bits, at % 254 + 1);
    // More origins than a shadow byte can name.
    for (unsigned i = 0; i < 300; i++) {
        char text[32];
        snprintf(text, sizeof(text), "place %u", i);
        const struct emu_undefined byte = { 0xff, i % 2 ? 0xff : 0, emu_origin_add(shadows, text) };
        emu_shadow_put(shadows, shadow, byte);
        struct emu_undefined got = emu_shadow_get(shadows, shadow);
        assert_true(got.bits == byte.bits && got.computed == byte.computed);
        assert_string_equal(emu_origin_text(shadows, got.origin), text);
    }
    emu_shadows_destroy(&shadows);
    assert_null(shadows);
}

TEST(host_memory_at_its_own_address)
{
    OWNED_STRUCT(emu_memory) *memory = emu_memory_create(MIB, true);
    static unsigned char host[1000], other[1000];
    uint64_t address = (uint64_t)(uintptr_t)host;
    at(memory, address, 1, EMU_ACCESS_OUTSIDE);
    assert_true(emu_memory_map_host(memory, host, sizeof(host)));
    assert_false(emu_memory_map_host(memory, host + 10, 4));
    assert_true(emu_memory_map_host(memory, other, sizeof(other)));
    unsigned char *shadow = host; // the host may write it unnoticed
    enum emu_access_fault fault;
    assert_ptr_equal(emu_memory_access(memory, address + 7, 993, &shadow, &fault), host + 7);
    assert_null(shadow);
    at(memory, address + 7, 994, EMU_ACCESS_OUTSIDE);
    uint64_t start = 0, bytes = 0;
    assert_true(emu_memory_find(memory, address + 999, &start, &bytes));
    assert_true(start == address && bytes == 1000);
    assert_false(emu_memory_unmap_host(memory, host + 1));
    assert_true(emu_memory_unmap_host(memory, host));
    assert_false(emu_memory_unmap_host(memory, host));
    at(memory, address, 1, EMU_ACCESS_OUTSIDE);
    assert_true(emu_memory_map_host(memory, host, 4));
    at(memory, address, 4, EMU_ACCESS_OK);
}

struct worker {
    struct emu_memory *memory;
    unsigned seed;
    intptr_t failures;
};

static void *allocate_and_look(void *argument)
{
    struct worker *worker = argument;
    uint64_t addresses[16] = { 0 };
    unsigned random = worker->seed;
    enum emu_access_fault fault;
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525u + 1013904223u;
        uint64_t *slot = &addresses[random >> 28];
        if (*slot) {
            unsigned char *data = emu_memory_access(worker->memory, *slot, 64, NULL, &fault);
            worker->failures += !data || data[63] != (unsigned char)worker->seed;
            worker->failures += !emu_memory_free(worker->memory, *slot);
            emu_memory_access(worker->memory, *slot, 64, NULL, &fault);
            worker->failures += fault != EMU_ACCESS_FREED;
            *slot = 0;
            continue;
        }
        *slot = emu_memory_alloc(worker->memory, 64);
        unsigned char *data = emu_memory_access(worker->memory, *slot, 64, NULL, &fault);
        if (data)
            data[63] = (unsigned char)worker->seed;
        worker->failures += !data;
    }
    return NULL;
}

TEST(many_threads)
{
    OWNED_STRUCT(emu_memory) *memory = emu_memory_create(MIB, true);
    pthread_t threads[4];
    struct worker workers[4];
    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (struct worker) { memory, i + 1, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_look, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failures, 0);
    }
}

// SPDX-License-Identifier: MIT
// Each allocation of the parser fails once: the text is refused for want of memory, without a leak
// or a crash.
#include "failing_allocations.h"
#include "parse.h"

#include "exec/base/exec.h"

enum { OUT_OF_MEMORY = 2 };

static void each_allocation_fails(const char *text)
{
    failing_allocation = 0;
    allocations = 0;
    const int before = live_allocations;
    struct emu_module *module = parse_ok(text);
    emu_module_destroy(&module);
    assert_int_equal(live_allocations, before);
    const int all = allocations;
    assert_true(all > 0);
    for (int k = 1; k <= all; k++) {
        failing_allocation = k;
        allocations = 0;
        struct parsed parsed = parse(text);
        failing_allocation = 0;
        if (parsed.module || parsed.result != OUT_OF_MEMORY)
            fail_msg("allocation %d of %d: %d %s", k, all, parsed.result, parsed.log);
        if (live_allocations != before)
            fail_msg("allocation %d of %d: %d blocks left", k, all, live_allocations - before);
    }
}

TEST(samples)
{
    static const char *const names[] = { "calls", "pointers", "grid_sync", "wide" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[1024];
        snprintf(path, sizeof path, PTX_DIR "/%s.ptx", names[k]);
        ALLOCATED(char) *text = read_text(path);
        each_allocation_fails(text);
    }
}

// Arrays that need more than a block of the arena: each of them grows where it is pushed to.
TEST(many)
{
    enum { COUNT = 3000 };
    static char text[200 * COUNT];
    size_t at = (size_t)sprintf(text, HEAD ".func f(.param .b32 p0");
    for (unsigned k = 1; k < COUNT; k++)
        at += (size_t)sprintf(text + at, ", .param .b%u p%u", k % 2 ? 64u : 32u, k);
    at += (size_t)sprintf(text + at, ")\n{ .reg .b32 q<%d>;\n", COUNT);
    for (unsigned k = 0; k < COUNT; k++)
        at += (size_t)sprintf(text + at, "L%u: add.u32 q%u, q0, %u; bra L%u;\n", k, k, k, k);
    at += (size_t)sprintf(text + at, "ret; }\n.global .u32 v0;\n");
    for (unsigned k = 1; k < COUNT; k++)
        at += (size_t)sprintf(text + at, ".global .u64 v%u = v%u;\n", k, k - 1);
    assert_true(at < sizeof text);
    each_allocation_fails(text);
}

TEST(programs_of_a_module)
{
    OWNED_STRUCT(emu_module) *module = parse_ok(HEAD ".entry k() { ret; }");
    const int before = live_allocations;
    for (int k = 1; k <= 2; k++) {
        failing_allocation = k;
        allocations = 0;
        struct emu_programs *programs = emu_programs_create(module);
        failing_allocation = 0;
        assert_null(programs);
        assert_int_equal(live_allocations, before);
    }
    struct emu_programs *programs = emu_programs_create(module);
    assert_non_null(programs);
    emu_programs_destroy(&programs);
    assert_int_equal(live_allocations, before);
}

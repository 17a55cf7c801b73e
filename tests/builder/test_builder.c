// SPDX-License-Identifier: MIT
// The builder as a whole: creation and destruction, targets, errors, and values of another builder.
#include "builder_fixture.h"
#include "kitchen_sink.h"

static ptx_builder *pinned(int sm, char suffix, int isa)
{
    return ptx_builder_create(
        &(struct ptx_builder_params) { .target = { sm, suffix }, .isa = isa });
}

static void an_empty_kernel(ptx_builder *b, const char *name)
{
    ptx_entry (b, name) {}
}

static void expect_creation_error(int sm, char suffix, int isa, const char *words)
{
    ptx_builder *b = pinned(sm, suffix, isa);

    an_empty_kernel(b, "k");
    EXPECT_ERROR(b, "ptx_builder_create: ", words);
}

TEST(targets_and_isa_are_checked)
{
    expect_creation_error(69, 0, 0, "unknown target sm_69; ptxgen knows sm_70 to sm_121");
    expect_creation_error(0, 'a', 0, "unknown target sm_80a");
    expect_creation_error(90, 'b', 0, "unknown target sm_90b");
    expect_creation_error(-1, 0, 0, "unknown target sm_-1");
    expect_creation_error(90, 'a', 78,
                          "target sm_90a needs PTX ISA 8.0; the text is pinned to 7.8");
    expect_creation_error(80, 0, 65, "target sm_80 needs PTX ISA 7.0; the text is pinned to 6.5");
    expect_creation_error(80, 0, 79, "there is no PTX ISA 7.9");
    expect_creation_error(80, 0, 7, "there is no PTX ISA 0.7");
    expect_creation_error(80, 0, -80, "there is no PTX ISA");
    expect_creation_error(80, 0, 1000, "there is no PTX ISA");
    for (size_t k = 0; ptx_target_at(k, NULL, NULL); k++) {
        struct ptx_target target;
        char line[64], name[PTX_TARGET_NAME_SIZE];
        int isa;
        ptx_target_at(k, &target, &isa);
        ptx_builder *b = pinned(target.sm, target.suffix, 0);
        an_empty_kernel(b, "k");
        assert_int_equal(ptx_builder_target(b).sm, target.sm);
        assert_int_equal(ptx_builder_get_info(b).isa, isa);
        assert_string_equal(ptx_builder_get_info(b).isa_reason, ptx_target_name(target, name));
        snprintf(line, sizeof line, ".version %d.%d\n.target %s\n", isa / 10, isa % 10, name);
        EXPECT_LINES(b, line);
    }
}

TEST(the_isa_is_the_least_that_is_needed)
{
    NEW_ENTRY (b, 75) {
        ptx_tanh(b, ptx_f32(1));
        ptx_nanosleep(b, ptx_u32(1));
    }
    assert_int_equal(ptx_builder_get_info(b).isa, 70);
    assert_string_equal(ptx_builder_get_info(b).isa_reason, "tanh.approx.f32");
    EXPECT_LINES(b, "the least that has tanh.approx.f32.", ".version 7.0", ".target sm_75");
    b = pinned(75, 0, 83);
    an_empty_kernel(b, "k");
    assert_int_equal(ptx_builder_get_info(b).isa, 83);
    assert_string_equal(ptx_builder_get_info(b).isa_reason, "pinned");
    EXPECT_LINES(b, "The PTX ISA version is pinned.", ".version 8.3");
}

TEST(the_first_error_stays)
{
    ptx_builder *b = builder_at(80);
    assert_null(ptx_builder_error(b));
    ptx_entry (b, "k") {
        ptx_val wrong = ptx_add(b, ptx_u32(1), ptx_f32(1));
        assert_int_equal(wrong.kind, PTX_KIND_POISON);
        assert_int_equal(ptx_tid(b, PTX_X).kind, PTX_KIND_POISON);
        ptx_builder_fail(b, "a later one");
        // After an error, loops still end, and their bodies are C code that runs once.
        int turns = 0;
        ptx_for (b, i, wrong, wrong, wrong)
            turns++;
        ptx_while (b, wrong)
            turns++;
        ptx_loop (b)
            turns++;
        ptx_if (b, wrong)
            turns++;
        ptx_else (b)
            turns++;
        assert_int_equal(turns, 5);
    }
    an_empty_kernel(b, "k");
    assert_false(ptx_builder_out_of_memory(b));
    EXPECT_ERROR(b, "k: ptx_add: x is u32 and y is f32");
}

TEST(a_user_has_errors_too)
{
    static char longer[2000];

    NEW_ENTRY (b, 80)
        ptx_builder_fail(b, "no kernel for %d bits", 7);
    assert_string_equal(after_place(ptx_builder_error(b)), "k: no kernel for 7 bits");
    EXPECT_ERROR(b, "k: no kernel for 7 bits");
    b = builder_at(80);
    ptx_builder_fail(b, "%s", "outside");
    assert_string_equal(after_place(ptx_builder_error(b)), "outside");
    EXPECT_ERROR(b, "outside");
    memset(longer, 'x', sizeof longer - 1);
    b = builder_at(80);
    ptx_builder_fail(b, "%s", longer);
    EXPECT_ERROR(b, "xxx");
    ptx_builder_fail(NULL, "nobody hears this");
}

// A call after the end is reported, and the text does not change.
static void expect_text_and_error(ptx_builder *b, const char *text, const char *copy,
                                  const char *words)
{
    assert_ptr_equal(ptx_builder_finish(b), text);
    assert_string_equal(text, copy);
    assert_non_null(ptx_builder_error(b));
    assert_string_equal(after_place(ptx_builder_error(b)), words);
    assert_ptr_equal(ptx_builder_finish(b), text);
    ptx_builder_destroy(&b);
}

TEST(a_finished_module_takes_nothing)
{
    char copy[1000];

    for (int late = 0; late < 3; late++) {
        ptx_builder *b = builder_at(80);
        an_empty_kernel(b, "k");
        const char *text = finished(b);
        snprintf(copy, sizeof copy, "%s", text ? text : "");
        assert_null(ptx_builder_error(b));
        assert_ptr_equal(ptx_builder_finish(b), text);
        if (late == 0)
            an_empty_kernel(b, "l");
        else if (late == 1)
            ptx_barrier(b);
        else
            ptx_builder_fail(b, "a user's own");
        expect_text_and_error(b, text, copy,
                              late == 0 ? "ptx_entry: the module is finished; nothing can be added"
                              : late == 1
                                  ? "ptx_barrier: the module is finished; nothing can be added"
                                  : "a user's own");
    }
}

TEST(values_belong_to_their_entry_and_builder)
{
    ptx_val value = { 0 }, var = { 0 };
    ptx_ptr array = { { 0 }, 0, 0, 0, 0, 0, 0, 0 };
    ptx_label label = { 0 };

    OWNED(ptx_builder) *other = builder_at(80);
    ptx_entry (other, "other") {
        value = ptx_tid(other, PTX_X);
        var = ptx_var(other, value);
        array = ptx_shared(other, PTX_U32, 4);
        label = ptx_label_create(other, "label");
    }
#define FOREIGN(call, mine, theirs)                                                                \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_entry (b, "k") {                                                                       \
            ptx_var(b, ptx_tid(b, PTX_X));                                                         \
            ptx_shared(b, PTX_U32, 4);                                                             \
            ptx_label_place(b, ptx_label_create(b, "label"));                                      \
            call;                                                                                  \
        }                                                                                          \
        EXPECT_ERROR(b, mine);                                                                     \
        b = other;                                                                                 \
        ptx_entry (b, "k")                                                                         \
            call;                                                                                  \
        assert_non_null(strstr(ptx_builder_error(b), theirs));                                     \
        ptx_builder_destroy(&other);                                                               \
        other = builder_at(80);                                                                    \
        ptx_entry (other, "other") {                                                               \
            value = ptx_tid(other, PTX_X);                                                         \
            var = ptx_var(other, value);                                                           \
            array = ptx_shared(other, PTX_U32, 4);                                                 \
            label = ptx_label_create(other, "label");                                              \
        }                                                                                          \
    } while (0)
    FOREIGN(ptx_add(b, value, value), "add: x belongs to another builder",
            "add: x was made in another entry, 'other'");
    FOREIGN(ptx_set(b, var, ptx_u32(1)), "set: the variable belongs to another builder",
            "set: the variable was made in another entry, 'other'");
    FOREIGN(ptx_load(b, array, ptx_u32(0)), "load: the array belongs to another builder",
            "load: the array was declared in another entry, 'other'");
    FOREIGN(ptx_branch(b, label), "branch: the label is not one of this entry",
            "branch: the label is not one of this entry");
#undef FOREIGN
}

// What a caller asks before it uses a value that it was given.
TEST(a_value_is_usable_where_it_was_made)
{
    ptx_builder *b = builder_at(80), *other = builder_at(80);
    ptx_val inner = { 0 };

    assert_false(ptx_builder_is_usable(NULL, ptx_u32(1)));
    assert_false(ptx_builder_is_usable(b, ptx_u32(1))); // there is no entry
    ptx_entry (b, "k") {
        ptx_val x = ptx_tid(b, PTX_X), y = ptx_var(b, x);
        assert_true(ptx_builder_is_usable(b, x) && ptx_builder_is_usable(b, y));
        assert_true(ptx_builder_is_usable(b, ptx_u32(1)));
        assert_true(ptx_builder_is_usable(b, ptx_u64(UINT64_MAX)));
        assert_true(ptx_builder_is_usable(b, ptx_f64(0.5)));
        assert_false(ptx_builder_is_usable(b, ptx_imm_bits(PTX_U32, UINT64_C(1) << 32)));
        assert_false(ptx_builder_is_usable(b, (ptx_val) { 0 }));
        assert_false(ptx_builder_is_usable(other, x));
        ptx_if (b, ptx_lt(b, x, 5)) {
            inner = ptx_add(b, x, 1);
            assert_true(ptx_builder_is_usable(b, inner));
        }
        assert_false(ptx_builder_is_usable(b, inner)); // its block is closed
        ptx_builder_fail(b, "wrong");
        assert_false(ptx_builder_is_usable(b, x));
    }
    ptx_builder_destroy(&other);
    EXPECT_ERROR(b, "wrong");
}

// The number of a value has 22 bits.
TEST(a_module_has_a_limit)
{
    NEW_ENTRY (b, 80) {
        ptx_val x = ptx_tid(b, PTX_X);
        for (long k = 0; k < 1L << 22 && !ptx_builder_error(b); k++)
            x = ptx_copy(b, x);
    }
    EXPECT_ERROR(b, "k: the module is too large: it has more than 4194303 values");
}

TEST(no_builder_is_taken_everywhere)
{
    ptx_builder *b = NULL;
    const ptx_val v = ptx_u32(1);
    const ptx_ptr p = { { 0 }, 0, 0, 0, 0, 0, 0, 0 };
    const ptx_vec two = ptx_vec2(v, v);

    kitchen_sink(b, "k");
#define ONE(name, ...) ptx_##name(b, v);
    PTX_OPS_UNARY(ONE)
#undef ONE
#define ONE(name, ...) ptx_##name(b, v, v);
    PTX_OPS_BINARY(ONE)
#undef ONE
#define ONE(name, ...) ptx_##name(b, v, v, v);
    PTX_OPS_TERNARY(ONE)
#undef ONE
#define ONE(name, ...) ptx_##name(b, v, v, v, v);
    PTX_OPS_QUATERNARY(ONE)
#undef ONE
#define ONE(name, ...) ptx_##name(b, PTX_X);
    PTX_SPECIAL_VECTORS(ONE)
#undef ONE
#define ONE(name, ...) ptx_##name(b);
    PTX_SPECIAL_SCALARS(ONE)
#undef ONE
#define ONE(name, ...) ptx_atomic_##name(b, p, v, v);
    PTX_ATOMICS(ONE)
#undef ONE
#define ONE(name, ...) ptx_redux_##name(b, v, v);
    PTX_WARP_REDUCTIONS(ONE)
#undef ONE
    ptx_atomic_cas(b, p, v, v, v);
    ptx_atomic(b, PTX_ATOMIC_COUNT, p, v, v);
    ptx_pack(b, PTX_B64, two);
    ptx_unpack(b, PTX_B16, v);
    ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, v);
    ptx_ptr_address(b, p);
    ptx_at(b, p, v);
    ptx_ptr_cast(b, PTX_F32, p);
    ptx_barrier_named(b, 1, 32);
    ptx_barrier_all(b, v);
    ptx_barrier_any(b, v);
    ptx_barrier_warp(b, v);
    ptx_assume_warp_uniform(b, v);
    ptx_vote_all(b, v, v);
    ptx_vote_any(b, v, v);
    ptx_vote_uniform(b, v, v);
    ptx_match_all(b, v, v);
    ptx_activemask(b);
    ptx_shfl_up(b, v, v);
    ptx_shfl_bfly(b, v, v);
    ptx_shfl_idx(b, v, v);
    ptx_break(b);
    ptx_return(b);
    ptx_branch(b, ptx_label_create(b, "l"));
    ptx_trap(b);
    ptx_griddepcontrol_wait(b);
    ptx_griddepcontrol_launch_dependents(b);
    ptx_comment(b, "nothing");
    assert_null(ptx_builder_finish(b));
    assert_string_equal(ptx_builder_error(b),
                        "the builder is NULL: out of memory when it was created, or destroyed");
    assert_true(ptx_builder_out_of_memory(b));
    assert_int_equal(ptx_builder_get_info(b).isa, 0);
    assert_string_equal(ptx_builder_get_info(b).isa_reason, "");
    assert_int_equal(ptx_builder_get_info(b).target.sm, 0);
    assert_int_equal(ptx_builder_target(b).sm, 0);
    assert_int_equal(ptx_builder_get_info(b).peak_bytes, 0);
}

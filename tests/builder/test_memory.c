// SPDX-License-Identifier: MIT
// Pointers, loads, stores, atomics, fences, arrays.
#include "builder_fixture.h"

#define REFUSED(call, ...)                                                                         \
    do {                                                                                           \
        ptx_builder *b = builder_at(80);                                                           \
        ptx_entry (b, "k") {                                                                       \
            ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p");                                            \
            ptx_ptr s = ptx_shared(b, PTX_F32, 8);                                                 \
            ptx_val i = ptx_tid(b, PTX_X), f = ptx_load(b, p, i);                                  \
            (void)p, (void)s, (void)i, (void)f;                                                    \
            call;                                                                                  \
        }                                                                                          \
        EXPECT_ERROR(b, "k: ptx_", __VA_ARGS__);                                                   \
    } while (0)

TEST(addresses_are_computed)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p"), s = ptx_shared(b, PTX_F64, 8);
        ptx_ptr bytes = ptx_ptr_cast(b, PTX_U8, p);
        ptx_val i = ptx_tid(b, PTX_X), wide = ptx_cvt(b, PTX_U64, i);
        ptx_load(b, p, i);
        ptx_load(b, p, ptx_bitcast(b, PTX_S32, i));
        ptx_load(b, p, wide);
        ptx_load(b, bytes, wide);
        ptx_load(b, p, ptx_s32(-3));
        ptx_load(b, p, ptx_u64(UINT64_C(1) << 32));
        ptx_load(b, s, i);
        ptx_load(b, s, wide);
        ptx_load(b, ptx_at(b, ptx_at(b, s, ptx_u32(5)), ptx_s32(-2)), ptx_u32(0));
    }
    EXPECT_LINES(b, "ld.param.u64 %rd1, [p];", "cvta.to.global.u64 %rd2, %rd1;",
                 "mov.u32 %r1, $shared_1;", "mov.u32 %r2, %tid.x;", "cvt.u64.u32 %rd3, %r2;",
                 "mad.wide.u32 %rd4, %r2, 4, %rd2;", "ld.global.f32 %f1, [%rd4];",
                 "mad.wide.s32 %rd5, %r2, 4, %rd2;", "mad.lo.u64 %rd6, %rd3, 4, %rd2;",
                 "add.u64 %rd7, %rd2, %rd3;", "ld.global.u8 %rs1, [%rd7];",
                 "ld.global.f32 %f4, [%rd2+-12];", "mov.u64 %rd8, 0x100000000;",
                 "mad.lo.u64 %rd9, %rd8, 4, %rd2;", "mad.lo.u32 %r3, %r2, 8, %r1;",
                 "cvt.u32.u64 %r4, %rd3;", "mad.lo.u32 %r5, %r4, 8, %r1;",
                 "ld.shared.f64 %fd3, [$shared_1+24];");
}

// An instruction has 32 bits of offset beside its register, whatever offset came before.
TEST(far_offsets_go_into_the_register)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F64, "p");
        ptx_ptr back = ptx_at(b, p, ptx_s32(INT32_MIN / 8));
        ptx_load(b, back, ptx_u32(INT32_MAX / 8));
        ptx_load(b, ptx_at(b, back, ptx_u32(INT32_MAX / 8)), ptx_u32(INT32_MAX / 8));
        ptx_load(b, back, ptx_u32(INT32_MAX));
        ptx_load(b, back, ptx_s32(-1));
    }
    EXPECT_LINES(b, "ld.global.f64 %fd1, [%rd2+-8];", "ld.global.f64 %fd2, [%rd2+2147483632];",
                 "mad.wide.u32 %rd3, %r1, 8, %rd2;", "ld.global.f64 %fd3, [%rd3+-2147483648];",
                 "mad.wide.s32 %rd4, %r2, 8, %rd2;", "[%rd4+-2147483648];");
}

TEST(pointers_come_from_addresses)
{
    NEW_ENTRY (b, 80) {
        ptx_val a = ptx_param(b, PTX_U64, "a");
        ptx_ptr s = ptx_shared(b, PTX_F32, 4);
        ptx_ptr global = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, a);
        ptx_ptr generic = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GENERIC, a);
        ptx_ptr shared = ptx_ptr_from(b, PTX_F32, PTX_SPACE_SHARED, ptx_ptr_address(b, s));
        ptx_val var = ptx_var(b, a);
        ptx_ptr held = ptx_ptr_from(b, PTX_F32, PTX_SPACE_LOCAL, var);
        ptx_set(b, var, ptx_u64(0));
        ptx_load(b, global, ptx_u32(0));
        ptx_load(b, generic, ptx_u32(1));
        ptx_load(b, shared, ptx_u32(2));
        ptx_load(b, held, ptx_u32(3));
        ptx_ptr_address(b, ptx_at(b, s, ptx_u32(1)));
        ptx_ptr_address(b, ptx_at(b, generic, ptx_u32(1)));
        ptx_load(b, ptx_ptr_from(b, PTX_U8, PTX_SPACE_GLOBAL, ptx_u64(4096)), ptx_u32(0));
    }
    EXPECT_LINES(b, "cvta.to.global.u64 %rd2, %rd1;", "mov.u64 %rd3, %rd1;", "mov.u64 %rd4, %rd3;",
                 "mov.u64 %rd3, 0;", "ld.global.f32 %f1, [%rd2];", "ld.f32 %f2, [%rd1+4];",
                 "ld.shared.f32 %f3, [%r1+8];", "ld.local.f32 %f4, [%rd4+12];",
                 "add.u32 %r2, %r1, 4;", "add.u64 %rd5, %rd1, 4;", "mov.u64 %rd6, 4096;",
                 "cvta.to.global.u64 %rd7, %rd6;", "ld.global.u8 %rs1, [%rd7];");
}

TEST(accesses_are_spelled)
{
    NEW_ENTRY (b, 100) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p"), h = ptx_ptr_cast(b, PTX_BF16, p);
        const ptx_val z = ptx_u32(0), one = ptx_f32(1);
        ptx_load(b, ptx_param_ptr(b, PTX_F32, "q"), z, .nc = true, .cache = PTX_CACHE_NO_ALLOCATE);
        ptx_load(b, p, z, .cache = PTX_CACHE_STREAMING);
        ptx_load(b, p, z, .order = PTX_ORDER_VOLATILE);
        ptx_load(b, p, z, .order = PTX_ORDER_ACQUIRE);
        ptx_load(b, p, z, .order = PTX_ORDER_RELAXED, .scope = PTX_SCOPE_SYSTEM);
        ptx_vec four = ptx_load_vec(b, p, z, 4, .cache = PTX_CACHE_EVICT_FIRST);
        ptx_vec eight = ptx_load_vec(b, h, z, 8);
        ptx_vec wide = ptx_load_vec(b, p, z, 8);
        assert_int_equal(eight.lanes, 8);
        assert_int_equal(eight.lane[7].type, PTX_BF16);
        ptx_store(b, p, z, one, .cache = PTX_CACHE_WRITE_BACK);
        ptx_store(b, p, z, one, .order = PTX_ORDER_RELEASE, .scope = PTX_SCOPE_CLUSTER);
        ptx_store_vec(b, p, z, four);
        ptx_store_vec(b, h, z, eight);
        ptx_store_vec(b, p, z, wide, .cache = PTX_CACHE_STREAMING);
        ptx_load(b, ptx_ptr_cast(b, PTX_F16X2, p), z);
    }
    EXPECT_LINES(b, "ld.global.nc.L1::no_allocate.f32 %f1, [%rd4];", "ld.global.cs.f32 %f2,",
                 "ld.volatile.global.f32 %f3,", "ld.acquire.gpu.global.f32 %f4,",
                 "ld.relaxed.sys.global.f32 %f5,",
                 "ld.global.L1::evict_first.v4.f32 {%f6, %f7, %f8, %f9}, [%rd2];",
                 "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd2];", "mov.b32 {%rs1, %rs2}, %r1;",
                 "mov.b32 {%rs7, %rs8}, %r4;",
                 "ld.global.v8.f32 {%f10, %f11, %f12, %f13, %f14, %f15, %f16, %f17}, [%rd2];",
                 "st.global.wb.f32 [%rd2], 0f3F800000; // 1.0",
                 "st.release.cluster.global.f32 [%rd2], 0f3F800000;",
                 "st.global.v4.f32 [%rd2], {%f6, %f7, %f8, %f9};", "mov.b32 %r5, {%rs1, %rs2};",
                 "st.global.v4.b32 [%rd2], {%r5, %r6, %r7, %r8};", "st.global.cs.v8.f32 [%rd2], {",
                 "ld.global.b32 %r9, [%rd2];");
}

TEST(arrays_are_declared)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr a = ptx_param_array(b, PTX_BF16, "a", 5);
        ptx_val i = ptx_tid(b, PTX_X);
        ptx_ptr s = ptx_shared(b, PTX_BF16, 32), l = ptx_local(b, PTX_F64, 3);
        ptx_ptr d = ptx_shared_dynamic(b, PTX_F32);
        ptx_store(b, s, i, ptx_load(b, a, i));
        ptx_load(b, a, ptx_u32(4));
        ptx_store(b, l, ptx_u32(2), ptx_f64(1));
        ptx_load(b, l, i);
        ptx_store(b, d, ptx_u32(50000), ptx_f32(1));
        ptx_load(b, ptx_shared_dynamic(b, PTX_U8), i);
    }
    EXPECT_LINES(b, ".extern .shared .align 16 .b8 $dynamic_shared[];",
                 ".param .align 16 .b16 a[5]", ".shared .align 16 .b16 $shared_1[32];",
                 ".local .align 16 .f64 $local_2[3];", "mov.u64 %rd1, a;",
                 "mov.u32 %r1, $shared_1;", "mov.u64 %rd2, $local_2;", "ld.param.b16 %rs1, [%rd3];",
                 "ld.param.b16 %rs2, [a+8];",
                 "st.local.f64 [$local_2+16], 0d3FF0000000000000; // 1.0",
                 "st.shared.f32 [$dynamic_shared+200000], 0f3F800000; // 1.0");
}

// The limit is a number of bytes, not of elements. Earlier declarations count.
TEST(arrays_have_limits)
{
    REFUSED(ptx_shared(b, PTX_F32, 12 * 1024 - 7), "shared: 12281 elements of f32: 49124 bytes",
            "32 bytes are declared already", "at most 49152", "ptx_shared_dynamic()");
    REFUSED(ptx_shared(b, PTX_F64, UINT32_MAX),
            "shared: 4294967295 elements of f64: 34359738360 bytes");
    REFUSED(ptx_shared(b, PTX_F64, 0), "shared: the array has no elements");
    REFUSED(ptx_shared(b, PTX_PRED, 4), "shared: an array cannot have elements of type pred");
    REFUSED(ptx_local(b, PTX_U8, 524289), "local: 524289 elements of u8", "at most 524288");
    REFUSED(ptx_store(b, ptx_shared_dynamic(b, PTX_F32), 58113, 1),
            "store: index 58113 of f32, from byte 0 on, is outside dynamic shared memory, of which "
            "no target has more than 232448 bytes");
    REFUSED(ptx_store(b, ptx_shared_dynamic(b, PTX_F32), 58112, 1),
            "store: 4 bytes at byte 232448 would end past the most dynamic shared memory of any "
            "target, which is at 232448");
    REFUSED(ptx_shared_dynamic(b, PTX_NONE), "shared_dynamic: an array cannot have elements");
    NEW_ENTRY (b, 80) {
        ptx_ptr s = ptx_shared(b, PTX_F32, 12 * 1024 - 4), t = ptx_shared(b, PTX_U8, 3);
        ptx_store(b, s, ptx_u32(0), ptx_f32(1));
        ptx_load(b, t, ptx_u32(0));
    }
    EXPECT_LINES(b, "$shared_1[12284];", "$shared_2[3];");
}

TEST(constant_indices_stay_inside)
{
    const ptx_val none = { 0 };

    REFUSED(ptx_load(b, s, ptx_u32(8)), "load: 4 bytes at byte 32", "end, which is at 32");
    REFUSED(ptx_load(b, ptx_ptr_cast(b, PTX_U8, s), ptx_u32(32)), "load: 1 byte at byte 32");
    REFUSED(ptx_load(b, s, ptx_u32(9)), "load: index 9 of f32, from byte 0", "array of 32 bytes");
    REFUSED(ptx_load(b, s, ptx_s32(-1)), "load: index -1 of f32");
    REFUSED(ptx_load(b, s, ptx_u64(UINT64_C(1) << 62)), "load: index 4611686018427387904 of f32");
    REFUSED(ptx_store(b, s, ptx_u32(8), f), "store: 4 bytes at byte 32");
    REFUSED(ptx_load_vec(b, s, ptx_u32(6), 4), "load_vec: 16 bytes at byte 24");
    REFUSED(ptx_load_vec(b, s, ptx_u32(1), 2), "load_vec: byte 4", "multiple of the 8 bytes");
    REFUSED(ptx_atomic_add(b, s, ptx_u32(8), f), "atomic_add: 4 bytes at byte 32");
    REFUSED(ptx_at(b, ptx_at(b, s, ptx_u32(8)), ptx_u32(1)), "at: index 1 of f32, from byte 32");
    REFUSED(ptx_load(b, ptx_ptr_cast(b, PTX_F64, s), ptx_u32(4)), "load: 8 bytes at byte 32");
    REFUSED(ptx_load(b, ptx_shared_dynamic(b, PTX_F32), ptx_s32(-1)), "load: index -1 of f32",
            "dynamic");
    REFUSED(ptx_load(b, p, none), "load: the index was never set");
    REFUSED(ptx_load(b, p, f), "load: the index is f32", "u32, s32, u64 or s64");
    // A refused call returns no pointer.
    NEW_ENTRY (b, 80) {
        ptx_ptr q = ptx_param_ptr(b, PTX_F32, "q");
        assert_int_equal(ptx_at(b, q, ptx_f32(0)).type, PTX_NONE);
    }
    EXPECT_ERROR(b, "at: the index is f32");
    // A negative offset from the end is allowed.
    b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_ptr s = ptx_shared(b, PTX_F32, 8);
        ptx_load(b, ptx_at(b, s, ptx_u32(8)), ptx_s32(-1));
    }
    EXPECT_LINES(b, "ld.shared.f32 %f1, [$shared_1+28];");
}

TEST(wrong_accesses_are_named)
{
    const ptx_val z = ptx_u32(0), none = { 0 };
    const ptx_ptr nowhere = { 0 }, typed = { .type = PTX_F32 };
    const ptx_vec three = { .lanes = 3 };

    REFUSED(ptx_load(b, nowhere, z), "load: the pointer was never set");
    REFUSED(ptx_load(b, typed, z), "load: the pointer was never set");
    REFUSED(ptx_store(b, nowhere, z, f), "store: the pointer was never set");
    REFUSED(ptx_at(b, nowhere, z), "at: the pointer was never set");
    REFUSED(ptx_ptr_address(b, nowhere), "ptr_address: the pointer was never set");
    REFUSED(ptx_ptr_cast(b, PTX_F32, nowhere), "ptr_cast: the pointer was never set");
    REFUSED(ptx_ptr_cast(b, PTX_PRED, p), "ptr_cast: memory does not hold elements of type pred");
    REFUSED(ptx_store(b, p, z, i), "store: the value is u32", "pointer is to f32");
    REFUSED(ptx_store(b, p, z, none), "store: the value was never set");
    REFUSED(ptx_load_vec(b, p, z, 3), "load_vec: 3 lanes", "1, 2, 4 or 8");
    REFUSED(ptx_store_vec(b, p, z, three), "store_vec: 3 lanes");
    REFUSED(ptx_load_vec(b, ptx_ptr_cast(b, PTX_F64, p), z, 8), "load_vec: 8 lanes of f64",
            "at most 16 bytes");
    REFUSED(ptx_load_vec(b, ptx_ptr_cast(b, PTX_U8, p), z, 8), "load_vec: 8 lanes of u8");
    REFUSED(ptx_load_vec(b, s, z, 8), "load_vec: 8 lanes of f32", "in global memory");
    REFUSED(ptx_load_vec(b, p, z, 8), "load_vec: an access of 32 bytes needs sm_100", "sm_80");
    REFUSED(ptx_load(b, p, z, .cache = (ptx_cache)99), "load: the cache operator", "operator 99");
    REFUSED(ptx_load(b, p, z, .cache = PTX_CACHE_WRITE_BACK), "load: .wb is for stores");
    REFUSED(ptx_store(b, p, z, f, .cache = PTX_CACHE_ALL), "store: .ca is for loads");
    REFUSED(ptx_load(b, s, z, .nc = true), "load: .nc is for loads from global",
            "'.nc' on a shared");
    REFUSED(ptx_store(b, p, z, f, .nc = true), "store: .nc is for loads");
    REFUSED(ptx_load(b, p, z, .order = PTX_ORDER_RELEASE), "load: a load can be relaxed or acquire",
            "got '.release'");
    REFUSED(ptx_store(b, p, z, f, .order = PTX_ORDER_ACQUIRE), "store: a load can be",
            "'.acquire'");
    REFUSED(ptx_load(b, p, z, .order = PTX_ORDER_ACQUIRE, .nc = true),
            "load: a cache operator or .nc");
    REFUSED(ptx_load(b, p, z, .scope = PTX_SCOPE_SYSTEM), "load: a scope goes with", "'.sys'");
    REFUSED(ptx_load(b, p, z, .order = PTX_ORDER_RELAXED, .scope = PTX_SCOPE_CLUSTER),
            "load: ld.relaxed.cluster.global.f32 needs sm_90", "sm_80");
    REFUSED(ptx_load(b, ptx_local(b, PTX_F32, 1), z, .order = PTX_ORDER_RELAXED),
            "load: local memory");
    REFUSED(ptx_load(b, s, z, .cache = PTX_CACHE_EVICT_LAST), "load: L1 hints are for global");
    REFUSED(ptx_load(b, ptx_param_array(b, PTX_F32, "a", 1), z, .cache = PTX_CACHE_STREAMING),
            "load: parameters and constant memory have no cache operator", "param pointer");
    REFUSED(ptx_store(b, ptx_param_array(b, PTX_F32, "a", 1), z, f), "store: the pointer is",
            "readonly");
    REFUSED(ptx_store(b, ptx_param_ptr(b, PTX_F32, "a", .readonly = true), z, f),
            "store: the pointer is declared readonly, and this stores through it");
    REFUSED(ptx_load(b, ptx_param_ptr(b, PTX_F32, "a", .writeonly = true), z),
            "load: the pointer is declared writeonly, and this loads through it");
    REFUSED(ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, i), "ptr_from: a global pointer to f32",
            "needs a u64 address; got u32");
    REFUSED(ptx_ptr_from(b, PTX_F32, PTX_SPACE_SHARED, ptx_u64(0)), "a shared pointer",
            "a u32 address");
    REFUSED(ptx_ptr_from(b, PTX_PRED, PTX_SPACE_GENERIC, ptx_u64(0)),
            "memory does not hold elements of type pred");
    REFUSED(ptx_ptr_from(b, PTX_F32, PTX_SPACE_PARAM, ptx_u64(0)), "ptr_from: the space is param");
    REFUSED(ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, none),
            "ptr_from: the address was never set");
}

// In straight code the address of an element is computed once, until its index is set.
TEST(an_address_is_computed_once)
{
    NEW_ENTRY (b, 80) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p"), q = ptx_ptr_cast(b, PTX_U16, p);
        ptx_ptr s = ptx_shared(b, PTX_F32, 64);
        ptx_val i = ptx_var(b, ptx_cvt(b, PTX_S64, ptx_tid(b, PTX_X)));
        ptx_comment(b, "once");
        ptx_store(b, p, i, ptx_load(b, p, i));
        ptx_store(b, s, i, ptx_load(b, s, i));
        ptx_load(b, ptx_at(b, p, i), 7);
        ptx_load(b, q, i);
        ptx_comment(b, "set");
        ptx_set(b, i, 5);
        ptx_load(b, p, i);
        ptx_load(b, p, i);
        ptx_comment(b, "asm");
        ptx_asm(b, "add.s64 %0, %0, 1;", .inout = { i });
        ptx_load(b, p, i);
        ptx_comment(b, "block");
        ptx_if (b, ptx_bool(true))
            ptx_load(b, p, i);
        ptx_load(b, p, i);
        ptx_load(b, p, i);
    }
    EXPECT_LINES(
        b, "// once", "mad.lo.u64 %rd4, %rd3, 4, %rd2;\n ld.global.f32 %f1, [%rd4];\n",
        "st.global.f32 [%rd4], %f1;\n cvt.u32.s64 %r3, %rd3;\n mad.lo.u32 %r4, %r3, 4, %r1;\n",
        "ld.shared.f32 %f2, [%r4];\n st.shared.f32 [%r4], %f2;\n ld.global.f32 %f3, [%rd4+28];\n",
        "mad.lo.u64 %rd5, %rd3, 2, %rd2;\n ld.global.u16 %rs1, [%rd5];",
        "// set\n mov.s64 %rd3, 5;\n mad.lo.u64 %rd6, %rd3, 4, %rd2;\n ld.global.f32 %f4, [%rd6];",
        "ld.global.f32 %f5, [%rd6];\n", "// asm\n add.s64 %rd3, %rd3, 1;\n",
        "mad.lo.u64 %rd7, %rd3, 4, %rd2;\n ld.global.f32 %f6, [%rd7];\n", "// block",
        "mad.lo.u64 %rd8, %rd3, 4, %rd2;\n ld.global.f32 %f7, [%rd8];\n$if_1_end:\n",
        "mad.lo.u64 %rd9, %rd3, 4, %rd2;\n ld.global.f32 %f8, [%rd9];\n ld.global.f32 %f9, "
        "[%rd9];");
}

// Stores and atomics take constants; f16 has no literal that an atomic takes.
TEST(constants_are_stored)
{
    NEW_ENTRY (b, 90) {
        ptx_ptr p = ptx_param_ptr(b, PTX_F16, "p"), s = ptx_ptr_cast(b, PTX_S8, p);
        ptx_store(b, p, 0, 0.5);
        ptx_store(b, s, 1, -5);
        ptx_atomic_add(b, ptx_ptr_cast(b, PTX_F32, p), 0, 2);
        ptx_atomic_add(b, p, 0, 2);
    }
    EXPECT_LINES(b, "st.global.b16 [%rd2], 0x3800; // 0.5\n st.global.s8 [%rd2+1], -5;\n",
                 "red.global.add.f32 [%rd2], 0f40000000; // 2.0\n mov.b16 %rs1, 0x4000; // 2.0\n",
                 "red.global.add.noftz.f16 [%rd2], %rs1;");
}

// The hint needs ISA 7.4, so a text pinned below it cannot have the hint.
TEST(hints_have_an_isa)
{
    ptx_builder *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = 80 }, .isa = 73 });
    ptx_entry (b, "k")
        ptx_load(b, ptx_param_ptr(b, PTX_F32, "p"), ptx_u32(0), .cache = PTX_CACHE_NO_ALLOCATE);
    EXPECT_ERROR(b, "load: ld.global.L1::no_allocate.f32 needs PTX ISA 7.4", "pinned to 7.3");
}

TEST(atomics_return_the_old_value_or_reduce)
{
    NEW_ENTRY (b, 90) {
        ptx_ptr p = ptx_param_ptr(b, PTX_U32, "p"), s = ptx_shared(b, PTX_U32, 1);
        ptx_val z = ptx_u32(0), x = ptx_tid(b, PTX_X);
        ptx_ptr f = ptx_ptr_cast(b, PTX_BF16X2, p), t = ptx_ptr_cast(b, PTX_B16, p);
#define EACH(name, ...) ptx_atomic_##name(b, p, z, x);
        PTX_ATOMICS(EACH)
#undef EACH
        ptx_val old = ptx_atomic_add(b, s, z, x);
        ptx_store(b, p, z, old);
        ptx_atomic_cas(b, p, z, x, ptx_u32(1));
        ptx_atomic_add(b, f, z, ptx_imm(PTX_BF16X2, 1));
        ptx_atomic_cas(b, t, z, ptx_imm(PTX_B16, 1), ptx_imm(PTX_B16, 2));
        ptx_atomic(b, PTX_ATOMIC_add, p, z, x, .order = PTX_ORDER_RELEASE,
                   .scope = PTX_SCOPE_SYSTEM);
        ptx_atomic(b, PTX_ATOMIC_add, p, z, x, .order = PTX_ORDER_ACQ_REL);
        ptx_atomic(b, PTX_ATOMIC_max, p, z, x, .scope = PTX_SCOPE_CLUSTER);
        ptx_val var = ptx_var(b, x);
        ptx_set(b, var, ptx_atomic_add(b, p, z, x));
    }
    EXPECT_LINES(
        b, "red.global.add.u32 [%rd2], %r1;", "red.global.min.u32 [%rd2], %r1;",
        "red.global.max.u32 [%rd2], %r1;", "red.global.inc.u32 [%rd2], %r1;",
        "red.global.dec.u32 [%rd2], %r1;", "red.global.and.b32 [%rd2], %r1;",
        "red.global.or.b32 [%rd2], %r1;", "red.global.xor.b32 [%rd2], %r1;",
        "atom.global.exch.b32 %r", ", [%rd2], %r1;", "atom.shared.add.u32 %r", "[$shared_1], %r1;",
        "atom.global.cas.b32 %r", ", [%rd2], %r1, 1;", "red.global.add.noftz.bf16x2 [%rd2], %r",
        "atom.global.cas.b16 %rs1, [%rd2], 1, 2;", "red.release.sys.global.add.u32 [%rd2], %r1;",
        "atom.acq_rel.gpu.global.add.u32 %r", "red.relaxed.cluster.global.max.u32 [%rd2], %r1;",
        "atom.global.add.u32 %r");
}

TEST(wrong_atomics_are_named)
{
    const ptx_val z = ptx_u32(0), none = { 0 };

    REFUSED(ptx_atomic_add(b, p, z, none), "atomic_add: x was never set");
    REFUSED(ptx_atomic_add(b, p, z, i), "atomic_add: the value is u32; the pointer is to f32");
    REFUSED(ptx_atomic_min(b, p, z, f), "atomic_min: there is no atomic min of f32");
    REFUSED(ptx_atomic_cas(b, p, z, none, f), "atomic_cas: compare was never set");
    REFUSED(ptx_atomic_cas(b, p, z, i, f), "atomic_cas: the value is u32");
    REFUSED(ptx_atomic(b, PTX_ATOMIC_add, p, z, f, .compare = f), "add takes no .compare");
    REFUSED(ptx_atomic_add(b, ptx_local(b, PTX_F32, 1), z, f),
            "atomic_add: an atomic reads and writes", "is local");
    REFUSED(ptx_atomic_add(b, ptx_param_ptr(b, PTX_F32, "a", .readonly = true), z, f), "atomic_add",
            "is readonly, global");
    REFUSED(ptx_atomic_add(b, ptx_param_ptr(b, PTX_F32, "a", .writeonly = true), z, f),
            "atomic_add", "is writeonly, global");
    REFUSED(ptx_atomic(b, PTX_ATOMIC_add, p, z, f, .order = PTX_ORDER_VOLATILE),
            "atomic_add: order 1");
    REFUSED(ptx_atomic(b, PTX_ATOMIC_add, p, z, f, .order = PTX_ORDER_SEQ_CST),
            "atomic_add: order 6", "PTX_ORDER_ACQ_REL");
    REFUSED(ptx_atomic(b, PTX_ATOMIC_add, p, z, f, .scope = (ptx_scope)9), "9 is not a scope");
    REFUSED(ptx_atomic(b, PTX_ATOMIC_COUNT, p, z, f), "atomic: 10 is not an operation");
    REFUSED(ptx_atomic(b, PTX_ATOMIC_add, p, z, f, .scope = PTX_SCOPE_CLUSTER),
            "atomic_add: atom.relaxed.cluster.global.add.f32 needs sm_90", "sm_80");
    REFUSED(ptx_atomic_add(b, ptx_ptr_cast(b, PTX_BF16, p), z, ptx_imm(PTX_BF16, 1)),
            "atomic_add: atom.global.add.noftz.bf16 needs sm_90");
    REFUSED(ptx_fence(b, PTX_ORDER_RELAXED, PTX_SCOPE_GPU), "fence: order 2, scope 3",
            "PTX_ORDER_SEQ_CST");
    REFUSED(ptx_fence(b, PTX_ORDER_ACQ_REL, (ptx_scope)9), "fence: order 5, scope 9");
    REFUSED(ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_CLUSTER),
            "fence: fence.acq_rel.cluster needs sm_90");
}

TEST(fences_are_spelled)
{
    NEW_ENTRY (b, 90) {
        ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_DEFAULT);
        ptx_fence(b, PTX_ORDER_SEQ_CST, PTX_SCOPE_SYSTEM);
        ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_BLOCK);
        ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_CLUSTER);
    }
    EXPECT_LINES(b, "fence.acq_rel.gpu;", "fence.sc.sys;", "fence.acq_rel.cta;",
                 "fence.acq_rel.cluster;");
}

// A load by .nc may give what was there before the kernel wrote. Another parameter may be of other
// memory, and another entry runs at another time.
TEST(nc_is_for_memory_that_is_not_written)
{
    const ptx_val i = ptx_u32(3), one = ptx_f32(1);

    for (int k = 0; k < 11; k++) {
        ptx_builder *b = builder_at(80);
        ptx_ptr array = ptx_global(b, PTX_F32, "array", .count = 16);
        ptx_entry (b, "first") {
            ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p"), q = ptx_param_ptr(b, PTX_F32, "q");
            const ptx_ptr far = ptx_at(b, p, ptx_load(b, ptx_ptr_cast(b, PTX_U32, q), i));
            switch (k) {
            case 0:
                ptx_load(b, p, i, .nc = true);
                ptx_store(b, p, 0, one);
                break;
            case 1:
                ptx_store_vec(b, p, 0, ptx_vec2(one, one));
                ptx_load_vec(b, p, i, 1, .nc = true);
                break;
            case 2:
                ptx_load(b, far, i, .nc = true);
                ptx_atomic_add(b, p, i, one);
                break;
            case 3:
                ptx_load(b, ptx_ptr_cast(b, PTX_U8, far), i, .nc = true);
                ptx_store(b, p, i, one);
                break;
            case 4:
                ptx_load(b, array, i, .nc = true);
                ptx_store(b, ptx_at(b, array, ptx_tid(b, PTX_X)), i, one);
                ptx_store(b, p, i, one);
                break;
            case 5:
                ptx_load(b, far, i, .nc = true);
                ptx_store(b, q, i, one);
                break;
            case 6:
                ptx_load(b, array, i, .nc = true);
                ptx_store(b, p, i, one);
                break;
            case 7:
                ptx_load(b, far, i, .nc = true);
                ptx_asm(b, "st.global.f32 [%1], %0;", .at = { p }, .in = { one });
                break;
            case 8:
                ptx_asm(b, "ld.global.nc.f32 %0, [%1];", .result = { PTX_F32 }, .at = { far });
                ptx_store(b, p, i, one);
                break;
            case 9:
                ptx_load(b, far, i, .nc = true);
                ptx_asm(b, "ld.global.f32 %0, [%1];", .result = { PTX_F32 }, .at = { p });
                break;
            default:
                ptx_load(b, far, i);
                ptx_store(b, p, i, one);
            }
        }
        ptx_entry (b, "second") {
            ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out");
            ptx_store(b, array, i, one);
            ptx_store(b, out, i, one);
        }
        if (k < 5 || k == 7 || k == 8)
            EXPECT_ERROR(b, k == 4 ? "'array' is loaded with .nc and written by one entry"
                                   : "'p' is loaded with .nc and written by one entry");
        else
            EXPECT_LINES(b, ".visible .entry second(");
    }
}

// What types.h and matrix.h say may be read.
TEST(fields_may_be_read)
{
    OWNED(ptx_builder) *b = builder_at(80);
    ptx_entry (b, "k") {
        ptx_ptr p = ptx_param_ptr(b, PTX_F32, "p", .readonly = true);
        ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out", .writeonly = true);
        ptx_ptr tile = ptx_shared(b, PTX_F16, 64);
        ptx_val x = ptx_load(b, p, 0), v = ptx_var(b, x), seven = ptx_u32(7);
        assert_true(x.kind == PTX_KIND_REGISTER && x.type == PTX_F32);
        assert_true(v.kind == PTX_KIND_VARIABLE && v.type == PTX_F32 && v.reg != x.reg);
        assert_true(ptx_cvt(b, PTX_F32, x).reg == x.reg && ptx_copy(b, v).reg != v.reg);
        assert_true(seven.kind == PTX_KIND_IMMEDIATE && seven.type == PTX_U32 && seven.bits == 7);
        assert_true(ptx_s32(-1).bits == UINT32_MAX);
        assert_true(ptx_ptr_address(b, p).reg == ptx_ptr_address(b, p).reg);
        assert_true(p.type == PTX_F32 && p.space == PTX_SPACE_GLOBAL && p.count == 0);
        assert_true(p.readonly && !p.writeonly && !out.readonly && out.writeonly);
        assert_true(tile.type == PTX_F16 && tile.space == PTX_SPACE_SHARED && tile.count == 64);
        assert_true(ptx_at(b, tile, 16).count == 48);
        assert_true(ptx_ptr_cast(b, PTX_F32, tile).count == 32);
        ptx_fragment c = ptx_fragment_fill(b, ptx_f32(0));
        assert_true(c.role == PTX_FRAGMENT_C && c.type == PTX_F32 && c.k == 0 && c.words == 4);
        ptx_store(b, out, 0, ptx_add(b, v, x));
    }
}

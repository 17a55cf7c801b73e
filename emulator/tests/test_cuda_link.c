// SPDX-License-Identifier: MIT
/// The emulator as a driver: its linker and the code that it produces.
#include "api.h"

/// Links the text and returns the result. The caller destroys the link.
static char *link_text(CUlinkState *made, const char *text, size_t *bytes)
{
    void *code = NULL;
    OK(cuLinkCreate_v2(0, NULL, NULL, made));
    OK(cuLinkAddData_v2(*made, CU_JIT_INPUT_PTX, (void *)text, strlen(text) + 1, "text", 0, NULL,
                        NULL));
    OK(cuLinkComplete(*made, &code, bytes));
    return code;
}

TEST(linking)
{
    CUlinkState first = NULL, second = NULL;
    CUmodule loaded = NULL;
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUdeviceptr p = 0;
    size_t bytes = 0, again = 0;
    uint32_t value = 4711;
    void *arguments[] = { &p, &value };
    char *code = link_text(&first, emu_text, &bytes);
    assert_true(bytes > strlen(emu_text));
    OK(cuModuleLoadData(&loaded, code));
    OK(cuMemAlloc_v2(&p, 4));
    OK(cuLaunchKernel(emu_function(loaded, "store"), 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    assert_int_equal(emu_read(p), 4711);
    OK(cuModuleUnload(loaded));
    OK(cuLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "store"));
    OK(cuLibraryUnload(library));
    OK(cuMemFree_v2(p));

    // Linked code is an input too, and is linked unchanged.
    void *copy = NULL;
    OK(cuLinkCreate(0, NULL, NULL, &second));
    RETURNS(cuLinkComplete(second, &copy, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuLinkAddData(second, CU_JIT_INPUT_LIBRARY, code, bytes, NULL, 0, NULL, NULL),
            CUDA_ERROR_NOT_SUPPORTED);
    RETURNS(cuLinkAddData(second, CU_JIT_INPUT_PTX, NULL, bytes, NULL, 0, NULL, NULL),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuLinkAddFile_v2(second, CU_JIT_INPUT_PTX, "/none", 0, NULL, NULL),
            CUDA_ERROR_FILE_NOT_FOUND);
    OK(cuLinkAddData(second, CU_JIT_INPUT_CUBIN, code, bytes, NULL, 0, NULL, NULL));
    OK(cuLinkComplete(second, &copy, &again));
    RETURNS(cuLinkAddData(second, CU_JIT_INPUT_CUBIN, code, bytes, NULL, 0, NULL, NULL),
            CUDA_ERROR_INVALID_VALUE); // complete
    assert_int_equal(again, bytes);
    assert_memory_equal(copy, code, bytes);
    OK(cuLinkDestroy(second));
    RETURNS(cuLinkDestroy(second), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuLinkComplete(second, &copy, &again), CUDA_ERROR_INVALID_HANDLE);
    OK(cuLinkDestroy(first));
}

TEST(damaged_code)
{
    CUlinkState made = NULL;
    CUmodule loaded = NULL;
    size_t bytes = 0;
    char *code = link_text(&made, emu_text, &bytes);
    for (size_t i = 0; i + 1 < bytes; i += i < 60 ? 1 : 41) {
        char was = code[i];
        code[i] = (char)(was ^ 1);
        assert_int_not_equal(cuModuleLoadData(&loaded, code), CUDA_SUCCESS);
        code[i] = '\0'; // truncated here
        assert_int_not_equal(cuModuleLoadData(&loaded, code), CUDA_SUCCESS);
        code[i] = was;
    }
    char *sm = strstr(code, "090 ");
    assert_non_null(sm);
    memcpy(sm, "100", 3);
    RETURNS(cuModuleLoadData(&loaded, code), CUDA_ERROR_NO_BINARY_FOR_GPU);
    memcpy(sm, "080", 3);
    RETURNS(cuModuleLoadData(&loaded, code), CUDA_ERROR_NO_BINARY_FOR_GPU);
    memcpy(sm, "090", 3);
    OK(cuModuleLoadData(&loaded, code));
    OK(cuModuleUnload(loaded));
    OK(cuLinkDestroy(made));
}

TEST(errors_of_linking)
{
    static char bad[] = EMU_TEXT_HEAD ".visible .entry k()\n{\n    frobnicate.u32 1;\n}\n";
    char log[512] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)sizeof(log) };
    CUlinkState made = NULL;
    RETURNS(cuLinkCreate_v2(1, NULL, values, &made), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuLinkCreate_v2(0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuLinkCreate_v2(2, options, values, &made));
    RETURNS(cuLinkAddData_v2(made, CU_JIT_INPUT_PTX, bad, sizeof(bad), NULL, 0, NULL, NULL),
            CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "line 6; error"));
    OK(cuLinkDestroy(made));
    RETURNS(cuLinkAddData_v2(NULL, CU_JIT_INPUT_PTX, bad, sizeof(bad), NULL, 0, NULL, NULL),
            CUDA_ERROR_INVALID_HANDLE);
}

// ---- several inputs -----------------------------------------------------------------------------

// The kernel, and what it needs from elsewhere. `helper` is a function of this text alone.
static const char caller_text[] =
    EMU_TEXT_HEAD ".extern .func (.reg .b32 r) twice(.reg .b32 a);\n"
                  ".extern .func (.reg .b32 r) chosen();\n"
                  ".extern .func (.reg .b32 r) other_name();\n"
                  ".extern .global .align 4 .b32 defined;\n"
                  ".common .global .align 4 .b32 common;\n"
                  ".weak .global .align 4 .b32 weak = 1;\n"
                  ".weak .global .align 4 .b32 kept = 2;\n"
                  ".func (.reg .b32 r) helper() { mov.b32 r, 10; ret; }\n"
                  ".weak .func (.reg .b32 r) chosen() { mov.b32 r, 100; ret; }\n"
                  ".visible .entry k(.param .u64 out)\n{\n"
                  "    .reg .b64 %d<2>; .reg .b32 %r<9>;\n"
                  "    ld.param.u64 %d1, [out];\n"
                  "    mov.b32 %r1, 21;\n"
                  "    call (%r2), twice, (%r1);\n"
                  "    call (%r3), chosen;\n"
                  "    call (%r4), helper;\n"
                  "    call (%r5), other_name;\n"
                  "    st.global.v4.b32 [%d1], {%r2, %r3, %r4, %r5};\n"
                  "    ld.global.b32 %r2, [defined];\n"
                  "    ld.global.b32 %r3, [common];\n"
                  "    ld.global.b32 %r4, [weak];\n"
                  "    ld.global.b32 %r5, [kept];\n"
                  "    st.global.v4.b32 [%d1+16], {%r2, %r3, %r4, %r5};\n"
                  "    ret;\n}\n";

// `common` is larger here; `twice` writes it.
static const char called_text[] =
    EMU_TEXT_HEAD ".visible .global .align 4 .b32 defined = 5;\n"
                  ".common .global .align 8 .b64 common;\n"
                  ".visible .global .align 4 .b32 weak = 3;\n"
                  ".weak .global .align 4 .b32 kept = 4;\n"
                  ".func (.reg .b32 r) helper() { mov.b32 r, 20; ret; }\n"
                  ".visible .func (.reg .b32 r) chosen() { call (r), helper; ret; }\n"
                  ".weak .func (.reg .b32 r) named() { mov.b32 r, 8; ret; }\n"
                  ".visible .func (.reg .b32 r) other_name();\n"
                  ".alias other_name, named;\n"
                  ".visible .func (.reg .b32 r) twice(.reg .b32 a)\n{\n"
                  "    .reg .b32 %r<2>;\n"
                  "    mov.b32 %r1, 6;\n"
                  "    st.global.b32 [common], %r1;\n"
                  "    add.u32 r, a, a;\n    ret;\n}\n";

static CUresult add(CUlinkState link, const char *text)
{
    return cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, strlen(text) + 1, NULL,
                            0, NULL, NULL);
}

/// What the kernel of both texts stores, linked in this order.
static void links_to(const char *first, const char *second, const uint32_t expected[8])
{
    CUlinkState link = NULL;
    CUmodule loaded = NULL;
    CUdeviceptr p = 0, common = 0;
    void *code = NULL, *arguments[] = { &p };
    uint32_t got[8] = { 0 };
    size_t bytes = 0;
    OK(cuLinkCreate(0, NULL, NULL, &link));
    OK(add(link, first));
    OK(add(link, second));
    OK(cuLinkComplete(link, &code, NULL));
    OK(cuModuleLoadData(&loaded, code));
    OK(cuMemAlloc_v2(&p, sizeof(got)));
    OK(cuLaunchKernel(emu_function(loaded, "k"), 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH_v2(got, p, sizeof(got)));
    for (int k = 0; k < 8; k++)
        assert_int_equal(got[k], expected[k]);
    OK(cuModuleGetGlobal_v2(&common, &bytes, loaded, "common"));
    assert_int_equal(bytes, 8); // the larger one
    assert_int_equal(common % 8, 0);
    OK(cuMemFree_v2(p));
    OK(cuModuleUnload(loaded));
    OK(cuLinkDestroy(link));
}

TEST(several_inputs)
{
    // A strong definition takes the place of a weak one; of two weak ones the first stays.
    static const uint32_t caller_first[8] = { 42, 20, 10, 8, 5, 6, 3, 2 };
    static const uint32_t called_first[8] = { 42, 20, 10, 8, 5, 6, 3, 4 };
    links_to(caller_text, called_text, caller_first);
    links_to(called_text, caller_text, called_first);
}

TEST(inputs_that_do_not_fit)
{
    static const char *const twice[] = { ".visible .func f() { ret; }\n",
                                         ".visible .global .b32 f;\n",
                                         ".visible .entry f() { ret; }\n" };
    static const char alone[] = EMU_TEXT_HEAD ".visible .entry e()\n{\n    ret;\n}\n";
    char log[512] = "", text[512];
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)sizeof(log) }, *code = NULL;
    CUlinkState link = NULL;
    OK(cuLinkCreate(2, options, values, &link));
    OK(add(link, caller_text));
    RETURNS(cuLinkComplete(link, &code, NULL), CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "Unresolved extern function 'twice'"));
    OK(add(link, called_text)); // what was missing
    OK(cuLinkComplete(link, &code, NULL));
    OK(cuLinkDestroy(link));
    for (size_t k = 0; k < sizeof(twice) / sizeof(*twice); k++) {
        values[1] = (void *)(uintptr_t)sizeof(log); // it was returned as a length
        snprintf(text, sizeof(text), EMU_TEXT_HEAD "%s", twice[k]);
        OK(cuLinkCreate(2, options, values, &link));
        OK(add(link, text));
        OK(add(link, text));
        OK(add(link, alone));
        RETURNS(cuLinkComplete(link, &code, NULL), CUDA_ERROR_INVALID_PTX);
        assert_non_null(strstr(log, "Duplicate definition"));
        OK(cuLinkDestroy(link));
    }
    static const char *const sizes[][2] = {
        { ".extern .global .b32 v[4];\n", ".visible .global .b64 v;\n" },
        { ".visible .global .b32 v[6];\n", ".extern .global .b32 v[4];\n" },
    };
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        values[1] = (void *)(uintptr_t)sizeof(log);
        OK(cuLinkCreate(2, options, values, &link));
        for (unsigned input = 0; input < 2; input++) {
            snprintf(text, sizeof(text), EMU_TEXT_HEAD "%s", sizes[k][input]);
            OK(add(link, text));
        }
        RETURNS(cuLinkComplete(link, &code, NULL), CUDA_ERROR_INVALID_PTX);
        assert_non_null(strstr(log, "Inconsistent redefinition of variable 'v'"));
        OK(cuLinkDestroy(link));
    }
    values[1] = (void *)(uintptr_t)sizeof(log);
    OK(cuLinkCreate(2, options, values, &link));
    OK(add(link, EMU_TEXT_HEAD ".extern .global .b32 v[];\n"));
    OK(add(link, EMU_TEXT_HEAD ".visible .global .b32 v[6];\n"));
    OK(cuLinkComplete(link, &code, NULL));
    OK(cuLinkDestroy(link));
    // A function of one text is not that of another.
    values[1] = (void *)(uintptr_t)sizeof(log);
    OK(cuLinkCreate(2, options, values, &link));
    OK(add(link, EMU_TEXT_HEAD ".func f() { ret; }\n"));
    OK(add(link,
           EMU_TEXT_HEAD ".extern .func f();\n.visible .entry e()\n{\n    call f;\n    ret;\n}\n"));
    RETURNS(cuLinkComplete(link, &code, NULL), CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "Unresolved extern function 'f'"));
    OK(cuLinkDestroy(link));
}

// ---- fat binaries -------------------------------------------------------------------------------

// Of `fatbinary --image3=kind=ptx,sm=80,file=...` of CUDA 13.0, with --compress-mode=none, speed
// (LZ4) and default (zstd). The kernel "store" stores 7.
// clang-format off
static const unsigned char plain_fat[] = {
0x50, 0xed, 0x55, 0xba, 0x01, 0x00, 0x10, 0x00, 0x78, 0x01, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01, 0x01, 0x50, 0x00, 0x00, 0x00,
0x28, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x50, 0x00, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x11, 0x00, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x48, 0x00, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
0x2e, 0x76, 0x65, 0x72, 0x73, 0x69, 0x6f, 0x6e, 0x20, 0x37, 0x2e, 0x30,
0x0a, 0x2e, 0x74, 0x61, 0x72, 0x67, 0x65, 0x74, 0x20, 0x73, 0x6d, 0x5f,
0x38, 0x30, 0x0a, 0x2e, 0x61, 0x64, 0x64, 0x72, 0x65, 0x73, 0x73, 0x5f,
0x73, 0x69, 0x7a, 0x65, 0x20, 0x36, 0x34, 0x0a, 0x2e, 0x76, 0x69, 0x73,
0x69, 0x62, 0x6c, 0x65, 0x20, 0x2e, 0x65, 0x6e, 0x74, 0x72, 0x79, 0x20,
0x73, 0x74, 0x6f, 0x72, 0x65, 0x28, 0x2e, 0x70, 0x61, 0x72, 0x61, 0x6d,
0x20, 0x2e, 0x75, 0x36, 0x34, 0x20, 0x70, 0x29, 0x0a, 0x7b, 0x0a, 0x2e,
0x72, 0x65, 0x67, 0x20, 0x2e, 0x62, 0x36, 0x34, 0x20, 0x25, 0x64, 0x3c,
0x33, 0x3e, 0x3b, 0x0a, 0x2e, 0x72, 0x65, 0x67, 0x20, 0x2e, 0x62, 0x33,
0x32, 0x20, 0x25, 0x72, 0x3c, 0x33, 0x3e, 0x3b, 0x0a, 0x6c, 0x64, 0x2e,
0x70, 0x61, 0x72, 0x61, 0x6d, 0x2e, 0x75, 0x36, 0x34, 0x20, 0x25, 0x64,
0x31, 0x2c, 0x20, 0x5b, 0x70, 0x5d, 0x3b, 0x0a, 0x6d, 0x6f, 0x76, 0x2e,
0x75, 0x33, 0x32, 0x20, 0x25, 0x72, 0x31, 0x2c, 0x20, 0x37, 0x3b, 0x0a,
0x73, 0x74, 0x2e, 0x67, 0x6c, 0x6f, 0x62, 0x61, 0x6c, 0x2e, 0x75, 0x33,
0x32, 0x20, 0x5b, 0x25, 0x64, 0x31, 0x5d, 0x2c, 0x20, 0x25, 0x72, 0x31,
0x3b, 0x0a, 0x73, 0x74, 0x2e, 0x67, 0x6c, 0x6f, 0x62, 0x61, 0x6c, 0x2e,
0x75, 0x33, 0x32, 0x20, 0x5b, 0x25, 0x64, 0x31, 0x5d, 0x2c, 0x20, 0x25,
0x72, 0x31, 0x3b, 0x0a, 0x73, 0x74, 0x2e, 0x67, 0x6c, 0x6f, 0x62, 0x61,
0x6c, 0x2e, 0x75, 0x33, 0x32, 0x20, 0x5b, 0x25, 0x64, 0x31, 0x5d, 0x2c,
0x20, 0x25, 0x72, 0x31, 0x3b, 0x0a, 0x73, 0x74, 0x2e, 0x67, 0x6c, 0x6f,
0x62, 0x61, 0x6c, 0x2e, 0x75, 0x33, 0x32, 0x20, 0x5b, 0x25, 0x64, 0x31,
0x5d, 0x2c, 0x20, 0x25, 0x72, 0x31, 0x3b, 0x0a, 0x73, 0x74, 0x2e, 0x67,
0x6c, 0x6f, 0x62, 0x61, 0x6c, 0x2e, 0x75, 0x33, 0x32, 0x20, 0x5b, 0x25,
0x64, 0x31, 0x5d, 0x2c, 0x20, 0x25, 0x72, 0x31, 0x3b, 0x0a, 0x72, 0x65,
0x74, 0x3b, 0x0a, 0x7d, 0x0a, 0x00, 0x00, 0x00
};
static const unsigned char lz4_fat[] = {
0x50, 0xed, 0x55, 0xba, 0x01, 0x00, 0x10, 0x00, 0x08, 0x01, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01, 0x01, 0x50, 0x00, 0x00, 0x00,
0xb8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xb4, 0x00, 0x00, 0x00,
0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x50, 0x00, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x11, 0x20, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
0x26, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x48, 0x00, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
0xf4, 0x54, 0x2e, 0x76, 0x65, 0x72, 0x73, 0x69, 0x6f, 0x6e, 0x20, 0x37,
0x2e, 0x30, 0x0a, 0x2e, 0x74, 0x61, 0x72, 0x67, 0x65, 0x74, 0x20, 0x73,
0x6d, 0x5f, 0x38, 0x30, 0x0a, 0x2e, 0x61, 0x64, 0x64, 0x72, 0x65, 0x73,
0x73, 0x5f, 0x73, 0x69, 0x7a, 0x65, 0x20, 0x36, 0x34, 0x0a, 0x2e, 0x76,
0x69, 0x73, 0x69, 0x62, 0x6c, 0x65, 0x20, 0x2e, 0x65, 0x6e, 0x74, 0x72,
0x79, 0x20, 0x73, 0x74, 0x6f, 0x72, 0x65, 0x28, 0x2e, 0x70, 0x61, 0x72,
0x61, 0x6d, 0x20, 0x2e, 0x75, 0x36, 0x34, 0x20, 0x70, 0x29, 0x0a, 0x7b,
0x0a, 0x2e, 0x72, 0x65, 0x67, 0x20, 0x2e, 0x62, 0x36, 0x34, 0x20, 0x25,
0x64, 0x3c, 0x33, 0x3e, 0x3b, 0x11, 0x00, 0x51, 0x33, 0x32, 0x20, 0x25,
0x72, 0x11, 0x00, 0x22, 0x6c, 0x64, 0x35, 0x00, 0x01, 0x34, 0x00, 0xf1,
0x00, 0x25, 0x64, 0x31, 0x2c, 0x20, 0x5b, 0x70, 0x5d, 0x3b, 0x0a, 0x6d,
0x6f, 0x76, 0x2e, 0x75, 0x26, 0x00, 0xf1, 0x00, 0x31, 0x2c, 0x20, 0x37,
0x3b, 0x0a, 0x73, 0x74, 0x2e, 0x67, 0x6c, 0x6f, 0x62, 0x61, 0x6c, 0x16,
0x00, 0xaf, 0x5b, 0x25, 0x64, 0x31, 0x5d, 0x2c, 0x20, 0x25, 0x72, 0x31,
0x1a, 0x00, 0x57, 0x80, 0x72, 0x65, 0x74, 0x3b, 0x0a, 0x7d, 0x0a, 0x00,
0x00, 0x00, 0x00, 0x00
};
static const unsigned char zstd_fat[] = {
0x50, 0xed, 0x55, 0xba, 0x01, 0x00, 0x10, 0x00, 0xf8, 0x00, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01, 0x01, 0x50, 0x00, 0x00, 0x00,
0xa8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa1, 0x00, 0x00, 0x00,
0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x50, 0x00, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x11, 0x80, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
0x26, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x48, 0x00, 0x00, 0x00,
0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x26, 0x00, 0xbd, 0x04, 0x00, 0x62, 0x49,
0x1f, 0x1d, 0x60, 0xb5, 0x6e, 0x30, 0xb7, 0x88, 0x14, 0xef, 0xfa, 0x27,
0x84, 0xf8, 0xfd, 0x1f, 0x04, 0x81, 0xb2, 0xcc, 0x74, 0x0c, 0xfa, 0xca,
0xf4, 0x72, 0x91, 0xe0, 0x51, 0x02, 0x3a, 0x81, 0x0c, 0x48, 0x16, 0xdb,
0x8b, 0xe6, 0xe0, 0xc5, 0xbc, 0xf6, 0xc0, 0x07, 0x6d, 0xfc, 0x64, 0x8b,
0x16, 0x07, 0xb5, 0x15, 0x8c, 0x92, 0x35, 0x13, 0xa3, 0xc5, 0xc1, 0x8b,
0x9f, 0x2f, 0x25, 0x20, 0xec, 0x80, 0x18, 0x78, 0x69, 0xa2, 0x3c, 0xab,
0x50, 0xfb, 0x26, 0x40, 0x0e, 0x26, 0x4d, 0x14, 0x6a, 0x35, 0x6a, 0xde,
0xa6, 0x15, 0xb4, 0xc3, 0xf8, 0x8a, 0xf0, 0x28, 0xf5, 0x6a, 0xbf, 0xc7,
0xbd, 0xab, 0x36, 0x13, 0x45, 0x3b, 0xe1, 0xde, 0xf9, 0x6f, 0x67, 0x6e,
0x9b, 0x46, 0xc1, 0x89, 0x5e, 0x63, 0x43, 0xde, 0xe2, 0xa6, 0xb1, 0x8b,
0x4a, 0xd0, 0xbd, 0x77, 0xb5, 0x01, 0x08, 0x00, 0xa7, 0x67, 0x02, 0xa0,
0x56, 0x91, 0x53, 0xea, 0xa4, 0xae, 0xae, 0x6a, 0x0b, 0x2b, 0x6c, 0xa0,
0xbd, 0x91, 0xde, 0x19, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00
};
// clang-format on

static void stores_7(CUfunction function)
{
    CUdeviceptr p = 0;
    void *arguments[] = { &p };
    OK(cuMemAlloc_v2(&p, 4));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    assert_int_equal(emu_read(p), 7);
    OK(cuMemFree_v2(p));
}

static CUresult load_fat(const void *fat, char *log, size_t size)
{
    CUmodule loaded = NULL;
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)size };
    CUresult result = cuModuleLoadDataEx(&loaded, fat, 2, options, values);
    if (!result) {
        stores_7(emu_function(loaded, "store"));
        OK(cuModuleUnload(loaded));
    }
    return result;
}

TEST(fat_binaries)
{
    const struct {
        uint32_t magic, version;
        const void *fat, *name;
    } wrapper = { 0x466243b1, 1, lz4_fat, NULL }, empty = { 0x466243b1, 1, NULL, NULL };
    char log[1024] = "";
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    CUlinkState link = NULL;
    void *code = NULL;
    OK(load_fat(plain_fat, log, sizeof(log)));
    OK(load_fat(lz4_fat, log, sizeof(log)));
    OK(load_fat(&wrapper, log, sizeof(log)));
    RETURNS(load_fat(&empty, log, sizeof(log)), CUDA_ERROR_INVALID_IMAGE);
    const CUresult result = load_fat(zstd_fat, log, sizeof(log));
    if (result) { // no libzstd here
        assert_int_equal(result, CUDA_ERROR_NO_BINARY_FOR_GPU);
        assert_non_null(strstr(log, "libzstd.so.1 is not there"));
    }
    OK(cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "store"));
    OK(cuKernelGetFunction(&function, kernel));
    stores_7(function);
    OK(cuLibraryUnload(library));
    OK(cuLinkCreate(0, NULL, NULL, &link));
    OK(cuLinkAddData(link, CU_JIT_INPUT_FATBINARY, (void *)(uintptr_t)plain_fat, sizeof(plain_fat),
                     NULL, 0, NULL, NULL));
    OK(cuLinkComplete(link, &code, NULL));
    OK(load_fat(code, log, sizeof(log)));
    OK(cuLinkDestroy(link));
}

/// Machine code, PTX for a newer GPU, and each byte of a fat binary damaged.
TEST(fat_binaries_that_do_not_run)
{
    unsigned char copy[sizeof(lz4_fat)];
    char log[1024] = "";
    memcpy(copy, lz4_fat, sizeof(copy));
    copy[16] = 2; // the kind: machine code
    RETURNS(load_fat(copy, log, sizeof(log)), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_non_null(strstr(log, "machine code for sm_80, and the emulator runs PTX"));
    assert_non_null(strstr(log, "code=compute_90"));
    memcpy(copy, lz4_fat, sizeof(copy));
    copy[16 + 28] = 100; // the target
    RETURNS(load_fat(copy, log, sizeof(log)), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_non_null(strstr(log, "is for sm_100; the device is sm_90"));
    RETURNS(load_fat("\177ELF", log, sizeof(log)), CUDA_ERROR_NO_BINARY_FOR_GPU);
    for (size_t k = 0; k < sizeof(copy); k++) {
        CUlinkState link = NULL;
        CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
        void *values[] = { log, (void *)(uintptr_t)sizeof(log) };
        memcpy(copy, lz4_fat, sizeof(copy));
        copy[k] ^= 0x81;
        // As an input of the linker, whose size is known: it loads or is refused, and reads nothing
        // beyond.
        OK(cuLinkCreate(2, options, values, &link));
        cuLinkAddData(link, CU_JIT_INPUT_FATBINARY, copy, sizeof(copy), NULL, 0, NULL, NULL);
        OK(cuLinkDestroy(link));
        values[1] = (void *)(uintptr_t)sizeof(log);
        OK(cuLinkCreate(2, options, values, &link));
        assert_int_not_equal(cuLinkAddData(link, CU_JIT_INPUT_FATBINARY, (void *)(uintptr_t)lz4_fat,
                                           k, NULL, 0, NULL, NULL),
                             CUDA_SUCCESS);
        OK(cuLinkDestroy(link));
    }
}

// ---- libcudadevrt.a -----------------------------------------------------------------------------

enum { ARCHIVE_HEAD = 60, GRID = 6, BLOCK = 40, ROUNDS = 3 };

static size_t put_member(char *at, const char *name, const char *bytes, size_t length)
{
    snprintf(at, ARCHIVE_HEAD + 1, "%-16s%-12d%-6d%-6d%-8d%-10zu`\n", name, 0, 0, 0, 644, length);
    memcpy(at + ARCHIVE_HEAD, bytes, length);
    if (length % 2)
        at[ARCHIVE_HEAD + length++] = '\n';
    return ARCHIVE_HEAD + length;
}

/// An archive as ar makes one, with an object of that name. Its length.
static size_t put_archive(char *at, const char *name)
{
    char names[64];
    size_t used = 8;
    memcpy(at, "!<arch>\n", used);
    used += put_member(at + used, "/", "odd", 3);
    used +=
        put_member(at + used, "//", names, (size_t)snprintf(names, sizeof(names), "%s/\n", name));
    return used + put_member(at + used, "/0", "\177ELF", 4);
}

/// Each block adds 1 to a sum and all meet; then each notes the sum. So for each round.
static const char meeting_text[] = EMU_TEXT_HEAD
    ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);\n"
    ".extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);\n"
    ".visible .entry meet(.param .u64 p)\n{\n"
    "    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %d<5>;\n"
    "    .param .b32 a; .param .b64 h; .param .b32 f; .param .b32 e; .param .b64 g;\n"
    "    ld.param.u64 %d1, [p];\n"
    "    mov.b32 %r0, %tid.x; mov.b32 %r1, %ctaid.x; mov.b32 %r2, %nctaid.x; mov.b32 %r3, 0;\n"
    "    mad.wide.u32 %d4, %r1, 4, %d1;\n"
    "    st.param.b32 [a], 1; call.uni (g), cudaCGGetIntrinsicHandle, (a); ld.param.b64 %d2, [g];\n"
    "AGAIN:\n"
    "    setp.ne.u32 %p0, %r0, 9;\n"
    "    @!%p0 red.global.add.u32 [%d1], 1;\n"
    "    st.param.b64 [h], %d2; st.param.b32 [f], 0;\n"
    "    call.uni (e), cudaCGSynchronize, (h, f); ld.param.b32 %r4, [e];\n"
    "    @!%p0 ld.global.u32 %r5, [%d1];\n"
    "    @!%p0 add.u32 %r5, %r5, %r4;\n"
    "    mul.lo.u32 %r6, %r2, %r3; cvt.u64.u32 %d3, %r6; shl.b64 %d3, %d3, 2;\n"
    "    add.u64 %d3, %d3, %d4;\n"
    "    @!%p0 st.global.u32 [%d3+4], %r5;\n"
    "    st.param.b64 [h], %d2; st.param.b32 [f], 0;\n"
    "    call.uni (e), cudaCGSynchronize, (h, f);\n"
    "    add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3;\n"
    "    @%p1 bra AGAIN;\n"
    "    ret;\n}\n";

TEST(library_for_kernels)
{
    static char archive[512];
    const size_t length = put_archive(archive, "cuda_device_runtime.o");
    CUlinkState link = NULL;
    CUmodule loaded = NULL;
    CUdeviceptr p = 0;
    void *code = NULL, *arguments[] = { &p };
    size_t bytes = 0;
    OK(cuLinkCreate_v2(0, NULL, NULL, &link));
    OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)meeting_text,
                        sizeof(meeting_text), NULL, 0, NULL, NULL));
    OK(cuLinkAddData_v2(link, CU_JIT_INPUT_LIBRARY, archive, length, NULL, 0, NULL, NULL));
    OK(cuLinkComplete(link, &code, &bytes));
    OK(cuModuleLoadData(&loaded, code));
    OK(cuLinkDestroy(link));
    OK(cuMemAlloc_v2(&p, 4 * (1 + GRID * ROUNDS)));
    OK(cuMemsetD8_v2(p, 0, 4 * (1 + GRID * ROUNDS)));
    CUfunction meet = emu_function(loaded, "meet");
    OK(cuLaunchCooperativeKernel(meet, GRID, 1, 1, BLOCK, 1, 1, 0, NULL, arguments));
    for (unsigned k = 0; k < GRID * ROUNDS; k++)
        assert_int_equal(emu_read(p + 4 + 4 * k), GRID * (1 + k / GRID));
    // Without a cooperative launch there is no grid to wait for.
    OK(cuLaunchKernel(meet, 1, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL));
    RETURNS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    cuEmulatorClearError();
    OK(cuMemFree_v2(p));
    OK(cuModuleUnload(loaded));
}

TEST(other_libraries)
{
    static char archive[512];
    const size_t length = put_archive(archive, "cuda_device_runtime.o");
    char *exact = malloc(length);
    CUlinkState link = NULL;
    assert_non_null(exact);
    OK(cuLinkCreate_v2(0, NULL, NULL, &link));
    // Cut before the end of its names, an archive is none; nothing is read beyond it.
    const size_t names_end = length - ARCHIVE_HEAD - 4 - 1; // and a byte of padding
    for (size_t k = 1; k < names_end; k++) {
        ALLOCATED(char) *cut = malloc(k);
        assert_non_null(cut);
        memcpy(cut, archive, k);
        assert_int_not_equal(
            cuLinkAddData_v2(link, CU_JIT_INPUT_LIBRARY, cut, k, NULL, 0, NULL, NULL),
            CUDA_SUCCESS);
    }
    memcpy(exact, archive, length);
    OK(cuLinkAddData_v2(link, CU_JIT_INPUT_LIBRARY, exact, length, NULL, 0, NULL, NULL));
    free(exact);
    RETURNS(cuLinkAddData_v2(link, CU_JIT_INPUT_LIBRARY, archive,
                             put_archive(archive, "some_other_library.o"), NULL, 0, NULL, NULL),
            CUDA_ERROR_NOT_SUPPORTED);
    OK(cuLinkDestroy(link));
}

int main(void)
{
    emu_context();
    return tests_run(NULL, NULL);
}

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

static void linking(void **state)
{
    (void)state;
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
    RETURNS(cuLinkAddData(second, CU_JIT_INPUT_CUBIN, code, bytes, NULL, 0, NULL, NULL),
            CUDA_ERROR_NOT_SUPPORTED);
    OK(cuLinkComplete(second, &copy, &again));
    assert_int_equal(again, bytes);
    assert_memory_equal(copy, code, bytes);
    OK(cuLinkDestroy(second));
    RETURNS(cuLinkDestroy(second), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuLinkComplete(second, &copy, &again), CUDA_ERROR_INVALID_HANDLE);
    OK(cuLinkDestroy(first));
}

static void damaged_code(void **state)
{
    (void)state;
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

static void errors_of_linking(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linking),
        cmocka_unit_test(damaged_code),
        cmocka_unit_test(errors_of_linking),
    };
    emu_context();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

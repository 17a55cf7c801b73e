// SPDX-License-Identifier: MIT
/// Modules: the options that reach the compiler, and what is read from the text.
#include "driver_fixture.h"

#include <limits.h>

/// A message that is too long is cut, with "..." at its end.
FAKE_TEST(endless_message)
{
    char name[10000];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    assert_null(ptx_module_function(module, name));
    assert_error(PTX_ERROR_NOT_FOUND, "the module has no kernel xxx");
    size_t length = strlen(ptx_error_message());
    assert_in_range(length, 4000, sizeof(name));
    assert_string_equal(ptx_error_message() + length - 3, "...");
}

static bool has_option(CUjit_option option, uintptr_t value)
{
    for (unsigned i = 0; i < fake->option_count; i++)
        if (fake->options[i] == option)
            return (uintptr_t)fake->values[i] == value;
    return false;
}

FAKE_TEST(options_and_log)
{
    OWNED(ptx_device) *device = open_device();
    ptx_module *module = ptx_module_load(device, KERNEL_TEXT, NULL);
    assert_int_equal(fake->option_count, 4);
    ptx_module_unload(&module);
    atomic_store(&fake->loads, 0);
    module = ptx_module_load(
        device, KERNEL_TEXT,
        &(struct ptx_module_params) { .max_registers = 40, .line_info = true, .verbose = true });
    assert_int_equal(fake->option_count, 7);
    assert_true(has_option(CU_JIT_MAX_REGISTERS, 40));
    assert_true(has_option(CU_JIT_GENERATE_LINE_INFO, 1));
    assert_true(has_option(CU_JIT_LOG_VERBOSE, 1));
    assert_string_equal(ptx_module_log(module), "");
    assert_string_equal(ptx_module_log(NULL), "");
    ptx_module_unload(&module);
    module = ptx_module_load(device, KERNEL_TEXT "\n.file 1 \"kernel.c\"\n", NULL);
    assert_true(has_option(CU_JIT_GENERATE_LINE_INFO, 1));
    ptx_module_unload(&module);
    ptx_module_unload(&module);
    ptx_module_unload(NULL);
    assert_null(ptx_module_load(device, NULL, NULL));
    assert_error(PTX_ERROR_INVALID, "the text is NULL");
    assert_null(ptx_module_load(device, "", &(struct ptx_module_params) { .max_registers = -1 }));
    assert_error(PTX_ERROR_INVALID, "max_registers is negative");
    assert_null(ptx_module_load(NULL, KERNEL_TEXT, NULL));
    assert_error(PTX_ERROR_INVALID, "the device is NULL");
}

/// A GPU with no more shared memory per block than a kernel gets without opting in.
FAKE_TEST(no_more_shared_memory)
{
    fake->static_shared = 1024;
    fake->shared_optin = 49152;
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    const ptx_function *scale = ptx_module_function(module, "scale");
    assert_int_equal(ptx_function_get_info(scale)->max_dynamic_shared, 49152 - 1024);
}

FAKE_TEST(functions_and_their_facts)
{
    fake->static_shared = 1024;
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    int calls = atomic_load(&fake->calls);
    ptx_function *scale = ptx_module_function(module, "scale");
    assert_ptr_equal(scale, ptx_module_function(module, "scale"));
    assert_int_equal(atomic_load(&fake->calls), calls);
    const struct ptx_function_info *info = ptx_function_get_info(scale);
    assert_string_equal(info->name, "scale");
    assert_int_equal(info->param_count, 3);
    assert_string_equal(info->params[0].name, "data");
    assert_string_equal(info->params[0].type, "u64");
    assert_int_equal(info->params[0].size, 8);
    assert_string_equal(info->params[2].name, "factor");
    assert_int_equal(info->params[2].size, 4);
    assert_int_equal(info->params[2].offset, 12);
    assert_int_equal(info->max_threads_per_block, 512);
    assert_int_equal(info->registers, 100 + CU_FUNC_ATTRIBUTE_NUM_REGS);
    assert_int_equal(info->local, 100 + CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    assert_int_equal(info->static_shared, 1024);
    assert_int_equal(info->max_dynamic_shared, 232448 - 1024);
    assert_int_equal(info->required_block[0], 0);

    info = ptx_function_get_info(ptx_module_function(module, "fixed"));
    assert_int_equal(info->param_count, 0);
    assert_int_equal(info->required_block[0], 128);
    assert_int_equal(info->required_block[1], 2);
    assert_int_equal(info->required_block[2], 1);

    assert_null(ptx_module_function(module, "scald"));
    assert_error(PTX_ERROR_NOT_FOUND, "no kernel scald; it has: scale, fixed");
    assert_null(ptx_module_function(module, NULL));
    assert_error(PTX_ERROR_INVALID, "the name is NULL");
    assert_null(ptx_module_function(NULL, "scale"));
    assert_error(PTX_ERROR_INVALID, "the module is NULL");
    assert_null(ptx_function_get_info(NULL));

    int blocks = 0;
    assert_int_equal(ptx_function_occupancy(scale, 128, 0, &blocks), PTX_OK);
    assert_int_equal(blocks, 16);
    assert_int_equal(ptx_function_occupancy(scale, 128, 64, &blocks), PTX_OK);
    assert_int_equal(blocks, 15);
    assert_int_equal(ptx_function_occupancy(scale, 0, 0, &blocks), PTX_ERROR_INVALID);
    assert_int_equal(ptx_function_occupancy(scale, 1, 0, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_function_occupancy(NULL, 1, 0, &blocks), PTX_ERROR_INVALID);
}

FAKE_TEST(variables)
{
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    CUdeviceptr address = 0;
    size_t bytes = 0;
    assert_int_equal(ptx_module_global(module, "counter", &address, &bytes), PTX_OK);
    assert_true(address != 0);
    assert_int_equal(bytes, 8);
    assert_int_equal(ptx_module_global(module, "counter", NULL, NULL), PTX_OK);
    assert_int_equal(ptx_module_global(module, "absent", &address, NULL), PTX_ERROR_NOT_FOUND);
    assert_message("variable: absent");
    assert_int_equal(ptx_module_global(NULL, "counter", NULL, NULL), PTX_ERROR_INVALID);
    assert_int_equal(ptx_module_global(module, NULL, NULL, NULL), PTX_ERROR_INVALID);
}

/// Text in the styles of nvcc and of people.
FAKE_TEST(text_of_others)
{
    static const char text[] =
        "/* .version 1.0 */ .version 7.8 .target sm_90a, debug\n.address_size 64\r\n"
        ".entry hidden(.param.u32 x){ret;}\n"
        ".func (.param .b32 r) f(.param .b32 a) { .loc 1 2 3; ret; }\n"
        ".file 1 \"odd .entry name\"\n"
        ".visible .entry _Z3addPfi$1(\n"
        "\t.param .align 8 .b8 pair[24],\n"
        "\t.param .b8 flag,\n"
        "\t.param .align 4 .b8 table[2][3],\n"
        "\t.param .bf16x2 packed, .param .f64 %wide\n"
        ")\n.maxntid 0x100, 1, 1\n.minnctapersm 2\n.reqntid 32\n{ bra.uni $L; }\n"
        ".visible .entry bare { ret; }\n";
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_module) *module = load_module(device, text);
    const struct ptx_function_info *info =
        ptx_function_get_info(ptx_module_function(module, "_Z3addPfi$1"));
    assert_int_equal(info->param_count, 5);
    static const size_t sizes[] = { 24, 1, 6, 4, 8 };
    static const size_t offsets[] = { 0, 24, 28, 36, 40 };
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(info->params[i].size, sizes[i]);
        assert_int_equal(info->params[i].offset, offsets[i]);
    }
    assert_string_equal(info->params[3].type, "bf16x2");
    assert_string_equal(info->params[4].name, "%wide");
    assert_int_equal(info->required_block[0], 32);
    assert_int_equal(info->required_block[2], 1);
    assert_int_equal(ptx_function_get_info(ptx_module_function(module, "bare"))->param_count, 0);
    assert_ptr_equal(ptx_module_function_at(module, 0), ptx_module_function(module, "_Z3addPfi$1"));
    assert_ptr_equal(ptx_module_function_at(module, 1), ptx_module_function(module, "bare"));
    assert_null(ptx_module_function_at(module, 2));
    assert_null(ptx_module_function_at(NULL, 0));
    assert_null(ptx_module_function(module, "hidden"));
    assert_error(PTX_ERROR_NOT_FOUND, "put .visible before its .entry");
}

FAKE_TEST(unreadable_parameters)
{
    static const char *const texts[] = {
        ".version 8.0\n.visible .entry k(\n.param .q32 x) {}",
        ".version 8.0\n.visible .entry k(\n.reg .u32 x) {}",
        ".version 8.0\n.visible .entry k(\n.param .u32 ) {}",
        ".version 8.0\n.visible .entry k(\n.param .u32 x[4 .param .u32 y) {}",
        ".version 8.0\n.visible .entry k(\n.param .u32 x .param .u32 y) {}",
        ".version 8.0\n.visible .entry k(\n.param .u32 x,",
        ".version 8.0\n.visible .entry k(\n /* never closed",
        ".version 8.0\n.visible .entry k(\n \"never closed",
    };
    OWNED(ptx_device) *device = open_device();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_null(ptx_module_load(device, texts[i], NULL));
        assert_error(PTX_ERROR_UNSUPPORTED, "cannot read the parameters of kernel k in line 3");
    }
    assert_null(ptx_module_load(device, texts[0], NULL));
    assert_message("near '.q32': ");
    assert_null(ptx_module_load(device,
                                ".visible .entry k(.param "
                                ".u123456789_123456789_123456789_123456789_123456789 x) {}",
                                NULL));
    assert_message("near '.u123456789_123456789_123456789_12345678': ");
    char many[40000] = ".visible .entry k(";
    char *end = many + strlen(many);
    for (int i = 0; i < 600; i++)
        end += sprintf(end, "%s.param .u32 p%d", i ? "," : "", i);
    strcpy(end, ") {}");
    assert_null(ptx_module_load(device, many, NULL));
    assert_error(PTX_ERROR_UNSUPPORTED, "kernel k has more than 512 parameters");
}

/// Numbers too large for an int or a size, and numbers that PTX does not allow, are refused. Valid
/// numbers in other bases are read.
FAKE_TEST(numbers_in_text)
{
    static const char *const texts[] = {
        "k(\n.param .b8 x[0])",
        "k(\n.param .b8 x[4294967296])",
        "k(\n.param .b8 x[65536][65536])",
        "k(\n.param .b64 x[2305843009213693953])",
        "k(\n.param .b8 x[99999999999999999999999])",
        "k(\n.param .b8 x[-1])",
        "k(\n.param .b8 x[08])",
        "k(\n.param .align 0 .b8 x[8])",
        "k(\n.param .align 18446744073709551615 .b8 x[8])",
        "k()\n.reqntid 4294967297",
        "k()\n.reqntid 0",
        "k()\n.reqntid 1, 2147483648",
        "k()\n.reqntid 1, 1, 99999999999999999999999",
    };
    OWNED(ptx_device) *device = open_device();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char text[200];
        snprintf(text, sizeof(text), ".version 8.0\n.visible .entry %s {}", texts[i]);
        assert_null(ptx_module_load(device, text, NULL));
        assert_error(PTX_ERROR_UNSUPPORTED, "cannot read the ");
        assert_message("of kernel k in line 3");
    }
    OWNED(ptx_module) *module =
        load_module(device, ".version 0x8.0b100\n.visible .entry k(.param .align 0x10U .b8 x[0b11]"
                            "[010U], .param .b8 y[0B11][0X1A]) .reqntid 0x20, 2147483647U {}");
    const struct ptx_function_info *info = ptx_function_get_info(ptx_module_function(module, "k"));
    assert_int_equal(info->params[0].size, 24);
    assert_int_equal(info->params[1].size, 78);
    assert_int_equal(info->required_block[0], 32);
    assert_int_equal(info->required_block[1], INT_MAX);
}

/// Loading on a stream under capture is refused before the driver is called.
FAKE_TEST(loading_under_capture_is_refused)
{
    OWNED(ptx_device) *device = open_device();
    CUstream captured = fake->stream_create(ptx_device_context(device), false);
    fake->capture_begin(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    struct ptx_module_params params = { .stream = captured };
    assert_null(ptx_module_load(device, KERNEL_TEXT, &params));
    assert_error(PTX_ERROR_CAPTURE, "the stream is being captured");
    assert_message("before the capture begins");
    assert_int_equal(atomic_load(&fake->loads), 0);
    assert_int_equal(fake->capture_end(captured), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OWNED(ptx_module) *module = ptx_module_load(device, KERNEL_TEXT, &params);
    assert_non_null(module);
    free(captured);
}

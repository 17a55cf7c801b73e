// SPDX-License-Identifier: MIT
// The reader with hostile files, and the writer with the reader.
#include "safetensors.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// A file: the header's length, given or actual; the header; the number of bytes of data.
struct hostile {
    const char *what;
    const char *header;
    size_t data_bytes;
    const char *expected[3]; ///< words of the message
    uint64_t length;
    bool lie; ///< `length` is what the first 8 bytes say
};

#define T(fields)       "{\"w\":{" fields "}}"
#define F32(shape, at)  "\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" at
#define U8(name, at, n) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" n "],\"data_offsets\":" at "}"

static const struct hostile hostiles[] = {
    // The prefix.
    { "length above the limit", "{}", 0, { "byte 0", "100000001", "limit" }, 100000001, true },
    { "length of all ones", "{}", 0, { "byte 0", "18446744073709551615" }, UINT64_MAX, true },
    { "length beyond the file", "{}", 0, { "truncated", "length 3", "2 bytes follow" }, 3, true },
    { "no header", "", 0, { "byte 8", "begin with '{'" } },
    { "header of blanks", "   ", 0, { "byte 8", "begin with '{'" } },
    { "header of an array", "[]", 0, { "byte 8", "begin with '{'" } },
    // JSON.
    { "open object", "{\"w\":", 0, { "not valid JSON", "byte 13" } },
    { "open string", "{\"w", 0, { "not valid JSON" } },
    { "escape at the end", "{\"\\", 0, { "not valid JSON" } },
    { "text behind the object", "{} x", 0, { "not valid JSON", "byte" } },
    { "two objects", "{}{}", 0, { "not valid JSON" } },
    { "bad UTF-8", "{\"\xff\":1}", 0, { "not valid JSON" } },
    { "NUL in a name", "{\"a\\u0000b\":1}", 0, { "not valid JSON" } },
    { "number beyond 64 bits", T(F32("[99999999999999999999]", "[0,0]")), 0, { "not valid JSON" } },
    { "duplicate tensor",
      "{" U8("w", "[0,1]", "1") "," U8("w", "[0,1]", "1") "}",
      1,
      { "not valid JSON", "duplicate" } },
    { "duplicate key", T(F32("[]", "[0,4]") ",\"dtype\":\"F32\""), 4, { "duplicate" } },
    { "deep nesting", "{\"w\":{\"shape\":[[[[[[0]]]]]]}}", 0, { "byte 23", "nests deeper" } },
    { "deep objects", "{\"a\":{\"a\":{\"a\":{}}}}", 0, { "byte 23", "nests deeper" } },
    { "too many dimensions",
      T(F32(
          "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
          "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
          "[0,4]")),
      4,
      { "more than 64 numbers", "byte" } },
    // Entries.
    { "entry of a number", "{\"w\":1}", 0, { "tensor 'w'", "must be an object" } },
    { "entry of null", "{\"w\":null}", 0, { "tensor 'w'", "must be an object" } },
    { "no dtype", T("\"shape\":[],\"data_offsets\":[0,4]"), 4, { "'w'", "dtype is missing" } },
    { "no shape", T("\"dtype\":\"F32\",\"data_offsets\":[0,4]"), 4, { "'w'", "shape is missing" } },
    { "no offsets", T("\"dtype\":\"F32\",\"shape\":[]"), 4, { "'w'", "data_offsets is missing" } },
    { "more fields", T(F32("[]", "[0,4]") ",\"x\":1"), 4, { "'w'", "more than" } },
    { "unknown dtype",
      T("\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]"),
      4,
      { "'w'", "unknown dtype 'F31'" } },
    { "dtype of a number",
      T("\"dtype\":1,\"shape\":[],\"data_offsets\":[0,4]"),
      4,
      { "'w'", "dtype must be a string" } },
    { "dtype in small letters",
      T("\"dtype\":\"f32\",\"shape\":[],\"data_offsets\":[0,4]"),
      4,
      { "'w'", "unknown dtype 'f32'" } },
    { "name with a terminal's escapes", "{\"\\u001b[2J\":1}", 0, { "'\\x1b[2J'" } },
    // Shapes.
    { "shape of a number", T(F32("4", "[0,4]")), 4, { "'w'", "shape must be an array" } },
    { "negative extent", T(F32("[-1]", "[0,4]")), 4, { "'w'", "shape[0]", "not -1" } },
    { "extent of a fraction",
      T(F32("[1,1.0]", "[0,4]")),
      4,
      { "'w'", "shape[1]", "an integer, 0 or more; 1 is written with a point or an exponent" } },
    { "extent of a string", T(F32("[\"1\"]", "[0,4]")), 4, { "'w'", "shape[0]" } },
    { "extent of an array", T(F32("[1,true]", "[0,4]")), 4, { "'w'", "shape[1]" } },
    { "product beyond 64 bits",
      T(F32("[4294967296,4294967296]", "[0,4]")),
      4,
      { "'w'", "64 bits" } },
    { "bytes beyond 64 bits", T(F32("[4611686018427387904]", "[0,0]")), 0, { "'w'", "64 bits" } },
    { "product that wraps to the size",
      T(F32("[4611686018427387905]", "[0,4]")),
      4,
      { "'w'", "64 bits" } },
    { "product with a zero behind",
      T(F32("[4294967296,4294967296,0]", "[0,0]")),
      0,
      { "'w'", "64 bits" } },
    // Offsets.
    { "one offset", T(F32("[]", "[4]")), 4, { "'w'", "two integers" } },
    { "three offsets", T(F32("[]", "[0,4,8]")), 4, { "'w'", "two integers" } },
    { "offsets of an object", T(F32("[]", "{}")), 4, { "'w'", "two integers" } },
    { "negative offset", T(F32("[]", "[-4,0]")), 4, { "'w'", "data_offsets[0]", "not -4" } },
    { "offset of a fraction", T(F32("[]", "[0,4.5]")), 4, { "'w'", "data_offsets[1]", "4.5" } },
    { "offsets backwards", T(F32("[]", "[4,0]")), 4, { "'w'", "[4, 0]", "end before" } },
    { "end beyond the data",
      T(F32("[]", "[4,8]")),
      4,
      { "'w'", "beyond the data", "has 4 bytes" } },
    { "end far beyond the data",
      T(F32("[]", "[0,9223372036854775807]")),
      4,
      { "'w'", "beyond the data", "has 4 bytes" } },
    { "truncated data", T(F32("[2]", "[0,8]")), 7, { "'w'", "beyond the data", "has 7 bytes" } },
    { "shape of fewer bytes", T(F32("[1]", "[0,8]")), 8, { "'w'", "hold 8 bytes", "take 4" } },
    { "shape of more bytes", T(F32("[3]", "[0,8]")), 8, { "'w'", "hold 8 bytes", "take 12" } },
    { "overlap",
      "{" U8("a", "[0,4]", "4") "," U8("b", "[2,6]", "4") "}",
      6,
      { "'b'", "overlaps tensor 'a'", "byte" } },
    { "the same bytes twice",
      "{" U8("a", "[0,4]", "4") "," U8("b", "[0,4]", "4") "}",
      4,
      { "overlaps tensor" } },
    { "gap",
      "{" U8("a", "[0,2]", "2") "," U8("b", "[4,6]", "2") "}",
      6,
      { "'b'", "a gap of 2 bytes" } },
    { "gap at the begin", "{" U8("a", "[1,3]", "2") "}", 3, { "'a'", "a gap of 1 byte" } },
    { "bytes at the end", "{" U8("a", "[0,2]", "2") "}", 5, { "3 bytes that no tensor has" } },
    { "nothing", "{}", 0, { "there is no tensor in it" } },
    { "metadata alone", "{\"__metadata__\":{\"a\":\"b\"}}", 0, { "there is no tensor in it" } },
    { "data of no tensor", "{}", 1, { "1 byte that no tensor has", "byte 10" } },
    // Metadata.
    { "metadata of a string", "{\"__metadata__\":\"x\"}", 0, { "__metadata__", "object" } },
    { "metadata of numbers", "{\"__metadata__\":{\"k\":1}}", 0, { "__metadata__", "'k'" } },
};

enum { HOSTILE_COUNT = sizeof(hostiles) / sizeof(hostiles[0]) };

static uint8_t *make_file(const char *header, size_t data_bytes, bool lie, uint64_t length,
                          size_t *size)
{
    size_t header_bytes = strlen(header);
    uint64_t said = lie ? length : header_bytes;
    *size = 8 + header_bytes + data_bytes;
    // Exactly this size, so that a sanitizer detects a read beyond it.
    uint8_t *bytes = calloc(1, *size);
    assert_non_null(bytes);
    for (unsigned k = 0; k < 8; k++)
        bytes[k] = (uint8_t)(said >> 8 * k);
    memcpy(bytes + 8, header, header_bytes);
    return bytes;
}

TEST(test_hostile)
{
    for (size_t k = 0; k < HOSTILE_COUNT; k++) {
        const struct hostile *h = &hostiles[k];
        struct tensor_file file;
        struct message error = { "" };
        size_t size;
        uint8_t *bytes = make_file(h->header, h->data_bytes, h->lie, h->length, &size);
        if (tensor_file_parse(&file, "hostile.safetensors", bytes, size, &error))
            fail_msg("%s: was read", h->what);
        if (strncmp(error.text, "hostile.safetensors: ", 21) != 0)
            fail_msg("%s: does not name the file: %s", h->what, error.text);
        for (size_t e = 0; e < 3 && h->expected[e]; e++)
            if (!strstr(error.text, h->expected[e]))
                fail_msg("%s: no \"%s\" in: %s", h->what, h->expected[e], error.text);
        for (const char *c = error.text; *c; c++)
            if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
                fail_msg("%s: byte %02x in the message", h->what, (unsigned char)*c);
        free(bytes);
    }
}

TEST(test_too_short)
{
    for (size_t size = 0; size < 8; size++) {
        struct tensor_file file;
        struct message error = { "" };
        uint8_t *bytes = calloc(1, size + !size);
        assert_false(tensor_file_parse(&file, "short", bytes, size, &error));
        assert_non_null(strstr(error.text, "too short"));
        free(bytes);
    }
}

/// Each shorter file that cutting off a valid one gives.
TEST(test_truncated)
{
    const char *header = "{" U8("a", "[0,2]", "2") "," U8("b", "[2,6]", "4") "}";
    size_t size;
    uint8_t *bytes = make_file(header, 6, false, 0, &size);
    for (size_t cut = 0; cut < size; cut++) {
        struct tensor_file file;
        struct message error = { "" };
        uint8_t *part = malloc(cut + !cut);
        assert_non_null(part);
        memcpy(part, bytes, cut);
        assert_false(tensor_file_parse(&file, "cut", part, cut, &error));
        free(part);
    }
    struct tensor_file file;
    struct message error;
    assert_true(tensor_file_parse(&file, "whole", bytes, size, &error));
    tensor_file_close(&file);
    free(bytes);
}

TEST(test_good)
{
    const char *header = "{\"__metadata__\":{\"format\":\"pt\"},"
                         "\"matrix\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[1,25]},"
                         "\"empty\":{\"dtype\":\"BF16\",\"shape\":[0,7],\"data_offsets\":[1,1]},"
                         "\"scalar\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}   ";
    size_t size;
    struct tensor_file file;
    struct message error = { "" };
    uint8_t *bytes = make_file(header, 25, false, 0, &size);
    if (!tensor_file_parse(&file, "good", bytes, size, &error))
        fail_msg("%s", error.text);
    assert_int_equal(file.count, 3);
    assert_int_equal(file.note_count, 1);
    assert_string_equal(file.notes[0].key, "format");
    assert_string_equal(file.notes[0].value, "pt");
    const struct tensor *matrix = tensor_file_find(&file, "matrix");
    assert_non_null(matrix);
    assert_int_equal(matrix->rank, 2);
    assert_int_equal(matrix->shape[0], 2);
    assert_int_equal(matrix->shape[1], 3);
    assert_int_equal(matrix->count, 6);
    assert_int_equal(matrix->bytes, 24);
    assert_int_equal(matrix->dtype->type, PTX_F32);
    assert_ptr_equal(matrix->data, bytes + size - 24);
    assert_int_equal(tensor_file_find(&file, "scalar")->count, 1);
    assert_int_equal(tensor_file_find(&file, "scalar")->rank, 0);
    assert_int_equal(tensor_file_find(&file, "empty")->count, 0);
    assert_null(tensor_file_find(&file, "__metadata__"));
    assert_null(tensor_file_find(&file, "none"));
    tensor_file_close(&file);
    free(bytes);
}

/// A temporary folder of the test. Its files are removed by name.
struct folder {
    char path[64];
    char file[80];
};

static int make_folder(void **state)
{
    struct folder *folder = calloc(1, sizeof(*folder));
    strcpy(folder->path, "/tmp/ptxgen-test-XXXXXX");
    if (!mkdtemp(folder->path))
        return -1;
    snprintf(folder->file, sizeof(folder->file), "%s/a.safetensors", folder->path);
    *state = folder;
    return 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    unlink(folder->file);
    // Fails, and so does the test, if a temporary file is left.
    int failed = rmdir(folder->path);
    free(folder);
    return failed;
}

static const uint64_t shape_2_3[] = { 2, 3 };
static const uint64_t shape_5[] = { 5 };

TEST_WITH(test_write_every_dtype, make_folder, remove_folder)
{
    struct folder *folder = *state;
    static const uint8_t data[48] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, [47] = 48 };
    struct tensor tensors[] = {
#define TENSOR(name, bytes, type) { #name, NULL, shape_2_3, 2, 6, 6 * bytes, data },
        TENSOR_DTYPES(TENSOR)
#undef TENSOR
    };
    const size_t count = sizeof(tensors) / sizeof(tensors[0]);
    const struct tensor_note notes[] = { { "who", "said \"\xc3\xa9\"\n" }, { "", "" } };
    for (size_t k = 0; k < count; k++)
        tensors[k].dtype = tensor_dtype_named(tensors[k].name);
    struct message error = { "" };
    struct tensor_file file;
    if (!tensor_file_write(folder->file, false, tensors, count, notes, 2, &error) ||
        !tensor_file_open(&file, folder->file, &error))
        fail_msg("%s", error.text);
    assert_int_equal(file.count, count);
    for (size_t k = 0; k < count; k++) {
        const struct tensor *tensor = tensor_file_find(&file, tensors[k].name);
        assert_non_null(tensor);
        assert_string_equal(tensor->dtype->name, tensors[k].name);
        assert_int_equal(tensor->rank, 2);
        assert_int_equal(tensor->bytes, tensors[k].bytes);
        assert_memory_equal(tensor->data, data, tensor->bytes);
        assert_int_equal((uintptr_t)tensor->data % tensor->dtype->bytes, 0);
    }
    assert_int_equal(file.note_count, 2);
    assert_string_equal(file.notes[0].value, notes[0].value);
    assert_string_equal(file.notes[1].key, "");
    tensor_file_close(&file);
}

TEST_WITH(test_write_nothing, make_folder, remove_folder)
{
    struct folder *folder = *state;
    struct message error = { "" };
    struct tensor_file file;
    assert_true(tensor_file_write(folder->file, false, NULL, 0, NULL, 0, &error));
    assert_false(tensor_file_open(&file, folder->file, &error));
    assert_non_null(strstr(error.text, "there is no tensor in it"));
}

/// The output file may be the input file.
TEST_WITH(test_write_over_input, make_folder, remove_folder)
{
    struct folder *folder = *state;
    struct message error = { "" };
    struct tensor_file file;
    const struct tensor_dtype *u8 = tensor_dtype_of(PTX_U8);
    struct tensor tensor = { "x", u8, shape_5, 1, 5, 5, "abcde" };
    assert_true(tensor_file_write(folder->file, false, &tensor, 1, NULL, 0, &error));
    assert_true(tensor_file_open(&file, folder->file, &error));
    tensor.data = "fghij";
    assert_true(tensor_file_write(folder->file, false, &tensor, 1, NULL, 0, &error));
    assert_memory_equal(file.tensors[0].data, "abcde", 5);
    tensor_file_close(&file);
    assert_true(tensor_file_open(&file, folder->file, &error));
    assert_memory_equal(file.tensors[0].data, "fghij", 5);
    tensor_file_close(&file);
}

TEST(test_write_fails)
{
    struct message error = { "" };
    assert_false(tensor_file_write("/nonexistent/a", false, NULL, 0, NULL, 0, &error));
    assert_non_null(strstr(error.text, "/nonexistent/a: No such file"));
    // A file that is not a regular one is written to, not replaced.
    if (access("/dev/full", W_OK) == 0) {
        assert_false(tensor_file_write("/dev/full", false, NULL, 0, NULL, 0, &error));
        assert_non_null(strstr(error.text, "No space left"));
        assert_int_equal(access("/dev/full", W_OK), 0);
    }
}

TEST_WITH(test_open_fails, make_folder, remove_folder)
{
    struct folder *folder = *state;
    struct message error = { "" };
    struct tensor_file file;
    assert_false(tensor_file_open(&file, folder->file, &error));
    assert_non_null(strstr(error.text, "No such file"));
    assert_false(tensor_file_open(&file, folder->path, &error));
    assert_non_null(strstr(error.text, "not a regular file"));
    FILE *empty = fopen(folder->file, "wb");
    assert_non_null(empty);
    fclose(empty);
    assert_false(tensor_file_open(&file, folder->file, &error));
    assert_non_null(strstr(error.text, "empty"));
}

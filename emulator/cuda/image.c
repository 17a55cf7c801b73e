// SPDX-License-Identifier: MIT
// Images: what a program may pass as code, and the PTX texts in it. Plain text, the linker's code
// (linker.c), fat binaries and nvcc's wrapper of one.
#define _POSIX_C_SOURCE 200809L // strnlen
#include "image.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char fat_magic[] = "\x50\xed\x55\xba", wrapper_magic[] = "\xb1\x43\x62\x46";
static const char tile_magic[] = "\x7fTileIR"; // and a zero

// Fields of a fat binary's head, and of the head of each of its images; offsets in bytes.
enum {
    FAT_HEAD_BYTES = 6, // u16
    FAT_BYTES = 8,      // u64, without the head
    FAT_HEAD = 16,
    ENTRY_KIND = 0,        // u16
    ENTRY_HEAD_BYTES = 4,  // u32
    ENTRY_BYTES = 8,       // u64, without the head
    ENTRY_PACKED = 16,     // u32: bytes of the compressed text, without padding
    ENTRY_SM = 28,         // u32
    ENTRY_FLAGS = 40,      // u64
    ENTRY_TEXT_BYTES = 56, // u64: of the text, if it is compressed
    ENTRY_HEAD = 64,
    KIND_PTX = 1,
    KIND_MACHINE_CODE = 2,
    FLAG_LZ4 = 0x2000,
    FLAG_ZSTD = 0x8000,
};

static const uint64_t MOST_BYTES = UINT64_C(1) << 30;

static uint64_t field(const unsigned char *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned k = 0; k < bytes; k++)
        value |= (uint64_t)at[k] << 8 * k;
    return value;
}

static CUresult wrong(char *log, size_t size, CUresult result, const char *text)
{
    snprintf(log, size, "error   : %s", text);
    return result;
}

// ---- compressed texts ---------------------------------------------------------------------------

// A length of 15 continues in the next bytes, up to one that is not 255.
static bool lz4_length(const unsigned char **at, const unsigned char *end, size_t *length)
{
    unsigned char more = 255;
    if (*length != 15)
        return true;
    while (more == 255) {
        if (*at == end)
            return false;
        more = *(*at)++;
        *length += more;
    }
    return true;
}

// The LZ4 block format: literals, then a copy of what was written before, and so on.
static bool lz4(const unsigned char *at, size_t bytes, char *text, size_t text_bytes)
{
    const unsigned char *end = at + bytes;
    size_t used = 0;
    while (at < end) {
        const unsigned char token = *at++;
        size_t length = token >> 4;
        if (!lz4_length(&at, end, &length) || length > (size_t)(end - at) ||
            length > text_bytes - used)
            return false;
        memcpy(text + used, at, length);
        used += length;
        at += length;
        if (at == end)
            break;
        if (end - at < 2)
            return false;
        const size_t back = (size_t)field(at, 2);
        at += 2;
        length = token & 15;
        if (!lz4_length(&at, end, &length))
            return false;
        length += 4;
        if (back == 0 || back > used || length > text_bytes - used)
            return false;
        for (; length; length--, used++)
            text[used] = text[used - back];
    }
    return used == text_bytes;
}

// By libzstd, which is on most systems and which nothing else here needs.
static CUresult zstd(const unsigned char *at, size_t bytes, char *text, size_t text_bytes,
                     char *log, size_t log_size)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    size_t (*decompress)(void *, size_t, const void *, size_t) = NULL;
    void *symbol = library ? dlsym(library, "ZSTD_decompress") : NULL;
    if (symbol)
        memcpy(&decompress, &symbol, sizeof(decompress));
    const size_t written = decompress ? decompress(text, text_bytes, at, bytes) : 0;
    if (library)
        dlclose(library);
    if (!decompress)
        return wrong(log, log_size, CUDA_ERROR_NO_BINARY_FOR_GPU,
                     "the PTX of the fat binary is compressed with zstd, and libzstd.so.1 is not "
                     "there: install it, or compile with --compress-mode=none");
    return written == text_bytes
               ? CUDA_SUCCESS
               : wrong(log, log_size, CUDA_ERROR_INVALID_IMAGE, "the fat binary is damaged");
}

// ---- fat binaries -------------------------------------------------------------------------------

// What was found among the images of a fat binary.
struct found {
    const unsigned char *entry; // the PTX for the newest GPU that is not newer than the device
    uint64_t sm;                // of the entry
    uint64_t newer, code;       // PTX for newer GPUs alone, machine code: for which GPU; 0: none
};

static void consider(struct found *found, const unsigned char *entry)
{
    const uint64_t kind = field(entry + ENTRY_KIND, 2), sm = field(entry + ENTRY_SM, 4);
    if (kind == KIND_MACHINE_CODE)
        found->code = sm;
    if (kind != KIND_PTX)
        return;
    if (sm > (uint64_t)api_gpu()->sm)
        found->newer = sm;
    else if (!found->entry || sm > found->sm)
        *found = (struct found) { entry, sm, found->newer, found->code };
}

static bool each_image(const unsigned char *fat, size_t bytes, struct found *found)
{
    if (bytes < FAT_HEAD)
        return false;
    const uint64_t head = field(fat + FAT_HEAD_BYTES, 2), size = field(fat + FAT_BYTES, 8);
    if (head < FAT_HEAD || size > MOST_BYTES || head + size > bytes)
        return false;
    for (uint64_t at = head; at < head + size;) {
        const uint64_t left = head + size - at;
        if (left < ENTRY_HEAD)
            return false;
        const uint64_t entry_head = field(fat + at + ENTRY_HEAD_BYTES, 4);
        const uint64_t entry_bytes = field(fat + at + ENTRY_BYTES, 8);
        if (entry_head < ENTRY_HEAD || entry_head > left || entry_bytes > left - entry_head)
            return false;
        consider(found, fat + at);
        at += entry_head + entry_bytes;
    }
    return true;
}

static CUresult refuse_code(const struct found *found, char *log, size_t size)
{
    if (found->newer)
        snprintf(log, size,
                 "error   : the PTX of the fat binary is for sm_%u; the device is sm_%d: compile "
                 "for it, or set PTXGEN_EMU_DEVICE",
                 (unsigned)found->newer, api_gpu()->sm);
    else
        api_refuse_machine_code((unsigned)found->code, log, size);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

void api_refuse_machine_code(unsigned sm, char *log, size_t size)
{
    char whose[32] = "";
    if (sm && sm < 1000)
        snprintf(whose, sizeof(whose), " for sm_%u", sm);
    snprintf(log, size,
             "error   : the image is machine code%s, and the emulator runs PTX. Ask for PTX: nvcc "
             "-gencode arch=compute_%d,code=compute_%d; NVRTC --gpu-architecture=compute_%d and "
             "nvrtcGetPTX(); nvJitLink -lto -ptx; cuda.core Program.compile(\"ptx\"); Triton with "
             "TRITON_PTXAS_PATH as in docs/clients.md",
             whose, api_gpu()->sm, api_gpu()->sm, api_gpu()->sm);
}

static CUresult unpack(const unsigned char *entry, char *text, size_t text_bytes, char *log,
                       size_t log_size)
{
    const unsigned char *packed = entry + field(entry + ENTRY_HEAD_BYTES, 4);
    const size_t bytes = (size_t)field(entry + ENTRY_PACKED, 4);
    const uint64_t flags = field(entry + ENTRY_FLAGS, 8);
    if (bytes > field(entry + ENTRY_BYTES, 8))
        return wrong(log, log_size, CUDA_ERROR_INVALID_IMAGE, "the fat binary is damaged");
    if (flags & FLAG_ZSTD)
        return zstd(packed, bytes, text, text_bytes, log, log_size);
    if (!(flags & FLAG_LZ4))
        memcpy(text, packed, text_bytes);
    else if (!lz4(packed, bytes, text, text_bytes))
        return wrong(log, log_size, CUDA_ERROR_INVALID_IMAGE, "the fat binary is damaged");
    return CUDA_SUCCESS;
}

static CUresult open_fat(const unsigned char *fat, size_t bytes, struct api_image *opened,
                         char *log, size_t log_size)
{
    struct found found = { NULL, 0, 0, 0 };
    if (!each_image(fat, bytes, &found))
        return wrong(log, log_size, CUDA_ERROR_INVALID_IMAGE, "the fat binary is damaged");
    if (!found.entry)
        return refuse_code(&found, log, log_size);
    const bool packed = field(found.entry + ENTRY_FLAGS, 8) & (FLAG_LZ4 | FLAG_ZSTD);
    const uint64_t length = field(found.entry + (packed ? ENTRY_TEXT_BYTES : ENTRY_BYTES), 8);
    if (length > MOST_BYTES)
        return wrong(log, log_size, CUDA_ERROR_INVALID_IMAGE, "the fat binary is damaged");
    opened->owned = malloc((size_t)length + 1);
    opened->texts = malloc(sizeof(*opened->texts));
    if (!opened->owned || !opened->texts)
        return wrong(log, log_size, CUDA_ERROR_OUT_OF_MEMORY, "out of host memory");
    opened->owned[length] = '\0';
    opened->texts[0] = (struct emu_text) { opened->owned, (size_t)length };
    opened->count = 1;
    return unpack(found.entry, opened->owned, (size_t)length, log, log_size);
}

// ---- the linker's code
// ---------------------------------------------------------------------------

static const char magic[] = "\177PTXEMU ";

static uint64_t sum(const char *text)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return value;
}

void api_link_seal(char *code)
{
    char line[API_LINK_LINE + 1];
    const char *inputs = code + API_LINK_LINE;
    snprintf(line, sizeof(line), "%s%03d %016llx %016llx\n", magic, api_gpu()->sm,
             (unsigned long long)strlen(inputs), (unsigned long long)sum(inputs));
    memcpy(code, line, API_LINK_LINE);
}

/// The texts after the line: counts them, and with `texts` notes them. 0: damaged.
static unsigned read_inputs(const char *at, struct emu_text *texts)
{
    unsigned count = 0;
    for (; *at; count++) {
        char *end = NULL;
        if (strnlen(at, API_LINK_LENGTH_LINE) != API_LINK_LENGTH_LINE ||
            at[API_LINK_LENGTH_LINE - 1] != '\n')
            return 0;
        const unsigned long long length = strtoull(at, &end, 16);
        at += API_LINK_LENGTH_LINE;
        if (end != at - 1 || strnlen(at, (size_t)length) != length)
            return 0;
        if (texts)
            texts[count] = (struct emu_text) { at, (size_t)length };
        at += length;
    }
    return count;
}

static CUresult open_link(const char *image, struct api_image *opened)
{
    int sm = 0;
    unsigned long long length = 0, total = 0;
    const bool linked = strncmp(image, magic, strlen(magic)) == 0;
    if (linked &&
        (strnlen(image, API_LINK_LINE) != API_LINK_LINE || image[API_LINK_LINE - 1] != '\n' ||
         sscanf(image + strlen(magic), "%3d %16llx %16llx", &sm, &length, &total) != 3 ||
         strlen(image + API_LINK_LINE) != length || sum(image + API_LINK_LINE) != total))
        return CUDA_ERROR_INVALID_IMAGE;
    if (linked && (sm / 10 != api_gpu()->sm / 10 || sm > api_gpu()->sm))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    const unsigned count = linked ? read_inputs(image + API_LINK_LINE, NULL) : 1;
    if (!count)
        return CUDA_ERROR_INVALID_IMAGE;
    opened->texts = malloc(count * sizeof(*opened->texts));
    if (!opened->texts)
        return CUDA_ERROR_OUT_OF_MEMORY;
    opened->count = count;
    if (linked)
        read_inputs(image + API_LINK_LINE, opened->texts);
    else
        opened->texts[0] = (struct emu_text) { image, strlen(image) };
    return CUDA_SUCCESS;
}

// ---- any image ----------------------------------------------------------------------------------

const void *api_image_find(const void *image, size_t *bytes)
{
    const void *inside = image;
    size_t known = *bytes;
    // The wrapper: two words, then a pointer to the fat binary.
    if (known >= 16 && strncmp(image, wrapper_magic, 4) == 0) {
        memcpy(&inside, (const char *)image + 8, sizeof(inside));
        known = API_UNKNOWN_BYTES;
    }
    if (!inside || (known != API_UNKNOWN_BYTES && known < FAT_HEAD) ||
        strncmp(inside, fat_magic, 4) != 0) {
        *bytes = inside && known == API_UNKNOWN_BYTES ? strlen(inside) : known;
        return inside;
    }
    const uint64_t size = field((const unsigned char *)inside + FAT_BYTES, 8);
    if (known == API_UNKNOWN_BYTES)
        *bytes = size > MOST_BYTES ? FAT_HEAD : FAT_HEAD + (size_t)size;
    return inside;
}

/// PTX text begins with comments and then .version. Nothing else is parsed.
static bool is_text(const char *image)
{
    for (const char *at = image; *at;) {
        if (strchr(" \t\r\n", *at))
            at++;
        else if (at[0] == '/' && at[1] == '/')
            at += strcspn(at, "\n");
        else if (at[0] == '/' && at[1] == '*' && strstr(at + 2, "*/"))
            at = strstr(at + 2, "*/") + 2;
        else
            return *at == '.';
    }
    return false;
}

static CUresult open_text(const char *image, struct api_image *opened, char *log, size_t log_size)
{
    CUresult result = open_link(image, opened);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return wrong(log, log_size, result, "out of host memory");
    if (result)
        return wrong(log, log_size, result,
                     "the linked code is damaged, or was linked for another GPU");
    for (unsigned k = 0; k < opened->count; k++) {
        if (strncmp(opened->texts[k].at, "\177ELF", 4) == 0) {
            api_refuse_machine_code(0, log, log_size);
            return CUDA_ERROR_NO_BINARY_FOR_GPU;
        }
        if (!is_text(opened->texts[k].at))
            return wrong(log, log_size, CUDA_ERROR_INVALID_IMAGE,
                         "Binary format for key='0', ident='' is not recognized");
    }
    return CUDA_SUCCESS;
}

CUresult api_image_open(const void *image, size_t bytes, struct api_image *opened, char *log,
                        size_t log_size)
{
    *opened = (struct api_image) { NULL, 0, NULL };
    image = api_image_find(image, &bytes);
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    if (image && bytes >= sizeof(tile_magic) - 1 &&
        memcmp(image, tile_magic, sizeof(tile_magic) - 1) == 0)
        return wrong(log, log_size, CUDA_ERROR_NO_BINARY_FOR_GPU,
                     "the image is cuda_tile IR, which the emulator does not run: it runs PTX");
    if (image)
        result = bytes >= FAT_HEAD && memcmp(image, fat_magic, 4) == 0
                     ? open_fat(image, bytes, opened, log, log_size)
                     : open_text(image, opened, log, log_size);
    if (result)
        api_image_close(opened);
    return result;
}

void api_image_close(struct api_image *opened)
{
    free(opened->texts);
    free(opened->owned);
    *opened = (struct api_image) { NULL, 0, NULL };
}

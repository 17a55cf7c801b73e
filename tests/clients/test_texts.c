// SPDX-License-Identifier: MIT
// Texts that other compilers made, on the emulator: each FILE.case beside FILE.ptx says what to
// launch, on what memory, and what must be there afterwards. case.py writes them and has the
// format. Each case has its own process, so that it chooses the device.
//
//     test_texts FILE.case...
#define _POSIX_C_SOURCE 200809L
#include "cuda/extensions.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 32, LINE = 1 << 18, TEXT = 1 << 19 };

struct array {
    CUdeviceptr at;
    size_t bytes;
};

static struct {
    const char *path;
    int line;
    CUmodule module;
    CUlinkState linker;
    CUresult expected;  // of the launch
    int output;         // the file that the standard output is
    struct array array; // the last one
    CUfunction function;
    unsigned shape[7];
    unsigned char values[MOST_ARGUMENTS][16];
    unsigned count;
    unsigned checks;
} now;

static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", now.path, now.line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    fflush(NULL);
    _exit(1);
}

static void want(CUresult result, CUresult expected, const char *what)
{
    const char *report = "";
    if (result == expected)
        return;
    cuEmulatorReport(&report);
    die("%s: %d, not %d: %s", what, (int)result, (int)expected, report);
}

#define OK(call) want(call, CUDA_SUCCESS, #call)

// ---- reading ------------------------------------------------------------------------------------

// The bytes of hexadecimal digits; `*bytes` gets their number.
static unsigned char *unhex(const char *digits, size_t *bytes)
{
    const size_t length = strspn(digits, "0123456789abcdef");
    unsigned char *data = malloc(length / 2 + 1);
    if (!data || length % 2)
        die("no memory, or half a byte");
    *bytes = length / 2;
    for (size_t k = 0; k < length / 2; k++) {
        const char pair[3] = { digits[2 * k], digits[2 * k + 1], '\0' };
        data[k] = (unsigned char)strtoul(pair, NULL, 16);
    }
    data[length / 2] = '\0';
    return data;
}

static char *read_beside(const char *name)
{
    char path[512];
    const char *slash = strrchr(now.path, '/');
    snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - now.path + 1) : 0, now.path, name);
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, TEXT);
    if (!file || !text || fread(text, 1, TEXT - 1, file) == 0)
        die("cannot read %s", path);
    fclose(file);
    return text;
}

// ---- the lines of a case ------------------------------------------------------------------------

static void begin(const char *device)
{
    CUcontext context = NULL;
    setenv("PTXGEN_EMU_DEVICE", device, 1);
    setenv("PTXGEN_EMU_LOG", "/dev/null", 1);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
}

static void load(const char *name)
{
    char *text = read_beside(name);
    OK(cuModuleLoadData(&now.module, text));
    free(text);
}

static void link_text(const char *name)
{
    char *text = read_beside(name);
    if (!now.linker)
        OK(cuLinkCreate_v2(0, NULL, NULL, &now.linker));
    OK(cuLinkAddData_v2(now.linker, CU_JIT_INPUT_PTX, text, strlen(text) + 1, name, 0, NULL, NULL));
    free(text);
}

// "NAME WORD": the text is refused, and the message has the word.
static void refused(const char *rest)
{
    const char *message = "";
    char name[256], word[256];
    if (sscanf(rest, "%255s %255s", name, word) != 2)
        die("refused NAME WORD");
    char *text = read_beside(name);
    const CUresult result = cuModuleLoadData(&now.module, text);
    cuGetErrorString(result, &message);
    if (result == CUDA_SUCCESS || !strstr(message, word))
        die("%s is not refused for '%s': %d %s", name, word, (int)result, message);
    now.checks++;
    free(text);
}

static void launch_as(const char *rest)
{
    char name[1024];
    void *image = NULL;
    if (sscanf(rest, "%1023s %u %u %u %u %u %u %u", name, &now.shape[0], &now.shape[1],
               &now.shape[2], &now.shape[3], &now.shape[4], &now.shape[5], &now.shape[6]) != 8)
        die("launch NAME, grid, block, shared");
    if (now.linker && !now.module) {
        OK(cuLinkComplete(now.linker, &image, NULL));
        OK(cuModuleLoadData(&now.module, image));
    }
    OK(cuModuleGetFunction(&now.function, now.module, name));
    now.count = 0;
    now.expected = CUDA_SUCCESS;
}

static void add_value(const void *bytes, size_t size)
{
    if (now.count == MOST_ARGUMENTS || size > sizeof now.values[0])
        die("too many arguments, or a large one");
    memcpy(now.values[now.count++], bytes, size);
}

static void add_array(const void *bytes, size_t size)
{
    now.array.bytes = size;
    OK(cuMemAlloc_v2(&now.array.at, size));
    if (bytes)
        OK(cuMemcpyHtoD_v2(now.array.at, bytes, size));
    else
        OK(cuMemsetD8_v2(now.array.at, 0, size));
    add_value(&now.array.at, sizeof now.array.at);
}

static void run(const char *rest)
{
    void *params[MOST_ARGUMENTS];
    (void)rest;
    for (unsigned k = 0; k < MOST_ARGUMENTS; k++)
        params[k] = now.values[k];
    OK(cuLaunchKernel(now.function, now.shape[0], now.shape[1], now.shape[2], now.shape[3],
                      now.shape[4], now.shape[5], now.shape[6], NULL, params, NULL));
    want(cuCtxSynchronize(), now.expected, "the kernel");
    now.checks += now.expected != CUDA_SUCCESS;
}

// ---- results ------------------------------------------------------------------------------------

static double number(const unsigned char *at, size_t size)
{
    float f;
    double d;
    if (size == 4)
        memcpy(&f, at, 4);
    else
        memcpy(&d, at, 8);
    return size == 4 ? (double)f : d;
}

static void compare(const unsigned char *got, const unsigned char *wanted, size_t bytes,
                    const char *type, double relative, double absolute)
{
    const size_t size = strcmp(type, "f32") == 0 ? 4 : strcmp(type, "f64") == 0 ? 8 : 1;
    for (size_t k = 0; k + size <= bytes; k += size) {
        if (size == 1 && got[k] != wanted[k])
            die("byte %zu is %02x, not %02x", k, got[k], wanted[k]);
        if (size == 1 || memcmp(got + k, wanted + k, size) == 0)
            continue;
        const double a = number(got + k, size), b = number(wanted + k, size);
        if (!(fabs(a - b) <= absolute + relative * fabs(b)) && !(isnan(a) && isnan(b)))
            die("element %zu is %.17g, not %.17g", k / size, a, b);
    }
}

// "NUMBER TYPE RELATIVE ABSOLUTE HEX": what the array that is this argument has now.
static void expect(const char *rest)
{
    unsigned index = 0;
    char type[8];
    double relative, absolute;
    int used = 0;
    size_t bytes = 0;
    CUdeviceptr from = 0;
    if (sscanf(rest, "%u %7s %lf %lf %n", &index, type, &relative, &absolute, &used) != 4 ||
        index >= now.count)
        die("expect NUMBER TYPE RELATIVE ABSOLUTE HEX");
    unsigned char *wanted = unhex(rest + used, &bytes), *got = malloc(bytes + 1);
    memcpy(&from, now.values[index], sizeof from);
    if (!got || bytes == 0)
        die("nothing is expected");
    OK(cuMemcpyDtoH_v2(got, from, bytes));
    compare(got, wanted, bytes, type, relative, absolute);
    now.checks++;
    free(got);
    free(wanted);
}

static void expect_output(const char *hex)
{
    size_t bytes = 0;
    char read[4096] = "";
    unsigned char *wanted = unhex(hex, &bytes);
    fflush(NULL);
    const ssize_t length = pread(now.output, read, sizeof read - 1, 0);
    if (length != (ssize_t)bytes || memcmp(read, wanted, bytes) != 0)
        die("the output is '%s', not '%s'", read, (const char *)wanted);
    now.checks++;
    free(wanted);
}

static void add_value_of(const char *hex)
{
    size_t bytes = 0;
    unsigned char *data = unhex(hex, &bytes);
    add_value(data, bytes);
    free(data);
}

static void add_array_of(const char *hex)
{
    size_t bytes = 0;
    unsigned char *data = unhex(hex, &bytes);
    add_array(data, bytes);
    free(data);
}

static void add_zeros(const char *bytes)
{
    add_array(NULL, strtoul(bytes, NULL, 10));
}

static void expect_error(const char *result)
{
    now.expected = (CUresult)strtoul(result, NULL, 10);
}

static const struct {
    const char *word;
    void (*obey)(const char *rest);
} lines[] = {
    { "device", begin },       { "load", load },
    { "link", link_text },     { "refused", refused },
    { "launch", launch_as },   { "value", add_value_of },
    { "array", add_array_of }, { "zeros", add_zeros },
    { "error", expect_error }, { "run", run },
    { "expect", expect },      { "output", expect_output },
};

static void obey(const char *word, const char *rest)
{
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
        if (strcmp(word, lines[k].word) == 0) {
            lines[k].obey(rest);
            return;
        }
    die("unknown line '%s'", word);
}

static void run_case(const char *path)
{
    static char line[LINE];
    char output[] = "/tmp/ptxgen-texts-XXXXXX";
    FILE *file = fopen(path, "r");
    now.path = path;
    now.output = mkstemp(output);
    if (!file || now.output < 0 || dup2(now.output, 1) < 0)
        die("cannot read it, or no temporary file");
    unlink(output);
    while (fgets(line, sizeof line, file)) {
        char word[32] = "";
        int used = 0;
        now.line++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || sscanf(line, "%31s %n", word, &used) != 1)
            continue;
        obey(word, line + used);
    }
    if (now.checks == 0)
        die("the case checks nothing");
    fflush(NULL);
    _exit(0);
}

int main(int argc, char **argv)
{
    int failures = 0;
    for (int k = 1; k < argc; k++) {
        int status = 0;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0)
            run_case(argv[k]);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "%s: failed\n", argv[k]);
            failures++;
        }
    }
    printf("%d cases, %d failed\n", argc - 1, failures);
    return failures > 0 || argc < 2;
}

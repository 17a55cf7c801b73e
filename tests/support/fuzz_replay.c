// SPDX-License-Identifier: MIT
// Runs a fuzzer's function once for each file named, and for each file in each folder named. This
// is a fuzzer's test without libFuzzer. Fails if there is no file.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerInitialize(int *count, char ***arguments) __attribute__((weak));
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

void fuzz_forget(void);

static unsigned files;

// Nothing to forget: a replay learns nothing.
void fuzz_forget(void) {}

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    // A buffer of exactly this size, so that reading one byte beyond it is detected.
    if (size >= 0)
        bytes = malloc(size ? (size_t)size : 1);
    if (!bytes || fseek(file, 0, SEEK_SET) != 0 ||
        fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    printf("%s\n", path);
    fflush(stdout); // the last name printed is the input that failed
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
    files++;
}

static void run_path(const char *path)
{
    struct stat status;
    DIR *folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode) ? opendir(path) : NULL;
    if (!folder) {
        run_file(path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        char inside[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
        run_file(inside);
    }
    closedir(folder);
}

int main(int count, char **arguments)
{
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&count, &arguments);
    for (int i = 1; i < count; i++)
        run_path(arguments[i]);
    printf("%u inputs\n", files);
    return files ? 0 : 1;
}

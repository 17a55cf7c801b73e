// SPDX-License-Identifier: MIT
/// For tests of what affects a whole process: each check runs in a process of its own. The file
/// that includes this defines _POSIX_C_SOURCE first.
#ifndef PTXGEN_TESTS_EMULATOR_CHILD_H
#define PTXGEN_TESTS_EMULATOR_CHILD_H

#include "api.h"

#include <sys/wait.h>
#include <unistd.h>

static char log_path[64];

/// Runs `check` in a child process with these variables ("NAME=value", up to a NULL), and keeps its
/// log.
static inline void in_child(void (*check)(void), const char *const *variables)
{
    remove(log_path);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("PTXGEN_EMU_LOG", log_path, 1);
        for (; variables && *variables; variables++) {
            char name[64];
            const char *value = strchr(*variables, '=') + 1;
            snprintf(name, sizeof(name), "%.*s", (int)(value - *variables - 1), *variables);
            setenv(name, value, 1);
        }
        check(); // if an assertion fails, cmocka aborts the child
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static inline void in_log(const char *words)
{
    char text[8192] = "";
    FILE *file = fopen(log_path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    if (!strstr(text, words))
        fail_msg("'%s' is not in the report: %s", words, text);
}

#define IN_CHILD(check, ...) in_child(check, (const char *const[]) { __VA_ARGS__, NULL })
#define WANT(call, result)                                                                         \
    do {                                                                                           \
        int got = (int)(call);                                                                     \
        if (got != (int)(result)) {                                                                \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, got);                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define TRUE(condition) WANT(!(condition), 0)

static inline void open_context(void)
{
    CUcontext context = NULL;
    WANT(cuInit(0), 0);
    WANT(cuDevicePrimaryCtxRetain(&context, 0), 0);
    WANT(cuCtxSetCurrent(context), 0);
}

#endif

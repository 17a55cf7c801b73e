// SPDX-License-Identifier: MIT
#include "signals.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU };

enum { ENDING_COUNT = sizeof(ending) / sizeof(ending[0]), STATUS_FAILED = 1 };

static struct {
    const char *volatile paths[SIGNALS_FILE_LIMIT];
    size_t count;         ///< of those that are not NULL
    volatile pid_t owner; ///< a child process must leave the files to its parent
    bool caught[ENDING_COUNT];
} unfinished;

static struct {
    const char *volatile begin;
    volatile size_t size;
    const char *volatile path;
    bool caught;
} mapped;

void signals_set_up(void)
{
    signal(SIGXFSZ, SIG_IGN);
}

void signals_of_child(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGXFSZ);
}

// Handlers may only call async-signal-safe functions.

static void remove_unfinished(void)
{
    if (unfinished.owner != getpid())
        return;
    for (size_t k = 0; k < SIGNALS_FILE_LIMIT; k++)
        if (unfinished.paths[k])
            unlink(unfinished.paths[k]);
}

static void remove_and_end(int number)
{
    remove_unfinished();
    signal(number, SIG_DFL);
    raise(number);
}

static void say(const char *text)
{
    // If even this fails, nothing can be done.
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

static void report_truncated(int number, siginfo_t *info, void *context)
{
    (void)context;
    const uintptr_t at = (uintptr_t)info->si_addr, begin = (uintptr_t)mapped.begin;
    if (!mapped.path || at < begin || at - begin >= mapped.size) {
        signal(number, SIG_DFL); // the access is repeated with the default action
        return;
    }
    say("ptxgen: ");
    say(mapped.path);
    say(": the file became shorter while it was read\n");
    remove_unfinished();
    _exit(STATUS_FAILED);
}

static void catch_signals(void)
{
    struct sigaction action = { .sa_flags = (int)SA_RESETHAND | SA_NODEFER };
    action.sa_handler = remove_and_end;
    for (size_t k = 0; k < ENDING_COUNT; k++) {
        struct sigaction before;
        if (!unfinished.caught[k] && sigaction(ending[k], NULL, &before) == 0 &&
            before.sa_handler == SIG_DFL)
            unfinished.caught[k] = sigaction(ending[k], &action, NULL) == 0;
    }
}

static void release_signals(void)
{
    struct sigaction action = { .sa_handler = SIG_DFL };
    for (size_t k = 0; k < ENDING_COUNT; k++)
        if (unfinished.caught[k])
            unfinished.caught[k] = sigaction(ending[k], &action, NULL) != 0;
}

bool signals_remove(const char *path)
{
    size_t k = 0;
    while (k < SIGNALS_FILE_LIMIT && unfinished.paths[k] && unfinished.paths[k] != path)
        k++;
    if (k == SIGNALS_FILE_LIMIT)
        return false;
    unfinished.count += !unfinished.paths[k];
    unfinished.owner = getpid();
    unfinished.paths[k] = path;
    catch_signals();
    return true;
}

void signals_keep(const char *path)
{
    for (size_t k = 0; k < SIGNALS_FILE_LIMIT; k++) {
        if (!path || unfinished.paths[k] != path)
            continue;
        unfinished.paths[k] = NULL;
        if (--unfinished.count == 0)
            release_signals();
    }
}

void signals_mapped(const void *begin, size_t size, const char *path)
{
    mapped.path = NULL;
    mapped.begin = begin;
    mapped.size = size;
    mapped.path = path;
    if (path && !mapped.caught) {
        struct sigaction action = { .sa_flags = SA_SIGINFO };
        action.sa_sigaction = report_truncated;
        mapped.caught = sigaction(SIGBUS, &action, NULL) == 0;
    }
}

// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // memfd_create
#include "ptxas.h"

#include "output.h"
#include "signals.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { LOG_LIMIT = 1 << 22 };

static bool try_folder(struct ptxas *ptxas, const char *folder, size_t length, const char *below)
{
    int used =
        snprintf(ptxas->path, sizeof(ptxas->path), "%.*s%s/ptxas", (int)length, folder, below);
    if (used < 0 || (size_t)used >= sizeof(ptxas->path))
        return false;
    struct stat status;
    return stat(ptxas->path, &status) == 0 && S_ISREG(status.st_mode) &&
           access(ptxas->path, X_OK) == 0;
}

bool ptxas_find(struct ptxas *ptxas, struct message *error)
{
    *ptxas = (struct ptxas) { 0 };
    const char *search = getenv("PATH");
    while (search && *search) {
        size_t length = strcspn(search, ":");
        if (length > 0 && length < PTXAS_PATH_SIZE && try_folder(ptxas, search, length, ""))
            return true;
        search += length + (search[length] == ':');
    }
    const char *home = getenv("CUDA_HOME");
    if (home && *home && strlen(home) < PTXAS_PATH_SIZE &&
        try_folder(ptxas, home, strlen(home), "/bin"))
        return true;
    const char *usual = "/usr/local/cuda/bin";
    if (try_folder(ptxas, usual, strlen(usual), ""))
        return true;
    return message_set(error, "no ptxas in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin");
}

bool ptx_directive(const char *text, const char *directive, char *word, size_t size)
{
    size_t length = strlen(directive);
    while (text) {
        text += strspn(text, " \t\r\n");
        if (strncmp(text, directive, length) == 0 && strchr(" \t", text[length])) {
            text += length;
            text += strspn(text, " \t");
            size_t end = strcspn(text, " \t\r\n,;/");
            if (end == 0 || end >= size)
                return false;
            memcpy(word, text, end);
            word[end] = '\0';
            return true;
        }
        text = strchr(text, '\n');
    }
    return false;
}

/// Runs ptxas on the file `input` with both of its outputs in the file `log`. False if it could not
/// be run.
static bool spawn(const struct ptxas *ptxas, const char *target, int input, int log, int *status,
                  struct message *error)
{
    char path[PTXAS_PATH_SIZE], arch[PTX_TARGET_NAME_SIZE + 8];
    char to[] = "-o", nowhere[] = "/dev/null", from[] = "/dev/stdin";
    strcpy(path, ptxas->path);
    snprintf(arch, sizeof(arch), "-arch=%s", target);
    char *arguments[] = { path, arch, to, nowhere, from, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    signals_of_child(&defaults);
    int failed = posix_spawnattr_init(&attributes);
    if (!failed)
        failed = posix_spawnattr_setsigdefault(&attributes, &defaults);
    if (!failed)
        failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    if (!failed)
        failed = posix_spawn_file_actions_init(&actions);
    if (!failed) {
        failed = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
        if (!failed)
            failed = posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO);
        if (!failed)
            failed = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
        pid_t child = 0;
        if (!failed)
            failed = posix_spawn(&child, path, &actions, &attributes, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
        while (!failed && waitpid(child, status, 0) < 0)
            failed = errno == EINTR ? 0 : errno;
    }
    return !failed || message_set(error, "cannot run %s: %s", ptxas->path, strerror(failed));
}

/// A file in memory, which ends with the process. -1 if there can be none.
static int memory_file(const char *text, struct message *error)
{
    int file = memfd_create("ptxas", MFD_CLOEXEC);
    size_t rest = strlen(text);
    while (file >= 0 && rest > 0) {
        ssize_t written = write(file, text, rest);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            int reason = errno;
            close(file);
            errno = reason;
            file = -1;
            break;
        }
        text += written;
        rest -= (size_t)written;
    }
    if (file < 0)
        message_set(error, "cannot make a file in memory for ptxas: %s", strerror(errno));
    return file;
}

bool ptxas_accepts(struct ptxas *ptxas, const char *text, const char *target, char **log,
                   struct message *error)
{
    int status = 0;
    *log = NULL;
    int input = memory_file(text, error);
    if (input < 0)
        return false;
    int output = memory_file("", error);
    bool ran = output >= 0 && spawn(ptxas, target, input, output, &status, error);
    bool accepted = ran && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ran && !accepted) {
        char path[32];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", output);
        *log = read_text(path, LOG_LIMIT, error);
    }
    close(input);
    if (output >= 0)
        close(output);
    return accepted;
}

/// Whether the log says that the target or the version is unknown: in the words of ptxas 11 to 13.
static bool says_unknown(const char *log)
{
    return strstr(log, "is not defined") || strstr(log, "Unsupported .version") ||
           strstr(log, "does not support .target");
}

bool ptxas_knows(struct ptxas *ptxas, const char *text, const char *target, bool *known,
                 struct message *error)
{
    char version[16], quoted[QUOTED_SIZE];
    *known = true;
    if (!ptx_directive(text, ".version", version, sizeof(version)))
        return true;
    for (size_t k = 0; k < ptxas->known_count; k++)
        if (strcmp(ptxas->known[k].version, version) == 0 &&
            strcmp(ptxas->known[k].target, target) == 0) {
            *known = ptxas->known[k].accepted;
            return true;
        }
    char probe[128]; // not without an entry: ptxas would make files of its own
    snprintf(probe, sizeof(probe),
             ".version %s\n.target %s\n.address_size 64\n.entry probe() { ret; }\n", version,
             target);
    char *log;
    *known = ptxas_accepts(ptxas, probe, target, &log, error);
    if (!*known && !log)
        return false;
    if (!*known && !says_unknown(log)) {
        log[strcspn(log, "\n")] = '\0';
        message_set(error, "%s does not work: it refuses an empty kernel%s%s", ptxas->path,
                    log[0] ? ": " : "", log[0] ? quote(quoted, log) : "");
        free(log);
        return false;
    }
    free(log);
    if (ptxas->known_count < PTXAS_KNOWN_LIMIT) {
        size_t k = ptxas->known_count++;
        strcpy(ptxas->known[k].version, version);
        snprintf(ptxas->known[k].target, PTX_TARGET_NAME_SIZE, "%s", target);
        ptxas->known[k].accepted = *known;
    }
    return true;
}

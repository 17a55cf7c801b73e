// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L // strnlen
#include "parsed.h"

#include <stdlib.h>
#include <string.h>

#ifndef __has_feature
#define __has_feature(name) 0
#endif

enum {
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
    MOST_KEPT = 0, // so that the sanitizer sees what is used after it was freed
#else
    MOST_KEPT =
        2 << 20, // characters of texts that no module uses; parsed they take some 20 bytes each
#endif
};

// The latest first. Those of several texts are never found again.
struct parsed {
    struct parsed *next;
    struct emu_module *module;
    struct emu_parse_limits limits;
    size_t length; // of the only text
    unsigned count, users;
};

static struct parsed *all;

static bool is_of(const struct parsed *parsed, const struct emu_text *text,
                  const struct emu_parse_limits *limits)
{
    const struct emu_parse_limits *of = &parsed->limits;
    return parsed->count == 1 && parsed->length == text->length && of->isa == limits->isa &&
           of->sm == limits->sm && of->sm_suffix == limits->sm_suffix &&
           of->partial == limits->partial &&
           memcmp(parsed->module->text, text->at, text->length) == 0;
}

// Frees the oldest that nobody uses, until those that stay are short enough together.
static void forget(void)
{
    size_t kept = 0;
    for (struct parsed **at = &all; *at;) {
        struct parsed *parsed = *at;
        const size_t with = kept + parsed->length;
        if (!parsed->users && (parsed->count != 1 || with > MOST_KEPT)) {
            *at = parsed->next;
            emu_module_destroy(&parsed->module);
            free(parsed);
            continue;
        }
        kept = parsed->users ? kept : with;
        at = &parsed->next;
    }
}

const struct emu_module *api_parsed_get(const struct emu_text *texts, unsigned count,
                                        const struct emu_parse_limits *limits, char *log,
                                        size_t log_size, int *result)
{
    struct parsed *parsed = NULL;
    const struct emu_text only = { texts[0].at, strnlen(texts[0].at, texts[0].length) };
    for (struct parsed **at = &all; *at && count == 1; at = &(*at)->next)
        if (is_of(*at, &only, limits)) {
            parsed = *at;
            *at = parsed->next;
            break;
        }
    if (!parsed) {
        struct emu_module *module = emu_module_link(texts, count, limits, log, log_size, result);
        parsed = module ? malloc(sizeof(*parsed)) : NULL;
        if (!parsed) {
            *result = module ? CUDA_ERROR_OUT_OF_MEMORY : *result;
            emu_module_destroy(&module);
            return NULL;
        }
        *parsed = (struct parsed) { NULL, module, *limits, only.length, count, 0 };
    }
    parsed->users++;
    parsed->next = all;
    all = parsed;
    return parsed->module;
}

void api_parsed_drop(const struct emu_module *module)
{
    for (struct parsed *parsed = all; module && parsed; parsed = parsed->next)
        if (parsed->module == module) {
            parsed->users--;
            break;
        }
    forget();
}

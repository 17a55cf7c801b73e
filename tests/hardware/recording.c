// SPDX-License-Identifier: MIT
#include "recording.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;

    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0) {
        const long size = ftell(f);
        rewind(f);
        text = size >= 0 ? calloc(1, (size_t)size + 1) : NULL;
        if (text && fread(text, 1, (size_t)size, f) != (size_t)size) {
            free(text);
            text = NULL;
        }
    }
    fclose(f);
    return text;
}

bool recording_open(struct recording *r, const char *known, const char *out)
{
    *r = (struct recording) { 0 };
    if (known && !(r->text = read_text(known))) {
        fprintf(stderr, "%s: cannot be read\n", known);
        return false;
    }
    r->at = r->text;
    if (out && !(r->out = strcmp(out, "-") ? fopen(out, "w") : stdout)) {
        fprintf(stderr, "%s: cannot be written\n", out);
        free(r->text);
        return false;
    }
    if (r->text && r->out)
        fputs(r->text, r->out);
    return true;
}

bool recording_open_by(struct recording *r, int argc, char **argv)
{
    const char *known = NULL, *out = NULL;

    for (int k = 1; k + 1 < argc; k += 2)
        if (!strcmp(argv[k], "-c"))
            known = argv[k + 1];
        else if (!strcmp(argv[k], "-o"))
            out = argv[k + 1];
    return recording_open(r, known, known || out ? out : "-");
}

static const char *find_between(const char *at, const char *end, const char *name)
{
    const size_t length = strlen(name);

    while (at && at < end && *at) {
        if (!strncmp(at, name, length) && at[length] == ' ')
            return at + length;
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return NULL;
}

const char *recording_find(struct recording *r, const char *name)
{
    if (!r->text)
        return NULL;
    const char *found = find_between(r->at, r->text + strlen(r->text), name);
    if (!found)
        found = find_between(r->text, r->at, name);
    if (found)
        r->at = found - strlen(name);
    return found;
}

void recording_add(struct recording *r, const char *name, const char *contents, ...)
{
    const size_t used = strlen(r->names);
    va_list arguments;

    if (r->text && r->unrecorded++ < 8)
        snprintf(r->names + used, sizeof r->names - used, "%s %s", used ? "," : "", name);
    if (!r->out)
        return;
    fprintf(r->out, "%s ", name);
    va_start(arguments, contents);
    vfprintf(r->out, contents, arguments);
    va_end(arguments);
    fputc('\n', r->out);
}

bool recording_close(struct recording *r)
{
    bool written = true;

    if (r->unrecorded)
        printf("%u unrecorded:%s%s\n", r->unrecorded, r->names, r->unrecorded > 8 ? ", ..." : "");
    if (r->out) {
        written = !ferror(r->out);
        written &= (r->out == stdout ? fflush(r->out) : fclose(r->out)) == 0;
    }
    free(r->text);
    *r = (struct recording) { 0 };
    return written;
}

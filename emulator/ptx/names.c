// SPDX-License-Identifier: MIT
// Names and their scopes; registers.
#include "names.h"

#include <stdio.h>
#include <string.h>

// Hashed with a random value of this process, so that no text can aim at one bucket.
static uint64_t hash_of(const struct emu_parser *p, const char *at, uint32_t length)
{
    uint64_t hash = (uint64_t)(uintptr_t)p->arena * UINT64_C(0x9e3779b97f4a7c15);

    for (uint32_t k = 0; k < length; k++) {
        hash = (hash ^ (unsigned char)at[k]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool grow_buckets(struct emu_parser *p)
{
    struct emu_names *names = &p->names;
    const uint32_t count = names->bucket_count ? names->bucket_count * 2 : 256;
    struct emu_name **buckets = emu_arena_alloc(p->arena, count * sizeof(struct emu_name *));

    if (!buckets)
        return emu_out_of_memory(p);
    // Oldest first, so that the innermost ends in front.
    for (unsigned depth = 0; depth <= names->depth; depth++)
        for (struct emu_name *name = names->scopes[depth]; name; name = name->below) {
            struct emu_name **slot = &buckets[name->hash & (count - 1)];
            while (*slot && (*slot)->depth >= name->depth)
                slot = &(*slot)->next;
            name->next = *slot;
            *slot = name;
        }
    names->buckets = buckets;
    names->bucket_count = count;
    return true;
}

bool emu_scope_open(struct emu_parser *p)
{
    const struct emu_token at = p->token;

    if (p->names.depth + 1 >= EMU_MOST_SCOPES)
        return emu_fatal(p, &at, EMU_INVALID_PTX, "Scopes are nested too deeply");
    p->names.scopes[++p->names.depth] = NULL;
    if (p->body)
        p->body->scope_uses[p->names.depth] = p->body->use_count;
    return true;
}

void emu_scope_close(struct emu_parser *p)
{
    struct emu_names *names = &p->names;

    for (struct emu_name *name = names->scopes[names->depth]; name; name = name->below) {
        struct emu_name **slot = &names->buckets[name->hash & (names->bucket_count - 1)];
        while (*slot != name)
            slot = &(*slot)->next;
        *slot = name->next;
        names->count--;
    }
    names->scopes[names->depth--] = NULL;
}

static struct emu_name *find(const struct emu_parser *p, const char *at, uint32_t length,
                             bool label)
{
    if (!p->names.bucket_count)
        return NULL;
    const uint64_t hash = hash_of(p, at, length);
    struct emu_name *name = p->names.buckets[hash & (p->names.bucket_count - 1)];
    for (; name; name = name->next)
        if (name->hash == hash && name->length == length &&
            (name->kind == EMU_NAME_LABEL) == label && name->kind != EMU_NAME_RANGE &&
            memcmp(name->at, at, length) == 0)
            return name;
    return NULL;
}

static struct emu_name *find_range(const struct emu_parser *p, const char *at, uint32_t length)
{
    if (!p->names.bucket_count)
        return NULL;
    const uint64_t hash = hash_of(p, at, length) ^ 1;
    struct emu_name *name = p->names.buckets[hash & (p->names.bucket_count - 1)];
    for (; name; name = name->next)
        if (name->hash == hash && name->length == length && name->kind == EMU_NAME_RANGE &&
            memcmp(name->at, at, length) == 0)
            return name;
    return NULL;
}

static struct emu_name *insert(struct emu_parser *p, struct emu_name add)
{
    struct emu_names *names = &p->names;

    if (names->count >= names->bucket_count && !grow_buckets(p))
        return NULL;
    struct emu_name *name = emu_arena_alloc(p->arena, sizeof *name);
    if (!name) {
        emu_out_of_memory(p);
        return NULL;
    }
    add.hash = hash_of(p, add.at, add.length) ^ (add.kind == EMU_NAME_RANGE);
    struct emu_name **slot = &names->buckets[add.hash & (names->bucket_count - 1)];
    while (*slot && (*slot)->depth > add.depth)
        slot = &(*slot)->next;
    add.next = *slot;
    add.below = names->scopes[add.depth];
    *name = add;
    *slot = names->scopes[add.depth] = name;
    names->count++;
    return name;
}

// The range that "%r15" belongs to: "%r1" if it has more than 5 registers, or "%r" with more than
// 15.
static struct emu_name *range_of(const struct emu_parser *p, const struct emu_token *name,
                                 uint32_t *number)
{
    uint32_t length = name->length, unit = 1;

    *number = 0;
    while (length > 1 && name->length - length < 9) {
        const char digit = name->at[length - 1];
        if (digit < '0' || digit > '9')
            return NULL;
        *number += (uint32_t)(digit - '0') * unit;
        unit *= 10;
        length--;
        struct emu_name *range = find_range(p, name->at, length);
        const bool padded = digit == '0' && name->length - length > 1;
        if (range && !padded && *number < range->count)
            return range;
    }
    return NULL;
}

uint32_t emu_new_register(struct emu_parser *p, const char *name, uint32_t length, uint8_t type)
{
    struct emu_function *f = &p->module->functions[p->body->function];
    struct emu_register *added =
        emu_push(p, &f->registers, &f->register_count, &p->body->register_capacity, sizeof *added);
    char *copy = added ? emu_arena_copy(p->arena, name, length) : NULL;

    if (!copy) {
        emu_out_of_memory(p);
        return EMU_NO_REGISTER;
    }
    added->name = copy;
    added->type = type;
    return f->register_count - 1;
}

bool emu_new_vector(struct emu_parser *p, struct emu_name *name, uint8_t type)
{
    char text[64];

    name->elements = emu_arena_alloc(p->arena, name->lanes * sizeof *name->elements);
    if (!name->elements)
        return emu_out_of_memory(p);
    for (unsigned k = 0; k < name->lanes; k++) {
        const int length =
            snprintf(text, sizeof text, "%.*s.%c", (int)(name->length < 60 ? name->length : 60),
                     name->at, "xyzw"[k]);
        name->elements[k] = *name;
        name->elements[k].kind = EMU_NAME_REGISTER;
        name->elements[k].index =
            emu_new_register(p, text, (uint32_t)length, type == EMU_B128 ? EMU_B64 : type);
        if (name->elements[k].index == EMU_NO_REGISTER)
            return false;
    }
    return true;
}

// A register of a range, or a vector register.
static struct emu_name *of_range(struct emu_parser *p, const struct emu_token *name,
                                 const struct emu_name *range)
{
    struct emu_name add = { .at = name->at,
                            .length = name->length,
                            .kind = range->lanes ? EMU_NAME_VECTOR : EMU_NAME_REGISTER,
                            .depth = range->depth,
                            .type = range->type,
                            .lanes = range->lanes };

    if (range->lanes)
        return emu_new_vector(p, &add, range->type) ? insert(p, add) : NULL;
    add.index = emu_new_register(p, name->at, name->length, range->type);
    return add.index == EMU_NO_REGISTER ? NULL : insert(p, add);
}

struct emu_name *emu_find(struct emu_parser *p, const struct emu_token *name)
{
    uint32_t number;
    struct emu_name *found = find(p, name->at, name->length, false);

    if (found && found->depth == p->names.depth)
        return found;
    struct emu_name *range = p->body ? range_of(p, name, &number) : NULL;
    if (!range || (found && found->depth >= range->depth))
        return found;
    return of_range(p, name, range);
}

struct emu_name *emu_find_label(struct emu_parser *p, const char *at, uint32_t length)
{
    return find(p, at, length, true);
}

struct emu_name *emu_declare(struct emu_parser *p, const struct emu_token *name,
                             enum emu_name_kind kind, uint32_t index)
{
    uint32_t number;
    const unsigned depth = p->names.depth;
    struct emu_name *before = kind == EMU_NAME_RANGE
                                  ? find_range(p, name->at, name->length)
                                  : find(p, name->at, name->length, kind == EMU_NAME_LABEL);
    struct emu_name *range =
        kind == EMU_NAME_REGISTER || kind == EMU_NAME_VECTOR ? range_of(p, name, &number) : NULL;

    // A name that this text alone sees hides that of another text.
    const bool hides = depth == 0 && before && before->declared != p->unit &&
                       before->linkage != EMU_LINKAGE_STATIC && p->linkage == EMU_LINKAGE_STATIC;
    if ((before && before->depth == depth && !hides) || (range && range->depth == depth)) {
        emu_error(p, name, "Duplicate definition of %s '%.*s'",
                  kind == EMU_NAME_LABEL      ? "label"
                  : kind == EMU_NAME_FUNCTION ? "function"
                                              : "variable",
                  EMU_TEXT(name));
        return NULL;
    }
    if (name->length > 4096) {
        emu_error(p, name, "The name is too long");
        return NULL;
    }
    const struct emu_name add = { .at = name->at,
                                  .length = name->length,
                                  .kind = (uint8_t)kind,
                                  .depth = (uint16_t)depth,
                                  .linkage = (uint8_t)p->linkage,
                                  .declared = p->unit,
                                  .index = index };
    return insert(p, add);
}

struct emu_name *emu_find_linked(struct emu_parser *p, const struct emu_token *name,
                                 enum emu_name_kind kind)
{
    struct emu_name *found = find(p, name->at, name->length, false);

    if (!found || found->depth != 0 || found->kind != kind ||
        (found->declared != p->unit && p->linkage == EMU_LINKAGE_STATIC))
        return NULL;
    found->declared = p->unit;
    if (!found->defined && found->linkage < p->linkage)
        found->linkage = (uint8_t)p->linkage;
    return found;
}

bool emu_overrides(const struct emu_parser *p, const struct emu_name *name)
{
    return name->defined != p->unit + 1 &&
           (name->linkage == EMU_LINKAGE_WEAK || name->linkage == EMU_LINKAGE_COMMON) &&
           p->linkage > name->linkage;
}

void emu_forget_static(struct emu_parser *p)
{
    struct emu_names *names = &p->names;

    for (struct emu_name **at = &names->scopes[0]; *at;) {
        struct emu_name *name = *at;
        if (name->linkage != EMU_LINKAGE_STATIC) {
            at = &name->below;
            continue;
        }
        struct emu_name **slot = &names->buckets[name->hash & (names->bucket_count - 1)];
        while (*slot != name)
            slot = &(*slot)->next;
        *slot = name->next;
        *at = name->below;
        names->count--;
    }
}

// SPDX-License-Identifier: MIT
// Reports that rules share.
#include "check.h"

bool emu_illegal(const struct check *c, emu_groups group)
{
    const struct emu_modifier *known = emu_spelled_in(c->spelled, group);

    return emu_error(c->p, &c->spelled->name,
                     "Illegal modifier '.%s' for instruction '%.*s'" EMU_NOT_PTX,
                     known ? known->name : "", EMU_TEXT(&c->spelled->name));
}

bool emu_cannot_combine(const struct check *c, emu_groups one, emu_groups other)
{
    const struct emu_modifier *a = emu_spelled_in(c->spelled, one);
    const struct emu_modifier *b = emu_spelled_in(c->spelled, other);

    return emu_error(c->p, &c->spelled->name,
                     "Modifier '.%s' cannot be combined with modifier '.%s'", a ? a->name : "",
                     b ? b->name : "");
}

bool emu_at_least(const struct check *c, const char *what, int isa, int sm)
{
    if (c->p->module->isa < isa)
        return emu_error(c->p, &c->spelled->name,
                         "Feature '%s' requires PTX ISA .version %d.%d or later", what, isa / 10,
                         isa % 10);
    if (c->p->module->sm < sm)
        return emu_error(c->p, &c->spelled->name, "Feature '%s' requires .target sm_%d or higher",
                         what, sm);
    return true;
}

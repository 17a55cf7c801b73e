// SPDX-License-Identifier: MIT
/// The steps of binding_fill(), in this order. Only for binding.c.
#ifndef PTXGEN_TOOLS_BINDING_VALUES_H
#define PTXGEN_TOOLS_BINDING_VALUES_H

#include "binding.h"

/// The argument of this name, or NULL.
struct argument *binding_argument(const struct binding *binding, const char *name);

/// Reads the values given with --set.
bool binding_read_values(struct binding *binding, struct message *error);
/// Determines the count parameters, the length of every pointer, and the launch. All tensors with
/// the same count parameter must agree.
bool binding_count(struct binding *binding, const char *path, struct message *error);
/// Determines the other values, and checks all values against their ranges.
bool binding_check_values(struct binding *binding, struct message *error);
/// Checks the elements of tensors whose parameter has a range.
bool binding_check_tensors(const struct binding *binding, const char *path, struct message *error);
/// Gives every output its dtype, shape and bytes: the shape of an input of the same length, else
/// one dimension.
bool binding_shape(struct binding *binding, struct message *error);

#endif

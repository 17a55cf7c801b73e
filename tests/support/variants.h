// SPDX-License-Identifier: MIT
/// Every text of a kernel: each dtype with each combination of option values.
#ifndef PTXGEN_TESTS_VARIANTS_H
#define PTXGEN_TESTS_VARIANTS_H

#include <ptxgen/kernels.h>

enum { VARIANT_NAME_SIZE = 128 };

/// The first variant of `dtype` (PTX_NONE: of the first dtype). False if there is none.
bool variant_first(const ptx_kernel *kernel, ptx_type dtype, struct ptx_kernel_spec *spec);
/// The next variant with the same dtype. False after the last.
bool variant_next_option(const ptx_kernel *kernel, struct ptx_kernel_spec *spec);
/// The variant in which every option takes its next value, from its last on its first. `step`
/// counts the variants of this dtype from 1. False once each option has had every value.
bool variant_next_values(const ptx_kernel *kernel, struct ptx_kernel_spec *spec, int step);
/// The next variant of this dtype that has two option values no earlier one had together; at first
/// `seen` is zeros. False after the last: then each value of each option met each value of each
/// other.
struct variant_pairs {
    bool seen[PTX_KERNEL_MAX_OPTIONS][PTX_KERNEL_MAX_CHOICES][PTX_KERNEL_MAX_OPTIONS]
             [PTX_KERNEL_MAX_CHOICES];
};
bool variant_next_pair(const ptx_kernel *kernel, struct ptx_kernel_spec *spec,
                       struct variant_pairs *pairs);
/// The next variant over all dtypes. False after the last.
bool variant_next(const ptx_kernel *kernel, struct ptx_kernel_spec *spec);

/// The value that the variant has for an option; "" if the kernel has no such option.
const char *variant_value(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                          const char *option);
bool variant_is(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec, const char *option,
                const char *value);
/// "<kernel>_<dtype>_<value>_<value>...": unique for each variant, and a valid name of an entry.
const char *variant_name(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                         char name[VARIANT_NAME_SIZE]);

enum variants {
    VARIANTS_ALL,    ///< each dtype with each combination of option values
    VARIANTS_VALUES, ///< each dtype with each value of each option, in as few entries as possible
    VARIANTS_DTYPES, ///< each dtype once
};

/// What to check for a target: all combinations where their text differs from that for the last
/// portable target by more than the module's head; with a suffix, each dtype. `last` is that text:
/// at first NULL, in the end the caller frees it.
enum variants variants_for(struct ptx_target target, char **last);

/// An entry for each of these variants of a kernel.
void variants_emit_of(ptx_builder *b, const ptx_kernel *kernel, enum variants which);
/// The same of every kernel.
void variants_emit(ptx_builder *b, enum variants which);

#endif

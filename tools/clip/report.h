// SPDX-License-Identifier: MIT
/// The report of `ptxgen clip`.
#ifndef PTXGEN_TOOLS_CLIP_REPORT_H
#define PTXGEN_TOOLS_CLIP_REPORT_H

#include "clip/run.h"

#include <stdio.h>

/// The whole job, from file to file.
struct clip_end {
    const char *input, *output; ///< paths
    double seconds;
};

/// The name of a policy, as in --nonfinite.
extern const char *const clip_policies[CLIP_POLICY_COUNT];

/// How messages name a group: quoted, or by what it holds.
const char *clip_group_title(const struct clip_job *job, const struct clip_group *group,
                             char quoted[QUOTED_SIZE]);

void clip_print(FILE *stream, const struct clip_job *job, const struct clip_report *report,
                const struct clip_end *end);
/// The report as JSON. Numbers that JSON cannot express are the strings "inf" and "nan".
bool clip_print_json(FILE *stream, const struct clip_job *job, const struct clip_report *report,
                     const struct clip_end *end, struct message *error);

#endif

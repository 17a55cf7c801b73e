// SPDX-License-Identifier: MIT
/// A kernel of the user's own PTX text, run once with arguments of the command line.
#ifndef PTXGEN_TOOLS_RUN_TEXT_H
#define PTXGEN_TOOLS_RUN_TEXT_H

#include "cli.h"
#include "place.h"

/// The words of the command line; NULL: not given.
struct run_text_params {
    const char *path; ///< of the text; - standard input
    const char *entry, *grid, *block, *shared, *seed, *sanitize;
    bool cooperative;
    struct cli_list args;
    const struct cli_list *inputs; ///< files of arrays
    const char *output;
    bool force, json;
};

/// Runs the text, prints the report and writes the arrays. Returns an exit status, with the reason
/// in `error` unless it is EXIT_DONE; after EXIT_NOTHING, emulator_take_over() may help, and
/// nothing has been read.
int run_text(const struct run_text_params *params, const struct place *place,
             struct message *error);

#endif

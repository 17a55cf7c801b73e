// SPDX-License-Identifier: MIT
/// PTX text of the user: how the command line names it, and the emulator's parser.
#ifndef PTXGEN_TOOLS_TEXT_H
#define PTXGEN_TOOLS_TEXT_H

#include "cli.h"

enum { TEXT_LIMIT = 1 << 28 };

/// What the command says of a file that is no PTX; takes its name.
#define NOT_PTX "%s: no .target: is this PTX text? nvcc -ptx and NVRTC make it of CUDA C++"

/// Whether the name of an argument is that of a text, and not of a kernel: it holds a '.' or a '/',
/// or is -.
bool is_text_name(const char *name);
/// Makes the emulator a device that runs the text's target, unless it does or the user chose the
/// device. Before the emulator is loaded. True: it is that of the text, by the environment.
bool present_target(const char *text);
/// Rewords the emulator's error about a target that present_target() gave it and it does not have.
/// False for any other error.
bool lacks_target(struct message *error);

/// Puts the lines of a compiler's log in the form FILE:LINE:COLUMN: error: TEXT.
void place_errors(struct message *log, const char *path);

enum parsed {
    PARSED_NONE, ///< no text was given
    PARSED_ACCEPTED,
    PARSED_REFUSED,
    PARSED_UNSUPPORTED, ///< it has what the emulator lacks, and nothing else is wrong
    PARSED_NOT,         ///< there is no emulator
    PARSED_FAILED,      ///< an error of another kind: memory ran out
};

/// Loads the emulator and hands the text to its parser. Unless that accepts it, `log` says why.
enum parsed parse_text(const char *text, const char *path, struct message *log);

#endif

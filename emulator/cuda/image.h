// SPDX-License-Identifier: MIT
// Images: what a program may pass as code.
#ifndef PTXGEN_EMULATOR_CUDA_IMAGE_H
#define PTXGEN_EMULATOR_CUDA_IMAGE_H

#include "state.h"

// The PTX texts in an image. They live as long as the image and `owned`.
struct api_image {
    struct emu_text *texts;
    unsigned count;
    char *owned;
};
#define API_UNKNOWN_BYTES SIZE_MAX
// On failure `log` has the reason, in the manner of ptxas.
CUresult api_image_open(const void *image, size_t bytes, struct api_image *opened, char *log,
                        size_t log_size);
void api_image_close(struct api_image *opened);
// The image without nvcc's wrapper, and its bytes if they were not known. NULL: the wrapper is
// empty.
const void *api_image_find(const void *image, size_t *bytes);
// How to ask for PTX instead of machine code, for that GPU; 0: for an unknown one.
void api_refuse_machine_code(unsigned sm, char *log, size_t size);

// The linker's code: a line of the first length, then before each text a line of the second.
enum { API_LINK_LINE = 8 + 3 + 1 + 16 + 1 + 16 + 1, API_LINK_LENGTH_LINE = 17 };
// Writes the first line, for the device and with a checksum.
void api_link_seal(char *code);

#endif

// SPDX-License-Identifier: MIT
// Compares the output of `ptxgen clip` with the plain-C reference, bit for bit, for the table of
// tools/quickstart.sh: one group, no loss scale, PyTorch's eps.
//
//     compare_clip INPUT OUTPUT MAX_NORM
//
// Prints norm, factor, and "same bits" or the number of elements that differ. Ends with 1 if any
// differs, with 2 if the files cannot be compared.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "clip_file.h"

int main(int argc, char **argv)
{
    struct clip_told told = { .eps = 1e-6f, .loss_scale = 1 };
    struct clip_found found;
    if (argc != 4) {
        fputs("usage: compare_clip INPUT OUTPUT MAX_NORM\n", stderr);
        return 2;
    }
    told.max_norm = strtof(argv[3], NULL);
    if (!clip_file_compare(argv[1], argv[2], &told, &found))
        return 2;
    printf("%.9g %.9g ", (double)found.records[0][1], (double)found.records[0][0]);
    if (found.wrong == 0)
        puts("same bits");
    else
        printf("%" PRIu64 " DIFFER\n", found.wrong);
    return found.wrong != 0;
}

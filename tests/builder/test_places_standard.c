// SPDX-License-Identifier: MIT
// test_places.c as a compiler without the extensions of GNU C takes it. The system's headers need
// them, so they come first.
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef __GNUC__
#include "test.h"
#include "test_places.c"

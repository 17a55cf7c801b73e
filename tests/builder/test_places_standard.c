// SPDX-License-Identifier: MIT
// test_places.c as a compiler without the extensions of GNU C takes it. The system's headers need
// them, so they come first.
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#undef __GNUC__
#include "test_places.c"

// SPDX-License-Identifier: MIT
// Of programs that have no main() of their own.
#include "test.h"

int main(void)
{
    return tests_run(NULL, NULL);
}

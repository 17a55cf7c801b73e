// SPDX-License-Identifier: MIT
// For blocks.py, and never compiled: where C's break and continue are directly in a block.
// ptx_if (b, c) break;
#define LOOP(b, c)                                                                                 \
    ptx_if (b, c)                                                                                  \
    continue // found
static void build(ptx_builder *b, int n)
{
    const char *text = "ptx_if (b, c) break;";
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_val x = ptx_tid(b, PTX_X), list[] = { x, x };
        ptx_if (b, ptx_lt(b, x, 4))
            continue; // found
        ptx_for (b, i, 0, 4, 1) {
            if (n > 3)
                break; // found
            for (int k = 0; k < n; k++) {
                if (k == 2)
                    continue;
                break;
            }
            switch (n) {
            case 1:
                break;
            case 2:
                continue; // found
            default:
                ptx_if (b, x)
                    while (n--)
                        ptx_loop (b) {
                            break; // found
                        }
            }
            do
                break;
            while (n);
        }
        ptx_if (b, x) {
            ptx_add(b, x, x);
        }
        ptx_else (b) {
            if (n) {
                continue; // found
            } else
                break; // found
        }
        ptx_continue_if(b, x);
    }
    while (n)
        break;
    REFUSED(ptx_while (b, ptx_lt(b, x, 3)) {
        break; // found
    });
}

#!/bin/sh
# SPDX-License-Identifier: MIT
# ptxgen.hpp under each compiler and standard, with and without exceptions; and what must not
# compile, in C++ and in C. Argument: the include folder. Without a C++ compiler: 77.
set -eu
include=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
compilers=0
fail()
{
    echo "$*"
    failed=1
}

uses='void use(ptx::builder &b, ptx::device &d, const ptx::value &x, ptx::variable &v, ptx::pointer &p) {'
cat >"$folder/good.cc" <<END
#include <ptxgen/ptxgen.hpp>
#include <ptxgen/ptxgen.hpp>
void use(ptx::builder &b, ptx::device &d, const ptx::value &x, ptx::variable &v, ptx::pointer &p);
$uses
    v = x * 2 + p[x];
    ptx::module module(d, b.finish());
    ptx::buffer memory(d, 16);
    if (ptx::launch(module.function("k"), ptx::grid(1), memory, 3u) != PTX_OK)
        d = ptx::device();
}
END
cat >"$folder/bad" <<'END'
auto e = x * 2; ptx::value y = e;
auto e = x * 2; v = e;
auto e = x * 2; ptx::value y = e + e;
ptx::value y = x < 1 && x > 2;
ptx::value y = x < 1 || x > 2;
if (x < 1) b.barrier();
ptx::variable w = v;
ptx::device e = d;
ptx::builder c = b;
ptx::value y = x + "1";
ptx::value y = ptx::cast<bool>(x);
auto e = p[x]; e = x;
x = x + 1;
x += 1;
ptx_printf(b, "", x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x);
END
# A function a line, after the first.
{
    echo '#include <ptxgen/ptxgen.hpp>'
    awk -v uses="$uses" '{ start = uses; sub(/use\(/, "use" NR "(", start); print start, $0, "}" }' \
        "$folder/bad"
} >"$folder/bad.cc"

# Plain numbers in fields that are values.
cat >"$folder/bad_fields" <<'END'
ptx_cp_async(b, p, p, 16, .taken = 0);
ptx_shfl(b, PTX_SHFL_IDX, x, 0, .mask = 0);
ptx_atomic(b, PTX_ATOMIC_cas, p, 0, 5, .compare = 0);
ptx_op(b, PTX_OP_add, .x = x, .y = 0);
ptx_cvt(b, PTX_E4M3X2, x, .hi = 0.5);
ptx_add(b, x, ptx_cvt(b, PTX_E4M3X2, x, .hi = 2.0));
ptx_asm(b, "add.u32 %0, %1, %2;", .result = { PTX_U32 }, .in = { x, 0 });
ptx_asm(b, "add.u32 %0, %0, 1;", .inout = { 5 });
ptx_asm_many(b, &x, "add.u32 %0, %1, %2;", .result = { PTX_U32 }, .in = { x, 5 });
END
{
    echo '#include <ptxgen/builder.h>'
    awk '{ print "void use" NR "(ptx_builder *b, ptx_ptr p, ptx_val x);" \
               " void use" NR "(ptx_builder *b, ptx_ptr p, ptx_val x) { (void)p, (void)x;", $0, "}" }' \
        "$folder/bad_fields"
} >"$folder/bad.c"
for compiler in gcc clang; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    "$compiler" -std=c11 -I"$include" -fsyntax-only "$folder/bad.c" >"$folder/errors" 2>&1 || true
    number=1
    while read -r line; do
        number=$((number + 1))
        grep -q "bad.c:$number:" "$folder/errors" || fail "$compiler compiles: $line"
    done <"$folder/bad_fields"
    sed -E 's/= (0|2[.]0|0[.]5)\)/= x)/; s/, [05] }/, x }/; s/\{ 5 \}/{ x }/' "$folder/bad.c" >"$folder/good.c"
    "$compiler" -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$include" \
        -fsyntax-only "$folder/good.c" || fail "$compiler refuses values in fields"
done

for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    compilers=$((compilers + 1))
    for flags in -std=c++17 -std=c++20 '-std=c++17 -fno-exceptions -DPTXGEN_NO_PLACES'; do
        # shellcheck disable=SC2086 # several flags
        "$compiler" $flags -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$include" \
            -fsyntax-only "$folder/good.cc" || fail "$compiler $flags refuses ptxgen.hpp"
    done
    "$compiler" -std=c++17 -I"$include" -fsyntax-only "$folder/bad.cc" 2>"$folder/errors" || true
    number=1
    while read -r line; do
        number=$((number + 1))
        grep -q "bad.cc:$number:" "$folder/errors" || fail "$compiler compiles: $line"
    done <"$folder/bad"
    grep -q 'at most 16 values' "$folder/errors" || fail "$compiler does not say how many values"
done
if [ "$compilers" = 0 ]; then
    echo "skipped: no g++ or clang++"
    exit 77
fi
exit $failed

#!/bin/sh
# SPDX-License-Identifier: MIT
# ptxgen.hpp under each compiler and standard, with and without exceptions; and what must not
# compile. Argument: the include folder. Without a C++ compiler: 77.
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

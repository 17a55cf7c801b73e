#!/bin/sh
# SPDX-License-Identifier: MIT
# ptxgen.hpp under each compiler and standard, with and without exceptions, and its one error under
# those before C++17; and what must not compile, in C++ and in C. Argument: the include folder. Without a C++ compiler: 77.
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
    ptx::function f = b.func<float>("f", [&] { return b.param<float>("y") * 2; });
    ptx::pointer table = b.const_("t", { 1.0f, 2.0f }), hits = b.global<int>("hits", 4);
    b.printf("%f %u\n", f(table[1]), x);
    b.assert_(x < 4, "x < 4");
    ptx::fragment_variable sum = b.var(b.fragment_fill(0.0f));
    sum = ptx::mma(b.fragment_load(PTX_FRAGMENT_A, PTX_F16, 16, p, 16), sum, sum);
    sum.store(b.shared_dynamic<float>(), 8);
    ptx::value y = b.asm_(ptx::text("abs.s32 %0, %1;").result<int>().in(x).pure());
    auto [z, w] = b.asm_many<2>(ptx::text("").result<int>().result<int>());
    hits.store_vec(0, { y, z + w }), hits.atomic_cas(0, y, z);
    ptx::value n = b.inlined("g", [&] { return hits.load_vec(0, 2)[1] + 1; });
    v = ptx::shfl_down(n, 1) + ptx::ballot(y < z) + b.laneid();
    ptx::clip_plan plan;
    plan.run();
    ptx::graph g = ptx::capture(d, nullptr, [&] { plan.apply(); });
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
b.for_(0, x, 1, [&] {});
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

# Wrong calls: the errors are at the caller's line.
cat >"$folder/wrong_calls" <<'END'
ptx_add(b, x);
ptx_add(b, x, x, x);
ptx_select(b, x, x);
ptx_add(b, p, x);
ptx_sqrt(b, "1");
ptx_set(b, x, p);
ptx_load(b, x, 0);
ptx_load(b, p, p);
ptx_store(b, p, p, x);
ptx_if (b, p) { }
ptx_load(b, p);
ptx_store(b, p, x);
ptx_cvt(b, PTX_F32);
ptx_mma(b, f, f, x);
ptx_store_vec(b, p, 0, x);
ptx_stmatrix(b, p, x);
ptx_load(b, p, 0, 1);
ptx_store(b, p, 0, x, 1);
ptx_load_vec(b, p, 0, 4, 1);
ptx_atomic_vec(b, PTX_ATOMIC_add, p, 0, ptx_vec2(x, x), 1);
ptx_param(b, PTX_F32);
ptx_global(b, PTX_F32);
ptx_entry (b) { }
ptx_func (b) { }
END
# A function a call, of five lines; every error must be at a call's line.
for suffix in c cc; do
    {
        echo '#include <ptxgen/builder.h>'
        while read -r line; do
            echo 'void use(ptx_builder *b, ptx_ptr p, ptx_val x, ptx_fragment f);'
            echo 'void use(ptx_builder *b, ptx_ptr p, ptx_val x, ptx_fragment f) { (void)p, (void)x, (void)f;'
            echo "$line"
            echo '}'
            echo
        done <"$folder/wrong_calls" | awk '{ sub(/use\(/, "use" int((NR - 1) / 5) "("); print }'
    } >"$folder/wrong.$suffix"
done
for compiler in gcc clang g++ clang++; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    case $compiler in *++) suffix=cc standard=c++20 ;; *) suffix=c standard=c11 ;; esac
    case $compiler in clang*) all=-ferror-limit=0 ;; *) all=-fmax-errors=0 ;; esac
    "$compiler" -std=$standard $all -I"$include" -fsyntax-only "$folder/wrong.$suffix" >"$folder/errors" 2>&1 &&
        fail "$compiler compiles wrong calls"
    grep 'error:' "$folder/errors" >"$folder/all_errors" || true
    number=-1
    while read -r line; do
        number=$((number + 5))
        error=$(grep -m 1 "wrong.$suffix:$number:.*error:" "$folder/all_errors") ||
            fail "$compiler compiles, or has no error at the line of: $line"
        case $line in
        'ptx_add(b, x);' | 'ptx_load(b, p);' | 'ptx_cvt(b, PTX_F32);') what='requires 3 arguments, but only 2' ;;
        'ptx_store(b, p, x);') what='requires 4 arguments, but only 3' ;;
        'ptx_add(b, p, x);' | ptx_sqrt* | ptx_set* | 'ptx_store(b, p, p, x);' | ptx_if*)
            what='an operand is a value .ptx_val. or a number|incompatible type for argument 2 of' ;;
        ptx_mma* | ptx_store_vec* | ptx_stmatrix*) what=ptxgen_as_ ;;
        *) continue ;;
        esac
        echo "$error" | grep -qE "$what|too few arguments provided|ptx_val.*ptx_(vec|fragment)" ||
            fail "$compiler: $line: $error"
    done <"$folder/wrong_calls"
    # After a macro with too few arguments, its name means nothing.
    elsewhere=$(awk -F : '$1 ~ /wrong[.]c+$/ && ($2 + 1) % 5 == 0 { last = $0; next }
        !(/undeclared/ && last ~ /requires/) { print } { last = "" }' "$folder/all_errors")
    [ -z "$elsewhere" ] || fail "$compiler: errors at other lines than the calls': $elsewhere"
done

# Arrays of ptx::value and ptx::fragment, which are larger than the objects of C: each line is refused.
cat >"$folder/arrays" <<'END'
ptx_words_add(b, 4, x, x, x, NULL);
ptx_words_sub(b, 4, x, x, x, &x[3]);
ptx_words_mad(b, 3, x, x, y, x);
ptx_call_emit(b, "f", x, 4);
ptx_call_many_emit(b, "f", x, 4);
ptx_return_values_emit(b, x, 4);
ptx_printf_emit(b, "", x, 4);
ptx_asm_many_emit(b, x, ptx_asm_params());
ptx_matrix_load(b, m, 0, 0, 4, c);
ptx_matrix_store(b, m, 0, 0, 4, c);
ptx_fragment_to_a(b, PTX_F16, 16, c);
END
for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    for types in 'ptx_val x[4]; ptx_fragment c[4];' 'ptx::value x[4]; ptx::fragment c[4];'; do
        {
            printf '%s\n' '#include <ptxgen/ptxgen.hpp>' 'void use(ptx::builder &b, ptx::value y, ptx::matrix m) {' \
                "$types (void)y, (void)m;"
            cat "$folder/arrays"
            echo '}'
        } >"$folder/arrays.cc"
        if "$compiler" -std=c++17 -I"$include" -fsyntax-only "$folder/arrays.cc" >"$folder/errors" 2>&1; then
            accepted=$(wc -l <"$folder/arrays")
        else
            accepted=0
        fi
        refused=$(grep -E 'error: .*deleted' "$folder/errors" | grep -oE 'arrays.cc:[0-9]+:' | sort -u | wc -l)
        case $types:$accepted:$refused in
        ptx_val*:11:0 | ptx::value*:0:11) ;;
        *) fail "$compiler: arrays of $types: $refused of 11 lines are refused: $(cat "$folder/errors")" ;;
        esac
    done
done

# Operands in operands: six levels are at most four times the text of three, and not eight.
levels()
{
    awk -v n="$2" 'BEGIN {
        print "#include <ptxgen/builder.h>\nptx_val use(ptx_builder *b, ptx_val x) {\n    return "
        for (k = 0; k < n; k++) printf "ptx_add(b, ptx_bitcast(b, PTX_U32, "
        printf "x"
        for (k = 0; k < n; k++) printf "), 1)"
        print ";\n}"
    }' >"$folder/levels.c"
    "$1" -std=c11 -I"$include" -E "$folder/levels.c" | sed '1,/^ptx_val use/d' | wc -c
}
for compiler in gcc clang; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    [ "$(levels $compiler 6)" -le $(($(levels $compiler 3) * 4)) ] ||
        fail "$compiler: the text of operands in operands doubles with each level"
done

# Calls in one another, members with the names of instructions: silent, and without GNU C too.
cat >"$folder/nested.c" <<'END'
#include <ptxgen/ptxgen.h>
struct wrapper { int set, add; };
int use(ptx_builder *b, ptx_ptr p, struct wrapper w);
int use(ptx_builder *b, ptx_ptr p, struct wrapper w)
{
    ptx_entry (b, "k") {
        ptx_val x = ptx_add(b, ptx_add(b, ptx_tid(b, PTX_X), 1), ptx_mul(b, ptx_laneid(b), w.add));
        ptx_if (b, ptx_lt(b, x, 4u))
            ptx_store(b, p, 0, ptx_load(b, p, x, .nc = true), .cache = PTX_CACHE_STREAMING);
        ptx_printf(b, "%u %f", x, ptx_cvt(b, PTX_F32, x));
        ptx_shfl(b, PTX_SHFL_DOWN, x, 1, .width = 16);
        ptx_store_vec(b, p, 0, ptx_vec2(1, ptx_cvt(b, PTX_F32, x, .round = PTX_ROUND_RZ)));
        ptx_atomic_add(b, p, 0, 0.5);
#ifdef __GNUC__
        ptx_if (b, ptx_lt(b, x, 5)) ptx_while (b, ptx_lt(b, x, 6)) { ptx_if (b, ptx_lt(b, x, 7)) ptx_break(b); }
#endif
    }
    return w.set;
}
END
cp "$folder/nested.c" "$folder/nested.cc"
# A template leaves fields out as a function does.
cat >>"$folder/nested.cc" <<'END'
template <class T> ptx_val use_in_template(ptx_builder *b, ptx_ptr p, T x)
{
    ptx_entry (b, "k", .block = { 32 }) {
        ptx_val n = ptx_param(b, PTX_U32, "n");
        x = ptx_load(b, p, ptx_cvt(b, PTX_U32, x, .round = PTX_ROUND_RZ), .nc = true);
        ptx_store(b, p, 0, ptx_shfl(b, PTX_SHFL_DOWN, x, 1, .width = 16), .cache = PTX_CACHE_STREAMING);
        ptx_store_vec(b, p, 0, ptx_load_vec(b, p, n, 2));
        ptx_atomic(b, PTX_ATOMIC_add, p, 0, x, .order = PTX_ORDER_RELAXED);
        ptx_cp_async(b, p, p, 16, .taken = n);
        ptx_fragment f = ptx_fragment_load(b, PTX_FRAGMENT_A, PTX_F16, 16, p, 8);
        ptx_mma(b, f, f, ptx_fragment_fill(b, 0));
        ptx_stmatrix(b, p, ptx_ldmatrix(b, p, 4));
        ptx_assert(b, ptx_lt(b, n, 9), "n < 9");
        ptx_asm(b, "nanosleep.u32 %0;", .in = { n });
        return ptx_op(b, PTX_OP_add, .x = x, .y = x);
    }
    return x;
}
ptx_val use_template(ptx_builder *b, ptx_ptr p, ptx_val x);
ptx_val use_template(ptx_builder *b, ptx_ptr p, ptx_val x) { return use_in_template(b, p, x); }
END
cat >>"$folder/nested.cc" <<'END'
class owner {
  public:
    explicit owner(ptx_builder *of) : b(of) {}
    ptx_val add(ptx_val x, ptx_val y) const { return ptx_add(b, x, y); }
    void set(ptx_val x, int y) const { ptx_set(b, x, y); }

  private:
    ptx_builder *b;
};
enum size : unsigned char { SMALL = 3 };
ptx_val use_numbers(ptx_builder *b, ptx_val x);
ptx_val use_numbers(ptx_builder *b, ptx_val x)
{
    x = ptx_bitcast(b, PTX_F32, ptx_add(b, ptx_add(b, x, 'c'), ptx_add(b, true, ptx_add(b, x, SMALL))));
    return ptx_fma(b, x, 0.5L, ptx_copysign(b, 1.f, ptx_max(b, short(1), ptx_var(b, 2ull))));
}
ptx_val use_owner(const owner &o, ptx_val x);
ptx_val use_owner(const owner &o, ptx_val x) { return o.set(x, 1), o.add(x, x); }
END
for compiler in gcc clang; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    for flags in -DGNU -U__GNUC__; do
        "$compiler" -std=c11 $flags -pedantic-errors -Wall -Wextra -Wshadow -Werror -I"$include" \
            -fsyntax-only "$folder/nested.c" || fail "$compiler $flags refuses nested calls"
    done
done
for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    "$compiler" -std=c++20 -pedantic-errors -Wall -Wextra -Wshadow -Werror -I"$include" \
        -fsyntax-only "$folder/nested.cc" || fail "$compiler refuses nested calls"
done

for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    compilers=$((compilers + 1))
    for flags in -std=c++17 -std=c++20 -std=c++2b '-std=c++17 -fno-exceptions -DPTXGEN_NO_PLACES'; do
        # shellcheck disable=SC2086 # several flags
        "$compiler" $flags -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast \
            -Werror -I"$include" -fsyntax-only "$folder/good.cc" || fail "$compiler $flags refuses ptxgen.hpp"
    done
    # An older standard gets one error and nothing else.
    echo '#include <ptxgen/ptxgen.hpp>' >"$folder/old.cc"
    for standard in c++98 c++11 c++14; do
        "$compiler" -std=$standard -Wall -Wextra -I"$include" -fsyntax-only "$folder/old.cc" \
            2>"$folder/errors" && fail "$compiler takes ptxgen.hpp as $standard"
        if [ "$(grep -Ec '(error|warning):' "$folder/errors")" != 1 ] ||
            ! grep -q 'error.*ptxgen.hpp is for C++17 and later' "$folder/errors"; then
            fail "$compiler -std=$standard: $(cat "$folder/errors")"
        fi
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

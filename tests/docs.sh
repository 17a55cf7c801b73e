#!/bin/sh
# SPDX-License-Identifier: MIT
# Every path, function, name and count that docs/design.md and CONTRIBUTING.md give is there, so is every
# name in a comment of a public header, and the constants that the other pages give are those of the sources.
# usage: docs.sh SOURCE_DIRECTORY
set -u
export LC_ALL=C
cd "$1" || exit 1
failed=0
checked=0
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

fail()
{
    echo "$*" >&2
    failed=$((failed + 1))
}

find . -path ./.git -prune -o -name 'build*' -type d ! -path './tests/builder' -prune -o -type f -print |
    sed 's|^\./||' >"$scratch/files"
for folder in include src emulator abi tools tests examples; do
    grep "^$folder/.*\.[ch]$\|^$folder/.*\.def$" "$scratch/files"
done >"$scratch/sources"
# Every word of the sources once, without their comments.
xargs sed 's|//.*||' <"$scratch/sources" | grep -oE '[A-Za-z_][A-Za-z_0-9]*' | sort -u >"$scratch/words"

# is_word PATTERN: true if a word of the sources matches this basic regular expression as a whole.
is_word()
{
    grep -qx -- "$1" "$scratch/words"
}

# PTX_OP_add and ptx_add() come from a row of the table.
is_name()
{
    is_word "$1" && return
    row=$(echo "$1" | sed -n 's/^PTX_OP_//p; s/^ptx_//p')
    [ -n "$row" ] && grep -q "X($row," include/ptxgen/ops.h
}

# is_file PATTERN FOLDER...: * is any part of a name. The file is below a folder; without / it is
# anywhere.
is_file()
{
    pattern=$(echo "$1" | sed 's/[.]/\\./g; s/\*/[^ ]*/g; s|/$||')
    case $1 in
    */*) grep -qE "^($2/)?(src/kernels/|include/)?$pattern(/.*)?$" "$scratch/files" ;;
    *) grep -qE "(^|/)$pattern$" "$scratch/files" ;;
    esac
}

check_token()
{
    file=$1
    # A process for each token is what this script takes its time for: only where it may match.
    token=$2
    name=
    case $token in
    *'<'*) token=$(echo "$token" | sed 's/<[a-z]*>/*/g') ;;
    esac
    case $token in
    build/* | /* | -* | *=* | '$'*) return ;; # made elsewhere, or an option
    *'('*) name=$(echo "$token" | sed -n 's/^\([A-Za-z_*][A-Za-z_0-9*]*\) *(.*/\1/p') ;;
    *[./_]*) ;;
    *) return ;;
    esac
    if [ -n "$name" ]; then
        is_name "$(echo "$name" | sed 's/\*/[a-z_0-9]*/g')" || fail "$file: there is no function $token"
    elif echo "$token" | grep -qE '^[A-Za-z_0-9.*/-]+\.(c|h|def|md|sh|py|txt|scd|ptx|dict)$|^[a-z_.*]+/[A-Za-z_0-9.*/-]*$'; then
        # Or a file that a script of the tests writes.
        is_file "$token" "$(dirname "$file")" || grep -qwF -- "$token" tests/*/*.sh ||
            fail "$file: there is no file $token"
    elif echo "$token" | grep -qE '^(PTX[A-Z]*|ptx[a-z]*|CUDA_ABI)_[A-Za-z_0-9*]+$'; then
        is_name "$(echo "$token" | sed 's/\*/[a-z_0-9]*/g')" || grep -rqw -- "$token" tools tests bench .ci ||
            fail "$file: there is no $token"
    else
        return
    fi
    checked=$((checked + 1))
}

for file in docs/design.md CONTRIBUTING.md; do
    # Without blocks of code, which are commands and excerpts. A span may be on two lines.
    awk '/^ *```/ { code = !code; next } !code' "$file" | tr '\n' ' ' | grep -oE '`[^`]+`' | tr -d '`' |
        sort -u >"$scratch/tokens"
    [ -s "$scratch/tokens" ] || fail "$file: nothing found in it"
    while IFS= read -r token; do
        check_token "$file" "$token"
    done <"$scratch/tokens"
done

# ---- links of all pages lead to a file and a heading, also where they are installed; the pages of users have no
# commits and no goals

# anchors FILE: the anchors of its headings, as GitHub makes them.
anchors()
{
    awk '/^ *```/ { code = !code } !code && /^#+ /' "$1" | sed 's/^#* //; s/[^A-Za-z0-9_ -]//g; s/ /-/g' | tr A-Z a-z
}

for file in *.md docs/*.md bench/README.md emulator/README.md; do
    awk '/^ *```/ { code = !code } !code' "$file" | grep -oE '\]\([^):]+\)' | tr -d ']()' | sort -u >"$scratch/links"
    while IFS= read -r link; do
        target=$file
        [ "${link%%#*}" ] && target=$(dirname "$file")/${link%%#*}
        case $file:$link in
        docs/*:../examples* | docs/*:../*.md | docs/*:../*.md#*) ;;
        docs/*:../*) fail "$file: a link to $link, which is not installed beside the page" ;;
        esac
        if [ ! -e "$target" ]; then
            fail "$file: a link to $link, which is not there"
        elif [ "${link#*#}" != "$link" ]; then
            anchors "$target" | grep -qxF -- "${link#*#}" || fail "$file: no heading for the link $link"
        fi
        checked=$((checked + 1))
    done <"$scratch/links"
done
# Of words with the length of a commit, those that have a digit and a letter.
grep -noE '\b[0-9a-f]{7}\b' README.md docs/*.md | grep ':[^:]*[0-9][^:]*$' | grep ':[^:]*[a-f][^:]*$' >"$scratch/tokens"
grep -nwiE 'our goals?|\(goal|goal of|commit [0-9a-f]+' README.md docs/*.md >>"$scratch/tokens"
while IFS= read -r token; do
    fail "belongs in bench/results: $token"
done <"$scratch/tokens"

# ---- each file of bench/results has a row in its README.md, each name there a file

grep -oE '^\| `[^|]*`' bench/results/README.md | tr -d '|' | while read -r names; do
    folder=
    for name in $(echo "$names" | tr -d '`,'); do
        case $name in */*) folder=${name%/*} ;; esac
        # shellcheck disable=SC2086 # a pattern
        ls bench/results/$folder/${name##*/} 2>/dev/null || echo "no $name"
    done
done | sort >"$scratch/named"
find bench/results -mindepth 2 -type f | sort | comm -3 - "$scratch/named" >"$scratch/tokens"
while IFS= read -r token; do
    fail "bench/results/README.md and the files beside it differ: $token"
done <"$scratch/tokens"

# ---- every contract that a source names is in the table, and every one of the table is named by what holds it

grep -rhoE '\b[CF]-[A-Z-]+-[0-9]{3}\b' tests/*/ examples bench/*.py | sort -u >"$scratch/contracts"
[ "$(grep -c . "$scratch/contracts")" -ge 7 ] || fail "too few contracts are named: $(cat "$scratch/contracts")"
sed -n 's/^| \([CF]-[A-Z-]*-[0-9]*\) |.*/\1/p' docs/plans.md | sort -u | comm -3 - "$scratch/contracts" >"$scratch/tokens"
while IFS= read -r token; do
    fail "docs/plans.md, or what holds the contract, does not have $token"
done <"$scratch/tokens"
# The tests that the table names, without where they run.
grep -rhoE "'[a-z_ ]+'" tests/*/meson.build examples/meson.build | tr -d "'" | tr _ ' ' | sort -u >"$scratch/tests"
sed -n '/^## Contracts/,/^## Across/s/^| [CF]-.*| \(.*\) |$/\1/p' docs/plans.md | grep -oE '`[a-z][a-z_ ]+[a-z]( [0-9])?`' |
    tr -d '`' | sed 's/ [0-9]$//; s/ emulator$//; s/^example //; s/^clip //' | sort -u >"$scratch/tokens"
while IFS= read -r token; do
    grep -qx -- "$token" "$scratch/tests" || fail "docs/plans.md: there is no test $token"
    checked=$((checked + 1))
done <"$scratch/tokens"

# ---- the functions of math.h and their bounds

sed -n 's/^ *X(\([a-z0-9]*\), \([0-9.]*\), ".*/\1 \2/p' include/ptxgen/math.h >"$scratch/math"
[ -s "$scratch/math" ] || fail "no function in math.h"
while read -r function bound; do
    grep -qF "| \`ptx_math_$function()\` | $bound | " docs/math.md ||
        fail "docs/math.md does not have ptx_math_$function() with its bound, $bound"
    checked=$((checked + 1))
done <"$scratch/math"

# ---- names in the comments of the public headers

sed -n 's|.*//||p' include/ptxgen/*.h | grep -oE '\b(ptx|PTX|PTXGEN)_[A-Za-z_0-9]+' | sort -u >"$scratch/tokens"
while IFS= read -r token; do
    is_name "$token" || is_name "${token}[A-Za-z_0-9]*" || fail "include/ptxgen: there is no $token"
    checked=$((checked + 1))
done <"$scratch/tokens"

# ---- pages show functions that a test runs

# shows PAGE SOURCE FUNCTION...
shows()
{
    page=$1
    source=$2
    shift 2
    # Lines may have their numbers before them.
    awk '/^```/ { code = $0 == "```c"; next } code' "$page" | sed 's/^[ 0-9][0-9]  //' >"$scratch/shown"
    for function; do
        sed -n "/^static.* $function(/,/^}/p" "$source" >"$scratch/function"
        [ -s "$scratch/function" ] || fail "$source: there is no $function()"
        sed -n "/^static.* $function(/,/^}/p" "$scratch/shown" | cmp -s - "$scratch/function" ||
            fail "$page does not show $function() of $source as it is"
        checked=$((checked + 1))
    done
}

shows docs/asm.md tests/hardware/test_rows_asm.c dot reduce
shows docs/matrices.md tests/builder/test_guides.c product
shows docs/functions.md tests/builder/test_guides.c polynomial
shows docs/messages.md tests/builder/test_guides.c report
shows docs/debugging.md examples/row_sums.c row_load row_sums

# ---- counts

number()
{
    case $1 in
    [0-9]*) echo "$1" | tr -d , ;;
    *)
        n=0
        for word in zero one two three four five six seven eight nine ten eleven twelve \
            thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty; do
            [ "$1" = $word ] && echo $n
            n=$((n + 1))
        done
        ;;
    esac
}

# counts FILE 'WORDS AFTER THE NUMBER' HOW_MANY_THERE_ARE
counts()
{
    said=$(tr '\n' ' ' <"$1" | tr A-Z a-z | sed -n "s/.*[^a-z0-9,]\([a-z0-9,]*\) $2.*/\1/p")
    [ -n "$said" ] || fail "$1 does not say how many: $2"
    [ "$(number "$said")" = "$3" ] || fail "$1 says \"$said $2\", and there are $3"
    checked=$((checked + 1))
}

kernels=$(sed -n '/define PTX_KERNELS(X)/,/^$/p' include/ptxgen/kernels.h | grep -c '^ *X(')
layers=$(sed -n 's/^layers = \[\(.*\)\]$/\1/p' meson.build | tr , '\n' | grep -c _layer)
rooms=$(find emulator -mindepth 1 -maxdepth 1 -type d ! -name tests | grep -c .)
places=$(awk '/^## /{ in_it = $0 == "## A kernel" } in_it && /^[0-9]+\. /' CONTRIBUTING.md | grep -c .)
counts docs/design.md 'kernels, as data' "$kernels"
counts docs/design.md 'layers, each usable' "$layers"
counts docs/design.md 'rooms:\*\*' "$rooms"
counts docs/design.md 'places, which \[contributing' "$places"
counts CONTRIBUTING.md 'places:' "$places"
counts CONTRIBUTING.md 'random programs' "$(grep -c '^[0-9]' tests/hardware/h200-programs.txt)"

# lines FILE MOST: the page has no more lines.
lines()
{
    [ "$(grep -c '' "$1")" -le "$2" ] || fail "$1 has more than $2 lines"
    checked=$((checked + 1))
}

lines README.md 150
lines docs/performance.md 120

# ---- constants

# value SOURCE NAME: the value of the enumerator.
value()
{
    expression=$(sed -n "s/.*[^A-Z_]$2 = \([0-9][0-9< ]*\).*/\1/p" "$1" | head -n 1)
    # shellcheck disable=SC2004 # it may be 1 << 22
    [ -n "$expression" ] && echo $(($expression))
}

log2()
{
    power=0
    while [ $((1 << power)) -lt "${1:-1}" ]; do
        power=$((power + 1))
    done
    echo $power
}

# states FILE 'WORDS': fails unless the file has the words, with any line breaks.
states()
{
    tr '\n' ' ' <"$1" | grep -qF -- "$2" || fail "$1 does not say: $2"
    checked=$((checked + 1))
}

source=src/kernels/squared_sum.c
most=$(value $source SHORT_MOST)
states docs/kernels.md "A chunk has C = $(value $source SHORT_CHUNK) elements for n up to $most (2^$(log2 "$most")), \
and C = $(value $source CHUNK) beyond"
threads=$(value src/kernels/common/chunk.h CHUNK_BLOCK)
states docs/kernels.md "for a block of $threads threads"
states docs/kernels.md "1. $threads L running sums"
states docs/kernels.md "n / $(value src/kernels/common/channel_walk.h CHANNELS_CHUNK), rounded up"
states docs/kernels.md "One block of $(value src/kernels/clip_scale_reduce.c BLOCK) threads"

source=src/plans/norm_layout.c
first=$(sed -n 's/.* sizes\[\] = { { \([0-9]*\),.*/\1/p' $source)
last=$(sed -n '/ sizes\[\]/,/^}/s/^ *return 1 << \([0-9]*\);/\1/p' $source)
states docs/plans.md "a power of two from $first to 2^$last elements"
states docs/plans.md "that number would exceed $(value $source FEW_CHUNKS)"
source=src/kernels/norm.h
threads=$(value $source NORM_BLOCK)
states docs/plans.md "$threads threads sum a chunk"
states docs/plans.md "The $threads threads form teams"
states docs/plans.md "holds up to $(value $source NORM_PIECES) pieces"
states docs/plans.md "up to $(value src/kernels/clip_apply.h CLIP_FUSED) tiles"
vector=$(value src/kernels/common/vector.h VECTOR_BYTES)
states docs/plans.md "takes the $vector-byte vectors j,"
states docs/plans.md "turns of $((vector * $(value $source NORM_PIECE_VECTORS))) bytes a thread"
states docs/limits.md "types in a step plan | $(value src/kernels/step_apply.h PTXK_STEP_MOST_VARIANTS) |"
states docs/limits.md "at most $(value src/ptxgen/function.c MOST_PIECES) times"
states docs/limits.md "are nested up to $(value src/ptxgen/function.c MOST_NESTED) deep"
states docs/limits.md "keep $(sed -n 's/^_MOST_SETS = //p' python/ptxgen/torch/clip.py) plans at most"
states docs/limits.md "constant memory | $(($(value src/ptxgen/data.c CONST_BYTES) / 1024)) KiB a module"

# Each limit of a public header is on the page of limits, after its value; a power of two may be 2^n.
grep -ohE 'PTX_[A-Z]+_MAX_[A-Z]+ = [0-9<( ]+|define PTX_[A-Z]+_MAX_[A-Z]+ .*' include/ptxgen/*.h |
    sed 's/define //; s/ = / /; s/UINT64_C(\([0-9]*\))/\1/; s/[()]//g' >"$scratch/tokens"
[ "$(grep -c . "$scratch/tokens")" -ge 10 ] || fail "too few limits in include/ptxgen: $(cat "$scratch/tokens")"
while read -r name expression; do
    # shellcheck disable=SC2004 # it may be 1 << 20
    number=$(($expression))
    power=$(log2 $number)
    [ $((1 << power)) -eq $number ] && number="($number|2\\^$power)"
    grep -qE "[ (]$number [a-z ]*\(?\`$name\`" docs/limits.md ||
        fail "docs/limits.md does not have $number (\`$name\`)"
    checked=$((checked + 1))
done <"$scratch/tokens"

# ---- the emulator's settings

page=docs/emulator.md
gpus=$(sed -n '/ gpus\[\] = {/,/};/s/^ *{ \([0-9]*\), .*/\1/p' emulator/exec/gpu.c | tr '\n' ' ')
states $page "NN is $(echo "$gpus" | sed 's/ $//; s/ /, /g; s/, \([0-9]*\)$/ or \1/');"
states $page "next $(value emulator/exec/memory/memory.c QUARANTINE) frees"
states $page "the first $(value emulator/exec/memory/memory.c POISON_MIB) MiB"

# default VARIABLE VALUE: compares with the last column of the variable's row.
default()
{
    said=$(sed -n "s/^| .PTXGEN_EMU_$1. | .* | \(.*\) |$/\1/p" $page)
    [ "$said" = "\`$2\`" ] || fail "$page: the default of PTXGEN_EMU_$1 is $2, not $said"
    checked=$((checked + 1))
}

source=emulator/cuda/environment.c
sm=$(value $source DEFAULT_SM)
default DEVICE "sm_$sm,sms=$(sed -n "s/^ *{ $sm, \([0-9]*\), .*/\1/p" emulator/exec/gpu.c)"
default DRIVER "$(sed -n '/} newest_isa/,/};/s/^ *{ \([0-9]*\), .*/\1/p' $source | head -n 1)"
default MEMORY "$(value $source DEFAULT_GIB)G"
for variable in SANITIZE SEED THREADS TIMEOUT INSTRUCTIONS; do
    default $variable "$(value $source "DEFAULT_$variable")"
done
variables=$(sed -n '/} variables\[\]/,/};/p' $source | grep -o '"[A-Z]*"' | tr -d '"')
[ "$(echo "$variables" | wc -l)" -ge 10 ] || fail "$source: found only the variables $variables"
for variable in $variables; do
    states $page "| \`PTXGEN_EMU_$variable\` |"
done

[ "$checked" -gt 60 ] || fail "only $checked names were looked at"
echo "$checked paths, functions, names, counts and constants; $failed are wrong"
[ "$failed" -eq 0 ]

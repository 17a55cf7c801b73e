#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks the public headers against docs/names.md, as far as a shell can.
# usage: names.sh INCLUDE_DIRECTORY
set -u
include=$1
export LC_ALL=C
failed=0
fail()
{
    echo "names: $*" >&2
    failed=1
}

# The headers, one declaration a line, without comments and continued directives.
text=$(mktemp) || exit 1
trap 'rm -f "$text" "$text".*' EXIT
cat "$1"/ptxgen/*.h "$1"/ptxgen/*/*.h 2>/dev/null | sed 's|//.*||; s|/\*[^*]*\*/||g' |
    sed -e ':join' -e '/\\$/{N;s/ *\\\n */ /;b join' -e '}' >"$text"
grep -q PTXGEN_API "$text" || { echo "names: no headers in $1" >&2; exit 1; }

# ---- enumerators carry their type
tr '\n' ' ' <"$text" | sed 's/#define[^;]*PTX_TYPE_ENUM[^;]*//g' |
    grep -oE 'enum ptx_[a-z_]+ \{[^}]*\}' >"$text.enums"
[ -s "$text.enums" ] || fail "found no enumeration"
while read -r _ type list; do
    stem=$(echo "${type#ptx_}" | sed 's/_mode$//; s/_op$//; s/_kind$//; s/_type$//; s/_role$//' | tr a-z A-Z)
    case $type in
    ptx_type | ptx_axis) prefix='PTX_' ;;
    ptx_status) prefix='PTX_(OK$|ERROR_)' ;;
    ptx_opcode) prefix='PTX_(OP_|DECLARE$|OPS_)' ;;
    ptx_modifier) prefix='PTX_MOD_' ;;
    ptx_step_format | ptx_block_format) prefix="PTX_${stem}(_|S?\$)" ;;
    ptx_special_register) prefix='PTX_(SPECIAL_|DECLARE$)' ;;
    ptx_rule_op) prefix='PTX_(RULE_|DECLARE$)' ;;
    ptx_operation) prefix='PTX_(OPERATION_|OPERATIONS$|DECLARE$)' ;;
    ptx_atomic_op) prefix='PTX_(ATOMIC_|ATOMICS(_CAS)?$|DECLARE$)' ;;
    *) prefix="PTX_${stem}_" ;;
    esac
    for name in $(echo "$list" | grep -oE '\bPTX_[A-Za-z0-9_]+'); do
        echo "$name" | grep -qE "^$prefix" || fail "$name of $type does not carry its type"
    done
done <"$text.enums"

# ---- functions, macros and types have their prefix
grep -oE '^(static inline|PTXGEN_API) [^({;=]*\(' "$text" | grep -oE '[A-Za-z0-9_]+\($' | tr -d '(' |
    sort -u >"$text.functions"
grep -oE '^# *define +[A-Za-z0-9_]+' "$text" | awk '{ print $NF }' | sort -u >"$text.macros"
grep -oE '\bPTX_[A-Z0-9_]+\b' "$text" | sort -u >"$text.capitals"
grep -vE '^(ptx_|ptxgen_)' "$text.functions" | while read -r name; do echo "$name"; done >"$text.bad"
[ -s "$text.bad" ] && fail "functions without prefix: $(cat "$text.bad")"
grep -vE '^(ptx_|PTX_|PTXGEN_)' "$text.macros" >"$text.bad" && fail "macros: $(cat "$text.bad")"
grep -oE '\bstruct [A-Za-z_0-9]+ \{' "$text" | grep -vE ' ptx_' >"$text.bad" &&
    fail "structs: $(cat "$text.bad")"

# ---- a macro and what it calls have one stem
grep -E '^# *define +ptx_[a-z_]+\(' "$text" | while read -r _ line; do
    macro=${line%%(*}
    for called in $(echo "${line#*)}" | grep -oE '\bptx_[a-z0-9_]+\(|\bptx_[a-z0-9_]+_(begin|end)\b'); do
        case ${called%(} in
        "$macro" | "$macro"_*) ;;
        *) echo "$macro calls $called" ;;
        esac
    done
done >"$text.bad"
[ -s "$text.bad" ] && fail "$(cat "$text.bad")"

# ---- no macro and function differ in case alone, no name from CUDA's in the prefix alone
grep '[A-Z]' "$text.macros" | tr A-Z a-z | sort | comm -12 - "$text.functions" >"$text.bad"
tr A-Z a-z <"$text.macros" | sort | uniq -d >>"$text.bad"
[ -s "$text.bad" ] && fail "in two cases: $(cat "$text.bad")"
for handle in CONTEXT STREAM EVENT MODULE FUNCTION DEVICEPTR DEVICE GRAPH; do
    grep -qx "PTX_$handle" "$text.capitals" && fail "PTX_$handle is beside CUDA's"
done

# ---- a call of the builder has a place
for header in asm entry data function convert math matrix memory message threads control ops kernels clip step; do
    sed -e 's|//.*||' "$include/ptxgen/$header.h" | tr '\n' ' ' |
        grep -oE '(PTXGEN_API|static inline) [^({;=#]*\bptx_[a-z0-9_]+\(ptx_builder \*b' |
        grep -oE 'ptx_[a-z0-9_]+\(' | tr -d '('
done | sort -u >"$text.calls"
[ -s "$text.calls" ] || fail "found no call of the builder"
{ cat "$include"/ptxgen/places*.h; grep -h PTXGEN_PLACED "$include"/ptxgen/kernels.h \
    "$include"/ptxgen/clip.h "$include"/ptxgen/step.h; } | grep -oE '^#define ptx_[a-z0-9_]+' |
    awk '{ print $2 }' | sort -u |
    comm -23 "$text.calls" - | grep -vE '^ptx_(if|else|else_if)_end$' >"$text.bad" # the block's place
[ -s "$text.bad" ] && fail "not in places.h: $(cat "$text.bad")"

# ---- options end in _params
grep -oE 'struct ptx_[a-z_]+ \*?params\b' "$text" | grep -vE '_params |ptx_function_param ' >"$text.bad" &&
    fail "options: $(cat "$text.bad")"
grep -oE 'PTXGEN_(STRUCT|NAMED)\(ptx_[a-z_]+' "$text" | grep -vE '_params$|ptx_param_info$' >"$text.bad" &&
    fail "options: $(cat "$text.bad")"

# ---- what is made is freed
for pair in create:destroy open:close load:unload alloc:free; do
    made=${pair%:*} freed=${pair#*:}
    grep -E "^ptx_[a-z]+(_plan)?_$made\$" "$text.functions" | while read -r name; do
        grep -qx "${name%_"$made"}_$freed" "$text.functions" || echo "$name"
    done
done | grep -vxE 'ptx_label_create|ptx_matrix_load' >"$text.bad" # values, which go with their entry
[ -s "$text.bad" ] && fail "nothing frees what these make: $(cat "$text.bad")"

# ---- a declaration's header predicts its source: NAME.c of the layer's folder, NAME_*.c, or a file of
# the folder NAME. A table of X(...) defines what it names, and for a stem its _prepare and _describe.
sources=$(dirname "$1")/src
predicts()
{
    folder=$1
    shift
    for header in "$@"; do
        sed -e 's|//.*||' -e ':join' -e '/\\$/{N;s/ *\\\n */ /;b join' -e '}' "$include/ptxgen/$header.h" |
            tr '\n' ' ' | grep -oE 'PTXGEN_API [^({;=]*\(' | grep -oE 'ptx(gen)?_[a-z0-9_]+\($' | tr -d '(' |
            while read -r name; do
                stem=${name%_prepare}
                stem=${stem%_describe}
                cat "$sources/$folder/$header.c" "$sources/$folder/$header"_*.c "$sources/$folder/$header"/*.[ch] \
                    2>/dev/null | grep -qE "^[a-zC].*\b$name\(|^ +X\(.*\b($name|$stem)[,)]" ||
                    echo "$name of $header.h"
            done
        echo "$header.h" >>"$text.predicted"
    done
}
{
    predicts ptxgen asm builder entry data function types ops convert math matrix memory message threads words control places
    predicts kernels kernels
    predicts driver error device stream buffer graph module launch
    predicts plans blocks clip step muon guard report rule operations binding torch
} >"$text.bad"
[ -s "$text.bad" ] && fail "not in the source that the header predicts: $(cat "$text.bad")"
# The other headers declare no function, except ptxgen_version() in common.h.
(cd "$include/ptxgen" && grep -lE 'PTXGEN_API .*\(' ./*.h) | sed 's|.*/||' |
    grep -vxF -f "$text.predicted" | grep -vx common.h >"$text.bad" &&
    fail "no layer is named for: $(cat "$text.bad")"
exit "$failed"

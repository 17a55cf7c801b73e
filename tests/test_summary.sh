#!/bin/sh
# SPDX-License-Identifier: MIT
# test_summary.sh SUMMARY: tests/summary.py counts the results of tests, and accepts no skip without a
# valid reason.
set -u
summary=$1
build=$(mktemp -d "${TMPDIR:-/tmp}/ptxgen-summary-XXXXXX") || exit 1
trap 'rm -rf "$build"' EXIT
mkdir "$build/meson-logs"
failed=0

# test_line RESULT STDOUT STDERR ENVIRONMENT: adds a test to the log. Arguments are JSON strings
# without their quotes.
test_line() {
    printf '{"name": "ptxgen:x / a test", "result": "%s", "stdout": "%s", "stderr": "%s", "env": {%s}}\n' \
        "$@" >>"$build/meson-logs/testlog.json"
}

# expect STATUS LAST_LINE: checks the summary of the lines so far, and removes them.
expect() {
    output=$(python3 "$summary" "$build")
    status=$?
    last=$(printf '%s\n' "$output" | tail -n 1)
    if [ $status -ne "$1" ] || [ "$last" != "$2" ]; then
        echo "status $status, '$last'; wanted $1, '$2': $output"
        failed=1
    fi
    rm -f "$build/meson-logs/testlog.json"
}

cmocka='[  SKIPPED ] 1 test(s), listed below:\n'
test_line OK '' '' ''
test_line OK "$cmocka" 'SKIPPED, large sets: left out by PTXGEN_TEST_LARGE\n' '"PTXGEN_TEST_LARGE": "0"'
test_line OK 'ok 1 - a\nok 2 - b # SKIP 1.000 GB free, 2.000 GB wanted\n' '' ''
test_line SKIP '' 'SKIPPED, no GPU: nothing\n' '"CUDA_VISIBLE_DEVICES": ""'
test_line SKIP 'skipped: no pytest for /bin/false\n' '' ''
# A program with status 77 may give its reason in words of its own; its last one counts.
test_line SKIP '' 'program: no pytest for /bin/false\n' ''
test_line SKIP "$cmocka" "SKIPPED, no pytest for /bin/false: x\\n$cmocka\\n 1 SKIPPED TEST(S)\\n" ''
expect 0 '3 passed, 0 failed, 6 skipped'
test_line SKIP 'skipped: no pytest for /bin/true\n' '' ''
expect 1 '0 passed, 1 failed, 0 skipped'
test_line SKIP 'skipped: no pytest for /nonexistent\n' '' '' # nothing to ask
expect 1 '0 passed, 1 failed, 0 skipped'
# Reasons that are valid only for root, or only for others.
test_line OK 'ok 1 - a # SKIP not root\n' '' ''
[ "$(id -u)" -eq 0 ] || expect 0 '1 passed, 0 failed, 1 skipped'
[ "$(id -u)" -ne 0 ] || expect 1 '1 passed, 1 failed, 0 skipped'
mkdir -m 700 "$build/closed" && cp /bin/true "$build/closed/run"
test_line OK "ok 1 - a # SKIP no other user can run $build/closed/run\n" '' ''
[ "$(id -u)" -ne 0 ] || expect 0 '1 passed, 0 failed, 1 skipped'
[ "$(id -u)" -eq 0 ] || expect 1 '1 passed, 1 failed, 0 skipped'
test_line OK "ok 1 - a # SKIP no other user can run /bin/true\n" '' ''
expect 1 '1 passed, 1 failed, 0 skipped'
test_line OK "$cmocka" '' '' # no reason
expect 1 '1 passed, 1 failed, 0 skipped'
test_line OK "$cmocka" 'SKIPPED, large sets: left out by PTXGEN_TEST_LARGE\n' '' # not so
expect 1 '1 passed, 1 failed, 0 skipped'
test_line OK 'ok 1 - a # SKIP there was no time\n' '' '' # not known as a reason
expect 1 '1 passed, 1 failed, 0 skipped'
test_line SKIP '' '' ''
expect 1 '0 passed, 1 failed, 0 skipped'
test_line TIMEOUT '' '' ''
test_line OK '' '' ''
expect 1 '1 passed, 1 failed, 0 skipped'
# The emulator is there on every machine.
test_line SKIP '' 'SKIPPED, no GPU: nothing\n' '"CUDA_VISIBLE_DEVICES": "", "PTXGEN_LIBCUDA": "/x/emulator/libcuda.so.1"'
expect 1 '0 passed, 1 failed, 0 skipped'
test_line OK "$cmocka" 'SKIPPED, no locale of xx_XX yy_YY: they are not installed\n' ''
expect 0 '1 passed, 0 failed, 1 skipped'
if locale -a 2>/dev/null | grep -qi '^C\.utf-*8$'; then
    test_line OK "$cmocka" 'SKIPPED, no locale of xx_XX C: they are not installed\n' ''
    expect 1 '1 passed, 1 failed, 0 skipped'
fi

# --rest: what is not in the log, and what was left out for a reason that does not hold here.
mkdir "$build/meson-info"
echo '[{"name": "a test"}, {"name": "another test"}]' >"$build/meson-info/intro-tests.json"
rest() {
    output=$(python3 "$summary" "$build" --rest "$build/meson-logs/testlog.json" | tr '\n' ,)
    [ "$output" = "$1" ] || { echo "the rest is $output, wanted $1" && failed=1; }
    rm "$build/meson-logs/testlog.json"
}
test_line OK '' '' ''
rest 'another test,'
test_line SKIP 'skipped: no pytest for /bin/false\n' '' ''
rest 'another test,'
test_line SKIP 'skipped: no pytest for /bin/true\n' '' ''
rest 'a test,another test,'
exit $failed

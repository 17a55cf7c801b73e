#!/bin/sh
# SPDX-License-Identifier: MIT
# test_own_folder.sh CHECK_RUN CHECK_CLIP: two runs of these tests, of one build folder, write no file of
# each other, and leave none where nothing failed.
set -u
work=$(mktemp -d "${TMPDIR:-/tmp}/ptxgen-folders-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/build"
failed=0

# In the command's place: notes the paths, and has no device.
cat >"$work/ptxgen" <<'END'
#!/bin/sh
echo "$@" >>"$(dirname "$0")/calls"
exit 77
END
chmod +x "$work/ptxgen"

for check; do
    rm -f "$work/calls"
    for device in 0 0; do
        "$check" "$work/ptxgen" "$work/build" $device >/dev/null 2>&1
        [ $? -eq 77 ] || { echo "$check does not end with 77 without a device" && failed=1; }
    done
    [ "$(grep -c "$work/build/" "$work/calls")" -eq 2 ] || { echo "$check: $(cat "$work/calls")" && failed=1; }
    [ "$(sort -u "$work/calls" | wc -l)" -eq 2 ] || {
        echo "two runs of $check write the same files: $(sort -u "$work/calls")"
        failed=1
    }
    [ -z "$(ls "$work/build")" ] || { echo "$check leaves $(ls -R "$work/build")" && failed=1; }
done
exit $failed

// SPDX-License-Identifier: MIT
// Output files with access control lists, which the tests of the command cannot set up.
#include "output.h"
#include "skip.h"
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char access_list[] = "system.posix_acl_access";
static const char default_list[] = "system.posix_acl_default";

/// In the kernel's format: version 2, then tag, permissions and id of each entry. The owner and
/// user 65534 may read and write; the group and others may do nothing. The mask, which the mode
/// shows as the group's bits, allows both.
static const struct {
    uint32_t version;
    struct {
        uint16_t tag, permissions;
        uint32_t id;
    } entries[5];
} list = { 2,
           { { 0x01, 6, UINT32_MAX },
             { 0x02, 6, 65534 },
             { 0x04, 0, UINT32_MAX },
             { 0x10, 6, UINT32_MAX },
             { 0x20, 0, UINT32_MAX } } };

struct folder {
    char path[64], file[80];
};

static int set_up(void **state)
{
    static struct folder folder;
    strcpy(folder.path, "/tmp/ptxgen-output-XXXXXX");
    *state = &folder;
    if (!mkdtemp(folder.path))
        return -1;
    snprintf(folder.file, sizeof(folder.file), "%s/file", folder.path);
    FILE *stream = fopen(folder.file, "w");
    return !stream || fputs("old", stream) < 0 || fclose(stream) != 0 ||
           chmod(folder.file, 0640) != 0;
}

static int tear_down(void **state)
{
    const struct folder *folder = *state;
    return unlink(folder->file) != 0 || rmdir(folder->path) != 0;
}

static void put_list(const char *path, const char *name)
{
    if (setxattr(path, name, &list, sizeof(list), 0) == 0)
        return;
    if (errno == EOPNOTSUPP)
        skip_because("no access control lists on the file system of %s", path);
    fail_msg("setxattr: %s", strerror(errno));
}

static void replace(const char *path)
{
    struct message error;
    struct output output;
    if (!output_open(&output, path, false, &error))
        fail_msg("%s", error.text);
    output_write(&output, "new", 3);
    if (!output_commit(&output, &error))
        fail_msg("%s", error.text);
}

TEST_WITH(a_file_keeps_its_list, set_up, tear_down)
{
    const struct folder *folder = *state;
    char found[sizeof(list) + 1];
    put_list(folder->file, access_list);
    replace(folder->file);
    assert_int_equal(getxattr(folder->file, access_list, found, sizeof(found)), sizeof(list));
    assert_memory_equal(found, &list, sizeof(list));
}

/// A file that replaces another gets no list from its folder's list for new files.
TEST_WITH(a_file_without_a_list_gets_none, set_up, tear_down)
{
    const struct folder *folder = *state;
    struct stat status;
    put_list(folder->path, default_list);
    replace(folder->file);
    assert_int_equal(getxattr(folder->file, access_list, NULL, 0), -1);
    assert_int_equal(errno, ENODATA);
    assert_int_equal(stat(folder->file, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
}

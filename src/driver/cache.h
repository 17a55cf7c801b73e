// SPDX-License-Identifier: MIT
/// A folder of machine code, one file for each text, device, driver and choice of options. Nothing
/// here sets the thread's error: what goes wrong is written down as a reason, and the text is
/// compiled as if there were no cache.
#ifndef PTXGEN_DRIVER_CACHE_H
#define PTXGEN_DRIVER_CACHE_H

#include "internal.h"

struct stat;

/// Machine code as it is kept: a header, the code and the compiler's log in one piece. Without
/// code it stands for a text whose code is not worth keeping, and the log is the reason.
struct ptx_driver_entry {
    unsigned char *bytes; ///< NULL: none
    size_t size;
};

enum { PTX_DRIVER_LARGEST_ENTRY = 1 << 30 };

/// An entry that is still to be sealed; false if there is no memory.
bool ptx_driver_entry_create(struct ptx_driver_entry *entry, const void *code, size_t code_bytes,
                             const char *log);
void ptx_driver_entry_destroy(struct ptx_driver_entry *entry);

/// Writes key and checksum into the entry.
void ptx_driver_entry_seal(struct ptx_driver_entry *entry, const uint64_t key[2]);
/// Whether any bytes are an entry that was sealed with this key.
bool ptx_driver_entry_is_whole(const struct ptx_driver_entry *entry, const uint64_t key[2]);

/// NULL: there is none.
const void *ptx_driver_entry_code(const struct ptx_driver_entry *entry);
/// A copy of the log, for the caller to free; NULL if there is no memory.
char *ptx_driver_entry_log(const struct ptx_driver_entry *entry);

/// What an entry is found by: the text and all that its machine code depends on.
void ptx_driver_entry_key(uint64_t key[2], const ptx_device *device, const char *source,
                          const struct ptx_module_params *params);

/// The file of a key, its two halves in hexadecimal.
#define PTX_DRIVER_ENTRY_NAME "ptxgen-%016llx%016llx.cubin"

/// Opens a cache folder, making it if it is not there. -1: it cannot be used, and `reason` has why.
int ptx_driver_folder_open(const char *path, char *reason, size_t reason_size);

/// Whether only this user or root can have written a file, or to a folder.
bool ptx_driver_folder_trusts(const struct stat *facts);

/// Removes what was not used for longest until `bytes` more fit into `most`, the file `name` not
/// counted, which they replace. False if they would not fit into an empty folder.
bool ptx_driver_folder_make_room(int folder, const char *name, uint64_t bytes, uint64_t most);

/// Compiles the module's text once more, by the driver's linker, which gives the machine code out;
/// held to the registers that the module's own code takes. False: `reason` has why; *worse: since
/// that code is worse all the same, which it will be another time too.
bool ptx_driver_link(const ptx_module *module, const char *source,
                     const struct ptx_module_params *params, struct ptx_driver_entry *entry,
                     bool *worse, char *reason, size_t reason_size);

#endif

// SPDX-License-Identifier: MIT
// Faults and findings.
#ifndef PTXGEN_EMULATOR_EXEC_CHECK_REPORT_H
#define PTXGEN_EMULATOR_EXEC_CHECK_REPORT_H

#include "exec/base/state.h"

// Faults: the first one is recorded and stops every worker. Each function returns false.
bool emu_fault(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane, int result,
               const char *format, ...) EMU_PRINTF(5, 6);
bool emu_fault_launch(struct emu_exec *exec, int result, const char *format, ...) EMU_PRINTF(3, 4);
// A finding of a sanitizer: either a fault (false), or a warning (true).
bool emu_report_finding(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                        enum emu_finding kind, const char *format, ...) EMU_PRINTF(5, 6);
// Findings that do not end a launch, counted for all launches of a module together.
struct emu_warnings *emu_warnings_create(void); // NULL if host memory is out
// Reports the remaining counts and destroys it.
void emu_warnings_destroy(struct emu_warnings **warnings);
// Reports what was found for the first time since the last call.
void emu_warnings_tell(struct emu_warnings *warnings, void (*warn)(const char *text));

// A line of the module's text as reports quote it: ": `...`", or nothing.
enum { EMU_SOURCE = 960, EMU_QUOTE = 184 + EMU_SOURCE };

void emu_quote_line(const struct emu_module *module, uint32_t line, char *text, size_t size);
// The source line alone, as " (a.cu:7)", or "".
const char *emu_beside_line(const struct emu_module *module, uint32_t line, char text[EMU_SOURCE]);
bool emu_fault_address(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                       uint64_t address, uint32_t bytes, enum emu_access_fault fault,
                       const char *verb);
bool emu_fault_window(struct emu_warp *warp, const struct emu_op *op, unsigned lane, unsigned space,
                      uint64_t given, uint64_t offset, uint32_t bytes, const char *verb);
// The parts of such a report: false if there is one already; text; the result ends it.
bool emu_report_begin(struct emu_exec *exec, int result);
void emu_report_append(struct emu_exec *exec, const char *format, ...) EMU_PRINTF(2, 3);
void emu_report_end(struct emu_exec *exec);
void emu_describe_thread(const struct emu_block *block, uint32_t thread, char *text, size_t size);

#endif

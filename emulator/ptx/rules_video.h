// SPDX-License-Identifier: MIT
// The rules of video instructions.
#ifndef PTXGEN_EMULATOR_PTX_RULES_VIDEO_H
#define PTXGEN_EMULATOR_PTX_RULES_VIDEO_H

#include "check.h"

bool emu_rule_video(const struct check *c);
bool emu_rule_vmad(const struct check *c);
bool emu_rule_video2(const struct check *c);
bool emu_rule_video4(const struct check *c);

#endif

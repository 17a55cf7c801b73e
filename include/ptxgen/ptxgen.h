// SPDX-License-Identifier: MIT
/// All of ptxgen: write PTX, use a ready kernel, load it, launch it.
#ifndef PTXGEN_PTXGEN_H
#define PTXGEN_PTXGEN_H

#include <ptxgen/binding.h>
#include <ptxgen/blocks.h>
#include <ptxgen/builder.h>
#include <ptxgen/clip.h>
#include <ptxgen/driver.h>
#include <ptxgen/kernels.h>
#include <ptxgen/operations.h>
#include <ptxgen/rule.h>
#include <ptxgen/step.h>
#include <ptxgen/torch.h>

#endif

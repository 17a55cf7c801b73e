// SPDX-License-Identifier: MIT
/// The whole of ptxgen in one include: write PTX, take a ready kernel, load it, launch it.
#ifndef PTXGEN_PTXGEN_H
#define PTXGEN_PTXGEN_H

#include <ptxgen/binding.h>
#include <ptxgen/builder.h>
#include <ptxgen/clip.h>
#include <ptxgen/driver.h>
#include <ptxgen/kernels.h>
#include <ptxgen/operations.h>
#include <ptxgen/step.h>

#endif

// SPDX-License-Identifier: MIT
/// Steps of loops over sizes, options and trials. A sanitizer looks for wrong accesses and threads,
/// which all values of a loop share, and makes each take ten times as long: there a sample is
/// enough. Results are compared in the other builds, with all values.
#ifndef PTXGEN_TESTS_SANITIZED_H
#define PTXGEN_TESTS_SANITIZED_H

#ifndef __has_feature
#define __has_feature(name) 0
#endif

/// SANITIZED is 1 under a sanitizer, 0 without.
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || __has_feature(address_sanitizer)
#define SANITIZED          1
/// `trial += SANITIZED_EVERY(5)`: every fifth one under a sanitizer, each without. The number
/// should have no common factor with those by which a trial chooses its options.
#define SANITIZED_EVERY(k) (k)
#else
#define SANITIZED          0
#define SANITIZED_EVERY(k) 1
#endif

#endif

// SPDX-License-Identifier: MIT
/// Reports of gradients and weights on the host: those of ranks, folded to those of the whole. Part
/// of norm.h; records.h has the rows.
#ifndef PTXGEN_REPORT_H
#define PTXGEN_REPORT_H

#include <stddef.h>

#include <ptxgen/error.h>
#include <ptxgen/records.h>

PTXGEN_BEGIN

/// Folds reports of ranks that each have a part of the tensors to those of the whole: for tensor t
/// the rows rank * tensors + t, in the order of the ranks, as an all-gather of the ranks' arrays
/// leaves them:
///
///     ncclAllGather(rows, gathered, bytes of one rank, ncclUint8, comm, stream);
///     ... copied to the host, and the stream waited for:
///     ptx_gradient_reports_fold(gathered, NULL, ranks, tensors, folded);
///
/// norm and change are the roots of the ranks' squares, each operation in f64, or the value itself
/// if one rank alone has elements; zeros are added; `largest` is the largest, and NaN if any is;
/// first_nonfinite is the least that is not -1; absent is 1 if it is on all ranks. All ranks get
/// the same bits. `copies`, one a row: true if the rank has a copy of what another one has, whose
/// row does not count; NULL: none has. `folded` may be `rows`. On the host, thread-safe. Errors:
/// INVALID.
PTXGEN_API ptx_status ptx_gradient_reports_fold(const struct ptx_gradient_report *rows,
                                                const bool *copies, uint32_t ranks, size_t tensors,
                                                struct ptx_gradient_report *folded);
PTXGEN_API ptx_status ptx_weight_reports_fold(const struct ptx_weight_report *rows,
                                              const bool *copies, uint32_t ranks, size_t tensors,
                                              struct ptx_weight_report *folded);

PTXGEN_END

#endif

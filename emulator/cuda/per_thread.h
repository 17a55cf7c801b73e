// SPDX-License-Identifier: MIT
// Functions with a variant for which stream 0 is the per-thread default stream, which programs
// compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM call: X(symbol, variant, parameters, arguments).
#ifndef PTXGEN_EMULATOR_CUDA_PER_THREAD_H
#define PTXGEN_EMULATOR_CUDA_PER_THREAD_H

#include "types.h"

// clang-format off
#define API_PER_THREAD(X) \
    X(cuMemAllocAsync, cuMemAllocAsync_ptsz, \
      (CUdeviceptr *address, size_t bytes, CUstream stream), (address, bytes, stream)) \
    X(cuMemFreeAsync, cuMemFreeAsync_ptsz, \
      (CUdeviceptr address, CUstream stream), (address, stream)) \
    X(cuMemcpy, cuMemcpy_ptds, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes)) \
    X(cuMemcpyAsync, cuMemcpyAsync_ptsz, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, \
      stream)) \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, \
      (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes)) \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, \
      (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes)) \
    X(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes)) \
    X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), (to, from, bytes, \
      stream)) \
    X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream)) \
    X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, \
      stream)) \
    X(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy)) \
    X(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy)) \
    X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, \
      (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream)) \
    X(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *copy), (copy)) \
    X(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, \
      (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream)) \
    X(cuMemsetD8_v2, cuMemsetD8_v2_ptds, \
      (CUdeviceptr to, unsigned char value, size_t count), (to, value, count)) \
    X(cuMemsetD8Async, cuMemsetD8Async_ptsz, \
      (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), (to, value, count, \
      stream)) \
    X(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, \
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height), (to, \
      pitch, value, width, height)) \
    X(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, \
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, \
      CUstream stream), (to, pitch, value, width, height, stream)) \
    X(cuMemsetD16_v2, cuMemsetD16_v2_ptds, \
      (CUdeviceptr to, unsigned short value, size_t count), (to, value, count)) \
    X(cuMemsetD16Async, cuMemsetD16Async_ptsz, \
      (CUdeviceptr to, unsigned short value, size_t count, CUstream stream), (to, value, \
      count, stream)) \
    X(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, \
      (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height), (to, \
      pitch, value, width, height)) \
    X(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, \
      (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, \
      CUstream stream), (to, pitch, value, width, height, stream)) \
    X(cuMemsetD32_v2, cuMemsetD32_v2_ptds, \
      (CUdeviceptr to, unsigned value, size_t count), (to, value, count)) \
    X(cuMemsetD32Async, cuMemsetD32Async_ptsz, \
      (CUdeviceptr to, unsigned value, size_t count, CUstream stream), (to, value, count, \
      stream)) \
    X(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, \
      (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height), (to, pitch, \
      value, width, height)) \
    X(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz, \
      (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream \
      stream), (to, pitch, value, width, height, stream)) \
    X(cuStreamGetPriority, cuStreamGetPriority_ptsz, \
      (CUstream stream, int *priority), (stream, priority)) \
    X(cuStreamGetFlags, cuStreamGetFlags_ptsz, \
      (CUstream stream, unsigned *flags), (stream, flags)) \
    X(cuStreamGetId, cuStreamGetId_ptsz, \
      (CUstream stream, unsigned long long *id), (stream, id)) \
    X(cuStreamGetCtx, cuStreamGetCtx_ptsz, \
      (CUstream stream, CUcontext *context), (stream, context)) \
    X(cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream stream), (stream)) \
    X(cuStreamQuery, cuStreamQuery_ptsz, (CUstream stream), (stream)) \
    X(cuStreamWaitEvent, cuStreamWaitEvent_ptsz, \
      (CUstream stream, CUevent event, unsigned flags), (stream, event, flags)) \
    X(cuStreamAddCallback, cuStreamAddCallback_ptsz, \
      (CUstream stream, CUstreamCallback function, void *data, unsigned flags), (stream, \
      function, data, flags)) \
    X(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, \
      (CUstream stream, CUhostFn function, void *data), (stream, function, data)) \
    X(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream stream), (stream)) \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, \
      (CUstream stream, CUstreamCaptureMode mode), (stream, mode)) \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, \
      (CUstream stream, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges, \
      size_t count, CUstreamCaptureMode mode), (stream, graph, after, edges, count, mode)) \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz, \
      (CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags), (stream, nodes, \
      count, flags)) \
    X(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz, \
      (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, \
      unsigned flags), (stream, nodes, edges, count, flags)) \
    X(cuStreamEndCapture, cuStreamEndCapture_ptsz, \
      (CUstream stream, CUgraph *graph), (stream, graph)) \
    X(cuStreamIsCapturing, cuStreamIsCapturing_ptsz, \
      (CUstream stream, CUstreamCaptureStatus *status), (stream, status)) \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz, \
      (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), (stream, status, id)) \
    X(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz, \
      (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const \
      CUgraphNode **nodes, size_t *count), (stream, status, id, graph, nodes, count)) \
    X(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz, \
      (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const \
      CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count), (stream, status, id, \
      graph, nodes, edges, count)) \
    X(cuEventRecord, cuEventRecord_ptsz, (CUevent event, CUstream stream), (event, stream)) \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz, \
      (CUevent event, CUstream stream, unsigned flags), (event, stream, flags)) \
    X(cuLaunchKernel, cuLaunchKernel_ptsz, \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned \
      block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void \
      **params, void **extra), (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, \
      shared, stream, params, extra)) \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned \
      block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void \
      **params), (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, \
      params)) \
    X(cuLaunchKernelEx, cuLaunchKernelEx_ptsz, \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra), \
      (config, function, params, extra)) \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz, \
      (CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), \
      (executable, graph, params)) \
    X(cuGraphUpload, cuGraphUpload_ptsz, \
      (CUgraphExec executable, CUstream stream), (executable, stream)) \
    X(cuGraphLaunch, cuGraphLaunch_ptsz, \
      (CUgraphExec executable, CUstream stream), (executable, stream))
// clang-format on

#endif

// SPDX-License-Identifier: MIT
// Second half of the table in api_functions.h.
#ifndef PTXGEN_EMULATOR_CUDA_FUNCTIONS_WORK_H
#define PTXGEN_EMULATOR_CUDA_FUNCTIONS_WORK_H

#include "types.h"

// clang-format off
#define API_STREAMS(X) \
    X(cuStreamCreate, cuStreamCreate, 2000, CONTEXT, streamCreate, \
      (CUstream *stream, unsigned flags), (stream, flags)) \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, CONTEXT, streamCreateWithPriority, \
      (CUstream *stream, unsigned flags, int priority), (stream, flags, priority)) \
    X(cuStreamDestroy_v2, cuStreamDestroy, 4000, CONTEXT, streamDestroy, \
      (CUstream stream), (stream)) \
    X(cuStreamGetPriority, cuStreamGetPriority, 5050, CONTEXT, streamGetPriority, \
      (CUstream stream, int *priority), (stream, priority)) \
    X(cuStreamGetFlags, cuStreamGetFlags, 5050, CONTEXT, streamGetFlags, \
      (CUstream stream, unsigned *flags), (stream, flags)) \
    X(cuStreamGetId, cuStreamGetId, 12000, CONTEXT, streamGetId, \
      (CUstream stream, unsigned long long *id), (stream, id)) \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020, CONTEXT, streamGetCtx, \
      (CUstream stream, CUcontext *context), (stream, context)) \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, CONTEXT, streamSynchronize, \
      (CUstream stream), (stream)) \
    X(cuStreamQuery, cuStreamQuery, 2000, CONTEXT, streamQuery, (CUstream stream), (stream)) \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, CONTEXT, streamWaitEvent, \
      (CUstream stream, CUevent event, unsigned flags), (stream, event, flags)) \
    X(cuStreamAddCallback, cuStreamAddCallback, 5000, CONTEXT, streamAddCallback, \
      (CUstream stream, CUstreamCallback function, void *data, unsigned flags), (stream, \
      function, data, flags)) \
    X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, CONTEXT, launchHostFunc, \
      (CUstream stream, CUhostFn function, void *data), (stream, function, data)) \
    X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, CONTEXT, streamBeginCapture1, \
      (CUstream stream), (stream)) \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, CONTEXT, streamBeginCapture, \
      (CUstream stream, CUstreamCaptureMode mode), (stream, mode)) \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, CONTEXT, streamBeginCaptureToGraph, \
      (CUstream stream, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges, \
      size_t count, CUstreamCaptureMode mode), (stream, graph, after, edges, count, mode)) \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies, 11030, CONTEXT, streamUpdateCaptureDependencies1, \
      (CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags), (stream, nodes, count, flags)) \
    X(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies, 12030, CONTEXT, streamUpdateCaptureDependencies, \
      (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, \
      unsigned flags), (stream, nodes, edges, count, flags)) \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, CONTEXT, streamEndCapture, \
      (CUstream stream, CUgraph *graph), (stream, graph)) \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, CONTEXT, streamIsCapturing, \
      (CUstream stream, CUstreamCaptureStatus *status), (stream, status)) \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010, CONTEXT, streamGetCaptureInfo1, \
      (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), (stream, status, id)) \
    X(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo, 11030, CONTEXT, streamGetCaptureInfo2, \
      (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const \
      CUgraphNode **nodes, size_t *count), (stream, status, id, graph, nodes, count)) \
    X(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030, CONTEXT, streamGetCaptureInfo, \
      (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const \
      CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count), (stream, status, id, \
      graph, nodes, edges, count)) \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, INIT, threadExchangeStreamCaptureMode, \
      (CUstreamCaptureMode *mode), (mode))

#define API_EVENTS(X) \
    X(cuEventCreate, cuEventCreate, 2000, CONTEXT, eventCreate, \
      (CUevent *event, unsigned flags), (event, flags)) \
    X(cuEventDestroy_v2, cuEventDestroy, 4000, CONTEXT, eventDestroy, (CUevent event), (event)) \
    X(cuEventRecord, cuEventRecord, 2000, CONTEXT, eventRecord, \
      (CUevent event, CUstream stream), (event, stream)) \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, CONTEXT, eventRecordWithFlags, \
      (CUevent event, CUstream stream, unsigned flags), (event, stream, flags)) \
    X(cuEventQuery, cuEventQuery, 2000, CALLBACK, eventQuery, (CUevent event), (event)) \
    X(cuEventSynchronize, cuEventSynchronize, 2000, CONTEXT, eventSynchronize, \
      (CUevent event), (event)) \
    X(cuEventElapsedTime, cuEventElapsedTime, 2000, CONTEXT, eventElapsedTime, \
      (float *milliseconds, CUevent start, CUevent end), (milliseconds, start, end)) \
    X(cuEventElapsedTime_v2, cuEventElapsedTime, 12080, CONTEXT, eventElapsedTime, \
      (float *milliseconds, CUevent start, CUevent end), (milliseconds, start, end))

#define API_MODULES(X) \
    X(cuModuleLoad, cuModuleLoad, 2000, CONTEXT, moduleLoad, \
      (CUmodule *module, const char *path), (module, path)) \
    X(cuModuleLoadData, cuModuleLoadData, 2000, CONTEXT, moduleLoadData, \
      (CUmodule *module, const void *image), (module, image)) \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, CONTEXT, moduleLoadDataEx, \
      (CUmodule *module, const void *image, unsigned count, CUjit_option *options, void \
      **values), (module, image, count, options, values)) \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, CONTEXT, moduleLoadFatBinary, \
      (CUmodule *module, const void *image), (module, image)) \
    X(cuModuleUnload, cuModuleUnload, 2000, UNSAFE, moduleUnload, (CUmodule module), (module)) \
    X(cuLinkCreate, cuLinkCreate, 5050, CONTEXT, linkCreate, \
      (unsigned count, CUjit_option *options, void **values, CUlinkState *link), (count, options, \
      values, link)) \
    X(cuLinkCreate_v2, cuLinkCreate, 6050, CONTEXT, linkCreate, \
      (unsigned count, CUjit_option *options, void **values, CUlinkState *link), (count, options, \
      values, link)) \
    X(cuLinkAddData, cuLinkAddData, 5050, CONTEXT, linkAddData, \
      (CUlinkState link, CUjitInputType type, void *data, size_t bytes, const char *name, unsigned \
      count, CUjit_option *options, void **values), (link, type, data, bytes, name, count, \
      options, values)) \
    X(cuLinkAddData_v2, cuLinkAddData, 6050, CONTEXT, linkAddData, \
      (CUlinkState link, CUjitInputType type, void *data, size_t bytes, const char *name, unsigned \
      count, CUjit_option *options, void **values), (link, type, data, bytes, name, count, \
      options, values)) \
    X(cuLinkAddFile, cuLinkAddFile, 5050, CONTEXT, linkAddFile, \
      (CUlinkState link, CUjitInputType type, const char *path, unsigned count, CUjit_option \
      *options, void **values), (link, type, path, count, options, values)) \
    X(cuLinkAddFile_v2, cuLinkAddFile, 6050, CONTEXT, linkAddFile, \
      (CUlinkState link, CUjitInputType type, const char *path, unsigned count, CUjit_option \
      *options, void **values), (link, type, path, count, options, values)) \
    X(cuLinkComplete, cuLinkComplete, 5050, CONTEXT, linkComplete, \
      (CUlinkState link, void **code, size_t *bytes), (link, code, bytes)) \
    X(cuLinkDestroy, cuLinkDestroy, 5050, INIT, linkDestroy, (CUlinkState link), (link)) \
    X(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, INIT, moduleGetLoadingMode, \
      (CUmoduleLoadingMode *mode), (mode)) \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, CONTEXT, moduleGetFunction, \
      (CUfunction *function, CUmodule module, const char *name), (function, module, name)) \
    X(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040, CONTEXT, moduleGetFunctionCount, \
      (unsigned *count, CUmodule module), (count, module)) \
    X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040, CONTEXT, moduleEnumerateFunctions, \
      (CUfunction *functions, unsigned count, CUmodule module), (functions, count, module)) \
    X(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020, CONTEXT, moduleGetGlobal, \
      (CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name), (address, \
      bytes, module, name)) \
    X(cuFuncGetAttribute, cuFuncGetAttribute, 2020, CONTEXT, funcGetAttribute, \
      (int *value, CUfunction_attribute attribute, CUfunction function), (value, attribute, \
      function)) \
    X(cuFuncSetAttribute, cuFuncSetAttribute, 9000, CONTEXT, funcSetAttribute, \
      (CUfunction function, CUfunction_attribute attribute, int value), (function, attribute, \
      value)) \
    X(cuFuncSetCacheConfig, cuFuncSetCacheConfig, 3000, CONTEXT, funcSetCacheConfig, \
      (CUfunction function, CUfunc_cache config), (function, config)) \
    X(cuFuncGetModule, cuFuncGetModule, 11000, CONTEXT, funcGetModule, \
      (CUmodule *module, CUfunction function), (module, function)) \
    X(cuFuncGetName, cuFuncGetName, 12030, CONTEXT, funcGetName, \
      (const char **name, CUfunction function), (name, function)) \
    X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, CONTEXT, funcGetParamInfo, \
      (CUfunction function, size_t index, size_t *offset, size_t *bytes), (function, index, \
      offset, bytes)) \
    X(cuFuncLoad, cuFuncLoad, 12040, CONTEXT, funcLoad, (CUfunction function), (function)) \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000, INIT, libraryLoadData, \
      (CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned \
      count, CUlibraryOption *library_options, void **library_values, unsigned library_count), \
      (library, code, options, values, count, library_options, library_values, library_count)) \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, INIT, libraryLoadFromFile, \
      (CUlibrary *library, const char *path, CUjit_option *options, void **values, unsigned \
      count, CUlibraryOption *library_options, void **library_values, unsigned library_count), \
      (library, path, options, values, count, library_options, library_values, library_count)) \
    X(cuLibraryUnload, cuLibraryUnload, 12000, INIT, libraryUnload, \
      (CUlibrary library), (library)) \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, CONTEXT, libraryGetKernel, \
      (CUkernel *kernel, CUlibrary library, const char *name), (kernel, library, name)) \
    X(cuLibraryGetModule, cuLibraryGetModule, 12000, CONTEXT, libraryGetModule, \
      (CUmodule *module, CUlibrary library), (module, library)) \
    X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, CONTEXT, libraryGetGlobal, \
      (CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name), (address, \
      bytes, library, name)) \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000, CONTEXT, kernelGetFunction, \
      (CUfunction *function, CUkernel kernel), (function, kernel)) \
    X(cuKernelGetLibrary, cuKernelGetLibrary, 12040, INIT, kernelGetLibrary, \
      (CUlibrary *library, CUkernel kernel), (library, kernel)) \
    X(cuKernelGetName, cuKernelGetName, 12030, INIT, kernelGetName, \
      (const char **name, CUkernel kernel), (name, kernel)) \
    X(cuKernelGetAttribute, cuKernelGetAttribute, 12000, CONTEXT, kernelGetAttribute, \
      (int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device), (value, \
      attribute, kernel, device)) \
    X(cuKernelSetAttribute, cuKernelSetAttribute, 12000, CONTEXT, kernelSetAttribute, \
      (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device), \
      (attribute, value, kernel, device)) \
    X(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040, CONTEXT, kernelGetParamInfo, \
      (CUkernel kernel, size_t index, size_t *offset, size_t *bytes), (kernel, index, offset, \
      bytes))

#define API_LAUNCH(X) \
    X(cuLaunchKernel, cuLaunchKernel, 4000, CONTEXT, launchKernel, \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned \
      block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void \
      **params, void **extra), (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, \
      shared, stream, params, extra)) \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, CONTEXT, launchCooperativeKernel, \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned \
      block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void \
      **params), (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, \
      params)) \
    X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, CONTEXT, launchKernelEx, \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra), \
      (config, function, params, extra)) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, CONTEXT, occupancyBlocks, \
      (int *blocks, CUfunction function, int threads, size_t shared), (blocks, function, \
      threads, shared)) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, CONTEXT, occupancyBlocksFlags, \
      (int *blocks, CUfunction function, int threads, size_t shared, unsigned flags), (blocks, \
      function, threads, shared, flags)) \
    X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 6050, CONTEXT, occupancyBlockSize, \
      (int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of, size_t \
      shared, int limit), (grid, block, function, shared_of, shared, limit)) \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags, cuOccupancyMaxPotentialBlockSizeWithFlags, 7000, CONTEXT, occupancyBlockSizeFlags, \
      (int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of, size_t \
      shared, int limit, unsigned flags), (grid, block, function, shared_of, shared, limit, \
      flags)) \
    X(cuOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock, 10020, CONTEXT, occupancyShared, \
      (size_t *bytes, CUfunction function, int blocks, int threads), (bytes, function, blocks, \
      threads))

#define API_GRAPHS(X) \
    X(cuGraphCreate, cuGraphCreate, 10000, INIT, graphCreate, \
      (CUgraph *graph, unsigned flags), (graph, flags)) \
    X(cuGraphDestroy, cuGraphDestroy, 10000, INIT, graphDestroy, (CUgraph graph), (graph)) \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, INIT, graphAddKernelNode1, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const \
      CUDA_KERNEL_NODE_PARAMS_v1 *params), (node, graph, after, count, params)) \
    X(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, INIT, graphAddKernelNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const \
      CUDA_KERNEL_NODE_PARAMS_v2 *params), (node, graph, after, count, params)) \
    X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, INIT, graphAddMemcpyNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const \
      CUDA_MEMCPY3D *params, CUcontext context), (node, graph, after, count, params, context)) \
    X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, INIT, graphAddMemsetNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const \
      CUDA_MEMSET_NODE_PARAMS *params, CUcontext context), (node, graph, after, count, params, \
      context)) \
    X(cuGraphAddHostNode, cuGraphAddHostNode, 10000, INIT, graphAddHostNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const \
      CUDA_HOST_NODE_PARAMS *params), (node, graph, after, count, params)) \
    X(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000, INIT, graphAddEmptyNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count), (node, \
      graph, after, count)) \
    X(cuGraphDestroyNode, cuGraphDestroyNode, 10000, INIT, graphDestroyNode, \
      (CUgraphNode node), (node)) \
    X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams, 10000, INIT, graphKernelNodeGetParams1, \
      (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params), (node, params)) \
    X(cuGraphKernelNodeGetParams_v2, cuGraphKernelNodeGetParams, 12000, INIT, graphKernelNodeGetParams, \
      (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params), (node, params)) \
    X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 10000, INIT, graphKernelNodeSetParams1, \
      (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params), (node, params)) \
    X(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, 12000, INIT, graphKernelNodeSetParams, \
      (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params), (node, params)) \
    X(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 10000, INIT, graphMemsetNodeGetParams, \
      (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params), (node, params)) \
    X(cuGraphHostNodeGetParams, cuGraphHostNodeGetParams, 10000, INIT, graphHostNodeGetParams, \
      (CUgraphNode node, CUDA_HOST_NODE_PARAMS *params), (node, params)) \
    X(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 10000, INIT, graphMemcpyNodeGetParams, \
      (CUgraphNode node, CUDA_MEMCPY3D *params), (node, params)) \
    X(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000, INIT, graphMemcpyNodeSetParams, \
      (CUgraphNode node, const CUDA_MEMCPY3D *params), (node, params)) \
    X(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000, INIT, graphMemsetNodeSetParams, \
      (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params), (node, params)) \
    X(cuGraphHostNodeSetParams, cuGraphHostNodeSetParams, 10000, INIT, graphHostNodeSetParams, \
      (CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params), (node, params)) \
    X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, CONTEXT, graphExecMemcpyNodeSetParams, \
      (CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext \
      context), (executable, node, params, context)) \
    X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, CONTEXT, graphExecMemsetNodeSetParams, \
      (CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, \
      CUcontext context), (executable, node, params, context)) \
    X(cuGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams, 10020, CONTEXT, graphExecHostNodeSetParams, \
      (CUgraphExec executable, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params), (executable, node, params)) \
    X(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, 11060, CONTEXT, graphNodeSetEnabled, \
      (CUgraphExec executable, CUgraphNode node, unsigned enabled), (executable, node, enabled)) \
    X(cuGraphNodeGetEnabled, cuGraphNodeGetEnabled, 11060, INIT, graphNodeGetEnabled, \
      (CUgraphExec executable, CUgraphNode node, unsigned *enabled), (executable, node, enabled)) \
    X(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, 11010, INIT, graphAddEventRecordNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, \
      CUevent event), (node, graph, after, count, event)) \
    X(cuGraphAddEventWaitNode, cuGraphAddEventWaitNode, 11010, INIT, graphAddEventWaitNode, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, \
      CUevent event), (node, graph, after, count, event)) \
    X(cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent, 11010, INIT, graphEventRecordNodeGetEvent, \
      (CUgraphNode node, CUevent *event), (node, event)) \
    X(cuGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent, 11010, INIT, graphEventRecordNodeSetEvent, \
      (CUgraphNode node, CUevent event), (node, event)) \
    X(cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, 11010, CONTEXT, graphExecEventRecordNodeSetEvent, \
      (CUgraphExec executable, CUgraphNode node, CUevent event), (executable, node, event)) \
    X(cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent, 11010, INIT, graphEventWaitNodeGetEvent, \
      (CUgraphNode node, CUevent *event), (node, event)) \
    X(cuGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent, 11010, INIT, graphEventWaitNodeSetEvent, \
      (CUgraphNode node, CUevent event), (node, event)) \
    X(cuGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, 11010, CONTEXT, graphExecEventWaitNodeSetEvent, \
      (CUgraphExec executable, CUgraphNode node, CUevent event), (executable, node, event)) \
    X(cuGraphClone, cuGraphClone, 10000, INIT, graphClone, \
      (CUgraph *clone, CUgraph graph), (clone, graph)) \
    X(cuGraphNodeFindInClone, cuGraphNodeFindInClone, 10000, INIT, graphNodeFindInClone, \
      (CUgraphNode *node, CUgraphNode original, CUgraph clone), (node, original, clone)) \
    X(cuGraphNodeGetType, cuGraphNodeGetType, 10000, INIT, graphNodeGetType, \
      (CUgraphNode node, CUgraphNodeType *type), (node, type)) \
    X(cuGraphGetNodes, cuGraphGetNodes, 10000, INIT, graphGetNodes, \
      (CUgraph graph, CUgraphNode *nodes, size_t *count), (graph, nodes, count)) \
    X(cuGraphGetRootNodes, cuGraphGetRootNodes, 10000, INIT, graphGetRootNodes, \
      (CUgraph graph, CUgraphNode *nodes, size_t *count), (graph, nodes, count)) \
    X(cuGraphGetEdges, cuGraphGetEdges, 10000, INIT, graphGetEdges1, \
      (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count), (graph, from, to, \
      count)) \
    X(cuGraphGetEdges_v2, cuGraphGetEdges, 12030, INIT, graphGetEdges, \
      (CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t \
      *count), (graph, from, to, edges, count)) \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies, 10000, INIT, graphNodeGetDependencies1, \
      (CUgraphNode node, CUgraphNode *nodes, size_t *count), (node, nodes, count)) \
    X(cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependencies, 12030, INIT, graphNodeGetDependencies, \
      (CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count), (node, \
      nodes, edges, count)) \
    X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes, 10000, INIT, graphNodeGetDependentNodes1, \
      (CUgraphNode node, CUgraphNode *nodes, size_t *count), (node, nodes, count)) \
    X(cuGraphNodeGetDependentNodes_v2, cuGraphNodeGetDependentNodes, 12030, INIT, graphNodeGetDependentNodes, \
      (CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count), (node, \
      nodes, edges, count)) \
    X(cuGraphAddDependencies, cuGraphAddDependencies, 10000, INIT, graphAddDependencies1, \
      (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count), (graph, \
      from, to, count)) \
    X(cuGraphAddDependencies_v2, cuGraphAddDependencies, 12030, INIT, graphAddDependencies, \
      (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData \
      *edges, size_t count), (graph, from, to, edges, count)) \
    X(cuGraphRemoveDependencies, cuGraphRemoveDependencies, 10000, INIT, graphRemoveDependencies1, \
      (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count), (graph, \
      from, to, count)) \
    X(cuGraphRemoveDependencies_v2, cuGraphRemoveDependencies, 12030, INIT, graphRemoveDependencies, \
      (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData \
      *edges, size_t count), (graph, from, to, edges, count)) \
    X(cuGraphInstantiate, cuGraphInstantiate, 10000, CONTEXT, graphInstantiate, \
      (CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log, size_t size), \
      (executable, graph, node, log, size)) \
    X(cuGraphInstantiate_v2, cuGraphInstantiate, 11000, CONTEXT, graphInstantiate, \
      (CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log, size_t size), \
      (executable, graph, node, log, size)) \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, CONTEXT, graphInstantiateWithFlags, \
      (CUgraphExec *executable, CUgraph graph, unsigned long long flags), (executable, graph, \
      flags)) \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, CONTEXT, graphInstantiateWithParams, \
      (CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), \
      (executable, graph, params)) \
    X(cuGraphUpload, cuGraphUpload, 11010, CONTEXT, graphUpload, \
      (CUgraphExec executable, CUstream stream), (executable, stream)) \
    X(cuGraphLaunch, cuGraphLaunch, 10000, CONTEXT, graphLaunch, \
      (CUgraphExec executable, CUstream stream), (executable, stream)) \
    X(cuGraphExecUpdate, cuGraphExecUpdate, 10020, CONTEXT, graphExecUpdate1, \
      (CUgraphExec executable, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult \
      *result), (executable, graph, node, result)) \
    X(cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000, CONTEXT, graphExecUpdate, \
      (CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *info), (executable, \
      graph, info)) \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, CONTEXT, graphExecKernelNodeSetParams1, \
      (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params), \
      (executable, node, params)) \
    X(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000, CONTEXT, graphExecKernelNodeSetParams, \
      (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params), \
      (executable, node, params)) \
    X(cuGraphExecGetFlags, cuGraphExecGetFlags, 12000, INIT, graphExecGetFlags, \
      (CUgraphExec executable, cuuint64_t *flags), (executable, flags)) \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, INIT, graphExecDestroy, \
      (CUgraphExec executable), (executable))
// clang-format on

#endif

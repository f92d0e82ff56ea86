/* Calls written by hand, because they take structures or come in pairs. */
#ifndef PHOS_CUDADRV_TABLE_H
#define PHOS_CUDADRV_TABLE_H

#include "driver.h"

#define PHOS_SPECIALS(X)                                                                           \
	X(PHOS_CTX_SET_CURRENT, "cuCtxSetCurrent")                                                 \
	X(PHOS_CTX_CREATE, "cuCtxCreate_v2")                                                       \
	X(PHOS_RESERVE, "cuMemAddressReserve")                                                     \
	X(PHOS_UNRESERVE, "cuMemAddressFree")                                                      \
	X(PHOS_GRANULARITY, "cuMemGetAllocationGranularity")                                       \
	X(PHOS_CREATE, "cuMemCreate")                                                              \
	X(PHOS_RELEASE, "cuMemRelease")                                                            \
	X(PHOS_MAP, "cuMemMap")                                                                    \
	X(PHOS_UNMAP, "cuMemUnmap")                                                                \
	X(PHOS_SET_ACCESS, "cuMemSetAccess")                                                       \
	X(PHOS_EXPORT, "cuMemExportToShareableHandle")                                             \
	X(PHOS_IMPORT, "cuMemImportFromShareableHandle")                                           \
	X(PHOS_COPY_3D, "cuMemcpy3DAsync_v2")                                                      \
	X(PHOS_COPY_3D_PEER, "cuMemcpy3DPeerAsync")                                                \
	X(PHOS_LOAD, "cuModuleLoadDataEx")                                                         \
	X(PHOS_LINK_CREATE, "cuLinkCreate_v2")                                                     \
	X(PHOS_LINK_ADD, "cuLinkAddData_v2")                                                       \
	X(PHOS_LINK_COMPLETE, "cuLinkComplete")                                                    \
	X(PHOS_LINK_DESTROY, "cuLinkDestroy")                                                      \
	X(PHOS_LAUNCH, "cuLaunchKernel")                                                           \
	X(PHOS_LAUNCH_EX, "cuLaunchKernelEx")                                                      \
	X(PHOS_CLUSTERS, "cuOccupancyMaxActiveClusters")                                           \
	X(PHOS_CLUSTER_SIZE, "cuOccupancyMaxPotentialClusterSize")                                 \
	X(PHOS_NODE_ATTRIBUTE, "cuGraphKernelNodeSetAttribute")                                    \
	X(PHOS_TENSOR_TILED, "cuTensorMapEncodeTiled")                                             \
	X(PHOS_TENSOR_IM2COL, "cuTensorMapEncodeIm2col")                                           \
	X(PHOS_TENSOR_REPLACE, "cuTensorMapReplaceAddress")                                        \
	X(PHOS_TENSOR_WIDE, "cuTensorMapEncodeIm2colWide")                                         \
	X(PHOS_ADD_KERNEL, "cuGraphAddKernelNode_v2")                                              \
	X(PHOS_ADD_COPY, "cuGraphAddMemcpyNode")                                                   \
	X(PHOS_ADD_FILL, "cuGraphAddMemsetNode")                                                   \
	X(PHOS_SET_KERNEL, "cuGraphExecKernelNodeSetParams_v2")                                    \
	X(PHOS_SET_COPY, "cuGraphExecMemcpyNodeSetParams")                                         \
	X(PHOS_SET_FILL, "cuGraphExecMemsetNodeSetParams")                                         \
	X(PHOS_ENUMERATE, "cuModuleEnumerateFunctions")

enum phos_special {
#define PHOS_NUMBER(number, name) number,
	PHOS_SPECIALS(PHOS_NUMBER)
#undef PHOS_NUMBER
		PHOS_SPECIAL_CALLS
};

extern void *phos_special[PHOS_SPECIAL_CALLS];

const char *phos_special_name(int index);

/* Calls through the table; the arguments are the parameter types. */
#define CALL(number, ...) ((int32_t(*)(__VA_ARGS__))phos_special[number])

#endif

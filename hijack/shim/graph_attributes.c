/* Launch attributes of kernel nodes, as in cuLaunchKernelEx. */
#include <string.h>

#include "session.h"
#include "zz_calls.h"

enum {
	ACCESS_POLICY = 1,
	PROGRAMMATIC_EVENT = 7,
	COMPLETION_EVENT = 12,
	UPDATABLE = 13,
	KNOWN = 16
};

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUlaunchAttributeID id,
				       CUlaunchAttributeValue *value)
{
	CUlaunchAttributeValue got;
	if (value == NULL || id <= 0 || id > KNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_graphNodeAttributeGet(node, id, (uintptr_t)&got);
	if (result == CUDA_SUCCESS)
		*value = got;
	return result;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID id,
				       const CUlaunchAttributeValue *value)
{
	CUlaunchAttribute attribute = {.id = id};
	if (value == NULL || id <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (id == ACCESS_POLICY)
		return CUDA_SUCCESS;
	if (id == PROGRAMMATIC_EVENT || id == COMPLETION_EVENT || id == UPDATABLE || id > KNOWN)
		return phos_refuse("cuGraphKernelNodeSetAttribute with an event, an update by the "
				   "device, or an attribute unknown to CUDA 13.0");
	memcpy(attribute.value.bytes, value, sizeof attribute.value.bytes);
	return phos_call_graphNodeAttributeSet(node, (const unsigned char *)&attribute,
					       sizeof attribute);
}

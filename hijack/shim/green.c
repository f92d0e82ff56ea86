/* Partitions of a device are not supported, but queries of the whole device are answered. */
#include <string.h>

#include "objects.h"
#include "session.h"
#include "thread.h"
#include "zz_calls.h"

enum { RESOURCE_MULTIPROCESSORS = 1, MULTIPROCESSORS = 16 };

CUresult cuDeviceGetDevResource(CUdevice ordinal, CUdevResource *resource, CUdevResourceType type)
{
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	const struct phos_device *device = phos_device_find(ordinal);
	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (resource == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != RESOURCE_MULTIPROCESSORS)
		return phos_refuse("cuDeviceGetDevResource of anything but multiprocessors");
	memset(resource, 0, sizeof *resource);
	resource->type = type;
	resource->smCount = (unsigned int)device->attributes[MULTIPROCESSORS];
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource *resource, CUdevResourceType type)
{
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	struct phos_context *context = phos_context_find(handle != 0 ? handle : phos_self.current);
	return context == NULL ? CUDA_ERROR_INVALID_CONTEXT
			       : cuDeviceGetDevResource(context->device, resource, type);
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
	CUresult result = cuStreamGetCtx(stream, context);
	if (result == CUDA_SUCCESS && green != NULL)
		*green = 0;
	return result;
}

CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
	CUcontext context;
	if (green == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*green = 0;
	return cuStreamGetCtx(stream, &context);
}

/* Kernels answer like functions, and settings without consequence are checked and taken. */
#include "function.h"
#include "session.h"

static CUresult check(uint64_t function)
{
	struct phos_function *f;
	return phos_function_find(function, &f);
}

CUresult cuFuncLoad(CUfunction function)
{
	return check(function);
}

/* Preferences of caches and banks: there is nothing to prefer. */

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
	return config < 0 || config > 3 ? CUDA_ERROR_INVALID_VALUE : check(function);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
	return config < 0 || config > 2 ? CUDA_ERROR_INVALID_VALUE : check(function);
}

/* The shape of a launch as programs for CUDA 3 set it. They too launch with an explicit one today.
 */

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
	return x <= 0 || y <= 0 || z <= 0 ? CUDA_ERROR_INVALID_VALUE : check(function);
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes)
{
	(void)bytes;
	return check(function);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	return phos_call_cuKernelGetFunction(function, kernel);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
			      CUdevice device)
{
	(void)device;
	return cuFuncGetAttribute(value, attribute, kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
			      CUdevice device)
{
	(void)device;
	return cuFuncSetAttribute(kernel, attribute, value);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
	(void)device;
	return cuFuncSetCacheConfig(kernel, config);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	return cuFuncGetName(name, kernel);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
	return cuFuncGetParamInfo(kernel, index, offset, bytes);
}

/* Memory pools: structs and untyped values are converted here. */
#include <string.h>

#include "objects.h"
#include "session.h"
#include "zz_calls.h"

enum { ALLOCATION_PINNED = 1, LOCATION_DEVICE = 1, ACCESS_READ_WRITE = 3 };
enum { LAST_INT_ATTRIBUTE = 3, LAST_ATTRIBUTE = 8 };

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	if (pool == NULL || properties == NULL || properties->allocType != ALLOCATION_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (properties->handleTypes != 0)
		return phos_refuse("cuMemPoolCreate with handles for other processes");
	if (properties->location.type != LOCATION_DEVICE)
		return phos_refuse("cuMemPoolCreate outside a device");
	return phos_call_memPoolCreate(properties->location.id, properties->maxSize, pool);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	uint64_t wide = 0;
	if (value == NULL || attribute < 1 || attribute > LAST_ATTRIBUTE)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&wide, value, attribute <= LAST_INT_ATTRIBUTE ? 4 : 8);
	return phos_call_memPoolSetAttribute(pool, (unsigned)attribute, wide);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	uint64_t wide = 0;
	if (value == NULL || attribute < 1 || attribute > LAST_ATTRIBUTE)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_memPoolGetAttribute(pool, (unsigned)attribute, &wide);
	if (result == CUDA_SUCCESS)
		memcpy(value, &wide, attribute <= LAST_INT_ATTRIBUTE ? 4 : 8);
	return result;
}

/* Only the pool's own device can have access, and always has it; peer access to pools is not
 * supported. */

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (phos_kind_of(pool) != PHOS_KIND_MEMORY_POOL || (map == NULL && count > 0))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (map[i].location.type != LOCATION_DEVICE ||
		    phos_device_find(map[i].location.id) == NULL)
			return CUDA_ERROR_INVALID_DEVICE;
		if (phos.device_count > 1 && map[i].flags != 0)
			return phos_refuse("cuMemPoolSetAccess for another device");
	}
	return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	if (flags == NULL || location == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (phos_kind_of(pool) != PHOS_KIND_MEMORY_POOL || location->type != LOCATION_DEVICE ||
	    phos_device_find(location->id) == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = ACCESS_READ_WRITE;
	return CUDA_SUCCESS;
}

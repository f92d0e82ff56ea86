/* Attributes that are accepted without effect, and their defaults. */
#include <string.h>

#include "objects.h"
#include "session.h"
#include "zz_calls.h"

enum range_attribute { READ_MOSTLY = 1, ACCESSED_BY = 3, RANGE_LAST = 8 };
enum location { LOCATION_DEVICE = 1 };
enum graph_memory { GRAPH_MEMORY_USED_HIGH = 1, GRAPH_MEMORY_RESERVED_HIGH = 3 };
enum stream_attribute {
	ATTRIBUTE_ACCESS_POLICY = 1,
	ATTRIBUTE_SYNCHRONIZATION = 3,
	ATTRIBUTE_PRIORITY = 8,
	ATTRIBUTE_SYNC_DOMAIN_MAP = 9,
	ATTRIBUTE_SYNC_DOMAIN = 10,
};
enum { NO_DEVICE = -2, POLICY_AUTO = 1, ATTRIBUTE_BYTES = 64 };

/* Returns the defaults, as if no advice was given: not read-mostly, no preferred location, no
 * accessing devices. */
static CUresult describe_range(void *data, size_t bytes, CUmem_range_attribute attribute)
{
	int32_t none = NO_DEVICE, zero = 0;
	if (data == NULL || attribute < 1 || attribute > RANGE_LAST || bytes == 0 ||
	    bytes % 4 != 0 || (attribute != ACCESSED_BY && bytes != 4))
		return CUDA_ERROR_INVALID_VALUE;
	/* Attributes from 5 on are types and ids of locations: type 0 is no location. */
	bool is_device = attribute > READ_MOSTLY && attribute <= 4;
	for (size_t i = 0; i < bytes; i += 4)
		memcpy((char *)data + i, is_device ? &none : &zero, 4);
	return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(void *data, size_t bytes, CUmem_range_attribute attribute,
				CUdeviceptr address, size_t count)
{
	CUresult result = cuMemPrefetchAsync(address, count, -1, 0); /* checks the range */
	return result == CUDA_SUCCESS ? describe_range(data, bytes, attribute) : result;
}

CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes,
				 size_t attribute_count, CUdeviceptr address, size_t count)
{
	if (data == NULL || sizes == NULL || attributes == NULL || attribute_count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = CUDA_SUCCESS;
	for (size_t i = 0; i < attribute_count && result == CUDA_SUCCESS; i++)
		result = cuMemRangeGetAttribute(data[i], sizes[i], attributes[i], address, count);
	return result;
}

static CUresult find_device(CUdevice device)
{
	CUresult result = phos_enter();
	if (result == CUDA_SUCCESS && phos_device_find(device) == NULL)
		result = CUDA_ERROR_INVALID_DEVICE;
	return result;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	const uint64_t nothing = 0;
	if (value == NULL || attribute < 0 || attribute > GRAPH_MEMORY_RESERVED_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find_device(device);
	if (result == CUDA_SUCCESS)
		memcpy(value, &nothing, sizeof nothing);
	return result;
}

/* The high-water marks can only be reset, to 0. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	uint64_t to = 0;
	if (value == NULL ||
	    (attribute != GRAPH_MEMORY_USED_HIGH && attribute != GRAPH_MEMORY_RESERVED_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&to, value, sizeof to);
	return to != 0 ? CUDA_ERROR_INVALID_VALUE : find_device(device);
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	return find_device(device);
}

static CUresult on_device(const CUmemLocation *location, CUmemAllocationType type)
{
	if (location == NULL || (int)type != 1)
		return CUDA_ERROR_INVALID_VALUE;
	return location->type == LOCATION_DEVICE ? CUDA_SUCCESS
						 : phos_refuse("a memory pool of no GPU");
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
				CUmemAllocationType type)
{
	CUresult result = on_device(location, type);
	return result == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(pool, location->id) : result;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	CUresult result = on_device(location, type);
	return result == CUDA_SUCCESS ? cuDeviceGetMemPool(pool, location->id) : result;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult result = on_device(location, type);
	return result == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : result;
}

static CUresult find_attribute(CUstream stream, CUlaunchAttributeID attribute, int *priority)
{
	if (attribute != ATTRIBUTE_ACCESS_POLICY && attribute != ATTRIBUTE_SYNCHRONIZATION &&
	    attribute != ATTRIBUTE_PRIORITY && attribute != ATTRIBUTE_SYNC_DOMAIN_MAP &&
	    attribute != ATTRIBUTE_SYNC_DOMAIN)
		return CUDA_ERROR_INVALID_VALUE;
	return cuStreamGetPriority(stream, priority); /* also checks that the stream exists */
}

CUresult cuStreamGetAttribute(CUstream stream, CUlaunchAttributeID attribute, void *value)
{
	int priority = 0, automatic = POLICY_AUTO;
	if (value == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = find_attribute(stream, attribute, &priority);
	if (result != CUDA_SUCCESS)
		return result;
	memset(value, 0, ATTRIBUTE_BYTES);
	if (attribute == ATTRIBUTE_PRIORITY)
		memcpy(value, &priority, sizeof priority);
	if (attribute == ATTRIBUTE_SYNCHRONIZATION)
		memcpy(value, &automatic, sizeof automatic);
	return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream stream, CUlaunchAttributeID attribute, const void *value)
{
	int priority = 0;
	return value == NULL ? CUDA_ERROR_INVALID_VALUE
			     : find_attribute(stream, attribute, &priority);
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
	int priority = 0;
	CUresult result = find_attribute(to, ATTRIBUTE_PRIORITY, &priority);
	return result == CUDA_SUCCESS ? find_attribute(from, ATTRIBUTE_PRIORITY, &priority)
				      : result;
}

/* Pointer queries, answered from the shim's ranges. */
#include <string.h>

#include "objects.h"
#include "ranges.h"
#include "session.h"
#include "thread.h"
#include "zz_calls.h"

enum attribute {
	CONTEXT = 1,
	MEMORY_TYPE = 2,
	DEVICE_POINTER = 3,
	HOST_POINTER = 4,
	P2P_TOKENS = 5,
	SYNC_MEMOPS = 6,
	BUFFER_ID = 7,
	IS_MANAGED = 8,
	DEVICE_ORDINAL = 9,
	IS_LEGACY_IPC_CAPABLE = 10,
	RANGE_START = 11,
	RANGE_SIZE = 12,
	MAPPED = 13,
	ALLOWED_HANDLE_TYPES = 14,
	IS_RDMA_CAPABLE = 15,
	ACCESS_FLAGS = 16,
	MEMPOOL = 17,
	MAPPING_SIZE = 18,
	MAPPING_BASE = 19,
	MEMORY_BLOCK_ID = 20,
	IS_DECOMPRESS_CAPABLE = 21,
};

enum { TYPE_HOST = 1, TYPE_DEVICE = 2, ACCESS_READ_WRITE = 3, NO_DEVICE = -2 };

#define ON_HOST (PHOS_RANGE_HOST | PHOS_RANGE_MANAGED | PHOS_RANGE_REGISTERED)

/* An answer: its value, and its size in the program. */
struct answer {
	uint64_t value;
	size_t bytes;
};

static struct answer word(uint64_t value)
{
	return (struct answer){value, 8};
}

static struct answer number(uint64_t value)
{
	return (struct answer){value, 4};
}

/* Answers attributes that are the same for all known memory. */
static bool describe_any(CUpointer_attribute attribute, struct answer *answer)
{
	switch ((enum attribute)attribute) {
	case MAPPED:
		*answer = number(1);
		return true;
	case IS_RDMA_CAPABLE:
	case IS_DECOMPRESS_CAPABLE:
		*answer = number(0);
		return true;
	default:
		return false;
	}
}

/* Returns the access of the current context's device to a range. */
static unsigned access_of(const struct phos_range *range)
{
	if (range->kind != PHOS_RANGE_MAPPED)
		return ACCESS_READ_WRITE;
	struct phos_context *context = phos_context_find(phos_self.current);
	return phos_range_access(range, context == NULL ? range->device : context->device);
}

/* Answers an attribute of a known range. Returns false if it does not apply to the range. */
static bool describe(const struct phos_range *range, CUpointer_attribute attribute,
		     uint64_t address, struct answer *answer)
{
	bool on_host = (range->kind & ON_HOST) != 0;
	switch ((enum attribute)attribute) {
	case CONTEXT:
		*answer = word(range->context);
		return true;
	case MEMORY_TYPE:
		*answer = number(range->kind == PHOS_RANGE_HOST ||
						 range->kind == PHOS_RANGE_REGISTERED
					 ? TYPE_HOST
					 : TYPE_DEVICE);
		return true;
	case DEVICE_POINTER:
		*answer = word(address);
		return range->kind != PHOS_RANGE_REGISTERED || range->shown;
	case HOST_POINTER:
		*answer = word(on_host ? address : 0);
		return on_host;
	case SYNC_MEMOPS:
		*answer = number(range->sync_memops);
		return true;
	case BUFFER_ID:
	case MEMORY_BLOCK_ID:
		*answer = word(range->id);
		return true;
	case IS_MANAGED:
		*answer = number(range->kind == PHOS_RANGE_MANAGED);
		return true;
	case DEVICE_ORDINAL:
		*answer = number((uint32_t)range->device);
		return true;
	case RANGE_START:
	case MAPPING_BASE:
		*answer = word(range->base);
		return true;
	case RANGE_SIZE:
	case MAPPING_SIZE:
		*answer = word(range->bytes);
		return true;
	case MEMPOOL:
		*answer = word(range->pool);
		return true;
	case ALLOWED_HANDLE_TYPES:
		*answer = word(range->kind == PHOS_RANGE_MAPPED ? range->flags : 0);
		return true;
	case IS_LEGACY_IPC_CAPABLE:
		*answer = number(range->kind == PHOS_RANGE_DEVICE && range->pool == 0);
		return true;
	case ACCESS_FLAGS:
		*answer = number(access_of(range));
		return true;
	default:
		return describe_any(attribute, answer);
	}
}

/* Returns the value of an attribute for memory that CUDA does not know. */
static struct answer unknown_answer(CUpointer_attribute attribute)
{
	switch ((enum attribute)attribute) {
	case DEVICE_ORDINAL:
		return number((uint32_t)NO_DEVICE);
	case MEMORY_TYPE:
	case SYNC_MEMOPS:
	case IS_MANAGED:
	case IS_LEGACY_IPC_CAPABLE:
	case MAPPED:
	case IS_RDMA_CAPABLE:
	case ACCESS_FLAGS:
	case IS_DECOMPRESS_CAPABLE:
		return number(0);
	default:
		return word(0);
	}
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct phos_range range;
	struct answer answer;
	if (data == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find(address, &range) || !describe(&range, attribute, address, &answer))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(data, &answer.value, answer.bytes);
	return CUDA_SUCCESS;
}

/* Unlike the query of one attribute, this succeeds for memory that CUDA does not know. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr address)
{
	struct phos_range range;
	struct answer answer;
	if (count == 0 || attributes == NULL || data == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	bool known = phos_range_find(address, &range);
	for (unsigned int i = 0; i < count; i++) {
		if (attributes[i] == P2P_TOKENS || attributes[i] < CONTEXT ||
		    attributes[i] > IS_DECOMPRESS_CAPABLE)
			return CUDA_ERROR_INVALID_VALUE;
		if (!known || !describe(&range, attributes[i], address, &answer))
			answer = unknown_answer(attributes[i]);
		memcpy(data[i], &answer.value, answer.bytes);
	}
	return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
			       CUdeviceptr address)
{
	unsigned int on;
	if (value == NULL || attribute != SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	memcpy(&on, value, sizeof on);
	return phos_range_set_sync_memops(address, on != 0) ? CUDA_SUCCESS
							    : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	struct phos_range range;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find(address, &range))
		return CUDA_ERROR_NOT_FOUND;
	if (base != NULL)
		*base = range.base;
	if (bytes != NULL)
		*bytes = range.bytes;
	return CUDA_SUCCESS;
}

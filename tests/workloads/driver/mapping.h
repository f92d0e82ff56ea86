/* Memory of the first GPU that is created without addresses, and its access rights. */
#pragma once
#include "driver.h"

#define UNUSED __attribute__((unused))

static UNUSED CUmemAllocationProp where = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static UNUSED CUmemAccessDesc both = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static UNUSED CUmemAccessDesc reading = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
					 .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};

static inline CUmemGenericAllocationHandle memory(size_t bytes)
{
	CUmemGenericAllocationHandle handle;
	CU(D(cuMemCreate)(&handle, bytes, &where, 0));
	return handle;
}

static inline CUdeviceptr addresses(size_t bytes)
{
	CUdeviceptr address;
	CU(D(cuMemAddressReserve)(&address, bytes, 0, 0, 0));
	return address;
}

static inline void map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle,
		       const CUmemAccessDesc *access)
{
	CU(D(cuMemMap)(address, bytes, 0, handle, 0));
	CU(D(cuMemSetAccess)(address, bytes, access, 1));
}

/* Memory that the program maps itself: addresses are reserved; memory is created, mapped, moved,
 * mapped twice, and unmapped. Wrong orders and sizes must give the driver's errors. */
#include "add.h"
#include "mapping.h"
#include <string.h>

static const char ptx[] = ADD_PTX ".visible .entry take(.param .u64 to, .param .u64 from)\n"
				  "{\n"
				  " .reg .b32 %r; .reg .b64 %d<3>;\n"
				  " ld.param.u64 %d1, [to]; ld.param.u64 %d2, [from];\n"
				  " ld.global.u32 %r, [%d2]; st.global.u32 [%d1], %r; ret;\n"
				  "}\n";

#define MIB ((size_t)1 << 20)
/* For a call that may report its error later. */
#define WRONG_AT_LAST(call)                         \
	CHECK((call) == CUDA_ERROR_INVALID_VALUE || \
	      D(cuCtxSynchronize)() == CUDA_ERROR_INVALID_VALUE)
#define WRONG(call) CHECK((call) == CUDA_ERROR_INVALID_VALUE)

static CUdevice device;
static CUfunction take;
static size_t grain;

static unsigned at(CUdeviceptr address)
{
	unsigned value;
	CU(D(cuMemcpyDtoH)(&value, address, sizeof value));
	return value;
}

static size_t free_bytes(void)
{
	size_t bytes, total;
	CU(D(cuMemGetInfo)(&bytes, &total));
	return bytes;
}

/* The free memory must be as expected, except for what the driver keeps. */
static void check_free(size_t want)
{
	size_t now = free_bytes(), off = slack(device);
	CHECK(now + off >= want && now <= want + off);
}

/* One tensor across several pieces of memory, as in the growing allocators of frameworks. */
static void pieces(void)
{
	size_t before = free_bytes(), bytes = 10 * grain;
	CUdeviceptr base = addresses(64 * grain);
	/* More than the driver ever keeps, to see whether it is counted at all. */
	CUmemGenericAllocationHandle large = memory(32 * grain);
	check_free(before - 32 * grain);
	CU(D(cuMemRelease)(large));
	for (int i = 0; i < 5; i++) {
		CUmemGenericAllocationHandle handle = memory(2 * grain);
		map(base + (size_t)i * 2 * grain, 2 * grain, handle, &both);
		CU(D(cuMemRelease)(handle));
	}
	check_free(before - bytes);
	unsigned count = (unsigned)(bytes / 4);
	CU(D(cuMemsetD32)(base, 7, count));
	run_add(base, 5, count);
	unsigned *got = malloc(bytes), *back = malloc(bytes);
	CU(D(cuMemcpyDtoH)(got, base, bytes));
	for (unsigned i = 0; i < count; i++) {
		CHECK(got[i] == 12);
		got[i] = i * 3;
	}
	CU(D(cuMemcpyHtoD)(base, got, bytes));
	run_add(base, 1, count);
	CU(D(cuMemcpyDtoH)(back, base, bytes));
	for (unsigned i = 0; i < count; i++)
		CHECK(back[i] == got[i] + 1);
	WRONG(D(cuMemcpyDtoH)(got, base + bytes - 4, 8));
	/* A hole, and other memory mapped into it. */
	CU(D(cuMemUnmap)(base + 4 * grain, 2 * grain));
	check_free(before - 8 * grain);
	WRONG(D(cuMemcpyDtoH)(got, base, bytes));
	CUmemGenericAllocationHandle other = memory(2 * grain);
	map(base + 4 * grain, 2 * grain, other, &both);
	CU(D(cuMemRelease)(other));
	CHECK(at(base + 4 * grain - 4) == ((unsigned)grain - 1) * 3 + 1);
	CU(D(cuMemsetD32)(base + 4 * grain, 9, 2 * grain / 4));
	CHECK(at(base + 6 * grain - 4) == 9);
	CU(D(cuMemUnmap)(base, bytes));
	check_free(before);
	CU(D(cuMemAddressFree)(base, 64 * grain));
	free(got);
	free(back);
}

/* Memory outlives its address, and may have several. */
static void moves(void)
{
	CUmemGenericAllocationHandle handle = memory(2 * grain), same;
	CUdeviceptr one = addresses(2 * grain), two = addresses(4 * grain);
	map(one, 2 * grain, handle, &both);
	CU(D(cuMemsetD32)(one, 100, 2 * grain / 4));
	run_add(one, 11, (unsigned)(2 * grain / 4));
	CU(D(cuMemUnmap)(one, 2 * grain));
	map(two + grain, 2 * grain, handle, &both);
	CHECK(at(two + grain) == 111 && at(two + 3 * grain - 4) == 111);
	map(one, grain, handle, &both); /* its first half once more */
	run_add(one, 1, (unsigned)(grain / 4));
	run_add(two + grain, 1, (unsigned)(2 * grain / 4));
	CHECK(at(one) == 113 && at(two + grain) == 113 && at(two + 2 * grain) == 112);
	CUdeviceptr to = one + 4, from = two + 2 * grain;
	void *parameters[] = {&to, &from};
	CU(D(cuLaunchKernel)(take, 1, 1, 1, 1, 1, 1, 0, 0, parameters, NULL));
	CHECK(at(two + grain + 4) == 112);
	CU(D(cuMemcpyDtoD)(one, two + 2 * grain, 4));
	CHECK(at(two + grain) == 112);

	CU(D(cuMemRelease)(handle));
	WRONG(D(cuMemRelease)(handle));
	CU(D(cuMemRetainAllocationHandle)(&same, (void *)(uintptr_t)(one + 123)));
	CHECK(same == handle);
	CUmemAllocationProp got;
	CU(D(cuMemGetAllocationPropertiesFromHandle)(&got, same));
	CHECK(got.type == where.type && got.location.id == device &&
	      got.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
	CU(D(cuMemUnmap)(two + grain, 2 * grain));
	CU(D(cuMemUnmap)(one, grain));
	map(two, 2 * grain, same, &both);
	CHECK(at(two) == 112);
	CU(D(cuMemUnmap)(two, 2 * grain));
	CU(D(cuMemRelease)(same));
	WRONG(D(cuMemMap)(two, grain, 0, same, 0));
	CU(D(cuMemAddressFree)(one, 2 * grain));
	CU(D(cuMemAddressFree)(two, 4 * grain));
}

static void pointers(void)
{
	CUmemGenericAllocationHandle handle = memory(4 * grain);
	CUdeviceptr address = addresses(8 * grain), start = 0;
	size_t bytes = 0;
	unsigned type = 0, mapped = 0, ordinal = 9, known = 9;
	unsigned long long flags = 9;
	void *context = &type;
	WRONG(D(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	CU(D(cuMemMap)(address + grain, 4 * grain, 0, handle, 0));
	CU(D(cuMemGetAccess)(&flags, &both.location, address + grain));
	CHECK(flags == 0);
	CU(D(cuMemSetAccess)(address + grain, 4 * grain, &both, 1));
	CU(D(cuMemGetAccess)(&flags, &both.location, address + 2 * grain));
	CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUdeviceptr inside = address + 3 * grain + 5;
	CU(D(cuMemGetAddressRange)(&start, &bytes, inside));
	CHECK(start == address + grain && bytes == 4 * grain);
	CUpointer_attribute names[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_MAPPED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *data[] = {&type, &mapped, &ordinal, &start, &context, &known};
	CU(D(cuPointerGetAttributes)(6, names, data, inside));
	CHECK(type == CU_MEMORYTYPE_DEVICE && mapped == 1 && ordinal == (unsigned)device &&
	      start == address + grain && context == NULL && known == 0);
	CU(D(cuMemUnmap)(address + grain, 4 * grain));
	CHECK(D(cuMemGetAddressRange)(&start, &bytes, inside) == CUDA_ERROR_NOT_FOUND);
	CU(D(cuMemRelease)(handle));
	CU(D(cuMemAddressFree)(address, 8 * grain));
}

static void refused_addresses(void)
{
	CUdeviceptr address, hinted;
	WRONG(D(cuMemAddressReserve)(&address, 0, 0, 0, 0));
	WRONG(D(cuMemAddressReserve)(&address, grain, 3, 0, 0));
	WRONG(D(cuMemAddressReserve)(&address, grain, 0, 0, 1));
	WRONG(D(cuMemAddressReserve)(&address, 1000, 0, 0, 0));
	CHECK(D(cuMemAddressReserve)(&address, (size_t)1 << 50, 0, 0, 0) ==
	      CUDA_ERROR_OUT_OF_MEMORY);
	CU(D(cuMemAddressReserve)(&address, 3 * grain, 16 * grain, 0, 0));
	CHECK(address % (16 * grain) == 0);
	WRONG(D(cuMemAddressFree)(address, 2 * grain));
	WRONG(D(cuMemAddressFree)(address + grain, 2 * grain));
	CU(D(cuMemAddressReserve)(&hinted, grain, 0, address, 0));
	CHECK(hinted != address); /* the address is in use */
	CU(D(cuMemAddressFree)(hinted, grain));
	CU(D(cuMemAddressFree)(address, 3 * grain));
	WRONG(D(cuMemAddressFree)(address, 3 * grain));
	CU(D(cuMemAddressReserve)(&hinted, 2 * grain, 0, address + grain, 0));
	CHECK(hinted == address + grain);
	CU(D(cuMemAddressFree)(hinted, 2 * grain));
}

static void refused_memory(void)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp other = where;
	WRONG(D(cuMemCreate)(&handle, grain + MIB, &where, 0));
	WRONG(D(cuMemCreate)(&handle, 0, &where, 0));
	WRONG(D(cuMemCreate)(&handle, grain, &where, 1));
	CHECK(D(cuMemCreate)(&handle, (size_t)1 << 46, &where, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	other.location.id = 77;
	CHECK(D(cuMemCreate)(&handle, grain, &other, 0) == CUDA_ERROR_INVALID_DEVICE);
	other = where;
	other.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	WRONG(D(cuMemCreate)(&handle, grain, &other, 0));
	WRONG(D(cuMemRelease)((CUmemGenericAllocationHandle)4711));
}

static void refused_mappings(void)
{
	unsigned value = 1;
	CUmemGenericAllocationHandle handle = memory(2 * grain);
	CUdeviceptr address = addresses(4 * grain);
	WRONG(D(cuMemMap)(address, 3 * grain, 0, handle, 0));
	WRONG(D(cuMemMap)(address, grain, grain, handle, 0));
	WRONG(D(cuMemMap)(address + MIB, grain, 0, handle, 0));
	WRONG(D(cuMemMap)(address + 3 * grain, 2 * grain, 0, handle, 0));
	WRONG(D(cuMemMap)(address, grain, 0, handle, 1));
	WRONG(D(cuMemSetAccess)(address, grain, &both, 1));
	CU(D(cuMemMap)(address, 2 * grain, 0, handle, 0));
	WRONG(D(cuMemMap)(address + grain, grain, 0, handle, 0));
	WRONG_AT_LAST(D(cuMemcpyHtoD)(address, &value, sizeof value)); /* no access is allowed */
	WRONG(D(cuMemSetAccess)(address, grain, &both, 1));
	WRONG(D(cuMemSetAccess)(address, 3 * grain, &both, 1));
	WRONG(D(cuMemSetAccess)(address, 2 * grain, &both, 0));
	both.location.id = 77;
	CHECK(D(cuMemSetAccess)(address, 2 * grain, &both, 1) == CUDA_ERROR_INVALID_DEVICE);
	both.location.id = device;
	CU(D(cuMemSetAccess)(address, 2 * grain, &both, 1));
	CU(D(cuMemcpyHtoD)(address, &value, sizeof value));
	CU(D(cuMemSetAccess)(address, 2 * grain, &reading, 1));
	CHECK(at(address) == 1);
	WRONG_AT_LAST(D(cuMemcpyHtoD)(address, &value, sizeof value));
	WRONG_AT_LAST(D(cuMemsetD32)(address, 1, 1));
	WRONG(D(cuMemFree)(address));
	WRONG(D(cuMemAddressFree)(address, 4 * grain));
	WRONG(D(cuMemUnmap)(address, grain));
	WRONG(D(cuMemUnmap)(address + 2 * grain, 2 * grain));
	CU(D(cuMemUnmap)(address, 2 * grain));
	WRONG(D(cuMemUnmap)(address, 2 * grain));
	CU(D(cuMemRelease)(handle));
	CU(D(cuMemAddressFree)(address, 4 * grain));
}

/* A store through a read-only mapping poisons the context, as the last action of this program. */
static void fault(void)
{
	CUmemGenericAllocationHandle handle = memory(grain);
	CUdeviceptr address = addresses(grain), plain;
	CU(D(cuMemAlloc)(&plain, 4));
	map(address, grain, handle, &both);
	CU(D(cuMemsetD32)(address, 5, 1));
	CU(D(cuMemSetAccess)(address, grain, &reading, 1));
	void *inwards[] = {&plain, &address}, *outwards[] = {&address, &plain};
	CU(D(cuLaunchKernel)(take, 1, 1, 1, 1, 1, 1, 0, 0, inwards, NULL));
	CHECK(at(plain) == 5);
	CU(D(cuLaunchKernel)(take, 1, 1, 1, 1, 1, 1, 0, 0, outwards, NULL));
	CHECK(D(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* The host's memory has a granularity too, by whatever name: NCCL fails without one. */
static void host_granularity(void)
{
	CUmemAllocationProp host = where;
	for (int kind = 2; kind <= 4; kind++) {
		size_t bytes = 0;
		host.location.type = (CUmemLocationType)kind;
		host.location.id = 0;
		CU(D(cuMemGetAllocationGranularity)(&bytes, &host,
						    CU_MEM_ALLOC_GRANULARITY_MINIMUM));
		CHECK(bytes >= 4096 && (bytes & (bytes - 1)) == 0);
	}
}

int main(void)
{
	CUcontext context;
	CUmodule module;
	int supported = 0;
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuDeviceGetAttribute)(
		&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
	CHECK(supported == 1);
	CU(D(cuMemGetAllocationGranularity)(&grain, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(grain == 2 * MIB);
	host_granularity();
	CU(D(cuCtxCreate)(&context, 0, device));
	CU(D(cuModuleLoadData)(&module, ptx));
	CU(D(cuModuleGetFunction)(&add, module, "add"));
	CU(D(cuModuleGetFunction)(&take, module, "take"));
	size_t before = free_bytes();
	pieces();
	moves();
	pointers();
	refused_addresses();
	refused_memory();
	refused_mappings();
	check_free(before);
	fault();
	puts("ok virtual");
	return 0;
}

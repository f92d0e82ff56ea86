/* Virtual memory management: structs are converted here, and mappings noted for pointer queries. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "objects.h"
#include "ranges.h"
#include "session.h"
#include "zz_calls.h"

enum { ALLOCATION_PINNED = 1 };
enum { LOCATION_DEVICE = 1, LOCATION_HOST = 2, LOCATION_HOST_NUMA_CURRENT = 4 };
enum { HANDLE_POSIX = 1 };
enum { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_READ_WRITE = 3 };
#define GRANULARITY ((size_t)2 << 20)

static CUresult check_location(const CUmemLocation *location)
{
	if (location->type != LOCATION_DEVICE)
		return phos_refuse("memory management outside a device");
	return phos_device_find(location->id) == NULL ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult check_kind(const CUmemAllocationProp *p)
{
	if (p->type != ALLOCATION_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if ((p->requestedHandleTypes & ~HANDLE_POSIX) != 0)
		return phos_refuse("memory for handles other than file descriptors");
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
				       CUmemAllocationGranularity_flags option)
{
	if (granularity == NULL || properties == NULL || option < 0 || option > 1)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result == CUDA_SUCCESS)
		result = check_kind(properties);
	/* The host's memory has a granularity, too. NCCL asks for it, fails if there is none, and
	 * does without such memory if cuMemCreate refuses it. */
	CUmemLocationType where = properties->location.type;
	if (result == CUDA_SUCCESS && (where < LOCATION_HOST || where > LOCATION_HOST_NUMA_CURRENT))
		result = check_location(&properties->location);
	if (result == CUDA_SUCCESS)
		*granularity = GRANULARITY;
	return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
		     const CUmemAllocationProp *properties, unsigned long long flags)
{
	if (handle == NULL || properties == NULL || flags != 0 || bytes == 0 ||
	    bytes % GRANULARITY != 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result == CUDA_SUCCESS)
		result = check_kind(properties);
	if (result == CUDA_SUCCESS)
		result = check_location(&properties->location);
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_vmmCreate(bytes, properties->location.id,
				   (unsigned)properties->requestedHandleTypes,
				   properties->allocFlags.gpuDirectRDMACapable, handle);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
						CUmemGenericAllocationHandle handle)
{
	CUdevice device;
	unsigned handle_types, capable;
	if (properties == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_vmmProperties(handle, &device, &handle_types, &capable);
	if (result != CUDA_SUCCESS)
		return result;
	*properties = (CUmemAllocationProp){
		.type = ALLOCATION_PINNED,
		.requestedHandleTypes = (CUmemAllocationHandleType)handle_types,
		.location = {.type = LOCATION_DEVICE, .id = device},
		.allocFlags = {.gpuDirectRDMACapable = (unsigned char)capable},
	};
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUdevice device;
	unsigned handle_types;
	if (bytes == 0 || offset != 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_vmmMap(address, bytes, handle, &device, &handle_types);
	if (result != CUDA_SUCCESS)
		return result;
	struct phos_range range = {
		.base = address,
		.bytes = bytes,
		.kind = PHOS_RANGE_MAPPED,
		.flags = handle_types,
		.device = device,
	};
	return phos_range_add(&range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_cuMemUnmap(address, bytes);
	if (result == CUDA_SUCCESS)
		phos_range_remove_mapped(address, bytes);
	return result;
}

static bool is_access(CUmemAccess_flags flags)
{
	return flags == ACCESS_NONE || flags == ACCESS_READ || flags == ACCESS_READ_WRITE;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
			size_t count)
{
	if (bytes == 0 || access == NULL || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = is_access(access[i].flags) ? check_location(&access[i].location)
						    : CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		CUdevice device = access[i].location.id;
		unsigned flags = (unsigned)access[i].flags;
		result = phos_call_vmmSetAccess(address, bytes, device, flags);
		if (result == CUDA_SUCCESS)
			phos_range_set_access(address, bytes, device, flags);
	}
	return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
			CUdeviceptr address)
{
	struct phos_range range;
	if (flags == NULL || location == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter();
	if (result == CUDA_SUCCESS)
		result = check_location(location);
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find(address, &range) || range.kind != PHOS_RANGE_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = phos_range_access(&range, location->id);
	return CUDA_SUCCESS;
}

/* An exported file descriptor is a sealed file with this content. */
struct token {
	uint64_t magic;
	uint64_t exporter[2], key[2];
	uint64_t zero[3];
};

#define TOKEN_MAGIC UINT64_C(0x6b636f6c62736f68)

/* Creates the file. Returns its file descriptor, or -1. */
static int write_token(const struct token *token)
{
	int fd = memfd_create("phos-allocation", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (write(fd, token, sizeof *token) == (ssize_t)sizeof *token &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
		return fd;
	close(fd);
	return -1;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	struct token token = {.magic = TOKEN_MAGIC};
	if (shareable == NULL || flags != 0 || type == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != HANDLE_POSIX)
		return phos_refuse("cuMemExportToShareableHandle but for file descriptors");
	CUresult result = phos_call_vmmExport(handle, &token.exporter[0], &token.exporter[1],
					      &token.key[0], &token.key[1]);
	if (result != CUDA_SUCCESS)
		return result;
	int saved = errno;
	int fd = write_token(&token);
	errno = saved;
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareable = fd;
	return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
					CUmemAllocationHandleType type)
{
	struct token token;
	if (handle == NULL || type == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != HANDLE_POSIX)
		return phos_refuse("cuMemImportFromShareableHandle but of file descriptors");
	int saved = errno;
	ssize_t got = pread((int)(intptr_t)shareable, &token, sizeof token, 0);
	errno = saved;
	if (got != (ssize_t)sizeof token || token.magic != TOKEN_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	return phos_call_vmmImport(token.exporter[0], token.exporter[1], token.key[0], token.key[1],
				   handle);
}

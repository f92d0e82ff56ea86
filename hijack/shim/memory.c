/* Allocation. The session allocates addresses; the shim notes the ranges. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "objects.h"
#include "pages.h"
#include "ranges.h"
#include "session.h"
#include "thread.h"
#include "zz_calls.h"

enum host_flag { HOST_PORTABLE = 1, HOST_DEVICEMAP = 2, HOST_WRITECOMBINED = 4 };
enum register_flag { REGISTER_IOMEMORY = 4, REGISTER_KNOWN = 15 };
enum managed_flag { MANAGED_GLOBAL = 1, MANAGED_HOST = 2 };

static int current_device(void)
{
	struct phos_context *context = phos_context_find(phos_self.current);
	return context == NULL ? 0 : context->device;
}

/* Notes a new allocation in the current context. */
static CUresult note(uint64_t base, uint64_t bytes, uint32_t kind, uint32_t flags, uint64_t pool)
{
	struct phos_range range = {
		.base = base,
		.bytes = bytes,
		.context = phos_self.current,
		.pool = pool,
		.kind = kind,
		.flags = flags,
		.device = current_device(),
	};
	return phos_range_add(&range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_cuMemAlloc_v2(address, bytes);
	return result == CUDA_SUCCESS ? note(*address, bytes, PHOS_RANGE_DEVICE, 0, 0) : result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
			    unsigned int element)
{
	if (width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_cuMemAllocPitch_v2(address, pitch, width, height, element);
	return result == CUDA_SUCCESS ? note(*address, *pitch * height, PHOS_RANGE_DEVICE, 0, 0)
				      : result;
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	if (bytes == 0 || (flags != MANAGED_GLOBAL && flags != MANAGED_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_cuMemAllocManaged(address, bytes, flags);
	return result == CUDA_SUCCESS ? note(*address, bytes, PHOS_RANGE_MANAGED, flags, 0)
				      : result;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned int flags)
{
	if (bytes == 0 ||
	    (flags & ~(unsigned)(HOST_PORTABLE | HOST_DEVICEMAP | HOST_WRITECOMBINED)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_cuMemHostAlloc(address, bytes, flags);
	return result == CUDA_SUCCESS ? note((uintptr_t)*address, bytes, PHOS_RANGE_HOST, flags, 0)
				      : result;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
				 CUstream stream)
{
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_cuMemAllocFromPoolAsync(address, bytes, pool, stream);
	return result == CUDA_SUCCESS ? note(*address, bytes, PHOS_RANGE_DEVICE, 0, pool) : result;
}

/* Remove the range before the session frees it: the session may reuse the address at once. */

CUresult cuMemFree_v2(CUdeviceptr address)
{
	struct phos_range range;
	if (address == 0)
		return phos_enter();
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find(address, &range) ||
	    !phos_range_remove(address, PHOS_RANGE_DEVICE | PHOS_RANGE_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	result = phos_call_cuMemFree_v2(address);
	if (result != CUDA_SUCCESS)
		phos_range_add(&range);
	return result;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	struct phos_range range;
	if (address == 0)
		return phos_enter();
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find(address, &range) || !phos_range_remove(address, PHOS_RANGE_DEVICE))
		return CUDA_ERROR_INVALID_VALUE;
	result = phos_call_cuMemFreeAsync(address, stream);
	if (result != CUDA_SUCCESS)
		phos_range_add(&range);
	return result;
}

CUresult cuMemFreeHost(void *address)
{
	struct phos_range range;
	if (address == NULL)
		return phos_enter();
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find((uintptr_t)address, &range) ||
	    !phos_range_remove((uintptr_t)address, PHOS_RANGE_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	result = phos_call_cuMemFreeHost(address);
	if (result != CUDA_SUCCESS)
		phos_range_add(&range);
	return result;
}

/* Whether all pages of a range are mapped in the program. */
static bool is_mapped(const void *address, size_t bytes)
{
	int saved = errno;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)address & ~(page - 1);
	bool mapped = msync((void *)first, (uintptr_t)address + bytes - first, MS_ASYNC) == 0;
	errno = saved;
	return mapped;
}

/* Makes pages those of a file, and shows them to kernels. */
static CUresult share(uint64_t base, size_t bytes, unsigned *shown)
{
	int fd = -1;
	/* The worker ends tracking the pages, each of which has room for one userfaultfd. */
	CUresult result = phos_call_hostRegister(base, bytes, shown);
	if (result == CUDA_SUCCESS && !*shown)
		result = phos_pages_share(base, bytes, &fd);
	if (result == CUDA_SUCCESS && !*shown)
		result = phos_call_hostRegister(base, bytes, shown);
	if (fd >= 0)
		close(fd);
	return result;
}

/* Shows registered memory to kernels. Linux cannot map a program's private pages into the worker,
 * so those are replaced first. */
static CUresult show(uint64_t base, size_t bytes)
{
	unsigned shown = 0;
	CUresult result = share(base, bytes, &shown);
	/* A checkpoint may have begun to track the pages again. */
	for (int again = 0; result == CUDA_ERROR_NOT_SUPPORTED && again < 2; again++)
		result = share(base, bytes, &shown);
	if (result == CUDA_SUCCESS && !shown)
		result = phos_refuse("cuMemHostRegister for kernels of memory that the worker "
				     "cannot map");
	return result;
}

/* Registered memory stays at its address. Kernels can access it if it is a shared mapping of a
 * file. Other memory becomes one when the program asks for that, by a flag or for the device's
 * address. For copies it can stay like any host memory. */
CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags)
{
	uint64_t base = (uintptr_t)address;
	unsigned shown = 0;
	if (address == NULL || bytes == 0 || (flags & ~(unsigned)REGISTER_KNOWN) != 0 ||
	    base + bytes < base)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if ((flags & REGISTER_IOMEMORY) != 0)
		return phos_refuse("cuMemHostRegister of I/O memory");
	if (phos_in_arena(base) || phos_in_window(base) || !is_mapped(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (phos_range_overlaps(base, bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	result = phos_call_hostRegister(base, bytes, &shown);
	if (result != CUDA_SUCCESS)
		return result;
	if (!shown && (flags & HOST_DEVICEMAP) != 0) {
		result = show(base, bytes);
		if (result != CUDA_SUCCESS) {
			phos_pages_return(base, bytes);
			return result;
		}
		shown = 1;
	}
	struct phos_range range = {
		.base = base,
		.bytes = bytes,
		.context = phos_self.current,
		.kind = PHOS_RANGE_REGISTERED,
		.flags = flags,
		.device = current_device(),
		.shown = shown != 0,
	};
	if (phos_range_add(&range))
		return CUDA_SUCCESS;
	if (shown)
		phos_call_hostUnregister(base);
	phos_pages_return(base, bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostUnregister(void *address)
{
	struct phos_range range;
	uint64_t base = (uintptr_t)address;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find(base, &range) || !phos_range_remove(base, PHOS_RANGE_REGISTERED))
		return phos_in_arena(base) ? CUDA_ERROR_INVALID_VALUE
					   : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (range.shown)
		result = phos_call_hostUnregister(base);
	phos_pages_return(base, range.bytes);
	return result;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device_address, void *address,
				      unsigned int flags)
{
	struct phos_range range;
	if (device_address == NULL || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find((uintptr_t)address, &range) ||
	    (range.kind & (PHOS_RANGE_HOST | PHOS_RANGE_MANAGED | PHOS_RANGE_REGISTERED)) == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (range.kind == PHOS_RANGE_REGISTERED && !range.shown) {
		result = show(range.base, range.bytes);
		if (result != CUDA_SUCCESS)
			return result;
		phos_range_set_shown(range.base);
	}
	*device_address = (uintptr_t)address;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *address)
{
	struct phos_range range;
	if (flags == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find((uintptr_t)address, &range) ||
	    (range.kind & (PHOS_RANGE_HOST | PHOS_RANGE_REGISTERED)) == 0)
		return CUDA_ERROR_INVALID_VALUE;
	/* With unified addressing host memory is always mapped for the device, if it can be. */
	*flags = range.flags;
	if (range.kind == PHOS_RANGE_HOST || range.shown)
		*flags |= HOST_DEVICEMAP;
	return CUDA_SUCCESS;
}

/* Managed memory does not move: the calls below only check their arguments. */

static CUresult check_managed(CUdeviceptr address, size_t bytes)
{
	struct phos_range range;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (bytes == 0 || !phos_range_find(address, &range) || range.kind != PHOS_RANGE_MANAGED ||
	    bytes > range.bytes - (address - range.base))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice destination,
			    CUstream stream)
{
	(void)stream;
	if (destination != -1 && phos_device_find(destination) == NULL)
		return phos_live() ? CUDA_ERROR_INVALID_DEVICE : phos_enter();
	return check_managed(address, bytes);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
			       unsigned int flags, CUstream stream)
{
	(void)location;
	(void)stream;
	return flags != 0 ? CUDA_ERROR_INVALID_VALUE : check_managed(address, bytes);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device)
{
	(void)device;
	return advice < 1 || advice > 6 ? CUDA_ERROR_INVALID_VALUE : check_managed(address, bytes);
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
			CUmemLocation location)
{
	(void)location;
	return advice < 1 || advice > 6 ? CUDA_ERROR_INVALID_VALUE : check_managed(address, bytes);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes,
				unsigned int flags)
{
	struct phos_range range;
	(void)stream;
	if (flags != 1 && flags != 2 && flags != 4)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (!phos_range_find(address, &range) || range.kind != PHOS_RANGE_MANAGED ||
	    bytes > range.bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

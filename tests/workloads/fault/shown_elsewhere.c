/* A driver that reports other device addresses for registered memory, as for a device that cannot
 * use host pointers. Otherwise it behaves as the driver that it is linked with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

uint32_t cuMemHostGetDevicePointer_v2(uint64_t *at, void *memory, uint32_t flags)
{
	uint32_t (*next)(uint64_t *, void *, uint32_t) =
		(uint32_t(*)(uint64_t *, void *, uint32_t))dlsym(RTLD_NEXT,
								 "cuMemHostGetDevicePointer_v2");
	uint32_t result = next(at, memory, flags);
	*at += UINT64_C(1) << 40;
	return result;
}

/* A driver that is the one it is linked with, except that it refuses to reserve addresses where
 * somebody wants them, as some drivers do with places that they cannot use. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

uint32_t cuMemAddressReserve(uint64_t *at, uint64_t bytes, uint64_t align, uint64_t wanted,
			     uint64_t flags)
{
	uint32_t (*next)(uint64_t *, uint64_t, uint64_t, uint64_t, uint64_t) =
		(uint32_t(*)(uint64_t *, uint64_t, uint64_t, uint64_t, uint64_t))dlsym(
			RTLD_NEXT, "cuMemAddressReserve");
	return wanted != 0 ? 1 : next(at, bytes, align, 0, flags);
}

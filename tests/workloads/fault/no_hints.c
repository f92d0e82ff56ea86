/* A driver that refuses address hints, as some drivers do for addresses that they cannot use.
 * Otherwise it behaves as the driver that it is linked with. */
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

/* A driver with few addresses: at most 256 GiB can be reserved at once. Otherwise it behaves as the
 * driver that it is linked with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define MOST (UINT64_C(256) << 30)

uint32_t cuMemAddressReserve(uint64_t *at, uint64_t bytes, uint64_t align, uint64_t wanted,
			     uint64_t flags)
{
	uint32_t (*next)(uint64_t *, uint64_t, uint64_t, uint64_t, uint64_t) =
		(uint32_t(*)(uint64_t *, uint64_t, uint64_t, uint64_t, uint64_t))dlsym(
			RTLD_NEXT, "cuMemAddressReserve");
	return bytes > MOST ? 2 : next(at, bytes, align, wanted, flags);
}

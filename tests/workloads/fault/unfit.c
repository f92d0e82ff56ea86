/* A driver that phos cannot use. With PIECES, its memory granularity is not ours. Without it, it
 * ignores address hints and places addresses where programs have their own, and gives others only
 * after these are released. Otherwise it behaves as the driver that it is linked with. */
#include <stdint.h>
#include <stdlib.h>

#ifdef PIECES
uint32_t cuMemGetAllocationGranularity(uint64_t *bytes, const void *kind, uint32_t option)
{
	(void)kind, (void)option;
	*bytes = 12 << 20;
	return 0;
}
#else
#define PROGRAMS UINT64_C(0x700000000000)

static int given;

uint32_t cuMemAddressReserve(uint64_t *at, uint64_t bytes, uint64_t align, uint64_t wanted,
			     uint64_t flags)
{
	(void)bytes, (void)align, (void)flags;
	if (given)
		abort();
	if (wanted != 0)
		return 1;
	given = 1;
	*at = PROGRAMS;
	return 0;
}

uint32_t cuMemAddressFree(uint64_t at, uint64_t bytes)
{
	(void)bytes;
	given = 0;
	return at != PROGRAMS;
}
#endif

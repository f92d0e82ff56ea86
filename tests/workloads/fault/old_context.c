/* A driver that reports the first recorded event as ten thousand seconds older, as in a program
 * that has run for hours. Like other drivers, it reports times as floats. Otherwise it behaves as
 * the driver that it is linked with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>

static const double age = 1e7; /* milliseconds */

static _Atomic uint64_t first;

uint32_t cuEventRecord(uint64_t event, uint64_t stream)
{
	uint64_t none = 0;
	if (!atomic_compare_exchange_strong(&first, &none, event) && first == event)
		first = UINT64_MAX; /* it is recorded again */
	uint32_t (*next)(uint64_t, uint64_t) =
		(uint32_t(*)(uint64_t, uint64_t))dlsym(RTLD_NEXT, "cuEventRecord");
	return next(event, stream);
}

uint32_t cuEventElapsedTime(float *ms, uint64_t start, uint64_t end)
{
	uint32_t (*next)(float *, uint64_t, uint64_t) =
		(uint32_t(*)(float *, uint64_t, uint64_t))dlsym(RTLD_NEXT, "cuEventElapsedTime");
	uint32_t result = next(ms, start, end);
	if (result == 0 && start != end)
		*ms = (float)(*ms + (start == first ? age : 0) - (end == first ? age : 0));
	return result;
}

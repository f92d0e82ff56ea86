/* Measures the host's link and the device's memory: the best of some large copies, in gigabytes a
 * second.
 *
 * usage: link BYTES */
#include "../../workloads/driver/driver.h"
#include "clock.h"

enum { TURNS = 8 };

static void copy(int way, CUdeviceptr device, CUdeviceptr other, void *pinned, size_t bytes)
{
	switch (way) {
	case 0:
		CU(cuMemcpyHtoDAsync(device, pinned, bytes, 0));
		break;
	case 1:
		CU(cuMemcpyDtoHAsync(pinned, device, bytes, 0));
		break;
	default:
		CU(cuMemcpyDtoDAsync(other, device, bytes, 0));
	}
	CU(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"to", "from", "device"};
	size_t bytes = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	CUdeviceptr from, to;
	void *pinned;
	if (bytes == 0)
		return 2;
	use_gpu();
	CU(cuMemAlloc(&from, bytes));
	CU(cuMemAlloc(&to, bytes));
	CU(cuMemHostAlloc(&pinned, bytes, 0));
	memset(pinned, 1, bytes);
	for (int way = 0; way < 3; way++) {
		double best = 0;
		for (int turn = 0; turn < TURNS; turn++) {
			double start = now();
			copy(way, from, to, pinned, bytes);
			double rate = (double)bytes / (now() - start);
			best = rate > best ? rate : best;
		}
		printf("%s %.4g\n", names[way], best);
	}
	return 0;
}

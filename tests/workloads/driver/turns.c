/* turns: most of a GPU's memory is freed and allocated again while a stream waits for a word that
 * is written later. This is done in one piece, in several, and by two processes in turn. */
#include "driver.h"
#include <sys/wait.h>
#include <unistd.h>

// expect: ok turns

static size_t part(int percent)
{
	size_t available, total;
	CU(cuMemGetInfo(&available, &total));
	return (total / 100 * (size_t)percent) & ~(((size_t)2 << 20) - 1);
}

static CUdeviceptr take(size_t bytes, CUstream stream)
{
	CUdeviceptr at;
	if (stream)
		CU(cuMemAllocAsync(&at, bytes, stream));
	else
		CU(cuMemAlloc(&at, bytes));
	CU(cuMemsetD8Async(at, 1, 4096, stream));
	CU(cuMemsetD8Async(at + bytes - 4096, 1, 4096, stream));
	return at;
}

static void while_a_stream_waits(void)
{
	CUstream waits, other;
	uint64_t *word;
	CUdeviceptr view;
	CU(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CU(cuMemHostAlloc((void **)&word, 8, CU_MEMHOSTALLOC_DEVICEMAP));
	CU(cuMemHostGetDevicePointer(&view, word, 0));
	CUdeviceptr whole = take(part(60), other);
	*word = 0;
	CU(cuStreamWaitValue64(waits, view, 1, CU_STREAM_WAIT_VALUE_GEQ));
	CU(cuMemFreeAsync(whole, other));
	CUdeviceptr first = take(part(15), other), second = take(part(45), other);
	CU(cuMemFreeAsync(second, other));
	CU(cuMemFreeAsync(first, other));
	whole = take(part(60), other);
	CHECK(cuStreamQuery(waits) == CUDA_ERROR_NOT_READY);
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	CU(cuMemFreeAsync(whole, other));
	CU(cuCtxSynchronize());
	CU(cuMemFreeHost(word));
	CU(cuStreamDestroy(waits));
	CU(cuStreamDestroy(other));
}

enum { TURNS = 10 };

/* Each turn begins with a byte from the other process, and ends with one for it. */
static void take_turns(int from, int to)
{
	char byte = 0;
	for (int i = 0; i < TURNS; i++) {
		CHECK(read(from, &byte, 1) == 1);
		CUdeviceptr at = take(part(60), NULL);
		CU(cuCtxSynchronize());
		CU(cuMemFree(at));
		part(0); /* the memory is free when this call returns */
		CHECK(write(to, &byte, 1) == 1);
	}
}

static void begin(void)
{
	CUdevice device;
	CUcontext context;
	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
}

int main(void)
{
	int there[2], back[2], status;
	CHECK(pipe(there) == 0 && pipe(back) == 0);
	pid_t child = fork();
	close(child == 0 ? there[1] : there[0]); /* so that neither outlives the other */
	close(child == 0 ? back[0] : back[1]);
	begin();
	if (child == 0) {
		take_turns(there[0], back[1]);
		char last;
		CHECK(read(there[0], &last, 1) == 1);
		return 0;
	}
	while_a_stream_waits();
	CHECK(write(there[1], "", 1) == 1);
	take_turns(back[0], there[1]);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	puts("ok turns");
	return 0;
}

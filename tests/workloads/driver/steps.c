/* The calls that PyTorch makes around each kernel, for as many kernels as the argument says. Then
 * it prints "stepped" and waits for the end. */
#include "add.h"
#include <unistd.h>

static CUdevice device;
static CUstream stream;
static CUevent event;
static CUdeviceptr words;

/* PyTorch asks for the primary context's state before it believes that a device is in use. */
static void ask(void)
{
	unsigned flags;
	int active = 0;
	CUcontext current = NULL;
	CU(D(cuDevicePrimaryCtxGetState)(device, &flags, &active));
	CU(D(cuCtxGetCurrent)(&current));
	CHECK(active == 1 && current != NULL);
}

static void step(unsigned number)
{
	CUstreamCaptureStatus capture;
	void *parameters[] = {&words, &(unsigned){number}, &(unsigned){256}};
	ask();
	CU(D(cuStreamIsCapturing)(stream, &capture));
	CU(D(cuMemsetD32Async)(words, number, 256, stream));
	ask();
	CU(D(cuLaunchKernel)(add, 1, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
	ask();
	CU(D(cuEventRecord)(event, stream));
	CU(D(cuStreamWaitEvent)(stream, event, 0));
}

int main(int count, char **arguments)
{
	CHECK(count == 2);
	device = use_gpu();
	add = kernel_of(ADD_PTX, "add");
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	CU(D(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
	CU(D(cuMemAlloc)(&words, 256 * sizeof(unsigned)));
	unsigned steps = (unsigned)atoi(arguments[1]), got = 0;
	for (unsigned i = 0; i < steps; i++)
		step(i);
	CU(D(cuStreamSynchronize)(stream));
	CU(D(cuMemcpyDtoH)(&got, words, sizeof got));
	CHECK(got == 2 * (steps - 1));
	printf("stepped\n");
	fflush(stdout);
	pause();
}

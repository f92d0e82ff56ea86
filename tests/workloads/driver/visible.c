/* visible [VALUE]: what a program sees of the GPUs, for tests of CUDA_VISIBLE_DEVICES. With VALUE,
 * a child sets the variable to it at run time, before it calls the driver, and ends before its
 * parent begins. Each GPU gets memory, which must know its GPU, and the first one a copy from the
 * last. */
#include "driver.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

static CUcontext contexts[32];
static CUdeviceptr memory[32];

static void describe(int ordinal, int count)
{
	char bus[32];
	CUuuid id;
	CUdevice device, found = -1;
	CU(D(cuDeviceGet)(&device, ordinal));
	CHECK(device == ordinal);
	CU(D(cuDeviceGetUuid)(&id, device));
	CU(D(cuDeviceGetPCIBusId)(bus, sizeof bus, device));
	CU(D(cuDeviceGetByPCIBusId)(&found, bus));
	CHECK(found == device);
	printf("gpu %d GPU-", ordinal);
	for (int i = 0; i < 16; i++)
		printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
		       (unsigned char)id.bytes[i]);
	printf(" %s", bus);
	for (int other = 0; other < count; other++) {
		int can = -1;
		CU(D(cuDeviceCanAccessPeer)(&can, device, other));
		CHECK(can == 0 || (can == 1 && other != ordinal));
	}
	printf("\n");
}

static void use(int ordinal)
{
	int owner = -1;
	CU(D(cuDevicePrimaryCtxRetain)(&contexts[ordinal], ordinal));
	CU(D(cuCtxSetCurrent)(contexts[ordinal]));
	CU(D(cuMemAlloc)(&memory[ordinal], BYTES));
	CU(D(cuMemsetD8)(memory[ordinal], (unsigned char)(ordinal + 1), BYTES));
	CU(D(cuCtxSynchronize)());
	CU(D(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory[ordinal]));
	CHECK(owner == ordinal);
}

static int look(const char *whose)
{
	int count = -1;
	CUdevice none;
	unsigned char byte = 0;
	CUresult result = D(cuInit)(0);
	printf("%s init %d\n", whose, result);
	if (result != CUDA_SUCCESS) {
		CHECK(D(cuDeviceGetCount)(&count) != CUDA_SUCCESS);
		return 0;
	}
	CU(D(cuDeviceGetCount)(&count));
	printf("%s count %d\n", whose, count);
	CHECK(D(cuDeviceGet)(&none, count) == CUDA_ERROR_INVALID_DEVICE);
	for (int i = 0; i < count; i++)
		describe(i, count);
	for (int i = 0; i < count; i++)
		use(i);
	CU(D(cuCtxSetCurrent)(contexts[0]));
	CU(D(cuMemcpyPeer)(memory[0], contexts[0], memory[count - 1], contexts[count - 1], BYTES));
	CU(D(cuMemcpyDtoH)(&byte, memory[0], 1));
	CHECK(byte == count);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		int status = -1;
		fflush(stdout);
		pid_t child = fork();
		if (child == 0) {
			setenv("CUDA_VISIBLE_DEVICES", argv[1], 1);
			exit(look("child"));
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	look("program");
	printf("ok visible\n");
	return 0;
}

/* Memory of a process that has exited stays alive in the process that imported it, until that
 * process closes it. In between it waits for the file that HOLD names. */
#include "../checkpoint/hold.h"
#include "driver.h"
#include <sys/wait.h>
#include <unistd.h>

enum { N = 3 << 20 };

static void all_are(CUdeviceptr memory, unsigned char want)
{
	static unsigned char copy[N];
	CU(D(cuMemcpyDtoH)(copy, memory, N));
	for (int i = 0; i < N; i++)
		CHECK(copy[i] == want);
}

/* Exports memory, waits for a message, and exits without closing it. */
static void export(int to, int from)
{
	CUdeviceptr memory;
	CUipcMemHandle handle;
	char go;
	use_gpu();
	CU(D(cuMemAlloc)(&memory, N));
	CU(D(cuMemsetD8)(memory, 42, N));
	CU(D(cuCtxSynchronize)());
	CU(D(cuIpcGetMemHandle)(&handle, memory));
	CHECK(write(to, &handle, sizeof handle) == sizeof handle);
	CHECK(read(from, &go, 1) == 1);
	_exit(0);
}

int main(void)
{
	int there[2], back[2], status = 1;
	CUipcMemHandle handle;
	CUdeviceptr memory, again;
	CHECK(pipe(there) == 0 && pipe(back) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		export(back[1], there[0]);
	close(back[1]);
	use_gpu();
	CHECK(read(back[0], &handle, sizeof handle) == sizeof handle);
	CU(D(cuIpcOpenMemHandle)(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(write(there[1], "x", 1) == 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	all_are(memory, 42);
	CU(D(cuMemsetD8)(memory, 43, N));
	CU(D(cuCtxSynchronize)());
	CHECK(puts("ready") >= 0 && fflush(stdout) == 0);
	hold();
	all_are(memory, 43);
	CU(D(cuIpcCloseMemHandle)(memory));
	/* The other process's session may still be ending. */
	while (D(cuIpcOpenMemHandle)(&again, handle, 1) == CUDA_SUCCESS) {
		CU(D(cuIpcCloseMemHandle)(again));
		usleep(1000);
	}
	CHECK(D(cuIpcOpenMemHandle)(&again, handle, 1) == CUDA_ERROR_INVALID_HANDLE);
	puts("ok orphan");
	return 0;
}

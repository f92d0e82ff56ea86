/* Two processes share an allocation, by a descriptor that one exports and the other imports: each
 * sees the other's stores at its own addresses. Halfway both wait for the file that HOLD names. */
#define _GNU_SOURCE
#include "../checkpoint/hold.h"
#include "pair.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry add(.param .u64 x, .param .u32 by)\n"
	"{\n"
	" .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
	" mov.u32 %r1, %tid.x; ld.param.u64 %d1, [x]; ld.param.u32 %r2, [by];\n"
	" mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;\n"
	" ld.global.u32 %r3, [%d1]; add.u32 %r3, %r3, %r2; st.global.u32 [%d1], %r3;\n"
	" ret;\n"
	"}\n";

enum { BYTES = 4 << 20, N = 256, POSIX = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };

static CUfunction add;
static CUmemAllocationProp where = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes = POSIX,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static CUmemAccessDesc both = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
			       .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void start(void)
{
	use_gpu();
	add = kernel_of(ptx, "add");
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
	CUdeviceptr address;
	CU(D(cuMemAddressReserve)(&address, BYTES, 0, 0, 0));
	CU(D(cuMemMap)(address, BYTES, 0, handle, 0));
	CU(D(cuMemSetAccess)(address, BYTES, &both, 1));
	return address;
}

static void unmap(CUdeviceptr address)
{
	CU(D(cuMemUnmap)(address, BYTES));
	CU(D(cuMemAddressFree)(address, BYTES));
}

static void kernel(CUdeviceptr memory, unsigned by)
{
	void *parameters[] = {&memory, &by};
	CU(D(cuLaunchKernel)(add, 1, 1, 1, N, 1, 1, 0, NULL, parameters, NULL));
	CU(D(cuCtxSynchronize)());
}

static void all_are(CUdeviceptr memory, unsigned word)
{
	unsigned copy[N];
	CU(D(cuMemcpyDtoH)(copy, memory, sizeof copy));
	for (int i = 0; i < N; i++)
		CHECK(copy[i] == word);
}

static void take_turns(CUdeviceptr memory, int exporter, unsigned from)
{
	if (exporter)
		kernel(memory, 10);
	meet('a');
	all_are(memory, from + 10);
	meet('b');
	if (!exporter)
		kernel(memory, 5);
	meet('c');
	all_are(memory, from + 15);
	meet('d');
}

static void wait_here(int exporter)
{
	meet('h');
	if (exporter)
		CHECK(puts("ready") >= 0 && fflush(stdout) == 0);
	hold();
	meet('i');
}

static void refused(CUmemGenericAllocationHandle handle)
{
	CUmemGenericAllocationHandle plain, none;
	int fd;
	where.requestedHandleTypes = 0;
	CU(D(cuMemCreate)(&plain, BYTES, &where, 0));
	where.requestedHandleTypes = POSIX;
	CHECK(D(cuMemExportToShareableHandle)(&fd, plain, POSIX, 0) == CUDA_ERROR_INVALID_VALUE);
	CU(D(cuMemRelease)(plain));
	CHECK(D(cuMemExportToShareableHandle)(&fd, plain, POSIX, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuMemExportToShareableHandle)(&fd, handle, POSIX, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	fd = memfd_create("nothing", 0);
	CHECK(D(cuMemImportFromShareableHandle)(&none, (void *)(intptr_t)fd, POSIX) ==
	      CUDA_ERROR_INVALID_VALUE);
	close(fd);
	CHECK(D(cuMemImportFromShareableHandle)(&none, (void *)(intptr_t)fd, POSIX) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuMemGetHandleForAddressRange)(&fd, 0, BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					       0) == CUDA_ERROR_NOT_SUPPORTED);
}

static void export(void)
{
	CUmemGenericAllocationHandle handle, again;
	CUmemAllocationProp got;
	int fd = -1;
	start();
	CU(D(cuMemCreate)(&handle, BYTES, &where, 0));
	refused(handle);
	CU(D(cuMemExportToShareableHandle)(&fd, handle, POSIX, 0));
	CHECK(fd >= 0 && write(fd, "x", 1) < 0); /* it cannot be forged */
	CU(D(cuMemImportFromShareableHandle)(&again, (void *)(intptr_t)fd, POSIX));
	CU(D(cuMemGetAllocationPropertiesFromHandle)(&got, again));
	CHECK(got.requestedHandleTypes == POSIX);
	CUdeviceptr memory = map(again), second = map(handle);
	CU(D(cuMemsetD32)(memory, 100, N));
	all_are(second, 100);
	CU(D(cuMemRelease)(again));
	put(&fd, sizeof fd);
	take_turns(memory, 1, 100);
	wait_here(1);
	take_turns(second, 1, 115);
	unmap(memory);
	unmap(second);
	meet('x');
	CU(D(cuMemRelease)(handle)); /* the other process still has it */
	meet('y');
	meet('z');
	close(fd);
}

static void import(void)
{
	CUmemGenericAllocationHandle handle, again;
	int theirs = -1;
	start();
	get(&theirs, sizeof theirs);
	int process = (int)syscall(SYS_pidfd_open, getppid(), 0);
	int fd = (int)syscall(SYS_pidfd_getfd, process, theirs, 0);
	CHECK(process >= 0 && fd >= 0);
	close(process);
	CU(D(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd, POSIX));
	CU(D(cuMemImportFromShareableHandle)(&again, (void *)(intptr_t)fd, POSIX));
	CU(D(cuMemRelease)(again));
	CUdeviceptr memory = map(handle), second = map(handle);
	take_turns(memory, 0, 100);
	wait_here(0);
	take_turns(second, 0, 115);
	meet('x');
	meet('y');
	all_are(memory, 130);
	unmap(memory);
	unmap(second);
	CU(D(cuMemRelease)(handle));
	CHECK(D(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd, POSIX) !=
	      CUDA_SUCCESS);
	meet('z');
	close(fd);
}

int main(void)
{
	pair(export, import);
	puts("ok handles");
	return 0;
}

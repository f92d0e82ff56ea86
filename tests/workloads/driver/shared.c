/* Memory that the program shares, registered for kernels: a file with a name, one without a name
 * but still open, one with neither, and shared memory without a file. Arguments: "page": two
 * registered parts share a page; "closed": the process is not dumpable from its start; "closing":
 * from its first use of a GPU on. With the name of a file as a further argument, it prints
 * "waiting", and waits until that file exists. */
#define _GNU_SOURCE
#include "add.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 40, BYTES = PAGES * PAGE, WORDS = BYTES / 4 };

static unsigned *share(int fd)
{
	CHECK(ftruncate(fd, 2 * BYTES) == 0);
	unsigned *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, BYTES / 2);
	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Kernels and the program see each other's stores at one address. fd is -1 for a file that has been
 * closed. */
static void reach(unsigned *memory, int fd)
{
	CUdeviceptr device = 0;
	unsigned flags = 0, word = 0;
	for (unsigned i = 0; i < WORDS; i++)
		memory[i] = i;
	CU(D(cuMemHostRegister)(memory, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
	CU(D(cuMemHostGetDevicePointer)(&device, memory, 0));
	CHECK(device == (CUdeviceptr)(uintptr_t)memory);
	CU(D(cuMemHostGetFlags)(&flags, memory));
	CHECK((flags & CU_MEMHOSTREGISTER_DEVICEMAP) != 0);
	run_add(device, 1000, WORDS);
	CU(D(cuCtxSynchronize)());
	for (unsigned i = 0; i < WORDS; i++)
		CHECK(memory[i] == i + 1000);
	memory[7] = 1;
	run_add(device + 28, 1, 1);
	CU(D(cuCtxSynchronize)());
	CHECK(memory[7] == 2);
	CHECK(fd < 0 || (pread(fd, &word, 4, BYTES / 2 + 28) == 4 && word == 2));

	CUdeviceptr plain;
	CU(D(cuMemAlloc)(&plain, BYTES));
	CU(D(cuMemcpyHtoDAsync)(plain, memory, BYTES, 0));
	run_add(plain, 5, WORDS);
	CU(D(cuMemcpyDtoHAsync)(memory, plain, BYTES, 0));
	CU(D(cuMemsetD32Async)(device + 8, 77, 2, 0));
	CU(D(cuCtxSynchronize)());
	CHECK(memory[0] == 1005 && memory[7] == 7 && memory[2] == 77 && memory[3] == 77 &&
	      memory[4] == 1009);
	CU(D(cuMemcpyDtoH)(&word, device + 8, 4));
	CHECK(word == 77);
	CU(D(cuMemFree)(plain));

	CHECK(D(cuMemHostRegister)(memory + 1, 8, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	CHECK(D(cuMemHostUnregister)(memory + 1) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CU(D(cuMemHostUnregister)(memory));
	CHECK(D(cuMemHostUnregister)(memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CHECK(D(cuMemHostGetDevicePointer)(&device, memory, 0) == CUDA_ERROR_INVALID_VALUE);

	/* A part that neither begins nor ends at a page boundary. */
	CU(D(cuMemHostRegister)(memory + 500, 8000, 0));
	memory[500] = memory[2499] = 10;
	run_add((CUdeviceptr)(uintptr_t)(memory + 500), 2, 2000);
	CU(D(cuCtxSynchronize)());
	CHECK(memory[500] == 12 && memory[2499] == 12);
	CU(D(cuMemHostUnregister)(memory + 500));
}

/* Two parts that share a page. */
static void one_page(unsigned *memory)
{
	CU(D(cuMemHostRegister)(memory + 3, 100, 0));
	CU(D(cuMemHostRegister)(memory + 500, 8000, 0));
	memory[3] = memory[500] = memory[2499] = 10;
	run_add((CUdeviceptr)(uintptr_t)(memory + 3), 1, 25);
	run_add((CUdeviceptr)(uintptr_t)(memory + 500), 2, 2000);
	CU(D(cuCtxSynchronize)());
	CHECK(memory[3] == 11 && memory[500] == 12 && memory[2499] == 12);
	CU(D(cuMemHostUnregister)(memory + 3));
	CU(D(cuMemHostUnregister)(memory + 500));
}

/* Memory that cannot be shared, as a private mapping of a file, is registered for copies, which use
 * staging, and for fills. It cannot be mapped for the device, and no query says that it is. */
static void staged(unsigned *memory)
{
	CUdeviceptr device, plain;
	unsigned flags = 0;
	int attribute = -1;
	CUdevice gpu;
	CU(D(cuCtxGetDevice)(&gpu));
	CU(D(cuDeviceGetAttribute)(
		&attribute, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, gpu));
	CHECK(attribute == 0);
	CU(D(cuDeviceGetAttribute)(&attribute, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, gpu));
	CHECK(attribute == 1);
	CHECK(D(cuMemHostRegister)(memory, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	CHECK(D(cuMemHostUnregister)(memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CU(D(cuMemHostRegister)(memory, BYTES, CU_MEMHOSTREGISTER_PORTABLE));
	CU(D(cuMemHostGetFlags)(&flags, memory));
	CHECK(flags == CU_MEMHOSTREGISTER_PORTABLE);
	CHECK(D(cuMemHostGetDevicePointer)(&device, memory, 0) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(D(cuPointerGetAttribute)(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				       (CUdeviceptr)(uintptr_t)memory) == CUDA_ERROR_INVALID_VALUE);
	CU(D(cuMemsetD32)((CUdeviceptr)(uintptr_t)memory, 6, WORDS));
	CHECK(memory[0] == 6 && memory[WORDS - 1] == 6);
	CU(D(cuMemsetD2D8)((CUdeviceptr)(uintptr_t)memory, PAGE, 1, 3, 2));
	CHECK(memory[0] == 0x010101 && memory[1] == 6 && memory[PAGE / 4] == 0x010101);
	CHECK(D(cuMemsetD32)((CUdeviceptr)(uintptr_t)memory, 6, WORDS + 1) ==
	      CUDA_ERROR_INVALID_VALUE);
	CU(D(cuMemAlloc)(&plain, BYTES));
	memory[5] = 99;
	CU(D(cuMemcpyHtoDAsync)(plain, memory, BYTES, 0));
	run_add(plain, 1, WORDS);
	CU(D(cuMemcpyDtoHAsync)(memory, plain, BYTES, 0));
	CU(D(cuCtxSynchronize)());
	CHECK(memory[5] == 100);
	CU(D(cuMemFree)(plain));
	CU(D(cuMemHostUnregister)(memory));
}

/* A child shares the memory, but not the GPU. */
static void forked(unsigned *memory)
{
	CU(D(cuMemHostRegister)(memory, BYTES, 0));
	memory[1] = 0;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		if (D(cuMemHostUnregister)(memory) != CUDA_ERROR_NOT_INITIALIZED)
			_exit(1);
		memory[1] = 40;
		_exit(0);
	}
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	run_add((CUdeviceptr)(uintptr_t)memory, 2, 2);
	CU(D(cuCtxSynchronize)());
	CHECK(memory[1] == 42);
	CU(D(cuMemHostUnregister)(memory));
}

int main(int count, char **arguments)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	char name[] = "/dev/shm/phos-shared-XXXXXX";
	const char *how = count > 1 ? arguments[1] : "";
	CHECK(strcmp(how, "closed") != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuCtxCreate)(&context, 0, device));
	CU(D(cuModuleLoadData)(&module, ADD_PTX));
	CU(D(cuModuleGetFunction)(&add, module, "add"));
	CHECK(strcmp(how, "closing") != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);

	if (count > 2)
		puts("waiting");
	fflush(stdout);
	while (count > 2 && access(arguments[2], F_OK) != 0)
		usleep(10000);
	int named = mkstemp(name), nameless = memfd_create("a name", 0);
	CHECK(named >= 0 && nameless >= 0);
	unsigned *memory = share(named), *other = share(nameless);
	reach(memory, named);
	reach(other, nameless);
	if (strcmp(how, "page") == 0)
		one_page(memory);
	forked(memory);
	close(nameless); /* now the file cannot be reached any other way */
	reach(other, -1);
	CHECK(unlink(name) == 0);
	reach(memory, named);
	other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(other != MAP_FAILED);
	reach(other, -1);
	unsigned *mine = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, named, 0);
	CHECK(mine != MAP_FAILED);
	staged(mine);
	/* It ends with registered memory, and a stray store to memory that is no longer registered.
	 */
	CU(D(cuMemHostRegister)(memory, PAGE, 0));
	run_add((CUdeviceptr)(uintptr_t)memory, 1, PAGE / 4 + 1);
	CHECK(D(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
	puts("ok shared");
	return 0;
}

/* Private memory of the program, registered for kernels: from the heap, where it shares pages with
 * other things, and mapped. Its content and its neighbours stay, stores of other threads are not
 * lost, a forked child has memory of its own, and in the end all is as before. With "page": two
 * registered parts share a page. */
#define _GNU_SOURCE
#include "add.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 3000, LARGE = 5 << 20, ROUNDS = 60 };

static int moved_mappings(void)
{
	static char line[8192]; /* not on the stack: it may be read while the heap is odd */
	int count = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK(maps != NULL);
	while (fgets(line, sizeof line, maps) != NULL)
		count += strstr(line, "memfd:phos-registered") != NULL;
	fclose(maps);
	return count;
}

/* Kernels and the program see each other's stores. */
static void reach(unsigned *memory, unsigned words, unsigned flags)
{
	CUdeviceptr device = 0;
	unsigned told = 0;
	for (unsigned i = 0; i < words; i++)
		memory[i] = i;
	CU(D(cuMemHostRegister)(memory, words * 4UL, flags));
	CU(D(cuMemHostGetDevicePointer)(&device, memory, 0));
	CHECK(device == (CUdeviceptr)(uintptr_t)memory);
	CU(D(cuMemHostGetFlags)(&told, memory));
	CHECK((told & CU_MEMHOSTREGISTER_DEVICEMAP) != 0);
	run_add(device, 1000, words);
	CU(D(cuCtxSynchronize)());
	for (unsigned i = 0; i < words; i++)
		CHECK(memory[i] == i + 1000);
	memory[1] = 7;
	run_add(device, 1, words);
	CU(D(cuCtxSynchronize)());
	CHECK(memory[1] == 8 && memory[0] == 1001);
	CU(D(cuMemHostUnregister)(memory));
	CHECK(memory[1] == 8 && memory[words - 1] == words + 1000);
	CHECK(moved_mappings() == 0);
}

static struct {
	unsigned *buffer, *neighbour;
	atomic_bool stop;
	unsigned long stores;
} racer;

static void *race(void *nothing)
{
	while (!atomic_load(&racer.stop)) {
		((volatile unsigned *)racer.neighbour)[0]++;
		((volatile unsigned *)racer.neighbour)[1] = (unsigned)++racer.stores;
	}
	return nothing;
}

/* Another thread stores all the time to the page that is replaced to and fro. */
static void neighbours(void)
{
	pthread_t thread;
	unsigned *page = aligned_alloc(PAGE, 2 * PAGE);
	CHECK(page != NULL);
	memset(page, 0, 2 * PAGE);
	racer.buffer = page + 100;
	racer.neighbour = page + 20;
	CHECK(pthread_create(&thread, NULL, race, NULL) == 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		CU(D(cuMemHostRegister)(racer.buffer, 400, CU_MEMHOSTREGISTER_DEVICEMAP));
		run_add((CUdeviceptr)(uintptr_t)racer.buffer, 1, 100);
		CU(D(cuCtxSynchronize)());
		CU(D(cuMemHostUnregister)(racer.buffer));
	}
	atomic_store(&racer.stop, true);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(racer.neighbour[0] == (unsigned)racer.stores &&
	      racer.neighbour[1] == racer.neighbour[0]);
	for (unsigned i = 0; i < 100; i++)
		CHECK(racer.buffer[i] == ROUNDS);
	free(page);
}

/* Two registrations in one page: it stays shared until both have ended. */
static void one_page(void)
{
	unsigned *page = aligned_alloc(PAGE, PAGE);
	CHECK(page != NULL);
	memset(page, 0, PAGE);
	CU(D(cuMemHostRegister)(page + 3, 100, CU_MEMHOSTREGISTER_DEVICEMAP));
	CU(D(cuMemHostRegister)(page + 500, 400, CU_MEMHOSTREGISTER_DEVICEMAP));
	CU(D(cuMemHostUnregister)(page + 3));
	CHECK(moved_mappings() == 1);
	run_add((CUdeviceptr)(uintptr_t)(page + 500), 5, 100);
	CU(D(cuCtxSynchronize)());
	CHECK(page[500] == 5 && page[599] == 5);
	CU(D(cuMemHostUnregister)(page + 500));
	CHECK(moved_mappings() == 0);
	free(page);
}

/* The child's stores are its own, and its heap works. */
static void forked(void)
{
	unsigned *memory = malloc(WORDS * 4);
	CHECK(memory != NULL);
	for (unsigned i = 0; i < WORDS; i++)
		memory[i] = i;
	CU(D(cuMemHostRegister)(memory, WORDS * 4, CU_MEMHOSTREGISTER_DEVICEMAP));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (unsigned i = 0; i < WORDS; i++)
			if (memory[i] != i)
				_exit(1);
		memset(memory, 0xff, WORDS * 4);
		free(memory);
		for (int i = 1; i < 2000; i++)
			if (malloc((size_t)i) == NULL)
				_exit(2);
		pid_t grandchild = fork();
		int status = 1;
		if (grandchild == 0)
			_exit(0);
		_exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 3);
	}
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	for (unsigned i = 0; i < WORDS; i++)
		CHECK(memory[i] == i);
	run_add((CUdeviceptr)(uintptr_t)memory, 2, WORDS);
	CU(D(cuCtxSynchronize)());
	CHECK(memory[WORDS - 1] == WORDS + 1);
	CU(D(cuMemHostUnregister)(memory));
	free(memory);
}

/* A program that unmaps memory and forgets to end its registration can still fork. */
static void forgotten(void)
{
	void *memory =
		mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	CU(D(cuMemHostRegister)(memory, LARGE, CU_MEMHOSTREGISTER_DEVICEMAP));
	CHECK(munmap(memory, LARGE) == 0);
	pid_t child = fork();
	int status = 1;
	if (child == 0)
		_exit(0);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CU(D(cuMemHostUnregister)(memory));
}

static void refused(void *memory)
{
	CHECK(D(cuMemHostRegister)(memory, 256, CU_MEMHOSTREGISTER_DEVICEMAP) ==
	      CUDA_ERROR_NOT_SUPPORTED);
	CHECK(D(cuMemHostUnregister)(memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CU(D(cuMemHostRegister)(memory, 256, 0));
	CU(D(cuMemHostUnregister)(memory));
	CHECK(moved_mappings() == 0);
}

int main(int count, char **arguments)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	unsigned local[64];
	char name[] = "/dev/shm/phos-private-XXXXXX";
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuCtxCreate)(&context, 0, device));
	CU(D(cuModuleLoadData)(&module, ADD_PTX));
	CU(D(cuModuleGetFunction)(&add, module, "add"));

	unsigned *small = malloc(WORDS * 4), *large = malloc(LARGE);
	CHECK(small != NULL && large != NULL);
	reach(small, WORDS, CU_MEMHOSTREGISTER_DEVICEMAP);
	reach(small + 1, WORDS - 1, 0); /* by asking for its address */
	reach(large, LARGE / 4, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE);
	free(small);
	free(large);
	unsigned *mapped =
		mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mapped != MAP_FAILED && madvise(mapped, LARGE, MADV_HUGEPAGE) == 0);
	reach(mapped, LARGE / 4, CU_MEMHOSTREGISTER_DEVICEMAP);
	neighbours();
	if (count > 1 && strcmp(arguments[1], "page") == 0)
		one_page();
	forked();
	forgotten();

	refused(local);
	int file = mkstemp(name);
	CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, PAGE) == 0);
	refused(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
	CHECK(mprotect(mapped, PAGE, PROT_READ) == 0);
	refused(mapped);
	puts("ok private");
	return 0;
}

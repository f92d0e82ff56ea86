/* Programs under unusual conditions: low limits, other users' rights, forks in the middle of calls,
 * truncated files. The command line names one. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../driver/driver.h"

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry store(.param .u64 p)\n"
	"{ .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [p]; mov.u32 %r, 7; st.global.u32 [%d], "
	"%r; ret; }\n";

enum { LARGE = 1 << 20 };

static CUcontext context;
static CUdeviceptr memory;
static char host[LARGE];

static void work(void)
{
	CUmodule module;
	CUfunction store;
	void *parameters[] = {&memory};
	CU(cuInit(0));
	CU(cuCtxCreate(&context, 0, 0));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&store, module, "store"));
	CU(cuMemAlloc(&memory, LARGE));
	memset(host, 1, LARGE);
	CU(cuMemcpyHtoD(memory, host, LARGE));
	CU(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, 0, parameters, NULL));
	CU(cuMemcpyDtoH(host, memory, LARGE));
	CHECK(host[0] == 7 && host[4] == 1 && host[LARGE - 1] == 1);
}

/* A released handle identifies its context itself. The garbage collectors of some languages release
 * handles in threads without a context. */
static void no_context(void)
{
	CUmodule module;
	CUstream stream;
	CUevent event;
	CUdeviceptr much, managed;
	CUcontext popped;
	void *pinned;
	size_t before, after, total;
	work();
	CU(cuMemAlloc(&much, 64 << 20));
	CU(cuMemGetInfo(&before, &total));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuStreamCreate(&stream, 0));
	CU(cuEventCreate(&event, 0));
	CU(cuMemAllocManaged(&managed, LARGE, CU_MEM_ATTACH_GLOBAL));
	CU(cuMemHostAlloc(&pinned, LARGE, 0));
	CU(cuCtxPopCurrent(&popped));
	CHECK(popped == context);
	CHECK(cuMemAlloc(&memory, LARGE) == CUDA_ERROR_INVALID_CONTEXT);
	CU(cuMemFree(much));
	CHECK(cuMemFree(much) == CUDA_ERROR_INVALID_VALUE);
	CU(cuMemFree(managed));
	CU(cuMemFreeHost(pinned));
	CU(cuModuleUnload(module));
	CU(cuStreamDestroy(stream));
	CU(cuEventDestroy(event));
	CU(cuCtxPushCurrent(context));
	CU(cuCtxSynchronize());
	CU(cuMemGetInfo(&after, &total));
	CHECK(after + slack(0) >= before + (64 << 20));
}

static void limit(int what, rlim_t most)
{
	struct rlimit l = {most, most};
	CHECK(setrlimit(what, &l) == 0);
}

/* Standard streams and one file: the handshake gets no more descriptors than that. */
static void few_files(void)
{
	limit(RLIMIT_NOFILE, 4);
	CHECK(cuInit(0) != CUDA_SUCCESS);
	limit(RLIMIT_NOFILE, 3);
	CHECK(cuInit(0) != CUDA_SUCCESS);
}

static void little_space(void)
{
	limit(RLIMIT_AS, (rlim_t)1 << 30);
	CHECK(cuInit(0) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void no_size(void)
{
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_MEMLOCK, 0);
	limit(RLIMIT_CORE, 0);
	work();
}

static void no_directory(void)
{
	char name[] = "/tmp/phos-odd-XXXXXX";
	CHECK(mkdtemp(name) && chdir(name) == 0 && rmdir(name) == 0);
	work();
}

/* Changes its user while it has a session: the worker may no longer access its memory. */
static void other_user(void)
{
	work();
	CHECK(setgid(12345) == 0 && setuid(12345) == 0);
	memset(host, 2, LARGE);
	CU(cuMemcpyHtoD(memory, host, LARGE));
	memset(host, 0, LARGE);
	CU(cuMemcpyDtoH(host, memory, LARGE));
	CHECK(host[0] == 2 && host[LARGE - 1] == 2);
}

/* Copies from and to a range with a missing page in the middle, often enough to use every way of
 * copying. */
static void hole(void)
{
	enum { ROUNDS = 40, PAGE = 4096 };
	work();
	char *range = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(range != MAP_FAILED && munmap(range + LARGE / 2, PAGE) == 0);
	memset(host, 3, LARGE);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cuMemcpyHtoD(memory, range, LARGE) == CUDA_ERROR_INVALID_VALUE);
		CHECK(cuMemcpyDtoH(range, memory, LARGE) == CUDA_ERROR_INVALID_VALUE);
		CU(cuMemcpyHtoD(memory, host, LARGE));
	}
	memset(host, 0, LARGE);
	CU(cuMemcpyDtoH(host, memory, LARGE));
	CHECK(host[0] == 3 && host[LARGE - 1] == 3);
}

static void *calls(void *unused)
{
	CUdeviceptr mine;
	CU(cuCtxSetCurrent(context));
	CU(cuMemAlloc(&mine, LARGE));
	for (int i = 0; i < 300; i++) {
		CU(cuMemsetD8(mine, 1, LARGE));
		CU(cuCtxSynchronize());
		CU(cuMemcpyDtoH(unused, mine, LARGE));
	}
	return NULL;
}

/* Forks while threads are in calls. No child may hang, or access its parent's session. */
static void forks(void)
{
	enum { THREADS = 3, CHILDREN = 40 };
	pthread_t threads[THREADS];
	work();
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, calls, malloc(LARGE)) == 0);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		int status;
		if (child == 0) {
			CUdeviceptr p;
			alarm(10);
			_exit(cuInit(0) == CUDA_SUCCESS || cuMemAlloc(&p, 64) == CUDA_SUCCESS ||
			      cuMemFree(memory) == CUDA_SUCCESS ||
			      cuCtxSynchronize() == CUDA_SUCCESS ||
			      cuMemsetD8(memory, 9, 64) == CUDA_SUCCESS);
		}
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		CHECK(status == 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CU(cuMemcpyDtoH(host, memory, LARGE));
	CHECK(host[0] == 7);
}

/* Every child of a program without a session gets its own, all at once. */
static void family(void)
{
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			work();
			_exit(0);
		}
	for (int i = 0, status; i < 8; i++)
		CHECK(wait(&status) > 0 && status == 0);
}

/* Truncates a file that it shares with its worker, and continues: only this program may be
 * affected. */
static void cut(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], path[256] = "";
	void *pinned;
	work();
	CU(cuMemHostAlloc(&pinned, LARGE, 0));
	maps = freopen("/proc/self/maps", "r", maps);
	while (fgets(line, sizeof line, maps))
		if (strstr(line, "/sessions/") && strstr(line, name))
			sscanf(line, "%*s %*s %*s %*s %*s %255s", path);
	CHECK(truncate(path, 0) == 0);
	puts("cut");
	fflush(stdout);
	alarm(2);
	for (;;) {
		cuMemcpyHtoDAsync(memory, pinned, LARGE, 0);
		cuCtxSynchronize();
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		void (*run)(void);
	} all[] = {
		{"work", work},
		{"no_context", no_context},
		{"few_files", few_files},
		{"little_space", little_space},
		{"no_size", no_size},
		{"no_directory", no_directory},
		{"other_user", other_user},
		{"hole", hole},
		{"forks", forks},
		{"family", family},
	};
	CHECK(argc >= 2);
	if (strcmp(argv[1], "cut") == 0 && argc == 3)
		cut(argv[2]);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(argv[1], all[i].word) == 0) {
			all[i].run();
			printf("ok %s\n", argv[1]);
			return 0;
		}
	CHECK(!"a known word");
}

/* What is there at first: the initial state of memory, objects and settings, as the driver's
 * documentation gives it. The program uses memory of all kinds first, so that what it gets later
 * was used before. Memory that has no documented initial content (cuMemAlloc, cuMemHostAlloc,
 * padding of pitched memory, shared and local memory) is not looked at. */
#include "driver.h"
#include <string.h>

#define HEAD ".version 7.8\n.target sm_70\n.address_size 64\n"

#define VARIABLES                                                          \
	".visible .global .align 4 .u32 word;\n"                           \
	".visible .global .align 8 .b8 part[100000];\n"                    \
	".visible .global .align 8 .b8 large[1500000];\n"                  \
	".visible .const .align 4 .b8 constant[4000];\n"                   \
	".visible .global .attribute(.managed) .align 4 .b8 both[5000];\n" \
	".visible .global .align 4 .u32 set = 1234;\n"

#define KERNEL                                                            \
	".visible .entry k(.param .u64 p) { .reg .b64 %a; .reg .b32 %r; " \
	"ld.param.u64 %a, [p]; ld.global.u32 %r, [word]; st.global.u32 [%a], %r; ret; }\n"

static const char plain[] = HEAD VARIABLES KERNEL;
static const char defines[] = HEAD VARIABLES;
static const char uses[] = HEAD ".extern .global .align 4 .u32 word;\n" KERNEL;
/* malloc needs a heap, whose state is in device memory. */
static const char allocates[] =
	HEAD ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
	     ".extern .func free(.param .b64 p);\n"
	     ".visible .entry k(.param .u64 p) { .reg .b64 %a, %m; .param .b64 n; .param .b64 r;\n"
	     "ld.param.u64 %a, [p]; st.param.b64 [n], 100; call (r), malloc, (n);\n"
	     "ld.param.b64 %m, [r]; st.global.u64 [%a], %m; ret; }\n";

static const char *const names[] = {"word", "part", "large", "constant", "both", "set"};

/* Makes free memory hold old data. */
static void use_memory(void)
{
	static const size_t sizes[] = {4, 512, 4096, 100000, 1 << 20, 1500000, 9 << 20};
	enum { SIZES = sizeof sizes / sizeof *sizes, EACH = 3 };
	CUdeviceptr memory[SIZES * EACH], managed[EACH];
	void *pinned[EACH];
	for (int i = 0; i < SIZES * EACH; i++) {
		CU(D(cuMemAlloc)(&memory[i], sizes[i / EACH]));
		CU(D(cuMemsetD8)(memory[i], 0xa5, sizes[i / EACH]));
	}
	for (int i = 0; i < EACH; i++) {
		CU(D(cuMemAllocManaged)(&managed[i], 8192, CU_MEM_ATTACH_GLOBAL));
		CU(D(cuMemHostAlloc)(&pinned[i], 8192, 0));
		memset((void *)(uintptr_t)managed[i], 0xa5, 8192);
		memset(pinned[i], 0xa5, 8192);
	}
	for (int i = 0; i < SIZES * EACH; i++)
		CU(D(cuMemFree)(memory[i]));
	for (int i = 0; i < EACH; i++) {
		CU(D(cuMemFree)(managed[i]));
		CU(D(cuMemFreeHost)(pinned[i]));
	}
	CU(D(cuCtxSynchronize)());
}

static void want(const char *where, const char *name, CUdeviceptr address, size_t bytes)
{
	unsigned char *content = malloc(bytes);
	CU(D(cuMemcpyDtoH)(content, address, bytes));
	if (strcmp(name, "set") == 0) {
		CHECK(bytes == 4 && content[0] == (1234 & 0xff) && content[1] == 1234 >> 8);
		content[0] = content[1] = 0;
	}
	for (size_t i = 0; i < bytes; i++)
		if (content[i] != 0) {
			fprintf(stderr, "%s: byte %zu of %s is %#x\n", where, i, name, content[i]);
			exit(1);
		}
	free(content);
	CU(D(cuMemsetD8)(address, 0x5a, bytes));
}

static void want_initial(const char *where, CUmodule module)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		CUdeviceptr address;
		size_t bytes;
		CU(D(cuModuleGetGlobal)(&address, &bytes, module, names[i]));
		want(where, names[i], address, bytes);
	}
}

static CUmodule link_texts(void)
{
	CUlinkState state;
	CUmodule module;
	void *image;
	CU(D(cuLinkCreate)(0, NULL, NULL, &state));
	CU(D(cuLinkAddData)(state, CU_JIT_INPUT_PTX, (void *)uses, sizeof uses, "uses", 0, NULL,
			    NULL));
	CU(D(cuLinkAddData)(state, CU_JIT_INPUT_PTX, (void *)defines, sizeof defines, "defines", 0,
			    NULL, NULL));
	CU(D(cuLinkComplete)(state, &image, NULL));
	CU(D(cuModuleLoadData)(&module, image));
	CU(D(cuLinkDestroy)(state));
	return module;
}

/* A variable without an initial value is zero, in every module that is loaded: again, a second
 * time beside the first, linked, and as a library that is loaded when it is first used. */
static void variables(void)
{
	for (int round = 0; round < 5; round++) {
		CUmodule first, second, linked;
		CUlibrary library;
		use_memory();
		CU(D(cuModuleLoadData)(&first, plain));
		want_initial("module", first);
		CU(D(cuModuleLoadData)(&second, plain));
		want_initial("second copy", second);
		CU(D(cuModuleUnload)(first));
		CU(D(cuCtxSynchronize)());
		CU(D(cuModuleLoadData)(&first, plain));
		want_initial("loaded again", first);
		CU(D(cuModuleUnload)(first));
		CU(D(cuModuleUnload)(second));
		use_memory();
		linked = link_texts();
		want_initial("linked", linked);
		CU(D(cuModuleUnload)(linked));
		use_memory();
		CU(D(cuLibraryLoadData)(&library, plain, NULL, NULL, 0, NULL, NULL, 0));
		use_memory();
		CU(D(cuLibraryGetModule)(&first, library));
		want_initial("library", first);
		CU(D(cuLibraryUnload)(library));
	}
}

/* The heap of malloc is empty at first, also if it is small. */
static void heap(void)
{
	for (int round = 0; round < 3; round++) {
		CUmodule module;
		CUfunction k;
		CUdeviceptr out;
		unsigned long long found = 0;
		size_t limit = 0;
		CU(D(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 64 << 10));
		CU(D(cuCtxGetLimit)(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
		use_memory();
		CU(D(cuModuleLoadData)(&module, allocates));
		CU(D(cuModuleGetFunction)(&k, module, "k"));
		CU(D(cuMemAlloc)(&out, sizeof found));
		CU(D(cuMemsetD8)(out, 0, sizeof found));
		void *parameters[] = {&out};
		CU(D(cuLaunchKernel)(k, 1, 1, 1, 1, 1, 1, 0, 0, parameters, NULL));
		CU(D(cuMemcpyDtoH)(&found, out, sizeof found));
		CHECK(found != 0);
		CU(D(cuMemFree)(out));
		CU(D(cuModuleUnload)(module));
	}
}

/* Before anything is done: no context is current, and the primary context is not active. */
static void thread_and_device(void)
{
	CUdevice device;
	CUcontext context = (CUcontext)1;
	unsigned flags = 99;
	int active = 99;
	CU(D(cuInit)(0));
	CU(D(cuCtxGetCurrent)(&context));
	CHECK(context == NULL);
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuDevicePrimaryCtxGetState)(device, &flags, &active));
	CHECK(flags == 0 && active == 0);
	CHECK(D(cuCtxGetDevice)(&device) == CUDA_ERROR_INVALID_CONTEXT);
}

static void context(void)
{
	CUfunc_cache cache;
	CUsharedconfig config;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	unsigned flags = 99;
	CU(D(cuCtxGetCacheConfig)(&cache));
	CHECK(cache == CU_FUNC_CACHE_PREFER_NONE);
	CU(D(cuCtxGetSharedMemConfig)(&config));
	CHECK(config == CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE ||
	      config == CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE);
	CU(D(cuCtxGetFlags)(&flags));
	CHECK((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_AUTO);
	CU(D(cuThreadExchangeStreamCaptureMode)(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* A stream is idle and not captured. The calling thread's priority range includes the default. */
static void stream(void)
{
	CUstream stream;
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	unsigned flags = 99;
	int priority = 99;
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	CU(D(cuStreamQuery)(stream));
	CU(D(cuStreamSynchronize)(stream));
	CU(D(cuStreamIsCapturing)(stream, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
	CU(D(cuStreamGetFlags)(stream, &flags));
	CHECK(flags == CU_STREAM_NON_BLOCKING);
	CU(D(cuStreamGetPriority)(stream, &priority));
	CHECK(priority == 0);
	CU(D(cuStreamDestroy)(stream));
}

/* "If cuEventRecord() has not been called on the event, [the query] returns CUDA_SUCCESS", and
 * waiting for it returns at once; but it has no time. */
static void event(void)
{
	CUevent never, other;
	float milliseconds;
	CU(D(cuEventCreate)(&never, CU_EVENT_DEFAULT));
	CU(D(cuEventCreate)(&other, CU_EVENT_DEFAULT));
	CU(D(cuEventQuery)(never));
	CU(D(cuEventSynchronize)(never));
	CU(D(cuStreamWaitEvent)(0, never, 0));
	CU(D(cuStreamSynchronize)(0));
	CHECK(D(cuEventElapsedTime)(&milliseconds, never, other) == CUDA_ERROR_INVALID_HANDLE);
	CU(D(cuEventRecord)(other, 0));
	CU(D(cuEventSynchronize)(other));
	CHECK(D(cuEventElapsedTime)(&milliseconds, never, other) == CUDA_ERROR_INVALID_HANDLE);
	CU(D(cuEventDestroy)(never));
	CU(D(cuEventDestroy)(other));
}

/* A pool: nothing is reserved, nothing is kept, and memory may be reused in all ways. */
static void pool(CUdevice device)
{
	static const struct {
		CUmemPool_attribute attribute;
		int is_word;
		unsigned long long want;
	} rows[] = {
		{CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0, 1},
		{CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0, 1},
		{CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0, 1},
		{CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 1, 0},
		{CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 1, 0},
		{CU_MEMPOOL_ATTR_USED_MEM_HIGH, 1, 0},
	};
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemoryPool made, current, first;
	CU(D(cuMemPoolCreate)(&made, &properties));
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		unsigned long long value = 0;
		int number = -1;
		CU(D(cuMemPoolGetAttribute)(made, rows[i].attribute,
					    rows[i].is_word ? (void *)&value : (void *)&number));
		CHECK((rows[i].is_word ? value : (unsigned long long)number) == rows[i].want);
	}
	CU(D(cuDeviceGetDefaultMemPool)(&first, device));
	CU(D(cuDeviceGetMemPool)(&current, device));
	CHECK(first == current);
	CU(D(cuMemPoolDestroy)(made));
}

/* An empty graph, and nodes that are enabled. */
static void graph(void)
{
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node;
	CUfunction k = kernel_of(HEAD ".visible .entry k() { ret; }\n", "k");
	CUDA_KERNEL_NODE_PARAMS params = {.func = k,
					  .gridDimX = 1,
					  .gridDimY = 1,
					  .gridDimZ = 1,
					  .blockDimX = 1,
					  .blockDimY = 1,
					  .blockDimZ = 1};
	size_t count = 99;
	unsigned enabled = 99;
	CU(D(cuGraphCreate)(&graph, 0));
	CU(D(cuGraphGetNodes)(graph, NULL, &count));
	CHECK(count == 0);
	CU(D(cuGraphGetRootNodes)(graph, NULL, &count));
	CHECK(count == 0);
	CU(D(cuGraphGetEdges)(graph, NULL, NULL, &count));
	CHECK(count == 0);
	CU(D(cuGraphAddKernelNode)(&node, graph, NULL, 0, &params));
	CU(D(cuGraphInstantiateWithFlags)(&exec, graph, 0));
	CU(D(cuGraphNodeGetEnabled)(exec, node, &enabled));
	CHECK(enabled == 1);
	CU(D(cuGraphExecDestroy)(exec));
	CU(D(cuGraphDestroy)(graph));
}

/* Attributes of memory and of kernels. */
static void attributes(void)
{
	CUdeviceptr memory;
	CUfunction k = kernel_of(HEAD ".visible .entry k() { .shared .b8 s[100]; .reg .b32 %r;\n"
				      "mov.u32 %r, s; ret; }\n",
				 "k");
	int value = -99, advice = -99;
	CU(D(cuMemAlloc)(&memory, 100));
	CU(D(cuPointerGetAttribute)(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	CHECK(value == 0);
	CU(D(cuMemFree)(memory));
	CU(D(cuMemAllocManaged)(&memory, 4096, CU_MEM_ATTACH_GLOBAL));
	CU(D(cuMemRangeGetAttribute)(&advice, sizeof advice, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
				     memory, 4096));
	CHECK(advice == 0);
	CU(D(cuMemRangeGetAttribute)(&advice, sizeof advice,
				     CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, 4096));
	CHECK(advice == CU_DEVICE_INVALID);
	CU(D(cuMemRangeGetAttribute)(&advice, sizeof advice,
				     CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 4096));
	CHECK(advice == CU_DEVICE_INVALID);
	CU(D(cuMemFree)(memory));
	CU(D(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k));
	CHECK(value > 0 && value <= (48 << 10) - 100);
	CU(D(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, k));
	CHECK(value == CU_SHAREDMEM_CARVEOUT_DEFAULT);
}

int main(void)
{
	thread_and_device();
	CUdevice device = use_gpu();
	context();
	stream();
	event();
	pool(device);
	graph();
	attributes();
	variables();
	heap();
	puts("ok initial");
	return 0;
}

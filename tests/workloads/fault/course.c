/* course [WORDS...]: every kind of work, one call after the other. The first call that fails is
 * named with its error. Then a little work must succeed, unless the error is fatal. Parts that are
 * not named are left out. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../driver/driver.h"

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 4 .u32 total = 5;\n"
	".extern .shared .align 4 .b8 room[];\n"
	".visible .entry add(.param .u64 x, .param .u32 n)\n"
	"{\n"
	" .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
	" ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n]; cvta.to.global.u64 %d1, %d1;\n"
	" mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r2, 4; add.s64 %d3, %d1, %d2;\n"
	" ld.global.u32 %r3, [%d3]; add.u32 %r3, %r3, %r1; st.global.u32 [%d3], %r3; ret;\n"
	"}\n";
static const char called[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			     ".visible .func (.param .u32 r) seven()\n"
			     "{ .reg .b32 %r; mov.u32 %r, 7; st.param.u32 [r], %r; ret; }\n";
static const char calls[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			    ".extern .func (.param .u32 r) seven();\n"
			    ".visible .entry ask(.param .u64 x)\n"
			    "{\n"
			    " .reg .b32 %r; .reg .b64 %d; .param .u32 got;\n"
			    " call (got), seven; ld.param.u32 %r, [got];\n"
			    " ld.param.u64 %d, [x]; st.global.u32 [%d], %r; ret;\n"
			    "}\n";

enum { N = 256, ROWS = 5, PITCH = 512, LARGE = 3 << 20 };

/* The first error of the course, and its call. */
static CUresult error;
static const char *failed;

static CUresult note(CUresult result, const char *name)
{
	if (result != CUDA_SUCCESS && error == CUDA_SUCCESS) {
		error = result;
		failed = name;
	}
	return result;
}

/* Ends a part at the first call that fails. */
#define T(call)                                          \
	do {                                             \
		if (note((call), #call) != CUDA_SUCCESS) \
			return;                          \
	} while (0)

static CUdevice device;
static CUcontext context;
static CUmodule module;
static CUfunction add;
static CUdeviceptr memory;
static CUstream first, second;
static uint32_t *pinned;

static CUresult launch(CUfunction function, CUdeviceptr at, uint32_t amount, CUstream stream)
{
	void *parameters[] = {&at, &amount};
	return cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, parameters, NULL);
}

static void beginning(void)
{
	CUdeviceptr total;
	size_t bytes;
	uint32_t value = 0;
	int blocks = 0;
	T(cuCtxCreate(&context, 0, device));
	T(cuModuleLoadData(&module, ptx));
	T(cuModuleGetFunction(&add, module, "add"));
	T(cuMemAlloc(&memory, LARGE));
	T(cuMemHostAlloc((void **)&pinned, LARGE, CU_MEMHOSTALLOC_DEVICEMAP));
	T(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	T(cuStreamCreateWithPriority(&second, CU_STREAM_NON_BLOCKING, -1));
	T(cuModuleGetGlobal(&total, &bytes, module, "total"));
	T(cuMemcpyDtoH(&value, total, sizeof value));
	CHECK(value == 5);
	T(cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50000));
	T(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, N, 0));
	CHECK(blocks > 0);
}

static void copies(void)
{
	static uint32_t from[LARGE / 4], back[LARGE / 4];
	for (uint32_t i = 0; i < LARGE / 4; i++)
		from[i] = i * 2654435761u;
	T(cuMemcpyHtoD(memory, from, LARGE));
	T(launch(add, memory, 3, NULL));
	T(cuMemcpyDtoH(back, memory, LARGE));
	for (uint32_t i = 0; i < LARGE / 4; i++)
		CHECK(back[i] == from[i] + (i < N ? 3 : 0));
	T(cuMemcpyHtoDAsync(memory, from, 64, first));
	T(cuMemcpyDtoHAsync(pinned, memory, LARGE, first));
	T(cuStreamSynchronize(first));
	CHECK(memcmp(pinned, from, 64) == 0);
	T(cuMemcpyDtoD(memory + LARGE / 2, memory, 4 * N));
	CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			     .srcDevice = memory,
			     .srcPitch = PITCH,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstDevice = memory + LARGE / 2,
			     .dstPitch = 2 * PITCH,
			     .WidthInBytes = 100,
			     .Height = ROWS};
	T(cuMemcpy2D(&box));
	T(cuMemcpyDtoH(back, memory + LARGE / 2, LARGE / 2));
	for (int row = 0; row < ROWS; row++)
		CHECK(memcmp((char *)back + row * 2 * PITCH, (char *)pinned + row * PITCH, 100) ==
		      0);
}

static void fills(void)
{
	unsigned char got[4096];
	T(cuMemsetD8(memory, 1, 100));
	T(cuMemsetD16(memory + 128, 0x203, 10));
	T(cuMemsetD32(memory + 256, 0x4050607, 10));
	T(cuMemsetD2D8(memory + 1024, 64, 8, 10, 3));
	T(cuMemsetD2D16(memory + 2048, 64, 0x90a, 5, 3));
	T(cuMemsetD2D32(memory + 3072, 64, 0xb0c0d0e, 5, 3));
	T(cuMemcpyDtoH(got, memory, sizeof got));
	CHECK(got[99] == 1 && got[128] == 3 && got[259] == 4 && got[1024 + 64 + 9] == 8);
	CHECK(got[2048 + 128] == 0xa && got[3072 + 128 + 19] == 0xb);
}

static void CUDA_CB host(void *at)
{
	++*(int *)at;
}

static void order(void)
{
	CUevent begin, end;
	float ms = -1;
	int called_back = 0;
	T(cuEventCreate(&begin, CU_EVENT_DEFAULT));
	T(cuEventCreate(&end, CU_EVENT_DEFAULT));
	T(cuMemsetD32(memory, 0, 2 * N));
	T(cuCtxSynchronize());
	T(cuEventRecord(begin, first));
	T(launch(add, memory, 1, first));
	T(cuLaunchHostFunc(first, host, &called_back));
	T(launch(add, memory, 1, first));
	T(cuEventRecord(end, first));
	T(cuStreamWaitEvent(second, end, 0));
	T(launch(add, memory, 1, second));
	T(cuStreamWriteValue32(second, memory + 4 * N, 9, 0));
	T(cuStreamWaitValue32(first, memory + 4 * N, 9, CU_STREAM_WAIT_VALUE_EQ));
	T(cuStreamWriteValue64(second, memory + 4 * N + 8, 9, 0));
	T(cuStreamWaitValue64(first, memory + 4 * N + 8, 9, CU_STREAM_WAIT_VALUE_EQ));
	T(cuEventSynchronize(end));
	while (error == CUDA_SUCCESS && cuStreamQuery(second) == CUDA_ERROR_NOT_READY)
		;
	T(cuStreamSynchronize(second));
	T(cuStreamSynchronize(first));
	T(cuEventQuery(end));
	T(cuEventElapsedTime(&ms, begin, end));
	CHECK(ms >= 0 && called_back == 1);
	T(cuMemcpyDtoH(pinned, memory, 4 * N));
	CHECK(pinned[0] == 3 && pinned[N - 1] == 3);
	T(cuEventDestroy(begin));
	T(cuEventDestroy(end));
}

static void graphs(void)
{
	CUgraph graph;
	CUgraphExec exec;
	T(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	T(cuMemsetD32Async(memory, 2, N, first));
	T(cuMemcpyDtoDAsync(memory + 4 * N, memory, 4 * N, first));
	T(launch(add, memory + 4 * N, 4, first));
	T(cuStreamEndCapture(first, &graph));
	T(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 3; i++)
		T(cuGraphLaunch(exec, first));
	T(cuStreamSynchronize(first));
	T(cuMemcpyDtoH(pinned, memory + 4 * N, 4 * N));
	CHECK(pinned[0] == 6 && pinned[N - 1] == 6);
	T(cuGraphExecDestroy(exec));
	T(cuGraphDestroy(graph));
}

static void code(void)
{
	CUlinkState link;
	CUmodule linked;
	CUfunction ask, cooperative;
	void *image;
	size_t bytes;
	void *parameters[] = {&memory};
	T(cuLinkCreate(0, NULL, NULL, &link));
	T(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)called, sizeof called, "called", 0, NULL,
			NULL));
	T(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)calls, sizeof calls, "calls", 0, NULL,
			NULL));
	T(cuLinkComplete(link, &image, &bytes));
	T(cuModuleLoadData(&linked, image));
	T(cuLinkDestroy(link));
	T(cuModuleGetFunction(&ask, linked, "ask"));
	T(cuLaunchKernel(ask, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	T(cuMemcpyDtoH(pinned, memory, 4));
	CHECK(pinned[0] == 7);
	T(cuModuleUnload(linked));
	T(cuModuleGetFunction(&cooperative, module, "add"));
	uint32_t one = 1;
	void *both[] = {&memory, &one};
	T(cuLaunchCooperativeKernel(cooperative, 1, 1, 1, N, 1, 1, 0, first, both));
	T(cuStreamSynchronize(first));
	T(cuMemcpyDtoH(pinned, memory, 4));
	CHECK(pinned[0] == 8);
}

static void places(void)
{
	CUmemAllocationProp where = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUmemAccessDesc both = {.location = where.location,
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	size_t grain, available, total;
	T(cuMemGetAllocationGranularity(&grain, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	T(cuMemAddressReserve(&at, 4 * grain, 0, 0, 0));
	T(cuMemCreate(&handle, 2 * grain, &where, 0));
	T(cuMemMap(at, 2 * grain, 0, handle, 0));
	T(cuMemSetAccess(at, 2 * grain, &both, 1));
	T(cuMemMap(at + 2 * grain, 2 * grain, 0, handle, 0));
	T(cuMemSetAccess(at + 2 * grain, 2 * grain, &both, 1));
	T(cuMemsetD32(at, 6, N));
	T(launch(add, at + 2 * grain, 1, NULL));
	T(cuMemcpyDtoH(pinned, at, 4 * N));
	CHECK(pinned[0] == 7);
	T(cuMemUnmap(at + 2 * grain, 2 * grain));
	T(cuMemUnmap(at, 2 * grain));
	T(cuMemRelease(handle));
	T(cuMemAddressFree(at, 4 * grain));
	T(cuMemGetInfo(&available, &total));
	CUdeviceptr more;
	T(cuMemAlloc(&more, 5 << 20));
	T(cuMemFree(more));
	T(cuMemAllocAsync(&more, 1 << 20, first));
	T(cuMemFreeAsync(more, first));
	T(cuStreamSynchronize(first));
}

static void host_memory(void)
{
	int file = memfd_create("course", 0);
	CHECK(file >= 0 && ftruncate(file, 1 << 20) == 0);
	uint32_t *shared = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(shared != MAP_FAILED);
	T(cuMemHostRegister(shared, 1 << 20, CU_MEMHOSTREGISTER_DEVICEMAP));
	CUdeviceptr there;
	T(cuMemHostGetDevicePointer(&there, shared, 0));
	T(launch(add, there, 11, first));
	T(cuStreamSynchronize(first));
	CHECK(shared[0] == 11 && shared[N - 1] == 11);
	T(cuMemHostUnregister(shared));
	void *more;
	T(cuMemHostAlloc(&more, 8 << 20, 0));
	T(cuMemFreeHost(more));
	munmap(shared, 1 << 20);
	close(file);
}

/* Queries about clusters, descriptors of tensors, and limits of kernels. */
static void descriptions(void)
{
	static CUtensorMap map, moved;
	cuuint64_t sizes[] = {64, 128}, strides[] = {256};
	cuuint32_t box[] = {16, 64}, steps[] = {1, 1};
	CUlaunchConfig config = {1, 1, 1, N, 1, 1, 0, first, NULL, 0};
	int fit = -1, largest = -1;
	size_t stack = 0;
	T(cuOccupancyMaxActiveClusters(&fit, add, &config));
	T(cuOccupancyMaxPotentialClusterSize(&largest, add, &config));
	CHECK(fit > 0 && largest > 0);
	T(cuTensorMapEncodeTiled(
		&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)(uintptr_t)memory, sizes, strides,
		box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
		CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
	moved = map;
	T(cuTensorMapReplaceAddress(&moved, (void *)(uintptr_t)(memory + LARGE / 2)));
	CHECK(memcmp(&moved, &map, sizeof map) != 0);
	T(cuTensorMapReplaceAddress(&moved, (void *)(uintptr_t)memory));
	CHECK(memcmp(&moved, &map, sizeof map) == 0);
	T(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	T(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
	CHECK(stack >= 4096);
	T(cuCtxSynchronize());
}

static void end(void)
{
	T(cuStreamDestroy(first));
	T(cuStreamDestroy(second));
	T(cuMemFreeHost(pinned));
	T(cuMemFree(memory));
	T(cuModuleUnload(module));
	T(cuCtxSynchronize());
	T(cuCtxDestroy(context));
}

/* A little work in a new context. */
static void again(void)
{
	uint32_t value = 1;
	T(cuCtxCreate(&context, 0, device));
	T(cuModuleLoadData(&module, ptx));
	T(cuModuleGetFunction(&add, module, "add"));
	T(cuMemAlloc(&memory, 4 * N));
	T(cuMemsetD32(memory, 30, N));
	T(launch(add, memory, 12, NULL));
	T(cuMemcpyDtoH(&value, memory, sizeof value));
	CHECK(value == 42);
	T(cuCtxSynchronize());
	T(cuCtxDestroy(context));
}

int main(void)
{
	void (*const parts[])(void) = {beginning, copies,      fills,        order, graphs, code,
				       places,    host_memory, descriptions, end,   again};
	setvbuf(stdout, NULL, _IOLBF, 0);
	note(cuInit(0), "cuInit(0)");
	if (error == CUDA_SUCCESS)
		note(cuDeviceGet(&device, 0), "cuDeviceGet(&device, 0)");
	int begun = error == CUDA_SUCCESS;
	for (size_t i = 0; i < sizeof parts / sizeof parts[0] && error == CUDA_SUCCESS; i++)
		parts[i]();
	if (error != CUDA_SUCCESS) {
		CUresult was = error;
		printf("failed %d at %s\n", error, failed);
		error = CUDA_SUCCESS;
		if (begun)
			again();
		if (error == was)
			puts("poisoned");
		else if (error != CUDA_SUCCESS)
			printf("then %d at %s\n", error, failed);
		else
			puts("alive");
	}
	puts("ok course");
	return 0;
}

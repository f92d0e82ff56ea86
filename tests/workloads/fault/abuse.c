/* Wrong use of the API: wrong sizes, wrong handles, wrong order. Every call must answer as the
 * driver would, and the session must stay usable. The command line names one case. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "../driver/driver.h"

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			  ".visible .entry store(.param .u64 p)\n"
			  "{ .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [p]; mov.u32 %r, 7; "
			  "st.global.u32 [%d], %r; ret; }\n"
			  ".visible .entry nothing()\n{ ret; }\n";

enum { BYTES = 1 << 16 };

static CUcontext context;
static CUmodule module;
static CUfunction store, nothing;
static CUdeviceptr memory;
static char host[BYTES];

static void begin(void)
{
	CU(cuInit(0));
	CU(cuCtxCreate(&context, 0, 0));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&store, module, "store"));
	CU(cuModuleGetFunction(&nothing, module, "nothing"));
	CU(cuMemAlloc(&memory, BYTES));
}

/* The error of an asynchronous call is returned by the next call that waits, and by no later one.
 */
static void clean(void)
{
	uint32_t got = 0;
	void *parameters[] = {&memory};
	cuCtxSynchronize();
	CU(cuCtxSynchronize());
	CU(cuMemsetD32(memory, 1, 4));
	CU(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, 0, parameters, NULL));
	CU(cuMemcpyDtoH(&got, memory, sizeof got));
	CHECK(got == 7);
}

/* A call that fails now or, if it is asynchronous, at the next wait. */
#define FAILS(call) CHECK((call) != CUDA_SUCCESS || cuCtxSynchronize() != CUDA_SUCCESS)

static void copies(void)
{
	const size_t huge[] = {BYTES + 1, (size_t)1 << 40, (size_t)1 << 62, SIZE_MAX - 8, SIZE_MAX};
	for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
		FAILS(cuMemcpyDtoH(host, memory, huge[i]));
		FAILS(cuMemcpyHtoD(memory, host, huge[i]));
		FAILS(cuMemcpyDtoD(memory, memory, huge[i]));
		FAILS(cuMemsetD8(memory, 0, huge[i]));
		FAILS(cuMemsetD32(memory, 0, huge[i]));
		FAILS(cuMemsetD2D8(memory, huge[i], 0, 16, huge[i]));
		FAILS(cuMemcpyDtoH(host, memory + BYTES - 4, huge[i]));
	}
	FAILS(cuMemcpyDtoH(host, memory + 1, BYTES));
	FAILS(cuMemcpyHtoD(memory - 1, host, 16));
	FAILS(cuMemcpyHtoD(0, host, 16));
	FAILS(cuMemcpyDtoH(NULL, memory, 16));
	FAILS(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)host, host, 16));
	FAILS(cuMemcpyHtoD(memory + 64 * BYTES, host, 16));
	FAILS(cuMemsetD32(memory + 2, 0, 1));
	/* Pinned memory that was not allocated, and the end of some that was. */
	char *pinned;
	CU(cuMemHostAlloc((void **)&pinned, 4096, 0));
	FAILS(cuMemcpyDtoH(pinned + (1 << 30), memory, 16));
	FAILS(cuMemcpyHtoD(memory, pinned + (1 << 30), 16));
	FAILS(cuMemcpyHtoD(memory, pinned, BYTES));
	FAILS(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)pinned + (1 << 30), host, 1 << 16));
	CU(cuMemFreeHost(pinned));
	clean();
}

static void boxes(void)
{
	const size_t odd[] = {0, 1, BYTES, (size_t)1 << 47, (size_t)1 << 63, SIZE_MAX};
	const size_t count = sizeof odd / sizeof *odd;
	for (size_t i = 0; i < count * count * count * count; i++) {
		CUDA_MEMCPY3D box = {
			.srcMemoryType = CU_MEMORYTYPE_HOST,
			.srcHost = host,
			.dstMemoryType = CU_MEMORYTYPE_DEVICE,
			.dstDevice = memory,
			.WidthInBytes = 16,
			.Height = 2,
			.Depth = 2,
		};
		box.srcPitch = box.dstPitch = odd[i % count];
		box.dstHeight = odd[i / count % count];
		box.dstY = odd[i / count / count % count];
		box.dstXInBytes = odd[i / count / count / count];
		cuMemcpy3D(&box);
		box.WidthInBytes = odd[i % count];
		box.Height = odd[i / count % count];
		box.Depth = odd[i / count / count % count];
		if (box.WidthInBytes > 1 || box.Height > 1 || box.Depth > 1)
			cuMemcpy3DAsync(&box, 0);
	}
	CUDA_MEMCPY2D flat = {.srcMemoryType = (CUmemorytype)77,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = memory,
			      .WidthInBytes = 1,
			      .Height = 1};
	FAILS(cuMemcpy2D(&flat));
	FAILS(cuMemcpy2D(NULL));
	clean();
}

static void frees(void)
{
	CUdeviceptr other;
	void *pinned;
	CU(cuMemAlloc(&other, 4096));
	FAILS(cuMemFree(other + 1));
	FAILS(cuMemFree(other + 256));
	CU(cuMemFree(other));
	FAILS(cuMemFree(other));
	FAILS(cuMemFree((CUdeviceptr)(uintptr_t)host));
	FAILS(cuMemFree(1));
	CU(cuMemFree(0));
	CU(cuMemHostAlloc(&pinned, 4096, 0));
	FAILS(cuMemFreeHost((char *)pinned + 8));
	FAILS(cuMemFree((CUdeviceptr)(uintptr_t)pinned));
	CU(cuMemFreeHost(pinned));
	FAILS(cuMemFreeHost(pinned));
	FAILS(cuMemFreeHost(host));
	FAILS(cuMemAlloc(&other, 0));
	FAILS(cuMemAlloc(&other, SIZE_MAX));
	FAILS(cuMemAlloc(&other, (size_t)1 << 63));
	FAILS(cuMemHostAlloc(&pinned, SIZE_MAX, 0));
	FAILS(cuMemHostAlloc(&pinned, (size_t)1 << 50, 0));
	FAILS(cuMemAllocManaged(&other, SIZE_MAX, CU_MEM_ATTACH_GLOBAL));
	size_t pitch;
	FAILS(cuMemAllocPitch(&other, &pitch, SIZE_MAX / 2, 4, 4));
	FAILS(cuMemAllocPitch(&other, &pitch, (size_t)1 << 40, (size_t)1 << 40, 4));
	FAILS(cuMemHostRegister(host, SIZE_MAX, 0));
	FAILS(cuMemHostRegister((void *)4096, 4096, 0));
	clean();
}

static void launches(void)
{
	void *parameters[] = {&memory};
	const unsigned sizes[] = {0, 1025, 1u << 16, 1u << 31, ~0u};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		FAILS(cuLaunchKernel(nothing, 1, 1, 1, sizes[i], 1, 1, 0, 0, NULL, NULL));
		FAILS(cuLaunchKernel(nothing, 1, 1, 1, 1, sizes[i], 1, 0, 0, NULL, NULL));
		FAILS(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, sizes[i], 0, 0, NULL, NULL));
		if (sizes[i] >> 16 || sizes[i] == 0) {
			FAILS(cuLaunchKernel(nothing, 1, sizes[i], 1, 1, 1, 1, 0, 0, NULL, NULL));
			FAILS(cuLaunchKernel(nothing, 1, 1, sizes[i], 1, 1, 1, 0, 0, NULL, NULL));
		}
	}
	FAILS(cuLaunchKernel(nothing, ~0u, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
	FAILS(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 1u << 30, 0, NULL, NULL));
	FAILS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
	/* A block that is too short is legal: the rest is zero. */
	size_t wrong = 1 << 20;
	void *extra[] = {(void *)(uintptr_t)77, parameters[0], CU_LAUNCH_PARAM_BUFFER_SIZE, &wrong,
			 CU_LAUNCH_PARAM_END};
	FAILS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra));
	FAILS(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
	clean();
}

static CUstream stream;
static CUevent event;
static CUgraph graph;
static CUgraphExec exec;
static CUmemoryPool pool;

/* h as a stream and as an event, which it is not. */
static void wrong_stream_or_event(void *h)
{
	float time;
	if (h != stream) {
		FAILS(cuStreamSynchronize(h));
		FAILS(cuStreamQuery(h));
		FAILS(cuStreamDestroy(h));
		FAILS(cuEventRecord(event, h));
		FAILS(cuMemcpyHtoDAsync(memory, host, 16, h));
		FAILS(cuMemsetD8Async(memory, 1, 16, h));
		FAILS(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, h, NULL, NULL));
		FAILS(cuStreamBeginCapture(h, CU_STREAM_CAPTURE_MODE_GLOBAL));
		FAILS(cuGraphLaunch(exec, h));
	}
	if (h != event) {
		FAILS(cuEventQuery(h));
		FAILS(cuEventSynchronize(h));
		FAILS(cuEventRecord(h, stream));
		FAILS(cuEventElapsedTime(&time, event, h));
		FAILS(cuStreamWaitEvent(stream, h, 0));
		FAILS(cuEventDestroy(h));
	}
}

/* h as every other kind of handle, which it is not. */
static void wrong_object(void *h)
{
	CUdeviceptr p;
	CUfunction f;
	CUgraphNode node;
	size_t n = 0;
	if (h != module) {
		FAILS(cuModuleGetFunction(&f, h, "store"));
		FAILS(cuModuleGetGlobal(&p, &n, h, "x"));
		FAILS(cuModuleUnload(h));
	}
	if (h != graph) {
		FAILS(cuGraphAddEmptyNode(&node, h, NULL, 0));
		FAILS(cuGraphInstantiateWithFlags(&exec, h, 0));
		FAILS(cuGraphGetNodes(h, NULL, &n));
		FAILS(cuGraphDestroy(h));
	}
	if (h != exec) {
		FAILS(cuGraphLaunch(h, stream));
		FAILS(cuGraphExecDestroy(h));
	}
	if (h != store && h != module)
		FAILS(cuLaunchKernel(h, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
	if (h != context) {
		FAILS(cuCtxSetCurrent(h));
		FAILS(cuCtxDestroy(h));
		FAILS(cuCtxPushCurrent(h));
	}
	if (h != pool) {
		FAILS(cuMemPoolTrimTo(h, 0));
		FAILS(cuMemPoolDestroy(h));
		FAILS(cuMemAllocFromPoolAsync(&p, 64, h, stream));
	}
}

/* A destroyed handle is invalid for all its users. */
static void gone(void)
{
	CU(cuEventDestroy(event));
	CU(cuStreamDestroy(stream));
	FAILS(cuEventDestroy(event));
	FAILS(cuEventQuery(event));
	FAILS(cuStreamDestroy(stream));
	FAILS(cuStreamSynchronize(stream));
	CU(cuModuleUnload(module));
	FAILS(cuModuleUnload(module));
	FAILS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, 0, (void *[]){&memory}, NULL));
	CU(cuCtxDestroy(context));
	FAILS(cuMemAlloc(&memory, 64));
	FAILS(cuCtxSetCurrent(context));
}

/* Every handle in the place of every other kind. */
static void handles(void)
{
	CUgraphNode node;
	CU(cuStreamCreate(&stream, 0));
	CU(cuEventCreate(&event, 0));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuDeviceGetDefaultMemPool(&pool, 0));
	void *all[] = {context,
		       module,
		       store,
		       stream,
		       event,
		       graph,
		       node,
		       exec,
		       pool,
		       (void *)0x70ff00000001,
		       (void *)0x7004ffffffff,
		       (void *)~0ul,
		       (void *)(uintptr_t)memory};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		wrong_stream_or_event(all[i]);
		wrong_object(all[i]);
	}
	FAILS(cuModuleGetFunction(&store, module, NULL));
	CHECK(cuModuleGetFunction(&store, module, "none") == CUDA_ERROR_NOT_FOUND);
	CU(cuModuleGetFunction(&store, module, "store"));
	clean();
	gone();
}

/* An event whose record was refused must not wait for it forever. */
static void events(void)
{
	CUstream stream, gone;
	CUevent event;
	CU(cuStreamCreate(&stream, 0));
	CU(cuStreamCreate(&gone, 0));
	CU(cuStreamDestroy(gone));
	for (int i = 0; i < 100; i++) {
		CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
		CU(cuEventQuery(event));
		if (i % 2) {
			cuEventRecord(event, gone);
			while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
				;
			cuCtxSynchronize();
		}
		CU(cuEventRecord(event, stream));
		if (i % 3 == 0) {
			cuEventRecord(event, gone);
			cuStreamSynchronize(stream);
			while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
				;
			cuCtxSynchronize();
		}
		CU(cuEventSynchronize(event));
		CU(cuEventQuery(event));
		CU(cuEventDestroy(event));
	}
	clean();
}

/* The error of an earlier call must not make a successful load look failed. */
static void loads(void)
{
	CUstream gone;
	CUevent event;
	CU(cuStreamCreate(&gone, 0));
	CU(cuStreamDestroy(gone));
	CU(cuEventCreate(&event, 0));
	for (int i = 0; i < 50; i++) {
		CUmodule loaded = NULL;
		cuEventRecord(event, gone);
		CUresult result = cuModuleLoadData(&loaded, ptx);
		CHECK((result == CUDA_SUCCESS) == (loaded != NULL));
		cuCtxSynchronize();
		if (loaded != NULL)
			CU(cuModuleUnload(loaded));
	}
	clean();
}

static int called;

/* A stream's host function may not call CUDA; it gets an error. */
static void calls_back(void *wrong)
{
	CUdeviceptr p;
	*(int *)wrong = cuMemAlloc(&p, 64) == CUDA_SUCCESS || cuCtxSynchronize() == CUDA_SUCCESS ||
			cuMemcpyDtoH(host, memory, 4) == CUDA_SUCCESS ||
			cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL) == CUDA_SUCCESS;
	__atomic_add_fetch(&called, 1, __ATOMIC_SEQ_CST);
}

static void callbacks(void)
{
	CUstream stream;
	int wrong = 0;
	CU(cuStreamCreate(&stream, 0));
	for (int i = 0; i < 1000; i++)
		CU(cuLaunchHostFunc(stream, calls_back, &wrong));
	CU(cuStreamSynchronize(stream));
	CHECK(called == 1000);
	CHECK(wrong == 0);
	FAILS(cuLaunchHostFunc(stream, NULL, NULL));
	clean();
}

static void slow(void *unused)
{
	(void)unused;
	usleep(200000);
}

static void count(void *counter)
{
	++*(int *)counter;
}

/* Submits far more than can be done at the same time, including host functions. The worker must
 * neither keep it all nor block. */
static void flood(void)
{
	int counted = 0;
	CU(cuLaunchHostFunc(0, slow, NULL));
	for (int i = 0; i < 1500000; i++) {
		CU(cuMemsetD8Async(memory, (unsigned char)i, 16, 0));
		if (i % 10000 == 0)
			CU(cuLaunchHostFunc(0, count, &counted));
	}
	CU(cuCtxSynchronize());
	CHECK(counted == 150);
	puts("flooded");
	fflush(stdout);
	pause();
}

static void *work(void *number)
{
	uint32_t got = 0;
	CUdeviceptr mine;
	CUstream stream;
	CU(cuCtxSetCurrent(context));
	CU(cuMemAlloc(&mine, 4096));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 4; i++) {
		CU(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&mine}, NULL));
		CU(cuMemcpyDtoHAsync(&got, mine, sizeof got, stream));
		CU(cuStreamSynchronize(stream));
		CHECK(got == 7);
	}
	/* Half of them exit without cleaning up. */
	if ((uintptr_t)number % 2) {
		CU(cuStreamDestroy(stream));
		CU(cuMemFree(mine));
	}
	return NULL;
}

/* More threads than reply slots, and threads that start and exit. */
static void threads(void)
{
	enum { COUNT = 400 };
	pthread_t all[COUNT];
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	for (int round = 0; round < 2; round++) {
		for (uintptr_t i = 0; i < COUNT; i++)
			CHECK(pthread_create(&all[i], &small, work, (void *)i) == 0);
		for (int i = 0; i < COUNT; i++)
			CHECK(pthread_join(all[i], NULL) == 0);
	}
	clean();
}

static void *calls_on(void *only_posts)
{
	cuCtxSetCurrent(context);
	for (int i = 0; i < 1 << 20; i++) {
		cuMemcpyHtoD(memory, host, BYTES);
		if (only_posts == NULL)
			cuCtxSynchronize();
		pthread_testcancel();
	}
	return NULL;
}

/* Threads cancelled in the middle of calls: nothing may stay locked. */
static void cancelled(void)
{
	for (int i = 0; i < 50; i++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, calls_on, i % 2 ? &thread : NULL) == 0);
		usleep(rand() % 5000);
		CHECK(pthread_cancel(thread) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	clean();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		void (*run)(void);
	} all[] = {
		{"copies", copies},       {"boxes", boxes},         {"frees", frees},
		{"launches", launches},   {"handles", handles},     {"events", events},
		{"loads", loads},         {"callbacks", callbacks}, {"threads", threads},
		{"cancelled", cancelled}, {"flood", flood},
	};
	CHECK(argc == 2);
	begin();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(argv[1], all[i].word) == 0) {
			all[i].run();
			printf("ok %s\n", argv[1]);
			return 0;
		}
	CHECK(!"a known word");
}

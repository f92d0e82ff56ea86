/* Two processes share device memory: each sees what the other stores by copies, fills and kernels.
 * Halfway both wait for the file that HOLD names. */
#include "../checkpoint/hold.h"
#include "pair.h"

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry add(.param .u64 x, .param .u32 by)\n"
	"{\n"
	" .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
	" mov.u32 %r1, %tid.x; ld.param.u64 %d1, [x]; ld.param.u32 %r2, [by];\n"
	" cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;\n"
	" ld.global.u32 %r3, [%d1]; add.u32 %r3, %r3, %r2; st.global.u32 [%d1], %r3;\n"
	" ret;\n"
	"}\n";

enum { SMALL = 4096, LARGE = 5 << 20, N = 256 };

static CUfunction add;

static void start(void)
{
	use_gpu();
	add = kernel_of(ptx, "add");
}

/* Every word of the memory must have this value. */
static void all_are(CUdeviceptr memory, size_t bytes, unsigned word)
{
	unsigned *copy = malloc(bytes);
	CHECK(copy);
	CU(D(cuMemcpyDtoH)(copy, memory, bytes));
	for (size_t i = 0; i < bytes / 4; i++)
		CHECK(copy[i] == word);
	free(copy);
}

static void kernel(CUdeviceptr memory, unsigned by)
{
	void *parameters[] = {&memory, &by};
	CU(D(cuLaunchKernel)(add, 1, 1, 1, N, 1, 1, 0, NULL, parameters, NULL));
	CU(D(cuCtxSynchronize)());
}

/* One half. The importer runs the same steps as the exporter, and stores where the exporter reads.
 */
static void take_turns(CUdeviceptr small, CUdeviceptr large, int exporter)
{
	if (exporter) {
		CU(D(cuMemsetD32)(small, 100, N));
		CU(D(cuMemsetD32)(large, 7, LARGE / 4));
		CU(D(cuCtxSynchronize)());
	}
	meet('a');
	all_are(small, N * 4, 100);
	all_are(large, LARGE, 7);
	meet('b');
	if (!exporter) {
		kernel(small, 11);
		CU(D(cuMemsetD32)(large + LARGE / 2, 8, LARGE / 8));
		CU(D(cuCtxSynchronize)());
	}
	meet('c');
	all_are(small, N * 4, 111);
	all_are(large, LARGE / 2, 7);
	all_are(large + LARGE / 2, LARGE / 2, 8);
	meet('d');
	if (exporter) {
		kernel(small, 4);
		CU(D(cuMemcpyDtoD)(large, large + LARGE / 2, LARGE / 2));
		CU(D(cuCtxSynchronize)());
	}
	meet('e');
	all_are(small, N * 4, 115);
	all_are(large, LARGE, 8);
	meet('f');
}

/* Each waits in its stream for the other's work; neither synchronizes before the end. */
static void ping_pong(CUdeviceptr word, CUevent mine, CUevent his, int first)
{
	enum { TURNS = 20 };
	CUstream stream;
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned turn = 0; turn < TURNS; turn++) {
		unsigned by = 1;
		void *parameters[] = {&word, &by};
		if (turn % 2 == (first ? 0 : 1)) {
			CU(D(cuLaunchKernel)(add, 1, 1, 1, N, 1, 1, 0, stream, parameters, NULL));
			CU(D(cuEventRecord)(mine, stream));
		}
		meet('p');
		if (turn % 2 == (first ? 1 : 0))
			CU(D(cuStreamWaitEvent)(stream, his, 0));
	}
	CU(D(cuEventSynchronize)(mine));
	CU(D(cuEventSynchronize)(his));
	CU(D(cuEventQuery)(his));
	CU(D(cuStreamSynchronize)(stream));
	meet('q');
	CU(D(cuStreamDestroy)(stream));
}

static void wait_here(int exporter)
{
	meet('h');
	if (exporter)
		CHECK(puts("ready") >= 0 && fflush(stdout) == 0);
	hold();
	meet('i');
}

static void refused_to_export(CUdeviceptr small)
{
	CUipcMemHandle handle, again;
	CUdeviceptr managed, opened;
	void *pinned;
	CU(D(cuMemAllocManaged)(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	CU(D(cuMemHostAlloc)(&pinned, 4096, 0));
	CHECK(D(cuIpcGetMemHandle)(&handle, managed) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuIpcGetMemHandle)(&handle, (CUdeviceptr)(uintptr_t)pinned) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuIpcGetMemHandle)(&handle, (CUdeviceptr)12345) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuIpcGetMemHandle)(NULL, small) == CUDA_ERROR_INVALID_VALUE);
	CU(D(cuIpcGetMemHandle)(&handle, small));
	CU(D(cuIpcGetMemHandle)(&again, small + 8));
	CHECK(memcmp(&handle, &again, sizeof handle) == 0);
	CHECK(D(cuIpcOpenMemHandle)(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
	      CUDA_ERROR_INVALID_CONTEXT);
}

static void refused_events(CUevent event)
{
	CUipcEventHandle handle;
	CUevent plain, opened;
	CU(D(cuEventCreate)(&plain, CU_EVENT_DISABLE_TIMING));
	CHECK(D(cuIpcGetEventHandle)(&handle, plain) == CUDA_ERROR_INVALID_HANDLE);
	CHECK(D(cuIpcGetEventHandle)(NULL, event) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuEventCreate)(&opened, CU_EVENT_INTERPROCESS) == CUDA_ERROR_INVALID_VALUE);
	memset(&handle, 7, sizeof handle);
	CHECK(D(cuIpcOpenEventHandle)(&opened, handle) == CUDA_ERROR_INVALID_HANDLE);
	CU(D(cuEventDestroy)(plain));
}

static void export(void)
{
	CUdeviceptr before, small, large;
	CUipcMemHandle handles[2];
	CUipcEventHandle events[2];
	CUevent mine, his;
	start();
	/* small begins inside a chunk. */
	CU(D(cuMemAlloc)(&before, SMALL));
	CU(D(cuMemAlloc)(&small, SMALL));
	CU(D(cuMemAlloc)(&large, LARGE));
	CU(D(cuMemsetD32)(before, 0xabcdef, SMALL / 4));
	CU(D(cuCtxSynchronize)());
	refused_to_export(small);
	CU(D(cuIpcGetMemHandle)(&handles[0], small));
	CU(D(cuIpcGetMemHandle)(&handles[1], large));
	put(handles, sizeof handles);
	CU(D(cuEventCreate)(&mine, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	CU(D(cuEventCreate)(&his, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	CU(D(cuIpcGetEventHandle)(&events[0], mine));
	CU(D(cuIpcGetEventHandle)(&events[1], his));
	put(events, sizeof events);
	refused_events(mine);
	for (int half = 0; half < 2; half++) {
		take_turns(small, large, 1);
		ping_pong(small, mine, his, 1);
		all_are(small, N * 4, 115 + 20);
		meet('r');
		if (half == 0)
			wait_here(1);
	}
	all_are(before, SMALL, 0xabcdef);
	meet('x'); /* the other process has closed it */
	CU(D(cuMemFree)(small));
	CU(D(cuMemFree)(large));
	CU(D(cuCtxSynchronize)()); /* it completes the free before it returns */
	meet('y');
	meet('z');
}

static void described(CUdeviceptr address, size_t bytes)
{
	CUdeviceptr base = 0;
	size_t size = 0;
	unsigned type = 0;
	CU(D(cuMemGetAddressRange)(&base, &size, address + 100));
	CHECK(base == address && size == bytes);
	CU(D(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	CHECK(type == CU_MEMORYTYPE_DEVICE);
}

static void import(void)
{
	CUdeviceptr own, small, large, again;
	CUipcMemHandle handles[2], wrong;
	CUipcEventHandle events[2];
	CUevent mine, his;
	start();
	CU(D(cuMemAlloc)(&own, SMALL));
	get(handles, sizeof handles);
	get(events, sizeof events);
	CU(D(cuIpcOpenEventHandle)(&his, events[0]));
	CU(D(cuIpcOpenEventHandle)(&mine, events[1]));
	CU(D(cuIpcOpenMemHandle)(&small, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CU(D(cuIpcOpenMemHandle)(&large, handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	described(small, SMALL);
	described(large, LARGE);
	CU(D(cuIpcOpenMemHandle)(&again, handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(again == large);
	CU(D(cuIpcCloseMemHandle)(again));

	wrong = handles[0];
	wrong.reserved[9] ^= 1;
	CHECK(D(cuIpcOpenMemHandle)(&again, wrong, 1) == CUDA_ERROR_INVALID_HANDLE);
	wrong = handles[0];
	wrong.reserved[30] ^= 1;
	CHECK(D(cuIpcOpenMemHandle)(&again, wrong, 1) == CUDA_ERROR_INVALID_HANDLE);
	memset(&wrong, 0, sizeof wrong);
	CHECK(D(cuIpcOpenMemHandle)(&again, wrong, 1) == CUDA_ERROR_INVALID_HANDLE);
	CHECK(D(cuIpcOpenMemHandle)(&again, handles[0], 2) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuMemFree)(small) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuIpcCloseMemHandle)(own) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuMemsetD8)(small + SMALL, 1, 1) == CUDA_ERROR_INVALID_VALUE ||
	      D(cuCtxSynchronize)() == CUDA_ERROR_INVALID_VALUE);
	for (int half = 0; half < 2; half++) {
		take_turns(small, large, 0);
		ping_pong(small, mine, his, 0);
		all_are(small, N * 4, 115 + 20);
		meet('r');
		if (half == 0)
			wait_here(0);
	}
	CU(D(cuEventDestroy)(mine));
	CU(D(cuEventDestroy)(his));
	CU(D(cuIpcCloseMemHandle)(small));
	CU(D(cuIpcCloseMemHandle)(large));
	CHECK(D(cuIpcCloseMemHandle)(large) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuMemGetAddressRange)(NULL, NULL, large) != CUDA_SUCCESS);
	meet('x');
	meet('y'); /* the other process has freed the memory */
	CHECK(D(cuIpcOpenMemHandle)(&small, handles[0], 1) == CUDA_ERROR_INVALID_HANDLE);
	meet('z');
}

int main(void)
{
	pair(export, import);
	puts("ok ipc");
	return 0;
}

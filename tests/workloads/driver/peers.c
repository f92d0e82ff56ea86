/* Two GPUs: their peer attributes, copies between them, and kernels of one that read the memory of
 * the other. Halfway it waits for the file that HOLD names. */
#include "../checkpoint/hold.h"
#include "driver.h"
#include <stdatomic.h>
#include <string.h>

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry sum(.param .u64 to, .param .u64 from)\n"
	"{\n"
	" .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
	" mov.u32 %r1, %tid.x; ld.param.u64 %d1, [to]; ld.param.u64 %d2, [from];\n"
	" mul.wide.u32 %d3, %r1, 4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;\n"
	" ld.global.u32 %r2, [%d1]; ld.global.u32 %r3, [%d2]; add.u32 %r2, %r2, %r3;\n"
	" st.global.u32 [%d1], %r2;\n"
	" ret;\n"
	"}\n";

enum { N = 512 };

static CUcontext contexts[2];
static CUdeviceptr memory[2];
static CUfunction sum;

static void all_are(CUdeviceptr at, unsigned word)
{
	unsigned copy[N];
	CU(D(cuMemcpyDtoH)(copy, at, sizeof copy));
	for (int i = 0; i < N; i++)
		CHECK(copy[i] == word);
}

static void start(void)
{
	CUmodule module;
	for (int i = 0; i < 2; i++) {
		CUdevice device;
		CU(D(cuDeviceGet)(&device, i));
		CU(D(cuDevicePrimaryCtxRetain)(&contexts[i], device));
		CU(D(cuCtxSetCurrent)(contexts[i]));
		CU(D(cuMemAlloc)(&memory[i], N * 4));
		CU(D(cuMemsetD32)(memory[i], 100 * (unsigned)(i + 1), N));
		CU(D(cuCtxSynchronize)());
	}
	CU(D(cuCtxSetCurrent)(contexts[0]));
	CU(D(cuModuleLoadData)(&module, ptx));
	CU(D(cuModuleGetFunction)(&sum, module, "sum"));
}

static void asked(void)
{
	int can = 0, value = 0, beyond = 0;
	CU(D(cuDeviceCanAccessPeer)(&can, 0, 1));
	CHECK(can == 1);
	CU(D(cuDeviceCanAccessPeer)(&can, 1, 1));
	CHECK(can == 0);
	CHECK(D(cuDeviceCanAccessPeer)(&can, 0, 2) == CUDA_ERROR_INVALID_DEVICE);
	CU(D(cuDeviceGetP2PAttribute)(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	CHECK(value == 1);
	CU(D(cuDeviceGetP2PAttribute)(&value, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED,
				      0, 1));
	CHECK(value == 0);
	CHECK(D(cuDeviceGetAttribute)(&beyond, (CUdevice_attribute)299, 0) ==
	      CUDA_ERROR_INVALID_VALUE);
}

static void refused(void)
{
	CHECK(D(cuCtxDisablePeerAccess)(contexts[1]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	CHECK(D(cuCtxEnablePeerAccess)(contexts[1], 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(D(cuCtxEnablePeerAccess)(contexts[0], 0) == CUDA_ERROR_INVALID_DEVICE);
	CHECK(D(cuCtxEnablePeerAccess)((CUcontext)(uintptr_t)12345, 0) ==
	      CUDA_ERROR_INVALID_CONTEXT);
}

/* A synchronous copy is serialized with all work of both contexts, also in streams that do not
 * block: here with a fill of its source that is held up, and with a later fill of it. */
static void serialized(void)
{
	static _Atomic unsigned *word;
	CUstream streams[2];
	CU(D(cuMemHostAlloc)((void **)&word, sizeof *word, CU_MEMHOSTALLOC_PORTABLE));
	for (int i = 0; i < 2; i++) {
		CU(D(cuCtxSetCurrent)(contexts[i]));
		CU(D(cuStreamCreate)(&streams[i], CU_STREAM_NON_BLOCKING));
	}
	atomic_store(word, 0);
	CU(D(cuStreamWaitValue32)(streams[1], (CUdeviceptr)(uintptr_t)word, 1,
				  CU_STREAM_WAIT_VALUE_EQ));
	CU(D(cuMemsetD32Async)(memory[1], 77, N, streams[1]));
	CU(D(cuCtxSetCurrent)(contexts[0]));
	CU(D(cuMemcpyPeer)(memory[0], contexts[0], memory[1], contexts[1], N * 4));
	CU(D(cuCtxSetCurrent)(contexts[1]));
	CU(D(cuMemsetD32Async)(memory[1], 200, N, streams[1]));
	atomic_store(word, 1);
	for (int i = 0; i < 2; i++) {
		CU(D(cuCtxSetCurrent)(contexts[i]));
		CU(D(cuCtxSynchronize)());
		CU(D(cuStreamDestroy)(streams[i]));
	}
	all_are(memory[1], 200);
	CU(D(cuCtxSetCurrent)(contexts[0]));
	all_are(memory[0], 77);
	CU(D(cuMemsetD32)(memory[0], 100, N));
	CU(D(cuCtxSynchronize)());
	CU(D(cuMemFreeHost)((void *)word));
}

/* memory[0] contains word; memory[1] always contains 200. */
static void kernel_reads_peer(unsigned word)
{
	void *parameters[] = {&memory[0], &memory[1]};
	CU(D(cuLaunchKernel)(sum, 1, 1, 1, N, 1, 1, 0, NULL, parameters, NULL));
	CU(D(cuCtxSynchronize)());
	all_are(memory[0], word + 200);
	all_are(memory[1], 200);
}

static void copies(void)
{
	CUdeviceptr there;
	CUstream stream;
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	CU(D(cuMemAlloc)(&there, N * 4));
	CU(D(cuMemcpyPeer)(there, contexts[0], memory[1], contexts[1], N * 4));
	CU(D(cuCtxSynchronize)());
	all_are(there, 200);
	CU(D(cuMemsetD32)(there, 55, N));
	CU(D(cuCtxSynchronize)());
	CU(D(cuMemcpyPeerAsync)(memory[1], contexts[1], there, contexts[0], N * 2, stream));
	CU(D(cuMemcpyDtoDAsync)(there + N * 2, memory[1], N * 2, stream));
	CU(D(cuStreamSynchronize)(stream));
	all_are(there, 55);
	CU(D(cuMemsetD32)(memory[1], 200, N));
	CU(D(cuCtxSynchronize)());
	CU(D(cuMemFree)(there));
	CU(D(cuStreamDestroy)(stream));
}

int main(void)
{
	CU(D(cuInit)(0));
	start();
	asked();
	refused();
	serialized();
	copies();
	CU(D(cuCtxEnablePeerAccess)(contexts[1], 0));
	kernel_reads_peer(100);
	CHECK(puts("ready") >= 0 && fflush(stdout) == 0);
	hold();
	CHECK(D(cuCtxEnablePeerAccess)(contexts[1], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	kernel_reads_peer(300);
	copies();
	CU(D(cuCtxDisablePeerAccess)(contexts[1]));
	refused();
	/* The end of a context ends access to it. */
	CUcontext more;
	CU(D(cuCtxCreate)(&more, 0, 1));
	CU(D(cuCtxSetCurrent)(contexts[0]));
	CU(D(cuCtxEnablePeerAccess)(more, 0));
	CU(D(cuCtxDestroy)(more));
	CHECK(D(cuCtxDisablePeerAccess)(more) != CUDA_SUCCESS);
	puts("ok peers");
	return 0;
}

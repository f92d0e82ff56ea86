/* A vector sum by the driver API: devices, contexts, modules from PTX, both ways of passing
 * parameters, streams, events, errors. */
#include "driver.h"
#include <math.h>
#include <string.h>

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".global .align 4 .f32 scale = 0f40000000;\n"
	".visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)\n"
	"{\n"
	" .reg .pred %p; .reg .f32 %f<6>; .reg .b32 %r<5>; .reg .b64 %d<8>;\n"
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
	" mad.lo.s32 %r1, %r1, %r2, %r3;\n"
	" ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra DONE;\n"
	" ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.f32 %f1, [a];\n"
	" cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;\n"
	" mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"
	" ld.global.f32 %f2, [%d4]; ld.global.f32 %f3, [%d5]; ld.global.f32 %f4, [scale];\n"
	" mul.f32 %f1, %f1, %f4; fma.rn.f32 %f5, %f1, %f2, %f3; st.global.f32 [%d5], %f5;\n"
	"DONE: ret;\n"
	"}\n";

enum { N = 3000 };

static float x[N], y[N], want[N];

static void device_facts(CUdevice device)
{
	char name[64] = "";
	int major = 0, minor = 0, warp = 0;
	size_t bytes = 0;
	CU(D(cuDeviceGetName)(name, sizeof name, device));
	CU(D(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
	CU(D(cuDeviceGetAttribute)(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
	CU(D(cuDeviceGetAttribute)(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
	CU(D(cuDeviceTotalMem)(&bytes, device));
	CHECK(name[0] && major >= 7 && minor >= 0 && warp == 32 && bytes > 1 << 28);
}

static void refusals(CUcontext context)
{
	CUmodule module;
	CUfunction function;
	const char *name = NULL;
	(void)context;
	CHECK(D(cuModuleLoadData)(&module,
				  ".version 7.0\n.target sm_70\n.address_size 64\nnonsense") ==
	      CUDA_ERROR_INVALID_PTX);
	CU(D(cuModuleLoadData)(&module, ptx));
	CHECK(D(cuModuleGetFunction)(&function, module, "missing") == CUDA_ERROR_NOT_FOUND);
	CU(D(cuModuleUnload)(module));
	CHECK(D(cuMemFree)((CUdeviceptr)12345) == CUDA_ERROR_INVALID_VALUE);
	CU(D(cuGetErrorName)(CUDA_ERROR_INVALID_PTX, &name));
	CHECK(strcmp(name, "CUDA_ERROR_INVALID_PTX") == 0);
	CHECK(D(cuGetErrorName)((CUresult)123456, &name) == CUDA_ERROR_INVALID_VALUE);
}

static void expect(CUdeviceptr dy, float factor)
{
	float got[N];
	for (int i = 0; i < N; i++)
		want[i] = fmaf(factor, x[i], want[i]);
	CU(D(cuMemcpyDtoH)(got, dy, sizeof got));
	CHECK(memcmp(got, want, sizeof got) == 0);
}

static void sums(CUfunction saxpy, CUmodule module)
{
	CUdeviceptr dx, dy, scale;
	CUstream stream;
	CUevent begin, end;
	size_t scale_bytes;
	float a = 1.25f, three = 3, milliseconds = -1;
	unsigned n = N;
	CU(D(cuMemAlloc)(&dx, sizeof x));
	CU(D(cuMemAlloc)(&dy, sizeof y));
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	CU(D(cuEventCreate)(&begin, CU_EVENT_DEFAULT));
	CU(D(cuEventCreate)(&end, CU_EVENT_DEFAULT));
	CU(D(cuMemcpyHtoD)(dx, x, sizeof x));
	CU(D(cuMemcpyHtoD)(dy, y, sizeof y));
	/* So few bytes may still be in flight, and no stream waits for them. */
	CU(D(cuCtxSynchronize)());
	void *parameters[] = {&dx, &dy, &a, &n};
	CU(D(cuEventRecord)(begin, stream));
	CU(D(cuLaunchKernel)(saxpy, (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
	CU(D(cuEventRecord)(end, stream));
	CU(D(cuStreamSynchronize)(stream));
	CU(D(cuEventElapsedTime)(&milliseconds, begin, end));
	CHECK(milliseconds >= 0);
	expect(dy, 2 * a);

	CU(D(cuModuleGetGlobal)(&scale, &scale_bytes, module, "scale"));
	CHECK(scale_bytes == sizeof three);
	CU(D(cuMemcpyHtoD)(scale, &three, sizeof three));
	struct {
		CUdeviceptr x, y;
		float a;
		unsigned n;
	} packed = {dx, dy, a, N};
	size_t packed_bytes = sizeof packed;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &packed_bytes, CU_LAUNCH_PARAM_END};
	CU(D(cuLaunchKernel)(saxpy, (N + 255) / 256, 1, 1, 256, 1, 1, 0, 0, NULL, extra));
	CU(D(cuCtxSynchronize)());
	expect(dy, 3 * a);
	CU(D(cuEventDestroy)(begin));
	CU(D(cuEventDestroy)(end));
	CU(D(cuStreamDestroy)(stream));
	CU(D(cuMemFree)(dx));
	CU(D(cuMemFree)(dy));
}

int main(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction saxpy;
	CUdeviceptr early;
	int count = 0, driver = 0;
	CHECK(D(cuMemAlloc)(&early, 16) == CUDA_ERROR_NOT_INITIALIZED);
	CU(D(cuInit)(0));
	CU(D(cuDriverGetVersion)(&driver));
	CHECK(driver >= 12000);
	CHECK(D(cuMemAlloc)(&early, 16) == CUDA_ERROR_INVALID_CONTEXT);
	CU(D(cuDeviceGetCount)(&count));
	CHECK(count >= 1);
	CU(D(cuDeviceGet)(&device, 0));
	device_facts(device);
	CU(D(cuCtxCreate)(&context, 0, device));
	for (int i = 0; i < N; i++)
		x[i] = (float)(i % 101), y[i] = want[i] = (float)(i % 7);
	CU(D(cuModuleLoadData)(&module, ptx));
	CU(D(cuModuleGetFunction)(&saxpy, module, "saxpy"));
	sums(saxpy, module);
	refusals(context);
	CU(D(cuModuleUnload)(module));
	CU(D(cuCtxDestroy)(context));
	puts("ok vector");
	return 0;
}

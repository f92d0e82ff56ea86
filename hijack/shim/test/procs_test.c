/* The lookup of entry points, with cases that broke real runtimes. */
#include "../zz_calls.h"

#include "expect.h"

#define IS(function) ((void *)(uintptr_t)(function))

static void expect_found(const char *name, int version, uint64_t flags, void *want)
{
	void *got = NULL;
	CUdriverProcAddressQueryResult status = 99;
	CUresult result = cuGetProcAddress_v2(name, &got, version, flags, &status);
	if (result != CUDA_SUCCESS || status != 0 || got != want) {
		fprintf(stderr, "%s %d %llu: result %d, status %d, %p, want %p\n", name, version,
			(unsigned long long)flags, result, status, got, want);
		expect_failures++;
	}
}

static void expect_missing(const char *name, int version, int want_status)
{
	void *got = (void *)1;
	CUdriverProcAddressQueryResult status = 99;
	EXPECT_EQUAL(cuGetProcAddress_v2(name, &got, version, 0, &status), CUDA_ERROR_NOT_FOUND);
	EXPECT(got == NULL);
	EXPECT_EQUAL(status, want_status);
}

static void test_versions(void)
{
	expect_found("cuGetProcAddress", 11030, 0, IS(cuGetProcAddress));
	expect_found("cuGetProcAddress", 11080, 0, IS(cuGetProcAddress));
	expect_found("cuGetProcAddress", 12000, 0, IS(cuGetProcAddress_v2));
	expect_found("cuGetProcAddress", 13000, 0, IS(cuGetProcAddress_v2));
	expect_found("cuMemAlloc", 3020, 0, IS(cuMemAlloc_v2));
	expect_found("cuCtxCreate", 3020, 0, IS(cuCtxCreate_v2));
	expect_found("cuCtxCreate", 11040, 0, IS(cuCtxCreate_v3));
	expect_found("cuCtxCreate", 12040, 0, IS(cuCtxCreate_v3));
	expect_found("cuCtxCreate", 12050, 0, IS(cuCtxCreate_v4));
	expect_found("cuStreamGetCaptureInfo", 11000, 0, IS(cuStreamGetCaptureInfo));
	expect_found("cuStreamGetCaptureInfo", 11030, 0, IS(cuStreamGetCaptureInfo_v2));
	expect_found("cuStreamGetCaptureInfo", 12030, 0, IS(cuStreamGetCaptureInfo_v3));
	expect_found("cuGraphAddKernelNode", 10000, 0, IS(cuGraphAddKernelNode));
	expect_found("cuGraphAddKernelNode", 12000, 0, IS(cuGraphAddKernelNode_v2));
	expect_found("cuDeviceGetUuid", 11040, 0, IS(cuDeviceGetUuid_v2));
}

static void test_streams(void)
{
	expect_found("cuLaunchKernel", 12040, 0, IS(cuLaunchKernel));
	expect_found("cuLaunchKernel", 12040, 1, IS(cuLaunchKernel));
	expect_found("cuLaunchKernel", 12040, 2, IS(cuLaunchKernel_ptsz));
	expect_found("cuMemcpy", 12040, 2, IS(cuMemcpy_ptds));
	expect_found("cuMemAlloc", 12040, 2, IS(cuMemAlloc_v2));
	void *got = NULL;
	EXPECT_EQUAL(cuGetProcAddress_v2_ptsz("cuLaunchKernel", &got, 12040, 0, NULL),
		     CUDA_SUCCESS);
	EXPECT(got == IS(cuLaunchKernel_ptsz));
	EXPECT_EQUAL(cuGetProcAddress_v2_ptsz("cuLaunchKernel", &got, 12040, 1, NULL),
		     CUDA_SUCCESS);
	EXPECT(got == IS(cuLaunchKernel));
}

static void test_missing(void)
{
	expect_missing("", 12040, 1);
	expect_missing("cuNoSuchThing", 12040, 1);
	expect_missing("cuMemAlloc_v2", 12040, 1);
	expect_missing("cuLibraryLoadData", 11080, 2);
	void *got;
	EXPECT_EQUAL(cuGetProcAddress(NULL, &got, 12040, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuGetProcAddress("cuInit", NULL, 12040, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuGetProcAddress("cuInit", &got, 12040, 8), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	test_versions();
	test_streams();
	test_missing();
	return expect_result("procs_test");
}

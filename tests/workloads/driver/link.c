/* cuLink: texts that need each other, in either order; an invalid one; undefined names; texts that
 * declare a function differently; and the reported shared memory of a kernel. */
#include "driver.h"
#include <string.h>

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static const char user[] =
	HEAD ".extern .func (.param .b32 r) twice(.param .b32 n);\n"
	     ".extern .global .align 4 .u32 shift;\n"
	     ".visible .entry apply(.param .u64 p)\n"
	     "{ .reg .b64 %p; .reg .b32 %n, %s; .shared .align 4 .b8 some[40];\n"
	     "ld.param.u64 %p, [p]; ld.global.u32 %n, [%p];\n"
	     "st.shared.u32 [some+36], %n; ld.shared.u32 %n, [some+36];\n"
	     "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %n;\n"
	     "call (b), twice, (a); ld.param.b32 %n, [b]; }\n"
	     "ld.global.u32 %s, [shift]; add.u32 %n, %n, %s; st.global.u32 [%p], %n; ret; }\n";

static const char provider[] = HEAD
	".visible .global .align 4 .u32 shift = 5;\n"
	".visible .func (.param .b32 r) twice(.param .b32 n)\n"
	"{ .reg .b32 %n; ld.param.b32 %n, [n]; add.u32 %n, %n, %n; st.param.b32 [r], %n; ret; }\n";

/* They define twice without a result, with another parameter, and as a kernel. */
static const char *const misfits[] = {
	HEAD ".visible .global .align 4 .u32 shift = 5;\n"
	     ".visible .func twice(.param .b32 n) { ret; }\n",
	HEAD ".visible .global .align 4 .u32 shift = 5;\n"
	     ".visible .func (.param .b32 r) twice(.param .b64 n) { ret; }\n",
	HEAD ".visible .global .align 4 .u32 shift = 5;\n"
	     ".visible .entry twice(.param .b32 n) { ret; }\n",
	HEAD ".visible .global .align 4 .b8 shift[2];\n"
	     ".visible .func (.param .b32 r) twice(.param .b32 n) { ret; }\n"};

static const char wrong[] = HEAD ".visible .entry k() { .reg .b32 %r; frobnicate.u32 %r, %r; }\n";

static char errors[1024];

/* The options are used until the linker is destroyed. */
static CUlinkState begin(void)
{
	static CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
					 CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	static void *values[2];
	CUlinkState state;
	values[0] = errors;
	values[1] = (void *)sizeof errors;
	memset(errors, 0, sizeof errors);
	CU(cuLinkCreate(2, options, values, &state));
	return state;
}

static CUresult add(CUlinkState state, const char *text)
{
	return cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)text, strlen(text) + 1, "text", 0,
			     NULL, NULL);
}

static void both(const char *first, const char *second)
{
	void *image;
	size_t bytes;
	CUmodule module;
	CUfunction apply;
	CUdeviceptr memory;
	unsigned value = 21;
	int shared;
	CUlinkState state = begin();
	CU(add(state, first));
	CU(add(state, second));
	CU(cuLinkComplete(state, &image, &bytes));
	CU(cuModuleLoadData(&module, image));
	CU(cuLinkDestroy(state));
	CU(cuModuleGetFunction(&apply, module, "apply"));
	CU(cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, apply));
	CHECK(shared == 40);
	CU(cuMemAlloc(&memory, sizeof value));
	CU(cuMemcpyHtoD(memory, &value, sizeof value));
	void *parameters[] = {&memory};
	CU(cuLaunchKernel(apply, 1, 1, 1, 1, 1, 1, 0, 0, parameters, NULL));
	CU(cuMemcpyDtoH(&value, memory, sizeof value));
	CHECK(value == 2 * 21 + 5);
	CU(cuMemFree(memory));
	CU(cuModuleUnload(module));
}

/* Texts that do not fit together are refused by some call, and the next ones work. */
static void apart(const char *first, const char *second)
{
	void *image;
	CUmodule module;
	CUlinkState state = begin();
	CUresult result = add(state, first);
	if (result == CUDA_SUCCESS)
		result = add(state, second);
	if (result == CUDA_SUCCESS)
		result = cuLinkComplete(state, &image, NULL);
	if (result == CUDA_SUCCESS)
		result = cuModuleLoadData(&module, image);
	CHECK(result == CUDA_ERROR_INVALID_PTX);
	CU(cuLinkDestroy(state));
}

int main(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	void *image;
	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuCtxCreate(&context, 0, device));
	both(user, provider);
	both(provider, user);
	for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
		apart(user, misfits[i]);
		apart(misfits[i], user);
	}
	both(user, provider);

	CUlinkState state = begin();
	CU(add(state, provider));
	CHECK(errors[0] == '\0');
	CHECK(add(state, wrong) == CUDA_ERROR_INVALID_PTX);
	CHECK(strstr(errors, "frobnicate") != NULL);
	CU(cuLinkDestroy(state));

	state = begin();
	CU(add(state, user));
	if (cuLinkComplete(state, &image, NULL) == CUDA_SUCCESS)
		CHECK(cuModuleLoadData(&module, image) == CUDA_ERROR_INVALID_PTX);
	CU(cuLinkDestroy(state));
	CHECK(cuModuleLoadData(&module, user) == CUDA_ERROR_INVALID_PTX);
	CU(cuCtxDestroy(context));
	puts("ok link");
	return 0;
}

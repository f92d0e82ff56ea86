/* Launches beyond a kernel's own bounds, in all forms of the call, and the attributes that the
 * bounds have. The driver refuses more threads than .maxntid and other shapes than .reqntid with
 * INVALID_VALUE; LAUNCH_OUT_OF_RESOURCES is for blocks whose registers do not suffice. */
#include "driver.h"

static const char *const text = ".version 7.8\n.target sm_70\n.address_size 64\n"
				".visible .entry free() { ret; }\n"
				".visible .entry most() .maxntid 64, 1, 1 { ret; }\n"
				".visible .entry plane() .maxntid 8, 8, 1 { ret; }\n"
				".visible .entry exact() .reqntid 32, 2, 1 { ret; }\n"
				".visible .entry few(.param .u64 p) .maxntid 128 .maxnreg 24 {\n"
				".reg .b64 %a; .reg .b32 %v<40>; ld.param.u64 %a, [p];\n"
				"ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%a]; ld.global.v4.u32 "
				"{%v4, %v5, %v6, %v7}, [%a+16];\n"
				"ld.global.v4.u32 {%v8, %v9, %v10, %v11}, [%a+32];\n"
				"ld.global.v4.u32 {%v12, %v13, %v14, %v15}, [%a+48];\n"
				"ld.global.v4.u32 {%v16, %v17, %v18, %v19}, [%a+64];\n"
				"ld.global.v4.u32 {%v20, %v21, %v22, %v23}, [%a+80];\n"
				"st.global.v4.u32 [%a+96], {%v0, %v5, %v10, %v15};\n"
				"st.global.v4.u32 [%a+112], {%v1, %v6, %v11, %v16};\n"
				"st.global.v4.u32 [%a+128], {%v2, %v7, %v12, %v17};\n"
				"st.global.v4.u32 [%a+144], {%v3, %v8, %v13, %v18};\n"
				"st.global.v4.u32 [%a+160], {%v4, %v9, %v14, %v19};\n"
				"st.global.v4.u32 [%a+176], {%v20, %v21, %v22, %v23}; ret; }\n";

static CUresult launch(CUfunction f, unsigned x, unsigned y, unsigned z)
{
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = x,
				 .blockDimY = y,
				 .blockDimZ = z};
	CUresult result = D(cuLaunchKernel)(f, 1, 1, 1, x, y, z, 0, 0, NULL, NULL);
	CHECK(D(cuLaunchKernelEx)(&config, f, NULL, NULL) == result);
	CHECK(D(cuLaunchCooperativeKernel)(f, 1, 1, 1, x, y, z, 0, 0, NULL) == result);
	CU(D(cuCtxSynchronize)());
	return result;
}

static int attribute(CUfunction f, CUfunction_attribute which)
{
	int value = -1;
	CU(D(cuFuncGetAttribute)(&value, which, f));
	return value;
}

/* CU_JIT_MAX_REGISTERS limits the registers of all kernels, in modules, libraries and linked code.
 */
static void limits(void)
{
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *value = (void *)(uintptr_t)17, *image;
	CUmodule module;
	CUlibrary library;
	CUlinkState state;
	CUfunction few, bounded;
	CU(D(cuModuleLoadDataEx)(&module, text, 1, &option, &value));
	CU(D(cuModuleGetFunction)(&few, module, "few"));
	CU(D(cuModuleGetFunction)(&bounded, module, "most"));
	CHECK(attribute(few, CU_FUNC_ATTRIBUTE_NUM_REGS) <= 17);
	CHECK(launch(bounded, 64, 1, 1) == CUDA_SUCCESS);
	CU(D(cuModuleUnload)(module));
	CU(D(cuLibraryLoadData)(&library, text, &option, &value, 1, NULL, NULL, 0));
	CU(D(cuLibraryGetModule)(&module, library));
	CU(D(cuModuleGetFunction)(&few, module, "few"));
	CHECK(attribute(few, CU_FUNC_ATTRIBUTE_NUM_REGS) <= 17);
	CU(D(cuLibraryUnload)(library));
	CU(D(cuLinkCreate)(1, &option, &value, &state));
	CU(D(cuLinkAddData)(state, CU_JIT_INPUT_PTX, (void *)text, strlen(text) + 1, "text", 0,
			    NULL, NULL));
	CU(D(cuLinkComplete)(state, &image, NULL));
	CU(D(cuModuleLoadData)(&module, image));
	CU(D(cuLinkDestroy)(state));
	CU(D(cuModuleGetFunction)(&few, module, "few"));
	CHECK(attribute(few, CU_FUNC_ATTRIBUTE_NUM_REGS) <= 17);
}

int main(void)
{
	static const struct {
		const char *kernel;
		unsigned x, y, z;
		CUresult want;
	} rows[] = {
		{"free", 1024, 1, 1, CUDA_SUCCESS},
		{"free", 1025, 1, 1, CUDA_ERROR_INVALID_VALUE},
		{"free", 32, 32, 2, CUDA_ERROR_INVALID_VALUE},
		{"free", 1, 1, 65, CUDA_ERROR_INVALID_VALUE},
		{"most", 64, 1, 1, CUDA_SUCCESS},
		{"most", 1, 64, 1, CUDA_SUCCESS},
		{"most", 65, 1, 1, CUDA_ERROR_INVALID_VALUE},
		{"most", 1024, 1, 1, CUDA_ERROR_INVALID_VALUE},
		{"most", 33, 2, 1, CUDA_ERROR_INVALID_VALUE},
		{"plane", 64, 1, 1, CUDA_SUCCESS},
		{"plane", 65, 1, 1, CUDA_ERROR_INVALID_VALUE},
		{"exact", 32, 2, 1, CUDA_SUCCESS},
		{"few", 129, 1, 1, CUDA_ERROR_INVALID_VALUE},
	};
	CUmodule module;
	CUfunction f, few;
	use_gpu();
	CU(D(cuModuleLoadData)(&module, text));
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		CU(D(cuModuleGetFunction)(&f, module, rows[i].kernel));
		CUresult got = launch(f, rows[i].x, rows[i].y, rows[i].z);
		if (got != rows[i].want)
			fprintf(stderr, "%s with %u, %u, %u: got %d, want %d\n", rows[i].kernel,
				rows[i].x, rows[i].y, rows[i].z, got, rows[i].want);
		CHECK(got == rows[i].want);
	}
	CU(D(cuModuleGetFunction)(&f, module, "free"));
	CU(D(cuModuleGetFunction)(&few, module, "few"));
	CHECK(attribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024);
	CHECK(attribute(few, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 128);
	/* An empty kernel needs hardly any registers; the other one needs more than it may have. */
	CHECK(attribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS) <= 16);
	CHECK(attribute(few, CU_FUNC_ATTRIBUTE_NUM_REGS) > 16);
	CHECK(attribute(few, CU_FUNC_ATTRIBUTE_NUM_REGS) <= 24);
	limits();
	puts("ok bounds");
	return 0;
}

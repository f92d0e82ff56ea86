/* A kernel that adds a number to words of memory. */
#pragma once
#include "driver.h"

/* PTX, for a module that may contain more. */
#define ADD_PTX                                                                         \
	".version 7.0\n.target sm_70\n.address_size 64\n"                               \
	".visible .entry add(.param .u64 x, .param .u32 a, .param .u32 n)\n"            \
	"{\n"                                                                           \
	" .reg .pred %p; .reg .b32 %r<7>; .reg .b64 %d<4>;\n"                           \
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"          \
	" mad.lo.s32 %r1, %r1, %r2, %r3;\n"                                             \
	" ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra DONE;\n"             \
	" ld.param.u64 %d1, [x]; ld.param.u32 %r5, [a];\n"                              \
	" mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;\n"                           \
	" ld.global.u32 %r6, [%d3]; add.u32 %r6, %r6, %r5; st.global.u32 [%d3], %r6;\n" \
	"DONE: ret;\n"                                                                  \
	"}\n"

static CUfunction add;

static inline void run_add(CUdeviceptr address, unsigned amount, unsigned count)
{
	void *parameters[] = {&address, &amount, &count};
	CU(D(cuLaunchKernel)(add, (count + 255) / 256, 1, 1, 256, 1, 1, 0, 0, parameters, NULL));
}

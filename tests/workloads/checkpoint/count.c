/* count STEPS ELEMENTS MICROSECONDS [FILE]: integers on the GPU; the CPU checks each step. It
 * sleeps between steps. It ends with status 7 after all steps, or once FILE exists, but not before
 * the file that HOLD names exists. Standard output and the file "steps" get one line per step, so
 * that a lost or repeated step is visible. */
#include "../driver/driver.h"
#include "hold.h"
#include <string.h>
#include <unistd.h>

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .align 4 .u32 taken = 0;\n"
	".visible .entry step(.param .u64 x, .param .u32 n)\n"
	"{\n"
	" .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
	" mad.lo.s32 %r1, %r1, %r2, %r3;\n"
	" ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra DONE;\n"
	" ld.param.u64 %d1, [x]; cvta.to.global.u64 %d1, %d1;\n"
	" mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d1, %d3;\n"
	" ld.global.u32 %r5, [%d4]; mad.lo.u32 %r5, %r5, 1664525, %r1;\n"
	" add.u32 %r5, %r5, 1013904223; st.global.u32 [%d4], %r5;\n"
	" setp.ne.u32 %p, %r1, 0; @%p bra DONE;\n"
	" ld.global.u32 %r6, [taken]; add.u32 %r6, %r6, 1; st.global.u32 [taken], %r6;\n"
	"DONE: ret;\n"
	"}\n";

struct work {
	CUfunction step;
	CUdeviceptr numbers, taken;
	CUstream stream;
	CUevent done;
	unsigned elements, *want, *got;
};

static void begin(struct work *w, unsigned elements)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	size_t bytes;
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuCtxCreate)(&context, 0, device));
	CU(D(cuModuleLoadData)(&module, ptx));
	CU(D(cuModuleGetFunction)(&w->step, module, "step"));
	CU(D(cuModuleGetGlobal)(&w->taken, &bytes, module, "taken"));
	w->elements = elements;
	CU(D(cuMemAlloc)(&w->numbers, elements * sizeof(unsigned)));
	CU(D(cuMemsetD32)(w->numbers, 1, elements));
	CU(D(cuStreamCreate)(&w->stream, CU_STREAM_NON_BLOCKING));
	CU(D(cuEventCreate)(&w->done, CU_EVENT_DEFAULT));
	CU(D(cuMemHostAlloc)((void **)&w->got, elements * sizeof(unsigned), 0));
	w->want = malloc(elements * sizeof(unsigned));
	for (unsigned i = 0; i < elements; i++)
		w->want[i] = 1;
	CU(D(cuCtxSynchronize)());
}

static void step(struct work *w, unsigned number)
{
	unsigned blocks = (w->elements + 255) / 256, taken = 0;
	size_t bytes = w->elements * sizeof(unsigned);
	void *parameters[] = {&w->numbers, &w->elements};
	CU(D(cuLaunchKernel)(w->step, blocks, 1, 1, 256, 1, 1, 0, w->stream, parameters, NULL));
	CU(D(cuMemcpyDtoHAsync)(w->got, w->numbers, bytes, w->stream));
	CU(D(cuEventRecord)(w->done, w->stream));
	for (unsigned i = 0; i < w->elements; i++)
		w->want[i] = w->want[i] * 1664525u + i + 1013904223u;
	CU(D(cuEventSynchronize)(w->done));
	CHECK(memcmp(w->got, w->want, bytes) == 0);
	CU(D(cuMemcpyDtoH)(&taken, w->taken, sizeof taken));
	CHECK(taken == number + 1);
}

int main(int count, char **arguments)
{
	CHECK(count == 4 || count == 5);
	unsigned steps = atoi(arguments[1]), rest = atoi(arguments[3]);
	struct work work;
	FILE *log = fopen("steps", "w");
	CHECK(log);
	begin(&work, atoi(arguments[2]));
	for (unsigned i = 0; i < steps && (count == 4 || access(arguments[4], F_OK) != 0); i++) {
		step(&work, i);
		unsigned last = work.want[work.elements - 1];
		CHECK(printf("step %u %08x\n", i, last) > 0 && fflush(stdout) == 0);
		CHECK(fprintf(log, "%u %08x\n", i, last) > 0 && fflush(log) == 0);
		rest_for(rest);
	}
	hold();
	puts("ok count");
	return 7;
}

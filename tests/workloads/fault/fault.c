/* Programs that cause errors; the command line names one. Each checks the error that it gets, and
 * prints it. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "../driver/driver.h"

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			  ".visible .entry store(.param .u64 p)\n"
			  "{ .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [p]; mov.u32 %r, 7; "
			  "st.global.u32 [%d], %r; ret; }\n"
			  ".visible .entry forever(.param .u64 p)\n"
			  "{ .reg .b32 %r; mov.u32 %r, 0; AGAIN: add.u32 %r, %r, 1; bra AGAIN; }\n"
			  ".visible .entry trap_(.param .u64 p)\n{ trap; }\n";

static CUcontext context;
static CUmodule module;
static CUdeviceptr memory;

static void begin(void)
{
	CU(cuInit(0));
	CU(cuCtxCreate(&context, 0, 0));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuMemAlloc(&memory, 4096));
}

static void launch(const char *name, CUdeviceptr argument)
{
	CUfunction function;
	void *parameters[] = {&argument};
	CU(cuModuleGetFunction(&function, module, name));
	CU(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, NULL));
}

/* A fault on the GPU: reported by the next waiting call, and by every later one. */
static void faults(const char *kernel, CUdeviceptr argument, CUresult want)
{
	CUdeviceptr other;
	launch(kernel, argument);
	CHECK(cuCtxSynchronize() == want);
	CHECK(cuMemAlloc(&other, 64) == want);
	CHECK(cuMemcpyHtoD(memory, &other, sizeof other) == want);
	CHECK(cuCtxSynchronize() == want);
}

static void fault(const char *kernel, CUdeviceptr argument, CUresult want)
{
	begin();
	faults(kernel, argument, want);
}

/* A store to an unmapped address between mapped GPU memory. */
static void stray(void)
{
	begin();
	CUdeviceptr nowhere = memory + (1ull << 38);
	printf("stray %#llx\n", nowhere);
	faults("store", nowhere, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void bad_ptx(const char *text, const char *mention)
{
	char log[4096] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)sizeof log};
	CUmodule broken;
	begin();
	CHECK(cuModuleLoadDataEx(&broken, text, 2, options, values) == CUDA_ERROR_INVALID_PTX);
	printf("log: %s\n", log);
	CHECK(strstr(log, mention) != NULL);
	/* The context is still usable. */
	launch("store", memory);
	CU(cuCtxSynchronize());
}

static void out_of_memory(void)
{
	size_t available, total;
	CUdeviceptr all, more;
	begin();
	CU(cuMemGetInfo(&available, &total));
	CHECK(cuMemAlloc(&all, total + (1 << 21)) == CUDA_ERROR_OUT_OF_MEMORY);
	CU(cuMemAlloc(&all, available / 2));
	CHECK(cuMemAlloc(&more, available / 2 + (64 << 20)) == CUDA_ERROR_OUT_OF_MEMORY);
	CU(cuMemFree(all));
	CU(cuMemAlloc(&more, available / 2));
	CU(cuMemFree(more));
}

/* More pinned memory than the limit of session files allows. */
static void pinned_out_of_memory(void)
{
	void *host[64];
	int got = 0;
	begin();
	while (got < 64 && cuMemHostAlloc(&host[got], 8 << 20, 0) == CUDA_SUCCESS) {
		memset(host[got], 1, 8 << 20);
		got++;
	}
	printf("%d blocks\n", got);
	CHECK(got < 64);
	while (got-- > 0)
		CU(cuMemFreeHost(host[got]));
	CU(cuMemHostAlloc(&host[0], 1 << 20, 0));
}

/* Waits for a kernel that never ends. The test ends the worker, or this program. */
static void hang(void)
{
	begin();
	launch("forever", 0);
	puts("waiting");
	fflush(stdout);
	CUresult result = cuCtxSynchronize();
	CHECK(result != CUDA_SUCCESS);
	CHECK(cuCtxSynchronize() != CUDA_SUCCESS);
	CHECK(cuMemAlloc(&memory, 64) != CUDA_SUCCESS);
}

/* The same, but it polls instead of waiting. */
static void poll_event(void)
{
	CUevent event;
	CUresult result;
	begin();
	CU(cuEventCreate(&event, CU_EVENT_DEFAULT));
	launch("forever", 0);
	CU(cuEventRecord(event, NULL));
	puts("waiting");
	fflush(stdout);
	while ((result = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
		;
	CHECK(result != CUDA_SUCCESS);
	CHECK(cuEventQuery(event) == result);
}

/* Works until the file named in the environment exists, then checks its results. */
static void steady(const char *until)
{
	uint32_t got = 0;
	begin();
	puts("working");
	fflush(stdout);
	do {
		CU(cuMemsetD32(memory, 1, 4));
		launch("store", memory);
		CU(cuMemcpyDtoH(&got, memory, sizeof got));
		CHECK(got == 7);
		usleep(1000);
	} while (access(until, F_OK) != 0);
}

/* Faults, and keeps its poisoned context until a file exists, so that its state can be inspected.
 */
static void failed(const char *until)
{
	fault("store", 0, CUDA_ERROR_ILLEGAL_ADDRESS);
	while (access(until, F_OK) != 0)
		usleep(1000);
}

/* Writes garbage over all memory that it shares with its worker, then makes more calls. Only this
 * program may be affected. */
static void hostile(unsigned seed)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned char *from[16];
	size_t bytes[16];
	int areas = 0;
	begin();
	while (fgets(line, sizeof line, maps) && areas < 16) {
		unsigned long low, high;
		char mode[8];
		if (strstr(line, "/sessions/") && !strstr(line, "arena") &&
		    sscanf(line, "%lx-%lx %7s", &low, &high, mode) == 3 && mode[1] == 'w') {
			from[areas] = (unsigned char *)low;
			bytes[areas++] = high - low;
		}
	}
	fclose(maps);
	CHECK(areas > 0);
	puts("attacking");
	fflush(stdout);
	srand(seed);
	for (int round = 0; round < 200; round++) {
		int area = rand() % areas;
		size_t at = ((size_t)rand() << 12 ^ (size_t)rand()) % bytes[area] & ~7ul;
		/* Half of the writes go to the words that control the ring. */
		if (round % 2 == 0)
			at %= 4096;
		size_t length = (size_t)(1 + rand() % 64) * 8;
		for (size_t i = 0; i < length && at + i < bytes[area]; i++)
			from[area][at + i] = (unsigned char)(rand() >> 7);
		if (round % 20 == 19)
			usleep(5000);
	}
	/* Calls may fail now, or never return: an alarm ends the program. */
	alarm(3);
	for (int i = 0; i < 100; i++) {
		CUdeviceptr p;
		cuMemAlloc(&p, 64);
		cuCtxSynchronize();
	}
}

int main(int argc, char **argv)
{
	CHECK(argc >= 2);
	const char *what = argv[1];
	if (strcmp(what, "absent") == 0)
		CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE);
	else if (strcmp(what, "refused") == 0)
		CHECK(cuInit(0) != CUDA_SUCCESS);
	else if (strcmp(what, "bounds") == 0)
		stray();
	else if (strcmp(what, "null") == 0)
		fault("store", 0, CUDA_ERROR_ILLEGAL_ADDRESS);
	else if (strcmp(what, "misaligned") == 0) {
		begin();
		launch("store", memory + 1);
		CHECK(cuCtxSynchronize() == CUDA_ERROR_MISALIGNED_ADDRESS);
	} else if (strcmp(what, "trap") == 0) {
		begin();
		launch("trap_", 0);
		CHECK(cuCtxSynchronize() != CUDA_SUCCESS);
	} else if (strcmp(what, "syntax") == 0)
		bad_ptx(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n  "
			"mov.u32 , 5;\n}\n",
			"line 6");
	else if (strcmp(what, "instruction") == 0)
		bad_ptx(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n"
			"{ .reg .b32 %r<3>; frobnicate.u32 %r1, %r2; }\n",
			"frobnicate");
	else if (strcmp(what, "memory") == 0)
		out_of_memory();
	else if (strcmp(what, "pinned") == 0)
		pinned_out_of_memory();
	else if (strcmp(what, "failed") == 0)
		failed(argv[2]);
	else if (strcmp(what, "hang") == 0)
		hang();
	else if (strcmp(what, "poll") == 0)
		poll_event();
	else if (strcmp(what, "steady") == 0)
		steady(argv[2]);
	else if (strcmp(what, "hostile") == 0)
		hostile((unsigned)atoi(argv[2]));
	else if (strcmp(what, "brief") == 0) {
		begin();
		launch("store", memory);
		CU(cuCtxSynchronize());
	} else if (strcmp(what, "abrupt") == 0) {
		/* Exits in the middle of its work without cleaning up. */
		begin();
		launch("store", memory);
		_exit(0);
	} else
		CHECK(!"a known word");
	printf("ok %s\n", what);
	return 0;
}

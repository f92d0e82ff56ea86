/* states WHICH: ten steps, then a state in which a program is hard to save, then ten more steps.
 * Each step is checked, and the program ends with status 7. It prints "now" when the state begins
 * and "past" when it ends. WHICH is:
 * - kernel: a kernel runs for seconds
 * - wait: the same, and the program waits for it in a synchronize
 * - callback: a host function waits for a file "enough", and the program waits for its stream
 * - capture: a stream is being captured until that file exists
 * - asleep: the program sleeps
 * - register: private memory is registered for kernels, and back, until that file exists
 *
 * Afterwards it waits for the file that HOLD names. */
#include "../driver/driver.h"
#include "hold.h"
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			  ".visible .entry turn(.param .u64 x, .param .u32 turns)\n"
			  "{\n"
			  " .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<3>;\n"
			  " mov.u32 %r1, %tid.x; ld.param.u32 %r3, [turns];\n"
			  " ld.param.u64 %d1, [x]; cvta.to.global.u64 %d1, %d1;\n"
			  " mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;\n"
			  " ld.global.u32 %r2, [%d1]; mov.u32 %r4, 0;\n"
			  "AGAIN:\n"
			  " mad.lo.u32 %r2, %r2, 1664525, %r1; add.u32 %r2, %r2, 1013904223;\n"
			  " add.u32 %r4, %r4, 1; setp.lt.u32 %p, %r4, %r3; @%p bra AGAIN;\n"
			  " st.global.u32 [%d1], %r2;\n"
			  " ret;\n"
			  "}\n";

enum { N = 32, LONG = 40000000 };

static CUfunction turn;
static CUdeviceptr numbers;
static CUstream stream;
static unsigned want[N], got[N], called;

static void begin(unsigned turns)
{
	void *parameters[] = {&numbers, &turns};
	CU(D(cuLaunchKernel)(turn, 1, 1, 1, N, 1, 1, 0, stream, parameters, NULL));
}

static void expect(unsigned turns)
{
	for (unsigned t = 0; t < turns; t++)
		for (unsigned i = 0; i < N; i++)
			want[i] = want[i] * 1664525u + i + 1013904223u;
}

static void launch(unsigned turns)
{
	begin(turns);
	expect(turns);
}

static void check(void)
{
	CU(D(cuStreamSynchronize)(stream));
	CU(D(cuMemcpyDtoH)(got, numbers, sizeof got));
	CHECK(memcmp(got, want, sizeof got) == 0);
}

static void say(const char *text)
{
	CHECK(printf("%s %08x\n", text, want[N - 1]) > 0 && fflush(stdout) == 0);
}

static void rest(unsigned milliseconds)
{
	struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
	while (nanosleep(&left, &left))
		;
}

static void steps(void)
{
	for (int i = 0; i < 10; i++) {
		launch(3);
		check();
		say("step");
		rest(5);
	}
}

static void wait_for_enough(void)
{
	while (access("enough", F_OK) != 0)
		rest(10);
}

static void doze(void *data)
{
	wait_for_enough();
	++*(unsigned *)data;
}

/* The captured work runs once afterwards. */
static void captured(void)
{
	CUgraph graph;
	CUgraphExec ready;
	CU(D(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(5);
	say("now");
	wait_for_enough();
	CU(D(cuStreamEndCapture)(stream, &graph));
	CU(D(cuGraphInstantiateWithFlags)(&ready, graph, 0));
	CU(D(cuGraphLaunch)(ready, stream));
	CU(D(cuGraphDestroy)(graph));
	check();
}

/* The memory keeps its content, each word its index. */
static void registered(void)
{
	enum { WORDS = 48 << 20 };
	unsigned *memory =
		mmap(NULL, WORDS * 4UL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	for (unsigned i = 0; i < WORDS; i++)
		memory[i] = i;
	say("now");
	while (access("enough", F_OK) != 0) {
		CU(D(cuMemHostRegister)(memory, WORDS * 4UL, CU_MEMHOSTREGISTER_DEVICEMAP));
		CU(D(cuMemHostUnregister)(memory));
	}
	for (unsigned i = 0; i < WORDS; i++)
		CHECK(memory[i] == i);
	CHECK(munmap(memory, WORDS * 4UL) == 0);
}

static void enter_state(const char *which)
{
	if (!strcmp(which, "capture")) {
		captured();
		return;
	}
	if (!strcmp(which, "register")) {
		registered();
		return;
	}
	if (!strcmp(which, "asleep")) {
		say("now");
		rest(2000);
		return;
	}
	if (!strcmp(which, "callback")) {
		CU(D(cuLaunchHostFunc)(stream, doze, &called));
		say("now");
		CU(D(cuStreamSynchronize)(stream));
		CHECK(called == 1);
		return;
	}
	/* When "now" is printed, the kernel runs, however slow this process is. */
	begin(LONG);
	say("now");
	if (!strcmp(which, "wait"))
		CU(D(cuStreamSynchronize)(stream));
	expect(LONG);
	check();
}

int main(int count, char **arguments)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CHECK(count == 2);
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuCtxCreate)(&context, 0, device));
	CU(D(cuModuleLoadData)(&module, ptx));
	CU(D(cuModuleGetFunction)(&turn, module, "turn"));
	CU(D(cuMemAlloc)(&numbers, sizeof want));
	CU(D(cuMemsetD32)(numbers, 0, N));
	CU(D(cuCtxSynchronize)()); /* the stream does not wait for it */
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	steps();
	enter_state(arguments[1]);
	hold();
	say("past");
	steps();
	puts("ok states");
	return 7;
}

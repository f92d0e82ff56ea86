/* Measures calls and copies of a program, and the references to compare them with. Prints lines of
 * a name and a number. */
#define _GNU_SOURCE
#include "../../workloads/driver/driver.h"
#include "clock.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d,\n"
	" .param .u32 e, .param .u32 f, .param .f32 g, .param .f32 h)\n{ ret; }\n";

enum { ROUNDS = 31, BURST = 1000, PINGS = 20000, MIB = 1 << 20 };

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *times, int n)
{
	qsort(times, (size_t)n, sizeof *times, order);
	return times[n / 2];
}

static void say(const char *name, double value)
{
	printf("%s %.4g\n", name, value);
	fflush(stdout);
}

/* An 8-byte message to another process and back. */
static void socket_round_trip(void)
{
	int ends[2];
	char message[8] = "";
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		exit(1);
	pid_t child = fork();
	if (child == 0) {
		close(ends[0]); /* otherwise this process would not see the end of the parent's half
				 */
		while (read(ends[1], message, 8) == 8 && write(ends[1], message, 8) == 8)
			;
		_exit(0);
	}
	close(ends[1]);
	double start = now();
	for (int i = 0; i < PINGS; i++)
		if (write(ends[0], message, 8) != 8 || read(ends[0], message, 8) != 8)
			exit(1);
	say("socket_ns", (now() - start) / PINGS);
	close(ends[0]);
	waitpid(child, NULL, 0);
}

/* The minimum of a synchronous call: a word in shared memory, to the other side and back, while
 * both spin. */
static void bare_ping_pong(void)
{
	_Atomic uint32_t *words =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();
	if (child == 0) {
		for (uint32_t i = 1; i <= PINGS * 10; i++) {
			while (atomic_load_explicit(&words[0], memory_order_acquire) != i)
				__builtin_ia32_pause();
			atomic_store_explicit(&words[64], i, memory_order_release);
		}
		_exit(0);
	}
	double start = now();
	for (uint32_t i = 1; i <= PINGS * 10; i++) {
		atomic_store_explicit(&words[0], i, memory_order_release);
		while (atomic_load_explicit(&words[64], memory_order_acquire) != i)
			__builtin_ia32_pause();
	}
	say("bare_ns", (now() - start) / (PINGS * 10));
	waitpid(child, NULL, 0);
}

/* Bursts that fit the ring, so that the program does not wait for the worker. */
static void launches(CUfunction function)
{
	uint64_t a = 1, b = 2, c = 3, d = 4;
	uint32_t e = 5, f = 6;
	float g = 7, h = 8;
	void *parameters[] = {&a, &b, &c, &d, &e, &f, &g, &h};
	double times[ROUNDS];
	for (int round = 0; round < ROUNDS; round++) {
		double start = now();
		for (int i = 0; i < BURST; i++)
			CU(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, NULL));
		times[round] = (now() - start) / BURST;
		CU(cuCtxSynchronize());
	}
	say("launch_ns", median(times, ROUNDS));
	for (int round = 0; round < ROUNDS; round++) {
		double start = now();
		for (int i = 0; i < 100; i++)
			CU(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, NULL));
		CU(cuCtxSynchronize());
		times[round] = (now() - start) / 100;
	}
	say("launched_and_done_ns", median(times, ROUNDS));
}

static void synchronous(void)
{
	double times[ROUNDS];
	size_t available, total;
	for (int round = 0; round < ROUNDS; round++) {
		double start = now();
		for (int i = 0; i < BURST; i++)
			CU(cuMemGetInfo(&available, &total));
		times[round] = (now() - start) / BURST;
	}
	say("sync_ns", median(times, ROUNDS));
}

enum { MEMCPY, TO_DEVICE, FROM_DEVICE, WAYS, TURNS = 15 };

static void copy_once(int way, size_t bytes, CUdeviceptr device, char *host, char *other)
{
	switch (way) {
	case MEMCPY:
		memcpy(other, host, bytes);
		break;
	case TO_DEVICE:
		CU(cuMemcpyHtoD(device, host, bytes));
		break;
	default:
		CU(cuMemcpyDtoH(host, device, bytes));
	}
}

/* Copies alternating with memcpy, so that both run under the same conditions. Returns gigabytes a
 * second. */
static void copy_rates(const char *prefix, size_t bytes, CUdeviceptr device, char *host,
		       char *other)
{
	static const char *const names[WAYS] = {"memcpy", "to", "from"};
	double times[WAYS][TURNS];
	for (int turn = -1; turn < TURNS; turn++) /* the first is a warm-up */
		for (int way = 0; way < WAYS; way++) {
			double start = now();
			copy_once(way, bytes, device, host, other);
			if (turn >= 0)
				times[way][turn] = now() - start;
		}
	for (int way = 0; way < WAYS; way++) {
		char name[64];
		snprintf(name, sizeof name, "%s_%s_%zu", prefix, names[way], bytes / MIB);
		say(name, (double)bytes / median(times[way], TURNS));
	}
}

static void copies(size_t bytes)
{
	CUdeviceptr device;
	void *pinned;
	char *host = malloc(bytes), *other = malloc(bytes);
	memset(host, 1, bytes);
	memset(other, 2, bytes);
	CU(cuMemAlloc(&device, bytes));
	CU(cuMemHostAlloc(&pinned, bytes, 0));
	memset(pinned, 3, bytes);
	copy_rates("pageable", bytes, device, host, other);
	copy_rates("pinned", bytes, device, pinned, other);
	CU(cuMemFree(device));
	CU(cuMemFreeHost(pinned));
	free(host);
	free(other);
}

int main(void)
{
	CUcontext context;
	CUmodule module;
	CUfunction nothing;
	socket_round_trip();
	bare_ping_pong();
	double start = now();
	CU(cuInit(0));
	say("start_ms", (now() - start) / 1e6);
	CU(cuCtxCreate(&context, 0, 0));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&nothing, module, "nothing"));
	launches(nothing);
	synchronous();
	copies(16 * MIB);
	copies(128 * MIB);
	CU(cuCtxSynchronize());
	puts("idle");
	fflush(stdout);
	/* Until the reader has measured an idle worker. */
	getchar();
	return 0;
}

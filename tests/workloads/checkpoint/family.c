/* family STEPS MICROSECONDS: processes that share one GPU: two forked ones, one started by exec,
 * and their parent, which receives every step through pipes. Each has a file. Ends with status 7.
 */
#define _GNU_SOURCE
#include "../driver/driver.h"
#include "hold.h"
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry add(.param .u64 x, .param .u32 by)\n"
	"{\n"
	" .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
	" mov.u32 %r1, %tid.x; ld.param.u32 %r3, [by];\n"
	" ld.param.u64 %d1, [x]; cvta.to.global.u64 %d1, %d1;\n"
	" mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;\n"
	" ld.global.u32 %r2, [%d1]; mad.lo.u32 %r2, %r2, %r3, %r1; st.global.u32 [%d1], %r2;\n"
	" ret;\n"
	"}\n";

enum { N = 64, CHILDREN = 3 };

struct sum {
	CUfunction add;
	CUdeviceptr memory;
	unsigned by, want[N];
};

static void begin(struct sum *s, unsigned by)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuCtxCreate)(&context, 0, device));
	CU(D(cuModuleLoadData)(&module, ptx));
	CU(D(cuModuleGetFunction)(&s->add, module, "add"));
	CU(D(cuMemAlloc)(&s->memory, sizeof s->want));
	CU(D(cuMemsetD32)(s->memory, 0, N));
	s->by = by;
	memset(s->want, 0, sizeof s->want);
}

static unsigned step(struct sum *s)
{
	unsigned got[N];
	void *parameters[] = {&s->memory, &s->by};
	CU(D(cuLaunchKernel)(s->add, 1, 1, 1, N, 1, 1, 0, NULL, parameters, NULL));
	for (unsigned i = 0; i < N; i++)
		s->want[i] = s->want[i] * s->by + i;
	CU(D(cuMemcpyDtoH)(got, s->memory, sizeof got));
	CHECK(memcmp(got, s->want, sizeof got) == 0);
	return got[N - 1];
}

static int child(unsigned index, unsigned steps, unsigned rest, int tell)
{
	struct sum sum;
	char name[32];
	snprintf(name, sizeof name, "child-%u", index);
	FILE *log = fopen(name, "w");
	CHECK(log);
	begin(&sum, 3 + 2 * index);
	for (unsigned i = 0; i < steps; i++) {
		unsigned value = step(&sum);
		CHECK(fprintf(log, "%u %08x\n", i, value) > 0 && fflush(log) == 0);
		CHECK(write(tell, &value, sizeof value) == sizeof value);
		usleep(rest);
	}
	fclose(log);
	return (int)index;
}

/* The last child is a separate program, which finds its pipe at descriptor 9. */
static pid_t start_anew(char **arguments, int tell)
{
	extern char **environ;
	pid_t pid;
	char *again[] = {arguments[0], arguments[1], arguments[2], "child", NULL};
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, tell, 9);
	CHECK(posix_spawn(&pid, arguments[0], &actions, NULL, again, environ) == 0);
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static void start(char **arguments, unsigned index, pid_t *pid, int *hear)
{
	unsigned steps = atoi(arguments[1]), rest = atoi(arguments[2]);
	int ends[2];
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	fflush(NULL);
	if (index == CHILDREN - 1) {
		*pid = start_anew(arguments, ends[1]);
	} else if ((*pid = fork()) == 0) {
		exit(child(index, steps, rest, ends[1]));
	}
	close(ends[1]);
	*hear = ends[0];
}

int main(int count, char **arguments)
{
	CHECK(count >= 3);
	unsigned steps = atoi(arguments[1]), rest = atoi(arguments[2]);
	if (count == 4)
		return child(CHILDREN - 1, steps, rest, 9);
	pid_t pids[CHILDREN];
	int hear[CHILDREN], status;
	for (unsigned i = 0; i < CHILDREN; i++)
		start(arguments, i, &pids[i], &hear[i]);
	struct sum sum;
	begin(&sum, 11);
	for (unsigned i = 0; i < steps; i++) {
		unsigned value, mine = step(&sum);
		CHECK(printf("step %u %08x", i, mine) > 0);
		for (unsigned c = 0; c < CHILDREN; c++) {
			CHECK(read(hear[c], &value, sizeof value) == sizeof value);
			CHECK(printf(" %08x", value) > 0);
		}
		CHECK(putchar('\n') == '\n' && fflush(stdout) == 0);
		usleep(rest);
	}
	hold();
	for (unsigned c = 0; c < CHILDREN; c++)
		CHECK(waitpid(pids[c], &status, 0) == pids[c] && WIFEXITED(status) &&
		      WEXITSTATUS(status) == (int)c);
	puts("ok family");
	return 7;
}

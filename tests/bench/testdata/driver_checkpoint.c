/* Calls the checkpoint functions of NVIDIA's driver, which phos is compared with. They move a
 * process's GPU state into its memory and back, and exist since driver 570.
 *
 * Reads lines "lock PID", "checkpoint PID", "restore PID", "unlock PID", and answers each with "ok
 * MICROSECONDS", "error NUMBER", or "unsupported". Prints "ready" first, or the error. */
#include "clock.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { NOT_SUPPORTED = 801, CALL_REQUIRES_NEWER_DRIVER = 36, LOCK_MILLISECONDS = 60000 };

/* The arguments of each call are 64 bytes, zero if unused. Those of the lock begin with its
 * timeout. */
typedef int (*process_call)(int pid, uint64_t arguments[8]);

static const struct {
	const char *verb, *name;
	uint64_t first;
} verbs[] = {
	{"lock", "cuCheckpointProcessLock", LOCK_MILLISECONDS},
	{"checkpoint", "cuCheckpointProcessCheckpoint", 0},
	{"restore", "cuCheckpointProcessRestore", 0},
	{"unlock", "cuCheckpointProcessUnlock", 0},
};

static void *library;

static void answer(const char *verb, int pid)
{
	for (unsigned i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(verbs[i].verb, verb) != 0)
			continue;
		process_call call = (process_call)dlsym(library, verbs[i].name);
		uint64_t arguments[8] = {verbs[i].first};
		double start = now();
		int result = call ? call(pid, arguments) : NOT_SUPPORTED;
		if (result == 0)
			printf("ok %.0f\n", (now() - start) / 1e3);
		else if (result == NOT_SUPPORTED || result == CALL_REQUIRES_NEWER_DRIVER)
			puts("unsupported");
		else
			printf("error %d\n", result);
		return;
	}
	printf("error 1\n");
}

int main(void)
{
	char verb[16];
	int pid;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!(library = dlopen("libcuda.so.1", RTLD_NOW))) {
		printf("no driver: %s\n", dlerror());
		return 1;
	}
	/* A restore needs a caller with an initialized driver. */
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
	int result = init ? init(0) : NOT_SUPPORTED;
	if (result != 0) {
		printf("cuInit: error %d\n", result);
		return 1;
	}
	puts("ready");
	while (scanf("%15s %d", verb, &pid) == 2)
		answer(verb, pid);
	return 0;
}

/* Has NVIDIA's driver take a process's GPU state into that process's memory, or put it back: what
 * phos is compared with.
 *
 * usage: driver_checkpoint save|restore PID
 *
 * Exits with 2 where the driver cannot: it came with version 570. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As the driver has them: 64 bytes of arguments for each call, zero where there is nothing to say.
 */
typedef int (*process_call)(int pid, uint64_t arguments[8]);

static void *library;

static void call(const char *name, int pid, uint32_t first)
{
	uint64_t arguments[8] = {first};
	process_call function = (process_call)dlsym(library, name);
	int result = function ? function(pid, arguments) : 801;
	if (result == 0)
		return;
	fprintf(stderr, "%s: error %d\n", name, result);
	exit(result == 801 ? 2 : 1);
}

int main(int argc, char **argv)
{
	enum { MILLISECONDS = 60000 };
	if (argc != 3 || !(library = dlopen("libcuda.so.1", RTLD_NOW))) {
		fprintf(stderr, "usage: driver_checkpoint save|restore PID; %s\n",
			argc == 3 ? dlerror() : "");
		return 1;
	}
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
	if (!init || init(0) != 0) {
		fprintf(stderr, "cuInit fails\n");
		return 1;
	}
	int pid = atoi(argv[2]);
	if (strcmp(argv[1], "save") == 0) {
		call("cuCheckpointProcessLock", pid, MILLISECONDS);
		call("cuCheckpointProcessCheckpoint", pid, 0);
	} else {
		call("cuCheckpointProcessRestore", pid, 0);
		call("cuCheckpointProcessUnlock", pid, 0);
	}
	return 0;
}

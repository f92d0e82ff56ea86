/* A fake libcuda.so.1 with the driver's checkpoint calls and no GPU. It writes each call with its
 * process and arguments into the file that MADE_UP_CALLS names. Like the driver, it refuses calls
 * in the wrong order. With MADE_UP_WITHOUT it lacks these calls. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { INVALID_VALUE = 1, ILLEGAL_STATE = 401, NOT_SUPPORTED = 801 };
enum state { RUNNING, LOCKED, CHECKPOINTED };

static enum state state;

static int turn(const char *name, int pid, const uint64_t *arguments, enum state from,
		enum state to)
{
	FILE *calls = fopen(getenv("MADE_UP_CALLS"), "a");
	if (!calls)
		return INVALID_VALUE;
	fprintf(calls, "%s %d %llu\n", name, pid, (unsigned long long)arguments[0]);
	fclose(calls);
	for (int i = 1; i < 8; i++)
		if (arguments[i] != 0)
			return INVALID_VALUE;
	if (getenv("MADE_UP_WITHOUT"))
		return NOT_SUPPORTED;
	/* The process exists at every call: CRIU has restored it. */
	if (kill(pid, 0) != 0)
		return INVALID_VALUE;
	if (state != from)
		return ILLEGAL_STATE;
	state = to;
	return 0;
}

int cuInit(unsigned flags)
{
	return flags == 0 ? 0 : INVALID_VALUE;
}

int cuCheckpointProcessLock(int pid, const uint64_t *arguments)
{
	return turn("lock", pid, arguments, RUNNING, LOCKED);
}

int cuCheckpointProcessCheckpoint(int pid, const uint64_t *arguments)
{
	return turn("checkpoint", pid, arguments, LOCKED, CHECKPOINTED);
}

int cuCheckpointProcessRestore(int pid, const uint64_t *arguments)
{
	return turn("restore", pid, arguments, CHECKPOINTED, LOCKED);
}

int cuCheckpointProcessUnlock(int pid, const uint64_t *arguments)
{
	return turn("unlock", pid, arguments, LOCKED, RUNNING);
}

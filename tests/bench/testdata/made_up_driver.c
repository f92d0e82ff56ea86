/* A libcuda.so.1 that was made up: it has the calls of the driver's own checkpoint and no GPU. It
 * writes into the file that MADE_UP_CALLS names which call came, for whom, and what arguments it
 * had, and refuses one that comes out of turn, as the driver does. MADE_UP_WITHOUT makes it one
 * that has not got them. */
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
	/* The process is there whenever the driver is called: CRIU has brought it back. */
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

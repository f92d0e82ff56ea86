/* The objects of one thread, and the known order of its work. Threads share only the primary
 * contexts, so that each knows the content of its own memory. */
#pragma once
#define _GNU_SOURCE
#include "../driver/driver.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXTS = 4, STREAMS = 16, EVENTS = 12, BUFFERS = 24, CODES = 4, GRAPHS = 4 };
enum { FLAGS = 2048, GATES = 4, NODES = 10, PRIMARIES = 2 };

/* The position of each stream: the number of the last work that is known to be done before. */
typedef struct {
	uint64_t at[STREAMS];
} positions;

enum kind { DEVICE, MAPPED, POOLED, VARIABLE, PINNED, MANAGED, SHARED, PRIVATE, KINDS };

/* Memory, its content once all work is done, and the work that uses it. */
struct buffer {
	bool used;
	enum kind kind;
	int context;
	size_t bytes;
	CUdeviceptr at[2]; /* its addresses; mapped memory can have two */
	int ats;
	unsigned char *host; /* the processor's address */
	unsigned char *want;
	positions written, read;
	int held; /* by graphs */
	CUmemGenericAllocationHandle handle;
	int code; /* the module of the variable */
	int file; /* the file that the processor maps */
};

struct stream {
	bool used, dead, blocking, legacy;
	int context;
	CUstream native;
	uint64_t position; /* of the last work */
	positions known;   /* what its next work comes after */
	positions worked;  /* what its last work came after */
	CUevent tomb;      /* recorded before it was destroyed */
};

struct event {
	CUevent native;
	int context;
	bool recorded, timed;
	positions known;
};

/* A module whose kernels contain a number of their own. */
struct code {
	CUmodule module;
	int context;
	unsigned number;
	CUfunction kernels[8];
	positions run;
	int held;
	int variable; /* its buffer */
};

static _Thread_local struct world {
	unsigned thread;
	uint64_t state; /* of the choices */
	unsigned action;
	CUcontext contexts[CONTEXTS];
	int current;
	struct stream streams[STREAMS];
	struct event events[EVENTS];
	struct buffer buffers[BUFFERS];
	struct code codes[CODES];
	positions host; /* what is certainly done */
	uint64_t *flags;
	int flag; /* those before are in use */
	volatile uint64_t *gates[GATES];
	int gated;
	size_t bytes;
	uint64_t sum; /* of the values found */
} w;

static int device_count;
static bool tracing, ungated;
static uint64_t seed;

static void __attribute__((format(printf, 1, 2))) trace(const char *format, ...)
{
	if (!tracing)
		return;
	char line[300];
	int n = snprintf(line, sizeof line, "%u.%u ", w.thread, w.action);
	va_list list;
	va_start(list, format);
	vsnprintf(line + n, sizeof line - (size_t)n, format, list);
	va_end(list);
	fprintf(stderr, "%s\n", line);
}

static uint64_t scramble(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static unsigned pick(unsigned below)
{
	w.state = scramble(w.state);
	return (unsigned)((w.state >> 32) * below >> 32);
}

static bool chance(unsigned of)
{
	return pick(of) == 0;
}

static void noise(void *to, size_t bytes)
{
	uint64_t x = pick(1 << 30);
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = x = x * 6364136223846793005 + 1442695040888963407;
		memcpy((char *)to + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

static void enter(int context)
{
	if (w.current != context || chance(50))
		CU(cuCtxSetCurrent(w.contexts[context]));
	w.current = context;
}

/* Slots 2i and 2i+1 are the default streams of context i. */
static bool is_default(int stream)
{
	return stream < 2 * CONTEXTS;
}

static void merge(positions *into, const positions *from)
{
	for (int t = 0; t < STREAMS; t++)
		if (into->at[t] < from->at[t])
			into->at[t] = from->at[t];
}

static bool within(const positions *what, const positions *known)
{
	for (int t = 0; t < STREAMS; t++)
		if (what->at[t] > known->at[t] && what->at[t] > w.host.at[t])
			return false;
	return true;
}

/* The order that the driver provides: the legacy stream with all blocking streams. */
static void implicit(int s)
{
	struct stream *self = &w.streams[s];
	for (int t = 0; t < STREAMS; t++) {
		struct stream *other = &w.streams[t];
		if (t == s || !other->used || other->dead || other->context != self->context)
			continue;
		if (self->legacy && other->blocking)
			merge(&self->known, &other->worked);
		if (self->blocking && other->legacy)
			merge(&self->known, &other->worked);
	}
}

/* Records that a stream was given work. */
static void worked(int s)
{
	struct stream *self = &w.streams[s];
	self->known.at[s] = ++self->position;
	self->worked = self->known;
}

/* Releases the streams that wait for the processor. It is called before anything that may wait for
 * a stream. */
static void blocking(void)
{
	while (w.gated > 0) {
		__atomic_store_n(w.gates[--w.gated], 1, __ATOMIC_SEQ_CST);
		trace("gate %d is opened", w.gated);
	}
}

static const char *const kind_names[KINDS] = {"device", "mapped",  "pooled", "variable",
					      "pinned", "managed", "shared", "private"};

/* Compares the content found in a buffer from an offset on with the expected one. */
static void same(const struct buffer *b, size_t from, const void *got, size_t bytes)
{
	const unsigned char *g = got, *want = b->want + from;
	if (memcmp(g, want, bytes) == 0)
		return;
	size_t i = 0, last = bytes;
	while (g[i] == want[i])
		i++;
	while (g[last - 1] == want[last - 1])
		last--;
	fprintf(stderr,
		"seed %lu, thread %u, action %u: %s buffer %td of %zu bytes in context %d, "
		"compared from %zu to %zu: "
		"bytes %zu to %zu are wrong, the first is %02x and not %02x\n",
		seed, w.thread, w.action, kind_names[b->kind], b - w.buffers, b->bytes, b->context,
		from, from + bytes, from + i, from + last, g[i], want[i]);
	_exit(1);
}

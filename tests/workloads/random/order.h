/* Streams and events, and the ways to order work. */
#pragma once
#include "world.h"

static void sync_stream(int s)
{
	struct stream *self = &w.streams[s];
	blocking();
	trace("synchronize stream %d", s);
	enter(self->context);
	if (chance(4))
		while (cuStreamQuery(self->native) == CUDA_ERROR_NOT_READY)
			usleep(100);
	else
		CU(cuStreamSynchronize(self->native));
	merge(&w.host, &self->known);
}

/* A context cannot be synchronized while one of its streams is captured, in any thread. */
static pthread_mutex_t capturing = PTHREAD_MUTEX_INITIALIZER;

static void sync_context(int context)
{
	blocking();
	trace("synchronize context %d", context);
	enter(context);
	CHECK(pthread_mutex_lock(&capturing) == 0);
	CU(cuCtxSynchronize());
	CHECK(pthread_mutex_unlock(&capturing) == 0);
	for (int s = 0; s < STREAMS; s++) {
		struct stream *self = &w.streams[s];
		if (!self->used || self->context != context)
			continue;
		merge(&w.host, &self->known);
		w.host.at[s] = self->position;
		if (self->dead) {
			if (self->tomb)
				CU(cuEventDestroy(self->tomb));
			self->tomb = NULL;
			self->used = false;
		}
	}
}

static void sync_all(void)
{
	for (int c = 0; c < CONTEXTS; c++)
		if (w.contexts[c])
			sync_context(c);
}

/* A word of pinned memory that is zero and not used otherwise. */
static uint64_t *fresh_flag(void)
{
	if (w.flag == FLAGS) {
		sync_all();
		memset(w.flags, 0, FLAGS * sizeof *w.flags);
		w.flag = 0;
	}
	return &w.flags[w.flag++];
}

static CUdeviceptr device_view(void *host)
{
	CUdeviceptr there;
	CU(cuMemHostGetDevicePointer(&there, host, 0));
	return there;
}

/* An event of a context. The slot's previous event is destroyed, though it may be pending. */
static struct event *some_event(int context)
{
	struct event *e = &w.events[pick(EVENTS)];
	if (e->native && e->context == context && !chance(4))
		return e;
	if (e->native)
		CU(cuEventDestroy(e->native));
	enter(context);
	*e = (struct event){.context = context, .timed = chance(2)};
	unsigned flags = e->timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
	CU(cuEventCreate(&e->native, flags | (chance(3) ? CU_EVENT_BLOCKING_SYNC : 0)));
	return e;
}

static void record(struct event *e, int s)
{
	struct stream *self = &w.streams[s];
	enter(self->context);
	implicit(s);
	trace("record event %td in stream %d", e - w.events, s);
	if (chance(4))
		CU(cuEventRecordWithFlags(e->native, self->native, 0));
	else
		CU(cuEventRecord(e->native, self->native));
	e->recorded = true;
	e->known = self->known;
}

static void await(int s, const struct event *e)
{
	trace("stream %d waits for event %td", s, e - w.events);
	enter(w.streams[s].context);
	CU(cuStreamWaitEvent(w.streams[s].native, e->native, 0));
	if (e->recorded)
		merge(&w.streams[s].known, &e->known);
}

struct raise {
	uint64_t *flag;
};

static void CUDA_CB raise(void *data)
{
	struct raise *r = data;
	__atomic_store_n(r->flag, 1, __ATOMIC_SEQ_CST);
	free(r);
}

static void wait_flag(int s, uint64_t *flag)
{
	CUstream native = w.streams[s].native;
	enter(w.streams[s].context);
	CUstreamBatchMemOpParams op = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64,
						     .address = device_view(flag),
						     .value64 = 1,
						     .flags = CU_STREAM_WAIT_VALUE_EQ}};
	if (chance(3))
		CU(cuStreamBatchMemOp(native, 1, &op, 0));
	else if (chance(2))
		CU(cuStreamWaitValue64(native, device_view(flag), 1, CU_STREAM_WAIT_VALUE_GEQ));
	else
		CU(cuStreamWaitValue32(native, device_view(flag), 1, CU_STREAM_WAIT_VALUE_AND));
}

/* A stream waits for a word that another stream, or a host function in it, writes. */
static void order_by_flag(int s, int t)
{
	struct stream *before = &w.streams[t];
	uint64_t *flag = fresh_flag();
	enter(before->context);
	implicit(t);
	if (chance(2)) {
		trace("stream %d waits for a word of a function in stream %d", s, t);
		struct raise *r = malloc(sizeof *r);
		*r = (struct raise){flag};
		CU(cuLaunchHostFunc(before->native, raise, r));
	} else {
		trace("stream %d waits for a word of stream %d", s, t);
		CU(cuStreamWriteValue32(before->native, device_view(flag), 1, 0));
	}
	worked(t);
	positions then = before->known;
	wait_flag(s, flag);
	merge(&w.streams[s].known, &then);
	worked(s);
}

/* Stream s continues only after all work of stream t. */
static void order(int s, int t)
{
	struct stream *before = &w.streams[t];
	if (before->dead && !before->tomb) {
		sync_context(before->context);
		return;
	}
	if (before->dead) {
		trace("stream %d waits for the end of stream %d", s, t);
		enter(w.streams[s].context);
		CU(cuStreamWaitEvent(w.streams[s].native, before->tomb, 0));
		merge(&w.streams[s].known, &before->known);
		return;
	}
	unsigned choice = pick(8);
	if (choice == 0) {
		sync_stream(t);
	} else if (choice < 3) {
		order_by_flag(s, t);
	} else {
		struct event *e = some_event(before->context);
		record(e, t);
		await(s, e);
	}
}

/* Orders the next work of stream s after the recorded work. */
static void after(int s, const positions *what)
{
	struct stream *self = &w.streams[s];
	for (int i = 0; i < EVENTS && !within(what, &self->known); i++)
		if (w.events[i].native && w.events[i].recorded && within(what, &w.events[i].known))
			await(s, &w.events[i]);
	for (int t = 0; t < STREAMS; t++)
		if (what->at[t] > self->known.at[t] && what->at[t] > w.host.at[t]) {
			if (t == s && !self->dead) {
				fprintf(stderr, "stream %d is not after itself\n", s);
				_exit(1);
			}
			order(s, t);
		}
}

/* Stream s is about to use a buffer. */
static void touch(int s, struct buffer *b, bool write)
{
	after(s, &b->written);
	if (write)
		after(s, &b->read);
}

static void touched(int s, struct buffer *b, bool write)
{
	(write ? &b->written : &b->read)->at[s] = w.streams[s].position;
}

/* The processor is about to use the recorded memory. */
static void settle(const positions *what)
{
	for (int t = 0; t < STREAMS; t++) {
		if (what->at[t] <= w.host.at[t])
			continue;
		struct stream *self = &w.streams[t];
		if (self->dead || chance(8)) {
			sync_context(self->context);
			continue;
		}
		if (chance(2)) {
			sync_stream(t);
			continue;
		}
		struct event *e = some_event(self->context);
		record(e, t);
		blocking();
		if (chance(3))
			while (cuEventQuery(e->native) == CUDA_ERROR_NOT_READY)
				usleep(100);
		else
			CU(cuEventSynchronize(e->native));
		merge(&w.host, &e->known);
	}
}

/* Any stream of a context, or of any context for -1. */
static int some_stream(int context)
{
	for (;;) {
		int s = (int)pick(STREAMS);
		struct stream *self = &w.streams[s];
		if (is_default(s) && !chance(3))
			continue;
		if (self->used && !self->dead && (context < 0 || self->context == context))
			return s;
	}
}

static int some_context(void)
{
	int c;
	do {
		c = (int)pick(CONTEXTS);
	} while (!w.contexts[c]);
	return c;
}

static void default_streams(int context)
{
	for (int i = 0; i < 2; i++) {
		struct stream *self = &w.streams[2 * context + i];
		uint64_t position = self->position;
		*self = (struct stream){.used = true, .blocking = i == 1, .legacy = i == 0};
		self->context = context;
		self->position = position;
		self->native = i == 1 ? CU_STREAM_PER_THREAD : chance(2) ? NULL : CU_STREAM_LEGACY;
	}
}

static void make_stream(int context)
{
	for (int s = 2 * CONTEXTS; s < STREAMS; s++) {
		struct stream *self = &w.streams[s];
		if (self->used)
			continue;
		uint64_t position = self->position;
		*self = (struct stream){.used = true, .blocking = chance(2), .context = context};
		self->position = position;
		trace("stream %d in context %d, blocking: %d", s, context, self->blocking);
		enter(context);
		CU(cuStreamCreateWithPriority(
			&self->native, self->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING,
			-(int)pick(3)));
		return;
	}
}

/* Destroys a stream with all its pending work. */
static void end_stream(int s)
{
	struct stream *self = &w.streams[s];
	enter(self->context);
	implicit(s);
	if (chance(2)) {
		CU(cuEventCreate(&self->tomb, CU_EVENT_DISABLE_TIMING));
		CU(cuEventRecord(self->tomb, self->native));
	}
	trace("destroy stream %d, %s", s, self->tomb ? "an event stays" : "nothing stays");
	CU(cuStreamDestroy(self->native));
	self->dead = true;
	/* Its work is not known to come before later work, except by its event. */
	self->blocking = false;
}

/* All later work of a stream waits for the processor. */
static void gate(int s)
{
	if (w.gated == GATES || is_default(s) || ungated)
		return;
	trace("gate %d is in stream %d", w.gated, s);
	uint64_t *flag = fresh_flag();
	implicit(s);
	wait_flag(s, flag);
	worked(s);
	w.gates[w.gated++] = flag;
}

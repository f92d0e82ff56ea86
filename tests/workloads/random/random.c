/* random STEPS SEED MICROSECONDS [THREADS ACTIONS [ungated]]: random calls of all kinds, chosen by
 * the seed. Several threads make them, in streams that only events, words and waits put in order.
 * The processor computes the same; a difference is printed, and ends the program with status 1.
 * Ungated, no stream waits for a later write of the processor; otherwise the program does not
 * become idle while its calls are blocked. It sleeps between steps and ends with status 7, but not
 * before the file that HOLD names exists. TRACE=1 prints every call. */
#include "graphs.h"
#include "../checkpoint/hold.h"

static unsigned actions = 60;
static pthread_barrier_t all_here;

static void end_context(int context)
{
	if (!w.contexts[context])
		return;
	sync_context(context);
	for (int i = 0; i < GRAPHS; i++)
		if (graphs[i].context == context)
			end_graph(&graphs[i]);
	for (int i = 0; i < BUFFERS; i++)
		if (w.buffers[i].context == context) {
			check(&w.buffers[i]);
			settle_buffer(&w.buffers[i]);
			free_buffer(&w.buffers[i]);
		}
	for (int i = 0; i < CODES; i++)
		if (w.codes[i].context == context)
			unload_code(i);
	for (int i = 0; i < EVENTS; i++)
		if (w.events[i].native && w.events[i].context == context) {
			CU(cuEventDestroy(w.events[i].native));
			w.events[i].native = NULL;
		}
	for (int s = 2 * CONTEXTS; s < STREAMS; s++)
		if (w.streams[s].used && !w.streams[s].dead && w.streams[s].context == context)
			end_stream(s);
	sync_context(context);
	if (context < PRIMARIES)
		return;
	for (int i = 0; i < 2; i++)
		w.streams[2 * context + i].used = false;
	trace("destroy context %d", context);
	enter(context);
	CU(cuCtxDestroy(w.contexts[context]));
	w.contexts[context] = NULL;
	w.current = -1;
}

static void make_context(int context)
{
	blocking();
	trace("make context %d", context);
	CUdevice device;
	CU(cuDeviceGet(&device, (int)pick((unsigned)device_count)));
	CU(cuCtxCreate(&w.contexts[context], 0, device));
	w.current = context;
	default_streams(context);
}

static void some_stream_action(void)
{
	int s = some_stream(-1);
	struct event *e = &w.events[pick(EVENTS)];
	switch (pick(10)) {
	case 0:
	case 1:
		make_stream(some_context());
		break;
	case 2:
	case 3:
		if (!is_default(s))
			end_stream(s);
		break;
	case 4:
	case 5:
		record(some_event(w.streams[s].context), s);
		break;
	case 6:
		if (e->native)
			await(s, e);
		break;
	case 7:
		sync_stream(s);
		break;
	default:
		gate(s);
	}
}

static void some_question(void)
{
	struct buffer *b = &w.buffers[pick(BUFFERS)];
	struct event *e = &w.events[pick(EVENTS)], *f = &w.events[pick(EVENTS)];
	size_t bytes, available;
	CUdeviceptr base;
	CUcontext context;
	if (b->used && !by_host(b) && b->kind != VARIABLE) {
		CU(cuMemGetAddressRange(&base, &bytes, b->at[0] + b->bytes / 2));
		CHECK(base == b->at[0] && bytes >= b->bytes);
	}
	enter(some_context());
	CU(cuCtxGetCurrent(&context));
	CHECK(context == w.contexts[w.current]);
	CU(cuMemGetInfo(&available, &bytes));
	CHECK(available <= bytes);
	if (e->native && f->native && e->timed && f->timed && e->recorded && f->recorded &&
	    e->context == f->context) {
		float ms = -1;
		settle(&e->known);
		settle(&f->known);
		blocking();
		CU(cuEventSynchronize(e->native));
		CU(cuEventSynchronize(f->native));
		CU(cuEventElapsedTime(&ms, e->native, f->native));
		CHECK(e != f || ms == 0);
	}
}

static void act(void)
{
	struct buffer *b = &w.buffers[pick(BUFFERS)];
	unsigned choice = pick(200);
	w.action++;
	if (choice < 90)
		do_work();
	else if (choice < 110)
		make_buffer();
	else if (choice < 116)
		free_buffer(b);
	else if (choice < 118)
		remap(b);
	else if (choice < 132)
		check(b);
	else if (choice < 146)
		write_buffer(b);
	else if (choice < 166)
		some_stream_action();
	else if (choice < 170)
		load_code(some_context());
	else if (choice < 172)
		unload_code((int)pick(CODES));
	else if (choice < 180)
		make_graph();
	else if (choice < 188)
		launch_graph(&graphs[pick(GRAPHS)]);
	else if (choice < 193)
		update_graph(&graphs[pick(GRAPHS)]);
	else if (choice < 195)
		end_graph(&graphs[pick(GRAPHS)]);
	else if (choice < 198)
		some_question();
	else if (choice == 198 && chance(2)) {
		int context = PRIMARIES + (int)pick(CONTEXTS - PRIMARIES);
		if (w.contexts[context])
			end_context(context);
		else
			make_context(context);
	} else if (choice == 199)
		sync_all();
}

struct thread {
	pthread_t id;
	unsigned number, steps;
	uint64_t sum;
};

static void begin(unsigned number)
{
	w.thread = number;
	w.state = scramble(seed * 1000 + number);
	w.current = -1;
	for (int i = 0; i < device_count && i < PRIMARIES; i++) {
		CU(cuDevicePrimaryCtxRetain(&w.contexts[i], i));
		enter(i);
		default_streams(i);
		load_code(i);
	}
	CU(cuMemHostAlloc((void **)&w.flags, FLAGS * sizeof *w.flags,
			  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	memset(w.flags, 0, FLAGS * sizeof *w.flags);
	for (int i = 0; i < 3; i++) {
		make_stream(0);
		make_buffer();
	}
}

static void end(void)
{
	for (int c = CONTEXTS - 1; c >= 0; c--)
		end_context(c);
	for (int i = 0; i < BUFFERS; i++)
		CHECK(!w.buffers[i].used);
	for (int i = 0; i < device_count && i < PRIMARIES; i++)
		CU(cuDevicePrimaryCtxRelease(i));
}

static void *run(void *argument)
{
	struct thread *self = argument;
	begin(self->number);
	for (unsigned step = 0; step < self->steps; step++) {
		for (unsigned i = 0; i < actions; i++)
			act();
		self->sum = w.sum;
		blocking();
		pthread_barrier_wait(&all_here);
		pthread_barrier_wait(&all_here);
	}
	end();
	return NULL;
}

int main(int count, char **arguments)
{
	CHECK(count >= 4);
	struct thread threads[16];
	unsigned steps = (unsigned)atoi(arguments[1]), rest = (unsigned)atoi(arguments[3]);
	unsigned running = count > 4 ? (unsigned)atoi(arguments[4]) : 3;
	seed = strtoull(arguments[2], NULL, 10);
	if (count > 5)
		actions = (unsigned)atoi(arguments[5]);
	ungated = count > 6;
	CHECK(running > 0 && running <= 16);
	tracing = getenv("TRACE") != NULL;
	CU(cuInit(0));
	CU(cuDeviceGetCount(&device_count));
	pthread_barrier_init(&all_here, NULL, running + 1);
	for (unsigned i = 0; i < running; i++) {
		threads[i] = (struct thread){.number = i, .steps = steps};
		CHECK(pthread_create(&threads[i].id, NULL, run, &threads[i]) == 0);
	}
	for (unsigned step = 0; step < steps; step++) {
		uint64_t sum = 0;
		pthread_barrier_wait(&all_here);
		for (unsigned i = 0; i < running; i++)
			sum = scramble(sum ^ threads[i].sum);
		CHECK(printf("step %u %016lx\n", step, sum) > 0 && fflush(stdout) == 0);
		pthread_barrier_wait(&all_here);
		usleep(rest);
	}
	for (unsigned i = 0; i < running; i++)
		CHECK(pthread_join(threads[i].id, NULL) == 0);
	hold();
	puts("ok random");
	return 7;
}

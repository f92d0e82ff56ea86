/*
 * The callback thread takes records from the callback ring, runs the program's function of each,
 * and reports its end to the worker. It is created when the first function is submitted, and sleeps
 * on the ring's head.
 */
#include "callbacks.h"

#include <pthread.h>
#include <signal.h>

#include "futex.h"
#include "log.h"
#include "session.h"
#include "thread.h"

#define SLICE_MILLISECONDS 1000
#define STACK_BYTES        (8u << 20) /* as a thread of the program would have */

struct record {
	uint32_t kind, reserved;
	uint64_t function, user_data, stream;
	uint32_t status, reserved2;
	uint64_t id;
	uint64_t zeros[2];
};

_Static_assert(sizeof(struct record) == PHOS_CALLBACK_RECORD, "callback record");

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool started;

static void run(const struct record *r)
{
	void *user_data = (void *)(uintptr_t)r->user_data;
	if (r->function == 0)
		return;
	if (r->kind == PHOS_CALLBACK_STREAM)
		((CUstreamCallback)(uintptr_t)r->function)(r->stream, (CUresult)r->status,
							   user_data);
	else
		((CUhostFn)(uintptr_t)r->function)(user_data);
}

/* Reports to the worker that a function has returned. It passes a closed gate, because a checkpoint
 * waits for it. */
static void post_done(uint64_t id)
{
	struct phos_call c;
	if (!phos_begin(&c, PHOS_CALL_callbackDone, PHOS_INTERNAL, PHOS_WORDS(1)))
		return;
	phos_put_u64(&c, id);
	phos_post(&c);
}

static void *serve(void *unused)
{
	(void)unused;
	_Atomic uint64_t *head = phos_word64(PHOS_WORD_CALLBACK_HEAD),
			 *tail = phos_word64(PHOS_WORD_CALLBACK_TAIL);
	phos_self.callback = true;
	while (phos_live() && atomic_load(phos_word(PHOS_WORD_DEAD)) == 0) {
		uint64_t at = atomic_load_explicit(tail, memory_order_relaxed);
		uint64_t end = atomic_load_explicit(head, memory_order_acquire);
		if (at == end) {
			phos_futex_wait(phos_word(PHOS_WORD_CALLBACK_HEAD), (uint32_t)end,
					SLICE_MILLISECONDS);
			continue;
		}
		struct record r;
		memcpy(&r, phos.file + PHOS_CALLBACK_OFFSET + at % PHOS_CALLBACK_BYTES, sizeof r);
		atomic_store_explicit(tail, at + sizeof r, memory_order_release);
		run(&r);
		post_done(r.id);
	}
	return NULL;
}

/* Starts the thread with all signals blocked: the program's signal handlers must run on its own
 * threads. */
static int start_thread(void)
{
	pthread_t thread;
	pthread_attr_t attributes;
	sigset_t all, before;
	int failed = pthread_attr_init(&attributes);
	if (failed != 0)
		return failed;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, &attributes, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return failed;
}

CUresult phos_callbacks_start(void)
{
	if (atomic_load_explicit(&started, memory_order_acquire))
		return CUDA_SUCCESS;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&start_lock);
	int failed = 0;
	if (!atomic_load(&started)) {
		failed = start_thread();
		atomic_store_explicit(&started, failed == 0, memory_order_release);
	}
	pthread_mutex_unlock(&start_lock);
	if (failed != 0)
		phos_log(PHOS_ERROR, "no thread for host functions: %s", strerror(failed));
	return failed == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult submit(CUstream stream, unsigned kind, uint64_t function, void *user_data)
{
	if (function == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_callbacks_start();
	if (result != CUDA_SUCCESS)
		return result;
	return phos_call_hostFunc(stream, kind, function, (uintptr_t)user_data);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user_data)
{
	return submit(stream, PHOS_CALLBACK_HOST, (uintptr_t)function, user_data);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *user_data,
			     unsigned int flags)
{
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return submit(stream, PHOS_CALLBACK_STREAM, (uintptr_t)function, user_data);
}

CUresult cuUserObjectCreate(CUuserObject *object, void *pointer, CUhostFn destroy,
			    unsigned int references, unsigned int flags)
{
	if (object == NULL || destroy == NULL || references == 0 || flags != 1)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_callbacks_start();
	return result == CUDA_SUCCESS
		       ? phos_call_cuUserObjectCreate(object, pointer, destroy, references, flags)
		       : result;
}

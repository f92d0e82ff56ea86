/*
 * Events. Each has a completion word in the session file, if one was free. A record has a count
 * that the worker stores in the word when the stream reaches it, so a query costs one load. The
 * count is assigned while the ring is locked, so that counts and frames of several threads have the
 * same order.
 */
#include <stdlib.h>

#include "objects.h"
#include "session.h"
#include "zz_calls.h"

#define NO_WORD 0xffffffffu

struct event {
	uint32_t word;
	_Atomic uint64_t records;
	_Atomic bool ask; /* last recorded during a capture: query the session */
	bool shared;      /* other processes may use it */
};

enum { INTERPROCESS = 4 };

/* Adds an event of another process, which has no completion word. */
CUresult phos_event_enter(CUevent handle)
{
	struct event *event = calloc(1, sizeof *event);
	if (event == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->word = NO_WORD;
	event->shared = true;
	if (phos_object_enter(handle, event) != event)
		free(event);
	return CUDA_SUCCESS;
}

/* Calls on a shared event must reach the worker before they return: the program may signal another
 * process by means that the worker does not see. */
static CUresult await_taken(const struct event *event, CUresult result)
{
	return result == CUDA_SUCCESS && event != NULL && event->shared ? phos_call_ping() : result;
}

CUresult cuEventCreate(CUevent *handle, unsigned int flags)
{
	unsigned int word = NO_WORD;
	if (handle == NULL || (flags & ~7u) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	struct event *event = calloc(1, sizeof *event);
	if (event == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = phos_call_eventCreate(flags, handle, &word);
	if (result != CUDA_SUCCESS) {
		free(event);
		return result;
	}
	event->word = word < PHOS_EVENT_COUNT ? word : NO_WORD;
	event->shared = (flags & INTERPROCESS) != 0;
	if (phos_object_enter(*handle, event) != event)
		free(event); /* without an entry every query asks the session */
	return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned int flags)
{
	struct phos_call c;
	struct event *event = phos_object_find(handle);
	if (phos_kind_of(handle) != PHOS_KIND_EVENT)
		return phos_live() ? CUDA_ERROR_INVALID_HANDLE : phos_enter();
	if (!phos_begin(&c, PHOS_CALL_eventRecord, PHOS_CONTEXT, PHOS_WORDS(4)))
		return c.result;
	uint64_t count = 0;
	if (event != NULL) {
		bool capturing = atomic_load_explicit(phos_word(PHOS_WORD_CAPTURING),
						      memory_order_relaxed) != 0;
		atomic_store_explicit(&event->ask, capturing, memory_order_relaxed);
		count = atomic_load_explicit(&event->records, memory_order_relaxed) + 1;
		atomic_store_explicit(&event->records, count, memory_order_relaxed);
	}
	phos_put_u64(&c, handle);
	phos_put_u64(&c, stream);
	phos_put_u64(&c, flags);
	phos_put_u64(&c, count);
	return await_taken(event, phos_post(&c));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned int flags)
{
	CUresult result = phos_call_cuStreamWaitEvent(stream, handle, flags);
	bool is_event = phos_kind_of(handle) == PHOS_KIND_EVENT;
	return await_taken(is_event ? phos_object_find(handle) : NULL, result);
}

/* Whether the completion word is valid for the event, and its answer. */
static bool look(CUevent handle, bool *complete)
{
	struct event *event =
		phos_kind_of(handle) == PHOS_KIND_EVENT ? phos_object_find(handle) : NULL;
	if (event == NULL || event->word == NO_WORD || atomic_load(&event->ask) ||
	    atomic_load(phos_word(PHOS_WORD_CAPTURING)) != 0)
		return false;
	_Atomic uint64_t *word = phos_word64(PHOS_EVENTS_OFFSET + 8 * (size_t)event->word);
	uint64_t reached = atomic_load_explicit(word, memory_order_acquire);
	*complete = reached >= atomic_load(&event->records);
	return reached != PHOS_EVENT_ASK;
}

/* A program that only polls would never notice that its worker has exited: so some queries are sent
 * to the worker. */
static bool ask_anyway(void)
{
	enum { POLLS_BETWEEN_QUESTIONS = 1024 };
	static _Thread_local unsigned polls;
	return ++polls % POLLS_BETWEEN_QUESTIONS == 0;
}

CUresult cuEventQuery(CUevent handle)
{
	bool complete = false;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (!look(handle, &complete) || (!complete && ask_anyway()))
		return phos_call_eventQuery(handle);
	result = phos_take_error();
	if (result != CUDA_SUCCESS)
		return result;
	return complete ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle)
{
	bool complete = false;
	CUresult result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	if (!look(handle, &complete) || !complete)
		return phos_call_eventSynchronize(handle);
	phos_drain_output();
	return phos_take_error();
}

CUresult cuEventDestroy_v2(CUevent handle)
{
	CUresult result = phos_call_cuEventDestroy_v2(handle);
	if (result == CUDA_SUCCESS && phos_kind_of(handle) == PHOS_KIND_EVENT)
		free(phos_object_remove(handle));
	return result;
}

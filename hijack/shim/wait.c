/* Waiting for replies in the thread's slot, and detecting that the worker has exited. */
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "futex.h"
#include "session.h"
#include "log.h"
#include "thread.h"

#define SPIN_NANOSECONDS     30000
#define COPIED_NANOSECONDS   1000000
#define TURNS_PER_LOOK       32
#define SLICE_MILLISECONDS   100
#define SILENCE_MILLISECONDS 10000

int64_t phos_nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void phos_nap(long milliseconds)
{
	int saved = errno;
	struct timespec t = {.tv_nsec = milliseconds * 1000000};
	nanosleep(&t, NULL);
	errno = saved;
}

/* Count the time slept here, not the clock's: after a restore or a suspend the clock has jumped
 * although the worker could not run. A closed gate means a checkpoint, during which the worker may
 * be stopped. */
bool phos_worker_alive(struct phos_pulse *pulse, long slept_milliseconds)
{
	if (atomic_load(phos_word(PHOS_WORD_DEAD)) != 0) {
		phos_lose("its worker has ended");
		return false;
	}
	uint64_t beat =
		atomic_load_explicit(phos_word64(PHOS_WORD_HEARTBEAT), memory_order_relaxed);
	if (beat != pulse->beat ||
	    (atomic_load(phos_word(PHOS_WORD_GATE)) & PHOS_GATE_CLOSED) != 0) {
		pulse->beat = beat;
		pulse->silent_milliseconds = 0;
		return true;
	}
	pulse->silent_milliseconds += slept_milliseconds;
	if (pulse->silent_milliseconds < SILENCE_MILLISECONDS)
		return true;
	phos_lose("its worker has not moved for 10 seconds");
	return false;
}

static bool asks_for_copy(uint32_t state)
{
	return state == PHOS_SLOT_SERVICE || state == PHOS_SLOT_PIECES;
}

/* Spins for a while, or until the state changes. copied: after a copy for the worker the reply or
 * the next copy comes soon. The wait is about as long as a sleep and a wake-up, so it yields: on a
 * busy machine the worker may need this core. */
static void spin(_Atomic uint32_t *state, bool copied)
{
	int64_t until = 0;
	for (;;) {
		for (int turn = 0; turn < TURNS_PER_LOOK; turn++) {
			uint32_t seen = atomic_load_explicit(state, memory_order_acquire);
			if (seen == PHOS_SLOT_DONE || asks_for_copy(seen))
				return;
			phos_relax();
		}
		if (copied)
			sched_yield();
		int64_t now = phos_nanoseconds();
		if (until == 0)
			until = now + (copied ? COPIED_NANOSECONDS : SPIN_NANOSECONDS);
		else if (now >= until)
			return;
	}
}

/* Waits until the reply is complete. Returns false if the worker is gone. */
static bool await_reply(unsigned char *slot)
{
	_Atomic uint32_t *state = (_Atomic uint32_t *)(void *)slot;
	struct phos_pulse pulse = {0};
	spin(state, false);
	for (;;) {
		uint32_t seen = atomic_load_explicit(state, memory_order_acquire);
		if (seen == PHOS_SLOT_DONE)
			return true;
		if (asks_for_copy(seen)) {
			phos_serve_copy(slot, seen);
			spin(state, true);
			continue;
		}
		/* Announce the sleep, so that a reply to a spinning thread needs no wake-up. */
		if (seen == PHOS_SLOT_IDLE) {
			if (!atomic_compare_exchange_strong(state, &seen, PHOS_SLOT_ASLEEP))
				continue;
			seen = PHOS_SLOT_ASLEEP;
		}
		phos_futex_wait(state, seen, SLICE_MILLISECONDS);
		if (atomic_load_explicit(state, memory_order_acquire) == seen &&
		    !phos_worker_alive(&pulse, SLICE_MILLISECONDS))
			return false;
	}
}

/* Reads the complete reply in the slot into c. */
static CUresult read_reply(struct phos_call *c, unsigned char *slot)
{
	uint32_t result;
	uint64_t sequence;
	struct phos_thread *t = c->thread;
	if (t->shares) {
		if (t->private == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(t->private, slot, PHOS_SLOT_BYTES);
		slot = t->private;
	}
	memcpy(&result, slot + 4, 4);
	memcpy(&sequence, slot + 8, 8);
	c->at = slot + PHOS_SLOT_HEADER;
	c->end = slot + PHOS_SLOT_BYTES;
	if (sequence != c->sequence) {
		phos_log(PHOS_ERROR, "the worker answered call %llu in place of %llu",
			 (unsigned long long)sequence, (unsigned long long)c->sequence);
		return CUDA_ERROR_UNKNOWN;
	}
	return (CUresult)result;
}

CUresult phos_wait(struct phos_call *c)
{
	struct phos_thread *t = c->thread;
	unsigned char *slot = phos.file + PHOS_SLOTS_OFFSET + PHOS_SLOT_BYTES * (size_t)t->slot;
	phos_publish(c);
	CUresult result = CUDA_ERROR_LAUNCH_FAILED;
	bool answered = await_reply(slot);
	if (answered)
		result = read_reply(c, slot);
	else
		c->at = c->end = slot;
	if (t->shares)
		phos_shared_slot_unlock();
	if (!answered)
		return phos_enter();
	if (atomic_load_explicit(phos_word64(PHOS_WORD_OUTPUT_HEAD), memory_order_acquire) !=
	    atomic_load_explicit(phos_word64(PHOS_WORD_OUTPUT_TAIL), memory_order_relaxed))
		phos_drain_output();
	if (result == CUDA_SUCCESS && (c->flags & PHOS_BLOCKS) != 0)
		result = phos_take_error();
	return phos_with_damage(result);
}

size_t phos_take_bytes(struct phos_call *c, void *dst, size_t cap)
{
	uint64_t bytes = phos_take_u64(c);
	size_t left = (size_t)(c->end - c->at);
	if (bytes > left)
		bytes = left;
	size_t wanted = bytes < cap ? (size_t)bytes : cap;
	if (wanted != 0)
		memcpy(dst, c->at, wanted);
	size_t padded = ((size_t)bytes + 7) & ~(size_t)7;
	c->at += padded < left ? padded : left;
	return wanted;
}

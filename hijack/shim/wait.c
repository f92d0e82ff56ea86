/* Waiting for replies: the thread's slot, copies that the worker asks for, and noticing that the
 * worker is gone. */
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "futex.h"
#include "session.h"
#include "log.h"
#include "thread.h"

#define SPIN_NANOSECONDS     30000
#define COPY_NANOSECONDS     1000000
#define TURNS_PER_LOOK       32
#define SLICE_MILLISECONDS   100
#define SILENCE_MILLISECONDS 10000

static int64_t now_nanoseconds(void)
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

/* The time that counts is the time slept here, not the clock's: after a restore or a suspended
 * machine the clock has jumped and the worker had no chance. A closed gate is a checkpoint, during
 * which the worker may stand still. */
bool phos_still_there(struct phos_pulse *pulse, long slept_milliseconds)
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

/* Whether pages are mapped everywhere in a range: the driver answers a copy of one with a hole by
 * an error, and copying it here would end the program. Looking costs a fiftieth of the copy; what
 * may not be read or written although it is mapped would cost more than the copy to find. */
static bool mapped(const unsigned char *program, size_t bytes)
{
	enum { LEAST_PAGE = 4096 };
	unsigned char present[PHOS_BOUNCE_BYTES / LEAST_PAGE + 2];
	size_t before = (uintptr_t)program & ((size_t)sysconf(_SC_PAGESIZE) - 1);
	int saved = errno;
	bool hole = bytes != 0 &&
		    mincore((void *)(uintptr_t)(program - before), bytes + before, present) != 0 &&
		    errno == ENOMEM;
	errno = saved;
	return !hole;
}

/* The worker may not read or write this process itself: copy for it. */
static void serve_copy(unsigned char *slot)
{
	uint32_t answer = PHOS_SLOT_SERVED;
	uint64_t request[4];
	memcpy(request, slot + PHOS_SLOT_HEADER, sizeof request);
	unsigned char *program = (unsigned char *)(uintptr_t)request[1];
	uint64_t bytes = request[2], offset = request[3];
	if (offset <= PHOS_BOUNCE_BYTES && bytes <= PHOS_BOUNCE_BYTES - offset) {
		unsigned char *bounce = phos.file + PHOS_BOUNCE_OFFSET + offset;
		if (!mapped(program, bytes))
			answer = PHOS_SLOT_ABSENT;
		else if (request[0] == 0)
			memcpy(bounce, program, bytes);
		else
			memcpy(program, bounce, bytes);
	}
	_Atomic uint32_t *state = (_Atomic uint32_t *)(void *)slot;
	atomic_store_explicit(state, answer, memory_order_release);
	phos_futex_wake(state, 1);
}

/* Spins for a while, or until the state asks for something. copying: the worker is about to ask for
 * the next piece of a copy. That takes about as long as sleeping and being woken would, but on a
 * busy machine it may need this very core. */
static void spin(_Atomic uint32_t *state, bool copying)
{
	int64_t until = 0;
	for (;;) {
		for (int turn = 0; turn < TURNS_PER_LOOK; turn++) {
			uint32_t seen = atomic_load_explicit(state, memory_order_acquire);
			if (seen == PHOS_SLOT_DONE || seen == PHOS_SLOT_SERVICE)
				return;
			phos_relax();
		}
		if (copying)
			sched_yield();
		int64_t now = now_nanoseconds();
		if (until == 0)
			until = now + (copying ? COPY_NANOSECONDS : SPIN_NANOSECONDS);
		else if (now >= until)
			return;
	}
}

/* Waits until the reply is complete. False: the worker is gone. */
static bool await_reply(unsigned char *slot)
{
	_Atomic uint32_t *state = (_Atomic uint32_t *)(void *)slot;
	struct phos_pulse pulse = {0};
	spin(state, false);
	for (;;) {
		uint32_t seen = atomic_load_explicit(state, memory_order_acquire);
		if (seen == PHOS_SLOT_DONE)
			return true;
		if (seen == PHOS_SLOT_SERVICE) {
			serve_copy(slot);
			spin(state, true);
			continue;
		}
		/* Says that it sleeps, so that a reply to a spinning thread needs no wake. */
		if (seen == PHOS_SLOT_IDLE) {
			if (!atomic_compare_exchange_strong(state, &seen, PHOS_SLOT_ASLEEP))
				continue;
			seen = PHOS_SLOT_ASLEEP;
		}
		phos_futex_wait(state, seen, SLICE_MILLISECONDS);
		if (atomic_load_explicit(state, memory_order_acquire) == seen &&
		    !phos_still_there(&pulse, SLICE_MILLISECONDS))
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
	return result;
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

/* Posting: the producer's side of the submission ring. */
#include <pthread.h>
#include <sched.h>

#include "futex.h"
#include "log.h"
#include "session.h"
#include "thread.h"

#define SPIN_TURNS              200
#define NAP_MILLISECONDS        1
#define GATE_SLICE_MILLISECONDS 100

/* The lock is a futex: 0 free, 1 held, 2 held with sleepers. It is in the session file so that a
 * debugger of a stopped program sees whether it was posting. */
static void lock_slowly(_Atomic uint32_t *lock)
{
	for (int turn = 0; turn < SPIN_TURNS; turn++) {
		uint32_t expected = 0;
		if (atomic_load_explicit(lock, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_weak_explicit(lock, &expected, 1, memory_order_acquire,
							  memory_order_relaxed))
			return;
		phos_relax();
	}
	while (atomic_exchange_explicit(lock, 2, memory_order_acquire) != 0)
		phos_futex_wait(lock, 2, GATE_SLICE_MILLISECONDS);
}

static inline void ring_lock(void)
{
	_Atomic uint32_t *lock = phos_word(PHOS_WORD_LOCK);
	uint32_t expected = 0;
	if (!atomic_compare_exchange_strong_explicit(lock, &expected, 1, memory_order_acquire,
						     memory_order_relaxed))
		lock_slowly(lock);
}

static inline void ring_unlock(void)
{
	_Atomic uint32_t *lock = phos_word(PHOS_WORD_LOCK);
	if (atomic_exchange_explicit(lock, 0, memory_order_seq_cst) == 2)
		phos_futex_wake(lock, 1);
}

/* Waits until the ring has space for need more bytes. Returns false if the worker is gone. */
static bool watch_for_room(uint64_t need)
{
	struct phos_pulse pulse = {0};
	for (uint32_t turn = 0;; turn++) {
		phos.tail = atomic_load_explicit(phos_word64(PHOS_WORD_TAIL), memory_order_acquire);
		if (phos.head + need - phos.tail <= PHOS_RING_BYTES)
			return true;
		if (turn < SPIN_TURNS) {
			phos_relax();
			continue;
		}
		if (turn < 2 * SPIN_TURNS) {
			sched_yield();
			continue;
		}
		/* The worker wakes no futex here, so poll: a full ring is 2 MiB of pending work. */
		phos_nap(NAP_MILLISECONDS);
		if (!phos_worker_alive(&pulse, NAP_MILLISECONDS))
			return false;
	}
}

/* The same with the lock held. Cancellation is disabled: a thread cancelled in its sleep would hold
 * the lock forever. */
static bool wait_for_room(uint64_t need)
{
	int cancelling;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
	bool room = watch_for_room(need);
	pthread_setcancelstate(cancelling, NULL);
	return room;
}

static inline void put32(unsigned char *at, uint32_t v)
{
	memcpy(at, &v, 4);
}

static inline void put64(unsigned char *at, uint64_t v)
{
	memcpy(at, &v, 8);
}

/* Fills the end of the ring, so that the next frame is contiguous. */
static void put_padding(uint64_t position, uint64_t bytes)
{
	unsigned char *frame = phos.file + PHOS_RING_OFFSET + position;
	memset(frame, 0, PHOS_FRAME_HEADER);
	put32(frame, (uint32_t)bytes);
}

/* Reserves a frame of length bytes. Returns NULL if the worker is gone. The caller holds the lock.
 */
static inline unsigned char *reserve(struct phos_call *c, uint64_t length)
{
	uint64_t rounded = (length + PHOS_FRAME_ALIGN - 1) & ~(uint64_t)(PHOS_FRAME_ALIGN - 1);
	uint64_t position = phos.head & (PHOS_RING_BYTES - 1);
	uint64_t padding = position + rounded > PHOS_RING_BYTES ? PHOS_RING_BYTES - position : 0;
	uint64_t need = padding + rounded;
	if (__builtin_expect(phos.head + need - phos.tail > PHOS_RING_BYTES, 0) &&
	    !wait_for_room(need))
		return NULL;
	if (__builtin_expect(padding != 0, 0)) {
		put_padding(position, padding);
		position = 0;
	}
	c->head = phos.head + need;
	return phos.file + PHOS_RING_OFFSET + position;
}

/* Waits at the gate. It is closed during a checkpoint, which ends with a wake-up; the worker opens
 * it if phosd exits. A full gate stops only asynchronous calls, which would queue up in the worker
 * without limit. Other calls, above all the end of host functions, must pass so that the queue can
 * drain. */
static CUresult pass_gate(unsigned flags)
{
	struct phos_pulse pulse = {0};
	_Atomic uint32_t *gate = phos_word(PHOS_WORD_GATE);
	uint32_t stops = PHOS_GATE_CLOSED | ((flags & PHOS_WAIT) == 0 ? PHOS_GATE_FULL : 0);
	for (;;) {
		uint32_t seen = atomic_load_explicit(gate, memory_order_acquire);
		if ((seen & stops) == 0) {
			if ((seen & PHOS_GATE_RESTORED) != 0)
				phos_notice_restore();
			return CUDA_SUCCESS;
		}
		phos_futex_wait(gate, seen, GATE_SLICE_MILLISECONDS);
		if (!phos_worker_alive(&pulse, GATE_SLICE_MILLISECONDS))
			return phos_enter();
	}
}

/* The worker closes the gate, then reads the count; we count, then read the gate. */
CUresult phos_hold_begin(void)
{
	CUresult result = CUDA_SUCCESS;
	while (result == CUDA_SUCCESS) {
		atomic_fetch_add(phos_word(PHOS_WORD_HOLDS), 1);
		if ((atomic_load(phos_word(PHOS_WORD_GATE)) & PHOS_GATE_CLOSED) == 0)
			return CUDA_SUCCESS;
		phos_hold_end();
		result = pass_gate(PHOS_WAIT);
	}
	return result;
}

void phos_hold_end(void)
{
	atomic_fetch_sub(phos_word(PHOS_WORD_HOLDS), 1);
}

/* The slow path of an entry: not initialised, worker gone, an earlier error, a checkpoint, a new
 * thread. */
static CUresult enter_slowly(struct phos_thread *t, unsigned flags)
{
	CUresult result = CUDA_SUCCESS;
	if (!phos_live())
		return phos_enter();
	if (!t->ready)
		phos_thread_join(t);
	if ((flags & PHOS_INTERNAL) != 0)
		return atomic_load(phos_word(PHOS_WORD_DEAD)) != 0 ? phos_enter() : CUDA_SUCCESS;
	if (t->callback)
		return CUDA_ERROR_NOT_PERMITTED;
	result = phos_enter();
	if (result != CUDA_SUCCESS)
		return result;
	result = phos_take_error();
	if (result != CUDA_SUCCESS)
		return result;
	return pass_gate(flags);
}

/* Whether none of the four words of the shared header stops an entry: error, sticky, dead, gate. */
static inline bool entry_is_plain(const struct phos_thread *t)
{
	if (atomic_load_explicit(&phos.state, memory_order_acquire) != PHOS_LIVE)
		return false;
	return (atomic_load_explicit(phos_word64(PHOS_WORD_ERROR), memory_order_relaxed) |
		atomic_load_explicit(phos_word64(PHOS_WORD_DEAD), memory_order_relaxed)) == 0 &&
	       t->ready && !t->callback;
}

bool phos_begin(struct phos_call *c, uint16_t op, unsigned flags, size_t payload_bytes)
{
	struct phos_thread *t = &phos_self;
	c->thread = t;
	c->flags = flags;
	c->result = CUDA_SUCCESS;
	if (__builtin_expect(!entry_is_plain(t), 0))
		c->result = enter_slowly(t, flags);
	if (__builtin_expect(
		    t->current == 0 && (flags & PHOS_CONTEXT) != 0 && c->result == CUDA_SUCCESS, 0))
		c->result = CUDA_ERROR_INVALID_CONTEXT;
	if (__builtin_expect(payload_bytes > PHOS_FRAME_MAX - PHOS_FRAME_HEADER, 0))
		c->result = CUDA_ERROR_INVALID_VALUE;
	if (__builtin_expect(c->result != CUDA_SUCCESS, 0))
		return false;
	if ((flags & PHOS_WAIT) != 0) {
		if (__builtin_expect(t->shares, 0))
			phos_shared_slot_lock();
		atomic_store_explicit(
			phos_word(PHOS_SLOTS_OFFSET + PHOS_SLOT_BYTES * (size_t)t->slot),
			PHOS_SLOT_IDLE, memory_order_relaxed);
	}
	ring_lock();
	uint64_t length = PHOS_FRAME_HEADER + payload_bytes;
	unsigned char *frame = reserve(c, length);
	if (__builtin_expect(frame == NULL, 0)) {
		ring_unlock();
		if (t->shares && (flags & PHOS_WAIT) != 0)
			phos_shared_slot_unlock();
		c->result = phos_enter();
		return false;
	}
	c->sequence = ++phos.sequence;
	uint64_t sent = (flags & PHOS_FLAG_WAIT) | (uint64_t)t->capture_mode
							   << PHOS_FLAG_MODE_SHIFT;
	put64(frame, length | (uint64_t)op << 32 | sent << 48);
	put64(frame + 8, t->slot | t->current << 32);
	put64(frame + 16, c->sequence);
	put64(frame + 24, 0);
	c->at = frame + PHOS_FRAME_HEADER;
	c->end = frame + length;
	return true;
}

void phos_publish(struct phos_call *c)
{
	phos.head = c->head;
	atomic_store_explicit(phos_word64(PHOS_WORD_HEAD), c->head, memory_order_release);
	ring_unlock();
	/* The worker sets the doorbell, then reads the head again; we set the head, then read the
	 * doorbell. */
	atomic_thread_fence(memory_order_seq_cst);
	_Atomic uint32_t *doorbell = phos_word(PHOS_WORD_DOORBELL);
	if (__builtin_expect(atomic_load_explicit(doorbell, memory_order_relaxed) != 0, 0) &&
	    atomic_exchange_explicit(doorbell, 0, memory_order_acq_rel) != 0)
		phos_futex_wake(doorbell, 1);
}

CUresult phos_post(struct phos_call *c)
{
	phos_publish(c);
	return CUDA_SUCCESS;
}

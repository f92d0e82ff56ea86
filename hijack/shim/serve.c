/* Copies between this process and the bounce area, which the worker requests from a waiting thread.
 */
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "futex.h"
#include "session.h"
#include "thread.h"

#define SPIN_NANOSECONDS 1000000
#define TURNS_PER_LOOK   32

struct copying {
	_Atomic uint32_t *state, *here, *there; /* pieces done by this side and by the worker */
	bool to_bounce;
	unsigned char *program, *bounce;
	uint64_t bytes;
};

static _Atomic uint32_t *word(unsigned char *slot, size_t offset)
{
	return (_Atomic uint32_t *)(void *)(slot + offset);
}

/* Whether a range is mapped without holes. For a range with a hole the driver returns an error,
 * while copying it here would kill the program. msync with MS_ASYNC only checks mappings, not
 * pages. Mapped memory without the needed permission is not detected: that would cost more than the
 * copy. */
static bool mapped(const unsigned char *program, size_t bytes)
{
	size_t before = (uintptr_t)program & ((size_t)sysconf(_SC_PAGESIZE) - 1);
	int saved = errno;
	bool hole = bytes != 0 &&
		    msync((void *)(uintptr_t)(program - before), bytes + before, MS_ASYNC) != 0 &&
		    errno == ENOMEM;
	errno = saved;
	return !hole;
}

static bool may_do(const struct copying *c, uint32_t n)
{
	uint32_t there = atomic_load_explicit(c->there, memory_order_acquire);
	return c->to_bounce ? n < there + PHOS_BOUNCE_PIECES : n < there;
}

static bool given_up(const struct copying *c)
{
	return atomic_load_explicit(c->state, memory_order_acquire) != PHOS_SLOT_PIECES;
}

/* Waits until this side may copy piece n. The wait is about as long as a sleep and a wake-up, so it
 * spins and yields: on a busy machine the worker may need this core. Returns false if the worker
 * has given up or is gone. */
static bool await_turn(const struct copying *c, uint32_t n)
{
	struct phos_pulse pulse = {0};
	for (int64_t since = 0;;) {
		for (int turn = 0; turn < TURNS_PER_LOOK; turn++) {
			if (may_do(c, n))
				return true;
			phos_relax();
		}
		if (given_up(c))
			return false;
		int64_t now = phos_nanoseconds();
		if (since == 0)
			since = now;
		if (now - since < SPIN_NANOSECONDS) {
			sched_yield();
			continue;
		}
		phos_nap(1);
		if (!phos_worker_alive(&pulse, 1))
			return false;
	}
}

/* Larger copies do not stay in a cache. */
#define CACHED_BYTES (UINT64_C(32) << 20)

/* As memcpy, but with non-temporal stores if the processor has them: these neither read the
 * destination nor evict the program's other data from the caches. */
static void copy_past(unsigned char *to, const unsigned char *from, size_t bytes)
{
#ifdef __SSE2__
	size_t odd = -(uintptr_t)to % sizeof(__m128i);
	if (odd <= bytes) { /* otherwise the loop below does nothing */
		memcpy(to, from, odd);
		to += odd, from += odd, bytes -= odd;
	}
	for (; bytes >= 4 * sizeof(__m128i); bytes -= 4 * sizeof(__m128i))
		for (int i = 0; i < 4; i++, to += sizeof(__m128i), from += sizeof(__m128i))
			_mm_stream_si128((__m128i *)(void *)to,
					 _mm_loadu_si128((const __m128i *)(const void *)from));
	_mm_sfence();
#endif
	memcpy(to, from, bytes);
}

static bool copy_piece(const struct copying *c, uint64_t at, unsigned char *bounce, size_t bytes)
{
	if (!mapped(c->program + at, bytes))
		return false;
	if (c->to_bounce)
		memcpy(bounce, c->program + at, bytes);
	else if (phos_self.copied_bytes <= CACHED_BYTES)
		memcpy(c->program + at, bounce, bytes);
	else
		copy_past(c->program + at, bounce, bytes);
	return true;
}

/* Returns the slot's new state. */
static uint32_t copy_in_pieces(const struct copying *c)
{
	for (uint32_t n = 0; (uint64_t)n * PHOS_BOUNCE_PIECE < c->bytes; n++) {
		uint64_t at = (uint64_t)n * PHOS_BOUNCE_PIECE, left = c->bytes - at;
		unsigned char *bounce = c->bounce + n % PHOS_BOUNCE_PIECES * PHOS_BOUNCE_PIECE;
		if (!await_turn(c, n))
			return PHOS_SLOT_SERVED;
		if (!copy_piece(c, at, bounce, left < PHOS_BOUNCE_PIECE ? left : PHOS_BOUNCE_PIECE))
			return PHOS_SLOT_ABSENT;
		atomic_store_explicit(c->here + 1, (uint32_t)sched_getcpu(), memory_order_relaxed);
		atomic_store_explicit(c->here, n + 1, memory_order_release);
	}
	return PHOS_SLOT_SERVED;
}

static uint32_t copy_at_once(const struct copying *c, uint64_t offset)
{
	if (offset > PHOS_BOUNCE_BYTES || c->bytes > PHOS_BOUNCE_BYTES - offset)
		return PHOS_SLOT_ABSENT;
	return copy_piece(c, 0, c->bounce + offset, c->bytes) ? PHOS_SLOT_SERVED : PHOS_SLOT_ABSENT;
}

void phos_serve_copy(unsigned char *slot, uint32_t asked)
{
	uint64_t request[4];
	memcpy(request, slot + PHOS_SLOT_HEADER, sizeof request);
	struct copying c = {
		.state = word(slot, 0),
		.here = word(slot, PHOS_SLOT_PROGRAM_PIECES),
		.there = word(slot, PHOS_SLOT_WORKER_PIECES),
		.to_bounce = request[0] == 0,
		.program = (unsigned char *)(uintptr_t)request[1],
		.bounce = phos.file + PHOS_BOUNCE_OFFSET,
		.bytes = request[2],
	};
	uint32_t answer =
		asked == PHOS_SLOT_PIECES ? copy_in_pieces(&c) : copy_at_once(&c, request[3]);
	/* Unless the worker has given up and answered the call. */
	if (atomic_compare_exchange_strong(c.state, &asked, answer))
		phos_futex_wake(c.state, 1);
}

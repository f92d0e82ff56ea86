#include "session.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "handshake.h"
#include "log.h"
#include "objects.h"
#include "pages.h"
#include "thread.h"
#include "visible.h"

struct phos_session phos;

static struct phos_shared shared;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

/* The result of every call in a state other than live. */
static CUresult result_of_state(uint32_t state)
{
	switch (state) {
	case PHOS_LIVE:
		return CUDA_SUCCESS;
	case PHOS_LOST:
		return CUDA_ERROR_LAUNCH_FAILED;
	default:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
}

/* Publishes the result of the handshake to the fast paths. */
static CUresult publish_session(void)
{
	phos.file = shared.file;
	phos.arena = shared.arena;
	phos.arena_bytes = shared.arena_bytes;
	phos.number = shared.session;
	if (atomic_load(phos_word(PHOS_WORD_MAGIC)) != PHOS_MAGIC ||
	    atomic_load(phos_word(PHOS_WORD_VERSION)) != PHOS_VERSION) {
		phos_log(PHOS_ERROR, "the session file is of version %u, libphos of %u",
			 atomic_load(phos_word(PHOS_WORD_VERSION)), PHOS_VERSION);
		phos_unmap(&shared);
		phos.file = NULL;
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	}
	phos.device_count = atomic_load(phos_word(PHOS_WORD_DEVICE_COUNT));
	if (phos.device_count > PHOS_DEVICE_MAX)
		phos.device_count = PHOS_DEVICE_MAX;
	for (uint32_t i = 0; i < phos.device_count; i++) {
		const struct phos_device *device = phos_device_find((int)i);
		phos.windows[i].base = device->window;
		phos.windows[i].bytes = device->window_bytes;
	}
	phos.head = atomic_load(phos_word64(PHOS_WORD_HEAD));
	phos.tail = atomic_load(phos_word64(PHOS_WORD_TAIL));
	phos.sequence = 0;
	atomic_store(phos_word(PHOS_WORD_COPIES), PHOS_COPIES_IN_PIECES);
	atomic_store_explicit(&phos.state, PHOS_LIVE, memory_order_release);
	phos_log(PHOS_DEBUG, "session %llu, %u devices, arena at %#llx",
		 (unsigned long long)atomic_load(&phos.number), phos.device_count,
		 (unsigned long long)phos.arena);
	return CUDA_SUCCESS;
}

CUresult phos_start(void)
{
	if (phos_live())
		return phos_enter();
	int saved = errno, cancelling;
	phos_watch_fork();
	/* Sockets and files are cancellation points; a cancelled thread would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
	pthread_mutex_lock(&start_lock);
	uint32_t state = atomic_load(&phos.state);
	CUresult result = result_of_state(state);
	if (state == PHOS_FRESH && phos_visible_none(phos_visible())) {
		result = CUDA_ERROR_NO_DEVICE; /* without a session: the program shall use none */
	} else if (state == PHOS_FRESH) {
		result = phos_shake_hands(&shared);
		if (result == CUDA_SUCCESS)
			result = publish_session();
	}
	pthread_mutex_unlock(&start_lock);
	pthread_setcancelstate(cancelling, NULL);
	errno = saved;
	return result;
}

CUresult phos_with_damage(CUresult result)
{
	uint32_t untold = 1;
	if (result != CUDA_ERROR_ECC_UNCORRECTABLE ||
	    !atomic_compare_exchange_strong(phos_word(PHOS_WORD_DAMAGE), &untold, 2))
		return result;
	phos_log(PHOS_ERROR, "%.*s", PHOS_DAMAGE_BYTES - 1,
		 (const char *)phos.file + PHOS_DAMAGE_TEXT);
	return result;
}

CUresult phos_enter(void)
{
	uint32_t state = atomic_load_explicit(&phos.state, memory_order_acquire);
	if (state != PHOS_LIVE)
		return result_of_state(state);
	if (atomic_load_explicit(phos_word(PHOS_WORD_DEAD), memory_order_acquire) != 0)
		return phos_lose("its worker has ended");
	return phos_with_damage(
		(CUresult)atomic_load_explicit(phos_word(PHOS_WORD_STICKY), memory_order_acquire));
}

CUresult phos_enter_context(void)
{
	CUresult result = phos_enter();
	if (result == CUDA_SUCCESS && phos_self.current == 0)
		result = CUDA_ERROR_INVALID_CONTEXT;
	return result;
}

CUresult phos_lose(const char *why)
{
	uint32_t live = PHOS_LIVE;
	if (atomic_compare_exchange_strong(&phos.state, &live, PHOS_LOST))
		phos_log(PHOS_ERROR,
			 "session %llu is lost: %s; every CUDA call of this program fails from now "
			 "on",
			 (unsigned long long)atomic_load(&phos.number), why);
	return result_of_state(atomic_load(&phos.state));
}

void phos_notice_restore(void)
{
	int saved = errno;
	atomic_store(&phos.number, atomic_load(phos_word64(PHOS_WORD_SESSION)));
	phos_allow_worker(atomic_load(phos_word(PHOS_WORD_WORKER)));
	/* Last: a thread that finds the bit clear relies on the rest. */
	atomic_fetch_and(phos_word(PHOS_WORD_GATE), ~(uint32_t)PHOS_GATE_RESTORED);
	errno = saved;
}

CUresult phos_take_error(void)
{
	uint32_t sticky = atomic_load_explicit(phos_word(PHOS_WORD_STICKY), memory_order_acquire);
	if (sticky != 0)
		return phos_with_damage((CUresult)sticky);
	if (atomic_load_explicit(phos_word(PHOS_WORD_ERROR), memory_order_acquire) == 0)
		return CUDA_SUCCESS;
	return phos_with_damage((CUresult)atomic_exchange_explicit(phos_word(PHOS_WORD_ERROR), 0,
								   memory_order_acq_rel));
}

/* Writes the bytes between two positions of the output ring. */
static void write_output(uint64_t from, uint64_t to)
{
	const char *ring = (const char *)phos.file + PHOS_OUTPUT_OFFSET;
	uint64_t begin = from % PHOS_OUTPUT_BYTES, bytes = to - from;
	uint64_t first = begin + bytes > PHOS_OUTPUT_BYTES ? PHOS_OUTPUT_BYTES - begin : bytes;
	fwrite(ring + begin, 1, first, stdout);
	fwrite(ring, 1, bytes - first, stdout);
}

void phos_drain_output(void)
{
	int saved = errno, cancelling;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
	pthread_mutex_lock(&output_lock);
	uint64_t head =
		atomic_load_explicit(phos_word64(PHOS_WORD_OUTPUT_HEAD), memory_order_acquire);
	uint64_t tail =
		atomic_load_explicit(phos_word64(PHOS_WORD_OUTPUT_TAIL), memory_order_relaxed);
	if (head - tail > 0 && head - tail <= PHOS_OUTPUT_BYTES) {
		write_output(tail, head);
		fflush(stdout);
	}
	atomic_store_explicit(phos_word64(PHOS_WORD_OUTPUT_TAIL), head, memory_order_release);
	pthread_mutex_unlock(&output_lock);
	pthread_setcancelstate(cancelling, NULL);
	errno = saved;
}

/* Fork: as with the real driver, the child of an initialised process cannot use CUDA. It must not
 * access what its parent shares with the worker. */
static void before_fork(void)
{
	pthread_mutex_lock(&start_lock);
	phos_pages_before_fork();
}

static void after_fork_in_parent(void)
{
	phos_pages_after_fork_in_parent();
	pthread_mutex_unlock(&start_lock);
}

static void after_fork_in_child(void)
{
	phos_pages_after_fork_in_child();
	pthread_mutex_init(&start_lock, NULL);
	if (atomic_load(&phos.state) == PHOS_FRESH)
		return;
	atomic_store(&phos.state, PHOS_FORKED);
	if (shared.inherited) {
		int saved = errno;
		phos_unmap(&shared);
		errno = saved;
	}
	phos.file = NULL;
}

static void register_handlers(void)
{
	if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
		phos_log(PHOS_WARN, "no handlers for fork: a child must not use CUDA");
}

void phos_watch_fork(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, register_handlers);
}

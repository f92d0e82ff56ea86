#include "thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "session.h"

__thread struct phos_thread phos_self __attribute__((tls_model("initial-exec")));

/* Slots below SHARED_SLOT belong to one thread each; the last is shared by all threads that found
 * no free slot. */
#define SHARED_SLOT (PHOS_SLOT_COUNT - 1)
#define SLOT_WORDS  (PHOS_SLOT_COUNT / 64)

static _Atomic uint64_t taken[SLOT_WORDS];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;

/* Runs at the end of a thread that had a slot. */
static void thread_leave(void *argument)
{
	struct phos_thread *t = argument;
	if (t->ready && !t->shares)
		atomic_fetch_and(&taken[t->slot / 64], ~(UINT64_C(1) << (t->slot % 64)));
	t->ready = false;
	free(t->below);
	t->below = NULL;
	t->depth = t->room = 0;
	t->current = 0;
	free(t->capture_nodes);
	t->capture_nodes = NULL;
	t->capture_room = 0;
	free(t->private);
	t->private = NULL;
}

static void make_key(void)
{
	/* Without a key slots are never freed: more threads share the last one, which is slower but
	 * correct. */
	if (pthread_key_create(&exit_key, thread_leave) != 0)
		exit_key = (pthread_key_t)-1;
}

static bool take_slot(uint32_t *slot)
{
	for (uint32_t word = 0; word < SLOT_WORDS; word++) {
		uint64_t seen = atomic_load_explicit(&taken[word], memory_order_relaxed);
		for (;;) {
			uint64_t free_bits = ~seen;
			if (word == SLOT_WORDS - 1)
				free_bits &= ~(UINT64_C(1) << 63);
			if (free_bits == 0)
				break;
			uint32_t bit = (uint32_t)__builtin_ctzll(free_bits);
			if (atomic_compare_exchange_weak(&taken[word], &seen,
							 seen | UINT64_C(1) << bit)) {
				*slot = word * 64 + bit;
				return true;
			}
		}
	}
	return false;
}

void phos_thread_join(struct phos_thread *t)
{
	pthread_once(&key_once, make_key);
	if (exit_key != (pthread_key_t)-1)
		pthread_setspecific(exit_key, t);
	t->shares = !take_slot(&t->slot);
	if (t->shares) {
		t->slot = SHARED_SLOT;
		if (t->private == NULL)
			t->private = malloc(PHOS_SLOT_BYTES);
	}
	t->ready = true;
}

void phos_shared_slot_lock(void)
{
	pthread_mutex_lock(&shared_lock);
}

void phos_shared_slot_unlock(void)
{
	pthread_mutex_unlock(&shared_lock);
}

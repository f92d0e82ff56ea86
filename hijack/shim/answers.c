/* A table with one place for each hash of a question; a newer answer takes the place of an older
 * one. Nothing waits: a place that is being written has no answer, and takes none. */
#include "answers.h"

#include <stdatomic.h>

#define PLACES 1024 /* a power of two */

struct place {
	_Atomic uint32_t version; /* odd while it is written */
	_Atomic uint64_t forgotten, words[PHOS_QUESTION_WORDS], answer;
};

static struct place places[PLACES];
static _Atomic uint64_t forgotten;

static struct place *place_of(const struct phos_question *q)
{
	uint64_t hash = 0;
	for (int i = 0; i < PHOS_QUESTION_WORDS; i++)
		hash = (hash ^ q->words[i] ^ hash >> 29) * UINT64_C(0x9e3779b97f4a7c15);
	return &places[hash >> 32 & (PLACES - 1)];
}

struct phos_question phos_question(uint64_t call, uint64_t object, uint64_t a, uint64_t b,
				   uint64_t c)
{
	return (struct phos_question){atomic_load(&forgotten), {call, object, a, b, c}};
}

static bool same(struct place *place, const struct phos_question *q)
{
	if (atomic_load_explicit(&place->forgotten, memory_order_relaxed) != q->forgotten)
		return false;
	for (int i = 0; i < PHOS_QUESTION_WORDS; i++) {
		if (atomic_load_explicit(&place->words[i], memory_order_relaxed) != q->words[i])
			return false;
	}
	return true;
}

bool phos_answer_find(const struct phos_question *question, uint64_t *answer)
{
	struct place *place = place_of(question);
	uint32_t version = atomic_load_explicit(&place->version, memory_order_acquire);
	if (version % 2 != 0 || !same(place, question))
		return false;
	uint64_t found = atomic_load_explicit(&place->answer, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&place->version, memory_order_relaxed) != version)
		return false;
	*answer = found;
	return true;
}

void phos_answer_enter(const struct phos_question *question, uint64_t answer)
{
	struct place *place = place_of(question);
	uint32_t version = atomic_load_explicit(&place->version, memory_order_relaxed);
	if (version % 2 != 0 ||
	    !atomic_compare_exchange_strong(&place->version, &version, version + 1))
		return;
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&place->forgotten, question->forgotten, memory_order_relaxed);
	for (int i = 0; i < PHOS_QUESTION_WORDS; i++)
		atomic_store_explicit(&place->words[i], question->words[i], memory_order_relaxed);
	atomic_store_explicit(&place->answer, answer, memory_order_relaxed);
	atomic_store_explicit(&place->version, version + 2, memory_order_release);
}

void phos_answers_forget(void)
{
	atomic_fetch_add(&forgotten, 1);
}

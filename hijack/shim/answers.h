/* Answers of the session that stay true until code is unloaded or a function is set up otherwise.
 * Libraries ask for them before each launch; remembered, they cost no round trip. */
#ifndef PHOS_ANSWERS_H
#define PHOS_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#define PHOS_QUESTION_WORDS 5

struct phos_question {
	/* How often all answers were forgotten before this was asked: an answer that arrives after
	 * the next time is not remembered. */
	uint64_t forgotten;
	uint64_t words[PHOS_QUESTION_WORDS]; /* the call's number, not 0, and what it is about */
};

/* Prepares a question. It must be prepared before the session is asked. */
struct phos_question phos_question(uint64_t call, uint64_t object, uint64_t a, uint64_t b,
				   uint64_t c);

/* Whether the answer is remembered. */
bool phos_answer_find(const struct phos_question *question, uint64_t *answer);

/* Remembers an answer. */
void phos_answer_enter(const struct phos_question *question, uint64_t answer);

/* Forgets all answers. Called after each change of what they depend on. */
void phos_answers_forget(void);

#endif

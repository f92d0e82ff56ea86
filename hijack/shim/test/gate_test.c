/* The gate: closed for a checkpoint, and how the first entries after a restore adapt. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "../futex.h"
#include "../session.h"
#include "expect.h"
#include "lab.h"

enum { OP_ECHO = 1, OP_POST = 2, OP_DONE = 3 };

#define THREADS 8
#define CALLS   200

static _Atomic uint32_t posted, finished, wrong;

static void handle(const struct lab_frame *frame)
{
	uint64_t word = frame->call == OP_ECHO ? lab_word(frame, 0) + 1 : 0;
	if (frame->call == OP_POST)
		atomic_fetch_add(&posted, 1);
	if ((frame->flags & PHOS_FLAG_WAIT) != 0)
		lab_reply(frame, CUDA_SUCCESS, &word, 1);
}

static uint64_t echo(uint64_t word)
{
	struct phos_call c;
	if (!phos_begin(&c, OP_ECHO, PHOS_WAIT, PHOS_WORDS(1)))
		return 0;
	phos_put_u64(&c, word);
	return phos_wait(&c) == CUDA_SUCCESS ? phos_take_u64(&c) : 0;
}

static CUresult post(uint16_t call, unsigned flags)
{
	struct phos_call c;
	if (!phos_begin(&c, call, flags, 0))
		return c.result;
	return phos_post(&c);
}

static void open_gate(uint32_t bits)
{
	_Atomic uint32_t *gate = phos_word(PHOS_WORD_GATE);
	atomic_fetch_and(gate, ~bits);
	phos_futex_wake(gate, 1000);
}

static void *call_many(void *argument)
{
	uint64_t self = (uintptr_t)argument;
	for (uint64_t i = 0; i < CALLS; i++) {
		if (echo(self + i) != self + i + 1 || post(OP_POST, 0) != CUDA_SUCCESS)
			atomic_fetch_add(&wrong, 1);
	}
	atomic_fetch_add(&finished, 1);
	return NULL;
}

static void start(pthread_t *threads)
{
	for (uintptr_t i = 0; i < THREADS; i++)
		EXPECT_EQUAL(pthread_create(&threads[i], NULL, call_many, (void *)(i * 1000)), 0);
}

static void join(pthread_t *threads)
{
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQUAL(atomic_load(&finished), THREADS);
	EXPECT_EQUAL(atomic_load(&wrong), 0);
	atomic_store(&finished, 0);
}

/* No call passes a closed gate, except the shim's own; all continue when it opens. */
static void test_closed(void)
{
	pthread_t threads[THREADS];
	EXPECT_EQUAL(echo(1), 2);
	uint64_t before = lab_consumed();
	atomic_fetch_or(phos_word(PHOS_WORD_GATE), PHOS_GATE_CLOSED);
	start(threads);
	usleep(250000); /* longer than one sleep */
	EXPECT_EQUAL(lab_consumed(), before);
	EXPECT_EQUAL(atomic_load(&finished), 0);
	EXPECT_EQUAL(post(OP_DONE, PHOS_INTERNAL), CUDA_SUCCESS);
	while (lab_consumed() == before)
		usleep(1000);
	open_gate(PHOS_GATE_CLOSED);
	join(threads);
	EXPECT_EQUAL(echo(1), 2);
	EXPECT_EQUAL(lab_consumed(), before + 2 + 2 * THREADS * CALLS);
}

/* After a restore, threads adapt to the new session at the gate, closed or open, once. */
static void test_restored(uint32_t closed, uint64_t number)
{
	pthread_t threads[THREADS];
	errno = 78;
	atomic_store(phos_word64(PHOS_WORD_SESSION), number);
	atomic_store(phos_word(PHOS_WORD_WORKER), (uint32_t)getpid());
	atomic_fetch_or(phos_word(PHOS_WORD_GATE), PHOS_GATE_RESTORED | closed);
	EXPECT(phos.number != number);
	start(threads);
	if (closed != 0) {
		usleep(50000);
		EXPECT(phos.number != number);
		open_gate(closed);
	} else {
		EXPECT_EQUAL(echo(1), 2);
	}
	join(threads);
	EXPECT_EQUAL(phos.number, number);
	EXPECT_EQUAL(atomic_load(phos_word(PHOS_WORD_GATE)), 0);
	EXPECT_EQUAL(errno, 78);
}

/* A full gate still stops asynchronous calls, and does not hide a restore. */
static void test_restored_and_full(void)
{
	atomic_store(phos_word64(PHOS_WORD_SESSION), 500);
	atomic_store(phos_word(PHOS_WORD_WORKER), 0);
	atomic_fetch_or(phos_word(PHOS_WORD_GATE), PHOS_GATE_RESTORED | PHOS_GATE_FULL);
	EXPECT_EQUAL(echo(5), 6);
	EXPECT_EQUAL(phos.number, 500);
	EXPECT_EQUAL(atomic_load(phos_word(PHOS_WORD_GATE)), PHOS_GATE_FULL);
	open_gate(PHOS_GATE_FULL);
	EXPECT_EQUAL(post(OP_POST, 0), CUDA_SUCCESS);
}

static _Atomic uint32_t holding;

static void *hold(void *result)
{
	*(CUresult *)result = phos_hold_begin();
	atomic_store(&holding, 1);
	return NULL;
}

/* A closed gate stops a thread that would hold what cannot be saved; the count says how many do. */
static void test_holds(void)
{
	pthread_t thread;
	CUresult result = CUDA_ERROR_UNKNOWN;
	_Atomic uint32_t *count = phos_word(PHOS_WORD_HOLDS);
	EXPECT_EQUAL(phos_hold_begin(), CUDA_SUCCESS);
	EXPECT_EQUAL(atomic_load(count), 1);
	atomic_fetch_or(phos_word(PHOS_WORD_GATE), PHOS_GATE_CLOSED);
	EXPECT_EQUAL(pthread_create(&thread, NULL, hold, &result), 0);
	usleep(250000); /* longer than one sleep */
	EXPECT_EQUAL(atomic_load(&holding), 0);
	EXPECT_EQUAL(atomic_load(count), 1);
	phos_hold_end();
	EXPECT_EQUAL(atomic_load(count), 0);
	open_gate(PHOS_GATE_CLOSED);
	pthread_join(thread, NULL);
	EXPECT_EQUAL(result, CUDA_SUCCESS);
	EXPECT_EQUAL(atomic_load(count), 1);
	phos_hold_end();
}

int main(void)
{
	lab_begin(handle);
	test_closed();
	test_restored(PHOS_GATE_CLOSED, 100);
	test_restored(0, 200);
	test_restored_and_full();
	test_holds();
	lab_end();
	return expect_result("gate_test");
}

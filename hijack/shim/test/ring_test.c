/* Posting: order, wrapping, a full ring, the longest frame, many threads, more threads than slots.
 * The worker thread checks each frame. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "expect.h"
#include "lab.h"

#define POSTERS     4
#define POSTS       20000
#define CROWD       300
#define CROWD_CALLS 20

/* The tests post the numbers of real calls with their own payloads. */
enum { OP_CHECKED = 1, OP_ECHO = 2 };

static uint64_t last_of_poster[POSTERS];
static _Atomic uint64_t bad;

/* A checked frame: poster, count, then that many words equal to count. */
static void check(const struct lab_frame *frame)
{
	uint64_t poster = lab_word(frame, 0), count = lab_word(frame, 1), words = frame->bytes / 8;
	if (poster >= POSTERS || count != last_of_poster[poster] + 1)
		atomic_fetch_add(&bad, 1);
	else
		last_of_poster[poster] = count;
	for (uint64_t i = 2; i < words; i++)
		if (lab_word(frame, i) != count)
			atomic_fetch_add(&bad, 1);
}

static void handle(const struct lab_frame *frame)
{
	if (frame->call == OP_CHECKED)
		check(frame);
	uint64_t echo = frame->call == OP_ECHO ? lab_word(frame, 0) + 1 : 0;
	if ((frame->flags & PHOS_FLAG_WAIT) != 0)
		lab_reply(frame, CUDA_SUCCESS, &echo, 1);
}

static uint64_t echo(uint64_t word)
{
	struct phos_call c;
	if (!phos_begin(&c, OP_ECHO, PHOS_WAIT, PHOS_WORDS(1)))
		return 0;
	phos_put_u64(&c, word);
	return phos_wait(&c) == CUDA_SUCCESS ? phos_take_u64(&c) : 0;
}

static void *post_many(void *argument)
{
	uint64_t poster = (uintptr_t)argument;
	unsigned seed = (unsigned)poster;
	for (uint64_t count = 1; count <= POSTS; count++) {
		struct phos_call c;
		uint64_t words = 2 + (uint64_t)rand_r(&seed) % 120;
		if (!phos_begin(&c, OP_CHECKED, 0, PHOS_WORDS(words))) {
			atomic_fetch_add(&bad, 1);
			return NULL;
		}
		phos_put_u64(&c, poster);
		phos_put_u64(&c, count);
		for (uint64_t i = 2; i < words; i++)
			phos_put_u64(&c, count);
		phos_post(&c);
		if (count % 1000 == 0 && echo(count) != count + 1)
			atomic_fetch_add(&bad, 1);
	}
	return NULL;
}

static void test_order(void)
{
	pthread_t threads[POSTERS];
	for (uintptr_t i = 0; i < POSTERS; i++)
		pthread_create(&threads[i], NULL, post_many, (void *)i);
	for (int i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQUAL(echo(7), 8);
	EXPECT_EQUAL(atomic_load(&bad), 0);
	for (int i = 0; i < POSTERS; i++)
		EXPECT_EQUAL(last_of_poster[i], POSTS);
	EXPECT(lab_pads() > 3);
}

static void *unpause(void *unused)
{
	(void)unused;
	usleep(100000);
	atomic_store(&lab_paused, false);
	return NULL;
}

/* Posts more than the ring holds while nothing is consumed: the poster must wait, and lose nothing.
 */
static void test_full(void)
{
	pthread_t helper;
	unsigned char bytes[60000] = {1};
	uint64_t before = lab_consumed();
	atomic_store(&lab_paused, true);
	pthread_create(&helper, NULL, unpause, NULL);
	errno = 77;
	for (int i = 0; i < 100; i++) {
		struct phos_call c;
		EXPECT(phos_begin(&c, 3, 0, PHOS_ARRAY(sizeof bytes)));
		phos_put_bytes(&c, bytes, sizeof bytes);
		phos_post(&c);
	}
	EXPECT_EQUAL(errno, 77);
	EXPECT_EQUAL(echo(1), 2);
	EXPECT_EQUAL(lab_consumed(), before + 101);
	pthread_join(helper, NULL);
	struct phos_call c;
	EXPECT(!phos_begin(&c, 3, 0, PHOS_RING_BYTES));
	EXPECT_EQUAL(c.result, CUDA_ERROR_INVALID_VALUE);
}

static void expect_refused(size_t payload_bytes)
{
	struct phos_call c;
	bool begun = phos_begin(&c, 3, 0, payload_bytes);
	EXPECT(!begun);
	EXPECT_EQUAL(c.result, CUDA_ERROR_INVALID_VALUE);
	if (begun) /* it holds the ring's lock */
		exit(expect_result("ring_test"));
}

/* The worker takes a frame longer than PHOS_FRAME_MAX for damage, so none may be posted. */
static void test_longest(void)
{
	static unsigned char bytes[PHOS_FRAME_MAX - PHOS_FRAME_HEADER - 8];
	size_t longest = PHOS_ARRAY(sizeof bytes);
	EXPECT_EQUAL(longest, PHOS_FRAME_MAX - PHOS_FRAME_HEADER);
	uint64_t before = lab_consumed();
	struct phos_call c;
	EXPECT(phos_begin(&c, 3, 0, longest));
	phos_put_bytes(&c, bytes, sizeof bytes);
	phos_post(&c);
	expect_refused(longest + 1);
	expect_refused(PHOS_FRAME_MAX);
	EXPECT_EQUAL(echo(1), 2);
	EXPECT_EQUAL(lab_consumed(), before + 2);
}

static pthread_barrier_t crowd;

static void *one_of_crowd(void *argument)
{
	uint64_t self = (uintptr_t)argument;
	uint64_t wrong = echo(self) != self + 1;
	/* All hold their slots at once. */
	pthread_barrier_wait(&crowd);
	for (uint64_t i = 0; i < CROWD_CALLS; i++)
		wrong += echo(self * 1000 + i) != self * 1000 + i + 1;
	pthread_barrier_wait(&crowd);
	atomic_fetch_add(&bad, wrong);
	return NULL;
}

static void test_crowd(void)
{
	static pthread_t threads[CROWD];
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	for (int round = 0; round < 2; round++) {
		pthread_barrier_init(&crowd, NULL, CROWD);
		for (uintptr_t i = 0; i < CROWD; i++)
			EXPECT_EQUAL(pthread_create(&threads[i], &attributes, one_of_crowd,
						    (void *)(i + 1)),
				     0);
		for (int i = 0; i < CROWD; i++)
			pthread_join(threads[i], NULL);
		pthread_barrier_destroy(&crowd);
	}
	EXPECT_EQUAL(atomic_load(&bad), 0);
	/* Their slots were freed. */
	phos_thread_join(&phos_self);
	EXPECT(!phos_self.shares);
}

int main(void)
{
	lab_begin(handle);
	test_order();
	test_full();
	test_longest();
	test_crowd();
	lab_end();
	return expect_result("ring_test");
}

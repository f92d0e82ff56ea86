/* Replies: copies for the worker, sleeping, errors of asynchronous calls, output, and a worker that
 * has exited. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"
#include "lab.h"

enum {
	OP_ECHO = 1,
	OP_COPY = 2,
	OP_SLOW = 3,
	OP_LOG = 4,
	OP_NEVER = 5,
	OP_WRONG = 6,
	OP_HOLE = 7,
	OP_PIECES = 8
};

static unsigned char source[5000], target[5000];
static unsigned char *holed; /* three pages; the middle one is not mapped */
static uint32_t holed_state[2];
enum { MANY = 11 * PHOS_BOUNCE_PIECE + 77 }; /* more pieces than fit the area, and a short one */
static unsigned char many[MANY], taken[MANY], back[MANY];

static void handle(const struct lab_frame *frame)
{
	uint64_t words[2] = {frame->context, frame->flags};
	switch (frame->call) {
	case OP_COPY:
		lab_copy(frame, 0, source, sizeof source, 128);
		lab_copy(frame, 1, target, sizeof target, 128);
		break;
	case OP_PIECES:
		EXPECT_EQUAL(lab_copy_pieces(frame, 0, many, taken, MANY), PHOS_SLOT_SERVED);
		EXPECT_EQUAL(lab_copy_pieces(frame, 1, back, taken, MANY), PHOS_SLOT_SERVED);
		EXPECT_EQUAL(lab_copy_pieces(frame, 0, holed, taken, 3 * 4096), PHOS_SLOT_ABSENT);
		break;
	case OP_HOLE:
		for (uint64_t direction = 0; direction < 2; direction++)
			holed_state[direction] =
				lab_copy(frame, direction, holed + 100, 2 * 4096 + 200, 0);
		break;
	case OP_SLOW:
		usleep(150000); /* longer than a spin and one sleep */
		break;
	case OP_NEVER:
		return;
	case OP_WRONG: {
		struct lab_frame other = *frame;
		other.sequence--;
		lab_reply(&other, CUDA_SUCCESS, NULL, 0);
		return;
	}
	}
	if ((frame->flags & PHOS_FLAG_WAIT) != 0)
		lab_reply(frame, frame->call == OP_LOG ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS, words,
			  2);
}

static CUresult call(uint16_t op, unsigned flags, struct phos_call *c)
{
	if (!phos_begin(c, op, flags, 0))
		return c->result;
	return phos_wait(c);
}

static void test_copies(void)
{
	struct phos_call c;
	for (size_t i = 0; i < sizeof source; i++)
		source[i] = (unsigned char)(i * 7);
	EXPECT_EQUAL(call(OP_COPY, PHOS_WAIT, &c), CUDA_SUCCESS);
	EXPECT(memcmp(source, target, sizeof source) == 0);
}

/* A copy of a range with a hole is refused, and the program continues. */
static void test_hole(void)
{
	struct phos_call c;
	holed = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(holed != MAP_FAILED && munmap(holed + 4096, 4096) == 0);
	errno = 55;
	EXPECT_EQUAL(call(OP_HOLE, PHOS_WAIT, &c), CUDA_SUCCESS);
	EXPECT_EQUAL(errno, 55);
	EXPECT_EQUAL(holed_state[0], PHOS_SLOT_ABSENT);
	EXPECT_EQUAL(holed_state[1], PHOS_SLOT_ABSENT);
}

/* Both sides copy at the same time. */
static void test_pieces(void)
{
	struct phos_call c;
	for (size_t i = 0; i < MANY; i++)
		many[i] = (unsigned char)(i * 7 + i / 1000);
	EXPECT_EQUAL(call(OP_PIECES, PHOS_WAIT, &c), CUDA_SUCCESS);
	EXPECT(memcmp(many, taken, MANY) == 0);
	EXPECT(memcmp(many, back, MANY) == 0);
	memset(back, 0, MANY);
	phos_self.copied_bytes = UINT64_C(1) << 30; /* the way for copies beyond the caches */
	EXPECT_EQUAL(call(OP_PIECES, PHOS_WAIT, &c), CUDA_SUCCESS);
	EXPECT(memcmp(many, back, MANY) == 0);
	phos_self.copied_bytes = 0;
}

static void test_sleep(void)
{
	struct phos_call c;
	errno = 55;
	phos_self.capture_mode = 2;
	EXPECT_EQUAL(call(OP_SLOW, PHOS_WAIT, &c), CUDA_SUCCESS);
	EXPECT_EQUAL(phos_take_u64(&c), 1); /* the primary context of device 0 */
	EXPECT_EQUAL(phos_take_u64(&c), PHOS_FLAG_WAIT | 2 << PHOS_FLAG_MODE_SHIFT);
	EXPECT_EQUAL(errno, 55);
	phos_self.capture_mode = 0;
	usleep(50000); /* the worker falls asleep */
	EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT, &c), CUDA_SUCCESS);
	EXPECT_EQUAL(call(OP_LOG, PHOS_WAIT, &c), CUDA_ERROR_NOT_FOUND);
	EXPECT_EQUAL(call(OP_WRONG, PHOS_WAIT, &c), CUDA_ERROR_UNKNOWN);
}

static void test_take(void)
{
	unsigned char reply[32] = {5, 0, 0, 0, 0, 0, 0, 0, 'h', 'e', 'l', 'l', 'o', 0, 0, 0, 9},
		      text[8] = "";
	struct phos_call c = {.at = reply, .end = reply + sizeof reply};
	EXPECT_EQUAL(phos_take_bytes(&c, text, 3), 3);
	EXPECT(memcmp(text, "hel", 4) == 0);
	EXPECT_EQUAL(phos_take_u64(&c), 9);
	EXPECT_EQUAL(phos_take_u64(&c), 0);
	EXPECT_EQUAL(phos_take_u64(&c), 0); /* past the end */
	/* A count that is longer than the reply. */
	reply[0] = 200;
	c = (struct phos_call){.at = reply, .end = reply + 16};
	EXPECT_EQUAL(phos_take_bytes(&c, text, sizeof text), 8);
	EXPECT(c.at == c.end);
}

static void test_errors(void)
{
	struct phos_call c;
	atomic_store(phos_word(PHOS_WORD_ERROR), CUDA_ERROR_INVALID_HANDLE);
	EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT, &c), CUDA_ERROR_INVALID_HANDLE);
	EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT, &c), CUDA_SUCCESS);
	atomic_store(phos_word(PHOS_WORD_ERROR), CUDA_ERROR_INVALID_HANDLE);
	EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT | PHOS_INTERNAL, &c), CUDA_SUCCESS);
	EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT, &c), CUDA_ERROR_INVALID_HANDLE);
	CUcontext current;
	cuCtxPopCurrent_v2(&current);
	EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT | PHOS_CONTEXT, &c), CUDA_ERROR_INVALID_CONTEXT);
	cuCtxPushCurrent_v2(current);
	phos_self.callback = true;
	EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT, &c), CUDA_ERROR_NOT_PERMITTED);
	phos_self.callback = false;
}

/* The output of device printf is written to stdout, also across the end of its ring. */
static void test_output(void)
{
	struct phos_call c;
	char got[16] = "";
	int ends[2], saved = dup(STDOUT_FILENO);
	uint64_t start = PHOS_OUTPUT_BYTES - 3;
	EXPECT_EQUAL(pipe(ends), 0);
	fflush(stdout);
	dup2(ends[1], STDOUT_FILENO);
	memcpy(phos.file + PHOS_OUTPUT_OFFSET + start, "abc", 3);
	memcpy(phos.file + PHOS_OUTPUT_OFFSET, "def\n", 4);
	atomic_store(phos_word64(PHOS_WORD_OUTPUT_TAIL), start);
	atomic_store(phos_word64(PHOS_WORD_OUTPUT_HEAD), start + 7);
	EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT, &c), CUDA_SUCCESS);
	dup2(saved, STDOUT_FILENO);
	EXPECT_EQUAL(read(ends[0], got, sizeof got), 7);
	EXPECT(strcmp(got, "abcdef\n") == 0);
	EXPECT_EQUAL(atomic_load(phos_word64(PHOS_WORD_OUTPUT_TAIL)), start + 7);
	close(saved);
	close(ends[0]);
	close(ends[1]);
}

static void test_sticky(void)
{
	struct phos_call c;
	int count;
	atomic_store(phos_word(PHOS_WORD_STICKY), CUDA_ERROR_ILLEGAL_ADDRESS);
	for (int i = 0; i < 3; i++)
		EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT, &c), CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT_EQUAL(cuDeviceGetCount(&count), CUDA_ERROR_ILLEGAL_ADDRESS);
	atomic_store(phos_word(PHOS_WORD_STICKY), 0);
}

static void test_dead(void)
{
	struct phos_call c;
	/* The word is set while a call waits, as when the worker is killed during a call. */
	atomic_store(phos_word(PHOS_WORD_DEAD), 0);
	EXPECT(phos_begin(&c, OP_NEVER, PHOS_WAIT, 0));
	atomic_store(phos_word(PHOS_WORD_DEAD), 1);
	EXPECT_EQUAL(phos_wait(&c), CUDA_ERROR_LAUNCH_FAILED);
	EXPECT_EQUAL(call(OP_ECHO, PHOS_WAIT, &c), CUDA_ERROR_LAUNCH_FAILED);
	EXPECT_EQUAL(cuMemFree_v2(LAB_WINDOW), CUDA_ERROR_LAUNCH_FAILED);
	EXPECT_EQUAL(cuInit(0), CUDA_ERROR_LAUNCH_FAILED);
}

int main(void)
{
	lab_begin(handle);
	test_copies();
	test_hole();
	test_pieces();
	test_sleep();
	test_take();
	test_errors();
	test_output();
	test_sticky();
	test_dead();
	lab_end();
	return expect_result("wait_test");
}

/* Questions that libraries ask before each launch reach the worker once, and again after what may
 * change the answer. */
#include "../answers.h"

#include <pthread.h>

#include "../function.h"
#include "../objects.h"
#include "expect.h"
#include "lab.h"

#define HANDLE(kind, index) (PHOS_HANDLE_BASE | (uint64_t)(kind) << 32 | (index))
#define MODULE              HANDLE(PHOS_KIND_MODULE, 3)
#define LIBRARY             HANDLE(PHOS_KIND_LIBRARY, 4)
#define KERNEL              HANDLE(PHOS_KIND_KERNEL, 11)
#define FUNCTION            HANDLE(PHOS_KIND_FUNCTION, 21)

enum { DYNAMIC_SHARED = 8 };

static uint64_t function = FUNCTION;
static int held = 4; /* blocks on a multiprocessor */

static void handle(const struct lab_frame *frame)
{
	uint64_t words[2] = {0};
	switch (frame->call) {
	case PHOS_CALL_cuDevicePrimaryCtxRetain:
		words[0] = phos_primary_context(0);
		break;
	case PHOS_CALL_cuCtxCreate_v2:
		words[0] = HANDLE(PHOS_KIND_CONTEXT, PHOS_DEVICE_MAX + 1);
		break;
	case PHOS_CALL_cuKernelGetFunction:
		words[0] = function;
		break;
	case PHOS_CALL_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags:
		words[0] = (uint64_t)held;
		break;
	}
	if ((frame->flags & PHOS_FLAG_WAIT) != 0)
		lab_reply(frame, CUDA_SUCCESS, words, 2);
}

/* Asks for a kernel's function many times and returns how many frames that took. */
static uint64_t ask_function(CUfunction want)
{
	uint64_t before = phos.sequence;
	for (int i = 0; i < 100; i++) {
		CUfunction got = 0;
		EXPECT_EQUAL(cuKernelGetFunction(&got, KERNEL), CUDA_SUCCESS);
		EXPECT_EQUAL(got, want);
	}
	return phos.sequence - before;
}

/* Asks for the blocks on a multiprocessor many times and returns how many frames that took. */
static uint64_t ask_blocks(CUfunction of, int threads, size_t shared_bytes, unsigned flags)
{
	uint64_t before = phos.sequence;
	for (int i = 0; i < 100; i++) {
		int got = 0;
		EXPECT_EQUAL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
				     &got, of, threads, shared_bytes, flags),
			     CUDA_SUCCESS);
		EXPECT_EQUAL(got, held);
	}
	return phos.sequence - before;
}

static void test_once(void)
{
	int blocks;
	EXPECT_EQUAL(ask_function(FUNCTION), 1);
	EXPECT_EQUAL(ask_function(FUNCTION), 0);
	EXPECT_EQUAL(ask_blocks(FUNCTION, 128, 0, 0), 1);
	EXPECT_EQUAL(ask_blocks(FUNCTION, 128, 0, 0), 0);
	held = 3;
	EXPECT_EQUAL(ask_blocks(FUNCTION, 256, 0, 0), 1);
	EXPECT_EQUAL(ask_blocks(FUNCTION, 256, UINT64_C(1) << 40, 0), 1);
	EXPECT_EQUAL(ask_blocks(FUNCTION, 256, 0, 1), 1);
	EXPECT_EQUAL(ask_blocks(KERNEL, 256, 0, 0), 1);
	EXPECT_EQUAL(cuKernelGetFunction(NULL, KERNEL), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, FUNCTION, 128, 0),
		     CUDA_ERROR_INVALID_VALUE);
	held = 4;
	EXPECT_EQUAL(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, FUNCTION, 128, 0),
		     CUDA_SUCCESS);
	EXPECT_EQUAL(blocks, 4);
}

/* What a change must cost: the question, asked again. */
static void expect_forgotten(int line)
{
	uint64_t took = ask_blocks(FUNCTION, 128, 0, 0);
	if (took != 1)
		fprintf(stderr, "line %d:\n", line);
	EXPECT_EQUAL(took, 1);
}

static void test_settings(void)
{
	held = 5;
	EXPECT_EQUAL(cuFuncSetAttribute(FUNCTION, DYNAMIC_SHARED, 1000), CUDA_SUCCESS);
	expect_forgotten(__LINE__);
	uint64_t before = phos.sequence;
	EXPECT_EQUAL(cuFuncSetAttribute(FUNCTION, DYNAMIC_SHARED, 1000), CUDA_SUCCESS);
	EXPECT_EQUAL(phos.sequence, before + 1); /* still told */
	EXPECT_EQUAL(ask_blocks(FUNCTION, 128, 0, 0), 0);
	held = 6;
	EXPECT_EQUAL(cuKernelSetAttribute(DYNAMIC_SHARED, 2000, KERNEL, 0), CUDA_SUCCESS);
	expect_forgotten(__LINE__);
	int value = 0;
	EXPECT_EQUAL(cuFuncGetAttribute(&value, DYNAMIC_SHARED, FUNCTION), CUDA_SUCCESS);
	EXPECT_EQUAL(value, 2000);
	held = 5;
	EXPECT_EQUAL(cuFuncSetAttribute(FUNCTION, DYNAMIC_SHARED, 1000), CUDA_SUCCESS);
	expect_forgotten(__LINE__);
	EXPECT_EQUAL(cuKernelGetAttribute(&value, DYNAMIC_SHARED, KERNEL, 0), CUDA_SUCCESS);
	EXPECT_EQUAL(value, 1000);
}

static void test_ends(void)
{
	CUcontext other, was;
	held = 7;
	EXPECT_EQUAL(cuModuleUnload(MODULE), CUDA_SUCCESS);
	expect_forgotten(__LINE__);
	EXPECT_EQUAL(ask_function(FUNCTION), 1);
	function = FUNCTION + 1;
	EXPECT_EQUAL(cuLibraryUnload(LIBRARY), CUDA_SUCCESS);
	EXPECT_EQUAL(ask_function(FUNCTION + 1), 1);
	EXPECT_EQUAL(ask_function(FUNCTION + 1), 0);
	/* Another context has another function. */
	EXPECT_EQUAL(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	function = FUNCTION + 2;
	EXPECT_EQUAL(ask_function(FUNCTION + 2), 1);
	EXPECT_EQUAL(cuCtxPopCurrent_v2(&was), CUDA_SUCCESS);
	EXPECT_EQUAL(ask_function(FUNCTION + 1), 0);
	EXPECT_EQUAL(cuCtxDestroy_v2(other), CUDA_SUCCESS);
	function = FUNCTION + 1;
	EXPECT_EQUAL(ask_function(FUNCTION + 1), 1);
	EXPECT_EQUAL(cuCtxPopCurrent_v2(&was), CUDA_SUCCESS);
	CUfunction none;
	EXPECT_EQUAL(cuKernelGetFunction(&none, KERNEL), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_EQUAL(cuCtxSetCurrent(was), CUDA_SUCCESS);
}

/* An answer that was on its way while all were forgotten is not remembered. */
static void test_late(void)
{
	uint64_t got;
	struct phos_question asked = phos_question(1, 2, 3, 4, 5), again;
	phos_answers_forget();
	phos_answer_enter(&asked, 6);
	again = phos_question(1, 2, 3, 4, 5);
	EXPECT(!phos_answer_find(&again, &got));
	phos_answer_enter(&again, 7);
	EXPECT(phos_answer_find(&again, &got) && got == 7);
}

enum { THREADS = 4, ROUNDS = 200000 };

/* Asks, and has the answer entered, for questions that share few places. */
static void *race(void *seed)
{
	uint64_t number = (uintptr_t)seed;
	for (int i = 0; i < ROUNDS; i++) {
		number = number * UINT64_C(6364136223846793005) + 1;
		uint64_t object = number >> 52, got;
		struct phos_question q = phos_question(9, object, ~object, 0, 1);
		if (phos_answer_find(&q, &got))
			EXPECT_EQUAL(got, object * 3);
		else
			phos_answer_enter(&q, object * 3);
		if (i % 5000 == 0)
			phos_answers_forget();
	}
	return NULL;
}

static void test_race(void)
{
	pthread_t threads[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		EXPECT_EQUAL(pthread_create(&threads[i], NULL, race, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	CUcontext context;
	lab_begin(handle);
	EXPECT_EQUAL(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	EXPECT_EQUAL(cuCtxSetCurrent(context), CUDA_SUCCESS);
	lab_function(FUNCTION, 0);
	lab_function(FUNCTION + 1, 0);
	lab_function(FUNCTION + 2, 0);
	lab_function(KERNEL, 0);
	((struct phos_function *)phos_object_find(FUNCTION))->kernel = KERNEL;
	test_once();
	test_settings();
	test_ends();
	test_late();
	test_race();
	lab_end();
	return expect_result("answers_test");
}

/* What libraries of CUDA 13 ask for on every GPU from sm_90 on: limits, private tables, the state
 * of the primary context, and launches with a part of the parameters. */
#include "../objects.h"
#include "../tables.h"
#include "expect.h"
#include "lab.h"

#define MODULE      (PHOS_HANDLE_BASE | (uint64_t)PHOS_KIND_MODULE << 32 | 3)
#define FIRST       (PHOS_HANDLE_BASE | (uint64_t)PHOS_KIND_FUNCTION << 32 | 21)
#define SECOND      (PHOS_HANDLE_BASE | (uint64_t)PHOS_KIND_FUNCTION << 32 | 22)
#define CIG_ENABLED 8

typedef CUresult (*slot)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static uint16_t last_call;
static unsigned char last_payload[8192];
static size_t last_bytes;
static uint32_t retained, flags;

static void handle(const struct lab_frame *frame)
{
	uint64_t words[2] = {0}, functions[] = {FIRST, SECOND};
	last_call = frame->call;
	last_bytes = frame->bytes;
	if (frame->bytes <= sizeof last_payload)
		memcpy(last_payload, frame->payload, frame->bytes);
	switch (frame->call) {
	case PHOS_CALL_cuDevicePrimaryCtxRetain:
		retained++;
		words[0] = phos_primary_context(0);
		break;
	case PHOS_CALL_cuDevicePrimaryCtxRelease_v2:
		retained--;
		break;
	case PHOS_CALL_cuDevicePrimaryCtxReset_v2:
		retained = flags = 0;
		break;
	case PHOS_CALL_cuDevicePrimaryCtxSetFlags_v2:
		flags = (uint32_t)lab_word(frame, 1);
		break;
	case PHOS_CALL_cuDevicePrimaryCtxGetState:
		words[0] = flags;
		words[1] = retained > 0;
		break;
	case PHOS_CALL_cuModuleGetFunctionCount:
		words[0] = 2;
		break;
	case PHOS_CALL_listFunctions:
		memcpy((void *)(uintptr_t)lab_word(frame, 1), functions, sizeof functions);
		words[0] = 2;
		break;
	}
	if ((frame->flags & PHOS_FLAG_WAIT) != 0)
		lab_reply(frame, CUDA_SUCCESS, words, 2);
}

/* Waits until the worker has seen all posted frames. */
static void settle(void)
{
	while (lab_consumed() != phos.sequence)
		phos_nap(1);
	phos_nap(1);
}

static slot slot_of(const char *uuid, unsigned number)
{
	uint8_t bytes[16];
	for (int i = 0; i < 16; i++)
		bytes[i] = (uint8_t)strtoul((char[]){uuid[2 * i], uuid[2 * i + 1], '\0'}, NULL, 16);
	const slot *table = phos_table_find(bytes);
	EXPECT(table != NULL);
	if (table == NULL)
		exit(1);
	EXPECT((uintptr_t)table[0] > number * sizeof(slot));
	return table[number];
}

static void test_limits(void)
{
	size_t value = 77;
	uint64_t before = lab_consumed();
	for (int limit = 7; limit <= 9; limit++) {
		EXPECT_EQUAL(cuCtxGetLimit(&value, (CUlimit)limit), CUDA_SUCCESS);
		EXPECT_EQUAL(value, 0);
	}
	for (int i = 0; i < 100; i++)
		EXPECT_EQUAL(cuCtxGetLimit(&value, (CUlimit)CIG_ENABLED), CUDA_SUCCESS);
	EXPECT_EQUAL(lab_consumed(), before);
	EXPECT_EQUAL(cuCtxGetLimit(&value, (CUlimit)10), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuCtxGetLimit(&value, (CUlimit)-1), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuCtxGetLimit(NULL, (CUlimit)CIG_ENABLED), CUDA_ERROR_INVALID_VALUE);
}

/* Asks for the state many times and returns how many frames that took. */
static uint64_t ask(unsigned want_flags, int want_active)
{
	uint64_t before = lab_consumed();
	for (int i = 0; i < 100; i++) {
		unsigned got = 99;
		int active = 99;
		EXPECT_EQUAL(cuDevicePrimaryCtxGetState(0, &got, &active), CUDA_SUCCESS);
		EXPECT_EQUAL(got, want_flags);
		EXPECT_EQUAL(active, want_active);
	}
	return lab_consumed() - before;
}

static void test_state(void)
{
	CUcontext context;
	unsigned any;
	int active;
	EXPECT(ask(0, 0) <= 1);
	EXPECT_EQUAL(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	EXPECT(ask(0, 1) <= 1);
	EXPECT_EQUAL(cuDevicePrimaryCtxSetFlags_v2(0, 4), CUDA_SUCCESS);
	EXPECT(ask(4, 1) <= 1);
	EXPECT_EQUAL(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	EXPECT_EQUAL(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	EXPECT(ask(4, 1) <= 1);
	EXPECT_EQUAL(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
	EXPECT(ask(4, 0) <= 1);
	EXPECT_EQUAL(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	EXPECT_EQUAL(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
	EXPECT(ask(0, 0) <= 1);
	EXPECT_EQUAL(cuDevicePrimaryCtxGetState(1, &any, &active), CUDA_ERROR_INVALID_DEVICE);
	EXPECT_EQUAL(cuDevicePrimaryCtxGetState(-1, &any, &active), CUDA_ERROR_INVALID_DEVICE);
	EXPECT_EQUAL(cuDevicePrimaryCtxGetState(0, NULL, &active), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
}

/* The calls of cuBLASLt 13.1, and the answers that it takes. */
static void test_tables(void)
{
	const uint64_t *object = NULL;
	uint64_t value = 77;
	slot partition = slot_of("1734dc26800d47458726c0f1e7dd8bca", 4);
	EXPECT(partition((uintptr_t)&object, (uintptr_t)&value, 0, 0, 0, 0) != CUDA_SUCCESS);
	EXPECT(object == NULL);
	slot of_stream = slot_of("21318c60971432488ca641ff7324c8f2", 51);
	EXPECT_EQUAL(of_stream(0, 0, (uintptr_t)&object, 0, 0, 0), CUDA_SUCCESS);
	EXPECT(object != NULL && object[0] == 0 && object[63] == 0);
	EXPECT_EQUAL(of_stream(0, UINT64_MAX, (uintptr_t)&object, 0, 0, 0),
		     CUDA_ERROR_INVALID_HANDLE);
	slot of_object = slot_of("21318c60971432488ca641ff7324c8f2", 39);
	EXPECT_EQUAL(of_object(0, (uintptr_t)object, (uintptr_t)&value, 0, 0, 0), CUDA_SUCCESS);
	EXPECT_EQUAL(value, 0);
	EXPECT_EQUAL(of_object(0, 0, (uintptr_t)&value, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

/* NCCL's kernels declare 4 KiB, and it gives the size that it uses. The rest arrives as zeros. */
static void test_part_of_parameters(void)
{
	uint64_t given[3] = {11, 12, 13}, words[8], bytes;
	size_t used = 20;
	void *extra[] = {(void *)1, given, (void *)2, &used, NULL};
	lab_function(FIRST, 8);
	EXPECT_EQUAL(cuLaunchKernel(FIRST, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra), CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(last_call, PHOS_CALL_launch);
	memcpy(&bytes, last_payload + 80, 8);
	memcpy(words, last_payload + 88, sizeof words);
	EXPECT_EQUAL(bytes, sizeof words);
	EXPECT(words[0] == 11 && words[1] == 12 && words[2] == 13);
	for (int i = 3; i < 8; i++)
		EXPECT_EQUAL(words[i], 0);
	CUDA_KERNEL_NODE_PARAMS node = {.func = FIRST, .extra = extra};
	CUgraphNode added;
	node.gridDimX = node.gridDimY = node.gridDimZ = 1;
	node.blockDimX = node.blockDimY = node.blockDimZ = 1;
	EXPECT_EQUAL(cuGraphAddKernelNode_v2(&added, 1, NULL, 0, &node), CUDA_SUCCESS);
	memcpy(words, last_payload + last_bytes - sizeof words, sizeof words);
	EXPECT(words[0] == 11 && words[2] == 13 && words[3] == 0 && words[7] == 0);
	extra[1] = NULL;
	EXPECT_EQUAL(cuLaunchKernel(FIRST, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra),
		     CUDA_ERROR_INVALID_VALUE);
}

static void *nodes[4];
static int told;

static void tell(void *user, void *node, uint64_t owner)
{
	uint64_t field;
	EXPECT(user == &told && owner == MODULE);
	memcpy(&field, (char *)node + 8, 8);
	EXPECT(field == owner);
	if (told < 4)
		nodes[told++] = node;
}

/* cuFFT walks a module's functions, and launches by the addresses that it gets. */
static void test_nodes(void)
{
	uint64_t word, kind;
	CUfunction first, second;
	slot each = slot_of("6e163fbeb958444d835ce182aff1991e", 7);
	lab_function(SECOND, 0);
	EXPECT_EQUAL(each(0, MODULE, (uintptr_t)tell, (uintptr_t)&told, 0, 0), 2);
	EXPECT_EQUAL(told, 2);
	first = (uintptr_t)nodes[0];
	second = (uintptr_t)nodes[1];
	memcpy(&kind, nodes[0], 8);
	EXPECT(kind == UINT64_C(0x100000001));
	EXPECT_EQUAL(cuLaunchKernel(second, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL), CUDA_SUCCESS);
	settle();
	memcpy(&word, last_payload, 8);
	EXPECT(last_call == PHOS_CALL_launch && word == SECOND);
	EXPECT_EQUAL(cuFuncSetAttribute(first, 8, 0), CUDA_SUCCESS);
	settle();
	memcpy(&word, last_payload, 8);
	EXPECT(word == FIRST);
	CUmodule module;
	EXPECT_EQUAL(cuFuncGetModule(&module, second), CUDA_SUCCESS);
	memcpy(&word, last_payload, 8);
	EXPECT(word == SECOND);
	/* The second walk gives the same addresses. */
	EXPECT_EQUAL(each(0, MODULE, (uintptr_t)tell, (uintptr_t)&told, 0, 0), 2);
	EXPECT(nodes[2] == nodes[0] && nodes[3] == nodes[1]);
	EXPECT_EQUAL(cuLaunchKernel(first + 8, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL),
		     CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
	lab_begin(handle);
	test_limits();
	test_state();
	test_tables();
	test_part_of_parameters();
	test_nodes();
	lab_end();
	return expect_result("cuda13_test");
}

/* The stack of contexts, context local storage, the private tables, and the callback thread. */
#include <unistd.h>

#include "../integrity.h"
#include "../md2.h"
#include "../objects.h"
#include "../tables.h"
#include "expect.h"
#include "lab.h"

#define CREATED (PHOS_HANDLE_BASE | (uint64_t)PHOS_KIND_CONTEXT << 32 | 30)

typedef CUresult (*storage_put)(CUcontext, void *, void *, void (*)(CUcontext, void *, void *));
typedef CUresult (*storage_delete)(CUcontext, void *);
typedef CUresult (*storage_get)(void **, CUcontext, void *);

static _Atomic uint64_t done_id;

static void handle(const struct lab_frame *frame)
{
	uint64_t words[2] = {0};
	if (frame->call == PHOS_CALL_cuCtxCreate_v2)
		words[0] = CREATED;
	if (frame->call == PHOS_CALL_cuDevicePrimaryCtxRetain)
		words[0] = phos_primary_context(0);
	if (frame->call == PHOS_CALL_callbackDone)
		atomic_store(&done_id, lab_word(frame, 0));
	if ((frame->flags & PHOS_FLAG_WAIT) != 0)
		lab_reply(frame, CUDA_SUCCESS, words, 2);
}

static CUcontext current(void)
{
	CUcontext context = 1;
	EXPECT_EQUAL(cuCtxGetCurrent(&context), CUDA_SUCCESS);
	return context;
}

static void test_stack(void)
{
	CUcontext primary = phos_primary_context(0), created = 0, popped = 0;
	int device = -1;
	EXPECT(current() == primary);
	EXPECT_EQUAL(cuCtxCreate_v2(&created, 0, 0), CUDA_SUCCESS);
	EXPECT(created == CREATED && current() == created);
	EXPECT_EQUAL(cuCtxGetDevice(&device), CUDA_SUCCESS);
	EXPECT_EQUAL(device, 0);
	/* A caller that passes no second argument. */
	device = -1;
	EXPECT_EQUAL(cuCtxGetDevice_v2(&device, 0x7fff12345678), CUDA_SUCCESS);
	EXPECT_EQUAL(device, 0);
	for (int i = 0; i < 40; i++)
		EXPECT_EQUAL(cuCtxPushCurrent_v2(i % 2 == 0 ? primary : created), CUDA_SUCCESS);
	for (int i = 39; i >= 0; i--) {
		EXPECT_EQUAL(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
		EXPECT(popped == (i % 2 == 0 ? primary : created));
	}
	EXPECT(current() == created);
	EXPECT_EQUAL(cuCtxSetCurrent(12345), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_EQUAL(cuCtxSetCurrent(phos_primary_context(1)), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_EQUAL(cuCtxDestroy_v2(primary), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_EQUAL(cuCtxDestroy_v2(created), CUDA_SUCCESS);
	EXPECT(current() == primary);
	EXPECT_EQUAL(cuCtxSetCurrent(created), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT_EQUAL(cuCtxSetCurrent(0), CUDA_SUCCESS);
	EXPECT(current() == 0);
	EXPECT_EQUAL(cuCtxPopCurrent_v2(NULL), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_EQUAL(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_EQUAL(cuCtxSetCurrent(primary), CUDA_SUCCESS);
}

static void *destroyed_key, *destroyed_value;

static void destroy(CUcontext context, void *key, void *value)
{
	EXPECT(context == phos_primary_context(0));
	destroyed_key = key;
	destroyed_value = value;
}

static void test_storage(void)
{
	static const CUuuid id = {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68,
				   0xf3, 0x55, 0xd8, 0x95, 0x93}};
	void *const *table;
	EXPECT_EQUAL(cuGetExportTable((const void **)&table, &id), CUDA_SUCCESS);
	storage_put put = (storage_put)(uintptr_t)table[0];
	storage_delete delete = (storage_delete)(uintptr_t)table[1];
	storage_get get = (storage_get)(uintptr_t)table[2];
	int a, b, values[2];
	void *value = NULL;
	EXPECT(get(&value, 0, &a) != CUDA_SUCCESS);
	EXPECT_EQUAL(put(0, &a, &values[0], destroy), CUDA_SUCCESS);
	EXPECT_EQUAL(put((CUcontext)-1, &b, &values[1], NULL), CUDA_SUCCESS);
	EXPECT_EQUAL(get(&value, phos_primary_context(0), &a), CUDA_SUCCESS);
	EXPECT(value == &values[0]);
	EXPECT_EQUAL(get(&value, 0, &b), CUDA_SUCCESS);
	EXPECT(value == &values[1]);
	EXPECT_EQUAL(delete (0, &b), CUDA_SUCCESS);
	EXPECT(delete (0, &b) != CUDA_SUCCESS);
	EXPECT(get(&value, 0, &b) != CUDA_SUCCESS);
	EXPECT_EQUAL(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	EXPECT(destroyed_key == &a && destroyed_value == &values[0]);
	EXPECT(get(&value, 0, &a) != CUDA_SUCCESS);
}

static void test_tables(void)
{
	static const uint8_t runtime[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
					    0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
	static const CUuuid unknown = {"no such table!"};
	const void *found = &unknown;
	void *const *table = phos_table_find(runtime);
	EXPECT_EQUAL((uintptr_t)table[0], 13 * 8);
	CUcontext context = 0;
	CUresult (*primary)(CUcontext *, int) = (CUresult(*)(CUcontext *, int))(uintptr_t)table[2];
	EXPECT_EQUAL(primary(&context, 0), CUDA_SUCCESS);
	EXPECT(context == phos_primary_context(0));
	EXPECT_EQUAL(primary(&context, 1), CUDA_ERROR_INVALID_DEVICE);
	CUresult (*unused)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		(CUresult(*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))(
			uintptr_t)table[3];
	EXPECT_EQUAL(unused(1, 2, 3, 4, 5, 6), CUDA_ERROR_NOT_SUPPORTED);
	EXPECT_EQUAL(cuGetExportTable(&found, &unknown), CUDA_ERROR_NOT_FOUND);
	EXPECT(found == NULL);
}

/* Compares the answer with its definition, spelled out byte by byte for the lab's device. */
static void test_integrity(void)
{
	struct phos_integrity about = {12040, 1, 2, 3, 4, 5};
	uint64_t answer[2], want[2];
	phos_integrity_answer(&about, 12040, 99, answer);
	EXPECT(answer[0] == UINT64_C(0x3341181c03cb675c) &&
	       answer[1] == UINT64_C(0x8ed383aa1f4cd1e8));
	phos_integrity_answer(&about, 12041, 99, answer);
	EXPECT(answer[0] == UINT64_C(0x1841181c03cb675c) &&
	       answer[1] == UINT64_C(0x8ed383aa1f4cd1e8));
	phos_integrity_answer(&about, 12042, 99, answer);
	uint8_t message[48 + 28] = {0x08, 0x2f, 0, 0, 0x0a, 0x2f, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3};
	message[24] = 4;
	message[32] = 5;
	message[40] = 99;
	memcpy(message + 48, "0123456789abcdef", 16);
	message[68] = 0xab;
	message[72] = 3;
	static const uint8_t key[] =
		"\x14\x6A\xDD\xAE\x53\xA9\xA7\x52\xAA\x08\x41\x36\x0B\xF5\x5A\x9F";
	phos_hmac_md2(key, 16, message, sizeof message, (uint8_t *)want);
	EXPECT(answer[0] == want[0] && answer[1] == want[1]);
}

static _Atomic int ran;
static CUresult inside;

static void host_function(void *argument)
{
	CUdeviceptr address;
	inside = cuMemAlloc_v2(&address, 4);
	atomic_store(&ran, *(int *)argument);
}

static void test_callbacks(void)
{
	static int argument = 41;
	EXPECT_EQUAL(cuLaunchHostFunc(0, host_function, &argument), CUDA_SUCCESS);
	EXPECT_EQUAL(cuLaunchHostFunc(0, NULL, &argument), CUDA_ERROR_INVALID_VALUE);
	/* As the worker does when the stream reaches the function. */
	uint64_t record[8] = {
		PHOS_CALLBACK_HOST, (uintptr_t)host_function, (uintptr_t)&argument, 0, 0, 77};
	memcpy(phos.file + PHOS_CALLBACK_OFFSET, record, sizeof record);
	atomic_store(phos_word64(PHOS_WORD_CALLBACK_HEAD), sizeof record);
	for (int i = 0; i < 5000 && atomic_load(&done_id) == 0; i++)
		usleep(1000);
	EXPECT_EQUAL(atomic_load(&ran), 41);
	EXPECT_EQUAL(atomic_load(&done_id), 77);
	EXPECT_EQUAL(inside, CUDA_ERROR_NOT_PERMITTED);
}

int main(void)
{
	lab_begin(handle);
	test_stack();
	test_storage();
	test_tables();
	test_integrity();
	test_callbacks();
	lab_end();
	return expect_result("contexts_test");
}

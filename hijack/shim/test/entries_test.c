/* Entry points with their own logic: the way of a copy, pointer queries, event completion. */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../image.h"
#include "../objects.h"
#include "expect.h"
#include "lab.h"

#define EVENT         (PHOS_HANDLE_BASE | (uint64_t)PHOS_KIND_EVENT << 32 | 9)
#define FUNCTION      (PHOS_HANDLE_BASE | (uint64_t)PHOS_KIND_FUNCTION << 32 | 5)
#define MEMORY        (LAB_WINDOW + 0x10000)
#define WORD_OF_EVENT 17

static uint16_t last_call;
static unsigned char last_payload[4096];
static size_t last_bytes;
static CUresult next_result;

static void handle(const struct lab_frame *frame)
{
	uint64_t words[4] = {0};
	last_call = frame->call;
	last_bytes = frame->bytes;
	memcpy(last_payload, frame->payload,
	       frame->bytes < sizeof last_payload ? frame->bytes : sizeof last_payload);
	switch (frame->call) {
	case PHOS_CALL_cuMemAlloc_v2:
		words[0] = MEMORY;
		break;
	case PHOS_CALL_cuMemHostAlloc:
		words[0] = phos.arena + 4096;
		break;
	case PHOS_CALL_cuMemAllocManaged:
		words[0] = phos.arena + 65536;
		break;
	case PHOS_CALL_eventCreate:
		words[0] = EVENT;
		words[1] = WORD_OF_EVENT;
		break;
	case PHOS_CALL_functionInfo: {
		/* Two parameters, 4 bytes at 0 and 8 at 8; named "k". */
		unsigned char info[80 + 16 + 1] = {2, 0, 0, 0, 16};
		info[72] = 1;
		info[84] = 4;
		info[88] = info[92] = 8;
		info[96] = 'k';
		memcpy((void *)(uintptr_t)lab_word(frame, 1), info, sizeof info);
		words[0] = sizeof info;
		break;
	}
	}
	if ((frame->flags & PHOS_FLAG_WAIT) != 0)
		lab_reply(frame, next_result, words, 4);
}

static uint64_t word(size_t i)
{
	uint64_t v;
	memcpy(&v, last_payload + 8 * i, 8);
	return v;
}

/* Waits until the worker has seen all posted frames. */
static void settle(void)
{
	while (lab_consumed() != phos.sequence)
		usleep(100);
	usleep(200);
}

static void test_pointers(void)
{
	CUdeviceptr memory, managed;
	void *pinned, *pointer;
	unsigned char *program = malloc(10000);
	EXPECT_EQUAL(cuMemAlloc_v2(&memory, 1000), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemHostAlloc(&pinned, 4096, 1), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemAllocManaged(&managed, 4096, 1), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemHostRegister_v2(program + 1, 5000, 0), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemHostRegister_v2(program + 5001, 3, 0), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemHostRegister_v2(program + 10, 1, 0),
		     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	EXPECT_EQUAL(cuMemHostRegister_v2(pinned, 10, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuMemHostRegister_v2((void *)64, 10, 0), CUDA_ERROR_INVALID_VALUE);
	const struct {
		uint64_t address;
		uint32_t type, managed;
		uint64_t host, device;
		int32_t ordinal;
	} cases[] = {
		{memory + 999, 2, 0, 0, memory + 999, 0},
		{(uintptr_t)pinned + 5, 1, 0, (uintptr_t)pinned + 5, (uintptr_t)pinned + 5, 0},
		{managed, 2, 1, managed, managed, 0},
		/* Kernels cannot access registered private memory. */
		{(uintptr_t)program + 1, 1, 0, (uintptr_t)program + 1, 0, 0},
		{memory + 1000, 0, 0, 0, 0, -2},
		{(uintptr_t)program, 0, 0, 0, 0, -2},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint32_t type = 99, is_managed = 99;
		uint64_t host = 99, device = 99;
		int32_t ordinal = 99;
		CUpointer_attribute wanted[] = {2, 3, 4, 8, 9};
		void *into[] = {&type, &device, &host, &is_managed, &ordinal};
		EXPECT_EQUAL(cuPointerGetAttributes(5, wanted, into, cases[i].address),
			     CUDA_SUCCESS);
		EXPECT_EQUAL(type, cases[i].type);
		EXPECT_EQUAL(is_managed, cases[i].managed);
		EXPECT_EQUAL(host, cases[i].host);
		EXPECT_EQUAL(device, cases[i].device);
		EXPECT_EQUAL(ordinal, cases[i].ordinal);
		EXPECT_EQUAL(cuPointerGetAttribute(&pointer, 3, cases[i].address),
			     cases[i].device == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
	}
	CUdeviceptr base;
	size_t bytes;
	EXPECT_EQUAL(cuMemGetAddressRange_v2(&base, &bytes, memory + 10), CUDA_SUCCESS);
	EXPECT(base == memory && bytes == 1000);
	EXPECT_EQUAL(cuMemHostUnregister(program + 1), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemHostUnregister(program + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	EXPECT_EQUAL(cuMemHostUnregister(program + 5001), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemFreeHost(program), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuMemFree_v2(memory + 8), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuMemFree_v2((uintptr_t)pinned), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuMemFree_v2(0), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemFree_v2(managed), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemFreeHost(pinned), CUDA_SUCCESS);
	EXPECT_EQUAL(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
	free(program);
}

/* The frames of each kind of copy. The device memory is that of test_pointers. */
static void test_copies(void)
{
	static unsigned char big[PHOS_INLINE_MAX + 1];
	const uint64_t arena = phos.arena;
	void *pinned = (void *)(uintptr_t)arena;
	struct {
		CUresult result;
		uint16_t call;
	} got[] = {
		{cuMemcpyHtoD_v2(MEMORY, big, 100), PHOS_CALL_memcpyInline},
		{cuMemcpyHtoD_v2(MEMORY, big, PHOS_INLINE_MAX), PHOS_CALL_memcpyInline},
	};
	EXPECT_EQUAL(got[0].result, CUDA_SUCCESS);
	EXPECT_EQUAL(got[1].result, CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(last_call, PHOS_CALL_memcpyInline);
	EXPECT_EQUAL(word(2), PHOS_INLINE_MAX);
	EXPECT_EQUAL(cuMemcpyHtoD_v2(MEMORY, big, sizeof big), CUDA_SUCCESS);
	EXPECT_EQUAL(last_call, PHOS_CALL_memcpyWait);
	EXPECT_EQUAL(cuMemcpyDtoH_v2(big, MEMORY, 4), CUDA_SUCCESS);
	EXPECT_EQUAL(last_call, PHOS_CALL_memcpyWait);
	EXPECT_EQUAL(word(0), 1);
	EXPECT_EQUAL(word(4), 0);
	EXPECT_EQUAL(cuMemcpyDtoHAsync_v2(big, MEMORY, 4, 3), CUDA_SUCCESS);
	EXPECT_EQUAL(last_call, PHOS_CALL_memcpyWait);
	EXPECT_EQUAL(cuMemcpyDtoHAsync_v2(pinned, MEMORY, 4, 3), CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(last_call, PHOS_CALL_memcpy);
	EXPECT_EQUAL(word(9), 3);
	EXPECT_EQUAL(cuMemcpyDtoH_v2(pinned, MEMORY, 4), CUDA_SUCCESS);
	EXPECT_EQUAL(last_call, PHOS_CALL_memcpyWait);
	EXPECT_EQUAL(cuMemcpyDtoD_v2(MEMORY, MEMORY + 8, 4), CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(last_call, PHOS_CALL_memcpy);
	EXPECT_EQUAL(word(9), 0);
	EXPECT_EQUAL(cuMemcpyDtoD_v2_ptds(MEMORY, MEMORY + 8, 4), CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(word(9), 2);
	big[0] = 1;
	EXPECT_EQUAL(cuMemcpy((uintptr_t)big, (uintptr_t)pinned, 4), CUDA_SUCCESS);
	EXPECT_EQUAL(last_call, PHOS_CALL_memcpyWait);
	EXPECT_EQUAL(cuMemcpy((uintptr_t)big + 1, (uintptr_t)big, 1), CUDA_SUCCESS);
	EXPECT_EQUAL(last_call, PHOS_CALL_cuStreamSynchronize);
	EXPECT_EQUAL(big[1], 1);
	/* An invalid device pointer must not lead to an access to the program's memory. */
	EXPECT_EQUAL(cuMemcpyHtoD_v2((uintptr_t)big, big, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuMemcpyDtoH_v2(big, 4096, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuMemcpyHtoD_v2(MEMORY, NULL, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuMemcpyHtoD_v2(MEMORY, NULL, 0), CUDA_SUCCESS);
}

static void test_boxes(void)
{
	CUDA_MEMCPY3D box = {
		.srcMemoryType = 2,
		.srcDevice = MEMORY,
		.srcPitch = 64,
		.srcHeight = 10,
		.srcXInBytes = 3,
		.srcY = 2,
		.srcZ = 1,
		.dstMemoryType = 2,
		.dstDevice = MEMORY + 65536,
		.WidthInBytes = 5,
		.Height = 4,
		.Depth = 2,
	};
	EXPECT_EQUAL(cuMemcpy3D_v2(&box), CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(last_call, PHOS_CALL_memcpy);
	const uint64_t want[] = {
		MEMORY + 65536, 5, 20, MEMORY + 640 + 128 + 3, 64, 640, 5, 4, 2, 0};
	for (size_t i = 0; i < 10; i++)
		EXPECT_EQUAL(word(i), want[i]);
	box.srcPitch = 4;
	EXPECT_EQUAL(cuMemcpy3D_v2(&box), CUDA_ERROR_INVALID_VALUE);
	box.srcMemoryType = 3;
	EXPECT_EQUAL(cuMemcpy3D_v2(&box), CUDA_ERROR_NOT_SUPPORTED);
	box.Depth = 0;
	box.srcMemoryType = 2;
	box.srcPitch = 0;
	EXPECT_EQUAL(cuMemcpy3D_v2(&box), CUDA_SUCCESS);
}

static void test_events(void)
{
	CUevent event;
	_Atomic uint64_t *done = phos_word64(PHOS_EVENTS_OFFSET + 8 * WORD_OF_EVENT);
	EXPECT_EQUAL(cuEventCreate(&event, 0), CUDA_SUCCESS);
	EXPECT_EQUAL(cuEventQuery(event), CUDA_SUCCESS); /* never recorded */
	EXPECT_EQUAL(cuEventRecord(event, 4), CUDA_SUCCESS);
	EXPECT_EQUAL(cuEventRecord(event, 4), CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(last_call, PHOS_CALL_eventRecord);
	EXPECT_EQUAL(word(3), 2);
	EXPECT_EQUAL(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	atomic_store(done, 1);
	EXPECT_EQUAL(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	atomic_store(done, 2);
	EXPECT_EQUAL(cuEventQuery(event), CUDA_SUCCESS);
	uint64_t before = lab_consumed();
	EXPECT_EQUAL(cuEventSynchronize(event), CUDA_SUCCESS);
	EXPECT_EQUAL(lab_consumed(), before);
	/* Recorded in a capture: queries go to the session. */
	atomic_store(phos_word(PHOS_WORD_CAPTURING), 1);
	EXPECT_EQUAL(cuEventRecord(event, 4), CUDA_SUCCESS);
	atomic_store(phos_word(PHOS_WORD_CAPTURING), 0);
	EXPECT_EQUAL(cuEventQuery(event), CUDA_SUCCESS);
	EXPECT_EQUAL(last_call, PHOS_CALL_eventQuery);
	/* Recorded by a graph: the completion word has no answer. */
	EXPECT_EQUAL(cuEventRecord(event, 4), CUDA_SUCCESS);
	settle();
	atomic_store(done, PHOS_EVENT_ASK);
	next_result = CUDA_ERROR_NOT_READY;
	EXPECT_EQUAL(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	EXPECT_EQUAL(last_call, PHOS_CALL_eventQuery);
	next_result = CUDA_SUCCESS;
	EXPECT_EQUAL(cuEventDestroy_v2(event), CUDA_SUCCESS);
	EXPECT(phos_object_find(event) == NULL);
	EXPECT_EQUAL(cuEventRecord(1234, 0), CUDA_ERROR_INVALID_HANDLE);
}

static void test_launch(void)
{
	uint32_t first = 0x11223344;
	uint64_t second = 0x5566778899aabbcc;
	void *each[] = {&first, &second};
	EXPECT_EQUAL(cuLaunchKernel(FUNCTION, 1, 2, 3, 4, 5, 6, 7, 8, each, NULL), CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(last_call, PHOS_CALL_launch);
	const uint64_t want[] = {FUNCTION, 1, 2, 3, 4, 5, 6, 7, 8, 0, 16, first, second};
	EXPECT_EQUAL(last_bytes, sizeof want);
	for (size_t i = 0; i < sizeof want / 8; i++)
		EXPECT_EQUAL(word(i), want[i]);
	struct {
		uint32_t first;
		uint64_t second;
	} block = {first, second};
	size_t bytes = sizeof block;
	void *extra[] = {(void *)1, &block, (void *)2, &bytes, NULL};
	EXPECT_EQUAL(cuLaunchKernel(FUNCTION, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra), CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(word(12), second);
	bytes = 12; /* the rest is zeros */
	EXPECT_EQUAL(cuLaunchKernel(FUNCTION, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra), CUDA_SUCCESS);
	settle();
	EXPECT_EQUAL(word(12), second & 0xffffffff);
	EXPECT_EQUAL(cuLaunchKernel(FUNCTION, 1, 1, 1, 1, 1, 1, 0, 0, each, extra),
		     CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuLaunchKernel(FUNCTION, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuLaunchKernel(FUNCTION, 0, 1, 1, 1, 1, 1, 0, 0, each, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuLaunchKernel(FUNCTION, 1, 1, 1, 1025, 1, 1, 0, 0, each, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuLaunchKernel(FUNCTION, 1, 65536, 1, 1, 1, 1, 0, 0, each, NULL),
		     CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQUAL(cuLaunchKernel(77, 1, 1, 1, 1, 1, 1, 0, 0, each, NULL),
		     CUDA_ERROR_INVALID_HANDLE);
	const char *name;
	size_t offset, size;
	EXPECT_EQUAL(cuFuncGetName(&name, FUNCTION), CUDA_SUCCESS);
	EXPECT(strcmp(name, "k") == 0);
	EXPECT_EQUAL(cuFuncGetParamInfo(FUNCTION, 1, &offset, &size), CUDA_SUCCESS);
	EXPECT(offset == 8 && size == 8);
	EXPECT_EQUAL(cuFuncGetParamInfo(FUNCTION, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

static sigjmp_buf before_fault;

static void jump_out(int number)
{
	(void)number;
	siglongjmp(before_fault, 1);
}

/* A program may catch the signal of its own bad pointer, jump out of the call, and continue. */
static void test_fault_in_post(void)
{
	struct sigaction jumps = {.sa_handler = jump_out}, saved;
	char *bad = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(bad != MAP_FAILED && mprotect(bad, 4096, PROT_READ | PROT_WRITE) == 0);
	void *each[] = {bad, bad + 4096};
	void *extra[] = {(void *)1, bad + 4096, (void *)2, &(size_t){16}, NULL};
	EXPECT_EQUAL(sigaction(SIGSEGV, &jumps, &saved), 0);
	for (volatile int way = 0; way < 3; way++) {
		volatile bool faulted = true;
		if (sigsetjmp(before_fault, 1) == 0) {
			if (way == 0)
				cuMemcpyHtoDAsync_v2(MEMORY, bad + 4000, 200, 4);
			else
				cuLaunchKernel(FUNCTION, 1, 1, 1, 1, 1, 1, 0, 0,
					       way == 1 ? each : NULL, way == 1 ? NULL : extra);
			faulted = false;
		}
		EXPECT(faulted);
		EXPECT_EQUAL(atomic_load(phos_word(PHOS_WORD_LOCK)), 0);
		atomic_store(phos_word(PHOS_WORD_LOCK), 0); /* otherwise all later calls hang */
		settle();
	}
	EXPECT_EQUAL(sigaction(SIGSEGV, &saved, NULL), 0);
	munmap(bad, 8192);
}

static void test_link(void)
{
	CUlinkState state;
	void *image;
	const void *begin;
	size_t bytes, found;
	char text[] = ".version 8.0";
	EXPECT_EQUAL(cuLinkCreate_v2(0, NULL, NULL, &state), CUDA_SUCCESS);
	EXPECT_EQUAL(cuLinkComplete(state, &image, &bytes), CUDA_ERROR_INVALID_IMAGE);
	EXPECT_EQUAL(cuLinkAddData_v2(state, 1, text, sizeof text, "a", 0, NULL, NULL),
		     CUDA_SUCCESS);
	EXPECT_EQUAL(last_call, PHOS_CALL_linkCheck);
	EXPECT_EQUAL(word(1), sizeof text - 1);
	EXPECT_EQUAL(cuLinkAddData_v2(state, 1, text, 5, "b", 0, NULL, NULL), CUDA_SUCCESS);
	EXPECT_EQUAL(cuLinkAddData_v2(state, 0, text, 5, "c", 0, NULL, NULL),
		     CUDA_ERROR_NOT_SUPPORTED);
	EXPECT_EQUAL(cuLinkComplete(state, &image, &bytes), CUDA_SUCCESS);
	EXPECT_EQUAL(bytes, 16 + 8 + 16 + 8 + 8);
	EXPECT(phos_image_find(image, &begin, &found) && begin == image && found == bytes);
	EXPECT(memcmp((char *)image + 24, text, sizeof text - 1) == 0);
	EXPECT_EQUAL(cuLinkDestroy(state), CUDA_SUCCESS);
}

int main(void)
{
	lab_begin(handle);
	test_pointers();
	test_copies();
	test_boxes();
	test_events();
	test_launch();
	test_fault_in_post();
	test_link();
	lab_end();
	return expect_result("entries_test");
}

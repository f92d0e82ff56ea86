/* What the programs about the synchrony of calls share. In each row of theirs the stream is held by
 * a wait for a word in page-locked memory. A call that must wait may not return before another
 * thread has released the word, and its result must then be visible. A call that must not wait is
 * made before the word is released. Where the documentation allows both, there is no row. Without
 * an argument all rows run; with one, the rows whose name begins with it. */
#pragma once
#define _GNU_SOURCE
#include "driver.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WIDTH = 1024, ROWS = 256, PITCH = 2048, BYTES = WIDTH * ROWS, AREA = PITCH * ROWS };
enum { FILL = 0x5a, OLD = 0x11, NEW = 0x77 };
/* Long enough for a thread to be inside of a call, and a bound for a call that must not wait. */
enum { INSIDE_US = 10000, STUCK_SECONDS = 60 };

/* The memory that calls work on. The program can read all but DEVICE and OTHER. */
enum place { DEVICE, OTHER, PAGEABLE, PAGEABLE2, PINNED, PINNED2, MANAGED, SHARED, PLACES };

static const char *const place_names[PLACES] = {
	"device", "other device memory", "pageable", "other pageable",
	"pinned", "other pinned",        "managed",  "registered"};

static unsigned char *places[PLACES];
static _Atomic unsigned *word; /* page-locked: 1 releases the stream */
static atomic_int released, late;
static CUstream own;
static const char *only = "";
static int rows, failures;

static CUdeviceptr at(enum place place)
{
	return (CUdeviceptr)(uintptr_t)places[place];
}

static CUdeviceptr word_address(void)
{
	return (CUdeviceptr)(uintptr_t)word;
}

/* Names that cuda.h has no declaration for. */
#define TWIN(name, twin) ((__typeof__(&name))twin_symbol(#twin))

static void *twin_symbol(const char *name)
{
	void *function = NULL;
	CU(D(cuGetProcAddress)(name, &function, 12000,
			       CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
	CHECK(function != NULL);
	return function;
}

static void *release(void *unused)
{
	usleep(INSIDE_US);
	atomic_store(&released, 1);
	atomic_store(word, 1);
	return unused;
}

static void *rescue(void *unused)
{
	for (int i = 0; i < STUCK_SECONDS * 100; i++) {
		if (atomic_load(&released))
			return unused;
		usleep(10000);
	}
	atomic_store(&late, 1);
	atomic_store(word, 1);
	return unused;
}

struct row {
	const char *name;
	CUresult (*call)(const struct row *row);
	CUstream stream; /* that is held */
	enum place to, from;
	int waits;
};

static void prepare(void)
{
	CU(D(cuCtxSynchronize)());
	CU(D(cuMemsetD8)(at(DEVICE), NEW, AREA));
	CU(D(cuMemsetD8)(at(OTHER), NEW, AREA));
	CU(D(cuCtxSynchronize)());
	for (int i = PAGEABLE; i < PLACES; i++)
		memset(places[i], NEW, AREA);
	atomic_store(word, 0);
	atomic_store(&released, 0);
}

/* Checks that memory that the program can read has been written. */
static int is_written(enum place to, unsigned char value)
{
	return to < PAGEABLE || (places[to][0] == value && places[to][WIDTH - 1] == value);
}

static void run(const struct row *row, unsigned char value, const char *kind)
{
	pthread_t thread;
	char name[200];
	snprintf(name, sizeof name, "%s%s%s%s%s", row->name, kind, place_names[row->from],
		 row->to == row->from ? "" : " to ",
		 row->to == row->from ? "" : place_names[row->to]);
	if (strncmp(name, only, strlen(only)) != 0)
		return;
	rows++;
	prepare();
	if (row->to >= PAGEABLE)
		memset(places[row->to], OLD, AREA);
	CU(D(cuStreamWaitValue32)(row->stream, word_address(), 1, CU_STREAM_WAIT_VALUE_EQ));
	CHECK(pthread_create(&thread, NULL, row->waits ? release : rescue, NULL) == 0);
	CUresult result = row->call(row);
	int early = !atomic_load(&released);
	if (row->waits && early)
		fprintf(stderr, "%s returned before it was done\n", name);
	else if (row->waits && !is_written(row->to, value))
		fprintf(stderr, "%s: the result is not visible\n", name);
	else if (!row->waits && atomic_load(&late))
		fprintf(stderr, "%s waited\n", name);
	else
		early = -1;
	if (!row->waits) {
		atomic_store(&released, 1);
		atomic_store(word, 1);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	if (result != CUDA_SUCCESS)
		fprintf(stderr, "%s: error %d\n", name, result);
	failures += result != CUDA_SUCCESS || early != -1;
	CU(D(cuCtxSynchronize)());
	CHECK(is_written(row->to, value));
}

#define CALL(name, call)                          \
	static CUresult name(const struct row *r) \
	{                                         \
		return call;                      \
	}

struct named {
	const char *name;
	CUresult (*call)(const struct row *row);
};

static void set_up(int count, char **arguments)
{
	CUdeviceptr memory;
	if (count > 1)
		only = arguments[1];
	use_gpu();
	CU(D(cuStreamCreate)(&own, CU_STREAM_NON_BLOCKING));
	for (int i = DEVICE; i <= OTHER; i++) {
		CU(D(cuMemAlloc)(&memory, AREA));
		places[i] = (unsigned char *)(uintptr_t)memory;
	}
	places[PAGEABLE] = malloc(AREA);
	places[PAGEABLE2] = malloc(AREA);
	CU(D(cuMemHostAlloc)((void **)&places[PINNED], AREA, 0));
	CU(D(cuMemHostAlloc)((void **)&places[PINNED2], AREA, 0));
	CU(D(cuMemAllocManaged)(&memory, AREA, CU_MEM_ATTACH_GLOBAL));
	places[MANAGED] = (unsigned char *)(uintptr_t)memory;
	places[SHARED] =
		mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(places[SHARED] != MAP_FAILED);
	CU(D(cuMemHostRegister)(places[SHARED], AREA, CU_MEMHOSTREGISTER_DEVICEMAP));
	CU(D(cuMemHostAlloc)((void **)&word, sizeof *word, 0));
}

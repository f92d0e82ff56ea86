/* segments STEPS MICROSECONDS [closed]: memory in various mappings: memory that grows, shrinks and
 * moves at reserved addresses, as in the allocators of frameworks; one allocation at two addresses,
 * and one without any; segments with more addresses than a large GPU has memory, sparsely mapped;
 * and memory of files and of the heap that kernels access. Each step is checked. It sleeps between
 * steps and ends with status 7, but not before the file that HOLD names exists. With "closed" the
 * process is not dumpable. */
#define _GNU_SOURCE
#include "../driver/mapping.h"
#include "hold.h"
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	/* x[i * stride] += a + i */
	".visible .entry add(.param .u64 x, .param .u32 stride, .param .u32 a)\n"
	"{\n"
	" .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
	" mov.u32 %r1, %tid.x; ld.param.u32 %r2, [stride]; ld.param.u32 %r3, [a];\n"
	" ld.param.u64 %d1, [x]; mul.wide.u32 %d2, %r1, %r2; add.s64 %d3, %d1, %d2;\n"
	" add.u32 %r4, %r3, %r1;\n"
	" ld.global.u32 %r5, [%d3]; add.u32 %r5, %r5, %r4; st.global.u32 [%d3], %r5;\n"
	" ret;\n"
	"}\n";

#define MIB ((size_t)1 << 20)
enum { PIECES = 24, WORDS = 64, KEPT = 4 };
enum { RESERVED = 512, PIECE = 2, MOVING = 4, PAGES = 20, PAGE = 4096 };
/* As on a GPU of 141 GiB: 9/8 of that for each stream, and for small and for large memory. */
enum { WIDES = 6, WIDE = 159 * 1024 };
#define STRIDE ((unsigned)(PIECE * MIB / WORDS))

/* The expected words of one piece of memory that kernels access. */
struct piece {
	bool mapped;
	unsigned want[WORDS];
};

static CUfunction add;
static CUstream stream;
static CUdeviceptr base;
static struct piece pieces[PIECES];

/* One allocation that is mapped at one of two places for writing, and at a third for reading. */
static struct {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr places[2], window;
	unsigned at, want[WORDS];
} moving;

/* One that has no address between steps. */
static struct {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr place;
	unsigned want[WORDS];
} hidden;

/* Reservations with one piece each, at some offset. */
static struct {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base, at;
	unsigned want[WORDS];
} wide[WIDES];

/* Memory of files. An unnamed file keeps its content; so does a file that has been closed, and
 * memory without a file. A named file is filled at each step. */
static unsigned *kept[KEPT], *named;
static unsigned want_kept[WORDS];

static unsigned random_state = 12345;

static unsigned pick(unsigned below)
{
	random_state = random_state * 1664525 + 1013904223;
	return (unsigned)((unsigned long long)random_state * below >> 32);
}

static void run_add(CUdeviceptr x, unsigned stride, unsigned a)
{
	void *parameters[] = {&x, &stride, &a};
	CU(D(cuLaunchKernel)(add, 1, 1, 1, WORDS, 1, 1, 0, stream, parameters, NULL));
}

static void expect_add(unsigned *want, unsigned a)
{
	for (unsigned i = 0; i < WORDS; i++)
		want[i] += a + i;
}

static void check(CUdeviceptr x, unsigned stride, const unsigned *want)
{
	unsigned got[WORDS];
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = x,
		.srcPitch = stride,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = got,
		.dstPitch = 4,
		.WidthInBytes = 4,
		.Height = WORDS,
	};
	CU(D(cuMemcpy2D)(&copy));
	CHECK(memcmp(got, want, sizeof got) == 0);
}

static CUdeviceptr place_of(unsigned piece)
{
	return base + piece * PIECE * MIB;
}

static void grow(unsigned piece)
{
	CUmemGenericAllocationHandle handle = memory(PIECE * MIB);
	map(place_of(piece), PIECE * MIB, handle, &both);
	CU(D(cuMemRelease)(handle));
	CU(D(cuMemsetD2D32Async)(place_of(piece), STRIDE, 5, 1, WORDS, stream));
	pieces[piece].mapped = true;
	for (unsigned i = 0; i < WORDS; i++)
		pieces[piece].want[i] = 5;
}

static void shrink(unsigned piece)
{
	CU(D(cuMemUnmap)(place_of(piece), PIECE * MIB));
	pieces[piece].mapped = false;
}

/* Moves the content of one piece to another through its handle only. */
static void move(unsigned from, unsigned to)
{
	CUmemGenericAllocationHandle handle;
	CU(D(cuMemRetainAllocationHandle)(&handle, (void *)(uintptr_t)place_of(from)));
	CU(D(cuMemUnmap)(place_of(from), PIECE * MIB));
	map(place_of(to), PIECE * MIB, handle, &both);
	CU(D(cuMemRelease)(handle));
	pieces[to] = pieces[from];
	pieces[from].mapped = false;
}

static void step_pieces(unsigned number)
{
	for (int turn = 0; turn < 3; turn++) {
		unsigned one = pick(PIECES), two = pick(PIECES);
		if (!pieces[one].mapped)
			grow(one);
		else if (pieces[two].mapped)
			shrink(two);
		else
			move(one, two);
	}
	for (unsigned i = 0; i < PIECES; i++)
		if (pieces[i].mapped && pick(2)) {
			run_add(place_of(i), STRIDE, number);
			expect_add(pieces[i].want, number);
		}
	CU(D(cuStreamSynchronize)(stream));
	for (unsigned i = 0; i < PIECES; i++)
		if (pieces[i].mapped)
			check(place_of(i), STRIDE, pieces[i].want);
}

static void step_moving(unsigned number)
{
	CUdeviceptr now = moving.places[moving.at];
	run_add(now, 2 * STRIDE, number);
	expect_add(moving.want, number);
	CU(D(cuStreamSynchronize)(stream));
	check(moving.window, 2 * STRIDE, moving.want);
	if (pick(3) == 0) {
		CU(D(cuMemUnmap)(now, MOVING * MIB));
		moving.at = !moving.at;
		map(moving.places[moving.at], MOVING * MIB, moving.handle, &both);
	}
	if (pick(4) == 0) {
		map(hidden.place, PIECE * MIB, hidden.handle, &both);
		run_add(hidden.place, STRIDE, number);
		expect_add(hidden.want, number);
		CU(D(cuStreamSynchronize)(stream));
		check(hidden.place, STRIDE, hidden.want);
		CU(D(cuMemUnmap)(hidden.place, PIECE * MIB));
	}
}

static void step_wide(unsigned number)
{
	unsigned one = pick(WIDES);
	if (pick(2)) {
		CU(D(cuMemUnmap)(wide[one].at, PIECE * MIB));
		wide[one].at = wide[one].base + pick(WIDE / PIECE) * PIECE * MIB;
		map(wide[one].at, PIECE * MIB, wide[one].handle, &both);
	}
	run_add(wide[one].at, STRIDE, number);
	expect_add(wide[one].want, number);
	CU(D(cuStreamSynchronize)(stream));
	for (unsigned i = 0; i < WIDES; i++)
		check(wide[i].at, STRIDE, wide[i].want);
}

static void step_files(unsigned number)
{
	const unsigned stride = PAGES * PAGE / WORDS;
	for (unsigned i = 0; i < PAGES * PAGE / 4; i++)
		named[i] = number;
	for (unsigned i = 0; i < KEPT; i++)
		run_add((CUdeviceptr)(uintptr_t)kept[i], stride, number);
	run_add((CUdeviceptr)(uintptr_t)named, stride, number);
	expect_add(want_kept, number);
	CU(D(cuStreamSynchronize)(stream));
	for (unsigned i = 0; i < WORDS; i++) {
		for (unsigned j = 0; j < KEPT; j++)
			CHECK(kept[j][i * stride / 4] == want_kept[i]);
		CHECK(named[i * stride / 4] == 2 * number + i);
	}
}

static CUdeviceptr reserve(size_t mib)
{
	CUdeviceptr address;
	CU(D(cuMemAddressReserve)(&address, mib * MIB, 0, 0, 0));
	return address;
}

static unsigned *share(int fd)
{
	int nowhere = fd < 0 ? MAP_ANONYMOUS : 0;
	CHECK(nowhere != 0 || ftruncate(fd, PAGES * PAGE) == 0);
	unsigned *memory =
		mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | nowhere, fd, 0);
	CHECK(memory != MAP_FAILED);
	memset(memory, 0, PAGES * PAGE);
	CU(D(cuMemHostRegister)(memory, PAGES * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
	return memory;
}

/* Private memory of the heap. */
static unsigned *own(void)
{
	unsigned *memory = calloc(1, PAGES * PAGE);
	CHECK(memory != NULL);
	CU(D(cuMemHostRegister)(memory, PAGES * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
	return memory;
}

static void begin_wide(void)
{
	for (unsigned i = 0; i < WIDES; i++) {
		wide[i].handle = memory(PIECE * MIB);
		wide[i].base = reserve(WIDE);
		/* The first at the beginning, the last at the end. */
		wide[i].at = wide[i].base + WIDE / PIECE * i / (WIDES - 1) * PIECE * MIB;
		if (i == WIDES - 1)
			wide[i].at -= PIECE * MIB;
		map(wide[i].at, PIECE * MIB, wide[i].handle, &both);
		CU(D(cuMemsetD2D32)(wide[i].at, STRIDE, 0, 1, WORDS));
	}
}

static void begin(bool closed)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CU(D(cuInit)(0));
	CU(D(cuDeviceGet)(&device, 0));
	CU(D(cuCtxCreate)(&context, 0, device));
	CHECK(!closed || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
	CU(D(cuModuleLoadData)(&module, ptx));
	CU(D(cuModuleGetFunction)(&add, module, "add"));
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	base = reserve(RESERVED);
	for (int i = 0; i < 2; i++)
		moving.places[i] = reserve(MOVING);
	moving.window = reserve(2 * MOVING);
	hidden.place = reserve(PIECE);
	moving.handle = memory(MOVING * MIB);
	hidden.handle = memory(PIECE * MIB);
	map(moving.places[0], MOVING * MIB, moving.handle, &both);
	CU(D(cuMemsetD2D32)(moving.places[0], 2 * STRIDE, 0, 1, WORDS));
	map(moving.window, MOVING * MIB, moving.handle, &reading);
	map(hidden.place, PIECE * MIB, hidden.handle, &both);
	CU(D(cuMemsetD2D32)(hidden.place, STRIDE, 0, 1, WORDS));
	CU(D(cuMemUnmap)(hidden.place, PIECE * MIB));
	begin_wide();
	int nameless = memfd_create("nameless", 0), gone = memfd_create("gone", 0);
	int file = open("named", O_RDWR | O_CREAT, 0600);
	CHECK(nameless >= 0 && gone >= 0 && file >= 0);
	kept[0] = share(nameless);
	kept[1] = share(gone);
	close(gone);
	kept[2] = share(-1);
	kept[3] = own();
	named = share(file);
	CU(D(cuCtxSynchronize)());
}

int main(int count, char **arguments)
{
	CHECK(count == 3 || (count == 4 && strcmp(arguments[3], "closed") == 0));
	unsigned steps = atoi(arguments[1]), rest = atoi(arguments[2]);
	begin(count == 4);
	for (unsigned number = 0; number < steps; number++) {
		step_pieces(number);
		step_moving(number);
		step_wide(number);
		step_files(number);
		CHECK(printf("step %u %08x\n", number, random_state + moving.want[5]) > 0);
		CHECK(fflush(stdout) == 0);
		usleep(rest);
	}
	hold();
	puts("ok segments");
	return 7;
}

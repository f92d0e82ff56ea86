/* Segments that grow and shrink, with the calls of PyTorch's allocator in its order: more addresses
 * than memory, pieces of 2 and of 20 MiB, until no memory is left. */
#include "driver.h"
#include <stdbool.h>
#include <string.h>

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	/* x[i * stride] += i + 1 */
	".visible .entry add(.param .u64 x, .param .u32 stride, .param .u32 n)\n"
	"{\n"
	" .reg .pred %p; .reg .b32 %r<7>; .reg .b64 %d<4>;\n"
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
	" mad.lo.s32 %r1, %r1, %r2, %r3;\n"
	" ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra DONE;\n"
	" ld.param.u64 %d1, [x]; ld.param.u32 %r2, [stride];\n"
	" mul.wide.u32 %d2, %r1, %r2; add.s64 %d3, %d1, %d2; add.u32 %r1, %r1, 1;\n"
	" ld.global.u32 %r6, [%d3]; add.u32 %r6, %r6, %r1; st.global.u32 [%d3], %r6;\n"
	"DONE: ret;\n"
	"}\n";

#define MIB ((size_t)1 << 20)
enum { MOST = 600, PROBE = 512 << 10 };

struct segment {
	CUdeviceptr base;
	size_t piece, reserved;
	unsigned end;                               /* pieces up to the last one ever mapped */
	CUmemGenericAllocationHandle handles[MOST]; /* 0: not mapped */
};

static CUstream stream;
static CUfunction add;
static CUmemAllocationProp where = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
};
static CUmemAccessDesc both = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
			       .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static size_t left(void)
{
	size_t bytes, total;
	CU(D(cuMemGetInfo)(&bytes, &total));
	return bytes;
}

static size_t off;

/* The free memory must be as expected, except for what the driver keeps. */
static void check_left(size_t want)
{
	size_t now = left();
	CHECK(now + off >= want && now <= want + off);
}

/* Uses up a large device's memory, except for the pieces' share. */
static CUdeviceptr fill_up(void)
{
	size_t have = left(), keep = (size_t)1 << 30;
	CUdeviceptr rest = 0;
	if (have > 8 * keep)
		CU(D(cuMemAlloc)(&rest, (have - keep) / (2 * MIB) * (2 * MIB)));
	return rest;
}

static void open_segment(struct segment *s, size_t piece, size_t total)
{
	memset(s, 0, sizeof *s);
	s->piece = piece;
	s->reserved = (total + total / 8) / piece * piece;
	CU(D(cuMemAddressReserve)(&s->base, s->reserved, 0, 0, 0));
}

/* Maps pieces that are not mapped. Returns false, with nothing changed, if there is not enough
 * memory. */
static bool map(struct segment *s, unsigned first, unsigned end)
{
	CHECK(end <= MOST && end * s->piece <= s->reserved);
	for (unsigned i = first; i < end; i++) {
		CUresult result = D(cuMemCreate)(&s->handles[i], s->piece, &where, 0);
		if (result == CUDA_ERROR_OUT_OF_MEMORY) {
			for (s->handles[i] = 0; i-- > first; s->handles[i] = 0)
				CU(D(cuMemRelease)(s->handles[i]));
			return false;
		}
		CU(result);
	}
	for (unsigned i = first; i < end; i++)
		CU(D(cuMemMap)(s->base + i * s->piece, s->piece, 0, s->handles[i], 0));
	CU(D(cuMemSetAccess)(s->base + first * s->piece, (end - first) * s->piece, &both, 1));
	s->end = end > s->end ? end : s->end;
	return true;
}

static void unmap(struct segment *s, unsigned first, unsigned end)
{
	CU(D(cuStreamSynchronize)(stream));
	for (unsigned i = first; i < end; i++) {
		CU(D(cuMemUnmap)(s->base + i * s->piece, s->piece));
		CU(D(cuMemRelease)(s->handles[i]));
		s->handles[i] = 0;
	}
}

static void close_segment(struct segment *s)
{
	for (unsigned i = 0; i < s->end; i++)
		if (s->handles[i] != 0)
			unmap(s, i, i + 1);
	CU(D(cuMemAddressFree)(s->base, s->reserved));
}

/* Uses pieces as one tensor: in each PROBE bytes a word is set, a kernel adds to it, and it is
 * read. */
static void use(const struct segment *s, unsigned first, unsigned end, unsigned value)
{
	CUdeviceptr x = s->base + first * s->piece;
	unsigned stride = PROBE, n = (unsigned)((end - first) * s->piece / PROBE);
	unsigned *got = malloc(n * sizeof *got);
	void *parameters[] = {&x, &stride, &n};
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = x,
		.srcPitch = stride,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = got,
		.dstPitch = 4,
		.WidthInBytes = 4,
		.Height = n,
	};
	CHECK(got);
	CU(D(cuMemsetD2D32Async)(x, stride, value, 1, n, stream));
	CU(D(cuLaunchKernel)(add, (n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
	CU(D(cuMemcpy2DAsync)(&copy, stream));
	CU(D(cuStreamSynchronize)(stream));
	for (unsigned i = 0; i < n; i++)
		CHECK(got[i] == value + i + 1);
	free(got);
}

static void grow_and_shrink(struct segment *small, struct segment *large)
{
	size_t before = left();
	CHECK(map(small, 0, 10) && map(large, 0, 5));
	check_left(before - 120 * MIB);
	use(small, 0, 10, 1000);
	use(large, 0, 5, 2000);
	CHECK(map(small, 10, 30) && map(large, 5, 8));
	use(small, 0, 30, 3000); /* across pieces that were mapped at different times */
	unmap(small, 4, 9);
	unmap(large, 1, 3);
	check_left(before - 25 * 2 * MIB - 6 * 20 * MIB);
	use(small, 9, 30, 4000);
	use(large, 3, 8, 5000);
	CHECK(map(large, 1, 2) && map(small, 4, 9));
	use(large, 0, 2, 6000);
	use(small, 0, 30, 7000);
}

/* Fills all memory, detects that no more is left, and continues with memory that one segment
 * releases. */
static void run_out(struct segment *small, struct segment *large)
{
	unsigned at = large->end;
	while (map(large, at, at + 1))
		at++;
	CHECK(left() < large->piece + off);
	CHECK(!map(large, at, at + 1));
	while (map(small, small->end, small->end + 1))
		;
	CHECK(left() < small->piece + off);
	CHECK(!map(large, at, at + 1));
	unmap(small, 0, 9);
	CHECK(!map(large, at, at + 1));
	unmap(small, 9, 20);
	CHECK(map(large, at, at + 1));
	use(large, at - 2, at + 1, 8000);
}

int main(void)
{
	static struct segment small, large;
	CUdevice device = use_gpu();
	size_t total;
	add = kernel_of(ptx, "add");
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	CU(D(cuDeviceTotalMem)(&total, device));
	off = slack(device);
	CUdeviceptr rest = fill_up();
	size_t before = left();
	for (int turn = 0; turn < 2; turn++) {
		open_segment(&small, 2 * MIB, total);
		open_segment(&large, 20 * MIB, total);
		grow_and_shrink(&small, &large);
		run_out(&small, &large);
		close_segment(&small);
		close_segment(&large);
		check_left(before);
	}
	CU(D(cuMemFree)(rest));
	puts("ok expandable");
	return 0;
}

/* Holds GPU memory and follows a shared page: rewrites memory at a given rate, reads a part of it
 * in every step, keeps a core busy. It knows the content of each chunk, and checks it. With
 * HOST_MIB in the environment it also holds so much private memory, and rewrites one percent of its
 * pages a second, at random. With THREADS it has so many that wait. With 0 MiB on the GPU it uses
 * none.
 *
 * usage: memory PAGE MIB */
#include "../../workloads/driver/driver.h"
#include "clock.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Word i of a chunk of seed s is (s + i) * FACTOR. */
#define FACTOR 0x9e3779b97f4a7c15u
enum { CHUNK = 2 << 20, WORDS = CHUNK / 8, THREADS = 256, BLOCKS = 8 };

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	/* Every thread stores two words, and again 4096 words later. */
	".visible .entry fill(.param .u64 at, .param .u64 seed, .param .u32 turns)\n"
	"{\n"
	" .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<8>;\n"
	" ld.param.u64 %d1, [at]; ld.param.u64 %d2, [seed]; ld.param.u32 %r4, [turns];\n"
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
	" mad.lo.s32 %r1, %r1, %r2, %r3; shl.b32 %r1, %r1, 1;\n"
	" cvt.u64.u32 %d3, %r1; add.s64 %d2, %d2, %d3; mul.lo.s64 %d4, %d2, 0x9e3779b97f4a7c15;\n"
	" add.s64 %d5, %d4, 0x9e3779b97f4a7c15; shl.b64 %d3, %d3, 3; add.s64 %d1, %d1, %d3;\n"
	" mul.lo.s64 %d6, 4096, 0x9e3779b97f4a7c15;\n"
	"L: st.global.v2.u64 [%d1], {%d4, %d5}; add.s64 %d4, %d4, %d6; add.s64 %d5, %d5, %d6;\n"
	" add.s64 %d1, %d1, 32768; sub.s32 %r4, %r4, 1; setp.ne.s32 %p, %r4, 0; @%p bra L; ret;\n"
	"}\n"
	/* The sum of all words, into sums[0]. */
	".visible .entry sum(.param .u64 at, .param .u64 sums, .param .u32 turns)\n"
	"{\n"
	" .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<8>;\n"
	" ld.param.u64 %d1, [at]; ld.param.u64 %d2, [sums]; ld.param.u32 %r4, [turns];\n"
	" mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
	" mad.lo.s32 %r1, %r1, %r2, %r3; mul.wide.u32 %d3, %r1, 16; add.s64 %d1, %d1, %d3; mov.u64 "
	"%d4, 0;\n"
	"L: ld.global.v2.u64 {%d5, %d6}, [%d1]; add.s64 %d4, %d4, %d5; add.s64 %d4, %d4, %d6;\n"
	" add.s64 %d1, %d1, 32768; sub.s32 %r4, %r4, 1; setp.ne.s32 %p, %r4, 0; @%p bra L;\n"
	" atom.global.add.u64 %d5, [%d2], %d4; ret;\n"
	"}\n"
	/* One block with arithmetic only: it uses one core. */
	".visible .entry spin(.param .u32 turns, .param .u64 at)\n"
	"{\n"
	" .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<3>;\n"
	" ld.param.u32 %r1, [turns]; ld.param.u64 %d1, [at]; mov.u32 %r2, %tid.x;\n"
	"L: mad.lo.s32 %r2, %r2, 1664525, 1013904223; sub.s32 %r1, %r1, 1; setp.ne.s32 %p, %r1, 0; "
	"@%p bra L;\n"
	" st.global.u32 [%d1], %r2; ret;\n"
	"}\n";

/* The words that the measuring side writes or reads. */
struct page {
	/* Read here. */
	_Atomic uint64_t rewrite_bytes_per_second, read_bytes_per_step, spin_turns_per_step, quit;
	/* Once: the number of chunks, at even distances. */
	_Atomic uint64_t rewrite_once_chunks;
	_Atomic uint64_t unused[3];
	/* Written here. */
	_Atomic uint64_t steps, rewritten_bytes, longest_step_ns, rewritten_once, verified;
};

static struct page *page;
static CUdeviceptr memory, scratch;
static CUfunction fill, sum, spin;
static uint64_t *seeds, chunks, next_seed = 1;

/* Word j of a private page i that was written n times is (n, i, j) * FACTOR. */
enum { PAGE_WORDS = 512 };
static uint64_t (*host)[PAGE_WORDS], host_pages;
static uint32_t *written;

static uint64_t host_word(uint64_t i, uint64_t j)
{
	return FACTOR * ((uint64_t)written[i] << 40 | i << 9 | j);
}

static void write_host(uint64_t i)
{
	for (uint64_t j = 0; j < PAGE_WORDS; j++)
		host[i][j] = host_word(i, j);
}

static void verify_host(void)
{
	for (uint64_t i = 0; i < host_pages; i++)
		for (uint64_t j = 0; j < PAGE_WORDS; j++)
			CHECK(host[i][j] == host_word(i, j));
}

static void *rewrite_host(void *unused)
{
	uint64_t chance = 1;
	double due = 0;
	for (uint64_t last = (uint64_t)now(); !page->quit;) {
		usleep(1000);
		uint64_t after = (uint64_t)now(), took = after - last;
		last = after;
		due += (double)host_pages / 100 * (double)(took < 100000000 ? took : 0) / 1e9;
		for (; due >= 1; due--) {
			chance = chance * 6364136223846793005u + 1442695040888963407u;
			uint64_t i = (chance >> 20) % host_pages;
			written[i]++;
			write_host(i);
		}
	}
	return unused;
}

static pthread_t hold_host(const char *mib)
{
	pthread_t thread;
	host_pages = strtoull(mib, NULL, 10) << 8;
	host = mmap(NULL, host_pages * sizeof *host, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(host != MAP_FAILED);
	CHECK((written = calloc(host_pages, sizeof *written)) != NULL);
	for (uint64_t i = 0; i < host_pages; i++)
		write_host(i);
	CHECK(pthread_create(&thread, NULL, rewrite_host, NULL) == 0);
	return thread;
}

static void *wait_forever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void start_threads(const char *count)
{
	pthread_attr_t small;
	pthread_t thread;
	CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 64 << 10) == 0);
	for (unsigned long left = strtoul(count, NULL, 10); left > 0; left--)
		CHECK(pthread_create(&thread, &small, wait_forever, NULL) == 0);
}

static void open_page(const char *path)
{
	int file = open(path, O_RDWR);
	CHECK(file >= 0);
	page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(page != MAP_FAILED);
	close(file);
}

static void rewrite(uint64_t chunk)
{
	CUdeviceptr at = memory + chunk * CHUNK;
	uint64_t seed = seeds[chunk] = next_seed++ * WORDS;
	unsigned turns = WORDS / 2 / THREADS / BLOCKS;
	void *parameters[] = {&at, &seed, &turns};
	CU(cuLaunchKernel(fill, BLOCKS, 1, 1, THREADS, 1, 1, 0, 0, parameters, NULL));
}

/* Reads chunks from the first one on, and checks their sum. */
static void verify(uint64_t count)
{
	uint64_t got = 0, want = 0;
	CU(cuMemsetD8(scratch, 0, sizeof got));
	for (uint64_t i = 0; i < count; i++) {
		CUdeviceptr at = memory + i * CHUNK;
		unsigned turns = WORDS / 2 / THREADS / BLOCKS;
		void *parameters[] = {&at, &scratch, &turns};
		CU(cuLaunchKernel(sum, BLOCKS, 1, 1, THREADS, 1, 1, 0, 0, parameters, NULL));
		want += FACTOR * (WORDS * seeds[i] + (uint64_t)WORDS / 2 * (WORDS - 1));
	}
	CU(cuMemcpyDtoH(&got, scratch, sizeof got));
	CHECK(got == want);
}

static void set_up(uint64_t mib)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	chunks = mib * (1 << 20) / CHUNK;
	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&fill, module, "fill"));
	CU(cuModuleGetFunction(&sum, module, "sum"));
	CU(cuModuleGetFunction(&spin, module, "spin"));
	CU(cuMemAlloc(&memory, chunks * CHUNK));
	CU(cuMemAlloc(&scratch, 4096));
	CHECK((seeds = calloc(chunks, sizeof *seeds)) != NULL);
	for (uint64_t i = 0; i < chunks; i++)
		rewrite(i);
	CU(cuCtxSynchronize());
}

/* The work since the last step. A program that was stopped does not catch up. */
static void rewrite_due(uint64_t since_ns)
{
	static uint64_t at;
	static double due;
	if (chunks == 0)
		return;
	if (since_ns > 100000000)
		since_ns = 100000000;
	due += (double)page->rewrite_bytes_per_second * (double)since_ns / 1e9 / CHUNK;
	if (due > (double)chunks)
		due = (double)chunks;
	for (; due >= 1; due--, at = (at + 1) % chunks) {
		rewrite(at);
		page->rewritten_bytes += CHUNK;
	}
}

static void rewrite_once(void)
{
	if (chunks == 0)
		return;
	uint64_t count = page->rewrite_once_chunks;
	if (count == page->rewritten_once)
		return;
	for (uint64_t i = 0; i < count; i++)
		rewrite(i * (chunks / count));
	CU(cuCtxSynchronize());
	page->rewritten_once = count;
}

static void step(void)
{
	if (chunks == 0) {
		usleep(500);
		return;
	}
	uint64_t reads = page->read_bytes_per_step / CHUNK;
	unsigned turns = (unsigned)page->spin_turns_per_step;
	if (reads > 0)
		verify(reads < chunks ? reads : chunks);
	if (turns > 0) {
		void *parameters[] = {&turns, &scratch};
		CU(cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, 0, parameters, NULL));
	}
	CU(cuCtxSynchronize());
	if (reads == 0 && turns == 0)
		usleep(500);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	const char *private = getenv("HOST_MIB"), *threads = getenv("THREADS");
	pthread_t thread;
	open_page(argv[1]);
	if (strcmp(argv[2], "0") != 0)
		set_up(strtoull(argv[2], NULL, 10));
	if (private != NULL)
		thread = hold_host(private);
	if (threads != NULL)
		start_threads(threads);
	page->steps = 1;
	for (uint64_t last = (uint64_t)now(); !page->quit;) {
		step();
		rewrite_once();
		uint64_t after = (uint64_t)now(), took = after - last;
		if (took > page->longest_step_ns)
			page->longest_step_ns = took;
		rewrite_due(took);
		last = after;
		page->steps++;
	}
	if (chunks > 0)
		verify(chunks);
	if (private != NULL) {
		CHECK(pthread_join(thread, NULL) == 0);
		verify_host();
	}
	page->verified = 1;
	puts("ok memory");
	return 0;
}

/* Pages that kernels shall reach become those of a file in memory. While a page is replaced, other
 * threads cannot store to it (guard.h), and this thread stores nothing that it might contain: no
 * allocation, no message, not even errno, see own_memory.
 *
 * A page has other things of the program than the registered bytes, as its neighbours in the heap.
 * So a forked child must not share it: MADV_DONTFORK keeps it out, and the handlers of fork put a
 * copy there. What another thread stores while fork runs may be missing in the child. */
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "guard.h"
#include "log.h"
#include "post.h"
#include "ranges.h"

#define FILE_NAME "phos-registered"

/* So many bytes are replaced in a step. */
enum { STEP_BYTES = 2 << 20, LINE_BYTES = 4608 };

/* A mapping of the program. */
struct area {
	uint64_t start, end;
	bool shared;    /* nothing has to be done */
	bool huge;      /* it is in huge pages, which cannot be replaced by those of a file */
	bool ours;      /* its file was made here */
	bool anonymous; /* it is ordinary memory: private, readable, writable, without a file */
};

/* Pages that were replaced. copy is for a forked child. */
struct block {
	uint64_t start, end;
	unsigned char *copy;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct block *blocks;
static size_t count, room;

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Reads a line of /proc/self/maps. */
static bool read_area(const char *line, struct area *area)
{
	char rights[5] = "";
	uint64_t inode = 0;
	int path = 0;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64 " %n", &area->start,
		   &area->end, rights, &inode, &path) < 4)
		return false;
	const char *name = path > 0 ? line + path : "";
	area->shared = rights[3] == 's';
	area->huge = strncmp(name, "/anon_hugepage", 14) == 0;
	area->ours = area->shared && strncmp(name, "/memfd:" FILE_NAME, 7 + strlen(FILE_NAME)) == 0;
	area->anonymous = strcmp(rights, "rw-p") == 0 && inode == 0 &&
			  (*name == '\n' || *name == '\0' || strncmp(name, "[heap]", 6) == 0 ||
			   strncmp(name, "[anon:", 6) == 0);
	return true;
}

/* Finds the mapping that contains an address. */
static bool find_area(uint64_t address, struct area *area)
{
	char line[LINE_BYTES];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "re");
	if (maps == NULL)
		return false;
	while (!found && fgets(line, sizeof line, maps) != NULL)
		found = read_area(line, area) && area->start <= address && address < area->end;
	fclose(maps);
	return found;
}

/* Whether a range has memory that this thread uses while it replaces pages: its stack, or its
 * variables. */
static bool own_memory(uint64_t start, uint64_t end)
{
	pthread_attr_t attributes;
	void *stack = NULL;
	size_t bytes = 0;
	uint64_t variable = (uintptr_t)&errno;
	if (variable >= start && variable < end)
		return true;
	if (pthread_getattr_np(pthread_self(), &attributes) != 0)
		return true;
	pthread_attr_getstack(&attributes, &stack, &bytes);
	pthread_attr_destroy(&attributes);
	return (uintptr_t)stack < end && start < (uintptr_t)stack + bytes;
}

/* Replaces a few pages by those of fresh, with their content. */
static bool replace_step(uint64_t start, size_t bytes, unsigned char *fresh)
{
	void *there = (void *)(uintptr_t)start;
	int guard;
	if (!phos_guard_begin(start, bytes, &guard))
		return false;
	bool moved = phos_guard_close(guard, start, bytes);
	if (moved) {
		memcpy(fresh, there, bytes);
		moved = mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, there) !=
			MAP_FAILED;
	}
	phos_guard_open(guard, start, bytes);
	phos_guard_end(guard);
	return moved;
}

/* Replaces pages by those of fresh, with their content. Returns how many bytes were replaced. The
 * rest of fresh is unmapped. Other threads, and a checkpoint, wait for a step at most. */
static size_t replace(uint64_t start, size_t bytes, unsigned char *fresh)
{
	size_t done = 0, step = STEP_BYTES;
	for (; done < bytes; done += step) {
		step = bytes - done < STEP_BYTES ? bytes - done : STEP_BYTES;
		if (!replace_step(start + done, step, fresh + done))
			break;
	}
	if (done < bytes)
		munmap(fresh + done, bytes - done);
	return done;
}

/* Makes room in the list for one more block, and for the halves of another. */
static bool make_room(void)
{
	if (count + 2 <= room)
		return true;
	size_t more = room * 2 + 8;
	struct block *grown = realloc(blocks, more * sizeof *grown);
	if (grown == NULL)
		return false;
	blocks = grown;
	room = more;
	return true;
}

/* Opens a file of so many bytes; -1 if there is too little memory. A limit for files would end the
 * program with SIGXFSZ. */
static int new_file(size_t bytes)
{
	struct rlimit most;
	if (getrlimit(RLIMIT_FSIZE, &most) != 0 ||
	    (most.rlim_cur != RLIM_INFINITY && most.rlim_cur < bytes))
		return -1;
	int fd = memfd_create(FILE_NAME, MFD_CLOEXEC);
	if (fd >= 0 && fallocate(fd, 0, 0, (off_t)bytes) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Replaces the pages of one private mapping, from offset on in the file. */
static CUresult share_area(uint64_t start, size_t bytes, int fd, off_t offset)
{
	if (own_memory(start, start + bytes))
		return phos_refuse("cuMemHostRegister of the calling thread's stack for kernels");
	if (!make_room())
		return CUDA_ERROR_OUT_OF_MEMORY;
	unsigned char *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (fresh == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (madvise(fresh, bytes, MADV_DONTFORK) != 0) {
		munmap(fresh, bytes);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	size_t done = replace(start, bytes, fresh);
	if (done > 0)
		blocks[count++] = (struct block){.start = start, .end = start + done};
	return done == bytes ? CUDA_SUCCESS
			     : phos_refuse("cuMemHostRegister of private memory for kernels, in a "
					   "process that may not use userfaultfd");
}

/* Shares what is private in [start, end). */
static CUresult share(uint64_t start, uint64_t end, int fd)
{
	struct area area;
	for (uint64_t at = start; at < end; at = area.end) {
		if (!find_area(at, &area))
			return CUDA_ERROR_INVALID_VALUE;
		uint64_t stop = area.end < end ? area.end : end;
		if (area.shared)
			continue;
		if (area.huge)
			return phos_refuse("cuMemHostRegister for kernels of private memory in "
					   "huge pages (map it with MAP_SHARED)");
		if (!area.anonymous)
			return phos_refuse("cuMemHostRegister for kernels of memory that is a "
					   "private mapping of a file, a stack or read-only");
		CUresult result = share_area(at, stop - at, fd, (off_t)(at - start));
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

CUresult phos_pages_share(uint64_t base, size_t bytes, int *fd)
{
	int saved = errno, cancelling;
	uint64_t page = page_bytes();
	uint64_t start = base & ~(page - 1), end = (base + bytes + page - 1) & ~(page - 1);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
	pthread_mutex_lock(&lock);
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	*fd = new_file(end - start);
	if (*fd >= 0)
		result = share(start, end, *fd);
	pthread_mutex_unlock(&lock);
	if (result != CUDA_SUCCESS)
		phos_pages_return(base, bytes);
	pthread_setcancelstate(cancelling, NULL);
	errno = saved;
	return result;
}

/* Makes pages private again. Returns how many bytes; others stay shared. */
static size_t make_private(uint64_t start, size_t bytes)
{
	struct area area;
	if (!find_area(start, &area) || !area.ours || area.end < start + bytes)
		return bytes; /* the program has unmapped them */
	if (own_memory(start, start + bytes))
		return 0;
	unsigned char *fresh =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return fresh == MAP_FAILED ? 0 : replace(start, bytes, fresh);
}

/* Returns the part of a block that is in [start, end), and keeps the rest in the list. */
static void return_part(size_t i, uint64_t start, uint64_t end)
{
	struct block whole = blocks[i];
	uint64_t from = whole.start > start ? whole.start : start;
	uint64_t to = whole.end < end ? whole.end : end;
	if (from >= to || !make_room())
		return;
	from += make_private(from, to - from) == to - from ? 0 : to - from;
	if (from >= to)
		return; /* it stays shared */
	blocks[i] = blocks[--count];
	if (whole.start < from)
		blocks[count++] = (struct block){.start = whole.start, .end = from};
	if (to < whole.end)
		blocks[count++] = (struct block){.start = to, .end = whole.end};
}

void phos_pages_return(uint64_t base, size_t bytes)
{
	int saved = errno, cancelling;
	uint64_t page = page_bytes();
	uint64_t start = base & ~(page - 1), end = (base + bytes + page - 1) & ~(page - 1);
	if (phos_range_overlaps(start, page))
		start += page;
	if (end > start && phos_range_overlaps(end - page, page))
		end -= page;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
	pthread_mutex_lock(&lock);
	for (size_t i = count; start < end && i-- > 0;)
		return_part(i, start, end);
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(cancelling, NULL);
	errno = saved;
}

/* Copies a block for the child. Without a copy the child lacks the pages. */
static void copy_block(struct block *block)
{
	struct area area;
	size_t bytes = block->end - block->start;
	block->copy = NULL;
	if (!find_area(block->start, &area) || !area.ours || area.end < block->end)
		return; /* the program has unmapped them */
	void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED) {
		phos_log(PHOS_WARN, "no memory to copy registered memory for a forked process");
		return;
	}
	block->copy = memcpy(copy, (const void *)(uintptr_t)block->start, bytes);
}

void phos_pages_before_fork(void)
{
	int saved = errno;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		copy_block(&blocks[i]);
	errno = saved;
}

void phos_pages_after_fork_in_parent(void)
{
	int saved = errno;
	for (size_t i = 0; i < count; i++)
		if (blocks[i].copy != NULL)
			munmap(blocks[i].copy, blocks[i].end - blocks[i].start);
	pthread_mutex_unlock(&lock);
	errno = saved;
}

void phos_pages_after_fork_in_child(void)
{
	int saved = errno;
	for (size_t i = 0; i < count; i++) {
		size_t bytes = blocks[i].end - blocks[i].start;
		if (blocks[i].copy != NULL)
			mremap(blocks[i].copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			       (void *)(uintptr_t)blocks[i].start);
	}
	count = 0;
	pthread_mutex_init(&lock, NULL);
	errno = saved;
}

/* The guard is a userfaultfd that protects pages against stores: a thread that stores to one waits
 * in the kernel. It is open only during the move of some pages, because CRIU cannot save it, and
 * checkpoints wait for that. */
#include "guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "post.h"

/* Whether this is the only thread of the process. */
static bool alone(void)
{
	DIR *tasks = opendir("/proc/self/task");
	if (tasks == NULL)
		return false;
	int count = 0;
	for (struct dirent *each; (each = readdir(tasks)) != NULL;)
		count += each->d_name[0] != '.';
	closedir(tasks);
	return count == 1;
}

/* Without privileges the kernel gives a userfaultfd that holds up stores of the program's code
 * only. A system call of another thread that stores to the pages then ends with EFAULT. */
static int open_fault(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	return fd;
}

static bool watch(int fd, uint64_t start, size_t bytes)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
	struct uffdio_register pages = {.range = {.start = start, .len = bytes},
					.mode = UFFDIO_REGISTER_MODE_WP};
	return ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &pages) == 0;
}

bool phos_guard_begin(uint64_t start, size_t bytes, int *guard)
{
	*guard = -1;
	if (phos_hold_begin() != CUDA_SUCCESS)
		return false;
	int fault = open_fault();
	if (fault >= 0 && watch(fault, start, bytes)) {
		*guard = fault;
		return true;
	}
	if (fault >= 0)
		close(fault);
	if (alone())
		return true;
	phos_hold_end();
	return false;
}

static bool protect(int guard, uint64_t start, size_t bytes, uint64_t mode)
{
	struct uffdio_writeprotect pages = {.range = {.start = start, .len = bytes}, .mode = mode};
	return ioctl(guard, UFFDIO_WRITEPROTECT, &pages) == 0;
}

bool phos_guard_close(int guard, uint64_t start, size_t bytes)
{
	if (guard < 0)
		return true;
	/* Only pages that exist can be protected. */
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	for (uint64_t at = start; at < start + bytes; at += page)
		(void)*(const volatile unsigned char *)(uintptr_t)at;
	return protect(guard, start, bytes, UFFDIO_WRITEPROTECT_MODE_WP);
}

void phos_guard_open(int guard, uint64_t start, size_t bytes)
{
	if (guard < 0)
		return;
	struct uffdio_range pages = {.start = start, .len = bytes};
	/* The first fails where the pages have been replaced: then only the waiting threads are
	 * left. */
	protect(guard, start, bytes, 0);
	ioctl(guard, UFFDIO_WAKE, &pages);
}

void phos_guard_end(int guard)
{
	if (guard >= 0)
		close(guard);
	phos_hold_end();
}

#include "handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "connection.h"
#include "log.h"
#include "track.h"
#include "visible.h"
#include "zz_layout.h"

#define ARENA_CANDIDATE  UINT64_C(0x600000000000)
#define ARENA_STRIDE     (UINT64_C(1) << 40)
#define ARENA_CANDIDATES 16

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct hello {
	uint32_t magic, version;
	uint64_t flags, cookie_address, cookie;
	uint32_t pid;
	unsigned char pad[28];
};

struct welcome {
	uint32_t magic, version, status, worker;
	uint64_t session, session_bytes, arena_bytes;
	char session_path[128], arena_path[128], message[200];
	uint32_t features;
};

_Static_assert(sizeof(struct hello) == PHOS_HELLO_BYTES, "hello");
_Static_assert(offsetof(struct welcome, session_path) == 40 &&
		       offsetof(struct welcome, features) == 496 &&
		       sizeof(struct welcome) <= PHOS_WELCOME_BYTES,
	       "welcome");

/* The worker polls this word in our memory: exec removes it while the process lives on. */
static volatile uint64_t cookie;

static uint64_t hello_flags(const char *visible)
{
	const char *copy = getenv("PHOS_COPY");
	uint64_t flags = copy != NULL && strcmp(copy, "shim") == 0 ? PHOS_HELLO_COPY_BY_SHIM : 0;
	return flags | PHOS_HELLO_TRACKED | (visible != NULL ? PHOS_HELLO_VISIBLE : 0);
}

/* Sends the Hello and checks the Welcome. */
static CUresult exchange(int fd, const char *path, const char *visible, struct welcome *welcome)
{
	union {
		struct welcome welcome;
		unsigned char bytes[PHOS_WELCOME_BYTES];
	} answer;
	cookie = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&cookie ^
		 UINT64_C(0x9e3779b97f4a7c15);
	struct hello hello = {
		.magic = PHOS_MAGIC,
		.version = PHOS_VERSION,
		.flags = hello_flags(visible),
		.cookie_address = (uint64_t)(uintptr_t)&cookie,
		.cookie = cookie,
		.pid = (uint32_t)getpid(),
	};
	if (!phos_send_all(fd, &hello, sizeof hello) ||
	    !phos_receive_all(fd, &answer, sizeof answer))
		return phos_no_daemon("no answer comes from the daemon at", path, PHOS_HINT_LOG);
	*welcome = answer.welcome;
	welcome->session_path[sizeof welcome->session_path - 1] = '\0';
	welcome->arena_path[sizeof welcome->arena_path - 1] = '\0';
	welcome->message[sizeof welcome->message - 1] = '\0';
	if (welcome->magic != PHOS_MAGIC) {
		phos_log(PHOS_ERROR, "what listens at %s is not phosd", path);
		return CUDA_ERROR_NO_DEVICE;
	}
	if (welcome->version != PHOS_VERSION) {
		phos_log(PHOS_ERROR,
			 "libphos speaks version %u and phosd at %s version %u: install them "
			 "together",
			 PHOS_VERSION, path, welcome->version);
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	}
	if (welcome->status != 0) {
		phos_log(PHOS_ERROR, "phosd refuses this program: %s", welcome->message);
		return (CUresult)welcome->status;
	}
	/* Not an obstacle to the session, but worth a line: an invalid pos.yaml. */
	if (welcome->message[0] != '\0')
		phos_log(PHOS_WARN, "%s", welcome->message);
	return CUDA_SUCCESS;
}

/* Opens a file of the session that has at least the given size. */
static int open_sized(const char *path, uint64_t bytes)
{
	struct stat info;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && (fstat(fd, &info) != 0 || (uint64_t)info.st_size < bytes)) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

static CUresult map_session(const struct welcome *welcome, struct phos_shared *shared)
{
	int fd = -1;
	if (welcome->session_bytes == PHOS_SESSION_BYTES)
		fd = open_sized(welcome->session_path, PHOS_SESSION_BYTES);
	if (fd < 0) {
		phos_log(PHOS_ERROR, "no use of the session file %s: %s", welcome->session_path,
			 strerror(errno));
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	void *at = mmap(NULL, PHOS_SESSION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED) {
		phos_log(PHOS_ERROR, "no room to map the session: %s", strerror(errno));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* A child that was created without the fork handlers must not be able to disturb its parent
	 * either. */
	shared->inherited = madvise(at, PHOS_SESSION_BYTES, MADV_DONTFORK) != 0;
	shared->file = at;
	shared->file_bytes = PHOS_SESSION_BYTES;
	return CUDA_SUCCESS;
}

/* Maps the arena at the first candidate address that is free here and in the worker. */
static CUresult place_arena(int socket, int fd, const char *path, struct phos_shared *shared)
{
	for (int n = 0; n < ARENA_CANDIDATES; n++) {
		uint64_t wanted = ARENA_CANDIDATE + (uint64_t)n * ARENA_STRIDE;
		void *at =
			mmap((void *)(uintptr_t)wanted, shared->arena_bytes, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, 0);
		if (at == MAP_FAILED)
			continue;
		uint64_t got = (uint64_t)(uintptr_t)at;
		uint32_t taken = 1;
		/* Kernels before 4.17 take the address as a hint. */
		bool talks = got != wanted || (phos_send_all(socket, &got, sizeof got) &&
					       phos_receive_all(socket, &taken, sizeof taken));
		if (talks && got == wanted && taken == 0) {
			shared->inherited |= madvise(at, shared->arena_bytes, MADV_DONTFORK) != 0;
			shared->arena = got;
			return CUDA_SUCCESS;
		}
		munmap(at, shared->arena_bytes);
		if (!talks)
			return phos_no_daemon("the connection broke to the daemon at", path,
					      PHOS_HINT_LOG);
	}
	uint64_t none = 0;
	phos_send_all(socket, &none, sizeof none);
	phos_log(PHOS_ERROR,
		 "no room to map %llu bytes of pinned memory; is the address space limited (ulimit "
		 "-v)?",
		 (unsigned long long)shared->arena_bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void phos_allow_worker(uint32_t pid)
{
	if (pid != 0)
		prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0);
}

/* Tells the worker what was offered, as far as it wants to know. */
static CUresult tell(int socket, const char *path, const char *visible, uint32_t features)
{
	CUresult result = CUDA_SUCCESS;
	if (visible != NULL && (features & PHOS_WELCOME_VISIBLE) != 0)
		result = phos_visible_agree(socket, path, visible);
	else if (visible != NULL)
		phos_log(PHOS_WARN, "phosd is older than libphos.so and ignores "
				    "CUDA_VISIBLE_DEVICES: restart it");
	if (result == CUDA_SUCCESS && (features & PHOS_WELCOME_TRACKED) != 0 && !phos_track(socket))
		result = phos_no_daemon("the connection broke to the daemon at", path,
					PHOS_HINT_LOG);
	return result;
}

static CUresult map_all(int socket, const char *path, struct phos_shared *shared)
{
	struct welcome welcome;
	const char *visible = phos_visible();
	CUresult result = exchange(socket, path, visible, &welcome);
	if (result == CUDA_SUCCESS)
		result = tell(socket, path, visible, welcome.features);
	if (result != CUDA_SUCCESS)
		return result;
	phos_allow_worker(welcome.worker);
	result = map_session(&welcome, shared);
	if (result != CUDA_SUCCESS)
		return result;
	shared->session = welcome.session;
	shared->arena_bytes = welcome.arena_bytes;
	int arena = open_sized(welcome.arena_path, welcome.arena_bytes);
	if (arena < 0) {
		phos_log(PHOS_ERROR, "no use of the arena file %s: %s", welcome.arena_path,
			 strerror(errno));
		result = CUDA_ERROR_OPERATING_SYSTEM;
	} else {
		result = place_arena(socket, arena, path, shared);
		close(arena);
	}
	if (result != CUDA_SUCCESS)
		munmap(shared->file, shared->file_bytes);
	return result;
}

CUresult phos_shake_hands(struct phos_shared *shared)
{
	struct phos_connection to;
	CUresult result = phos_connect(&to, false);
	if (result != CUDA_SUCCESS)
		return result;
	result = map_all(to.fd, to.path, shared);
	close(to.fd);
	return result;
}

void phos_unmap(const struct phos_shared *shared)
{
	munmap(shared->file, shared->file_bytes);
	munmap((void *)(uintptr_t)shared->arena, shared->arena_bytes);
}

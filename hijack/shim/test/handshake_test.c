/* The handshake with a fake phosd, correct and faulty ones, and forks before and after it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../session.h"
#include "../zz_calls.h"

#include "expect.h"

#define ARENA_BYTES (64u << 20)

enum manner {
	GOOD,
	OTHER_VERSION,
	REFUSES,
	STRANGER,
	HANGS_UP,
	SMALL_FILE,
	TAKEN_ONCE,
	SEES,
	SEES_NONE,
	TRACKS
};

static char directory[64], socket_path[96], session_path[96], arena_path[96];

struct welcome {
	uint32_t magic, version, status, worker;
	uint64_t session, session_bytes, arena_bytes;
	char session_path[128], arena_path[128], message[200];
	uint32_t features;
	char rest[12];
};

static void make_file(const char *path, off_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, bytes) != 0)
		abort();
	close(fd);
}

/* Writes the header, as a worker does before it answers. */
static void make_session(enum manner manner)
{
	make_file(session_path, manner == SMALL_FILE ? PHOS_SESSION_BYTES / 2 : PHOS_SESSION_BYTES);
	make_file(arena_path, ARENA_BYTES);
	int fd = open(session_path, O_RDWR);
	uint32_t words[2] = {PHOS_MAGIC, PHOS_VERSION}, devices = 2;
	if (pwrite(fd, words, 8, PHOS_WORD_MAGIC) != 8 ||
	    pwrite(fd, &devices, 4, PHOS_WORD_DEVICE_COUNT) != 4)
		abort();
	close(fd);
}

/* Answers an inquiry: no GPUs, CUDA 12.8. */
static void answer(int fd)
{
	uint32_t head[PHOS_ANSWER_HEAD_BYTES / 4] = {PHOS_INQUIRY_MAGIC, PHOS_VERSION};
	head[PHOS_ANSWER_SERVES / 4] = 12080;
	send(fd, head, sizeof head, MSG_NOSIGNAL);
}

/* Reads what the program wants to see. Hangs up if it is not what the test has set. */
static void see(int fd, const unsigned char *hello, enum manner manner)
{
	static const char want[] = "1,GPU-0";
	char value[sizeof want - 1];
	uint32_t bytes = 0, seen = manner == SEES ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
	if ((hello[8] & PHOS_HELLO_VISIBLE) == 0 || recv(fd, &bytes, 4, MSG_WAITALL) != 4 ||
	    bytes != sizeof value || recv(fd, value, bytes, MSG_WAITALL) != (ssize_t)bytes ||
	    memcmp(value, want, bytes) != 0)
		shutdown(fd, SHUT_RDWR);
	send(fd, &seen, sizeof seen, MSG_NOSIGNAL);
}

/* Receives the program's userfaultfd. Hangs up if it is something else. */
static void track(int fd, const unsigned char *hello)
{
	char text, name[64] = "";
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} beside;
	struct iovec part = {.iov_base = &text, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = beside.bytes,
		.msg_controllen = sizeof beside.bytes,
	};
	if ((hello[8] & PHOS_HELLO_TRACKED) == 0)
		return; /* userfaultfd is not allowed here */
	if (recvmsg(fd, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL) {
		char link[32];
		int got;
		memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
		snprintf(link, sizeof link, "/proc/self/fd/%d", got);
		if (readlink(link, name, sizeof name - 1) < 0)
			abort();
		close(got);
	}
	if (strcmp(name, "anon_inode:[userfaultfd]") != 0)
		shutdown(fd, SHUT_RDWR);
}

/* Serves one program. The count of answers to Mapped is the only state. */
static void serve(int fd, enum manner manner)
{
	unsigned char hello[PHOS_HELLO_BYTES];
	uint32_t asked = 0;
	if (recv(fd, hello, PHOS_INQUIRY_BYTES, MSG_WAITALL) != PHOS_INQUIRY_BYTES)
		return;
	memcpy(&asked, hello, sizeof asked);
	if (asked == PHOS_INQUIRY_MAGIC) {
		answer(fd);
		return;
	}
	struct welcome welcome = {PHOS_MAGIC,  PHOS_VERSION, 0,  0,  7, PHOS_SESSION_BYTES,
				  ARENA_BYTES, "",           "", "", 0, ""};
	const size_t rest = sizeof hello - PHOS_INQUIRY_BYTES;
	if (recv(fd, hello + PHOS_INQUIRY_BYTES, rest, MSG_WAITALL) != (ssize_t)rest ||
	    manner == HANGS_UP)
		return;
	make_session(manner);
	snprintf(welcome.session_path, sizeof welcome.session_path, "%s", session_path);
	snprintf(welcome.arena_path, sizeof welcome.arena_path, "%s", arena_path);
	if (manner == OTHER_VERSION)
		welcome.version = PHOS_VERSION + 1;
	if (manner == STRANGER)
		welcome.magic = 0x20505448;
	if (manner == REFUSES) {
		welcome.status = CUDA_ERROR_NOT_PERMITTED;
		snprintf(welcome.message, sizeof welcome.message, "no more programs today");
	}
	if (manner == SEES || manner == SEES_NONE)
		welcome.features = PHOS_WELCOME_VISIBLE;
	if (manner == TRACKS)
		welcome.features = PHOS_WELCOME_TRACKED;
	send(fd, &welcome, PHOS_WELCOME_BYTES, MSG_NOSIGNAL);
	if (manner == SEES || manner == SEES_NONE)
		see(fd, hello, manner);
	if (manner == TRACKS)
		track(fd, hello);
	uint64_t address;
	for (uint32_t tries = 0; recv(fd, &address, 8, MSG_WAITALL) == 8 && address != 0; tries++) {
		uint32_t placed = manner == TAKEN_ONCE && tries == 0;
		send(fd, &placed, 4, MSG_NOSIGNAL);
	}
}

static pid_t start_phosd(enum manner manner)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
	unlink(socket_path);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
	    listen(listener, 8) != 0)
		abort();
	pid_t pid = fork();
	if (pid == 0) {
		for (;;) {
			int fd = accept(listener, NULL, NULL);
			serve(fd, manner);
			close(fd);
		}
	}
	close(listener);
	return pid;
}

static void stop_phosd(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(socket_path);
}

static int open_descriptors(void)
{
	int count = 0;
	DIR *d = opendir("/proc/self/fd");
	while (readdir(d) != NULL)
		count++;
	closedir(d);
	return count;
}

/* Runs a part of the test in a child, so that each part has a new process. Returns whether it
 * passed. */
static bool in_child(void (*part)(void))
{
	int status = 0;
	fflush(stderr);
	pid_t pid = fork();
	if (pid == 0) {
		part();
		_exit(expect_result("in a child"));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static CUresult init_result;

static void init_gives(void)
{
	int before = open_descriptors();
	errno = 33;
	EXPECT_EQUAL(cuInit(0), init_result);
	EXPECT_EQUAL(errno, 33);
	EXPECT_EQUAL(open_descriptors(), before);
	int count;
	if (init_result != CUDA_SUCCESS)
		EXPECT_EQUAL(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
}

static void test_manners(void)
{
	static const struct {
		enum manner manner;
		CUresult result;
	} cases[] = {
		{GOOD, CUDA_SUCCESS},
		{TAKEN_ONCE, CUDA_SUCCESS},
		{TRACKS, CUDA_SUCCESS},
		{OTHER_VERSION, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
		{REFUSES, CUDA_ERROR_NOT_PERMITTED},
		{STRANGER, CUDA_ERROR_NO_DEVICE},
		{HANGS_UP, CUDA_ERROR_NO_DEVICE},
		{SMALL_FILE, CUDA_ERROR_OPERATING_SYSTEM},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		pid_t phosd = start_phosd(cases[i].manner);
		init_result = cases[i].result;
		EXPECT(in_child(init_gives));
		stop_phosd(phosd);
	}
	init_result = CUDA_ERROR_NO_DEVICE;
	EXPECT(in_child(init_gives)); /* without a listener */
}

static void test_visible(void)
{
	static const struct {
		const char *value;
		enum manner manner;
		CUresult result;
	} cases[] = {
		{"1,GPU-0", SEES, CUDA_SUCCESS},
		{"1,GPU-0", SEES_NONE, CUDA_ERROR_NO_DEVICE},
		{"1,GPU-0", GOOD, CUDA_SUCCESS}, /* phosd is older and knows no such message */
		{"2", SEES, CUDA_ERROR_NO_DEVICE},
		/* phosd is not asked: it would hang up. */
		{"", HANGS_UP, CUDA_ERROR_NO_DEVICE},
		{"-1", HANGS_UP, CUDA_ERROR_NO_DEVICE},
		{"MIG-1", HANGS_UP, CUDA_ERROR_NO_DEVICE},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		pid_t phosd = start_phosd(cases[i].manner);
		setenv("CUDA_VISIBLE_DEVICES", cases[i].value, 1);
		init_result = cases[i].result;
		EXPECT(in_child(init_gives));
		stop_phosd(phosd);
	}
	/* Without a session, and without a word, where no GPU is wanted. */
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	init_result = CUDA_ERROR_NO_DEVICE;
	EXPECT(in_child(init_gives));
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static void no_cuda_here(void)
{
	int count;
	CUcontext context;
	CUdeviceptr address;
	EXPECT_EQUAL(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_EQUAL(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_EQUAL(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_EQUAL(cuMemAlloc_v2(&address, 4), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_EQUAL(cuMemFree_v2(UINT64_C(0x410000000000)), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_EQUAL(cuMemcpyHtoD_v2(UINT64_C(0x410000000000), &count, 4),
		     CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_EQUAL(cuLaunchKernel(1, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL),
		     CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_EQUAL(cuEventQuery(1), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_EQUAL(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_EQUAL(cuDriverGetVersion(&count), CUDA_SUCCESS);
	EXPECT_EQUAL(count, 12080);
}

static void forks_after_init(void)
{
	EXPECT_EQUAL(cuInit(0), CUDA_SUCCESS);
	uint64_t arena = phos.arena;
	unsigned char *file = phos.file;
	memset((void *)(uintptr_t)arena, 5, 4096);
	EXPECT(in_child(no_cuda_here));
	/* The parent continues, and the child had no access to its memory. */
	int count;
	EXPECT_EQUAL(cuDeviceGetCount(&count), CUDA_SUCCESS);
	EXPECT_EQUAL(*(unsigned char *)(uintptr_t)arena, 5);
	pid_t pid = fork();
	if (pid == 0) {
		unsigned char seen;
		_exit(mincore(file, 4096, &seen) == 0 ||
		      mincore((void *)(uintptr_t)arena, 4096, &seen) == 0);
	}
	int status;
	waitpid(pid, &status, 0);
	EXPECT_EQUAL(status, 0);
}

static void forks_before_init(void)
{
	init_result = CUDA_SUCCESS;
	EXPECT(in_child(init_gives));
	init_gives();
}

static void finds_pos_yaml(void)
{
	EXPECT_EQUAL(chdir(directory), 0);
	FILE *f = fopen("pos.yaml", "w");
	fprintf(f, "job_name: x\ndaemon_addr: 10.0.0.1\n");
	fclose(f);
	EXPECT_EQUAL(cuInit(0), CUDA_ERROR_NO_DEVICE);
	f = fopen("pos.yaml", "w");
	fprintf(f, "daemon_addr: %s\n", socket_path);
	fclose(f);
	setenv("PHOS_SOCKET", "/nowhere", 1);
	EXPECT_EQUAL(cuInit(0), CUDA_SUCCESS);
	unlink("pos.yaml");
}

int main(void)
{
	snprintf(directory, sizeof directory, "/tmp/phos-handshake-XXXXXX");
	if (mkdtemp(directory) == NULL)
		return 1;
	snprintf(socket_path, sizeof socket_path, "%s/phosd.sock", directory);
	snprintf(session_path, sizeof session_path, "%s/session", directory);
	snprintf(arena_path, sizeof arena_path, "%s/arena", directory);
	setenv("PHOS_SOCKET", socket_path, 1);
	test_manners();
	test_visible();
	pid_t phosd = start_phosd(GOOD);
	EXPECT(in_child(forks_after_init));
	EXPECT(in_child(forks_before_init));
	EXPECT(in_child(finds_pos_yaml));
	stop_phosd(phosd);
	unlink(session_path);
	unlink(arena_path);
	rmdir(directory);
	return expect_result("handshake_test");
}

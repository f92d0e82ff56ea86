/* collective FILE: two ranks on GPUs that wait for each other, as in a collective: in the middle of
 * each step's work on a stream, a callback passes a number to the other rank over TCP and waits for
 * its own. One of them begins each step later. So work that one rank has begun does not end before
 * the other rank makes calls. Each step is checked and printed. They end once FILE exists. */
#include "../driver/driver.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ELEMENTS = 1 << 16 };

struct message {
	unsigned number, last;
};

static int peer;
static struct message mine, theirs;

static void exchange(void *unused)
{
	(void)unused;
	CHECK(send(peer, &mine, sizeof mine, MSG_NOSIGNAL) == sizeof mine);
	CHECK(recv(peer, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs);
}

static int number_of(const char *variable)
{
	const char *value = getenv(variable);
	CHECK(value);
	return atoi(value);
}

/* The connection to the other rank. */
static int meet(int rank)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(number_of("MASTER_PORT"))};
	CHECK(inet_pton(AF_INET, getenv("MASTER_ADDR"), &at.sin_addr) == 1);
	int made = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	CHECK(made >= 0);
	if (rank == 0) {
		CHECK(bind(made, (void *)&at, sizeof at) == 0 && listen(made, 1) == 0);
		int accepted = accept(made, NULL, NULL);
		close(made);
		made = accepted;
	} else {
		while (connect(made, (void *)&at, sizeof at) != 0) {
			close(made);
			usleep(10000);
			made = socket(AF_INET, SOCK_STREAM, 0);
		}
	}
	CHECK(setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
	return made;
}

int main(int count, char **arguments)
{
	CHECK(count == 2);
	int rank = number_of("RANK");
	CUstream stream;
	CUdeviceptr numbers;
	static unsigned got[ELEMENTS];
	use_gpu();
	CU(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	CU(D(cuMemAlloc)(&numbers, sizeof got));
	peer = meet(rank);
	for (unsigned step = 0; !mine.last && !theirs.last; step++) {
		mine.number = step;
		mine.last = rank == 0 && access(arguments[1], F_OK) == 0;
		if ((int)(step % 2) == rank)
			usleep(3000);
		CU(D(cuMemsetD32Async)(numbers, step, ELEMENTS, stream));
		CU(D(cuLaunchHostFunc)(stream, exchange, NULL));
		CU(D(cuMemcpyDtoHAsync)(got, numbers, sizeof got, stream));
		CU(D(cuMemsetD32Async)(numbers, ~0u, ELEMENTS, stream));
		CU(D(cuStreamSynchronize)(stream));
		CHECK(theirs.number == step && got[0] == step && got[ELEMENTS - 1] == step);
		CHECK(printf("step %u %08x\n", step, got[0]) > 0 && fflush(stdout) == 0);
	}
	puts("ok collective");
	return 0;
}

/* ranks STEPS PAUSE [RANKS]: in each step of a rank collectives, also of a captured graph, and
 * messages around a ring, by NCCL. What they move stays on the GPU from step to step; the same is
 * computed on the CPU, for all ranks, and compared. A line is printed for each step; then it sleeps
 * for PAUSE milliseconds. STEPS is a number, or a file: once that exists, the ranks end.
 *
 * With RANKS it starts so many ranks, each on a GPU of its own, and only the first one prints.
 * Without, it is one: the one that RANK, WORLD_SIZE and LOCAL_RANK say. RENDEZVOUS is a file where
 * they meet. */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 1 << 10, MAX_RANKS = 8 };

#define CUDA(call) check(call, #call, cudaGetErrorString)
#define NCCL(call) check(call, #call, ncclGetErrorString)
#define check(call, text, describe)                                                         \
	do {                                                                                \
		int status = (call);                                                        \
		if (status) {                                                               \
			fprintf(stderr, "rank %d: %s: %s\n", rank, text, describe(status)); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

static int rank, ranks;
static cudaStream_t stream;
static ncclComm_t group;
static float *state, *sum, *all, *part; /* on the GPU */

/* Where ranks of one host meet: shared memory. */
static struct meeting {
	ncclUniqueId id;
	volatile int known;
} * here;

static int number_of(const char *variable)
{
	const char *value = getenv(variable);
	if (!value) {
		fprintf(stderr, "%s is not set\n", variable);
		exit(2);
	}
	return atoi(value);
}

static ncclUniqueId meet_here(void)
{
	if (rank == 0) {
		NCCL(ncclGetUniqueId(&here->id));
		__sync_synchronize();
		here->known = 1;
	}
	while (!here->known)
		usleep(10000);
	__sync_synchronize();
	return here->id;
}

/* The first rank writes the file, the others wait for it. */
static ncclUniqueId meet_by_file(void)
{
	const char *path = getenv("RENDEZVOUS");
	char written[4096];
	ncclUniqueId id;
	FILE *file;
	if (rank == 0) {
		snprintf(written, sizeof written, "%s.new", path);
		NCCL(ncclGetUniqueId(&id));
		file = fopen(written, "w");
		if (!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) ||
		    rename(written, path))
			exit(3);
		return id;
	}
	while (!(file = fopen(path, "r")))
		usleep(10000);
	if (fread(&id, sizeof id, 1, file) != 1)
		exit(3);
	fclose(file);
	return id;
}

static float *on_gpu(size_t elements)
{
	void *at;
	CUDA(cudaMalloc(&at, elements * sizeof(float)));
	return at;
}

/* What every rank's state is, computed on the CPU. All numbers are small integers: sums are exact.
 */
static int model[MAX_RANKS][ELEMENTS];

static int total(int j)
{
	int n = 0;
	for (int r = 0; r < ranks; r++)
		n += model[r][j];
	return n;
}

static void expect(const char *what, const float *device, size_t elements, int (*want)(size_t))
{
	static float host[ELEMENTS * MAX_RANKS];
	CUDA(cudaMemcpyAsync(host, device, elements * sizeof(float), cudaMemcpyDeviceToHost,
			     stream));
	CUDA(cudaStreamSynchronize(stream));
	for (size_t j = 0; j < elements; j++)
		if (host[j] != (float)want(j)) {
			printf("rank %d: %s: element %zu is %g, not %d\n", rank, what, j, host[j],
			       want(j));
			exit(4);
		}
}

static int own(size_t j)
{
	return model[rank][j];
}
static int summed(size_t j)
{
	return total(j);
}
static int gathered(size_t j)
{
	return model[j / ELEMENTS][j % ELEMENTS];
}
static int scattered(size_t j)
{
	return total(rank * (ELEMENTS / ranks) + j);
}
static int first(size_t j)
{
	return model[0][j];
}
static int before(size_t j)
{
	return model[(rank + ranks - 1) % ranks][j];
}
static int largest(size_t j)
{
	int n = 0;
	for (int r = 0; r < ranks; r++)
		n = model[r][j] > n ? model[r][j] : n;
	return n;
}

static void collectives(void)
{
	NCCL(ncclAllReduce(state, sum, ELEMENTS, ncclFloat, ncclSum, group, stream));
	expect("all-reduce", sum, ELEMENTS, summed);
	NCCL(ncclAllReduce(state, part, ELEMENTS, ncclFloat, ncclMax, group, stream));
	expect("all-reduce, maximum", part, ELEMENTS, largest);
	NCCL(ncclAllGather(state, all, ELEMENTS, ncclFloat, group, stream));
	expect("all-gather", all, (size_t)ELEMENTS * ranks, gathered);
	NCCL(ncclReduceScatter(state, part, ELEMENTS / ranks, ncclFloat, ncclSum, group, stream));
	expect("reduce-scatter", part, ELEMENTS / ranks, scattered);
	NCCL(ncclBroadcast(state, part, ELEMENTS, ncclFloat, 0, group, stream));
	expect("broadcast", part, ELEMENTS, first);
	NCCL(ncclGroupStart());
	NCCL(ncclSend(state, ELEMENTS, ncclFloat, (rank + 1) % ranks, group, stream));
	NCCL(ncclRecv(part, ELEMENTS, ncclFloat, (rank + ranks - 1) % ranks, group, stream));
	NCCL(ncclGroupEnd());
	expect("send and receive", part, ELEMENTS, before);
}

/* An all-reduce that was captured once, and is launched in each step. */
static cudaGraphExec_t captured;

static void capture(void)
{
	cudaGraph_t graph;
	CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	NCCL(ncclAllReduce(state, part, ELEMENTS, ncclFloat, ncclSum, group, stream));
	CUDA(cudaStreamEndCapture(stream, &graph));
	CUDA(cudaGraphInstantiateWithFlags(&captured, graph, 0));
	CUDA(cudaGraphDestroy(graph));
}

static void launch_captured(void)
{
	CUDA(cudaMemsetAsync(part, 0xff, ELEMENTS * sizeof(float), stream));
	CUDA(cudaGraphLaunch(captured, stream));
	expect("all-reduce, captured", part, ELEMENTS, summed);
}

/* The next state: of the sum, by a rule that differs from rank to rank. */
static int advance(int r, int j, int from)
{
	return (from * 3 + r + j) % 1009;
}

static void step(void)
{
	float host[ELEMENTS];
	int next[MAX_RANKS][ELEMENTS];
	expect("the state", state, ELEMENTS, own);
	collectives();
	launch_captured();
	CUDA(cudaMemcpy(host, sum, sizeof host, cudaMemcpyDeviceToHost));
	for (int j = 0; j < ELEMENTS; j++) {
		host[j] = advance(rank, j, (int)host[j]);
		for (int r = 0; r < ranks; r++)
			next[r][j] = advance(r, j, total(j));
	}
	memcpy(model, next, sizeof next);
	CUDA(cudaMemcpy(state, host, sizeof host, cudaMemcpyHostToDevice));
}

/* Whether this step is the last one, as the first rank says. */
static int is_last(int step, const char *steps)
{
	static float flag[1];
	flag[0] = steps[0] == '/' ? access(steps, F_OK) == 0 : step == atoi(steps);
	CUDA(cudaMemcpy(part, flag, sizeof flag, cudaMemcpyHostToDevice));
	NCCL(ncclBroadcast(part, part, 1, ncclFloat, 0, group, stream));
	CUDA(cudaMemcpyAsync(flag, part, sizeof flag, cudaMemcpyDeviceToHost, stream));
	CUDA(cudaStreamSynchronize(stream));
	return flag[0] != 0;
}

static int run(int gpu, const char *steps, int pause, int prints)
{
	CUDA(cudaSetDevice(gpu));
	NCCL(ncclCommInitRank(&group, ranks, here ? meet_here() : meet_by_file(), rank));
	CUDA(cudaStreamCreate(&stream));
	state = on_gpu(ELEMENTS), sum = on_gpu(ELEMENTS), part = on_gpu(ELEMENTS);
	all = on_gpu((size_t)ELEMENTS * ranks);
	CUDA(cudaMemset(state, 0, ELEMENTS * sizeof(float)));
	capture();
	for (int k = 1, last = 0; !last; k++) {
		step();
		last = is_last(k, steps);
		if (prints)
			printf("step %d %d\n", k, model[rank][k % ELEMENTS]);
		usleep(1000 * pause);
	}
	CUDA(cudaGraphExecDestroy(captured));
	NCCL(ncclCommDestroy(group));
	if (prints)
		puts("ok ranks");
	return 0;
}

/* Starts the ranks and waits for them. */
static int start(const char *steps, int pause)
{
	int worst = 0, status;
	here = mmap(NULL, sizeof *here, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (here == MAP_FAILED)
		return 3;
	for (rank = 0; rank < ranks; rank++)
		if (fork() == 0)
			exit(run(rank, steps, pause, rank == 0));
	while (wait(&status) > 0)
		worst = status > worst ? status : worst;
	return worst != 0;
}

int main(int count, char **arguments)
{
	if (count != 3 && count != 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	ranks = count == 4 ? atoi(arguments[3]) : number_of("WORLD_SIZE");
	if (ranks < 1 || ranks > MAX_RANKS)
		return 2;
	if (count == 4)
		return start(arguments[1], atoi(arguments[2]));
	rank = number_of("RANK");
	return run(number_of("LOCAL_RANK"), arguments[1], atoi(arguments[2]), 1);
}

/* A driver that fails on request. Otherwise it behaves as the driver that it is linked with. CALLS
 * lists its calls as X(name); all others are the other driver's own. Tests write a file while it
 * works: see struct orders. Like real drivers after a failure of the GPU, it can make every later
 * call fail in the same way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum call {
#define X(name) CALL_##name,
	CALLS
#undef X
		COUNT
};

static const char *const names[] = {
#define X(name) #name,
	CALLS
#undef X
};

enum mode { ONCE, FROM_THEN_ON, ALWAYS_THIS, HANG };

/* The file. Tests write call and the other fields first, and armed last. */
struct orders {
	_Atomic uint32_t armed;
	uint32_t call, code, mode;
	uint64_t nth; /* of the calls of that name, from 1 */
	_Atomic uint64_t failed;
	_Atomic uint64_t counts[COUNT];
};

static struct orders *orders;
static _Atomic uint32_t stuck; /* the result of every call of this process */

__attribute__((constructor)) static void open_orders(void)
{
	const char *path = getenv("CUDA_TEST_ORDERS");
	int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (file < 0)
		return;
	void *at = mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (at != MAP_FAILED)
		orders = at;
}

/* Returns whether and how a call fails: 0 if it does not. */
static uint32_t failure(enum call call)
{
	if (orders == NULL)
		return 0;
	uint64_t n = atomic_fetch_add(&orders->counts[call], 1) + 1;
	if (stuck != 0)
		return stuck;
	if (!atomic_load(&orders->armed) || orders->call != call || n < orders->nth ||
	    (orders->mode != ALWAYS_THIS && n > orders->nth))
		return 0;
	atomic_fetch_add(&orders->failed, 1);
	if (orders->mode == FROM_THEN_ON)
		stuck = orders->code;
	while (orders->mode == HANG)
		pause();
	return orders->code;
}

typedef uint64_t word;
typedef uint32_t entry(word, word, word, word, word, word, word, word, word, word, word, word);

static entry *behind(enum call call)
{
	static _Atomic(entry *) found[COUNT];
	entry *function = atomic_load(&found[call]);
	if (function == NULL) {
		function = (entry *)dlsym(RTLD_NEXT, names[call]);
		if (function == NULL)
			abort();
		atomic_store(&found[call], function);
	}
	return function;
}

/* Every argument of every call is at most one word, and no call has more than twelve. */
#define X(name)                                                                               \
	uint32_t name(word a, word b, word c, word d, word e, word f, word g, word h, word i, \
		      word j, word k, word l)                                                 \
	{                                                                                     \
		uint32_t code = failure(CALL_##name);                                         \
		return code ? code : behind(CALL_##name)(a, b, c, d, e, f, g, h, i, j, k, l); \
	}
CALLS
#undef X

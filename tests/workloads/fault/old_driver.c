/* A driver that only has the calls that CALLS names, a list of X(name). They are the calls of the
 * library OTHER. It is not linked with that library, so a lookup of any other call fails. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

typedef uint64_t word;
typedef uint32_t entry(word, word, word, word, word, word, word, word, word, word, word, word);

static void *other;

__attribute__((constructor)) static void open_other(void)
{
	other = dlopen(TEXT(OTHER), RTLD_NOW | RTLD_LOCAL);
	if (other == NULL)
		abort();
}

static entry *behind(_Atomic(entry *) *known, const char *name)
{
	entry *function = atomic_load(known);
	if (function == NULL) {
		function = (entry *)dlsym(other, name);
		if (function == NULL)
			abort();
		atomic_store(known, function);
	}
	return function;
}

/* Every argument of every call is at most one word; calls with more than twelve are not made here.
 */
#define X(name)                                                                               \
	uint32_t name(word a, word b, word c, word d, word e, word f, word g, word h, word i, \
		      word j, word k, word l)                                                 \
	{                                                                                     \
		static _Atomic(entry *) known;                                                \
		return behind(&known, #name)(a, b, c, d, e, f, g, h, i, j, k, l);             \
	}
CALLS
#undef X

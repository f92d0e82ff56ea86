/* Nodes of functions. cuFFT walks a module's functions by a private table, gets the address of the
 * driver's own struct for each, reads a few of its fields, and then uses the address as a
 * CUfunction. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "function.h"
#include "objects.h"
#include "session.h"

/* Offsets and values of the fields that libraries have been seen to read. */
#define NODE_BYTES    0x488
#define AT_KIND       0x00
#define KIND          UINT64_C(0x100000001)
#define AT_OWNER      0x08
#define AT_LINK       0x10
#define LINK          UINT64_C(0x0c)
#define AT_COUNT      0x18
#define COUNT         UINT64_C(1)
#define AT_BLOCK      0x28
#define BLOCK         UINT64_C(0x80)
#define AT_STATE      0x370
#define STATE         UINT64_C(2)
#define MAX_FUNCTIONS 65536

struct node {
	unsigned char fields[NODE_BYTES]; /* what the program sees */
	uint64_t function, module;
	struct node *next;
};

/* Nodes are never freed: the program may keep their addresses. */
static _Atomic(struct node *) nodes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void put(struct node *node, size_t offset, uint64_t value)
{
	memcpy(node->fields + offset, &value, sizeof value);
}

/* Finds the node of a function. */
static struct node *find(uint64_t function)
{
	struct node *node = atomic_load_explicit(&nodes, memory_order_acquire);
	while (node != NULL && node->function != function)
		node = node->next;
	return node;
}

/* Finds or creates the node of a function. NULL: no memory. */
static struct node *enter(uint64_t function, uint64_t module)
{
	pthread_mutex_lock(&lock);
	struct node *node = find(function);
	if (node == NULL && (node = calloc(1, sizeof *node)) != NULL) {
		put(node, AT_KIND, KIND);
		put(node, AT_OWNER, module);
		put(node, AT_LINK, LINK);
		put(node, AT_COUNT, COUNT);
		put(node, AT_BLOCK, BLOCK);
		put(node, AT_STATE, STATE);
		node->function = function;
		node->module = module;
		node->next = atomic_load(&nodes);
		atomic_store_explicit(&nodes, node, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return node;
}

uint64_t phos_function_of_node(uint64_t address)
{
	struct node *node = atomic_load_explicit(&nodes, memory_order_acquire);
	while (node != NULL && (uint64_t)(uintptr_t)node != address)
		node = node->next;
	return node == NULL ? 0 : node->function;
}

uint64_t phos_function_handle(uint64_t function)
{
	uint64_t of_node;
	if (phos_kind_of(function) != PHOS_KIND_NONE)
		return function;
	of_node = phos_function_of_node(function);
	return of_node == 0 ? function : of_node;
}

uint64_t phos_function_each(uint64_t context, uint64_t module,
			    void (*callback)(void *user, void *node, uint64_t owner), void *user)
{
	unsigned int count = 0;
	uint64_t listed = 0, told = 0;
	(void)context;
	if (cuModuleGetFunctionCount(&count, module) != CUDA_SUCCESS || count == 0 ||
	    count > MAX_FUNCTIONS)
		return 0;
	CUfunction *functions = calloc(count, sizeof *functions);
	if (functions != NULL &&
	    phos_call_listFunctions(module, (uintptr_t)functions, count, &listed) == CUDA_SUCCESS) {
		for (uint64_t i = 0; i < listed && i < count; i++) {
			struct node *node = enter(functions[i], module);
			if (node == NULL)
				break;
			if (callback != NULL)
				callback(user, node, module);
			told++;
		}
	}
	free(functions);
	return told;
}

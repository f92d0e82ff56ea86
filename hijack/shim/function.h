/* The shim's cached description of a function or kernel. */
#ifndef PHOS_FUNCTION_H
#define PHOS_FUNCTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "zz_calls.h"

#define PHOS_FUNCTION_ATTRIBUTES 16

enum phos_function_attribute {
	PHOS_FUNCTION_MAX_THREADS = 0,
	PHOS_FUNCTION_STATIC_SHARED = 1,
	PHOS_FUNCTION_REGISTERS = 4,
	PHOS_FUNCTION_MAX_DYNAMIC_SHARED = 8,
	PHOS_FUNCTION_CARVEOUT = 9,
	PHOS_FUNCTION_CLUSTER_MUST_BE_SET = 10,
};

struct phos_parameter {
	uint32_t offset, bytes;
};

struct phos_function {
	uint64_t handle; /* as the session knows it; the program may have the address of a node */
	uint64_t kernel; /* whose function this is in one context; 0: a module's function */
	uint32_t parameter_count;
	uint32_t parameter_bytes;
	bool dense;            /* there are no gaps between the parameters */
	const int32_t *device; /* attributes of the device it runs on */
	_Atomic int32_t attributes[PHOS_FUNCTION_ATTRIBUTES];
	const char *name;
	struct phos_parameter parameters[];
};

/* Finds a function or kernel; the first time it asks the session. */
CUresult phos_function_find(uint64_t handle, struct phos_function **function);

/* A private table's way to a module's functions: calls back with the address of a node for each,
 * and returns their number. The program uses that address as a CUfunction. */
uint64_t phos_function_each(uint64_t context, uint64_t module,
			    void (*callback)(void *user, void *node, uint64_t owner), void *user);

/* Returns the handle of a node's function; 0 if it is not the address of a node. */
uint64_t phos_function_of_node(uint64_t address);

/* Returns the handle that the session knows for what the program calls a function. */
uint64_t phos_function_handle(uint64_t function);

/* Writes a function's parameter block of parameter_bytes bytes from the arguments of a launch. */
void phos_function_pack(const struct phos_function *function, void *const *arguments,
			unsigned char *block);

/* The arguments of a launch: pointers to each, or a ready block. Exactly one form may be given. */
struct phos_arguments {
	void *const *each;
	const unsigned char *block;
	uint32_t block_bytes; /* at most the function's parameter_bytes; the rest is zeros */
};

/* Converts kernelParams and extra. */
CUresult phos_arguments_of(const struct phos_function *function, void **kernel_parameters,
			   void **extra, struct phos_arguments *arguments);

#endif

/* Loading of code, for all entry points. */
#ifndef PHOS_MODULE_H
#define PHOS_MODULE_H

#include <stdbool.h>

#include "zz_calls.h"

/* Maximum length of the log of a load, with its NUL. */
#define PHOS_LOG_BYTES 801

/* The JIT options that phos supports: where to write logs, and the limit of registers. */
struct phos_jit {
	unsigned int count;
	CUjit_option *options;
	void **values;
	/* Capacity of the log buffer if several reports are written to it, else 0. With one report,
	 * the option for the capacity receives the used size. */
	size_t room;
};

/* The capacity of the log buffer in the options. */
size_t phos_jit_room(const struct phos_jit *jit);

/* The limit of registers of a thread in the options, 0 for none. */
unsigned int phos_jit_max_registers(const struct phos_jit *jit);

/* Puts a text and a limit of registers into a container, which the caller frees. Returns NULL if
 * there is no memory. */
void *phos_link_limited(const char *text, size_t bytes, unsigned int max_registers,
			size_t *container_bytes);

/* Copies a log to the program's buffer, or to stderr if it gave none. */
void phos_jit_report(const struct phos_jit *jit, const char *log);

/* Loads an image: a module of the current context, or a library. */
CUresult phos_load(const void *image, const struct phos_jit *jit, bool library, uint64_t *handle);

/* As phos_load, from a file. */
CUresult phos_load_file(const char *path, const struct phos_jit *jit, bool library,
			uint64_t *handle);

/* Reads a whole file and appends a NUL. The caller frees the content. */
CUresult phos_read_file(const char *path, char **content, size_t *bytes);

/* Notes a variable that the session has placed, for pointer queries. */
void phos_note_variable(uint64_t module, uint64_t address, uint64_t bytes);

#endif

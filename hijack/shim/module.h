/* Loading code, whatever the entry point. */
#ifndef PHOS_MODULE_H
#define PHOS_MODULE_H

#include <stdbool.h>

#include "zz_calls.h"

/* Longest log of a load that comes back, with its end. */
#define PHOS_LOG_BYTES 801

/* Options of the driver's compiler and linker that phos honours: where to write logs. */
struct phos_jit {
	unsigned int count;
	CUjit_option *options;
	void **values;
	/* Room for the log where many reports go to one buffer, 0 where one does: a report writes
	 * how much it used where the room was given. */
	size_t room;
};

/* The room for a log that the options give. */
size_t phos_jit_room(const struct phos_jit *jit);

/* Hands a log to the program, or to stderr when it gave no place for one. */
void phos_jit_report(const struct phos_jit *jit, const char *log);

/* Loads an image: a module of the current context, or a library. */
CUresult phos_load(const void *image, const struct phos_jit *jit, bool library, uint64_t *handle);

/* As phos_load, from a file. */
CUresult phos_load_file(const char *path, const struct phos_jit *jit, bool library,
			uint64_t *handle);

/* Reads a whole file and puts a zero behind it. The caller frees it. */
CUresult phos_read_file(const char *path, char **content, size_t *bytes);

/* Notes a variable that the session has placed, for questions about pointers. */
void phos_note_variable(uint64_t module, uint64_t address, uint64_t bytes);

#endif

/* Holds up stores of other threads to memory while its pages are replaced. */
#ifndef PHOS_GUARD_H
#define PHOS_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins to guard whole pages; waits while a checkpoint is taken. *guard is -1 if no guard is
 * needed, as there is only this thread. Returns false if other threads cannot be held up. */
bool phos_guard_begin(uint64_t start, size_t bytes, int *guard);

/* Makes stores to a part of the guarded pages wait. */
bool phos_guard_close(int guard, uint64_t start, size_t bytes);

/* Lets them go on. */
void phos_guard_open(int guard, uint64_t start, size_t bytes);

void phos_guard_end(int guard);

#endif

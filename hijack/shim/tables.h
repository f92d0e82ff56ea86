/* The driver's private tables of functions, which NVIDIA's runtimes ask for by UUID. */
#ifndef PHOS_TABLES_H
#define PHOS_TABLES_H

#include <stdint.h>

/* The table of a UUID; NULL: unknown. */
const void *phos_table_find(const uint8_t uuid[16]);

#endif

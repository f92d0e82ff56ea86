/* The driver's private tables of functions, which NVIDIA's runtimes request by UUID. */
#ifndef PHOS_TABLES_H
#define PHOS_TABLES_H

#include <stdint.h>

/* Returns the table with a UUID, or NULL. */
const void *phos_table_find(const uint8_t uuid[16]);

#endif

/* One-line messages on stderr, each beginning "phos: ". PHOS_LOG=error|warn|debug chooses how many;
 * warn unless set. */
#ifndef PHOS_LOG_H
#define PHOS_LOG_H

#include <stdbool.h>

enum phos_level { PHOS_ERROR, PHOS_WARN, PHOS_DEBUG };

/* Writes one line, newline added, in one write(2). Keeps errno. */
void phos_log(enum phos_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a message of this level would be written: ask before building an expensive one. */
bool phos_logs(enum phos_level level);

/* True the first time it sees name, which must live for ever. */
bool phos_first_time(const char *name);

#endif

/* One-line messages on stderr, each beginning with "phos: ". PHOS_LOG=error|warn|debug is the
 * lowest level that is written; the default is warn. */
#ifndef PHOS_LOG_H
#define PHOS_LOG_H

#include <stdbool.h>

enum phos_level { PHOS_ERROR, PHOS_WARN, PHOS_DEBUG };

/* Writes one line, newline added, in one write(2). Keeps errno. */
void phos_log(enum phos_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a message of this level would be written. Check it before building an expensive message.
 */
bool phos_logs(enum phos_level level);

/* Returns true the first time it is called with name, which must live forever. */
bool phos_first_time(const char *name);

#endif

#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "post.h"

#define LINE_BYTES 512

static _Atomic int threshold = -1;

static int read_threshold(void)
{
	const char *wanted = getenv("PHOS_LOG");
	int level = PHOS_WARN;
	if (wanted != NULL && strcmp(wanted, "debug") == 0)
		level = PHOS_DEBUG;
	else if (wanted != NULL && strcmp(wanted, "error") == 0)
		level = PHOS_ERROR;
	atomic_store_explicit(&threshold, level, memory_order_relaxed);
	return level;
}

bool phos_logs(enum phos_level level)
{
	int limit = atomic_load_explicit(&threshold, memory_order_relaxed);
	if (limit < 0)
		limit = read_threshold();
	return (int)level <= limit;
}

void phos_log(enum phos_level level, const char *format, ...)
{
	if (!phos_logs(level))
		return;
	int saved = errno;
	char line[LINE_BYTES];
	int used = snprintf(line, sizeof line, "phos: ");
	va_list arguments;
	va_start(arguments, format);
	int more = vsnprintf(line + used, sizeof line - (size_t)used, format, arguments);
	va_end(arguments);
	size_t bytes = (size_t)used + (size_t)(more < 0 ? 0 : more);
	if (bytes > sizeof line - 1)
		bytes = sizeof line - 1;
	line[bytes++] = '\n';
	/* stderr may be closed; the error cannot be reported. */
	ssize_t ignored = write(STDERR_FILENO, line, bytes);
	(void)ignored;
	errno = saved;
}

/* Names already reported, in order; few programs have more than a handful. There is no lock,
 * because a forked child may run this. */
static _Atomic(const char *) reported[256];

bool phos_first_time(const char *name)
{
	for (size_t i = 0; i < sizeof reported / sizeof reported[0]; i++) {
		const char *known = NULL;
		if (atomic_compare_exchange_strong(&reported[i], &known, name))
			return true;
		if (strcmp(known, name) == 0)
			return false;
	}
	return false;
}

CUresult phos_refuse(const char *name)
{
	if (phos_first_time(name))
		phos_log(PHOS_WARN, "%s is not supported", name);
	return CUDA_ERROR_NOT_SUPPORTED;
}

#include "address.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define YAML_BYTES    (64 << 10)
#define ADDRESS_BYTES 256

static const char field[] = "daemon_addr";

/* Copies text without surrounding blanks. Text that does not fit is truncated: such an address is
 * invalid anyway, and the error message shows its beginning. Returns false if it is empty. */
static bool copy_trimmed(const char *from, size_t bytes, char *to, size_t to_bytes)
{
	while (bytes > 0 && isspace((unsigned char)from[0])) {
		from++;
		bytes--;
	}
	while (bytes > 0 && isspace((unsigned char)from[bytes - 1]))
		bytes--;
	if (bytes == 0)
		return false;
	if (bytes >= to_bytes)
		bytes = to_bytes - 1;
	memcpy(to, from, bytes);
	to[bytes] = '\0';
	return true;
}

/* Reads the rest of the line after "daemon_addr:": a quoted or plain scalar, and maybe a comment.
 */
static bool read_scalar(const char *from, size_t bytes, char *value, size_t value_bytes)
{
	while (bytes > 0 && (*from == ' ' || *from == '\t')) {
		from++;
		bytes--;
	}
	if (bytes > 0 && (*from == '"' || *from == '\'')) {
		const char *close = memchr(from + 1, *from, bytes - 1);
		return close != NULL &&
		       copy_trimmed(from + 1, (size_t)(close - from - 1), value, value_bytes);
	}
	for (size_t i = 0; i < bytes; i++)
		if (from[i] == '#' && (i == 0 || isspace((unsigned char)from[i - 1])))
			bytes = i;
	return copy_trimmed(from, bytes, value, value_bytes);
}

bool phos_yaml_daemon_addr(const char *text, size_t bytes, char *value, size_t value_bytes)
{
	const char *end = text + bytes;
	if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *line_end = newline != NULL ? newline : end;
		const char *at = text;
		char quote = *at == '"' || *at == '\'' ? *at++ : '\0';
		size_t name = sizeof field - 1;
		if ((size_t)(line_end - at) > name && memcmp(at, field, name) == 0) {
			at += name;
			if (quote != '\0' && *at == quote)
				at++;
			while (at < line_end && (*at == ' ' || *at == '\t'))
				at++;
			if (at < line_end && *at == ':' &&
			    (at + 1 == line_end || isspace((unsigned char)at[1])))
				return read_scalar(at + 1, (size_t)(line_end - at - 1), value,
						   value_bytes);
		}
		text = newline != NULL ? newline + 1 : end;
	}
	return false;
}

/* Whether the host of HOST, HOST:PORT or [HOST]:PORT is a loopback name or address. */
static bool is_loopback(const char *address)
{
	char host[ADDRESS_BYTES];
	size_t length = strcspn(address, "/");
	if (length >= sizeof host)
		return false;
	memcpy(host, address, length);
	host[length] = '\0';
	char *name = host;
	if (*name == '[') {
		name++;
		name[strcspn(name, "]")] = '\0';
	} else if (strcmp(name, "::1") != 0) {
		name[strcspn(name, ":")] = '\0';
	}
	if (strcasecmp(name, "localhost") == 0 || strcmp(name, "::1") == 0)
		return true;
	unsigned a, b, c, d;
	char rest;
	return sscanf(name, "%3u.%3u.%3u.%3u%c", &a, &b, &c, &d, &rest) == 4 && a == 127 &&
	       b < 256 && c < 256 && d < 256;
}

bool phos_socket_of_address(const char *address, const char *local, char *path, size_t path_bytes)
{
	const char *chosen = local;
	if (strncmp(address, "unix://", 7) == 0)
		chosen = address + 7;
	else if (strncmp(address, "unix:", 5) == 0)
		chosen = address + 5;
	else if (strchr("/.", address[0]) != NULL)
		chosen = address;
	else if (!is_loopback(address))
		return false;
	int written = snprintf(path, path_bytes, "%s", chosen);
	return written > 0 && (size_t)written < path_bytes;
}

/* Reads daemon_addr of the working directory's pos.yaml. Returns false if there is no such file or
 * field. */
static bool read_pos_yaml(char *value, size_t value_bytes)
{
	int fd = open("pos.yaml", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	bool found = false;
	char *text = malloc(YAML_BYTES);
	if (text != NULL) {
		size_t used = 0;
		ssize_t got;
		while (used < YAML_BYTES && (got = read(fd, text + used, YAML_BYTES - used)) > 0)
			used += (size_t)got;
		found = phos_yaml_daemon_addr(text, used, value, value_bytes);
		free(text);
	}
	close(fd);
	return found;
}

bool phos_find_socket(char *path, size_t path_bytes, char *problem, size_t problem_bytes)
{
	char address[ADDRESS_BYTES];
	const char *local = getenv("PHOS_SOCKET");
	if (local == NULL || local[0] == '\0')
		local = PHOS_DEFAULT_SOCKET;
	if (!read_pos_yaml(address, sizeof address)) {
		snprintf(problem, problem_bytes, "PHOS_SOCKET is too long for a socket's path");
		return (size_t)snprintf(path, path_bytes, "%s", local) < path_bytes;
	}
	snprintf(problem, problem_bytes,
		 "pos.yaml: daemon_addr \"%s\" is neither a socket's path nor this machine "
		 "(localhost); the daemon of "
		 "another machine cannot serve this program",
		 address);
	return phos_socket_of_address(address, local, path, path_bytes);
}

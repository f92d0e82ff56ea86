/* The path of phosd's socket. */
#ifndef PHOS_ADDRESS_H
#define PHOS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#define PHOS_DEFAULT_SOCKET "/run/phos/phosd.sock"

/* Finds phosd's socket: daemon_addr of pos.yaml in the working directory, else PHOS_SOCKET, else
 * the default. Returns false if the address is invalid; then problem holds the reason. */
bool phos_find_socket(char *path, size_t path_bytes, char *problem, size_t problem_bytes);

/* Finds the value of the top-level field daemon_addr in the text of a pos.yaml. Returns false if
 * there is none. The worker checks the rest of the file. */
bool phos_yaml_daemon_addr(const char *text, size_t bytes, char *value, size_t value_bytes);

/* Converts a daemon_addr to a socket path. A loopback address means the given local socket.
 */
bool phos_socket_of_address(const char *address, const char *local, char *path, size_t path_bytes);

#endif

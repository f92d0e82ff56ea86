/* Where the daemon listens. */
#ifndef PHOS_ADDRESS_H
#define PHOS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#define PHOS_DEFAULT_SOCKET "/run/phos/phosd.sock"

/* Finds the daemon's socket: daemon_addr of pos.yaml in the working directory, else PHOS_SOCKET,
 * else the default. False: the address cannot be used, and why is written to problem. */
bool phos_find_socket(char *path, size_t path_bytes, char *problem, size_t problem_bytes);

/* Finds the value of the top-level field daemon_addr in the text of a pos.yaml. False: there is
 * none. The rest of the file is phosd's business, also when it is wrong. */
bool phos_yaml_daemon_addr(const char *text, size_t bytes, char *value, size_t value_bytes);

/* Turns a daemon_addr into a socket path. An address of this machine means the given local socket.
 */
bool phos_socket_of_address(const char *address, const char *local, char *path, size_t path_bytes);

#endif

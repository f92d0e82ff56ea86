/* Two processes that wait for each other: put sends to the other process, get receives from it. */
#pragma once
#include "driver.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int to_other[2], from_other[2];

static inline void put(const void *what, size_t bytes)
{
	CHECK(write(to_other[1], what, bytes) == (ssize_t)bytes);
}

static inline void get(void *what, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = read(from_other[0], (char *)what + done, bytes - done);
		CHECK(n > 0);
		done += (size_t)n;
	}
}

/* Announces this point, and waits until the other process has reached it too. */
static inline void meet(char where)
{
	char there = 0;
	put(&where, 1);
	get(&there, 1);
	CHECK(there == where);
}

/* Runs one in this process and the other one in a child, and checks that both succeed. */
static inline void pair(void (*here)(void), void (*there)(void))
{
	int status = 0;
	CHECK(pipe(to_other) == 0 && pipe(from_other) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		int swapped[2];
		memcpy(swapped, to_other, sizeof swapped);
		memcpy(to_other, from_other, sizeof swapped);
		memcpy(from_other, swapped, sizeof swapped);
	}
	close(to_other[0]);
	close(from_other[1]);
	if (child == 0) {
		there();
		exit(0);
	}
	here();
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

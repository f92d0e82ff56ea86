// Shared by the workloads: a failure names its position and ends the program with status 1.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>

#define CUDA(call)                                                                         \
	do {                                                                               \
		cudaError_t error_ = (call);                                               \
		if (error_ != cudaSuccess) {                                               \
			std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				     cudaGetErrorString(error_));                          \
			std::exit(1);                                                      \
		}                                                                          \
	} while (0)

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
				     #condition);                                       \
			std::exit(1);                                                   \
		}                                                                       \
	} while (0)

// A small generator with a fixed seed, so that all runs use the same numbers.
struct Random {
	unsigned state = 1;
	unsigned next()
	{
		return state = state * 1664525u + 1013904223u;
	}
	float unit()
	{
		return (next() >> 8) / 16777216.0f;
	}
};

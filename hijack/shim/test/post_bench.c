/* The program's cost of a launch and of a round trip, with the worker as a thread on another core.
 */
#include <stdio.h>
#include <time.h>

#include "lab.h"

#define FUNCTION (PHOS_HANDLE_BASE | (uint64_t)PHOS_KIND_FUNCTION << 32 | 1)
#define LAUNCHES 200000
#define BURST    4000 /* fits the ring */
#define PINGS    20000
#define ROUNDS   5

static void answer(const struct lab_frame *frame)
{
	if ((frame->flags & PHOS_FLAG_WAIT) != 0)
		lab_reply(frame, CUDA_SUCCESS, NULL, 0);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_launches(void)
{
	uint64_t values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	void *arguments[8];
	double spent = 0;
	for (int i = 0; i < 8; i++)
		arguments[i] = &values[i];
	for (int done = 0; done < LAUNCHES; done += BURST) {
		double start = now();
		for (int i = 0; i < BURST; i++)
			cuLaunchKernel(FUNCTION, 1, 1, 1, 32, 1, 1, 0, 0, arguments, NULL);
		spent += now() - start;
		phos_call_ping();
	}
	return spent / LAUNCHES;
}

int main(void)
{
	lab_begin(answer);
	lab_function(FUNCTION, 8);
	double launch = 1e9, trip = 1e9;
	for (int round = 0; round < ROUNDS; round++) {
		double t = time_launches();
		launch = t < launch ? t : launch;
		double start = now();
		for (int i = 0; i < PINGS; i++)
			phos_call_ping();
		t = (now() - start) / PINGS;
		trip = t < trip ? t : trip;
	}
	printf("launch with 8 arguments: %.0f ns; round trip: %.0f ns\n", launch, trip);
	lab_end();
	return 0;
}

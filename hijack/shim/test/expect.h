/* Checks for the unit tests: a failure is reported with its location, and the exit status is 1.
 */
#ifndef PHOS_EXPECT_H
#define PHOS_EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int expect_failures;

#define EXPECT(condition)                                                                       \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			expect_failures++;                                                      \
		}                                                                               \
	} while (0)

#define EXPECT_EQUAL(got, want)                                                               \
	do {                                                                                  \
		long long got_ = (long long)(got), want_ = (long long)(want);                 \
		if (got_ != want_) {                                                          \
			fprintf(stderr, "%s:%d: %s is %lld, want %lld\n", __FILE__, __LINE__, \
				#got, got_, want_);                                           \
			expect_failures++;                                                    \
		}                                                                             \
	} while (0)

static inline int expect_result(const char *test)
{
	if (expect_failures != 0)
		fprintf(stderr, "%s: %d checks failed\n", test, expect_failures);
	return expect_failures == 0 ? 0 : 1;
}

#endif

// Package bench measures what phos costs and prints it as a table: every number beside the
// yardstick it is a ratio of, taken in the same run. It judges nothing, because a test that fails
// on a busy machine teaches nobody anything.
package bench

// Package bench measures what phos costs and prints it as a table: every figure is a ratio to a
// yardstick that is measured beside it in the same run. It judges nothing, because a test that
// fails on a busy machine teaches nothing.
package bench

// Package walltime builds programs of phos whose wall clock a test can set while they run. No
// namespace of Linux has a wall clock, and programs of Go read theirs without libc. So the programs
// are built with another package time: its Now adds what a file says. All else is the same,
// monotonic times too, as on a machine whose clock is wrong.
//
// tests/hosts writes the file. Tested there. Read build.go.
package walltime

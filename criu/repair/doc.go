// Package repair finds and mends what CRIU leaves in processes when it is killed while it works
// inside of them.
//
// CRIU borrows a process: it stops every thread, writes a few bytes over the start of the program's
// code to make system calls in its name, maps a parasite, blocks all signals and runs it. Killed in
// between, it can give nothing back. An Imprint taken before says what was there, and Mend
// compares. A parasite that was running notices that nobody talks to it any more and returns to the
// program by itself; Inside tells when that has happened.
//
// It freezes nothing: the processes stand still while they are imprinted and mended. Read
// imprint.go first.
package repair

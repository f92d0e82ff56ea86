// Package mirror maps in this process what a program has mapped of files, so that the GPU's work
// reaches the memory that the program shares: pages of a file are the same pages in both.
//
// The file is found by what the kernel says of the program's mappings, opened with this process's
// rights, which are the program's, and taken only when device and inode are those of the mapping.
// What the kernel does not let this process see (of a program that is not dumpable), and a file
// whose name is gone and which the program has not left open, it borrows (package borrower). Private
// memory has no such way. Read mirror.go first.
package mirror

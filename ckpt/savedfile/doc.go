// Package savedfile compares the files that a program had open for writing with what a checkpoint
// left of them, and decides what a restore does with each: other programs may have written them
// since.
//
// No default loses data. A restore keeps a file that another process has open for writing, a
// changed file that another process has open, a file that has only grown if the program only
// appends to it, and an SQLite database, which its users share by locks. Any other changed file
// gets its saved content, because the program's memory fits only that; the bytes that this
// overwrites are copied to a file beside it.
//
// Only the content proves that a file has not changed. Times do not tell of writes through a
// mapping, nor on all file systems. Equal times save the first reading of a file on a disk; before
// a restore writes, it compares the content (Seen).
package savedfile

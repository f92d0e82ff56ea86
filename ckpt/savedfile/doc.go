// Package savedfile compares the files that a program had open for writing with what a checkpoint
// left of them, and decides what a restore does with each: other programs may have written them
// since.
//
// No default loses data. A restore keeps a file that another process has open for writing, a file
// that has only grown if the program only appends to it, and an SQLite database, which its users
// share by locks. Any other changed file gets its saved content, because the program's memory fits
// only that; the bytes that this overwrites are copied to a file beside it.
package savedfile

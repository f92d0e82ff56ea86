// Package linelog keeps the lines that processes print, with the time of each, in files of a
// directory. The oldest are dropped when a limit is reached; readers are told how many.
//
// A log is a sequence of segments. The name of a segment is its first Position's offset: the number
// of bytes in all segments before it. Each begins with a header,
//
//	phos log 1 LINES
//
// which has the number of lines before it. Then come records, one a line:
//
//	TIME PROCESS out . TEXT      a line of standard output
//	TIME PROCESS err + TEXT      a part of a line of standard error; the next record continues it
//	TIME - lost . LINES BYTES WHY  lines that could not be written
//	TIME - end .                 the last record
//
// TIME is in nanoseconds since 1970, as the clock of the machine had it: it may go back. TEXT is
// what the process wrote, in any encoding. A segment only grows, by whole records. One that a power
// cut has torn is skipped.
//
// End and Mirror keep the end of a log in a second place, for the time when the first is gone. The
// copy has the offsets of the log; a segment of it may begin within one of the log, without a
// header.
//
// There is one Writer, and any number of Readers, also in other processes and at the same time.
// Read record.go first.
//
// # Locking
//
// The lock of Writer guards its Sources, too. There is no other.
package linelog

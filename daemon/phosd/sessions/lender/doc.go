// Package lender is phosd's side of borrowing files: it opens, as root, files of a program for the
// program's worker. Package daemon/worker/borrower is the other side and says why workers need
// them.
//
// It opens by the kernel's own links (/proc/PID/map_files) what the session's process has mapped,
// shared and writable, with the rights of the session's user. It refuses everything else:
//   - a process that acts as another user by now,
//   - memory that is private or read-only,
//   - a file that the user could not open.
//
// So the worker sees nothing else of the program, and gains no rights by asking.
package lender

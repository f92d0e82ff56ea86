// Package writetrack finds the memory that a process has written, while it runs: by asynchronous
// write protection of a userfaultfd (Linux 6.7). The program pays a minor fault for each page that
// it writes in a round, and the kernel splits a huge page at its first write.
//
// A userfaultfd tracks the address space in which it was created. So the program makes it, and
// gives it away; Enable prepares it, and a Tracker uses it from another process. Memory counts as
// written unless it was protected after that: new mappings, moved ones and those that are not
// registered do.
//
// What is written through pinned pages, such as by process_vm_writev or direct I/O, may be written
// after the page was protected again without a trace. Who writes so calls MarkWritten then.
//
// Read tracker.go.
package writetrack

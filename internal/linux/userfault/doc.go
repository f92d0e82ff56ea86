// Package userfault gives a process memory that is not there yet: by a userfaultfd that was made in
// the process, and that registers its mappings for missing pages. A thread that touches such a page
// waits in the kernel until the page is given.
//
// The holder of the userfaultfd also learns what becomes of the address space, as events: a fork,
// and memory that is moved, dropped or unmapped. The thread that does this waits until the event is
// read. Meanwhile no page can be given: ErrChanging.
//
// Package writetrack uses userfaultfds to track writes. Read file.go. Tested by package criu, with
// programs that change their memory while it comes.
package userfault

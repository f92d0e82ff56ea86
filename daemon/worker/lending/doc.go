// Package lending lets a worker borrow from phosd what it may not open itself of its program's
// memory. A worker has the program's rights, and those do not reach into a program that is not
// dumpable (prctl, raised rights, another worker), nor to a file that has no name any more and that
// the program has closed.
//
// phosd, which is root, opens by the kernel's own links the files that the session's very process
// has mapped, shared and for writing, with the rights of the session's user, and hands them over.
// It lends nothing of a process that has another user by now, nothing that is not mapped so, and
// nothing that the user could not open himself. The worker gets no look at anything else of the
// program.
//
// It is one stream for each session, which phosd opens, as it opens every conversation with a
// worker: so nobody else can ask. A worker whose phosd is away waits a moment for the next one, and
// then does without.
//
// Read borrower.go, the worker's side, then lender.go, phosd's.
package lending

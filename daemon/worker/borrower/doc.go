// Package borrower is the worker's side of borrowing files. A worker needs the files that its
// program has mapped, to share that memory. It has the program's rights, and these are not enough
// if the program is not dumpable (prctl, raised rights, another worker), or if the mapped file has
// no name any longer and the program has closed it.
//
// phosd, which is root, opens such files for the worker: daemon/phosd/sessions/lender says under
// which conditions. Each session has one stream, which phosd opens, as it opens every connection to
// a worker; no other process can ask. A worker whose phosd is down waits a few seconds for the next
// one, and then does without.
//
// Tested by daemon/phosd/sessions/lender.
package borrower

// Package pager is a root process that gives a restored tree its memory while the tree runs
// already: a page when it is touched first, and all others in the background. It reads them from
// the image's packs and verifies them. It outlives phosd, and ends when all memory is there.
//
// The parts:
//
//   - phosd starts the pager with the packs and the directory for CRIU's images (Start). The pager
//     reads which pages the processes had, and writes images for CRIU that have only those which
//     must be there before a process runs (layout.go). Everything else is its own.
//   - CRIU, restoring with lazy pages, makes a userfaultfd in each process and sends it to the
//     restorer. The restorer passes it on, and keeps a copy (Relay): the kernel would give zeros
//     to a process whose userfaultfd is closed. If the pager ends early, the restorer kills the
//     tree.
//   - The pager follows what becomes of each address space (events.go) and fills it (fill.go). What
//     was written last before the cut comes first.
//
// A page that is damaged is never given: the restorer kills the tree, and says which page of which
// image it was.
//
// Pages that a process shares with a child since the child was forked are not lazy: each would get
// a copy of its own.
//
// Locks: pager.mu guards the address spaces. chunks.mu and Relay.mu are leaves. Read
// order.go first, then serve.go.
package pager

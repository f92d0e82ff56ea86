// Package procfs reads what the kernel says of processes in /proc: who is whose child, whose rights they have, what they
// have open and mapped. It judges nothing; package survey does.
//
// A process may end while it is read; then the error is fs.ErrNotExist or ESRCH, and Gone tells it from others.
//
// Read tree.go first.
package procfs

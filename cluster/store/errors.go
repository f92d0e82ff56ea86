package store

import "errors"

// Errors of stores. What happened to what stands in the text around them.
var (
	// ErrNotFound means that there is no such object.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the object has changed since it was read, or exists already.
	ErrConflict = errors.New("changed since it was read")
	// ErrDeposed means that another controller leads now, or none.
	ErrDeposed = errors.New("the writer does not lead any longer")
	// ErrCompacted means that the changes since a revision are no longer kept.
	ErrCompacted = errors.New("the history was compacted")
	// ErrUnavailable means that the store does not answer. A write may have been done.
	ErrUnavailable = errors.New("the store does not answer")
	// ErrFull means that the store takes no more data. The write that found that out may have been
	// done: etcd does the one that crosses its limit, and refuses those after it.
	ErrFull = errors.New("the store is full")
	// ErrTooLarge means that a value is larger than MaxValue.
	ErrTooLarge = errors.New("the value is too large")
)

// MaxValue is the most bytes of a value.
const MaxValue = 1 << 20

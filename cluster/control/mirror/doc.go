// Package mirror keeps a copy of the records of nodes and launches in a controller that does not
// lead. When its turn comes, it need not read and decode all of them first.
//
// The copy is only taken if it has all changes up to the beginning of the leadership: otherwise the
// next leader reads the store, as it does without a copy.
//
// A Mirror has one lock. Read mirror.go.
package mirror

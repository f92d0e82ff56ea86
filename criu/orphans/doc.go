// Package orphans ends what a helper that works CRIU has left when it was killed: CRIU, its own
// helpers, a tree half made.
package orphans

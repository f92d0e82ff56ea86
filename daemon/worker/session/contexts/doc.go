// Package contexts handles the calls about contexts, and about the memory of other GPUs that a
// context's kernels may use. Tested by the tests of package session.
package contexts

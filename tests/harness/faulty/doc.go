// Package faulty is a file system for tests that fails, or hangs, when it is told to. It passes
// everything else on to a directory, so that what lies there can be looked at behind its back.
package faulty

// Package faulty is a file system for tests that fails or hangs on request. It passes all other
// operations to a backing directory, where tests can read the files without failures. Tested by
// tests/crash.
package faulty

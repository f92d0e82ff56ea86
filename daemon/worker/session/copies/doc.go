// Package copies handles the calls that copy, fill, write and compare memory. Tested by the tests
// of package session.
package copies

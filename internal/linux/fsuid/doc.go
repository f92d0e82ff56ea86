// Package fsuid accesses files with the rights of a user, so that phosd opens nothing for a caller
// that the caller could not open. It changes one thread's file-system identity, as a file server
// does. The rest of the process keeps root's.
package fsuid

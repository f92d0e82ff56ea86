// Package fsuid does file work with the rights of a user: what a caller of phosd could not open
// himself, phosd does not open for him. It changes one thread's file-system identity, as a file
// server does, and leaves the process root's.
package fsuid

// Package scenarios has programs as people start them, saved and brought back through the command
// and the daemon: clones of one image, ends that lead elsewhere, other users, containers,
// terminals, workers of Python; and what cannot be saved, which must be named before anything
// stands still. It is no harness: tests/checkpoint compares whole runs at random moments.
//
// Read asked_test.go first: most programs here do what a test asks them.
package scenarios

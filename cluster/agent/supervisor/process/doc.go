// Package process says what a process of an attempt is, and executes it: as its user, in the cgroup
// of its attempt, and with an error that its owner understands.
//
// Tested by package supervisor. Read process.go.
package process

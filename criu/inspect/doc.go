// Package inspect reads the state of a process tree, without stopping it. It finds what CRIU must
// know: processes, ends that lead out of the tree, files that must be saved with it. It lists every
// obstacle, by pid and descriptor, with a remedy. Whatever CRIU would reject only after the program
// was frozen should be found here.
//
// Tested by its own tests and those of package criu. Read inspect.go first.
package inspect

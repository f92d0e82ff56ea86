// Package inspect looks at a process tree, stops nothing, and says what CRIU will find: processes,
// what leads out of the tree, files that must be saved with it, and every obstacle, by pid and
// descriptor, with what to do about it. Whatever CRIU would refuse only when the program already
// stands still is meant to be found here.
//
// Read survey.go first.
package inspect

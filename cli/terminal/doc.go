// Package terminal is what pos_cli does with terminals: bars that show how far long work is, and
// standing between a restored program and the terminal or the pipes of the caller. It speaks to no
// daemon. Read ends.go first.
package terminal

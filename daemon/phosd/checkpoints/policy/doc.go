// Package policy decides which checkpoints of a program are taken without being asked for, when,
// and into which directory, and opens that with the program's rights.
//
// Whose policy holds: the section checkpoint of the program's pos.yaml, when there is one, whatever
// it says; else that of phosd.toml. When: every so often, counted from the last checkpoint and
// never at the same moment for all programs; and at occasions, which package daemon knows of.
// Where: a pos.yaml names the image's directory as the program would open it, in its own view of
// the file system; phosd.toml names one in which each user gets a directory, and each program one
// below that.
//
// It takes no checkpoint and keeps no clock: Due is a function of what it is given. Read Of, then
// Due, then place.go.
package policy

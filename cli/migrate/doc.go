// Package migrate moves a running program to other GPUs of its machine, for pos_cli --migrate.
//
// The program is saved twice: at first while it runs, so that phosd can say whether it can be
// restored on the other GPUs before anything is stopped, and so that little is left for the second
// time, after which it ends. Then it is restored from memory, with the terminal and the pipes that
// it had. If that fails, it goes back to the GPUs that it came from.
//
// migrate.go has the steps; source.go saves, target.go restores, files.go keeps the terminal and
// the pipes. Tested by tests/checkpoint.
package migrate

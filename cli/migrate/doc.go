// Package migrate moves a running program to other GPUs of its machine, or to another machine, for
// pos_cli --migrate.
//
// To other GPUs, the program is saved twice: at first while it runs, so that phosd can say whether
// it can be restored on the other GPUs before anything is stopped, and so that little is left for
// the second time, after which it ends. Then it is restored from memory, with the terminal and the
// pipes that it had. If that fails, it goes back to the GPUs that it came from.
//
// To another machine, it is saved and sent in rounds while it runs. Then it stands still while the
// rest is sent and it is restored there, frozen. Only then it ends here, and runs there: package
// arrive says how that is decided once.
//
// migrate.go has the steps; source.go saves, target.go restores, files.go keeps the terminal and
// the pipes. For another machine, away.go has the steps, rounds.go those of the rounds, peer.go the
// connection. Tested by tests/checkpoint and tests/migrate.
//
// # Locking
//
// commands.mu and peer.mu are never held together.
package migrate

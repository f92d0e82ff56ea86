// Package arrive is the target's side of a migration to another machine, for pos_cli --take-over:
// it receives a program's image, restores the program, and lets it run when the source has let it
// go.
//
// Which side runs the program is decided by one file in the directory of the migration. It is
// called "open" until the source says go, which renames it to "taken", or until the source, on
// another connection, asks how the migration has ended, which renames it to "refused".
//
// verb.go has the verb, arrival.go the dialog, restore.go the restore, decision.go that file.
// Tested by tests/migrate. Package wire has the messages.
package arrive

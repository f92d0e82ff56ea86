// Package verb runs the verbs of pos_cli: it finds the verb of a command line (set.go), parses its
// flags, and derives help, shell completion and the manual page from the table of verbs.
//
// The verbs themselves are in cli/pos_cli, except help, completion and man. Read Verb first. Tested
// by cli/pos_cli and tests/script.
package verb

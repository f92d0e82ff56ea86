// Package verb is what pos_cli is made of: verbs with their flags, which one a command line means
// (set.go), and what tells of them, so that help, completion and the manual page follow from the
// table by themselves.
//
// It knows no verb but those that tell of the others; the rest stand in cli/pos_cli. Read Verb.
package verb

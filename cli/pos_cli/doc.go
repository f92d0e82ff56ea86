// Command pos_cli is the command line of phos, for people and for scripts. Each verb has a file of
// its own and only formats: its data comes from daemon/api. verbs.go lists the verbs; package verb
// parses the command line and prints help. tests/script drives the built command.
package main

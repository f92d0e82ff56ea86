// Command pos_cli is the command line of phos, for people and for scripts. A verb, or a few that
// belong together, has a file and only formats: data comes from daemon/api, and for image verbs
// from cli/imagecmd. verbs.go lists the verbs; package verb parses the command line and prints
// help. tests/script drives the built command.
package main

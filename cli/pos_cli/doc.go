// Command pos_cli is how a person or a script speaks to phosd. Each verb stands in a file of its
// own and only formats: what it shows comes from daemon/api. verbs.go lists them; package verb
// finds the one that is meant and explains them.
package main

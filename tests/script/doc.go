// Package script drives pos_cli and phosd as a user does, by the scripts in testdata: what is
// typed, and what is printed.
package script

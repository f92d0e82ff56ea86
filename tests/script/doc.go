// Package script drives pos_cli and phosd as a user does. The scripts in testdata contain the
// commands and the expected output.
package script

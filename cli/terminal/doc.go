// Package terminal has progress bars, and the endpoints that connect a restored program to the
// caller's terminal or pipes. It does not use phosd. Read endpoints.go first. Endpoints are tested
// by cli/pos_cli.
package terminal
